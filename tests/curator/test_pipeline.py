"""A release from end to end: what is charged, what is written, and that every refusal comes before the charge."""

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from congenial.bundle.signing import create_key
from congenial.curator.pipeline import Published
from congenial.errors import (
    AlreadySpentError,
    BudgetError,
    BundleError,
    CongenialError,
    LedgerError,
    PrivacyError,
    ReadingError,
    SamplingError,
    SpecError,
    StudyError,
    SuppressedError,
    TooLargeError,
)
from congenial.inference.analyst_bundle import load_bundle
from congenial.ledger import Ledger
from congenial.plan import Plan
from congenial.release_key import ReleaseKey
from congenial.sampling.elimination.sampler import EliminationSampler
from congenial.spec.load import load_spec
from congenial.spec.spec_and_hierarchy import Spec
from releases import (
    BUDGET,
    CASES,
    COUNTS,
    HEAD,
    MICRODATA,
    NOW,
    TWO_AREAS,
    Case,
    ledger_for,
    place,
    prepare,
    release,
    simulate,
)

ALL_FILES = {"README.txt", "expected-errors.csv", "manifest.json", "report.html", "table.csv", "table.parquet"}


def released(folder: Path, case: Case, **options: object) -> tuple[Published, Ledger]:
    spec, ledger = place(folder, case), ledger_for(folder, case)
    return release(spec, folder / "out", ledger=ledger, who="Ada", now=NOW, **options), ledger


@pytest.mark.parametrize("name", CASES)
def test_from_a_spec_to_a_verified_bundle(name: str, tmp_path: Path) -> None:
    steps: list[str] = []
    published, ledger = released(tmp_path, CASES[name], progress=steps.append)
    assert tuple(steps) == ("reading the data", "planning", "charging the budget", "drawing", "writing the bundle")
    bundle = load_bundle(tmp_path / "out")
    manifest = bundle.manifest
    areas = {"areas.parquet"} if "by:" in CASES[name].spec else set()
    areas |= {"measurements.parquet", "measurements.csv"} if "method: measured" in CASES[name].spec else set()
    areas |= {"exact-cells.parquet"} if manifest.discloses_cells else set()
    assert {path.name for path in (tmp_path / "out").iterdir()} == ALL_FILES | areas
    (spend,) = ledger.history("town")
    receipt = manifest.receipt
    assert receipt == published.release.receipt
    assert receipt is not None
    assert (spend.hash, spend.loss) == (receipt.hash, receipt.loss)
    assert ledger.verify("town", receipt.head).n_spends == 1
    # What was charged is what the published law costs, computed again from the bundle alone.
    recomputed = Plan.of(manifest.law, manifest.plan.neighbours, manifest.plan.rows_per_unit).certificate
    assert spend.loss == (recomputed.loss if CASES[name].cap[0] == "epsilon" else recomputed.rho)
    assert {path.name for path in tmp_path.iterdir()} == {"spec.yaml", "data.csv", "budget.db", "budget.db.keys", "out"}


@pytest.mark.parametrize("name", CASES)
def test_the_budget_covers_all_areas_and_rows_together(name: str, tmp_path: Path) -> None:
    plan = prepare(place(tmp_path, CASES[name])).plan
    recomputed = Plan.of(plan.law, plan.neighbours, plan.rows_per_unit).certificate
    assert (plan.budget is None) == ("budget" not in CASES[name].spec)
    assert plan.budget is None or plan.budget.covers(recomputed)
    assert recomputed == plan.certificate
    assert recomputed.k >= plan.rows_per_unit


def scaled(plan: Plan, spec: Spec, factor: Fraction) -> Plan:
    pairs = zip(plan.law.queries, spec.mechanism.queries, strict=True)
    other = [replace(query, precision=query.precision * (1 if stated.precision else factor)) for query, stated in pairs]
    return Plan.of(replace(plan.law, queries=tuple(other)), plan.neighbours, plan.rows_per_unit)


OPEN = "by: {name: area, levels: ['01', '02']}\n"
SHRUNK = {
    "several rows": CASES["several rows"],
    "areas": CASES["areas"],
    "areas with totals": CASES["areas with totals"],
    "areas, Gaussian": Case(HEAD + "budget: {rho: 1/2}\nnoise: discrete_gaussian\n" + OPEN, TWO_AREAS),
    "areas, unbounded": Case(HEAD + "neighbours: unbounded\nbudget: {rho: 1/8}\n" + OPEN, TWO_AREAS),
    "areas, a fixed query": Case(
        HEAD + BUDGET + OPEN + "measure: [{cells: all}, {total: all, precision: 1/10}]\n", TWO_AREAS
    ),
    "rows, Gaussian": Case(
        CASES["several rows"].spec.replace("epsilon: 1}", "rho: 1}\nnoise: discrete_gaussian"), MICRODATA
    ),
}


