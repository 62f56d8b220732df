"""Later tables that agree with an earlier release: kept without a deviation, or revised; what is refused, and when."""

import json
import shutil
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.bundle.canonical_json import canonical_json, digest
from congenial.bundle.verify import verify_bundle
from congenial.bundle.workload_bundle import WorkloadBundle
from congenial.curator.pipeline import release
from congenial.curator.pipeline import resume as resume_spec
from congenial.errors import BundleError, ConditionError, SpecError
from congenial.ledger import Ledger, open_ledger
from congenial.published_release import Release
from congenial.randomness import replay_rng
from congenial.rules.workload.margins import count_records
from congenial.spec.load import load_spec, parse_spec
from congenial.workload.estimates import Estimator
from congenial.workload.later import agreement_lines, errors_of_ways
from congenial.workload.workload import Workload
from forger import Change, at, both, forge

DIMENSIONS = {
    "county": [f"c{number}" for number in range(5)],
    "age": ["young", "middle", "old"],
    "sex": ["female", "male"],
    "ill": ["no", "once", "often"],
}
FIRST = {"county by age": ["county", "age"], "age by sex": ["age", "sex"], "sex by ill": ["sex", "ill"]}
LATER = {"county by sex": ["county", "sex"], "county by ill": ["county", "ill"], "age by ill": ["age", "ill"]}


