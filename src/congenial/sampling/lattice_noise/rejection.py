"""Noise by rejection: attempts, each from words of its own, until one is accepted.

The measurements are published, so that whatever tells of the noise tells of the table. An attempt does all its steps,
whatever it draws, and is accepted or not at the end: the number of attempts is independent of the noise accepted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.proven_decisions import Uniform
from congenial.randomness import KeyedWords

Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

UNIT = 2.0**-53  # of rounding
LEAST_ACCEPTANCE = 1e-4
N_PUBLIC_ATTEMPTS = 4096
_FIRST, _HOPELESS = 64, 1e-6 * LEAST_ACCEPTANCE  # attempts, and the mean probability at which they are enough
MOST_EXACT = 2.0**52  # sums and products of integers below are exact in doubles, in any order
_BLOCK = 4096  # units at a time, fewer where they have many coordinates: arrays stay near the processor
_BLOCK_NUMBERS = 1 << 22
_FEW_PRODUCTS, _MANY_PRODUCTS = 1 << 17, 1 << 25


@dataclass(frozen=True)
class Attempts:
    """One attempt for each of some units. Confidential.

    Attributes
    ----------
    vectors : array (unit, coordinate)
    probability : array (unit,)
        Of being accepted, a double.
    is_accepted, is_doubtful : array (unit,)
        Where doubles do not prove the outcome, the attempt is decided again, from the same words.
    """

    vectors: Ints
    probability: Floats
    is_accepted: Flags
    is_doubtful: Flags


def draw_until_accepted(
    words: KeyedWords,
    n_words: int,
    n_coordinates: int,
    attempt: Callable[[Words], Attempts],
    refine: Callable[[list[Uniform]], list[int] | None],
    always_refined: bool,
) -> Ints:
    """Return the first accepted attempt of each unit (unit, coordinate).

    Attempt t of a unit takes its words from ``t * n_words`` on. It goes through all its steps before it is accepted or
    not, so that the number of attempts is independent of what is accepted.

    Parameters
    ----------
    n_words : int
        Of an attempt, an even number.
    refine : callable
        Decides an attempt by enclosures: a vector, or None.
    """
    out = np.zeros((len(words), n_coordinates), np.int64)
    waiting = np.arange(len(words))
    size = max(64, min(_BLOCK, _BLOCK_NUMBERS // max(1, n_coordinates)))
    number = 0
    while waiting.size:
        is_done = np.zeros(waiting.size, np.bool_)
        for start in range(0, waiting.size, size):
            places = waiting[start : start + size]
            first_block = np.full(places.size, number * n_words // 2)
            block_words = words.stretch(places, first_block, n_words)
            results = attempt(block_words)
            is_done[start : start + size] = results.is_accepted & ~results.is_doubtful
            out[places[results.is_accepted]] = results.vectors[results.is_accepted]
            for row in np.flatnonzero(results.is_doubtful | always_refined):
                uniforms = refinable_words(words, int(places[row]), number * n_words, block_words[row])
                vector = refine(uniforms)
                is_done[start + row] = vector is not None
                out[places[row]] = vector if vector is not None else 0
        waiting = waiting[~is_done]
        number += 1
    return out


def refinable_words(words: KeyedWords, place: int, first: int, some: Words) -> list[Uniform]:
    """Return words of a unit, from some index on, as uniform reals that further words refine."""

    def further(index: int) -> Iterator[int]:
        return (words.further(place, index, n)[-1] for n in count(1))

    return [Uniform(int(word), further(first + number)) for number, word in enumerate(some)]


def public_words(n: int) -> KeyedWords:
    """Return words of a public key: for acceptance rates, never for noise that is added to anything."""
    starts = np.zeros((n, 2), np.uint64)
    starts[:, 0] = np.arange(n)
    return KeyedWords(bytes(32), starts)


def mean_acceptance(attempt: Callable[[Words], Attempts], n_words: int, n: int = N_PUBLIC_ATTEMPTS) -> float:
    """Return about how often attempts are accepted: the mean probability of many with public words.

    Where the first ones are accepted far more rarely than any sampler may, no more are made.
    """
    words = public_words(n)
    total, done = 0.0, 0
    while done < n:
        places = np.arange(done, min(done + _BLOCK if done else _FIRST, n))
        total += float(np.sum(attempt(words.stretch(places, np.zeros(places.size, np.int64), n_words)).probability))
        done += places.size
        if total < _HOPELESS * done:  # 4,096 attempts on 7,488 cells with 51 exact numbers took 6 seconds
            break
    return total / done


def matrix_product(left: Floats, right: Floats) -> Floats:
    """Return ``left @ right``; of middling size in parts so small that a library for it does not start threads.

    Its threads wait for more work by spinning: attempts on 46 cells took three times the processor time.
    """
    (n_rows, n_terms), n_columns = left.shape, right.shape[1]
    if not _FEW_PRODUCTS < n_rows * n_terms * n_columns < _MANY_PRODUCTS:
        return left @ right
    out = np.empty((n_rows, n_columns))
    step = max(1, _FEW_PRODUCTS // (n_terms * min(n_rows, n_columns)))
    for start in range(0, max(n_rows, n_columns), step):
        part = slice(start, start + step)
        if n_rows > n_columns:
            out[part] = left[part] @ right
        else:
            out[:, part] = left @ right[:, part]
    return out
