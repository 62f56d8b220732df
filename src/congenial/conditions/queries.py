"""What a user says: queries that can be measured or held exactly, and conditions on the table.

A query is a family of linear statistics. In ``measure=[...]`` it gets noise; in ``invariants=[...]`` it comes out
exactly, at the confidential table's value unless one is stated (``equals``, ``at_least``, ``at_most``).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from congenial.conditions.rows import Limited, Row
from congenial.errors import ConditionError, SchemaError
from congenial.fraction import exact_fraction, positive_fraction
from congenial.schema import Schema, Where, frozen_where

LARGEST_WEIGHT = 2**31
LARGEST_LIMIT = 2**60
Counts = Sequence[int]


@dataclass(frozen=True)
class Query:
    """A family of linear statistics: what `cells`, `total`, `margin` and `linear` return."""

    kind: str
    where: Where | None = None
    dimensions: tuple[str, ...] = ()
    coefficients: Any = None
    precision: Fraction | None = None
    portion: Fraction | None = None
    equals: Any = None
    at_least: int | None = None
    at_most: int | None = None
    name: str | None = None

    @property
    def text(self) -> str:
        """The query as the user wrote it, shortened."""
        inside = [repr(d) for d in self.dimensions]
        if self.where is not None:
            inside.append(where_text(self.where))
        return self.name or f"{self.kind}({', '.join(inside)})"

    @property
    def is_stated(self) -> bool:
        """Whether the query comes with its own value or limits."""
        return self.equals is not None or self.at_least is not None or self.at_most is not None

    def rows(self, schema: Schema) -> list[Row]:
        """Return the statistics as integer rows."""
        if self.kind == "cells":
            return [Row.of(schema.cell_name(cell), [cell]) for cell in schema.cells(self.where)]
        if self.kind == "total":
            name = self.name or ("total" if self.where is None else f"total of {where_text(self.where)}")
            return [Row.of(name, schema.cells(self.where))]
        if self.kind == "margin":
            return _margin_rows(schema, self.dimensions, self.where)
        return [_linear_row(schema, self.coefficients, self.name)]

    def limits(self, schema: Schema, counts: Counts | None) -> list[Limited]:
        """Return the rows with what they must be: as stated, or as the confidential counts have it."""
        rows = self.rows(schema)
        if self.equals is not None:
            shape = tuple(len(schema.labels(name)) for name in self.dimensions)
            values = _stated(self.equals, len(rows), shape, self.text)
            return [Limited(row, v, v) for row, v in zip(rows, values, strict=True)]
        if self.is_stated:
            return [Limited(row, self.at_least, self.at_most) for row in rows]
        if counts is None:
            raise ConditionError(f"{self.text} needs its value here: write equals=..., or disclose it from a table")
        return [Limited(row, value, value) for row in rows for value in [row.value(counts)]]


@dataclass(frozen=True)
class Share:
    """A proportion that must come out exactly."""

    where: Where
    of: Where | None = None
    equals: Fraction | None = None

    @property
    def text(self) -> str:
        """The condition as the user wrote it."""
        return f"share({where_text(self.where)}" + (f", of {where_text(self.of)})" if self.of is not None else ")")

    def part(self, schema: Schema) -> Row:
        """The count above the line: cells of the whole that `where` picks."""
        whole = set(self.whole(schema).cells)
        cells = [int(cell) for cell in schema.cells(self.where) if cell in whole]
        if not cells:
            raise ConditionError(f"{self.text} picks no cell of its whole; a share is where's part of the cells in of")
        both = where_text(self.where) if self.of is None else f"{where_text(self.where)}, {where_text(self.of)}"
        return Row.of(f"total of {both}", cells)

    def whole(self, schema: Schema) -> Row:
        """The count below the line."""
        name = "total" if self.of is None else f"total of {where_text(self.of)}"
        return Row.of(name, schema.cells(self.of))

    def value(self, schema: Schema, counts: Counts | None) -> Fraction | None:
        """Return the share as stated or as the confidential counts have it; None for 0/0."""
        if self.equals is not None:
            return self.equals
        if counts is None:
            raise ConditionError(f"{self.text} needs its value here: write equals=..., or disclose it from a table")
        size = self.whole(schema).value(counts)
        return Fraction(self.part(schema).value(counts), size) if size else None

    def limits(self, schema: Schema, value: Fraction | None) -> list[Limited]:
        """Return ``q * part - p * whole = 0`` for the share p/q, and that the whole is not empty: 0/0 is no share."""
        part, whole = self.part(schema), self.whole(schema)
        if value is None:
            return [Limited(whole, 0, 0)]
        above = set(part.cells)
        weights = {cell: value.denominator * (cell in above) - value.numerator for cell in whole.cells}
        kept = {cell: weight for cell, weight in weights.items() if weight}
        name = f"{value.denominator:,} x [{part.name}] - {value.numerator:,} x [{whole.name}]"
        balance = [Limited(Row(name, tuple(kept), tuple(kept.values())), 0, 0)] if kept else []
        return [*balance, Limited(whole, 1, None)]


@dataclass(frozen=True)
class Bounds:
    """Limits of single cells."""

    lower: int | None
    upper: int | None
    where: Where | None = None
    kind: str = "bounds"

    @property
    def text(self) -> str:
        """The condition in words."""
        scope = "every cell" if self.where is None else f"every cell with {where_text(self.where)}"
        if self.kind == "structural_zeros":
            return f"{scope} is a structural zero"
        low = None if self.lower is None else f"at least {self.lower:,}"
        high = None if self.upper is None else f"at most {self.upper:,}"
        return f"{scope} is " + (" and ".join(part for part in (low, high) if part) or "free, negative counts included")


Condition = Query | Share | Bounds


def as_list(conditions: object, name: str) -> tuple[Any, ...]:
    """Check that conditions come as a list, and say so when a single one was given."""
    if isinstance(conditions, Query | Share | Bounds):
        raise ConditionError(f"{name} takes a list: write [{conditions.text}]")
    if isinstance(conditions, str) or not isinstance(conditions, Iterable):
        raise ConditionError(f"{name} takes a list of conditions, not a {type(conditions).__name__}")
    return tuple(conditions)


def cells(
    where: Where | None = None, *, precision: object = None, portion: object = None, equals: object = None
) -> Query:
    """Every single cell. It has a precision, or a portion of the budget relative to those of others (1).

    Examples
    --------
    >>> cells(precision="1/2").precision
    Fraction(1, 2)
    """
    return _query("cells", where=where, precision=precision, portion=portion, equals=equals)


def total(
    where: Where | None = None,
    *,
    precision: object = None,
    portion: object = None,
    equals: int | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    name: str | None = None,
) -> Query:
    """The sum of all cells, or of those that `where` picks.

    Examples
    --------
    >>> total({"age": "18+"}).text
    'total(age=18+)'
    """
    rest: dict[str, Any] = {"at_least": at_least, "at_most": at_most, "name": name}
    return _query("total", where=where, precision=precision, portion=portion, equals=equals, **rest)


def margin(
    *dimensions: str,
    where: Where | None = None,
    precision: object = None,
    portion: object = None,
    equals: object = None,
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
    return _query("margin", dimensions=dimensions, where=where, precision=precision, portion=portion, equals=equals)


def linear(
    coefficients: object,
    *,
    precision: object = None,
    portion: object = None,
    equals: int | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    name: str | None = None,
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
        coefficients = tuple(coefficients.items())
    rest: dict[str, Any] = {"at_least": at_least, "at_most": at_most, "name": name}
    return _query("linear", coefficients=coefficients, precision=precision, portion=portion, equals=equals, **rest)


def share(where: Where, *, of: Where | None = None, equals: object = None) -> Share:
    """The proportion of `where` among `of` (all cells when not given).

    Examples
    --------
    >>> share({"sex": "female"}, of={"age": "65+"}).text
    'share(sex=female, of age=65+)'
    """
    stated = None if equals is None else exact_fraction(equals, "a share")
    if stated is not None and not 0 <= stated <= 1:
        raise ConditionError(f"a share lies between 0 and 1, not {stated}")
    return Share(frozen_where(where) or {}, frozen_where(of), stated)


def bounds(lower: int | None = 0, upper: int | None = None, *, where: Where | None = None) -> Bounds:
    """Limits of single cells; None is no limit. Cells that no `bounds` mentions are nonnegative.

    Examples
    --------
    >>> bounds(None).text
    'every cell is free, negative counts included'
    """
    low, high = _limit(lower, "lower"), _limit(upper, "upper")
    if low is not None and high is not None and low > high:
        raise ConditionError(f"bounds({low}, {high}): the lower bound is above the upper one; swap them")
    return Bounds(low, high, frozen_where(where))


def structural_zeros(where: Where) -> Bounds:
    """Cells that are 0 by logic in every table.

    Examples
    --------
    >>> structural_zeros({"age": "0-17", "status": "widowed"}).text
    'every cell with age=0-17, status=widowed is a structural zero'
    """
    return Bounds(0, 0, frozen_where(where), kind="structural_zeros")


def where_text(where: Where) -> str:
    """Return a set of cells in words, long lists shortened."""
    parts = []
    for name, wanted in where.items():
        labels = [wanted] if isinstance(wanted, str) else list(wanted)
        if len(labels) == 1:
            parts.append(f"{name}={labels[0]}")
        else:
            shown = ", ".join(labels) if len(labels) <= 4 else f"{labels[0]}, {labels[1]}, ... {labels[-1]}"
            parts.append(f"{name} in {{{shown}}}")
    return ", ".join(parts)


def _query(
    kind: str, *, precision: object, portion: object, equals: object, where: Where | None = None, **rest: Any
) -> Query:
    exact = None if precision is None else exact_fraction(precision, "precision")
    if exact is not None and exact < 0:
        raise ConditionError(f'precision must not be negative, and it is {exact}; write one such as "1/2"')
    part = None if portion is None else positive_fraction(portion, "portion")
    if exact is not None and part is not None:
        raise ConditionError(f"{kind}: give a precision, or a portion of the budget, not both")
    for limit in ("at_least", "at_most"):
        if limit in rest:
            rest[limit] = _limit(rest[limit], limit)
    low, high = rest.get("at_least"), rest.get("at_most")
    if equals is not None and (low is not None or high is not None):
        raise ConditionError(f"{kind}: give either equals or at_least/at_most, not both")
    if low is not None and high is not None and low > high:
        raise ConditionError(f"{kind}: at_least={low} is above at_most={high}; swap them")
    return Query(kind, precision=exact, portion=part, equals=equals, where=frozen_where(where), **rest)


def _limit(value: object, name: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConditionError(f"{name} must be a whole number or None, not {value!r}")
    if abs(int(value)) > LARGEST_LIMIT:
        raise ConditionError(f"{name} is beyond 2^60; write None for no limit")
    return int(value)


def _stated(equals: Any, n_rows: int, shape: tuple[int, ...], text: str) -> list[int]:
    array = np.asarray(equals, object)
    if array.size != n_rows:
        raise ConditionError(f"{text}: equals has {array.size} values, {n_rows} are needed")
    if array.ndim > 1 and array.shape != shape:
        raise ConditionError(f"{text}: equals has shape {array.shape}, {shape} is needed")
    values = [_limit(value, f"{text}: equals") for value in array.reshape(-1).tolist()]
    if None in values:
        raise ConditionError(f"{text}: equals must give every value")
    return [value for value in values if value is not None]


def _margin_rows(schema: Schema, dimensions: tuple[str, ...], where: Where | None) -> list[Row]:
    picked = schema.cells(where)
    index = np.unravel_index(picked, schema.shape)
    axes = [schema.axis(dimension) for dimension in dimensions]
    if where is not None and set(where) & set(dimensions):
        raise ConditionError(
            "a margin's where names dimensions that are summed over; leave its own dimensions out of it"
        )
    key = np.ravel_multi_index(tuple(index[axis] for axis in axes), tuple(schema.shape[axis] for axis in axes))
    suffix = "" if where is None else f" with {where_text(where)}"
    rows = []
    for combination in range(int(np.prod([schema.shape[axis] for axis in axes]))):
        at = np.unravel_index(combination, tuple(schema.shape[axis] for axis in axes))
        words = ", ".join(
            f"{schema.names[axis]}={schema.dimensions[axis].labels[i]}" for axis, i in zip(axes, at, strict=True)
        )
        rows.append(Row.of(words + suffix, picked[key == combination]))
    return rows


def _linear_row(schema: Schema, coefficients: Any, name: str | None) -> Row:
    weights: dict[int, int] = {}
    if isinstance(coefficients, tuple):
        for labels, weight in coefficients:
            cell = schema.cell(labels)
            if cell in weights:
                raise ConditionError(f"linear: cell {schema.cell_name(cell)} has two coefficients")
            weights[cell] = _weight(weight)
    else:
        array = np.asarray(coefficients, object)
        if array.shape != schema.shape:
            raise SchemaError(
                f"linear: coefficients have shape {array.shape}, the schema {schema} needs {schema.shape}"
            )
        weights = {cell: _weight(weight) for cell, weight in enumerate(array.reshape(-1).tolist())}
    kept = sorted((cell, weight) for cell, weight in weights.items() if weight)
    if not kept:
        raise ConditionError("linear: every coefficient is 0; name at least one cell")
    shown = " ".join(f"{weight:+d} x [{schema.cell_name(cell)}]" for cell, weight in kept[:3])
    more = f" and {len(kept) - 3} more cells" if len(kept) > 3 else ""
    return Row(
        name or shown.removeprefix("+") + more,
        tuple(cell for cell, _ in kept),
        tuple(weight for _, weight in kept),
    )


def _weight(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConditionError(
            f"linear: a coefficient must be a whole number, not {value!r}; multiply the row by a common denominator"
        )
    if abs(int(value)) > LARGEST_WEIGHT:
        raise ConditionError(f"linear: coefficient {value} is beyond 2^31; divide the row by a common factor")
    return int(value)
