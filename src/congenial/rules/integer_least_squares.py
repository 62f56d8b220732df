"""Integer least squares under any linear conditions, one unit at a time, by HiGHS; the optimum is proven in integers.

    minimise  sum weight (s - target)^2,  then  sum word s,   over integers s within limits and rows within limits

The solver works in floats, on costs that are linear between integers: exact at integers, and outside a window around
the present point less than the truth. A point that it proposes is put into the rows in Python's integers, and its
multipliers give a bound that is computed in fractions (weak duality: true whatever they are). Where point and bound
meet, the optimum is proven, and the numbers that may still vary are known exactly: those that cost the same at the
multipliers. Where conditions are not unimodular, point and bound may stay apart; then a finished branch and bound of
the solver, whose costs are integers and whose gap is below one, closes the gap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor, inf
from typing import Any, NamedTuple

import numpy as np

from congenial.conditions.rows_and_intervals import Interval
from congenial.errors import UndecidedError

_WINDOW = 4
_ROUNDS = 60
_NODES = 200_000


@dataclass(frozen=True)
class Variable:
    """An integer with its cost ``weight (s - target)^2``, and the word that decides between equals."""

    weight: int
    target: int
    limits: Interval
    word: int

    def cost(self, value: int) -> int:
        """Return its cost."""
        return self.weight * (value - self.target) ** 2

    @property
    def nearest(self) -> int:
        """The value of least cost, as far as its limits allow."""
        low, high = self.limits.low, self.limits.high
        raised = self.target if low is None else max(self.target, low)
        return raised if high is None else min(raised, high)

    def least(self, price: Fraction) -> tuple[Fraction, int] | None:
        """Return the least ``cost - price * value`` and a value that has it; None where there is none."""
        low, high = self.limits.low, self.limits.high
        if self.weight == 0:
            end = low if price < 0 else high if price > 0 else self.nearest
            return None if end is None else (-price * end, end)
        value = floor(self.target + price / (2 * self.weight) + Fraction(1, 2))
        value = value if low is None else max(value, low)
        value = value if high is None else min(value, high)
        return self.cost(value) - price * value, value

    def values_of_least(self, price: Fraction) -> Interval:
        """Return all values of the least ``cost - price * value``, where there is one."""
        best = self.least(price)
        if best is None or (self.weight == 0 and price == 0):
            return self.limits
        least, value = best
        same = [
            other
            for other in (value - 1, value, value + 1)
            if other in self.limits and self.cost(other) - price * other == least
        ]
        return Interval(min(same), max(same))


class Solution(NamedTuple):
    """The integers, what they cost, and the sum of their words."""

    point: list[int]
    cost: int
    word: int


class _Bound(NamedTuple):
    """A proven lower bound, None if there is none, and the multipliers of rows that prove it."""

    value: Fraction | None
    multipliers: list[Fraction]


@dataclass(frozen=True)
class LeastSquares:
    """Variables, and rows over their numbers with limits.

    Examples
    --------
    >>> rows = [({0: 1, 1: 1, 2: 1}, Interval(4, 4)), ({0: 1, 1: -1}, Interval(0, 1))]
    >>> cells = [Variable(1, target, Interval(0, None), word) for target, word in ((0, 5), (3, -2), (2, 1))]
    >>> LeastSquares(tuple(cells), tuple(rows)).solution()
    Solution(point=[1, 1, 2], cost=5, word=5)
    """

    variables: tuple[Variable, ...]
    rows: tuple[tuple[Mapping[int, int], Interval], ...]

    def solution(self) -> Solution:
        """Return the optimum; raises `UndecidedError` where none was proven."""
        point, bound = self._least_cost()
        cost = self.cost(point)
        if bound.value == cost:
            tied = self._equals(bound)
            proposal, multipliers = tied._proposal(by_word=True)
            if proposal is not None and tied._bound(multipliers, by_word=True).value == tied.word(proposal):
                return self._checked(proposal, cost)
        return self._checked(self._searched(at_cost=cost), cost)

    def least_cost(self) -> int:
        """Return the least sum of costs."""
        return self.cost(self._least_cost()[0])

    def cost(self, point: Sequence[int]) -> int:
        """Return the sum of costs."""
        return sum(variable.cost(value) for variable, value in zip(self.variables, point, strict=True))

    def word(self, point: Sequence[int]) -> int:
        """Return the sum of words, each as often as its variable is large."""
        return sum(variable.word * value for variable, value in zip(self.variables, point, strict=True))

    def holds(self, point: Sequence[int]) -> bool:
        """Whether integers are within all limits."""
        return all(value in variable.limits for variable, value in zip(self.variables, point, strict=True)) and all(
            _value(terms, point) in limits for terms, limits in self.rows
        )

    def _checked(self, point: list[int], cost: int) -> Solution:
        if not self.holds(point) or self.cost(point) != cost:
            raise UndecidedError("a solver proposed numbers that are not what it says of them; there is no table")
        return Solution(point, cost, self.word(point))

    def _least_cost(self) -> tuple[list[int], _Bound]:
        """Return a point of least cost, and a bound; they may be apart where the solver's search closed the gap."""
        proposal, multipliers = self._proposal(by_word=False)
        bound = self._bound(multipliers, by_word=False)
        if proposal is None or bound.value is None or self.cost(proposal) > ceil(bound.value):
            proposal = self._searched(at_cost=None)
        return self._checked(proposal, self.cost(proposal)).point, bound

    def _proposal(self, *, by_word: bool) -> tuple[list[int] | None, list[float]]:
        """Return the optimum of real numbers if it is one of integers, and its multipliers."""
        base, width = [variable.nearest for variable in self.variables], _WINDOW
        for _ in range(_ROUNDS):
            answer = _Window(self, base, width).solved(by_word=by_word)
            base = self._inside(answer.values)
            if by_word or not answer.is_outside:
                is_whole = max(map(abs, (a - b for a, b in zip(answer.values, base, strict=True))), default=0) < 1e-6
                return (base if is_whole and self.holds(base) else None), answer.multipliers
            width *= 2
        raise UndecidedError("the least squares of a unit have no end within the window of the search")

    def _searched(self, at_cost: int | None) -> list[int]:
        """Return a point of least cost, or of the least sum of words at a cost, by the solver's branch and bound."""
        base, width = self._inside(_Window(self, [v.nearest for v in self.variables], _WINDOW).solved().values), _WINDOW
        for _ in range(_ROUNDS):
            answer = _Window(self, base, width, at_cost).solved(by_word=at_cost is not None, is_integer=True)
            base = self._inside(answer.values)
            if not answer.is_outside:
                return base
            width *= 2
        raise UndecidedError("the least squares of a unit have no end within the window of the search")

    def _inside(self, values: Sequence[float]) -> list[int]:
        return [
            replace(variable, target=round(value)).nearest
            for variable, value in zip(self.variables, values, strict=True)
        ]

    def _prices(self, multipliers: Sequence[Fraction]) -> list[Fraction]:
        prices = [Fraction(0)] * len(self.variables)
        for (terms, _), multiplier in zip(self.rows, multipliers, strict=True):
            for place, times in terms.items():
                prices[place] += multiplier * times
        return prices

    def _bound(self, multipliers: Sequence[float], *, by_word: bool) -> _Bound:
        """Return the better bound of the multipliers rounded to simple fractions and as they are."""
        exact = [Fraction(value) for value in multipliers]
        bounds = []
        for choice in ([value.limit_denominator(1000) for value in exact], exact):
            bounds.append(_Bound(self._dual(choice, by_word=by_word), choice))
        return max(bounds, key=lambda bound: -inf if bound.value is None else bound.value)

    def _dual(self, multipliers: Sequence[Fraction], *, by_word: bool) -> Fraction | None:
        """Return ``sum_r m_r end_r + sum_i min (cost_i - price_i s_i)``, which no point is below; None: no bound."""
        bound = Fraction(0)
        for (_, limits), multiplier in zip(self.rows, multipliers, strict=True):
            end = limits.low if multiplier > 0 else limits.high if multiplier < 0 else 0
            if end is None:
                return None
            bound += multiplier * end
        for variable, price in zip(self.variables, self._prices(multipliers), strict=True):
            least = replace(variable, weight=0).least(price - variable.word) if by_word else variable.least(price)
            if least is None:
                return None
            bound += least[0]
        return bound

    def _equals(self, bound: _Bound) -> "LeastSquares":
        """Return all points whose cost is the bound: rows with a multiplier at their end, numbers of least price."""
        rows = []
        for (terms, limits), multiplier in zip(self.rows, bound.multipliers, strict=True):
            end = limits.low if multiplier > 0 else limits.high
            rows.append((terms, Interval(end, end) if multiplier else limits))
        variables = [
            replace(variable, limits=variable.values_of_least(price))
            for variable, price in zip(self.variables, self._prices(bound.multipliers), strict=True)
        ]
        return LeastSquares(tuple(variables), tuple(rows))


