"""Draw from a discrete law exactly, from random bits and proven bounds of its cdf.

A uniform real U is revealed 64 bits at a time. The outcome is the number of cdf points at or below U. As soon as
the bits seen so far decide every comparison the draw is done; until then more bits are drawn and the cdf is
bounded more narrowly. The result has exactly the law that the cdf describes: no rounding remains in it.
"""

from bisect import bisect_right
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.randomness import RandomStream

CdfBounds = Callable[[int], tuple[list[int], list[int]]]
"""Given a number of bits, integers ``lo[k] <= cdf[k] * 2**bits <= hi[k]``, both nondecreasing in k.

The points may stop where the law goes on (an infinite support), if what is left beyond is below ``2**-bits``.
"""

_WORD = 64


def exact_choice(cdf_bounds: CdfBounds, n: int, rng: RandomStream, first_bits: int = _WORD) -> Ints:
    """Return `n` independent outcomes 0, 1, 2, ... of the law with this cdf.

    Parameters
    ----------
    first_bits : int
        How many bits to look at first. Fewer than 64 send more draws down the exact path; the outcomes are the
        same, and a test relies on it.
    """
    words = rng.words(n)
    low, high = cdf_bounds(first_bits)
    top = 2**_WORD - 1
    lows = np.array([min(value, top) for value in low], np.uint64)
    highs = np.array([min(value, top) for value in high], np.uint64)
    seen = words >> np.uint64(_WORD - first_bits)
    surely = np.searchsorted(highs, seen, side="right")
    perhaps = np.searchsorted(lows, seen, side="right")
    out = surely.astype(np.int64)
    # Past the last point the support may go on; the largest word stands for clipped bounds too.
    unclear = (surely != perhaps) | (surely == len(low)) | (seen == np.uint64(top))
    for index in np.flatnonzero(unclear):
        out[index] = _decide(cdf_bounds, int(words[index]), rng)
    return out


def _decide(cdf_bounds: CdfBounds, seen: int, rng: RandomStream) -> int:
    bits = _WORD
    while True:
        low, high = cdf_bounds(bits)
        surely, perhaps = bisect_right(high, seen), bisect_right(low, seen)
        # A cdf that reaches 1 at its last point never lets U pass it, so `surely` stays below len(low) there.
        if surely == perhaps and surely < len(low):
            return surely
        seen = (seen << _WORD) | int(rng.words(1)[0])
        bits += _WORD


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
