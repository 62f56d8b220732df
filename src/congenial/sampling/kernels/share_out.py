"""Children of a cell given their sum, by tilt and rejection (docs/claims/exact-sampling.md, section 5)."""

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.sampling.jit import kernel
from congenial.sampling.kernels.share_shapes import (
    DONE,
    DOUBT,
    FIRST,
    KEY,
    MEAN,
    MORE_WORDS,
    TOLERANCE,
    VARIANCE,
    ShareNoise,
    ShareTables,
)
from congenial.sampling.kernels.share_tables import key_of, mode_of, slot_of, value_at, verdict

_NEAR = 0.09  # a mean within 0.3 standard deviations of the sum is near enough: more costs more than it gains


@kernel
def _moments(
    noise: ShareNoise, tables: ShareTables, counts: Ints, times: Ints, n: int, tilt: int
) -> tuple[float, float]:
    """Return mean and variance of the sum of children under a tilt; equal counts are given once."""
    mean = variance = 0.0
    for number in range(n):
        slot = slot_of(noise, tables, key_of(noise, counts[number], tilt))
        mean += times[number] * (mode_of(noise, counts[number], tilt) + tables.figures[slot, MEAN])
        variance += times[number] * tables.figures[slot, VARIANCE]
    return mean, variance


@kernel
def tilt_of(
    noise: ShareNoise, tables: ShareTables, counts: Ints, times: Ints, n: int, n_children: int, wanted: int
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
        mean, variance = _moments(noise, tables, counts, times, n, guess * stride)
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
def share_out(
    noise: ShareNoise,
    tables: ShareTables,
    starts: Ints,
    counts: Ints,
    is_barred: NDArray[np.bool_],
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
    is_barred : array (child, cell)
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
    distinct, times, seen = np.empty(most, np.int64), np.empty(most, np.int64), np.full(64, -1, np.int64)
    for family in range(n_families):
        cell = cell_reached[family]
        status[family] = DONE
        while cell < n_cells and status[family] == DONE:
            wanted = sums[family, cell]
            n = n_distinct = 0
            last = -1
            for child in range(starts[family], starts[family + 1]):
                out[child, cell] = 0
                if wanted == 0 or (is_barred.shape[0] > 0 and is_barred[child, cell]):
                    continue
                count = counts[child, cell]
                members[n] = child
                if last < 0 or count > counts[members[last], cell]:
                    last = n
                n += 1
                if count < 64 and seen[count] >= 0:
                    times[seen[count]] += 1
                    continue
                if count < 64:
                    seen[count] = n_distinct
                distinct[n_distinct], times[n_distinct] = count, 1
                n_distinct += 1
            for number in range(n_distinct):
                if distinct[number] < 64:
                    seen[distinct[number]] = -1
            if n == 1:
                out[members[0], cell] = wanted
            elif n > 1:
                tilt = tilt_of(noise, tables, distinct, times, n_distinct, n, wanted)
                for number in range(n):
                    keys[number] = key_of(noise, counts[members[number], cell], tilt)
                    modes[number] = mode_of(noise, counts[members[number], cell], tilt)
                status[family] = _attempts(
                    noise,
                    tables,
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
    noise: ShareNoise,
    tables: ShareTables,
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
    marks, figures, cdf, height = tables.marks, tables.figures, tables.cdf, tables.height
    last_slot = len(marks) - 1
    at = pointer[family]
    while True:
        pointer[family] = at
        if at + n > words.size:
            return MORE_WORDS
        left = wanted
        for number in range(n):
            if number == last:
                continue
            slot = keys[number] & last_slot
            if marks[slot, KEY] != keys[number]:
                slot = slot_of(noise, tables, keys[number])
            place = value_at(marks, cdf, slot, words[at], figures[slot, TOLERANCE] + band)
            if place < 0:
                return DOUBT
            at += 1
            value = modes[number] + marks[slot, FIRST] + place
            out[members[number], cell] = value
            left -= value
            if left < 0:
                break
        if left < 0:
            continue
        slot = slot_of(noise, tables, keys[last])
        place = left - modes[last] - marks[slot, FIRST]
        answer = verdict(marks, figures, height, slot, place, words[at], figures[slot, TOLERANCE] + band)
        if answer < 0:
            return DOUBT
        at += 1
        if answer == 1:
            out[members[last], cell] = left
            pointer[family] = at
            return DONE
