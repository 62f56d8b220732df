"""Which systems are grids: every cell in at most one row of each of two sides. Public."""

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from congenial.arrays import Ints
from congenial.errors import TooLargeError
from congenial.noise.weight import FLAT, NoiseWeight
from congenial.sampling.target_and_system import System, SystemRow, connected
from congenial.sampling.two_way.weights_and_buffers import MOST_VALUES, POINT, CellWeight

NONE = -1


class NoGridError(TooLargeError):
    """A system is no grid, and why."""


@dataclass(frozen=True, eq=False)
class TwoWayGrid:
    """Sums of one side are its *rows*, drawn one after another; those of the other side are its *columns*.

    A row that is measured, or limited to a range, has one more cell, its slack, in a column of slacks. Where a column
    is, or has no sum at all, one more row follows, with what makes up for its sum.

    Attributes
    ----------
    rows, columns : tuple of int
        Numbers of the system's rows; NONE for a column of cells that are in a row only.
    cells : array (row, column)
        Numbers of cells; NONE where there is none.
    """

    system: System
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    cells: Ints

    @property
    def has_slack(self) -> bool:
        """Whether a row is not an equality."""
        return any(self.system.rows[line].kind != "equal" for line in self.rows)

    @property
    def has_end(self) -> bool:
        """Whether a column is not an equality."""
        return any(column == NONE or self.system.rows[column].kind != "equal" for column in self.columns)

    @property
    def weights(self) -> set[NoiseWeight]:
        """The noise of its cells and of its sums."""
        return self.weights_of_sums | {self.system.weights[cell] for cell in self.cells.flat if cell != NONE}

    @property
    def weights_of_sums(self) -> set[NoiseWeight]:
        """The noise of its measured sums."""
        return {self.system.rows[row].weight for row in (*self.rows, *self.columns) if row != NONE}

    @property
    def n_rows(self) -> int:
        """Rows with the last one."""
        return len(self.rows) + self.has_end

    @property
    def n_columns(self) -> int:
        """Columns with that of slacks."""
        return len(self.columns) + self.has_slack

    def kinds(self, centre: Ints) -> list[list[CellWeight | None]]:
        """Return the weights of all cells around a table; None: any deviation at weight 1. Confidential."""
        out: list[list[CellWeight | None]] = []
        spare = [self._spare(line, centre) for line in self.rows]
        spare_of_columns = [self._spare(column, centre) for column in self.columns]
        for number, (line, cells) in enumerate(zip(self.rows, self.cells.tolist(), strict=True)):
            kinds: list[CellWeight | None] = [
                self._of_cell(cell, centre, min(spare[number], of_column))
                for cell, of_column in zip(cells, spare_of_columns, strict=True)
            ]
            out.append([*kinds, self._of_row(self.system.rows[line], centre)] if self.has_slack else kinds)
        if self.has_end:
            rows = [None if column == NONE else self.system.rows[column] for column in self.columns]
            kinds = [None if row is None else self._of_row(row, centre) for row in rows]
            out.append([*kinds, None] if self.has_slack else kinds)
        return out

    def _spare(self, number: int, centre: Ints) -> float:
        """Return how far an equality's cells are above their lower limits, all together; infinite for other rows."""
        if number == NONE or self.system.rows[number].kind != "equal":
            return inf
        total = 0.0
        for cell, _ in self.system.rows[number].coefficients:
            low = self.system.lower[cell]
            total += inf if low is None else int(centre[cell]) - low
        return total

    def _of_cell(self, cell: int, centre: Ints, spare: float) -> CellWeight:
        """Return a cell's weight; what it gains the other cells of an equality lose, above their lower limits."""
        if cell == NONE:
            return POINT
        lower, upper, at = self.system.lower[cell], self.system.upper[cell], int(centre[cell])
        low, high = (None if limit is None else limit - at for limit in (lower, upper))
        if low is not None and spare < inf:
            high = int(spare) + low if high is None else min(high, int(spare) + low)
        kind = CellWeight(self.system.weights[cell], low, high)
        return POINT if low == high == 0 and kind.weight.zero_weight == 1 else kind

    def _of_row(self, row: SystemRow, centre: Ints) -> CellWeight:
        """Return the weight of what makes up for a row's sum: minus its deviation."""
        if row.kind == "equal":
            return POINT
        if row.kind == "soft":
            return CellWeight(row.weight, None, None)
        at = sum(int(centre[cell]) for cell, _ in row.coefficients)
        low, high = (None if limit is None else at - limit for limit in (row.upper, row.lower))
        return CellWeight(FLAT, low, high)


