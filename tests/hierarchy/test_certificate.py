"""Theorem H against every pair of listed chains; what fails inside a chain; budgets that leave nothing over."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from brute import Dice
from chain_audit import ORDERS, ROUNDING, SHAPES, Array, Chain, Tally, audit, drawn_chain
from congenial.conditions.queries import Query
from congenial.errors import HierarchyError, PrivacyError
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.plan import Plan
from congenial.privacy.bounds_and_enumerated_losses import conditional_loss, epsilon_at, rho_at_all_orders
from congenial.randomness import replay_rng
from congenial.tree.tree_and_zeros import Tree

TREE = Tree.of_prefixes(["1aa", "1ab", "1ba", "2aa", "2ab"], {"county": 1, "tract": 2}, "block")
ONE = Tree.of_parents({"state": ["S"] * 5, "county": ["1", "1", "1", "2", "2"], "block": list("abcde")})
SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["y", "o"]})
BLOCKS = np.array([[3, 4, 0, 1], [0, 1, 2, 2], [7, 0, 1, 5], [0, 0, 0, 0], [90, 2, 14, 3]])


def planned(tree: Tree = ONE, **asked: object) -> Plan:
    hierarchy = Hierarchy(tree, SCHEMA, **{"invariants": [cg.total()], "method": "conditional", **asked})  # type: ignore[arg-type]
    return hierarchy.plan(hierarchy.disclose(BLOCKS))


def test_divergences_stay_within_their_charges() -> None:
    """`make audit-chain` goes through millions; a bound that left out a level or halved one would be broken."""
    tally = audit((Dice(replay_rng(f"suite {number}")) for number in range(100)), 200_000)
    assert tally.checks >= 200_000
    assert tally.largest <= ROUNDING
    assert tally.nearest > 0.99


def test_a_level_that_is_not_charged_is_noticed() -> None:
    class Mutant(Chain):
        def charges(self, pairs: NDArray[np.int64]) -> Array:
            gaps = np.abs(self.sums[-1][pairs[:, 0]] - self.sums[-1][pairs[:, 1]])
            whole: Array = super().charges(pairs) - float(self.precisions[-1]) * (gaps**2).sum(axis=1) / 4
            return whole

    tally = Tally()
    tally.add(Mutant(SHAPES[1], 2, 2, (Fraction(1), Fraction(1, 2)), (3, 3)))
    assert tally.largest > 0.01


def test_real_orders_have_the_larger_bound() -> None:
    for number in range(8):
        chain = drawn_chain(Dice(replay_rng(f"real {number}")), 2, is_bounded=True, has_totals=number % 2 == 0)
        pairs = chain.pairs
        star = np.zeros(len(pairs))
        for tables, precision in zip(chain.sums, chain.precisions, strict=True):
            squares = ((tables[pairs[:, 0]] - tables[pairs[:, 1]]) ** 2).sum(axis=1)
            bounds = {int(n): float(rho_at_all_orders(precision * int(n) / 2)) for n in np.unique(squares)}
            star += np.array([bounds[int(n)] for n in squares])
        for order in (1.1, 1.5, 2.3, 6.7):
            assert (chain.divergences(pairs, order) - order * star).max() <= ROUNDING


def _two_children(exponent: int, precision: float, first: tuple[int, int], x: int) -> Array:
    """Two children far from zero, given a sum that their confidential counts do not have."""
    y = np.arange(x + 1)
    logs = -precision / exponent * (abs(y - first[0]) ** exponent + abs(x - y - first[1]) ** exponent)
    log_law: Array = logs - np.log(np.exp(logs - logs.max()).sum()) - logs.max()
    return log_law


def test_equalities_are_not_free_at_all_orders_inside_a_chain() -> None:
    """The certificate for equalities alone, rho at every order, is broken when s does not add up to x."""
    first, second = _two_children(2, 4, (9, 8), 18), _two_children(2, 4, (8, 9), 18)
    logs = {order: order * first + (1 - order) * second for order in (1.2, 2.0)}
    ratio = {order: np.log(np.exp(log_ratios).sum()) / (order - 1) / (order * 4) for order, log_ratios in logs.items()}
    assert ratio[1.2] > 1.13
    assert ratio[2.0] <= 1 + 1e-12


def test_double_geometric_noise_keeps_no_pure_loss_inside_a_chain() -> None:
    """Neither D, nor D + log phi at each level; 2 D holds, and D^2 / 2 in rho."""
    first, second = _two_children(1, 4, (9, 9), 18), _two_children(1, 4, (8, 9), 18)
    assert abs(first - second).max() > 1.8 * 4
    n_above = 0
    for number in range(30):
        chain = drawn_chain(Dice(replay_rng(f"pure {number}")), 1, is_bounded=True, has_totals=False)
        pairs = chain.pairs
        losses, certified, doubled = chain.losses(pairs), np.zeros(len(pairs)), np.zeros(len(pairs))
        for tables, precision in zip(chain.sums, chain.precisions, strict=True):
            sizes = abs(tables[pairs[:, 0]] - tables[pairs[:, 1]]).sum(axis=1)
            bounds = {int(n): float(conditional_loss(int(n) * precision, precision)) for n in np.unique(sizes)}
            certified += np.array([bounds[int(n)] for n in sizes])
            doubled += 2 * float(precision) * sizes
        n_above += int((losses > certified + 1e-9).sum())
        assert (losses <= doubled + 1e-9).all()
    assert n_above > 0


@pytest.mark.parametrize("neighbours", ["bounded", "unbounded"])
@pytest.mark.parametrize("noise", ["discrete_gaussian", "double_geometric"])
@pytest.mark.parametrize("invariants", [[], [cg.total()], [cg.margin("sex")], [cg.margin("sex"), cg.margin("age")]])
@pytest.mark.parametrize("tree", [ONE, TREE], ids=["one at the top", "two at the top"])
def test_a_budget_is_spent_to_its_last_digits(
    tree: Tree, invariants: list[object], noise: str, neighbours: str
) -> None:
    if tree is TREE and (len(invariants) == 2 or (neighbours == "unbounded" and invariants)):
        with pytest.raises(PrivacyError, match="no change of one record is possible in any area"):
            planned(tree, invariants=invariants, noise=noise, neighbours=neighbours, rho="2.56")
        return
    plan = planned(tree, invariants=invariants, noise=noise, neighbours=neighbours, rho="2.56")
    cost = plan.certificate.rho
    assert cost is not None
    assert 0 <= Fraction("2.56") - cost < Fraction(1, 10**9)
    assert plan.certificate.loss is None
    assert plan.certificate.orders == ("integer" if noise == "discrete_gaussian" else "all")
    assert plan.spent.currency == "rho"


def test_precisions_and_charges_one_by_one() -> None:
    precisions = {"state": "1/2", "county": "1/3", "block": "1/5"}
    plan = planned(precisions=precisions)
    assert plan.certificate.kind == "chain_gaussian"
    assert plan.certificate.rho == Fraction(1, 2) + Fraction(1, 3) + Fraction(1, 5)
    plan = planned(precisions=precisions, invariants=[], neighbours="unbounded")
    assert plan.certificate.rho == (Fraction(1, 2) + Fraction(1, 3) + Fraction(1, 5)) / 2
    plan = planned(precisions=precisions, neighbours="unbounded")  # one comes and one goes
    assert plan.certificate.rho == Fraction(1, 2) + Fraction(1, 3) + Fraction(1, 5)
    # Two records change together, perhaps in the same way.
    plan = planned(precisions=precisions, invariants=[cg.margin("sex"), cg.margin("age")])
    assert plan.certificate.k == 2
    top = plan.pricing.certificate(plan.law.precisions, plan.law.zero_weights)
    assert (plan.certificate.rho or 0) - (top.rho or 0) == 4 * (Fraction(1, 3) + Fraction(1, 5))
    plan = planned(precisions=precisions, noise="double_geometric")
    assert plan.certificate.kind == "chain_double_geometric"
    assert plan.certificate.rho == Fraction(1, 2) + 2 * (Fraction(1, 9) + Fraction(1, 25))


def test_shares_and_epsilon_at_a_delta() -> None:
    plan = planned(rho="1")
    assert [float(noise.precision) for noise in plan.law.noises_below] == pytest.approx([0.35, 0.3])
    plan = planned(rho="1", shares={"state": "1", "county": "2", "block": "5"})
    assert [float(noise.precision) for noise in plan.law.noises_below] == pytest.approx([0.25, 0.625])
    plan = planned(epsilon="10", delta="1e-10")
    assert 10 - Fraction(1, 10**9) < epsilon_at(plan.certificate.rho or Fraction(0), Fraction(1, 10**10)) <= 10


def test_what_a_tree_refuses() -> None:
    with pytest.raises(PrivacyError, match="no budget in pure epsilon"):
        planned(epsilon="1")
    with pytest.raises(PrivacyError, match="no budget in pure epsilon"):
        planned(epsilon="1", noise="double_geometric")
    with pytest.raises(PrivacyError, match="and not both"):
        planned(rho="1", precisions={"state": 1, "county": 1, "block": 1})
    with pytest.raises(PrivacyError, match="county has none"):
        planned(rho="1", shares={"state": 1, "block": 1})
    with pytest.raises(HierarchyError, match="did you mean 'county'"):
        planned(rho="1", shares={"state": 1, "count": 1, "block": 1})
    with pytest.raises(HierarchyError, match="not negative"):
        planned(rho="1", invariants=[cg.total(), cg.bounds(None, 500)])
    with pytest.raises(HierarchyError, match="too coarse to be shared out"):
        planned(precisions={"state": "1/1000", "county": 1, "block": 1}, noise="double_geometric")
    with pytest.raises(HierarchyError, match="laplace"):
        planned(rho="1", noise="laplace")
    with pytest.raises(PrivacyError, match="a budget of 0"):
        planned(rho="0")
    assert ORDERS[0] == 2


PAIR = cg.Schema({"va": ["y", "o"]})
FOUR = Tree.of_parents({"state": ["S"] * 4, "county": list("1122"), "block": list("abcd")})


def pair_plan(tree: Tree, invariants: dict[str, list[Query]], **asked: object) -> Plan:
    precisions = dict.fromkeys(tree.levels, "1")
    asked = {"precisions": precisions, "method": "conditional", **asked}
    hierarchy = Hierarchy(tree, PAIR, invariants=invariants, **asked)  # type: ignore[arg-type]
    return hierarchy.plan(hierarchy.disclose(np.ones((tree.n_leaves, 2), np.int64)))


def test_promises_to_one_record_are_not_empty() -> None:
    """Exact numbers under which no record can change alone: pairs two records apart would be above the charge."""
    grown = cg.total({"va": "o"})
    for relation in ("bounded", "unbounded"):
        with pytest.raises(PrivacyError, match="no cell and no leaf"):
            _ = pair_plan(FOUR, {"state": [grown], "block": [cg.total()]}, neighbours=relation).certificate
    only_children = Tree.of_parents({"state": ["S"] * 2, "county": list("12"), "block": list("ab")})
    with pytest.raises(PrivacyError, match="no cell and no leaf"):
        _ = pair_plan(only_children, {"state": [grown], "county": [cg.total()]}).certificate
    assert pair_plan(FOUR, {"state": [grown], "county": [cg.total()]}).certificate.k == 1, "a leaf can change"


def test_a_fixed_top_is_charged_for_the_records_that_can_move() -> None:
    """Records come and go, their number and that of adults published: one goes and one comes, so |z|^2 is 2."""
    exact = {"state": [cg.total(), cg.total({"va": "o"})]}
    certificate = pair_plan(FOUR, exact, neighbours="unbounded").certificate
    assert (certificate.k, certificate.rho) == (2, Fraction(2)), "a change of leaf costs p at each of two levels"
    assert pair_plan(FOUR, exact).certificate.rho == 2
    chain = Chain(
        [((0, 1, 2, 3),), ((0, 1), (2, 3)), ((0,), (1,), (2,), (3,))],
        2,
        2,
        (Fraction(1),) * 3,
        (4, 4),
        exact=0,
        totals=(4, 2),
        sets=((0, 1), (1,)),
    )
    assert max(float(chain.divergences(chain.pairs, order).max()) / order for order in ORDERS) <= 2 + ROUNDING
    assert float(chain.divergences(chain.pairs, 2).max()) / 2 > 0.9, "a quarter of the charge would be too little"
