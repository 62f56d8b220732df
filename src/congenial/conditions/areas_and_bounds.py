"""What the table of every area obeys. Areas whose conditions differ only in values share all that follows from rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import CodeTexts
from congenial.conditions.base import ByArea, Condition
from congenial.conditions.compile import compile_conditions
from congenial.conditions.constraints import CellBounds, Constraints
from congenial.conditions.grouped_cells_and_lattice import ROUNDS
from congenial.conditions.integer_program import FAR
from congenial.conditions.queries import Query
from congenial.conditions.rows_and_intervals import Interval, Limited, Row, row_values
from congenial.errors import ConditionError
from congenial.memory_and_threads import parts_of
from congenial.safe_text import LONGEST, explain_invalid, shows
from congenial.schema import Schema

Area = str | None
"""An area's label; None where there is one table."""

Pattern = tuple[tuple[Row | Limited, ...], tuple[Interval, ...]]
"""Everything that constraints say but the values of their equalities."""


def pattern_of(constraints: Constraints) -> Pattern:
    """Return what constraints may have in common with those of other areas: rows and limits, no disclosed value."""
    return tuple(row.row if row.is_equality else row for row in constraints.rows), constraints.limits


@dataclass(frozen=True, eq=False)
class AreaGroup:
    """Areas whose constraints differ only in the values of their equalities.

    Attributes
    ----------
    pattern : Constraints
        Those of one of these areas.
    places : array (area of the group,)
        Where each of them stands among all areas.
    values : array (area of the group, equality)
        What its equalities must be, in the order of `pattern.equalities`.
    """

    pattern: Constraints
    places: Ints
    values: Ints

    def constraints(self, number: int) -> Constraints:
        """Return the constraints of one area of the group."""
        values = iter(self.values[number].tolist())
        rows = tuple(
            Limited.equal(limited.row, int(next(values))) if limited.is_equality else limited
            for limited in self.pattern.rows
        )
        return Constraints(self.pattern.schema, rows, self.pattern.limits)

    def part(self, numbers: slice) -> "AreaGroup":
        """Return some areas of the group."""
        return AreaGroup(self.pattern, self.places[numbers], self.values[numbers])

    @property
    def ranges_of_values(self) -> tuple[Interval, ...]:
        """What each equality must be, from its least over these areas to its largest."""
        return tuple(Interval(int(column.min()), int(column.max())) for column in self.values.T)

    def holds(self, tables: Ints) -> NDArray[np.bool_]:
        """Say of one table for each area of the group (area, cell) whether it obeys that area's constraints."""
        open_rows = replace(self.pattern, rows=self.pattern.ranges)
        answers = np.asarray(open_rows.holds(tables))
        equalities = self.pattern.equalities
        if equalities:
            answers &= (row_values([limited.row for limited in equalities], tables) == self.values).all(axis=1)
        return answers


