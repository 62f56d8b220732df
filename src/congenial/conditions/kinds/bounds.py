"""Limits of single cells, and cells that are 0 by logic."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from congenial.conditions.condition import Claim, Condition, Counts, arguments
from congenial.conditions.entry import LIMITS, Entry, Key, Keys, SpecList
from congenial.conditions.equalities import Equalities
from congenial.conditions.kinds.query import whole_limit
from congenial.conditions.rows import Limited, Row
from congenial.conditions.where import where_text
from congenial.errors import ConditionError
from congenial.schema import Schema, Where, frozen_where


@dataclass(frozen=True)
class OfCells(Condition):
    """What is known of each of some cells. It states nothing exactly that is not public by itself."""

    where: Where | None

    @property
    @abstractmethod
    def ends(self) -> tuple[int | None, int | None]:
        """The limits of each cell."""

    @property
    def is_stated(self) -> bool:
        """Always: the limits are its own."""
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
        return [cells_claim(schema, self.bounded_cells(schema), self.text, *self.ends)]


def cells_claim(schema: Schema, cells: Sequence[int], text: str, lower: int | None, upper: int | None) -> Claim:
    """Return one statement about each of some cells."""
    return Claim(text, tuple(Limited.of(Row.of(schema.cell_name(cell), [cell]), lower, upper) for cell in cells))


@dataclass(frozen=True)
class Bounds(OfCells):
    """Limits of single cells."""

    lower: int | None = None
    upper: int | None = None

    kind: ClassVar[str] = "bounds"
    word: ClassVar[str] = "bounds"
    keys: ClassVar[Mapping[SpecList, Keys]] = {
        "conditions": {"bounds": Key("cells", "limits of each of these cells"), **LIMITS}
    }

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """The limits of each cell."""
        return self.lower, self.upper

    @property
    def text(self) -> str:
        """The condition in words."""
        low = None if self.lower is None else f"at least {self.lower:,}"
        high = None if self.upper is None else f"at most {self.upper:,}"
        limits = " and ".join(part for part in (low, high) if part) or "free, negative counts included"
        return f"{self.scope} is {limits}"

    @classmethod
    def from_entry(cls, entry: Entry) -> Condition:
        """Read ``bounds: all`` with ``at_most: 100``."""
        if "at_least" not in entry.said and "at_most" not in entry.said:
            raise ConditionError("bounds need an `at_least`, an `at_most` or both")
        low = entry.limit("at_least") if "at_least" in entry.said else 0
        return bounds(low, entry.limit("at_most"), where=entry.where("bounds"))

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Condition:
        """Return the condition that plain values determine; an end that is left out is no limit."""
        said = arguments(given, cls.kind, ("where", "lower", "upper"))
        return bounds(said.get("lower"), said.get("upper"), where=said.get("where"))


@dataclass(frozen=True)
class StructuralZeros(OfCells):
    """Cells that are 0 by logic."""

    kind: ClassVar[str] = "structural_zeros"
    word: ClassVar[str] = "zeros"
    keys: ClassVar[Mapping[SpecList, Keys]] = {"conditions": {"zeros": Key("cells", "cells that are 0 by logic")}}

    @property
    def ends(self) -> tuple[int | None, int | None]:
        """The limits of each cell."""
        return 0, 0

    @property
    def text(self) -> str:
        """The condition in words."""
        return f"{self.scope} is a structural zero"

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


def bounds(lower: int | None = 0, upper: int | None = None, *, where: Where | None = None) -> Bounds:
    """Limits of single cells; None is no limit. Cells that no `bounds` mentions are nonnegative.

    Examples
    --------
    >>> bounds(None).text
    'every cell is free, negative counts included'
    """
    low, high = whole_limit(lower, "lower"), whole_limit(upper, "upper")
    if low is not None and high is not None and low > high:
        raise ConditionError(f"bounds({low}, {high}): the lower bound is above the upper one; swap them")
    return Bounds(frozen_where(where), low, high)


def structural_zeros(where: Where) -> StructuralZeros:
    """Cells that are 0 by logic in every table.

    Examples
    --------
    >>> structural_zeros({"age": "0-17", "status": "widowed"}).text
    'every cell with age=0-17, status=widowed is a structural zero'
    """
    return StructuralZeros(frozen_where(where))
