"""How many tables obey some conditions: exactly within reach, by rejection with a stated error beyond. Public."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb, exp, inf, log, log10, prod

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.constraints import Constraints
from congenial.errors import TooLargeError
from congenial.randomness import replay_rng
from congenial.sampling.elimination.compiled_layout import Elimination
from congenial.sampling.elimination.exact_fallback import count_tables
from congenial.sampling.target_and_system import System
from congenial.sampling.two_way.grid import NoGridError, grids_of
from congenial.sampling.two_way.sampler_and_pilots import TwoWayRejection, why_not

# How many two-way tables of whole numbers have given margins, where one side has at most four lines. Public.
#
# Split the columns in two pairs. The lines of the first pair add up to some u, those of the second to the rest; for
# each u a pair of columns can be filled in a number of ways that inclusion and exclusion give at once. So the count
# is a sum over all u, and no table is built: a second for 592 people by colours of eyes and hair.

MOST_SUMS = 3 * 10**8
_MOST_COLUMNS = 4


def count_two_way(lines: Sequence[int], columns: Sequence[int]) -> int | None:
    """Return the number of tables with these sums of lines and columns; None where that takes too long.

    Examples
    --------
    >>> count_two_way([2, 2, 2], [2, 2, 2])
    21
    >>> count_two_way([220, 215, 93, 64], [108, 286, 71, 127])
    1225914276768514
    """
    lines, columns = [v for v in lines if v], [v for v in columns if v]
    if min(len(lines), len(columns)) <= 1:
        return 1
    ways = [(lines, columns), (columns, lines)]
    fits = [(n, held, free) for held, free in ways if len(free) <= _MOST_COLUMNS and (n := _n_sums(held)) <= MOST_SUMS]
    if not fits:
        return None
    _, held, free = min(fits)
    held, free = sorted(held), sorted(free, reverse=True)
    if comb(max(free) + len(held) - 1, len(held) - 1) ** 2 >= 2**62:
        return None
    if len(free) == 2:
        return int(_ways([np.array([v]) for v in held], free[0])[0])
    return _sum_over_pairs(held, free)


def _n_sums(held: Sequence[int]) -> int:
    """Return how many numbers are added up: the sums of lines, of which the largest follows, times sets of lines."""
    return int(2 ** len(held)) * prod(sorted(held)[i] + 1 for i in range(len(held) - 1))


def _sum_over_pairs(held: Sequence[int], free: Sequence[int]) -> int:
    first = free[0] + free[1]
    total = 0
    for start in range(held[0] + 1):  # a slice at a time bounds the memory
        axes = [np.array([start]), *(np.arange(v + 1) for v in held[1:-1])]
        grid = [part.reshape(-1) for part in np.meshgrid(*axes, indexing="ij")]
        last = first - sum(grid, np.zeros(1, np.int64))
        inside = (last >= 0) & (last <= held[-1])
        u = [*(part[inside] for part in grid), last[inside]]
        rest = [v - part for v, part in zip(held, u, strict=True)]
        ways = _ways(u, free[0]) * (_ways(rest, free[2]) if len(free) == 4 else 1)
        total += (int((ways >> 32).sum()) << 32) + int((ways & 0xFFFFFFFF).sum())
    return total


def _ways(u: list[Ints], column: int) -> Ints:
    """Return in how many ways numbers between 0 and u_i add up to a column's sum, for many u at once."""
    n = len(u)
    out = np.zeros(u[0].shape, np.int64)
    for size in range(n + 1):
        for chosen in combinations(range(n), size):
            rest = column - sum((u[i] + 1 for i in chosen), np.zeros(u[0].shape, np.int64))
            out += (-1) ** size * _compositions(rest, n)
    return out


def _compositions(total: Ints, n: int) -> Ints:
    """Return the number of n numbers from 0 on that add up to `total`."""
    out = np.ones(total.shape, np.int64)
    for k in range(1, n):
        out = out * (total + k) // k
    return np.where(total >= 0, out, 0)


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
    if (n_tables := _of_two_way(system, constraints)) is not None:
        return n_tables
    elimination = Elimination.of(system)
    order = elimination.order
    if order.n_states == inf:
        raise TooLargeError(
            "infinitely many tables obey the conditions, or cells without limits hide how many there are"
        )
    if order.n_operations > _MOST_OPERATIONS:
        raise TooLargeError(
            f"counting these tables takes about 10^{log10(order.n_operations):.0f} additions of whole numbers, and the"
            f" limit is {_MOST_OPERATIONS:.0e}{_INSTEAD}"
        )
    return count_tables(elimination, np.array(constraints.point, np.int64))


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
    sampler = TwoWayRejection.of(system)
    if sampler is None:
        raise TooLargeError(f"this number cannot be estimated by rejection: {why_not(system)}")
    sampler.check()
    point = np.array(constraints.point, np.int64)
    value, error = sampler.at(point).simulated_log_normaliser(n_attempts, replay_rng("count"))
    return EstimatedCount(value, error)
