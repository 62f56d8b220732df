"""Forged bundles with every digest computed anew: what contradicts the tables, the law, the receipt or the ledger."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.bundle.areas_spine_and_level_files import areas_to_parquet
from congenial.bundle.file_registry import NOT_REQUESTED
from congenial.bundle.table_files import header_of
from congenial.bundle.verify import verify_bundle
from congenial.errors import BundleError
from congenial.inference.analyst_bundle import load_bundle
from congenial.ledger import open_ledger
from forger import Change, at, both, forge, nothing
from releases import CASES, Maker
from table_files import csv_tables, csv_to_parquet, parquet_of

CERTIFICATE = ("privacy", "certificate")


def stated_again(values: dict[str, Any]) -> None:
    """State the total a second time, in the very words of the first."""
    values["conditions"].append(values["conditions"][0])


FORGERIES = {
    # the certificate
    "more records": at(*CERTIFICATE, "k", value=1000),
    "another epsilon": at(*CERTIFICATE, "epsilon", value="1/1000"),
    "no bound at all": at(*CERTIFICATE, "epsilon", value=None),
    "rho at all orders": at(*CERTIFICATE, "rho_at_all_orders", value="1/1000000"),
    "orders": at(*CERTIFICATE, "orders", value="all of them"),
    "without invariants": at(*CERTIFICATE, "without_invariants", value="1/1000"),
    "a statement": at(*CERTIFICATE, "statement", value="nothing can be learned"),
    "reasons": at(*CERTIFICATE, "reasons", value=["trust me"]),
    "another theorem": at(*CERTIFICATE, "kind", value="equalities_only"),
    # invariants, their values and words
    "another exact value": at("exactly", 0, "value", value="10"),
    "other words for it": at("exactly", 0, "text", value="number of people"),
    "a mandate of its own": at("exactly", 0, "mandate", value="a law"),
    "a mandate of the condition alone": at("conditions", 0, "mandate", value="a law"),
    "nothing is exact": at("exactly", value=[]),
    "another value in the law": at("law", "values", 0, value=10),
    "other words in the law": at("law", "rows", 0, "text", value="number of people"),
    # conditions
    "no conditions": at("conditions", value=[]),
    "a condition twice": stated_again,
    "a condition in other words": at("conditions", 0, "text", value="nothing"),
    "a condition on other cells": at("conditions", 0, "where", value={"sex": ["f"]}),
    "one more condition": both(
        lambda values: values["conditions"].append(
            {"text": "every cell is at least 0 and at most 99", "kind": "bounds", "lower": 0, "upper": 99}
        )
    ),
    # budget, queries, neighbours, sampler
    "a larger budget": at("privacy", "budget", "epsilon", value="2"),
    "a smaller budget": at("privacy", "budget", "epsilon", value="1/2"),
    "no budget": at("privacy", "budget", value={}),
    "a budget beside given precisions": at("measured", 0, "precision", value="1/2"),
    "other neighbours": at("privacy", "neighbours", value="unbounded"),
    "another query": at("measured", 0, "where", value={"sex": ["f"]}),
    "a query in other words": at("law", "measured", 0, "query", value="every person"),
    "a query with a mandate": at("measured", 0, "mandate", value="a law"),
    "no query": at("measured", value=[]),
    "another sampler": at("sampler", "name", value="a secret one"),
    "a sampler that is not exact": at("sampler", "is_exact", value=False),
    # names
    "rows of a unit": at("unit", "rows", value=-5),
    "more rows of a unit": at("unit", "rows", value=2),
    "a status of its own": at("status", value="harmless"),
    "another date": at("made_at", value="2027-11-16T12:00:00Z"),
    "no date": both(at("made_at", value="someday"), at("receipt", "at", value="someday")),
    "another release": at("release", value="other"),
    "another dataset": at("dataset", value="other"),
    "a title that moves the cursor": at("title", value="x\x1b[2J"),
    # the receipt
    "no receipt": at("receipt", value=None),
    "no receipt, and a simulation": both(at("receipt", value=None), at("is_for_release", value=False)),
    "a simulation": at("is_for_release", value=False),
    "a free receipt": at("receipt", "loss", value="0"),
    "a file without a hash": at("public_files", value=[{"gives": "areas", "name": "a.csv", "sha256": "0"}]),
    "rows kept in secret": at("kept_rows", value=[{"column": "c", "values": ["1"], "is_public": False}]),
    "unpublished and one table": at("unpublished", value=["03"]),
    "a parent of one table": at("parents", value=[["North", 1]]),
    "another currency": at("receipt", "currency", value="rho"),
    "less spent than it cost": both(at("receipt", "spent", value="0"), at("receipt", "left", value="4")),
    "more spent by the first spend": both(at("receipt", "spent", value="2"), at("receipt", "left", value="2")),
    "more left than there was": at("receipt", "left", value="4"),
    "a larger cap": at("receipt", "cap", value="5"),
    "more spent than the cap": both(
        at("receipt", "number", value=2), at("receipt", "spent", value="5"), at("receipt", "left", value="-1")
    ),
    "spend 0": at("receipt", "number", value=0),
    "a hash that is none": at("receipt", "hash", value="x"),
    "its own predecessor": lambda values: at("receipt", "hash", value=values["receipt"]["previous"])(values),
    # files and software
    "a file of no bundle": at("files", "more.csv", value="0" * 64),
    "a file outside": at("files", "../table.csv", value="0" * 64),
    "a file that is not listed": at("files", "table.parquet"),
    "a file that is there and left out": at("left_out", "table.parquet", value=NOT_REQUESTED),
    "the table left out": both(at("files", "table.csv"), at("left_out", "table.csv", value=NOT_REQUESTED)),
    "a file of no bundle left out": at("left_out", "more.csv", value=NOT_REQUESTED),
    "other software": at("software", "excel", value="1"),
    "software without a version": at("software", "numpy", value="the newest one"),
    "unknown keys": at("more", value=1),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bundle_with_digests_made_anew_verifies(case: str, case_folder: Maker, tmp_path: Path) -> None:
    """The forger's tools alone change nothing but the signature."""
    folder = Path(shutil.copytree(case_folder(case) / "bundle", tmp_path / "bundle"))
    before = (folder / "manifest.json").read_bytes()
    verified = verify_bundle(forge(folder, nothing, pages=True), ledger=open_ledger(case_folder(case) / "budget.db"))
    assert (folder / "manifest.json").read_bytes() == before
    assert not verified.not_checked
    assert verified.standing.startswith("agrees with itself")


