"""Measured trees in comparisons: the same loss by every method, sums that are what they say, what is left out."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Ints
from congenial.plan import Plan
from congenial.study.baselines.topdown_and_leaves_alone import TopDownTree
from congenial.study.compare import Comparison, _plans_of
from congenial.study.equal_loss import TREE_METHODS
from congenial.study.metrics import NEAR_ZERO, LevelTally, Metric
from congenial.tree.tree_and_zeros import TreeTables

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["u18", "v18"]})
TREE = cg.Tree.of_prefixes([f"{county}{block:02}" for county in "1234" for block in range(30)], {"county": 1}, "block")
RNG = cg.replay_rng("leaves of measured trees")
LEAVES = RNG.below(np.full((120, 4), 3)) * RNG.below(np.full((120, 4), 15))
EQUAL = {"county": 1, "block": 1}
METHODS = ["conditional", "measured", "measurements", "topdown", "leaves"]


def hierarchy_of(method: str = "measured", **changes: Any) -> cg.Hierarchy:
    return cg.Hierarchy(TREE, SCHEMA, **{"invariants": [cg.total()], "method": method, **changes})


def compared(hierarchy: cg.Hierarchy, n: int = 2, methods: list[str] | None = None) -> Comparison:
    rng = cg.replay_rng("measured trees")
    return cg.compare_tree(hierarchy, LEAVES, source="simulated", methods=methods, n_releases=n, rng=rng)


def metric_of(comparison: Comparison, method: str, level: int, name: str) -> Metric:
    result = next(result for result in comparison.results if result.name == method)
    return next(metric for metric in result.levels[level].metrics if metric.name.startswith(name))


# Equal loss.


@pytest.mark.parametrize("method", ["conditional", "measured"])
@pytest.mark.parametrize(
    "budget",
    [
        {"rho": "2", "shares": {"county": 1, "block": 3}},
        {"epsilon": "8", "delta": "1e-6"},
        {"rho": "2", "noise": "double_geometric"},
        {"precisions": {"county": "1/2", "block": "3/2"}},
    ],
)
def test_every_method_spends_the_same_whichever_the_tree_has(method: str, budget: dict[str, Any]) -> None:
    comparison = compared(hierarchy_of(method, **budget), methods=METHODS)
    costs = [result.certificate.rho for result in comparison.results]
    assert None not in costs
    assert max(map(float, filter(None, costs))) < (1 + 1e-6) * min(map(float, filter(None, costs)))
    kinds = {result.name: result.certificate.kind for result in comparison.results}
    assert kinds["conditional"].startswith("chain")
    assert kinds["measured"] == kinds["measurements"]
    assert kinds["measured"].startswith("measured_tree")
    assert kinds["TopDown"] == kinds[method], "its noise is that of the tree's own plan"


def test_precisions_keep_their_proportions() -> None:
    stated = hierarchy_of("conditional", precisions={"county": "1/2", "block": "3/2"})
    plan = stated.plan(stated.disclose(LEAVES))
    measured = TREE_METHODS["measured"].plan_of(stated, plan, LEAVES)
    assert [level.noise.precision for level in measured.levels] == [Fraction(1, 2), Fraction(3, 2)]


# What is left out, and why.


def test_a_pure_epsilon_has_no_chain() -> None:
    comparison = compared(hierarchy_of(epsilon="4", shares=EQUAL))
    assert [result.name for result in comparison.results] == ["measured", "TopDown"]
    assert {result.spent for result in comparison.results} == {"epsilon 4"}
    assert list(comparison.left_out) == ["conditional", "leaves alone"]
    assert "conditional is left out: a chain of draws through a tree has no budget in pure epsilon" in str(comparison)


@pytest.mark.parametrize(
    ("changes", "method", "reason"),
    [
        ({"epsilon": "4"}, "conditional", "no budget in pure epsilon"),
        ({"epsilon": "4"}, "leaves", "can double the loss"),
        ({"rho": "2", "invariants": {"block": [cg.total()]}}, "topdown", "exact numbers below the top"),
        ({"rho": "2", "invariants": {"block": [cg.total()]}}, "leaves", "exact numbers below the top"),
        ({"rho": "2", "method": "conditional", "invariants": {"block": [cg.total()]}}, "topdown", "below the top"),
    ],
)
def test_methods_that_are_named_are_refused(changes: dict[str, Any], method: str, reason: str) -> None:
    with pytest.raises(cg.CongenialError, match=reason):
        compared(hierarchy_of(**changes), methods=["measured", method])


@pytest.mark.parametrize("method", ["conditional", "measured"])
def test_both_methods_keep_the_exact_numbers_of_every_level(method: str) -> None:
    hierarchy = hierarchy_of(method, rho="2", invariants={"block": [cg.total()]})
    plans, left_out = _plans_of(hierarchy, LEAVES, None)
    assert list(plans) == ["conditional", "measured"]
    assert list(left_out) == ["TopDown", "leaves alone"]
    (result,) = compared(hierarchy, methods=["measured"]).results  # the chain's draws have tests of their own
    assert all((level.totals == 0).all() for level in result.levels)
    assert result.broken == 0


# What comes out.


@pytest.fixture(scope="module")
def pure() -> Comparison:
    methods = ["measured", "measurements", "topdown"]
    return compared(hierarchy_of(epsilon="2", shares=EQUAL), 100, methods)


def test_measurements_are_unbiased_at_every_level(pure: Comparison) -> None:
    measurements = next(result for result in pure.results if result.name == "measurements")
    for level in measurements.levels:
        for metric in level.metrics:
            if metric.better == NEAR_ZERO:
                assert abs(metric.value) <= 5 * metric.standard_error + 1e-9, metric.name
    assert measurements.broken == 0, "counts at the top are large here, and their total is exact"
    assert metric_of(pure, "measurements", 0, "total of a unit").value == 0


def test_measured_tables_are_nearer_where_levels_help_each_other(pure: Comparison) -> None:
    assert metric_of(pure, "TopDown", 0, "error of a cell").is_worse_than(
        metric_of(pure, "measured", 0, "error of a cell")
    )
    assert metric_of(pure, "measurements", 1, "error of a cell").is_worse_than(
        metric_of(pure, "measured", 1, "error of a cell")
    )


class Alternating:
    """A method that is off by one record, up in a block and down in the next."""

    label = TREE_METHODS["measured"].label

    def plan_of(self, hierarchy: Any, stated: Plan, leaves: Ints) -> Plan:
        return stated

    def release(self, plan: Plan, leaves: Ints, rng: Any) -> TreeTables:
        return TREE.summed(leaves + np.where(np.arange(len(leaves)) % 2 == 0, 1, -1)[:, None])


def test_neighbours_and_random_units_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TREE_METHODS, "alternating", Alternating())
    comparison = compared(hierarchy_of(rho="2"), methods=["alternating"])
    names = [metric.name for metric in comparison.results[0].levels[0].metrics]
    assert not any("40" in name for name in names), "there are 4 counties"
    assert metric_of(comparison, "measured", 1, "error of a cell").value == 1
    assert metric_of(comparison, "measured", 1, "a cell over 40 adjacent units").value == 0
    assert metric_of(comparison, "measured", 1, "a cell over 40 random units").value > 0
    assert metric_of(comparison, "measured", 1, "a cell over 120 units, error").value == 0


def test_sums_are_the_same_however_units_are_added() -> None:
    """One unit at a time, as areas are, against all at once; and against sums by hand, left-over units in none."""
    truth, gap = LEAVES[:97], RNG.below(np.full((3, 97, 4), 9)) - 4
    whole, single = LevelTally(truth, 3, SCHEMA), LevelTally(truth, 3, SCHEMA)
    whole.add(truth + gap, slice(None))
    for unit in range(97):
        single.add((truth + gap)[:, [unit]], slice(unit, unit + 1))
    metrics = {metric.name: metric for metric in whole.result.metrics}
    for metric in single.result.metrics:
        assert metric.value == pytest.approx(metrics[metric.name].value, nan_ok=True), metric.name
    by_hand = np.abs(gap[:, :80].reshape(3, 2, 40, 4).sum(axis=2)).mean()
    assert metrics["a cell over 40 adjacent units, error"].value == pytest.approx(by_hand)
    assert metrics["error of a cell"].value == pytest.approx(np.abs(gap).mean())
    by_hand = np.sqrt((gap.sum(axis=2) ** 2).mean())
    assert metrics["root mean square of a total"].value == pytest.approx(by_hand)


# The noise of TopDown under a pure epsilon.


class TooPrecise(TopDownTree):
    """A TopDown that spends twice the budget: the mutant."""

    def release(self, plan: Plan, leaves: Ints, rng: Any) -> TreeTables:
        hierarchy = hierarchy_of(epsilon="4", shares=EQUAL, invariants=())
        return super().release(hierarchy.plan(hierarchy.disclose(leaves)), leaves, rng)


@pytest.mark.parametrize(("method", "is_right"), [(TopDownTree(), True), (TooPrecise(), False)])
def test_topdown_has_the_noise_that_the_budget_buys(method: TopDownTree, is_right: bool) -> None:
    """Of large counts nothing is cut off: blocks of a county vary as their own noise does, and by rounding."""
    hierarchy, leaves = hierarchy_of(epsilon="2", shares=EQUAL, invariants=()), LEAVES + 1_000
    plan, rng = hierarchy.plan(hierarchy.disclose(leaves)), cg.replay_rng("noise of TopDown")
    gaps = np.array([method.release(plan, leaves, rng)[1] - leaves for _ in range(10)]).reshape(10, 4, 30, 4)
    variances = gaps.var(axis=2, ddof=1)  # (release, county, cell)
    error = float(variances.std(ddof=1)) / variances.size**0.5
    surplus = float(variances.mean()) - float(plan.levels[1].noise.variance)
    assert (-5 * error < surplus < 5 * error + 1 / 4) == is_right
