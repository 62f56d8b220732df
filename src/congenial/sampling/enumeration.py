"""The brute force: every table of S*, its exact probability, and the exact privacy loss of a pair.

Slow, public, and the oracle that everything clever is compared with.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import comb, lgamma, log10, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import echelon
from congenial.conditions.rows_and_intervals import Limited, dense
from congenial.errors import SamplingError, TooLargeError
from congenial.exact import log_of
from congenial.proven_decisions import exact_choice, weights_cdf
from congenial.randomness import RandomStream, replay_rng
from congenial.sampling.target_and_system import Target

MOST_TABLES = 1_000_000
MOST_BYTES = 2**30
_PROBES = 2_000
_SAFE_INTEGER = 2**61


@dataclass(frozen=True)
class _Descent:
    """Cells one after another: what is left of every row when the cells so far are chosen."""

    n_cells: int
    base: tuple[int, ...]
    widths: tuple[int, ...]
    matrix: Ints
    low: Ints
    high: Ints
    rest_low: Ints
    rest_high: Ints

    def choices(self, cell: int, sums: Ints) -> tuple[Ints, Ints]:
        """Return the first and last value of a cell that every row still allows, for each line of partial sums."""
        first = np.zeros(len(sums), np.int64)
        last = np.full(len(sums), self.widths[cell], np.int64)
        for row, coefficient in enumerate(self.matrix[:, cell]):
            least = self.low[row] - sums[:, row] - self.rest_high[row, cell]
            most = self.high[row] - sums[:, row] - self.rest_low[row, cell]
            if coefficient == 0:
                last[(least > 0) | (most < 0)] = -1
                continue
            if coefficient < 0:
                least, most = -most, -least
            first = np.maximum(first, -(-least // abs(coefficient)))
            last = np.minimum(last, most // abs(coefficient))
        return first, last


def _limits(constraints: Constraints) -> tuple[list[int], list[int]]:
    """Return the implied limits of every cell; raises when one has none."""
    bounds = constraints.cell_bounds
    for cell, (low, high) in enumerate(zip(bounds.lower, bounds.upper, strict=True)):
        if low is None or high is None:
            raise TooLargeError(
                f"infinitely many tables obey the conditions: cell {constraints.schema.cell_name(cell)} has no limit;"
                " add bounds(lower, upper) or an invariant that limits it"
            )
    return [low for low in bounds.lower if low is not None], [high for high in bounds.upper if high is not None]


def _descent(conditions: Sequence[Limited], lower: Sequence[int], upper: Sequence[int]) -> _Descent:
    widths = [high - low for low, high in zip(lower, upper, strict=True)]
    # Combinations of equalities that end as early as possible see a dead end long before the last cell.
    early = echelon([condition for condition in conditions if condition.is_equality])
    limited = [*conditions, *(sooner for sooner in early if max(map(abs, sooner.row.coefficients)) < 2**31)]
    matrix = dense([condition.row for condition in limited], len(lower))
    at_base = [condition.row.value(lower) for condition in limited]
    reach = [sum(abs(int(c)) * width for c, width in zip(line, widths, strict=True)) for line in matrix]
    if any(size > _SAFE_INTEGER for size in reach):
        raise TooLargeError("the cells have too wide ranges to go through all tables one by one")
    # A missing limit, or one out of reach, is one that the cells' own ranges can never break.
    low = [
        -size if condition.lower is None else max(-size - 1, condition.lower - base)
        for condition, base, size in zip(limited, at_base, reach, strict=True)
    ]
    high = [
        size if condition.upper is None else min(size + 1, condition.upper - base)
        for condition, base, size in zip(limited, at_base, reach, strict=True)
    ]
    terms = matrix * np.array(widths, np.int64)
    rest_low = np.cumsum(terms[:, ::-1].clip(max=0), axis=1)[:, ::-1] - terms.clip(max=0)
    rest_high = np.cumsum(terms[:, ::-1].clip(min=0), axis=1)[:, ::-1] - terms.clip(min=0)
    return _Descent(len(lower), tuple(lower), tuple(widths), matrix, np.array(low), np.array(high), rest_low, rest_high)


def surely_more_than(constraints: Constraints, limit: int) -> bool:
    """Whether it is plain, without any search, that more than so many tables obey the conditions.

    Cells that no condition tells apart may exchange what they hold above their lower limits: k of them with an excess
    of e have C(e + k - 1, k - 1) arrangements. In a plain sum with G such groups, some group has a G-th of the excess.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> surely_more_than(p12_mechanism().disclose(p12_table()), 4_000)
    True
    """
    group_of = {cell: cells for cells in constraints.grouped.members for cell in cells}
    for equality in constraints.equalities:
        cells = equality.row.cells
        low, high = ([end[cell] for cell in cells] for end in (constraints.lower, constraints.upper))
        if set(equality.row.coefficients) != {1} or None in low or set(high) != {None} or equality.lower is None:
            continue
        sizes = [len(alike) for alike in {group_of[cell] for cell in cells}]
        excess = -(-(equality.lower - sum(end for end in low if end is not None)) // len(sizes))
        if excess >= 0 and min(comb(excess + size - 1, size - 1) for size in sizes) > limit:
            return True
    return False


def estimate_log10_count(constraints: Constraints) -> float:
    """Estimate the decimal logarithm of the number of tables, by random descents (Knuth 1975).

    A descent picks the sum of each group of cells with identical columns, uniformly among the values still allowed. The
    product of the numbers of choices, and of the ways to spread each sum over its cells, is an unbiased estimate of the
    count. Minus infinity when no descent arrived.
    """
    lower, upper = _limits(constraints)
    grouped = constraints.grouped
    low, high = ([sum(side[cell] for cell in cells) for cells in grouped.members] for side in (lower, upper))
    descent = _descent(grouped.rows, low, high)
    rng = replay_rng("estimate the number of tables")
    sums = np.zeros((_PROBES, len(descent.matrix)), np.int64)
    log_count = np.zeros(_PROBES)
    for group, cells in enumerate(grouped.members):
        first, last = descent.choices(group, sums)
        alive = last >= first
        sums, log_count, first, last = sums[alive], log_count[alive], first[alive], last[alive]
        if not len(sums):
            return -np.inf
        value = first + rng.below(last - first + 1)
        log_count = log_count + np.log(last - first + 1) + _log_ways([upper[c] - lower[c] for c in cells], value)
        sums = sums + value[:, None] * descent.matrix[:, group]
    peak = log_count.max()
    return float((peak + np.log(np.exp(log_count - peak).sum() / _PROBES)) / np.log(10))


def _log_ways(widths: list[int], sums: Ints) -> Floats:
    """Return the log number of ways in which cells of these widths make each sum."""
    if len(widths) == 1:
        return np.zeros(len(sums))
    top = int(sums.max())
    if top > 100_000:  # too long to tabulate: the smooth count of compositions without upper limits
        rest = len(widths) - 1
        return _lgamma(sums + rest + 1) - _lgamma(sums + 1) - lgamma(rest + 1)
    ways, log_scale = np.zeros(top + 1), 0.0
    ways[0] = 1.0
    for width in widths:
        running = np.cumsum(ways)
        ways = running - np.concatenate([np.zeros(min(width + 1, top + 1)), running[: max(0, top - width)]])
        log_scale += np.log(ways.max())
        ways /= ways.max()
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(ways[sums], 0.0)) + log_scale


def _lgamma(values: Ints) -> Floats:
    """Return the log gamma function of each value."""
    return np.array([lgamma(value) for value in values.tolist()])


def enumerate_tables(constraints: Constraints, limit: int = MOST_TABLES) -> Ints:
    """Return every table of S* as a line (table, cell), in lexicographic order; refuses more than `limit`."""
    descent = _descent(constraints.rows, *_limits(constraints))
    estimate = estimate_log10_count(constraints)
    if estimate > np.log10(limit) + 2:
        raise _too_many(estimate, limit)
    chosen = np.zeros((1, 0), np.int64)
    sums = np.zeros((1, len(descent.matrix)), np.int64)
    for cell in range(descent.n_cells):
        first, last = descent.choices(cell, sums)
        counts = np.maximum(last - first + 1, 0)
        n_partial = float(counts.sum(dtype=np.float64))
        if cell == descent.n_cells - 1 and n_partial > limit:
            raise _too_many(estimate, limit)
        if n_partial > 10 * limit:
            raise TooLargeError(
                f"going through the tables one by one meets more than {10 * limit:,} beginnings of tables (of whole"
                f" tables there are about {_about(estimate)}); use a sampler that does not enumerate"
            )
        parent = np.repeat(np.arange(len(sums)), counts)
        offset = np.arange(len(parent)) - np.repeat(np.cumsum(counts) - counts, counts)
        value = first[parent] + offset
        chosen = np.column_stack([chosen[parent], value])
        sums = sums[parent] + value[:, None] * descent.matrix[:, cell]
    return chosen + np.array(descent.base, np.int64)


def _too_many(log10_estimate: float, limit: int) -> TooLargeError:
    # A poor estimate may lie below the limit that the count itself went past.
    about = f"more than {limit:,}" if log10_estimate <= np.log10(limit) else f"about {_about(log10_estimate)}"
    return TooLargeError(
        f"{about} tables obey the conditions, and going through all of them stops at {limit:,};"
        " use a sampler that does not enumerate"
    )


def _about(log10: float) -> str:
    return f"{10**log10:,.0f}" if log10 < 9 else f"10^{log10:.0f}"


@dataclass(frozen=True)
class EnumeratedLaw:
    """A law with all its tables and exact weights.

    Attributes
    ----------
    tables : array (table, cell)
    weights : tuple of int
        Integer weights, table by table; the probability is the weight over their sum.
    scale : int
        What the integer weights were multiplied by: `normaliser` is ``sum(weights) / scale``.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> law = EnumeratedLaw.of(two_bins().target)
    >>> len(law.tables), sum(law.probabilities)
    (6, Fraction(1, 1))
    """

    tables: Ints = field(repr=False)
    weights: tuple[int, ...] = field(repr=False)
    scale: int = field(repr=False)

    @classmethod
    def of(cls, target: Target, limit: int = MOST_TABLES) -> "EnumeratedLaw":
        """Go through every table; needs discrete noise."""
        tables = enumerate_tables(target.constraints, limit)
        tables.setflags(write=False)
        powers: dict[Fraction, Ints] = {}
        for query, deviation in zip(target.measured, target.deviations(tables).T, strict=True):
            noise = query.noise
            if not noise.is_discrete:
                raise SamplingError(f"{noise.family} noise is continuous; only laws on the integers can be enumerated")
            if np.abs(deviation).max(initial=0) >= 2**31:
                raise TooLargeError("a measured query strays too far to hold its probabilities as exact fractions")
            powers[noise.base] = powers.get(noise.base, np.zeros(len(tables), np.int64)) + noise.power(deviation)
        powers |= target.zero_weights(tables)  # zero weights are above 1, bases below it
        # A table's weight is prod base^power: over the common denominator of all tables it is an integer.
        bases, stacked = list(powers), np.column_stack(list(powers.values()))
        most = stacked.max(axis=0).tolist()
        distinct, of_table = np.unique(stacked, axis=0, return_inverse=True)
        if sum(most) * 53 / 8 * len(distinct) > MOST_BYTES:
            raise TooLargeError(
                "the exact fractions of this law would fill the memory: its tables lie too far apart for its precision;"
                " use a sampler that does not enumerate"
            )
        values = [
            prod(b.numerator**n * b.denominator ** (top - n) for b, n, top in zip(bases, line, most, strict=True))
            for line in distinct.tolist()
        ]
        scale = prod(b.denominator**top for b, top in zip(bases, most, strict=True))
        return cls(tables, tuple(values[i] for i in of_table.reshape(-1).tolist()), scale)

    @cached_property
    def total_weight(self) -> int:
        """The sum of the integer weights."""
        return sum(self.weights)

    @property
    def normaliser(self) -> Fraction:
        """c(s): the sum of the unnormalised weights over S*, exactly."""
        return Fraction(self.total_weight, self.scale)

    @property
    def log_normaliser(self) -> float:
        """The logarithm of `normaliser`."""
        return log_of(self.normaliser)

    @cached_property
    def probabilities(self) -> tuple[Fraction, ...]:
        """The exact probability of each table."""
        return tuple(Fraction(weight, self.total_weight) for weight in self.weights)

    def sample(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return independent draws (draw, cell) with exactly these probabilities."""
        return self.tables[exact_choice(weights_cdf(list(self.weights)), n_draws, rng)]

    def position(self, draws: ArrayLike) -> NDArray[np.intp]:
        """Return which table each draw (draw, cell) is, -1 for one outside S*."""
        tables = np.asarray(draws)
        if tables.ndim != 2 or tables.shape[1] != self.tables.shape[1] or tables.dtype.kind not in "iu":
            raise SamplingError(
                f"draws are whole numbers of shape (draw, {self.tables.shape[1]}), not {tables.shape} {tables.dtype}"
            )
        known = {line.tobytes(): number for number, line in enumerate(np.ascontiguousarray(self.tables))}
        return np.array([known.get(line.tobytes(), -1) for line in np.ascontiguousarray(tables, np.int64)], np.intp)


