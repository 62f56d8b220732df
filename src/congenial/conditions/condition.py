"""What every kind of condition says of itself, so that nothing else has to tell the kinds apart.

A kind is one class in `congenial.conditions.kinds`. The compiler, the spec, the ledger and the manifest go by what is
said here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar

from congenial.conditions.entry import Entry, Keys, SpecList
from congenial.conditions.equalities import Equalities
from congenial.conditions.rows import Limited, Row
from congenial.errors import ConditionError, did_you_mean
from congenial.plain_text import what_is_hidden
from congenial.schema import Schema

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
            if wrong := what_is_hidden(text or "", f"the {part} {text!r} of a condition"):
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
        """Return what it says of an area; None where there is one table."""
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
        """Return statistics that it speaks of without stating them: they may become exact along with it."""
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
        said = {part.name: plain(getattr(self, part.name)) for part in fields(self)}
        return {"kind": self.kind, **{name: value for name, value in said.items() if value is not None}}

    @classmethod
    @abstractmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Condition":
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


def arguments(given: Mapping[str, Any], kind: str, known: Iterable[str]) -> dict[str, Any]:
    """Return what plain values say besides their kind, or refuse what the kind does not know."""
    if given.get("kind") != kind:
        raise ConditionError(f"this is not a {kind}, but of kind {str(given.get('kind'))[:40]!r}")
    known = list(known)
    for name in given:
        if name != "kind" and name not in known:
            raise ConditionError(f"{str(name)[:40]!r} is not a part of a {kind}; {did_you_mean(str(name), known)}")
    if not isinstance(given.get("name", ""), str):
        raise ConditionError(f"the name of a {kind} is text")
    return {name: value for name, value in given.items() if name != "kind"}


def as_list(conditions: object, name: str) -> tuple[Any, ...]:
    """Check that conditions come as a list, and say so when a single one was given."""
    if isinstance(conditions, Condition):
        raise ConditionError(f"{name} takes a list: write [{conditions.text}]")
    if isinstance(conditions, str) or not isinstance(conditions, Iterable):
        raise ConditionError(f"{name} takes a list of conditions, not a {type(conditions).__name__}")
    return tuple(conditions)
