"""What exact numbers give away by themselves, in every area: cells that they determine, sums of nobody and of one.

Public: it follows from the published values alone. No noise protects what is found here, whatever the budget.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Ints
from congenial.conditions.areas import Area, Areas, Group
from congenial.conditions.compile import compile_conditions
from congenial.conditions.condition import Condition
from congenial.conditions.determined import MOST_PROGRAMS, Determined, Solved, determined, distinct
from congenial.conditions.queries import Query, margin, total
from congenial.conditions.rows import Row, cell_names
from congenial.resources import parts_of
from congenial.schema import Schema

# Exact sums of few: in how many areas nobody, or one record, is in a sum that is published or that follows.

_MOST_SUMS = 20  # stated, that are compared in pairs: what one has beyond another is known, too
_MOST_CELLS = 20_000  # of a table whose margins are looked at though nobody stated them


@dataclass(frozen=True)
class SmallSum:
    """An exact sum of cells: in how many areas it is known, and in how many of these it is 0 and 1.

    Attributes
    ----------
    is_stated : bool
        Whether it is published as such; else it follows from others.
    """

    text: str
    n_cells: int
    is_stated: bool
    n_known: int = 0
    n_zero: int = 0
    n_one: int = 0

    def with_more(self, values: Ints, n_areas: Ints) -> "SmallSum":
        """Count further areas: the sum's value in each kind of area, and how many are of that kind."""
        counts = [n_areas[chosen].sum() for chosen in (np.ones(len(values), bool), values == 0, values == 1)]
        before = (self.n_known, self.n_zero, self.n_one)
        n_known, n_zero, n_one = (old + int(new) for old, new in zip(before, counts, strict=True))
        return replace(self, n_known=n_known, n_zero=n_zero, n_one=n_one)


def looked_at(schema: Schema, conditions: Sequence[Condition]) -> list[tuple[Row, bool]]:
    """Return the sums that may be exact, and whether they were stated.

    Besides those: all cells, each level of a dimension, and what one stated sum has beyond another.

    Examples
    --------
    >>> schema = Schema({"age": ["0-17", "18-64", "65+"]})
    >>> [row.name for row, _ in looked_at(schema, [total(), total({"age": ["18-64", "65+"]}, name="adults")])]
    ['total', 'adults', 'age=0-17', 'age=18-64', 'age=65+']
    """
    exact = [one for one in conditions if isinstance(one, Query) and one.stated_range.is_free]
    stated = [row for one in exact for row in one.rows(schema)]
    others = [row for one in conditions for row in one.mentioned(schema)]
    if schema.n_cells <= _MOST_CELLS:
        others += [*total().rows(schema), *(row for name in schema.names for row in margin(name).rows(schema))]
    return with_differences(schema, stated, others)


def with_differences(schema: Schema, stated: Sequence[Row], others: Sequence[Row]) -> list[tuple[Row, bool]]:
    """Return sums, each once and by its first name, with those that are left of one stated sum without another."""
    everything = total().rows(schema)
    sums = {row.cells: row for row in [*stated, *everything] if set(row.coefficients) == {1}}.values()
    less = []
    if len(sums) <= _MOST_SUMS:
        pairs = [(whole, part) for part in sums if (whole := _around(part, sums)) is not None]
        rest = [(f"{a.name} less {b.name}", set(a.cells) - set(b.cells)) for a, b in pairs]
        less = [Row.of(name, sorted(cells)) for name, cells in rest if not _is_made_of(cells, stated)]
    distinct_rows: dict[tuple[int, ...], tuple[Row, bool]] = {}
    for row in (*stated, *others, *less):
        if set(row.coefficients) == {1}:
            distinct_rows.setdefault(row.cells, (row, row in stated))
    return list(distinct_rows.values())


def _around(part: Row, sums: Iterable[Row]) -> Row | None:
    """Return the smallest sum that a sum is part of."""
    wider = [row for row in sums if set(part.cells) < set(row.cells)]
    return min(wider, key=lambda row: len(row.cells), default=None)


def _is_made_of(cells: set[int], rows: Sequence[Row]) -> bool:
    """Whether sums that were stated make up these cells: then there is nothing new about them."""
    return cells == {cell for row in rows if set(row.cells) <= cells for cell in row.cells}