@pytest.mark.parametrize("name", SHRUNK)
def test_the_budget_is_not_wasted(name: str, tmp_path: Path) -> None:
    """One percent more precision would break it: the mutant that halves for each area would not come near."""
    path = place(tmp_path, SHRUNK[name])
    plan = prepare(path).plan
    assert plan.budget is not None
    assert plan.budget.covers(plan.certificate)
    assert not plan.budget.covers(scaled(plan, load_spec(path), Fraction(101, 100)).certificate)


def test_the_costliest_area_sets_the_precision(tmp_path: Path) -> None:
    """Areas of different sizes, some with one table only: the budget holds for all of them."""
    areas = ["01", "02", "03", "04"]
    lines = [f"{area},{line[:-1]}{number}" for number, area in enumerate(areas) for line in COUNTS.splitlines()[1:]]
    spec = HEAD + BUDGET + f"by: {{name: area, levels: {areas}}}\nmeasure: [{{cells: all}}, {{total: f}}]\n"
    plan = prepare(place(tmp_path, Case(spec, "area,sex,age,n\n" + "\n".join(lines) + "\n"))).plan
    assert plan.budget is not None
    assert plan.budget.covers(plan.certificate)


def test_a_law_that_overspends_is_not_planned(tmp_path: Path) -> None:
    """A query with its own precision overspends once three rows of a person count: no scale helps, and it says so."""
    spec = CASES["several rows"].spec + "measure: [{cells: all}, {margin: [sex], precision: 1/6}]\n"
    with pytest.raises(PrivacyError, match="too small to measure anything beside those with a precision"):
        prepare(place(tmp_path, Case(spec, MICRODATA)))


# -- Refused before the charge


def spec_of(text: str, data: str = COUNTS, cap: tuple[str, str] = ("epsilon", "4")) -> Case:
    return Case(HEAD + text, data, cap)


REFUSED: dict[str, tuple[Case, type[CongenialError], str]] = {
    "a spec with a mistake": (spec_of("budget: {epsilon: one}\n"), SpecError, "budget"),
    "a spec without a budget": (spec_of(""), SpecError, "budget"),
    "a budget of 0": (spec_of("budget: {epsilon: 0}\n"), SuppressedError, "every precision is 0"),
    "a budget too small": (spec_of("budget: {epsilon: 1e-13}\n"), PrivacyError, "below the least supported"),
    "invariants that clash": (
        spec_of(BUDGET + "invariants: [{total: all, equals: 3}]\nconditions: [{total: all, at_least: 4}]\n"),
        SpecError,
        "no table",
    ),
    "a stated value that the data do not have": (
        spec_of(BUDGET + "invariants: [{total: all, equals: 3}]\n"),
        CongenialError,
        "total is 3",
    ),
    "a zero that is none": (spec_of(BUDGET + "conditions: [{zeros: f}]\n"), CongenialError, "sex=f"),
    "no data": (spec_of(BUDGET, ""), ReadingError, "is empty"),
    "a level that is not declared": (spec_of(BUDGET, COUNTS.replace("f,010", "x,010")), ReadingError, "not declared"),
    "a negative count": (spec_of(BUDGET, COUNTS.replace("f,010,3", "f,010,-3")), ReadingError, "negative"),
    "a missing cell": (spec_of(BUDGET, COUNTS.replace("f,010,3\n", "")), ReadingError, "no row"),
    "another currency": (spec_of(BUDGET, COUNTS, ("rho", "1/1000")), BudgetError, "left"),
    "more than is left": (spec_of("budget: {epsilon: 5}\n"), BudgetError, "has 4 left"),
    "Gaussian noise in a ledger of epsilon": (
        spec_of("budget: {rho: 1/2}\nnoise: discrete_gaussian\n"),
        BudgetError,
        "capped in epsilon",
    ),
    "several rows in several areas": (
        Case(CASES["several rows"].spec + OPEN, "area," + MICRODATA.replace("\np", "\n01,p")),
        PrivacyError,
        "no certificate covers that",
    ),
    "more rows than declared": (
        Case(CASES["several rows"].spec.replace("at_most: 3", "at_most: 1"), MICRODATA),
        ReadingError,
        "more than 1 row",
    ),
    "a system that is too wide": (
        spec_of(
            BUDGET
            + "measure:\n  - {cells: all, portion: 1}\n"
            + "  - {linear: [{times: 1000003, of: f}, {times: 999983, of: '010'}], portion: 1}\n",
            COUNTS.replace(",3\n", ",900719925474099\n"),
        ),
        TooLargeError,
        "states",
    ),
}


