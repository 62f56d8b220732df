"""`congenial demo` as a person would run it."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from congenial.cli.main import main
from congenial.inference.analyst_bundle import load_bundle
from congenial.ledger import open_ledger

STEPS = ("reading the data", "planning", "charging the budget", "drawing", "writing the bundle")


def test_demo_shows_both_tables_and_leaves_a_verified_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == [f"demo: {step}" for step in STEPS]
    assert "Every invariant holds" in result.stdout
    lines = result.stdout.splitlines()
    totals = next(line for line in lines if "all ages" in line)
    assert totals.split() == ["all", "ages", *["130", "126", "256"] * 2]
    voting = next(line for line in lines if line.strip().startswith("voting age"))
    assert voting.count("213") == 2
    folder = Path("congenial-demo")
    assert {path.name for path in folder.iterdir()} == {
        "budget.db",
        "budget.db.keys",
        "bundle",
        "counts.csv",
        "spec.yaml",
    }
    bundle = load_bundle(folder / "bundle")
    ledger = open_ledger(folder / "budget.db")
    assert bundle.manifest.receipt is not None
    assert ledger.verify("p12-example", bundle.manifest.receipt.head).n_spends == 1


def test_demos_stand_side_by_side_and_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real noise: two demos with the same table of 46 cells do not happen."""
    monkeypatch.chdir(tmp_path)
    shown = [json.loads(CliRunner().invoke(main, ["demo", "--json"]).stdout) for _ in range(2)]
    assert [Path(one["bundle"]).parent.name for one in shown] == ["congenial-demo", "congenial-demo-2"]
    assert shown[0]["counts"] != shown[1]["counts"]
    assert [sum(one["counts"]) for one in shown] == [256, 256]


def test_demo_refuses_a_folder_that_is_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["demo", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "name a new folder" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_demo_refuses_nonsense() -> None:
    result = CliRunner().invoke(main, ["demo", "--seed", "1"])
    assert result.exit_code == 2
    assert "No such option" in result.stderr


def test_help_and_version() -> None:
    assert "demo" in CliRunner().invoke(main, ["--help"]).output
    assert version("congenial") in CliRunner().invoke(main, ["--version"]).output
