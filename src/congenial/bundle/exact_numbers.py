"""What a release states exactly, in words and with its values, read off tables that obey it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.chunks import parts_of
from congenial.conditions.condition import Condition
from congenial.conditions.kinds.query import Query
from congenial.conditions.rows import row_values
from congenial.schema import Schema

_LONGEST = 18  # digits of a number that 64 bits hold


@dataclass(frozen=True, eq=False)
class Exactly:
    """A statistic that came out exactly: in words, by which mandate, and its value in each table.

    Attributes
    ----------
    values : array (area,)
        Whole numbers of up to 18 digits, or else texts (objects): longer numbers, and shares.
    """

    text: str
    mandate: str | None
    values: NDArray[np.int64] | NDArray[np.object_]

    @classmethod
    def of(cls, text: str, mandate: str | None, values: Sequence[str] | NDArray[np.int64]) -> "Exactly":
        """Return a statistic with whole numbers as such where that is possible."""
        is_whole = isinstance(values, np.ndarray) and values.dtype != object
        if is_whole and int(np.abs(values).max(initial=0)) < 10**_LONGEST:
            return cls(text, mandate, np.asarray(values))
        texts = [str(value) for value in values]
        if all(map(_is_number, texts)):
            return cls(text, mandate, np.array(texts, np.int64))
        return cls(text, mandate, np.array(texts, object))

    def value(self, place: int = 0) -> str:
        """Return the value in one table, as text."""
        return str(self.values[place])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Exactly)
            and (self.text, self.mandate, self.values.dtype) == (other.text, other.mandate, other.values.dtype)
            and np.array_equal(self.values, other.values)
        )

    __hash__ = None  # type: ignore[assignment]  # an array inside


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isdecimal() and len(digits) <= _LONGEST and str(int(text)) == text


def with_commas(value: str) -> str:
    """Write a whole number with commas; a value in words as it is.

    Examples
    --------
    >>> with_commas("-12345"), with_commas("1/3")
    ('-12,345', '1/3')
    """
    return f"{int(value):,}" if value.removeprefix("-").isdecimal() else value


def exactly(schema: Schema, conditions: Sequence[Condition], tables: Ints) -> tuple[Exactly, ...]:
    """Return every statistic that conditions state exactly; a margin has one for each of its sums.

    Tables (area, cell) that obey the conditions have the disclosed values.
    """
    out: list[Exactly] = []
    for condition in conditions:
        first = condition.exact_values(schema, tables[0].tolist())
        if not first:
            continue
        if isinstance(condition, Query):  # all areas at once: one by one, 8,000 of them take seconds
            rows = condition.rows(schema)
            columns = list(np.concatenate([row_values(rows, tables[part]) for part in parts_of(len(tables))]).T)
            values: list[Sequence[str] | NDArray[np.int64]] = [np.ascontiguousarray(column) for column in columns]
        else:
            lines = [condition.exact_values(schema, table) for table in tables.tolist()]
            values = [[line[place][1] for line in lines] for place in range(len(first))]
        out += [Exactly.of(text, condition.mandate, own) for (text, _), own in zip(first, values, strict=True)]
    return tuple(out)