@pytest.mark.parametrize("name", FORGERIES)
def test_forgeries_are_refused(name: str, bundle: Path) -> None:
    with pytest.raises(BundleError):
        load_bundle(forge(bundle, FORGERIES[name]))


BOUND_BY_THE_PLAN = {
    "status": at("status", value="public"),
    "title": at("title", value="Other"),
    "unit": at("unit", "word", value="household"),
    "budget": at("privacy", "budget", "delta", value="1/1000"),
}


@pytest.mark.parametrize("name", BOUND_BY_THE_PLAN)
def test_the_receipt_is_for_one_plan(name: str, bundle: Path) -> None:
    with pytest.raises(BundleError, match="receipt is for another plan"):
        load_bundle(forge(bundle, BOUND_BY_THE_PLAN[name], plan=False))


@pytest.mark.parametrize(
    ("case", "change", "words"),
    [
        ("given precisions", at("measured", 0, "precision", value="1/3"), "another precision of a measured query"),
        ("given precisions", at("privacy", "budget", "epsilon", value="1"), "a budget sets the precisions"),
        ("queries", at("measured", 2), "measures 2 queries, and its law 3"),
        ("queries", at("measured", 0, "portion", value="3"), "are not those that the manifest's budget"),
        ("queries", at("measured", 2, "precision", value="1/8"), "another precision of a measured query"),
        ("ranges", at("conditions", 2, "at_most", value=7), "law.groups|do not hold in its tables"),  # as it was drawn
        ("areas", at("unit", "rows", value=0), "a unit has at least one row"),
        ("areas", at("unit", "rows", value=2), "has no certificate"),
        ("areas with totals", at("conditions", value=[]), "law"),
    ],
)
def test_what_was_asked_for_gives_the_law(
    case: str, change: Change, words: str, case_folder: Maker, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(case_folder(case) / "bundle", tmp_path / "bundle"))
    with pytest.raises(BundleError, match=words):
        load_bundle(forge(folder, change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (at(*CERTIFICATE, "reasons", 0, value="trust me"), r'has "trust me" at privacy\.certificate\.reasons\[0\]'),
        (at("exactly", 0, "value", value="10"), r'has "10" at exactly\[0\]\.value.* follows "9"'),
        (at("conditions", 0, "text", value="x"), r'has "x" at conditions\[0\]\.text.* follows "total"'),
        (at("more", value=1), "has 1 at more.* follows nothing"),
    ],
)
def test_the_place_of_a_difference_is_named(change: Change, words: str, bundle: Path) -> None:
    with pytest.raises(BundleError, match=words):
        load_bundle(forge(bundle, change))


