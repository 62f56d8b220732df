"""Tables of one child's tilted law, each made when it is first needed, with a proven bound of its error.

Only additions, products, quotients and comparisons of doubles: the same bits on every machine. What is called for every
random word takes bare arrays: taking one out of a tuple costs 10 ns, and there were six.
"""

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.sampling.jit import kernel
from congenial.sampling.kernels.share_shapes import (
    BEYOND,
    FIRST,
    IS_CUT,
    KEY,
    LEAST,
    MEAN,
    SIZE,
    TOLERANCE,
    VARIANCE,
    ShareNoise,
    ShareTables,
)

_UNIT = 2.0**-53


@kernel
def mode_of(noise: ShareNoise, count: int, tilt: int) -> int:
    """Return the most likely value of a child with a count, under a tilt."""
    if noise.is_squared:
        return max(count + tilt // noise.tilts.size, 0)
    return count if noise.tilts[tilt] >= noise.base else 0


@kernel
def key_of(noise: ShareNoise, count: int, tilt: int) -> int:
    """Return which table a child with a count has under a tilt."""
    n_tilts = noise.tilts.size
    if noise.is_squared:
        centre = min(max(count + tilt // n_tilts, -noise.reach), noise.cap)
        return (centre + noise.reach) * n_tilts + tilt % n_tilts
    return min(count, noise.cap) * n_tilts + tilt


@kernel
def slot_of(noise: ShareNoise, tables: ShareTables, key: int) -> int:
    """Return the slot of a table, which is made if it is not there."""
    slot = key & (len(tables.marks) - 1)
    if tables.marks[slot, KEY] != key:
        _fill(noise, key, slot, tables)
    return slot


@kernel
def _fill(noise: ShareNoise, key: int, slot: int, tables: ShareTables) -> None:
    """Make a table: weights from the mode to both sides, their running sums, and what these may be off by.

    A weight has at most `step` units of rounding for each step from the mode. What lies beyond an end is bounded by a
    geometric series, because ratios of weights that follow each other fall.
    """
    n_tilts = noise.tilts.size
    centre, tilt = key // n_tilts, noise.tilts[key % n_tilts]
    if noise.is_squared:
        centre -= noise.reach
    # Values below the mode: none, as many as the centre has, or more than are followed.
    below = max(centre, 0)
    is_at_zero = not noise.is_squared and tilt < noise.base
    if is_at_zero:
        below = 0
    start, step = 1.0, 4
    if centre < 0:  # the mode is zero, where the fall of the squares has begun: base ** (2 |centre|)
        power, place = -2 * centre, 0
        while power:
            if power & 1:
                start *= noise.powers[place]
                step += 3
            power >>= 1
            place += 1
    side = noise.side
    height = tables.height[slot]
    height[side] = 1.0
    above, weight, ratio = 0, 1.0, 0.0
    while True:
        if noise.is_squared:
            ratio = start * noise.ratios[above] * tilt
        elif is_at_zero and above < centre:
            ratio = tilt / noise.base
        else:
            ratio = noise.base * tilt
        following = weight * ratio
        if following < LEAST or above == side:
            break
        weight = following
        above += 1
        height[side + above] = weight
    beyond = weight * ratio
    tail = beyond / (1.0 - ratio) if ratio < 0.999999 else 1.0
    n_below, weight, ratio = 0, 1.0, 0.0
    while n_below < below:
        ratio = (noise.ratios[n_below] if noise.is_squared else noise.base) / tilt
        following = weight * ratio
        if following < LEAST or n_below == side:
            break
        weight = following
        n_below += 1
        height[side - n_below] = weight
    # A table that stands for all centres from `cap` on always goes on below.
    is_cut = below > 0 and (n_below < below or centre == noise.cap)
    if is_cut:
        ratio = (noise.ratios[min(n_below, side)] if noise.is_squared else noise.base) / tilt
        beyond = max(beyond, weight * ratio)
        tail += weight * ratio / (1.0 - ratio) if ratio < 0.999999 else 1.0
    size = above + n_below + 1
    cdf = tables.cdf[slot]
    total = first_moment = second_moment = 0.0
    for place in range(size):
        weight = height[side - n_below + place]
        height[place] = weight
        total += weight
        cdf[place] = total
        gap = float(place - n_below)
        first_moment += weight * gap
        second_moment += weight * gap * gap
    for place in range(size):
        cdf[place] /= total
    mean = first_moment / total
    marks, figures = tables.marks[slot], tables.figures[slot]
    marks[KEY], marks[FIRST], marks[SIZE], marks[IS_CUT] = key, -n_below, size, is_cut
    figures[TOLERANCE] = (2 * (max(above, n_below) * step + size) + 16) * _UNIT + 1.001 * tail
    figures[BEYOND], figures[MEAN] = beyond, mean
    figures[VARIANCE] = max(second_moment / total - mean * mean, 0.0)


@kernel
def value_at(marks: Ints, cdf: Floats, slot: int, word: np.uint64, tolerance: float) -> int:
    """Return where in its table a random word leads; -1 where that is too close to call."""
    aim = float(word) * 2.0**-64
    size = marks[slot, SIZE]
    place = -marks[slot, FIRST]  # the mode is the most likely outcome
    low, high = 0, size - 1
    if aim < cdf[slot, place]:
        if place == 0 or aim >= cdf[slot, place - 1]:
            low = high = place
        else:
            high = place - 1
    else:
        low = min(place + 1, size - 1)
    while low < high:
        middle = (low + high) >> 1
        if aim < cdf[slot, middle]:
            high = middle
        else:
            low = middle + 1
    if cdf[slot, low] - aim <= tolerance:
        return -1
    if low > 0:
        if aim - cdf[slot, low - 1] <= tolerance:
            return -1
    elif marks[slot, IS_CUT] and aim <= tolerance:
        return -1
    return low


@kernel
def verdict(
    marks: Ints, figures: Floats, heights: Floats, slot: int, place: int, word: np.uint64, tolerance: float
) -> int:
    """Return whether a value is accepted with its height: 1 for yes, 0 for no, -1 where that is too close to call."""
    aim = float(word) * 2.0**-64
    if 0 <= place < marks[slot, SIZE]:
        height = heights[slot, place]
        if aim < height - tolerance:
            return 1
        return 0 if aim > height + tolerance else -1
    return 0 if aim > figures[slot, BEYOND] + tolerance else -1
