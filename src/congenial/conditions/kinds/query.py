"""Queries: families of linear statistics, which can be measured with noise or held exactly."""

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from congenial.conditions.condition import Claim, Condition, Counts
from congenial.conditions.entry import Entry
from congenial.conditions.equalities import Equalities
from congenial.conditions.interval import FREE, Interval
from congenial.conditions.rows import Limited, Row
from congenial.conditions.where import where_text
from congenial.errors import ConditionError
from congenial.fraction import exact_fraction, positive_fraction
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
        """Return the value of each row; a range that is stated says none."""
        if not self.stated_range.is_free and not self.stated_range.is_point:
            return []
        rows = self.rows(schema)
        if len(rows) == 1:
            return [(self.name or rows[0].name, str(rows[0].value(counts)))]
        head = f"{self.name}: " if self.name else ""
        return [(f"{head}{row.name}", str(row.value(counts))) for row in rows]


def asked(
    kind: str, *, where: Where | None = None, precision: object, portion: object, equals: object = None
) -> dict[str, Any]:
    """Return the fields that every query has, checked; a precision is exact, and a portion above 0."""
    exact = None if precision is None else exact_fraction(precision, "precision")
    if exact is not None and exact < 0:
        raise ConditionError(f'precision must not be negative, and it is {exact}; write one such as "1/2"')
    part = None if portion is None else positive_fraction(portion, "portion")
    if exact is not None and part is not None:
        raise ConditionError(f"{kind}: give a precision, or a portion of the budget, not both")
    return {"where": frozen_where(where), "precision": exact, "portion": part, "equals": nested(equals)}


def limited(kind: str, equals: object, at_least: object, at_most: object) -> dict[str, Any]:
    """Return the limits of a query that can have such, checked."""
    low, high = whole_limit(at_least, "at_least"), whole_limit(at_most, "at_most")
    if equals is not None and (low is not None or high is not None):
        raise ConditionError(f"{kind}: give either equals or at_least/at_most, not both")
    if low is not None and high is not None and low > high:
        raise ConditionError(f"{kind}: at_least={low} is above at_most={high}; swap them")
    return {"at_least": low, "at_most": high}


def stated(entry: Entry, kind: str) -> dict[str, Any]:
    """Return what an entry of a spec says of a query besides its cells: its noise, its value or its limits."""
    if entry.stands_in == "measure":
        if "portion" in entry.said and "precision" in entry.said:
            raise ConditionError("give a `portion` of the budget or a `precision`, not both")
        return {"precision": entry.said.get("precision"), "portion": entry.said.get("portion")}
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
