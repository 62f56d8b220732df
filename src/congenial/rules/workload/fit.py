"""The joint table that goes with some margins: proportional fitting, and measured cells shrunken onto it.

Proportional fitting from a flat table multiplies, one margin after the other, by what the margin should be over what it
is. It ends at the table with these margins that is otherwise as even as can be (maximum entropy, the log-linear model):
that is what it says of sums that nobody measured. Where the cells themselves were measured, each is moved from the fit
towards its measurement, the more the larger it is; how much is learned from all cells together, one number.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import TooLargeError
from congenial.progress_and_interrupts import checkpoint
from congenial.rules.workload.margins import Axes, dot, scale, sum_onto
from congenial.rules.workload.measurements import MeasuredTable, WorkloadMeasurements

MOST_CELLS = 10**7
"""A joint table with more cells is not made."""

FLOOR = 0.02
"""The least target of a cell that can have records: a target of 0 is a mere estimate, and would bar the cell."""

_MOST_SWEEPS = 60
_MOST_UPDATES = 10**9  # of cells: six sweeps of ten million cells and twenty tables
_TOLERANCE = 0.05
_LEAST_SPREAD = 0.01


@dataclass(frozen=True, eq=False)
class JointFit:
    """A joint table that was fitted to margins.

    Attributes
    ----------
    cells : array of float
        Of all attributes.
    n_sweeps : int
    gap : float
        The largest difference between a cell of a margin and its target, before the last sweep.
    """

    cells: Floats = field(repr=False)
    n_sweeps: int
    gap: float


def fit_proportionally(
    measurements: WorkloadMeasurements,
    targets: Sequence[MeasuredTable],
    total: int,
    base: Floats | None = None,
) -> JointFit:
    """Return a joint table with the exact margins of some measurements, and with target margins as near as can be.

    Parameters
    ----------
    targets : sequence of MeasuredTable
        Nonnegative margins that agree.
    total : int
        How many records there are.
    base : array of float, optional
        From where: a flat table if not given. It is overwritten.

    Examples
    --------
    >>> measured = WorkloadMeasurements((2, 2), ((0,), (1,)), (np.array([6, 2]), np.array([4, 4])), (1.0, 1.0))
    >>> fit_proportionally(measured, measured.measured(), 8).cells.tolist()
    [[3.0, 3.0], [1.0, 1.0]]
    """
    sizes, every = measurements.sizes, tuple(range(len(measurements.sizes)))
    if measurements.n_cells > MOST_CELLS:
        raise TooLargeError(
            f"the joint table has {measurements.n_cells:,} cells, and at most {MOST_CELLS:,} are fitted; decide records"
            " without it"
        )
    cells = np.full(sizes, total / measurements.n_cells) if base is None else base
    for axes, mask in measurements.zeros:
        scale(cells, every, (~mask).astype(np.float64), axes)
    goals: list[tuple[Axes, Floats]] = [
        (table.axes, np.where(measurements.zeros_in(table.axes), 0.0, np.maximum(table.values, FLOOR)))
        for table in targets
    ]
    goals += [(axes, table.astype(np.float64)) for axes, table in measurements.exact]
    most = max(3, min(_MOST_SWEEPS, _MOST_UPDATES // (measurements.n_cells * max(1, len(goals)))))
    sweep, gap = 0, np.inf
    while sweep < most and gap >= _TOLERANCE:
        gap = 0.0
        for axes, goal in goals:
            checkpoint()
            margin = sum_onto(cells, every, axes)
            gap = max(gap, float(np.abs(margin - goal).max()))
            scale(cells, every, np.divide(goal, margin, out=np.zeros_like(goal), where=margin > 0), axes)
        sweep += 1
    return JointFit(cells, sweep, gap)


def shrink_cells(fit: Floats, measured: Floats, variance: float) -> Floats:
    """Return measured cells, each moved towards the fit by how little can be learned of it.

    The squares of what cells are away from the fit are taken to be ``c`` times the fit, beside the noise; ``c`` is
    learned from all of them, and a cell keeps ``c p / (c p + variance)`` of its distance.

    Examples
    --------
    >>> fit = np.array([100.0, 100.0, 1.0])
    >>> np.round(shrink_cells(fit, np.array([130.0, 75.0, 8.0]), 25.0), 1).tolist()
    [129.0, 75.8, 2.6]
    """
    away = (measured - fit).reshape(-1)
    is_open = (fit > 0).reshape(-1)
    away[~is_open] = 0.0
    whole = dot(fit.reshape(-1), np.ones(fit.size))
    learned = (dot(away, away) - variance * int(is_open.sum())) / whole if whole > 0 else 0.0
    spreads = max(learned, _LEAST_SPREAD) * fit
    moved = fit + spreads / (spreads + variance) * away.reshape(fit.shape)
    cells: Floats = np.where(fit > 0, np.maximum(moved, 0.1 * np.minimum(fit, 0.1)), 0.0)
    return cells


def sample_systematically(cells: Floats, n: int, offset: float) -> Ints:
    """Return the cell of each of n records: every n-th part of a joint table, its cells in order.

    Parameters
    ----------
    offset : float
        Where in its part each record lies, from 0 to 1.

    Examples
    --------
    >>> sample_systematically(np.array([1.0, 2.0, 1.0]), 4, 0.5).tolist()
    [0, 1, 1, 2]
    """
    # Whole numbers: sums of doubles would depend on how they are added.
    largest = float(cells.max())
    units = max(0, min(40, 61 - cells.size.bit_length() - int(np.ceil(max(largest, 1.0))).bit_length()))
    ends = np.cumsum(np.rint(cells.reshape(-1) * 2.0**units).astype(np.int64))
    step = int(ends[-1]) // max(n, 1)
    points = np.arange(n) * step + int(offset * step)
    places: Ints = np.searchsorted(ends, points, side="right").astype(np.int64)
    return places
