"""Bounds of all that may follow a line, column by column, from the last line back. Confidential.

docs/claims/rejection.md proves that they never fall short, as doubles.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import cos, frexp, inf, ldexp, pi, sin, sqrt

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.sampling.look_ahead.shapes import Tables, Weights
from congenial.sampling.look_ahead.weights import CellWeight, tabulate

FLUSH = 1e-280
INFLATION = 1 + 1e-9
"""Covers every rounding of a bound: docs/claims/rejection.md, section 3."""

_LEAST = 2.0**-1000
_DEVIATIONS = 7.0
_SMALLEST_SHARE = 1 / 256
_SHARE_STEPS = 2**20
_MOST_POINTS = 1024


@dataclass(frozen=True, eq=False)
class Columns:
    """What bounds are made of: kinds of cells (line, column), tilts, and mean and variance of cells under them."""

    listed: list[CellWeight]
    kind: Ints
    kinds: list[list[CellWeight | None]]
    line_tilts: Floats
    column_tilts: Floats
    mean: Floats
    variance: Floats
    has_end: bool

    def tilted(self) -> tuple[Weights, Ints]:
        """Return tilted weights, one line for each pair of a kind and a tilt, and which one a cell has."""
        plain = tabulate(self.listed)
        pairs: dict[tuple[int, float], int] = {}
        tilts = self.line_tilts[:, None] * self.column_tilts
        which = np.array(
            [
                [pairs.setdefault((k, t), len(pairs)) for k, t in zip(line, of_line, strict=True)]
                for line, of_line in zip(self.kind.tolist(), tilts.tolist(), strict=True)
            ],
            np.int64,
        )
        half = plain.value.shape[1] // 2
        value = np.empty((len(pairs), plain.value.shape[1]))
        for (k, tilt), number in pairs.items():
            # Beyond a kind's own window powers may overflow, and nothing is there to be multiplied.
            reach = max(-int(plain.first[k]), int(plain.last[k]), 0)
            inside = slice(half - reach, half + reach + 1)
            value[number] = 0.0
            value[number, inside] = plain.value[k, inside] * _powers(tilt, reach)
        of = np.array([k for k, _ in pairs], np.int64)
        return Weights(value, plain.first[of], plain.last[of]), which

    def is_free(self, column: int) -> bool:
        """Whether a column's sum is not held by anything."""
        return self.kinds[-1][column] is None


@lru_cache(maxsize=4096)
def _powers(tilt: float, half: int) -> Floats:
    """Return ``tilt ** x`` for x from -half to half, by products and one quotient: the same on every machine."""
    out = np.ones(2 * half + 1)
    if tilt != 1.0:
        for x in range(1, half + 1):
            out[half + x] = out[half + x - 1] * tilt
            out[half - x] = out[half - x + 1] / tilt
    return out


@dataclass(eq=False)
class _Bound:
    """The bound before a line as a function of a column's partial sum, scaled to be at most 1."""

    number: int
    low: int
    value: Floats
    below: float
    above: float
    exponent: int


@dataclass(eq=False)
class _Store:
    """Bounds made so far: columns that are alike from a line on share them."""

    found: dict[object, _Bound] = field(default_factory=dict)

    def add(self, key: object, low: int, value: Floats, below: float, above: float) -> _Bound:
        """Scale a bound by a power of two and keep it."""
        exponent = frexp(max(float(value.max()), below, above))[1]
        scale = ldexp(1.0, -exponent)
        # What can be reached has a bound above 0, however it is scaled.
        outside = [max(one * scale, _LEAST) if one > 0 else 0.0 for one in (below, above)]
        bound = _Bound(len(self.found), low, np.maximum(value * scale, _LEAST), outside[0], outside[1], exponent)
        self.found[key] = bound
        return bound


