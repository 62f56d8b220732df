"""From what a spec says to the library's queries and conditions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from congenial.conditions.condition import Condition
from congenial.conditions.entry import OF_EVERY_ENTRY, Entry, SpecList
from congenial.conditions.kinds import kinds_of
from congenial.conditions.queries import Query, cells, margin, structural_zeros, total
from congenial.conditions.where import where_text
from congenial.errors import ConditionError, did_you_mean
from congenial.schema import Schema
from congenial.spec.levels import Levels
from congenial.spec.public_csv import PublicRows
from congenial.spec.sentences import Where, dimension_names, selection, sentence
from congenial.spec.yaml_text import Path

if TYPE_CHECKING:
    from congenial.spec.model import TermEntry


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
    path: Path
    line: int
    at: str | None = None
    files: tuple[PublicRows, ...] = ()


@dataclass(frozen=True)
class Reader:
    """Reads entries of the lists `measure`, `invariants` and `conditions` for the declared dimensions."""

    dimensions: tuple[Levels, ...]
    schema: Schema

    def measured(self, said: str | Mapping[str, Any]) -> Query:
        """Return a query that gets noise."""
        query = self._in_words(said) if isinstance(said, str) else self._entry("measure", said)
        if not isinstance(query, Query):
            raise ConditionError(f"{query.text} cannot be measured; state it under `invariants:`")
        query.rows(self.schema)
        return query

    def invariant(self, said: str | Mapping[str, Any]) -> Condition:
        """Return what comes out exactly."""
        condition = self._in_words(said) if isinstance(said, str) else self._entry("invariants", said)
        condition.check(self.schema)
        return condition

    def condition(self, said: str | Mapping[str, Any]) -> Condition:
        """Return what is known of every table."""
        if isinstance(said, str):
            where = sentence(said, self.dimensions, ("zeros",)).where
            if where is None:
                raise ConditionError("all cells cannot be 0 by logic; name the cells")
            return structural_zeros(where)
        condition = self._entry("conditions", said)
        condition.check(self.schema)
        return condition

    def _entry(self, stands_in: SpecList, said: Mapping[str, Any]) -> Condition:
        """Let the kind that an entry is of read it."""
        kinds = {kind.word: kind for kind in kinds_of(stands_in)}
        given = [word for word in kinds if word in said]
        if len(given) != 1:
            has = " and ".join(f"`{word}`" for word in given) or "none of them"
            raise ConditionError(f"an entry has one of {', '.join(f'`{word}`' for word in kinds)}; this has {has}")
        (word,) = given
        own = {**kinds[word].keys[stands_in], **OF_EVERY_ENTRY[stands_in]}
        for key in said:
            if key not in own:
                owners = " or ".join(f"`{other}`" for other, kind in kinds.items() if key in kind.keys[stands_in])
                hint = f"; write the cells after `{word}:`" if key == "where" else ""
                raise ConditionError(f"`{key}` goes with {owners}, not with `{word}`{hint}")
        return kinds[word].from_entry(Entry(stands_in, said, self))

    def where(self, said: "str | dict[str, Any] | None") -> Where | None:
        """Return the set of cells that words or a mapping pick; None is every cell."""
        if isinstance(said, str):
            return selection(said, self.dimensions)
        known = {dimension.name: dimension for dimension in self.dimensions}
        where: Where = {}
        for name, words in (said or {}).items():
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
        said = sentence(text, self.dimensions)
        name = None if said.where is None else " ".join(text.split())  # it may call cells by the name of their group
        if said.kind == "cells":
            return cells(said.where, name=name)
        return margin(*said.by, where=said.where, name=name) if said.by else total(said.where, name=name)

    def dimensions_named(self, said: str | list[str] | None) -> tuple[str, ...]:
        """Return names of dimensions, from words or a list."""
        if isinstance(said, str):
            return dimension_names(said, self.dimensions)
        known = [dimension.name for dimension in self.dimensions]
        for name in said or ():
            if name not in known:
                raise ConditionError(f"{name!r} is not a dimension; {did_you_mean(name, known)}")
        if not said:
            raise ConditionError("name at least one dimension; for the sum of all cells write `total`")
        return tuple(said)

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


def _where_text(said: "str | dict[str, Any] | None") -> str:
    return said if isinstance(said, str) else where_text(said or {})


def _listed(words: str | list[str]) -> list[str]:
    return [words] if isinstance(words, str) else words
