"""Limits of single cells, structural zeros, and shares."""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Any, ClassVar

from congenial.conditions.base import LIMITS, Claim, Condition, Counts, Entry, Key, Keys, SpecList, arguments
from congenial.conditions.grouped_cells_and_lattice import Equalities
from congenial.conditions.queries import whole_limit
from congenial.conditions.rows_and_intervals import (
    POINT_ZERO,
    Interval,
    Limited,
    Row,
    cell_names,
    total_text,
    where_text,
)
from congenial.errors import ConditionError
from congenial.exact import exact_fraction
from congenial.schema import Schema, Where, frozen_where


@dataclass(frozen=True)
class CellCondition(Condition):
    """What is known of each of some cells. It states nothing exactly that is not public by itself."""

    where: Where | None

    @property
    @abstractmethod
    def of_each(self) -> Interval:
        """The limits of each cell."""

    @property
    def is_stated(self) -> bool:
        """Always: the limits are its own."""
        return True

    def is_same_for_all(self, schema: Schema) -> bool:
        """Always: the limits are its own."""
        del schema
        return True

    @property
    def scope(self) -> str:
        """The cells in words."""
        return "every cell" if self.where is None else f"every cell with {where_text(self.where)}"

    def check(self, schema: Schema) -> None:
        """Refuse unknown labels."""
        schema.cells(self.where)

    def bounded_cells(self, schema: Schema) -> list[int]:
        """Return the cells."""
        return [int(cell) for cell in schema.cells(self.where)]

    def claims(self, schema: Schema, counts: Counts | None, known: Equalities) -> list[Claim]:
        """Return one statement about all the cells."""
        del counts, known
        return [cells_claim(schema, self.bounded_cells(schema), self.text, self.of_each)]


def cells_claim(schema: Schema, cells: Sequence[int], text: str, limits: Interval) -> Claim:
    """Return one statement about each of some cells."""
    named = zip(cell_names(schema, cells), cells, strict=True)
    return Claim(text, tuple(Limited(Row.of(name, [cell]), limits) for name, cell in named))


@dataclass(frozen=True)
class Bounds(CellCondition):
    """Limits of single cells."""

    lower: int | None = None
    upper: int | None = None

    kind: ClassVar[str] = "bounds"
    word: ClassVar[str] = "bounds"
    keys: ClassVar[Mapping[SpecList, Keys]] = {
        "conditions": {"bounds": Key("cells", "limits of each of these cells"), **LIMITS}
    }

    @property
    def of_each(self) -> Interval:
        """The limits of each cell."""
        return Interval(self.lower, self.upper)

    @property
    def text(self) -> str:
        """The condition in words."""
        low = None if self.lower is None else f"at least {self.lower:,}"
        high = None if self.upper is None else f"at most {self.upper:,}"
        limits = " and ".join(part for part in (low, high) if part) or "free, negative counts included"
        return self.name or f"{self.scope} is {limits}"

    @classmethod
    def from_entry(cls, entry: Entry) -> Condition:
        """Read ``bounds: all`` with ``at_most: 100``."""
        if "at_least" not in entry.values and "at_most" not in entry.values:
            raise ConditionError("bounds need an `at_least`, an `at_most` or both")
        low = entry.limit("at_least") if "at_least" in entry.values else 0
        return bounds(low, entry.limit("at_most"), where=entry.where("bounds"))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Condition:
        """Return the condition that plain values determine."""
        fields = arguments(values, cls.kind, ("where", "lower", "upper"))
        return bounds(fields.get("lower"), fields.get("upper"), where=fields.get("where"))


@dataclass(frozen=True)
class StructuralZeros(CellCondition):
    """Structural zeros: cells that are 0 by logic."""

    kind: ClassVar[str] = "structural_zeros"
    word: ClassVar[str] = "zeros"
    keys: ClassVar[Mapping[SpecList, Keys]] = {"conditions": {"zeros": Key("cells", "cells that are 0 by logic")}}

    @property
    def of_each(self) -> Interval:
        """The limits of each cell."""
        return POINT_ZERO

    @property
    def text(self) -> str:
        """The condition in words."""
        return self.name or f"{self.scope} is a structural zero"

    @classmethod
    def from_entry(cls, entry: Entry) -> Condition:
        """Read ``zeros: {age: 0-17, status: widowed}``."""
        where = entry.where("zeros")
        if where is None:
            raise ConditionError("all cells cannot be 0 by logic; name the cells")
        return structural_zeros(where)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Condition:
        """Return the condition that plain values determine."""
        return structural_zeros(arguments(values, cls.kind, ("where",)).get("where", {}))


