"""The largest errors that sums of cells can have, whatever the confidential table is within a box.

docs/claims/frequentist.md has the statements and the proofs; the letters here are those of that page. A cell's error d
has the weight of its noise where the released count keeps its limits. These weights fall with the confidential count in
the likelihood ratio order, so errors of sums are extreme where every cell is at one end of the box or the other.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from congenial.arrays import Floats
from congenial.conditions.interval import FREE, Interval
from congenial.inference.integer_weights import NOTHING, Weights, sum_of
from congenial.noise import Noise

LONGEST = 20_000
"""How far errors are followed at most."""

Group = tuple[tuple[int, ...], int]
"""Cells, and the sign with which their errors add up to y."""

_TINY = 1e-13  # what is left out of laws of y, which counts as a miss
_LEAST = 1e-200  # products of weights below it have lost figures


@dataclass(frozen=True)
class CountBox:
    """What is known of the cells: noise, stated limits, and limits of the confidential counts.

    Attributes
    ----------
    limits : sequence of Interval
        Of released counts.
    counts : sequence of Interval
        Of confidential counts; never wider.
    """

    noise: Mapping[int, Noise]
    limits: Sequence[Interval]
    counts: Sequence[Interval]

    def reach(self, cells: Iterable[int]) -> int:
        """Return how far from zero errors of these cells are to be followed."""
        laws = Counter(self.noise[cell] for cell in cells)
        kinds = [(*_spread(noise), n) for noise, n in laws.items()]
        together = sqrt(sum(n * deviation**2 for deviation, _, n in kinds))
        return ceil(10 * together + max(far for _, far, _ in kinds) + sum(n * deviation for deviation, _, n in kinds))

    def errors(self, cells: Iterable[int], reach: int, *, is_least: bool) -> Weights:
        """Return the weights of the sum of errors of cells whose counts are all the least, or all the most."""
        kinds = Counter((self.noise[cell], self._window(cell, reach, is_least)) for cell in cells)
        return sum_of(((_message(*kind, reach), n) for kind, n in kinds.items()), reach)

    def _window(self, cell: int, reach: int, is_least: bool) -> Interval:
        """Return the errors that a cell can have, the same for all that are farther from a limit than `reach`."""
        centre = self.counts[cell].low if is_least else self.counts[cell].high
        window = FREE if centre is None else self.limits[cell].shifted(-centre)
        return window & Interval(-reach, reach)


@lru_cache(maxsize=256)
def _spread(noise: Noise) -> tuple[float, int]:
    """Return the standard deviation of noise, and how far it goes as far as doubles can tell."""
    return sqrt(float(noise.variance)), int(noise.quantile(1 - 1e-16))


@lru_cache(maxsize=1024)
def _message(noise: Noise, window: Interval, reach: int) -> Weights:
    low, high = (end if end is not None else reach for end in (window.low, window.high))
    return Weights(low, np.exp(noise.log_weight(np.arange(low, high + 1)))).normalised


@dataclass(frozen=True)
class Part:
    """The cells of one group in a query, ``times`` each, and its other cells; the group's errors add up to sign * y."""

    inside: tuple[int, ...]
    outside: tuple[int, ...]
    times: int
    sign: int


class TooWideError(ArithmeticError):
    """Weights that floats do not hold."""


def largest_in_a_sum(box: CountBox, part: Part, reach: int) -> Weights:
    """F1: the largest law of ``times * D_A`` where the errors of A and B add up to zero."""
    up = part.times > 0
    inside = box.errors(part.inside, reach, is_least=up)
    outside = box.errors(part.outside, reach, is_least=not up)
    return _law(inside, outside.negated).stretched(part.times)


def largest_in_a_group(box: CountBox, part: Part, others: Sequence[Group], reach: int) -> Weights:
    """F2: the largest law of ``times * D_A`` where the errors of A and B add up to y, and those of others to +-y.

    Parameters
    ----------
    others : sequence of (cells, sign)
        The other groups.
    """
    up = part.times > 0
    inside = box.errors(part.inside, reach, is_least=up)
    if not others:  # one cell in no published sum
        return inside.stretched(part.times)
    rest = _law(*_factors(box, [(cells, sign * part.sign) for cells, sign in others], reach, is_largest=up))
    outside = box.errors(part.outside, reach, is_least=not up) if part.outside else NOTHING
    return _law(inside, rest.plus(outside.negated)).stretched(part.times)


