"""Bundles of several tables of the same records: released from a spec, verified, loaded, and refused when changed."""

import json
import os
import shutil
from collections.abc import Callable
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import congenial as cg
from congenial.bundle.verify import verify_bundle
from congenial.bundle.workload_bundle import WorkloadBundle
from congenial.bundle.workload_manifest import WorkloadManifest, is_workload
from congenial.errors import BundleError, ConditionError, CongenialError
from congenial.inference.analyst_bundle import load_bundle
from congenial.ledger import open_ledger
from congenial.workload.plan import WorkloadPlan
from drawn import drawn
from edits import random_edit
from forger import Change, at, both, forge, nothing
from releases import TABLE_CASES, Maker, manifest_of


def loaded(folder: Path) -> WorkloadBundle:
    bundle = load_bundle(folder)
    assert isinstance(bundle, WorkloadBundle)
    return bundle


@pytest.fixture
def tables(case_folder: Maker, tmp_path: Path) -> Path:
    """A signed bundle of three tables that a test may change."""
    return Path(shutil.copytree(case_folder("tables") / "bundle", tmp_path / "bundle"))


# What comes out of each kind of spec.


@pytest.mark.parametrize("case", TABLE_CASES)
def test_a_release_verifies_and_its_tables_agree(case: str, case_folder: Maker) -> None:
    folder = case_folder(case)
    verified = verify_bundle(folder / "bundle", ledger=open_ledger(folder / "budget.db"), key=folder / "key.pub")
    assert verified.not_checked == ()
    bundle = loaded(folder / "bundle")
    assert bundle.records is not None
    schema = bundle.law.schema
    joint = np.zeros(schema.shape, np.int64)
    np.add.at(joint, tuple(bundle.records.T), 1)
    for table in bundle.law.published:
        others = tuple(axis for axis, name in enumerate(schema.names) if name not in table.dimensions)
        assert np.array_equal(bundle.table(table.name), joint.sum(axis=others))
    budget = bundle.plan.budget
    assert budget is None or budget.covers(bundle.manifest.certificate)


@pytest.mark.parametrize("case", TABLE_CASES)
def test_manifests_come_back_byte_for_byte(case: str, case_folder: Maker) -> None:
    folder = case_folder(case) / "bundle"
    manifest = manifest_of(folder)
    assert manifest.as_bytes() == (folder / "manifest.json").read_bytes()


def test_exact_numbers_are_those_of_the_records(case_folder: Maker) -> None:
    """Whichever order a spec names the dimensions of a margin in."""
    rows = [line.split(",") for line in (case_folder("tables") / "data.csv").read_text().splitlines()[1:]]
    bundle = loaded(case_folder("tables, margins that overlap") / "bundle")
    table = bundle.table("all")
    for place, county in enumerate("nsw"):
        for number, sex in enumerate("fm"):
            assert table[place, number].sum() == sum(row[:2] == [county, sex] for row in rows)
        for number, ill in enumerate("abc"):
            assert table[place, :, number].sum() == sum((row[0], row[2]) == (county, ill) for row in rows)
    of_groups = loaded(case_folder("tables, sums of groups") / "bundle")
    assert of_groups.table("sex-ill")[0].sum() == sum(row[1] == "f" for row in rows)
    assert of_groups.table("county-ill")[:2, 0].sum() == sum(row[0] in "ns" and row[2] == "a" for row in rows)


def test_structural_zeros_stay_empty(case_folder: Maker) -> None:
    bundle = loaded(case_folder("tables, zeros") / "bundle")
    assert bundle.table("sex-ill")[0, 0] == 0
    assert bundle.records is not None
    assert not ((bundle.records[:, 1] == 0) & (bundle.records[:, 2] == 0)).any()


def test_a_table_that_follows_is_published_and_not_measured(case_folder: Maker) -> None:
    folder = case_folder("tables, one follows") / "bundle"
    bundle = loaded(folder)
    assert bundle.law.table("county").precision == 0
    assert [table.name for table in bundle.law.published] == ["county", "county-ill", "sex-ill"]
    lines = (folder / "table-1-county.csv").read_text(encoding="utf-8").splitlines()[1:]
    assert all(len(set(line.split(",")[1:5])) == 1 for line in lines), "count, measurement and interval are one number"
    with pytest.raises(BundleError, match="measured no table 'county'; did you mean 'county-ill'"):
        bundle.measurements("county")


