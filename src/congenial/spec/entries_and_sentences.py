"""Queries and conditions from the entries of a spec: sentences, mappings, values by area."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from congenial.conditions.base import OF_EVERY_ENTRY, Condition, Entry, SpecList, by_area
from congenial.conditions.limits_and_shares import structural_zeros
from congenial.conditions.queries import Query, cells, margin, total
from congenial.conditions.registry import kinds_of
from congenial.conditions.rows_and_intervals import where_text
from congenial.errors import ConditionError, did_you_mean
from congenial.schema import Schema
from congenial.spec.dimension_levels_and_public_lists import Levels, PublicRows, read_public_csv
from congenial.spec.yaml_and_mistakes import KeyPath
from congenial.workload.law import check_condition

if TYPE_CHECKING:
    from congenial.spec.file_format import TermEntry, ValuesEntry

# The grammar of queries as sentences, such as ``total of voting by sex``:
#
# query = "cells" | "total", optionally "of" picks, optionally "by" dimensions | "margin of" dimensions
# picks = pick, joined by "and" or commas: labels of one dimension add up, different dimensions intersect
# pick  = "all" | a group | a label | a dimension with a group or a label of it: "age voting", "sex=female"

Where = dict[str, tuple[str, ...]]
Parsed = TypeVar("Parsed")

_JOINT = re.compile(r"\s*,\s*(?:and\s+)?|\s+and\s+")
_KINDS = ("cells", "total", "margin", "zeros")


@dataclass(frozen=True)
class ParsedSentence:
    """A parsed sentence: the kind of query, the cells, the dimensions of a margin."""

    kind: str
    where: Where | None = None
    by: tuple[str, ...] = ()


def sentence(text: str, dimensions: Sequence[Levels], kinds: Sequence[str] = _KINDS[:3]) -> ParsedSentence:
    """Read a query in words.

    Examples
    --------
    >>> sex = Levels("sex", "sex", ("female", "male"))
    >>> age = Levels("age", "age", ("0-17", "18-64", "65+"), groups={"voting": ("18-64", "65+")})
    >>> sentence("total of voting by sex", [sex, age])
    ParsedSentence(kind='total', where={'age': ('18-64', '65+')}, by=('sex',))
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
        return ParsedSentence(kind, by=dimension_names(rest.removeprefix("of "), dimensions))
    if not rest:
        return ParsedSentence(kind)
    if rest.startswith("by ") and kind == "total":
        return ParsedSentence(kind, by=dimension_names(rest.removeprefix("by "), dimensions))
    if not rest.startswith("of "):
        raise ConditionError(f"after {kind!r} comes `of` with cells or `by` with dimensions, not {rest[:60]!r}")
    rest = rest.removeprefix("of ").strip()
    if kind == "total":
        for match in reversed(list(re.finditer(r"\s+by\s+", rest))):
            names = _joined(rest[match.end() :], lambda name: name if _is_name(name, dimensions) else None)
            if names is not None:
                return ParsedSentence(kind, selection(rest[: match.start()], dimensions), tuple(names))
        if re.search(r"\s+by\s+", rest) and _joined(rest, lambda pick: _pick(pick, dimensions)) is None:
            before, _, after = rest.rpartition(" by ")
            return ParsedSentence(kind, selection(before, dimensions), dimension_names(after, dimensions))
    return ParsedSentence(kind, selection(rest, dimensions))


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
    joints = [(match.start(), match.end()) for match in _JOINT.finditer(text)]

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

    parts = from_here(0)
    return None if parts is None else list(parts)


def _pick(text: str, dimensions: Sequence[Levels]) -> tuple[Levels, tuple[str, ...]] | None:
    """Return the one dimension and the labels that a pick means; None when it means nothing, or several things."""
    meanings = _meanings(text, dimensions)
    return meanings[0] if len(meanings) == 1 else None


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


@dataclass(frozen=True)
class Statement:
    """An invariant or a condition as the spec states it.

    Attributes
    ----------
    path, line
        Where it stands in the spec.
    at : str or None
        The level of the hierarchy that it is exact at; None is the top, or the one table.
    files : tuple of PublicRows
        The public files that its values stand in, where they differ by area.
    """

    condition: Condition
    path: KeyPath
    line: int
    at: str | None = None
    files: tuple[PublicRows, ...] = ()


