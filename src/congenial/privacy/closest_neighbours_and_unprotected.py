"""Which tables of S* are neighbours: the fewest records that can change, an example, and what is no longer protected.

Invariants can make a change of one record impossible (GM section 5.1). Everything here follows from the published
conditions alone, so all of it is public.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice

import numpy as np

from congenial.conditions.constraints import CellBounds, Constraints
from congenial.conditions.grouped_cells_and_lattice import Box, spread
from congenial.conditions.integer_program import EmptyError, find_point, minimise, propagate
from congenial.conditions.rows_and_intervals import Column, Limited, Row, cells_alike, columns, connected_parts
from congenial.errors import PrivacyError
from congenial.privacy import check_relation

# Two tables of S* that differ in the fewest records, by integer programs in exact integers.

MOST_PROGRAMS = 400
MOST_DIFFERENCES = 100_000

Pair = tuple[tuple[int, ...], tuple[int, ...]]
Groups = tuple[int, ...]


@dataclass(frozen=True)
class ClosestPair:
    """The fewest records in which two tables differ, whether fewer are proven impossible, and such a pair."""

    k: int | None
    is_smallest: bool
    pair: Pair | None


def closest_pair(constraints: Constraints, relation: str) -> ClosestPair:
    """Find two tables of S* that differ in the fewest records.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> closest_pair(two_bins().target.constraints, "unbounded").k
    2
    """
    pair, is_decided = _one_record(constraints, relation)
    if pair is not None:
        return ClosestPair(1, is_smallest=True, pair=pair)
    # From here on no record changes inside a group of cells with identical columns, so programs over groups see every
    # pair; one that leaves a cell and enters another of its group would be the pair that follows.
    if relation == "unbounded":
        pair, also = _one_record(constraints, "bounded")
        is_decided &= also
        if pair is not None:
            return ClosestPair(2, is_smallest=is_decided, pair=pair)
    elif (pair := _two_records(constraints)) is not None:
        return ClosestPair(2, is_smallest=is_decided, pair=pair)
    return _several_records(constraints, relation, is_decided=is_decided)


def _two_records(constraints: Constraints) -> Pair | None:
    """Look for two records that change together, each by the opposite of what the other does to the equalities.

    In large two-way tables this finds at once what an integer program takes minutes for.
    """
    grouped = constraints.grouped
    of_group = columns([row.row for row in grouped.rows], len(grouped.members))
    seen: dict[Column, tuple[int, int]] = {}
    for first, second in islice(combinations(range(len(of_group)), 2), MOST_DIFFERENCES):
        change = dict(of_group[second])
        for row, weight in of_group[first]:
            change[row] = change.get(row, 0) - weight
        key = tuple(sorted((row, weight) for row, weight in change.items() if weight))
        other = seen.setdefault(key, (first, second))
        if other != (first, second) and not {first, second} & set(other):
            entering, leaving = (second, other[0]), (first, other[1])
            try:  # what crosses is equal, so ranges hold too
                point = find_point(grouped.rows, _with_room(grouped.box, entering, leaving))
            except EmptyError:
                continue
            if point is not None:
                after = [x + (g in entering) - (g in leaving) for g, x in enumerate(point)]
                return _monotone_pair(constraints, point, after)
    return None


def _one_record(constraints: Constraints, relation: str) -> tuple[Pair | None, bool]:
    """Return a pair of tables one record apart, and whether every candidate was decided."""
    grouped = constraints.grouped
    is_decided = True
    for entering, leaving in _candidates(constraints, relation):
        try:
            rows = [_moved_range(row, entering, leaving) for row in grouped.rows]
            point = find_point(rows, _with_room(grouped.box, entering, leaving))
        except EmptyError:
            continue
        if point is not None:
            return _pair(constraints, point, entering, leaving), True
        is_decided = False
    return None, is_decided


def _with_room(box: Box, entering: Sequence[int], leaving: Sequence[int]) -> Box:
    """Return limits with room for a record in each entered group and a record in each left one, before the change."""
    low = [end if end is None else end + (number in leaving) for number, end in enumerate(box.low)]
    return Box(low, [end if end is None else end - (number in entering) for number, end in enumerate(box.high)])


def _candidates(constraints: Constraints, relation: str) -> Iterator[tuple[Groups, Groups]]:
    """Go through groups (entering, leaving) between which the equalities allow one record to pass."""
    grouped = constraints.grouped
    alike = cells_alike([row.row for row in grouped.rows if row.is_equality], len(grouped.members))
    if relation == "unbounded":
        yield from (((group,), ()) for group in alike.get((), ()))
        return
    for groups in alike.values():
        yield from (((group,), (group,)) for group in groups if len(_loose(constraints, group)) > 1)
    for groups in alike.values():
        for first, second in combinations(groups, 2):
            yield from (((first,), (second,)), ((second,), (first,)))


def _moved_range(row: Limited, entering: Groups, leaving: Groups) -> Limited:
    """Narrow a row so that it holds before and after one record passes."""
    change = sum(row.terms.get(group, 0) for group in entering) - sum(row.terms.get(group, 0) for group in leaving)
    limits = row.limits & row.limits.shifted(-change)
    if limits.is_empty:
        raise EmptyError
    return Limited(row.row, limits)


def _loose(constraints: Constraints, group: int) -> list[int]:
    cells = constraints.grouped.members[group]
    return [cell for cell in cells if not constraints.is_fixed(cell)]


def _pair(constraints: Constraints, point: Sequence[int], entering: Groups, leaving: Groups) -> Pair:
    sources = [_loose(constraints, group)[0] for group in leaving]
    into = [next(cell for cell in _loose(constraints, group) if cell not in sources) for group in entering]
    before = spread(constraints.grouped, point, *_with_room(Box.of(constraints.limits), into, sources))
    return before, tuple(count + (cell in into) - (cell in sources) for cell, count in enumerate(before))


def _several_records(constraints: Constraints, relation: str, *, is_decided: bool) -> ClosestPair:
    """Minimise the number of changed records over pairs of tables that differ in a given group, group by group."""
    grouped = constraints.grouped
    n = len(grouped.members)
    step = 2 if relation == "bounded" else 1  # norms of bounded changes are even
    least = 2 * step
    best: tuple[int, Pair] | None = None
    bounds: list[int | None] = [] if n <= MOST_PROGRAMS and is_decided else [None]
    for group in range(min(n, MOST_PROGRAMS)):
        # Only pairs that are closer than the best one matter, so most programs are soon found empty.
        most = None if best is None else best[0] - step
        try:
            rows, box = _pair_program(constraints, relation, group, least, most)
            minimum = minimise(rows, box, dict.fromkeys(range(n, 3 * n), 1))
        except EmptyError:
            continue
        bounds.append(minimum.bound)
        if minimum.point is None:
            continue
        norm = sum(minimum.point[n:])
        if best is None or norm < best[0]:
            sums = minimum.point[:n]
            after = [s + p - m for s, p, m in zip(sums, minimum.point[n : 2 * n], minimum.point[2 * n :], strict=True)]
            best = norm, _monotone_pair(constraints, sums, after)
        if best[0] == least and is_decided:
            bounds = [least]
            break
    if best is None:
        if bounds:
            raise PrivacyError(
                "whether any two tables that obey the conditions are neighbours could not be decided within the search"
                " limit; state fewer or simpler conditions, or give cells bounds(lower, upper)"
            )
        return ClosestPair(None, is_smallest=True, pair=None)
    is_smallest = all(bound is not None and bound >= best[0] for bound in bounds)
    return ClosestPair(best[0] // step, is_smallest, best[1])


def _pair_program(
    constraints: Constraints, relation: str, group: int, least: int, most: int | None
) -> tuple[list[Limited], Box]:
    """Return the program whose variables are a table's group sums, what enters each group, and what leaves it."""
    grouped = constraints.grouped
    n = len(grouped.members)
    low, high = propagate(grouped.rows, grouped.box)
    rows = list(grouped.rows)
    for row in grouped.rows:  # the table after the change
        entered = {n + g: w for g, w in row.terms.items()}
        leaving = {2 * n + g: -w for g, w in row.terms.items()}
        rows.append(Limited(Row.weighted({**row.terms, **entered, **leaving}), row.limits))
    rows += [Limited.of(Row.weighted({g: 1, n + g: 1, 2 * n + g: -1}), low[g], high[g]) for g in range(n)]
    if relation == "bounded":
        rows.append(Limited.equal(Row.weighted({i: 1 if i < 2 * n else -1 for i in range(n, 3 * n)}), 0))
    rows.append(Limited.of(Row.of("", range(n, 3 * n)), least, most))
    widths = [None if a is None or b is None else b - a for a, b in zip(low, high, strict=True)]
    box = Box([*low, *([0] * (2 * n))], [*high, *widths, *widths])
    box.low[n + group], box.high[2 * n + group] = 1, 0
    if widths[group] == 0:
        raise EmptyError
    return rows, box


