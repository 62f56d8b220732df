"""What tables share: scales of effects, and a common profile that areas deviate from.

Scales move twice a sweep: with the normals held (the effects grow and shrink with them), and with the effects held (the
normals give way). Likewise the common profile: by slices given all counts, and by a direct draw given the sums of
common and own normals. The first of each pair is good where the tables say little, the second where they say much.
"""

import math

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.inference.kernels.chance import MOST_TRIALS, normal, uniform
from congenial.inference.kernels.field import LARGEST, add_effect, scale_of, slice_number
from congenial.inference.kernels.shapes import Terms, Words
from congenial.sampling.kernels.compiled import compiled

_LEAST = 1e-9  # a scale that has vanished, as a number to divide by


@compiled
def _slice_held(unit: float, hyper: float, n: int, squares: float, chance: Words) -> float:
    """Move the normal behind a scale, given n effects of that scale with this sum of squares."""

    def log_density(scale: float) -> float:
        return -n * math.log(max(scale, _LEAST)) - squares / (2.0 * max(scale, _LEAST) ** 2)

    fresh = normal(chance)
    least = log_density(scale_of(unit, hyper)) + math.log(uniform(chance))
    angle = 2.0 * math.pi * uniform(chance)
    low, high = angle - 2.0 * math.pi, angle
    for _ in range(MOST_TRIALS):
        tried = math.cos(angle) * hyper + math.sin(angle) * fresh
        if log_density(scale_of(unit, tried)) > least:
            return tried
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + uniform(chance) * (high - low)
    return hyper


@compiled
def _gain(counts: Ints, is_open: NDArray[np.bool_], eta: Floats, effects: Floats, t: int, factor: float) -> float:
    """Return the log likelihood of all tables when effect t grows by a factor."""
    total = 0.0
    for a in range(counts.shape[0]):
        for i in range(counts.shape[1]):
            if is_open[a, i]:
                tried = eta[a, i] + (factor - 1.0) * effects[a, t, i]
                total += counts[a, i] * (tried - eta[a, i]) - math.exp(min(tried, LARGEST))
    return total


@compiled
def move_scales(
    terms: Terms,
    units: Floats,  # (effect)
    counts: Ints,
    is_open: NDArray[np.bool_],
    hyper: Floats,  # (effect) the normals behind the scales
    scales: Floats,  # (effect)
    normals: Floats,  # (table, normal)
    effects: Floats,  # (table, effect, cell)
    eta: Floats,  # (table, cell)
    chance: Words,
) -> None:
    """Move the scales of the tables' own effects."""
    n_tables, n_cells = counts.shape
    last = terms.start.size - 1
    for t in range(last + 1):
        if not terms.is_estimated[t]:
            continue
        # With the normals held.
        here = scales[t]
        fresh = normal(chance)
        least = _gain(counts, is_open, eta, effects, t, 1.0) + math.log(uniform(chance))
        angle = 2.0 * math.pi * uniform(chance)
        low, high = angle - 2.0 * math.pi, angle
        for _ in range(MOST_TRIALS):
            tried = math.cos(angle) * hyper[t] + math.sin(angle) * fresh
            factor = scale_of(units[t], tried) / max(here, _LEAST)
            if _gain(counts, is_open, eta, effects, t, factor) > least:
                hyper[t], scales[t] = tried, here * factor
                for a in range(n_tables):
                    for i in range(n_cells):
                        eta[a, i] += (factor - 1.0) * effects[a, t, i]
                        effects[a, t, i] *= factor
                break
            if angle < 0.0:
                low = angle
            else:
                high = angle
            angle = low + uniform(chance) * (high - low)
        # With the effects held.
        stop = terms.start[t + 1] if t < last else terms.start[last] + n_cells
        squares = 0.0
        for a in range(n_tables):
            for j in range(terms.start[t], stop):
                squares += normals[a, j] ** 2
        here = scales[t]
        hyper[t] = _slice_held(units[t], hyper[t], n_tables * (stop - terms.start[t]), squares * here * here, chance)
        scales[t] = scale_of(units[t], hyper[t])
        for a in range(n_tables):
            for j in range(terms.start[t], stop):
                normals[a, j] *= here / max(scales[t], _LEAST)