def grids_of(system: System) -> tuple[TwoWayGrid, ...]:
    """Return the grids that a system falls apart into, or raise `NoGridError` with the reason."""
    _check_cells(system)
    system = _completed(reduced(system))
    side = _sides(system)
    out = []
    for members in _components(system):
        lines = tuple(row for row in members if side[row] == 0)
        columns = tuple(row for row in members if side[row] == 1)
        out.append(_grid(system, lines, columns))
    return tuple(out)


def _completed(system: System) -> System:
    """Return the system with the equalities that follow from both sides of a part: its conditions leave them out."""
    _check_rows(system)
    side, implied = _sides(system), []
    for members in _components(system):
        if any(system.rows[row].kind != "equal" for row in members):
            continue
        covered: tuple[set[int], set[int]] = (set(), set())
        for row in members:
            covered[side[row]].update(cell for cell, _ in system.rows[row].coefficients)
        left_over = covered[0] ^ covered[1]
        is_one_sided = covered[0] < covered[1] or covered[1] < covered[0]
        sums = [sum(cell in left_over for cell, _ in system.rows[row].coefficients) for row in members]
        if is_one_sided and max(sums) == 1 and len(left_over) > 1:
            implied.append(SystemRow("equal", tuple((cell, 1) for cell in sorted(left_over))))
    return replace(system, rows=(*system.rows, *implied))


def _check_cells(system: System) -> None:
    for low, high, weight in zip(system.lower, system.upper, system.weights, strict=True):
        if weight.is_flat and (low is None or high is None or high - low > MOST_VALUES):
            raise NoGridError(
                f"look-ahead rejection needs every cell measured, or limited to {MOST_VALUES:,} values; measure"
                " cells(precision=...)"
            )


