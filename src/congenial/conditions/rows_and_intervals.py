"""Linear rows over cells, with integer coefficients, and ranges of integers.

From a spec to a kernel a row has six representations, and nothing else in the package holds coefficients:

1. `Row`, cells and coefficients with a name. `Limited` adds limits, `sampling.system.Measured` adds noise. A row over
   groups of cells is a `Row` of their numbers.
2. `Row.terms`, a mapping from cell to coefficient: the input of exact algebra and of integer programs.
3. `Column`, the transpose: a cell's (row, coefficient), by which cells are compared.
4. `dense`, a matrix of 64-bit integers: values of many tables at once, and the solver of linear programs.
5. `sampling.system.SystemRow`, the row of a law without its centre: limits or weights, no name.
6. What a sampler lays out for its kernels, in `sampling.elimination` and `sampling.two_way`.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from congenial.schema import Schema, Where

# Ranges of integers, open at an end where there is no limit.


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `low` to `high`, both included; None is no limit.

    It may be empty, where it is computed from other intervals: see `is_empty`.

    Examples
    --------
    >>> counts = Interval(0, None)
    >>> counts & Interval(-2, 9)
    Interval(low=0, high=9)
    >>> counts.negated.text, Interval(1, 8).divided(3)
    ('is at most 0', Interval(low=1, high=2))
    """

    low: int | None
    high: int | None

    @property
    def is_point(self) -> bool:
        """Whether it has one integer."""
        return self.low is not None and self.low == self.high

    @property
    def is_empty(self) -> bool:
        """Whether it has no integer."""
        return self.low is not None and self.high is not None and self.low > self.high

    @property
    def is_free(self) -> bool:
        """Whether it has no limit."""
        return self.low is None and self.high is None

    @property
    def width(self) -> int | None:
        """How far apart its ends are; None when one of them is open."""
        return None if self.low is None or self.high is None else self.high - self.low

    def __contains__(self, value: int) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def shifted(self, by: int) -> "Interval":
        """Return it with both ends moved."""
        return Interval(None if self.low is None else self.low + by, None if self.high is None else self.high + by)

    @property
    def negated(self) -> "Interval":
        """What ``-value`` ranges over."""
        return Interval(None if self.high is None else -self.high, None if self.low is None else -self.low)

    def times(self, factor: int) -> "Interval":
        """Return the least interval that has every value times a factor."""
        if factor == 0:
            return POINT_ZERO
        low, high = (self.low, self.high) if factor > 0 else (self.high, self.low)
        return Interval(None if low is None else low * factor, None if high is None else high * factor)

    def divided(self, divisor: int) -> "Interval":
        """Return the integers that are in range when multiplied by a divisor: ends round inward."""
        low, high = (self.low, self.high) if divisor > 0 else (self.high, self.low)
        return Interval(None if low is None else -(-low // divisor), None if high is None else high // divisor)

    def on_steps(self, value: int, step: int) -> "Interval":
        """Return it with its ends moved inward to the values ``value + step * k``; a step of 0 leaves `value` only."""
        if step == 0:
            return Interval(value, value) if value in self else EMPTY
        return Interval(
            None if self.low is None else self.low + (value - self.low) % step,
            None if self.high is None else self.high - (self.high - value) % step,
        )

    def __and__(self, other: "Interval") -> "Interval":
        """Return what both have."""
        low = self.low if other.low is None else other.low if self.low is None else max(self.low, other.low)
        high = self.high if other.high is None else other.high if self.high is None else min(self.high, other.high)
        return Interval(low, high)

    def __add__(self, other: "Interval") -> "Interval":
        """Return what sums of one value of each range over."""
        return total_interval((self, other))

    @property
    def text(self) -> str:
        """The range in words.

        Examples
        --------
        >>> Interval(3, 3).text, Interval(3, None).text, Interval(None, None).text
        ('is 3', 'is at least 3', 'is free')
        """
        if self.is_point:
            return f"is {self.low:,}"
        if self.low is not None and self.high is not None:
            return f"is between {self.low:,} and {self.high:,}"
        if self.low is not None:
            return f"is at least {self.low:,}"
        return "is free" if self.high is None else f"is at most {self.high:,}"


FREE = Interval(None, None)
NONNEGATIVE = Interval(0, None)
POINT_ZERO = Interval(0, 0)
EMPTY = Interval(1, 0)


def total_interval(terms: Iterable[Interval]) -> Interval:
    """Return what sums of one value of each interval range over.

    Examples
    --------
    >>> total_interval([Interval(0, 3), Interval(2, None)])
    Interval(low=2, high=None)
    """
    low: int | None = 0
    high: int | None = 0
    for term in terms:
        low = None if low is None or term.low is None else low + term.low
        high = None if high is None or term.high is None else high + term.high
    return Interval(low, high)


Column = tuple[tuple[int, int], ...]
"""A cell's (row, coefficient), row by row."""


@dataclass(frozen=True)
class Row:
    """An integer combination of cells, or of groups of cells, with a name for people.

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

    @classmethod
    def weighted(cls, terms: Mapping[int, int], name: str = "") -> "Row":
        """Return the combination of cells with these coefficients, those of 0 left out."""
        nonzero = sorted((cell, times) for cell, times in terms.items() if times)
        return cls(name, tuple(cell for cell, _ in nonzero), tuple(times for _, times in nonzero))

    @cached_property
    def terms(self) -> dict[int, int]:
        """The coefficient of each cell: what exact algebra and integer programs compute with."""
        return dict(zip(self.cells, self.coefficients, strict=True))

    def within(self, cells: Container[int]) -> dict[int, int]:
        """Return the terms of some cells only."""
        return {cell: times for cell, times in self.terms.items() if cell in cells}

    def value(self, counts: Sequence[int]) -> int:
        """Return the statistic of one table, in exact integers."""
        return sum(times * int(counts[cell]) for cell, times in zip(self.cells, self.coefficients, strict=True))


@dataclass(frozen=True)
class Limited:
    """A row that must lie in a range: what a condition compiles to."""

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

    @property
    def terms(self) -> dict[int, int]:
        """The coefficient of each cell of the row."""
        return self.row.terms

    @property
    def lower(self) -> int | None:
        """The lower limit."""
        return self.limits.low

    @property
    def upper(self) -> int | None:
        """The upper limit."""
        return self.limits.high

    @property
    def is_equality(self) -> bool:
        """Whether it must have one value."""
        return self.limits.is_point

    def holds(self, counts: Sequence[int]) -> bool:
        """Whether the row's value of a table is in range."""
        return self.row.value(counts) in self.limits

    @property
    def text(self) -> str:
        """The condition in words."""
        return f"{self.row.name} {self.limits.text}"


def row_values(rows: Sequence[Row], tables: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each row's value of each table (table, row): in 64 bits where they suffice, else in Python integers.

    Rows of one cell each, such as all cells, are picked out: NumPy's integer product takes ten times as long.
    """
    if all(row.coefficients == (1,) for row in rows):
        return np.take(tables, np.array([row.cells[0] for row in rows], np.int64), axis=-1)
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


def connected_parts(families: Iterable[Iterable[int]], numbers: Iterable[int]) -> list[list[int]]:
    """Split numbers into the smallest parts such that no family has numbers of two parts.

    Examples
    --------
    >>> connected_parts([(0, 2), (2, 3)], range(5))
    [[0, 2, 3], [1], [4]]
    """
    parent = {number: number for number in numbers}

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for family in families:
        for first, second in pairwise(family):
            parent[root(second)] = root(first)
    parts: dict[int, list[int]] = {}
    for number in parent:
        parts.setdefault(root(number), []).append(number)
    return list(parts.values())


def dense(rows: Sequence[Row], n_cells: int) -> NDArray[np.int64]:
    """Return rows as a matrix, a line a row."""
    matrix = np.zeros((len(rows), n_cells), np.int64)
    for line, row in zip(matrix, rows, strict=True):
        line[list(row.cells)] = row.coefficients
    return matrix


# Sets of cells, as conditions name them, in words and in plain values.


def where_text(where: Where) -> str:
    """Return a set of cells in words, long lists shortened.

    Examples
    --------
    >>> where_text({"sex": "female", "age": ["0-17", "18+"]})
    'sex=female, age in {0-17, 18+}'
    """
    parts = []
    for name, chosen in where.items():
        labels = [chosen] if isinstance(chosen, str) else list(chosen)
        if len(labels) == 1:
            parts.append(f"{name}={labels[0]}")
        else:
            shown = ", ".join(labels) if len(labels) <= 4 else f"{labels[0]}, {labels[1]}, ... {labels[-1]}"
            parts.append(f"{name} in {{{shown}}}")
    return ", ".join(parts)


def total_text(where: Where | None) -> str:
    """Return the sum over a set of cells in words."""
    return "total" if where is None else f"total of {where_text(where)}"


def cell_names(schema: Schema, cells: Sequence[int]) -> list[str]:
    """Return the labels of many cells in words: one at a time takes longer than all the rest of compiling.

    Examples
    --------
    >>> cell_names(Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]}), [1, 2])
    ['sex=female, age=18+', 'sex=male, age=0-17']
    """
    index = np.unravel_index(np.asarray(cells, np.intp), schema.shape)
    parts = [
        [f"{dimension.name}={dimension.labels[place]}" for place in places.tolist()]
        for dimension, places in zip(schema.dimensions, index, strict=True)
    ]
    return [", ".join(labels) for labels in zip(*parts, strict=True)]
