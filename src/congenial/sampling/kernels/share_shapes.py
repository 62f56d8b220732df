"""What the kernels of sharing out are given. Imported without numba."""

from typing import NamedTuple

import numpy as np

from congenial.arrays import Floats, Ints

DONE, MORE_WORDS, DOUBT = 0, 1, 2
"""How a family was left: drawn; short of random words; with a decision too close to call."""

LEAST = 2.0**-68
"""Tables end where a weight is below this part of the largest."""


class ShareNoise(NamedTuple):
    """The noise of one level and its tilts, as doubles. Public.

    Attributes
    ----------
    is_squared : bool
        Whether weights are ``base ** (v * v)``, or ``base ** |v|``.
    ratios : array
        ``base ** (2 v + 1)`` from v = 0 on, correctly rounded; none where weights fall linearly.
    powers : array
        ``base ** (2 ** i)``, correctly rounded.
    tilts : array
        Weights are multiplied by a tilt to the power of the value. Squared: one tilt for each part of a step of 1, that
        moves the centre by less than half; whole steps move it themselves. Linear: every tilt there is, ascending.
    middle : int
        Linear: where the tilts pass 1.
    cap, reach : int
        A centre farther than `cap` above zero has the table of `cap`, one farther than `reach` below it that of
        `reach`.
    slope : float
        How many tilts a mean has to gain for each unit of its variance: parts of a step over precision.
    in_sigma : int
        How many tilts move the centre by a standard deviation.
    side : int
        How far tables go from the mode at most.
    """

    is_squared: bool
    base: float
    ratios: Floats
    powers: Floats
    tilts: Floats
    middle: int
    cap: int
    reach: int
    slope: float
    in_sigma: int
    side: int


KEY, FIRST, SIZE, IS_CUT = range(4)
"""Whole numbers of a table: which it is (-1 for none), where it begins, counted from the mode, how many values it has,
and whether values below the first are possible."""

TOLERANCE, BEYOND, MEAN, VARIANCE = range(4)
"""Numbers of a table: what `cdf` and `height` may be off by, random words included; a height that no value outside the
table is above; mean and variance of the deviation from the mode."""


class ShareTables(NamedTuple):
    """Tables of tilted laws of one child, each in a slot that its key determines.

    Attributes
    ----------
    marks, figures : array (slot, 4)
        See `KEY` and `TOLERANCE`.
    cdf, height : array (slot, value)
        Probabilities of at most a value; its weight in parts of the largest.
    """

    marks: Ints
    figures: Floats
    cdf: Floats
    height: Floats


def empty_tables(noise: ShareNoise, most_numbers: int = 1 << 23) -> ShareTables:
    """Return room for tables: as many as fit into so many numbers, a power of two."""
    length = 2 * noise.side + 1
    n_slots = 1 << max(4, min(13, (most_numbers // length).bit_length() - 1))
    marks = np.full((n_slots, 4), -1, np.int64)
    return ShareTables(marks, np.zeros((n_slots, 4)), np.empty((n_slots, length)), np.empty((n_slots, length)))
