"""Which cells the conditions determine, in all areas of a group at once: no noise protects them.

Limits are narrowed on arrays, a line an area, by the stated rows and by sums that follow from them. Where the rows
leave each group of cells a known sum, or are both margins of complete two-way tables, what comes out are the tightest
limits there are (Fréchet's), so nothing is missed. Elsewhere integer programs settle the first areas that differ, and
the number of areas that remain open is reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints, distinct_rows
from congenial.conditions.areas_and_bounds import AreaGroup, quick_bounds
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import dependence, reduced
from congenial.conditions.rows_and_intervals import Limited, Row, cells_alike, connected_parts, dense

# Sums of cells whose values follow from the equalities: one elimination serves all areas of a pattern.

_LARGE = 2**20  # multiples of equalities: sums of cells have small ones
_SAFE = 2**52  # products of whole numbers below it are whole in doubles, which multiply quickly


@dataclass(frozen=True)
class ImpliedSum:
    """A sum of cells with its value in every area of a group (area,)."""

    row: Row
    values: Ints


@dataclass(frozen=True, eq=False)
class SolvedEqualities:
    """The equalities of a pattern, reduced: what follows from them is read off.

    Attributes
    ----------
    members : tuple of tuples of cells
        Cells that are not fixed by themselves, those with equal columns together.
    reduced : array (line, group)
        Reduced lines, times `scale`; each begins where no other has anything.
    starts : array (line,)
        The group that a line begins with.
    multiples : array (line, equality)
        What of each equality a line is made of, times `scale`.

    Examples
    --------
    >>> from congenial.conditions.areas_and_bounds import Areas
    >>> from congenial.conditions.queries import margin, total
    >>> from congenial.schema import Schema
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> tables = {"north": [3, 4, 5, 6], "south": [0, 1, 2, 3]}
    >>> areas = Areas.disclosed(schema, [total(), margin("sex")], tables, name="region")
    >>> group = areas.groups[0]
    >>> rows = [*margin("sex").rows(schema), *margin("age").rows(schema)]
    >>> [(known.row.name, known.values.tolist()) for known in SolvedEqualities.of(group.pattern).sums(group, rows)]
    [('sex=female', [7, 1]), ('sex=male', [11, 5])]
    """

    pattern: Constraints
    members: tuple[tuple[int, ...], ...]
    reduced: Ints
    starts: Ints
    multiples: Ints
    scale: int

    @classmethod
    def of(cls, pattern: Constraints) -> "SolvedEqualities":
        """Reduce the equalities of a pattern; where the numbers are too large for this, nothing follows."""
        rows = [limited.row for limited in pattern.equalities]
        alike = cells_alike(rows, pattern.schema.n_cells).values()
        loose = (tuple(cell for cell in cells if not pattern.is_fixed(cell)) for cells in alike)
        members = tuple(cells for cells in loose if cells)
        no_lines = np.zeros((0, len(members)), np.int64), np.zeros(0, np.int64), np.zeros((0, len(rows)), np.int64)
        nothing = cls(pattern, members, *no_lines, 1)
        if not rows or not members:
            return nothing
        lines, multiples, scale = reduced(dense(rows, pattern.schema.n_cells)[:, [cells[0] for cells in members]])
        if not lines or max(abs(entry) for line in (*lines, *multiples, [scale]) for entry in line) >= _LARGE:
            return nothing
        matrix = np.array(lines, np.int64)
        return cls(pattern, members, matrix, np.argmax(matrix != 0, axis=1), np.array(multiples, np.int64), scale)

    def sums(self, group: AreaGroup, rows: Sequence[Row]) -> list[ImpliedSum]:
        """Return those of some rows that the equalities and the fixed cells determine, in every area of a group."""
        if not rows:
            return []
        matrix = dense(rows, self.pattern.schema.n_cells)
        firsts = matrix[:, [cells[0] for cells in self.members]]
        loose = [cell for cells in self.members for cell in cells]
        sizes = [len(cells) for cells in self.members]
        is_even = (matrix[:, loose] == np.repeat(firsts, sizes, axis=1)).all(axis=1)
        times = firsts[:, self.starts]
        if np.abs(times).max(initial=0) * np.abs(self.reduced).max(initial=1) * max(1, len(self.reduced)) >= _SAFE:
            return []
        combined = np.rint(times.astype(np.float64) @ self.reduced.astype(np.float64)).astype(np.int64)
        implied = np.flatnonzero(is_even & (combined == self.scale * firsts).all(axis=1)).tolist()
        return [ImpliedSum(rows[number], self._values(group, matrix[number], times[number])) for number in implied]

    def group_sums(self, group: AreaGroup) -> list[ImpliedSum]:
        """Return the groups of cells whose sum the equalities determine."""
        alone = np.flatnonzero((self.reduced != 0).sum(axis=1) == 1)
        return self.sums(group, [Row.of("", self.members[start]) for start in self.starts[alone].tolist()])

    def _values(self, group: AreaGroup, coefficients: Ints, times: Ints) -> Ints:
        fixed = np.array(self.pattern.fixed_cells, np.int64)
        amounts = np.array([self.pattern.lower[cell] for cell in fixed.tolist()], group.values.dtype)
        rows = dense([limited.row for limited in self.pattern.equalities], len(coefficients))
        of_loose = group.values - rows[:, fixed] @ amounts
        return np.asarray(of_loose @ (times @ self.multiples) // self.scale + coefficients[fixed] @ amounts)


def with_sums(group: AreaGroup, sums: Sequence[ImpliedSum]) -> AreaGroup:
    """Return a group that states sums which follow as rows of their own: limits of cells are narrowed by them, too."""
    if not sums:
        return group
    stated = tuple(Limited.equal(known.row, int(known.values[0])) for known in sums)
    pattern = replace(group.pattern, rows=(*group.pattern.rows, *stated))
    return AreaGroup(pattern, group.places, np.column_stack([group.values, *(known.values for known in sums)]))


MOST_PROGRAMS = 60
"""Areas settled by integer programs, at some 30 milliseconds each; those with the same values count once."""


@dataclass(frozen=True, eq=False)
class DeterminedCells:
    """What the conditions say of single cells in each area of a group.

    Attributes
    ----------
    is_known : array (area, cell)
        Whether a cell can have one value only.
    values : array (area, cell)
        What it is then; 0 elsewhere.
    is_settled : array (area,)
        Whether it is proven that no other cell of the area has one value only.
    """

    is_known: NDArray[np.bool_]
    values: Ints
    is_settled: NDArray[np.bool_]


def determine_cells(
    group: AreaGroup, solved: SolvedEqualities, sums: Sequence[ImpliedSum], n_programs: int
) -> tuple[DeterminedCells, int]:
    """Return the determined cells of a group, and how many integer programs are left to spend.

    Parameters
    ----------
    group : AreaGroup
        Areas that differ in values: `distinct` makes one of each kind.
    solved : SolvedEqualities
        The equalities of the group's pattern.
    sums : sequence of ImpliedSum
        What is known to follow from them; limits are narrowed by it.
    n_programs : int
        How many areas may be settled by integer programs.
    """
    group_sums = solved.group_sums(group)
    wider = with_sums(group, [*sums, *group_sums])
    bounds = quick_bounds(wider)
    known = bounds.pinned
    values = np.where(known, bounds.low, 0)
    if is_tight(wider.pattern, {known.row.cells for known in group_sums}):
        return DeterminedCells(known, values, np.ones(len(known), np.bool_)), n_programs
    is_settled: NDArray[np.bool_] = np.asarray(known.all(axis=1))
    for place in np.flatnonzero(~is_settled)[:n_programs].tolist():
        proven = group.constraints(place).cell_bounds
        pinned = list(proven.pinned)
        known[place, pinned], values[place, pinned] = True, [proven.lower[cell] for cell in pinned]
        open_cells = [cell for cell, limits in enumerate(proven.limits) if not limits.is_point]
        is_settled[place] = all(proven.is_tight[cell] or proven.limits[cell].high is None for cell in open_cells)
        n_programs -= 1
    return DeterminedCells(known, values, is_settled), n_programs


def distinct(group: AreaGroup) -> tuple[AreaGroup, Ints]:
    """Return a group with one area of each kind, and which kind every area is of: equal values, equal cells."""
    n_areas = len(group.places)
    if group.values.dtype == object:
        return group, np.arange(n_areas)
    values, kinds = distinct_rows(group.values)
    first = np.empty(len(values), np.int64)
    first[kinds[::-1]] = np.arange(n_areas)[::-1]  # of areas of one kind the last that is set counts
    return AreaGroup(group.pattern, group.places[first], values), kinds


def is_tight(pattern: Constraints, known: set[tuple[int, ...]]) -> bool:
    """Whether narrowing finds the tightest limits: known sums, cells in no row, and complete two-way tables alone.

    Parameters
    ----------
    known : set of tuples of cells
        Groups of cells whose sum is known.
    """
    loose_limits = [interval for interval in pattern.limits if not interval.is_point]
    if pattern.ranges or any(interval.low is None or interval.high is not None for interval in loose_limits):
        return False
    loose = [tuple(cell for cell in cells if not pattern.is_fixed(cell)) for cells in pattern.grouped.members]
    lines = [{g: times for g, times in row.terms.items() if loose[g]} for row in pattern.grouped.rows]
    plain = [line for line in lines if set(line.values()) == {1}]
    if dependence(plain).rank < dependence(lines).rank:  # a share, for one, that does not come down to sums
        return False
    open_groups = {g for g, cells in enumerate(loose) if cells and cells not in known}
    families = {frozenset(line) & open_groups for line in plain} - {frozenset()}
    parts = connected_parts(families, sorted(frozenset().union(*families)))
    return all(_is_two_way({family for family in families if not family.isdisjoint(part)}) for part in parts)


def _is_two_way(part: set[frozenset[int]]) -> bool:
    """Whether the smallest sums are the lines and columns of a table in which every pair meets in one group.

    The others must follow from these, as the sum of all does.
    """
    smallest = [family for family in part if not any(other < family for other in part)]
    lines = [family for family in smallest if family == smallest[0] or not family & smallest[0]]
    columns = [family for family in smallest if family not in lines]
    everything = frozenset().union(*part)
    is_cut = all(
        frozenset().union(*side) == everything and not any(a & b for a, b in combinations(side, 2))
        for side in (lines, columns)
    )
    if not is_cut or any(len(line & column) != 1 for line in lines for column in columns):
        return False
    return dependence([dict.fromkeys(family, 1) for family in part]).rank == len(lines) + len(columns) - 1
