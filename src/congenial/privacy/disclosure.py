"""What exact numbers disclose by themselves, in every area: cells that they determine, sums of nobody and of one.

Public: it follows from the published values alone. No noise protects it, whatever the budget.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import Area, AreaGroup, Areas
from congenial.conditions.base import Condition
from congenial.conditions.compile import compile_conditions
from congenial.conditions.determined_cells import (
    MOST_PROGRAMS,
    DeterminedCells,
    SolvedEqualities,
    determine_cells,
    distinct,
)
from congenial.conditions.queries import Query, margin, total
from congenial.conditions.rows_and_intervals import Row, cell_names
from congenial.memory_and_threads import parts_of
from congenial.schema import Schema

# Exact sums of few: in how many areas nobody, or one record, is in a sum that is published or that follows.

_MOST_SUMS = 20  # stated, that are compared in pairs: what one has beyond another is known, too
_MOST_CELLS = 20_000  # of a table whose margins are candidates though no condition states them


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


def candidate_sums(schema: Schema, conditions: Sequence[Condition]) -> list[tuple[Row, bool]]:
    """Return the sums that may be exact, and whether they were stated.

    Besides those: all cells, each level of a dimension, and what one stated sum has beyond another.

    Examples
    --------
    >>> schema = Schema({"age": ["0-17", "18-64", "65+"]})
    >>> [row.name for row, _ in candidate_sums(schema, [total(), total({"age": ["18-64", "65+"]}, name="adults")])]
    ['total', 'adults', 'age=0-17', 'age=18-64', 'age=65+']
    """
    exact = [query for query in conditions if isinstance(query, Query) and query.stated_range.is_free]
    stated = [row for query in exact for row in query.rows(schema)]
    others = [row for condition in conditions for row in condition.mentioned(schema)]
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
class DisclosureSummary:
    """How much the exact numbers of one table, or of one for each area, disclose.

    Attributes
    ----------
    area : str or None
        What an area is called; None for one table.
    n_areas, n_cells : int
        Of how many areas, with how many cells each.
    n_with_exact, n_all_exact : int
        Areas in which a cell is determined that is not declared to be, and those in which all are.
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
class AreaKinds:
    """Areas of one pattern by their values: what is true of one of a kind is true of all.

    Attributes
    ----------
    places : array (area,)
        Where the areas stand among all of them.
    kind_of_area : array (area,)
        Of which kind each is.
    determined : DeterminedCells
        What the exact numbers say of the cells of each kind.
    is_disclosed : array (kind, cell)
        Whether the exact numbers determine a cell that was not declared to have its value.
    is_explained : array (kind, cell)
        Whether it is 0 because a sum of several cells is.
    """

    places: Ints
    kind_of_area: Ints
    determined: DeterminedCells
    is_disclosed: NDArray[np.bool_]
    is_explained: NDArray[np.bool_]

    @property
    def has_disclosed(self) -> NDArray[np.bool_]:
        """Whether any cell is disclosed (kind,)."""
        return np.asarray(self.is_disclosed.any(axis=1))

    @cached_property
    def n_areas(self) -> Ints:
        """How many areas are of each kind (kind,)."""
        return np.bincount(self.kind_of_area, minlength=len(self.is_disclosed))


@dataclass(frozen=True, eq=False)
class Disclosure:
    """What the exact numbers of one table, or of one for each area, disclose: counted, and kind by kind.

    Examples
    --------
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> conditions = [total(), total({"age": "18+"})]
    >>> tables = {"north": [3, 4, 5, 6], "south": [0, 1, 0, 0], "west": [0, 0, 0, 0]}
    >>> disclosure = disclosure_of(Areas.disclosed(schema, conditions, tables, name="region"), conditions)
    >>> disclosure.summary.n_with_exact, disclosure.summary.n_exact
    (2, 6)
    >>> [(known.text, known.n_zero, known.n_one) for known in disclosure.summary.sums]
    [('total', 1, 1), ('total of age=18+', 1, 1), ('age=0-17', 2, 0)]
    >>> next(disclosure.cells())
    ('south', 0, 0)
    """

    schema: Schema
    labels: Sequence[Area] = field(repr=False)
    summary: DisclosureSummary
    kinds: tuple[AreaKinds, ...] = field(repr=False)

    def cells(self) -> Iterator[tuple[Area, int, int]]:
        """Go through the disclosed cells, area by area: the area, the cell and its value."""
        for place, number, kind in self.disclosing_areas():
            kinds = self.kinds[number]
            for cell in np.flatnonzero(kinds.is_disclosed[kind]).tolist():
                yield self.labels[place], cell, int(kinds.determined.values[kind, cell])

    def disclosing_areas(self) -> list[tuple[int, int, int]]:
        """Return where areas stand in which a cell is disclosed, in order, each with its number among `kinds`.

        And which of the kinds there it is of.
        """
        areas = []
        for number, kinds in enumerate(self.kinds):
            chosen = np.flatnonzero(kinds.has_disclosed[kinds.kind_of_area])
            pairs = zip(kinds.places[chosen].tolist(), kinds.kind_of_area[chosen].tolist(), strict=True)
            areas += [(place, number, kind) for place, kind in pairs]
        return sorted(areas)


