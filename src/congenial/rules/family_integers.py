"""Integers within families: a parent's table shared out among its children, nearest to estimates of these.

What is exact in every child decides the method. Nothing: each cell by itself. Sums that are nested: each part of cells
whose sum follows is a transport between children and cells. Sums that cross each other: an integer program.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.rows_and_intervals import Interval
from congenial.errors import ConditionError
from congenial.rules.integer_least_squares import LeastSquares, Variable
from congenial.rules.kernels_family import share_cells, share_with_sums, tie_word
from congenial.rules.rule_and_input import FRACTION_BITS

MOST_SOLVED = 4_000
"""Cells of a family, of all children together, that go to the solver of integer programs."""

_SOLVER_BITS = 24  # of the words there: floats hold them

Cells = tuple[int, ...]


@dataclass(frozen=True)
class HeldPart:
    """Cells that are in the same exact sums: their own sum is that of `row` less those of the rows `inside` it."""

    cells: Cells
    row: int
    inside: tuple[int, ...]

    def sums(self, values: Ints) -> Ints:
        """Return the part's sum in every unit (unit,), from the values of all exact sums (unit, row)."""
        sums: Ints = values[:, self.row] - values[:, list(self.inside)].sum(axis=1)
        return sums


@dataclass(frozen=True)
class ExactCellSums:
    """Which sums of cells are exact in every unit of a level.

    Attributes
    ----------
    rows : tuple of tuples of cells
    n_cells : int

    Examples
    --------
    >>> sums = ExactCellSums(((0, 1, 2, 3), (1, 3)), 5)
    >>> sums.is_nested, [part.cells for part in sums.parts], sums.loose
    (True, [(0, 2), (1, 3)], (4,))
    """

    rows: tuple[Cells, ...]
    n_cells: int

    def __post_init__(self) -> None:
        for cells in self.rows:
            if not cells or len(set(cells)) < len(cells) or not 0 <= min(cells) <= max(cells) < self.n_cells:
                raise ConditionError(
                    f"an exact sum has one or more different cells from 0 to {self.n_cells - 1}, and {cells} is none"
                )

    @property
    def is_nested(self) -> bool:
        """Whether any two sums share no cell, or one is part of the other."""
        sets = [set(cells) for cells in self.rows]
        return all(not (a & b) or a <= b or b <= a for a, b in combinations(sets, 2))

    @property
    def way(self) -> str:
        """How the integers of a family are found, in words.

        Examples
        --------
        >>> for rows in ((), ((0, 1, 2),), ((0, 1),), ((0, 1), (0, 2))):
        ...     print(ExactCellSums(rows, 3).way)
        each cell by itself
        a transport between children and cells for each exact part
        a transport between children and cells for each exact part, other cells by themselves
        an integer program for each family, by a solver
        """
        if not self.is_nested:
            return "an integer program for each family, by a solver"
        if not self.rows:
            return "each cell by itself"
        return "a transport between children and cells for each exact part" + (
            ", other cells by themselves" if self.loose else ""
        )

    @cached_property
    def parts(self) -> tuple[HeldPart, ...]:
        """The cells of nested sums, in parts whose own sum follows."""
        sets = [frozenset(cells) for cells in self.rows]
        members: dict[tuple[int, ...], list[int]] = {}
        for cell in range(self.n_cells):
            having = tuple(number for number, cells in enumerate(sets) if cell in cells)
            if having:
                members.setdefault(having, []).append(cell)
        parts = []
        for having, cells in members.items():
            row = min(having, key=lambda number: len(sets[number]))
            smaller = [number for number, inner in enumerate(sets) if inner < sets[row]]
            outermost = [number for number in smaller if not any(sets[number] < sets[other] for other in smaller)]
            distinct = {sets[number]: number for number in outermost}
            parts.append(HeldPart(tuple(cells), row, tuple(distinct.values())))
        return tuple(parts)

    @property
    def loose(self) -> Cells:
        """The cells in no exact sum."""
        held = {cell for cells in self.rows for cell in cells}
        return tuple(cell for cell in range(self.n_cells) if cell not in held)

    def values(self, tables: Ints) -> Ints:
        """Return the sums of tables (unit, row)."""
        columns = [tables[:, list(cells)].sum(axis=1) for cells in self.rows]
        return np.stack(columns, axis=1) if columns else np.zeros((len(tables), 0), np.int64)

    def why_not(self, most_children: int, zeros: NDArray[np.bool_] | None = None) -> str | None:
        """Return why families of up to so many children may be left without tables; None if they are not.

        Parameters
        ----------
        zeros : array (unit, cell), optional
            Structural zeros of the level's units.
        """
        if not self.is_nested:
            n_cells = most_children * self.n_cells
            if n_cells > MOST_SOLVED:
                return (
                    f"the exact sums cross each other, so that a family is an integer program of {n_cells:,} cells, and"
                    f" this rule is made for {MOST_SOLVED:,}; leave out sums that cross others"
                )
            return None
        for part in self.parts:
            if zeros is not None and zeros.size:
                of_part = zeros[:, list(part.cells)]
                if bool((of_part.any(axis=1) & ~of_part.all(axis=1)).any()):
                    return (
                        "structural zeros are for some cells of an exact sum and not for others, so that a parent's"
                        " table may leave no children that fit; leave out the zeros or the exact sums"
                    )
        return None


