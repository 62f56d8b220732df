"""The prior's factors given the tables: gamma effects of units by kind and label, and the shapes of their laws."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.inference.kernels_random_numbers import MOST_WORDS, Words, gamma, pick, uniform
from congenial.sampling.jit import kernel

# What the kernels of a tree's estimate are given. Imported without numba.

Truths = NDArray[np.bool_]


class ChildLaws(NamedTuple):
    """The tilted law of one child at each level, as a function of where its centre lies. Public.

    A child with count s under the tilt ``exp(theta y)`` has weights ``exp(theta s + theta^2 v / 2) f(y - c)`` with its
    centre at ``c = s + theta v``. Tilts are whole numbers: so many parts of a step of the centre.

    Attributes
    ----------
    noise : array (level,)
        v, the variance parameter of the level's noise; nothing for the top.
    parts, step : array (level,)
        Tilts in a step of 1, a power of two, and the step of the centre from one to the next.
    first, size, base : array (level,)
        Where the level's tables begin, in parts from a centre of 0, how long they are, and where they stand.
    table : array (place, 3)
        ``log sum_{y >= 0} f(y - c)``, the mean less c, and the variance, for centres a part apart.
    """

    noise: Floats
    parts: Ints
    step: Floats
    first: Ints
    size: Ints
    base: Ints
    table: Floats


class Spine(NamedTuple):
    """A tree, all units of all levels in one list, the top first. Public.

    Attributes
    ----------
    starts : array (level + 1,)
        Where each level's units begin.
    level, parent : array (unit,)
        The unit's level, and whose part it is: -1 at the top.
    first, end : array (unit,)
        Its children; none for leaves.
    first_leaf, end_leaf : array (unit,)
        The leaves that are part of it.
    released : array (unit, cell)
    is_open : array (unit, cell)
        Whether a cell is not zero by structure.
    informs : array (unit, cell)
        Whether the released children of a unit say anything: it has several of them, and something to share out.
    """

    starts: Ints
    level: Ints
    parent: Ints
    first: Ints
    end: Ints
    first_leaf: Ints
    end_leaf: Ints
    released: Ints
    is_open: Truths
    informs: Truths


class TreeState(NamedTuple):
    """Where a chain stands; kernels change it.

    Attributes
    ----------
    counts : array (unit, cell)
        The tables: those of leaves, and their sums.
    tilts, means, variances : array (unit, cell)
        Of a family: under which tilt its children's means add up to about what was released of the parent, and the sum
        of their means and variances there.
    is_occupied : array (unit,)
        Whether a leaf is not empty as a whole; true above.
    empty : array (unit,)
        Of the parents of leaves, the share of empty leaves.
    effects : array (unit, effect)
        Factors of mean 1, by kind and label.
    weights : array (unit, cell)
        Their products: what part of its parent's people a unit attracts, beside its siblings.
    sums : array (unit, cell)
        Of the weights of a unit's occupied children.
    rates : array (unit, cell)
        People for each weight among a unit's children.
    log_shares : array (unit, cell)
        The logarithm of a unit's part of all people at the top; 0 there.
    """

    counts: Ints
    tilts: Ints
    means: Floats
    variances: Floats
    is_occupied: Truths
    empty: Floats
    effects: Floats
    weights: Floats
    sums: Floats
    rates: Floats
    log_shares: Floats


_ONE_BY_ONE = 2_000  # people of a cell who are shared out by chance, each


@kernel
def add_weights(spine: Spine, state: TreeState) -> None:
    """Add up the weights of every unit's occupied children."""
    n_cells = spine.released.shape[1]
    for unit in range(spine.starts[-2]):
        for cell in range(n_cells):
            total = 0.0
            for child in range(spine.first[unit], spine.end[unit]):
                if state.is_occupied[child] and spine.is_open[child, cell]:
                    total += state.weights[child, cell]
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
    spine: Spine, state: TreeState, level: int, codes_to_arrow: Ints, first_column: int, people: Floats, loads: Floats
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
        for cell in range(codes_to_arrow.size):
            if spine.is_open[unit, cell]:
                label = codes_to_arrow[cell] - first_column
                people[line, label] += state.counts[unit, cell]
                loads[line, label] += state.rates[parent, cell] * state.weights[unit, cell]
        for label in range(people.shape[1]):
            loads[line, label] /= state.effects[unit, first_column + label]


@kernel
def log_likelihood(people: Floats, loads: Floats, shape: float) -> float:
    """Return the log probability of counts whose factors are gamma numbers of a shape and mean 1, up to a constant."""
    total, log_gamma = 0.0, math.lgamma(shape)
    for number in range(people.size):
        n = people[number]
        if n > 0.0:
            total += math.lgamma(shape + n) - log_gamma - n * math.log(shape + loads[number])
        if loads[number] > 0.0:
            total -= shape * math.log1p(loads[number] / shape)
    return total


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
        for child in range(spine.first[unit], spine.end[unit]):
            if spine.is_open[child].any():
                if state.is_occupied[child]:
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
            log_share = math.log(weight / total) if weight > 0.0 and total > 0.0 else -np.inf
            state.log_shares[unit, cell] = state.log_shares[parent, cell] + log_share


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
            remaining = people - out[first - spine.starts[level] : first + n - spine.starts[level], cell].sum()
            for _ in range(remaining):
                out[first - spine.starts[level] + pick(weights[cell], n, chance), cell] += 1
    return int(spine.starts[level])


