"""The declared levels of a dimension: labels, codes in the data, intervals, and named groups."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path as Folder
from typing import TYPE_CHECKING

from congenial.errors import ConditionError, SchemaError, did_you_mean
from congenial.schema import Schema
from congenial.spec.mistakes import Mistakes
from congenial.spec.public_list import Listed, read_list
from congenial.spec.yaml_text import Path

if TYPE_CHECKING:
    from congenial.spec.model import AreaEntry, DimensionEntry, RangeEntry


@dataclass(frozen=True)
class Levels:
    """How one column of the data becomes the labels of a dimension. Public.

    Attributes
    ----------
    labels : sequence of str
    codes : sequence of str
        The values in the data, one for each label; empty when a numeric column is cut.
    cut : tuple of float
        Where the intervals begin; `has_below` says whether a level lies below the first.
    has_empty : bool
        Whether the last label is of rows without a value; its code is the empty text.
    groups : mapping from name to labels
    listed : Listed or None
        The public file that lists the levels, where the spec names one.
    """

    name: str
    column: str
    labels: Sequence[str]
    codes: Sequence[str] = ()
    cut: tuple[float, ...] = ()
    has_below: bool = False
    has_empty: bool = False
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    is_ordered: bool = False
    listed: Listed | None = None

    @property
    def widths(self) -> tuple[Fraction, ...] | None:
        """How wide cut intervals are, an open one as wide as its neighbour; None where labels have to say it."""
        if len(self.cut) < 2:
            return None
        inner = [Fraction(repr(high)) - Fraction(repr(low)) for low, high in pairwise(self.cut)]
        return (*(inner[:1] if self.has_below else []), *inner, inner[-1])

    @property
    def n_stated(self) -> int:
        """How many levels are of values that a row can have."""
        return len(self.labels) - self.has_empty

    @cached_property
    def codes_known(self) -> frozenset[str]:
        """The codes, to look up one of thousands."""
        return frozenset(self.codes)

    @cached_property
    def places(self) -> dict[str, int]:
        """Where each label stands."""
        return {label: place for place, label in enumerate(self.labels)}

    def knows(self, word: str) -> bool:
        """Whether a word is the name of a group or of a label."""
        return word in self.groups or word in self.places

    def in_order(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Return labels as they were declared, each once."""
        return tuple(sorted(set(labels), key=self.places.__getitem__))

    def pick(self, word: str) -> tuple[str, ...]:
        """Return the labels that a group's or a label's name stands for."""
        if word in self.groups:
            return self.groups[word]
        if word in self.places:
            return (word,)
        if word in self.codes:
            label = self.labels[self.codes.index(word)]
            raise ConditionError(f"{word!r} is a code of {self.name!r} in the data; write its label {label!r}")
        hint = did_you_mean(word, [*self.groups, *self.labels])
        raise ConditionError(f"{word!r} is not a label or group of dimension {self.name!r}; {hint}")


def schema_of(dimensions: Iterable[Levels]) -> Schema:
    """Return the schema of declared dimensions."""
    known = list(dimensions)
    ordered = {levels.name: levels.widths for levels in known if levels.is_ordered}
    groups = {levels.name: levels.groups for levels in known}
    return Schema({levels.name: levels.labels for levels in known}, groups, ordered)


def declared(
    name: str, said: "list[str] | DimensionEntry | AreaEntry", mistakes: Mistakes, path: Path
) -> Levels | None:
    """Return the levels that a dimension, or the areas, declare; None when they are noted as mistaken."""
    from congenial.spec.model import DimensionEntry, ListEntry

    before = len(mistakes.found)
    levels, folder = None, mistakes.document.folder
    with mistakes.at(path):
        if isinstance(said, list):
            levels = _written(name, name, said)
        elif isinstance(said, DimensionEntry):
            levels = _with_empty(_dimension(name, said, folder), said.empty)
            if said.ordered and levels.has_empty:
                raise SchemaError(
                    "`ordered` and `empty` do not go together: rows without a value stand nowhere in order"
                )
            is_ordered = said.ordered or (said.cut is not None and not levels.has_empty)
            levels = replace(levels, is_ordered=is_ordered)
            for group, members in said.groups.items():
                with mistakes.at((*path, "groups", group)):
                    levels.groups[group] = _members(levels, group, members)
        elif isinstance(said.levels, ListEntry):
            listed = read_list(said.levels, name, "areas", folder)
            levels = _with_empty(_from_file(name, said.column or name, listed), said.empty)
        else:
            levels = _with_empty(_written(name, said.column or name, said.levels), said.empty)
    return levels if len(mistakes.found) == before else None


