"""Kinds of change of several tables, and the fewest records that move each: docs/claims/measured-tables.md. Public."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice, product

import numpy as np

from congenial.arrays import Ints, distinct_rows
from congenial.errors import PrivacyError, did_you_mean
from congenial.privacy.certificate import EXCHANGE, ONE_RECORD
from congenial.privacy.workload import Axes, Cell, WorkloadChange, WorkloadFacts

_MOST_MODES = 2**16  # ways in which exact attributes are equal, kept or swapped
_MOST_CELLS = 1_000  # of a grid whose pairs are listed
_MOST_GRID = 10**6
_MOST_CHANGES = 4_000_000
_MOST_CORNERS = 20_000
_BLOCK = 2**18

Recipe = tuple[tuple[Cell, ...], tuple[Cell, ...]]
"""The cells that records enter, and those that they leave."""


def any_records(n_records: int) -> str:
    """Return the name of the kind of all changes of so many records.

    Examples
    --------
    >>> any_records(2)
    'any 2 records'
    """
    return f"any {n_records} records"


@dataclass(frozen=True, eq=False)
class KindOfChange:
    """What changes of one kind do to each table.

    Attributes
    ----------
    name : str
        ``one record``, ``two that exchange`` or ``any k records``.
    n_records : int
        How many records change; or come and go, where the number of records is not exact.
    moves : array (change, table)
        Different sums of absolute differences, or of squares under Gaussian noise. No change of the kind has larger
        ones in all tables than some row. None where there is no such change.
    recipe : callable, optional
        Returns a change with the moves of a row, structural zeros aside; None where the rows are bounds.
    """

    name: str
    n_records: int
    moves: Ints
    recipe: Callable[[int], Recipe] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is no such change."""
        return not len(self.moves)

    @property
    def is_attained(self) -> bool:
        """Whether rows are moves of changes, and no mere bounds."""
        return self.recipe is not None

    @property
    def largest(self) -> tuple[int, ...]:
        """The largest move of each table."""
        return tuple(int(x) for x in self.moves.max(axis=0, initial=0))

    def change(self, row: int) -> WorkloadChange | None:
        """Return the change of a row; None of a bound."""
        return None if self.recipe is None else WorkloadChange.of(*self.recipe(row))


def kind_of_change(workload: WorkloadFacts, name: str) -> KindOfChange:
    """Return what the changes of a named kind do to the tables.

    Examples
    --------
    >>> from congenial.privacy.workload import WorkloadTable
    >>> tables = tuple(WorkloadTable(axes) for axes in ((0, 1, 2), (0, 3), (2, 3)))
    >>> health = WorkloadFacts((39, 8, 2, 12), tables, "discrete_gaussian", exact=((0,), (3,)))
    >>> for name in ("one record", "two that exchange", "any 2 records"):
    ...     print(name, kind_of_change(health, name).moves.tolist())
    one record [[2, 0, 2]]
    two that exchange [[4, 4, 4]]
    any 2 records [[4, 0, 4], [4, 0, 8], [4, 4, 4], [8, 0, 4], [8, 0, 8]]
    """
    if name == ONE_RECORD:
        return _one_record(workload)
    if name == EXCHANGE:
        return _two_records(workload, name)
    number = name.removeprefix("any ").removesuffix(" records")
    if not number.isdecimal() or name != any_records(int(number)) or not int(number):
        known = (ONE_RECORD, EXCHANGE, any_records(2))
        raise PrivacyError(f"{name!r} is no kind of change; {did_you_mean(name, known)}")
    n_records = int(number)
    if n_records == 1:
        one = _one_record(workload)
        return KindOfChange(name, 1, one.moves, one.recipe)
    if n_records == 2 and not workload.comes:
        return _two_records(workload, name)
    return _several_records(workload, name, n_records)


# One record, and several at once.


def _free(workload: WorkloadFacts, axes: Axes) -> bool:
    return bool(workload.varying(axes) - workload.held)


def _ends(workload: WorkloadFacts) -> tuple[Cell, Cell]:
    """Return two cells that differ in every attribute outside exact margins."""
    return (0,) * len(workload.sizes), tuple(
        int(size > 1 and axis not in workload.held) for axis, size in enumerate(workload.sizes)
    )


