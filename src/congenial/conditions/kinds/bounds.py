"""Limits of single cells, and cells that are 0 by logic."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from congenial.conditions.condition import Claim, Condition, Counts, arguments
from congenial.conditions.entry import LIMITS, Entry, Key, Keys, SpecList
from congenial.conditions.equalities import Equalities
from congenial.conditions.interval import FREE, POINT_ZERO, Interval
from congenial.conditions.kinds.query import whole_limit
from congenial.conditions.rows import Limited, Row
from congenial.conditions.where import cell_names, where_text
from congenial.errors import ConditionError
from congenial.schema import Schema, Where, frozen_where


@dataclass(frozen=True)
class OfCells(Condition):
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
class Bounds(OfCells):
    """Limits of single cells."""

    limits: Interval = FREE

    kind: ClassVar[str] = "bounds"
    word: ClassVar[str] = "bounds"
    keys: ClassVar[Mapping[SpecList, Keys]] = {
        "conditions": {"bounds": Key("cells", "limits of each of these cells"), **LIMITS}
    }

    @property
    def of_each(self) -> Interval:
        """The limits of each cell."""
        return self.limits

    @property
    def lower(self) -> int | None:
        """The least that a cell can be."""
        return self.limits.low

    @property
    def upper(self) -> int | None:
        """The most that a cell can be."""
        return self.limits.high

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
        if "at_least" not in entry.said and "at_most" not in entry.said:
            raise ConditionError("bounds need an `at_least`, an `at_most` or both")
        low = entry.limit("at_least") if "at_least" in entry.said else 0
        return bounds(low, entry.limit("at_most"), where=entry.where("bounds"))

    def as_json(self) -> dict[str, Any]:
        """Return plain values; an end without a limit is left out."""
        written = super().as_json()
        ends = {"lower": self.lower, "upper": self.upper}
        del written["limits"]
        return {**written, **{name: end for name, end in ends.items() if end is not None}}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Condition:
        """Return the condition that plain values determine."""
        said = arguments(given, cls.kind, ("where", "lower", "upper"))
        return bounds(said.get("lower"), said.get("upper"), where=said.get("where"))


@dataclass(frozen=True)
class StructuralZeros(OfCells):
    """Cells that are 0 by logic."""

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
    def from_json(cls, given: Mapping[str, Any]) -> Condition:
        """Return the condition that plain values determine."""
        return structural_zeros(arguments(given, cls.kind, ("where",)).get("where", {}))


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
    return Bounds(frozen_where(where), limits, name=name, mandate=mandate)


def structural_zeros(where: Where, *, name: str | None = None, mandate: str | None = None) -> StructuralZeros:
    """Cells that are 0 by logic in every table.

    Examples
    --------
    >>> structural_zeros({"age": "0-17", "status": "widowed"}).text
    'every cell with age=0-17, status=widowed is a structural zero'
    """
    return StructuralZeros(frozen_where(where) or {}, name=name, mandate=mandate)
