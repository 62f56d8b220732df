"""From what a spec says to the library's queries and conditions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from congenial.conditions.queries import (
    Bounds,
    Condition,
    Query,
    Share,
    bounds,
    cells,
    linear,
    margin,
    share,
    structural_zeros,
    total,
    where_text,
)
from congenial.errors import ConditionError, did_you_mean
from congenial.fraction import exact_fraction
from congenial.schema import Schema
from congenial.spec.levels import Levels
from congenial.spec.text import Path
from congenial.spec.words import Where, dimension_names, selection, sentence

if TYPE_CHECKING:
    from congenial.spec.model import Asked, Invariant, Measured, Term
    from congenial.spec.model import Condition as ConditionEntry


@dataclass(frozen=True)
class Statement:
    """An invariant or a condition as the spec states it.

    Attributes
    ----------
    text : str
        The spec's own name for it, or the condition in words.
    mandate : str or None
        Which law or earlier publication demands it.
    path, line
        Where it stands in the spec.
    """

    condition: Condition
    text: str
    mandate: str | None
    path: Path
    line: int


@dataclass(frozen=True)
class Reader:
    """Reads entries of the lists `measure`, `invariants` and `conditions` for the declared dimensions."""

    dimensions: tuple[Levels, ...]
    schema: Schema

    def measured(self, entry: "str | Measured") -> Query:
        """Return a query that gets noise."""
        if isinstance(entry, str):
            return self._checked(self._in_words(entry))
        kind = _only_one(entry, ("cells", "total", "margin", "linear"))
        if entry.portion is not None and entry.precision is not None:
            raise ConditionError("give a `portion` of the budget or a `precision`, not both")
        return self._checked(self._query(entry, kind, precision=entry.precision, portion=entry.portion))

    def invariant(self, entry: "str | Invariant") -> Query | Share:
        """Return what comes out exactly."""
        if isinstance(entry, str):
            return self._checked(self._in_words(entry))
        kind = _only_one(entry, ("cells", "total", "margin", "linear", "share"))
        if kind != "share":
            if entry.of is not None:
                raise ConditionError("`of` goes with `share`")
            return self._checked(self._query(entry, kind, equals=_whole_numbers(entry.equals)))
        if entry.by is not None or entry.where is not None:
            raise ConditionError("a share takes `of`, not `by` or `where`")
        where = self.where(entry.share)
        if where is None:
            raise ConditionError("the share of all cells is 1; name the cells of the part")
        equals = None if entry.equals is None else exact_fraction(_plain(entry.equals), "`equals`")
        proportion = share(where, of=None if entry.of is None else self.where(entry.of), equals=equals)
        proportion.part(self.schema)
        return proportion

    def condition(self, entry: "str | ConditionEntry") -> Query | Bounds:
        """Return what is known of every table."""
        if isinstance(entry, str):
            said = sentence(entry, self.dimensions, ("zeros",))
            return structural_zeros(self._some(said.where))
        kind = _only_one(entry, ("zeros", "bounds", "total", "linear"))
        low, high = (None if limit == "none" else limit for limit in (entry.at_least, entry.at_most))
        if kind == "zeros":
            if entry.at_least is not None or entry.at_most is not None:
                raise ConditionError("zeros are 0; `at_least` and `at_most` go with bounds, total or linear")
            return structural_zeros(self._some(self.where(entry.zeros)))
        if kind == "bounds":
            if entry.at_least is None and entry.at_most is None:
                raise ConditionError("bounds need an `at_least`, an `at_most` or both")
            return bounds(0 if entry.at_least is None else low, high, where=self.where(entry.bounds))
        if low is None and high is None:
            raise ConditionError(f"a {kind} here needs an `at_least` or an `at_most`; exact values are invariants")
        if kind == "total":
            return self._checked(total(self.where(entry.total), at_least=low, at_most=high, name=entry.name))
        terms = entry.linear or []
        name = entry.name or _terms_text(terms)
        return self._checked(linear(self._coefficients(terms), at_least=low, at_most=high, name=name))

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
            where[name] = tuple(label for label in known[name].labels if label in picked)
        if not where:
            raise ConditionError("this picks nothing; write `all` for every cell")
        return where

    def _some(self, where: Where | None) -> Where:
        if where is None:
            raise ConditionError("all cells cannot be 0 by logic; name the cells")
        return where

    def _checked(self, query: Query) -> Query:
        """Return the query, or raise what the library says against it: labels, shapes, stated values."""
        if query.is_stated:
            query.limits(self.schema, None)
        else:
            query.rows(self.schema)
        return query

    def _in_words(self, text: str) -> Query:
        said = sentence(text, self.dimensions)
        return cells(said.where) if said.kind == "cells" else _sum(said.where, said.by)

    def _query(self, entry: "Asked", kind: str, **exact: Any) -> Query:
        if kind != "margin" and entry.where is not None:
            raise ConditionError(f"`where` goes with margin; write the cells after `{kind}:`")
        if kind != "total" and entry.by is not None:
            raise ConditionError("`by` goes with total")
        if kind == "linear":
            terms = entry.linear or []
            return linear(self._coefficients(terms), name=entry.name or _terms_text(terms), **exact)
        if kind == "margin":
            where = None if entry.where is None else self.where(entry.where)
            return _sum(where, self._names(entry.margin), **exact)
        if kind == "cells":
            return cells(self.where(entry.cells), **exact)
        names = () if entry.by is None else self._names(entry.by)
        return _sum(self.where(entry.total), names, name=entry.name, **exact)

    def _names(self, said: "str | list[str] | None") -> tuple[str, ...]:
        if isinstance(said, str):
            return dimension_names(said, self.dimensions)
        known = [dimension.name for dimension in self.dimensions]
        for name in said or ():
            if name not in known:
                raise ConditionError(f"{name!r} is not a dimension; {did_you_mean(name, known)}")
        if not said:
            raise ConditionError("name at least one dimension; for the sum of all cells write `total`")
        return tuple(said)

    def _coefficients(self, terms: "Sequence[Term]") -> Any:
        if not terms:
            raise ConditionError("a linear combination needs terms: [{times: 2, of: {sex: female}}, ...]")
        weights = [0] * self.schema.n_cells
        for term in terms:
            if term.times is None or term.of is None:
                raise ConditionError("a term needs both `times` and `of`: {times: 2, of: {sex: female}}")
            for cell in self.schema.cells(self.where(term.of)):
                weights[cell] += term.times
        return np.reshape(np.array(weights, object), self.schema.shape)


def _sum(where: Where | None, by: tuple[str, ...], *, name: str | None = None, **exact: Any) -> Query:
    return margin(*by, where=where, **exact) if by else total(where, name=name, **exact)


def _terms_text(terms: "Sequence[Term]") -> str:
    return " ".join(f"{term.times or 0:+d} x [{_where_text(term.of)}]" for term in terms).removeprefix("+")


def _where_text(said: "str | dict[str, Any] | None") -> str:
    return said if isinstance(said, str) else where_text(said or {})


def _listed(words: str | list[str]) -> list[str]:
    return [words] if isinstance(words, str) else words


def _only_one(entry: Any, kinds: Sequence[str]) -> str:
    given = [kind for kind in kinds if getattr(entry, kind) is not None]
    if len(given) == 1:
        return given[0]
    said = " and ".join(f"`{kind}`" for kind in given) or "none of them"
    raise ConditionError(f"an entry has one of {', '.join(f'`{kind}`' for kind in kinds)}; this has {said}")


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value
    raise ConditionError("`equals` is one number here, not a list")


def _whole_numbers(values: Any) -> Any:
    """Read stated values: one whole number, or lists of them in the order of the levels."""
    if values is None:
        return None
    if isinstance(values, list):
        return [_whole_numbers(value) for value in values]
    if isinstance(values, dict):
        raise ConditionError("`equals` is a number, or a list of numbers in the order of the levels")
    number = exact_fraction(values, "`equals`")
    if number.denominator != 1:
        raise ConditionError(f"`equals` must be a whole number, not {number}")
    return int(number)
