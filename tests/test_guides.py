"""The guides keep up with the software: their commands run, and every key of a manifest is explained."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from console import congenial_lines, run_lines
from releases import simulate

ROOT = Path(__file__).parents[1]
BUNDLE_PAGE = (ROOT / "docs" / "bundle.md").read_text(encoding="utf-8")


def test_every_command_of_the_curators_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("p12", "microdata"):
        shutil.copytree(ROOT / "examples" / name, tmp_path / name)
    printed = run_lines(ROOT / "docs" / "curator.md", tmp_path, monkeypatch)
    commands = {line.split()[0] for line in printed}
    assert commands >= {"init", "check", "plan", "ledger", "keygen", "simulate", "release", "verify", "show", "compare"}
    assert any("It is as agency.key.pub published it" in output for output in printed.values())


def test_the_first_release_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readme = ROOT / "README.md"
    (spec,) = re.findall(r"^```yaml\n(.*?)^```", readme.read_text(encoding="utf-8"), flags=re.M | re.S)
    (tmp_path / "spec.yaml").write_text(spec)
    cells = [(sex, age) for sex in ("female", "male") for age in ("0-17", "18-64", "65+")]
    (tmp_path / "counts.csv").write_text("sex,age,n\n" + "".join(f"{sex},{age},7\n" for sex, age in cells))
    printed = run_lines(readme, tmp_path, monkeypatch)
    assert [line.split()[0] for line in printed] == ["plan", "ledger", "release", "verify"]


def test_commands_are_found_in_shell_blocks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    console, shell = "$ congenial a 'b c'  # why\nsome output\n", "cd x\ncongenial d \\\n  e\n"
    page.write_text(f"```console\n{console}```\n```sh\n{shell}```\n```\ncongenial no\n```\n")
    assert congenial_lines(page) == [["a", "b c"], ["d", "e"]]


def keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            if key != "where":  # below it stand the dimensions of the schema at hand
                yield from keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from keys(part)


def explained(page: str) -> set[str]:
    """Return what a page sets in code, whole and by its parts between dots."""
    quoted = re.findall(r"`([^`]+)`", page)
    return {*quoted, *(word for one in quoted for word in one.split("."))}


@pytest.mark.parametrize("name", ["p12", "counties", "microdata"])
def test_every_key_of_a_manifest_is_explained(name: str, tmp_path: Path) -> None:
    folder = simulate(ROOT / "examples" / name / "spec.yaml", tmp_path / name, seed=1).folder
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert set(keys(manifest)) - explained(BUNDLE_PAGE) == set()


def test_every_key_of_a_receipt_is_explained() -> None:
    from dataclasses import fields

    from congenial.ledger.records import Receipt

    assert {field.name for field in fields(Receipt)} - explained(BUNDLE_PAGE) == set()


def test_a_key_that_is_not_explained_is_found() -> None:
    assert set(keys({"law": [{"unheard_of": 1}]})) - explained(BUNDLE_PAGE) == {"unheard_of"}
