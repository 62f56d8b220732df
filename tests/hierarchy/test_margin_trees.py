"""Trees that measure margins and no cells: from a spec to a bundle that is verified, answers and what is refused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial as cg
from agreement import own_rng
from congenial.arrays import Ints
from congenial.bundle.verify import verify_bundle
from congenial.conditions.rows_and_intervals import dense, row_values
from congenial.curator import pipeline
from congenial.curator.preview import preview
from congenial.curator.preview_text import as_json
from congenial.curator.tree_margin_errors import margin_errors
from congenial.decided_tables import check_decided, decide_tables, tree_measurements
from congenial.errors import BundleError, ConditionError, CongenialError, HierarchyError
from congenial.ledger import Ledger
from congenial.measurement import drawing_of
from congenial.plan import Plan
from congenial.rules import gls
from congenial.rules.margin_trees import TreeMargins, estimate
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.spec.load import load_spec
from rules.drawn_systems import whole

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0-17", "18-64", "65+"], "tenure": ["own", "rent"]})
RING = (cg.margin("sex", "age"), cg.margin("tenure", "age"), cg.margin("sex", "tenure"))
CODES = [f"{county}{tract}{block}" for county in "12" for tract in "ab" for block in "xyz"]
TREE = cg.Tree.of_prefixes(CODES, {"county": 1, "tract": 2}, "block")


def hierarchy(**changes: Any) -> cg.Hierarchy:
    facts: dict[str, Any] = {"measure": RING, "invariants": {"tract": [cg.total()]}, "rho": "2", **changes}
    return cg.Hierarchy(TREE, SCHEMA, **facts)


def leaves_of(request: pytest.FixtureRequest, most: int = 9) -> Ints:
    return whole(own_rng(request), 0, most, (TREE.n_leaves, SCHEMA.n_cells))


def planned(leaves: Ints, **changes: Any) -> Plan:
    request = hierarchy(**changes)
    return request.plan(request.disclose(request.counts_of(leaves)))


def check_tables(plan: Plan, tables: Sequence[Ints], truth: Sequence[Ints]) -> None:
    assert plan.law.below.hold(tuple(tables))
    assert plan.law.areas.holds(tables[0]).all()
    for level, (some, true) in enumerate(zip(tables, truth, strict=True)):
        assert (some >= 0).all()
        rows = plan.law.each_level[level].areas.exact_rows[0]
        assert np.array_equal(row_values(rows, some), row_values(rows, true))


EXACT: dict[str, dict[str, list[Any]]] = {
    "nothing": {},
    "totals": {"block": [cg.total()]},
    "margins above": {"county": [cg.margin("age")], "tract": [cg.total({"sex": "f"}), cg.total()]},
    "a margin everywhere": {"block": [cg.margin("sex")]},
}


@pytest.mark.parametrize("budget", [{"rho": "2"}, {"epsilon": "4"}], ids=["rho", "epsilon"])
@pytest.mark.parametrize("exact", EXACT)
def test_tables_agree_and_keep_what_is_exact(
    exact: str, budget: dict[str, str], request: pytest.FixtureRequest
) -> None:
    leaves = leaves_of(request)
    plan = planned(leaves, **{"invariants": EXACT[exact], "rho": None, **budget})
    assert plan.law.rule == ("margins", 1)
    measurements = plan.draw(leaves, own_rng(request))
    tables = plan.decide(measurements)
    check_tables(plan, tables, TREE.summed(leaves))
    check_decided(plan.law, measurements, tables)
    worse = [*tables[:2], tables[2][::-1].copy()]
    with pytest.raises(ConditionError, match="not what the rule 'margins' gives"):
        check_decided(plan.law, measurements, worse)


@pytest.mark.parametrize("exact", EXACT)
def test_the_noise_keeps_exact_numbers_and_relations_of_margins(exact: str, request: pytest.FixtureRequest) -> None:
    """Margins of a unit have noise that agrees wherever they overlap; where a sum is exact there, it has none."""
    leaves = leaves_of(request)
    plan = planned(leaves, invariants=EXACT[exact])
    for level, table in zip(plan.law.each_level, TREE.summed(leaves), strict=True):
        drawing, numbers = drawing_of(level)
        assert not any(kind.dropped or kind.untied or kind.choice.dropped for kind in drawing.kinds)
        noise = drawing.draw(numbers, table, own_rng(request)) - row_values(drawing.rows, table)
        rows = dense(drawing.rows, SCHEMA.n_cells)
        cells = np.linalg.lstsq(rows.astype(float), noise.T.astype(float), rcond=None)[0]
        assert np.abs(rows @ cells - noise.T).max() < 1e-9
        for row in level.areas.exact_rows[0]:
            assert np.abs(dense([row], SCHEMA.n_cells) @ cells).max() < 1e-9


def drawn_errors(plan: Plan, leaves: Ints, n: int) -> list[Ints]:
    """Return what estimates of margins are off by (draw, unit, answer), level by level."""
    truth, rng = TREE.summed(leaves), cg.replay_rng("margins of trees")
    out: list[list[Ints]] = [[] for _ in truth]
    for _ in range(n):
        data = tree_measurements(plan.law, plan.draw(leaves, rng))
        assert isinstance(data, TreeMargins)
        for errors, estimates, table in zip(out, estimate(data), truth, strict=True):
            sums = np.zeros((len(table), data.firsts[-1]), np.int64)
            for places in data.places:
                for cell, place in enumerate(places):
                    sums[:, place] += table[:, cell]
            errors.append(estimates - (sums << FRACTION_BITS))
    return [np.array(errors) for errors in out]


@pytest.mark.parametrize("exact", ["totals", "margins above"])
def test_errors_are_as_stated_before_the_charge(exact: str, request: pytest.FixtureRequest) -> None:
    leaves = leaves_of(request)
    plan = planned(leaves, invariants=EXACT[exact])
    errors = drawn_errors(plan, leaves, 100)
    stated = margin_errors(plan)
    assert [error.margin for error in stated[:3]] == [query.text for query in plan.law.queries]
    first = 0
    firsts = [0, 6, 12, 16]
    for level, of_level in enumerate(errors):
        for number in range(3):
            error = stated[first + number]
            squares = (of_level[:, :, firsts[number] : firsts[number + 1]] / 2**FRACTION_BITS) ** 2
            assert np.sqrt(squares.mean()) == pytest.approx(error.estimate, rel=0.15, abs=1e-5)
            assert error.estimate <= error.measured + 1e-9
            assert error.level == plan.law.tree.levels[level]
        first += 3


SPEC = """
release: margins
data: {path: people.csv, kind: counts, count: n, missing_cells: zero}
dimensions: {sex: [f, m], age: [0-17, 18-64, 65+], tenure: [own, rent]}
hierarchy:
  file: blocks.csv
  leaf: block
  levels: {county: {prefix: 1}, tract: {prefix: 2}}
