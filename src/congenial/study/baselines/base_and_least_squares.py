"""What every baseline is: a way from a mechanism and a confidential table to released tables, honestly labelled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.limits_and_shares import bounds
from congenial.conditions.rows_and_intervals import Row, dense
from congenial.errors import BaselineError, import_extra
from congenial.mechanism_and_hierarchy import Mechanism
from congenial.noise import Noise
from congenial.plan import Plan
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import Certificate
from congenial.randomness import RandomStream
from congenial.sampling.target_and_system import Measured
from congenial.table import Table

# Quadratic programs over the real relaxation of S*, by DAQP, every answer proven optimal to nine digits or refused.

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


POST_PROCESSED = "epsilon of the raw mechanism for tables that share the invariants' values; otherwise nothing is known"


@dataclass(frozen=True)
class Label:
    """What is known of a baseline.

    Attributes
    ----------
    privacy : str
        What is known of its privacy.
    law : str
        What is known of its distribution.
    is_integer : bool
        Whether its tables are whole numbers.
    keeps_invariants : bool
        Whether its tables obey every condition (exactly when whole, to nine digits when real).
    """

    name: str
    privacy: str
    law: str
    is_integer: bool = True
    keeps_invariants: bool = True


class Baseline(Protocol):
    """A repair of the noisy answers to the measured queries."""

    @property
    def label(self) -> Label:
        """What is known of it."""

    def repair(self, problem: "Problem", answers: Floats) -> Floats | Ints:
        """Return the table (cell) of some noisy answers."""


@dataclass(frozen=True)
class Problem:
    """The public part: conditions and measured queries at known precisions."""

    constraints: Constraints
    measured: tuple[Measured, ...]

    @classmethod
    def of(cls, mechanism: Mechanism, constraints: Constraints) -> "Problem":
        """Take a mechanism's queries and precisions under its constraints."""
        return cls(constraints, mechanism.calibrate(constraints).measured)

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return self.constraints.schema.n_cells

    def cell_answers(self, answers: Floats) -> Floats:
        """Return the answers to the queries of single cells, cell by cell; every cell must be measured by itself."""
        out = np.full(self.n_cells, np.nan)
        for query, answer in zip(self.measured, answers.tolist(), strict=True):
            if query.cell is not None:
                out[query.cell] = answer
        if np.isnan(out).any():
            raise BaselineError("this baseline starts from noisy cells: measure cells(), all of them")
        return out

    @cached_property
    def polytope(self) -> Polytope:
        """The conditions, fractions allowed."""
        return Polytope.of(self.constraints)

    @cached_property
    def queries(self) -> Floats:
        """The measured rows as a matrix, a line a query."""
        return dense([query.row for query in self.measured], self.n_cells).astype(np.float64)

    @cached_property
    def weights(self) -> Floats:
        """One over the noise variance of each query, the largest scaled to 1."""
        weights = 1.0 / np.array([float(v) for v in self.variances])
        scaled: Floats = weights / weights.max()
        return scaled

    @property
    def variances(self) -> list[Fraction | float]:
        """The noise variance of each measured query."""
        return [query.noise.variance for query in self.measured]


def noisy_answers(problem: Problem, table: Table, n_draws: int, rng: RandomStream) -> Floats:
    """Return the unconstrained mechanism's answers (draw, query): the queries of the table plus independent noise."""
    counts = [int(count) for count in table.counts]
    out = np.array([query.row.value(counts) for query in problem.measured], np.float64) + np.zeros((n_draws, 1))
    alike: dict[Noise, list[int]] = {}
    for number, query in enumerate(problem.measured):
        alike.setdefault(query.noise, []).append(number)
    for noise, columns in alike.items():  # a call for each law: one for each query takes 50 ms more for 46 cells
        out[:, columns] += noise.sample(n_draws * len(columns), rng).reshape(n_draws, len(columns))
    return out


