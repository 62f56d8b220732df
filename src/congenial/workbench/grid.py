"""The table as a grid: one dimension down, one across, the others summed over. Public: it holds no counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.rows import Row
from congenial.errors import SchemaError
from congenial.schema import Schema

_MOST_CELLS = 4_000  # of the table whose cells get an error each


@dataclass(frozen=True, eq=False)
class Grid:
    """Sums of a table that a page shows.

    Attributes
    ----------
    down : str
        The dimension whose levels are rows.
    across : str or None
        The dimension whose levels are columns; None for a table with one dimension.
    """

    schema: Schema
    down: str
    across: str | None

    @classmethod
    def of(cls, schema: Schema, down: str | None = None, across: str | None = None) -> "Grid":
        """Return the grid of two dimensions, or of those that fit a page best: the one with most levels goes down."""
        names = schema.names
        for name in (down, across):
            if name is not None and name not in names:
                raise SchemaError(f"{name!r} is not a dimension; there are {', '.join(names)}")
        longest = max(names, key=lambda name: len(schema.labels(name)))
        first = down or next((name for name in (longest, *names) if name != across), longest)
        others = [name for name in names if name != first]
        second = across if across in others else min(others, key=lambda n: len(schema.labels(n)), default=None)
        return cls(schema, first, second)

    @property
    def rows_labels(self) -> tuple[str, ...]:
        """The labels of rows."""
        return self.schema.labels(self.down)

    @property
    def columns_labels(self) -> tuple[str, ...]:
        """The labels of columns."""
        return () if self.across is None else self.schema.labels(self.across)

    @property
    def summed(self) -> tuple[str, ...]:
        """The dimensions that are summed over."""
        return tuple(name for name in self.schema.names if name not in {self.down, self.across})

    @cached_property
    def places(self) -> dict[tuple[int | None, int | None], int]:
        """Where the sum of a row and a column stands among the statistics; None is all of them."""
        columns: Sequence[int | None] = [None, *range(len(self.columns_labels))]
        keys = [(i, j) for i in (None, *range(len(self.rows_labels))) for j in columns]
        return {key: number for number, key in enumerate(keys)}

    @cached_property
    def rows(self) -> list[Row]:
        """The sums: all cells, each row and column, each crossing; then single cells where these are not crossings."""
        found = [Row.of(self.name_of(key), self.cells_of(key)) for key in self.places]
        if self.has_cells:
            return found
        if self.schema.n_cells > _MOST_CELLS:
            return found
        return [*found, *(Row.of(self.schema.cell_name(cell), [cell]) for cell in range(self.schema.n_cells))]

    @property
    def has_cells(self) -> bool:
        """Whether the crossings are single cells."""
        return not self.summed

    @cached_property
    def places_of_cells(self) -> Ints:
        """Where the single cells stand among the statistics; all crossings where there are too many cells."""
        crossings = [
            place for (i, j), place in self.places.items() if i is not None and (j is not None or self.across is None)
        ]
        if self.has_cells or self.schema.n_cells > _MOST_CELLS:
            return np.array(crossings, np.int64)
        return np.arange(len(self.places), len(self.rows))

    @cached_property
    def kinds(self) -> list[tuple[str, Ints]]:
        """Kinds of numbers in words, with where they stand."""
        rows = [place for (i, j), place in self.places.items() if i is not None and j is None]
        columns = [place for (i, j), place in self.places.items() if i is None and j is not None]
        found = [("a single cell", self.places_of_cells)]
        if self.summed:
            inner = [place for (i, j), place in self.places.items() if i is not None and j is not None]
            found.append((f"a number by {self.across} and {self.down}", np.array(inner, np.int64)))
        if self.across is not None or self.summed:
            found.append((f"a number by {self.down}", np.array(rows, np.int64)))
        if self.across is not None:
            found.append((f"a number by {self.across}", np.array(columns, np.int64)))
        return [*found, ("the total", np.array([0], np.int64))]

    def where(self, key: tuple[int | None, int | None]) -> dict[str, list[str]]:
        """Return the labels that a sum is over; empty for all cells."""
        i, j = key
        found = {} if i is None else {self.down: [self.rows_labels[i]]}
        return found if j is None or self.across is None else {**found, self.across: [self.columns_labels[j]]}

    def cells_of(self, key: tuple[int | None, int | None]) -> list[int]:
        """Return the cells of a sum."""
        return [int(cell) for cell in self.schema.cells(self.where(key) or None)]

    def name_of(self, key: tuple[int | None, int | None]) -> str:
        """Return a sum in words."""
        return ", ".join(f"{name}={label}" for name, (label,) in self.where(key).items()) or "total"
