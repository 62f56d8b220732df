"""Quadratic programs over the real relaxation of S*, by DAQP, every answer proven optimal to nine digits or refused."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import Row, dense
from congenial.errors import BaselineError, import_extra

_TOLERANCE = 1e-9
_FREE = 1e30


@dataclass(frozen=True)
class Polytope:
    """``low <= rows x <= high`` and limits of cells: the tables of S*, fractions allowed."""

    rows: Floats
    row_low: Floats
    row_high: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, constraints: Constraints, more: tuple[tuple[Row, float, float], ...] = ()) -> "Polytope":
        """Take the conditions, and further rows with their limits."""
        n = constraints.schema.n_cells
        rows = [*(limited.row for limited in constraints.rows), *(row for row, _, _ in more)]
        low = [_end(limited.lower, -np.inf) for limited in constraints.rows] + [a for _, a, _ in more]
        high = [_end(limited.upper, np.inf) for limited in constraints.rows] + [b for _, _, b in more]
        cells_low = np.array([_end(end, -np.inf) for end in constraints.lower])
        cells_high = np.array([_end(end, np.inf) for end in constraints.upper])
        return cls(dense(rows, n).astype(np.float64), np.array(low), np.array(high), cells_low, cells_high)

    @cached_property
    def stacked(self) -> tuple[NDArray[np.float64], Floats, Floats]:
        """Cells and rows as one system, cells first."""
        matrix = np.vstack([np.eye(len(self.low)), self.rows]) if len(self.rows) else np.eye(len(self.low))
        return matrix, np.concatenate([self.low, self.row_low]), np.concatenate([self.high, self.row_high])

    def farthest(self, x: Floats) -> float:
        """Return by how much a point breaks its worst condition."""
        matrix, low, high = self.stacked
        values = matrix @ x
        return float(np.max(np.maximum(low - values, values - high), initial=0.0))


def _end(end: int | None, otherwise: float) -> float:
    return otherwise if end is None else float(end)


def least_squares(polytope: Polytope, queries: NDArray[np.float64], weights: Floats, answers: Floats) -> Floats:
    """Return the point of the polytope that minimises ``sum_r w_r (q_r(x) - answer_r)^2``.

    DAQP finds which conditions are tight; the point is then solved for from those as equations, and the optimality
    conditions are checked: feasible, stationary, and multipliers of the right sign. What does not pass is an error.
    """
    daqp = import_extra("daqp", "study")

    hessian = (queries.T * weights) @ queries
    gradient = -(queries.T * weights) @ answers
    _, low, high = polytope.stacked
    is_equal = low == high
    lower, upper = np.maximum(low, -_FREE), np.minimum(high, _FREE)
    sense = np.where(is_equal, 5, 0).astype(np.int32)
    x, _, flag, info = daqp.solve(
        np.ascontiguousarray(hessian),
        gradient,
        np.ascontiguousarray(polytope.rows),
        upper,
        lower,
        sense,
        primal_tol=1e-9,
    )
    if flag < 1:
        raise BaselineError(
            f"the quadratic program was not solved (DAQP's flag {flag}); the conditions may leave no table of fractions"
        )
    return _proven(polytope, hessian, gradient, np.asarray(x), np.asarray(info["lam"]))


def _solve(system: Floats, right: Floats) -> Floats:
    """Solve a square system; where rows depend on each other, by least squares, which is ten times slower."""
    try:
        solved = np.asarray(np.linalg.solve(system, right), np.float64)
        off, size = np.abs(system @ solved - right).max(initial=0.0), np.abs(right).max(initial=0.0)
        if float(off) <= 1e-10 * (1 + float(size)):
            return solved
    except np.linalg.LinAlgError:
        pass
    return np.asarray(np.linalg.lstsq(system, right, rcond=1e-13)[0])


def _proven(polytope: Polytope, hessian: Floats, gradient: Floats, x: Floats, multipliers: Floats) -> Floats:
    """Polish a solution on its tight conditions, and check that it is optimal."""
    matrix, low, high = polytope.stacked
    scale = 1.0 + float(np.abs(x).max(initial=0.0)) + float(np.abs(gradient).max(initial=0.0))
    values = matrix @ x
    at_low = values - low <= 1e-7 * scale
    at_high = high - values <= 1e-7 * scale
    at_low &= ~(at_high & (multipliers > 0))  # both ends of a narrow range are near: the one that is pushed against
    tight = (low == high) | (np.abs(multipliers) > 1e-12 * scale)
    for _ in range(3):
        active = np.flatnonzero(tight)
        rows, aim = matrix[active], np.where(at_low[active], low[active], high[active])
        n, m = len(x), len(active)
        system = np.block([[hessian, rows.T], [rows, np.zeros((m, m))]])
        solved = _solve(system, np.concatenate([-gradient, aim]))
        point, dual = solved[:n], solved[n:]
        # A multiplier pushes up at a lower end and down at an upper one; equalities may push either way.
        is_equal = (low == high)[active]
        wrong = ~is_equal & np.where(at_low[active], dual > _TOLERANCE * scale, dual < -_TOLERANCE * scale)
        if polytope.farthest(point) <= _TOLERANCE * scale and not wrong.any():
            residual = hessian @ point + gradient + rows.T @ dual
            if float(np.abs(residual).max(initial=0.0)) <= _TOLERANCE * scale:
                inside: Floats = np.clip(point, polytope.low, polytope.high)
                return inside
        tight = (low == high) | at_low | at_high
    raise BaselineError(
        "the quadratic program's solution could not be proven optimal to nine digits; nothing is released"
    )
