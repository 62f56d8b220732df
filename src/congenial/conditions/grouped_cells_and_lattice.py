"""Exact linear algebra over the integers and rationals (FLINT)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import gcd
from typing import NamedTuple

import flint
import numpy as np

from congenial.arrays import Ints
from congenial.conditions.rows_and_intervals import Interval, Limited, Row, cells_alike, total_interval

# Cells with identical columns act on the rows only through their sum, so one variable stands for all of them.

ROUNDS = 200
"""How often limits are narrowed by all rows in turn, at most: by the integer programs and by the kernels alike."""


class Box(NamedTuple):
    """The limits of every variable, None where there is none.

    Two lists of ends, not one of intervals: narrowing sets single ends, over and over.
    """

    low: list[int | None]
    high: list[int | None]

    @classmethod
    def of(cls, limits: Iterable[Interval]) -> "Box":
        """Return the ends of intervals."""
        listed = list(limits)
        return cls([interval.low for interval in listed], [interval.high for interval in listed])

    @property
    def limits(self) -> list[Interval]:
        """The interval of each variable."""
        return list(map(Interval, self.low, self.high))


@dataclass(frozen=True)
class GroupedSystem:
    """A system of rows and cell limits, with one variable for each set of cells with equal columns.

    Attributes
    ----------
    members : tuple of tuples of int
        The cells of each group.
    rows : tuple of Limited
        Rows over numbers of groups in place of cells.
    box : Box
        The limits of each group's sum.
    """

    members: tuple[tuple[int, ...], ...]
    rows: tuple[Limited, ...]
    box: Box


def group_cells(rows: Sequence[Limited], limits: Sequence[Interval]) -> GroupedSystem:
    """Merge cells whose coefficients agree in every row; a group ranges over the sums of its cells."""
    members = cells_alike([limited.row for limited in rows], len(limits))
    of_row: list[dict[int, int]] = [{} for _ in rows]
    for group, shared in enumerate(members):
        for number, times in shared:
            of_row[number][group] = times
    merged = tuple(Limited(Row.weighted(terms), limited.limits) for terms, limited in zip(of_row, rows, strict=True))
    box = Box.of(total_interval(limits[cell] for cell in cells) for cells in members.values())
    return GroupedSystem(tuple(members.values()), merged, box)


def cell_limits(grouped: GroupedSystem, box: Box, limits: Sequence[Interval]) -> list[Interval]:
    """Return the tightest limits of each cell, given those of its group's sum: the others take the slack."""
    out = list(limits)
    for cells, group_low, group_high in zip(grouped.members, *box, strict=True):
        if len(cells) == 1:
            out[cells[0]] = limits[cells[0]] & Interval(group_low, group_high)
            continue
        free_below = sum(limits[cell].low is None for cell in cells)
        free_above = sum(limits[cell].high is None for cell in cells)
        some_least = sum(value for cell in cells if (value := limits[cell].low) is not None)
        some_most = sum(value for cell in cells if (value := limits[cell].high) is not None)
        for cell in cells:
            interval = limits[cell]
            # What the other cells of the group can hold at most and at least, where that is limited.
            low = high = None
            if group_low is not None and free_above == (interval.high is None):
                low = group_low - (some_most - (interval.high or 0))
            if group_high is not None and free_below == (interval.low is None):
                high = group_high - (some_least - (interval.low or 0))
            out[cell] = interval & Interval(low, high)
    return out


def spread(
    grouped: GroupedSystem, sums: Sequence[int], lower: Sequence[int | None], upper: Sequence[int | None]
) -> tuple[int, ...]:
    """Return cells within their limits that add up to given sums of their groups."""
    out = [0] * len(lower)
    for cells, total in zip(grouped.members, sums, strict=True):
        for cell in cells:
            low, high = lower[cell], upper[cell]
            out[cell] = low if low is not None else min(0, high) if high is not None else 0
        rest = total - sum(out[cell] for cell in cells)
        for cell in cells:
            low, high = lower[cell], upper[cell]
            room = rest if high is None or rest < 0 else min(rest, high - out[cell])
            step = room if rest >= 0 else (rest if low is None else max(rest, low - out[cell]))
            out[cell] += step
            rest -= step
    return tuple(out)


@dataclass(frozen=True)
class Dependence:
    """Which rows of a matrix are independent, and how the others follow from them.

    Attributes
    ----------
    independent : tuple of int
        Row numbers, the earliest possible ones.
    follows : dict
        For every other row its coefficients on the independent ones (zeros left out).
    """

    independent: tuple[int, ...]
    follows: dict[int, dict[int, Fraction]]

    @property
    def rank(self) -> int:
        """Number of independent rows."""
        return len(self.independent)