def _one_record(workload: WorkloadFacts) -> KindOfChange:
    if workload.sums:
        return _one_with_sums(workload)
    start, end = _ends(workload)
    if workload.comes:
        moves = np.ones((1, len(workload.tables)), np.int64)
        return KindOfChange(ONE_RECORD, 1, moves, lambda _: ((start,), ()))
    if start == end:
        return KindOfChange(ONE_RECORD, 1, np.zeros((0, len(workload.tables)), np.int64))
    row = [2 * _free(workload, table.axes) for table in workload.tables]
    return KindOfChange(ONE_RECORD, 1, np.array([row], np.int64), lambda _: ((end,), (start,)))


def _several_records(workload: WorkloadFacts, name: str, n_records: int) -> KindOfChange:
    """Charge every table that so many records move for all of them: 2k, or 2k^2; exact where all can change alike."""
    power = workload.exponent
    start, end = _ends(workload)
    if workload.comes:
        moves, is_attained = np.full((1, len(workload.tables)), n_records**power, np.int64), True
        recipe: Recipe = ((start,) * n_records, ())
    else:
        fewest = [workload.fewest_by_formula(table.axes) for table in workload.tables]
        row = [0 if least is None or least > n_records else 2 * n_records**power for least in fewest]
        moves = np.array([row], np.int64)
        alike = all(bool(move) == _free(workload, table.axes) for move, table in zip(row, workload.tables, strict=True))
        is_attained, recipe = alike and start != end, ((end,) * n_records, (start,) * n_records)
    return KindOfChange(name, n_records, moves, (lambda _: recipe) if is_attained and not workload.sums else None)


# Two records: each exact attribute is equal, kept or swapped.


def _two_records(workload: WorkloadFacts, name: str) -> KindOfChange:
    empty = KindOfChange(name, 2, np.zeros((0, len(workload.tables)), np.int64))
    if workload.comes:
        return empty
    if workload.sums:
        return _two_with_sums(workload, name)
    held = sorted(workload.held)
    if (modes := _modes(workload, held)) is None:
        bound = _several_records(workload, name, 2)
        is_none = all(any({*pair} <= face for face in workload.faces) for pair in combinations(held, 2))
        return empty if name == EXCHANGE and is_none else KindOfChange(name, 2, bound.moves)
    kept, swapped = modes
    if name == EXCHANGE:
        crosses = (kept > 0) & (swapped > 0)
        kept, swapped = kept[crosses], swapped[crosses]
    if name != EXCHANGE and _ends(workload)[0] == _ends(workload)[1]:
        moving = (kept > 0) & (swapped > 0)  # otherwise nothing changes at all
        kept, swapped = kept[moving], swapped[moving]
    if not len(kept):
        return empty
    columns = []
    for table in workload.tables:
        bits = sum(1 << number for number, axis in enumerate(held) if axis in table.axes)
        is_split = ((kept & bits) > 0) & ((swapped & bits) > 0)
        if not _free(workload, table.axes):
            columns.append(4 * is_split)
        elif workload.exponent == 1:
            columns.append(np.full(len(kept), 4))
        else:
            columns.append(np.where((kept | swapped) & bits, 4, 8))
    moves, which = distinct_rows(np.stack([column.astype(np.int8) for column in columns], axis=1))
    moves, first = moves.astype(np.int64), np.zeros(len(moves), np.int64)
    first[which[::-1]] = np.arange(len(which))[::-1]
    kept, swapped = kept[first], swapped[first]
    return KindOfChange(name, 2, moves, lambda row: _exchange(workload, held, int(kept[row]), int(swapped[row])))


def _may_be_equal(workload: WorkloadFacts, axis: int) -> bool:
    """Whether an exact attribute that is equal in both records can move a table by more, or allow others to differ."""
    is_tied = any(axis in face and len(face) > 1 for face in workload.faces)
    return is_tied or (
        workload.exponent == 2 and any(axis in t.axes and _free(workload, t.axes) for t in workload.tables)
    )


