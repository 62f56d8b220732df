"""The likelihood of a family, ``prod f(y - s) / Z(s; x)``, with log Z by a saddle point of second order."""

import math

import numpy as np

from congenial.arrays import Ints
from congenial.inference.kernels.tree_shapes import ChildLaws, Spine, TreeState, Truths
from congenial.sampling.jit import kernel

LATTICE = 1.0 / (2.0 * math.pi)
"""Added to the variance of a sum: a sum of variance 0 then has probability 1 at its mean, as on the integers."""

_NEWTON_STEPS = 4
_NEAR = 0.01  # squared distance of the mean from the sum, in variances


@kernel
def child(laws: ChildLaws, level: int, tilt: int, count: int) -> tuple[float, float, float]:
    """Return log mass, mean and variance of a child under a tilt."""
    parts = laws.parts[level]
    place = tilt + parts * count
    centre = place * laws.step[level]
    at = place - laws.first[level]
    if at < 0:  # surely 0
        return -centre * centre / (2.0 * laws.noise[level]), 0.0, 0.0
    size = laws.size[level]
    if at >= size:  # far from 0 the law is the same from step to step
        at = size - parts + (at - size) % parts
    at += laws.base[level]
    return laws.table[at, 0], centre + laws.table[at, 1], laws.table[at, 2]


@kernel
def beyond(wanted: float, mean: float, variance: float) -> float:
    """Return what of ``- log Z`` depends on how far the children's means are off the sum that is wanted."""
    spread = max(variance, 0.0) + LATTICE
    gap = wanted - mean
    return gap * gap / (2.0 * spread) + 0.5 * math.log(spread)


@kernel
def moments(
    laws: ChildLaws, level: int, tilt: int, counts: Ints, is_open: Truths, first: int, end: int, cell: int
) -> tuple[float, float]:
    """Return mean and variance of the sum of children under a tilt."""
    mean = variance = 0.0
    for unit in range(first, end):
        if is_open[unit, cell]:
            _, own, spread = child(laws, level, tilt, counts[unit, cell])
            mean += own
            variance += spread
    return mean, variance


@kernel
def tilt_of(
    laws: ChildLaws,
    level: int,
    counts: Ints,
    is_open: Truths,
    first: int,
    end: int,
    cell: int,
    wanted: int,
    guess: int,
) -> tuple[int, float, float]:
    """Return the tilt under which means add up to about what is wanted, above 0, and mean and variance there.

    Newton's steps from a guess, and halving where they do not arrive.
    """
    slope = laws.parts[level] * laws.noise[level]
    for _ in range(_NEWTON_STEPS):
        mean, variance = moments(laws, level, guess, counts, is_open, first, end, cell)
        gap = wanted - mean
        if gap * gap <= _NEAR * variance:
            return guess, mean, variance
        step = gap * slope / variance if variance > 1e-9 else 1e9
        if abs(step) > 1e6 or abs(step) < 0.5:
            break
        guess += int(np.floor(step + 0.5))
    largest = 0
    for unit in range(first, end):
        largest = max(largest, counts[unit, cell])
    parts = laws.parts[level]
    low, high = laws.first[level] - parts * (largest + 1), parts * (wanted + 2)
    while high - low > 1:
        middle = (low + high) // 2
        if moments(laws, level, middle, counts, is_open, first, end, cell)[0] < wanted:
            low = middle
        else:
            high = middle
    mean, variance = moments(laws, level, high, counts, is_open, first, end, cell)
    return high, mean, variance


@kernel
def refresh(spine: Spine, laws: ChildLaws, state: TreeState) -> None:
    """Find tilts, means and variances of all families anew."""
    n_cells = spine.released.shape[1]
    for unit in range(spine.starts[-2]):
        first, end, level = spine.first[unit], spine.end[unit], spine.level[unit] + 1
        for cell in range(n_cells):
            if spine.informs[unit, cell]:
                state.tilts[unit, cell], state.means[unit, cell], state.variances[unit, cell] = tilt_of(
                    laws,
                    level,
                    state.counts,
                    spine.is_open,
                    first,
                    end,
                    cell,
                    spine.released[unit, cell],
                    state.tilts[unit, cell],
                )


@kernel
def log_normaliser(laws: ChildLaws, level: int, counts: Ints, wanted: int) -> float:
    """Return log Z of one cell of one family: counts (child, 1) of two children or more, a sum above 0."""
    is_open = np.ones(counts.shape, np.bool_)
    tilt, mean, variance = tilt_of(laws, level, counts, is_open, 0, len(counts), 0, wanted, 0)
    noise = laws.noise[level]
    theta = tilt / (laws.parts[level] * noise)
    found = -theta * wanted - beyond(wanted, mean, variance) - 0.5 * math.log(2.0 * math.pi)
    for number in range(len(counts)):
        log_mass, _, _ = child(laws, level, tilt, counts[number, 0])
        found += log_mass + theta * counts[number, 0] + theta * theta * noise / 2.0
    return float(found)


@kernel
def gain(spine: Spine, laws: ChildLaws, state: TreeState, one: int, other: int, cell: int, step: int) -> float:
    """Return by how much the log likelihood rises when `step` people of a leaf go to another, at all levels.

    Above the first unit that both are part of, nothing changes. One loop and no calls for each level: passing a tree's
    arrays on takes longer than the sums.
    """
    found = 0.0
    while one != other:
        is_shared = spine.parent[one] == spine.parent[other]
        mean = variance = 0.0
        for side in range(2):
            unit, by = (one, step) if side == 0 else (other, -step)
            parent = spine.parent[unit]
            if not spine.informs[parent, cell]:
                continue
            level, tilt, count = spine.level[unit], state.tilts[parent, cell], state.counts[unit, cell]
            noise = laws.noise[level]
            log_mass_now, mean_now, variance_now = child(laws, level, tilt, count)
            log_mass_then, mean_then, variance_then = child(laws, level, tilt, count + by)
            found += by * (2 * (spine.released[unit, cell] - count) - by) / (2.0 * noise)
            found -= by * tilt * laws.step[level] / noise + log_mass_then - log_mass_now
            mean += mean_then - mean_now
            variance += variance_then - variance_now
            if is_shared and side == 0:
                continue
            spread = max(0.0, state.variances[parent, cell]) + LATTICE
            spread_then = max(0.0, state.variances[parent, cell] + variance) + LATTICE
            gap = spine.released[parent, cell] - state.means[parent, cell]
            found += (gap - mean) ** 2 / (2.0 * spread_then) - gap**2 / (2.0 * spread)
            found += 0.5 * math.log(spread_then / spread)
            mean = variance = 0.0
        one, other = spine.parent[one], spine.parent[other]
    return found


@kernel
def move(spine: Spine, laws: ChildLaws, state: TreeState, unit: int, cell: int, step: int) -> None:
    """Change a unit's count, and what is known of its family."""
    parent = spine.parent[unit]
    count = state.counts[unit, cell]
    state.counts[unit, cell] = count + step
    if spine.informs[parent, cell]:
        level, tilt = spine.level[unit], state.tilts[parent, cell]
        _, mean, variance = child(laws, level, tilt, count)
        _, mean_then, variance_then = child(laws, level, tilt, count + step)
        state.means[parent, cell] += mean_then - mean
        state.variances[parent, cell] += variance_then - variance