def bounds(
    lower: int | None = 0,
    upper: int | None = None,
    *,
    where: Where | None = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Bounds:
    """Limits of single cells; None is no limit. Cells that no `bounds` mentions are nonnegative.

    Examples
    --------
    >>> bounds(None).text
    'every cell is free, negative counts included'
    """
    limits = Interval(whole_limit(lower, "lower"), whole_limit(upper, "upper"))
    if limits.is_empty:
        raise ConditionError(f"bounds({limits.low}, {limits.high}): the lower bound is above the upper one; swap them")
    return Bounds(frozen_where(where), limits.low, limits.high, name=name, mandate=mandate)


def structural_zeros(where: Where, *, name: str | None = None, mandate: str | None = None) -> StructuralZeros:
    """Cells that are 0 by logic in every table.

    Examples
    --------
    >>> structural_zeros({"age": "0-17", "status": "widowed"}).text
    'every cell with age=0-17, status=widowed is a structural zero'
    """
    return StructuralZeros(frozen_where(where) or {}, name=name, mandate=mandate)


# A proportion that must come out exactly, or as it was published: rounded.

_PUBLISHED = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s?(%?)", re.ASCII)


@dataclass(frozen=True)
class Share(Condition):
    """A part of the cells in proportion to their whole.

    Attributes
    ----------
    rounded : str or None
        The proportion as it was published, such as ``"83.3 %"``: whatever rounds to it is allowed, ends included.
    """

    where: Where
    of: Where | None = None
    equals: Fraction | None = None
    rounded: str | None = None

    kind: ClassVar[str] = "share"
    needs_others: ClassVar[bool] = True
    word: ClassVar[str] = "share"
    keys: ClassVar[Mapping[SpecList, Keys]] = {
        "invariants": {
            "share": Key("cells", "the proportion of these cells ..."),
            "of": Key("cells", "... among these; among all if not said"),
        },
        "conditions": {
            "share": Key("cells", "a published proportion of these cells ..."),
            "of": Key("cells", "... among these; among all if not said"),
            "rounded": Key("text", "the proportion as it was published, such as 83.3 %"),
        },
    }

    @property
    def text(self) -> str:
        """The condition as the user wrote it."""
        of = "" if self.of is None else f", of {where_text(self.of)}"
        return self.name or f"share({where_text(self.where)}{of})"

    @property
    def title(self) -> str:
        """The proportion as readers see it."""
        among = "" if self.of is None else f" among {where_text(self.of)}"
        title = self.name or f"share of {where_text(self.where)}{among}"
        return title if self.rounded is None else f"{title} rounds to {self.rounded}"

    @property
    def is_stated(self) -> bool:
        """Whether the proportion is given."""
        return self.equals is not None or self.rounded is not None

    def check(self, schema: Schema) -> None:
        """Refuse unknown labels, and a part outside its whole."""
        self._both(schema)

    def _both(self, schema: Schema) -> tuple[Row, Row]:
        """Return the count above the line, cells of the whole that `where` picks, and the count below it."""
        whole = Row.of(total_text(self.of), schema.cells(self.of))
        inside = set(whole.cells)
        cells = [cell for cell in schema.cells(self.where).tolist() if cell in inside]
        if not cells:
            raise ConditionError(f"{self.text} picks no cell of its whole; a share is where's part of the cells in of")
        both = where_text(self.where) if self.of is None else f"{where_text(self.where)}, {where_text(self.of)}"
        return Row.of(f"total of {both}", cells), whole

    def mentioned(self, schema: Schema) -> list[Row]:
        """Return the counts above and below the line: where one of them is exact, the other is too."""
        return list(self._both(schema)) if self.rounded is None else []

    def _value(self, part: Row, whole: Row, counts: Counts | None) -> Fraction | None:
        """Return the share as stated or as the confidential counts have it; None for 0/0."""
        if self.equals is not None:
            return self.equals
        if counts is None:
            raise ConditionError(f"{self.text} needs its value here: write equals=..., or disclose it from a table")
        return _proportion(part, whole, counts)

    def claims(self, schema: Schema, counts: Counts | None, known: Equalities) -> list[Claim]:
        """Say the share as a plain count if the other equalities fix its whole, else as a balance of two counts."""
        part, whole = self._both(schema)
        if self.rounded is not None:
            limits = _within(part, whole, rounded_range(self.rounded), known.implied(whole))
            return [Claim(f"{self.text} is {self.rounded}, rounded", tuple(limits))]
        value = self._value(part, whole, counts)
        size = known.implied(whole)
        count = None if value is None or size is None else value * size
        if count is not None and count.denominator == 1 and count > 0:
            limits = [Limited.equal(part, int(count))]
        else:
            limits = _balance(part, whole, value)
        return [Claim(limited.text, (limited,)) for limited in limits]

    def exact_values(self, schema: Schema, counts: Counts) -> list[tuple[str, str]]:
        """Return the proportion; the counts above and below the line may carry noise, and a rounded one does too."""
        if self.rounded is not None:
            return []
        value = _proportion(*self._both(schema), counts)
        shown = "no one to take a share of" if value is None else f"{value} ({float(value):.4%})"
        return [(self.title, shown)]

    @classmethod
    def from_entry(cls, entry: Entry) -> Condition:
        """Read ``share: female`` with ``of: voting``."""
        where = entry.where("share")
        if where is None:
            raise ConditionError("the share of all cells is 1; name the cells of the part")
        if entry.stands_in == "conditions":
            if "rounded" not in entry.values:
                raise ConditionError(
                    "a share here needs its published value, `rounded: 83.3 %`; an exact one is invariant"
                )
            return share(where, of=entry.where("of"), rounded=entry.values["rounded"])
        return share(where, of=entry.where("of"), equals=entry.fraction("equals"))

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Condition:
        """Return the condition that plain values determine."""
        fields = arguments(values, cls.kind, ("where", "of", "equals", "rounded"))
        return share(fields.pop("where", {}), **fields)


def share(
    where: Where,
    *,
    of: Where | None = None,
    equals: object = None,
    rounded: str | None = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Share:
    """The proportion of `where` among `of` (all cells when not given).

    Parameters
    ----------
    rounded : str, optional
        The proportion as it was published, ``"83.3 %"`` or ``"0.833"``: a range, from which it may be drawn.

    Examples
    --------
    >>> share({"sex": "female"}, of={"age": "65+"}).text
    'share(sex=female, of age=65+)'
    """
    if rounded is not None:
        if equals is not None:
            raise ConditionError(f"a share is exact, equals {equals}, or rounded, {rounded!r}, and not both")
        rounded_range(rounded)
    stated = None if equals is None else exact_fraction(equals, "a share")
    if stated is not None and not 0 <= stated <= 1:
        raise ConditionError(f"a share lies between 0 and 1, not {stated}")
    return Share(frozen_where(where) or {}, frozen_where(of), stated, rounded, name=name, mandate=mandate)


def rounded_range(published: object) -> tuple[Fraction, Fraction]:
    """Return the least and the largest proportion that round to a published one, whichever way halves are rounded.

    Examples
    --------
    >>> [str(end) for end in rounded_range("83.3 %")], [str(end) for end in rounded_range("0.0")]
    (['333/400', '1667/2000'], ['0', '1/20'])
    """
    match = _PUBLISHED.fullmatch(published) if isinstance(published, str) else None
    if match is None:
        raise ConditionError(f'a rounded share is written as it was published, "83.3 %" or "0.833", not {published!r}')
    number, sign = match.groups()
    unit = Fraction(1, 10 ** len(number.partition(".")[2])) / (100 if sign else 1)
    value = Fraction(number) / (100 if sign else 1)
    if value > 1:
        raise ConditionError(f"a share lies between 0 and 1, or 0 % and 100 %, not at {published!r}")
    return max(Fraction(0), value - unit / 2), min(Fraction(1), value + unit / 2)


def _proportion(part: Row, whole: Row, counts: Counts) -> Fraction | None:
    size = whole.value(counts)
    return Fraction(part.value(counts), size) if size else None


def _balance(part: Row, whole: Row, value: Fraction | None) -> list[Limited]:
    """Return ``q * part - p * whole = 0`` for the share p/q, and that the whole is not empty: 0/0 is no share."""
    if value is None:
        return [Limited.equal(whole, 0)]
    return [*_held(part, whole, value, (0, 0)), Limited.of(whole, 1, None)]


def _within(part: Row, whole: Row, ends: tuple[Fraction, Fraction], size: Fraction | None) -> list[Limited]:
    """Return ``low <= part / whole <= high``: a range of the count above the line where the whole is known.

    Else, for the ends p/d and q/d, ``d * part - p * whole >= 0`` and ``d * part - q * whole <= 0``, and a whole that is
    not empty: 0/0 is no share.
    """
    low, high = ends
    if size and ceil(low * size) <= floor(high * size):
        return [Limited.of(part, ceil(low * size), floor(high * size))]
    above, below = _held(part, whole, low, (0, None)), _held(part, whole, high, (None, 0))
    return [*above, *below, Limited.of(whole, 1, None)]


def _held(part: Row, whole: Row, value: Fraction, limits: tuple[int | None, int | None]) -> list[Limited]:
    """Return limits of ``q * part - p * whole`` for the share p/q; none where it is 0 whatever the counts."""
    above = set(part.cells)
    terms = {cell: value.denominator * (cell in above) - value.numerator for cell in whole.cells}
    name = f"{value.denominator:,} x [{part.name}] - {value.numerator:,} x [{whole.name}]"
    return [Limited.of(Row.weighted(terms, name), *limits)] if any(terms.values()) else []