def _dimension(name: str, said: "DimensionEntry", folder: Folder | None) -> Levels:
    from congenial.spec.model import ListEntry

    if (said.levels is None) == (said.cut is None):
        raise SchemaError(f"dimension {name!r} needs its `levels`, or a `cut` for a numeric column: one of them")
    if said.below and said.cut is None:
        raise SchemaError("`below` goes with `cut`")
    column = said.column or name
    if said.cut is not None:
        return _intervals(name, column, said.cut, has_below=said.below)
    if isinstance(said.levels, ListEntry):
        return _from_file(name, column, read_list(said.levels, name, f"levels of {name}", folder))
    return _written(name, column, said.levels)


def _from_file(name: str, column: str, listed: Listed) -> Levels:
    return Levels(name, column, listed.labels, listed.codes, listed=listed)


def _written(name: str, column: str, said: list[str] | dict[str, str] | None) -> Levels:
    """Return levels that stand in the spec itself."""
    if not said:
        raise SchemaError(f"{name!r} needs its `levels`: a list, a mapping from codes in the data to labels, or a file")
    labels = tuple(said if isinstance(said, list) else said.values())
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise SchemaError(f"{name!r} has the level {label!r} twice")
        seen.add(label)
    return Levels(name, column, labels, tuple(said))


def _with_empty(levels: Levels, label: str | None) -> Levels:
    """Add the level of rows that have no value, if one is declared."""
    if label is None:
        return levels
    if label in levels.places:
        raise SchemaError(
            f"{levels.name!r} has the level {label!r} already; rows without a value need one of their own"
        )
    codes = () if levels.cut else (*levels.codes, "")
    return replace(levels, labels=(*levels.labels, label), codes=codes, has_empty=True)


def _intervals(name: str, column: str, cut: list[Fraction], *, has_below: bool) -> Levels:
    """Return half-open intervals; the data are compared as doubles, so the ends must differ as doubles."""
    if not cut:
        raise SchemaError(f"dimension {name!r}: `cut` needs at least one number")
    if any(abs(end) > 10**300 for end in cut):
        raise SchemaError(f"dimension {name!r}: the numbers of `cut` must lie between -1e300 and 1e300")
    ends = tuple(float(end) for end in cut)
    for before, after in pairwise(ends):
        if not before < after:
            raise SchemaError(f"dimension {name!r}: the numbers of `cut` must rise, and {after:g} follows {before:g}")
    words = [_number(end) for end in cut]
    labels = [f"{low} to <{high}" for low, high in pairwise(words)]
    below = [f"below {words[0]}"] if has_below else []
    return Levels(name, column, (*below, *labels, f"{words[-1]} or more"), cut=ends, has_below=has_below)


def _number(value: Fraction) -> str:
    """Write a number as people do where that is exact."""
    if value.denominator == 1:
        return str(value.numerator)
    decimal = repr(float(value))
    return decimal if Fraction(decimal) == value else str(value)


def _members(levels: Levels, group: str, said: "str | list[str] | RangeEntry") -> tuple[str, ...]:
    if group in levels.places:
        raise SchemaError(f"{group!r} is a label of {levels.name!r} and cannot be the name of a group too")
    if isinstance(said, str | list):
        members = [said] if isinstance(said, str) else said
        if not members:
            raise SchemaError(f"group {group!r} of {levels.name!r} is empty; name at least one level")
        return levels.in_order(label for member in members for label in levels.pick(member))
    if said.start is None and said.end is None:
        raise SchemaError(f"group {group!r} of {levels.name!r} needs a `from`, a `to` or both")
    start = 0 if said.start is None else _place(levels, said.start)
    end = levels.n_stated - 1 if said.end is None else _place(levels, said.end)
    if start > end:
        raise SchemaError(f"group {group!r} of {levels.name!r}: {said.start!r} stands after {said.end!r}; swap them")
    return tuple(levels.labels[start : end + 1])


def _place(levels: Levels, label: str) -> int:
    if label not in levels.places:
        raise SchemaError(f"{label!r} is not a level of {levels.name!r}; {did_you_mean(label, levels.labels)}")
    return levels.places[label]
