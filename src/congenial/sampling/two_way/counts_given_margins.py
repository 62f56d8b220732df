"""A table of counts with both margins given, around a table that need not have them: one step of a tree of areas."""

from dataclasses import dataclass
from functools import cached_property
from math import exp, log, sqrt

import numpy as np

from congenial.arrays import Ints
from congenial.errors import TooLargeError
from congenial.noise.noise_and_discrete_noise import DiscreteNoise
from congenial.noise.weight import NoiseWeight
from congenial.randomness import RandomStream
from congenial.sampling.allocation_to_children.tilts_and_normaliser import level_noise
from congenial.sampling.two_way.attempts import Attempts
from congenial.sampling.two_way.prepared import PreparedTable, attempt_inputs
from congenial.sampling.two_way.weights_and_buffers import TabulatedWeights, TiltedCell

_SWEEPS = 100
_FIRST_ATTEMPTS = 64  # with the smaller side as rows; then as many with the other, and twice as many in each turn


@dataclass(frozen=True, eq=False, repr=False)
class PreparedCounts(PreparedTable):
    """Everything that attempts at one table with given margins share. Confidential.

    Squared noise around s, given both margins, is the same law around ``s + a_i + c_j``: centres are moved by whole
    numbers until they fit the margins about, and tilts near 1 do the rest. Rows are in the order in which they are
    drawn.

    Attributes
    ----------
    centres : array (row, column)
        Counts moved by whole shifts; they may be negative.
    anchor : array (row, column)
        The deviation of weight 1.
    """

    weight: NoiseWeight
    centres: Ints
    most: Ints
    anchor: Ints
    half: int

    @classmethod
    def of(cls, noise: DiscreteNoise, counts: Ints, row_sum: Ints, column_sum: Ints) -> "PreparedCounts":
        """Work out tilts, weights and bounds.

        Parameters
        ----------
        counts : array (row, column)
        row_sum, column_sum : array
            The margins, all above 0.
        """
        from congenial.sampling.two_way import kernels_tilt as two_way  # numba: 0.3 s to import

        n_rows, n_columns = shape = counts.shape
        shared, variance = level_noise(noise), 1 / float(noise.precision)
        rows, columns = np.zeros(n_rows), np.zeros(n_columns)
        two_way.settle_shifts(counts, row_sum, column_sum, variance, _SWEEPS, rows, columns)
        whole = np.empty(n_rows, np.int64), np.empty(n_columns, np.int64)
        tilts = np.empty(n_rows), np.empty(n_columns)
        for shifts, steps, rest in zip((rows, columns), whole, tilts, strict=True):
            two_way.split_shifts(shifts, variance, steps, rest)
        centres = counts + whole[0][:, None] + whole[1]
        value = np.zeros((counts.size, 2 * shared.side + 3))
        first, last = np.empty(counts.size, np.int64), np.empty(counts.size, np.int64)
        low, high, mean, spread = (np.empty(shape) for _ in range(4))
        anchor, tail = np.empty(shape, np.int64), np.empty((*shape, 2))
        moved = (shared, centres, row_sum, column_sum, *tilts)
        units = two_way.tabulate_two_way(*moved, value, first, last, low, high, anchor, tail, mean, spread)
        weights = TabulatedWeights(value, first, last)
        order = np.argsort(spread.sum(axis=1), kind="stable")  # those with the least room first
        place = np.arange(counts.size).reshape(shape)[order]
        sums = (row_sum - centres.sum(axis=1))[order], column_sum - centres.sum(axis=0)
        inputs = attempt_inputs(
            weights,
            units,
            place,
            tail[order],
            (low[order], high[order]),
            (mean[order], spread[order]),
            np.zeros(n_columns, np.int64),
            sums,
            np.full(n_columns, 4.0 + sqrt(variance)),
        )
        sizes = (last - first + 1)[place]
        reach = 30 * sqrt(spread.sum(axis=1).max())
        length = int(min(sizes.sum(axis=1).max(), reach)) + 2 * (int(sizes.max()) + 64)
        most = (np.minimum(row_sum[:, None], column_sum) - centres)[order]
        half = int(max((last - anchor.ravel()).max(), (anchor.ravel() - first).max(), 1))
        centres, anchor = centres[order], anchor[order]
        return cls(inputs, order, tilts[0][order], tilts[1], length, noise.weight, centres, most, anchor, half)

    def cell(self, row: int, column: int) -> TiltedCell:
        """Return the exact weight of a cell."""
        low, high, anchor = (int(part[row, column]) for part in (-self.centres, self.most, self.anchor))
        return TiltedCell(self.weight, low, high, self.tilt(row, column), self.half, anchor)