# The likelihood of a family, ``prod f(y - s) / Z(s; x)``, with log Z by a saddle point of second order.

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
            _, child_mean, spread = child(laws, level, tilt, counts[unit, cell])
            mean += child_mean
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
    value = -theta * wanted - beyond(wanted, mean, variance) - 0.5 * math.log(2.0 * math.pi)
    for number in range(len(counts)):
        log_mass, _, _ = child(laws, level, tilt, counts[number, 0])
        value += log_mass + theta * counts[number, 0] + theta * theta * noise / 2.0
    return float(value)


@kernel
def gain(spine: Spine, laws: ChildLaws, state: TreeState, receiver: int, giver: int, cell: int, step: int) -> float:
    """Return by how much the log likelihood rises when `step` people of a leaf go to another, at all levels.

    Above the first unit that both are part of, nothing changes. One loop and no calls for each level: passing a tree's
    arrays on takes longer than the sums.
    """
    log_ratio = 0.0
    while receiver != giver:
        is_shared = spine.parent[receiver] == spine.parent[giver]
        mean = variance = 0.0
        for side in range(2):
            unit, by = (receiver, step) if side == 0 else (giver, -step)
            parent = spine.parent[unit]
            if not spine.informs[parent, cell]:
                continue
            level, tilt, count = spine.level[unit], state.tilts[parent, cell], state.counts[unit, cell]
            noise = laws.noise[level]
            log_mass_now, mean_now, variance_now = child(laws, level, tilt, count)
            log_mass_then, mean_then, variance_then = child(laws, level, tilt, count + by)
            log_ratio += by * (2 * (spine.released[unit, cell] - count) - by) / (2.0 * noise)
            log_ratio -= by * tilt * laws.step[level] / noise + log_mass_then - log_mass_now
            mean += mean_then - mean_now
            variance += variance_then - variance_now
            if is_shared and side == 0:
                continue
            spread = max(0.0, state.variances[parent, cell]) + LATTICE
            spread_then = max(0.0, state.variances[parent, cell] + variance) + LATTICE
            gap = spine.released[parent, cell] - state.means[parent, cell]
            log_ratio += (gap - mean) ** 2 / (2.0 * spread_then) - gap**2 / (2.0 * spread)
            log_ratio += 0.5 * math.log(spread_then / spread)
            mean = variance = 0.0
        receiver, giver = spine.parent[receiver], spine.parent[giver]
    return log_ratio


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


# Whole numbers near the medians that add up to their parents': greedy, the nearest in sum for each family.


@kernel
def _at_most(ranked: Ints, child: int, cell: int, value: int) -> int:
    """Return how many of a child's draws (draw, child, cell), in ascending order, are at most a value."""
    low, high = 0, ranked.shape[0]
    while low < high:
        middle = (low + high) // 2
        if ranked[middle, child, cell] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def fit_children(ranked: Ints, is_open: Truths, starts: Ints, wanted: Ints, out: Ints) -> None:
    """Set whole numbers (child, cell) that add up to what is wanted of each family.

    The expected distance of a child from its number is convex in that number, so single steps, the cheapest first,
    from the medians on lead to the least sum of distances.
    """
    n_draws, _, n_cells = ranked.shape
    steepest = 2 * n_draws
    for family in range(starts.size - 1):
        first, n = starts[family], starts[family + 1] - starts[family]
        costs = np.empty(n, np.int64)
        for cell in range(n_cells):
            remaining = wanted[family, cell]
            for child in range(first, first + n):
                out[child, cell] = ranked[(n_draws - 1) // 2, child, cell] if is_open[child, cell] else 0
                remaining -= out[child, cell]
            way = 1 if remaining > 0 else -1
            for place in range(n if remaining != 0 else 0):
                costs[place] = _cost(ranked, is_open, first + place, cell, out[first + place, cell], way, steepest)
            while remaining != 0:
                place = int(np.argmin(costs))
                out[first + place, cell] += way
                remaining -= way
                costs[place] = _cost(ranked, is_open, first + place, cell, out[first + place, cell], way, steepest)


@kernel
def _cost(ranked: Ints, is_open: Truths, child: int, cell: int, value: int, way: int, never: int) -> int:
    """Return what a step of one child adds to its expected distance, times the number of draws."""
    n_draws = ranked.shape[0]
    if not is_open[child, cell] or value + way < 0:
        return never
    if way > 0:
        return int(2 * _at_most(ranked, child, cell, value) - n_draws)
    return int(n_draws - 2 * _at_most(ranked, child, cell, value - 1))
