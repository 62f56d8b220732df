"""What one record can change in a tree of areas, and whether it can change alone. Public."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints, distinct_rows
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Column, Row, columns
from congenial.errors import PrivacyError
from congenial.privacy import check_relation

Counts = tuple[int, ...]
"""For each measured query, one level after the other, the sum over its rows of ``|q_r(z)|``, or of its square."""

Mask = NDArray[np.bool_]

_NONE, _ALONE = -1, -2  # the row of a cell that is in none, and of one that is in a row by itself
_BLOCK = 2**20  # pairs of kinds of cells at a time


@dataclass(frozen=True)
class TreeChange:
    """A difference of two trees in one leaf or in two.

    Attributes
    ----------
    parting : int
        The first level at which the two leaves are in different units; the number of levels where they are one leaf.
    entries : tuple of (int, int, int)
        Leaf 0 or 1, cell, and by how many records that cell of that leaf differs.
    crosses : bool
        Whether the two leaves are in different ones of the areas that cross the tree.

    Examples
    --------
    >>> one = TreeChange(1, ((0, 2, -1), (1, 2, 1)))
    >>> one.at(0), one.at(1), one.n_records("bounded"), one.n_records("unbounded")
    ([{}], [{2: -1}, {2: 1}], 1, 2)
    """

    parting: int
    entries: tuple[tuple[int, int, int], ...]
    crosses: bool = False

    def at(self, level: int) -> list[dict[int, int]]:
        """Return the differences of the units of a level that have the two leaves: cell to size, no zeros."""
        return self._units(are_apart=level >= self.parting)

    @property
    def across(self) -> list[dict[int, int]]:
        """The differences of the areas across the tree that have the two leaves."""
        return self._units(are_apart=self.crosses)

    def _units(self, *, are_apart: bool) -> list[dict[int, int]]:
        units: list[dict[int, int]] = [{}, {}] if are_apart else [{}]
        for leaf, cell, size in self.entries:
            unit = units[leaf if len(units) == 2 else 0]
            unit[cell] = unit.get(cell, 0) + size
        return [{cell: size for cell, size in unit.items() if size} for unit in units]

    def times(self, n: int) -> "TreeChange":
        """Return it `n` times over."""
        return replace(self, entries=tuple((leaf, cell, n * size) for leaf, cell, size in self.entries))

    def n_records(self, neighbours: str) -> int | None:
        """Return how many records change, or come and go; None if changed records cannot do it."""
        sizes = [size for leaf in self.at(self.parting) for size in leaf.values()]
        if neighbours == "unbounded":
            return sum(map(abs, sizes))
        return None if sum(sizes) else sum(map(abs, sizes)) // 2


def rows_follow(exact: Sequence[Row], rows: Sequence[Row], empty_cells: frozenset[int] = frozenset()) -> list[bool]:
    """Say of each row whether it is a combination of exact ones, on cells that are not empty.

    Examples
    --------
    >>> rows_follow([Row.of("both", [0, 1])], [Row("twice", (0, 1), (2, 2)), Row.of("first", [0])])
    [True, False]
    """
    held: dict[int, list[tuple[int, int]]] = {}
    for number, row in enumerate(exact):
        for cell, times in row.terms.items():
            if cell not in empty_cells:
                held.setdefault(cell, []).append((number, times))
    # A combination has one coefficient for all cells with equal columns: elimination needs one variable for them all.
    groups: dict[Column, list[int]] = {}
    for cell, entries in held.items():
        groups.setdefault(tuple(entries), []).append(cell)
    group_of = {cell: number for number, cells in enumerate(groups.values()) for cell in cells}
    sizes = [len(cells) for cells in groups.values()]
    out, open_rows = [], []
    for row in rows:
        seen: dict[int, list[int]] = {}
        for cell, times in row.terms.items():
            if cell not in empty_cells:
                seen.setdefault(group_of.get(cell, -1), []).append(times)
        is_even = -1 not in seen and all(len(w) == sizes[g] and min(w) == max(w) for g, w in seen.items())
        out.append(is_even)
        if is_even:
            open_rows.append({group: weights[0] for group, weights in seen.items()})
    lines: list[dict[int, int]] = [{} for _ in exact]
    for group, column in enumerate(groups):
        for number, times in column:
            lines[number][group] = times
    follows = dependence([*lines, *open_rows]).follows
    # Independent rows are the earliest possible: a row that follows from exact ones alone names no other.
    causes = (follows.get(number) for number in range(len(lines), len(lines) + len(open_rows)))
    determined = iter([cause is not None and max(cause, default=-1) < len(lines) for cause in causes])
    return [is_even and next(determined) for is_even in out]


# All changes of one record, by what they do to the measured queries: exactly, cell by cell, once for all precisions.


@dataclass(frozen=True)
class _Layers:
    """A query's rows in layers of rows that share no cell: the row (layer, cell) of each cell, and its coefficient."""

    row_of: Ints
    weights: Ints

    @classmethod
    def of(cls, rows: Sequence[Row], n_cells: int) -> "_Layers":
        row_of: list[Ints] = []
        weights: list[Ints] = []
        for number, row in enumerate(rows):
            cells = list(row.cells)
            layer = next((i for i, line in enumerate(row_of) if (line[cells] == _NONE).all()), len(row_of))
            if layer == len(row_of):
                row_of.append(np.full(n_cells, _NONE))
                weights.append(np.zeros(n_cells, np.int64))
            row_of[layer][cells] = _ALONE if len(cells) == 1 else number
            weights[layer][cells] = row.coefficients
        shape = (len(row_of), n_cells)
        return cls(np.array(row_of, np.int64).reshape(shape), np.array(weights, np.int64).reshape(shape))

    def alone(self, power: int) -> Ints:
        """Return ``sum |q_r(e_c)|^power`` for each cell."""
        sums: Ints = (np.abs(self.weights) ** power).sum(axis=0)
        return sums

    def apart(self, first: Ints, second: Ints, power: int) -> Ints:
        """Return ``sum |q_r(e_d - e_c)|^power`` for any two different cells of some (first, second)."""
        total = np.zeros((len(first), len(second)), np.int64)
        for row_of, weights in zip(self.row_of, self.weights, strict=True):
            a, b = weights[first][:, None], weights[second][None]
            is_shared = (row_of[first][:, None] == row_of[second][None]) & (row_of[first] >= 0)[:, None]
            total += np.where(is_shared, np.abs(a - b) ** power, np.abs(a) ** power + np.abs(b) ** power)
        return total


