"""What exact numbers give away by themselves, in every area: cells that they determine, sums of nobody and of one.

Public: it follows from the published values alone. No noise protects what is found here, whatever the budget.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Ints
from congenial.chunks import parts_of
from congenial.conditions.areas import Area, Areas, Group
from congenial.conditions.compile import compile_conditions
from congenial.conditions.condition import Condition
from congenial.conditions.determined import MOST_PROGRAMS, Determined, determined, distinct
from congenial.conditions.known_sums import Solved
from congenial.conditions.rows import Row
from congenial.privacy.small_sums import SmallSum, looked_at
from congenial.schema import Schema


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