def _monotone_pair(constraints: Constraints, before: Sequence[int], after: Sequence[int]) -> Pair:
    """Return tables with these group sums in which every cell of a group moves the same way."""
    grouped = constraints.grouped
    first = spread(grouped, before, constraints.lower, constraints.upper)
    falls = {c for cells, a, b in zip(grouped.members, before, after, strict=True) if b < a for c in cells}
    low = [x if c not in falls else constraints.lower[c] for c, x in enumerate(first)]
    high = [x if c in falls else constraints.upper[c] for c, x in enumerate(first)]
    return first, spread(grouped, after, low, high)


_QUICK = 80  # groups of cells: two integer programs each


@dataclass(frozen=True)
class Attribute:
    """What one changed record can do to one dimension.

    Attributes
    ----------
    classes : tuple of tuples of labels
        A record's label can change only inside its class. A class of one label is not protected.
    """

    dimension: str
    classes: tuple[tuple[str, ...], ...]

    @property
    def is_pinned(self) -> bool:
        """Whether no change of one record alters this dimension."""
        return all(len(labels) == 1 for labels in self.classes)

    @property
    def is_narrowed(self) -> bool:
        """Whether some labels cannot change into others, though not all are pinned."""
        return len(self.classes) > 1 and not self.is_pinned

    @property
    def text(self) -> str:
        """The finding in words."""
        if self.is_pinned:
            return f"{self.dimension}: not protected, no change of one record alters it"
        if not self.is_narrowed:
            return f"{self.dimension}: every value can change into every other"
        shown = [f"{labels[0]} ... {labels[-1]}" if len(labels) > 2 else ", ".join(labels) for labels in self.classes]
        return f"{self.dimension}: protected only inside each of {{{'}, {'.join(shown[:6])}}}" + (
            f" and {len(shown) - 6} more" if len(shown) > 6 else ""
        )


