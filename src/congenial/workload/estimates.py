"""Estimates of every cell and sum inside a measured table, by least squares over all tables together. Public.

The estimate is linear in the measurements, so its error is the same function of the noise, whatever the records are.
Its interval goes by ranks of public draws of that noise, and so covers at least as often as it says: over the noise of
the release and those draws, which follow from a digest of the measurements in place of fresh random words.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.bundle.cell_intervals import HIGH, LEVEL, LOW, MEASURED, interval_columns
from congenial.randomness import replay_rng
from congenial.rules.workload.components import Estimates, LeastSquares
from congenial.rules.workload.measurements import ExactSum
from congenial.workload.law import RecordTable
from congenial.workload.plan import WorkloadPlan

_MOST_NUMBERS = 30_000_000
"""Of drawn noise."""

_N_DRAWS = (99, 199, 399, 999)
SLACK = 1e-9
"""Far more than the rounding of doubles: noise is whole, so that an error often equals a drawn one."""


def rank_of(level: Fraction, n_draws: int) -> int:
    """Return which of the ordered sizes of so many drawn errors is a half-width that covers at this level.

    The error and the draws have one law and are independent, so it is among the k smallest of n + 1 with probability
    ``k / (n + 1)`` or more.

    Examples
    --------
    >>> rank_of(Fraction(9, 10), 99)
    90
    """
    return ceil(level * (n_draws + 1))


@dataclass(frozen=True, eq=False)
class Estimator:
    """The least squares of a release, and draws of the errors of its estimates.

    Attributes
    ----------
    plan : WorkloadPlan
    measured : tuple of arrays (1, cell)
        The measurements of every measured table.
    """

    plan: WorkloadPlan
    measured: Sequence[Ints] = field(repr=False)

    @cached_property
    def estimates(self) -> Estimates:
        """The estimates of every margin inside a measured or exact table."""
        measurements = self.plan.measurements(self.measured)
        return LeastSquares.of(measurements).estimates([table.values for table in measurements.measured()])

    def knows(self, dimensions: Sequence[str]) -> bool:
        """Whether a margin lies inside a measured or an exact table: of another nothing is known but a model."""
        return self.estimates.least_squares.knows(self.plan.law.axes(dimensions))

    def table(self, dimensions: Sequence[str]) -> Floats:
        """Return the estimates of a margin, shaped as it is; they may be negative."""
        return self.estimates.table(self.plan.law.axes(dimensions))

    def standard_errors(self, dimensions: Sequence[str]) -> Floats:
        """Return the standard error of each cell of a margin."""
        variance = self.estimates.variance(self.plan.law.axes(dimensions))
        shape = self.plan.law.schema.part(dimensions).shape
        return np.broadcast_to(np.sqrt(np.maximum(variance, 0)), shape)

    @cached_property
    def n_draws(self) -> int:
        """How many errors are drawn: more where tables are small."""
        n_cells = sum(plan.law.schema.n_cells for plan in self.plan.measured_together)
        return max([_N_DRAWS[0], *(n for n in _N_DRAWS if n * n_cells <= _MOST_NUMBERS)])

    @cached_property
    def _drawn(self) -> list[Estimates] | Estimates:
        """Errors of all estimates: draws as one more attribute of every table, or one after the other.

        As an attribute of every table and of every exact margin, it keeps draws apart: least squares are those of each.
        Sums that are no whole margins, and structural zeros, are not of all draws alike, and take the longer way.
        """
        seed = self.plan.measurements(self.measured).seed.hex()
        rng, n_draws = replay_rng(f"errors of estimates {seed}"), self.n_draws
        noise = [
            next(iter(plan.measured_levels))
            .drawing.kinds[0]
            .noise(rng, n_draws)
            .reshape(n_draws, *plan.law.schema.shape)
            for plan in self.plan.measured_together
        ]
        structure = self.plan.measurement_structure
        nothing = tuple((axes, np.zeros_like(table)) for axes, table in structure.exact)
        if not structure.exact_sums and not structure.zeros:
            last = len(structure.sizes)
            together = replace(
                structure,
                sizes=(*structure.sizes, n_draws),
                axes=tuple((*axes, last) for axes in structure.axes),
                values=tuple(np.moveaxis(drawn, 0, -1) for drawn in noise),
                exact=tuple(
                    ((*axes, last), np.zeros((*table.shape, n_draws), np.int64)) for axes, table in structure.exact
                ),
            )
            return LeastSquares.of(together).estimates([table.values for table in together.measured()])
        sums = tuple(ExactSum(each.axes, each.coefficients, 0) for each in structure.exact_sums)
        of_errors = replace(structure, exact=nothing, exact_sums=sums)
        least = LeastSquares.of(of_errors)
        out = []
        for draw in range(n_draws):
            one = replace(of_errors, values=tuple(drawn[draw] for drawn in noise))
            out.append(least.estimates([table.values for table in one.measured()]))
        return out

    def errors(self, dimensions: Sequence[str]) -> Floats:
        """Return drawn errors of the estimates of a margin (draw, ...), shaped as it is."""
        axes, drawn = self.plan.law.axes(dimensions), self._drawn
        if isinstance(drawn, list):
            return np.stack([each.table(axes) for each in drawn])
        return np.moveaxis(drawn.table((*axes, len(self.plan.law.schema.shape))), -1, 0)

    def half_widths(self, dimensions: Sequence[str], level: Fraction = LEVEL) -> Floats:
        """Return the half-width of the interval of each cell of a margin, by ranks of drawn errors."""
        return self._by_rank(np.abs(self.errors(dimensions)), level)

    def half_width(
        self, dimensions: Sequence[str], coefficients: NDArray[np.generic], level: Fraction = LEVEL
    ) -> float:
        """Return the half-width of the interval of one weighted sum of a margin's cells."""
        errors = self.errors(dimensions).reshape(self.n_draws, -1) @ coefficients.reshape(-1).astype(np.float64)
        return float(self._by_rank(np.abs(errors), level))

    def _by_rank(self, sizes: Floats, level: Fraction) -> Floats:
        place = min(rank_of(level, len(sizes)), len(sizes)) - 1
        reach: Floats = np.asarray(np.partition(sizes, place, axis=0)[place]) * (1 + SLACK) + SLACK
        return reach