def largest_across(box: CountBox, parts: Sequence[Part], others: Sequence[Group], steps: int, reach: int) -> Weights:
    """F2 across groups: the largest law of ``steps * y + sum times * D_A`` over parts in several groups.

    Two parts whose times * sign cancel, and no steps of y besides: both are extreme at one table, and y lies between
    two laws by the other groups alone. Else y lies between two laws by all groups. Either way the chance that the error
    is large is bounded given y first, then over every law of y in between.
    """
    given = [(_both(box, part, reach), part) for part in parts]
    if is_pair(parts, steps):
        sums = [(inside.plus(outside), part.sign) for (inside, outside), part in given]
        known = [own if sign > 0 else own.negated for own, sign in sums]
        ends = [_law(*known, *_factors(box, others, reach, is_largest=up)) for up in (False, True)]
    else:
        every = [*others, *(((*part.inside, *part.outside), part.sign) for part in parts)]
        ends = [_law(*_factors(box, every, reach, is_largest=up)) for up in (False, True)]
    least, most = ends
    first, last = _quantile(least, _TINY), _quantile(most, 1 - _TINY)
    laws = [_given(given, steps, y) for y in range(first, last + 1)]
    low = min((law.low for law in laws if law is not None), default=0)
    high = max((law.high for law in laws if law is not None), default=0)
    bounds = np.arange(low, high + 1)
    chances = np.stack([np.ones(len(bounds)) if law is None else law.chance_above(bounds) for law in laws])
    above = np.minimum(1.0, largest_mean(least.at(first, last), most.at(first, last), chances) + 4 * _TINY)
    return Weights(low, -np.diff(above, prepend=1.0))


def is_pair(parts: Sequence[Part], steps: int) -> bool:
    """Whether two parts move against each other with y, and nothing else does."""
    return len(parts) == 2 and not steps and parts[0].times * parts[0].sign == -parts[1].times * parts[1].sign


def largest_mean(least: Floats, most: Floats, values: Floats) -> Floats:
    """Return the largest mean of values[y] over laws of y that lie stochastically between two others.

    A law in between is one of an integer between coupled ones: for each level u, the mean takes the largest value from
    the u-quantile of the least law to that of the most.
    """
    below = [np.minimum(np.cumsum(law), 1.0) for law in (least, most)]
    for cdf in below:
        cdf[-1] = 1.0
    levels = np.unique(np.concatenate([[0.0], *below]))
    middles = (levels[1:] + levels[:-1]) / 2
    first, last = (np.searchsorted(cdf, middles) for cdf in below)
    out = np.zeros(values.shape[1:])
    for level, start, end in zip(np.diff(levels), first, np.maximum(first, last), strict=True):
        out = out + level * values[start : end + 1].max(axis=0)
    return out


def _both(box: CountBox, part: Part, reach: int) -> tuple[Weights, Weights]:
    up = part.times > 0
    inside = box.errors(part.inside, reach, is_least=up)
    return inside, (box.errors(part.outside, reach, is_least=not up) if part.outside else NOTHING)


def _given(given: Sequence[tuple[tuple[Weights, Weights], Part]], steps: int, y: int) -> Weights | None:
    """Return the law of the error given y; None where the extreme tables do not allow this y."""
    total = Weights(steps * y, np.ones(1))
    for (inside, outside), part in given:
        free = outside.negated
        law = inside.times(Weights(free.low + part.sign * y, free.values))
        if not law.values.max() > _LEAST:
            return None
        kept = np.flatnonzero(law.values > 1e-18 * law.values.max())
        law = Weights(law.low + int(kept[0]), law.values[kept[0] : kept[-1] + 1])
        total = total.plus(law.normalised.stretched(part.times))
    return total


def _factors(box: CountBox, groups: Sequence[Group], reach: int, *, is_largest: bool) -> list[Weights]:
    """Return the weights that each group gives to y, with counts that make y the largest, or the least."""
    out = []
    for cells, sign in groups:
        sums = box.errors(cells, reach, is_least=(sign > 0) == is_largest)
        out.append(sums if sign > 0 else sums.negated)
    return out


def _law(*weights: Weights) -> Weights:
    out = weights[0]
    for other in weights[1:]:
        out = out.times(other)
    if not out.values.max() > _LEAST:
        raise TooWideError
    return out.normalised


def _quantile(law: Weights, level: float) -> int:
    return law.low + int(np.searchsorted(np.cumsum(law.values), level))
