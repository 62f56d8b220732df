"""The sum of all cells, or of some."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from congenial.conditions.condition import arguments
from congenial.conditions.entry import LIMITS, Entry, Key, Keys, SpecList
from congenial.conditions.interval import Interval
from congenial.conditions.kinds.margin import margin
from congenial.conditions.kinds.query import Query, asked, limited, stated
from congenial.conditions.rows import Row
from congenial.conditions.where import total_text
from congenial.schema import Schema, Where

_KEYS: Keys = {
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
        "measure": _KEYS,
        "invariants": _KEYS,
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
            return margin(*by, where=where, **stated(entry, cls.kind))
        return total(where, name=entry.name, **stated(entry, cls.kind))

    @property
    def title(self) -> str:
        """The sum as readers see it."""
        return self.name or total_text(self.where)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Query:
        """Return the query that plain values determine."""
        parts = ("where", "precision", "portion", "equals", "at_least", "at_most", "name")
        return total(**arguments(given, cls.kind, parts))


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
        **asked("total", where=where, precision=precision, portion=portion, equals=equals),
        **limited("total", equals, at_least, at_most),
    )
