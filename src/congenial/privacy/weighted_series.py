"""Power series with ball coefficients for cells whose value 0 has a weight: docs/claims/weighted-zeros.md, section 3.

A cell of confidential value s has the series ``M_s = sum_t g_t T^t`` with ``g_0 = weight``, ``g_t = 1`` up to s and
``g_t = b^(t - s)`` above, where ``b = base^2``. Everything here is cut after a fixed number of coefficients, which does
not change those that are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import comb
from threading import Lock

import flint

from congenial.balls import ball

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
