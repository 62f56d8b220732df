"""What changes when records change: the steps between neighbouring tables of S*, and how far apart noise keeps them.

All of it is public. Every number here is an upper bound of a distance, or a lower bound of a precision, over *all*
pairs of tables of S* that are so many records apart; docs/claims/conditional-loss.md has the consequences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import gcd
from typing import Any

from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import Box, dependence
from congenial.conditions.integer_program import EmptyError, minimise
from congenial.conditions.rows_and_intervals import Column, Limited, Row, columns

MOST_PAIRS = 20_000
MOST_GROUPS = 150


@dataclass(frozen=True)
class MobileGroup:
    """Cells that can move and that conditions and measured queries treat alike.

    Attributes
    ----------
    equal, ranges, soft : tuple of (row, weight)
        The cells' columns in the equalities, in the ranges and in the measured rows over several cells.
    queries : tuple of (class, weight)
        Of the cell alone: the class of the query and the size of the weight.
    is_limited : bool
        Whether the cells have a limit that they could meet.
    """

    cells: tuple[int, ...]
    equal: Column
    ranges: Column
    soft: Column
    queries: Column
    is_limited: bool


@dataclass(frozen=True)
class MeasuredSum:
    """A measured row over several cells that can move, with the class of its query."""

    row: Row
    query_class: int


@dataclass(frozen=True)
class Step:
    """The worst of some pairs of neighbouring tables.

    Attributes
    ----------
    distance : Fraction
        ``sum_r e_r |q_r(z)|`` (D), or ``sum_r p_r q_r(z)^2 / 2`` (rho) under Gaussian noise.
    least : Fraction or None
        The smallest precision of a limit that the step can meet; None when it meets none.
    """

    distance: Fraction
    least: Fraction | None


@dataclass(frozen=True)
class StepShape:
    """What the price of a step depends on: how often it counts each class of queries, and which limits it can meet.

    Attributes
    ----------
    counts : tuple of int
        For each class, the sum of ``|q_r(z)|`` over its rows, or of its square.
    limits : frozenset of columns
        For each limit that the step can meet, the queries of it alone as (class, size of the weight).
    """

    counts: tuple[int, ...]
    limits: frozenset[Column]

    def distance(self, precisions: Sequence[Fraction]) -> Fraction:
        """Return the weighted sum of the counts."""
        return sum((p * n for p, n in zip(precisions, self.counts, strict=True) if n), Fraction(0))

    def least(self, precisions: Sequence[Fraction]) -> Fraction | None:
        """Return the smallest precision among the limits; None when there is none."""
        return min((sum((precisions[c] * w for c, w in queries), Fraction(0)) for queries in self.limits), default=None)


@dataclass(frozen=True)
class Moves:
    """The public structure of all steps inside S*; precisions come later, one for each class of queries."""

    constraints: Constraints
    n_classes: int
    groups: tuple[MobileGroup, ...]
    soft: tuple[MeasuredSum, ...]
    range_queries: tuple[Column, ...]
    all_groups: tuple[MobileGroup, ...]
    all_soft: tuple[MeasuredSum, ...]
    total_is_fixed: bool
    _known: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, constraints: Constraints, classes: Sequence[Sequence[Row]]) -> "Moves":
        """Collect the columns of every cell that can move.

        Parameters
        ----------
        classes : sequence of sequences of Row
            The measured rows; rows of one class share a precision.
        """
        n_cells = constraints.schema.n_cells
        mobile = [cell for cell, interval in enumerate(constraints.quick_bounds.limits) if not interval.is_point]
        equal = [limited.row for limited in constraints.equalities]
        ranges = [limited.row for limited in constraints.ranges]
        several = tuple(MeasuredSum(row, c) for c, rows in enumerate(classes) for row in rows if len(row.cells) > 1)
        queries: list[list[tuple[int, int]]] = [[] for _ in range(n_cells)]
        for c, rows in enumerate(classes):
            for row in rows:
                if len(row.cells) == 1:
                    queries[row.cells[0]].append((c, abs(row.coefficients[0])))
        everyone = Row.of("everyone", mobile)
        # A measured row that the equalities fix never changes.
        *is_fixed, total_is_fixed = _fixed([*(total.row for total in several), everyone], equal, set(mobile))
        moving = tuple(total for total, is_idle in zip(several, is_fixed, strict=True) if not is_idle)
        limited = [not interval.is_free for interval in constraints.limits]
        groups = _mobile_groups(mobile, (equal, ranges, [total.row for total in moving]), queries, limited)
        free = _mobile_groups(range(n_cells), ([], [], [total.row for total in several]), queries, limited)
        measured_ranges = tuple(_proportional(row, several) for row in ranges)
        return cls(constraints, len(classes), groups, moving, measured_ranges, free, several, total_is_fixed)

    def one_record_without_invariants(self, precisions: Sequence[Fraction], power: int, neighbours: str) -> Fraction:
        """Return the worst distance of one record on tables without any condition: the loss of M itself."""
        shapes = self._once(
            ("free", power, neighbours), lambda: self._any(self.all_groups, self.all_soft, power, neighbours)
        )
        return max((shape.distance(precisions) for shape in shapes), default=Fraction(0)) / power

    def steps(self, precisions: Sequence[Fraction], power: int, neighbours: str, k: int) -> list[Step]:
        """Return steps that are at least as bad as every pair of tables at most `k` records apart.

        Parameters
        ----------
        power : int
            1 for noise that falls with the distance, 2 for Gaussian noise.
        """
        if neighbours == "unbounded" and self.total_is_fixed:  # records leave and enter in pairs
            neighbours, k = "bounded", k // 2
        if k < 1 or not self.groups:
            return [Step(Fraction(0), None)]
        if k > 1:
            return [self._several(precisions, power, neighbours, k)]
        worst: dict[Fraction | None, Fraction] = {}
        for shape in self._once(("single", power, neighbours), lambda: self._single(power, neighbours)):
            least = shape.least(precisions)
            worst[least] = max(worst.get(least, Fraction(0)), shape.distance(precisions) / power)
        return [Step(distance, least) for least, distance in worst.items()]

    def _once(self, key: object, make: Callable[[], Any]) -> Any:
        """Return the cached structure of a key: it does not change with precisions."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _single(self, power: int, neighbours: str) -> set[StepShape]:
        """Return the shapes of all steps of one record that the equalities allow."""
        if neighbours == "unbounded":
            return {self._shape(group, None, self.soft, power) for group in self.groups if not group.equal}
        # Areas that differ in nothing but their own total give the same steps.
        different = {
            tuple((k.ranges, k.soft, k.queries, k.is_limited, len(k.cells) > 1) for k in members): members
            for members in self.exchanging
        }
        return set().union(*(self._any(members, self.soft, power, neighbours) for members in different.values()))

    @property
    def exchanging(self) -> list[list[MobileGroup]]:
        """The groups between which one record can pass: those with equal columns in the equalities."""
        alike: dict[Column, list[MobileGroup]] = {}
        for group in self.groups:
            alike.setdefault(group.equal, []).append(group)
        return list(alike.values())

    def steps_among(self, groups: Sequence[MobileGroup], precisions: Sequence[Fraction], neighbours: str) -> list[Step]:
        """Return steps at least as bad as those of one record that comes to, leaves or passes between some groups."""
        shapes = self._any(groups, self.soft, 1, neighbours)
        return [Step(shape.distance(precisions), shape.least(precisions)) for shape in shapes]

    def is_fixed(self, cells: Sequence[int]) -> bool:
        """Whether the equalities leave the sum of some cells one value."""
        mobile = {cell for group in self.groups for cell in group.cells}
        equal = [limited.row for limited in self.constraints.equalities]
        (answer,) = self._once(("fixed", tuple(cells)), lambda: _fixed([Row.of("", list(cells))], equal, mobile))
        return bool(answer)

    def _any(
        self, groups: Sequence[MobileGroup], soft: Sequence[MeasuredSum], power: int, neighbours: str
    ) -> set[StepShape]:
        """Return the shapes of a record that passes between any two of the groups, or at least as bad ones."""
        if neighbours == "unbounded":
            return {self._shape(group, None, soft, power) for group in groups}
        if len(groups) * (len(groups) + 1) // 2 <= MOST_PAIRS:
            same = [(group, group) for group in groups if len(group.cells) > 1]
            return {self._shape(a, b, soft, power) for a, b in [*same, *combinations(groups, 2)]}
        # Too many pairs: |w - w'| <= |w| + |w'|, and (w - w')^2 <= w^2 + w'^2, twice that if signs differ.
        mixed = any(min(total.row.coefficients) < 0 < max(total.row.coefficients) for total in soft)
        alone = {self._shape(group, None, soft, power, 2 if power == 2 and mixed else 1) for group in groups}
        limits = frozenset(queries for shape in alone for queries in shape.limits).union(self.range_queries)
        sides = {shape.counts for shape in alone}  # two cells of one group are a pair too
        if len(sides) ** 2 > MOST_PAIRS:
            sides = {tuple(max(column) for column in zip(*sides, strict=True))}
        return {StepShape(tuple(x + y for x, y in zip(a, b, strict=True)), limits) for a in sides for b in sides}

    def _shape(
        self, group: MobileGroup, other: MobileGroup | None, soft: Sequence[MeasuredSum], power: int, times: int = 1
    ) -> StepShape:
        counts = [0] * self.n_classes
        ends = [group] if other is None else [group, other]
        for end in ends:
            for c, weight in end.queries:
                counts[c] += weight**power
        for row, weight in _difference(group.soft, other.soft if other else ()).items():
            counts[soft[row].query_class] += times * abs(weight) ** power
        crossed = _difference(group.ranges, other.ranges if other else ())
        limits = {end.queries for end in ends if end.is_limited} | {self.range_queries[row] for row in crossed}
        return StepShape(tuple(counts), frozenset(limits))

    def _several(self, precisions: Sequence[Fraction], power: int, neighbours: str, k: int) -> Step:
        # k records are k steps of one record, each between any two cells that can move: distances of steps add up, and
        # so do square roots of rho.
        shapes = self._once(("any", power, neighbours), lambda: self._any(self.groups, self.soft, power, neighbours))
        crude = max((shape.distance(precisions) for shape in shapes), default=Fraction(0)) / power * k**power
        most = self._most(neighbours, k)
        reachable = list(self.groups)
        if most is not None:
            entries, rows = most
            norm = 2 * k if neighbours == "bounded" else k
            pairs = [(group, entry) for group, entry in zip(self.groups, entries, strict=True) if entry]
            reachable = [group for group, _ in pairs]
            of_cells = max(
                (_weight_of_cell(group, precisions, power) * entry ** (power - 1) for group, entry in pairs),
                default=Fraction(0),
            )
            of_rows = (precisions[total.query_class] * size**power for total, size in zip(self.soft, rows, strict=True))
            crude = min(crude, (of_cells * norm + sum(of_rows, Fraction(0))) / power)
        limits = frozenset(group.queries for group in reachable if group.is_limited).union(self.range_queries)
        return Step(crude, StepShape((), limits).least(precisions))

    def _most(self, neighbours: str, k: int) -> tuple[list[int], list[int]] | None:
        """Return how much of a step of `k` records each group and soft row can take at most; None: nothing better."""
        if self._has_distinct_ends(neighbours, k):
            largest = [max(map(abs, total.row.coefficients)) for total in self.soft]
            mixed = [min(total.row.coefficients) < 0 for total in self.soft]
            return [1] * len(self.groups), [k * a * (1 + both) for a, both in zip(largest, mixed, strict=True)]
        if len(self.groups) + len(self.soft) > MOST_GROUPS:
            return None
        most: tuple[list[int], list[int]] = self._once(("most", neighbours, k), lambda: self._solve_most(neighbours, k))
        return most

    def _has_distinct_ends(self, neighbours: str, k: int) -> bool:
        """Whether the two cells that two changed records enter, and those they leave, are four different ones.

        So it is where equalities are plain sums that tell all cells apart (docs/claims/conditional-loss.md): both
        margins of a table. Integer programs would find it too, cell by cell.
        """
        if neighbours != "bounded" or k != 2:
            return False
        is_alone = all(len(groups) == 1 and len(groups[0].cells) == 1 for groups in self.exchanging)
        return is_alone and all(weight == 1 for group in self.groups for _, weight in group.equal)

    def _solve_most(self, neighbours: str, k: int) -> tuple[list[int], list[int]]:
        n = len(self.groups)  # variables: records that enter each group, then records that leave it
        norm = 2 * k if neighbours == "bounded" else k
        by_row: dict[int, dict[int, int]] = {}
        for number, group in enumerate(self.groups):
            for row, weight in group.equal:
                by_row.setdefault(row, {}).update({number: weight, n + number: -weight})
        rows = [Limited.equal(Row.weighted(weights), 0) for weights in by_row.values()]
        if neighbours == "bounded":
            rows += [Limited.of(Row.of("", range(start, start + n)), 0, k) for start in (0, n)]
            rows.append(Limited.equal(Row.weighted({i: 1 if i < n else -1 for i in range(2 * n)}), 0))
        else:
            rows.append(Limited.of(Row.of("", range(2 * n)), 0, norm))
        box = Box([0] * (2 * n), [norm] * (2 * n))
        entries = []
        for number, group in enumerate(self.groups):
            # A single cell cannot be entered and left at once; a group of several cells can.
            leaving = n + number if len(group.cells) == 1 else None
            without = Box(box.low, [0 if i == leaving else norm for i in range(2 * n)])
            entries.append(_largest(rows, without, {number: 1}, norm))
        soft = []
        for number, total in enumerate(self.soft):
            weights = {i: w for i, group in enumerate(self.groups) for row, w in group.soft if row == number}
            both = {**weights, **{n + i: -w for i, w in weights.items()}}
            soft.append(_largest(rows, box, both, norm * max(map(abs, total.row.coefficients))))
        return entries, soft


