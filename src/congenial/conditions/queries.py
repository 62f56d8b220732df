"""Queries: families of linear statistics, which can be measured with noise or held exactly.

In ``measure=[...]`` a query gets noise; in ``invariants=[...]`` it comes out exactly, at the confidential table's value
unless one is stated (``equals``, ``at_least``, ``at_most``).
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from congenial.conditions.base import (
    LIMITS,
    Claim,
    Condition,
    Counts,
    Entry,
    Key,
    Keys,
    SpecList,
    arguments,
    plain,
)
from congenial.conditions.grouped_cells_and_lattice import Equalities
from congenial.conditions.rows_and_intervals import FREE, Interval, Limited, Row, cell_names, total_text, where_text
from congenial.errors import ConditionError, SchemaError
from congenial.exact import exact_fraction, positive_fraction
from congenial.schema import Schema, Where, frozen_where

LARGEST_LIMIT = 2**60


@dataclass(frozen=True)
class Query(Condition):
    """A family of linear statistics: what `cells`, `total`, `margin` and `linear` return.

    Attributes
    ----------
    precision, portion : Fraction or None
        Of a measured query: its noise, or its part of the budget.
    equals : integers or None
        The stated value, as nested tuples where there are several.
    """

    where: Where | None = None
    precision: Fraction | None = None
    portion: Fraction | None = None
    equals: Any = None

    @property
    def text(self) -> str:
        """The query as the user wrote it, shortened."""
        return self.name or f"{self.kind}({', '.join(self._inside())})"

    @property
    def how(self) -> str:
        """The query with its noise, or what sets it."""
        if self.precision is not None:
            return f"{self.text} at precision {self.precision}"
        return f"{self.text} by budget" + ("" if self.portion is None else f", portion {self.portion}")

    def _inside(self) -> list[str]:
        return [] if self.where is None else [where_text(self.where)]

    @property
    def _with_where(self) -> str:
        return "" if self.where is None else f" with {where_text(self.where)}"

    @property
    def stated_range(self) -> Interval:
        """Limits that every row must keep, where such are stated."""
        return FREE

    @property
    def is_stated(self) -> bool:
        """Whether the query comes with its own value or limits."""
        return self.equals is not None or not self.stated_range.is_free

    def is_same_for_all(self, schema: Schema) -> bool:
        """Whether it is of sums over several cells without limits; a count of one cell becomes the cell's limits."""
        return self.stated_range.is_free and all(len(row.cells) > 1 for row in self.rows(schema))

    @abstractmethod
    def rows(self, schema: Schema) -> list[Row]:
        """Return the statistics as integer rows."""

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """Return the shape that stated values have when they are not simply listed."""
        del schema
        return ()

    def check(self, schema: Schema) -> None:
        """Refuse a measured query, unknown labels, and stated values that do not fit."""
        self._check_exact()
        if self.is_stated:
            self.limits(schema, None)
        else:
            self.rows(schema)

    def _check_exact(self) -> None:
        if self.precision is not None or self.portion is not None:
            what = "precision" if self.portion is None else "portion"
            raise ConditionError(
                f"{self.text} has a {what}, so it is measured, not exact; move it to measure=[...] or drop the {what}"
            )

    def limits(self, schema: Schema, counts: Counts | None) -> list[Limited]:
        """Return the rows with what they must be: as stated, or as the confidential counts have it."""
        rows = self.rows(schema)
        if self.equals is not None:
            values = _stated(self.equals, len(rows), self.shape(schema), self.text)
            return [Limited.equal(row, value) for row, value in zip(rows, values, strict=True)]
        if self.is_stated:
            return [Limited(row, self.stated_range) for row in rows]
        if counts is None:
            raise ConditionError(f"{self.text} needs its value here: write equals=..., or disclose it from a table")
        return [Limited.equal(row, row.value(counts)) for row in rows]

    def claims(self, schema: Schema, counts: Counts | None, known: Equalities) -> list[Claim]:
        """Return one statement for each row."""
        del known
        self._check_exact()
        return [Claim(limited.text, (limited,)) for limited in self.limits(schema, counts)]

    def exact_values(self, schema: Schema, counts: Counts) -> list[tuple[str, str]]:
        """Return the value of each row; a stated range has none."""
        if not self.stated_range.is_free and not self.stated_range.is_point:
            return []
        rows = self.rows(schema)
        if len(rows) == 1:
            return [(self.name or rows[0].name, str(rows[0].value(counts)))]
        head = f"{self.name}: " if self.name else ""
        return [(f"{head}{row.name}", str(row.value(counts))) for row in rows]