def _value(terms: Mapping[int, int], point: Sequence[int]) -> int:
    return sum(times * point[place] for place, times in terms.items())


class _Answer(NamedTuple):
    """What the solver says: real numbers, multipliers of the rows, whether any number is outside its window."""

    values: list[float]
    multipliers: list[float]
    is_outside: bool


class _Segment(NamedTuple):
    """A stretch of a variable where each unit more costs the same: from its base, up to `high` more or `low` less."""

    variable: int
    slope: int
    low: float
    high: float
    is_tail: bool


class _Window:
    """Costs that are linear between integers, around a base: exact inside the window, below the truth outside."""

    def __init__(self, problem: LeastSquares, base: Sequence[int], width: int, at_cost: int | None = None) -> None:
        self._problem, self._base, self._at_cost = problem, base, at_cost
        self._segments: list[_Segment] = []
        for number, (variable, start) in enumerate(zip(problem.variables, base, strict=True)):
            self._segments += _segments(number, variable, start, width)

    def solved(self, *, by_word: bool = False, is_integer: bool = False) -> _Answer:
        """Minimise cost, or words, over the segments."""
        import highspy

        problem, base, segments = self._problem, self._base, self._segments
        if by_word and self._at_cost is None:  # limits say it all
            segments = [_whole(number, variable, base[number]) for number, variable in enumerate(problem.variables)]
        places: dict[int, list[int]] = {}
        for column, segment in enumerate(segments):
            places.setdefault(segment.variable, []).append(column)
        lines = []
        for terms, limits in problem.rows:
            entries = {column: times for number, times in terms.items() for column in places.get(number, ())}
            lines.append((entries, limits.shifted(-_value(terms, base))))
        if self._at_cost is not None:
            slopes = {column: segment.slope for column, segment in enumerate(segments) if segment.slope}
            lines.append((slopes, Interval(None, self._at_cost - problem.cost(base))))
        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(segments), len(lines)
        costs = [problem.variables[some.variable].word if by_word else some.slope for some in segments]
        program.col_cost_ = np.array(costs, float)
        program.col_lower_ = np.array([segment.low for segment in segments], float)
        program.col_upper_ = np.array([segment.high for segment in segments], float)
        program.row_lower_ = np.array([-inf if line.low is None else line.low for _, line in lines], float)
        program.row_upper_ = np.array([inf if line.high is None else line.high for _, line in lines], float)
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = np.cumsum([0, *(len(entries) for entries, _ in lines)]).astype(np.int32)
        program.a_matrix_.index_ = np.array([column for entries, _ in lines for column in entries], np.int32)
        program.a_matrix_.value_ = np.array([times for entries, _ in lines for times in entries.values()], float)
        if is_integer:
            program.integrality_ = [highspy.HighsVarType.kInteger] * len(segments)
        solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        options = {"output_flag": False, "threads": 1, "mip_rel_gap": 0.0, "mip_abs_gap": 0.5, "mip_max_nodes": _NODES}
        for option, value in options.items():
            solver.setOptionValue(option, value)
        solver.passModel(program)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            raise UndecidedError(
                "the least squares of a unit were not solved: the solver says"
                f" {solver.modelStatusToString(solver.getModelStatus())!r}"
            )
        answer = solver.getSolution()
        steps = list(answer.col_value)
        values = [float(start) for start in base]
        for segment, step in zip(segments, steps, strict=True):
            values[segment.variable] += step
        is_outside = any(segment.is_tail and abs(step) > 1e-6 for segment, step in zip(segments, steps, strict=True))
        return _Answer(values, list(answer.row_dual)[: len(problem.rows)], is_outside)


def _whole(number: int, variable: Variable, base: int) -> _Segment:
    ends = variable.limits.shifted(-base)
    low, high = -inf if ends.low is None else ends.low, inf if ends.high is None else ends.high
    return _Segment(number, 0, low, high, is_tail=False)


def _segments(number: int, variable: Variable, base: int, width: int) -> list[_Segment]:
    """Return single units within the window, then the rest up to the limits at the cost of the next unit."""
    whole = _whole(number, variable, base)
    if variable.weight == 0:
        return [whole]
    out = []
    for sign, end in ((1, whole.high), (-1, -whole.low)):
        n_units = int(min(width, end))
        costs = [variable.cost(base + sign * k) for k in range(width + 2)]
        slopes = [sign * (further - cost) for cost, further in pairwise(costs)]
        steps = [(1.0, slope, False) for slope in slopes[:n_units]]
        if end > n_units:
            steps.append((end - n_units, slopes[n_units], True))
        out += [
            _Segment(number, slope, 0 if sign > 0 else -size, size if sign > 0 else 0, is_tail)
            for size, slope, is_tail in steps
        ]
    return out