def _largest(rows: Sequence[Limited], box: Box, objective: dict[int, int], otherwise: int) -> int:
    try:
        bound = minimise(rows, box, {i: -w for i, w in objective.items()}).bound
    except EmptyError:
        return 0
    return otherwise if bound is None else min(otherwise, -bound)


def _weight_of_cell(group: MobileGroup, precisions: Sequence[Fraction], power: int) -> Fraction:
    return sum((precisions[c] * weight**power for c, weight in group.queries), Fraction(0))


def _difference(first: Column, second: Column) -> dict[int, int]:
    out = dict(first)
    for row, weight in second:
        out[row] = out.get(row, 0) - weight
    return {row: weight for row, weight in out.items() if weight}


def _mobile_groups(
    cells: Sequence[int],
    rows: tuple[Sequence[Row], Sequence[Row], Sequence[Row]],
    queries: Sequence[Sequence[tuple[int, int]]],
    limited: Sequence[bool],
) -> tuple[MobileGroup, ...]:
    equal, ranges, soft = (columns(some, len(limited)) for some in rows)
    members: dict[tuple[Column, Column, Column, Column, bool], list[int]] = {}
    for cell in cells:
        key = (equal[cell], ranges[cell], soft[cell], tuple(sorted(queries[cell])), limited[cell])
        members.setdefault(key, []).append(cell)
    return tuple(MobileGroup(tuple(alike), *key) for key, alike in members.items())


def _fixed(rows: Sequence[Row], equal: Sequence[Row], mobile: set[int]) -> list[bool]:
    """Say of each row whether the equalities leave it one value; other cells do not move."""
    lines = [row.within(mobile) for row in (*equal, *rows)]
    follows = dependence(lines).follows
    # Independent rows are the earliest possible: a row that follows from equalities alone names no other.
    return [
        number in follows and all(cause < len(equal) for cause in follows[number])
        for number in range(len(equal), len(lines))
    ]


def _proportional(row: Row, several: Sequence[MeasuredSum]) -> Column:
    """Return the measurements of a range's own row, or of multiples of it, as (class, size of the multiple)."""
    out = []
    for total in several:
        if total.row.cells == row.cells:
            ratio = Fraction(total.row.coefficients[0], row.coefficients[0])
            if all(a == ratio * b for a, b in zip(total.row.coefficients, row.coefficients, strict=True)):
                # Both are integer rows and a range row is divided by its gcd, so the multiple is whole.
                out.append((total.query_class, abs(int(ratio)) * gcd(*row.coefficients)))
    return tuple(out)
