"""What every baseline is: a way from a mechanism and a confidential table to released tables, honestly labelled."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Protocol

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.baselines.quadratic import Polytope
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import dense
from congenial.errors import BaselineError
from congenial.mechanism import Mechanism
from congenial.noise import Noise
from congenial.randomness import RandomStream
from congenial.sampling.target import Measured
from congenial.table import Table

POST_PROCESSED = "epsilon of the raw mechanism for tables that share the invariants' values; otherwise nothing is known"


@dataclass(frozen=True)
class Label:
    """What is known of a baseline.

    Attributes
    ----------
    is_integer : bool
        Whether its tables are whole numbers.
    keeps_invariants : bool
        Whether its tables obey every condition (exactly when whole, to nine digits when real).
    privacy : str
        What is known of its privacy.
    law : str
        What is known of its distribution.
    """

    name: str
    is_integer: bool
    keeps_invariants: bool
    privacy: str
    law: str


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
    >>> from congenial.baselines.projection import L2Projection
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