@dataclass(frozen=True, eq=False)
class Areas(Mapping[Area, Constraints]):
    """The constraints of every area, in the declared order; of one table under the label None. Public.

    Attributes
    ----------
    name : str or None
        What an area is called, such as county; None for one table.
    labels : tuple of str, or (None,); of the units of a level of a tree, their codes as texts
    groups : tuple of AreaGroup

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> schema = Schema({"sex": ["female", "male"]})
    >>> areas = Areas.disclosed(schema, [total()], {"north": [3, 4], "south": [0, 9]}, name="region")
    >>> areas
    2 areas, one for each region, in 1 group
    >>> areas["south"].equalities[0].lower
    9
    """

    name: str | None
    labels: Sequence[Area]
    groups: tuple[AreaGroup, ...]

    def __post_init__(self) -> None:
        if isinstance(self.labels, CodeTexts):  # those of a tree, which has looked at them
            return
        texts = [label or "" for label in (self.name, *self.labels)]
        # All at once: one by one, a million labels take half a second.
        if max(map(len, texts)) > LONGEST or not shows("".join(texts)):
            for text in texts:
                if wrong := explain_invalid(text, f"the area {text[:40]!r}"):
                    raise ConditionError(wrong)

    @classmethod
    def one(cls, constraints: Constraints) -> "Areas":
        """Return the constraints of one table."""
        return cls.collected(None, {None: constraints})

    @classmethod
    def collected(cls, name: str | None, constraints: Mapping[Area, Constraints]) -> "Areas":
        """Return given constraints, those of one pattern together."""
        if not constraints or (name is None) != (list(constraints) == [None]):
            raise ConditionError("several areas need a name for what they are, such as county; one table has none")
        members: dict[Pattern, list[int]] = {}
        known = list(constraints.values())
        for place, of_area in enumerate(known):
            members.setdefault(pattern_of(of_area), []).append(place)
        groups = []
        for places in members.values():
            values = [[limited.lower or 0 for limited in known[place].equalities] for place in places]
            groups.append(AreaGroup(known[places[0]], np.array(places, np.int64), _table_of(values)))
        return cls(name, tuple(constraints), tuple(groups))

    @classmethod
    def disclosed(
        cls, schema: Schema, conditions: Sequence[Condition], tables: Mapping[str, Sequence[int] | Ints], *, name: str
    ) -> "Areas":
        """Return the conditions at each table's own values; those are public from here on."""
        counts = np.array([np.asarray(table, np.int64).reshape(-1) for table in tables.values()])
        return cls.of_counts(schema, conditions, tuple(tables), counts, name=name)

    @classmethod
    def of_counts(
        cls, schema: Schema, conditions: Sequence[Condition], labels: Sequence[str], counts: Ints, *, name: str
    ) -> "Areas":
        """Return the same from the tables of all areas (area, cell)."""
        if not labels:
            raise ConditionError("there are no areas; give a table for each")
        for label in labels:
            if type(label) is not str:
                raise ConditionError(f"the label of an area is text, and {label!r} is not")
        if all(condition.is_same_for_all(schema) for condition in conditions):
            # Rows and limits are the same whatever the counts are: one compilation serves all areas (1 ms each else).
            pattern = Constraints.of(schema, conditions, counts[0].tolist())
            equalities = [limited.row for limited in pattern.equalities]
            values = [row_values(equalities, counts[part]) for part in parts_of(len(counts))]
            group = AreaGroup(pattern, np.arange(len(counts)), np.concatenate(values))
            for part in parts_of(len(counts)):
                is_right = group.part(part).holds(counts[part]) & _obeys_stated(schema, conditions, counts[part])
                for place in np.flatnonzero(~is_right)[:1]:
                    table = counts[part][place].tolist()
                    compile_conditions(schema, conditions, table)  # the error names the condition, not the area
                    raise ConditionError("a confidential table does not obey the conditions that are stated")
            return cls(name, tuple(labels), (group,))
        by_label: dict[Area, Constraints] = {}
        for label, line in zip(labels, counts.tolist(), strict=True):
            for condition in conditions:
                if isinstance(condition, ByArea):
                    condition.check_table(schema, label, line)
            by_label[label] = Constraints.of(schema, [condition.of_area(label) for condition in conditions], line)
        return cls.collected(name, by_label)

    @cached_property
    def places(self) -> dict[Area, int]:
        """The position of each area; computed on demand, because there may be millions."""
        return {label: place for place, label in enumerate(self.labels)}

    def __getitem__(self, area: Area) -> Constraints:
        return self.at(self.places[area])

    def at(self, place: int) -> Constraints:
        """Return the constraints of the area that stands there."""
        group = self.groups[int(self.group_numbers[place])]
        return group.pattern if len(self.labels) == 1 else group.constraints(int(np.searchsorted(group.places, place)))

    def group_of(self, area: Area) -> int:
        """Return which group an area is in."""
        return int(self.group_numbers[self.places[area]])

    @cached_property
    def exact_rows(self) -> tuple[tuple[Row, ...], Ints]:
        """The rows that are exact in every area, those of one group after the other's, with their values (area, row).

        A row that a group does not list follows there from cells that are fixed.
        """
        rows = {
            (limited.row.cells, limited.row.coefficients): limited.row
            for group in self.groups
            for limited in group.pattern.equalities
        }
        values = np.zeros((len(self.labels), len(rows)), np.int64)
        for group in self.groups:
            listed = [(limited.row.cells, limited.row.coefficients) for limited in group.pattern.equalities]
            for number, (key, row) in enumerate(rows.items()):
                if key in listed:
                    values[group.places, number] = group.values[:, listed.index(key)]
                elif all(group.pattern.is_fixed(cell) for cell in row.cells):
                    values[group.places, number] = row.value([end or 0 for end in group.pattern.lower])
                else:
                    raise ConditionError(
                        f"{row.name} is exact in some units and, beside structural zeros, another sum is in others:"
                        " give all units at the top the same zeros, or zeros of all cells of an exact sum"
                    )
        return tuple(rows.values()), values

    def first_groups(self, n: int) -> tuple[AreaGroup, ...]:
        """Return the groups of the first so many areas."""
        parts = (group.part(slice(0, int(np.searchsorted(group.places, n)))) for group in self.groups)
        return tuple(part for part in parts if len(part.places))

    def by_label(self, tables: Ints) -> "TablesByLabel":
        """Return one table for each area (area, cell), in the declared order, as a mapping."""
        return TablesByLabel(self, tables)

    def __iter__(self) -> Iterator[Area]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def holds(self, tables: Ints) -> NDArray[np.bool_]:
        """Say of one table for each area (area, cell), in the declared order, whether it obeys its constraints."""
        answers = np.ones(len(self.labels), bool)
        for group in self.groups:
            for numbers in parts_of(len(group.places)):
                some = group.part(numbers)
                answers[some.places] = some.holds(tables[some.places])
        return answers

    @cached_property
    def group_numbers(self) -> Ints:
        """Which group each area is in (area,)."""
        numbers = np.zeros(len(self.labels), np.int64)
        for number, group in enumerate(self.groups):
            numbers[group.places] = number
        return numbers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Areas) or (self.name, self.labels) != (other.name, other.labels):
            return False
        return len(self.groups) == len(other.groups) and all(map(_is_same, self.groups, other.groups))

    __hash__ = None  # type: ignore[assignment]  # arrays inside

    def __repr__(self) -> str:
        if self.name is None:
            return "one table"
        groups = "1 group" if len(self.groups) == 1 else f"{len(self.groups):,} groups"
        return f"{len(self.labels):,} areas, one for each {self.name}, in {groups}"


