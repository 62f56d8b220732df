"""A table of counts with both margins given, around a table that need not have them: one step of a tree of areas."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, log, sqrt

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import TooLargeError
from congenial.noise.base import DiscreteNoise
from congenial.noise.weight import NoiseWeight
from congenial.randomness import RandomStream
from congenial.sampling.allocation.tilts import level_noise
from congenial.sampling.two_way.attempts import Attempts
from congenial.sampling.two_way.prepared import tables_of
from congenial.sampling.two_way.weights import Room, Tables, TiltedCell, Weights

_SWEEPS = 100
_FIRST_ATTEMPTS = 64  # with the smaller side as lines; then as many with the other, and twice as many in each turn


@dataclass(frozen=True, eq=False, repr=False)
class TwoWayAt:
    """Everything that attempts at one table with given margins share. Confidential.

    Squared noise around s, given both margins, is the same law around ``s + a_i + c_j``: centres are moved by whole
    numbers until they fit the margins about, and tilts near 1 do the rest. Lines are in the order in which they are
    drawn.

    Attributes
    ----------
    centres : array (line, column)
        Counts moved by whole shifts; they may be negative.
    anchor : array (line, column)
        The deviation of weight 1.
    """

    tables: Tables
    order: Ints
    weight: NoiseWeight
    centres: Ints
    most: Ints
    anchor: Ints
    line_tilts: Floats
    column_tilts: Floats
    half: int
    length: int

    @classmethod
    def of(cls, noise: DiscreteNoise, counts: Ints, line_sum: Ints, column_sum: Ints) -> "TwoWayAt":
        """Work out tilts, weights and bounds.

        Parameters
        ----------
        counts : array (line, column)
        line_sum, column_sum : array
            The margins, all above 0.
        """
        from congenial.sampling.two_way import kernels_tilt as two_way  # numba: 0.3 s to import

        n_lines, n_columns = shape = counts.shape
        shared, variance = level_noise(noise), 1 / float(noise.precision)
        lines, columns = np.zeros(n_lines), np.zeros(n_columns)
        two_way.settle_shifts(counts, line_sum, column_sum, variance, _SWEEPS, lines, columns)
        whole = np.empty(n_lines, np.int64), np.empty(n_columns, np.int64)
        tilts = np.empty(n_lines), np.empty(n_columns)
        for shifts, steps, left in zip((lines, columns), whole, tilts, strict=True):
            two_way.split_shifts(shifts, variance, steps, left)
        centres = counts + whole[0][:, None] + whole[1]
        value = np.zeros((counts.size, 2 * shared.side + 3))
        first, last = np.empty(counts.size, np.int64), np.empty(counts.size, np.int64)
        low, high, mean, spread = (np.empty(shape) for _ in range(4))
        anchor, tail = np.empty(shape, np.int64), np.empty((*shape, 2))
        given = (shared, centres, line_sum, column_sum, *tilts)
        units = two_way.tabulate_two_way(*given, value, first, last, low, high, anchor, tail, mean, spread)
        weights = Weights(value, first, last)
        order = np.argsort(spread.sum(axis=1), kind="stable")  # those with the least room first
        which = np.arange(counts.size).reshape(shape)[order]
        sums = (line_sum - centres.sum(axis=1))[order], column_sum - centres.sum(axis=0)
        made = tables_of(
            weights,
            units,
            which,
            tail[order],
            (low[order], high[order]),
            (mean[order], spread[order]),
            np.zeros(n_columns, np.int64),
            sums,
            np.full(n_columns, 4.0 + sqrt(variance)),
        )
        sizes = (last - first + 1)[which]
        reach = 30 * sqrt(spread.sum(axis=1).max())
        length = int(min(sizes.sum(axis=1).max(), reach)) + 2 * (int(sizes.max()) + 64)
        most = (np.minimum(line_sum[:, None], column_sum) - centres)[order]
        half = int(max((last - anchor.ravel()).max(), (anchor.ravel() - first).max(), 1))
        centres, anchor, tilts = centres[order], anchor[order], (tilts[0][order], tilts[1])
        return cls(made, order, noise.weight, centres, most, anchor, *tilts, half, length)

    def room(self) -> Room:
        """Return room for lines."""
        return Room.of(self.tables.kind.shape[1], self.tables.weights.value.shape[1], self.length)

    def cell(self, line: int, column: int) -> TiltedCell:
        """Return the exact weight of a cell."""
        tilt = Fraction(float(self.line_tilts[line])) * Fraction(float(self.column_tilts[column]))
        low, high = -int(self.centres[line, column]), int(self.most[line, column])
        return TiltedCell(self.weight, low, high, tilt, self.half, int(self.anchor[line, column]))


@dataclass(frozen=True, eq=False, repr=False)
class TwoWayCounts:
    """Draws counts with weights ``prod f(y - s)`` on the nonnegative tables with given margins. Confidential.

    Attributes
    ----------
    noise : DiscreteNoise
        Squared noise.
    counts : array (line, column)
        The centre s; its margins may be others.
    line_sum, column_sum : array
        What the draw adds up to.
    """

    noise: DiscreteNoise
    counts: Ints
    line_sum: Ints
    column_sum: Ints
    always_refined: bool = False

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """Lines and columns that have anybody."""
        return np.flatnonzero(self.line_sum), np.flatnonzero(self.column_sum)

    @property
    def is_determined(self) -> bool:
        """Whether one table alone has these margins."""
        return min(place.size for place in self._places) <= 1

    @property
    def turns(self) -> tuple[bool, bool]:
        """Whether lines and columns change places: first so that the smaller side is that of the lines."""
        is_tall = self._places[0].size > self._places[1].size
        return is_tall, not is_tall

    @cached_property
    def _made(self) -> dict[bool, tuple[TwoWayAt, Attempts]]:
        return {}

    def attempts(self, *, is_turned: bool) -> Attempts:
        """Return what attempts of one orientation share, made when it is first needed."""
        if is_turned not in self._made:
            lines, columns = self._places
            counts, sums = self.counts[np.ix_(lines, columns)], (self.line_sum[lines], self.column_sum[columns])
            if is_turned:
                counts, sums = np.ascontiguousarray(counts.T), (sums[1], sums[0])
            at = TwoWayAt.of(self.noise, counts, *sums)
            self._made[is_turned] = at, Attempts(at, self.always_refined)
        return self._made[is_turned][1]

    def table_of(self, deviations: Ints, *, is_turned: bool) -> Ints:
        """Return the table (line, column) of an accepted attempt, lines in their own order."""
        at, _ = self._made[is_turned]
        inside = at.centres[np.argsort(at.order)] + deviations
        out = np.zeros_like(self.counts)
        out[np.ix_(*self._places)] = inside.T if is_turned else inside
        return out

    def draw(self, rng: RandomStream) -> Ints:
        """Return one draw (line, column).

        Orientations take turns; how long a turn is does not depend on what was drawn, so the first accepted attempt
        has the law of any. There is no limit to attempts.
        """
        if self.is_determined:
            lines, columns = self._places
            out = np.zeros_like(self.counts)
            inside = self.line_sum[lines][:, None] if columns.size == 1 else self.column_sum[columns][None, :]
            out[np.ix_(lines, columns)] = inside
            return out
        turn = 0
        while True:
            is_turned = self.turns[turn % 2]
            found = self.attempts(is_turned=is_turned).first(_FIRST_ATTEMPTS << (turn // 2), rng)
            if found is not None:
                return self.table_of(found, is_turned=is_turned)
            turn += 1


# How much weight all tables with given margins have together: line after line, every partial sum of columns kept.

_MOST_SUMS = 20_000  # a second or so


def log_two_way(noise: DiscreteNoise, counts: Ints, line_sum: Ints, column_sum: Ints) -> float:
    """Return ``log sum prod f(y - s)`` over nonnegative tables y with these margins, around counts s.

    Exact but for rounding. What has to be remembered grows with the number of columns, so large tables are refused.

    Examples
    --------
    >>> from congenial.noise import DiscreteGaussian
    >>> one = np.array([[1, 0], [0, 1]])  # this table, and the one with its columns exchanged
    >>> round(log_two_way(DiscreteGaussian(2), one, np.array([1, 1]), np.array([1, 1])), 9)
    0.018149928
    """
    if counts.shape[0] < counts.shape[1]:
        counts, line_sum, column_sum = counts.T, column_sum, line_sum
    kept = {(0,) * counts.shape[1]: 0.0}
    for own, wanted in zip(counts.tolist(), line_sum.tolist(), strict=True):
        kept = _after_line(noise, own, wanted, column_sum.tolist(), kept)
    return kept.get(tuple(column_sum.tolist()), -np.inf)


def _after_line(
    noise: DiscreteNoise, own: list[int], wanted: int, most: list[int], kept: dict[tuple[int, ...], float]
) -> dict[tuple[int, ...], float]:
    """Add one line, cell by cell; the last number of a key is what the line still lacks."""
    states = {(*sums, wanted): value for sums, value in kept.items()}
    for column, centre in enumerate(own):
        following: dict[tuple[int, ...], float] = {}
        weights = noise.log_weight(np.arange(wanted + 1) - centre).tolist()
        for state, value in states.items():
            left = state[-1]
            is_last = column == len(own) - 1
            for y in range(left if is_last else 0, min(left, most[column] - state[column]) + 1):
                key = (*state[:column], state[column] + y, *state[column + 1 : -1], left - y)
                following[key] = _sum(following.get(key, -np.inf), value + weights[y])
        if len(following) > _MOST_SUMS:
            raise TooLargeError(
                f"the normaliser of children with exact sums of their own takes more than {_MOST_SUMS:,} partial sums;"
                " the probability of a release of such a tree is known by simulation only"
            )
        states = following
    return {state[:-1]: value for state, value in states.items()}


def _sum(a: float, b: float) -> float:
    high, low = (a, b) if a > b else (b, a)
    return high if low == -np.inf else high + log(1 + exp(low - high))