@dataclass(frozen=True)
class Reader:
    """Reads entries of the lists `measure`, `invariants` and `conditions` for the declared dimensions."""

    dimensions: tuple[Levels, ...]
    schema: Schema

    def measured(self, entry: str | Mapping[str, Any]) -> Query:
        """Return a query that gets noise."""
        query = self._in_words(entry) if isinstance(entry, str) else self._entry("measure", entry)
        if not isinstance(query, Query):
            raise ConditionError(f"{query.text} cannot be measured; state it under `invariants:`")
        query.rows(self.schema)
        return query

    def invariant(self, entry: str | Mapping[str, Any]) -> Condition:
        """Return what comes out exactly."""
        condition = self._in_words(entry) if isinstance(entry, str) else self._entry("invariants", entry)
        check_condition(condition, self.schema)
        return condition

    def condition(self, entry: str | Mapping[str, Any]) -> Condition:
        """Return what is known of every table."""
        if isinstance(entry, str):
            where = sentence(entry, self.dimensions, ("zeros",)).where
            if where is None:
                raise ConditionError("all cells cannot be 0 by logic; name the cells")
            return structural_zeros(where)
        condition = self._entry("conditions", entry)
        check_condition(condition, self.schema)
        return condition

    def _entry(self, stands_in: SpecList, entry: Mapping[str, Any]) -> Condition:
        """Let the kind that an entry is of read it."""
        kinds = {kind.word: kind for kind in kinds_of(stands_in)}
        stated = [word for word in kinds if word in entry]
        if len(stated) != 1:
            has = " and ".join(f"`{word}`" for word in stated) or "none of them"
            raise ConditionError(f"an entry has one of {', '.join(f'`{word}`' for word in kinds)}; this has {has}")
        (word,) = stated
        known_keys = {**kinds[word].keys[stands_in], **OF_EVERY_ENTRY[stands_in]}
        for key in entry:
            if key not in known_keys:
                owners = " or ".join(f"`{other}`" for other, kind in kinds.items() if key in kind.keys[stands_in])
                hint = f"; write the cells after `{word}:`" if key == "where" else ""
                raise ConditionError(f"`{key}` goes with {owners}, not with `{word}`{hint}")
        return kinds[word].from_entry(Entry(stands_in, entry, self))

    def where(self, entry: "str | dict[str, Any] | None") -> Where | None:
        """Return the set of cells that words or a mapping pick; None is every cell."""
        if isinstance(entry, str):
            return selection(entry, self.dimensions)
        known = {dimension.name: dimension for dimension in self.dimensions}
        where: Where = {}
        for name, words in (entry or {}).items():
            if name not in known:
                raise ConditionError(f"{name!r} is not a dimension; {did_you_mean(name, known)}")
            picked = {label for word in _listed(words) for label in known[name].pick(word)}
            if not picked:
                raise ConditionError(f"no level of {name!r} is named; name one or leave {name!r} out")
            where[name] = known[name].in_order(picked)
        if not where:
            raise ConditionError("this picks nothing; write `all` for every cell")
        return where

    def _in_words(self, text: str) -> Query:
        parsed = sentence(text, self.dimensions)
        name = None if parsed.where is None else " ".join(text.split())  # it may call cells by the name of their group
        if parsed.kind == "cells":
            return cells(parsed.where, name=name)
        return margin(*parsed.by, where=parsed.where, name=name) if parsed.by else total(parsed.where, name=name)

    def dimensions_named(self, entry: str | list[str] | None) -> tuple[str, ...]:
        """Return names of dimensions, from words or a list."""
        if isinstance(entry, str):
            return dimension_names(entry, self.dimensions)
        known = [dimension.name for dimension in self.dimensions]
        for name in entry or ():
            if name not in known:
                raise ConditionError(f"{name!r} is not a dimension; {did_you_mean(name, known)}")
        if not entry:
            raise ConditionError("name at least one dimension; for the sum of all cells write `total`")
        return tuple(entry)

    def coefficients(self, terms: "Sequence[TermEntry]") -> Any:
        """Return the coefficient of every cell, in the schema's shape."""
        if not terms:
            raise ConditionError("a linear combination needs terms: [{times: 2, of: {sex: female}}, ...]")
        of_cell = [0] * self.schema.n_cells
        for term in terms:
            if term.times is None or term.of is None:
                raise ConditionError("a term needs both `times` and `of`: {times: 2, of: {sex: female}}")
            for cell in self.schema.cells(self.where(term.of)):
                of_cell[cell] += term.times
        return np.reshape(np.array(of_cell, object), self.schema.shape)

    def terms_text(self, terms: "Sequence[TermEntry]") -> str:
        """Return a combination of cells in words."""
        return " ".join(f"{term.times or 0:+d} x [{_where_text(term.of)}]" for term in terms).removeprefix("+")


