"""Integers within families: a parent's table shared out among its children, nearest to estimates of these.

Cells that are in the same exact sums are a *class*. Where the exact sums determine the sums of classes in every child,
each class is a transport between children and cells. Sums that cross each other, as the total, women and people of
voting age, leave one number a child free: first the *free sums* are shared out, within ranges that are known from the
exact numbers alone (`congenial.rules.free_sum_ranges`), and with them the sums of classes are known. Cells in no exact
sum are shared out each by itself. Nothing here needs a search, and nothing that was decided above is taken back.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.rows_and_intervals import NONNEGATIVE, Row, cells_alike
from congenial.errors import ConditionError
from congenial.rules.kernels_family import share_cells, share_with_sums
from congenial.rules.kernels_free_sums import find_free_sums, share_within
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.rules.sums_and_parts import Line, Part, SumGroup, tied_parts

_KEY_OF_SUMS = int.from_bytes(b"gls sums", "big")  # words of sums are others than those of cells

Cells = tuple[int, ...]

_MANY_FREE = (
    "the exact sums cross each other and leave more than one number of a unit free, so that a parent's table may leave"
    " its children none; the total, women and people of voting age leave one free, and are decided: leave out some sums"
)


@dataclass(frozen=True)
class TiedClasses:
    """Classes of cells that exact sums tie together: those of one class are in the same sums.

    The sum of each class is ``line.start(values) + line.direction free``, where the *free sum* is the sum of the first
    class that moves; where none moves, the exact sums determine all.

    Attributes
    ----------
    classes : tuple of cells
    rows : tuple of int
        Which exact sums they are in.
    line : Line
    """

    classes: tuple[Cells, ...]
    rows: tuple[int, ...]
    line: Line

    @classmethod
    def of(cls, part: Part) -> "TiedClasses | None":
        """Return the same of groups of cells; None where more than one sum is free, or one moves another by more."""
        line = part.line
        if line is None:
            return None
        moving = line.direction[line.direction != 0]
        if len(moving) and moving[0] < 0:
            line = Line(line.numerators, line.scale, -line.direction)
        return cls(tuple(group.cells for group in part.groups), part.rows, line)

    @property
    def is_free(self) -> bool:
        """Whether one sum is free."""
        return bool(self.line.direction.any())

    @property
    def free_cells(self) -> Cells:
        """The cells whose sum is the free one."""
        return self.classes[int(np.flatnonzero(self.line.direction)[0])]

    def starts(self, values: Ints) -> Ints:
        """Return the sum of each class where the free one is 0 (class, unit), from all exact sums (unit, row)."""
        return self.line.start(values[:, list(self.rows)])


@dataclass(frozen=True)
class HeldPart:
    """A class of cells whose own sum follows from the exact sums."""

    cells: Cells
    tied: TiedClasses
    place: int

    def sums(self, values: Ints) -> Ints:
        """Return the part's sum in every unit (unit,), from the values of all exact sums (unit, row)."""
        sums: Ints = self.tied.starts(values)[self.place]
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
        the free sum of each child in its range, then a transport of children and cells for each part
        """
        if not self.is_nested:
            return "the free sum of each child in its range, then a transport of children and cells for each part"
        if not self.rows:
            return "each cell by itself"
        return "a transport between children and cells for each exact part" + (
            ", other cells by themselves" if self.loose else ""
        )

    @cached_property
    def _parts(self) -> tuple[Part, ...]:
        alike = cells_alike([Row.of("", cells) for cells in self.rows], self.n_cells)
        return tied_parts([(SumGroup(cells, NONNEGATIVE), dict(column)) for column, cells in alike.items() if column])

    @cached_property
    def tied(self) -> tuple[TiedClasses, ...]:
        """The classes of cells, those that no sum ties together apart from each other."""
        tied = [TiedClasses.of(part) for part in self._parts]
        if None in tied:
            raise ConditionError(_MANY_FREE)
        return tuple(some for some in tied if some is not None)

    @cached_property
    def free(self) -> tuple[TiedClasses, ...]:
        """Those among them that have a free sum."""
        return tuple(some for some in self.tied if some.is_free)

    @cached_property
    def parts(self) -> tuple[HeldPart, ...]:
        """The classes whose sums follow."""
        tied = [some for some in self.tied if not some.is_free]
        return tuple(HeldPart(cells, some, place) for some in tied for place, cells in enumerate(some.classes))

    @property
    def loose(self) -> Cells:
        """The cells in no exact sum."""
        held = {cell for cells in self.rows for cell in cells}
        return tuple(cell for cell in range(self.n_cells) if cell not in held)

    def values(self, tables: Ints) -> Ints:
        """Return the sums of tables (unit, row)."""
        columns = [tables[:, list(cells)].sum(axis=1) for cells in self.rows]
        return np.stack(columns, axis=1) if columns else np.zeros((len(tables), 0), np.int64)

    def why_not(self, starts: Ints | None = None, zeros: NDArray[np.bool_] | None = None) -> str | None:
        """Return why families may be left without tables, whatever is decided above them; None if they are not.

        Parameters
        ----------
        starts : array (family + 1,), optional
            Where the children of each family begin.
        zeros : array (child, cell), optional
            Structural zeros of the children.
        """
        if any(TiedClasses.of(part) is None for part in self._parts):
            return _MANY_FREE
        if starts is None or zeros is None or not zeros.size:
            return None
        for cells in (cells for tied in self.tied for cells in tied.classes):
            # Of siblings with anything to share, all must have the same cells for it: then any counts fit any sums.
            barred = zeros[:, list(cells)]
            is_open = ~barred.all(axis=1, keepdims=True)
            in_some = np.logical_or.reduceat(barred & is_open, starts[:-1], axis=0)
            in_all = np.logical_and.reduceat(barred | ~is_open, starts[:-1], axis=0)
            if bool((in_some & ~in_all).any()):
                return (
                    "structural zeros are for some cells of an exact sum and not for others, and differ between units"
                    " of one parent, so that its table may leave no children that fit; leave out the zeros or the"
                    " exact sums"
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
    ranges : array (child, free sum, 2)
        From where to where the free sums may be so that all below has tables: see `free_sum_ranges`.
    key : int
        64 bits from which the words of the level follow.
    first_place : int
        The number of the first child in its whole level.

    Examples
    --------
    >>> sums = ExactCellSums(((0, 1),), 2)
    >>> estimates = np.array([[5, -1], [3, 4]]) << FRACTION_BITS
    >>> none, free = np.zeros((0, 0), bool), np.zeros((2, 0, 2), int)
    >>> family = Siblings(estimates, np.array([0, 2]), np.array([[6, 5]]), sums, np.array([[4], [7]]), none, free, 1, 0)
    >>> family.shared_out().tolist()
    [[4, 0], [2, 5]]
    """

    estimates: Ints
    starts: Ints
    parents: Ints
    exact: ExactCellSums
    values: Ints
    zeros: NDArray[np.bool_]
    ranges: Ints
    key: int
    first_place: int

    def shared_out(self) -> Ints:
        """Return the children's tables (child, cell)."""
        out = np.empty_like(self.estimates)
        if self.exact.loose:
            self._call(share_cells, self.exact.loose, (), out)
        n_free = 0
        for tied in self.exact.tied:
            sums = tied.starts(self.values)
            if tied.is_free:
                sums += np.outer(tied.line.direction, self._free_sums(tied, sums, n_free))
                n_free += 1
            for cells, of_class in zip(tied.classes, sums, strict=True):
                self._call(share_with_sums, cells, (np.ascontiguousarray(of_class),), out)
        return out

    def _free_sums(self, tied: TiedClasses, sums: Ints, number: int) -> Ints:
        """Return the free sum of each child (child,): within their ranges, nearest to those of the nearest tables.

        A child's nearest table, by itself and in real numbers that are not negative, says what its free sum should be.
        The squares of what the children's are off by are added up as they are: all classes that move, move by as much,
        in every child.
        """
        moving = np.flatnonzero(tied.line.direction)
        classes = [tied.classes[place] for place in moving]
        ranges = np.ascontiguousarray(self.ranges[:, number])
        nearest = np.empty(len(self.estimates), np.int64)
        find_free_sums(
            self.estimates,
            np.array([cell for cells in classes for cell in cells]),
            np.cumsum([0, *map(len, classes)]),
            np.ascontiguousarray(sums[moving]),
            tied.line.direction[moving],
            ranges,
            self.zeros,
            FRACTION_BITS,
            nearest,
        )
        out = np.empty_like(nearest)
        status = share_within(
            nearest,
            self.starts,
            self.parents[:, list(tied.free_cells)].sum(axis=1),
            ranges,
            np.uint64((self.key + number + 1) % 2**64),
            self.first_place,
            FRACTION_BITS,
            out,
        )
        if status:
            raise _no_children(int(self.starts[status] - self.starts[status - 1]))
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


