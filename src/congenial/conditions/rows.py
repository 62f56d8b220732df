"""One linear statistic of a table, with integer weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Column = tuple[tuple[int, int], ...]
"""A cell's (row, weight), row by row."""


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
        return cls(name, tuple(int(cell) for cell in cells), (1,) * len(cells))

    def value(self, counts: Sequence[int]) -> int:
        """Return the statistic of one table, in exact integers."""
        return sum(weight * int(counts[cell]) for cell, weight in zip(self.cells, self.coefficients, strict=True))


@dataclass(frozen=True)
class Limited:
    """A row that must lie in a range: what a condition says in the end.

    `lower` or `upper` is None where there is no limit; they are equal for an invariant.
    """

    row: Row
    lower: int | None
    upper: int | None

    @classmethod
    def of(cls, row: Row, lower: int | None, upper: int | None) -> "Limited":
        """Return a row with its two ends."""
        return cls(row, lower, upper)

    @classmethod
    def equal(cls, row: Row, value: int) -> "Limited":
        """Return a row that must have one value."""
        return cls(row, value, value)

    @property
    def is_equality(self) -> bool:
        """Whether the row must have one value."""
        return self.lower is not None and self.lower == self.upper

    def allows(self, value: int) -> bool:
        """Whether a value of the row is in range."""
        return (self.lower is None or value >= self.lower) and (self.upper is None or value <= self.upper)

    @property
    def text(self) -> str:
        """The condition in words."""
        return f"{self.row.name} {range_text(self.lower, self.upper)}"


def range_text(lower: int | None, upper: int | None) -> str:
    """Return a range in words.

    Examples
    --------
    >>> range_text(3, 3), range_text(3, None), range_text(None, None)
    ('is 3', 'is at least 3', 'is free')
    """
    if lower is not None and lower == upper:
        return f"is {lower:,}"
    if lower is not None and upper is not None:
        return f"is between {lower:,} and {upper:,}"
    if lower is not None:
        return f"is at least {lower:,}"
    return "is free" if upper is None else f"is at most {upper:,}"


def row_values(rows: Sequence[Row], tables: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each row's value of each table (table, row): in 64 bits where they suffice, else in Python integers."""
    largest = max((sum(map(abs, row.coefficients)) for row in rows), default=0) * int(np.abs(tables).max(initial=0))
    if largest < 2**62:
        return tables @ dense(rows, tables.shape[-1]).T
    values = [[row.value(table) for row in rows] for table in tables.tolist()]
    return np.array(values, object).reshape(len(tables), len(rows))


def columns(rows: Sequence[Row], n_cells: int) -> list[Column]:
    """Return every cell's column: which rows it is in, and with what weight.

    Examples
    --------
    >>> columns([Row.of("", [0, 1]), Row("", (1,), (3,))], 2)
    [((0, 1),), ((0, 1), (1, 3))]
    """
    out: list[list[tuple[int, int]]] = [[] for _ in range(n_cells)]
    for number, row in enumerate(rows):
        for cell, weight in zip(row.cells, row.coefficients, strict=True):
            out[cell].append((number, weight))
    return [tuple(column) for column in out]


def dense(rows: Sequence[Row], n_cells: int) -> NDArray[np.int64]:
    """Return rows as a matrix, a line a row."""
    matrix = np.zeros((len(rows), n_cells), np.int64)
    for line, row in zip(matrix, rows, strict=True):
        line[list(row.cells)] = row.coefficients
    return matrix