# Tables and pages


def other_counts(content: str) -> str:
    """Move one record from one cell to another: every invariant still holds."""
    lines = content.splitlines()
    counts = [int(line.rsplit(",", 1)[1]) for line in lines[1:]]
    full = counts.index(max(counts[:6]))  # of the first table
    counts[full] -= 1
    counts[(full + 1) % 6] += 1
    heads = [line.rsplit(",", 1)[0] for line in lines[1:]]
    return "\n".join([lines[0], *(f"{head},{count}" for head, count in zip(heads, counts, strict=True)), ""])


@pytest.mark.parametrize("case", ["one table", "areas with totals"])
def test_tables_that_disagree(case: str, case_folder: Maker, tmp_path: Path) -> None:
    """Each of the two obeys the conditions, and they are not the same."""
    folder = Path(shutil.copytree(case_folder(case) / "bundle", tmp_path / "bundle"))
    law, content = load_bundle(folder).law, (folder / "table.csv").read_text(encoding="utf-8")
    (folder / "table.csv").write_text(other_counts(content), encoding="utf-8")
    with pytest.raises(BundleError, match=r"table\.parquet does not hold what table\.csv does"):
        load_bundle(forge(folder, nothing))
    tables = csv_tables(law, other_counts(content).encode())
    (folder / "table.parquet").write_bytes(parquet_of(law, tables))
    verify_bundle(forge(folder, nothing, pages=True))  # another draw of the same law: only a signature tells


@pytest.mark.parametrize("change", ["a row less", "a row more", "rows of nothing", "text", "a name", "no Parquet"])
def test_tables_of_another_shape(change: str, bundle: Path) -> None:
    law, content = load_bundle(bundle).law, (bundle / "table.csv").read_text(encoding="utf-8")
    *labels, count = header_of(law)
    lines, types = content.splitlines(), {**dict.fromkeys(labels, "VARCHAR"), count: "BIGINT"}
    if change == "a row less":
        lines.pop()
    elif change == "a row more":
        lines.append(lines[-1])
    elif change == "rows of nothing":
        lines.append(",,")
    elif change == "text":
        types["count"] = "VARCHAR"
    elif change == "a name":
        lines[0], types = lines[0].replace("count", "counts"), {"sex": "VARCHAR", "age": "VARCHAR", "counts": "BIGINT"}
    forged = b"PAR1" if change == "no Parquet" else csv_to_parquet(("\n".join(lines) + "\n").encode(), types)
    (bundle / "table.parquet").write_bytes(forged)
    with pytest.raises(BundleError, match=r"table\.parquet does not have|a Parquet file of the bundle cannot be read"):
        load_bundle(forge(bundle, nothing))


