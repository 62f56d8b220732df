"""Moves of people between leaves. Each leaves the posterior of the leaves as it is, given the top and the prior."""

import math

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.inference.kernels_random_numbers import Words, below, pick, uniform
from congenial.inference.tree.kernels_effects_and_normalisers import (
    LATTICE,
    ChildLaws,
    Spine,
    TreeState,
    child,
    gain,
    move,
)
from congenial.sampling.jit import kernel

WINDOW = 128
"""Splits of fewer people are all looked at; of more, a stretch around the present one."""

LOG_WEIGHT, MEAN, VARIANCE = range(3)
"""What a count says of a child."""
BOTH, FIRST_EMPTY, SECOND_EMPTY = range(3)
"""Which of two leaves are occupied; neither, after these."""

_NEGLIGIBLE = 25.0  # in nats
_MOST_TRIES = 200


@kernel
def log_factorial(n: int) -> float:
    """Return log n!."""
    return math.lgamma(n + 1.0)


@kernel
def share_out_again(spine: Spine, laws: ChildLaws, state: TreeState, logs: Floats, start: int, chance: Words) -> int:
    """Split, for every leaf of families from `start` on, its people and a sibling's anew, cell by cell.

    Both leaves may also be found empty, all their people at the other. Returns the family before which words ran short.
    """
    n_cells = spine.released.shape[1]
    weights, known, stretches = np.empty((n_cells, WINDOW)), np.empty((n_cells, WINDOW, 3)), np.empty((2, WINDOW, 3))
    n_known, lows, lengths = np.empty(n_cells, np.int64), np.empty(n_cells, np.int64), np.empty(n_cells, np.int64)
    chances = np.empty(4)
    for parent in range(start, spine.starts[-2]):
        first, n = spine.first[parent], spine.end[parent] - spine.first[parent]
        if n < 2:
            continue
        if chance.words.size - chance.used[0] < n * (2 * n_cells + 2):
            return parent
        n_known[:] = 0
        for first_child in range(first, first + n):
            second_child = first + below(n - 1, chance)
            if second_child >= first_child:
                second_child += 1
            is_whole = True
            for cell in range(n_cells):
                is_whole &= state.counts[first_child, cell] + state.counts[second_child, cell] < WINDOW
            if not is_whole and not (state.is_occupied[first_child] and state.is_occupied[second_child]):
                continue  # how many people two leaves have together does not change: such a pair is never split
            log_both = log_first_empty = log_second_empty = load_one = load_other = 0.0
            people = 0
            for cell in range(n_cells):
                load_one += state.rates[parent, cell] * state.weights[first_child, cell]
                load_other += state.rates[parent, cell] * state.weights[second_child, cell]
                present = state.counts[first_child, cell]
                both = present + state.counts[second_child, cell]
                people += both
                lows[cell], lengths[cell] = present, 1
                if both == 0:
                    continue
                if not (spine.is_open[first_child, cell] and spine.is_open[second_child, cell]):
                    if present > 0:
                        log_first_empty = -np.inf
                    else:
                        log_second_empty = -np.inf
                    continue
                if both < WINDOW:
                    if n_known[cell] <= both:
                        _describe(spine, laws, state, logs, parent, cell, n_known[cell], 0, both + 1, known[cell])
                        n_known[cell] = both + 1
                    of_one, from_one, of_other, from_other = known[cell], 0, known[cell], 0
                    low, high = 0, both
                else:
                    length = min(WINDOW, max(8, 4 * int(math.sqrt(laws.noise[spine.level[first_child]])) + 1))
                    low = present - below(length, chance)
                    low, high = max(0, low), min(both, low + length - 1)
                    of_one, from_one, of_other, from_other = stretches[0], low, stretches[1], both - high
                    _describe(spine, laws, state, logs, parent, cell, 0, low, high - low + 1, of_one)
                    _describe(spine, laws, state, logs, parent, cell, 0, both - high, high - low + 1, of_other)
                informs, rest, spread, per_noise = spine.informs[parent, cell], 0.0, 1.0, 0.0
                if informs:
                    a, b = present - from_one, both - present - from_other
                    wanted = spine.released[parent, cell]
                    rest = wanted - state.means[parent, cell] + of_one[a, MEAN] + of_other[b, MEAN]
                    others = state.variances[parent, cell] - of_one[a, VARIANCE] - of_other[b, VARIANCE]
                    spread = max(0.0, others) + LATTICE
                    per_noise = 0.5 / laws.noise[spine.level[first_child]]
                lows[cell], lengths[cell], total, at_zero, at_all = _weigh(
                    of_one,
                    from_one,
                    of_other,
                    from_other,
                    low,
                    high,
                    present,
                    both,
                    math.log(state.weights[first_child, cell] / state.weights[second_child, cell]),
                    spine.released[first_child, cell],
                    spine.released[second_child, cell],
                    per_noise,
                    rest,
                    spread,
                    spread * per_noise > 5.0,
                    weights[cell],
                )
                log_both += math.log(total)
                log_first_empty += math.log(at_zero) if at_zero > 0.0 else -np.inf
                log_second_empty += math.log(at_all) if at_all > 0.0 else -np.inf
            outcome = 0
            if is_whole:
                share = state.empty[parent]
                odds = math.log(share / (1.0 - share)) if share > 0.0 else -np.inf
                chances[0] = log_both - load_one - load_other
                chances[1] = log_first_empty + odds - load_other
                chances[2] = log_second_empty + odds - load_one
                chances[3] = 2.0 * odds if people == 0 else -np.inf
                top = chances.max()
                for number in range(4):
                    chances[number] = math.exp(chances[number] - top)
                outcome = pick(chances, 4, chance)
                state.is_occupied[first_child] = outcome in (BOTH, SECOND_EMPTY)
                state.is_occupied[second_child] = outcome in (BOTH, FIRST_EMPTY)
            for cell in range(n_cells):
                both = state.counts[first_child, cell] + state.counts[second_child, cell]
                value = lows[cell] if outcome == BOTH else (0 if outcome == FIRST_EMPTY else both)
                if outcome == BOTH and lengths[cell] > 1:
                    value += pick(weights[cell], lengths[cell], chance)
                step = value - state.counts[first_child, cell]
                if step != 0:
                    move(spine, laws, state, first_child, cell, step)
                    move(spine, laws, state, second_child, cell, -step)
    return int(spine.starts[-2])