@dataclass(frozen=True)
class Counted:
    """How much the exact numbers of one table, or of one for each area, give away.

    Attributes
    ----------
    area : str or None
        What an area is called; None for one table.
    n_areas, n_cells : int
        Of how many areas, with how many cells each.
    n_with_exact, n_all_exact : int
        Areas in which a cell is determined that nobody declared to be, and those in which all are.
    n_exact, n_exact_not_zero : int
        Such cells of all areas together, and those of them that are not 0.
    n_open : int
        Areas in which further cells may be determined: no search settled it.
    sums : tuple of SmallSum
        Exact sums that are 0 or 1 somewhere, or that follow without having been stated.
    """

    area: str | None
    n_areas: int
    n_cells: int
    n_with_exact: int
    n_all_exact: int
    n_exact: int
    n_exact_not_zero: int
    n_open: int
    sums: tuple[SmallSum, ...]


@dataclass(frozen=True, eq=False)
class Kinds:
    """Areas of one pattern by their values: what is true of one of a kind is true of all.

    Attributes
    ----------
    places : array (area,)
        Where the areas stand among all of them.
    which : array (area,)
        Of which kind each is.
    is_news : array (kind, cell)
        Whether the exact numbers determine a cell that was not declared to have its value.
    is_explained : array (kind, cell)
        Whether it is 0 because a sum of several cells is.
    """

    places: Ints
    which: Ints
    found: Determined
    is_news: NDArray[np.bool_]
    is_explained: NDArray[np.bool_]

    @property
    def has_news(self) -> NDArray[np.bool_]:
        """Whether any cell is news (kind,)."""
        return np.asarray(self.is_news.any(axis=1))

    @cached_property
    def n_areas(self) -> Ints:
        """How many areas are of each kind (kind,)."""
        return np.bincount(self.which, minlength=len(self.is_news))


@dataclass(frozen=True, eq=False)
class Review:
    """What the exact numbers of one table, or of one for each area, give away: counted, and kind by kind.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> conditions = [total(), total({"age": "18+"})]
    >>> tables = {"north": [3, 4, 5, 6], "south": [0, 1, 0, 0], "west": [0, 0, 0, 0]}
    >>> found = review(Areas.disclosed(schema, conditions, tables, name="region"), conditions)
    >>> found.counted.n_with_exact, found.counted.n_exact
    (2, 6)
    >>> [(known.text, known.n_zero, known.n_one) for known in found.counted.sums]
    [('total', 1, 1), ('total of age=18+', 1, 1), ('age=0-17', 2, 0)]
    >>> next(found.cells())
    ('south', 0, 0)
    """

    schema: Schema
    labels: Sequence[Area] = field(repr=False)
    counted: Counted
    kinds: tuple[Kinds, ...] = field(repr=False)

    def cells(self) -> Iterator[tuple[Area, int, int]]:
        """Go through the cells that are given away, area by area: the area, the cell and its value."""
        for place, number, kind in self.areas_with_news():
            one = self.kinds[number]
            for cell in np.flatnonzero(one.is_news[kind]).tolist():
                yield self.labels[place], cell, int(one.found.values[kind, cell])

    def areas_with_news(self) -> list[tuple[int, int, int]]:
        """Return where areas stand in which a cell is given away, in order, each with its number among `kinds`.

        And which of the kinds there it is of.
        """
        found = []
        for number, one in enumerate(self.kinds):
            chosen = np.flatnonzero(one.has_news[one.which])
            pairs = zip(one.places[chosen].tolist(), one.which[chosen].tolist(), strict=True)
            found += [(place, number, kind) for place, kind in pairs]
        return sorted(found)


def review(areas: Areas, conditions: Sequence[Condition]) -> Review:
    """Look at every area for what its exact numbers give away.

    Parameters
    ----------
    conditions : sequence of Condition
        What every table obeys, as it was stated.
    """
    schema = areas.groups[0].pattern.schema
    rows, declared = looked_at(schema, conditions), _declared(schema, conditions)
    return reviewed(areas.name, areas.labels, [(group, declared) for group in areas.groups], rows)