def dependence(rows: Sequence[Mapping[int, int]]) -> Dependence:
    """Split sparse integer rows into independent ones and consequences, by exact elimination.

    Examples
    --------
    >>> dependence([{0: 1, 1: 1}, {0: 1}, {1: 1}]).follows
    {2: {0: Fraction(1, 1), 1: Fraction(-1, 1)}}
    """
    of_column: dict[int, list[tuple[int, int]]] = {}
    for number, row in enumerate(rows):
        for column, coefficient in row.items():
            of_column.setdefault(column, []).append((number, coefficient))
    if not of_column:
        return Dependence((), {number: {} for number in range(len(rows))})
    # Columns of the transpose are the rows: its pivots are the earliest independent rows. Equal lines say the same, and
    # a table with few invariants has few that differ.
    distinct = sorted({tuple(entries) for entries in of_column.values()})
    transpose = flint.fmpz_mat(len(distinct), len(rows))
    for place, entries in enumerate(distinct):
        for number, coefficient in entries:
            transpose[place, number] = coefficient
    reduced, denominator, rank = transpose.rref()
    pivots: list[int] = []
    for line in range(rank):
        start = pivots[-1] + 1 if pivots else 0
        pivots.append(next(number for number in range(start, len(rows)) if reduced[line, number] != 0))
    follows = {
        number: {
            pivot: Fraction(int(reduced[line, number]), int(denominator))
            for line, pivot in enumerate(pivots)
            if reduced[line, number] != 0
        }
        for number in sorted(set(range(len(rows))) - set(pivots))
    }
    return Dependence(tuple(pivots), follows)


def reduced(matrix: Ints) -> tuple[list[list[int]], list[list[int]], int]:
    """Reduce integer rows by exact elimination; returns lines, what of each row they are made of, and a scale of both.

    Each line begins where no other has anything; lines of nothing but zeros are left out.

    Examples
    --------
    >>> reduced(np.array([[1, 1, 1], [0, 1, 1]]))
    ([[1, 0, 0], [0, 1, 1]], [[1, -1], [0, 1]], 1)
    """
    n_rows, n_columns = matrix.shape
    echelon_form, scale, _ = flint.fmpz_mat(np.hstack([matrix, np.eye(n_rows, dtype=np.int64)]).tolist()).rref()
    lines = [[int(entry) for entry in line] for line in echelon_form.table()]
    lines = [line for line in lines if any(line[:n_columns])]
    return [line[:n_columns] for line in lines], [line[n_columns:] for line in lines], int(scale)