def untouched(folder: Path, ledger: Ledger, spends: int = 0) -> None:
    assert ledger.verify().n_spends == spends
    assert not list(folder.glob("budget.db.keys/*"))
    names = {path.name for path in folder.iterdir()} - {"spec.yaml", "data.csv", "budget.db", "budget.db.keys"}
    assert names <= {
        f"CONFIDENTIAL-{what}-small.csv" for what in ("unknown-levels", "broken-conditions", "rows-of-cells")
    }


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_costs_nothing_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    case, kind, words = REFUSED[name]
    spec, ledger = place(tmp_path, case), ledger_for(tmp_path, case)
    with pytest.raises(kind, match=words):
        release(spec, tmp_path / "out", ledger=ledger, who="Ada", confidential_report=tmp_path / "CONFIDENTIAL-x.html")
    untouched(tmp_path, ledger)


def test_the_wrong_neighbours(tmp_path: Path) -> None:
    spec = place(tmp_path, CASES["one table"])
    ledger = ledger_for(tmp_path, CASES["unbounded"])
    with pytest.raises(BudgetError, match="bounded neighbours"):
        release(spec, tmp_path / "out", ledger=ledger, who="Ada")
    untouched(tmp_path, ledger)


def test_a_dataset_that_the_ledger_does_not_know(tmp_path: Path) -> None:
    case = CASES["one table"]
    spec, ledger = place(tmp_path, replace(case, spec=case.spec.replace("town", "twon"))), ledger_for(tmp_path, case)
    with pytest.raises(LedgerError, match="did you mean 'town'"):
        release(spec, tmp_path / "out", ledger=ledger, who="Ada")
    untouched(tmp_path, ledger)


@pytest.mark.parametrize("who", ["", " ", "a\nb", "x" * 5000])
def test_nobody(who: str, tmp_path: Path) -> None:
    spec, ledger = place(tmp_path, CASES["one table"]), ledger_for(tmp_path, CASES["one table"])
    with pytest.raises(LedgerError):
        release(spec, tmp_path / "out", ledger=ledger, who=who)
    untouched(tmp_path, ledger)


def test_one_spend_gives_at_most_one_table(tmp_path: Path) -> None:
    published, ledger = released(tmp_path, CASES["one table"])
    before = {path: path.read_bytes() for path in published.folder.iterdir()}
    for out in ("again", "out"):
        with pytest.raises(CongenialError) as refused:
            release(tmp_path / "spec.yaml", tmp_path / out, ledger=ledger, who="Ada")
        assert isinstance(refused.value, AlreadySpentError if out == "again" else BundleError)
    assert {path: path.read_bytes() for path in published.folder.iterdir()} == before
    assert not (tmp_path / "again").exists()
    assert ledger.verify().n_spends == 1


def test_the_cap_is_reached(tmp_path: Path) -> None:
    case = CASES["one table"]
    spec, ledger = place(tmp_path, case), ledger_for(tmp_path, replace(case, cap=("epsilon", "2")))
    for name in ("first", "second", "third"):
        spec.write_text(case.spec.replace("release: small", f"release: {name}"), encoding="utf-8")
        if name == "third":
            with pytest.raises(BudgetError, match="Nothing was charged"):
                release(spec, tmp_path / name, ledger=ledger, who="Ada")
        else:
            release(spec, tmp_path / name, ledger=ledger, who="Ada")
    assert ledger.verify().n_spends == 2
    assert not (tmp_path / "third").exists()


def folder_is_there(folder: Path) -> dict[str, object]:
    (folder / "out").mkdir()
    return {}


def link_to_nowhere(folder: Path) -> dict[str, object]:
    (folder / "out").symlink_to(folder / "nowhere")
    return {}


def no_parent(folder: Path) -> dict[str, object]:
    return {"out": folder / "missing" / "out"}


def parent_is_a_file(folder: Path) -> dict[str, object]:
    return {"out": folder / "data.csv" / "out"}


def a_name_too_long(folder: Path) -> dict[str, object]:
    return {"out": folder / ("x" * 300)}


def no_key(folder: Path) -> dict[str, object]:
    return {"key": folder / "key"}


def public_key(folder: Path) -> dict[str, object]:
    create_key(folder.parent / "key")
    return {"key": folder.parent / "key.pub"}


def report_without_its_mark(folder: Path) -> dict[str, object]:
    return {"confidential_report": folder / "report.html"}


