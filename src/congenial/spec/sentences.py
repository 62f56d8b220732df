"""Sets of cells and queries in words: ``total of voting by sex``.

::

    query  = "cells" | "total", optionally "of" picks, optionally "by" dimensions | "margin of" dimensions
    picks  = pick, joined by "and" or commas: labels of one dimension add up, different dimensions intersect
    pick   = "all" | a group | a label | a dimension with a group or a label of it: "age voting", "sex=female"
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from congenial.errors import ConditionError, did_you_mean
from congenial.spec.levels import Levels

Where = dict[str, tuple[str, ...]]
Parsed = TypeVar("Parsed")

_JOINT = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+")
_KINDS = ("cells", "total", "margin", "zeros")


@dataclass(frozen=True)
class Said:
    """What a sentence asks for."""

    kind: str
    where: Where | None = None
    by: tuple[str, ...] = ()


def sentence(text: str, dimensions: Sequence[Levels], kinds: Sequence[str] = _KINDS[:3]) -> Said:
    """Read a query in words.

    Examples
    --------
    >>> sex = Levels("sex", "sex", ("female", "male"))
    >>> age = Levels("age", "age", ("0-17", "18-64", "65+"), groups={"voting": ("18-64", "65+")})
    >>> sentence("total of voting by sex", [sex, age])
    Said(kind='total', where={'age': ('18-64', '65+')}, by=('sex',))
    """
    kind, _, rest = text.strip().partition(" ")
    rest = rest.strip()
    if kind not in kinds:
        sample = "total of voting by sex" if "total" in kinds else "zeros of sex male and status pregnant"
        raise ConditionError(
            f"{text[:80]!r} does not start with {' or '.join(map(repr, kinds))}, as {sample!r} does;"
            f" {did_you_mean(kind, kinds)}"
        )
    if kind == "margin":
        if not rest.startswith("of "):
            raise ConditionError("a margin names its dimensions: `margin of sex and age`, or `margin: [sex, age]`")
        return Said(kind, by=dimension_names(rest.removeprefix("of "), dimensions))
    if not rest:
        return Said(kind)
    if rest.startswith("by ") and kind == "total":
        return Said(kind, by=dimension_names(rest.removeprefix("by "), dimensions))
    if not rest.startswith("of "):
        raise ConditionError(f"after {kind!r} comes `of` with cells or `by` with dimensions, not {rest[:60]!r}")
    rest = rest.removeprefix("of ").strip()
    if kind == "total":
        for found in reversed(list(re.finditer(r"\s+by\s+", rest))):
            names = _joined(rest[found.end() :], lambda name: name if _is_name(name, dimensions) else None)
            if names is not None:
                return Said(kind, selection(rest[: found.start()], dimensions), tuple(names))
        if re.search(r"\s+by\s+", rest) and _joined(rest, lambda pick: _pick(pick, dimensions)) is None:
            before, _, after = rest.rpartition(" by ")
            return Said(kind, selection(before, dimensions), dimension_names(after, dimensions))
    return Said(kind, selection(rest, dimensions))


def selection(text: str, dimensions: Sequence[Levels]) -> Where | None:
    """Read a set of cells in words; None is every cell."""
    text = text.strip()
    if text == "all":
        meanings = [dimension.name for dimension, _ in _meanings(text, dimensions)]
        if meanings:
            raise ConditionError(
                f"'all' is every cell, or a level of {meanings[0]!r}; write `{meanings[0]} all` for it"
            )
        return None
    picks = _joined(text, lambda pick: _pick(pick, dimensions))
    if picks is None:
        wrong = next(part for part in [*_JOINT.split(text), text] if _pick(part, dimensions) is None)
        raise ConditionError(_why_not(wrong, dimensions))
    where: dict[str, set[str]] = {}
    for dimension, labels in picks:
        where.setdefault(dimension.name, set()).update(labels)
    known = {dimension.name: dimension for dimension in dimensions}
    return {name: known[name].in_order(labels) for name, labels in where.items()}


def dimension_names(text: str, dimensions: Sequence[Levels]) -> tuple[str, ...]:
    """Read names of dimensions in words."""
    names = _joined(text.strip(), lambda name: name if _is_name(name, dimensions) else None)
    if names is None:
        known = [dimension.name for dimension in dimensions]
        wrong = next(part for part in [*_JOINT.split(text.strip()), text] if part not in known)
        raise ConditionError(f"{wrong!r} is not a dimension; {did_you_mean(wrong, known)}")
    return tuple(names)


def _is_name(text: str, dimensions: Sequence[Levels]) -> bool:
    return any(dimension.name == text for dimension in dimensions)


def _joined(text: str, read: Callable[[str], Parsed | None]) -> list[Parsed] | None:
    """Read parts that are joined by "and" or commas; labels may hold such joints themselves."""
    joints = [(found.start(), found.end()) for found in _JOINT.finditer(text)]

    @cache
    def from_here(start: int) -> tuple[Parsed, ...] | None:
        for stop, after in [(len(text), None), *joints]:
            pick = read(text[start:stop]) if start < stop else None
            if pick is None:
                continue
            others = () if after is None else from_here(after)
            if others is not None:
                return (pick, *others)
        return None

    found = from_here(0)
    return None if found is None else list(found)


def _pick(text: str, dimensions: Sequence[Levels]) -> tuple[Levels, tuple[str, ...]] | None:
    """Return the one dimension and the labels that a pick means; None when it means nothing, or several things."""
    found = _meanings(text, dimensions)
    return found[0] if len(found) == 1 else None


def _meanings(text: str, dimensions: Sequence[Levels]) -> list[tuple[Levels, tuple[str, ...]]]:
    named, bare = [], []
    for dimension in dimensions:
        if dimension.knows(text):
            bare.append((dimension, dimension.pick(text)))
        if text.startswith(dimension.name):
            rest = re.sub(r"^\s*=\s*|^\s+", "", text.removeprefix(dimension.name))
            if rest != text.removeprefix(dimension.name) and dimension.knows(rest):
                named.append((dimension, dimension.pick(rest)))
    return [*named, *bare]


def _why_not(text: str, dimensions: Sequence[Levels]) -> str:
    meanings = _meanings(text, dimensions)
    if meanings:
        names = " or ".join(f"`{dimension.name} {text}`" for dimension, _ in meanings)
        return f"{text!r} can mean several things; write {names}"
    for dimension in dimensions:
        if text.startswith(f"{dimension.name} "):
            word = text.removeprefix(dimension.name).strip()
            hint = did_you_mean(word, [*dimension.groups, *dimension.labels])
            return f"{word[:60]!r} is not a label or group of dimension {dimension.name!r}; {hint}"
    groups = [group for dimension in dimensions for group in dimension.groups]
    labels = [label for dimension in dimensions for label in dimension.labels]
    return f"{text[:60]!r} is not a group or label; {did_you_mean(text, [*groups, *labels])}"