@dataclass(frozen=True, eq=False)
class TablesByLabel(Mapping[Area, Ints]):
    """Tables of areas, found by label: lines of one array (area, cell)."""

    areas: Areas
    counts: Ints = field(repr=False)

    def __getitem__(self, area: Area) -> Ints:
        line: Ints = self.counts[self.areas.places[area]]
        return line

    def __iter__(self) -> Iterator[Area]:
        return iter(self.areas.labels)

    def __len__(self) -> int:
        return len(self.areas)


def _is_same(first: AreaGroup, second: AreaGroup) -> bool:
    return (
        pattern_of(first.pattern) == pattern_of(second.pattern)
        and np.array_equal(first.places, second.places)
        and np.array_equal(first.values, second.values)
    )


def _table_of(values: Sequence[Sequence[int]]) -> Ints:
    """Return whole numbers as an array (area, equality), in 64 bits where they fit."""
    fits = all(abs(value) < 2**62 for line in values for value in line)
    return np.array(values, np.int64 if fits else object).reshape(len(values), -1)


def _obeys_stated(schema: Schema, conditions: Sequence[Condition], counts: Ints) -> NDArray[np.bool_]:
    """Say of each table whether its sums have the values that conditions state."""
    stated = [query for query in conditions if isinstance(query, Query) and query.is_stated]
    limits = [limited for query in stated for limited in query.limits(schema, None)]
    if not limits:
        return np.ones(len(counts), bool)
    values = np.array([limited.lower for limited in limits], object)
    answers: NDArray[np.bool_] = (row_values([limited.row for limited in limits], counts) == values).all(axis=1)
    return answers


