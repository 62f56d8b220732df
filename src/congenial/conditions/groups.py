"""Cells with identical columns act on the rows only through their sum, so one variable stands for all of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from congenial.conditions.interval import Interval, Ranged, total_interval
from congenial.conditions.rows import Limited, cells_alike

ROUNDS = 200
"""How often limits are narrowed by all rows in turn, at most: by the integer programs and by the kernels alike."""


class Box(NamedTuple):
    """The limits of every variable, None where there is none.

    Two lists of ends, not one of intervals: narrowing sets single ends, over and over.
    """

    low: list[int | None]
    high: list[int | None]

    @classmethod
    def of(cls, limits: Iterable[Interval]) -> "Box":
        """Return the ends of intervals."""
        listed = list(limits)
        return cls([interval.low for interval in listed], [interval.high for interval in listed])

    @property
    def limits(self) -> list[Interval]:
        """The interval of each variable."""
        return list(map(Interval, self.low, self.high))


@dataclass(frozen=True)
class GroupedRow(Ranged):
    """A limited row over groups: ``sum coefficients[g] * y[g]`` lies in its limits."""

    coefficients: dict[int, int]
    limits: Interval

    @classmethod
    def of(cls, coefficients: dict[int, int], lower: int | None, upper: int | None) -> "GroupedRow":
        """Return a row with its two ends, None where there is no limit."""
        return cls(coefficients, Interval(lower, upper))

    def value(self, point: Sequence[int]) -> int:
        """Return the row's value of a point, in exact integers."""
        return sum(times * point[g] for g, times in self.coefficients.items())

    def allows(self, point: Sequence[int]) -> bool:
        """Whether a point's value is in range."""
        return self.value(point) in self.limits


@dataclass(frozen=True)
class Grouped:
    """A system of rows and cell limits, with one variable for each set of cells with equal columns."""

    members: tuple[tuple[int, ...], ...]
    rows: tuple[GroupedRow, ...]
    box: Box


def group_cells(rows: Sequence[Limited], limits: Sequence[Interval]) -> Grouped:
    """Merge cells whose coefficients agree in every row; a group ranges over the sums of its cells."""
    members = cells_alike([limited.row for limited in rows], len(limits))
    of_row: list[dict[int, int]] = [{} for _ in rows]
    for group, shared in enumerate(members):
        for number, times in shared:
            of_row[number][group] = times
    merged = tuple(GroupedRow(of_group, limited.limits) for of_group, limited in zip(of_row, rows, strict=True))
    box = Box.of(total_interval(limits[cell] for cell in cells) for cells in members.values())
    return Grouped(tuple(members.values()), merged, box)


def cell_limits(grouped: Grouped, box: Box, limits: Sequence[Interval]) -> list[Interval]:
    """Return the tightest limits of each cell, given those of its group's sum: the others take the slack."""
    out = list(limits)
    for cells, group_low, group_high in zip(grouped.members, *box, strict=True):
        if len(cells) == 1:
            out[cells[0]] = limits[cells[0]] & Interval(group_low, group_high)
            continue
        free_below = sum(limits[cell].low is None for cell in cells)
        free_above = sum(limits[cell].high is None for cell in cells)
        some_least = sum(value for cell in cells if (value := limits[cell].low) is not None)
        some_most = sum(value for cell in cells if (value := limits[cell].high) is not None)
        for cell in cells:
            own = limits[cell]
            # What the other cells of the group can hold at most and at least, where that is limited.
            low = high = None
            if group_low is not None and free_above == (own.high is None):
                low = group_low - (some_most - (own.high or 0))
            if group_high is not None and free_below == (own.low is None):
                high = group_high - (some_least - (own.low or 0))
            out[cell] = own & Interval(low, high)
    return out


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
