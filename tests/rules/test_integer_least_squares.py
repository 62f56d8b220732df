"""Least squares by the solver against brute force: weights, ranges, coefficients, gaps, and no solution."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from agreement import own_rng
from congenial.conditions.rows_and_intervals import Interval
from congenial.errors import UndecidedError
from congenial.randomness import RandomStream
from congenial.rules.integer_least_squares import LeastSquares, Variable
from drawn import drawn
from rules.drawn_systems import one, whole


def drawn_problem(rng: RandomStream) -> LeastSquares:
    n = one(rng, 2, 5)
    point = whole(rng, 0, 3, n)
    variables = []
    for value in point.tolist():
        limits = Interval(0, None if one(rng, 0, 2) else value + one(rng, 0, 2))
        weight = one(rng, 0, 3)
        variables.append(Variable(weight, value + one(rng, -3, 3), limits, one(rng, -(2**23), 2**23)))
    rows = []
    for _ in range(one(rng, 1, 3)):
        times = np.array([0, 1, 1, 2, -1])[whole(rng, 0, 4, n)]
        terms = {place: int(t) for place, t in enumerate(times) if t}
        value = int(times @ point)
        if terms:
            is_equality = one(rng, 0, 2)
            rows.append((terms, Interval(value, value) if is_equality else Interval(value - 1, value + one(rng, 0, 2))))
    # A limit for all, so that numbers without cost end somewhere.
    rows.append((dict.fromkeys(range(n), 1), Interval(None, int(point.sum()) + 2)))
    return LeastSquares(tuple(variables), tuple(rows))


def test_against_brute_force(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for _ in range(drawn(50)):
        problem = drawn_problem(rng)
        most = int(problem.rows[-1][1].high or 0)
        sides = [range(min(most, most if v.limits.high is None else v.limits.high) + 1) for v in problem.variables]
        keys = [(problem.cost(p), problem.word(p)) for p in itertools.product(*sides) if problem.holds(p)]
        solution = problem.solution()
        assert problem.holds(solution.point)
        assert (solution.cost, solution.word) == min(keys)
        assert (problem.cost(solution.point), problem.word(solution.point)) == min(keys)
        assert problem.least_cost() == min(keys)[0]


def test_a_gap_between_point_and_bound_is_closed() -> None:
    """Three cells in three pairs, each pair at most 1: reals have halves, integers do not."""
    rows = tuple(({a: 1, b: 1}, Interval(None, 1)) for a, b in itertools.combinations(range(3), 2))
    problem = LeastSquares(tuple(Variable(1, 3, Interval(0, None), word) for word in (5, -4, 3)), rows)
    solution = problem.solution()
    assert solution.point == [0, 1, 0]
    assert solution.cost == 9 + 4 + 9


def test_an_optimum_outside_the_first_window() -> None:
    rows = (({0: 1, 1: 1}, Interval(1000, 1000)),)
    problem = LeastSquares((Variable(1, -500, Interval(0, None), 0), Variable(3, 90, Interval(0, None), 0)), rows)
    costs = [problem.cost([value, 1000 - value]) for value in range(1001)]
    assert problem.solution().cost == min(costs)


def test_no_point_at_all_is_said() -> None:
    rows = (({0: 2, 1: 2}, Interval(3, 3)),)
    with pytest.raises(UndecidedError):
        LeastSquares((Variable(1, 0, Interval(0, None), 0),) * 2, rows).solution()


def test_least_at_a_price() -> None:
    variable = Variable(2, 5, Interval(0, 9), 0)
    for price in map(Fraction, range(-30, 30)):
        values = {value: variable.cost(value) - price * value for value in range(10)}
        least = min(values.values())
        assert variable.least(price) is not None
        assert variable.least(price)[0] == least  # type: ignore[index]
        same = [value for value, key in values.items() if key == least]
        assert variable.values_of_least(price) == Interval(min(same), max(same))
    assert Variable(0, 5, Interval(0, None), 0).least(Fraction(1)) is None