measure:
  - margin: [sex, age]
  - margin: [tenure]
invariants: [{total: all, at: tract}]
budget: {rho: 1}
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    lines = [f"{code},f,0-17,own,{number}" for number, code in enumerate(CODES, 3)]
    (tmp_path / "people.csv").write_text("block,sex,age,tenure,n\n" + "\n".join(lines) + "\n")
    (tmp_path / "blocks.csv").write_text("block\n" + "\n".join(CODES) + "\n")
    (tmp_path / "spec.yaml").write_text(SPEC)
    return tmp_path / "spec.yaml"


def test_from_a_spec_to_answers(spec: Path) -> None:
    loaded = load_spec(spec)
    shown = preview(loaded, spec.parent)
    assert [error["margin"] for error in as_json(shown)["margins"][:2]] == ["margin of sex and age", "margin of tenure"]
    folder = spec.parent / "out"
    ledger = opened(spec.parent)
    ledger.create_dataset("margins", rho="2", neighbours="bounded", who="Ada")
    pipeline.release(loaded, spec.parent, folder, ledger=ledger, who="Ada")
    verify_bundle(folder)
    model = "Combinations of sex by tenure; or of age by tenure are in no measured margin"
    for name in ("README.txt", "report.html"):
        assert model in " ".join((folder / name).read_text(encoding="utf-8").split())
    bundle = cg.load_bundle(folder)
    (inside,) = bundle.units("block").confidence("sex=f & age=65+", area=CODES[0])
    assert inside.high >= inside.low
    assert (inside.coverage or 0) >= 0.9
    (outside,) = bundle.units("block").confidence("sex=f & tenure=own", area=CODES[0])
    assert "no sum of measured rows and exact numbers gives it" in outside.why
    with pytest.raises(BundleError, match="this one measures margins"):
        _ = bundle.combined
    district = bundle.district(CODES[:4])
    assert district.units_in_use("sex=f & age=65+") == {"tract": 1, "block": 1}
    (inside,) = district.confidence("sex=f & age=65+")
    assert (inside.coverage or 0) >= 0.9
    (outside,) = district.confidence("sex=f & tenure=own")
    assert "no sum of measured rows and exact numbers gives it" in outside.why