def echelon(equalities: Sequence[Limited]) -> list[Limited]:
    """Return equivalent equalities, each ending at a cell of its own, as early as possible.

    Examples
    --------
    >>> pair = [Limited.equal(Row.of("", [0, 1, 2]), 9), Limited.equal(Row.of("", [1, 2]), 5)]
    >>> [(one.row.cells, one.lower) for one in echelon(pair)]
    [((1, 2), 5), ((0,), 4)]
    """
    cells = sorted({cell for equality in equalities for cell in equality.row.cells}, reverse=True)
    if not cells:
        return []
    entries = []
    for equality in equalities:
        entries += [*(equality.terms.get(cell, 0) for cell in cells), equality.lower or 0]
    reduced, _, rank = flint.fmpz_mat(len(equalities), len(cells) + 1, entries).rref()
    out = []
    for line in range(rank):
        numbers = [int(reduced[line, column]) for column in range(len(cells) + 1)]
        divisor = gcd(*numbers) * (1 if next(filter(None, numbers)) > 0 else -1)
        *reduced_row, value = (number // divisor for number in numbers)
        out.append(Limited.equal(Row.weighted(dict(zip(cells, reduced_row, strict=True))), value))
    return out


@dataclass(frozen=True)
class IntegerSolutions:
    """All integer solutions of equalities: a point plus any integer combination of the basis."""

    point: tuple[int, ...]
    basis: tuple[tuple[int, ...], ...]

    def values(self, coefficients: Mapping[int, int]) -> tuple[int, int]:
        """Return a value of a row and the step between the values it can take (0: it has only this one)."""
        value = sum(times * self.point[g] for g, times in coefficients.items())
        step = gcd(*(sum(times * line[g] for g, times in coefficients.items()) for line in self.basis))
        return value, step

    @cached_property
    def of_variables(self) -> tuple[tuple[int, int], ...]:
        """A value and the step of each variable by itself."""
        return tuple((value, gcd(*(line[g] for line in self.basis))) for g, value in enumerate(self.point))


def integer_solutions(equalities: Sequence[tuple[Mapping[int, int], int]], n: int) -> IntegerSolutions | None:
    """Solve ``sum coefficients[g] * y[g] = value`` over the integers, limits left aside; None when nothing does.

    Examples
    --------
    >>> integer_solutions([({0: 2, 1: 4}, 6)], 2).values({0: 1})
    (1, 2)
    >>> integer_solutions([({0: 2, 1: 4}, 7)], 2) is None
    True
    """
    used = sorted({g for row, _ in equalities for g in row})
    place = {g: position for position, g in enumerate(used)}
    n_equal, width = len(equalities), len(equalities) + 1 + len(used)
    # Unimodular row operations on [equations | multiple of the right-hand side | variables] until the equations are
    # zero: what is left of the other columns is a basis of all (s, y) with A y = s a.
    lines = []
    for g in used:
        unit = [int(other == g) for other in used]
        lines.append([*(row.get(g, 0) for row, _ in equalities), 0, *unit])
    lines.append([*(-value for _, value in equalities), 1, *([0] * len(used))])
    reduced = flint.fmpz_mat(len(lines), width, [entry for line in lines for entry in line]).hnf()
    kernel = [
        [int(reduced[line, column]) for column in range(n_equal, width)]
        for line in range(len(lines))
        if all(reduced[line, column] == 0 for column in range(n_equal))
    ]
    if not kernel or kernel[0][0] != 1:
        return None

    def spread(line: list[int], g: int) -> int:
        return line[1 + place[g]] if g in place else 0

    free = [tuple(int(other == g) for other in range(n)) for g in range(n) if g not in place]
    basis = [tuple(spread(line, g) for g in range(n)) for line in kernel[1:]]
    return IntegerSolutions(tuple(spread(kernel[0], g) for g in range(n)), (*basis, *free))


def solve_equalities(rows: Sequence[Limited], fixed: Mapping[int, int], guess: Sequence[int]) -> list[int] | None:
    """Return an integer point that obeys the equalities exactly, with some variables fixed and free ones as guessed."""
    equal = [row for row in rows if row.is_equality]
    unknown = sorted({g for row in equal for g in row.terms} - set(fixed))
    point = [fixed.get(g, value) for g, value in enumerate(guess)]
    if not equal or not unknown:
        return point
    entries: list[int] = []
    for row in equal:
        settled = sum(times * fixed[g] for g, times in row.terms.items() if g in fixed)
        entries += [*(row.terms.get(g, 0) for g in unknown), (row.lower or 0) - settled]
    reduced, denominator, rank = flint.fmpz_mat(len(equal), len(unknown) + 1, entries).rref()
    for line in range(rank):
        pivot = next(column for column in range(len(unknown) + 1) if reduced[line, column] != 0)
        if pivot == len(unknown):
            return None
        rest = sum(int(reduced[line, c]) * point[unknown[c]] for c in range(pivot + 1, len(unknown)))
        value = Fraction(int(reduced[line, len(unknown)]) - rest, int(denominator))
        if value.denominator != 1:
            return None
        point[unknown[pivot]] = int(value)
    return point


# What equalities together fix: which follow from which, and what they leave another row.


@dataclass(frozen=True)
class Equalities:
    """Rows with one value each.

    Examples
    --------
    >>> both = Row.of("both", [0, 1])
    >>> known = Equalities((Limited.equal(both, 9), Limited.equal(Row.of("first", [0]), 4)))
    >>> known.implied(Row.of("second", [1]))
    Fraction(5, 1)
    >>> known.implied(Row.of("third", [2])) is None
    True
    """

    limits: tuple[Limited, ...] = ()

    @cached_property
    def dependence(self) -> Dependence:
        """Which of them follow from which earlier ones."""
        return dependence([limited.terms for limited in self.limits])

    @property
    def rank(self) -> int:
        """Number of independent ones."""
        return self.dependence.rank

    def implied(self, row: Row) -> Fraction | None:
        """Return the value that they leave a row; None when they leave it several."""
        return self.implied_each([row])[0]

    def implied_each(self, rows: Sequence[Row]) -> list[Fraction | None]:
        """Return the value that they leave each of several rows."""
        if not rows or not self.limits:
            return [None] * len(rows)
        n = len(self.limits)
        follows = dependence([*(limited.terms for limited in self.limits), *(row.terms for row in rows)]).follows
        of_row = [follows.get(n + place) for place in range(len(rows))]
        # What rests on another of the rows is as free as that one: the combination is the only one.
        return [None if how is None or max(how, default=0) >= n else self.combined(how) for how in of_row]

    def combined(self, combination: dict[int, Fraction]) -> Fraction:
        """Return the value of a combination of them."""
        return sum((times * (self.limits[place].lower or 0) for place, times in combination.items()), Fraction(0))


def cells_fixed(limits: Sequence[Interval]) -> list[Limited]:
    """Return the cells whose own limits leave one value, as equalities without a name."""
    return [Limited(Row.of("", [cell]), interval) for cell, interval in enumerate(limits) if interval.is_point]
