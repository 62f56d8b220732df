"""The interface of conditions, so that nothing else has to tell their kinds apart.

A kind is one class in `queries` or `limits`, listed in `registry`. The compiler, the spec, the ledger and the manifest
use this interface alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol

from congenial.conditions.grouped_cells_and_lattice import Equalities
from congenial.conditions.rows_and_intervals import Limited, Row
from congenial.errors import BrokenError, ConditionError, did_you_mean
from congenial.exact import exact_fraction
from congenial.safe_text import explain_hidden
from congenial.schema import Schema

# One entry of a spec's lists, as a kind of condition reads it.
#
# A kind names the keys that its entries have and turns an entry into a condition; which file the entry stands in, and
# how labels and groups are written there, is the spec's business.

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


class LabelReader(Protocol):
    """How a spec's words for cells and dimensions are read."""

    def where(self, values: Any) -> dict[str, tuple[str, ...]] | None:
        """Return a set of cells; None is every cell."""

    def dimensions_named(self, values: Any) -> tuple[str, ...]:
        """Return names of dimensions."""

    def coefficients(self, terms: Sequence[Any]) -> Any:
        """Return the coefficient of every cell."""

    def terms_text(self, terms: Sequence[Any]) -> str:
        """Return a combination of cells in words."""


@dataclass(frozen=True)
class Entry:
    """One entry of a list.

    Attributes
    ----------
    values : mapping
        The keys that it has, with their values.
    """

    stands_in: SpecList
    values: Mapping[str, Any]
    reader: LabelReader

    @property
    def name(self) -> str | None:
        """What the entry calls itself."""
        return self.values.get("name")

    def where(self, key: str) -> dict[str, tuple[str, ...]] | None:
        """Return the set of cells after a key; None is every cell, also where the key is left out."""
        return self.reader.where(self.values[key]) if key in self.values else None

    def dimensions(self, key: str) -> tuple[str, ...]:
        """Return the dimensions after a key; none where it is left out."""
        return self.reader.dimensions_named(self.values[key]) if key in self.values else ()

    def limit(self, key: str) -> int | None:
        """Return a limit; None where the key is left out, or is `none`."""
        limit = self.values.get(key)
        return None if limit == "none" else limit

    def whole_numbers(self, key: str) -> Any:
        """Return stated values: one whole number, or lists of them in the order of the levels."""
        return _whole_numbers(self.values.get(key), key)

    def fraction(self, key: str) -> Fraction | None:
        """Return one stated number."""
        value = self.values.get(key)
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


Counts = Sequence[int]


@dataclass(frozen=True)
class Claim:
    """The smallest statement that makes sense alone: one invariant value, or one set of cell bounds.

    Attributes
    ----------
    of : str
        The condition that it is a part of, in words that do not say which part.
    """

    text: str
    limits: tuple[Limited, ...]
    of: str = ""


@dataclass(frozen=True)
class Condition(ABC):
    """What a user states must hold.

    Attributes
    ----------
    name : str or None
        What it is called in a release; its own words if not given.
    mandate : str or None
        Which law or earlier publication demands it.
    kind : str
        Its name: that of the function that makes it.
    needs_others : bool
        Whether what it claims depends on the equalities that the other conditions state. It is compiled after them.
    word : str
        The key that makes an entry of a spec one of this kind.
    keys : mapping
        The lists of a spec that may state it, and with which keys.
    """

    kind: ClassVar[str]
    needs_others: ClassVar[bool] = False
    word: ClassVar[str]
    keys: ClassVar[Mapping[SpecList, Keys]] = {}

    name: str | None = field(default=None, kw_only=True)
    mandate: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        for part, text in (("name", self.name), ("mandate", self.mandate)):
            if text is not None and not isinstance(text, str):
                raise ConditionError(f"the {part} of a condition is text, not {text!r}")
            if wrong := explain_hidden(text or "", f"the {part} {text!r} of a condition"):
                raise ConditionError(wrong)

    @property
    @abstractmethod
    def text(self) -> str:
        """The condition in words."""

    @property
    def title(self) -> str:
        """The condition as readers of a release see it."""
        return self.text

    @property
    @abstractmethod
    def is_stated(self) -> bool:
        """Whether it comes with its own value or limits, so that no table is needed to know them."""

    @abstractmethod
    def check(self, schema: Schema) -> None:
        """Refuse labels, shapes and values that do not fit, before any table is seen."""

    @abstractmethod
    def claims(self, schema: Schema, counts: Counts | None, known: Equalities) -> list[Claim]:
        """Return the smallest statements it makes, with their rows and limits.

        Parameters
        ----------
        counts : sequence of int, optional
            The confidential cells, from which a condition without a stated value takes its own.
        known : Equalities
            What the other conditions fix; filled for those that need others only.
        """

    def of_area(self, area: str | None) -> "Condition":
        """Return the condition of an area; None where there is one table."""
        del area
        return self

    def is_same_for_all(self, schema: Schema) -> bool:
        """Whether its rows and limits are the same whatever the counts: then one compilation serves many areas."""
        del schema
        return False

    def bounded_cells(self, schema: Schema) -> list[int]:
        """Return the cells whose limits it sets; a cell that nothing bounds is not negative."""
        del schema
        return []

    def mentioned(self, schema: Schema) -> list[Row]:
        """Return statistics that it mentions without stating them: they may become exact along with it."""
        del schema
        return []

    def exact_values(self, schema: Schema, counts: Counts) -> list[tuple[str, str]]:
        """Return what it states exactly of a table that obeys it, each as text and value."""
        del schema, counts
        return []

    @classmethod
    @abstractmethod
    def from_entry(cls, entry: Entry) -> "Condition":
        """Return the condition that an entry of a spec states."""

    def as_json(self) -> dict[str, Any]:
        """Return plain values that determine the condition again."""
        values = {part.name: plain(getattr(self, part.name)) for part in fields(self)}
        return {"kind": self.kind, **{name: value for name, value in values.items() if value is not None}}

    @classmethod
    @abstractmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Condition":
        """Return the condition that plain values determine; refuses what it does not know."""