# Limits of cells for many tables of one pattern at once: interval propagation on arrays, a line a table.

NONE = 2**62
"""Stands for no limit, above; its negative for none below."""

_SAFE = 2**59


@dataclass(frozen=True)
class AreaBounds:
    """The limits of every cell of every table, as `Constraints.quick_bounds` has them for one.

    Cells with equal columns and equal stated limits share a line of the arrays.

    Attributes
    ----------
    line_of_cell : array (cell,)
    lows, highs : arrays (line, table)
        Minus and plus `NONE` where there is no limit.
    """

    line_of_cell: Ints
    lows: Ints
    highs: Ints

    @property
    def low(self) -> Ints:
        """The lower limit of each cell (table, cell)."""
        return self._of_cells(self.lows)

    @property
    def high(self) -> Ints:
        """The upper limit of each cell (table, cell)."""
        return self._of_cells(self.highs)

    @property
    def pinned_lines(self) -> NDArray[np.bool_]:
        """Lines with one possible value (table, line)."""
        is_pinned: NDArray[np.bool_] = (self.lows == self.highs).T
        return is_pinned

    @property
    def pinned(self) -> NDArray[np.bool_]:
        """Cells with one possible value (table, cell)."""
        return self.pinned_lines[:, self.line_of_cell]

    def widest(self, places: Ints) -> Ints:
        """Return how many values above its least each cell can have in some tables (cell,); `NONE` without limit."""
        lows, highs = self.lows[:, places], self.highs[:, places]
        is_open = (lows == -NONE) | (highs == NONE)
        widths: Ints = np.where(is_open, NONE, highs - np.where(is_open, 0, lows)).max(axis=1)
        return widths[self.line_of_cell]

    def _of_cells(self, lines: Ints) -> Ints:
        return np.take(np.ascontiguousarray(lines.T), self.line_of_cell, axis=1)


def quick_bounds(group: AreaGroup) -> AreaBounds:
    """Return the limits of cells in every area of a group."""
    pattern, values = group.pattern, group.values
    rows = pattern.grouped.rows
    ends = [end for row in rows for end in (row.lower, row.upper) if end is not None]
    ends += [end for side in (pattern.lower, pattern.upper) for end in side if end is not None]
    sizes = [sum(map(abs, row.terms.values())) for row in rows]
    largest = max([abs(end) for end in ends] + [int(np.abs(values).max(initial=0))], default=0)
    if values.dtype == object or max([*sizes, pattern.schema.n_cells]) * max(largest, 1) >= _SAFE:
        return _one_by_one(group)
    n_tables = len(values)
    low, high = (
        np.repeat(np.array([[missing if end is None else end] for end in side], np.int64), n_tables, axis=1)
        for side, missing in zip(pattern.grouped.box, (-NONE, NONE), strict=True)
    )
    limits: list[tuple[dict[int, int], Ints]] = []
    equal = iter(values.T)
    for row in rows:
        value = np.ascontiguousarray(next(equal)) if row.is_equality else None
        for sign, end in ((1, row.upper), (-1, row.lower)):
            if end is not None:
                limit = np.full(n_tables, end) if value is None else value
                limits.append(({g: sign * times for g, times in row.terms.items()}, sign * limit))
    read = [{(g, times < 0) for g, times in coefficients.items()} for coefficients, _ in limits]
    waiting = set(range(len(limits)))  # those that read an end which has become narrower
    for _ in range(ROUNDS):
        for number in sorted(waiting):
            coefficients, limit = limits[number]
            waiting.remove(number)
            if not _fits(coefficients, low, high):
                return _one_by_one(group)
            narrowed = _narrow(coefficients, limit, low, high)
            waiting |= {other for other, ends in enumerate(read) if not ends.isdisjoint(narrowed)}
        if not waiting:
            break
    return _of_cells(group, low, high)