@cache
def cells() -> Any:
    """Confidential records: ages and illness hang on the county."""
    words = np.random.default_rng(35).integers(0, 60, (4, 1500))
    county = np.minimum(words[0] // 15 + words[0] % 2, 4)
    age = (words[1] // 20 + county) % 3
    ill = np.minimum((words[3] % 7) // 3 * (age > 0), 2)
    return ((county * 3 + age) * 2 + words[2] % 2) * 3 + ill


def workload(tables: Mapping[str, list[str]] = LATER, **options: Any) -> Workload:
    exact = options.pop("exact", [["county"]])
    margins = {name: cg.margin(*dimensions) for name, dimensions in tables.items()}
    return Workload(DIMENSIONS, tables=margins, invariants=[cg.margin(*names) for names in exact], rho="1/2", **options)


def ledger_in(folder: Path) -> Ledger:
    ledger = open_ledger(folder / "budget.db", create=True)
    ledger.create_dataset("people", rho="9", neighbours="bounded", who="Ada")
    return ledger


def released(what: Workload, name: str, ledger: Ledger, folder: Path) -> Path:
    place = folder / name
    records = cg.Records.of_cells(what.schema, cells())
    what.release(records, ledger=ledger, dataset="people", release=name, who="Ada", folder=place)
    return place


@pytest.fixture(scope="session")
def first_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of three tables, and beside it the ledger that was charged."""
    folder = tmp_path_factory.mktemp("earlier")
    return released(workload(FIRST), "first", ledger_in(folder), folder)


@pytest.fixture
def first(first_bundle: Path, tmp_path: Path) -> Path:
    """The same in a folder of the test's own, with a ledger of its own that has the spend."""
    shutil.copytree(first_bundle.parent, tmp_path, dirs_exist_ok=True)
    return tmp_path / "first"


def verified(folder: Path) -> WorkloadBundle:
    bundle = verify_bundle(folder).bundle
    assert isinstance(bundle, WorkloadBundle)
    return bundle


def deviations(bundle: WorkloadBundle, earlier: WorkloadBundle) -> int:
    """How many counts of an earlier release's tables the later records do not have."""
    schema = bundle.law.schema
    assert bundle.records is not None
    out = 0
    for table in earlier.plan.published:
        counts = count_records(bundle.records, schema.shape, bundle.law.axes(table.dimensions))
        out += int(np.abs(counts - earlier.table(table.name)).sum())
    return out


@pytest.mark.parametrize("records", [None, "unchanged"])
def test_kept_tables_have_no_deviation_and_the_later_bundle_verifies_alone(first: Path, records: str | None) -> None:
    earlier = verified(first)
    ledger = open_ledger(first.parent / "budget.db")
    what = workload(agree_with=first, how="keep", records=records)
    place = released(what, "later", ledger, first.parent)
    shutil.rmtree(first)
    seen = verify_bundle(place, ledger=ledger)
    assert isinstance(seen.bundle, WorkloadBundle)
    assert deviations(seen.bundle, earlier) == 0
    assert any("without one deviation" in text for text in seen.checked)
    assert any("release first by itself" in text for text in seen.not_checked)
    assert seen.bundle.names == tuple(LATER)
    naming = seen.bundle.manifest.naming
    assert [file.sha256 for file in naming.public_files] == [digest((place / "earlier-manifest.json").read_bytes())]
    readme = " ".join((place / "README.txt").read_text().split())
    assert "The tables agree with those of release first, whose published counts are held." in readme
    assert ("use the measurements of both releases" in readme) == (records is not None)


def test_nearest_estimates_of_kept_tables_use_both_releases_and_differ(first: Path) -> None:
    ledger = open_ledger(first.parent / "budget.db")
    kept = verified(released(workload(agree_with=first, how="keep", records="unchanged"), "a", ledger, first.parent))
    alone = verified(released(workload(agree_with=first, how="keep"), "b", ledger, first.parent))
    for dimensions in LATER.values():
        both = kept.estimator.standard_errors(dimensions).max()
        assert both < alone.estimator.standard_errors(dimensions).max()
    assert kept.estimator.knows(["age", "sex"])
    assert not alone.estimator.knows(["age", "sex"])
    best = kept.estimator.table(["county", "ill"])
    assert np.abs(best - kept.table("county by ill")).max() > 0.5


def test_revised_tables_are_those_of_both_releases(first: Path) -> None:
    ledger = open_ledger(first.parent / "budget.db")
    place = released(workload(agree_with=first, how="revise", records="unchanged"), "later", ledger, first.parent)
    bundle = verified(place)
    assert bundle.names == (*LATER, *FIRST)
    assert not (place / "earlier-records.parquet").exists()
    for one in bundle.plan.published:
        for other in bundle.plan.published:
            shared = [name for name in one.dimensions if name in other.dimensions]
            sums = [
                bundle.table(table.name).sum(
                    axis=tuple(axis for axis, name in enumerate(table.dimensions) if name not in shared)
                )
                for table in (one, other)
            ]
            assert np.array_equal(*sums)
    readme = " ".join((place / "README.txt").read_text().split())
    assert "As estimates, the tables of release first are superseded by these" in readme
    header = (place / "table-4-county-by-age.csv").read_text().splitlines()[0]
    assert header.startswith('"county","age","count","measured"')


def test_a_third_release_agrees_with_both_before_it(first: Path) -> None:
    ledger = open_ledger(first.parent / "budget.db")
    second = released(workload(agree_with=first, how="keep"), "second", ledger, first.parent)
    third = workload({"all but ill": ["county", "age", "sex"]}, agree_with=second, how="keep", records="unchanged")
    place = released(third, "third", ledger, first.parent)
    before = [verified(first), verified(second)]
    shutil.rmtree(first)
    shutil.rmtree(second)
    bundle = verified(place)
    assert [deviations(bundle, earlier) for earlier in before] == [0, 0]
    assert (place / "earlier-earlier-manifest.json").exists()


def test_a_later_release_may_have_a_further_dimension(tmp_path: Path) -> None:
    ledger = ledger_in(tmp_path)
    short = {name: DIMENSIONS[name] for name in ("county", "age", "sex")}
    tables = {"county by age": cg.margin("county", "age"), "age by sex": cg.margin("age", "sex")}
    earlier = Workload(short, tables=tables, invariants=[cg.margin("county")], rho="1")
    records = cg.Records.of_cells(earlier.schema, cells() // 3)
    earlier.release(records, ledger=ledger, dataset="people", release="first", who="Ada", folder=tmp_path / "first")
    later = workload(agree_with=tmp_path / "first", how="keep", exact=[["county"], ["ill"]])
    bundle = verified(released(later, "later", ledger, tmp_path))
    assert deviations(bundle, verified(tmp_path / "first")) == 0
    assert bundle.table("age by ill").sum(axis=0).tolist() == np.bincount(cells() % 3).tolist()


def untouched(ledger: Ledger, folder: Path) -> None:
    """Nothing was charged or written for the later release."""
    assert [spend.release for spend in ledger.history("people")] == ["first"]
    assert sorted(path.name for path in folder.iterdir()) in (
        ["budget.db", "budget.db.keys", "first"],
        ["budget.db", "first"],
    )
    assert not list(folder.glob("budget.db.keys/*"))


def test_contradicting_exact_numbers_are_refused_before_the_charge(first: Path) -> None:
    ledger = open_ledger(first.parent / "budget.db")
    what = workload(agree_with=first, how="keep", exact=[["county", "age"]])
    with pytest.raises(ConditionError, match="contradicts the published table") as refused:
        released(what, "later", ledger, first.parent)
    assert "how: revise" in str(refused.value)
    assert not any(character.isdigit() for character in str(refused.value))
    untouched(ledger, first.parent)


def test_records_that_changed_are_not_declared_unchanged(first: Path) -> None:
    ledger = open_ledger(first.parent / "budget.db")
    what = workload(agree_with=first, how="revise", records="unchanged")
    fewer = cg.Records.of_cells(what.schema, cells()[1:])
    with pytest.raises(ConditionError, match=r"contradicts the exact .* the records are not unchanged"):
        what.release(fewer, ledger=ledger, dataset="people", release="later", who="Ada", folder=first.parent / "later")
    untouched(ledger, first.parent)
    with pytest.raises(ConditionError, match="state `records: unchanged` if they are"):
        workload(agree_with=first, how="revise")


def test_a_rule_that_does_not_reach_kept_tables_is_refused_before_the_charge(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger(first.parent / "budget.db")

    def fail(*_: object, **__: object) -> None:
        raise cg.errors.UndecidedError("no records with every exact number were reached")

    what = workload(agree_with=first, how="keep")
    monkeypatch.setattr("congenial.rules.workload.rule.decide_records", fail)
    with pytest.raises(ConditionError, match="no tables were reached that agree with release 'first'"):
        released(what, "later", ledger, first.parent)
    untouched(ledger, first.parent)


@pytest.mark.parametrize("name", ["records.parquet", "table-1-county-by-age.csv", "manifest.json"])
def test_a_tampered_earlier_bundle_is_refused(first: Path, name: str) -> None:
    content = bytearray((first / name).read_bytes())
    content[len(content) // 2] ^= 1
    (first / name).write_bytes(content)
    with pytest.raises(BundleError):
        workload(agree_with=first, how="keep")
    untouched(open_ledger(first.parent / "budget.db"), first.parent)


def test_another_copy_of_the_earlier_release_is_refused_in_the_later_bundle(first: Path) -> None:
    """Who exchanges the copied records, with digests of the later manifest, is found by the earlier manifest."""
    ledger = open_ledger(first.parent / "budget.db")
    place = released(workload(agree_with=first, how="keep"), "later", ledger, first.parent)
    other = (place / "records.parquet").read_bytes()
    (place / "earlier-records.parquet").write_bytes(other)
    with pytest.raises(BundleError, match=r"earlier-records.parquet was changed"):
        verify_bundle(place)
    values = json.loads((place / "manifest.json").read_bytes())
    values["files"]["earlier-records.parquet"] = sha256(other).hexdigest()
    del values["digest"]
    (place / "manifest.json").write_bytes(canonical_json({**values, "digest": digest(canonical_json(values))}))
    with pytest.raises(BundleError, match="not the file that release 'first' published"):
        verify_bundle(place)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (both(at("dataset", value="others"), at("receipt", "dataset", value="others")), "of their own dataset"),
        (at("public_files", value=[]), "is not among public files"),
        (at("public_files", 0, "sha256", value="7" * 64), "is not among public files"),
    ],
)
def test_a_later_bundle_says_whose_tables_it_agrees_with(first: Path, change: Change, wrong: str) -> None:
    ledger = open_ledger(first.parent / "budget.db")
    place = released(workload(agree_with=first, how="keep"), "later", ledger, first.parent)
    with pytest.raises(BundleError, match=wrong):
        verify_bundle(forge(place, change))


def test_other_data_and_other_dimensions_are_refused(first: Path) -> None:
    ledger = open_ledger(first.parent / "budget.db")
    ledger.create_dataset("others", rho="9", neighbours="bounded", who="Ada")
    what = workload(agree_with=first, how="keep")
    records = cg.Records.of_cells(what.schema, cells())
    with pytest.raises(ConditionError, match="tables agree with those of their own dataset"):
        what.release(records, ledger=ledger, dataset="others", release="later", who="Ada")
    everything = {"everything": cg.margin(*DIMENSIONS)}
    with pytest.raises(ConditionError, match="other labels than in release 'first'"):
        Workload({**DIMENSIONS, "sex": ["f", "m"]}, tables=everything, rho="1", agree_with=first, how="keep")
    with pytest.raises(ConditionError, match="name all of its dimensions"):
        Workload({"sex": ["female", "male"]}, tables={"sex": cg.margin("sex")}, rho="1", agree_with=first, how="keep")


def test_a_release_that_was_stopped_goes_on_with_the_same_earlier_bundle(
    first: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = open_ledger(first.parent / "budget.db")
    records = cg.Records.of_cells(workload().schema, cells())
    place = first.parent / "later"
    options: dict[str, Any] = {"ledger": ledger, "dataset": "people", "release": "later", "folder": place}

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Release, "write", stop)
    what = workload(agree_with=first, how="keep")
    with pytest.raises(KeyboardInterrupt):
        what.release(records, who="Ada", **options)
    monkeypatch.undo()
    assert len(ledger.history("people")) == 2
    with pytest.raises(BundleError, match="other data, another spec"):
        workload().resume(records, **options)
    workload(agree_with=first, how="keep").resume(records, **options)
    assert len(ledger.history("people")) == 2
    assert deviations(verified(place), verified(first)) == 0


SPEC = """
release: later
dataset: people
data: {path: people.csv, kind: microdata, status: confidential}
unit: {one_row_per: person}
dimensions:
  county: [c0, c1, c2, c3, c4]
  age: [young, middle, old]
  sex: [female, male]
  ill: ["no", once, often]
tables: {county by sex: [county, sex], county by ill: [county, ill]}
invariants: [margin of county]
budget: {rho: 1/2}
agree_with: {bundle: first, how: keep}
"""


def test_a_spec_names_the_earlier_bundle(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = first.parent
    places = np.unravel_index(cells(), (5, 3, 2, 3))
    labels = [np.array(DIMENSIONS[name])[place] for name, place in zip(DIMENSIONS, places, strict=True)]
    rows = "\n".join(",".join(row) for row in zip(*labels, strict=True))
    (folder / "people.csv").write_text(f"{','.join(DIMENSIONS)}\n{rows}\n")
    (folder / "later.yaml").write_text(SPEC)
    spec, ledger = load_spec(folder / "later.yaml"), open_ledger(folder / "budget.db")

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("congenial.bundle.workload_files.write_records", stop)
    with pytest.raises(KeyboardInterrupt):
        release(spec, folder, folder / "later", ledger=ledger, who="Ada")
    monkeypatch.undo()
    published = resume_spec(spec, folder, ledger=ledger)
    assert deviations(verified(published.folder), verified(first)) == 0


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ("{bundle: first}", "with which `bundle:` tables agree, and `how:`"),
        ("{bundle: first, how: revise}", "`records: unchanged`"),
        ("{bundle: first, how: join}", "keep"),
    ],
)
def test_mistakes_of_a_spec(entry: str, wrong: str) -> None:
    with pytest.raises(SpecError, match=wrong):
        parse_spec(SPEC.replace("{bundle: first, how: keep}", entry))
    with pytest.raises(SpecError, match="goes with `tables:`"):
        parse_spec(SPEC.replace("tables: {county by sex: [county, sex], county by ill: [county, ill]}\n", ""))


def test_what_a_plan_says_of_both_releases(first: Path) -> None:
    what = workload(agree_with=first, how="keep")
    plan = what.plan(what.disclose(cg.Records.of_cells(what.schema, cells())))
    lines = agreement_lines(plan)
    assert lines[0] == "agrees with release first (how: keep); both together, losses added up:"
    assert lines[1] == "one record that keeps its county: rho 1"
    errors = {each.table: each for each in errors_of_ways(plan)}
    later, before = errors["age by ill"], errors["age by sex of release first"]
    assert later.revise is not None
    assert later.keep is not None
    assert later.revise < later.keep
    assert before.alone is None


@pytest.mark.slow
def test_errors_of_both_ways_are_those_of_the_closed_form(first: Path) -> None:
    """Squared errors of estimates over what is stated, of both ways, for drawn measurements of both releases."""
    rng = replay_rng("errors of both ways")
    earlier_of, n_runs = workload(FIRST), 300
    records = cg.Records.of_cells(earlier_of.schema, cells())
    truth = records.margin(["age", "ill"])
    what = workload(agree_with=first, how="revise", records="unchanged")
    assert what.earlier is not None
    plan = what.plan(what.disclose(records))
    squares = []
    for _ in range(n_runs):
        object.__setattr__(what.earlier, "measured", what.earlier.plan.draw(earlier_of.counts_of(records), rng))
        measured = plan.draw(what.counts_of(records), rng)
        squares.append(((Estimator(plan, measured).table(["age", "ill"]) - truth) ** 2).mean())
    stated = {each.table: each for each in errors_of_ways(plan)}["age by ill"].revise
    assert stated is not None
    assert 0.9 < np.mean(squares) / (stated / 0.798) ** 2 < 1.1