def worst_ratio(first: EnumeratedLaw, second: EnumeratedLaw) -> Fraction:
    """Return ``max_t P(t | s) / P(t | s')`` over S*, exactly: the privacy loss of the pair is its logarithm."""
    if not np.array_equal(first.tables, second.tables):
        raise SamplingError("the two laws live on different tables: a pair must share its invariants")
    pairs = zip(first.weights, second.weights, strict=True)
    return max(Fraction(weight, other) for weight, other in set(pairs)) * Fraction(
        second.total_weight, first.total_weight
    )


# Whether so few tables obey the conditions that all of them can be gone through, and which they are.

_MOST_CELLS = 48  # more cells that can move leave more tables than can be listed, and counting them takes long


def may_be_few(constraints: Constraints, limit: int) -> bool:
    """Whether at most so many tables obey the conditions, as far as a rough count tells.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table, two_bins
    >>> may_be_few(two_bins().constraints, 400), may_be_few(p12_mechanism().disclose(p12_table()), 400)
    (True, False)
    """
    if surely_more_than(constraints, 10 * limit):
        return False  # the rough count solves linear programs: 40 ms and half a second to load the solver
    bounds = constraints.quick_bounds
    if None in bounds.lower or None in bounds.upper:
        return False
    if constraints.schema.n_cells - len(bounds.pinned) > _MOST_CELLS:
        return False
    return estimate_log10_count(constraints) <= log10(limit) + 1


def all_tables(constraints: Constraints, limit: int) -> Ints | None:
    """Return every table that obeys the conditions (table, cell); None when they are more than so many."""
    if not may_be_few(constraints, limit):
        return None
    try:
        return enumerate_tables(constraints, limit)
    except TooLargeError:
        return None