def plain(value: Any) -> Any:
    """Return a value of a condition as JSON has it: fractions as text, tuples as lists."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return [plain(part) for part in value]
    if isinstance(value, Mapping):
        return {name: plain(part) for name, part in value.items()}
    return value


def arguments(values: Mapping[str, Any], kind: str, known: Iterable[str]) -> dict[str, Any]:
    """Return what plain values say besides their kind, or refuse what the kind does not know."""
    if values.get("kind") != kind:
        raise ConditionError(f"this is not a {kind}, but of kind {str(values.get('kind'))[:40]!r}")
    known = list(known)
    for name in values:
        if name != "kind" and name not in known:
            raise ConditionError(f"{str(name)[:40]!r} is not a part of a {kind}; {did_you_mean(str(name), known)}")
    if not isinstance(values.get("name", ""), str):
        raise ConditionError(f"the name of a {kind} is text")
    return {name: value for name, value in values.items() if name != "kind"}


def as_list(conditions: object, name: str) -> tuple[Any, ...]:
    """Check that conditions come as a list, and say so when a single one was given."""
    if isinstance(conditions, Condition):
        raise ConditionError(f"{name} takes a list: write [{conditions.text}]")
    if isinstance(conditions, str) or not isinstance(conditions, Iterable):
        raise ConditionError(f"{name} takes a list of conditions, not a {type(conditions).__name__}")
    return tuple(conditions)


# A condition whose stated value or limits differ by area.


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
        for _, condition in self.areas:
            condition.check(schema)

    def of_area(self, area: str | None) -> Condition:
        """Return the condition of one area."""
        condition = None if area is None else self._by_label.get(area)
        if condition is None:
            where = "one table has no area" if area is None else f"area {area!r} has none"
            raise ConditionError(f"{self.text} states values by area, and {where}")
        return condition

    def check_table(self, schema: Schema, area: str, counts: Counts) -> None:
        """Refuse a table that does not have what its area states; the message is the same for every area."""
        claims = self.of_area(area).claims(schema, counts, Equalities())
        if not all(limited.holds(counts) for claim in claims for limited in claim.limits):
            raise BrokenError(self.title)

    def claims(self, schema: Schema, counts: Counts | None, known: Equalities) -> list[Claim]:
        """Refuse one table, whose area is not known."""
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
        written = {label: condition.as_json() for label, condition in self.areas}
        first = next(iter(written.values()))
        keys = {key for values in written.values() for key in values}
        varying = sorted(key for key in keys if any(values.get(key) != first.get(key) for values in written.values()))
        names = {part: text for part in ("name", "mandate") if (text := getattr(self, part)) is not None}
        return {
            "kind": self.kind,
            **names,
            "each": {key: value for key, value in first.items() if key not in varying},
            "areas": {label: {key: each[key] for key in varying if key in each} for label, each in written.items()},
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Condition:
        """Return the condition that plain values determine."""
        from congenial.conditions.registry import from_json

        parts = arguments(values, cls.kind, ("each", "areas"))
        each, areas = parts.get("each"), parts.get("areas")
        if not isinstance(each, Mapping) or not isinstance(areas, Mapping):
            raise ConditionError("values by area have an `each`, which all areas share, and `areas`")
        if not all(isinstance(label, str) and isinstance(varying, Mapping) for label, varying in areas.items()):
            raise ConditionError("values by area are a mapping from labels to values")
        return by_area({label: from_json({**each, **varying}) for label, varying in areas.items()})


def by_area(conditions: Mapping[str, Condition], *, name: str | None = None, mandate: str | None = None) -> ByArea:
    """State one condition with values of its own in every area.

    Parameters
    ----------
    conditions : mapping from an area's label to its condition
        All of one kind and of the same cells.

    Examples
    --------
    >>> from congenial.conditions.limits_and_shares import bounds
    >>> caps = by_area({"north": bounds(0, 10), "south": bounds(0, 99)}, name="at most the beds")
    >>> caps.of_area("south").upper
    99
    """
    areas = tuple(conditions.items())
    if not areas:
        raise ConditionError("values by area need at least one area")
    if len({(condition.kind, str(condition.as_json().get("where"))) for _, condition in areas}) > 1:
        raise ConditionError("values by area are of one kind of condition, and of the same cells in every area")
    return ByArea(areas, name=name, mandate=mandate)
