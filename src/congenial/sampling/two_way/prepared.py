"""All that attempts at one table share: weights, tilts, shares and bounds. Confidential."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.exact import circle_points
from congenial.sampling.two_way.grid import TwoWayGrid
from congenial.sampling.two_way.weights_and_buffers import (
    FEWEST_POINTS,
    MOST_POINTS,
    POINT,
    AttemptInputs,
    Buffers,
    CellWeight,
    TabulatedWeights,
    TiltedCell,
    tabulate,
)


@dataclass(frozen=True, eq=False, repr=False)
class PreparedTable(ABC):
    """What attempts at one table share: doubles for the kernels, and the exact weights behind them. Confidential.

    Attributes
    ----------
    inputs : AttemptInputs
        What the kernels read, rows in the order in which they are drawn.
    order : array (row)
        Which row is drawn when.
    row_tilts, column_tilts : array
    length : int
        How long a message of a row may become.
    """

    inputs: AttemptInputs
    order: Ints
    row_tilts: Floats
    column_tilts: Floats
    length: int

    def buffers(self) -> Buffers:
        """Return buffers for rows."""
        return Buffers.of(self.inputs.kind.shape[1], self.inputs.weights.value.shape[1], self.length)

    def tilt(self, row: int, column: int) -> Fraction:
        """Return the tilt of a cell."""
        return Fraction(float(self.row_tilts[row])) * Fraction(float(self.column_tilts[column]))

    @abstractmethod
    def cell(self, row: int, column: int) -> TiltedCell | None:
        """Return the exact weight of a cell; None where any deviation weighs 1."""


# From weights and tilts to all that attempts read: tilted weights, and bounds of what may follow. Confidential.
#
# docs/claims/rejection.md proves that the bounds never fall short, as doubles.

INFLATION = 1 + 1e-9
"""Covers every rounding of a bound: docs/claims/rejection.md, section 3."""


def tilted(plain: TabulatedWeights, kind: Ints, tilts: Floats) -> tuple[TabulatedWeights, Ints]:
    """Return tilted weights, one row for each pair of a kind and a tilt, and which one a cell (row, column) has."""
    pairs: dict[tuple[int, float], int] = {}
    kinds = np.array(
        [
            [pairs.setdefault((k, t), len(pairs)) for k, t in zip(row, of_row, strict=True)]
            for row, of_row in zip(kind.tolist(), tilts.tolist(), strict=True)
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
    return TabulatedWeights(value, plain.first[of], plain.last[of]), kinds


@lru_cache(maxsize=4096)
def _powers(tilt: float, half: int) -> Floats:
    """Return ``tilt ** x`` for x from -half to half, by products and one quotient: the same on every machine."""
    out = np.ones(2 * half + 1)
    if tilt != 1.0:
        for x in range(1, half + 1):
            out[half + x] = out[half + x - 1] * tilt
            out[half - x] = out[half - x + 1] / tilt
    return out


def attempt_inputs(
    weights: TabulatedWeights,
    units: float,
    kinds: Ints,
    tails: Floats,
    limits: tuple[Floats, Floats],
    moments: tuple[Floats, Floats],
    is_free: Ints,
    sums: tuple[Ints, Ints],
    margin: Floats,
) -> AttemptInputs:
    """Return everything that attempts read.

    Parameters
    ----------
    weights : TabulatedWeights
        Tilted, off by at most `units` rounding units.
    which : array (row, column)
    tails : array (row, column, side)
        Of the tilted weights, below and above their window.
    limits, moments : pairs of arrays (row, column)
        The least and the largest deviation of a cell, infinite where there is no limit; mean and variance.
    is_free : array (column)
        1 where nothing holds a column's sum.
    sums : arrays (row), (column)
        What deviations add up to.
    margin : array (column)
        How much farther than seven deviations bounds are tabulated.
    """
    from congenial.sampling.two_way.kernels_lookahead import backward  # numba: 0.3 s to import

    row_sum, column_sum = sums
    bounds = backward(
        weights, kinds, tails, *limits, *moments, is_free, column_sum, margin, *circles(), float(INFLATION)
    )
    kind = kinds.copy()
    kind[-1, is_free == 1] = -1
    return AttemptInputs(weights, float(units), kind, tails.sum(axis=2), row_sum, column_sum, bounds)


@lru_cache(maxsize=1)
def circles() -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return cosines and sines of ``2 pi x f / n`` for x below n and f up to n / 2, for every n that is used."""
    circles_of = []
    n = FEWEST_POINTS
    while n <= MOST_POINTS:
        once = np.array(circle_points(n))
        at = np.outer(np.arange(n), np.arange(n // 2 + 1)) % n
        circles_of.append((np.ascontiguousarray(once[at, 0]), np.ascontiguousarray(once[at, 1])))
        n *= 2
    return tuple(pair[0] for pair in circles_of), tuple(pair[1] for pair in circles_of)


_SWEEPS = 40
_BITS = 11  # of a tilt
_MOST_ROUNDS = 40


@dataclass(frozen=True, eq=False, repr=False)
class PreparedGrid(PreparedTable):
    """A grid around one table.

    Attributes
    ----------
    kinds : list (row, column)
        Weights of the deviations, with all limits; None where any deviation weighs 1.
    """

    grid: TwoWayGrid
    kinds: list[list[CellWeight | None]]

    @classmethod
    def of(cls, grid: TwoWayGrid, centre: Ints) -> "PreparedGrid":
        """Work out tilts and bounds for a table."""
        kinds = grid.kinds(centre)
        listed = list({(kind or POINT).near(): None for row in kinds for kind in row})
        number = {kind: position for position, kind in enumerate(listed)}
        kind = np.array([[number[(kind or POINT).near()] for kind in row] for row in kinds], np.int64)
        rows, columns, mean, variance = _tilts(listed, kind, grid)
        order = _order(grid, variance)
        rows, kind, mean, variance = rows[order], kind[order], mean[order], variance[order]
        kinds = [kinds[row] for row in order]
        tilts = rows[:, None] * columns
        weights, place = tilted(tabulate(listed), kind, tilts)
        both = zip(kind.tolist(), tilts.tolist(), strict=True)
        inputs = attempt_inputs(
            weights,
            weights.value.shape[1] + 8.0,
            place,
            np.array([[listed[k].tails(t) for k, t in zip(*pair, strict=True)] for pair in both]),
            (_limits(kinds, "low"), _limits(kinds, "high")),
            (mean, variance),
            np.array([kind is None for kind in kinds[-1]], np.int64),
            (np.zeros(len(kinds), np.int64), np.zeros(len(columns), np.int64)),
            0.7 * np.array([kind.half for kind in listed])[kind].max(axis=0) + 4.0,
        )
        spread = float(np.sqrt(variance.sum(axis=1).max()))
        length = int(min((weights.last - weights.first)[place].sum(axis=1).max(), 30 * spread)) + 2 * (
            weights.value.shape[1] + 64
        )
        return cls(inputs, order, rows, columns, length, grid, kinds)

    @property
    def n_bytes(self) -> int:
        """Memory of the bounds and of the buffers for a row."""
        inputs, width = self.inputs, self.inputs.weights.value.shape[1]
        return 8 * int(
            inputs.bounds.value.size + inputs.weights.value.size + self.grid.n_columns * (self.length + width)
        )

    def cell(self, row: int, column: int) -> TiltedCell | None:
        """Return the exact weight of a cell; None where any deviation weighs 1."""
        kind = self.kinds[row][column]
        if kind is None:
            return None
        return TiltedCell(kind.weight, kind.low, kind.high, self.tilt(row, column), kind.half)


def _limits(kinds: list[list[CellWeight | None]], name: str) -> Floats:
    """Return the limits of all cells (row, column), infinite where there is none."""
    none = -inf if name == "low" else inf

    def limit(kind: CellWeight | None) -> float:
        value = None if kind is None else getattr(kind, name)
        return none if value is None else float(value)

    return np.array([[limit(kind) for kind in row] for row in kinds])


def _tilts(listed: list[CellWeight], kind: Ints, grid: TwoWayGrid) -> tuple[Floats, Floats, Floats, Floats]:
    """Return tilts of rows and columns, and mean and variance of every cell under them."""
    from congenial.sampling.two_way.kernels_tilt import settle_tilts  # numba: 0.3 s to import

    weights, limits = tabulate(listed), np.array([kind.tilts for kind in listed])
    rows, columns = np.ones(kind.shape[0]), np.ones(kind.shape[1])
    mean, variance = np.zeros(kind.shape), np.zeros(kind.shape)
    tied = np.ones(kind.shape[0], np.int64)
    if grid.has_end:
        tied[-1] = 0
    is_free = np.array([grid.has_end and last is None for last in _last_kinds(grid)], np.int64)
    inputs = (weights.value, weights.first, weights.last, limits[:, 0], limits[:, 1], kind, tied, is_free)
    settle_tilts(*inputs, _SWEEPS, rows, columns, mean, variance)
    for _ in range(_MOST_ROUNDS):
        rows, columns = _rounded(rows), _rounded(columns)
        both = rows[:, None] * columns
        if np.all((limits[kind, 0] <= both) & (both <= limits[kind, 1])):
            break
        rows, columns = np.sqrt(rows), np.sqrt(columns)
    else:
        rows, columns = np.ones(kind.shape[0]), np.ones(kind.shape[1])
    settle_tilts(*inputs, 0, rows, columns, mean, variance)
    return rows, columns, mean, variance


def _rounded(tilts: Floats) -> Floats:
    """Return tilts of so few digits that products of two are doubles, and that many cells share one."""
    mantissa, exponent = np.frexp(tilts)
    return np.asarray(np.ldexp(np.round(mantissa * 2**_BITS) / 2**_BITS, exponent))


def _last_kinds(grid: TwoWayGrid) -> list[object | None]:
    columns: list[object | None] = [None if column < 0 else column for column in grid.columns]
    return [*columns, None] if grid.has_slack else columns


def _order(grid: TwoWayGrid, variance: Floats) -> Ints:
    """Return the order of rows: those with the least room first."""
    tied = variance[: len(grid.rows)].sum(axis=1)
    order = np.argsort(tied, kind="stable")
    return np.concatenate([order, np.arange(len(grid.rows), grid.n_rows)])
