"""What weighted zeros cost a group of cells that all conditions treat alike: docs/claims/weighted-zeros.md, section 3.

The *excess* is how much larger than 1 the ratio of normalisers of two neighbouring tables can be: one changed record
loses at most ``2 precision + log(1 + excess)``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from math import ceil

import flint

from congenial.balls import ball
from congenial.errors import PrivacyError
from congenial.patience import give_way
from congenial.privacy.weighted_doubles import first_level_holds
from congenial.privacy.weighted_series import Balls, Series, stays_nonnegative

MOST_CELLS = 48
"""Larger groups are certified as if they had so many cells, which is valid and hardly worse."""

EXCESS_DIGITS = 4
"""Significant digits of an excess that is looked for."""

SIDES = ("lower", "upper")
BITS = 128
_FINE = 12  # a block of levels that are bounded at once is at most such a part of them
_LONGEST = 5_000  # coefficients up to the tail: precisions from about 1/100 on
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
class Others:
    """The cells of a group besides the two between which a record moves, and how far their series are followed.

    Attributes
    ----------
    series : Series
        Of the cells of the group.
    product : list of flint.arb
        The product p of the others' series.
    end : int
        Where the tail begins.
    further : int
        How many levels after the first are followed one by one.
    """

    series: Series
    product: Balls
    end: int
    further: int

    def lower_terms(self, level: int, excess: flint.arb) -> Balls:
        """Return the terms of (L), a record moves to a smaller cell; the level is that cell's count before."""
        grown = [flint.arb(0), *self.series.cell(self._step, level)]
        return [excess * a - b for a, b in zip(grown, self._edge, strict=False)]

    def upper_terms(self, level: int, excess: flint.arb) -> Balls:
        """Return the terms of (U), a record moves to a cell as large or larger; the level is the other's new count."""
        return [excess * a + b for a, b in zip(self.series.cell(self._step, level + 1), self._edge, strict=True)]

    @cached_property
    def _step(self) -> Balls:
        return self.series.step(self.product)

    @cached_property
    def _edge(self) -> Balls:
        return self.series.edge(self._step)

    @cached_property
    def first_floor(self) -> Balls:
        """What (L) and (U) at level 0 have to spare: ``[T^N] M_0 M_1 p`` at N = 0, ..., `end`."""
        return self._floor(0)

    def _floor(self, level: int) -> Balls:
        """Return ``[T^(N + x)] M_x M_(x+1) p``, x the level."""
        product = self.series.cell(self.series.cell(self.product, level), level + 1)
        return product[level : level + self.end + 1]

    @cached_property
    def later_floor(self) -> "LaterFloor":
        """A lower bound of the same at all levels from 1 on."""
        return LaterFloor(self, self._floor(1))


class LaterFloor:
    """A lower bound of ``[T^(N + x)] M_x M_(x+1) p`` at all levels x from 1 on, for each N that is asked for.

    From 1 to x it grows by ``w^2 p_(N+x) + 2w (p_(N+2) + ... + p_(N+x-1)) - (w^2 - 2w) p_(N+1)`` and, for k from 1 to
    x - 1, by ``p_(N+k-1) + ... + p_(N-k-2)``, or more. Blocks of levels are bounded at once, then all others. A check
    asks for few N: to compute it for all of them took half of the time of a proof.
    """

    def __init__(self, others: Others, first: Balls) -> None:
        self._first, self._p, self._w = first, others.product, others.series.weight
        self._sums = [flint.arb(0), *accumulate(self._p)]
        self._twice = [flint.arb(0), *accumulate(self._sums)]
        self._blocks: list[tuple[int, int, Balls]] = []
        smallest, x, size = self._p, 2, 1
        while x < others.further:
            self._blocks.append((x, size, smallest))
            x += size
            if x >= _FINE * size:
                smallest = [a.min(b) for a, b in zip(smallest, smallest[size:], strict=False)]
                size *= 2

    def __getitem__(self, n: int) -> flint.arb:
        """Return the bound at N."""
        least, w, sums = self._first[n], self._w, self._sums
        if w <= 2:
            return least
        sure = least - (w * w - 2 * w) * self._p[n + 1] + self._windows(n, 1, 1)
        for x, size, smallest in self._blocks:
            least = least.min(sure + w * w * smallest[n + x])
            sure = sure + 2 * w * (sums[n + x + size] - sums[n + x]) + self._windows(n, x, size)
        return least.min(sure)

    def _windows(self, n: int, x: int, size: int) -> flint.arb:
        """Return what the levels k = x, ..., x + size - 1 add by ``p_(N+k-1) + ... + p_(N-k-2)``."""
        twice = self._twice
        return twice[n + x + size] - twice[n + x] - twice[max(0, n - x - 1)] + twice[max(0, n - x - size - 1)]


Terms = Callable[[Others, int, flint.arb], Balls]
"""`Others.lower_terms` or `Others.upper_terms`."""


def levels_hold(
    others: Others, terms: Terms, excess: flint.arb, first: int | None = None, *, is_quick: bool = False
) -> bool:
    """Whether all partial sums up to the end are proven: at level 0, and at all levels from 1 on at once.

    Parameters
    ----------
    first : int, optional
        Sums begin at `first` plus the level or later; anywhere unless given.
    is_quick : bool
        Look at level 0 only, which most often decides: for a search, never for a certificate.
    """
    begin = [0, 0] if first is None else [first, first + 1]
    if not _sums_hold(terms(others, 0, excess), others.first_floor, excess, begin[0], others.end):
        return False
    return is_quick or _sums_hold(terms(others, 1, excess), others.later_floor, excess, begin[1], others.end)


