"""Linear relaxations solved in floats, their answers proven in exact fractions.

A solver's multipliers are only a suggestion: whatever they are, weak duality makes them a bound, and the bound is
computed here in exact arithmetic. Floats decide how good it is, never whether it is true.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from congenial.arrays import Floats
from congenial.conditions.groups import Box, GroupedRow


@dataclass(frozen=True)
class Relaxed:
    """What is known of a relaxation: a proven lower bound (None: none), and the solver's point when it found one."""

    bound: Fraction | None
    point: Floats | None
    seems_unlimited: bool = False


def relax(rows: Sequence[GroupedRow], box: Box, objective: dict[int, int]) -> Relaxed:
    """Minimise the objective over the real points of a system."""
    from scipy.optimize import linprog  # 0.4 s to import: only where a program is solved

    matrix, low, high = _float_rows(rows, len(box[0]))
    cost = np.zeros(len(box[0]))
    cost[list(objective)] = list(objective.values())
    equal = low == high
    upper_rows = np.vstack([matrix[~equal], -matrix[~equal]])
    upper_ends = np.concatenate([high[~equal], -low[~equal]])
    kept = np.isfinite(upper_ends)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = linprog(
            cost,
            A_ub=upper_rows[kept] if kept.any() else None,
            b_ub=upper_ends[kept] if kept.any() else None,
            A_eq=matrix[equal] if equal.any() else None,
            b_eq=low[equal] if equal.any() else None,
            bounds=np.array(_float_box(box)).T,
            method="highs",
        )
    if answer.status != 0:
        return Relaxed(None, None, seems_unlimited=answer.status == 3)
    multipliers = np.zeros(len(rows))
    if equal.any():
        multipliers[equal] = answer.eqlin.marginals
    if kept.any():
        both = np.zeros(kept.size)
        both[kept] = answer.ineqlin.marginals
        half = kept.size // 2
        multipliers[~equal] = both[:half] - both[half:]
    return Relaxed(best_dual_bound(rows, box, objective, multipliers), answer.x)


def infeasibility_multipliers(rows: Sequence[GroupedRow], box: Box) -> Floats | None:
    """Return multipliers that may prove the relaxation empty: those of the least total violation."""
    from scipy.optimize import linprog

    matrix, low, high = _float_rows(rows, len(box[0]))
    n_rows, n = matrix.shape
    slack = np.eye(n_rows)
    wide = np.hstack([matrix, slack, -slack])
    stacked, limits = np.vstack([wide, -wide]), np.concatenate([high, -low])
    kept = np.isfinite(limits)
    ends = [*zip(*_float_box(box), strict=True), *[(0, np.inf)] * (2 * n_rows)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answer = linprog(
            np.concatenate([np.zeros(n), np.ones(2 * n_rows)]),
            A_ub=stacked[kept],
            b_ub=limits[kept],
            bounds=ends,
            method="highs",
        )
    if answer.status != 0:
        return None
    both = np.zeros(kept.size)
    both[kept] = answer.ineqlin.marginals
    return both[:n_rows] - both[n_rows:]


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