@kernel
def _describe(
    spine: Spine,
    laws: ChildLaws,
    state: TreeState,
    logs: Floats,
    parent: int,
    cell: int,
    start: int,
    least: int,
    end: int,
    out: Floats,
) -> None:
    """Set what counts say of a child, from line `start` on; the first line is a count of `least`."""
    informs, tilt, level = spine.informs[parent, cell], state.tilts[parent, cell], spine.level[parent] + 1
    for line in range(start, end):
        count = least + line
        out[line, LOG_WEIGHT] = -logs[count] if count < logs.size else -log_factorial(count)
        out[line, MEAN] = out[line, VARIANCE] = 0.0
        if informs:
            log_mass, mean, variance = child(laws, level, tilt, count)
            out[line, LOG_WEIGHT] -= log_mass
            out[line, MEAN], out[line, VARIANCE] = mean, variance


@kernel
def _weigh(
    of_one: Floats,
    from_one: int,
    of_other: Floats,
    from_other: int,
    low: int,
    high: int,
    present: int,
    both: int,
    odds: float,
    y: int,
    z: int,
    per_noise: float,
    rest: float,
    spread: float,
    is_small: bool,
    weights: Floats,
) -> tuple[int, int, float, float, float]:
    """Set the weights of splits in parts of the largest; return the first, how many, their sum, and those of both ends.

    They are followed from the present split up and down until they are negligible. Where a pair is a small part of its
    family, what its variances change is small, and no logarithm is taken for each split.
    """
    per_spread = 0.5 / spread
    largest, start, end = -np.inf, present, present
    for turn in range(3):
        value = present
        while True:
            if turn == 1:
                value += 1
            elif turn == 2:
                value -= 1
            if value < low or value > high:
                break
            remainder = both - value
            a, b = value - from_one, remainder - from_other
            gap = rest - of_one[a, MEAN] - of_other[b, MEAN]
            more = of_one[a, VARIANCE] + of_other[b, VARIANCE]
            log_weight = value * odds + of_one[a, LOG_WEIGHT] + of_other[b, LOG_WEIGHT]
            log_weight -= ((y - value) * (y - value) + (z - remainder) * (z - remainder)) * per_noise
            if is_small:
                more *= per_spread
                log_weight += gap * gap * per_spread * (1.0 - 2.0 * more) + more * (1.0 - more)
            else:
                log_weight += gap * gap / (2.0 * (spread + more)) + 0.5 * math.log(spread + more)
            weights[value - low] = log_weight
            largest = max(largest, log_weight)
            start, end = min(start, value), max(end, value)
            if turn == 0 or log_weight < largest - _NEGLIGIBLE:
                break
    total = 0.0
    for place in range(end - start + 1):
        weights[place] = math.exp(weights[start - low + place] - largest)
        total += weights[place]
    at_zero = weights[0] if start == 0 else 0.0
    at_all = weights[end - start] if end == both else 0.0
    return start, end - start + 1, total, at_zero, at_all


