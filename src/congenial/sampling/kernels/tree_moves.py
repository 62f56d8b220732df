"""Moves of people between leaves. Every one leaves the posterior of the leaves as it is, given the top and the prior."""

import math

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.sampling.kernels.chance import Words, below, pick, uniform
from congenial.sampling.kernels.compiled import compiled
from congenial.sampling.kernels.tree_law import LATTICE, child, gain, move
from congenial.sampling.kernels.tree_shapes import ChildLaws, Spine, TreeState

WINDOW = 64
"""Splits of up to so many people are all looked at; of more, a stretch as long as that around the present one."""

_MOST_TRIES = 200


@compiled
def log_factorial(n: int) -> float:
    """Return log n!."""
    return math.lgamma(n + 1.0)


@compiled
def share_out_again(
    spine: Spine, laws: ChildLaws, state: TreeState, logs: Floats, start: int, words: Words, cursor: Ints
) -> int:
    """Split, for every leaf of families from `start` on, its people and a sibling's anew, cell by cell.

    Both leaves may also be found empty, all their people at the other. Returns the family before which words ran short.
    """
    n_cells = spine.released.shape[1]
    room = np.empty((n_cells, WINDOW))
    lows, lengths, chances = np.empty(n_cells, np.int64), np.empty(n_cells, np.int64), np.empty(4)
    for parent in range(start, spine.starts[-2]):
        first, n = spine.first[parent], spine.end[parent] - spine.first[parent]
        if n < 2:
            continue
        if words.size - cursor[0] < n * (2 * n_cells + 2):
            return parent
        for one in range(first, first + n):
            other = first + below(n - 1, words, cursor)
            if other >= one:
                other += 1
            _split(spine, laws, state, logs, parent, one, other, room, lows, lengths, chances, words, cursor)
    return spine.starts[-2]


@compiled
def _split(
    spine: Spine,
    laws: ChildLaws,
    state: TreeState,
    logs: Floats,
    parent: int,
    one: int,
    other: int,
    room: Floats,
    lows: Ints,
    lengths: Ints,
    chances: Floats,
    words: Words,
    cursor: Ints,
) -> None:
    """Draw the split of one pair, and which of the two is empty, from their conditional law."""
    n_cells = spine.released.shape[1]
    is_whole, people = True, 0
    for cell in range(n_cells):
        both = state.counts[one, cell] + state.counts[other, cell]
        people += both
        is_whole &= both < WINDOW
    if not is_whole and not (state.is_occupied[one] and state.is_occupied[other]):
        return  # how many people two leaves have together does not change: nothing is ever split in such a pair
    log_both = log_first_empty = log_second_empty = 0.0
    load_one = load_other = 0.0
    for cell in range(n_cells):
        load_one += state.rates[parent, cell] * state.weights[one, cell]
        load_other += state.rates[parent, cell] * state.weights[other, cell]
        both = state.counts[one, cell] + state.counts[other, cell]
        lows[cell], lengths[cell] = state.counts[one, cell], 1
        if both == 0:
            continue
        if not (spine.is_open[one, cell] and spine.is_open[other, cell]):
            if state.counts[one, cell] > 0:
                log_first_empty = -np.inf
            else:
                log_second_empty = -np.inf
            continue
        total, at_zero, at_all = _weigh_splits(
            spine, laws, state, logs, parent, one, other, cell, room[cell], lows, lengths, words, cursor
        )
        log_both += math.log(total)
        log_first_empty += math.log(at_zero) if at_zero > 0.0 else -np.inf
        log_second_empty += math.log(at_all) if at_all > 0.0 else -np.inf
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
        found = pick(chances, 4, words, cursor)
        state.is_occupied[one] = found == 0 or found == 2
        state.is_occupied[other] = found == 0 or found == 1
    else:
        found = 0
    for cell in range(n_cells):
        both = state.counts[one, cell] + state.counts[other, cell]
        if both == 0:
            continue
        if found == 0:
            value = lows[cell]
            if lengths[cell] > 1:
                value += pick(room[cell], lengths[cell], words, cursor)
        else:
            value = 0 if found == 1 else both
        step = value - state.counts[one, cell]
        if step != 0:
            move(spine, laws, state, one, cell, step)
            move(spine, laws, state, other, cell, -step)