def sample(baseline: Baseline, mechanism: Mechanism, table: Table, n_draws: int, rng: RandomStream) -> Floats | Ints:
    """Return repaired tables (draw, cell) of independent noisy answers.

    Examples
    --------
    >>> from congenial.study.baselines.projection import L2Projection
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> from congenial.randomness import replay_rng
    >>> draws = sample(L2Projection(), p12_mechanism(), p12_table(), 3, replay_rng(1))
    >>> draws.shape, draws.sum(axis=1).round(6), bool(draws.min() >= 0)
    ((3, 46), array([256., 256., 256.]), True)
    """
    if type(n_draws) is not int or n_draws < 1:
        raise BaselineError(f"n_draws is a whole number from 1 on, not {n_draws!r}")
    problem = Problem.of(mechanism, mechanism.disclose(table))
    answers = noisy_answers(problem, table, n_draws, rng)
    return repair_all(baseline, problem, answers)


def repair_all(baseline: Baseline, problem: Problem, answers: Floats) -> Floats | Ints:
    """Return the repaired table of each line of answers, and check what the label says."""
    tables: Sequence[Floats | Ints] = [baseline.repair(problem, line) for line in answers]
    if not baseline.label.is_integer:
        return np.stack(tables).astype(np.float64)
    whole = np.stack(tables).astype(np.int64)
    if baseline.label.keeps_invariants and not np.all(problem.constraints.holds(whole)):
        raise BaselineError(f"internal: {baseline.label.name} broke a condition; please report this system")
    return whole


# The noise of a baseline: at the loss that a mechanism certifies, without its conditions.


def _for_one_record(budget: Budget, certificate: Certificate) -> Budget:
    """Return what one record may cost so that the certificate's k records, under noise alone, cost the budget.

    Distances add up, so pure losses do. Under rho k records cost at most ``k^2`` times as much; Gaussian noise pays
    nothing for conditions at integer orders, so there the certificate itself says how much less it is.
    """
    plain, k = certificate.loss_without_invariants, certificate.k
    if budget.epsilon is not None and certificate.currency == "epsilon":
        # With a delta too: the pure bound of k records is the better one here.
        return Budget(epsilon=budget.epsilon / k)
    share = plain / certificate.rho if certificate.currency == "rho" and certificate.rho else Fraction(1, k * k)
    rho = budget.rho if budget.rho is not None else certificate.rho
    return Budget(rho=None if rho is None else rho * max(share, Fraction(1, k * k)), orders=budget.orders)


def without_conditions(mechanism: Mechanism, certificate: Certificate) -> Plan:
    """Return the plan of the noise alone, no condition at all, at the largest precisions that the same loss certifies.

    The same loss between the same tables: where it takes k records to keep the invariants, k records.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism(epsilon="1")
    >>> certificate = mechanism.plan(mechanism.disclose(p12_table())).certificate
    >>> without_conditions(mechanism, certificate).law.queries[0].precision
    Fraction(1, 2)
    """
    budget = mechanism.budget
    if budget is None:
        # The precisions were given: keep their proportions, and spend what they cost under the conditions.
        queries = [replace(query, precision=None, portion=query.precision or None) for query in mechanism.queries]
        pure = certificate.loss is not None
        budget = Budget(epsilon=certificate.loss, rho=None if pure else certificate.rho, orders=certificate.orders)
    else:
        queries = list(mechanism.queries)
    if certificate.k > 1:
        budget = _for_one_record(budget, certificate)
    plain = Mechanism(
        mechanism.schema,
        measure=queries,
        invariants=[bounds(None)],
        noise=mechanism.noise,
        neighbours=mechanism.neighbours,
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho=budget.rho,
        orders=budget.orders if budget.rho is not None else "integer",
    )
    empty = Table(mechanism.schema, np.zeros(mechanism.schema.shape, np.int64))
    return plain.plan(plain.disclose(empty))