def report_in_the_bundle(folder: Path) -> dict[str, object]:
    return {"confidential_report": folder / "out" / "CONFIDENTIAL-x.html"}


def report_nowhere(folder: Path) -> dict[str, object]:
    return {"confidential_report": folder / "missing" / "CONFIDENTIAL-x.html"}


PLACES: list[Callable[[Path], dict[str, object]]] = [
    folder_is_there, link_to_nowhere, no_parent, parent_is_a_file, a_name_too_long, no_key, public_key,
    report_without_its_mark, report_in_the_bundle, report_nowhere,
]  # fmt: skip


@pytest.mark.parametrize("prepare_place", PLACES, ids=lambda one: one.__name__)
def test_places_and_keys_are_checked_before_the_charge(
    prepare_place: Callable[[Path], dict[str, object]], tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    spec, ledger = place(folder, CASES["one table"]), ledger_for(folder, CASES["one table"])
    options: dict[str, object] = {"out": folder / "out"} | prepare_place(folder)
    before = sorted(folder.rglob("*"))
    with pytest.raises(BundleError):
        release(spec, ledger=ledger, who="Ada", **options)  # type: ignore[arg-type]
    assert ledger.verify().n_spends == 0
    assert sorted(folder.rglob("*")) == before


def test_a_failure_after_the_charge_says_that_it_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up while the bundle is written: the spend stands, and nobody is told otherwise."""
    spec, ledger = place(tmp_path, CASES["one table"]), ledger_for(tmp_path, CASES["one table"])

    def full(handle: int) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patched:
        patched.setattr("congenial.bundle.write.flush_folder", full)
        with pytest.raises(BundleError, match=r"no space left on device.*spend 1 of dataset 'town'.*not refunded"):
            release(spec, tmp_path / "out", ledger=ledger, who="Ada")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["budget.db", "budget.db.keys", "data.csv", "spec.yaml"]
    with pytest.raises(AlreadySpentError, match=r"charged on .* and not finished.*--resume"):
        release(spec, tmp_path / "out", ledger=ledger, who="Ada")


def test_the_charge_is_on_disk_before_anything_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, only made-up tables are drawn, from bits that count for nothing."""
    spec, ledger = place(tmp_path, CASES["one table"]), ledger_for(tmp_path, CASES["one table"])
    spends_when_drawn = []

    def watched(key: ReleaseKey, *facts: Any) -> object:
        spends_when_drawn.append(ledger.verify().n_spends)
        return streams(key, *facts)

    streams = ReleaseKey.streams
    monkeypatch.setattr(ReleaseKey, "streams", watched)
    release(spec, tmp_path / "out", ledger=ledger, who="Ada")
    assert spends_when_drawn == [1]


def test_a_draw_that_breaks_an_invariant_is_never_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, ledger = place(tmp_path, CASES["one table"]), ledger_for(tmp_path, CASES["one table"])
    monkeypatch.setattr(EliminationSampler, "draw_each", lambda self, centres, rng: centres + 1)
    with pytest.raises(SamplingError, match="breaks an invariant; nothing is published"):
        release(spec, tmp_path / "out", ledger=ledger, who="Ada")
    untouched(tmp_path, ledger)  # the rehearsal found it


# -- Simulations


def test_simulations_are_marked_and_free(tmp_path: Path) -> None:
    case = CASES["areas with totals"]
    spec = place(tmp_path, replace(case, spec=case.spec.replace("count: n", "count: n, status: simulated")))
    first, same, other = (
        simulate(spec, tmp_path / name, seed=seed, now=NOW).folder for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    contents = [{path.name: path.read_bytes() for path in sorted(folder.iterdir())} for folder in (first, same, other)]
    assert contents[0] == contents[1]
    assert contents[0]["table.csv"] != contents[2]["table.csv"]
    assert b"NOT FOR RELEASE" in contents[0]["README.txt"]
    assert b"NOT FOR RELEASE" in contents[0]["report.html"]
    assert not load_bundle(first).manifest.is_for_release
    assert load_bundle(first).manifest.receipt is None


def test_confidential_data_are_not_simulated(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="give them away"):
        simulate(place(tmp_path, CASES["one table"]), tmp_path / "out", seed=1)
    assert not (tmp_path / "out").exists()


def test_outputs_are_what_was_asked_for(tmp_path: Path) -> None:
    case = CASES["one table"]
    published, _ = released(tmp_path, replace(case, spec=case.spec + "outputs: [csv]\n"))
    assert {path.name for path in published.folder.iterdir()} == ALL_FILES - {"report.html", "table.parquet"}
    assert "report.html" not in (published.folder / "README.txt").read_text(encoding="utf-8")
    load_bundle(published.folder)
