"""Uniform, gamma and discrete choices from given random words. For inference; releases are drawn elsewhere, exactly."""

import math

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.sampling.kernels.compiled import compiled

Words = NDArray[np.uint64]

MOST_WORDS = 25
"""So many words one gamma number takes at most."""

_TRIES = 8  # of which each fails in less than one of twenty cases
_LEAST = 1e-30


@compiled
def uniform(words: Words, cursor: Ints) -> float:
    """Take the next word as a number strictly between 0 and 1."""
    word = words[cursor[0]] >> np.uint64(12)
    cursor[0] += 1
    return (float(word) + 0.5) * 2.0**-52


@compiled
def below(n: int, words: Words, cursor: Ints) -> int:
    """Return a whole number from 0 to n - 1."""
    return min(n - 1, int(uniform(words, cursor) * n))


@compiled
def gamma(shape: float, words: Words, cursor: Ints) -> float:
    """Return a gamma number of scale 1, by the squeeze of Marsaglia and Tsang (2000); never 0."""
    power = 1.0
    if shape < 1.0:
        power = uniform(words, cursor) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    found = d
    for _ in range(_TRIES):
        radius = math.sqrt(-2.0 * math.log(uniform(words, cursor)))
        x = radius * math.cos(2.0 * math.pi * uniform(words, cursor))
        cube = (1.0 + c * x) ** 3
        u = uniform(words, cursor)
        if cube <= 0.0:
            continue
        if u < 1.0 - 0.0331 * x**4 or math.log(u) < 0.5 * x * x + d * (1.0 - cube + math.log(cube)):
            found = d * cube
            break
    return max(_LEAST, found * power)


@compiled
def pick(weights: Floats, n: int, words: Words, cursor: Ints) -> int:
    """Return a place among the first n with probability in proportion to its weight; the last if all are 0."""
    total = 0.0
    for place in range(n):
        total += weights[place]
    rest = uniform(words, cursor) * total
    for place in range(n - 1):
        rest -= weights[place]
        if rest < 0.0:
            return place
    return n - 1
