"""Decisions that are proven: the outcome that random words and enclosures of its probability leave, and no other.

A decision compares a uniform real U with points in [0, 1], such as the values of a cdf. Of U the first 64 bits are
known, of the points an enclosure in ball arithmetic. Where they leave more than one outcome, another word is appended
to U and the points are enclosed more narrowly. The outcome has exactly the law that the points describe: no rounding
remains in it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from threading import RLock
from typing import TypeVar

import flint
import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.errors import SamplingError
from congenial.exact import ends
from congenial.randomness import RandomStream

WORD = 64

Outcome = TypeVar("Outcome")


@dataclass(eq=False)
class Uniform:
    """A uniform real U of which the first bits are known: it lies in ``[value, value + 1) / 2**n_bits``. Confidential.

    Attributes
    ----------
    further : iterator of int
        The words that follow, one for each refinement.
    """

    value: int
    further: Iterator[int]
    n_bits: int = WORD

    def refine(self) -> None:
        """Append another word."""
        self.value, self.n_bits = self.value << WORD | next(self.further), self.n_bits + WORD


def words_of(rng: RandomStream) -> Iterator[int]:
    """Go through the words of a stream, each taken when it is needed."""
    while True:
        yield int(rng.words(1)[0])


class Unproven(Exception):  # noqa: N818
    """The known bits of a decision's U, or the enclosures of its points, do not prove an outcome."""

    def __init__(self, uniform: Uniform) -> None:
        super().__init__()
        self.uniform = uniform


_PRECISION = RLock()  # the working precision is one for all threads of a process: who decides has it alone


def refine_until_proven(decide: Callable[[int], Outcome], precision: int = 2 * WORD) -> Outcome:
    """Return what some decisions come to; as often as one is `Unproven`, its U is refined and all are made again.

    Parameters
    ----------
    decide : callable
        Makes the decisions from enclosures, given the working precision in bits, which doubles each time.
    """
    while True:
        try:
            with _PRECISION, flint.ctx.workprec(precision):
                return decide(precision)
        except Unproven as unproven:
            unproven.uniform.refine()
            precision *= 2


def count_below(uniform: Uniform, n_points: int, low: Callable[[int], int], high: Callable[[int], int]) -> int:
    """Return how many points are at or below U, or raise `Unproven`.

    Parameters
    ----------
    low, high : callable
        Integers ``low(k) <= point[k] * 2**n_bits <= high(k)``, both nondecreasing in k.
    """
    proven, possible = (bisect_right(range(n_points), uniform.value, key=end) for end in (high, low))
    if proven != possible:
        raise Unproven(uniform)
    return proven


def find_interval(uniform: Uniform, n_edges: int, low: Callable[[int], int], high: Callable[[int], int]) -> int:
    """Return k with ``edge[k] <= U < edge[k + 1]``, or raise `Unproven`: also where U is not between the edges."""
    n_below = count_below(uniform, n_edges, low, high)
    if not 0 < n_below < n_edges:
        raise Unproven(uniform)
    return n_below - 1


def is_below(uniform: Uniform, low: Fraction, high: Fraction) -> bool:
    """Return whether U is below a probability between `low` and `high`, or raise `Unproven`."""
    scale = 1 << uniform.n_bits
    return count_below(uniform, 1, lambda _: floor(low * scale), lambda _: ceil(high * scale)) == 0


def choose_weighted(uniform: Uniform, weights: Iterable[tuple[Outcome, flint.arb]], missing: Fraction) -> Outcome:
    """Return the outcome at which the running sum of weights passes U times their total, or raise `Unproven`.

    Parameters
    ----------
    weights : iterable of (outcome, weight)
    missing : Fraction
        A bound of all weights that are left out, wherever they belong.
    """
    outcomes, sums = [], [flint.arb(0)]
    for outcome, weight in weights:
        outcomes.append(outcome)
        sums.append(sums[-1] + weight)
    if not outcomes:
        raise SamplingError("internal: a key without any table; please report this system")
    low_total, high_total = ends(sums[-1])
    scale, last = 1 << uniform.n_bits, len(outcomes)

    def low(k: int) -> int:
        is_last = k == last and missing == 0
        return scale if is_last else floor(scale * ends(sums[k])[0] / (high_total + missing)) if k else 0

    def high(k: int) -> int:
        if k == 0 and missing == 0:
            return 0
        return ceil(scale * (ends(sums[k])[1] + missing) / low_total) if low_total > 0 else 2 * scale

    return outcomes[find_interval(uniform, last + 1, low, high)]


# Many independent decisions of one law.

CdfBounds = Callable[[int], tuple[list[int], list[int]]]
"""Given a number of bits, integers ``lo[k] <= cdf[k] * 2**bits <= hi[k]``, both nondecreasing in k.

The points may stop where the law goes on (an infinite support), if what is left beyond is below ``2**-bits``.
"""


def exact_choice(cdf_bounds: CdfBounds, n: int, rng: RandomStream, first_bits: int = WORD) -> Ints:
    """Return `n` independent outcomes 0, 1, 2, ... of the law with this cdf.

    Parameters
    ----------
    first_bits : int
        How many bits to look at first. Fewer than 64 send more draws down the exact path; the outcomes are the
        same, and a test relies on it.
    """
    words = rng.words(n)
    top = 2**WORD - 1
    lows, highs = (np.array([min(value, top) for value in end], np.uint64) for end in cdf_bounds(first_bits))
    seen = words >> np.uint64(WORD - first_bits)
    proven, possible = (np.searchsorted(end, seen, side="right") for end in (highs, lows))
    out = proven.astype(np.int64)
    # Past the last point the support may go on; the largest word stands for clipped bounds too.
    is_open = (proven != possible) | (proven == len(lows)) | (seen == np.uint64(top))
    for index in np.flatnonzero(is_open):
        out[index] = choose_by_cdf(Uniform(int(words[index]), words_of(rng)), cdf_bounds)
    return out


def choose_by_cdf(uniform: Uniform, cdf_bounds: CdfBounds) -> int:
    """Return the outcome 0, 1, 2, ... of the law with this cdf: the number of its points at or below U."""

    def decide(_: int) -> int:
        low, high = ([0, *end] for end in cdf_bounds(uniform.n_bits))
        return find_interval(uniform, len(low), low.__getitem__, high.__getitem__)

    return refine_until_proven(decide)


def exact_bernoulli(bounds: Callable[[int], tuple[int, int]], n: int, rng: RandomStream) -> NDArray[np.bool_]:
    """Return `n` independent events whose probability p obeys ``lo <= p * 2**bits <= hi`` for ``bounds(bits)``."""

    def cdf_bounds(bits: int) -> tuple[list[int], list[int]]:
        low, high = bounds(bits)
        return [low, 2**bits], [high, 2**bits]

    happened: NDArray[np.bool_] = exact_choice(cdf_bounds, n, rng) == 0
    return happened


def weights_cdf(weights: list[int]) -> CdfBounds:
    """Return the cdf bounds of outcomes with these integer weights."""
    total, running, cumulative = sum(weights), 0, []
    for weight in weights:
        running += weight
        cumulative.append(running)

    def cdf_bounds(bits: int) -> tuple[list[int], list[int]]:
        low = [(part << bits) // total for part in cumulative]
        return low, [-((-part << bits) // total) for part in cumulative]

    return cdf_bounds