def checked_fields(
    kind: str, *, where: Where | None = None, precision: object = None, portion: object = None, equals: object = None
) -> dict[str, Any]:
    """Return the fields that every query has, checked; a precision is exact, and a portion above 0."""
    exact = None if precision is None else exact_fraction(precision, "precision")
    if exact is not None and exact < 0:
        raise ConditionError(f'precision must not be negative, and it is {exact}; write one such as "1/2"')
    part = None if portion is None else positive_fraction(portion, "portion")
    if exact is not None and part is not None:
        raise ConditionError(f"{kind}: give a precision, or a portion of the budget, not both")
    return {"where": frozen_where(where), "precision": exact, "portion": part, "equals": nested(equals)}


def checked_limits(kind: str, equals: object, at_least: object, at_most: object) -> dict[str, Any]:
    """Return the limits of a query that can have such, checked."""
    low, high = whole_limit(at_least, "at_least"), whole_limit(at_most, "at_most")
    if equals is not None and (low is not None or high is not None):
        raise ConditionError(f"{kind}: give either equals or at_least/at_most, not both")
    if low is not None and high is not None and low > high:
        raise ConditionError(f"{kind}: at_least={low} is above at_most={high}; swap them")
    return {"at_least": low, "at_most": high}


def entry_options(entry: Entry, kind: str) -> dict[str, Any]:
    """Return the options of a query in an entry of a spec besides its cells: noise, value or limits."""
    if entry.stands_in == "measure":
        if "portion" in entry.values and "precision" in entry.values:
            raise ConditionError("give a `portion` of the budget or a `precision`, not both")
        return {"precision": entry.values.get("precision"), "portion": entry.values.get("portion")}
    if entry.stands_in == "invariants":
        return {"equals": entry.whole_numbers("equals")}
    low, high = entry.limit("at_least"), entry.limit("at_most")
    if low is None and high is None:
        raise ConditionError(f"a {kind} here needs an `at_least` or an `at_most`; exact values are invariants")
    return {"at_least": low, "at_most": high}


def whole_limit(value: object, name: str) -> int | None:
    """Return a limit as a Python integer, or refuse what is no whole number or too large to compute with."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConditionError(f"{name} must be a whole number or None, not {value!r}")
    if abs(int(value)) > LARGEST_LIMIT:
        raise ConditionError(f"{name} is beyond 2^60; write None for no limit")
    return int(value)


def nested(values: Any) -> Any:
    """Return arrays and lists as nested tuples of Python numbers: values that can be compared and written down."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if isinstance(values, list | tuple):
        return tuple(nested(value) for value in values)
    return int(values) if isinstance(values, np.integer) else values


def _stated(equals: Any, n_rows: int, shape: tuple[int, ...], text: str) -> list[int]:
    array = np.asarray(equals, object)
    if array.size != n_rows:
        raise ConditionError(f"{text}: equals has {array.size} values, {n_rows} are needed")
    if array.ndim > 1 and array.shape != shape:
        raise ConditionError(f"{text}: equals has shape {array.shape}, {shape} is needed")
    values = [whole_limit(value, f"{text}: equals") for value in array.reshape(-1).tolist()]
    if None in values:
        raise ConditionError(f"{text}: equals must give every value")
    return [value for value in values if value is not None]


# Every single cell.

_CELLS_KEYS: Keys = {"cells": Key("cells", "each of these cells")}
_MEASURED: Keys = {
    **_CELLS_KEYS,
    "zeros": Key("text", "`unweighted`: no weight on a cell's lower limit; or that weight"),
}
_UNWEIGHTED = "unweighted"


