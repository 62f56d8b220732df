"""From weights and tilts to all that attempts read: tilted weights, and bounds of what may follow. Confidential.

docs/claims/rejection.md proves that the bounds never fall short, as doubles.
"""

from functools import lru_cache

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.balls import circle_points
from congenial.sampling.look_ahead.shapes import FEWEST_POINTS, MOST_POINTS, Tables, Weights

INFLATION = 1 + 1e-9
"""Covers every rounding of a bound: docs/claims/rejection.md, section 3."""


def tilted(plain: Weights, kind: Ints, tilts: Floats) -> tuple[Weights, Ints]:
    """Return tilted weights, one line for each pair of a kind and a tilt, and which one a cell (line, column) has."""
    pairs: dict[tuple[int, float], int] = {}
    which = np.array(
        [
            [pairs.setdefault((k, t), len(pairs)) for k, t in zip(line, of_line, strict=True)]
            for line, of_line in zip(kind.tolist(), tilts.tolist(), strict=True)
        ],
        np.int64,
    )
    value = np.zeros((len(pairs), plain.value.shape[1]))
    for (k, tilt), number in pairs.items():
        first, last = int(plain.first[k]), int(plain.last[k])
        reach = max(-first, last, 0)
        n = last - first + 1
        value[number, :n] = plain.value[k, :n] * _powers(tilt, reach)[reach + first : reach + last + 1]
    of = np.array([k for k, _ in pairs], np.int64)
    return Weights(value, plain.first[of], plain.last[of]), which


@lru_cache(maxsize=4096)
def _powers(tilt: float, half: int) -> Floats:
    """Return ``tilt ** x`` for x from -half to half, by products and one quotient: the same on every machine."""
    out = np.ones(2 * half + 1)
    if tilt != 1.0:
        for x in range(1, half + 1):
            out[half + x] = out[half + x - 1] * tilt
            out[half - x] = out[half - x + 1] / tilt
    return out


def tables_of(
    weights: Weights,
    units: float,
    which: Ints,
    tails: Floats,
    limits: tuple[Floats, Floats],
    moments: tuple[Floats, Floats],
    is_free: Ints,
    sums: tuple[Ints, Ints],
    margin: Floats,
) -> Tables:
    """Return everything that attempts read.

    Parameters
    ----------
    weights : Weights
        Tilted, off by at most `units` rounding units.
    which : array (line, column)
    tails : array (line, column, side)
        Of the tilted weights, below and above their window.
    limits, moments : pairs of arrays (line, column)
        The least and the largest deviation of a cell, infinite where there is no limit; mean and variance.
    is_free : array (column)
        1 where nothing holds a column's sum.
    sums : arrays (line), (column)
        What deviations add up to.
    margin : array (column)
        How much farther than seven deviations bounds are tabulated.
    """
    from congenial.sampling.kernels.bounds import backward  # numba: 0.3 s to import

    line_sum, column_sum = sums
    made = backward(weights, which, tails, *limits, *moments, is_free, column_sum, margin, *circles(), float(INFLATION))
    kind = which.copy()
    kind[-1, is_free == 1] = -1
    return Tables(weights, float(units), kind, tails.sum(axis=2), line_sum, column_sum, made)


@lru_cache(maxsize=1)
def circles() -> tuple[tuple[Floats, ...], tuple[Floats, ...]]:
    """Return cosines and sines of ``2 pi x f / n`` for x below n and f up to n / 2, for every n that is used."""
    found = []
    n = FEWEST_POINTS
    while n <= MOST_POINTS:
        once = np.array(circle_points(n))
        at = np.outer(np.arange(n), np.arange(n // 2 + 1)) % n
        found.append((np.ascontiguousarray(once[at, 0]), np.ascontiguousarray(once[at, 1])))
        n *= 2
    return tuple(pair[0] for pair in found), tuple(pair[1] for pair in found)
