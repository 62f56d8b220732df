"""Projection of noisy answers onto the invariants: nonnegative least squares, least absolute deviations, and none."""

from dataclasses import dataclass

import numpy as np

from congenial.arrays import Floats
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import BaselineError, import_extra
from congenial.study.baselines.base_and_least_squares import POST_PROCESSED, Label, Problem, least_squares


@dataclass(frozen=True)
class Raw:
    """The noisy cells as they are."""

    label = Label(
        "raw", "epsilon of the noise, for all pairs of tables", "the noise's own, exactly", keeps_invariants=False
    )

    def repair(self, problem: Problem, answers: Floats) -> Floats:
        """Return the noisy cells."""
        return problem.cell_answers(answers)


@dataclass(frozen=True)
class Clipped:
    """What analysts do by hand: negative cells to zero, then everything in proportion to the published total."""

    label = Label(
        "clip and rescale",
        POST_PROCESSED,
        "not available; biased upward in small cells",
        is_integer=False,
        keeps_invariants=False,
    )

    def repair(self, problem: Problem, answers: Floats) -> Floats:
        """Clip the noisy cells at zero and rescale them to the total, if it is published."""
        cells = np.maximum(problem.cell_answers(answers), 0.0)
        total = published_total(problem)
        if total is None:
            return cells
        noisy_total = float(cells.sum())
        return cells * (total / noisy_total) if noisy_total else np.full(problem.n_cells, total / problem.n_cells)


def published_total(problem: Problem) -> float | None:
    """Return the number of records, if the equalities fix it."""
    value = problem.constraints.known.implied(Row.of("everyone", range(problem.n_cells)))
    return None if value is None else float(value)


@dataclass(frozen=True)
class L2Projection:
    """The nearest real table that obeys every condition, in squares weighted by the noise's variances."""

    label = Label("L2 projection", POST_PROCESSED, "not available in general; biased next to limits", is_integer=False)

    def repair(self, problem: Problem, answers: Floats) -> Floats:
        """Solve the quadratic program."""
        return least_squares(problem.polytope, problem.queries, problem.weights, answers)


@dataclass(frozen=True)
class L1Projection:
    """A nearest real table in absolute deviations weighted by precision; of several, the solver's choice."""

    label = Label("L1 projection", POST_PROCESSED, "not available; not even unique", is_integer=False)

    def repair(self, problem: Problem, answers: Floats) -> Floats:
        """Solve the linear program by HiGHS: deviations are split into what is above and below."""
        linprog = import_extra("scipy.optimize", "study").linprog

        n, queries = problem.n_cells, problem.queries
        m, weights = len(queries), np.array([float(query.noise.precision) for query in problem.measured])
        polytope = problem.polytope
        is_equal = polytope.row_low == polytope.row_high
        equal, ranged = polytope.rows[is_equal], polytope.rows[~is_equal]
        no_deviations = np.zeros((len(ranged), 2 * m))
        limits = [(ranged, polytope.row_high[~is_equal]), (-ranged, -polytope.row_low[~is_equal])]
        above = np.vstack([np.hstack([rows, no_deviations]) for rows, _ in limits])
        ends_above = np.concatenate([ends for _, ends in limits])
        is_finite = np.isfinite(ends_above)
        split = np.hstack([queries, -np.eye(m), np.eye(m)])
        solution = linprog(
            np.concatenate([np.zeros(n), weights, weights]),
            A_ub=above[is_finite] if is_finite.any() else None,
            b_ub=ends_above[is_finite] if is_finite.any() else None,
            A_eq=np.vstack([np.hstack([equal, np.zeros((len(equal), 2 * m))]), split]),
            b_eq=np.concatenate([polytope.row_low[is_equal], answers]),
            bounds=[*zip(polytope.low, polytope.high, strict=True), *[(0, None)] * (2 * m)],
            method="highs",
        )
        if solution.status != 0:
            raise BaselineError(f"the linear program was not solved: {solution.message}")
        x = np.clip(solution.x[:n], polytope.low, polytope.high)
        if polytope.farthest(x) > 1e-7 * (1 + float(np.abs(x).max(initial=0.0))):
            raise BaselineError("the linear program's solution breaks a condition; nothing is released")
        return np.asarray(x)
