"""How many tables obey some conditions: exactly within reach, by rejection with a stated error beyond. Public."""

from dataclasses import dataclass, replace
from math import exp, inf, log, log10

import numpy as np

from congenial.conditions.constraints import Constraints
from congenial.errors import TooLargeError
from congenial.randomness import replay_rng
from congenial.sampling.contraction.layout import Engine
from congenial.sampling.contraction.without_rounding import count_tables
from congenial.sampling.look_ahead.grid import NoGridError, grids_of
from congenial.sampling.look_ahead.sampler import LookAhead, why_not
from congenial.sampling.system import System
from congenial.sampling.two_way_counts import count_two_way

_MOST_OPERATIONS = 3e7  # of whole numbers in Python, a million a second
_INSTEAD = "; estimated_count() gives the number by simulation, with its error"


@dataclass(frozen=True)
class EstimatedCount:
    """A number of tables by simulation: its logarithm, and the standard deviation of that.

    Examples
    --------
    >>> print(EstimatedCount(46.0, 0.01))
    about 9.496e+19 tables, give or take 1 %
    """

    log: float
    error: float

    @property
    def value(self) -> float:
        """The number itself; infinite beyond doubles."""
        return exp(self.log) if self.log < 700 else inf

    def __str__(self) -> str:
        power = int(self.log / log(10))
        shown = f"{exp(self.log - power * log(10)):.3f}e+{power:02d}" if power > 5 else f"{self.value:,.0f}"
        return f"about {shown} tables, give or take {100 * self.error:.2g} %"


def count_of(constraints: Constraints) -> int:
    """Return how many tables obey the constraints."""
    system = System.of(constraints, ()).counting()
    if (found := _of_two_way(system, constraints)) is not None:
        return found
    engine = Engine.of(system)
    order = engine.order
    if order.n_states == inf:
        raise TooLargeError(
            "infinitely many tables obey the conditions, or cells without limits hide how many there are"
        )
    if order.n_operations > _MOST_OPERATIONS:
        raise TooLargeError(
            f"counting these tables takes about 10^{log10(order.n_operations):.0f} additions of whole numbers, and the"
            f" limit is {_MOST_OPERATIONS:.0e}{_INSTEAD}"
        )
    return count_tables(engine, np.array(constraints.point, np.int64))


def _of_two_way(system: System, constraints: Constraints) -> int | None:
    """Return the number of two-way tables with both margins; None for other conditions, or too many lines."""
    try:
        grids = grids_of(_limited(system, constraints))
    except NoGridError:
        return None
    if len(grids) != 1 or any(low is None for low in system.lower):
        return None
    (grid,) = grids
    if grid.has_slack or grid.has_end or grid.cells.min() < 0 or grid.cells.size != system.n_cells:
        return None
    lower = np.array(system.lower, np.int64)
    free = (np.array(constraints.point, np.int64) - lower)[grid.cells]
    lines, columns = free.sum(axis=1), free.sum(axis=0)
    limits = zip(grid.cells.ravel().tolist(), np.minimum.outer(lines, columns).ravel().tolist(), strict=True)
    for cell, most in limits:
        upper = system.upper[cell]
        if upper is not None and upper - lower[cell] < most:
            return None
    return count_two_way(lines.tolist(), columns.tolist())


def _limited(system: System, constraints: Constraints) -> System:
    """Return the system with the limits of cells that its sums imply."""
    bounds = constraints.quick_bounds
    return replace(system, lower=tuple(bounds.lower), upper=tuple(bounds.upper))


def estimated_count(constraints: Constraints, n_attempts: int = 100_000) -> EstimatedCount:
    """Return how many tables obey the constraints by look-ahead rejection with unit weights, from a public seed."""
    system = _limited(System.of(constraints, ()).counting(), constraints)
    sampler = LookAhead.of(system)
    if sampler is None:
        raise TooLargeError(f"this number cannot be estimated by rejection: {why_not(system)}")
    sampler.check()
    point = np.array(constraints.point, np.int64)
    value, error = sampler.at(point).simulated_log_normaliser(n_attempts, replay_rng("count"))
    return EstimatedCount(value, error)