@compiled
def _weigh_splits(
    spine: Spine,
    laws: ChildLaws,
    state: TreeState,
    logs: Floats,
    parent: int,
    one: int,
    other: int,
    cell: int,
    weights: Floats,
    lows: Ints,
    lengths: Ints,
    words: Words,
    cursor: Ints,
) -> tuple[float, float, float]:
    """Set the weights of the splits of a cell, in parts of the largest; return their sum, and those of both ends.

    A stretch of a longer range lies around the present split at random, as likely around every split in it.
    """
    present, partner = state.counts[one, cell], state.counts[other, cell]
    both, level = present + partner, spine.level[one]
    noise = laws.noise[level]
    low, length = 0, both + 1
    if both >= WINDOW:
        length = min(WINDOW, max(8, 4 * int(math.sqrt(noise)) + 1))
        low = present - below(length, words, cursor)
        if low < 0:
            length += low
            low = 0
        length = min(length, both - low + 1)
    informs = spine.informs[parent, cell]
    odds = math.log(state.weights[one, cell] / state.weights[other, cell])
    tilt, wanted = state.tilts[parent, cell], spine.released[parent, cell]
    y, z = spine.released[one, cell], spine.released[other, cell]
    rest = spread = 0.0
    if informs:
        _, mean, variance = child(laws, level, tilt, present)
        _, mean_other, variance_other = child(laws, level, tilt, partner)
        rest = wanted - state.means[parent, cell] + mean + mean_other
        spread = max(0.0, state.variances[parent, cell] - variance - variance_other) + LATTICE
    is_short = both < logs.size
    largest = -np.inf
    for number in range(length):
        value = low + number
        left = both - value
        if is_short:
            log_weight = value * odds - logs[value] - logs[left]
        else:
            log_weight = value * odds - log_factorial(value) - log_factorial(left)
        if informs:
            log_mass, mean, variance = child(laws, level, tilt, value)
            log_mass_other, mean_other, variance_other = child(laws, level, tilt, left)
            gap, width = rest - mean - mean_other, spread + variance + variance_other
            log_weight += gap * gap / (2.0 * width) + 0.5 * math.log(width) - log_mass - log_mass_other
            log_weight -= ((y - value) ** 2 + (z - left) ** 2) / (2.0 * noise)
        weights[number] = log_weight
        largest = max(largest, log_weight)
    total = 0.0
    for number in range(length):
        weights[number] = math.exp(weights[number] - largest)
        total += weights[number]
    lows[cell], lengths[cell] = low, length
    at_zero = weights[0] if low == 0 else 0.0
    at_all = weights[length - 1] if low + length == both + 1 else 0.0
    return total, at_zero, at_all


@compiled
def move_far(
    spine: Spine, laws: ChildLaws, state: TreeState, logs: Floats, start: int, words: Words, cursor: Ints
) -> int:
    """Move people between every leaf from `start` on and one of another family, cell by cell.

    How far the two are apart is drawn: their first common unit is at any level above their parents'. Returns the leaf
    before which words ran short.
    """
    n_levels, n_cells = spine.starts.size - 1, spine.released.shape[1]
    for one in range(start, spine.starts[-1]):
        if words.size - cursor[0] < 3 * n_cells + 4:
            return one
        meeting = below(n_levels - 2, words, cursor)
        top = one
        while spine.level[top] > meeting + 1:
            top = spine.parent[top]
        shared = spine.parent[top]
        n = spine.end[shared] - spine.first[shared]
        if n < 2:
            continue
        beside = spine.first[shared] + below(n - 1, words, cursor)
        if beside >= top:
            beside += 1
        n_leaves = spine.end_leaf[beside] - spine.first_leaf[beside]
        other = spine.first_leaf[beside] + below(n_leaves, words, cursor)
        if not (state.is_occupied[one] and state.is_occupied[other]):
            continue
        narrowest = laws.noise[meeting + 1 :].min()
        longest = max(1, int(math.sqrt(narrowest)))
        for cell in range(n_cells):
            if state.counts[one, cell] + state.counts[other, cell] == 0:
                continue
            if not (spine.is_open[one, cell] and spine.is_open[other, cell]):
                continue
            step = 1 + below(longest, words, cursor)
            if uniform(words, cursor) < 0.5:
                step = -step
            chance = uniform(words, cursor)
            if state.counts[one, cell] + step >= 0 and state.counts[other, cell] >= step:
                _try_transfer(spine, laws, state, logs, one, other, cell, step, chance)
    return spine.starts[-1]