def test_outputs_are_left_out(case_folder: Maker) -> None:
    names = os.listdir(case_folder("tables, one follows") / "bundle")
    assert not any(name == "report.html" or (name.startswith("table") and name.endswith(".parquet")) for name in names)
    assert {"records.parquet", "fit.json", "README.txt", "signature.json"} <= set(names)


def test_a_portion_of_what_is_not_published_is_of_the_whole_budget(case_folder: Maker) -> None:
    law = loaded(case_folder("tables and cells") / "bundle").law
    precisions = [table.precision for table in law.tables]
    assert abs(precisions[-1] / sum(precisions) - Fraction(3, 20)) < Fraction(1, 10**6)
    assert [table.is_published for table in law.tables] == [True, True, True, False]


def test_areas_are_one_more_dimension(case_folder: Maker) -> None:
    one, other = (loaded(case_folder(case) / "bundle") for case in ("tables of areas", "tables"))
    assert one.law.schema.names == other.law.schema.names
    assert one.names == other.names


def test_names_that_are_not_there(case_folder: Maker) -> None:
    bundle = loaded(case_folder("tables") / "bundle")
    with pytest.raises(BundleError, match="did you mean 'county-sex'"):
        bundle.table("county-sx")


def test_estimates_agree_and_hold_exact_numbers(case_folder: Maker) -> None:
    bundle = loaded(case_folder("tables") / "bundle")
    of_sex, of_ill = (bundle.estimator.table(names) for names in (("county", "sex"), ("county", "ill")))
    assert np.allclose(of_sex.sum(axis=1), of_ill.sum(axis=1))
    assert np.allclose(of_sex.sum(axis=1), bundle.table("county-sex").sum(axis=1))
    assert not bundle.estimator.knows(("county", "sex", "ill"))


# What is changed by somebody who has no key.


