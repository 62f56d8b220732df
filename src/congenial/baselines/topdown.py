"""The node of the Census Bureau's TopDown algorithm: nonnegative least squares in passes, then controlled rounding."""

from dataclasses import dataclass

import numpy as np

from congenial.baselines.baseline import BaselineError, Floats, Ints, Label, Problem
from congenial.baselines.quadratic import Polytope, least_squares
from congenial.conditions.rows import Row, dense
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
        privacy="epsilon of the raw mechanism for tables that share the invariants' values; otherwise nothing is known",
        law="not available; biased next to limits",
    )

    def repair(self, problem: Problem, answers: Floats) -> Ints:
        """Solve the passes and round."""
        x = self._fit(problem, answers)
        return rounded(problem, x)

    @staticmethod
    def _fit(problem: Problem, answers: Floats) -> Floats:
        sizes = sorted({len(one.row.cells) for one in problem.measured}, reverse=True)
        fixed: list[tuple[Row, float, float]] = []
        x = np.zeros(problem.n_cells)
        for number, size in enumerate(sizes):
            chosen = [i for i, one in enumerate(problem.measured) if len(one.row.cells) == size]
            measured: list[Measured] = [problem.measured[i] for i in chosen]
            queries = dense([one.row for one in measured], problem.n_cells).astype(np.float64)
            weights = 1.0 / np.array([float(one.noise.variance) for one in measured])
            polytope = Polytope.of(problem.constraints, tuple(fixed))
            # A little of the plain length makes the solution unique where a pass leaves cells open.
            ridge = 1e-9 if number < len(sizes) - 1 or len(measured) < problem.n_cells else 0.0
            stacked = np.vstack([queries, np.eye(problem.n_cells)]) if ridge else queries
            both = np.concatenate([weights / weights.max(), np.full(problem.n_cells, ridge)]) if ridge else weights
            aims = np.concatenate([answers[chosen], np.zeros(problem.n_cells)]) if ridge else answers[chosen]
            x = least_squares(polytope, stacked, both / both.max(), aims)
            fixed += [
                (one.row, value - _SLACK, value + _SLACK) for one, value in zip(measured, queries @ x, strict=True)
            ]
        return x


def rounded(problem: Problem, x: Floats) -> Ints:
    """Return the whole-number table next to a real one that obeys every condition and is closest to it in sum."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    constraints = problem.constraints
    polytope = Polytope.of(constraints)
    near = np.rint(x)
    base = np.where(np.abs(x - near) < 1e-6, near, np.floor(x))
    for reach in (1, 2, 5):  # cells next to the real ones first; wider where those cannot meet every sum
        low = np.maximum(polytope.low, base - (reach - 1)) - base
        high = np.minimum(polytope.high, base + reach) - base
        n = len(x)
        # Distance of cell i: above - below, with above - below = base + step - x.
        rows = [np.hstack([polytope.rows, np.zeros((len(polytope.rows), 2 * n))])]
        rows.append(np.hstack([np.eye(n), -np.eye(n), np.eye(n)]))
        shift = polytope.rows @ base if len(polytope.rows) else np.zeros(0)
        lower = np.concatenate([polytope.row_low - shift, x - base])
        upper = np.concatenate([polytope.row_high - shift, x - base])
        answer = milp(
            np.concatenate([np.zeros(n), np.ones(2 * n)]),
            integrality=np.concatenate([np.ones(n), np.zeros(2 * n)]),
            bounds=Bounds(np.concatenate([low, np.zeros(2 * n)]), np.concatenate([high, np.full(2 * n, np.inf)])),
            constraints=LinearConstraint(np.vstack(rows), lower, upper),
        )
        if answer.x is None:
            continue
        table: Ints = (base + np.rint(answer.x[:n])).astype(np.int64)
        if constraints.holds(table):
            return table
    raise BaselineError("no whole-number table next to the fitted one obeys every condition; nothing is released")
