"""Trees released by other methods: they add up, keep what they say they keep, and spend what the chain spends."""

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import congenial as cg
from agreement import ALPHA, N_DRAWS, p_value
from congenial.plan import Plan
from congenial.randomness import replay_rng
from congenial.study.baselines.topdown_and_leaves_alone import LeavesAlone, TopDownTree, TreeBaseline, leaf_noise

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["u18", "v18"]})
CODES = [f"{county}{tract}{block}" for county in "123" for tract in "ab" for block in range(1, 2 + int(county) * 3)]
TREE = cg.Tree.of_prefixes(CODES, {"county": 1, "tract": 2}, "block")
METHODS: list[TreeBaseline] = [TopDownTree(), LeavesAlone()]


def counts_of(seed: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    rng = replay_rng(seed)
    shape = (len(CODES), 4)
    return rng.below(np.full(shape, 12)) * rng.below(np.full(shape, 2))


def planned(leaves: np.ndarray[Any, np.dtype[np.int64]], **asked: Any) -> Plan:
    hierarchy = cg.Hierarchy(TREE, SCHEMA, **asked)
    return hierarchy.plan(hierarchy.disclose(leaves))


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label.name)
@pytest.mark.parametrize("noise", ["discrete_gaussian", "double_geometric"])
@pytest.mark.parametrize("invariants", [[], [cg.total()], [cg.total(), cg.margin("sex")]], ids=len)
@pytest.mark.parametrize("has_zeros", [False, True])
def test_tables_add_up(method: TreeBaseline, noise: str, invariants: list[Any], has_zeros: bool) -> None:
    leaves = counts_of("add up")
    zeros = cg.Zeros.of_leaves(TREE, leaves == 0) if has_zeros else None
    plan = planned(leaves, invariants=invariants, rho="2", noise=noise, zeros=zeros)
    truth = TREE.summed(leaves)
    for number in range(5):
        released = method.release(plan, leaves, replay_rng(number))
        assert plan.law.below.hold(released)
        sums = TREE.summed(released[-1])
        assert all(np.array_equal(one, other) for one, other in zip(released, sums, strict=True))
        if invariants:
            np.testing.assert_array_equal(released[0].sum(axis=1), truth[0].sum(axis=1))
        if len(invariants) > 1 and method.label.keeps_invariants:
            sexes = [one[0].reshape(-1, 2, 2).sum(axis=2) for one in (released, truth)]
            np.testing.assert_array_equal(*sexes)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.label.name)
def test_without_noise_the_truth_comes_out(method: TreeBaseline) -> None:
    leaves = counts_of("truth")
    plan = planned(leaves, invariants=[cg.total()], precisions=dict.fromkeys(TREE.levels, "600"))
    for one, other in zip(method.release(plan, leaves, replay_rng(1)), TREE.summed(leaves), strict=True):
        np.testing.assert_array_equal(one, other)


def test_topdown_measures_with_the_noise_of_the_plan() -> None:
    """Far from zero a child is off by its own noise and rounding; a precision that is 20 % off would show."""
    tree = cg.Tree.of_prefixes([f"1{leaf:05}" for leaf in range(20_000)], {"state": 1}, "block")
    leaves = np.full((20_000, 4), 1_000)
    hierarchy = cg.Hierarchy(tree, SCHEMA, rho="1/2", shares={"state": 1, "block": 4})
    plan = hierarchy.plan(hierarchy.disclose(leaves))
    assert float(plan.levels[1].noise.precision) == pytest.approx(0.4)
    off = TopDownTree().release(plan, leaves, replay_rng(1))[-1] - leaves
    assert off.var() == pytest.approx(2.5, rel=0.2)
    assert 2.5 * 0.97 < off.var() < 2.5 + 0.25 + 0.08, "rounding adds at most a quarter"


@pytest.mark.parametrize("neighbours", ["bounded", "unbounded"])
@pytest.mark.parametrize("invariants", [[], [cg.total()]], ids=len)
def test_leaves_alone_cost_what_the_chain_costs(neighbours: str, invariants: list[Any]) -> None:
    leaves = counts_of("cost")
    tree = cg.Tree.of_prefixes([f"9{code}" for code in CODES], {"state": 1, "county": 2}, "block")
    hierarchy = cg.Hierarchy(tree, SCHEMA, invariants=invariants, rho="2", neighbours=neighbours)
    plan = hierarchy.plan(hierarchy.disclose(leaves))
    factor = {"bounded": Fraction(1), "unbounded": Fraction(2)}[neighbours]
    if neighbours == "unbounded" and invariants:
        factor = 4 / Fraction(plan.certificate.k) ** 2
    assert plan.certificate.rho is not None
    assert float(leaf_noise(plan).precision) == pytest.approx(float(factor * plan.certificate.rho), rel=1e-12)
    assert leaf_noise(plan).precision <= factor * plan.certificate.rho


@pytest.mark.parametrize("has_total", [False, True])
def test_leaves_alone_have_their_conditional_law(has_total: bool) -> None:
    """Two leaves of two cells under each of many units at the top, against every outcome."""
    n_tops = 20_000
    tree = cg.Tree.of_prefixes([f"{top:05}{leaf}" for top in range(n_tops) for leaf in "ab"], {"county": 5}, "block")
    schema, counts = cg.Schema({"sex": ["f", "m"]}), np.array([[0, 2], [1, 0]])
    leaves = np.tile(counts, (n_tops, 1))
    hierarchy = cg.Hierarchy(tree, schema, invariants=[cg.total()] if has_total else [], rho="1")
    plan = hierarchy.plan(hierarchy.disclose(leaves))
    noise = leaf_noise(plan)
    outcomes = [one for one in product(range(10), repeat=4) if sum(one) == 3 or not has_total]
    weights = np.array([float(noise.pmf(np.array(one) - counts.reshape(-1)).prod()) for one in outcomes])
    number = {one: place for place, one in enumerate(outcomes)}
    drawn = np.concatenate(
        [LeavesAlone().release(plan, leaves, replay_rng(f"law {i}"))[-1] for i in range(N_DRAWS // n_tops)]
    )
    found = np.array([number.get(tuple(line), -1) for line in drawn.reshape(-1, 4).tolist()])
    law = weights / weights.sum()
    assert p_value(found, law) > ALPHA
    wrong = weights**1.1 / (weights**1.1).sum()
    assert p_value(found, wrong) < ALPHA, "a tenth more precise"
