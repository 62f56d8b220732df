"""Limits of cells for many tables of one pattern at once: interval propagation on arrays, a line a table."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.areas import Group
from congenial.conditions.constraints import CellBounds
from congenial.conditions.groups import ROUNDS
from congenial.conditions.integer_program import FAR

NONE = 2**62
"""Stands for no limit, above; its negative for none below."""

_SAFE = 2**59


@dataclass(frozen=True)
class ManyBounds:
    """The limits of every cell of every table (table, cell), as `Constraints.quick_bounds` has them for one.

    Attributes
    ----------
    low, high : arrays (table, cell)
        Minus and plus `NONE` where there is no limit.
    """

    low: Ints
    high: Ints

    @property
    def pinned(self) -> NDArray[np.bool_]:
        """Cells with one possible value (table, cell)."""
        is_pinned: NDArray[np.bool_] = self.low == self.high
        return is_pinned

    @property
    def widths(self) -> Ints:
        """How many values above its least a cell can have; `NONE` where that has no limit."""
        is_open = (self.low == -NONE) | (self.high == NONE)
        return np.where(is_open, NONE, self.high - np.where(is_open, 0, self.low))


def quick_bounds(group: Group) -> ManyBounds:
    """Return the limits of cells in every area of a group."""
    pattern, values = group.pattern, group.values
    rows = pattern.grouped.rows
    ends = [end for row in rows for end in (row.lower, row.upper) if end is not None]
    ends += [end for side in (pattern.lower, pattern.upper) for end in side if end is not None]
    sizes = [sum(map(abs, row.coefficients.values())) for row in rows]
    largest = max([abs(end) for end in ends] + [int(np.abs(values).max(initial=0))], default=0)
    if values.dtype == object or max([*sizes, pattern.schema.n_cells]) * max(largest, 1) >= _SAFE:
        return _one_by_one(group)
    n_tables = len(values)
    low, high = (
        np.tile(np.array([missing if end is None else end for end in side], np.int64), (n_tables, 1))
        for side, missing in zip(pattern.grouped.box, (-NONE, NONE), strict=True)
    )
    limits: list[tuple[dict[int, int], Ints]] = []
    place = 0
    for row, limited in zip(rows, pattern.rows, strict=True):
        lower, upper = row.lower, row.upper
        if limited.is_equality:
            most, least = values[:, place], values[:, place]
            place += 1
        else:
            most, least = (None if end is None else np.full(n_tables, end) for end in (upper, lower))  # type: ignore[assignment]
        if most is not None:
            limits.append((row.coefficients, most))
        if least is not None:
            limits.append(({g: -times for g, times in row.coefficients.items()}, -least))
    for _ in range(ROUNDS):
        changed = False
        for coefficients, limit in limits:
            if not _fits(coefficients, low, high):
                return _one_by_one(group)
            changed |= _narrow(coefficients, limit, low, high)
        if not changed:
            break
    return _of_cells(group, low, high)


def _fits(coefficients: dict[int, int], low: Ints, high: Ints) -> bool:
    """Whether 64 bits hold the sum: limits that follow can be far larger than those that are stated."""
    sides = [(low if c > 0 else high)[:, g] for g, c in coefficients.items()]
    largest = max(int(np.abs(side[np.abs(side) != NONE]).max(initial=0)) for side in sides)
    return sum(map(abs, coefficients.values())) * largest < NONE


def _narrow(coefficients: dict[int, int], limit: Ints, low: Ints, high: Ints) -> bool:
    """Narrow by ``sum coefficients[g] * y[g] <= limit`` in every table: each term leaves room for the others."""
    least = {g: c * (low if c > 0 else high)[:, g] for g, c in coefficients.items()}
    is_open = {g: np.abs((low if c > 0 else high)[:, g]) == NONE for g, c in coefficients.items()}
    n_open = np.sum(list(is_open.values()), axis=0)
    known = np.sum([np.where(is_open[g], 0, least[g]) for g in coefficients], axis=0)
    changed = False
    for g, c in coefficients.items():
        may = (n_open == 0) | ((n_open == 1) & is_open[g])
        room = limit - np.where(is_open[g], known, known - np.where(is_open[g], 0, least[g]))
        side, end = (high, room // c) if c > 0 else (low, -(room // -c))
        better = may & (np.abs(end) < FAR) & (end < side[:, g] if c > 0 else end > side[:, g])
        if better.any():
            side[better, g] = end[better]
            changed = True
    return changed


def _of_cells(group: Group, group_low: Ints, group_high: Ints) -> ManyBounds:
    """Return the limits of cells, given those of sums over cells with equal columns: the others take the slack."""
    pattern = group.pattern
    low, high = (
        np.tile(np.array([missing if end is None else end for end in side], np.int64), (len(group_low), 1))
        for side, missing in ((pattern.lower, -NONE), (pattern.upper, NONE))
    )
    for number, cells in enumerate(pattern.grouped.members):
        lowers, uppers = ([side[cell] for cell in cells] for side in (pattern.lower, pattern.upper))
        some_least, some_most = (sum(end for end in side if end is not None) for side in (lowers, uppers))
        own_low, own_high = group_low[:, number], group_high[:, number]
        for cell, lower, upper in zip(cells, lowers, uppers, strict=True):
            if uppers.count(None) == (upper is None):
                better = np.where(own_low == -NONE, -NONE, own_low - (some_most - (upper or 0)))
                low[:, cell] = np.maximum(low[:, cell], better)
            if lowers.count(None) == (lower is None):
                better = np.where(own_high == NONE, NONE, own_high - (some_least - (lower or 0)))
                high[:, cell] = np.minimum(high[:, cell], better)
    return ManyBounds(low, high)


def _one_by_one(group: Group) -> ManyBounds:
    """Return the same in Python's integers, where 64 bits might not hold them; what they do not hold has no limit."""
    found: list[CellBounds] = [group.constraints(number).quick_bounds for number in range(len(group.places))]

    def fitted(end: int | None, missing: int) -> int:
        return missing if end is None or abs(end) >= NONE else end

    low = np.array([[fitted(end, -NONE) for end in bounds.lower] for bounds in found], np.int64)
    return ManyBounds(low, np.array([[fitted(end, NONE) for end in bounds.upper] for bounds in found], np.int64))
