"""Margins that agree, have the exact numbers and are nowhere negative, nearest to what was measured.

The alternating direction method of multipliers, with the closed form of `congenial.rules.workload.components` as its
linear step: measured tables and their nonnegative copies are fitted in turn until they are the same. Structural zeros
are cells of the copies that stay 0. For workloads in which tables meet in a ring, margins that agree need not be those
of any joint table without negative cells; how far records are from them is what `FitFacts` says.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from congenial.arrays import Floats
from congenial.progress_and_interrupts import checkpoint
from congenial.rules.workload.components import Estimates, LeastSquares
from congenial.rules.workload.measurements import MeasuredTable, WorkloadMeasurements

_PENALTY = 1.0  # of a difference between a table and its copy, over the weight of a difference to what was measured
_LEAST_STEPS = 20


@dataclass(frozen=True, eq=False)
class NonnegativeMargins:
    """Nonnegative margins, and how they came about.

    Attributes
    ----------
    tables : tuple of MeasuredTable
        The copies: no cell is negative, structural zeros are 0, and they agree up to `gap`.
    estimates : Estimates
        The tables beside them: they agree and have the exact numbers, and no cell is below ``-gap``.
    n_steps : int
    gap : float
        The largest difference between a cell and its copy.
    """

    tables: tuple[MeasuredTable, ...]
    estimates: Estimates = field(repr=False)
    n_steps: int
    gap: float


def nonnegative_margins(
    measurements: WorkloadMeasurements,
    measured: Sequence[MeasuredTable] | None = None,
    *,
    most_steps: int = 400,
    tolerance: float = 1e-3,
) -> NonnegativeMargins:
    """Return the nearest margins that agree, have the exact numbers and no negative cell.

    Parameters
    ----------
    measured : sequence of MeasuredTable, optional
        Other tables than those of the measurements, each once.

    Examples
    --------
    >>> values = np.array([[6, -2], [1, 4]]), np.array([8, 1])
    >>> measured = WorkloadMeasurements((2, 2), ((0, 1), (1,)), values, (1.0, 1.0), (((), np.array(9)),))
    >>> margins = nonnegative_margins(measured)
    >>> [np.round(table.values, 2).tolist() for table in margins.tables]
    [[[6.0, 0.0], [1.0, 2.0]], [7.0, 2.0]]
    """
    measured = measurements.measured() if measured is None else measured
    least = LeastSquares.of(measurements, measured, with_zeros=False)
    barred = [measurements.zeros_in(table.axes) for table in measured]
    copies: list[Floats] = [np.zeros_like(table.values) for table in measured]
    prices: list[Floats] = [np.zeros_like(table.values) for table in measured]
    step, gap = 0, np.inf
    estimates = least.estimates([table.values for table in measured])
    while step < most_steps and (step <= _LEAST_STEPS or gap >= tolerance):
        checkpoint()
        estimates = least.estimates(
            [
                (table.values + _PENALTY * (copy - price)) / (1 + _PENALTY)
                for table, copy, price in zip(measured, copies, prices, strict=True)
            ]
        )
        gap = 0.0
        for place, table in enumerate(measured):
            fitted = estimates.table(table.axes)
            copies[place] = np.where(barred[place], 0.0, np.maximum(fitted + prices[place], 0.0))
            differences = fitted - copies[place]
            prices[place] = prices[place] + differences
            gap = max(gap, float(np.abs(differences).max()))
        step += 1
    tables = tuple(
        MeasuredTable(table.axes, copy, table.precision) for table, copy in zip(measured, copies, strict=True)
    )
    return NonnegativeMargins(tables, estimates, step, gap)