@dataclass(frozen=True)
class Cells(Query):
    """The cells themselves.

    Attributes
    ----------
    zeros : Fraction or None
        Of measured cells: what the weight of a cell's lower limit is multiplied by. None leaves it to the budget, or,
        where the precision is given, to the noise, which has 1.
    """

    zeros: Fraction | None = None

    kind: ClassVar[str] = "cells"
    word: ClassVar[str] = "cells"
    keys: ClassVar[Mapping[SpecList, Keys]] = {"measure": _MEASURED, "invariants": _CELLS_KEYS}

    def rows(self, schema: Schema) -> list[Row]:
        """Return a row for each cell."""
        cells = schema.cells(self.where).tolist()
        return [Row.of(name, [cell]) for name, cell in zip(cell_names(schema, cells), cells, strict=True)]

    @classmethod
    def from_entry(cls, entry: Entry) -> Query:
        """Read ``cells: all``."""
        zeros = {"zeros": entry.values["zeros"]} if "zeros" in entry.values else {}
        return cells(entry.where("cells"), **entry_options(entry, cls.kind), **zeros)

    @property
    def title(self) -> str:
        """The cells as readers see them."""
        return self.name or f"every cell{self._with_where}"

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Query:
        """Return the query that plain values determine."""
        return cells(**arguments(values, cls.kind, ("where", "precision", "portion", "equals", "zeros")))