def reviewed(
    name: str | None,
    labels: Sequence[Area],
    groups: Sequence[tuple[Group, NDArray[np.bool_]]],
    rows: Sequence[tuple[Row, bool]],
) -> Review:
    """Look at groups of areas, each with the cells (cell,) that have their value by declaration and are no news.

    Parameters
    ----------
    name : str or None
        What an area is called.
    rows : sequence of (Row, bool)
        Sums that may be exact, and whether they were stated.
    """
    schema = groups[0][0].pattern.schema
    found = {row.cells: SmallSum(row.name, len(row.cells), is_stated) for row, is_stated in rows}
    kinds, n_programs = [], MOST_PROGRAMS
    for group, declared in groups:
        few, which = distinct(group)
        solved = Solved.of(few.pattern)
        for numbers in parts_of(len(few.places)):  # limits of cells are numbers for every cell: some areas at a time
            some = few.part(numbers)
            is_own = slice(None) if len(some.places) == len(few.places) else _is_in(which, numbers)
            own_which = which[is_own] - numbers.start
            sums = solved.sums(some, [row for row, _ in rows])
            own, n_programs = determined(some, solved, sums, n_programs)
            explained = np.zeros_like(own.is_known)
            n_areas = np.bincount(own_which, minlength=len(explained))
            for known in sums:
                cells = known.row.cells
                found[cells] = found[cells].with_more(known.values, n_areas)
                if len(cells) > 1:
                    explained[np.ix_(known.values == 0, cells)] = True
            kinds.append(Kinds(group.places[is_own], own_which, _packed(own), own.is_known & ~declared, explained))
    sums_found = tuple(one for one in found.values() if one.n_known and (one.n_zero or one.n_one or not one.is_stated))
    counted = _counted(name, len(labels), schema.n_cells, kinds, sums_found)
    return Review(schema, labels, counted, tuple(kinds))


def _is_in(which: Ints, numbers: slice) -> NDArray[np.bool_]:
    answers: NDArray[np.bool_] = (which >= numbers.start) & (which < numbers.stop)
    return answers


def _packed(found: Determined) -> Determined:
    """Return the same with values in as few bits as they need."""
    if found.values.dtype == object or not found.values.size:
        return found
    ends = np.array([found.values.min(), found.values.max()])
    return replace(found, values=found.values.astype(np.result_type(*map(np.min_scalar_type, ends.tolist()))))


def _counted(
    name: str | None, n_areas: int, n_cells: int, kinds: Sequence[Kinds], sums: tuple[SmallSum, ...]
) -> Counted:
    """Add up what was found in every kind of area."""
    n = [one.n_areas for one in kinds]
    news = [one.is_news for one in kinds]

    def added(each: Sequence[ArrayLike]) -> int:
        return sum(int(times @ np.asarray(values, np.int64)) for times, values in zip(n, each, strict=True))

    return Counted(
        area=name,
        n_areas=n_areas,
        n_cells=n_cells,
        n_with_exact=added([own.any(axis=1) for own in news]),
        n_all_exact=added([one.found.is_known.all(axis=1) & one.is_news.any(axis=1) for one in kinds]),
        n_exact=added([own.sum(axis=1) for own in news]),
        n_exact_not_zero=added([(one.is_news & (one.found.values != 0)).sum(axis=1) for one in kinds]),
        n_open=added([~one.found.is_settled for one in kinds]),
        sums=sums,
    )


def _declared(schema: Schema, conditions: Sequence[Condition]) -> NDArray[np.bool_]:
    """Return the cells that conditions fix by themselves, whatever the data are."""
    stated = [one for one in conditions if one.is_stated and not one.needs_others]
    limits = compile_conditions(schema, stated, None).limits
    return np.array([own.is_point for own in limits], np.bool_)


# What exact numbers give away, in sentences: counted over areas, with cells by name where there are few.

FOLLOWS = "Exact too, because it follows"
"""How the line begins that lists sums which follow from the stated ones."""

_FEW = 20  # cells that are listed one by one
_SHOWN = 8
_TOP = "at the top"  # of a tree with one unit there, which has no name
_MOST_LINES = 5  # of one kind


