"""A proportion that must come out exactly."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from congenial.conditions.condition import Claim, Condition, Counts, arguments
from congenial.conditions.entry import Entry, Key, Keys, SpecList
from congenial.conditions.equalities import Equalities
from congenial.conditions.rows import Limited, Row
from congenial.conditions.where import total_text, where_text
from congenial.errors import ConditionError
from congenial.fraction import exact_fraction
from congenial.schema import Schema, Where, frozen_where


@dataclass(frozen=True)
class Share(Condition):
    """A part of the cells in proportion to their whole."""

    where: Where
    of: Where | None = None
    equals: Fraction | None = None

    kind: ClassVar[str] = "share"
    needs_others: ClassVar[bool] = True
    word: ClassVar[str] = "share"
    keys: ClassVar[Mapping[SpecList, Keys]] = {
        "invariants": {
            "share": Key("cells", "the proportion of these cells ..."),
            "of": Key("cells", "... among these; among all if not said"),
        }
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
        return self.name or f"share of {where_text(self.where)}{among}"

    @property
    def is_stated(self) -> bool:
        """Whether the proportion is given."""
        return self.equals is not None

    def check(self, schema: Schema) -> None:
        """Refuse unknown labels, and a part outside its whole."""
        self.part(schema)

    def part(self, schema: Schema) -> Row:
        """The count above the line: cells of the whole that `where` picks."""
        return self._both(schema)[0]

    def whole(self, schema: Schema) -> Row:
        """The count below the line."""
        return Row.of(total_text(self.of), schema.cells(self.of))

    def _both(self, schema: Schema) -> tuple[Row, Row]:
        whole = self.whole(schema)
        inside = set(whole.cells)
        cells = [cell for cell in schema.cells(self.where).tolist() if cell in inside]
        if not cells:
            raise ConditionError(f"{self.text} picks no cell of its whole; a share is where's part of the cells in of")
        both = where_text(self.where) if self.of is None else f"{where_text(self.where)}, {where_text(self.of)}"
        return Row.of(f"total of {both}", cells), whole

    def mentioned(self, schema: Schema) -> list[Row]:
        """Return the counts above and below the line: where one of them is exact, the other is too."""
        return list(self._both(schema))

    def value(self, schema: Schema, counts: Counts | None) -> Fraction | None:
        """Return the share as stated or as the confidential counts have it; None for 0/0."""
        return self._value(*self._both(schema), counts)

    def _value(self, part: Row, whole: Row, counts: Counts | None) -> Fraction | None:
        if self.equals is not None:
            return self.equals
        if counts is None:
            raise ConditionError(f"{self.text} needs its value here: write equals=..., or disclose it from a table")
        return _proportion(part, whole, counts)

    def claims(self, schema: Schema, counts: Counts | None, known: Equalities) -> list[Claim]:
        """Say the share as a plain count if the other equalities fix its whole, else as a balance of two counts."""
        part, whole = self._both(schema)
        value = self._value(part, whole, counts)
        size = known.implied(whole)
        count = None if value is None or size is None else value * size
        if count is not None and count.denominator == 1 and count > 0:
            limits = [Limited.equal(part, int(count))]
        else:
            limits = _balance(part, whole, value)
        return [Claim(limited.text, (limited,)) for limited in limits]

    def exact_values(self, schema: Schema, counts: Counts) -> list[tuple[str, str]]:
        """Return the proportion; the counts above and below the line may carry noise."""
        value = _proportion(*self._both(schema), counts)
        shown = "no one to take a share of" if value is None else f"{value} ({float(value):.4%})"
        return [(self.title, shown)]

    @classmethod
    def from_entry(cls, entry: Entry) -> Condition:
        """Read ``share: female`` with ``of: voting``."""
        where = entry.where("share")
        if where is None:
            raise ConditionError("the share of all cells is 1; name the cells of the part")
        return share(where, of=entry.where("of"), equals=entry.fraction("equals"))

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Condition:
        """Return the condition that plain values determine."""
        said = arguments(given, cls.kind, ("where", "of", "equals"))
        return share(said.pop("where", {}), **said)


def share(
    where: Where,
    *,
    of: Where | None = None,
    equals: object = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Share:
    """The proportion of `where` among `of` (all cells when not given).

    Examples
    --------
    >>> share({"sex": "female"}, of={"age": "65+"}).text
    'share(sex=female, of age=65+)'
    """
    stated = None if equals is None else exact_fraction(equals, "a share")
    if stated is not None and not 0 <= stated <= 1:
        raise ConditionError(f"a share lies between 0 and 1, not {stated}")
    return Share(frozen_where(where) or {}, frozen_where(of), stated, name=name, mandate=mandate)


def _proportion(part: Row, whole: Row, counts: Counts) -> Fraction | None:
    size = whole.value(counts)
    return Fraction(part.value(counts), size) if size else None


def _balance(part: Row, whole: Row, value: Fraction | None) -> list[Limited]:
    """Return ``q * part - p * whole = 0`` for the share p/q, and that the whole is not empty: 0/0 is no share."""
    if value is None:
        return [Limited.equal(whole, 0)]
    above = set(part.cells)
    of_cell = {cell: value.denominator * (cell in above) - value.numerator for cell in whole.cells}
    kept = {cell: times for cell, times in of_cell.items() if times}
    name = f"{value.denominator:,} x [{part.name}] - {value.numerator:,} x [{whole.name}]"
    balance = [Limited.equal(Row(name, tuple(kept), tuple(kept.values())), 0)] if kept else []
    return [*balance, Limited.of(whole, 1, None)]