@dataclass(frozen=True, eq=False)
class TableColumns:
    """What is published of a table, cell by cell.

    Attributes
    ----------
    counts : array (cell,)
    measured, low, high : array (cell,)
        The measurement and the ends of its interval; the exact number itself where the table is not measured.
    estimate, standard_error, estimate_low, estimate_high : array (cell,)
        By least squares over all tables, to a hundredth.
    """

    counts: Ints
    measured: Ints
    low: Ints
    high: Ints
    estimate: Floats
    standard_error: Floats
    estimate_low: Floats
    estimate_high: Floats

    def as_dict(self) -> dict[str, Ints | Floats]:
        """Return the columns of a table's file, by name."""
        return {
            "count": self.counts,
            MEASURED: self.measured,
            LOW: self.low,
            HIGH: self.high,
            "estimate": self.estimate,
            "standard_error": self.standard_error,
            "estimate_low_90": self.estimate_low,
            "estimate_high_90": self.estimate_high,
        }


def table_columns(plan: WorkloadPlan, measured: Sequence[Ints], tables: Sequence[Ints]) -> tuple[TableColumns, ...]:
    """Return what is published of every published table (1, cell), from measurements, the plan and the tables."""
    estimator = Estimator(plan, measured)
    known = _measured_tables(plan, measured)
    out = []
    for table, counts in zip(plan.published, tables, strict=True):
        estimate = estimator.table(table.dimensions).reshape(-1)
        errors = estimator.standard_errors(table.dimensions).reshape(-1)
        widths = estimator.half_widths(table.dimensions).reshape(-1)
        if table.dimensions in known:
            release, measured_table, values = known[table.dimensions]
            number = release.law.measured_tables_of_records.index(measured_table)
            is_alike = release.noise_is_alike(measured_table)
            columns = dict(interval_columns(release.tables[number], values, is_alike=is_alike))
            value, low, high = (np.asarray(columns[name][0:1]).reshape(-1) for name in (MEASURED, LOW, HIGH))
        else:
            value = low = high = counts.reshape(-1)
        ends = (estimate, errors, estimate - widths, estimate + widths)
        best, error, below, above = (np.round(numbers, 2) + 0.0 for numbers in ends)
        out.append(TableColumns(counts.reshape(-1), value, low, high, best, error, below, above))
    return tuple(out)


def _measured_tables(
    plan: WorkloadPlan, measured: Sequence[Ints]
) -> dict[tuple[str, ...], tuple[WorkloadPlan, RecordTable, Ints]]:
    """Return what was measured over which dimensions, in this release or else in those that it agrees with."""
    earlier = plan.earlier
    before = {} if earlier is None or not earlier.measured else _measured_tables(earlier.plan, earlier.measured)
    pairs = zip(plan.law.measured_tables_of_records, measured, strict=True)
    return before | {table.dimensions: (plan, table, values) for table, values in pairs}
