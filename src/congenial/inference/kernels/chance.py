"""Random numbers inside kernels, from words of a `RandomStream` that are handed in: nothing is made here.

A kernel takes as many words as chance has it. It is given plenty, and stops between two tables when they may run out.
"""

import math
from pathlib import Path

import numpy as np

from congenial.inference.kernels.shapes import Words
from congenial.sampling.kernels.compiled import compiled, drop_stale

drop_stale(Path(__file__).parent)

MOST_TRIALS = 64
"""How often a slice is cut before the chain stays where it is: each cut leaves about half of it."""


@compiled
def uniform(chance: Words) -> float:
    """Return a number strictly between 0 and 1."""
    word = chance.words[chance.used[0]]
    chance.used[0] += 1
    return (float(word >> np.uint64(12)) + 0.5) * 2.0**-52


@compiled
def below(limit: int, chance: Words) -> int:
    """Return a whole number from 0 to one less than the limit."""
    return min(limit - 1, int(uniform(chance) * limit))


@compiled
def normal(chance: Words) -> float:
    """Return a standard normal number (Box and Muller)."""
    return math.sqrt(-2.0 * math.log(uniform(chance))) * math.cos(2.0 * math.pi * uniform(chance))


@compiled
def gamma(shape: float, chance: Words) -> float:
    """Return a Gamma number of some shape, at least 1/2, and rate 1 (Marsaglia and Tsang)."""
    if shape < 1.0:
        return float(gamma(shape + 1.0, chance) * uniform(chance) ** (1.0 / shape))
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    for _ in range(MOST_TRIALS):
        x = normal(chance)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(uniform(chance)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v
    return d
