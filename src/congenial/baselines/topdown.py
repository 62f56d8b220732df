"""The node of the Census Bureau's TopDown algorithm: nonnegative least squares in passes, then controlled rounding."""

from dataclasses import dataclass

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.baselines.baseline import POST_PROCESSED, Label, Problem
from congenial.baselines.quadratic import Polytope, least_squares
from congenial.conditions.rows import Row
from congenial.errors import BaselineError, import_extra
from congenial.sampling.target import Measured

_SLACK = 1e-6  # how far a later pass may move what an earlier one has fixed


@dataclass(frozen=True)
class TopDown:
    """Fit the largest sums first, keep them, fit the next, and round to whole numbers that obey every condition.

    Passes go from queries of many cells to queries of few, as the 2020 Census did from totals to detailed cells. The
    rounding is an integer program (HiGHS) that moves every cell to a whole number next to it, as near in all as can be,
    and every released table is checked in exact integers.
    """

    label = Label(
        "TopDown",
        is_integer=True,
        keeps_invariants=True,
        privacy=POST_PROCESSED,
        law="not available; biased next to limits",
    )

    def repair(self, problem: Problem, answers: Floats) -> Ints:
        """Solve the passes and round."""
        x = self._fit(problem, answers)
        return rounded(problem, x)

    @staticmethod
    def _fit(problem: Problem, answers: Floats) -> Floats:
        sizes = sorted({len(query.row.cells) for query in problem.measured}, reverse=True)
        fixed: list[tuple[Row, float, float]] = []
        x, own = np.zeros(problem.n_cells), np.zeros(problem.n_cells)
        for query, answer in zip(problem.measured, answers, strict=True):
            if query.cell is not None:
                own[query.cell] = answer
        for number, size in enumerate(sizes):
            chosen = [i for i, query in enumerate(problem.measured) if len(query.row.cells) == size]
            measured: list[Measured] = [problem.measured[i] for i in chosen]
            queries, weights = problem.queries[chosen], problem.weights[chosen]
            polytope = Polytope.of(problem.constraints, tuple(fixed)) if fixed else problem.polytope
            # A little of the distance to the cells' own answers makes the solution unique where a pass leaves cells
            # open.
            ridge = 1e-6 if number < len(sizes) - 1 or len(measured) < problem.n_cells else 0.0
            stacked = np.vstack([queries, np.eye(problem.n_cells)]) if ridge else queries
            both = np.concatenate([weights / weights.max(), np.full(problem.n_cells, ridge)]) if ridge else weights
            aims = np.concatenate([answers[chosen], own]) if ridge else answers[chosen]
            x = least_squares(polytope, stacked, both / both.max(), aims)
            fixed += [
                (query.row, value - _SLACK, value + _SLACK) for query, value in zip(measured, queries @ x, strict=True)
            ]
        return x


def rounded(problem: Problem, x: Floats) -> Ints:
    """Return the whole-number table next to a real one that obeys every condition and is nearest to it in all."""
    near = np.rint(x)
    base = np.where(np.abs(x - near) < 1e-6, near, np.floor(x))
    for reach in (1, 2, 5):  # cells next to the real ones first; wider where those cannot meet every sum
        steps = _steps(problem, x, base, reach)
        if steps is None:
            continue
        table: Ints = (base + steps).astype(np.int64)
        if problem.constraints.holds(table):
            return table
    raise BaselineError("no whole-number table next to the fitted one obeys every condition; nothing is released")


def _steps(problem: Problem, x: Floats, base: Floats, reach: int) -> Floats | None:
    """Minimise ``sum |base + step - x|`` over whole steps from ``1 - reach`` to `reach` that meet every condition.

    A step is a sum of single ones, each cell's k-th one up or down at a cost of its own that grows with k, so that the
    program takes the near ones first.
    """
    optimize = import_extra("scipy.optimize", "study")

    polytope, n = problem.polytope, len(x)
    share = x - base
    ups = [np.abs(k - share) - np.abs(k - 1 - share) for k in range(1, reach + 1)]
    downs = [np.abs(-k - share) - np.abs(1 - k - share) for k in range(1, reach)]
    signs = [1.0] * len(ups) + [-1.0] * len(downs)
    shift = polytope.rows @ base if len(polytope.rows) else np.zeros(0)
    matrix = [np.hstack([sign * polytope.rows for sign in signs])]
    lower, upper = [polytope.row_low - shift], [polytope.row_high - shift]
    is_limited = np.flatnonzero((base + reach > polytope.high) | (base + 1 - reach < polytope.low))
    if is_limited.size:
        matrix.append(np.hstack([sign * np.eye(n)[is_limited] for sign in signs]))
        lower.append((polytope.low - base)[is_limited])
        upper.append((polytope.high - base)[is_limited])
    answer = optimize.milp(
        np.concatenate([*ups, *downs]),
        integrality=np.ones(n * len(signs)),
        bounds=optimize.Bounds(0, 1),
        constraints=[
            optimize.LinearConstraint(*limits) for limits in zip(matrix, lower, upper, strict=True) if len(limits[0])
        ],
    )
    if answer.x is None:
        return None
    parts = np.rint(answer.x).reshape(len(signs), n)
    return np.asarray(np.array(signs) @ parts)
