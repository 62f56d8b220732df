"""Parts of a table with at most one free sum: sums of groups first, then cells by their level, many units at once.

Along the line of sums the cost is convex, and so is the sum of words among equals. So the best y is the least at which
one step more does not lower the pair (cost, sum of words), and it is found by narrowing an interval. The cost of one
step is the difference of the levels of the groups that gain a unit and of those that lose one; words are looked at
only where that is 0, and there the groups stay at their levels until it no longer is.
"""

from collections.abc import Sequence

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.rows_and_intervals import Interval
from congenial.errors import ConditionError
from congenial.rules.sums_and_parts import Line, Part
from congenial.rules.water_level import LAST, CellSet, Level

_GUESSES = 8  # then halving: guesses close the interval in three or four steps, and halving does so for certain


def decide_sums(part: Part, line: Line, sets: Sequence[CellSet | None], values: Ints, words: Sequence[Ints]) -> Ints:
    """Return the sum of each group of a part (group, unit).

    Parameters
    ----------
    sets : sequence of CellSet
        The cells of each group; None for a slack.
    values : array (unit, row)
        What the rows of the part must be.
    words : sequence of arrays (cell, unit)
        Of the cells of each group.
    """
    start = line.start(values)
    if not line.direction.any():
        return start
    search = _Search(part, line, sets, start)
    y = search.least_cost()
    y += search.further(y, words)
    return search.sums(y)


class _Search:
    """The best place of every unit on its line of sums."""

    def __init__(self, part: Part, line: Line, sets: Sequence[CellSet | None], start: Ints) -> None:
        self._start, self._direction = start, line.direction
        self._moving = [(g, int(step), sets[g]) for g, step in enumerate(line.direction) if step]
        n_units = start.shape[1]
        self._low = np.full(n_units, -LAST)
        self._high = np.full(n_units, LAST)
        for g, step, cells in self._moving:
            limits = part.groups[g].limits
            if cells is not None:  # also where there are none: a search need not leave what cells can be
                limits = Interval(int(cells.low.sum()), int(cells.high.sum()))
            ends, origin = limits if step > 0 else limits.negated, step * start[g]
            if ends.low is not None:
                np.maximum(self._low, ends.low - origin, out=self._low)
            if ends.high is not None:
                np.minimum(self._high, ends.high - origin, out=self._high)
        if (self._low > self._high).any():
            raise ConditionError("no table obeys the conditions of a unit: its exact numbers do not fit its limits")

    def sums(self, y: Ints) -> Ints:
        """Return the sum of each group (group, unit)."""
        return self._start + self._direction[:, None] * y

    def _next_units(self, y: Ints, units: Ints | None) -> list[tuple[int, Level | None]]:
        """Return the level of the unit that each moving group gains or loses in the step from y to y + 1."""
        out: list[tuple[int, Level | None]] = []
        for g, step, cells in self._moving:
            sums = (self._start[g] if units is None else self._start[g, units]) + step * y
            # What is lost is the last unit: the one that comes after a sum less by one.
            out.append((step, None if cells is None else cells.at(sums if step > 0 else sums - 1, units)))
        return out

    def _cost(self, y: Ints, units: Ints | None = None) -> tuple[Ints, Floats]:
        """Return what the step from y to y + 1 costs, and about how much more the one after it."""
        cost = np.zeros(len(y), np.int64)
        rise = np.full(len(y), 1e-9)
        for step, unit in self._next_units(y, units):
            if unit is not None:
                cost += step * (2 * unit.level + 1)
                rise += 2 / unit.width
        return cost, rise

    def _first_guess(self) -> Ints:
        """Return y of least cost if cells had no limits, in floats: it decides how soon the search ends, not where."""
        gap, rise = np.zeros(len(self._low)), 1e-9
        for g, step, cells in self._moving:
            if cells is not None:
                gap += step * (self._start[g] - cells.nearest().sum(axis=0)) / len(cells.measurements)
                rise += 1 / len(cells.measurements)
        return np.clip(-gap / rise, -(2.0**60), 2.0**60).astype(np.int64)

    def least_cost(self) -> Ints:
        """Return the least y of least cost (unit,)."""
        low, high = self._low.copy(), self._high.copy()
        units = np.flatnonzero(low < high)
        guess = self._first_guess()[units]
        for number in range(300):
            if not len(units):
                return low
            first, last = low[units], high[units]
            probe = np.clip(guess, first, last - 1)
            cost, rise = self._cost(probe, None if len(units) == len(low) else units)
            is_left = cost < 0
            low[units] = first = np.where(is_left, probe + 1, first)
            high[units] = last = np.where(is_left, last, probe)
            # Towards where the cost changes its sign, and past it by less than a step; later by halves.
            stride = np.minimum(np.abs(cost) / rise, 2.0**60).astype(np.int64)
            guess = np.where(is_left, probe + 1 + stride, probe - 1 - stride)
            if number >= _GUESSES:
                is_closed = (first > -LAST) & (last < LAST)
                wide = np.where(is_left, probe + (1 << min(number, 60)), probe - (1 << min(number, 60)))
                guess = np.where(is_closed, first + (last - first) // 2, wide)
            is_open = first < last
            units, guess = units[is_open], guess[is_open]
        raise ConditionError("the sums of a unit could not be decided: its conditions leave them no least cost")

    def further(self, y: Ints, words: Sequence[Ints]) -> Ints:
        """Return how many steps of no cost lower the sum of words (unit,)."""
        extra = np.zeros_like(y)
        units = np.flatnonzero(y < self._high)
        units = units[self._cost(y[units], units)[0] == 0]
        if not len(units):
            return extra
        ranked = []
        for (g, step, cells), (_, unit) in zip(self._moving, self._next_units(y[units], units), strict=True):
            if cells is not None and unit is not None:
                ordered = cells.sorted_words(unit.level, words[g], units)
                # One line more, so that a step past the last cell is one that costs.
                ranked.append((step, np.vstack([ordered, np.full((1, len(units)), LAST)]), unit.rest))
        room = self._high[units] - y[units]
        active = np.arange(len(units))
        n_steps = 0
        while len(active):
            gain = np.zeros(len(active), np.int64)
            is_flat = room[active] > n_steps
            for step, ordered, rest in ranked:
                place = rest[active] + step * n_steps
                word = ordered[np.clip(place, 0, len(ordered) - 1), active]
                is_flat &= (place >= 0) & (word < LAST)
                gain += step * np.where(is_flat, word, 0)
            active = active[is_flat & (gain < 0)]
            extra[units[active]] += 1
            n_steps += 1
        return extra