def _check_rows(system: System) -> None:
    for row in system.rows:
        if not _is_sum(row):
            raise NoGridError(
                "look-ahead rejection is for sums of cells, and a condition or query here has coefficients other than 1"
            )
        if row.kind == "range" and (row.lower is None or row.upper is None or row.upper - row.lower > MOST_VALUES // 2):
            raise NoGridError(
                f"look-ahead rejection takes sums between limits up to {MOST_VALUES // 2:,} apart; measure the sum, or"
                " make it exact"
            )


def reduced(system: System) -> System:
    """Return the system with rows taken apart: what equalities inside a row fix is left out of it.

    A row that they fix altogether goes, and so do watched rows. A range stays as it is, for its limits are those of
    the whole sum.
    """
    order = sorted(range(len(system.rows)), key=lambda number: (len(system.rows[number].coefficients), number))
    reduced_rows: dict[int, SystemRow] = {}
    for number in order:
        row = system.rows[number]
        rest = _rest_of(row, list(reduced_rows.values()))
        if row.kind == "free" or not rest:
            continue
        is_whole = row.kind == "range" or len(rest) == len(row.coefficients)
        reduced_rows[number] = row if is_whole else replace(row, coefficients=tuple((cell, 1) for cell in sorted(rest)))
    return replace(system, rows=tuple(reduced_rows[number] for number in sorted(reduced_rows)))


def _rest_of(row: SystemRow, shorter: list[SystemRow]) -> set[int]:
    """Return the cells of a row that disjoint equalities inside it leave, as few as a greedy search finds."""
    cells = {cell for cell, _ in row.coefficients}
    if not _is_sum(row):
        return cells
    parts = [{cell for cell, _ in other.coefficients} for other in shorter if other.kind == "equal" and _is_sum(other)]
    parts = [part for part in parts if part <= cells]
    best = cells
    for begin in range(len(parts)):
        rest = set(cells)
        for part in [*parts[begin:], *parts[:begin]]:
            if part <= rest:
                rest -= part
        best = rest if len(rest) < len(best) else best
        if not best:
            break
    return best


def _is_sum(row: SystemRow) -> bool:
    return all(coefficient == 1 for _, coefficient in row.coefficients)


def _components(system: System) -> tuple[tuple[int, ...], ...]:
    """Return the rows of each connected part; a cell in no row is left to `_grid` of no rows at all."""
    return connected(len(system.rows), ([row for row, _ in column] for column in system.columns))


def _sides(system: System) -> dict[int, int]:
    """Return a side for each row so that rows which share a cell are on different sides."""
    meets: dict[int, set[int]] = {row: set() for row in range(len(system.rows))}
    for column in system.columns:
        rows_of_cell = [row for row, _ in column]
        if len(rows_of_cell) > 2:
            raise NoGridError(
                "look-ahead rejection takes cells that are in two sums at most, and here one is in more; keep two"
                " families of sums, such as the margins of two dimensions"
            )
        for row in rows_of_cell:
            meets[row].update(other for other in rows_of_cell if other != row)
    side: dict[int, int] = {}
    for start in meets:
        if start in side:
            continue
        side[start], stack = 0, [start]
        while stack:
            row = stack.pop()
            for other in meets[row]:
                if other not in side:
                    side[other] = 1 - side[row]
                    stack.append(other)
                elif side[other] == side[row]:
                    raise NoGridError(
                        "look-ahead rejection takes sums that fall into two families without overlaps inside either;"
                        " here an odd number of sums overlap in a ring"
                    )
    return side


def _grid(system: System, lines: tuple[int, ...], columns: tuple[int, ...]) -> TwoWayGrid:
    """Place the cells of some rows; cells in a line only get columns without a row."""
    sums = [{cell for row in rows for cell, _ in system.rows[row].coefficients} for rows in (lines, columns)]
    if not lines or (columns and len(columns) < len(lines) and sums[0] <= sums[1]) or sums[0] < sums[1]:
        lines, columns = columns, lines
    place = {row: number for number, row in enumerate(columns)}
    cells: list[dict[int, int]] = []
    for line in lines:
        cell_at: dict[int, int] = {}
        spare = len(columns)
        for cell, _ in system.rows[line].coefficients:
            others = [row for row, _ in system.columns[cell] if row in place]
            at = place[others[0]] if others else spare
            if at in cell_at:
                raise NoGridError(
                    "look-ahead rejection takes one cell for each pair of sums, and here several cells are in the same"
                    " two; measure and release the table of those two dimensions instead"
                )
            spare += not others
            cell_at[at] = cell
        cells.append(cell_at)
    covered = {cell for cell_at in cells for cell in cell_at.values()}
    if any(cell not in covered for column in columns for cell, _ in system.rows[column].coefficients):
        raise NoGridError(
            "look-ahead rejection takes columns whose cells are all in a line, and here a cell is in one sum only"
        )
    n_columns = max((at + 1 for cell_at in cells for at in cell_at), default=0)
    out = np.full((len(lines), max(n_columns, len(columns))), NONE, np.int64)
    for number, cell_at in enumerate(cells):
        for at, cell in cell_at.items():
            out[number, at] = cell
    spare_columns = (NONE,) * (out.shape[1] - len(columns))
    return TwoWayGrid(system, lines, (*columns, *spare_columns), out)


def cells_alone(system: System) -> tuple[int, ...]:
    """Return the cells that are in no row, when rows are taken apart."""
    columns = reduced(system).columns
    return tuple(cell for cell in range(system.n_cells) if not columns[cell])
