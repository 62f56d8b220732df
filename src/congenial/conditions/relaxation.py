"""Linear relaxations solved in floats, their answers proven in exact fractions.

A solver's multipliers are only a suggestion: whatever they are, weak duality makes them a bound, and the bound is
computed here in exact arithmetic. Floats decide how good it is, never whether it is true.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from congenial.arrays import Floats
from congenial.conditions.groups import Box, GroupedRow

_MAX_NODES = 2_000


@dataclass(frozen=True)
class Relaxed:
    """What is known of a relaxation: a proven lower bound (None: none), and the solver's point when it found one."""

    bound: Fraction | None
    point: Floats | None
    seems_unlimited: bool = False


def relax(rows: Sequence[GroupedRow], box: Box, objective: dict[int, int]) -> Relaxed:
    """Minimise the objective over the real points of a system."""
    matrix, low, high = _float_rows(rows, len(box[0]))
    cost = np.zeros(len(box[0]))
    cost[list(objective)] = list(objective.values())
    solution = _solve(cost, matrix, (low, high), _float_box(box))
    if solution.point is None:
        return Relaxed(None, None, seems_unlimited=solution.is_unlimited)
    return Relaxed(best_dual_bound(rows, box, objective, solution.multipliers), solution.point)


def infeasibility_multipliers(rows: Sequence[GroupedRow], box: Box) -> Floats | None:
    """Return multipliers that may prove the relaxation empty: those of the least total violation."""
    matrix, low, high = _float_rows(rows, len(box[0]))
    n_rows, n = matrix.shape
    slack, (box_low, box_high) = np.eye(n_rows), _float_box(box)
    limits = np.concatenate([box_low, np.zeros(2 * n_rows)]), np.concatenate([box_high, np.full(2 * n_rows, np.inf)])
    cost = np.concatenate([np.zeros(n), np.ones(2 * n_rows)])
    solution = _solve(cost, np.hstack([matrix, slack, -slack]), (low, high), limits)
    return None if solution.point is None else solution.multipliers


def nearest_integers(rows: Sequence[GroupedRow], box: Box, target: Floats, weights: Floats) -> list[int] | None:
    """Return an integer point with a small ``sum weights |y - target|`` by a bounded search; None if none was found.

    The solver works in floats: whoever needs the point substitutes it.
    """
    matrix, low, high = _float_rows(rows, len(box[0]))
    n, (box_low, box_high) = len(target), _float_box(box)
    distance = np.hstack([np.eye(n), -np.eye(n), np.eye(n)])  # y - above + below = target
    stacked = np.vstack([np.hstack([matrix, np.zeros((len(matrix), 2 * n))]), distance])
    limits = np.concatenate([box_low, np.zeros(2 * n)]), np.concatenate([box_high, np.full(2 * n, np.inf)])
    ends = np.concatenate([low, target]), np.concatenate([high, target])
    solution = _solve(np.concatenate([np.zeros(n), weights, weights]), stacked, ends, limits, n_integers=n)
    return None if solution.point is None else [round(value) for value in solution.point[:n].tolist()]


class _Solution(NamedTuple):
    """What the solver says: a point, if it found an optimal one, and the multipliers of the rows."""

    point: Floats | None
    multipliers: Floats
    is_unlimited: bool


def _solve(
    cost: Floats, matrix: Floats, rows: tuple[Floats, Floats], box: tuple[Floats, Floats], n_integers: int = 0
) -> _Solution:
    """Minimise a cost over ``rows[0] <= matrix x <= rows[1]`` and ``box[0] <= x <= box[1]`` by HiGHS.

    The first `n_integers` numbers of x are whole; then the search ends after some nodes, with the best point so far.
    """
    import highspy

    n_rows, n = matrix.shape
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = n, n_rows
    program.col_cost_, (program.col_lower_, program.col_upper_) = cost, box
    program.row_lower_, program.row_upper_ = rows
    places = [np.flatnonzero(line) for line in matrix]
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.cumsum([0, *map(len, places)]).astype(np.int32)
    program.a_matrix_.index_ = np.concatenate([*places, np.zeros(0, np.int64)]).astype(np.int32)
    program.a_matrix_.value_ = np.concatenate(
        [*(line[own] for line, own in zip(matrix, places, strict=True)), np.zeros(0)]
    )
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    if n_integers:
        kinds = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        program.integrality_ = [kinds[place >= n_integers] for place in range(n)]
        solver.setOptionValue("mip_max_nodes", _MAX_NODES)
    solver.passModel(program)
    solver.run()
    status = solver.getModelStatus()
    is_limited = n_integers > 0 and status == highspy.HighsModelStatus.kSolutionLimit
    if status != highspy.HighsModelStatus.kOptimal and not is_limited:
        unlimited = (highspy.HighsModelStatus.kUnbounded, highspy.HighsModelStatus.kUnboundedOrInfeasible)
        return _Solution(None, np.zeros(n_rows), status in unlimited)
    solution = solver.getSolution()
    return _Solution(np.array(solution.col_value), np.array(solution.row_dual), is_unlimited=False)


def is_proven_empty(rows: Sequence[GroupedRow], box: Box, multipliers: Floats) -> bool:
    """Whether these multipliers prove, in exact arithmetic, that no real point obeys the rows (Farkas)."""
    bound = best_dual_bound(rows, box, {}, multipliers)
    return bound is not None and bound > 0


def best_dual_bound(
    rows: Sequence[GroupedRow], box: Box, objective: dict[int, int], multipliers: Floats
) -> Fraction | None:
    """Return the better of the exact bounds by the multipliers rounded to simple fractions and as they are."""
    exact = [Fraction(float(value)) for value in multipliers]
    simple = [value.limit_denominator(1000) for value in exact]
    bounds = [bound for choice in (simple, exact) if (bound := _dual_bound(rows, box, objective, choice)) is not None]
    return max(bounds, default=None)


def _dual_bound(
    rows: Sequence[GroupedRow], box: Box, objective: dict[int, int], multipliers: Sequence[Fraction]
) -> Fraction | None:
    """Return ``min objective >= sum_r min(m_r * range_r) + sum_g min(reduced_g * box_g)``; None is minus infinity."""
    reduced = {g: Fraction(cost) for g, cost in objective.items()}
    bound = Fraction(0)
    for row, multiplier in zip(rows, multipliers, strict=True):
        if multiplier == 0:
            continue
        end = row.lower if multiplier > 0 else row.upper
        if end is None:
            return None
        bound += multiplier * end
        for g, times in row.coefficients.items():
            reduced[g] = reduced.get(g, Fraction(0)) - multiplier * times
    for g, cost in reduced.items():
        if cost == 0:
            continue
        end = box[0][g] if cost > 0 else box[1][g]
        if end is None:
            return None
        bound += cost * end
    return bound


def _float_rows(rows: Sequence[GroupedRow], n: int) -> tuple[Floats, Floats, Floats]:
    matrix = np.zeros((len(rows), n))
    for line, row in zip(matrix, rows, strict=True):
        line[list(row.coefficients)] = list(row.coefficients.values())
    low = np.array([-np.inf if row.lower is None else float(row.lower) for row in rows])
    high = np.array([np.inf if row.upper is None else float(row.upper) for row in rows])
    return matrix, low, high


def _float_box(box: Box) -> tuple[Floats, Floats]:
    low = np.array([-np.inf if end is None else float(end) for end in box[0]])
    return low, np.array([np.inf if end is None else float(end) for end in box[1]])