def _modes(workload: WorkloadFacts, held: Sequence[int]) -> tuple[Ints, Ints] | None:
    """Return the attributes that are kept, and those that are swapped, as bits: no exact margin has some of both.

    None where these are too many ways.
    """
    kept, swapped = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for place, axis in enumerate(held):
        bit = 1 << place
        ways = [(kept | bit, swapped), (kept, swapped | bit)]
        ways += [(kept, swapped)] if _may_be_equal(workload, axis) else []
        kept, swapped = (np.concatenate(lines) for lines in zip(*ways, strict=True))
        is_allowed = kept >= swapped if place == len(held) - 1 else np.ones(len(kept), np.bool_)  # by symmetry
        for face in workload.faces:
            if axis in face:
                bits = sum(1 << number for number, other in enumerate(held) if other in face)
                is_allowed &= ((kept & bits) == 0) | ((swapped & bits) == 0)
        kept, swapped = kept[is_allowed], swapped[is_allowed]
        if len(kept) > _MOST_MODES:
            return None
    return kept, swapped


def _exchange(workload: WorkloadFacts, held: Sequence[int], kept: int, swapped: int) -> Recipe:
    start, end = _ends(workload)
    leaving, entering = [list(start), list(start)], [list(end), list(end)]
    for place, axis in enumerate(held):
        if (kept | swapped) >> place & 1:
            leaving[1][axis] = 1
            entering[swapped >> place & 1 ^ 1][axis] = 1
    return (tuple(entering[0]), tuple(entering[1])), (tuple(leaving[0]), tuple(leaving[1]))


# Grids: one cell of each kind, where structural zeros or further exact sums tell some levels from others.


@dataclass(frozen=True, eq=False)
class _Grid:
    """Cells over some attributes, at level 0 of the others; levels that zeros and sums treat alike are represented.

    Two levels of each kind of an exact attribute, which two records have at most, and four of others.
    """

    workload: WorkloadFacts
    axes: tuple[int, ...]
    has_zeros: bool

    def levels(self, axis: int) -> list[int]:
        arrays = (*self.workload.sums, *(self.workload.zeros if self.has_zeros else ()))
        seen: dict[tuple[bytes, ...], list[int]] = {}
        for level in range(self.workload.sizes[axis]):
            slices = (np.take(array, level, axes.index(axis)).tobytes() for axes, array in arrays if axis in axes)
            seen.setdefault(tuple(slices), []).append(level)
        most = 2 if axis in self.workload.held else 4
        return sorted(level for levels in seen.values() for level in levels[:most])

    @cached_property
    def cells(self) -> Ints | None:
        """The cells (cell, attribute) that are no structural zeros; None where they are too many."""
        levels = [self.levels(axis) if axis in self.axes else [0] for axis in range(len(self.workload.sizes))]
        if np.prod([float(len(line)) for line in levels]) > _MOST_GRID:
            return None
        cells = np.stack([line.ravel() for line in np.meshgrid(*levels, indexing="ij")], axis=1).astype(np.int64)
        is_open = np.ones(len(cells), np.bool_)
        for axes, mask in self.workload.zeros if self.has_zeros else ():
            is_open &= ~np.asarray(mask, np.bool_)[tuple(cells[:, list(axes)].T)]
        return cells[is_open]

    def part(self, cells: Ints, axes: Iterable[int]) -> Ints:
        """Return a number for each cell (cell,) that tells its levels of some attributes."""
        chosen = sorted(axes)
        return distinct_rows(cells[:, chosen])[1] if chosen else np.zeros(len(cells), np.int64)

    def columns(self, cells: Ints) -> Ints:
        """Return the coefficients (cell, sum) of each cell in the further exact sums."""
        lines = [np.asarray(array, np.int64)[tuple(cells[:, list(axes)].T)] for axes, array in self.workload.sums]
        return np.stack(lines, axis=1) if lines else np.zeros((len(cells), 0), np.int64)

    def alone(self, cells: Ints) -> Ints:
        """Return a number for each cell: one record passes between cells of the same one."""
        return distinct_rows(np.hstack([cells[:, sorted(self.workload.held)], self.columns(cells)]))[1]

    def pairs(self, cells: Ints) -> tuple[Ints, Ints, Ints]:
        """Return all pairs of cells, and a number for each: two records pass between pairs of the same one."""
        first, second = np.triu_indices(len(cells))
        columns = self.columns(cells)
        lines = [*(columns[first] + columns[second]).T]
        for face in self.workload.faces:
            parts = self.part(cells, face)
            lines += [np.minimum(parts[first], parts[second]), np.maximum(parts[first], parts[second])]
        keys = np.stack(lines, axis=1) if lines else np.zeros((len(first), 0), np.int64)
        return first, second, distinct_rows(keys)[1] if keys.shape[1] else np.zeros(len(first), np.int64)