def files_of(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def test_every_changed_byte_is_seen(tables: Path) -> None:
    for name in files_of(tables):
        path = tables / name
        content = path.read_bytes()
        for place in range(0, len(content), max(1, len(content) // drawn(12))):
            path.write_bytes(content[:place] + bytes([content[place] ^ 0x20]) + content[place + 1 :])
            with pytest.raises(BundleError):
                load_bundle(tables)
        path.write_bytes(content)
    load_bundle(tables)


def test_files_that_are_missing_or_too_many(tables: Path) -> None:
    for name in files_of(tables):
        if name == "signature.json":
            continue
        content = (tables / name).read_bytes()
        (tables / name).unlink()
        with pytest.raises(BundleError):
            load_bundle(tables)
        (tables / name).write_bytes(content)
    (tables / "table-4-more.csv").write_text("x", encoding="utf-8")
    with pytest.raises(BundleError, match="does not belong"):
        load_bundle(tables)


# What is changed by somebody who makes every digest anew.


def as_parquet(table: pa.Table) -> bytes:
    out = BytesIO()
    parquet.write_table(table, out, compression="zstd", store_schema=False)
    return out.getvalue()


def rows_swapped(path: Path) -> bytes:
    """Let two records trade a label: counts of some tables change, of others not."""
    table = parquet.read_table(path)
    sex, county = table["sex"].to_pylist(), table["county"].to_pylist()
    one = next(place for place, label in enumerate(sex) if label == "f")
    two = next(place for place, label in enumerate(sex) if label == "m" and county[place] == county[one])
    sex[one], sex[two] = sex[two], sex[one]
    return as_parquet(table.set_column(1, "sex", pa.array(sex)))


def one_more(path: Path, column: str = "measured") -> bytes:
    table = parquet.read_table(path)
    values = table[column].to_pylist()
    values[0] += 1
    return as_parquet(table.set_column(table.schema.names.index(column), column, pa.array(values)))


def tied_more(path: Path) -> bytes:
    """Move one unit so that the exact sums of counties and diagnoses stay as they are."""
    table = parquet.read_table(path)
    values = table["measured"].to_pylist()
    for place, step in ((0, 1), (1, -1), (3, -1), (4, 1)):
        values[place] += step
    return as_parquet(table.set_column(2, "measured", pa.array(values)))


def other_order(path: Path) -> bytes:
    table = parquet.read_table(path)
    return as_parquet(table.take(list(range(table.num_rows))[::-1]))


def as_floats(path: Path) -> bytes:
    table = parquet.read_table(path)
    return as_parquet(table.set_column(2, "measured", table["measured"].cast(pa.float64())))


def with_gap(path: Path) -> bytes:
    table = parquet.read_table(path)
    values = table["measured"].to_pylist()
    return as_parquet(table.set_column(2, "measured", pa.array([None, *values[1:]], pa.int64())))


def unknown_label(path: Path) -> bytes:
    table = parquet.read_table(path)
    return as_parquet(table.set_column(1, "sex", pa.array(["x", *table["sex"].to_pylist()[1:]])))


def numbers_for_labels(path: Path) -> bytes:
    table = parquet.read_table(path)
    return as_parquet(table.set_column(1, "sex", pa.array([0] * table.num_rows)))


def many_records(_: Path) -> bytes:
    """Three columns of one label each, in a few thousand bytes."""
    label = {"county": "n", "sex": "f", "ill": "a"}
    columns = {
        name: pa.DictionaryArray.from_arrays(pa.array(np.zeros(4_000_000, np.int32)), [text])
        for name, text in label.items()
    }
    return as_parquet(pa.table(columns))


def with_note(path: Path) -> bytes:
    """Let a file say of itself what is not so: no number changes."""
    table, out = parquet.read_table(path), BytesIO()
    with parquet.ParquetWriter(out, table.schema, compression="zstd", store_schema=False) as file:
        file.add_key_value_metadata({b"congenial": b"Made-up records. Everything was measured."})
        file.write_table(table)
    return out.getvalue()


RECORDS, MEASURED, TABLE = "records.parquet", "measurements-2-county-ill.parquet", "table-2-county-ill.parquet"
CHANGED: dict[str, tuple[str, Callable[[Path], bytes], str]] = {
    "records": (RECORDS, rows_swapped, "not those that the rule 'records' makes"),
    "order of records": (RECORDS, other_order, "not those that the rule 'records' makes"),
    "unknown label": (RECORDS, unknown_label, "labels that its dimensions have not"),
    "numbers for labels": (RECORDS, numbers_for_labels, "does not have the dimensions of the records"),
    "many records": (RECORDS, many_records, "90 rows that the manifest describes, but 4,000,000"),
    "a note on records": (RECORDS, with_note, "says something else of what was measured"),
    "a note on measurements": (MEASURED, with_note, "does not have the cells and measurements"),
    "a note on a table": (TABLE, with_note, "does not hold what follows"),
    "no records": (RECORDS, lambda _: b"", "cut short or changed"),
    "one measurement": (MEASURED, one_more, "do not have the exact sums"),
    "measurements in a ring": (
        MEASURED,
        tied_more,
        "not those that the rule 'records' makes|does not hold what follows",
    ),
    "order of measurements": (MEASURED, other_order, "does not have the cells and measurements"),
    "floats": (MEASURED, as_floats, "does not have the cells and measurements"),
    "a gap": (MEASURED, with_gap, "does not have the cells and measurements"),
    "records for measurements": (
        MEASURED,
        lambda path: (path.parent / RECORDS).read_bytes(),
        "does not have the 9 rows that the manifest describes",
    ),
    "a count": (TABLE, lambda path: one_more(path, "count"), "table-2-county-ill.parquet does not hold what follows"),
    "a table of another": (
        TABLE,
        lambda path: (path.parent / "table-1-county-sex.parquet").read_bytes(),
        "does not have the 9 rows",
    ),
    "a count in CSV": (
        "table-2-county-ill.csv",
        lambda path: path.read_bytes().replace(b'"n","a",', b'"n","a",1', 1),
        "table-2-county-ill.csv does not hold what follows",
    ),
    "what the rule did": ("fit.json", lambda _: b"{}\n", "fit.json does not hold what follows"),
    "report": ("report.html", lambda _: b"<p>all is well</p>", "report.html is not the file"),
    "readme": ("README.txt", lambda _: b"all is well", "README.txt is not the file"),
}


@pytest.mark.parametrize("name", CHANGED)
def test_files_that_do_not_follow_from_the_measurements_are_refused(name: str, tables: Path) -> None:
    file, change, words = CHANGED[name]
    (tables / file).write_bytes(change(tables / file))
    with pytest.raises(BundleError, match=words):
        verify_bundle(forge(tables, nothing))


def renamed(values: dict[str, Any]) -> None:
    values["law"]["tables"][0]["name"] = "elsewhere"


def nothing_published(values: dict[str, Any]) -> None:
    for table in values["law"]["tables"]:
        table["is_published"] = False


def decided_by_another(values: dict[str, Any]) -> None:
    values["rule"] |= {"name": "nearest", "chosen": "after publication"}


def of_another_version(values: dict[str, Any]) -> None:
    """What words of the certificate are is then not known, but what it is for is."""
    values["software"]["congenial"] = "0.0.9"
    values["privacy"]["certificate"]["change"] = "any 2 records"


MANIFESTS: dict[str, tuple[Change, str]] = {
    "larger budget": (at("privacy", "budget", "rho", value="2"), "precisions of its law are not those|certificate"),
    "smaller budget": (at("privacy", "budget", "rho", value="1/2"), "does not cover"),
    "larger precision": (at("law", "tables", 0, "precision", value="1"), ""),
    "not measured": (at("law", "tables", 0, "precision", value="0"), ""),
    "negative precision": (at("law", "tables", 0, "precision", value="-1/4"), ""),
    "other base": (at("law", "tables", 0, "base", value="1/2"), ""),
    "other protects": (at("law", "protects", value="one record"), ""),
    "unknown protects": (at("law", "protects", value="two that dance"), ""),
    "other shares": (at("law", "shares_by", value="cells"), ""),
    "other exact number": (at("law", "exact", 0, "values", 0, value=7), ""),
    "fewer exact numbers": (at("law", "exact", value=[]), "exact numbers are not those"),
    "fewer conditions": (at("conditions", value=[]), "exact numbers are not those"),
    "other noise": (at("law", "noise", value="double_geometric"), ""),
    "unknown noise": (at("law", "noise", value="loud"), "is not known"),
    "other rule": (at("law", "rule", "name", value="nearest"), "decides no tables of records"),
    "other version of the rule": (at("law", "rule", "version", value=7), "not version 7"),
    "other method": (at("law", "method", value="conditional"), ""),
    "rows a unit": (at("unit", "rows", value=3), "one row each"),
    "other neighbours": (at("privacy", "neighbours", value="unbounded"), ""),
    "other change": (at("privacy", "certificate", "change", value="one record"), ""),
    "smaller loss": (at("privacy", "certificate", "rho", value="1/100"), ""),
    "unknown shares": (at("law", "shares_by", value="luck"), "shared by one of tables, cells, portions"),
    "nothing published": (nothing_published, "none of its tables is published"),
    "a rule chosen afterwards": (decided_by_another, "another rule than 'records' made the tables"),
    "change of another version": (of_another_version, "its law has"),
    "other name": (renamed, ""),
    "another dimension": (at("law", "tables", 0, "dimensions", value=["county", "ill"]), ""),
    "no such dimension": (at("law", "tables", 0, "dimensions", value=["county", "job"]), ""),
    "a table twice": (lambda values: values["law"]["tables"].append(values["law"]["tables"][0]), ""),
    "no tables": (at("law", "tables", value=[]), ""),
    "not published": (at("law", "tables", 0, "is_published", value=False), ""),
    "exactly": (at("exactly", 0, "value", value="7"), ""),
    "sampler": (at("sampler", "name", value="a better one"), ""),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_that_say_something_else_are_refused(name: str, tables: Path) -> None:
    change, words = MANIFESTS[name]
    with pytest.raises(BundleError, match=words or None):
        load_bundle(forge(tables, change))


@pytest.mark.parametrize("case", ["tables", "tables, precisions", "tables and cells"])
def test_random_edits_are_refused(case: str, case_folder: Maker, tmp_path: Path) -> None:
    """One value, key or order is changed anywhere, and every digest made anew: only what is no claim passes."""
    source = case_folder(case) / "bundle"
    content = (source / "manifest.json").read_bytes()
    values = json.loads(content)
    assert is_workload(values)
    del values["digest"]
    folder = Path(shutil.copytree(source, tmp_path / "bundle"))
    rng, passed, n_edits = Random(f"edits of {case}"), set[str](), 0
    while n_edits < drawn(24):
        place, edited = random_edit(values, rng)
        (folder / "manifest.json").write_bytes(content)

        def replaced(of: dict[str, Any], edited: dict[str, Any] = edited) -> None:
            of.clear()
            of.update(edited)

        forge(folder, replaced)
        if (folder / "manifest.json").read_bytes() == content:
            continue
        n_edits += 1
        try:
            load_bundle(folder)
            passed.add(place if place.startswith("privacy") else place.split(".")[0])
        except BundleError:
            pass
    free = {
        "title",
        "status",
        "replaces",
        "unit",
        "public_files",
        "kept_rows",
        "privacy.budget.orders",
        "release",
        "dataset",
        "made_at",
    }
    assert passed <= free | {"conditions", "receipt", "left_out", "software", "unpublished", "parents", "measured"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (at("given_away", value=[]), "what the exact numbers give away"),
        (at("sampler", "name", value="a better one"), "the words of the certificate and of the sampler"),
    ],
)
def test_what_another_version_says_otherwise_is_named(change: Change, words: str, tables: Path) -> None:
    older = both(at("software", "congenial", value="0.0.9"), change)
    assert any(words in line for line in load_bundle(forge(tables, older)).not_checked)


def test_what_is_seen_where_the_rule_made_no_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ConditionError("the moon was full")

    with monkeypatch.context() as patched:
        patched.setattr(WorkloadPlan, "decide", fail)
        some = cg.Workload({"sex": ["f", "m"]}, tables={"by sex": cg.margin("sex")}, rho="1")
        ledger, folder = open_ledger(tmp_path / "budget.db", create=True), tmp_path / "bundle"
        ledger.create_dataset("town", rho="4", neighbours="bounded", who="Ada")
        records = cg.Records.of_cells(some.schema, np.array([0, 1, 1]))
        some.release(records, ledger=ledger, dataset="town", release="one", who="Ada", folder=folder)
        assert any("makes no tables" in line and "here either" in line for line in verify_bundle(folder).checked)
    assert loaded(folder).records is None
    assert any("congenial decide" in line for line in verify_bundle(folder).checked)


def test_another_plan_was_not_paid_for(tables: Path, case_folder: Maker) -> None:
    """A whole bundle that is right in itself, of another release of the same records: the ledger knows better."""
    other = case_folder("tables, nothing exact")
    with pytest.raises(CongenialError):
        verify_bundle(tables, ledger=open_ledger(other / "budget.db"))
    with pytest.raises(BundleError, match="is not signed"):
        verify_bundle(forge(tables, at("title", value="Other")), key=case_folder("tables") / "key.pub")


def test_a_manifest_that_asks_for_much_memory(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("congenial.memory_and_threads.memory", lambda: 100)
    with pytest.raises(BundleError, match="memory"):
        load_bundle(tables)


def test_the_manifest_knows_its_kind(tables: Path) -> None:
    assert isinstance(manifest_of(tables), WorkloadManifest)


def test_every_key_of_the_law_is_explained(tables: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text(encoding="utf-8")
    part = page.split("## Several tables of the same records")[1].split("\n## ")[0]
    law = json.loads((tables / "manifest.json").read_text(encoding="utf-8"))["law"]
    for name in {*law, *law["tables"][0], "values", "change"}:
        assert f"`{name}`" in part, name
