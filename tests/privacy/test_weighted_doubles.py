"""Doubles decide the first level of a group as balls do, or not at all."""

from fractions import Fraction
from functools import partial

import flint
import pytest

from congenial.exact import ball, double_above_exp
from congenial.privacy.weighted_zeros.group_cost import (
    BITS,
    SIDES,
    OtherCells,
    _empty,
    first_level_holds,
    levels_hold,
    smallest_likely,
    tail_from,
)

CASES = [
    (k, Fraction(double_above_exp(Fraction(precision))), Fraction(weight))
    for k, precision, weight in [
        *((0, "0.4", "3"), (2, "0.396", "4.968"), (17, "0.418", "5.031"), (44, "1.785", "2.033")),
        *((28, "0.103", "17.9"), (3, "0.05", "35"), (21, "5", "1.01"), (6, "12", "1.001")),
    ]
]


def by_balls(side: str, k: int, base: Fraction, weight: Fraction, excess: Fraction) -> bool:
    terms = OtherCells.lower_terms if side == "lower" else OtherCells.upper_terms
    with flint.ctx.workprec(BITS):
        return levels_hold(_empty(k, base, weight), terms, ball(excess), is_quick=True)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("k", "base", "weight"), CASES)
def test_doubles_decide_as_balls_do(side: str, k: int, base: Fraction, weight: Fraction) -> None:
    """Around the smallest excess that holds, where decisions are closest."""
    edge = smallest_likely(partial(by_balls, side, k, base, weight)) or Fraction(1)
    n_decided, asked = 0, [edge * Fraction(times) for times in ("0.2", "0.9", "0.999", "1", "1.001", "1.1", "5")]
    for excess in asked:
        found = first_level_holds(side, k, float(base), float(weight), float(excess), tail_from(base, k))
        if found is not None:
            n_decided += 1
            assert found == by_balls(side, k, base, weight, excess)
    assert n_decided == len(asked) or base < Fraction(1, 5)  # far down, doubles leave it to balls


def test_another_weight_would_be_noticed() -> None:
    """The comparison kills a mutant: a weight of zero that is off by a hundredth."""
    k, base, weight = CASES[1]
    edges = {side: smallest_likely(partial(by_balls, side, k, base, weight)) for side in SIDES}
    wrong = [
        first_level_holds(side, k, float(base), float(weight) * off, float(excess) * 1.001, tail_from(base, k))
        for side, excess in edges.items()
        if excess is not None
        for off in (0.99, 1.01)
    ]
    assert False in wrong