def sentences(review: Review, unit: str = "record") -> list[str]:
    """Return everything that was found, the most areas first.

    Parameters
    ----------
    unit : str
        What a protected unit is called.

    Examples
    --------
    >>> from congenial.conditions.areas import Areas
    >>> from congenial.conditions.queries import total
    >>> from congenial.privacy.disclosure import review
    >>> from congenial.schema import Schema
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> conditions = [total(), total({"age": "18+"})]
    >>> tables = {f"block {n}": [n % 4, 2, 0, n % 3] for n in range(96)}
    >>> for line in sentences(review(Areas.disclosed(schema, conditions, tables, name="block"), conditions)):
    ...     print(line)
    In 24 of 96 areas (25 %) age=0-17 is 0: its 2 cells are exact
    In 24 of 96 areas (25 %) age=0-17 is 1: what is exact there is about one record
    Exact too, because it follows: age=0-17
    """
    counted = review.counted
    if counted.area is None or counted.n_exact <= _FEW:
        lines = [_listed("The invariants give away", _named(review), counted.n_exact)] if counted.n_exact else []
        lines += _ones(counted, unit)
    else:
        lines = [*_zeros(counted), *_all_exact(counted), *_ones(counted, unit), *_unexplained(review)]
    follows = [known.text for known in counted.sums if not known.is_stated and known.n_known == counted.n_areas]
    if follows:
        lines.append(_listed(FOLLOWS, follows, len(follows)))
    if counted.n_open:
        lines.append(f"{_in_areas(counted, counted.n_open)} further cells may be exact: no search settled it")
    return lines


def level_sentences(reviews: Sequence[Review], unit: str = "record") -> list[str]:
    """Return what was found at each level of a tree, after the name of the level; of one review, its sentences."""
    if len(reviews) == 1:
        return sentences(reviews[0], unit)
    return [f"{review.counted.area or _TOP}: {line}" for review in reviews for line in sentences(review, unit)]


def _named(review: Review) -> Iterator[str]:
    for area, cell, value in review.cells():
        where = "" if area is None else f"{review.counted.area} {area}: "
        yield f"{where}{review.schema.cell_name(cell)} = {value:,}"


def _zeros(counted: Counted) -> list[str]:
    found = sorted((one for one in counted.sums if one.n_zero and one.n_cells > 1), key=lambda one: -one.n_zero)
    lines = [
        f"{_in_areas(counted, one.n_zero)} {one.text} is 0: its {one.n_cells:,} cells are exact"
        for one in found[:_MOST_LINES]
    ]
    return lines + _more(len(found), "sums are 0 in some areas")


def _ones(counted: Counted, unit: str) -> list[str]:
    found = sorted((one for one in counted.sums if one.n_one), key=lambda one: -one.n_one)
    if counted.area is None:
        return [f"{one.text} is 1: what is exact is about one {unit}" for one in found[:_MOST_LINES]]
    lines = [
        f"{_in_areas(counted, one.n_one)} {one.text} is 1: what is exact there is about one {unit}"
        for one in found[:_MOST_LINES]
    ]
    return lines + _more(len(found), "sums are 1 in some areas")


def _all_exact(counted: Counted) -> list[str]:
    if not counted.n_all_exact:
        return []
    return [f"{_in_areas(counted, counted.n_all_exact)} every cell is exact"]


def _unexplained(review: Review) -> list[str]:
    """Say which cells are exact though no sum of several cells with them is 0."""
    n_exact, n_not_zero = np.zeros((2, review.schema.n_cells), np.int64)
    for one in review.kinds:
        left = one.is_news & ~one.is_explained
        n_exact += one.n_areas @ left
        n_not_zero += one.n_areas @ (left & (one.found.values != 0))
    ranked = [cell for cell in np.lexsort((-n_exact, -n_not_zero)).tolist() if n_exact[cell]]
    names = cell_names(review.schema, ranked[:_MOST_LINES])
    lines = [
        f"{_in_areas(review.counted, int(n_exact[cell]))} the cell {name} is exact, though no sum with it is 0; in"
        f" {int(n_not_zero[cell]):,} of them it is not 0"
        for cell, name in zip(ranked, names, strict=False)
    ]
    return lines + _more(len(ranked), "cells are exact in some areas though no sum with them is 0")


def _more(n_found: int, what: str) -> list[str]:
    return [f"{n_found - _MOST_LINES:,} more {what}"] if n_found > _MOST_LINES else []


def _in_areas(counted: Counted, n: int) -> str:
    share = 100 * n / counted.n_areas
    text = f"{share:.0f} %" if share >= 1 else "under 1 %"
    return f"In {n:,} of {counted.n_areas:,} areas ({text})"


def _listed(head: str, found: Iterator[str] | Sequence[str], n_found: int) -> str:
    more = f" and {n_found - _SHOWN:,} more" if n_found > _SHOWN else ""
    return f"{head}: {'; '.join(islice(found, _SHOWN))}{more}"
