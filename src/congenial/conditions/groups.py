"""Cells with identical columns act on the rows only through their sum, so one variable stands for all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from congenial.conditions.rows import Column, Limited, columns

Box = tuple[list[int | None], list[int | None]]
"""Lower and upper limits, None where there is none."""


@dataclass(frozen=True)
class GroupedRow:
    """A limited row over groups: ``lower <= sum weight[g] * y[g] <= upper``."""

    weights: dict[int, int]
    lower: int | None
    upper: int | None

    def allows(self, point: Sequence[int]) -> bool:
        """Whether a point's value is in range, in exact integers."""
        value = sum(weight * point[g] for g, weight in self.weights.items())
        return (self.lower is None or value >= self.lower) and (self.upper is None or value <= self.upper)


@dataclass(frozen=True)
class Grouped:
    """A system of rows and cell limits, with one variable for each set of cells that share a column."""

    members: tuple[tuple[int, ...], ...]
    rows: tuple[GroupedRow, ...]
    box: Box


def group_cells(limits: Sequence[Limited], lower: Sequence[int | None], upper: Sequence[int | None]) -> Grouped:
    """Merge cells whose weights agree in every row; limits of a group are the sums of its cells' limits."""
    members: dict[Column, list[int]] = {}
    for cell, column in enumerate(columns([one.row for one in limits], len(lower))):
        members.setdefault(column, []).append(cell)
    of_row: list[dict[int, int]] = [{} for _ in limits]
    for group, shared in enumerate(members):
        for number, weight in shared:
            of_row[number][group] = weight
    rows = tuple(GroupedRow(weights, one.lower, one.upper) for weights, one in zip(of_row, limits, strict=True))
    low = [_sum([lower[cell] for cell in cells]) for cells in members.values()]
    high = [_sum([upper[cell] for cell in cells]) for cells in members.values()]
    return Grouped(tuple(tuple(cells) for cells in members.values()), rows, (low, high))


def _sum(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return sum(known) if len(known) == len(limits) else None


def cell_limits(
    grouped: Grouped, box: Box, lower: Sequence[int | None], upper: Sequence[int | None]
) -> tuple[list[int | None], list[int | None]]:
    """Return the tightest limits of each cell, given those of its group's sum: the others take the slack."""
    low, high = list(lower), list(upper)
    for cells, group_low, group_high in zip(grouped.members, *box, strict=True):
        free_below = sum(lower[cell] is None for cell in cells)
        free_above = sum(upper[cell] is None for cell in cells)
        some_least = sum(value for cell in cells if (value := lower[cell]) is not None)
        some_most = sum(value for cell in cells if (value := upper[cell]) is not None)
        for cell in cells:
            own_low, own_high = lower[cell], upper[cell]
            # What the other cells of the group can hold at most and at least, where that is limited.
            if group_low is not None and free_above == (own_high is None):
                low[cell] = _larger(own_low, group_low - (some_most - (own_high or 0)))
            if group_high is not None and free_below == (own_low is None):
                high[cell] = _smaller(own_high, group_high - (some_least - (own_low or 0)))
    return low, high


def spread(
    grouped: Grouped, sums: Sequence[int], lower: Sequence[int | None], upper: Sequence[int | None]
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


def _larger(first: int | None, second: int) -> int:
    return second if first is None else max(first, second)


def _smaller(first: int | None, second: int) -> int:
    return second if first is None else min(first, second)