@pytest.mark.parametrize("name", ["README.txt", "report.html"])
def test_pages_that_say_something_else(name: str, bundle: Path) -> None:
    text = (bundle / name).read_text(encoding="utf-8")
    (bundle / name).write_text(text.replace("Privacy", "Secrecy").replace("privacy", "secrecy"), encoding="utf-8")
    load_bundle(forge(bundle, nothing))  # an analyst's program reads no pages
    with pytest.raises(BundleError, match=f"{name} is not the file that the manifest and the tables make"):
        verify_bundle(bundle)


def test_exact_numbers_of_areas_that_are_not_theirs(case_folder: Maker, tmp_path: Path) -> None:
    """areas.parquet of other tables, with every digest anew."""
    folder = Path(shutil.copytree(case_folder("areas with totals") / "bundle", tmp_path / "bundle"))
    law = load_bundle(folder).law
    (folder / "areas.parquet").write_bytes(areas_to_parquet(law.areas, [np.array([8, 9])]))
    with pytest.raises(BundleError, match=r"areas\.parquet states other numbers"):
        load_bundle(forge(folder, nothing))


@pytest.fixture(scope="module")
def sixty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of sixty areas."""
    place = tmp_path_factory.mktemp("sixty")
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0-17", "18+"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.total(), cg.margin("sex")], epsilon="1")
    tables = {f"{number:02d}": cg.Table(schema, [[number, 3], [4, 5]]) for number in range(60)}
    ledger = cg.open_ledger(place / "budget.db", create=True)
    ledger.create_dataset("town", epsilon="2", neighbours="bounded", who="Ada")
    released = mechanism.release(tables, ledger=ledger, dataset="town", release="r", who="Ada")
    return released.write(place / "bundle", outputs=("csv", "parquet"))


OF_SIXTY = {
    "a statement": FORGERIES["a statement"],
    "another epsilon": FORGERIES["another epsilon"],
    "more records": FORGERIES["more records"],
    "another sampler": FORGERIES["another sampler"],
    "other words": at("exactly", 2, "text", value="women"),
    "one condition less": at("conditions", 1),
}


@pytest.mark.parametrize("name", OF_SIXTY)
def test_many_areas_are_checked_as_one(name: str, sixty: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(sixty, tmp_path / "bundle"))
    load_bundle(forge(folder, nothing))
    with pytest.raises(BundleError):
        load_bundle(forge(folder, OF_SIXTY[name]))


@pytest.mark.parametrize("column", ["exact", "value"])
def test_a_number_of_one_of_many_areas(column: str, sixty: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(sixty, tmp_path / "bundle"))
    loaded = load_bundle(folder)
    exact = [statistic.values.copy() for statistic in loaded.manifest.exact_statistics]
    areas = loaded.law.areas
    if column == "exact":
        exact[0][57] = 1
    else:
        (group,) = areas.groups
        values = group.values.copy()
        values[57, 0] += 1
        areas = replace(areas, groups=(replace(group, values=values),))
    (folder / "areas.parquet").write_bytes(areas_to_parquet(areas, exact))
    with pytest.raises(BundleError, match=r"areas\.parquet states other numbers|does not obey"):
        load_bundle(forge(folder, nothing))


@pytest.mark.parametrize(
    "name",
    [
        *("more records", "another epsilon", "no bound at all", "rho at all orders", "orders", "without invariants"),
        *("another exact value", "other words for it", "no conditions", "a smaller budget", "other neighbours"),
    ],
)
def test_another_version_frees_no_figure(name: str, bundle: Path) -> None:
    with pytest.raises(BundleError):
        load_bundle(forge(bundle, both(FORGERIES[name], at("software", "congenial", value="0.0.1"))))