def opened(folder: Path) -> Ledger:
    ledger = cg.open_ledger(folder / "budget.db", create=True)
    ledger.create_dataset("town", rho="5", neighbours="bounded", who="Ada")
    return ledger


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"measure": [cg.total({"sex": "f"}), cg.margin("age")]}, "or whole margins alone"),
        ({"measure": [cg.cells({"sex": "f"}), cg.margin("age")]}, "or whole margins alone"),
        ({"method": "conditional"}, "measures every cell at every level"),
        ({"rule": "nearest"}, "the rule here is 'margins'"),
        ({"invariants": {"tract": [cg.total({"sex": "f"})]}}, "are whole margins"),
        ({"invariants": {"tract": [cg.total(), cg.total({"sex": "f", "age": "65+"})]}}, "are whole margins"),
        ({"rule": "gls"}, "the rule gls is for measured cells"),
        ({"precisions": {"county": 1, "tract": 1, "block": 1}, "rho": None}, "precisions of levels are those of cells"),
    ],
)
def test_what_is_refused_before_the_charge(
    changes: dict[str, Any], words: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    ledger = opened(tmp_path)
    with pytest.raises(CongenialError, match=words):
        hierarchy(**changes).release(leaves_of(request), ledger=ledger, dataset="town", release="one", who="Ada")
    assert not ledger.status("town").spent


def test_structural_zeros_are_refused(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    leaves = leaves_of(request)
    leaves[:, 0] = 0
    zeros = cg.Zeros.of_leaves(TREE, np.arange(SCHEMA.n_cells) == np.zeros((TREE.n_leaves, 1)))
    with pytest.raises(HierarchyError, match="structural zeros tie the components of margins together"):
        hierarchy(zeros=zeros).release(leaves, ledger=opened(tmp_path), dataset="town", release="one", who="Ada")


def test_cells_beside_margins_by_either_rule(request: pytest.FixtureRequest) -> None:
    """Measured cells are a margin over all dimensions: components and further rows are the same least squares."""
    leaves = leaves_of(request)
    facts: dict[str, Any] = {"measure": (cg.cells(portion=2), cg.margin("sex", portion=1)), "invariants": {}}
    plan = planned(leaves, **facts, rule="margins")
    measurements = plan.draw(leaves, own_rng(request))
    data = tree_measurements(plan.law, measurements)
    assert isinstance(data, TreeMargins)
    cells = tree_measurements(planned(leaves, **facts).law, measurements)
    for margins, others in zip(estimate(data), gls.estimate(cells), strict=True):
        assert np.abs(margins[:, : SCHEMA.n_cells] - others).max() / 2**FRACTION_BITS < 0.02
    check_tables(plan, decide_tables(plan.law, measurements), TREE.summed(leaves))