def _sums_hold(terms: Balls, floor: Balls | LaterFloor, excess: flint.arb, first: int, end: int) -> bool:
    """Whether every sum of terms from some M >= first to N - 1, plus excess times the floor at N, is at least 0.

    And whether the sums that reach `end` are so by themselves: they stay so, as no later term is negative.
    """
    zero, least = flint.arb(0), flint.arb(0)
    for n in range(first, end):
        least = terms[n] + least.min(zero)
        if not least >= 0 and not excess * floor[n + 1] + least >= 0:
            return False
    return bool(least >= 0)


def tail_holds(others: Others, terms: Terms, excess: flint.arb, regular: int, degree: int) -> bool:
    """Whether no term from the end on is negative: at level 0, which lies below all others.

    Parameters
    ----------
    regular, degree : int
        From `regular` on the terms are ``b^n`` times a polynomial of this degree at most.
    """
    found, fall = terms(others, 0, excess), others.series.fall
    scaled = [found[n] / fall**n for n in range(regular, regular + degree + 1)]
    return stays_nonnegative(scaled, others.end - regular)


def group_excess_holds(
    cells: int, base: Fraction, weight: Fraction, excess: Fraction, sides: Sequence[str] = SIDES
) -> bool:
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
    sides : sequence of str
        ``lower``: a record moves to a smaller cell; ``upper``: to a larger one.

    Examples
    --------
    >>> base = Fraction("0.6733")
    >>> group_excess_holds(4, base, Fraction("4.5"), Fraction("0.24"))
    True
    >>> group_excess_holds(4, base, Fraction("4.5"), Fraction("0.22"))
    False
    """
    return all(group_side_holds(side, cells, base, weight, excess) for side in sides)


def group_side_holds(
    side: str, cells: int, base: Fraction, weight: Fraction, excess: Fraction, *, is_quick: bool = False
) -> bool:
    """Whether one half of `group_excess_holds` is proven: ``lower``, to a smaller cell, or ``upper``, to a larger.

    With `is_quick` it is only likely.
    """
    check_group(cells, base, weight)
    give_way()
    if excess <= 0:
        return False
    terms = Others.lower_terms if side == "lower" else Others.upper_terms
    k = min(cells, MOST_CELLS) - 2
    guess = None
    if is_quick:
        guess = first_level_holds(side, k, float(base), float(weight), float(excess), tail_from(base, k))
        if guess is False:
            return False
    with flint.ctx.workprec(tail_bits(k, weight)):
        if not tail_holds(_empty(k, base, weight, is_short=True), terms, ball(excess), 1, k + 1):
            return False
    if guess:
        return True
    with flint.ctx.workprec(BITS):
        return levels_hold(_empty(k, base, weight), terms, ball(excess), is_quick=is_quick)


@lru_cache(maxsize=4)
def _empty(k: int, base: Fraction, weight: Fraction, *, is_short: bool = False) -> Others:
    """Return k empty cells, with all coefficients or with those that the tail is decided by."""
    end, further = tail_from(base, k), levels_followed(base)
    series = Series.of(base, weight, k + 4 if is_short else end + 3 * further + 4)
    return Others(series, series.empty_cells(k), end, further)


def tail_bits(k: int, weight: Fraction) -> int:
    """Return a precision at which differences of as many values as there are cells keep their sign."""
    return 128 + (k + 2) * (8 + 2 * ceil(weight).bit_length())


def tail_from(base: Fraction, k: int) -> int:
    """Return where terms have fallen far below what decides: ``2 (1 - a) / (1 + a)`` is just below the precision."""
    return ceil(_FAR * (1 + base) / (2 * (1 - base))) + 4 * (k + 2)


def levels_followed(base: Fraction) -> int:
    """Return how many levels to follow: about twice one over the precision."""
    return 2 * ceil(1 / (1 - base))


@lru_cache(maxsize=1024)
def group_excess(cells: int, base: Fraction, weight: Fraction) -> Fraction | None:
    """Return the smallest excess of a few significant digits that `group_excess_holds` proves; None if none does.

    Examples
    --------
    >>> group_excess(4, Fraction("0.6733"), Fraction("4.5"))
    Fraction(2333, 10000)
    """
    if tail_from(base, 0) > _LONGEST:
        return None
    for is_quick in (True, False):  # where what is likely is not proven, the search goes by what is
        found = smallest_likely(partial(_sides_hold, cells, base, weight, is_quick=is_quick))
        if found is not None and group_excess_holds(cells, base, weight, found):
            return found
    return None


def _sides_hold(cells: int, base: Fraction, weight: Fraction, excess: Fraction, *, is_quick: bool) -> bool:
    return all(group_side_holds(side, cells, base, weight, excess, is_quick=is_quick) for side in SIDES)


def smallest_likely(holds: Callable[[Fraction], bool]) -> Fraction | None:
    """Return the smallest short decimal, up to 1, that holds, by bisection; None if 1 does not."""
    unit, high = Fraction(1, 10**EXCESS_DIGITS), 10**EXCESS_DIGITS
    if not holds(Fraction(1)):
        return None
    while unit > Fraction(1, 10**15) and holds(high // 10 * unit):
        unit /= 10
    low = high // 10
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle * unit) else (middle, high)
    return Fraction(high) * unit
