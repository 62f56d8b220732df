"""One linear statistic of a table, with integer coefficients."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.conditions.interval import Interval, Ranged

Column = tuple[tuple[int, int], ...]
"""A cell's (row, coefficient), row by row."""


@dataclass(frozen=True)
class Row:
    """An integer combination of cells, with a name for people.

    Parameters
    ----------
    cells : tuple of int
        Cell numbers, ascending.
    coefficients : tuple of int
        What each is multiplied by, none of them 0.
    """

    name: str
    cells: tuple[int, ...]
    coefficients: tuple[int, ...]

    @classmethod
    def of(cls, name: str, cells: Sequence[int] | NDArray[np.intp]) -> "Row":
        """Return the plain sum of some cells."""
        return cls(name, tuple(map(int, cells)), (1,) * len(cells))

    def value(self, counts: Sequence[int]) -> int:
        """Return the statistic of one table, in exact integers."""
        return sum(times * int(counts[cell]) for cell, times in zip(self.cells, self.coefficients, strict=True))


@dataclass(frozen=True)
class Limited(Ranged):
    """A row that must lie in a range: what a condition says in the end."""

    row: Row
    limits: Interval

    @classmethod
    def of(cls, row: Row, lower: int | None, upper: int | None) -> "Limited":
        """Return a row with its two ends, None where there is no limit."""
        return cls(row, Interval(lower, upper))

    @classmethod
    def equal(cls, row: Row, value: int) -> "Limited":
        """Return a row that must have one value."""
        return cls(row, Interval(value, value))

    def allows(self, value: int) -> bool:
        """Whether a value of the row is in range."""
        return value in self.limits

    @property
    def text(self) -> str:
        """The condition in words."""
        return f"{self.row.name} {self.limits.text}"


def row_values(rows: Sequence[Row], tables: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each row's value of each table (table, row): in 64 bits where they suffice, else in Python integers."""
    largest = max((sum(map(abs, row.coefficients)) for row in rows), default=0) * int(np.abs(tables).max(initial=0))
    if largest < 2**62:
        return tables @ dense(rows, tables.shape[-1]).T
    values = [[row.value(table) for row in rows] for table in tables.tolist()]
    return np.array(values, object).reshape(len(tables), len(rows))


def columns(rows: Sequence[Row], n_cells: int) -> list[Column]:
    """Return every cell's column: which rows it is in, and with what coefficient.

    Examples
    --------
    >>> columns([Row.of("", [0, 1]), Row("", (1,), (3,))], 2)
    [((0, 1),), ((0, 1), (1, 3))]
    """
    out: list[list[tuple[int, int]]] = [[] for _ in range(n_cells)]
    for number, row in enumerate(rows):
        for cell, times in zip(row.cells, row.coefficients, strict=True):
            out[cell].append((number, times))
    return [tuple(column) for column in out]


def cells_alike(rows: Sequence[Row], n_cells: int) -> dict[Column, tuple[int, ...]]:
    """Return the cells by their column: those with equal ones act on the rows only through their sum.

    Examples
    --------
    >>> cells_alike([Row.of("", [0, 2])], 3)
    {((0, 1),): (0, 2), (): (1,)}
    """
    alike: dict[Column, list[int]] = {}
    for cell, column in enumerate(columns(rows, n_cells)):
        alike.setdefault(column, []).append(cell)
    return {column: tuple(cells) for column, cells in alike.items()}


def dense(rows: Sequence[Row], n_cells: int) -> NDArray[np.int64]:
    """Return rows as a matrix, a line a row."""
    matrix = np.zeros((len(rows), n_cells), np.int64)
    for line, row in zip(matrix, rows, strict=True):
        line[list(row.cells)] = row.coefficients
    return matrix
