"""All that attempts at one table share: weights, tilts, shares and bounds. Confidential."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Protocol

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.exact import circle_points
from congenial.sampling.two_way.grid import Grid
from congenial.sampling.two_way.weights import (
    FEWEST_POINTS,
    MOST_POINTS,
    POINT,
    CellWeight,
    Room,
    Tables,
    TiltedCell,
    Weights,
    tabulate,
)

if TYPE_CHECKING:
    from congenial.sampling.two_way.weights import TiltedCell

# What attempts are made with: doubles for the kernels, and the exact weights that they stand for.


class PreparedTable(Protocol):
    """Everything that attempts at one table share. Confidential."""

    @property
    def tables(self) -> Tables:
        """What the kernels read, lines in the order in which they are drawn."""
        ...

    @property
    def order(self) -> Ints:
        """Which line is drawn when (line,)."""
        ...

    def room(self) -> Room:
        """Return room for lines."""
        ...

    def cell(self, line: int, column: int) -> "TiltedCell | None":
        """Return the exact weight of a cell; None where any deviation weighs 1."""
        ...


# From weights and tilts to all that attempts read: tilted weights, and bounds of what may follow. Confidential.
#
# docs/claims/rejection.md proves that the bounds never fall short, as doubles.

INFLATION = 1 + 1e-9
"""Covers every rounding of a bound: docs/claims/rejection.md, section 3."""


def tilted(plain: Weights, kind: Ints, tilts: Floats) -> tuple[Weights, Ints]:
    """Return tilted weights, one line for each pair of a kind and a tilt, and which one a cell (line, column) has."""
    pairs: dict[tuple[int, float], int] = {}
    which = np.array(
        [
            [pairs.setdefault((k, t), len(pairs)) for k, t in zip(line, of_line, strict=True)]
            for line, of_line in zip(kind.tolist(), tilts.tolist(), strict=True)
        ],
        np.int64,
    )
    value = np.zeros((len(pairs), plain.value.shape[1]))
    for (k, tilt), number in pairs.items():
        first, last = int(plain.first[k]), int(plain.last[k])
        reach = max(-first, last, 0)
        n = last - first + 1
        value[number, :n] = plain.value[k, :n] * _powers(tilt, reach)[reach + first : reach + last + 1]
    of = np.array([k for k, _ in pairs], np.int64)
    return Weights(value, plain.first[of], plain.last[of]), which


@lru_cache(maxsize=4096)
def _powers(tilt: float, half: int) -> Floats:
    """Return ``tilt ** x`` for x from -half to half, by products and one quotient: the same on every machine."""
    out = np.ones(2 * half + 1)
    if tilt != 1.0:
        for x in range(1, half + 1):
            out[half + x] = out[half + x - 1] * tilt
            out[half - x] = out[half - x + 1] / tilt
    return out


def tables_of(
    weights: Weights,
    units: float,
    which: Ints,
    tails: Floats,
    limits: tuple[Floats, Floats],
    moments: tuple[Floats, Floats],
    is_free: Ints,
    sums: tuple[Ints, Ints],
    margin: Floats,
) -> Tables:
    """Return everything that attempts read.

    Parameters
    ----------
    weights : Weights
        Tilted, off by at most `units` rounding units.
    which : array (line, column)
    tails : array (line, column, side)
        Of the tilted weights, below and above their window.
    limits, moments : pairs of arrays (line, column)
        The least and the largest deviation of a cell, infinite where there is no limit; mean and variance.
    is_free : array (column)
        1 where nothing holds a column's sum.
    sums : arrays (line), (column)
        What deviations add up to.
    margin : array (column)
        How much farther than seven deviations bounds are tabulated.
    """
    from congenial.sampling.two_way.kernels_bounds import backward  # numba: 0.3 s to import

    line_sum, column_sum = sums
    made = backward(weights, which, tails, *limits, *moments, is_free, column_sum, margin, *circles(), float(INFLATION))
    kind = which.copy()
    kind[-1, is_free == 1] = -1
    return Tables(weights, float(units), kind, tails.sum(axis=2), line_sum, column_sum, made)


@lru_cache(maxsize=1)
def circles() -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return cosines and sines of ``2 pi x f / n`` for x below n and f up to n / 2, for every n that is used."""
    found = []
    n = FEWEST_POINTS
    while n <= MOST_POINTS:
        once = np.array(circle_points(n))
        at = np.outer(np.arange(n), np.arange(n // 2 + 1)) % n
        found.append((np.ascontiguousarray(once[at, 0]), np.ascontiguousarray(once[at, 1])))
        n *= 2
    return tuple(pair[0] for pair in found), tuple(pair[1] for pair in found)


_SWEEPS = 40
_BITS = 11  # of a tilt
_MOST_ROUNDS = 40


@dataclass(frozen=True, eq=False, repr=False)
class GridAt:
    """A grid around one table, its lines in the order in which they are drawn.

    Attributes
    ----------
    order : array (line)
        Which line of the grid is drawn when.
    kinds : list (line, column)
        Weights of the deviations, with all limits; None where any deviation weighs 1.
    line_tilts, column_tilts : array
    tables : Tables
        What the kernels read.
    length : int
        How long a message of a line may become.
    """

    grid: Grid
    order: Ints
    kinds: list[list[CellWeight | None]]
    line_tilts: Floats
    column_tilts: Floats
    tables: Tables
    length: int

    @classmethod
    def of(cls, grid: Grid, centre: Ints) -> "GridAt":
        """Work out tilts and bounds for a table."""
        kinds = grid.kinds(centre)
        listed = list({(kind or POINT).near(): None for line in kinds for kind in line})
        number = {kind: position for position, kind in enumerate(listed)}
        kind = np.array([[number[(kind or POINT).near()] for kind in line] for line in kinds], np.int64)
        lines, columns, mean, variance = _tilts(listed, kind, grid)
        order = _order(grid, variance)
        lines, kind, mean, variance = lines[order], kind[order], mean[order], variance[order]
        kinds = [kinds[line] for line in order]
        tilts = lines[:, None] * columns
        weights, which = tilted(tabulate(listed), kind, tilts)
        both = zip(kind.tolist(), tilts.tolist(), strict=True)
        made = tables_of(
            weights,
            weights.value.shape[1] + 8.0,
            which,
            np.array([[listed[k].tails(t) for k, t in zip(*pair, strict=True)] for pair in both]),
            (_limits(kinds, "low"), _limits(kinds, "high")),
            (mean, variance),
            np.array([kind is None for kind in kinds[-1]], np.int64),
            (np.zeros(len(kinds), np.int64), np.zeros(len(columns), np.int64)),
            0.7 * np.array([kind.half for kind in listed])[kind].max(axis=0) + 4.0,
        )
        spread = float(np.sqrt(variance.sum(axis=1).max()))
        length = int(min((weights.last - weights.first)[which].sum(axis=1).max(), 30 * spread)) + 2 * (
            weights.value.shape[1] + 64
        )
        return cls(grid, order, kinds, lines, columns, made, length)

    def room(self) -> Room:
        """Return room for lines."""
        return Room.of(self.tables.kind.shape[1], self.tables.weights.value.shape[1], self.length)

    @property
    def n_bytes(self) -> int:
        """Memory of the bounds and of the room for a line."""
        tables, width = self.tables, self.tables.weights.value.shape[1]
        return 8 * int(
            tables.bounds.value.size + tables.weights.value.size + self.grid.n_columns * (self.length + width)
        )

    def cell(self, line: int, column: int) -> TiltedCell | None:
        """Return the exact weight of a cell; None where any deviation weighs 1."""
        kind = self.kinds[line][column]
        if kind is None:
            return None
        tilt = Fraction(float(self.line_tilts[line])) * Fraction(float(self.column_tilts[column]))
        return TiltedCell(kind.weight, kind.low, kind.high, tilt, kind.half)


def _limits(kinds: list[list[CellWeight | None]], name: str) -> Floats:
    """Return the limits of all cells (line, column), infinite where there is none."""
    none = -inf if name == "low" else inf

    def limit(kind: CellWeight | None) -> float:
        found = None if kind is None else getattr(kind, name)
        return none if found is None else float(found)

    return np.array([[limit(kind) for kind in line] for line in kinds])


def _tilts(listed: list[CellWeight], kind: Ints, grid: Grid) -> tuple[Floats, Floats, Floats, Floats]:
    """Return tilts of lines and columns, and mean and variance of every cell under them."""
    from congenial.sampling.two_way.kernels_tilt import settle_tilts  # numba: 0.3 s to import

    weights, limits = tabulate(listed), np.array([kind.tilts for kind in listed])
    lines, columns = np.ones(kind.shape[0]), np.ones(kind.shape[1])
    mean, variance = np.zeros(kind.shape), np.zeros(kind.shape)
    tied = np.ones(kind.shape[0], np.int64)
    if grid.has_end:
        tied[-1] = 0
    is_free = np.array([grid.has_end and last is None for last in _last_kinds(grid)], np.int64)
    given = (weights.value, weights.first, weights.last, limits[:, 0], limits[:, 1], kind, tied, is_free)
    settle_tilts(*given, _SWEEPS, lines, columns, mean, variance)
    for _ in range(_MOST_ROUNDS):
        lines, columns = _rounded(lines), _rounded(columns)
        both = lines[:, None] * columns
        if np.all((limits[kind, 0] <= both) & (both <= limits[kind, 1])):
            break
        lines, columns = np.sqrt(lines), np.sqrt(columns)
    else:
        lines, columns = np.ones(kind.shape[0]), np.ones(kind.shape[1])
    settle_tilts(*given, 0, lines, columns, mean, variance)
    return lines, columns, mean, variance


def _rounded(tilts: Floats) -> Floats:
    """Return tilts of so few digits that products of two are doubles, and that many cells share one."""
    mantissa, exponent = np.frexp(tilts)
    return np.asarray(np.ldexp(np.round(mantissa * 2**_BITS) / 2**_BITS, exponent))


def _last_kinds(grid: Grid) -> list[object | None]:
    rows: list[object | None] = [None if column < 0 else column for column in grid.columns]
    return [*rows, None] if grid.has_slack else rows


def _order(grid: Grid, variance: Floats) -> Ints:
    """Return the order of lines: those with the least room first."""
    tied = variance[: len(grid.lines)].sum(axis=1)
    order = np.argsort(tied, kind="stable")
    return np.concatenate([order, np.arange(len(grid.lines), grid.n_lines)])
