"""A condition whose stated value or limits differ by area."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from congenial.conditions.condition import Claim, Condition, Counts, arguments
from congenial.conditions.entry import Entry
from congenial.conditions.equalities import Equalities
from congenial.errors import BrokenError, ConditionError
from congenial.schema import Schema


@dataclass(frozen=True)
class ByArea(Condition):
    """One condition in every area, with values of its own. Made by `by_area`.

    Attributes
    ----------
    areas : tuple of (label, Condition)
        Alike but for the values that they state.
    """

    areas: tuple[tuple[str, Condition], ...]

    kind: ClassVar[str] = "by_area"
    word: ClassVar[str] = "by_area"

    @cached_property
    def _by_label(self) -> dict[str, Condition]:
        return dict(self.areas)

    @property
    def _first(self) -> Condition:
        return self.areas[0][1]

    @property
    def text(self) -> str:
        """The condition in words, without its values."""
        return self.name or f"{self._first.title}, by area"

    @property
    def is_stated(self) -> bool:
        """Never of all areas together: what it states depends on the area."""
        return False

    def check(self, schema: Schema) -> None:
        """Refuse labels, shapes and values that do not fit in some area."""
        for _, own in self.areas:
            own.check(schema)

    def of_area(self, area: str | None) -> Condition:
        """Return the condition of one area."""
        found = None if area is None else self._by_label.get(area)
        if found is None:
            where = "one table has no area" if area is None else f"area {area!r} has none"
            raise ConditionError(f"{self.text} states values by area, and {where}")
        return found

    def check_table(self, schema: Schema, area: str, counts: Counts) -> None:
        """Refuse a table that does not have what its area states; the message is the same for every area."""
        limits = [one for claim in self.of_area(area).claims(schema, counts, Equalities()) for one in claim.limits]
        if not all(one.allows(one.row.value(counts)) for one in limits):
            raise BrokenError(self.title)

    def claims(self, schema: Schema, counts: Counts | None, known: Equalities) -> list[Claim]:
        """Refuse to speak of one table, for nobody says which area it is of."""
        del schema, counts, known
        self.of_area(None)
        return []

    def exact_values(self, schema: Schema, counts: Counts) -> list[tuple[str, str]]:
        """Return what it states exactly of a table that obeys it in its area."""
        return replace(self._first, name=self.name or self._first.name).exact_values(schema, counts)

    @classmethod
    def from_entry(cls, entry: Entry) -> Condition:
        """Refuse: entries of a spec state values of one area at a time."""
        del entry
        raise ConditionError("values by area stand in a file: `equals: {file: ..., code: ..., value: ...}`")

    def as_json(self) -> dict[str, Any]:
        """Return plain values: what all areas have in common, and by area what differs."""
        written = {label: own.as_json() for label, own in self.areas}
        first = next(iter(written.values()))
        keys = {key for own in written.values() for key in own}
        varying = sorted(key for key in keys if any(own.get(key) != first.get(key) for own in written.values()))
        called = {part: text for part in ("name", "mandate") if (text := getattr(self, part)) is not None}
        return {
            "kind": self.kind,
            **called,
            "each": {key: value for key, value in first.items() if key not in varying},
            "areas": {label: {key: own[key] for key in varying if key in own} for label, own in written.items()},
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Condition:
        """Return the condition that plain values determine."""
        from congenial.conditions.kinds import from_json

        said = arguments(given, cls.kind, ("each", "areas"))
        each, areas = said.get("each"), said.get("areas")
        if not isinstance(each, Mapping) or not isinstance(areas, Mapping):
            raise ConditionError("values by area have an `each`, which all areas share, and `areas`")
        if not all(isinstance(label, str) and isinstance(own, Mapping) for label, own in areas.items()):
            raise ConditionError("values by area are a mapping from labels to values")
        return by_area({label: from_json({**each, **own}) for label, own in areas.items()})


def by_area(conditions: Mapping[str, Condition], *, name: str | None = None, mandate: str | None = None) -> ByArea:
    """State one condition with values of its own in every area.

    Parameters
    ----------
    conditions : mapping from an area's label to its condition
        All of one kind and of the same cells.

    Examples
    --------
    >>> from congenial.conditions.queries import bounds
    >>> caps = by_area({"north": bounds(0, 10), "south": bounds(0, 99)}, name="at most the beds")
    >>> caps.of_area("south").upper
    99
    """
    found = tuple(conditions.items())
    if not found:
        raise ConditionError("values by area need at least one area")
    if len({(own.kind, str(own.as_json().get("where"))) for _, own in found}) > 1:
        raise ConditionError("values by area are of one kind of condition, and of the same cells in every area")
    return ByArea(found, name=name, mandate=mandate)
