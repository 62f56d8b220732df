"""What a release states exactly, in words and with its values, read off tables that obey it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from congenial.arrays import Ints
from congenial.conditions.areas import Area
from congenial.conditions.condition import Condition
from congenial.conditions.kinds.query import Query
from congenial.conditions.rows import row_values
from congenial.schema import Schema


@dataclass(frozen=True)
class Exactly:
    """A statistic that came out exactly: in words, by which mandate, and its value in each table."""

    text: str
    mandate: str | None
    values: Mapping[Area, str]


def with_commas(value: str) -> str:
    """Write a whole number with commas; a value in words as it is.

    Examples
    --------
    >>> with_commas("-12345"), with_commas("1/3")
    ('-12,345', '1/3')
    """
    return f"{int(value):,}" if value.removeprefix("-").isdecimal() else value


def exactly(
    schema: Schema, conditions: Sequence[Condition], labels: Sequence[Area], tables: Ints
) -> tuple[Exactly, ...]:
    """Return every statistic that conditions state exactly; a margin has one for each of its sums.

    Tables (area, cell) that obey the conditions have the disclosed values.
    """
    out: list[Exactly] = []
    for condition in conditions:
        first = condition.exact_values(schema, tables[0].tolist())
        if isinstance(condition, Query):  # all areas at once: one by one, 8,000 of them take seconds
            columns = row_values(condition.rows(schema), tables).T.tolist() if first else []
            values = [[str(value) for value in column] for column in columns]
        else:
            lines = [condition.exact_values(schema, table) for table in tables.tolist()] if first else []
            values = [[line[place][1] for line in lines] for place in range(len(first))]
        out += [
            Exactly(text, condition.mandate, dict(zip(labels, column, strict=True)))
            for (text, _), column in zip(first, values, strict=True)
        ]
    return tuple(out)
