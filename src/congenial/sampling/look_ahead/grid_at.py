"""All that attempts at one table share: weights, tilts, shares and bounds. Confidential."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.sampling.look_ahead.bounds import tables_of, tilted
from congenial.sampling.look_ahead.grid import Grid
from congenial.sampling.look_ahead.shapes import Room, Tables
from congenial.sampling.look_ahead.tilted_cell import TiltedCell
from congenial.sampling.look_ahead.weights import POINT, CellWeight, tabulate

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
        return TiltedCell(kind.fall, kind.low, kind.high, tilt, kind.half)


def _limits(kinds: list[list[CellWeight | None]], name: str) -> Floats:
    """Return the limits of all cells (line, column), infinite where there is none."""
    none = -inf if name == "low" else inf

    def limit(kind: CellWeight | None) -> float:
        found = None if kind is None else getattr(kind, name)
        return none if found is None else float(found)

    return np.array([[limit(kind) for kind in line] for line in kinds])


def _tilts(listed: list[CellWeight], kind: Ints, grid: Grid) -> tuple[Floats, Floats, Floats, Floats]:
    """Return tilts of lines and columns, and mean and variance of every cell under them."""
    from congenial.sampling.kernels.saddle import settle_tilts  # numba: 0.3 s to import

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
