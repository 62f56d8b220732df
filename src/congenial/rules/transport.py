"""Parts of a table with two families of disjoint sums, as both margins of a two-way table: convex transport.

A group of cells is in one sum of the first family and in one of the second: cells are arcs of a bipartite graph, sums
its nodes. Least squares with fixed sums is a flow of least convex cost, and it is integral. Successive shortest paths
solve it exactly, in integers: start at cells that are optimal for *some* sums, and move single units along cheapest
paths until the sums are right. Cells stay optimal for the sums they have, so that paths have no negative cycle.

Cost and words are one number, ``scale (s - n)^2 + word s``: on a cycle of moves, words add up to less than the scale,
so words decide between equals only. Areas of a part go side by side; none of them knows of the others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.rows_and_intervals import Interval
from congenial.errors import ConditionError
from congenial.rules.rule_and_input import WORD_BITS
from congenial.rules.sums_and_parts import Part
from congenial.rules.water_level import CellSet

_BITS = 24  # of the words that are used here
_SWEEPS = (
    3  # of prices before the paths begin: then two to ten paths are left, and further sweeps take longer than those
)
_CELLS_AT_ONCE = 200_000
_TRIES = 10_000
_LARGEST = 2**61  # of costs in 64 bits; above, Python's integers


@dataclass(frozen=True)
class DisjointSum:
    """One sum of a family: its groups, and how its value follows from the rows of the part."""

    groups: frozenset[int]
    origin: tuple[int, ...]


@dataclass(frozen=True)
class Families:
    """Two families of sums, each group in at most one of either, that say the same as the rows of a part.

    Examples
    --------
    >>> from congenial.conditions.constraints import Constraints
    >>> from congenial.conditions.queries import margin
    >>> from congenial.rules.sums_and_parts import SumStructure
    >>> from congenial.schema import Schema
    >>> grid = Schema({"row": ["1", "2", "3"], "column": ["x", "y", "z"]})
    >>> sums = [margin("row", equals=[2, 2, 2]), margin("column", equals=[3, 2, 1])]
    >>> (part,) = SumStructure.of(Constraints.of(grid, sums)).parts
    >>> families = Families.of(part)
    >>> len(families.first), len(families.second), families.needs_slack
    (3, 3, False)
    """

    first: tuple[DisjointSum, ...]
    second: tuple[DisjointSum, ...]
    needs_slack: bool

    @classmethod
    def of(cls, part: Part) -> "Families | None":
        """Return the families of a part; None where it has none, or where a search of some length finds none."""
        n_rows = len(part.rows)
        sums = []
        for number, line in enumerate(part.matrix):
            entries = {int(entry) for entry in line if entry}
            if entries not in ({1}, {-1}):
                return None
            sign = entries.pop()
            origin = tuple(sign * (place == number) for place in range(n_rows))
            sums.append(DisjointSum(frozenset(np.flatnonzero(line).tolist()), origin))
        families = _divided(_ordered(sums))
        if families is None:
            return None
        first, second = (_completed(one, other, len(part.groups)) for one, other in (families, families[::-1]))
        covers = [sum(len(some.groups) for some in family) == len(part.groups) for family in (first, second)]
        return cls(tuple(first), tuple(second), not all(covers))


def _ordered(sums: Sequence[DisjointSum]) -> list[DisjointSum]:
    """Return sums such that each has as few choices as may be: sums that contain others last, neighbours together."""
    inner = [some for some in sums if not any(other.groups < some.groups for other in sums)]
    ordered: list[DisjointSum] = []
    waiting = sorted(inner, key=lambda some: (len(some.groups), min(some.groups)))
    while waiting:
        queue = [waiting.pop(0)]
        while queue:
            some = queue.pop(0)
            ordered.append(some)
            queue += [other for other in waiting if other.groups & some.groups]
            waiting = [other for other in waiting if not other.groups & some.groups]
    outer = [some for some in sums if some not in inner]
    return ordered + sorted(outer, key=lambda some: (len(some.groups), min(some.groups)))


def _divided(sums: Sequence[DisjointSum]) -> tuple[list[DisjointSum], list[DisjointSum]] | None:
    """Put each sum, less those of a family that it contains, into that family; by search, as far as `_TRIES` go."""
    stack: list[tuple[int, tuple[DisjointSum, ...], tuple[DisjointSum, ...]]] = [(0, (), ())]
    for _ in range(_TRIES):
        if not stack:
            return None
        number, first, second = stack.pop()
        if number == len(sums):
            return list(first), list(second)
        for family, other, is_first in ((second, first, False), (first, second, True)):
            rest = _less(sums[number], family)
            if rest is not None:
                longer = (*family, rest)
                stack.append((number + 1, longer, other) if is_first else (number + 1, other, longer))
    return None


def _less(some: DisjointSum, family: Sequence[DisjointSum]) -> DisjointSum | None:
    """Return a sum less those of a family that lie in it; None where one lies across its border, or nothing is left."""
    groups, origin = some.groups, some.origin
    for member in family:
        if member.groups <= some.groups:
            groups = groups - member.groups
            origin = tuple(a - b for a, b in zip(origin, member.origin, strict=True))
        elif member.groups & some.groups:
            return None
    return DisjointSum(groups, origin) if groups else None


def _completed(family: list[DisjointSum], other: list[DisjointSum], n_groups: int) -> list[DisjointSum]:
    """Add the sum of the groups that are in none, where the other family has them all, and so the total."""
    if sum(len(some.groups) for some in other) < n_groups:
        return family
    total = tuple(map(sum, zip(*(some.origin for some in other), strict=True)))
    rest = _less(DisjointSum(frozenset(range(n_groups)), total), family)
    return family if rest is None else [*family, rest]


class _Arc(NamedTuple):
    """A variable: where it is on the grid (down, across, depth), its cell (None: a slack) and its limits."""

    place: tuple[int, int, int]
    cell: int | None
    limits: Interval


@dataclass(frozen=True)
class Transport:
    """A part as a grid: sums of the first family down, of the second across, variables of one place in depth.

    Groups that are in no sum of a family have a last line of their own. Its sum is free: a slack at the end of both
    last lines takes up what they have.
    """

    part: Part
    families: Families
    limits: tuple[Interval, ...]

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """The line down and the line across of each group."""
        first, second = self.families.first, self.families.second
        down = {group: number for number, some in enumerate(first) for group in some.groups}
        across = {group: number for number, some in enumerate(second) for group in some.groups}
        groups = range(len(self.part.groups))
        return [(down.get(group, len(first)), across.get(group, len(second))) for group in groups]

    @cached_property
    def _arcs(self) -> list[_Arc]:
        out: list[_Arc] = []
        depth: dict[tuple[int, int], int] = {}

        def add(place: tuple[int, int], cell: int | None, limits: Interval) -> None:
            depth[place] = depth.get(place, -1) + 1
            out.append(_Arc((*place, depth[place]), cell, limits))

        for group, place in zip(self.part.groups, self._places, strict=True):
            for cell in group.cells:
                add(place, cell, self.limits[cell])
            if group.is_slack:
                add(place, None, group.limits)
        if self.families.needs_slack:
            add((len(self.families.first), len(self.families.second)), None, Interval(None, None))
        return out

    @cached_property
    def _shape(self) -> tuple[int, int, int]:
        down, across, depth = (1 + max(arc.place[axis] for arc in self._arcs) for axis in range(3))
        return down, across, depth

    def decide(self, values: Ints, measurements: Ints, words: Ints, far: int) -> Iterator[tuple[int, Ints]]:
        """Yield each cell of the part with its counts (unit,).

        Parameters
        ----------
        values : array (unit, row)
            What the rows of the part must be.
        measurements, words : arrays (unit, cell)
        far : int
            Stands for no limit.
        """
        n_units = len(values)
        at_once = max(1, _CELLS_AT_ONCE // int(np.prod(self._shape)))
        parts = [slice(start, start + at_once) for start in range(0, n_units, at_once)]
        solved = [self._solve(values[part], measurements[part], words[part], far) for part in parts]
        for number, arc in enumerate(self._arcs):
            if arc.cell is not None:
                yield arc.cell, np.concatenate([some[:, number] for some in solved])

    def _solve(self, values: Ints, measurements: Ints, words: Ints, far: int) -> Ints:
        """Return the variables (unit, variable) of some units."""
        arcs = self._arcs
        cells = [0 if arc.cell is None else arc.cell for arc in arcs]
        is_cell = np.array([arc.cell is not None for arc in arcs])
        low = np.array([-far if arc.limits.low is None else arc.limits.low for arc in arcs])
        high = np.array([far if arc.limits.high is None else arc.limits.high for arc in arcs])
        targets = np.where(is_cell, measurements[:, cells], 0)
        origin = np.clip(targets, low, high)
        # Differences from there: costs then stay small, however large the counts are.
        nodes = _Nodes.of(arcs, self.families, values, origin)
        bound = np.abs(nodes.down).sum(axis=1) + np.abs(nodes.across).sum(axis=1) + np.abs(targets - origin).max(axis=1)
        scale = 1 << (_BITS + sum(self._shape[:2]).bit_length())
        is_large = 8 * (sum(self._shape[:2]) + 2) * scale * (bound.astype(object) + 1) >= _LARGEST
        flows = np.empty(targets.shape, np.int64)
        for chosen, kind in ((~is_large, np.dtype(np.int64)), (is_large, np.dtype(object))):
            if chosen.any():
                grid = _Grid(
                    self._shape,
                    arcs,
                    scale,
                    kind,
                    targets=(targets - origin)[chosen],
                    low=(low - origin)[chosen],
                    high=(high - origin)[chosen],
                    words=np.where(is_cell, words[:, cells] >> (WORD_BITS - _BITS), 0)[chosen],
                    is_cell=is_cell,
                )
                flows[chosen] = grid.balanced(nodes.down[chosen], nodes.across[chosen], with_prices=bool(is_cell.all()))
        return origin + flows


@dataclass(frozen=True)
class _Nodes:
    """What each sum lacks at the start (unit, sum), of both families."""

    down: Ints
    across: Ints

    @classmethod
    def of(cls, arcs: Sequence[_Arc], families: Families, values: Ints, origin: Ints) -> "_Nodes":
        lacking = []
        for axis, family in enumerate((families.first, families.second)):
            n_lines = 1 + max(arc.place[axis] for arc in arcs)
            origins = np.array([some.origin for some in family], np.int64).reshape(len(family), values.shape[1])
            sums = np.zeros((len(values), n_lines), np.int64)
            sums[:, : len(family)] = values @ origins.T
            for number, arc in enumerate(arcs):
                sums[:, arc.place[axis]] -= origin[:, number]
            lacking.append(sums)
        if families.needs_slack:
            # Both last lines are free; they differ by what the sums of the families differ by.
            down, across = lacking
            down[:, -1] = 0
            across[:, -1] = down.sum(axis=1) - across[:, :-1].sum(axis=1)
        return cls(*lacking)


class _Grid:
    """Variables of some units on the grid (unit, down, across, depth), and how their costs change by one unit.

    Integers of 64 bits, or of Python where these might not hold the costs: the results are the same.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        arcs: Sequence[_Arc],
        scale: int,
        kind: np.dtype[Any],
        *,
        targets: Ints,
        low: Ints,
        high: Ints,
        words: Ints,
        is_cell: NDArray[np.bool_],
    ) -> None:
        self._scale, self._kind = scale, kind
        self._endless = 2**61 if kind == np.int64 else 2**300
        down, across, depth = (np.array([arc.place[axis] for arc in arcs]) for axis in range(3))
        self._index = down, across, depth
        n_units = len(targets)

        def laid_out(numbers: NDArray[Any], missing: int) -> NDArray[Any]:
            out = np.full((n_units, *shape), missing, kind)
            out[:, down, across, depth] = numbers
            return out

        self._targets, self._words = laid_out(targets, 0), laid_out(words, 0)
        self._low, self._high = laid_out(low, 0), laid_out(high, 0)  # what is not there stays 0
        self._is_cell = laid_out(np.broadcast_to(is_cell, targets.shape).astype(np.int64), 0)
        self.flow = np.zeros((n_units, *shape), kind)

    def balanced(self, down: Ints, across: Ints, *, with_prices: bool) -> NDArray[Any]:
        """Return the variables (unit, variable) of least cost with what the sums lack (unit, sum) made up for."""
        needs = [down.astype(self._kind), across.astype(self._kind)]
        if with_prices:
            self.flow = self._priced(needs)
            needs = [needs[0] - self.flow.sum(axis=(2, 3)), needs[1] - self.flow.sum(axis=(1, 3))]
        units = np.arange(len(down))
        while True:
            is_open = (needs[0][units] != 0).any(axis=1)
            is_open |= (needs[1][units] != 0).any(axis=1)
            units = units[is_open]
            if not len(units):
                at_down, at_across, at_depth = self._index
                return self.flow[:, at_down, at_across, at_depth]
            self._augment(units, *needs)

    # Prices: a first flow that is optimal for the sums it has, which are nearly those that are wanted.

    def _priced(self, needs: Sequence[NDArray[Any]]) -> NDArray[Any]:
        prices = np.zeros(needs[1].shape, self._kind)
        for number in range(_SWEEPS):
            flow, down_prices = self._with_sums(needs[0], prices[:, None, :, None], 1)
            if number + 1 < _SWEEPS:
                _, prices = self._with_sums(needs[1], down_prices[:, :, None, None], 2)
        return flow

    def _with_sums(self, sums: NDArray[Any], prices: NDArray[Any], axis: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the cheapest flow with the sums of one family, given prices of the other; and the sums' own prices.

        A unit from s to s + 1 costs ``scale (2 (s - target) + 1) + word - price``: it has a level in steps of twice the
        scale, and what is over orders the units of one level.
        """
        step = 2 * self._scale
        offset = self._scale * (1 - 2 * self._targets) + self._words - prices
        level, over = offset // step, offset % step
        n_lines = sums.shape[1]
        wide = [np.moveaxis(some, axis, 1) for some in (-level, over, self._low, self._high)]
        inner = wide[0].shape[2:]
        # (variable of a line, unit and line)
        targets, order, low, high = (some.reshape(len(sums) * n_lines, -1).T for some in wide)
        n_inner = len(targets)
        order = order * n_inner + np.arange(n_inner).astype(self._kind)[:, None]
        cells = CellSet(targets, low, high, is_plain=False)
        wanted = np.clip(sums.reshape(-1), low.sum(axis=0), high.sum(axis=0))
        flow = cells.spread(wanted, order).T.reshape(len(sums), n_lines, *inner)
        unit = cells.at(wanted)
        ranked = cells.sorted_words(unit.level, order, np.arange(len(wanted)))
        columns = np.arange(len(wanted))
        rest = unit.rest.astype(np.int64)
        after = np.minimum(ranked[rest, columns] // n_inner, step - 1)
        before = np.where(rest > 0, ranked[np.maximum(rest - 1, 0), columns] // n_inner, 0)
        own_prices = step * unit.level + (before + after) // 2
        return np.moveaxis(flow, 1, axis), own_prices.reshape(sums.shape)

    # Paths.

    def _augment(self, units: Ints, down_needs: NDArray[Any], across_needs: NDArray[Any]) -> None:
        """Move one unit along a cheapest path in each of some units."""
        endless = self._endless
        flow, targets, words = self.flow[units], self._targets[units], self._words[units]
        scale = self._scale * self._is_cell[units]
        rise = scale * (2 * (flow - targets) + 1) + words
        more = np.where(flow < self._high[units], rise, endless)
        less = np.where(flow > self._low[units], 2 * scale - rise, endless)
        more_depth, less_depth = more.argmin(axis=3), less.argmin(axis=3)
        more, less = more.min(axis=3), less.min(axis=3)
        down, across = down_needs[units], across_needs[units]
        to_down, to_across = np.full(down.shape, endless, self._kind), np.full(across.shape, endless, self._kind)
        to_down[down > 0], to_across[across < 0] = 0, 0
        from_across = np.full(to_down.shape, -1)
        from_down = np.full(to_across.shape, -1)
        for _ in range(sum(to.shape[1] for to in (to_down, to_across)) + 2):
            paths = np.minimum(to_down[:, :, None] + more, endless)
            shortest = paths.min(axis=1)
            is_better = shortest < to_across
            from_down = np.where(is_better, paths.argmin(axis=1), from_down)
            to_across = np.where(is_better, shortest, to_across)
            paths = np.minimum(to_across[:, None, :] + less, endless)
            shortest = paths.min(axis=2)
            is_shorter = shortest < to_down
            from_across = np.where(is_shorter, paths.argmin(axis=2), from_across)
            to_down = np.where(is_shorter, shortest, to_down)
            if not (is_better.any() or is_shorter.any()):
                break
        else:
            raise AssertionError("a cheapest path of a flow that is optimal for its sums has no end")
        ends = np.concatenate([np.where(down < 0, to_down, endless), np.where(across > 0, to_across, endless)], axis=1)
        last = ends.argmin(axis=1)
        everyone = np.arange(len(units))
        if (ends[everyone, last] >= endless // 2).any():
            raise ConditionError("no table obeys the conditions of a unit: its exact numbers do not fit its limits")
        is_across = last >= down.shape[1]
        line = np.where(is_across, last - down.shape[1], last)
        across_needs[units[is_across], line[is_across]] -= 1
        down_needs[units[~is_across], line[~is_across]] += 1
        walking = everyone
        while len(walking):
            here, at = is_across[walking], line[walking]
            origin = np.where(
                here, from_down[walking, np.where(here, at, 0)], from_across[walking, np.where(here, 0, at)]
            )
            is_start = origin < 0
            first, first_line = walking[is_start], at[is_start]
            at_across = here[is_start]
            across_needs[units[first[at_across]], first_line[at_across]] += 1
            down_needs[units[first[~at_across]], first_line[~at_across]] -= 1
            walking, here, at, origin = walking[~is_start], here[~is_start], at[~is_start], origin[~is_start]
            row, column = np.where(here, origin, at), np.where(here, at, origin)
            depth = np.where(here, more_depth[walking, row, column], less_depth[walking, row, column])
            self.flow[units[walking], row, column, depth] += np.where(here, 1, -1)
            is_across[walking], line[walking] = ~here, origin