def disclosure_of(areas: Areas, conditions: Sequence[Condition]) -> Disclosure:
    """Return what the exact numbers of every area disclose.

    Parameters
    ----------
    conditions : sequence of Condition
        What every table obeys, as it was stated.
    """
    schema = areas.groups[0].pattern.schema
    rows, declared = candidate_sums(schema, conditions), _declared(schema, conditions)
    return disclosure_of_groups(areas.name, areas.labels, [(group, declared) for group in areas.groups], rows)


def disclosure_of_groups(
    name: str | None,
    labels: Sequence[Area],
    groups: Sequence[tuple[AreaGroup, NDArray[np.bool_]]],
    rows: Sequence[tuple[Row, bool]],
) -> Disclosure:
    """Return the same of groups of areas, each with the cells (cell,) that have their value by declaration.

    Parameters
    ----------
    name : str or None
        What an area is called.
    rows : sequence of (Row, bool)
        Sums that may be exact, and whether they were stated.
    """
    schema = groups[0][0].pattern.schema
    small_sums = {row.cells: SmallSum(row.name, len(row.cells), is_stated) for row, is_stated in rows}
    kinds, n_programs = [], MOST_PROGRAMS
    for group, declared in groups:
        few, kind_of_area = distinct(group)
        solved = SolvedEqualities.of(few.pattern)
        for numbers in parts_of(len(few.places)):  # limits of cells are numbers for every cell: some areas at a time
            some = few.part(numbers)
            is_some = (kind_of_area >= numbers.start) & (kind_of_area < numbers.stop)
            numbered = kind_of_area[is_some] - numbers.start
            sums = solved.sums(some, [row for row, _ in rows])
            determined, n_programs = determine_cells(some, solved, sums, n_programs)
            explained = np.zeros_like(determined.is_known)
            n_areas = np.bincount(numbered, minlength=len(explained))
            for known in sums:
                cells = known.row.cells
                small_sums[cells] = small_sums[cells].with_more(known.values, n_areas)
                if len(cells) > 1:
                    explained[np.ix_(known.values == 0, cells)] = True
            is_disclosed = determined.is_known & ~declared
            kinds.append(AreaKinds(group.places[is_some], numbered, _packed(determined), is_disclosed, explained))
    exact = [known for known in small_sums.values() if known.n_known]
    sums_shown = tuple(known for known in exact if known.n_zero or known.n_one or not known.is_stated)
    summary = _summary(name, len(labels), schema.n_cells, kinds, sums_shown)
    return Disclosure(schema, labels, summary, tuple(kinds))


def _packed(determined: DeterminedCells) -> DeterminedCells:
    """Return the same with values in as few bits as they need."""
    values = determined.values
    if values.dtype == object or not values.size:
        return determined
    ends = np.array([values.min(), values.max()])
    return replace(determined, values=values.astype(np.result_type(*map(np.min_scalar_type, ends.tolist()))))


def _summary(
    name: str | None, n_areas: int, n_cells: int, kinds: Sequence[AreaKinds], sums: tuple[SmallSum, ...]
) -> DisclosureSummary:
    """Add up what is disclosed in every kind of area."""

    def total_of(count: Callable[[AreaKinds], ArrayLike]) -> int:
        return sum(int(some.n_areas @ np.asarray(count(some), np.int64)) for some in kinds)

    return DisclosureSummary(
        area=name,
        n_areas=n_areas,
        n_cells=n_cells,
        n_with_exact=total_of(lambda some: some.has_disclosed),
        n_all_exact=total_of(lambda some: some.determined.is_known.all(axis=1) & some.has_disclosed),
        n_exact=total_of(lambda some: some.is_disclosed.sum(axis=1)),
        n_exact_not_zero=total_of(lambda some: (some.is_disclosed & (some.determined.values != 0)).sum(axis=1)),
        n_open=total_of(lambda some: ~some.determined.is_settled),
        sums=sums,
    )


def _declared(schema: Schema, conditions: Sequence[Condition]) -> NDArray[np.bool_]:
    """Return the cells that conditions fix by themselves, whatever the data are."""
    stated = [condition for condition in conditions if condition.is_stated and not condition.needs_others]
    limits = compile_conditions(schema, stated, None).limits
    return np.array([interval.is_point for interval in limits], np.bool_)


# What exact numbers disclose, in sentences: counted over areas, with cells by name where there are few.

FOLLOWS = "Exact too, because it follows"
"""How the line begins that lists sums which follow from the stated ones."""

_FEW = 20  # cells that are listed one by one
_SHOWN = 8
_TOP = "at the top"  # of a tree with one unit there, which has no name
_MOST_LINES = 5  # of one kind


