"""How much weight all tables with given margins have together: line after line, every partial sum of columns kept."""

from math import exp, log

import numpy as np

from congenial.arrays import Ints
from congenial.errors import TooLargeError
from congenial.noise.family import DiscreteNoise

_MOST_SUMS = 20_000  # a second or so


def log_two_way(noise: DiscreteNoise, counts: Ints, line_sum: Ints, column_sum: Ints) -> float:
    """Return ``log sum prod f(y - s)`` over nonnegative tables y with these margins, around counts s.

    Exact but for rounding. What has to be remembered grows with the number of columns, so large tables are refused.

    Examples
    --------
    >>> from congenial.noise import DiscreteGaussian
    >>> one = np.array([[1, 0], [0, 1]])  # this table, and the one with its columns exchanged
    >>> round(log_two_way(DiscreteGaussian(2), one, np.array([1, 1]), np.array([1, 1])), 9)
    0.018149928
    """
    if counts.shape[0] < counts.shape[1]:
        counts, line_sum, column_sum = counts.T, column_sum, line_sum
    kept = {(0,) * counts.shape[1]: 0.0}
    for own, wanted in zip(counts.tolist(), line_sum.tolist(), strict=True):
        kept = _after_line(noise, own, wanted, column_sum.tolist(), kept)
    return kept.get(tuple(column_sum.tolist()), -np.inf)


def _after_line(
    noise: DiscreteNoise, own: list[int], wanted: int, most: list[int], kept: dict[tuple[int, ...], float]
) -> dict[tuple[int, ...], float]:
    """Add one line, cell by cell; the last number of a key is what the line still lacks."""
    states = {(*sums, wanted): value for sums, value in kept.items()}
    for column, centre in enumerate(own):
        following: dict[tuple[int, ...], float] = {}
        weights = noise.log_weight(np.arange(wanted + 1) - centre).tolist()
        for state, value in states.items():
            left = state[-1]
            is_last = column == len(own) - 1
            for y in range(left if is_last else 0, min(left, most[column] - state[column]) + 1):
                key = (*state[:column], state[column] + y, *state[column + 1 : -1], left - y)
                following[key] = _sum(following.get(key, -np.inf), value + weights[y])
        if len(following) > _MOST_SUMS:
            raise TooLargeError(
                f"the normaliser of children with exact sums of their own takes more than {_MOST_SUMS:,} partial sums;"
                " the probability of a release of such a tree is known by simulation only"
            )
        states = following
    return {state[:-1]: value for state, value in states.items()}


def _sum(a: float, b: float) -> float:
    high, low = (a, b) if a > b else (b, a)
    return high if low == -np.inf else high + log(1 + exp(low - high))
