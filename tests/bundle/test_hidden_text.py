"""Every text of a bundle shows what it is: each place, each kind of character that does not show; markup is escaped.

Whoever forges a bundle computes every digest anew, so that the text alone is what is wrong.
"""

import json
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.bundle.areas_spine_and_level_files import read_spine
from congenial.bundle.canonical_json import canonical_json, digest
from congenial.bundle.parquet import arrays_to_parquet
from congenial.bundle.verify import verify_bundle
from congenial.errors import BundleError, HierarchyError
from congenial.pages.page import inline_script
from congenial.safe_text import first_hidden
from hostile import ATTACKS, HIDDEN
from releases import CASES, NOW, ledger_for, place, release
from table_files import parquet_arrays

LEVELS = ("state", "county", "block")
SCHEMA = cg.Schema({"sex": ["f", "m"]})
COUNTS = np.arange(16).reshape(8, 2)
CODES = {
    "state": ["1"] * 4 + ["2"] * 4,
    "county": ["1a", "1a", "1b", "1b", "2a", "2a", "2b", "2b"],
    "block": [f"{number}" for number in range(8)],
}


def tree_bundle(folder: Path, codes: dict[str, list[str]], schema: cg.Schema = SCHEMA) -> Path:
    tree = cg.Tree.of_parents(codes)
    hierarchy = cg.Hierarchy(tree, schema, invariants=[cg.total(name="people", mandate="a law")], rho="1")
    folder.mkdir(exist_ok=True)
    ledger = cg.open_ledger(folder / "budget.db", create=True)
    ledger.create_dataset("town", rho="3", neighbours="bounded", who="Ada")
    names = {"dataset": "town", "release": "tree", "who": "Ada"}
    hierarchy.release(COUNTS, ledger=ledger, folder=folder / "bundle", **names)
    return folder / "bundle"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("originals")
    case = CASES["areas with totals"]
    spec, ledger = place(folder, case), ledger_for(folder, case)
    release(spec, folder / "areas", ledger=ledger, who="Ada", now=NOW)
    return {"areas": folder / "areas", "tree": tree_bundle(folder / "tree", CODES)}


def point(text: str) -> str:
    """Return how a refusal names the first character that does not show."""
    return f"(U+{next(ord(letter) for letter in text if first_hidden(letter)):04X}, "


def restamp(folder: Path, values: dict[str, Any], *, files: bool = True) -> None:
    """Write a manifest, with the digests of its files and its own computed anew."""
    values.pop("digest", None)
    for name in values["files"] if files else ():
        values["files"][name] = digest((folder / name).read_bytes())
    (folder / "manifest.json").write_bytes(canonical_json({**values, "digest": digest(canonical_json(values))}))


# ---- codes of trees


@pytest.mark.parametrize("level", ["county", "block"])
def test_a_tree_whose_codes_do_not_show_is_refused(level: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole and consistent release of such a tree, made by a software that does not look at codes."""
    for number, hidden in enumerate(("\x1b[2J", "\u202e", "\u200b", "\n", "\x7f", "\u3164")):
        codes = {**CODES, level: [text + hidden for text in CODES[level]]}
        with pytest.raises(HierarchyError) as refused:
            cg.Tree.of_parents(codes)
        assert point(hidden) in str(refused.value)
        with monkeypatch.context() as patched:
            patched.setattr("congenial.tree.tree_and_zeros._check_texts", lambda *_: None, raising=False)
            bundle = tree_bundle(tmp_path / f"{number}", codes)
        with pytest.raises(BundleError) as unverified:
            verify_bundle(bundle)
        assert point(hidden) in str(unverified.value)
        assert hidden not in str(unverified.value)


@pytest.mark.parametrize("level", LEVELS)
def test_every_kind_of_character_is_found_in_every_column_of_a_spine(level: str, originals: dict[str, Path]) -> None:
    columns = parquet_arrays((originals["tree"] / "spine.parquet").read_bytes())
    for hidden in HIDDEN:
        for text in (hidden, f"a{hidden}b", f"é{hidden}"):
            column = columns[level].copy()
            column[column == column[-1]] = text
            with pytest.raises(BundleError) as refused:
                read_spine(BytesIO(arrays_to_parquet({**columns, level: column})), LEVELS, 2, 8)
            assert point(text) in str(refused.value)


def test_codes_of_a_level_are_those_of_the_spine(originals: dict[str, Path], tmp_path: Path) -> None:
    for number, hidden in enumerate(HIDDEN):
        folder = Path(shutil.copytree(originals["tree"], tmp_path / f"{number}"))
        columns = parquet_arrays((folder / "level-3-block.parquet").read_bytes())
        columns["code"][0] = f"0{hidden}"
        (folder / "level-3-block.parquet").write_bytes(arrays_to_parquet(columns))
        restamp(folder, json.loads((folder / "manifest.json").read_bytes()))
        with pytest.raises(BundleError, match="units of the spine"):
            cg.load_bundle(folder)


# ---- the manifest: every text and every key of it


def texts_in(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Go through the places of all texts."""
    if isinstance(values, str):
        yield path
    elif isinstance(values, dict | list):
        for key, part in values.items() if isinstance(values, dict) else enumerate(values):
            yield from texts_in(part, (*path, key))


@pytest.mark.parametrize("case", ["areas", "tree"])
def test_every_text_of_a_manifest_is_looked_at(case: str, originals: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(originals[case], tmp_path / "bundle"))
    content = (folder / "manifest.json").read_bytes()
    places = [path for path in texts_in(json.loads(content)) if path not in {("digest",), ("format",)}]
    wanted = {"title", "name", "text", "word", *(["mandate"] if case == "tree" else [])}
    assert wanted <= {path[-1] for path in places}
    for number, path in enumerate(places):
        for hidden in HIDDEN[number % 3 :: 3]:
            values = json.loads(content)
            part = values
            for key in path[:-1]:
                part = part[key]
            part[path[-1]] += hidden
            restamp(folder, values, files=False)
            with pytest.raises(BundleError, match="which does not show") as refused:
                cg.load_bundle(folder)
            assert point(hidden) in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("parents", [["North\u202e", 2]]),
        ("unpublished", ["03\u200b"]),
        ("kept_rows", [{"column": "c\x1b", "values": ["1"], "is_public": True}]),
        ("kept_rows", [{"column": "c", "values": ["1\n"], "is_public": True}]),
        ("public_files", [{"gives": "areas", "name": "a\u2028.csv", "sha256": "0" * 64}]),
        ("left_out", {"report.html": "not\x07made"}),
        ("replaces", "spring\u00ad"),
    ],
)
def test_texts_that_a_manifest_may_have(key: str, value: object, originals: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(originals["areas"], tmp_path / "bundle"))
    values = json.loads((folder / "manifest.json").read_bytes())
    values[key] = value
    restamp(folder, values)
    with pytest.raises(BundleError, match="which does not show"):
        cg.load_bundle(folder)


