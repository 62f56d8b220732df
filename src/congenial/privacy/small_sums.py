"""Exact sums of few: in how many areas nobody, or one record, is in a sum that is published or that follows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.condition import Condition
from congenial.conditions.kinds.query import Query
from congenial.conditions.queries import margin, total
from congenial.conditions.rows import Row
from congenial.schema import Schema

_MOST_SUMS = 20  # stated, that are compared in pairs: what one has beyond another is known, too
_MOST_CELLS = 20_000  # of a table whose margins are looked at though nobody stated them


@dataclass(frozen=True)
class SmallSum:
    """An exact sum of cells: in how many areas it is known, and in how many of these it is 0 and 1.

    Attributes
    ----------
    is_stated : bool
        Whether it is published as such; else it follows from others.
    """

    text: str
    n_cells: int
    is_stated: bool
    n_known: int = 0
    n_zero: int = 0
    n_one: int = 0

    def with_more(self, values: Ints, n_areas: Ints) -> "SmallSum":
        """Count further areas: the sum's value in each kind of area, and how many are of that kind."""
        counts = [n_areas[chosen].sum() for chosen in (np.ones(len(values), bool), values == 0, values == 1)]
        before = (self.n_known, self.n_zero, self.n_one)
        n_known, n_zero, n_one = (old + int(new) for old, new in zip(before, counts, strict=True))
        return replace(self, n_known=n_known, n_zero=n_zero, n_one=n_one)


def looked_at(schema: Schema, conditions: Sequence[Condition]) -> list[tuple[Row, bool]]:
    """Return the sums that may be exact, and whether they were stated.

    Besides those: all cells, each level of a dimension, and what one stated sum has beyond another.

    Examples
    --------
    >>> schema = Schema({"age": ["0-17", "18-64", "65+"]})
    >>> [row.name for row, _ in looked_at(schema, [total(), total({"age": ["18-64", "65+"]}, name="adults")])]
    ['total', 'adults', 'age=0-17', 'age=18-64', 'age=65+']
    """
    exact = [one for one in conditions if isinstance(one, Query) and one.stated_range.is_free]
    stated = [row for one in exact for row in one.rows(schema)]
    others = [row for one in conditions for row in one.mentioned(schema)]
    if schema.n_cells <= _MOST_CELLS:
        others += [*total().rows(schema), *(row for name in schema.names for row in margin(name).rows(schema))]
    return with_differences(schema, stated, others)


def with_differences(schema: Schema, stated: Sequence[Row], others: Sequence[Row]) -> list[tuple[Row, bool]]:
    """Return sums, each once and by its first name, with those that are left of one stated sum without another."""
    everything = total().rows(schema)
    sums = {row.cells: row for row in [*stated, *everything] if set(row.coefficients) == {1}}.values()
    less = []
    if len(sums) <= _MOST_SUMS:
        pairs = [(whole, part) for part in sums if (whole := _around(part, sums)) is not None]
        rest = [(f"{a.name} less {b.name}", set(a.cells) - set(b.cells)) for a, b in pairs]
        less = [Row.of(name, sorted(cells)) for name, cells in rest if not _is_made_of(cells, stated)]
    distinct_rows: dict[tuple[int, ...], tuple[Row, bool]] = {}
    for row in (*stated, *others, *less):
        if set(row.coefficients) == {1}:
            distinct_rows.setdefault(row.cells, (row, row in stated))
    return list(distinct_rows.values())


def _around(part: Row, sums: Iterable[Row]) -> Row | None:
    """Return the smallest sum that a sum is part of."""
    wider = [row for row in sums if set(part.cells) < set(row.cells)]
    return min(wider, key=lambda row: len(row.cells), default=None)


def _is_made_of(cells: set[int], rows: Sequence[Row]) -> bool:
    """Whether sums that were stated make up these cells: then there is nothing new about them."""
    return cells == {cell for row in rows if set(row.cells) <= cells for cell in row.cells}