def backward(columns: Columns) -> Tables:
    """Return the tables of all attempts."""
    weights, which = columns.tilted()
    n_lines, n_columns = which.shape
    tilts = columns.line_tilts[:, None] * columns.column_tilts
    store = _Store()
    bounds: list[list[_Bound]] = [[] for _ in range(n_lines)]
    tails = np.zeros((n_lines, n_columns, 2))
    for i in range(n_lines):
        for j in range(n_columns):
            tails[i, j] = columns.listed[columns.kind[i, j]].tails(float(tilts[i, j]))
    bounds[-1] = [_last(columns, store, weights, which, tails, j) for j in range(n_columns)]
    rest, spans = _rest(columns), _Spans.of(columns)
    for i in range(n_lines - 2, -1, -1):
        shares = shares_of(columns.variance[i], rest[i])
        for j in range(n_columns):
            low, size, is_open = (0, 1, (True, True)) if columns.is_free(j) else spans.at(i, j)
            after = bounds[i + 1][j]
            key = (int(which[i, j]), float(shares[j]), low, size, is_open, after.number)
            bound = store.found.get(key)
            if bound is None:
                bound = _before(store, key, weights, tails[i, j].sum(), after, float(rest[i, j]))
            bounds[i].append(bound)
    return _collected(columns, store, weights, which, tails, bounds)


def _collected(
    columns: Columns, store: _Store, weights: Weights, which: Ints, tails: Floats, bounds: list[list[_Bound]]
) -> Tables:
    made = list(store.found.values())
    starts = np.concatenate([[0], np.cumsum([bound.value.size for bound in made])])[:-1]

    def whole(name: str) -> Ints:
        return np.array([[getattr(bound, name) for bound in line] for line in bounds], np.int64)

    def real(name: str) -> Floats:
        return np.array([[getattr(bound, name) for bound in line] for line in bounds], np.float64)

    numbers = whole("number")
    sizes = np.array([bound.value.size for bound in made], np.int64)
    kind = which.copy()
    for j in range(kind.shape[1]):
        if columns.is_free(j):
            kind[-1, j] = -1
    return Tables(
        weights,
        kind,
        tails.sum(axis=2),
        np.concatenate([bound.value for bound in made]),
        starts[numbers],
        whole("low"),
        sizes[numbers],
        real("below"),
        real("above"),
        -whole("exponent").sum(axis=1),
    )


def _last(columns: Columns, store: _Store, weights: Weights, which: Ints, tails: Floats, j: int) -> _Bound:
    """Return the bound before the last line, which makes up for a column's sum."""
    if columns.is_free(j):
        return store.found.get("free") or store.add("free", 0, np.ones(1), 1.0, 1.0)
    k = int(which[-1, j])
    half = weights.value.shape[1] // 2
    first, last = int(weights.first[k]), int(weights.last[k])
    below, above = float(tails[-1, j, 1]), float(tails[-1, j, 0])
    key = ("last", k)
    value = weights.value[k, half + first : half + last + 1][::-1] * INFLATION
    return store.found.get(key) or store.add(key, -last, value, below, above)


def _before(
    store: _Store,
    key: tuple[int, float, int, int, tuple[bool, bool], int],
    weights: Weights,
    tail: float,
    after: _Bound,
    rest: float,
) -> _Bound:
    from congenial.sampling.kernels.look_ahead import look_ahead  # numba: 0.3 s to import

    k, share, low, size, is_open, _ = key
    half, first, last = weights.value.shape[1] // 2, int(weights.first[k]), int(weights.last[k])
    own = weights.value[k, half + first : half + last + 1]
    mean, square = (float((own * np.arange(first, last + 1.0) ** n).sum() / own.sum()) for n in (1, 2))
    spread = square - mean * mean
    spread = spread * rest / (spread + rest) if spread > 0 and rest < inf else spread
    cosines, sines = circle(n_points(spread, share))
    value = np.empty(size)
    look_ahead(
        own, first, tail, after.value, after.low, after.below, after.above, low, cosines, sines, share, INFLATION, value
    )
    if size == 1 and is_open == (True, True):  # a column that nothing holds: the same everywhere
        return store.add(key, low, value, float(value[0]), float(value[0]))
    below = _beyond(own, first, after.value, after.low, (after.below, after.above), low - 1)
    mirrored = after.value[::-1], -(after.low + after.value.size - 1), (after.above, after.below)
    above = _beyond(own[::-1], -last, *mirrored, -(low + size))
    outside = [(bound + tail) * INFLATION + FLUSH for bound in (below, above)]
    return store.add(key, low, value, outside[0] if is_open[0] else 0.0, outside[1] if is_open[1] else 0.0)


def _beyond(weights: Floats, first: int, after: Floats, low: int, outside: tuple[float, float], u: int) -> float:
    """Return a bound of ``sum_x w(x) g(y + x)`` for all y up to u: g with the largest value so far in place of its own.

    With the mass of the weights in place of it, 1 outside a window would outweigh 10^-26 inside, from 60 lines on.
    """
    largest = np.maximum.accumulate(np.concatenate([[outside[0]], after]))
    end = max(float(largest[-1]), outside[1])
    place = u + first + np.arange(weights.size) - low + 1
    inside = largest[np.clip(place, 0, after.size)]
    return float((weights * np.where(place > after.size, end, inside)).sum())


