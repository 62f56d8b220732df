"""Least squares in a set of cells whose sum is fixed: one level for all cells, and a public order for what is over.

The units of a cell cost ``2 (s - n) + 1`` from s to s + 1: two more than the unit before, whatever the cell. So the
cells nearest to n with a given sum have all their units below some *level*: ``s = clip(n + level, low, high)``, and a
rest of units at the level itself, which cost the same in each cell that has one. Words decide which cells get them:
those with the least. Arrays are (cell, unit), so that each step runs along many units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from congenial.arrays import Ints
from congenial.errors import TooLargeError

LAST = 2**62
"""The word of a cell that has no unit at the level: after all others."""


class Level(NamedTuple):
    """Where a sum stands: all units below a level are used, and `rest` of the `width` units at it (unit,)."""

    level: Ints
    rest: Ints
    width: Ints


@dataclass(frozen=True, eq=False)
class CellSet:
    """Cells of many units that are told apart by nothing but their measurements and limits.

    Attributes
    ----------
    measurements : array (cell, unit)
    low, high : arrays (cell, 1), or (cell, unit)
        Limits. Where a cell has none, a number that no sum of interest makes it reach; see `far_of`.
    is_plain : bool
        Whether no upper limit is to be looked at.

    Examples
    --------
    >>> cells = CellSet.of(np.array([[5], [2], [-3]]), [0, 0, 0], [None, None, None])
    >>> cells.spread(np.array([5]), np.array([[30], [10], [20]])).T.tolist()
    [[4, 1, 0]]
    >>> cells.spread(np.array([6]), np.array([[30], [10], [20]])).T.tolist()
    [[4, 2, 0]]
    """

    measurements: Ints
    low: Ints
    high: Ints
    is_plain: bool

    @classmethod
    def of(
        cls, measurements: Ints, low: Sequence[int | None], high: Sequence[int | None], far: int = 2**50
    ) -> "CellSet":
        """Return cells with limits, None where there is none."""
        kind = measurements.dtype
        lows = np.array([-far if end is None else end for end in low], kind)[:, None]
        highs = np.array([far if end is None else end for end in high], kind)[:, None]
        return cls(measurements, lows, highs, all(end is None for end in high))

    @cached_property
    def _steps(self) -> tuple[Ints, Ints, Ints | None]:
        """The levels at which cells begin or cease to take units, ascending; the sum at each; cells open from there.

        Where there are no upper limits, the k-th level opens the k-th cell.
        """
        starts = self.low - self.measurements
        first = self.low.sum(axis=0)
        if self.is_plain:
            levels = np.sort(starts.T, axis=1).T.copy()
            n_open = np.arange(len(levels)).astype(levels.dtype)[:, None]
            sums = n_open * levels - (np.cumsum(levels, axis=0) - levels) + first
            return levels, sums, None
        # The lowest bit tells a beginning from an end. Those at one level may stand in any order: nothing is between.
        events = np.concatenate([2 * starts + 1, 2 * (self.high - self.measurements)])
        events = np.sort(events.T, axis=1).T.copy()
        levels = events // 2
        n_open = np.cumsum(np.where(events % 2 == 1, 1, -1).astype(levels.dtype), axis=0)
        gaps = (levels[1:] - levels[:-1]) * n_open[:-1]
        sums = np.concatenate([np.zeros_like(levels[:1]), np.cumsum(gaps, axis=0)]) + first
        return levels, sums, n_open

    def at(self, sums: Ints, units: Ints | None = None) -> Level:
        """Return the level of given sums, which the cells can have: the next unit is one of those at the level.

        Parameters
        ----------
        sums : array (unit,)
            Of all units, or of those that `units` lists.
        """
        levels, steps, n_open = self._steps
        place = np.zeros(len(sums), np.int64)
        for step in steps:
            place += (step if units is None else step[units]) <= sums
        place -= 1
        columns = np.arange(len(sums)) if units is None else units
        over = sums - steps[place, columns]
        width = place + 1 if n_open is None else np.maximum(n_open[place, columns], 1)
        if over.dtype == object:
            width = width.astype(object)
        rise = over // width
        return Level(levels[place, columns] + rise, over - rise * width, width)

    def sorted_words(self, level: Ints, words: Ints, units: Ints) -> Ints:
        """Return the words of the cells that have a unit at the level, ascending, then `LAST` (cell, unit)."""
        if len(units) < self.measurements.shape[1]:
            return CellSet(self.measurements[:, units], *self._limits(units), self.is_plain).sorted_words(
                level, words[:, units], np.arange(len(units))
            )
        return np.sort(self._open_words(self.measurements + level, words).T, axis=1).T

    def _limits(self, units: Ints) -> tuple[Ints, Ints]:
        low, high = (end if end.shape[1] == 1 else end[:, units] for end in (self.low, self.high))
        return low, high

    def _open_words(self, raised: Ints, words: Ints) -> Ints:
        is_open = raised >= self.low
        if not self.is_plain:
            is_open &= raised < self.high
        return np.where(is_open, words, LAST)

    def spread(self, sums: Ints, words: Ints) -> Ints:
        """Return the nearest cells with given sums (cell, unit); among equals, those with the least sum of words.

        Parameters
        ----------
        sums : array (unit,)
        words : array (cell, unit)
            No two of a unit are the same.
        """
        level, rest, _ = self.at(sums)
        raised = self.measurements + level
        open_words = self._open_words(raised, words)
        ranked = np.sort(open_words.T, axis=1)
        last = ranked[np.arange(len(ranked)), np.maximum(rest - 1, 0).astype(np.int64)]
        # A full level counts as the next one with no rest, so a rest never reaches the cells that have no unit.
        gets_one = (open_words <= last) & (rest > 0)
        cells = np.maximum(raised, self.low)
        if not self.is_plain:
            cells = np.minimum(cells, self.high)
        out: Ints = cells + gets_one
        return out

    def nearest(self) -> Ints:
        """Return the cells whose sum is free: each as near as its limits allow."""
        return np.clip(self.measurements, self.low, self.high)


def far_of(largest: int, n_cells: int) -> int:
    """Return a number that stands for no limit of a cell, beyond what cells of a nearest table are.

    Parameters
    ----------
    largest : int
        No measurement, limit or sum is larger.

    Examples
    --------
    >>> far_of(1000, 46)
    188000
    >>> far_of(2**61, 46)
    Traceback (most recent call last):
    congenial.errors.TooLargeError: numbers up to 2,305,843,009,213,693,952 in 46 cells are more than 64 bits hold
    """
    far = 4 * max(largest, 1) * (n_cells + 1)
    if 8 * far * n_cells >= 2**62:  # sums of all cells at such limits, and twice a level with a bit
        raise TooLargeError(f"numbers up to {largest:,} in {n_cells:,} cells are more than 64 bits hold")
    return far