@kernel
def move_far(
    spine: Spine, laws: ChildLaws, state: TreeState, logs: Floats, stride: int, start: int, chance: Words
) -> int:
    """Move people between one in `stride` leaves from `start` on and others of other families, cell by cell.

    How far the two are apart is drawn: their first common unit is at any level above their parents'. Returns the leaf
    before which words ran short.
    """
    n_levels, n_cells = spine.starts.size - 1, spine.released.shape[1]
    for leaf in range(start, spine.starts[-1], stride):
        if chance.words.size - chance.used[0] < 3 * n_cells + 4:
            return leaf
        meeting = below(n_levels - 2, chance)
        top = leaf
        while spine.level[top] > meeting + 1:
            top = spine.parent[top]
        shared = spine.parent[top]
        n = spine.end[shared] - spine.first[shared]
        if n < 2:
            continue
        beside = spine.first[shared] + below(n - 1, chance)
        if beside >= top:
            beside += 1
        n_leaves = spine.end_leaf[beside] - spine.first_leaf[beside]
        partner_leaf = spine.first_leaf[beside] + below(n_leaves, chance)
        if not (state.is_occupied[leaf] and state.is_occupied[partner_leaf]):
            continue
        narrowest = np.inf
        for level in range(meeting + 1, n_levels):
            narrowest = min(narrowest, laws.noise[level])
        longest = max(1, int(math.sqrt(narrowest)))
        for cell in range(n_cells):
            if state.counts[leaf, cell] + state.counts[partner_leaf, cell] == 0:
                continue
            if not (spine.is_open[leaf, cell] and spine.is_open[partner_leaf, cell]):
                continue
            step = 1 + below(longest, chance)
            if uniform(chance) < 0.5:
                step = -step
            coin = uniform(chance)
            if state.counts[leaf, cell] + step >= 0 and state.counts[partner_leaf, cell] >= step:
                _try_transfer(spine, laws, state, logs, leaf, partner_leaf, cell, step, coin)
    return int(spine.starts[-1])


@kernel
def _try_transfer(
    spine: Spine,
    laws: ChildLaws,
    state: TreeState,
    logs: Floats,
    receiver: int,
    giver: int,
    cell: int,
    step: int,
    coin: float,
) -> None:
    """Give `step` people of the other leaf to the one, at all levels below their first common unit, or leave them."""
    present, partner = state.counts[receiver, cell], state.counts[giver, cell]
    log_ratio = step * (state.log_shares[receiver, cell] - state.log_shares[giver, cell])
    if max(present + step, partner, present, partner - step) < logs.size:
        log_ratio += logs[present] + logs[partner] - logs[present + step] - logs[partner - step]
    else:
        log_ratio += log_factorial(present) + log_factorial(partner)
        log_ratio -= log_factorial(present + step) + log_factorial(partner - step)
    if log_ratio + gain(spine, laws, state, receiver, giver, cell, step) <= math.log(coin):
        return
    a, b = receiver, giver
    while a != b:
        move(spine, laws, state, a, cell, step)
        move(spine, laws, state, b, cell, -step)
        a, b = spine.parent[a], spine.parent[b]


@kernel
def set_top(spine: Spine, state: TreeState, tables: Ints, scratch: Floats, chance: Words) -> bool:
    """Change the tables at the top, adding people to leaves by the prior and taking any away; false if words ran short.

    `refresh` must follow. Called again after words ran short, it goes on.
    """
    n_cells, n_levels = tables.shape[1], spine.starts.size - 1
    for unit in range(spine.starts[1]):
        for cell in range(n_cells):
            while state.counts[unit, cell] != tables[unit, cell]:
                if chance.words.size - chance.used[0] < (_MOST_TRIES + 1) * n_levels:
                    return False
                step = 1 if state.counts[unit, cell] < tables[unit, cell] else -1
                _change_one(spine, state, unit, cell, step, scratch, chance)
    return True


@kernel
def _change_one(spine: Spine, state: TreeState, top: int, cell: int, step: int, scratch: Floats, chance: Words) -> None:
    """Add one person below a unit at the top, or take one away."""
    for number in range(_MOST_TRIES):
        unit, is_possible = top, True
        while is_possible and spine.end[unit] > spine.first[unit]:
            first, n, total = spine.first[unit], spine.end[unit] - spine.first[unit], 0.0
            for place in range(n):
                child = first + place
                if step < 0:
                    scratch[place] = float(state.counts[child, cell])
                elif not spine.is_open[child, cell]:
                    scratch[place] = 0.0
                elif state.is_occupied[child]:
                    scratch[place] = state.weights[child, cell]
                else:  # an empty leaf, only where there is no other
                    scratch[place] = 1e-9 if number > _MOST_TRIES // 2 else 0.0
                total += scratch[place]
            is_possible = total > 0.0
            if is_possible:
                unit = first + pick(scratch, n, chance)
        if is_possible:
            break
    state.is_occupied[unit] = True
    while unit >= 0:
        state.counts[unit, cell] += step
        unit = spine.parent[unit]