# ---- areas, tables and pages


def test_labels_of_areas_and_exact_numbers_that_are_texts(originals: dict[str, Path], tmp_path: Path) -> None:
    for number, hidden in enumerate(HIDDEN):
        for column, words in (("area", "which does not show"), ("exact_1", "states other numbers|exact")):
            folder = Path(shutil.copytree(originals["areas"], tmp_path / f"{column}-{number}"))
            columns = parquet_arrays((folder / "areas.parquet").read_bytes())
            texts = np.array([str(value) for value in columns[column].tolist()], object)
            texts[0] += hidden
            columns[column] = texts
            columns["group"] = columns["group"].astype(np.int32)
            (folder / "areas.parquet").write_bytes(arrays_to_parquet(columns))
            restamp(folder, json.loads((folder / "manifest.json").read_bytes()))
            with pytest.raises(BundleError, match=words):
                cg.load_bundle(folder)


@pytest.mark.parametrize("name", ["README.txt", "report.html", "expected-errors.csv"])
@pytest.mark.parametrize("case", ["areas", "tree"])
def test_pages_that_are_not_made_again_show_what_they_are(
    case: str, name: str, originals: dict[str, Path], tmp_path: Path
) -> None:
    """Other versions of the software are stated, so that no page is compared."""
    folder = Path(shutil.copytree(originals[case], tmp_path / "bundle"))
    before = (folder / name).read_text(encoding="utf-8")
    values = json.loads((folder / "manifest.json").read_bytes())
    values["software"]["python"] = "2.7"
    restamp(folder, values)
    assert any(name in line for line in verify_bundle(folder).not_checked)
    for hidden in (letter for letter in HIDDEN if letter != "\n"):  # lines end
        (folder / name).write_text(before + hidden, encoding="utf-8", newline="")
        restamp(folder, values)
        with pytest.raises(BundleError) as refused:
            verify_bundle(folder)
        assert f"{name} holds " in str(refused.value)
        assert point(hidden) in str(refused.value)
    (folder / name).write_bytes(before.encode() + b"\xff")
    restamp(folder, values)
    with pytest.raises(BundleError, match="is not UTF-8 text"):
        verify_bundle(folder)


def test_a_table_that_does_not_show_is_refused(originals: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(originals["areas"], tmp_path / "bundle"))
    before = (folder / "table.csv").read_bytes()
    for hidden in HIDDEN:
        (folder / "table.csv").write_bytes(before.replace(b'"f"', f'"f{hidden}"'.encode(), 1))
        restamp(folder, json.loads((folder / "manifest.json").read_bytes()))
        with pytest.raises(BundleError, match=r"table\.parquet does not hold what table\.csv does"):
            cg.load_bundle(folder)


# ---- markup shows what it is, and pages escape it


def test_markup_in_a_tree_is_text_in_its_pages(tmp_path: Path) -> None:
    script = "<script>alert(1)</script>"
    for number, attack in enumerate(text for text in ATTACKS if text.startswith(("</title>", '"', "'", "--", "&"))):
        codes = {f"{attack} {level}": [f"{code}{attack}" for code in column] for level, column in CODES.items()}
        schema = cg.Schema({f"{attack}{script}": [f"{attack}f", f"{script}m"]})
        bundle = tree_bundle(tmp_path / f"{number}", codes, schema)
        verify_bundle(bundle)
        page = (bundle / "report.html").read_text(encoding="utf-8").replace(inline_script("find.js").text, "")
        for wrong in ("<script>alert", "alert(1)<", "--><", 'onmouseover="', "onfocus=alert(1) '"):
            assert wrong not in page
        assert "&lt;script&gt;alert(1)" in page
