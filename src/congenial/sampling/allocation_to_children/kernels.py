"""Children of a cell given their sum, by tilt and rejection (docs/claims/exact-sampling.md, section 5)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.sampling.jit import kernel

# What the kernels of allocation are given. Imported without numba.

DONE, MORE_WORDS, UNPROVEN = 0, 1, 2
"""How a family was left: drawn; short of random words; with a decision too close to call."""

LEAST = 2.0**-68
"""Tables end where a weight is below this part of the largest."""


class LevelNoise(NamedTuple):
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


class TiltedLaws(NamedTuple):
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


def empty_laws(noise: LevelNoise, most_numbers: int = 1 << 23) -> TiltedLaws:
    """Return room for tables: as many as fit into so many numbers, a power of two."""
    length = 2 * noise.side + 1
    n_slots = 1 << max(4, min(13, (most_numbers // length).bit_length() - 1))
    marks = np.full((n_slots, 4), -1, np.int64)
    return TiltedLaws(marks, np.zeros((n_slots, 4)), np.empty((n_slots, length)), np.empty((n_slots, length)))


# Tables of one child's tilted law, each made when it is first needed, with a proven bound of its error.
#
# Only additions, products, quotients and comparisons of doubles: the same bits on every machine. What is called for
# every random word takes bare arrays: taking one out of a tuple costs 10 ns, and there were six.

_UNIT = 2.0**-53


@kernel
def mode_of(noise: LevelNoise, count: int, tilt: int) -> int:
    """Return the most likely value of a child with a count, under a tilt."""
    if noise.is_squared:
        return max(count + tilt // noise.tilts.size, 0)
    return count if noise.tilts[tilt] >= noise.base else 0


@kernel
def key_of(noise: LevelNoise, count: int, tilt: int) -> int:
    """Return which table a child with a count has under a tilt."""
    n_tilts = noise.tilts.size
    if noise.is_squared:
        centre = min(max(count + tilt // n_tilts, -noise.reach), noise.cap)
        return (centre + noise.reach) * n_tilts + tilt % n_tilts
    return min(count, noise.cap) * n_tilts + tilt


@kernel
def slot_of(noise: LevelNoise, laws: TiltedLaws, key: int) -> int:
    """Return the slot of a table, which is made if it is not there."""
    slot = key & (len(laws.marks) - 1)
    if laws.marks[slot, KEY] != key:
        _fill(noise, key, slot, laws)
    return slot


@kernel
def _fill(noise: LevelNoise, key: int, slot: int, laws: TiltedLaws) -> None:
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
    height = laws.height[slot]
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
    cdf = laws.cdf[slot]
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
    marks, figures = laws.marks[slot], laws.figures[slot]
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


_NEAR = 0.09  # a mean within 0.3 standard deviations of the sum is near enough: more costs more than it gains


@kernel
def _moments(noise: LevelNoise, laws: TiltedLaws, counts: Ints, times: Ints, n: int, tilt: int) -> tuple[float, float]:
    """Return mean and variance of the sum of children under a tilt; equal counts are given once."""
    mean = variance = 0.0
    for number in range(n):
        slot = slot_of(noise, laws, key_of(noise, counts[number], tilt))
        mean += times[number] * (mode_of(noise, counts[number], tilt) + laws.figures[slot, MEAN])
        variance += times[number] * laws.figures[slot, VARIANCE]
    return mean, variance


@kernel
def tilt_of(
    noise: LevelNoise, laws: TiltedLaws, counts: Ints, times: Ints, n: int, n_children: int, wanted: int
) -> int:
    """Return the tilt under which the children's means add up to about the sum that is wanted.

    Any tilt gives the same law; this one makes acceptance likely. Newton's step where it stays inside what is known to
    be too low and too high, else halving. Tilts are looked at in steps that suit the number of children.
    """
    n_tilts = noise.tilts.size
    if not noise.is_squared:
        low, high, stride, guess = -1, n_tilts, 1, noise.middle
    else:
        stride = 1
        while 16 * stride * stride * n_children <= noise.in_sigma * noise.in_sigma:
            stride *= 2
        total = largest = 0
        for number in range(n):
            total += times[number] * counts[number]
            largest = max(largest, counts[number])
        low = -((largest + noise.reach + 1) * n_tilts // stride) - 1
        high = (wanted + 2) * n_tilts // stride + 1
        guess = min(max((wanted - total) * n_tilts // (n_children * stride), low + 1), high - 1)
    while True:
        mean, variance = _moments(noise, laws, counts, times, n, guess * stride)
        gap = wanted - mean
        if gap * gap <= _NEAR * variance:
            break
        if gap > 0:
            low = guess
        else:
            high = guess
        if high - low <= 1:
            break
        following = (low + high) // 2
        if noise.is_squared and variance > 0:
            step = noise.slope * gap / (variance * stride)
            if -1e9 < step < 1e9:
                aimed = guess + int(np.floor(step + 0.5))
                if low < aimed < high:
                    following = aimed
        guess = following
    return guess * stride


@kernel
def allocate(
    noise: LevelNoise,
    laws: TiltedLaws,
    starts: Ints,
    counts: Ints,
    zero_mask: NDArray[np.bool_],
    sums: Ints,
    words: NDArray[np.uint64],
    band: float,
    cell_reached: Ints,
    pointer: Ints,
    status: Ints,
    out: Ints,
) -> None:
    """Draw the children of many families, cell by cell, until done or until words or floats do not suffice.

    Parameters
    ----------
    starts : array (family + 1,)
        Where each family's children begin.
    counts, out : array (child, cell)
        Confidential counts, and draws.
    zero_mask : array (child, cell)
        Which cells of which children are zero by structure; no lines at all if none is.
    sums : array (family, cell)
        What the children must add up to.
    words : array (family, word)
    band : float
        Added to every tolerance: 0, or more to send decisions down the slow path.
    cell_reached, pointer, status : array (family,)
        Where each family goes on: cell and word, at the beginning of an attempt; and why it stopped.
    """
    n_families, n_cells = sums.shape
    most = 0
    for family in range(n_families):
        most = max(most, starts[family + 1] - starts[family])
    members, keys, modes = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    distinct, times, place_of = np.empty(most, np.int64), np.empty(most, np.int64), np.full(64, -1, np.int64)
    for family in range(n_families):
        cell = cell_reached[family]
        status[family] = DONE
        while cell < n_cells and status[family] == DONE:
            wanted = sums[family, cell]
            n = n_distinct = 0
            last = -1
            for child in range(starts[family], starts[family + 1]):
                out[child, cell] = 0
                if wanted == 0 or (zero_mask.shape[0] > 0 and zero_mask[child, cell]):
                    continue
                count = counts[child, cell]
                members[n] = child
                if last < 0 or count > counts[members[last], cell]:
                    last = n
                n += 1
                if count < 64 and place_of[count] >= 0:
                    times[place_of[count]] += 1
                    continue
                if count < 64:
                    place_of[count] = n_distinct
                distinct[n_distinct], times[n_distinct] = count, 1
                n_distinct += 1
            for number in range(n_distinct):
                if distinct[number] < 64:
                    place_of[distinct[number]] = -1
            if n == 1:
                out[members[0], cell] = wanted
            elif n > 1:
                tilt = tilt_of(noise, laws, distinct, times, n_distinct, n, wanted)
                for number in range(n):
                    keys[number] = key_of(noise, counts[members[number], cell], tilt)
                    modes[number] = mode_of(noise, counts[members[number], cell], tilt)
                status[family] = _attempts(
                    noise,
                    laws,
                    members,
                    keys,
                    modes,
                    n,
                    last,
                    wanted,
                    words[family],
                    band,
                    pointer,
                    family,
                    out,
                    cell,
                )
            if status[family] == DONE:
                cell += 1
        cell_reached[family] = cell


@kernel
def _attempts(
    noise: LevelNoise,
    laws: TiltedLaws,
    members: Ints,
    keys: Ints,
    modes: Ints,
    n: int,
    last: int,
    wanted: int,
    words: NDArray[np.uint64],
    band: float,
    pointer: Ints,
    family: int,
    out: Ints,
    cell: int,
) -> int:
    """Attempt until one is accepted: all children but one from their tables, the last by what is left over."""
    marks, figures, cdf, height = laws.marks, laws.figures, laws.cdf, laws.height
    last_slot = len(marks) - 1
    at = pointer[family]
    while True:
        pointer[family] = at
        if at + n > words.size:
            return MORE_WORDS
        remaining = wanted
        for number in range(n):
            if number == last:
                continue
            slot = keys[number] & last_slot
            if marks[slot, KEY] != keys[number]:
                slot = slot_of(noise, laws, keys[number])
            place = value_at(marks, cdf, slot, words[at], figures[slot, TOLERANCE] + band)
            if place < 0:
                return UNPROVEN
            at += 1
            value = modes[number] + marks[slot, FIRST] + place
            out[members[number], cell] = value
            remaining -= value
            if remaining < 0:
                break
        if remaining < 0:
            continue
        slot = slot_of(noise, laws, keys[last])
        place = remaining - modes[last] - marks[slot, FIRST]
        answer = verdict(marks, figures, height, slot, place, words[at], figures[slot, TOLERANCE] + band)
        if answer < 0:
            return UNPROVEN
        at += 1
        if answer == 1:
            out[members[last], cell] = remaining
            pointer[family] = at
            return DONE
