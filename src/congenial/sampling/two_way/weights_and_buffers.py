"""Weights of cells as tables: one for all cells whose noise and limits, cut off at the window, are the same."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, frexp, inf, ldexp
from typing import NamedTuple

import flint
import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import SamplingError
from congenial.exact import ball
from congenial.noise.weight import FLAT, NoiseWeight
from congenial.portable_math import exp_e, log_e

# The exact weight of one cell under its tilt, in balls: what the doubles of an attempt stand for. Confidential.


@dataclass(frozen=True, repr=False)
class TiltedCell:
    """Weights ``f(x) tilt^x`` of a deviation x between limits, divided by that of the anchor.

    Attributes
    ----------
    low, high : int or None
        Limits of the deviation.
    tilt : Fraction
    half : int
        How far the window reaches to both sides of the anchor.
    anchor : int
        The deviation whose weight is 1; 0 unless the noise is squared.
    """

    weight: NoiseWeight
    low: int | None
    high: int | None
    tilt: Fraction
    half: int
    anchor: int = 0

    def at(self, x: int) -> flint.arb:
        """Return the weight of a deviation, 0 beyond the limits."""
        if (self.low is not None and x < self.low) or (self.high is not None and x > self.high):
            return flint.arb(0)
        return self._unlimited(x) * (ball(self.weight.zero_weight) if x == self.low else 1)

    def _unlimited(self, x: int) -> flint.arb:
        return self.weight.enclosures([x], self.anchor)[0] * ball(self.tilt) ** (x - self.anchor)

    def window(self, widths: int) -> tuple[int, int]:
        """Return the first and the last deviation of a window so many times as wide, within the limits."""
        half = self.half * (1 if self.weight.is_flat else widths)
        low, high = self.anchor - half, self.anchor + half
        return (
            low if self.low is None else max(self.low, low),
            high if self.high is None else min(self.high, high),
        )

    def missing(self, widths: int) -> flint.arb:
        """Return a bound of all weights outside that window: a geometric series on each side.

        Ratios of neighbours only fall with distance. In balls, because doubles may underflow in a wide window.
        """
        first, last = self.window(widths)
        total = flint.arb(0)
        for edge, step, is_there in (
            (first - 1, -1, self.low is None or self.low < first),
            (last + 1, 1, self.high is None or self.high > last),
        ):
            if is_there:
                at = self._unlimited(edge)
                total += ball(self.weight.zero_weight) * at / (1 - self._unlimited(edge + step) / at)
        return total


# What the kernels of two-way rejection are given, as plain arrays. Imported without numba.

ACCEPTED, REJECTED, UNPROVEN = 1, 0, 2
"""How a row of an attempt ends."""

FEWEST_POINTS, MOST_POINTS = 32, 1024
"""Over how many points of the circle norms are taken: powers of two."""


class TabulatedWeights(NamedTuple):
    """Tabulated weights of cells, one row for each that differs.

    Attributes
    ----------
    value : array (kind, place)
        The weight at deviation ``first + place``; 0 after that of ``last``.
    first, last : array (kind)
        Deviations inside the window.
    """

    value: Floats
    first: Ints
    last: Ints


class LaterBounds(NamedTuple):
    """Bounds of what is still to come, before every row, as functions of a column's partial sum.

    Attributes
    ----------
    value : array
        All of them after one another, scaled to be at most 1.
    start, low, size : array (row, column)
        Where those before this row begin, the partial sum of their first entry, and how many there are.
    below, above : array (row, column)
        The bound before the first entry and after the last one.
    shift : array (row)
        By how many powers of two the bounds before a row were scaled against those after it.
    """

    value: Floats
    start: Ints
    low: Ints
    size: Ints
    below: Floats
    above: Floats
    shift: Ints


class AttemptInputs(NamedTuple):
    """Everything that attempts at one table read.

    Attributes
    ----------
    weights : TabulatedWeights
        Tilted ones.
    units : float
        How many rounding units a weight may be off by.
    kind : array (row, column)
        Which weights a cell has; -1 where any deviation weighs 1.
    tail : array (row, column)
        A bound of the tilted weight beyond the window.
    row_sum, column_sum : array (row), (column)
        What deviations add up to.
    bounds : LaterBounds
    """

    weights: TabulatedWeights
    units: float
    kind: Ints
    tail: Floats
    row_sum: Ints
    column_sum: Ints
    bounds: LaterBounds


class Buffers(NamedTuple):
    """Where a row is worked out: parts (column, place), their messages (column + 1, place), and what was lost."""

    part: Floats
    part_low: Ints
    part_size: Ints
    message: Floats
    message_low: Ints
    message_size: Ints
    lost: Floats  # of an entry of a message, in its own scale
    lack: Floats  # of a sum over a part and the message before it, before it is scaled
    units: Floats  # rounding units of a message
    work: Floats

    @classmethod
    def of(cls, n_columns: int, width: int, length: int) -> "Buffers":
        """Return buffers for rows of so many columns, weights of so many places and messages of that length."""
        n = n_columns + 1
        part, part_low, part_size = np.zeros((n_columns, width)), np.zeros(n, np.int64), np.zeros(n, np.int64)
        message, low, size = np.zeros((n, length)), np.zeros(n, np.int64), np.zeros(n, np.int64)
        lost, lack, units = np.zeros(n), np.zeros(n), np.zeros(n)
        return cls(part, part_low, part_size, message, low, size, lost, lack, units, np.zeros(length))


NATS = 64.0
"""Weights are tabulated down to ``exp(-NATS)``; what is beyond is bounded in closed form."""

MOST_VALUES = 4096
_LEAST = 2.0**-1000  # a bound is never rounded down to nothing
_MOST_TILT_NATS = 300.0


@dataclass(frozen=True)
class CellWeight:
    """The weight of a deviation: a noise weight between limits.

    Attributes
    ----------
    low, high : int or None
        Limits of the deviation. `near` puts one in place of all that lie beyond the window.
    """

    weight: NoiseWeight
    low: int | None
    high: int | None

    @cached_property
    def half(self) -> int:
        """How far the window reaches to both sides."""
        if self.weight.is_flat:
            if self.low is None or self.high is None or self.high - self.low > MOST_VALUES:
                raise SamplingError("internal: a cell without noise has no window")
            return max(-self.low, self.high)
        return window(self.weight)

    def near(self) -> "CellWeight":
        """Return the kind that has the same table: limits beyond the window are as far as each other."""
        far = self.half + 1
        low, high = (None if v is None or abs(v) >= far else v for v in (self.low, self.high))
        return CellWeight(self.weight, low, high)

    @property
    def first(self) -> int:
        """The smallest deviation inside the window."""
        return -self.half if self.low is None else max(self.low, -self.half)

    @property
    def last(self) -> int:
        """The largest one."""
        return self.half if self.high is None else min(self.high, self.half)

    def values(self) -> Floats:
        """Return the weights of ``first .. last``, each the double next to it."""
        out = _doubles(self.weight, max(-self.first, self.last))[np.abs(np.arange(self.first, self.last + 1))]
        if self.low is not None and self.low == self.first and self.weight.zero_weight != 1:
            out[0] = float(self.weight.at(self.low, is_limit=True))
        return out

    def tails(self, tilt: float, half: int | None = None) -> tuple[float, float]:
        """Return bounds of the tilted weights below and above the window, as powers of two.

        Ratios of neighbours only fall with distance, so a geometric series bounds the rest from any place on.
        """
        edge, zero_weight = (self.half if half is None else half) + 1, float(self.weight.zero_weight)
        return (
            0.0 if self.low is not None and self.low > -edge else self._tail(edge, 1 / tilt) * zero_weight,
            0.0 if self.high is not None and self.high < edge else self._tail(edge, tilt),
        )

    def _tail(self, edge: int, tilt: float) -> float:
        ratio = exp_e(self.weight.log_ratio(edge)) * tilt
        if not ratio < 1:
            raise SamplingError("internal: a tilt beyond the fall of a weight")
        first = exp_e(self.weight.log_at(edge, log_e(tilt)))
        return ldexp(1.0, frexp(max(first / (1 - ratio) * 1.001, _LEAST))[1])

    @property
    def tilts(self) -> tuple[float, float]:
        """The smallest and the largest tilt under which the table stays within doubles and its tails add up."""
        far = exp_e(min(_MOST_TILT_NATS / max(1, self.half), 30.0))
        # The weights beyond the window keep three tenths of their fall: exp(-19), so that few rows are unproven.
        steep = inf if self.weight.is_flat else exp_e(min(-0.7 * self.weight.log_ratio(self.half), 700.0))
        low = far if self.low is not None else min(far, steep)
        high = far if self.high is not None else min(far, steep)
        return 1 / low, high


POINT = CellWeight(FLAT, 0, 0)
"""No deviation at all: a cell that is not there."""


@lru_cache(maxsize=4096)
def window(weight: NoiseWeight) -> int:
    """Return where a weight has fallen below ``exp(-NATS)``."""
    return ceil(weight.distance(NATS))


@lru_cache(maxsize=256)
def _doubles(weight: NoiseWeight, most: int) -> Floats:
    return np.array(weight.doubles(most))


def tabulate(kinds: Iterable[CellWeight]) -> TabulatedWeights:
    """Return the tables of some kinds, in one array."""
    listed = list(kinds)
    value = np.zeros((len(listed), max(kind.last - kind.first + 1 for kind in listed)))
    for row, kind in zip(value, listed, strict=True):
        row[: kind.last - kind.first + 1] = kind.values()
    first, last = ([getattr(kind, name) for kind in listed] for name in ("first", "last"))
    return TabulatedWeights(value, np.array(first, np.int64), np.array(last, np.int64))