def n_points(variance: float, share: float) -> int:
    """Return how many points of the circle a norm is taken over: fewer would make it larger."""
    aim = 24 + 9 * sqrt(variance / max(share, _SMALLEST_SHARE)) if share > 0 else 2
    points = 32
    while points < aim and points < _MOST_POINTS:
        points *= 2
    return points


@lru_cache(maxsize=32)
def circle(n: int) -> tuple[Floats, Floats]:
    """Return cosines and sines of ``2 pi x f / n`` for x below n and f up to n / 2."""
    once = [(cos(2 * pi * k / n), sin(2 * pi * k / n)) for k in range(n)]
    at = np.outer(np.arange(n), np.arange(n // 2 + 1)) % n
    table = np.array(once)
    return np.ascontiguousarray(table[at, 0]), np.ascontiguousarray(table[at, 1])


def shares_of(variance: Floats, rest: Floats) -> Floats:
    """Return the shares of columns in a line's bound: of the variance given what follows; in all at most 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(np.isinf(rest), variance, variance * rest / (variance + rest))
    own = np.where(variance > 0, own, 0.0)
    if own.sum() <= 0:
        return np.zeros(variance.size)
    for _ in range(3):
        share = own / own.sum()
        own = np.where(share < _SMALLEST_SHARE, 0.0, own) if (share >= _SMALLEST_SHARE).any() else own
    out: Floats = np.floor(own / own.sum() * _SHARE_STEPS * (1 - 1e-12)) / _SHARE_STEPS
    return out


def _rest(columns: Columns) -> Floats:
    """Return the variance of a column's lines after each; infinite where nothing holds its sum."""
    out = np.cumsum(columns.variance[::-1], axis=0)[::-1] - columns.variance
    for j in range(out.shape[1]):
        if columns.is_free(j):
            out[:, j] = inf
    return out


@dataclass(frozen=True, eq=False)
class _Spans:
    """Where the bound before a line is tabulated, for each line and column."""

    begin: Ints
    end: Ints
    may_be_below: NDArray[np.bool_]
    may_be_above: NDArray[np.bool_]

    @classmethod
    def of(cls, columns: Columns) -> "_Spans":
        """Collect what the lines before and after allow, and how far sums stray."""
        low, high = (
            np.array([[_limit(kind, name) for kind in line] for line in columns.kinds]) for name in ("low", "high")
        )
        least, most = -_after(high), -_after(low)
        lowest, highest = np.maximum(least, _before_lines(low)), np.minimum(most, _before_lines(high))
        middle = _before_lines(columns.mean)
        spread = np.minimum(_before_lines(columns.variance), _after(columns.variance))
        halves = np.array([kind.half for kind in columns.listed])
        far = _DEVIATIONS * np.sqrt(spread) + 0.7 * halves[columns.kind].max(axis=0) + 4
        begin = np.maximum(lowest, np.round(middle - far))
        end = np.minimum(highest, np.round(middle + far))
        none = begin > end
        begin[none] = end[none] = np.minimum(np.maximum(np.round(middle), lowest), highest)[none]
        return cls(begin.astype(np.int64), end.astype(np.int64), begin > least, end < most)

    def at(self, line: int, j: int) -> tuple[int, int, tuple[bool, bool]]:
        """Return the first sum, how many there are, and whether sums may lie below and above."""
        begin, end = int(self.begin[line, j]), int(self.end[line, j])
        return begin, end - begin + 1, (bool(self.may_be_below[line, j]), bool(self.may_be_above[line, j]))


def _limit(kind: CellWeight | None, name: str) -> float:
    limit = None if kind is None else getattr(kind, name)
    if limit is None:
        return -inf if name == "low" else inf
    return float(limit)


def _before_lines(values: Floats) -> Floats:
    """Return sums over the lines before each."""
    out = np.zeros_like(values)
    np.cumsum(values[:-1], axis=0, out=out[1:])
    return out


def _after(values: Floats) -> Floats:
    """Return sums over each line and those after it."""
    return np.asarray(np.cumsum(values[::-1], axis=0)[::-1])