def with_decided_sums(family: Siblings, rows: tuple[Cells, ...]) -> Siblings:
    """Return siblings with the integers of some sums, which are then as good as exact.

    They are nearest to the estimates of these sums, not negative, and add up to those of the parent: the outermost
    first, each by itself, and the sums inside a sum as a transport between children and its parts. Exact sums inside
    are taken off first, as they are known.

    Parameters
    ----------
    rows : tuple of cells
        Sums that are nested, also with the exact ones. Where a sum has structural zeros, all its cells that are in no
        exact sum inside it are zeros, so that there always are tables with the sums.

    Examples
    --------
    >>> estimates = np.array([[7, 7, 7], [1, 2, 4]]) << FRACTION_BITS - 2
    >>> none, nothing, free = np.zeros((0, 0), bool), np.zeros((2, 0), np.int64), np.zeros((2, 0, 2), np.int64)
    >>> exact = ExactCellSums((), 3)
    >>> family = Siblings(estimates, np.array([0, 2]), np.array([[3, 2, 2]]), exact, nothing, none, free, 1, 0)
    >>> decided = with_decided_sums(family, ((0, 1, 2),))
    >>> decided.values.ravel().tolist(), decided.shared_out().sum(axis=1).tolist()
    ([5, 2], [5, 2])
    """
    if not rows:
        return family
    known = {frozenset(cells): family.values[:, number] for number, cells in enumerate(family.exact.rows)}
    wanted = [frozenset(cells) for cells in rows]
    outside = {some: min((s for s in (*known, *wanted) if some < s), key=len, default=None) for some in wanted}
    held = {
        some: [s for s in known if s < some and not any(s < other < some for other in known)]
        for some in (*known, *wanted)
    }
    # A column for each sum, less what is known inside it, and one for what is left of a sum with sums inside.
    columns = [some.difference(*held[some]) for some in wanted]
    tasks: list[tuple[frozenset[int] | None, list[int]]] = []
    for owner in sorted({*outside.values()}, key=lambda some: -len(some or range(family.exact.n_cells + 1))):
        inside = [number for number, some in enumerate(wanted) if outside[some] == owner]
        if owner is not None:
            rest = owner.difference(*held[owner], *(columns[number] for number in inside))
            inside += [len(columns)] if rest else []
            columns += [rest] if rest else []
        tasks.append((owner, inside))
    numbers = [sorted(cells) for cells in columns]
    sums = replace(
        family,
        estimates=_summed(family.estimates, numbers),
        parents=_summed(family.parents, numbers),
        zeros=family.zeros if not family.zeros.size else np.stack([family.zeros[:, c].all(axis=1) for c in numbers], 1),
        key=family.key ^ _KEY_OF_SUMS,
    )
    out = np.zeros_like(sums.estimates)
    for owner, inside in tasks:
        if owner is None:
            sums._call(share_cells, tuple(inside), (), out)
            continue
        if owner in known:
            total = known[owner] - sum(known[some] for some in held[owner])
        else:
            total = out[:, wanted.index(owner)]
        sums._call(share_with_sums, tuple(inside), (np.ascontiguousarray(total),), out)
    values = [out[:, number] + sum(known[s] for s in held[some]) for number, some in enumerate(wanted)]
    return replace(
        family,
        exact=ExactCellSums((*family.exact.rows, *rows), family.exact.n_cells),
        values=np.column_stack([family.values, *values]),
    )


def _summed(tables: Ints, columns: list[list[int]]) -> Ints:
    sums: Ints = np.stack([tables[:, cells].sum(axis=1) for cells in columns], axis=1)
    return sums


def _no_children(n_children: int) -> ConditionError:
    return ConditionError(
        f"a parent's table leaves its {n_children:,} children none that have their exact sums, add up to it and keep"
        " structural zeros: the sums of the children do not add up to those of the parent, or zeros bar the way"
    )


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