def sentences(disclosure: Disclosure, unit: str = "record") -> list[str]:
    """Return a disclosure in sentences, the most areas first.

    Parameters
    ----------
    unit : str
        What a protected unit is called.

    Examples
    --------
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> conditions = [total(), total({"age": "18+"})]
    >>> tables = {f"block {n}": [n % 4, 2, 0, n % 3] for n in range(96)}
    >>> for line in sentences(disclosure_of(Areas.disclosed(schema, conditions, tables, name="block"), conditions)):
    ...     print(line)
    In 24 of 96 areas (25 %) age=0-17 is 0: its 2 cells are exact
    In 24 of 96 areas (25 %) age=0-17 is 1: what is exact there is about one record
    Exact too, because it follows: age=0-17
    """
    summary = disclosure.summary
    if summary.area is None or summary.n_exact <= _FEW:
        lines = [_listed("The invariants give away", _named(disclosure), summary.n_exact)] if summary.n_exact else []
        lines += _ones(summary, unit)
    else:
        n_all = summary.n_all_exact
        every = [f"{_in_areas(summary, n_all)} every cell is exact"] if n_all else []
        lines = [*_zeros(summary), *every, *_ones(summary, unit), *_unexplained(disclosure)]
    follows = [known.text for known in summary.sums if not known.is_stated and known.n_known == summary.n_areas]
    if follows:
        lines.append(_listed(FOLLOWS, follows, len(follows)))
    if summary.n_open:
        lines.append(f"{_in_areas(summary, summary.n_open)} further cells may be exact: no search settled it")
    return lines


def level_sentences(disclosures: Sequence[Disclosure], unit: str = "record") -> list[str]:
    """Return the sentences of each level of a tree, after the name of the level; of one level, its sentences."""
    if len(disclosures) == 1:
        return sentences(disclosures[0], unit)
    return [
        f"{disclosure.summary.area or _TOP}: {line}"
        for disclosure in disclosures
        for line in sentences(disclosure, unit)
    ]


def _named(disclosure: Disclosure) -> Iterator[str]:
    for area, cell, value in disclosure.cells():
        where = "" if area is None else f"{disclosure.summary.area} {area}: "
        yield f"{where}{disclosure.schema.cell_name(cell)} = {value:,}"


def _zeros(summary: DisclosureSummary) -> list[str]:
    zeros = sorted(
        (known for known in summary.sums if known.n_zero and known.n_cells > 1), key=lambda known: -known.n_zero
    )
    lines = [
        f"{_in_areas(summary, known.n_zero)} {known.text} is 0: its {known.n_cells:,} cells are exact"
        for known in zeros[:_MOST_LINES]
    ]
    return lines + _more(len(zeros), "sums are 0 in some areas")


def _ones(summary: DisclosureSummary, unit: str) -> list[str]:
    ones = sorted((known for known in summary.sums if known.n_one), key=lambda known: -known.n_one)
    if summary.area is None:
        return [f"{known.text} is 1: what is exact is about one {unit}" for known in ones[:_MOST_LINES]]
    lines = [
        f"{_in_areas(summary, known.n_one)} {known.text} is 1: what is exact there is about one {unit}"
        for known in ones[:_MOST_LINES]
    ]
    return lines + _more(len(ones), "sums are 1 in some areas")


def _unexplained(disclosure: Disclosure) -> list[str]:
    """Say which cells are exact though no sum of several cells with them is 0."""
    n_exact, n_not_zero = np.zeros((2, disclosure.schema.n_cells), np.int64)
    for kinds in disclosure.kinds:
        is_unexplained = kinds.is_disclosed & ~kinds.is_explained
        n_exact += kinds.n_areas @ is_unexplained
        n_not_zero += kinds.n_areas @ (is_unexplained & (kinds.determined.values != 0))
    ranked = [cell for cell in np.lexsort((-n_exact, -n_not_zero)).tolist() if n_exact[cell]]
    names = cell_names(disclosure.schema, ranked[:_MOST_LINES])
    lines = [
        f"{_in_areas(disclosure.summary, int(n_exact[cell]))} the cell {name} is exact, though no sum with it is 0; in"
        f" {int(n_not_zero[cell]):,} of them it is not 0"
        for cell, name in zip(ranked, names, strict=False)
    ]
    return lines + _more(len(ranked), "cells are exact in some areas though no sum with them is 0")


def _more(n: int, what: str) -> list[str]:
    return [f"{n - _MOST_LINES:,} more {what}"] if n > _MOST_LINES else []


def _in_areas(summary: DisclosureSummary, n: int) -> str:
    share = 100 * n / summary.n_areas
    text = f"{share:.0f} %" if share >= 1 else "under 1 %"
    return f"In {n:,} of {summary.n_areas:,} areas ({text})"


def _listed(head: str, texts: Iterable[str], n: int) -> str:
    more = f" and {n - _SHOWN:,} more" if n > _SHOWN else ""
    return f"{head}: {'; '.join(islice(texts, _SHOWN))}{more}"