@dataclass(frozen=True, eq=False)
class Siblings:
    """Siblings of one level: what is to be shared out, and what decides. Public.

    Attributes
    ----------
    estimates : array (child, cell)
        In units of ``2**-FRACTION_BITS``; they may be negative.
    starts : array (family + 1,)
        Where the children of each family begin, from 0 on.
    parents : array (family, cell)
        The tables to share out.
    exact : ExactCellSums
    values : array (child, row)
        Values of the exact sums.
    zeros : array (child, cell)
        Structural zeros; of no size where there are none.
    key : int
        64 bits from which the words of the level follow.
    first_place : int
        The number of the first child in its whole level.

    Examples
    --------
    >>> sums = ExactCellSums(((0, 1),), 2)
    >>> estimates = np.array([[5, -1], [3, 4]]) << FRACTION_BITS
    >>> none = np.zeros((0, 0), bool)
    >>> family = Siblings(estimates, np.array([0, 2]), np.array([[6, 5]]), sums, np.array([[4], [7]]), none, 1, 0)
    >>> family.shared_out().tolist()
    [[4, 0], [2, 5]]
    """

    estimates: Ints
    starts: Ints
    parents: Ints
    exact: ExactCellSums
    values: Ints
    zeros: NDArray[np.bool_]
    key: int
    first_place: int

    def shared_out(self, claimed: Ints | None = None) -> Ints:
        """Return the children's tables (child, cell).

        Parameters
        ----------
        claimed : array (child, cell), optional
            Tables that are returned where a solver was needed and they are as good as what it gives.
        """
        out = np.empty_like(self.estimates)
        if not self.exact.is_nested:
            for family, (first, end) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
                children = slice(int(first), int(end))
                out[children] = self._solved(family, children, None if claimed is None else claimed[children])
            return out
        if self.exact.loose:
            self._call(share_cells, self.exact.loose, (), out)
        for part in self.exact.parts:
            self._call(share_with_sums, part.cells, (np.ascontiguousarray(part.sums(self.values)),), out)
        return out

    def _call(self, kernel: object, cells: Cells, sums: tuple[Ints, ...], out: Ints) -> None:
        status = kernel(  # type: ignore[operator]
            self.estimates,
            self.starts,
            self.parents,
            np.array(cells, np.int64),
            *sums,
            self.zeros,
            np.uint64(self.key),
            self.first_place,
            FRACTION_BITS,
            out,
        )
        if status:
            raise _no_children(int(self.starts[status] - self.starts[status - 1]))

    def _solved(self, family: int, children: slice, claim: Ints | None) -> Ints:
        """Return the nearest children to rounded estimates, of a family whose exact sums cross each other."""
        half = 1 << (FRACTION_BITS - 1)
        targets = (self.estimates[children] + half) >> FRACTION_BITS
        n_children, n_cells = targets.shape
        variables = []
        for child, cell in np.ndindex(*targets.shape):
            place = children.start + child
            word = int(tie_word(np.uint64(self.key), self.first_place + place, n_cells, cell)) >> (64 - _SOLVER_BITS)
            is_zero = self.zeros.size > 0 and bool(self.zeros[place, cell])
            limits = Interval(0, 0) if is_zero else Interval(0, None)
            variables.append(Variable(1, int(targets[child, cell]), limits, word))
        rows = []
        for cell, count in enumerate(self.parents[family].tolist()):
            rows.append(({child * n_cells + cell: 1 for child in range(n_children)}, Interval(count, count)))
        for child, values in enumerate(self.values[children].tolist()):
            for cells, value in zip(self.exact.rows, values, strict=True):
                rows.append(({child * n_cells + cell: 1 for cell in cells}, Interval(value, value)))
        program = LeastSquares(tuple(variables), tuple(rows))
        best = program.solution()
        point = best.point
        if claim is not None:
            counts = [int(count) for count in claim.ravel()]
            if program.holds(counts) and (program.cost(counts), program.word(counts)) == (best.cost, best.word):
                point = counts
        return np.array(point, np.int64).reshape(targets.shape)


def _no_children(n_children: int) -> ConditionError:
    return ConditionError(
        f"a parent's table leaves its {n_children:,} children none that have their exact sums, add up to it and keep"
        " structural zeros: the sums of the children do not add up to those of the parent, or zeros bar the way"
    )


def most_children(starts: Ints) -> int:
    """Return how many children the largest family has.

    Examples
    --------
    >>> most_children(np.array([0, 2, 5]))
    3
    """
    return int(np.diff(starts).max(initial=0))


def families_at_once(starts: Ints, n_children: int) -> Sequence[slice]:
    """Return slices of families that have about so many children together, or are a single family.

    Examples
    --------
    >>> families_at_once(np.array([0, 2, 5, 6, 7]), 3)
    [slice(0, 1, None), slice(1, 2, None), slice(2, 4, None)]
    """
    slices, first = [], 0
    while first < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[first] + n_children, side="right")) - 1
        end = max(end, first + 1)
        slices.append(slice(first, end))
        first = end
    return slices
