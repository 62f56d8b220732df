"""What weighted zeros cost a group of cells that all conditions treat alike: docs/claims/weighted-zeros.md, section 3.

The *excess* is how much larger than 1 the ratio of normalisers of two neighbouring tables can be: one changed record
loses at most ``2 precision + log(1 + excess)``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import accumulate, pairwise
from math import ceil, comb, isfinite
from threading import Lock

import flint
import numpy as np

from congenial.arrays import Floats
from congenial.errors import PrivacyError
from congenial.exact import ball
from congenial.progress_and_interrupts import checkpoint

# Power series with ball coefficients for cells whose value 0 has a weight: docs/claims/weighted-zeros.md, section 3.
#
# A cell of confidential value s has the series ``M_s = sum_t g_t T^t`` with ``g_0 = weight``, ``g_t = 1`` up to s and
# ``g_t = b^(t - s)`` above, where ``b = base^2``. Everything here is cut after a fixed number of coefficients, which
# does not change those that are kept.

_CAP = Lock()  # FLINT has one length of series for all threads; a shorter one would drop terms
Balls = list[flint.arb]


@dataclass(frozen=True)
class Series:
    """The series of cells with one base and one weight of zeros.

    Attributes
    ----------
    fall : flint.arb
        ``b``, the square of the base.
    weight : flint.arb
        Of the value 0.
    length : int
        How many coefficients are kept.
    """

    fall: flint.arb
    weight: flint.arb
    length: int

    @classmethod
    def of(cls, base: Fraction, weight: Fraction, length: int) -> "Series":
        """Enclose exact numbers at the working precision."""
        return cls(ball(base * base), ball(weight), length)

    @property
    def one(self) -> Balls:
        """The constant 1."""
        return [flint.arb(1)] + [flint.arb(0)] * (self.length - 1)

    def tail(self, series: Sequence[flint.arb]) -> Balls:
        """Return ``T / (1 - b T)`` times a series, by a recurrence of positive terms."""
        out, last = [], flint.arb(0)
        for term in series:
            out.append(last)
            last = term + self.fall * last
        return out

    def cell(self, series: Sequence[flint.arb], count: int, weight: flint.arb | None = None) -> Balls:
        """Return ``M_count`` times a series; `weight` stands in for the weight of 0."""
        zero = self.weight if weight is None else weight
        if count == 0:
            return self._empty_cell(series, zero)
        tail = self.tail(series)
        out = [zero * term for term in series]
        for shift in range(1, count):
            out[shift:] = [a + b for a, b in zip(out[shift:], series, strict=False)]
        shift = count - 1
        out[shift:] = [a + b for a, b in zip(out[shift:], tail, strict=False)]
        return out

    def _empty_cell(self, series: Sequence[flint.arb], zero: flint.arb) -> Balls:
        """Return ``M_0`` times a series: most of what calibration does, so terms and their tail in one go."""
        out, later, fall = [], flint.arb(0), self.fall
        for term in series:
            later = fall * later
            out.append(zero * term + later)
            later = term + later
        return out

    def empty_cells(self, count: int) -> Balls:
        """Return the product of the series of so many cells of count 0, all at once by Arb's power of series.

        It takes a third of the time of one cell after another, and its balls are as small: all terms are positive.
        """
        cell, power = [self.weight], self.fall
        for _ in range(self.length - 1):
            cell.append(power)
            power *= self.fall
        with _CAP:
            cap = flint.ctx.cap
            flint.ctx.cap = self.length
            try:
                product = flint.arb_series(cell, self.length) ** count
            finally:
                flint.ctx.cap = cap
        return [product[n] for n in range(self.length)]

    def step(self, series: Sequence[flint.arb]) -> Balls:
        """Return ``(1 - b) / (1 - b T)`` times a series: what one more record in a cell adds, but for a power of T."""
        gap = 1 - self.fall
        return [gap * (term + self.fall * later) for term, later in zip(series, self.tail(series), strict=True)]

    def edge(self, series: Sequence[flint.arb]) -> Balls:
        """Return ``weight - (weight - 1) T`` times a series."""
        less, weight = self.weight - 1, self.weight
        return [weight * series[0]] + [weight * b - less * a for a, b in pairwise(series)]


def stays_nonnegative(values: Sequence[flint.arb], distance: int) -> bool:
    """Whether a polynomial sequence is proven not to be negative from `distance` on.

    Parameters
    ----------
    values : sequence of flint.arb
        At 0, 1, ..., the degree: they determine the sequence.

    Notes
    -----
    In Newton's form ``sum_k d_k C(n, k)`` let J be the last k whose ``d_k`` may be negative. Divided by ``C(n, J)``,
    the terms above J grow with n and the others shrink: if the former outweigh the negative ones once, they do so ever
    after.
    """
    if distance < len(values):
        return False
    differences, row = [], list(values)
    while row:
        differences.append(row[0])
        row = [b - a for a, b in pairwise(row)]
    doubtful = [k for k, d in enumerate(differences) if not d > 0]
    last = max(doubtful, default=-1)
    zero = flint.arb(0)
    above = sum((d * comb(distance, k) for k, d in enumerate(differences) if k > last), zero)
    against = sum((abs(differences[k]) * comb(distance, k) for k in doubtful), zero)
    return bool(above >= against)


# The first level of `weighted_group` in doubles, where rounding leaves no doubt.
#
# A search for the largest precision asks some hundred times whether sums hold, and most questions are far from the
# edge. Doubles answer those in the same way, and a search takes down to a fifth of the time; no certificate rests on
# them.

_ROUNDING = 1e-10  # of sums of positive terms: some thousand roundings of 2^-53 each are a thousandth of it
_SMALLEST = 1e-250  # below, doubles lose their digits


def first_level_holds(side: str, k: int, base: float, weight: float, excess: float, end: int) -> bool | None:
    """Return whether the partial sums of a side hold at level 0, beside k empty cells; None where it is too close.

    Parameters
    ----------
    side : str
        ``lower`` or ``upper``, as in `weighted_group.group_side_holds`.
    end : int
        Where the tail begins.

    Examples
    --------
    >>> [first_level_holds("lower", 2, 0.6733, 4.5, excess, 80) for excess in (0.3, 0.01)]
    [True, False]
    """
    fall = base * base
    falls: Floats = np.power(fall, np.arange(end + 2), dtype=np.float64)  # 1, b, b^2, ...
    if not (falls[-1] > _SMALLEST and isfinite(weight ** (k + 3))):
        return None
    empty, single = falls.copy(), np.concatenate([[weight], falls[:-1]])
    empty[0] = weight
    others = _power(empty, k)
    step = (1 - fall) * _times(falls, others)
    before = np.concatenate([[0.0], step[:-1]])
    if side == "lower":
        grown = np.concatenate([[0.0], _times(empty, step)[:-1]])
        terms = excess * grown - (weight * step - (weight - 1) * before)
    else:
        grown = _times(single, step)
        terms = excess * grown + (weight * step - (weight - 1) * before)
    doubt = _ROUNDING * (excess * grown + weight * step + (weight - 1) * before)
    spare = excess * _times(_times(empty, single), others)
    if not (np.isfinite(spare).all() and step[-1] > _SMALLEST):
        return None
    return _float_sums_hold((terms - doubt).tolist(), (terms + doubt).tolist(), spare.tolist(), end)


def _float_sums_hold(least: list[float], most: list[float], spare: list[float], end: int) -> bool | None:
    """Decide as `weighted_group` does, for terms that lie between two ends."""
    low = high = 0.0
    is_sure = True
    for n in range(end):
        low, high = least[n] + min(low, 0.0), most[n] + min(high, 0.0)
        if high < 0 and (1 + _ROUNDING) * spare[n + 1] + high < 0:
            return False
        is_sure = is_sure and (low >= 0 or (1 - _ROUNDING) * spare[n + 1] + low >= 0)
    if high < 0:
        return False
    return True if is_sure and low >= 0 else None


def _times(a: Floats, b: Floats) -> Floats:
    product: Floats = np.convolve(a, b)
    return product[: len(a)]


def _power(series: Floats, k: int) -> Floats:
    """Return a power of a series by squares: all terms are positive, so nothing cancels."""
    out, square = np.zeros_like(series), series
    out[0] = 1.0
    while k:
        if k & 1:
            out = _times(out, square)
        k >>= 1
        square = _times(square, square) if k else square
    return out


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
class OtherCells:
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
    def first_spare(self) -> Balls:
        """What (L) and (U) at level 0 have to spare: ``[T^N] M_0 M_1 p`` at N = 0, ..., `end`."""
        return self._spare(0)

    def _spare(self, level: int) -> Balls:
        """Return ``[T^(N + x)] M_x M_(x+1) p``, x the level."""
        product = self.series.cell(self.series.cell(self.product, level), level + 1)
        return product[level : level + self.end + 1]

    @cached_property
    def later_spare(self) -> "LaterSpare":
        """A lower bound of the same at all levels from 1 on."""
        return LaterSpare(self, self._spare(1))


class LaterSpare:
    """A lower bound of ``[T^(N + x)] M_x M_(x+1) p`` at all levels x from 1 on, for each N on request.

    From 1 to x it grows by ``w^2 p_(N+x) + 2w (p_(N+2) + ... + p_(N+x-1)) - (w^2 - 2w) p_(N+1)`` and, for k from 1 to
    x - 1, by ``p_(N+k-1) + ... + p_(N-k-2)``, or more. Blocks of levels are bounded at once, then all others. A check
    asks for few N: to compute it for all of them took half of the time of a proof.
    """

    def __init__(self, others: OtherCells, first: Balls) -> None:
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


Terms = Callable[[OtherCells, int, flint.arb], Balls]
"""`OtherCells.lower_terms` or `OtherCells.upper_terms`."""


def levels_hold(
    others: OtherCells, terms: Terms, excess: flint.arb, first: int | None = None, *, is_quick: bool = False
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
    if not _sums_hold(terms(others, 0, excess), others.first_spare, excess, begin[0], others.end):
        return False
    return is_quick or _sums_hold(terms(others, 1, excess), others.later_spare, excess, begin[1], others.end)


def _sums_hold(terms: Balls, spare: Balls | LaterSpare, excess: flint.arb, first: int, end: int) -> bool:
    """Whether every sum of terms from some M >= first to N - 1, plus excess times what is spare at N, is at least 0.

    And whether the sums that reach `end` are so by themselves: they stay so, as no later term is negative.
    """
    zero, least = flint.arb(0), flint.arb(0)
    for n in range(first, end):
        least = terms[n] + least.min(zero)
        if not least >= 0 and not excess * spare[n + 1] + least >= 0:
            return False
    return bool(least >= 0)


def tail_holds(others: OtherCells, terms: Terms, excess: flint.arb, regular: int, degree: int) -> bool:
    """Whether no term from the end on is negative: at level 0, which lies below all others.

    Parameters
    ----------
    regular, degree : int
        From `regular` on the terms are ``b^n`` times a polynomial of this degree at most.
    """
    first_terms, fall = terms(others, 0, excess), others.series.fall
    scaled = [first_terms[n] / fall**n for n in range(regular, regular + degree + 1)]
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
    checkpoint()
    if excess <= 0:
        return False
    terms = OtherCells.lower_terms if side == "lower" else OtherCells.upper_terms
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
def _empty(k: int, base: Fraction, weight: Fraction, *, is_short: bool = False) -> OtherCells:
    """Return k empty cells, with all coefficients or with those that the tail is decided by."""
    end, further = tail_from(base, k), levels_followed(base)
    series = Series.of(base, weight, k + 4 if is_short else end + 3 * further + 4)
    return OtherCells(series, series.empty_cells(k), end, further)


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
        excess = smallest_likely(partial(_sides_hold, cells, base, weight, is_quick=is_quick))
        if excess is not None and group_excess_holds(cells, base, weight, excess):
            return excess
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


# What weighted zeros cost by closed forms, as exact fractions: docs/claims/weighted-zeros.md, sections 2, 4 and 5.


def lines_excess(base: Fraction, weight: Fraction) -> Fraction:
    """Return the excess of one changed record under any conditions that treat both cells alike.

    ``2 / (1 + b) - 1`` for ``1 <= weight (1 - b) <= 2 + b``, where b is the square of the base; more outside.

    Examples
    --------
    >>> half = Fraction(1, 2)
    >>> lines_excess(half, 1 / (1 - half)), lines_excess(half, Fraction(1))
    (Fraction(3, 5), Fraction(3, 4))
    """
    b, scaled = _checked(base, weight)
    candidates = [1 / (1 + b), 1 / (scaled + b), (scaled - 1) / (1 + b * scaled)]
    return (1 - b) * max(candidates)


def pair_excess(base: Fraction, weight: Fraction) -> Fraction:
    """Return the excess of one changed record between the only two cells of a group whose total is an invariant.

    It is 0 at ``weight = 1 / (1 - b)``: normalisers are all the same.

    Examples
    --------
    >>> pair_excess(Fraction(1, 2), Fraction(4, 3))
    Fraction(0, 1)
    """
    b, scaled = _checked(base, weight)
    return (1 - b) * max((scaled - 1) / (1 + b * scaled), (1 - scaled) / (b + scaled))


def free_excess(base: Fraction, weight: Fraction) -> Fraction:
    """Return the excess of one record that comes or goes, in a cell that no row but its own measurement touches.

    It is 0 at ``weight = 1 / (1 - base)``, noise clamped at 0; one record loses ``precision + log(1 + excess)``.

    Examples
    --------
    >>> free_excess(Fraction(1, 2), Fraction(2)), free_excess(Fraction(1, 2), Fraction(1))
    (Fraction(0, 1), Fraction(1, 4))
    """
    _checked(base, weight)
    far, near = (1 + base) / (1 - base), weight - 1 / (1 - base)
    ratio = (far + base * near) / (far + near)
    return max(ratio, 1 / ratio) - 1


def _checked(base: Fraction, weight: Fraction) -> tuple[Fraction, Fraction]:
    """Return b and ``weight (1 - b)``."""
    if not 0 < base < 1:
        raise PrivacyError(f"the base of the noise lies strictly between 0 and 1, and it is {base}")
    if weight <= 0:
        raise PrivacyError(f"the weight of zero must be above 0, not {weight}")
    b = base * base
    return b, weight * (1 - b)
