"""Random edits of manifests with every digest made anew: none verifies, unless what it changed is no claim.

`FREE` lists what nobody can tell from a bundle alone, as docs/bundle.md does.
"""

import json
import shutil
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import pytest

from congenial.bundle.verify import verify_bundle
from congenial.errors import BundleError, CongenialError
from congenial.inference.analyst_bundle import load_bundle
from congenial.ledger import open_ledger
from edits import random_edit
from forger import Change, at, both, forge
from releases import CASES, Maker


def _other_cap(receipt: dict[str, Any]) -> None:
    receipt["cap"], receipt["left"] = f"{int(receipt['cap']) + 1}", str(Fraction(receipt["left"]) + 1)


def _without_parquet(values: dict[str, Any]) -> None:
    del values["files"]["table.parquet"]
    values["left_out"]["table.parquet"] = "the printer was out of paper"


CASE_OF = {
    **dict.fromkeys(("conditions[].mandate", "conditions[]", "privacy.budget"), "ranges"),
    **dict.fromkeys(("parents", "unpublished"), "areas with totals"),
}
FREE: dict[str, Change] = {
    "title": at("title", value="Other"),
    "status": at("status", value="public"),
    "replaces": at("replaces", value="another"),
    "unit.word": at("unit", "word", value="household"),
    "public_files": at("public_files", value=[{"gives": "areas", "name": "a.csv", "sha256": "0" * 64}]),
    "unpublished": at("unpublished", value=["03"]),
    "kept_rows": at("kept_rows", value=[{"column": "c", "values": ["1"], "is_public": True}]),
    "parents": at("parents", value=[["North", 1], ["South", 1]]),
    "release": both(at("release", value="other"), at("receipt", "release", value="other")),
    "dataset": both(at("dataset", value="other"), at("receipt", "dataset", value="other")),
    "made_at": both(at("made_at", value="2027-01-01T00:00:00Z"), at("receipt", "at", value="2027-01-01T00:00:00Z")),
    "conditions[]": lambda values: values["conditions"].append(values["conditions"].pop(1)),
    "conditions[].mandate": at("conditions", 2, "mandate", value="another law"),
    "privacy.budget": at("privacy", "budget", "delta", value="1/1000"),
    "measured[].portion": at("measured", 0, "portion", value="2"),
    "receipt.number": at("receipt", "number", value=2),
    "receipt.hash": at("receipt", "hash", value="0" * 64),
    "receipt.previous": at("receipt", "previous", value="0" * 64),
    "receipt.cap": lambda values: _other_cap(values["receipt"]),
    "left_out": _without_parquet,
    "software": at("software", "pyarrow", value="0"),
}
"""What a manifest says that nothing in the bundle contradicts; what is in no plan and no receipt stands last."""
NOT_IN_A_LEDGER = {"left_out", "software"}


@pytest.mark.parametrize("name", FREE)
def test_what_is_no_claim_is_for_the_ledger_and_the_signature(name: str, case_folder: Maker, tmp_path: Path) -> None:
    case = case_folder(CASE_OF.get(name, "one table"))
    folder = Path(shutil.copytree(case / "bundle", tmp_path / "bundle"))
    if name == "left_out":
        (folder / "table.parquet").unlink()
    signature, ledger = (folder / "signature.json").read_bytes(), open_ledger(case / "budget.db")
    verify_bundle(forge(folder, FREE[name], pages=True))
    if name in NOT_IN_A_LEDGER:
        verify_bundle(folder, ledger=ledger)
    else:
        with pytest.raises(CongenialError):
            verify_bundle(folder, ledger=ledger)
    (folder / "signature.json").write_bytes(signature)
    with pytest.raises(BundleError, match="does not sign this manifest"):
        verify_bundle(folder)


def test_the_page_lists_what_is_no_claim() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text(encoding="utf-8")
    part = page.split("## What a bundle alone cannot show")[1].split("\n## ")[0]
    for name in FREE:
        assert f"`{name}`" in part, name


EDITS = 36


def replaced_by(edited: dict[str, Any]) -> Change:
    def change(values: dict[str, Any]) -> None:
        values.clear()
        values.update(edited)

    return change


def test_there_are_more_than_500_random_edits() -> None:
    assert EDITS * len(CASES) > 500


@pytest.mark.parametrize("case", CASES)
def test_random_edits_are_refused(case: str, case_folder: Maker, tmp_path: Path) -> None:
    """One value, key or order is changed anywhere, and every digest made anew: only what is no claim passes."""
    source = case_folder(case) / "bundle"
    content = (source / "manifest.json").read_bytes()
    values = json.loads(content)
    del values["digest"]
    folder = Path(shutil.copytree(source, tmp_path / "bundle"))
    rng, passed, n_edits = Random(f"test_random_edits_are_refused {case}"), set(), 0
    while n_edits < EDITS:
        place, edited = random_edit(values, rng)
        (folder / "manifest.json").write_bytes(content)
        forge(folder, replaced_by(edited))
        if (folder / "manifest.json").read_bytes() == content:
            continue  # a digest, which was made anew
        n_edits += 1
        try:
            load_bundle(folder)
            passed.add(next((name for name in FREE if place.startswith(f"{name}.")), place))
        except BundleError:
            pass
    assert passed <= set(FREE)