@compiled
def _try_transfer(
    spine: Spine,
    laws: ChildLaws,
    state: TreeState,
    logs: Floats,
    one: int,
    other: int,
    cell: int,
    step: int,
    chance: float,
) -> None:
    """Give `step` people of the other leaf to the one, at all levels below their first common unit, or leave them."""
    present, partner = state.counts[one, cell], state.counts[other, cell]
    log_ratio = step * (state.log_shares[one, cell] - state.log_shares[other, cell])
    if max(present + step, partner, present, partner - step) < logs.size:
        log_ratio += logs[present] + logs[partner] - logs[present + step] - logs[partner - step]
    else:
        log_ratio += log_factorial(present) + log_factorial(partner)
        log_ratio -= log_factorial(present + step) + log_factorial(partner - step)
    a, b = one, other
    while a != b:
        log_ratio += gain(spine, laws, state, a, cell, step)
        move(spine, laws, state, a, cell, step)
        log_ratio += gain(spine, laws, state, b, cell, -step)
        move(spine, laws, state, b, cell, -step)
        a, b = spine.parent[a], spine.parent[b]
    if math.log(chance) < log_ratio:
        return
    a, b = one, other
    while a != b:
        move(spine, laws, state, a, cell, -step)
        move(spine, laws, state, b, cell, step)
        a, b = spine.parent[a], spine.parent[b]


@compiled
def set_top(spine: Spine, state: TreeState, tables: Ints, room: Floats, words: Words, cursor: Ints) -> bool:
    """Change the tables at the top, adding people to leaves by the prior and taking any away; false if words ran short.

    `refresh` must follow. Called again after words ran short, it goes on.
    """
    n_cells, n_levels = tables.shape[1], spine.starts.size - 1
    for unit in range(spine.starts[1]):
        for cell in range(n_cells):
            while state.counts[unit, cell] != tables[unit, cell]:
                if words.size - cursor[0] < (_MOST_TRIES + 1) * n_levels:
                    return False
                step = 1 if state.counts[unit, cell] < tables[unit, cell] else -1
                _change_one(spine, state, unit, cell, step, room, words, cursor)
    return True


@compiled
def _change_one(
    spine: Spine, state: TreeState, top: int, cell: int, step: int, room: Floats, words: Words, cursor: Ints
) -> None:
    """Add one person below a unit at the top, or take one away."""
    for number in range(_MOST_TRIES):
        unit, is_found = top, True
        while is_found and spine.end[unit] > spine.first[unit]:
            first, n, total = spine.first[unit], spine.end[unit] - spine.first[unit], 0.0
            for place in range(n):
                own = first + place
                if step < 0:
                    room[place] = float(state.counts[own, cell])
                elif not spine.is_open[own, cell]:
                    room[place] = 0.0
                elif state.is_occupied[own]:
                    room[place] = state.weights[own, cell]
                else:  # an empty leaf, only where there is no other
                    room[place] = 1e-9 if number > _MOST_TRIES // 2 else 0.0
                total += room[place]
            is_found = total > 0.0
            if is_found:
                unit = first + pick(room, n, words, cursor)
        if is_found:
            break
    state.is_occupied[unit] = True
    while unit >= 0:
        state.counts[unit, cell] += step
        unit = spine.parent[unit]
