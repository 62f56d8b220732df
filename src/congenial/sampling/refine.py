"""Decisions that floats leave open, in balls: from the same random bits, and more of them where 64 do not decide."""

from collections.abc import Iterable, MutableMapping
from fractions import Fraction
from typing import Any

import flint

from congenial.errors import SamplingError
from congenial.exact import ends
from congenial.randomness import RandomStream

WORD = 64

Seen = tuple[int, int]
"""The bits of a decision that were looked at, as a number n, and how many: U is in ``[n, n + 1) / 2**bits``."""


class Unclear(Exception):  # noqa: N818
    """The bits that were seen do not decide."""

    def __init__(self, decision: int) -> None:
        super().__init__(decision)
        self.decision = decision


def look_further(bits: MutableMapping[int, Seen], decision: int, rng: RandomStream) -> None:
    """Take another word for a decision."""
    number, n_bits = bits[decision]
    bits[decision] = (number << WORD | int(rng.words(1)[0]), n_bits + WORD)


def pick(pairs: Iterable[tuple[Any, flint.arb]], missing: Fraction, seen: Seen, decision: int) -> Any:
    """Return the outcome at which the running sum passes U times the total, or raise `Unclear`.

    Parameters
    ----------
    pairs : iterable of (outcome, weight)
    missing : Fraction
        A bound of all weights that are left out, wherever they belong.
    """
    outcomes, sums = [], []
    running = flint.arb(0)
    for outcome, value in pairs:
        running = running + value
        outcomes.append(outcome)
        sums.append(running)
    if not sums:
        raise SamplingError("internal: a key without any table; please report this system")
    low_total, high_total = ends(running)
    word, bits = seen
    low_aim, high_aim = Fraction(word, 2**bits) * low_total, Fraction(word + 1, 2**bits) * (high_total + missing)
    # The first outcome whose sum is surely above U; every earlier sum must surely be at or below it.
    first, last = 0, len(sums) - 1
    while first < last:
        middle = (first + last) // 2
        if ends(sums[middle])[0] >= high_aim:
            last = middle
        else:
            first = middle + 1
    is_sure = ends(sums[first])[0] >= high_aim or (first == len(sums) - 1 and missing == 0)
    before = ends(sums[first - 1])[1] if first else Fraction(0)
    if is_sure and before + missing <= low_aim:
        return outcomes[first]
    raise Unclear(decision)