def _fits(coefficients: dict[int, int], low: Ints, high: Ints) -> bool:
    """Whether 64 bits hold the sum: limits that follow can be far larger than those that are stated."""
    largest = 0
    for g, c in coefficients.items():
        sizes = np.abs((low if c > 0 else high)[g])
        sizes[sizes == NONE] = 0
        largest = max(largest, int(sizes.max(initial=0)))
    return sum(map(abs, coefficients.values())) * largest < NONE


def _narrow(coefficients: dict[int, int], limit: Ints, low: Ints, high: Ints) -> set[tuple[int, bool]]:
    """Narrow by ``sum coefficients[g] * y[g] <= limit`` in every table: each term leaves room for the others.

    Returns which ends have become narrower in some table: the group, and whether it is the upper end.
    """
    n_open, known = np.zeros(len(limit), np.int64), np.zeros(len(limit), np.int64)
    least: dict[int, tuple[Ints, NDArray[np.bool_]]] = {}
    for g, c in coefficients.items():
        end = (low if c > 0 else high)[g]
        is_open = np.abs(end) == NONE
        term = np.where(is_open, 0, c * end)
        least[g] = term, is_open
        n_open += is_open
        known += term
    narrowed = set[tuple[int, bool]]()
    for g, c in coefficients.items():
        term, is_open = least[g]
        room = limit - known + term
        side, end = (high[g], room // c) if c > 0 else (low[g], -(room // -c))
        better = (n_open == is_open) & (np.abs(end) < FAR) & (end < side if c > 0 else end > side)
        if better.any():
            side[better] = end[better]
            narrowed.add((g, c > 0))
    return narrowed


def _of_cells(group: AreaGroup, group_low: Ints, group_high: Ints) -> AreaBounds:
    """Return the limits of cells, given those of sums over cells with equal columns: the others take the slack."""
    pattern = group.pattern
    line_of_cell = np.empty(pattern.schema.n_cells, np.int64)
    lows, highs = list[Ints](), list[Ints]()
    for number, cells in enumerate(pattern.grouped.members):
        lowers, uppers = ([side[cell] for cell in cells] for side in (pattern.lower, pattern.upper))
        some_least, some_most = (sum(end for end in side if end is not None) for side in (lowers, uppers))
        own_low, own_high = group_low[number], group_high[number]
        known: dict[tuple[int | None, int | None], int] = {}
        for cell, lower, upper in zip(cells, lowers, uppers, strict=True):
            line_of_cell[cell] = known.setdefault((lower, upper), len(lows))
            if line_of_cell[cell] < len(lows):
                continue
            ends = -NONE if lower is None else lower, NONE if upper is None else upper
            low, high = (np.full(len(own_low), end) for end in ends)
            if uppers.count(None) == (upper is None):
                better = np.where(own_low == -NONE, -NONE, own_low - (some_most - (upper or 0)))
                np.maximum(low, better, out=low)
            if lowers.count(None) == (lower is None):
                better = np.where(own_high == NONE, NONE, own_high - (some_least - (lower or 0)))
                np.minimum(high, better, out=high)
            lows.append(low)
            highs.append(high)
    return AreaBounds(line_of_cell, np.array(lows), np.array(highs))


def _one_by_one(group: AreaGroup) -> AreaBounds:
    """Return the same in Python's integers, where 64 bits might not hold them; what they do not hold has no limit."""
    all_bounds: list[CellBounds] = [group.constraints(number).quick_bounds for number in range(len(group.places))]

    def fitted(end: int | None, missing: int) -> int:
        return missing if end is None or abs(end) >= NONE else end

    lows = np.array([[fitted(end, -NONE) for end in bounds.lower] for bounds in all_bounds], np.int64).T
    highs = np.array([[fitted(end, NONE) for end in bounds.upper] for bounds in all_bounds], np.int64).T
    return AreaBounds(np.arange(group.pattern.schema.n_cells), lows, highs)