@dataclass(frozen=True, repr=False)
class Neighbours:
    """The neighbour structure of S* under one relation. Public.

    Attributes
    ----------
    k : int or None
        The fewest records in which two tables of S* can differ; None when no two tables are neighbours at any distance.
    is_smallest : bool
        Whether it is proven that fewer are impossible.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> neighbours = neighbours_of(p12_mechanism().disclose(p12_table()), "bounded")
    >>> neighbours.k, neighbours.disruption
    (1, 'intact')
    >>> neighbours.example
    'one record changes from sex=female, age=under 5 to sex=female, age=5-9'
    >>> neighbours.attributes[0].text
    'sex: not protected, no change of one record alters it'
    """

    constraints: Constraints
    relation: str
    k: int | None
    is_smallest: bool
    known_pair: Pair | None = field(default=None, repr=False)

    @cached_property
    def pair(self) -> Pair | None:
        """Two tables of S* that are `k` records apart: an example, unrelated to any confidential table."""
        if self.known_pair is not None or self.k is None:
            return self.known_pair
        return closest_pair(self.constraints, self.relation).pair

    @property
    def disruption(self) -> str:
        """GM's word for it: ``intact``, ``substantially disrupted`` or ``destroyed``."""
        if self.k is None:
            return "destroyed"
        return "intact" if self.k == 1 else "substantially disrupted"

    @property
    def example(self) -> str:
        """The example in words."""
        if self.pair is None or self.k is None:
            return "no two tables that obey the conditions are neighbours, however many records change"
        name = self.constraints.schema.cell_name
        change = [after - before for before, after in zip(*self.pair, strict=True)]
        leaving = [name(cell) for cell, size in enumerate(change) for _ in range(max(0, -size))]
        entering = [name(cell) for cell, size in enumerate(change) for _ in range(max(0, size))]
        if self.relation == "bounded":
            moves = [f"from {a} to {b}" for a, b in zip(leaving, entering, strict=True)]
            head = "one record changes" if self.k == 1 else f"{self.k} records change together:"
            return f"{head} {_listed(moves)}"
        parts = [f"a record of {a} is removed" for a in leaving] + [f"a record of {b} is added" for b in entering]
        return _listed(parts)

    @cached_property
    def _bounds(self) -> CellBounds:
        """The limits of cells: the tightest where that is quick, else by interval arithmetic."""
        is_quick = len(self.constraints.grouped.members) <= _QUICK
        return self.constraints.cell_bounds if is_quick else self.constraints.quick_bounds

    @property
    def _pinned(self) -> set[int]:
        return set(self._bounds.pinned)

    @cached_property
    def _classes(self) -> dict[Column, list[int]]:
        """Cells that can move, by their column in the equalities."""
        loose = {
            column: [cell for cell in cells if cell not in self._pinned]
            for column, cells in self.constraints.alike.items()
        }
        return {column: cells for column, cells in loose.items() if cells}

    @property
    def has_cells_alike(self) -> bool:
        """Whether a record can change from some cell into another, as far as equalities and pinned cells say."""
        return any(len(cells) > 1 for cells in self._classes.values())

    @cached_property
    def isolated_cells(self) -> tuple[str, ...]:
        """Cells whose records cannot change alone: at k = 1 nothing is promised to them."""
        alike = self._classes
        alone = [c for column, cells in alike.items() if _is_alone(column, cells, self.relation) for c in cells]
        return tuple(self.constraints.schema.cell_name(cell) for cell in sorted({*alone, *self._pinned}))

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """For every dimension, what a change of one record's value can do to it."""
        schema = self.constraints.schema
        is_tied = self.relation == "bounded" and self.k != 1 and self.is_smallest  # no record changes alone
        alike = [] if is_tied else [cells for cells in self._classes.values() if len(cells) > 1]
        out = []
        for axis, dimension in enumerate(schema.names):
            labels = schema.labels(dimension)
            families = (np.unravel_index(cells, schema.shape)[axis].tolist() for cells in alike)
            parts = connected_parts(families, range(len(labels)))
            out.append(Attribute(dimension, tuple(tuple(labels[number] for number in part) for part in parts)))
        return tuple(out)

    @property
    def unprotected_records(self) -> tuple[str, ...]:
        """What of a record is not protected, or only together with others, in sentences."""
        if self.k is not None and self.k > 1:
            what = "change its value" if self.relation == "bounded" else "come or go"
            out = [f"no single record can {what} alone: what is promised is promised to {self.k} records together"]
        else:
            out = [a.text for a in self.attributes if a.is_pinned or a.is_narrowed]
            if self.isolated_cells and self.k == 1:
                shown = "; ".join(self.isolated_cells[:4]) + ("; ..." if len(self.isolated_cells) > 4 else "")
                out.append(f"nothing is promised to one record alone where it cannot change alone: records of {shown}")
        return tuple(out)

    @property
    def no_longer_protected(self) -> tuple[str, ...]:
        """What the published conditions disclose by themselves, in sentences: of records, then of cells."""
        out = list(self.unprotected_records)
        name, bounds = self.constraints.schema.cell_name, self._bounds
        disclosed = {name(cell): bounds.lower[cell] for cell in bounds.pinned}
        if disclosed:
            shown = ", ".join(f"{name} = {value:,}" for name, value in list(disclosed.items())[:5])
            more = f" and {len(disclosed) - 5} more" if len(disclosed) > 5 else ""
            out.append(f"cells that the conditions disclose: {shown}{more}")
        return tuple(out)

    def __repr__(self) -> str:
        head = f"{self.relation} neighbours, structure {self.disruption}"
        if self.k is not None:
            few = "the fewest" if self.is_smallest else "at most the fewest"
            head += f": k = {self.k}, {few} records in which two tables that obey the conditions can differ"
        return "\n  ".join([head, f"example: {self.example}", *(f"{text}" for text in self.no_longer_protected)])


def neighbours_of(constraints: Constraints, relation: str) -> Neighbours:
    """Find the fewest records in which two tables of S* can differ, by integer programming."""
    closest = closest_pair(constraints, check_relation(relation))
    return Neighbours(constraints, relation, closest.k, closest.is_smallest, closest.pair)


def _is_alone(column: Column, cells: Sequence[int], relation: str) -> bool:
    return len(cells) == 1 if relation == "bounded" else bool(column)


def _listed(parts: Sequence[str]) -> str:
    shown = list(parts[:4])
    return "; ".join(shown) + (f"; and {len(parts) - 4} more" if len(parts) > 4 else "")
