"""The prior's factors given the tables: gamma effects of units by kind and label, and the shapes of their laws."""

import math

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.inference.kernels.chance import MOST_WORDS, gamma, pick, uniform
from congenial.inference.kernels.shapes import Words
from congenial.inference.kernels.tree_shapes import Spine, TreeState
from congenial.sampling.jit import kernel

_ONE_BY_ONE = 2_000  # people of a cell who are shared out by chance, each


@kernel
def add_weights(spine: Spine, state: TreeState) -> None:
    """Add up the weights of every unit's occupied children."""
    n_cells = spine.released.shape[1]
    for unit in range(spine.starts[-2]):
        for cell in range(n_cells):
            total = 0.0
            for own in range(spine.first[unit], spine.end[unit]):
                if state.is_occupied[own] and spine.is_open[own, cell]:
                    total += state.weights[own, cell]
            state.sums[unit, cell] = total


@kernel
def draw_rates(spine: Spine, state: TreeState, start: int, chance: Words) -> int:
    """Draw people for each weight, from unit `start` on; return the unit before which words ran short.

    ``1 / W^S = integral of r^(S-1) exp(-r W) / Gamma(S)``: with r as a further unknown children are Poisson, each
    factor a gamma number.
    """
    n_cells = spine.released.shape[1]
    for unit in range(start, spine.starts[-2]):
        if chance.words.size - chance.used[0] < n_cells * MOST_WORDS:
            return unit
        for cell in range(n_cells):
            people = state.counts[unit, cell]
            state.rates[unit, cell] = 0.0
            if people > 0:
                state.rates[unit, cell] = gamma(float(people), chance) / state.sums[unit, cell]
    return int(spine.starts[-2])


@kernel
def gather(
    spine: Spine, state: TreeState, level: int, column_of: Ints, first_column: int, people: Floats, loads: Floats
) -> None:
    """Set, for the units of a level (unit, label), the people with a label and how many to expect but for its effect.

    Units that are empty as a whole have nothing to say: zeros.
    """
    people[:, :] = 0.0
    loads[:, :] = 0.0
    for unit in range(spine.starts[level], spine.starts[level + 1]):
        if not state.is_occupied[unit]:
            continue
        parent, line = spine.parent[unit], unit - spine.starts[level]
        for cell in range(column_of.size):
            if spine.is_open[unit, cell]:
                label = column_of[cell] - first_column
                people[line, label] += state.counts[unit, cell]
                loads[line, label] += state.rates[parent, cell] * state.weights[unit, cell]
        for label in range(people.shape[1]):
            loads[line, label] /= state.effects[unit, first_column + label]


@kernel
def log_likelihood(people: Floats, loads: Floats, shape: float) -> float:
    """Return the log probability of counts whose factors are gamma numbers of a shape and mean 1, up to a constant."""
    found, own = 0.0, math.lgamma(shape)
    for number in range(people.size):
        n = people[number]
        if n > 0.0:
            found += math.lgamma(shape + n) - own - n * math.log(shape + loads[number])
        if loads[number] > 0.0:
            found -= shape * math.log1p(loads[number] / shape)
    return found


@kernel
def draw_effects(
    spine: Spine,
    state: TreeState,
    level: int,
    columns: Ints,
    first_column: int,
    shapes: Floats,
    people: Floats,
    loads: Floats,
    start: int,
    chance: Words,
) -> int:
    """Draw the effects of one kind for units of a level from `start` on; return the one where words ran short."""
    n_kinds, n_cells = columns.shape
    for line in range(start, people.shape[0]):
        if chance.words.size - chance.used[0] < shapes.size * MOST_WORDS:
            return line
        unit = spine.starts[level] + line
        for label in range(shapes.size):
            drawn = gamma(shapes[label] + people[line, label], chance)
            state.effects[unit, first_column + label] = drawn / (shapes[label] + loads[line, label])
        for cell in range(n_cells):
            weight = 1.0
            for kind in range(n_kinds):
                weight *= state.effects[unit, columns[kind, cell]]
            state.weights[unit, cell] = max(weight, 1e-200) if spine.is_open[unit, cell] else 0.0
    return int(people.shape[0])


@kernel
def draw_empty(spine: Spine, state: TreeState, share: float, firmness: float, start: int, chance: Words) -> int:
    """Draw the share of empty leaves of each family, from unit `start` on."""
    for unit in range(max(start, spine.starts[-3]), spine.starts[-2]):
        if chance.words.size - chance.used[0] < 2 * MOST_WORDS:
            return unit
        n_empty = n_occupied = 0.0
        for own in range(spine.first[unit], spine.end[unit]):
            if spine.is_open[own].any():
                if state.is_occupied[own]:
                    n_occupied += 1.0
                else:
                    n_empty += 1.0
        a = gamma(firmness * share + n_empty, chance)
        b = gamma(firmness * (1.0 - share) + n_occupied, chance)
        state.empty[unit] = min(max(a / (a + b), 1e-6), 1.0 - 1e-6)
    return int(spine.starts[-2])


@kernel
def set_shares(spine: Spine, state: TreeState) -> None:
    """Set the logarithm of every unit's share of the people at the top."""
    n_cells = spine.released.shape[1]
    for unit in range(spine.starts[1], spine.starts[-1]):
        parent = spine.parent[unit]
        for cell in range(n_cells):
            weight, total = state.weights[unit, cell], state.sums[parent, cell]
            own = math.log(weight / total) if weight > 0.0 and total > 0.0 else -np.inf
            state.log_shares[unit, cell] = state.log_shares[parent, cell] + own


@kernel
def simulate_children(
    spine: Spine,
    state: TreeState,
    level: int,
    columns: Ints,
    uses: Ints,
    shapes: Floats,
    start: int,
    chance: Words,
    out: Ints,
) -> int:
    """Share the people of units at `level - 1` out among children whose effects are drawn anew from the prior.

    From unit `start` on; returns the one before which words ran short. Of many people in a cell the expected part is
    given to each child first.
    """
    n_cells, is_leaf = columns.shape[1], level == spine.starts.size - 2
    for unit in range(max(start, spine.starts[level - 1]), spine.starts[level]):
        first, n = spine.first[unit], spine.end[unit] - spine.first[unit]
        if chance.words.size - chance.used[0] < n * (shapes.size * MOST_WORDS + 1) + n_cells * (_ONE_BY_ONE + n):
            return unit
        weights, effects = np.zeros((n_cells, n)), np.ones(shapes.size)
        for child in range(n):
            is_empty = is_leaf and uniform(chance) < state.empty[unit]
            for effect in uses:
                effects[effect] = gamma(shapes[effect], chance) / shapes[effect]
            for cell in range(n_cells):
                if spine.is_open[first + child, cell] and not is_empty:
                    weights[cell, child] = 1.0
                    for kind in range(columns.shape[0]):
                        weights[cell, child] *= effects[columns[kind, cell]]
        for cell in range(n_cells):
            total, people = weights[cell].sum(), state.counts[unit, cell]
            if total <= 0.0:
                for child in range(n):
                    weights[cell, child] = 1.0 if spine.is_open[first + child, cell] else 0.0
                total = weights[cell].sum()
            for child in range(n):
                part = int(people * weights[cell, child] / total) if people > _ONE_BY_ONE else 0
                out[first + child - spine.starts[level], cell] = part
            left = people - out[first - spine.starts[level] : first + n - spine.starts[level], cell].sum()
            for _ in range(left):
                out[first - spine.starts[level] + pick(weights[cell], n, chance), cell] += 1
    return int(spine.starts[level])