def cells(
    where: Where | None = None,
    *,
    precision: object = None,
    portion: object = None,
    equals: object = None,
    zeros: object = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Query:
    """Every single cell. It has a precision, or a portion of the budget relative to those of others (1).

    Parameters
    ----------
    zeros : "unweighted", str, int or Fraction, optional
        How much more a cell's lower limit weighs than the noise alone has it. A budget in epsilon chooses the weight
        that allows most precision (docs/claims/weighted-zeros.md), unless `zeros` is ``"unweighted"``, which is 1; a
        weight above 1 can be given beside a precision.

    Examples
    --------
    >>> cells(precision="1/2").precision
    Fraction(1, 2)
    """
    fields = checked_fields("cells", where=where, precision=precision, portion=portion, equals=equals)
    return Cells(name=name, mandate=mandate, zeros=_weight(zeros, fields["precision"]), **fields)


def _weight(zeros: object, precision: Fraction | None) -> Fraction | None:
    if zeros is None:
        return None
    weight = Fraction(1) if zeros == _UNWEIGHTED else exact_fraction(zeros, "zeros")
    if weight < 1:
        raise ConditionError(f'zeros: a weight is at least 1, which is "unweighted", and it is {weight}')
    if weight != 1 and precision is None:
        raise ConditionError(
            f"zeros: a budget chooses the weight, so {weight} can only be given beside a precision; leave it out, or"
            ' write "unweighted"'
        )
    return weight


# The sums over all other dimensions, one for each combination of labels of some.

_MARGIN_KEYS: Keys = {
    "margin": Key("dimensions", "one sum for each level of these dimensions"),
    "where": Key("cells", "only these cells"),
}


@dataclass(frozen=True)
class Margin(Query):
    """One sum for each combination of labels."""

    dimensions: tuple[str, ...] = ()

    kind: ClassVar[str] = "margin"
    word: ClassVar[str] = "margin"
    keys: ClassVar[Mapping[SpecList, Keys]] = {"measure": _MARGIN_KEYS, "invariants": _MARGIN_KEYS}

    def _inside(self) -> list[str]:
        return [*map(repr, self.dimensions), *super()._inside()]

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """Return the number of labels of each dimension."""
        return tuple(len(schema.labels(name)) for name in self.dimensions)

    def rows(self, schema: Schema) -> list[Row]:
        """Return a sum for each combination, the last dimension fastest."""
        picked = schema.cells(self.where)
        index = np.unravel_index(picked, schema.shape)
        axes = [schema.axis(dimension) for dimension in self.dimensions]
        if self.where is not None and set(self.where) & set(self.dimensions):
            raise ConditionError(
                "a margin's where names dimensions that are summed over; leave its own dimensions out of it"
            )
        shape = self.shape(schema)
        key = np.ravel_multi_index(tuple(index[axis] for axis in axes), shape)
        rows = []
        for combination in range(int(np.prod(shape))):
            at = np.unravel_index(combination, shape)
            labels = (schema.dimensions[axis].labels[i] for axis, i in zip(axes, at, strict=True))
            name = ", ".join(f"{dimension}={label}" for dimension, label in zip(self.dimensions, labels, strict=True))
            rows.append(Row.of(name + self._with_where, picked[key == combination]))
        return rows

    @classmethod
    def from_entry(cls, entry: Entry) -> Query:
        """Read ``margin: [sex, age]``."""
        return margin(*entry.dimensions("margin"), where=entry.where("where"), **entry_options(entry, cls.kind))

    @property
    def title(self) -> str:
        """The sums as readers see them."""
        return self.name or f"margin of {' and '.join(self.dimensions)}{self._with_where}"

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Query:
        """Return the query that plain values determine."""
        fields = arguments(values, cls.kind, ("dimensions", "where", "precision", "portion", "equals"))
        dimensions = fields.pop("dimensions", ())
        if not isinstance(dimensions, list | tuple):
            raise ConditionError("the dimensions of a margin are a list of names")
        return margin(*dimensions, **fields)


def margin(
    *dimensions: str,
    where: Where | None = None,
    precision: object = None,
    portion: object = None,
    equals: object = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Query:
    """The sums over all other dimensions, one for each combination of labels of these.

    Examples
    --------
    >>> margin("sex").text
    "margin('sex')"
    """
    if not all(isinstance(dimension, str) for dimension in dimensions):
        raise ConditionError('the dimensions of a margin are names: write margin("sex", "age")')
    if not dimensions:
        raise ConditionError("a margin needs at least one dimension; for the sum of all cells write total()")
    if len(set(dimensions)) != len(dimensions):
        raise ConditionError(f"margin{dimensions} names a dimension twice")
    fields = checked_fields("margin", where=where, precision=precision, portion=portion, equals=equals)
    return Margin(dimensions=dimensions, name=name, mandate=mandate, **fields)


# The sum of all cells, or of some.

_TOTAL_KEYS: Keys = {
    "total": Key("cells", "the sum of these cells; all of them: `total: all`"),
    "by": Key("dimensions", "one sum for each level of these dimensions"),
}


@dataclass(frozen=True)
class Total(Query):
    """One sum of cells."""

    at_least: int | None = None
    at_most: int | None = None

    kind: ClassVar[str] = "total"
    word: ClassVar[str] = "total"
    keys: ClassVar[Mapping[SpecList, Keys]] = {
        "measure": _TOTAL_KEYS,
        "invariants": _TOTAL_KEYS,
        "conditions": {"total": Key("cells", "limits of the sum of these cells"), **LIMITS},
    }

    @property
    def stated_range(self) -> Interval:
        """Limits of the sum, where such are stated."""
        return Interval(self.at_least, self.at_most)

    def rows(self, schema: Schema) -> list[Row]:
        """Return the sum."""
        return [Row.of(self.name or total_text(self.where), schema.cells(self.where))]

    @classmethod
    def from_entry(cls, entry: Entry) -> Query:
        """Read ``total: female``; with ``by: age`` it is a margin of these cells."""
        where, by = entry.where("total"), entry.dimensions("by")
        if by:
            return margin(*by, where=where, **entry_options(entry, cls.kind))
        return total(where, name=entry.name, **entry_options(entry, cls.kind))

    @property
    def title(self) -> str:
        """The sum as readers see it."""
        return self.name or total_text(self.where)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Query:
        """Return the query that plain values determine."""
        parts = ("where", "precision", "portion", "equals", "at_least", "at_most", "name")
        return total(**arguments(values, cls.kind, parts))


def total(
    where: Where | None = None,
    *,
    precision: object = None,
    portion: object = None,
    equals: int | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Query:
    """The sum of all cells, or of those that `where` picks.

    Examples
    --------
    >>> total({"age": "18+"}).text
    'total(age=18+)'
    """
    return Total(
        name=name,
        mandate=mandate,
        **checked_fields("total", where=where, precision=precision, portion=portion, equals=equals),
        **checked_limits("total", equals, at_least, at_most),
    )


# Any integer combination of cells.

LARGEST_COEFFICIENT = 2**31

_TERMS = Key("terms", "a whole-number combination of cells")


@dataclass(frozen=True)
class CellCoefficient:
    """The coefficient of one cell, which is named by its labels."""

    cell: Any
    times: Any


@dataclass(frozen=True)
class Linear(Query):
    """One integer combination of cells.

    Attributes
    ----------
    coefficients : tuple of OfCell, or nested tuples of the schema's shape
        Cells that are not named have coefficient 0.
    """

    coefficients: Any = None
    at_least: int | None = None
    at_most: int | None = None

    kind: ClassVar[str] = "linear"
    word: ClassVar[str] = "linear"
    keys: ClassVar[Mapping[SpecList, Keys]] = {
        "measure": {"linear": _TERMS},
        "invariants": {"linear": _TERMS},
        "conditions": {"linear": Key("terms", "limits of a whole-number combination of cells"), **LIMITS},
    }

    @property
    def stated_range(self) -> Interval:
        """Limits of the combination, where such are stated."""
        return Interval(self.at_least, self.at_most)

    def rows(self, schema: Schema) -> list[Row]:
        """Return the combination."""
        of_cell: dict[int, int] = {}
        if self._names_cells:
            for entry in self.coefficients:
                cell = schema.cell(entry.cell)
                if cell in of_cell:
                    raise ConditionError(f"linear: cell {schema.cell_name(cell)} has two coefficients")
                of_cell[cell] = _coefficient(entry.times)
        else:
            array = np.asarray(self.coefficients, object)
            if array.shape != schema.shape:
                raise SchemaError(
                    f"linear: coefficients have shape {array.shape}, the schema {schema} needs {schema.shape}"
                )
            of_cell = {cell: _coefficient(times) for cell, times in enumerate(array.reshape(-1).tolist())}
        row = Row.weighted(of_cell)
        if not row.cells:
            raise ConditionError("linear: every coefficient is 0; name at least one cell")
        shown = " ".join(f"{times:+d} x [{schema.cell_name(cell)}]" for cell, times in [*row.terms.items()][:3])
        more = f" and {len(row.cells) - 3} more cells" if len(row.cells) > 3 else ""
        return [replace(row, name=self.name or shown.removeprefix("+") + more)]

    @property
    def _names_cells(self) -> bool:
        is_listed = isinstance(self.coefficients, tuple)
        return is_listed and all(isinstance(entry, CellCoefficient) for entry in self.coefficients)

    @classmethod
    def from_entry(cls, entry: Entry) -> Query:
        """Read ``linear: [{times: 2, of: female}, {times: -1, of: male}]``."""
        terms = entry.values["linear"]
        name = entry.name or entry.reader.terms_text(terms)
        return linear(entry.reader.coefficients(terms), name=name, **entry_options(entry, cls.kind))

    def as_json(self) -> dict[str, Any]:
        """Return plain values; cells that are named stand beside their coefficients."""
        if not self._names_cells:
            return super().as_json()
        named = [{"cell": plain(entry.cell), "times": entry.times} for entry in self.coefficients]
        return {**super().as_json(), "coefficients": named}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Query:
        """Return the query that plain values determine."""
        parts = ("coefficients", "precision", "portion", "equals", "at_least", "at_most", "name")
        fields = arguments(values, cls.kind, parts)
        coefficients = fields.pop("coefficients", None)
        if isinstance(coefficients, list) and any(isinstance(entry, Mapping) for entry in coefficients):
            if not all(isinstance(entry, Mapping) and set(entry) == {"cell", "times"} for entry in coefficients):
                raise ConditionError("linear: a coefficient of a named cell has a `cell` and a `times`")
            coefficients = tuple(CellCoefficient(nested(entry["cell"]), entry["times"]) for entry in coefficients)
        return linear(coefficients, **fields)


def linear(
    coefficients: object,
    *,
    precision: object = None,
    portion: object = None,
    equals: int | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Query:
    """Any integer combination of cells.

    Parameters
    ----------
    coefficients : mapping from labels to integers, or nested lists or an array of the schema's shape
        Cells that a mapping does not mention have coefficient 0.

    Examples
    --------
    >>> linear({("female", "18+"): 2, ("male", "18+"): -1}, at_least=0).at_least
    0
    """
    if isinstance(coefficients, Mapping):
        coefficients = tuple(CellCoefficient(labels, nested(times)) for labels, times in coefficients.items())
    return Linear(
        coefficients=nested(coefficients),
        name=name,
        mandate=mandate,
        **checked_fields("linear", precision=precision, portion=portion, equals=equals),
        **checked_limits("linear", equals, at_least, at_most),
    )


def _coefficient(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConditionError(
            f"linear: a coefficient must be a whole number, not {value!r}; multiply the row by a common denominator"
        )
    if abs(int(value)) > LARGEST_COEFFICIENT:
        raise ConditionError(f"linear: coefficient {value} is beyond 2^31; divide the row by a common factor")
    return int(value)
