"""Random numbers inside kernels, from words of a `RandomStream` that are handed in: nothing is made here.

A kernel takes as many words as chance has it. It is given plenty, and stops between two tables when they may run out.
"""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.randomness import RandomStream
from congenial.sampling.jit import kernel

# What kernels are given, as named arrays. Imported without numba.


class Words(NamedTuple):
    """Random words, and how many of them are used up."""

    words: NDArray[np.uint64]
    used: Ints  # (1)


class Terms(NamedTuple):
    """What the effects are made of. Public: from the schema alone."""

    offset: Floats  # (cell) log widths
    start: Ints  # (term + 1) first normal of each term; those of the cells follow
    shape: Ints  # (term, 4) rows and columns of the left operator, and of the right one
    place: Ints  # (term, 2) where each operator begins
    operators: Floats  # all operators, line by line
    left: Ints  # (term, cell) level along the first dimension
    right: Ints  # (term, cell)
    scale: Floats  # (term + 1) fixed, or the unit of the estimated one
    is_estimated: NDArray[np.bool_]  # (term + 1)
    tail: float  # of the estimated ones


class Steps(NamedTuple):
    """Everything public that steps need, of tables that share their rows."""

    move: Ints  # (move + 1) first member of each move
    member: Ints  # (member + 1) first cell of each member
    cell: Ints  # cells of all members
    weight: Ints  # (member) by how much one of its cells changes
    longest: Ints  # (move) the largest multiple of a step
    lower: Ints  # (cell) never below 0
    upper: Ints  # (cell)
    linear: Floats  # (cell) log weights of the noise, by deviation and by its square
    quadratic: Floats
    column: Ints  # (cell + 1) first entry of each cell's column of soft rows and ranges
    row: Ints  # (entry)
    coefficient: Ints  # (entry)
    row_linear: Floats  # (row) of ranges, 0
    row_quadratic: Floats
    row_lower: Ints  # (row) of soft rows, none
    row_upper: Ints
    kind: Ints  # (cell) which surrogate
    floor: Ints  # (cell) the lower limit of the noise, or -NEVER


MOST_TRIALS = 64
"""How often a slice is cut before the chain stays where it is: each cut leaves about half of it."""

MOST_WORDS = 25
"""So many words one gamma number takes at most."""

_TRIES = 8  # of which each fails in less than one of twenty cases
_LEAST = 1e-30


@kernel
def uniform(chance: Words) -> float:
    """Return a number strictly between 0 and 1."""
    word = chance.words[chance.used[0]]
    chance.used[0] += 1
    return (float(word >> np.uint64(12)) + 0.5) * 2.0**-52


@kernel
def below(limit: int, chance: Words) -> int:
    """Return a whole number from 0 to one less than the limit."""
    return min(limit - 1, int(uniform(chance) * limit))


@kernel
def normal(chance: Words) -> float:
    """Return a standard normal number (Box and Muller)."""
    return math.sqrt(-2.0 * math.log(uniform(chance))) * math.cos(2.0 * math.pi * uniform(chance))


@kernel
def first_angle(chance: Words) -> tuple[float, float, float]:
    """Return where a slice of an ellipse begins to look, and the bracket around it."""
    angle = 2.0 * math.pi * uniform(chance)
    return angle, angle - 2.0 * math.pi, angle


@kernel
def next_angle(angle: float, low: float, high: float, chance: Words) -> tuple[float, float, float]:
    """Cut the bracket at an angle that was not taken, and return another one inside."""
    if angle < 0.0:
        low = angle
    else:
        high = angle
    return low + uniform(chance) * (high - low), low, high


@kernel
def gamma(shape: float, chance: Words) -> float:
    """Return a gamma number of rate 1, by the squeeze of Marsaglia and Tsang (2000); never 0."""
    power = 1.0
    if shape < 1.0:
        power = uniform(chance) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    value = d
    for _ in range(_TRIES):
        x = normal(chance)
        cube = (1.0 + c * x) ** 3
        u = uniform(chance)
        if cube <= 0.0:
            continue
        if u < 1.0 - 0.0331 * x**4 or math.log(u) < 0.5 * x * x + d * (1.0 - cube + math.log(cube)):
            value = d * cube
            break
    return max(_LEAST, value * power)


@kernel
def pick(weights: Floats, n: int, chance: Words) -> int:
    """Return a place among the first n with probability in proportion to its weight; the last if all are 0."""
    total = 0.0
    for place in range(n):
        total += weights[place]
    rest = uniform(chance) * total
    for place in range(n - 1):
        rest -= weights[place]
        if rest < 0.0:
            return place
    return n - 1


# Random words for kernels: a buffer that is filled up from a stream when it runs low.

_AT_ONCE = 1 << 16


@dataclass(eq=False)
class RandomBuffer:
    """Words of one stream, handed to kernels that take as many as chance has it."""

    rng: RandomStream
    words: Words = field(default_factory=lambda: Words(np.empty(0, np.uint64), np.zeros(1, np.int64)))

    def at_least(self, n_words: int) -> Words:
        """Return words of which at least so many are unused."""
        if len(self.words.words) - int(self.words.used[0]) < n_words:
            self.words = Words(self.rng.words(max(_AT_ONCE, 2 * n_words)), np.zeros(1, np.int64))
        return self.words
