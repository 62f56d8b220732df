"""The rule *records*: from measured margins to records, whose counts are the tables that are published.

Least squares by components, the nearest margins without negative cells, a joint fit where the joint table has at most
ten million cells, and records by annealing. All tables are counts of the same records, so they agree, and exact numbers
hold to the digit. The same measurements give the same records on every machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError
from congenial.progress_and_interrupts import Progress, silent
from congenial.rules.rule_and_input import Rule
from congenial.rules.workload.components import Estimates, estimate
from congenial.rules.workload.fit import MOST_CELLS, JointFit, fit_proportionally, shrink_cells
from congenial.rules.workload.margins import Axes, count_records, maximal
from congenial.rules.workload.measurements import MeasuredTable, WorkloadMeasurements
from congenial.rules.workload.nonnegative import NonnegativeMargins, nonnegative_margins
from congenial.rules.workload.records import Records, decide_records, lacking_conditions

RECORDS = Rule(
    "records",
    1,
    "records",
    "Least squares of all measured tables with every exact number, nowhere negative; then records whose counts are as"
    " near to these as records can be. Every table is a count of the same records, so that tables agree.",
)


class Misfit(NamedTuple):
    """How far a measured table and that of the records are from each other.

    Attributes
    ----------
    axes : tuple of int
    squares : float
        The sum of squares, each over the variance of the noise.
    n_cells : int
        About as many as the squares would be if records had the true table, and more than they are if noise was
        conditioned. Squares far above it mean a wrong exact number or structural zero.
    """

    axes: Axes
    squares: float
    n_cells: int


@dataclass(frozen=True)
class FitFacts:
    """How records came about, for whoever runs the rule again.

    Attributes
    ----------
    rule, version : str, int
    n_steps, gap : int, float
        Steps to margins without negative cells, and how far these and their copies are from each other.
    fit_sweeps, fit_gap : int, float or None
        Sweeps of proportional fitting, if there was a joint fit, and its largest misfit before the last one.
    n_sweeps, n_taken : int
        Sweeps over the records, and moves that were taken.
    energy : float
        Half the weighted sum of squares between tables of the records and targets.
    largest_distance : float
        Between a cell of a measured table of the records and its target.
    misfits : tuple of Misfit
        Of each measured table.
    """

    rule: str
    version: int
    n_steps: int
    gap: float
    fit_sweeps: int | None
    fit_gap: float | None
    n_sweeps: int
    n_taken: int
    energy: float
    largest_distance: float
    misfits: tuple[Misfit, ...]


@dataclass(frozen=True, eq=False)
class WorkloadResult:
    """Records that were decided, their tables, and what is nearest without whole numbers.

    Attributes
    ----------
    records : array of int (record, attribute)
    tables : dict
        The published tables, by attributes: counts of the records.
    targets : dict
        For each measured table, and each published one inside a measured or exact one: nowhere negative.
    estimates : Estimates
        Least squares with variances; may be negative.
    facts : FitFacts
    """

    records: Records = field(repr=False)
    tables: dict[Axes, Ints] = field(repr=False)
    targets: dict[Axes, Floats] = field(repr=False)
    estimates: Estimates = field(repr=False)
    facts: FitFacts


def decide(
    measurements: WorkloadMeasurements,
    published: Sequence[Axes] = (),
    start: NDArray[np.integer] | None = None,
    progress: Progress = silent,
) -> WorkloadResult:
    """Return records whose tables are near to measurements and have every exact number.

    Parameters
    ----------
    published : sequence of tuple of int, optional
        Attributes of the tables to publish: all measured ones if none are named.
    start : array of int (record, attribute), optional
        Records of an earlier release, whose published tables are among the exact ones: the later tables agree with
        these. To revise them instead, give the measurements of both releases and no start.

    Examples
    --------
    >>> values = np.array([[31, -2], [18, 52]]), np.array([47, 55])
    >>> measured = WorkloadMeasurements((2, 2), ((0, 1), (1,)), values, (4.0, 4.0), (((0,), np.array([30, 70])),))
    >>> result = decide(measured, published=[(0, 1), (1,)])
    >>> {axes: table.tolist() for axes, table in result.tables.items()}
    {(0, 1): [[30, 0], [17, 53]], (1,): [47, 53]}
    """
    published = list(dict.fromkeys(published or measurements.axes))
    for axes in published:
        if tuple(sorted(set(axes))) != axes or not set(axes) <= set(range(len(measurements.sizes))):
            raise ConditionError(
                f"the attributes of a published table are numbers from 0 to {len(measurements.sizes) - 1}, ascending;"
                f" these are {axes}"
            )
    estimates = estimate(measurements)
    total = _total(measurements, estimates)
    known = measurements if measurements.exact else measurements.with_exact([((), np.array(total))])
    cells, margins = _cells_and_margins(known, published, estimates)
    nonnegative = nonnegative_margins(known, margins)
    fit, joint = _joint(known, nonnegative, cells, total)
    targets = list(nonnegative.tables)
    if cells is not None and joint is not None:
        targets.append(MeasuredTable(cells.axes, joint, cells.precision))
    decided = decide_records(known, targets, total, joint, start, progress)
    counts = {axes: count_records(decided.records, known.sizes, axes) for axes in published}
    goals = {target.axes: target.values for target in targets}
    for axes in published:
        best = next((some for some in (nonnegative.estimates, estimates) if some.least_squares.knows(axes)), None)
        if axes not in goals and best is not None:
            goals[axes] = np.maximum(best.table(axes), 0.0)
    facts = FitFacts(
        RECORDS.name,
        RECORDS.version,
        nonnegative.n_steps,
        nonnegative.gap,
        fit.n_sweeps if fit else None,
        fit.gap if fit else None,
        decided.n_sweeps,
        decided.n_taken,
        decided.energy,
        max(
            float(np.abs(count_records(decided.records, known.sizes, target.axes) - target.values).max())
            for target in nonnegative.tables
        ),
        _misfits(measurements, decided.records),
    )
    return WorkloadResult(decided.records, counts, goals, estimates, facts)


def check(
    measurements: WorkloadMeasurements,
    result: WorkloadResult,
    start: NDArray[np.integer] | None = None,
    progress: Progress = silent,
) -> None:
    """Raise `ConditionError` unless records and tables are what the rule makes of the measurements: it runs again.

    Examples
    --------
    >>> measured = WorkloadMeasurements((2,), ((0,),), (np.array([5, 2]),), (1.0,))
    >>> check(measured, decide(measured))
    """
    lacking = lacking_conditions(measurements, result.records)
    if lacking:
        raise ConditionError(f"the records do not have every exact number: {'; '.join(lacking)}")
    for axes, table in result.tables.items():
        if not np.array_equal(count_records(result.records, measurements.sizes, axes), table):
            raise ConditionError(f"the published table of attributes {axes} is not the count of the records")
    again = decide(measurements, list(result.tables), start, progress)
    if not np.array_equal(again.records, result.records):
        raise ConditionError(
            f"version {RECORDS.version} of the rule {RECORDS.name!r} makes other records of these measurements"
        )


def number_of_records(measurements: WorkloadMeasurements) -> int:
    """Return how many records `decide` makes.

    Examples
    --------
    >>> number_of_records(WorkloadMeasurements((2,), ((0,),), (np.array([5, 2]),), (1.0,)))
    7
    """
    if measurements.total is not None:
        return measurements.total
    return _total(measurements, estimate(measurements))


def _total(measurements: WorkloadMeasurements, estimates: Estimates) -> int:
    """Return how many records there are: least squares, rounded, where it is not exact."""
    if measurements.total is not None:
        return measurements.total
    least, parts = 0, dict[Axes, tuple[Ints, int]]()
    for some in measurements.exact_sums:  # of records that no two of them count, they add up
        if set(np.unique(some.coefficients)) <= {0, 1}:
            coefficients, value = parts.get(some.axes, (np.zeros_like(some.coefficients), 0))
            together = coefficients + some.coefficients
            if together.max() <= 1:
                parts[some.axes] = together, value + some.value
            least = max(least, some.value, parts.get(some.axes, (together, 0))[1])
    return max(least, round(float(estimates.table(()))))


def _cells_and_margins(
    measurements: WorkloadMeasurements, published: Sequence[Axes], estimates: Estimates
) -> tuple[MeasuredTable | None, list[MeasuredTable]]:
    """Return the measured cells, if they were measured, and the margins to aim at.

    Beside measured cells, these are the least squares of the other measured tables, or else of the published ones, each
    weighted by its own variance. Where cells are all there is, they are aimed at like any other table.
    """
    measured = measurements.measured()
    if not measured:  # all that is known is exact
        tables = dict(measurements.exact)
        return None, [MeasuredTable(axes, tables[axes].astype(np.float64), 1.0) for axes in maximal(tables)]
    every = tuple(range(len(measurements.sizes)))
    cells = next((table for table in measured if table.axes == every), None)
    if cells is None or len(every) == 1:
        return None, list(measured)
    axes_below = [table.axes for table in measured if table.axes != every]
    axes_below = axes_below or [axes for axes in maximal(axes for axes in published if axes != every) if axes]
    least = estimates.least_squares
    margins = []
    for axes in axes_below:
        variance = least.symmetric_variance(axes)
        if variance > 0:
            margins.append(MeasuredTable(axes, estimates.table(axes), 1 / variance))
    return (cells, margins) if margins else (None, [cells])


def _joint(
    measurements: WorkloadMeasurements, margins: NonnegativeMargins, cells: MeasuredTable | None, total: int
) -> tuple[JointFit | None, Floats | None]:
    """Return the joint fit, and the joint table to start records from: measured cells shrunken onto it."""
    if measurements.n_cells > MOST_CELLS or total == 0:
        return None, None
    fit = fit_proportionally(measurements, margins.tables, total)
    if cells is None:
        return fit, fit.cells
    shrunken = shrink_cells(fit.cells, cells.values, 1 / cells.precision)
    return fit, fit_proportionally(measurements, margins.tables, total, shrunken).cells


def _misfits(measurements: WorkloadMeasurements, records: NDArray[Any]) -> tuple[Misfit, ...]:
    misfits = []
    for axes, values, variance in zip(measurements.axes, measurements.values, measurements.variances, strict=True):
        squares = (values - count_records(records, measurements.sizes, axes)) ** 2
        misfits.append(Misfit(axes, float(squares.sum()) / variance, values.size))
    return tuple(misfits)
