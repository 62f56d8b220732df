"""Wide numbers, for systems that span more than doubles do. Imported without numba.

A wide number is ``value * 2 ** (512 power)`` with a value of 0, or from 2^-256 to below 2^256: products and sums of
such numbers neither overflow nor underflow, and round like those of doubles.
"""

from typing import NamedTuple

import numpy as np

from congenial.arrays import Floats, Ints

STEP = 512
"""Bits between two powers."""


class Wide(NamedTuple):
    """Many wide numbers."""

    value: Floats
    power: Ints


Numbers = Floats | Wide
"""Doubles, or wide numbers."""


def empty_numbers(n: int, *, is_wide: bool) -> Numbers:
    """Return room for so many numbers."""
    return Wide(np.empty(n), np.zeros(n, np.int64)) if is_wide else np.empty(n)


def normal(value: Floats, power: Ints) -> Wide:
    """Return wide numbers of products of two values."""
    step = np.where(value >= 2.0 ** (STEP // 2), 1, 0) - np.where((value < 2.0 ** -(STEP // 2)) & (value > 0), 1, 0)
    return Wide(np.ldexp(value, -STEP * step), np.where(value > 0, power + step, 0))


def as_doubles(numbers: Wide, lift: int = 0) -> Floats:
    """Return ``number / 2 ** (512 lift)``; what is too small for a double is 0."""
    out: Floats = np.ldexp(numbers.value, STEP * np.maximum(numbers.power - lift, -5))
    return out