def _couples(group: Ints, *, with_itself: bool) -> Iterator[tuple[Ints, Ints]]:
    """Go through the places of any two members of the same group, in blocks."""
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    for size in np.unique(sizes).tolist():
        i, j = np.triu_indices(size, 0 if with_itself else 1)
        chosen = starts[sizes == size]
        height = max(1, _BLOCK // max(1, len(i)))
        for begin in range(0, len(chosen), height):
            block = chosen[begin : begin + height, None]
            yield order[(block + i).ravel()], order[(block + j).ravel()]


def _n_couples(group: Ints) -> int:
    sizes = np.bincount(group)
    return int((sizes * (sizes + 1) // 2).sum())


def _with_ends(workload: WorkloadFacts, grid: _Grid, entering: Ints, leaving: Ints) -> Recipe:
    """Put the attributes outside the grid and outside exact margins to level 0 before and level 1 after."""
    _, end = _ends(workload)
    shift = np.array([0 if axis in grid.axes else end[axis] for axis in range(len(end))])
    return _cells(entering + shift), _cells(leaving)


def _cells(cells: Ints) -> tuple[Cell, ...]:
    return tuple(tuple(cell) for cell in cells.tolist())


def _summed_axes(workload: WorkloadFacts) -> set[int]:
    return {axis for axes, _ in workload.sums for axis in axes}


def _collect(found: dict[tuple[int, ...], tuple[int, ...]], moves: Ints, numbers: Sequence[Ints]) -> None:
    """Keep one example of each row of moves."""
    if len(moves):
        distinct, which = distinct_rows(moves)
        first = np.zeros(len(distinct), np.int64)
        first[which[::-1]] = np.arange(len(which))[::-1]
        for row, place in zip(distinct.tolist(), first.tolist(), strict=True):
            found.setdefault(tuple(row), tuple(int(line[place]) for line in numbers))


def _one_with_sums(workload: WorkloadFacts) -> KindOfChange:
    grid = _Grid(workload, tuple(sorted(_summed_axes(workload))), has_zeros=False)
    cells, n_tables = grid.cells, len(workload.tables)
    if workload.comes:
        if cells is None:
            return KindOfChange(ONE_RECORD, 1, np.ones((1, n_tables), np.int64))
        loose = cells[(grid.columns(cells) == 0).all(axis=1)][:1]
        return KindOfChange(ONE_RECORD, 1, np.ones((len(loose), n_tables), np.int64), lambda _: (_cells(loose), ()))
    if cells is None or _n_couples(group := grid.alone(cells)) > _MOST_CHANGES:
        row = [2 * _free(workload, table.axes) for table in workload.tables]  # exact margins alone: more changes
        return KindOfChange(ONE_RECORD, 1, np.array([row], np.int64))
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    start, end = _ends(workload)
    is_loose = any(a != b for axis, (a, b) in enumerate(zip(start, end, strict=True)) if axis not in grid.axes)
    parts = [(grid.part(cells, table.axes), _is_free_outside(workload, grid, table.axes)) for table in workload.tables]
    for a, b in _couples(group, with_itself=is_loose):
        columns = [2 * np.maximum(part[a] != part[b], is_free) for part, is_free in parts]
        _collect(found, np.stack(columns, axis=1).astype(np.int64), (a, b))
    recipes = tuple(_with_ends(workload, grid, cells[[b]], cells[[a]]) for a, b in found.values())
    moves = np.array(list(found), np.int64).reshape(len(found), n_tables)
    return KindOfChange(ONE_RECORD, 1, moves, recipes.__getitem__)


def _is_free_outside(workload: WorkloadFacts, grid: _Grid, axes: Axes) -> bool:
    return bool(workload.varying(axes) - workload.held - set(grid.axes))


def _two_with_sums(workload: WorkloadFacts, name: str) -> KindOfChange:
    grid = _Grid(workload, tuple(sorted(_summed_axes(workload) | workload.held)), has_zeros=False)
    cells, n_tables = grid.cells, len(workload.tables)
    if cells is None or len(cells) > _MOST_CELLS:
        return KindOfChange(name, 2, _several_records(workload, name, 2).moves)
    first, second, group = grid.pairs(cells)
    if _n_couples(group) > _MOST_CHANGES:
        return KindOfChange(name, 2, _several_records(workload, name, 2).moves)
    alone = grid.alone(cells)
    parts = [(grid.part(cells, table.axes), _is_free_outside(workload, grid, table.axes)) for table in workload.tables]
    found: dict[tuple[int, ...], tuple[int, ...]] = {}
    start, end = _ends(workload)
    is_loose = any(a != b for axis, (a, b) in enumerate(zip(start, end, strict=True)) if axis not in grid.axes)
    for before, after in _couples(group, with_itself=is_loose):
        a, b, c, d = first[before], second[before], first[after], second[after]
        if name == EXCHANGE:
            is_sum = (alone[a] == alone[c]) & (alone[b] == alone[d]) | (alone[a] == alone[d]) & (alone[b] == alone[c])
            a, b, c, d = (line[~is_sum] for line in (a, b, c, d))
        columns = [_two_apart(part, (a, b, c, d), is_free=is_free) for part, is_free in parts]
        moves = np.stack(columns, axis=1)
        _collect(found, np.minimum(moves, 4) if workload.exponent == 1 else moves, (a, b, c, d))
    recipes = tuple(_with_ends(workload, grid, cells[[c, d]], cells[[a, b]]) for a, b, c, d in found.values())
    moves = np.array(list(found), np.int64).reshape(len(found), n_tables)
    return KindOfChange(name, 2, moves, recipes.__getitem__)


def _two_apart(part: Ints, cells: Sequence[Ints], *, is_free: bool) -> Ints:
    """Return the squared norm of a margin's difference; it is 4 or more where the absolute one is 4, else the same."""
    a, b, c, d = (part[line] for line in cells)
    squares = 4 + 2 * (a == b) + 2 * (c == d)
    out: Ints = squares if is_free else squares - 2 * sum((x == y).astype(np.int64) for x in (a, b) for y in (c, d))
    return out.astype(np.int64)


# The fewest records by which each table moves: witnesses that touch no structural zero.


def witness(workload: WorkloadFacts, axes: Axes) -> WorkloadChange | None:
    """Return a change of few records that keeps all exact numbers, touches no structural zero and moves a table.

    Of the fewest records where there are one or two, and wherever there is neither a structural zero nor a further
    exact sum. None where none was found.

    Examples
    --------
    >>> workload = WorkloadFacts((2, 2, 2), (), "discrete_gaussian", exact=((0, 1), (0, 2), (1, 2)))
    >>> witness(workload, (0, 1, 2)).norm  # four records
    8
    >>> witness(workload, (0, 1)) is None
    True
    """
    some = workload.smallest_free(axes)
    if some is None:
        return None
    if not workload.zeros and not workload.sums:
        return _corners(some, [(0, 1)] * len(some), (0,) * len(workload.sizes))
    touched = {axis for of_array, _ in (*workload.sums, *workload.zeros) for axis in of_array}
    grid = _Grid(workload, tuple(sorted(touched | workload.varying(axes))), has_zeros=True)
    if grid.cells is None:
        return None
    change = _one_witness(workload, grid, grid.cells, axes)
    if change is None and not workload.comes:
        change = _two_witness(grid, grid.cells[:_MOST_CELLS], axes)
    return change if change is not None else _corner_witness(workload, grid, axes)


def _one_witness(workload: WorkloadFacts, grid: _Grid, cells: Ints, axes: Axes) -> WorkloadChange | None:
    if not len(cells):
        return None
    if workload.comes:  # one record, or two that come together
        columns = grid.columns(cells)
        place_of = {tuple(column): place for place, column in enumerate(columns.tolist())}
        opposite = [place_of.get(tuple(column)) for column in (-columns).tolist()]
        alone = np.flatnonzero((columns == 0).all(axis=1)).tolist()
        both = [[place, other] for place, other in enumerate(opposite) if other is not None]
        if alone or both:
            return WorkloadChange.of(_cells(cells[alone[:1] or both[0]]), ())
    places = _different_in_group(grid.alone(cells), grid.part(cells, axes)[:, None])
    return None if places is None else WorkloadChange.of(_cells(cells[[places[1]]]), _cells(cells[[places[0]]]))


def _two_witness(grid: _Grid, cells: Ints, axes: Axes) -> WorkloadChange | None:
    if not len(cells):
        return None
    first, second, group = grid.pairs(cells)
    part = grid.part(cells, axes)
    multiset = np.sort(np.stack([part[first], part[second]], axis=1), axis=1)
    places = _different_in_group(group, multiset)
    if places is None:
        return None
    leaving, entering = ([first[place], second[place]] for place in places)
    return WorkloadChange.of(_cells(cells[entering]), _cells(cells[leaving]))


def _different_in_group(group: Ints, labels: Ints) -> tuple[int, int] | None:
    """Return two places of one group with different labels (place, number)."""
    order = np.argsort(group, kind="stable")
    is_same = np.diff(group[order]) == 0
    places = np.flatnonzero(is_same & (np.diff(labels[order], axis=0) != 0).any(axis=1))
    return (int(order[places[0]]), int(order[places[0] + 1])) if len(places) else None


def _corners(axes: Sequence[int], levels: Sequence[tuple[int, int]], base: Cell) -> WorkloadChange:
    """Return the product of differences of two levels over some attributes: margins without one of them stay."""
    entering: list[Cell] = []
    leaving: list[Cell] = []
    for ends in product((0, 1), repeat=len(axes)):
        cell = list(base)
        for axis, pair, end in zip(axes, levels, ends, strict=True):
            cell[axis] = pair[end]
        (entering if sum(ends) % 2 == len(axes) % 2 else leaving).append(tuple(cell))
    return WorkloadChange.of(entering, leaving)


def _corner_witness(workload: WorkloadFacts, grid: _Grid, axes: Axes) -> WorkloadChange | None:
    varying = sorted(workload.varying(axes))
    for size in range(3, len(varying) + 1):
        for some in combinations(varying, size):
            if any(set(some) <= face for face in workload.faces):
                continue
            pairs = [list(combinations(grid.levels(axis), 2)) for axis in some]
            others = [axis for axis in grid.axes if axis not in some]
            ways = product(product(*pairs), product(*(grid.levels(axis) for axis in others)))
            for levels, rest in islice(ways, _MOST_CORNERS):
                base = [0] * len(workload.sizes)
                for axis, level in zip(others, rest, strict=True):
                    base[axis] = level
                change = _corners(some, levels, tuple(base))
                if change.avoids_zeros(workload) and change.keeps(workload):
                    return change
    return None


def n_records_of(workload: WorkloadFacts, change: WorkloadChange) -> int:
    """Return how many records change; or come and go, where the number of records is not exact."""
    return change.norm if workload.comes else change.norm // 2


def fewest_records(workload: WorkloadFacts) -> int:
    """Return the fewest records by which every measured table moves that witnesses were found for.

    Tables that an exact margin determines are left out. Raises `PrivacyError` where no change moves some other table.

    Examples
    --------
    >>> from congenial.privacy.workload import WorkloadTable
    >>> tables = WorkloadTable((0, 1)), WorkloadTable((1, 2))
    >>> fewest_records(WorkloadFacts((3, 2, 2), tables, "discrete_gaussian", exact=((0,),)))
    1
    >>> fewest_records(WorkloadFacts((3, 2, 2), tables, "discrete_gaussian", exact=((0,), (1,))))
    2
    """
    if all(workload.determined):
        raise PrivacyError("no certificate: exact margins determine every table, and there is nothing to measure")
    most = 0
    for table, is_determined in zip(workload.tables, workload.determined, strict=True):
        if is_determined:
            continue
        change = witness(workload, table.axes)
        if change is None:
            raise PrivacyError(
                f"no certificate: no change of records was found that keeps all exact numbers, respects structural"
                f" zeros and moves table {table.axes}; leave out the table, or some exact numbers"
            )
        if not change.keeps(workload) or not change.avoids_zeros(workload) or not change.margin(table.axes):
            raise PrivacyError("internal: a witness moves an exact number, or no table")
        most = max(most, n_records_of(workload, change))
    return most


def default_kind(workload: WorkloadFacts) -> str:
    """Return the name of the kind of change of the fewest records by which every measured table moves."""
    n_records = fewest_records(workload)
    if n_records <= 1:
        return ONE_RECORD
    return EXCHANGE if n_records == 2 and not workload.comes else any_records(n_records)
