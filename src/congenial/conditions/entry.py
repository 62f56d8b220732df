"""One entry of a spec's lists, as a kind of condition reads it.

A kind names the keys that its entries have and turns an entry into a condition; which file the entry stands in, and how
labels and groups are written there, is the spec's business.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, Protocol

from congenial.errors import ConditionError
from congenial.fraction import exact_fraction

SpecList = Literal["measure", "invariants", "conditions"]
"""The lists of a spec whose entries state something."""
Shape = Literal["cells", "dimensions", "terms", "values", "limit", "positive", "number", "text"]


@dataclass(frozen=True)
class Key:
    """A key of an entry: what stands after it, and what it means."""

    shape: Shape
    meaning: str | None = None


Keys = Mapping[str, Key]

LIMITS: Keys = {"at_least": Key("limit"), "at_most": Key("limit")}
OF_EVERY_ENTRY: Mapping[SpecList, Keys] = {
    "measure": {
        "name": Key("text"),
        "portion": Key("positive", "of the budget, relative to the portions of the others"),
        "precision": Key("number", "fixes the noise, whatever the budget"),
    },
    "invariants": {
        "name": Key("text"),
        "equals": Key("values", "the value, when it is public already; a list for a margin"),
        "mandate": Key("text", "which law or earlier publication demands it"),
        "at": Key("text", "the level of the hierarchy whose every unit has it exactly; the top if left out"),
    },
    "conditions": {
        "name": Key("text"),
        "mandate": Key("text", "which law or earlier publication demands it"),
    },
}
"""Keys that go with every kind."""


class Picks(Protocol):
    """How a spec's words for cells and dimensions are read."""

    def where(self, said: Any) -> dict[str, tuple[str, ...]] | None:
        """Return a set of cells; None is every cell."""

    def dimensions_named(self, said: Any) -> tuple[str, ...]:
        """Return names of dimensions."""

    def coefficients(self, terms: Sequence[Any]) -> Any:
        """Return the coefficient of every cell."""

    def terms_text(self, terms: Sequence[Any]) -> str:
        """Return a combination of cells in words."""


@dataclass(frozen=True)
class Entry:
    """What one entry says.

    Attributes
    ----------
    said : mapping
        The keys that it has, with their values.
    """

    stands_in: SpecList
    said: Mapping[str, Any]
    picks: Picks

    @property
    def name(self) -> str | None:
        """What the entry calls itself."""
        return self.said.get("name")

    def where(self, key: str) -> dict[str, tuple[str, ...]] | None:
        """Return the set of cells after a key; None is every cell, also where the key is left out."""
        return self.picks.where(self.said[key]) if key in self.said else None

    def dimensions(self, key: str) -> tuple[str, ...]:
        """Return the dimensions after a key; none where it is left out."""
        return self.picks.dimensions_named(self.said[key]) if key in self.said else ()

    def limit(self, key: str) -> int | None:
        """Return a limit; None where the key is left out, or says `none`."""
        limit = self.said.get(key)
        return None if limit == "none" else limit

    def whole_numbers(self, key: str) -> Any:
        """Return stated values: one whole number, or lists of them in the order of the levels."""
        return _whole_numbers(self.said.get(key), key)

    def fraction(self, key: str) -> Fraction | None:
        """Return one stated number."""
        value = self.said.get(key)
        if value is not None and not isinstance(value, str):
            raise ConditionError(f"`{key}` is one number here, not a list")
        return None if value is None else exact_fraction(value, f"`{key}`")


def _whole_numbers(values: Any, key: str) -> Any:
    if values is None:
        return None
    if isinstance(values, list):
        return [_whole_numbers(value, key) for value in values]
    if isinstance(values, dict):
        raise ConditionError(f"`{key}` is a number, or a list of numbers in the order of the levels")
    number = exact_fraction(values, f"`{key}`")
    if number.denominator != 1:
        raise ConditionError(f"`{key}` must be a whole number, not {number}")
    return int(number)
