"""The law of several tables of the same records: what is measured of them, what is exact, each table by itself. Public.

A table is a margin of the records: its cells are the combinations of labels of some dimensions. Every table is measured
by itself, with noise of its own that keeps the exact numbers inside it; a public rule then makes records of all
measurements together, of which the published tables are counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import Codes
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.conditions.constraints import Constraints
from congenial.conditions.limits_and_shares import StructuralZeros
from congenial.conditions.queries import Margin, Query, Total, cells, margin, total
from congenial.errors import ConditionError, TooLargeError, did_you_mean
from congenial.law import MeasuredQuery, PublicLaw
from congenial.noise import FAMILIES, Noise
from congenial.privacy.certificate_inputs import MEASURED
from congenial.rules.nearest import NEAREST
from congenial.safe_text import explain_hidden
from congenial.schema import RecordSchema, Schema, frozen_where

MOST_CELLS_OF_A_TABLE = 200_000
"""Cells of a measured table at most: each has noise and a row of its own."""

RULE = ("records", 1)
"""Name and version of the rule that decides several tables."""

WHOLE_TABLE = "every cell"


def dimensions_of(condition: Condition) -> tuple[str, ...]:
    """Return the dimensions that a condition speaks of; refuses one that speaks of all, or of limits.

    Examples
    --------
    >>> dimensions_of(margin("county", where={"sex": "female"}))
    ('county', 'sex')
    """
    if isinstance(condition, Margin):
        return tuple(dict.fromkeys([*condition.dimensions, *(frozen_where(condition.where) or {})]))
    if isinstance(condition, Total) and condition.stated_range.is_free:
        return tuple(frozen_where(condition.where) or {})
    if isinstance(condition, StructuralZeros):
        return tuple(frozen_where(condition.where) or {})
    raise ConditionError(
        f"{condition.text}: of several tables of the same records, totals, margins and structural zeros can be exact;"
        " write such, each with the cells it is of"
    )


def check_condition(condition: Condition, schema: Schema) -> None:
    """Refuse a condition that does not fit a schema; of records, it is looked at in the dimensions it speaks of."""
    if not isinstance(schema, RecordSchema):
        condition.check(schema)
    elif dimensions := dimensions_of(condition):
        condition.check(schema.part(dimensions))
    elif isinstance(condition, StructuralZeros):
        raise ConditionError("all cells cannot be 0 by logic; name the cells")


@dataclass(frozen=True)
class RecordTable:
    """One table of the records.

    Attributes
    ----------
    name : str
    dimensions : tuple of str
        In the order of the schema.
    precision : Fraction
        Of the noise of each cell; 0 where it is not measured, for the exact numbers determine it.
    is_published : bool
        Whether counts are published, and not measurements alone.
    """

    name: str
    dimensions: tuple[str, ...]
    precision: Fraction
    is_published: bool = True


@dataclass(frozen=True, eq=False)
class ExactCounts:
    """Exact numbers of the records: a total or a margin, with its values. Public.

    Attributes
    ----------
    condition : Query
        As it was stated.
    dimensions : tuple of str
        Those it speaks of, in the order of the schema.
    values : tuple of int
        In the order of the condition's rows.
    """

    condition: Query
    dimensions: tuple[str, ...]
    values: tuple[int, ...]

    @property
    def is_whole_margin(self) -> bool:
        """Whether it is all sums over the other dimensions."""
        return self.condition.where is None

    def table(self, schema: Schema) -> Ints:
        """Return the values of a whole margin, shaped by its dimensions in the order of the schema.

        Those of `values` are in the order in which the condition names its dimensions.

        Examples
        --------
        >>> schema = RecordSchema({"sex": ["female", "male"], "age": ["0-17", "18-64", "65+"]})
        >>> ExactCounts(margin("age", "sex"), ("sex", "age"), (1, 2, 3, 4, 5, 6)).table(schema).tolist()
        [[1, 3, 5], [2, 4, 6]]
        """
        stated = getattr(self.condition, "dimensions", ())
        values = np.array(self.values, np.int64).reshape([len(schema.labels(name)) for name in stated])
        return np.asarray(values.transpose([stated.index(name) for name in self.dimensions]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExactCounts) and (self.condition, self.values) == (other.condition, other.values)

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class WorkloadLaw:
    """What is measured of records, in which tables, with what noise, and what is exact. Public.

    Attributes
    ----------
    schema : RecordSchema
    noise : str
        The family of the noise.
    tables : tuple of RecordTable
    exact : tuple of ExactCounts
    zeros : tuple of StructuralZeros
    rule : (str, int)
        Name and version of the public rule that makes the records.
    """

    schema: RecordSchema
    noise: str
    tables: tuple[RecordTable, ...]
    exact: tuple[ExactCounts, ...] = ()
    zeros: tuple[StructuralZeros, ...] = ()
    rule: tuple[str, int] = RULE
    method: str = field(default=MEASURED, init=False)

    is_measured = True
    is_tree = False
    is_workload = True

    @property
    def family(self) -> type[Noise]:
        """The family of the noise."""
        return FAMILIES[self.noise]

    @property
    def measured_tables_of_records(self) -> tuple[RecordTable, ...]:
        """The tables that are measured."""
        return tuple(table for table in self.tables if table.precision)

    @property
    def published(self) -> tuple[RecordTable, ...]:
        """The tables whose counts are published."""
        return tuple(table for table in self.tables if table.is_published)

    def axes(self, dimensions: Iterable[str]) -> tuple[int, ...]:
        """Return the places of dimensions in the schema, ascending."""
        return tuple(sorted(self.schema.axis(name) for name in dimensions))

    def conditions_inside(self, dimensions: Sequence[str]) -> tuple[Condition, ...]:
        """Return what is exact of the cells of a table over some dimensions, with its values.

        A margin that lies in the table as a whole; of another, the margin over the dimensions that both have, down to
        the total. Exact numbers of some of the records that do not lie inside are left out.
        """
        inside, out = set(dimensions), dict[tuple[str, ...] | int, Condition]()
        for number, exact in enumerate(self.exact):
            if set(exact.dimensions) <= inside:
                key = exact.dimensions if exact.is_whole_margin else number
                values = exact.values if len(exact.values) > 1 or exact.dimensions else exact.values[0]
                single = isinstance(exact.condition, Total)
                out[key] = replace(exact.condition, equals=exact.values[0] if single else values)
            elif exact.is_whole_margin:
                shared = tuple(name for name in exact.dimensions if name in inside)
                sums = self.summed(exact, shared)
                if not shared:
                    out.setdefault((), total(equals=int(sums)))
                else:
                    out.setdefault(shared, margin(*shared, equals=tuple(sums.reshape(-1).tolist())))
        zeros = [each for each in self.zeros if set(dimensions_of(each)) <= inside]
        return (*out.values(), *zeros)

    def summed(self, exact: ExactCounts, dimensions: Sequence[str]) -> Ints:
        """Return the sums of an exact margin over some of its dimensions, in the order of the schema."""
        lost = tuple(axis for axis, name in enumerate(exact.dimensions) if name not in dimensions)
        sums: Ints = np.asarray(exact.table(self.schema).sum(axis=lost), np.int64)
        return sums

    def constraints(self, dimensions: Sequence[str]) -> Constraints:
        """Return what the cells of a table over some dimensions obey."""
        return Constraints.of(self.schema.part(dimensions), self.conditions_inside(dimensions))

    @cached_property
    def measured_laws(self) -> tuple[PublicLaw, ...]:
        """Every measured table by itself: its cells with the exact numbers inside it, and what is measured."""
        out = []
        for table in self.measured_tables_of_records:
            constraints = self.constraints(table.dimensions)
            rows = tuple(cells().rows(constraints.schema))
            query = MeasuredQuery(WHOLE_TABLE, table.precision, rows)
            areas = Areas.one(constraints)
            rule = NEAREST.name, NEAREST.version
            out.append(PublicLaw(constraints.schema, self.noise, (query,), areas, method=MEASURED, rule=rule))
        return tuple(out)

    @property
    def names_and_codes(self) -> tuple[tuple[str, Codes], ...]:
        """The name of each measured table, and that of its one unit."""
        one = np.array([""])
        return tuple((table.name, one) for table in self.measured_tables_of_records)

    @property
    def areas(self) -> Areas:
        """One unit, of which nothing is said here: exact numbers are those of the tables."""
        return Areas(None, (None,), ())

    @property
    def tables_text(self) -> str:
        """What is released, in words."""
        n = len(self.published)
        return f"{n} {'table' if n == 1 else 'tables'} of the same records"

    def table(self, name: str) -> RecordTable:
        """Return a table by its name."""
        names = [table.name for table in self.tables]
        if name not in names:
            raise ConditionError(f"{name!r} is not a table of this release; {did_you_mean(name, names)}")
        return self.tables[names.index(name)]

    def __repr__(self) -> str:
        parts = ", ".join(f"{table.name} at precision {table.precision}" for table in self.tables)
        return f"law of tables of records on {self.schema}: {parts}, {self.noise} noise"


def checked_tables(schema: Schema, tables: Sequence[RecordTable]) -> tuple[RecordTable, ...]:
    """Return tables with their dimensions in the order of the schema; refuses tables that are none, or are twice."""
    if not tables:
        raise ConditionError('name at least one table, such as tables={"by age": margin("age")}')
    names, over = set[str](), dict[tuple[str, ...], str]()
    out = []
    for table in tables:
        if wrong := explain_hidden(table.name, f"the name of table {table.name!r}"):
            raise ConditionError(wrong)
        if not table.name.strip():
            raise ConditionError("a table has an empty name")
        folded = table.name.casefold()
        if folded in names:
            raise ConditionError(f"two tables are called {table.name!r}; every table needs a name of its own")
        names.add(folded)
        dimensions = tuple(
            name for name in schema.names if name in {schema.names[schema.axis(n)] for n in table.dimensions}
        )
        if not dimensions:
            raise ConditionError(f"table {table.name!r} has no dimensions; name some of {', '.join(schema.names)}")
        if dimensions in over:
            raise ConditionError(
                f"tables {over[dimensions]!r} and {table.name!r} are over the same dimensions; measure them once"
            )
        over[dimensions] = table.name
        n_cells = int(np.prod([len(schema.labels(name)) for name in dimensions], dtype=np.float64))
        if n_cells > MOST_CELLS_OF_A_TABLE:
            raise TooLargeError(
                f"table {table.name!r} has {n_cells:,} cells and the limit is {MOST_CELLS_OF_A_TABLE:,}; leave"
                " dimensions out, or merge labels"
            )
        out.append(replace(table, dimensions=dimensions))
    return tuple(out)