@compiled
def _slice_common(
    terms: Terms,
    t: int,
    scale: float,
    sums: Floats,
    rates: Floats,
    normals: Floats,
    effect: Floats,
    room: Floats,
    change: Floats,
    chance: Words,
) -> None:
    """Move the common normals of one term along an ellipse; leave the change of the effect."""
    n_cells, n = effect.size, normals.size
    fresh, other, trial = np.empty(n), np.empty(n_cells), np.empty(n_cells)
    for j in range(n):
        fresh[j] = normal(chance)
    add_effect(terms, t, fresh, scale, room, other)
    least = math.log(uniform(chance)) - rates.sum()
    angle = 2.0 * math.pi * uniform(chance)
    low, high = angle - 2.0 * math.pi, angle
    change[:] = 0.0
    for _ in range(MOST_TRIALS):
        c, d = math.cos(angle), math.sin(angle)
        total = 0.0
        for i in range(n_cells):
            trial[i] = (c - 1.0) * effect[i] + d * other[i]
            total += sums[i] * trial[i] - rates[i] * math.exp(min(trial[i], LARGEST))
        if total > least:
            for j in range(n):
                normals[j] = c * normals[j] + d * fresh[j]
            change[:] = trial
            effect += trial
            return
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + uniform(chance) * (high - low)


@compiled
def move_common(
    terms: Terms,
    units: Floats,  # (effect)
    counts: Ints,
    is_open: NDArray[np.bool_],
    scales: Floats,  # (effect) of the tables' own effects
    normals: Floats,  # (table, normal)
    effects: Floats,  # (table, effect, cell)
    eta: Floats,  # (table, cell)
    hyper: Floats,  # (effect) the normals behind the common scales
    common_scales: Floats,  # (effect)
    common_normals: Floats,
    common_effects: Floats,  # (effect, cell)
    room: Floats,
    chance: Words,
) -> None:
    """Move the common profile and its scales."""
    n_tables, n_cells = counts.shape
    last = terms.start.size - 1
    sums, rates, change = np.zeros(n_cells), np.zeros(n_cells), np.empty(n_cells)
    for a in range(n_tables):
        for i in range(n_cells):
            if is_open[a, i]:
                sums[i] += counts[a, i]
                rates[i] += math.exp(min(eta[a, i], LARGEST))
    moved = np.zeros(n_cells)
    for t in range(last):
        own = common_normals[terms.start[t] : terms.start[t + 1]]
        _slice_common(terms, t, common_scales[t], sums, rates, own, common_effects[t], room, change, chance)
        for i in range(n_cells):
            rates[i] *= math.exp(min(change[i], LARGEST))
            moved[i] += change[i]
    at = terms.start[last]
    for i in range(n_cells):
        here = common_effects[last, i]
        found = slice_number(
            sums[i], rates[i] * math.exp(-here), here, common_scales[last], common_normals[at + i], chance
        )
        common_normals[at + i], common_effects[last, i] = found, common_scales[last] * found
        moved[i] += common_effects[last, i] - here
    for a in range(n_tables):
        for i in range(n_cells):
            eta[a, i] += moved[i]
    # Given the sums of common and own normals, both are normal: the log rates stay.
    for t in range(last + 1):
        stop = terms.start[t + 1] if t < last else at + n_cells
        wide, narrow = max(common_scales[t], _LEAST), max(scales[t], _LEAST)
        precision = 1.0 / wide**2 + n_tables / narrow**2
        for j in range(terms.start[t], stop):
            here, total = common_scales[t] * common_normals[j], 0.0
            for a in range(n_tables):
                total += here + scales[t] * normals[a, j]
            drawn = total / narrow**2 / precision + normal(chance) / math.sqrt(precision)
            common_normals[j] = drawn / wide
            for a in range(n_tables):
                normals[a, j] += (here - drawn) / narrow
        squares = 0.0
        for j in range(terms.start[t], stop):
            squares += (common_scales[t] * common_normals[j]) ** 2
        if terms.is_estimated[t]:
            hyper[t] = _slice_held(units[t], hyper[t], stop - terms.start[t], squares, chance)
            new = scale_of(units[t], hyper[t])
            for j in range(terms.start[t], stop):
                common_normals[j] *= common_scales[t] / max(new, _LEAST)
            common_scales[t] = new
        add_effect(terms, t, common_normals[terms.start[t] : stop], common_scales[t], room, common_effects[t])
        for a in range(n_tables):
            add_effect(terms, t, normals[a, terms.start[t] : stop], scales[t], room, effects[a, t])