@dataclass(frozen=True)
class SingleChanges:
    """What a record that changes, comes or goes does to measured queries, whatever their precisions.

    Attributes
    ----------
    rows : by level and query
        Of the areas that cross the tree after those of the last level, where there are such.
    exact : by level
    crossings : tuple of int, optional
        The levels at which two leaves can part that are in different areas across the tree.
    """

    n_cells: int
    rows: tuple[tuple[tuple[Row, ...], ...], ...] = field(repr=False)
    exact: tuple[tuple[Row, ...], ...] = field(repr=False)
    partings: tuple[int, ...]
    empty_cells: frozenset[int]
    power: int
    crossings: tuple[int, ...] = ()

    def of(self, relation: str, *, is_exact: bool, first_parting: int = 0) -> Mapping[Counts, TreeChange]:
        """Return each way to count, at least one that is no smaller, with a change that counts so.

        Parameters
        ----------
        is_exact : bool
            Whether only changes count that keep the exact numbers of all levels.
        first_parting : int
            Two leaves part at this level or below it.
        """
        key = (relation, is_exact, first_parting)
        if key not in self._known:
            changes = self._coming(is_exact) if relation == "unbounded" else self._changing(is_exact, first_parting)
            self._known[key] = dict(changes)
        return self._known[key]

    @property
    def n_levels(self) -> int:
        """The number of levels of the tree."""
        return len(self.exact)

    def _are_apart(self, level: int, parting: int, *, crosses: bool) -> bool:
        """Whether two leaves are in different units of a level, or of the areas across, which come after the last."""
        return level >= parting if level < self.n_levels else crosses

    @cached_property
    def _known(self) -> dict[tuple[str, bool, int], Mapping[Counts, TreeChange]]:
        return {}

    @cached_property
    def _queries(self) -> tuple[tuple[int, int], ...]:
        """For each query the level and the number of its rows among the different sets of rows."""
        number_of: dict[tuple[Row, ...], int] = {}
        return tuple(
            (level, number_of.setdefault(query, len(number_of)))
            for level, queries in enumerate(self.rows)
            for query in queries
        )

    @cached_property
    def _layers(self) -> list[_Layers]:
        different = dict.fromkeys(query for queries in self.rows for query in queries)
        return [_Layers.of(query, self.n_cells) for query in different]

    @cached_property
    def _columns(self) -> Ints:
        """The number of each cell's column in the exact rows (level, cell); 0 where it is in none."""
        out = np.zeros((len(self.exact), self.n_cells), np.int64)
        for line, rows in zip(out, self.exact, strict=True):
            number_of: dict[Column, int] = {(): 0}
            line[:] = [number_of.setdefault(column, len(number_of)) for column in columns(rows, self.n_cells)]
        return out

    @cached_property
    def _kinds(self) -> tuple[Ints, Ints]:
        """One cell of each kind, and another one or -1 (kind,): cells of one kind count alike in all rows."""
        cells = np.array([cell for cell in range(self.n_cells) if cell not in self.empty_cells], np.int64)
        lines = [*(x for one in self._layers for x in (*one.row_of, *one.weights)), *self._columns]
        _, kind_of = distinct_rows(np.stack([line[cells] for line in lines], axis=1))
        order = np.argsort(kind_of, kind="stable")
        starts = np.flatnonzero(np.diff(kind_of[order], prepend=-1))
        ends = np.append(starts[1:], len(order))
        others = np.where(ends - starts > 1, cells[order[np.minimum(starts + 1, len(order) - 1)]], -1)
        return cells[order[starts]], others

    @cached_property
    def _smaller_is_dearer(self) -> bool:
        """Whether a change of two units counts at least what the same change inside one unit does."""
        rows = (row for queries in self.rows for query in queries for row in query)
        return self.power == 1 or all(min(row.coefficients) > 0 or max(row.coefficients) < 0 for row in rows)

    def _coming(self, is_exact: bool) -> Iterator[tuple[Counts, TreeChange]]:
        cells, _ = self._kinds
        if is_exact:
            cells = cells[(self._columns[:, cells] == 0).all(axis=0)]
        alone = [layers.alone(self.power) for layers in self._layers]
        for cell in cells.tolist():
            counts = tuple(int(alone[number][cell]) for _, number in self._queries)
            yield counts, TreeChange(self.n_levels, ((0, cell, 1),))

    def _changing(self, is_exact: bool, first_parting: int) -> Iterator[tuple[Counts, TreeChange]]:
        cells, _ = self._kinds
        held = self._columns[:, cells] if is_exact else np.zeros((self.n_levels, len(cells)), np.int64)
        is_done = np.zeros(len(cells), np.bool_)
        for parting in [*(j for j in self.partings if j >= first_parting), self.n_levels]:
            # Below, each of the two cells is in no exact number; above, both are in the same ones.
            is_open, crosses = (held[parting:] == 0).all(axis=0), parting in self.crossings
            kinds = np.flatnonzero(is_open & ~is_done)
            if len(kinds):
                part_of = distinct_rows(held[:parting, kinds].T)[1] if parting else np.zeros(len(kinds), np.int64)
                ways = [crosses] if self._smaller_is_dearer or not crosses else [True, False]
                for part in range(int(part_of.max()) + 1):
                    for way in ways:
                        yield from self._passing(kinds[part_of == part], parting, crosses=way)
            # Two cells that may part higher up count less when they part farther down, if not across the tree.
            if self._smaller_is_dearer and (crosses or parting > max(self.crossings, default=0)):
                is_done |= is_open

    def _passing(self, kinds: Ints, parting: int, *, crosses: bool) -> Iterator[tuple[Counts, TreeChange]]:
        """Go through what a record counts that passes between any two cells of some kinds."""
        firsts, others = (line[kinds] for line in self._kinds)
        alone = [layers.alone(self.power) for layers in self._layers]
        apart_at = [self._are_apart(level, parting, crosses=crosses) for level in range(len(self.rows))]
        if parting < self.n_levels:  # the cell stays the same
            for cell in firsts.tolist():
                counts = tuple(2 * int(alone[n][cell]) if apart_at[level] else 0 for level, n in self._queries)
                yield counts, TreeChange(parting, ((0, cell, -1), (1, cell, 1)), crosses)
        second_leaf = int(parting < self.n_levels)
        height = max(1, _BLOCK // len(kinds))
        for start in range(0, len(kinds), height):
            rows, all_after = firsts[start : start + height], firsts[start:]
            inside = {
                number: self._layers[number].apart(rows, all_after, self.power)
                for number in {number for level, number in self._queries if not apart_at[level]}
            }
            parts = {
                number: alone[number][rows][:, None] + alone[number][all_after][None]
                for number in {number for level, number in self._queries if apart_at[level]}
            }
            is_pair = np.ones((len(rows), len(all_after)), np.bool_)
            diagonal = np.arange(len(rows))
            is_pair[diagonal, diagonal] = others[start : start + height] >= 0
            is_pair[np.tril_indices(len(rows), -1, len(all_after))] = False  # each pair once
            features = [*inside.values(), *parts.values()]
            for place in _different(features, is_pair):
                i, j = divmod(place, len(all_after))
                counts = tuple(
                    int((parts if apart_at[level] else inside)[number][i, j]) for level, number in self._queries
                )
                entered = int(others[start + i] if i == j else all_after[j])
                yield counts, TreeChange(parting, ((0, int(rows[i]), -1), (second_leaf, entered, 1)), crosses)


def _different(features: Sequence[Ints], is_pair: NDArray[np.bool_]) -> list[int]:
    """Return a place of each different combination of features, among the pairs."""
    places = np.flatnonzero(is_pair)
    if not len(places):
        return []
    label, size = np.zeros(len(places), np.int64), 1
    for feature in features:
        values = feature.reshape(-1)[places]
        n_values = int(values.max()) + 1
        if size * n_values > 2**62:
            different, label = np.unique(label, return_inverse=True)
            size = len(different)
        label, size = label * n_values + values, size * n_values
    _, first = np.unique(label, return_index=True)
    numbers: list[int] = places[first].tolist()
    return numbers


# Whether one record can change at all, with all exact numbers as they are: from public structure.


@dataclass(frozen=True, eq=False)
class PublicTree:
    """A tree with its structural zeros and its exact numbers: what is known of it beforehand. Public.

    Nothing else limits its tables: they are not negative, and any of them may be as large as exact numbers allow.

    Attributes
    ----------
    n_cells : int
    n_top : int
        The number of units at the top.
    parents : tuple of array (unit,)
        For each level below the top the place of each unit's parent in the level above.
    zeros : tuple of (array (unit, cell) or None), optional
        The structural zeros of each level.
    exact : tuple of (rows, array (unit, row)), optional
        The exact numbers of the units of each level, with their values.

    Examples
    --------
    >>> total = Row.of("total", [0, 1])
    >>> tree = PublicTree(2, 1, (np.array([0, 0]),), exact=(((total,), [[9]]), ((), np.zeros((2, 0)))))
    >>> tree.partings, tree.fewest_records("bounded"), tree.fewest_records("unbounded")
    ((1,), 1, 2)
    """

    n_cells: int
    n_top: int
    parents: tuple[Ints, ...]
    zeros: tuple[Mask | None, ...] = ()
    exact: tuple[tuple[tuple[Row, ...], Ints], ...] = ()

    @property
    def n_levels(self) -> int:
        """The number of levels."""
        return len(self.parents) + 1

    @cached_property
    def partings(self) -> tuple[int, ...]:
        """The levels at which two leaves can part."""
        several = [number + 1 for number, parents in enumerate(self.parents) if np.unique(parents).size < len(parents)]
        return (*((0,) if self.n_top > 1 else ()), *several)

    def _n_units(self, level: int) -> int:
        return self.n_top if level == 0 else len(self.parents[level - 1])

    @cached_property
    def _exact(self) -> list[tuple[tuple[Row, ...], Ints]]:
        """The exact numbers of each level with those that follow from the levels below."""
        out: list[tuple[tuple[Row, ...], Ints]] = []
        for level in reversed(range(self.n_levels)):
            rows, values = self.exact[level] if self.exact else ((), np.zeros((self._n_units(level), 0)))
            values = np.asarray(values, np.int64).reshape(self._n_units(level), len(rows))
            if out:
                below, of_children = out[-1]
                new = [n for n, row in enumerate(below) if (row.cells, row.coefficients) not in _keys(rows)]
                sums = np.zeros((self._n_units(level), len(new)), np.int64)
                np.add.at(sums, self.parents[level], of_children[:, new])
                rows, values = (*rows, *(below[n] for n in new)), np.hstack([values, sums])
            out.append((rows, values))
        return out[::-1]

    @cached_property
    def _sums(self) -> list[list[tuple[list[int], Ints]]]:
        """By level, cells with positive coefficients and their exact sum (unit,); what nested sums leave, too."""
        return [list(_positive_sums(rows, values)) for rows, values in self._exact]

    @cached_property
    def _units(self) -> list[Ints]:
        """The unit of each leaf at each level."""
        units = [np.arange(self._n_units(self.n_levels - 1))]
        for parents in reversed(self.parents):
            units.append(parents[units[-1]])
        return units[::-1]

    @cached_property
    def open_places(self) -> Mask:
        """Which cells of which leaves (leaf, cell) are not known to be empty, by structure or since a sum is 0."""
        is_empty = np.zeros((self._n_units(self.n_levels - 1), self.n_cells), np.bool_)
        for level, units in enumerate(self._units):
            mask = np.zeros((self._n_units(level), self.n_cells), np.bool_)
            if self.zeros and (zeros := self.zeros[level]) is not None:
                mask |= zeros
            for cells, sums in self._sums[level]:
                mask[np.ix_(sums == 0, cells)] = True
            is_empty |= mask[units]
        return ~is_empty

    @cached_property
    def has_partner(self) -> Mask:
        """From which open places (leaf, cell) one record can go to another one, all exact numbers as they are.

        A record of cell c passes to cell d of another leaf, or of the same, if the columns of c and d agree in the
        exact rows of all levels at which the leaves are in one unit, and are empty at all levels below.
        """
        is_open, out = self.open_places, np.zeros_like(self.open_places)
        by_level = [columns(rows, self.n_cells) for rows, _ in self._exact]
        for parting in range(self.n_levels + 1):
            parts: dict[tuple[Column, ...], list[int]] = {}
            for cell in range(self.n_cells):
                if not any(of_level[cell] for of_level in by_level[parting:]):
                    parts.setdefault(tuple(of_level[cell] for of_level in by_level[:parting]), []).append(cell)
            units = self._units[parting - 1] if parting else np.zeros(len(is_open), np.int64)
            for cells in parts.values():
                n_places = np.bincount(units, weights=is_open[:, cells].sum(axis=1))
                out[:, cells] |= is_open[:, cells] & (n_places > 1)[units][:, None]
        return out

    def fewest_records(self, neighbours: str) -> int:
        """Return the fewest records in which two trees with these numbers differ, 1 or 2, where that is proven.

        Raises `PrivacyError` where no change of one record keeps the exact numbers, or none is proven to exist.
        """
        check_relation(neighbours)
        held = {cell for rows, _ in self._exact for row in rows for cell in row.cells}
        loose = [cell for cell in range(self.n_cells) if cell not in held]
        if neighbours == "unbounded" and self.open_places[:, loose].any():
            return 1  # a record may come to a cell that is in no exact number
        if not self.has_partner.any():
            raise PrivacyError(
                "no certificate: the exact numbers of all levels together leave no cell and no leaf that one record"
                " could change into; leave out some of them"
            )
        if not (self.has_partner[:, loose].any() or self._has_changing_sum()):
            raise PrivacyError(
                "no certificate: it is not proven that some tree with these exact numbers has a record that can change"
                " alone; leave out some of them"
            )
        return 1 if neighbours == "bounded" else 2

    def _has_changing_sum(self) -> bool:
        """Whether some exact sum is above 0 and all its places have partners: one of them has a record."""
        for level, units in enumerate(self._units):
            is_stuck = self.open_places & ~self.has_partner
            for cells, sums in self._sums[level]:
                n_stuck, n_open = (
                    np.bincount(units, weights=places[:, cells].sum(axis=1), minlength=len(sums))
                    for places in (is_stuck, self.open_places)
                )
                if ((sums > 0) & (n_stuck == 0) & (n_open > 0)).any():
                    return True
        return False


def _keys(rows: Sequence[Row]) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    return {(row.cells, row.coefficients) for row in rows}


def _positive_sums(rows: Sequence[Row], values: Ints) -> Iterator[tuple[list[int], Ints]]:
    plain = [number for number, row in enumerate(rows) if set(row.coefficients) == {1}]
    for number, row in enumerate(rows):
        if min(row.coefficients, default=0) <= 0:
            continue
        yield list(row.cells), values[:, number]
        if number in plain:
            inside = [n for n in plain if set(rows[n].cells) < set(row.cells)]
            largest = [n for n in inside if not any(set(rows[n].cells) < set(rows[m].cells) for m in inside)]
            rest = set(row.cells).difference(*(rows[n].cells for n in largest))
            if largest and rest and len(row.cells) - len(rest) == sum(len(rows[n].cells) for n in largest):
                yield sorted(rest), values[:, number] - values[:, largest].sum(axis=1)