def _where_text(entry: "str | dict[str, Any] | None") -> str:
    return entry if isinstance(entry, str) else where_text(entry or {})


def _listed(words: str | list[str]) -> list[str]:
    return [words] if isinstance(words, str) else words


# Values of invariants and limits that differ by area, from a public file: a row an area.

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def files_in(entry: Mapping[str, Any]) -> "dict[str, ValuesEntry]":
    """Return the keys of an entry whose values stand in a file."""
    from congenial.spec.file_format import ValuesEntry

    return {key: value for key, value in entry.items() if isinstance(value, ValuesEntry)}


def read_by_area(
    entry: Mapping[str, Any],
    read: Callable[[Mapping[str, Any]], Condition],
    by: Levels | None,
    folder: Path | None,
) -> tuple[Condition, tuple[PublicRows, ...]]:
    """Return the condition of an entry whose values stand in files, and those files.

    Parameters
    ----------
    read : function
        Reads an entry with the values of one area.
    """
    if by is None:
        raise ConditionError("values by area go with areas, `by:`, and this spec has none; write the value itself")
    values: dict[str, list[Any]] = {}
    files = []
    for key, values_entry in files_in(entry).items():
        rows, values[key] = _values(key, values_entry, by, folder)
        files.append(rows)
    name = entry.get("name") or (None if "equals" in values else f"limits that differ by {by.name}")
    conditions = {}
    for place, label in enumerate(by.labels):
        condition = read({**entry, **{key: column[place] for key, column in values.items()}})
        conditions[label] = replace(condition, name=name or condition.name)
    return by_area(conditions, name=name), tuple(files)


def _values(key: str, entry: "ValuesEntry", by: Levels, folder: Path | None) -> tuple[PublicRows, list[Any]]:
    """Return the values of every area, in the order of the areas."""
    if entry.file is None or not entry.value:
        raise ConditionError(f"`{key}` from a file needs its `file:` and a `value:`, the column of values")
    columns = [entry.value] if isinstance(entry.value, str) else entry.value
    rows = read_public_csv(entry.file, folder, [entry.code or by.name, *columns], entry.separator)
    rows.check_once(0, entry.code or by.name, "give each area one row")
    of_code = {}
    for row, (code, *texts) in enumerate(zip(*rows.columns, strict=True)):
        if code not in by.codes_known:
            raise rows.refused(row, f"{code!r} is not the code of a {by.name}")
        for column, text in zip(columns, texts, strict=True):
            if not _WHOLE.fullmatch(text):
                raise rows.refused(row, f"{column!r} is {text!r}, and a whole number such as 12 is needed")
        of_code[code] = texts
    for code, label in zip(by.codes, by.labels, strict=True):
        if code not in of_code:
            raise ConditionError(f"{rows.path.name} has no row for {by.name} {label!r}, whose code is {code!r}")
    if key == "equals":
        values = [of_code[code] for code in by.codes]
        return rows, [texts[0] for texts in values] if isinstance(entry.value, str) else values
    if len(columns) > 1:
        raise ConditionError(f"`{key}` is one limit, and {len(columns)} columns are named")
    return rows, [int(of_code[code][0]) for code in by.codes]