@dataclass(frozen=True, eq=False, repr=False)
class TwoWayCounts:
    """Draws counts with weights ``prod f(y - s)`` on the nonnegative tables with given margins. Confidential.

    Attributes
    ----------
    noise : DiscreteNoise
        Squared noise.
    counts : array (row, column)
        The centre s; its margins may be others.
    row_sum, column_sum : array
        What the draw adds up to.
    """

    noise: DiscreteNoise
    counts: Ints
    row_sum: Ints
    column_sum: Ints
    always_refined: bool = False

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """Rows and columns that have anybody."""
        return np.flatnonzero(self.row_sum), np.flatnonzero(self.column_sum)

    @property
    def is_determined(self) -> bool:
        """Whether one table alone has these margins."""
        return min(place.size for place in self._places) <= 1

    @property
    def turns(self) -> tuple[bool, bool]:
        """Whether rows and columns change places: first so that the smaller side is that of the rows."""
        is_tall = self._places[0].size > self._places[1].size
        return is_tall, not is_tall

    @cached_property
    def _made(self) -> dict[bool, tuple[PreparedCounts, Attempts]]:
        return {}

    def attempts(self, *, is_turned: bool) -> Attempts:
        """Return what attempts of one orientation share, made when it is first needed."""
        if is_turned not in self._made:
            rows, columns = self._places
            counts, sums = self.counts[np.ix_(rows, columns)], (self.row_sum[rows], self.column_sum[columns])
            if is_turned:
                counts, sums = np.ascontiguousarray(counts.T), (sums[1], sums[0])
            at = PreparedCounts.of(self.noise, counts, *sums)
            self._made[is_turned] = at, Attempts(at, self.always_refined)
        return self._made[is_turned][1]

    def table_of(self, deviations: Ints, *, is_turned: bool) -> Ints:
        """Return the table (row, column) of an accepted attempt, rows in their own order."""
        at, _ = self._made[is_turned]
        inside = at.centres[np.argsort(at.order)] + deviations
        out = np.zeros_like(self.counts)
        out[np.ix_(*self._places)] = inside.T if is_turned else inside
        return out

    def draw(self, rng: RandomStream) -> Ints:
        """Return one draw (row, column).

        Orientations take turns; how long a turn is does not depend on what was drawn, so the first accepted attempt
        has the law of any. There is no limit to attempts.
        """
        if self.is_determined:
            rows, columns = self._places
            out = np.zeros_like(self.counts)
            inside = self.row_sum[rows][:, None] if columns.size == 1 else self.column_sum[columns][None, :]
            out[np.ix_(rows, columns)] = inside
            return out
        turn = 0
        while True:
            is_turned = self.turns[turn % 2]
            deviations = self.attempts(is_turned=is_turned).first(_FIRST_ATTEMPTS << (turn // 2), rng)
            if deviations is not None:
                return self.table_of(deviations, is_turned=is_turned)
            turn += 1


# How much weight all tables with given margins have together: row after row, every partial sum of columns kept.

_MOST_SUMS = 20_000  # a second or so


def log_two_way(noise: DiscreteNoise, counts: Ints, row_sum: Ints, column_sum: Ints) -> float:
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
        counts, row_sum, column_sum = counts.T, column_sum, row_sum
    log_weights = {(0,) * counts.shape[1]: 0.0}
    for counts_of_row, wanted in zip(counts.tolist(), row_sum.tolist(), strict=True):
        log_weights = _after_row(noise, counts_of_row, wanted, column_sum.tolist(), log_weights)
    return log_weights.get(tuple(column_sum.tolist()), -np.inf)


def _after_row(
    noise: DiscreteNoise,
    counts_of_row: list[int],
    wanted: int,
    most: list[int],
    log_weights: dict[tuple[int, ...], float],
) -> dict[tuple[int, ...], float]:
    """Add one row, cell by cell; the last number of a key is what the row still lacks."""
    states = {(*sums, wanted): value for sums, value in log_weights.items()}
    for column, centre in enumerate(counts_of_row):
        following: dict[tuple[int, ...], float] = {}
        weights = noise.log_weight(np.arange(wanted + 1) - centre).tolist()
        for state, value in states.items():
            missing = state[-1]
            is_last = column == len(counts_of_row) - 1
            for y in range(missing if is_last else 0, min(missing, most[column] - state[column]) + 1):
                key = (*state[:column], state[column] + y, *state[column + 1 : -1], missing - y)
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
