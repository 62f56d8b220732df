"""What weighted zeros cost a group of cells that all conditions treat alike: docs/claims/weighted-zeros.md, section 3.

The *excess* is how much larger than 1 the ratio of normalisers of two neighbouring tables can be: one changed record
loses at most ``2 precision + log(1 + excess)``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import ceil

import flint

from congenial.balls import ball
from congenial.errors import PrivacyError
from congenial.privacy.weighted_series import Balls, Series, stays_nonnegative

MOST_CELLS = 48
"""Larger groups are certified as if they had so many cells, which is valid and hardly worse."""

_FAR = 45  # terms fall by exp(-2 precision): so many units of 1 / precision further they no longer decide


def check_group(cells: int, base: Fraction, weight: Fraction) -> None:
    """Refuse what the theorems do not cover."""
    if type(cells) is not int or cells < 2:
        raise PrivacyError(f"a record moves between two cells of a group at least, and it has {cells!r}")
    if not 0 < base < 1:
        raise PrivacyError(f"the base of the noise lies strictly between 0 and 1, and it is {base}")
    if weight < 1:
        raise PrivacyError(f"the bound for groups is proven for weights of zero from 1 on, not {weight}")


@dataclass(frozen=True)
class Inequalities:
    """What the product of the other cells' series has to satisfy, for one excess.

    Level x is the count of the smaller of the two cells between which a record moves, without the record.

    Attributes
    ----------
    series : Series
        Of the cells of the group.
    others : list of flint.arb
        The product of the series of the other cells.
    degree : int
        Of the polynomial that the terms, divided by ``b^n``, are from `regular` on.
    regular : int
        See `degree`.
    weight, excess : Fraction
        Exactly.
    end : int
        Where the tail begins.
    further : int
        How many levels are followed one by one beyond the last that is checked by itself.
    """

    series: Series
    others: Balls
    degree: int
    regular: int
    weight: Fraction
    excess: Fraction
    end: int
    further: int

    def lower(self, first: int | None = None) -> bool:
        """Whether (L) holds: a record moves to a smaller cell.

        Parameters
        ----------
        first : int, optional
            Partial sums begin at `first` plus the level or later; anywhere unless given.
        """
        series, excess = self.series, ball(self.excess)
        step = series.step(self.others)
        edge = series.edge(step)

        def terms(level: int) -> Balls:
            grown = [flint.arb(0), *series.cell(step, level)]
            return [excess * a - b for a, b in zip(grown, edge, strict=False)]

        return self._holds(terms, lambda level: 0 if first is None else first + level)

    def upper(self) -> bool:
        """Whether (U) holds: a record moves to a cell that is as large or larger."""
        series, excess = self.series, ball(self.excess)
        step = series.step(self.others)
        edge = series.edge(step)

        def terms(level: int) -> Balls:
            return [excess * a + b for a, b in zip(series.cell(step, level + 1), edge, strict=True)]

        return self._holds(terms, lambda _: 0)

    def _holds(self, terms: Callable[[int], Balls], first: Callable[[int], int]) -> bool:
        """Check level 0 and its tail, which lies below those of all levels, and then all levels from 1 on at once."""
        at_zero = terms(0)
        return (
            self._tail(at_zero)
            and self._partial_sums(at_zero, self._floor(0), first(0))
            and self._partial_sums(terms(1), self._floor_from(1), first(1))
        )

    def _tail(self, terms: Sequence[flint.arb]) -> bool:
        """Whether no term from `end` on is negative."""
        start = self.regular
        scaled = [terms[n] / self.series.fall**n for n in range(start, start + self.degree + 1)]
        return stays_nonnegative(scaled, self.end - start)

    def _floor(self, level: int) -> Balls:
        """Return ``[T^(N + x)] M_x M_(x+1) others``, x the level, at N = 0, ..., `end`."""
        product = self.series.cell(self.series.cell(self.others, level), level + 1)
        return product[level : level + self.end + 1]

    def _floor_from(self, level: int) -> Balls:
        """Return a lower bound of `_floor` over all levels from this one on.

        From x to x + 1 the floor grows by ``w^2 p_(N+x+1) - (w^2 - 2w) p_(N+x) + p_(N+x-1) + ... + p_(N-x-2)`` or more,
        where p are the others' coefficients. A fall is paid back at the next level but for ``2w p``.
        """
        floor = self._floor(level)
        if self.weight <= 2:
            return floor
        w, p = self.series.weight, self.others
        sums = [flint.arb(0), *accumulate(p)]
        less, least = w * w - 2 * w, floor
        for x in range(level, level + self.further + 1):
            back = w * w if x < level + self.further else 2 * w
            floor = [
                f + back * p[n + x + 1] - less * p[n + x] + sums[n + x] - sums[max(0, n - x - 2)]
                for n, f in enumerate(floor)
            ]
            least = [a.min(b) for a, b in zip(least, floor, strict=True)]
        return least

    def _partial_sums(self, terms: Balls, floor: Balls, first: int) -> bool:
        """Whether every sum of terms from some M >= first to N - 1, plus excess times the floor at N, is at least 0."""
        zero, excess, least = flint.arb(0), ball(self.excess), flint.arb(0)
        for n in range(first, self.end):
            least = terms[n] + least.min(zero)
            if not least >= 0 and not excess * floor[n + 1] + least >= 0:
                return False
        return bool(least >= 0)


def group_excess_holds(cells: int, base: Fraction, weight: Fraction, excess: Fraction) -> bool:
    """Whether it is proven that the normalisers of neighbours in a group have a ratio of at most ``1 + excess``.

    Parameters
    ----------
    cells : int
        How many cells share their columns in all equalities, ranges and measured rows, their base and their weight,
        and have no upper limit.
    base : Fraction
        Of the Double Geometric noise of every one of them.
    weight : Fraction
        Of the value 0, at least 1.

    Examples
    --------
    >>> base = Fraction("0.6733")
    >>> group_excess_holds(4, base, Fraction("4.5"), Fraction("0.24"))
    True
    >>> group_excess_holds(4, base, Fraction("4.5"), Fraction("0.22"))
    False
    """
    lower = group_side_holds("lower", cells, base, weight, excess)
    return lower and group_side_holds("upper", cells, base, weight, excess)


def group_side_holds(side: str, cells: int, base: Fraction, weight: Fraction, excess: Fraction) -> bool:
    """Whether one half of `group_excess_holds` is proven: ``lower``, to a smaller cell, or ``upper``, to a larger."""
    check_group(cells, base, weight)
    if excess <= 0:
        return False
    k = min(cells, MOST_CELLS) - 2
    end, further = tail_from(base, k), levels_followed(base)
    with flint.ctx.workprec(working_bits(k, weight)):
        series, others = _empty(k, base, weight, end + further + k + 4)
        found = Inequalities(series, others, k + 1, 1, weight, excess, end, further)
        return found.lower() if side == "lower" else found.upper()


@lru_cache(maxsize=4)
def _empty(k: int, base: Fraction, weight: Fraction, length: int) -> tuple[Series, Balls]:
    """Return the series and the product of k empty cells."""
    series = Series.of(base, weight, length)
    others = series.one
    for _ in range(k):
        others = series.cell(others, 0)
    return series, others


def working_bits(k: int, weight: Fraction) -> int:
    """Return a precision at which differences of as many values as there are cells keep their sign."""
    return 128 + (k + 2) * (8 + 2 * ceil(weight).bit_length())


def tail_from(base: Fraction, k: int) -> int:
    """Return where terms have fallen far below what decides: ``2 (1 - a) / (1 + a)`` is just below the precision."""
    return ceil(_FAR * (1 + base) / (2 * (1 - base))) + 4 * (k + 2)


def levels_followed(base: Fraction) -> int:
    """Return how many levels to follow: about one over the precision."""
    return ceil(1 / (1 - base))


@lru_cache(maxsize=1024)
def group_excess(cells: int, base: Fraction, weight: Fraction, digits: int = 4) -> Fraction | None:
    """Return the smallest excess of so many significant digits that `group_excess_holds` proves; None if none does.

    Examples
    --------
    >>> group_excess(4, Fraction("0.6733"), Fraction("4.5"))
    Fraction(2339, 10000)
    """
    return smallest_excess(lambda excess: group_excess_holds(cells, base, weight, excess), digits)


def smallest_excess(holds: Callable[[Fraction], bool], digits: int) -> Fraction | None:
    """Return the smallest decimal of so many significant digits, up to 1, that holds, by bisection."""
    unit, high = Fraction(1, 10**digits), 10**digits
    if not holds(Fraction(1)):
        return None
    while unit > Fraction(1, 10**15) and holds(high // 10 * unit):
        unit /= 10
    low = high // 10
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle * unit) else (middle, high)
    return high * unit
