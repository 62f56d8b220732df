"""Scales of effects, given tables and effects.

Scales move twice a sweep: with the normals held (the effects grow and shrink with them), and with the effects held (the
normals give way). The first is good where the tables say little, the second where they say much.
"""

import math

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.inference.kernels.chance import MOST_TRIALS, first_angle, next_angle, normal, uniform
from congenial.inference.kernels.field import LARGEST, scale_of
from congenial.inference.kernels.shapes import Terms, Words
from congenial.sampling.jit import kernel

_LEAST = 1e-9  # a scale that has vanished, as a number to divide by


@kernel
def _slice_held(unit: float, hyper: float, n: int, squares: float, chance: Words) -> float:
    """Move the normal behind a scale, given n effects of that scale with this sum of squares."""

    def log_density(scale: float) -> float:
        return -n * math.log(max(scale, _LEAST)) - squares / (2.0 * max(scale, _LEAST) ** 2)

    fresh = normal(chance)
    least = log_density(scale_of(unit, hyper)) + math.log(uniform(chance))
    angle, low, high = first_angle(chance)
    for _ in range(MOST_TRIALS):
        tried = math.cos(angle) * hyper + math.sin(angle) * fresh
        if log_density(scale_of(unit, tried)) > least:
            return tried
        angle, low, high = next_angle(angle, low, high, chance)
    return hyper


@kernel
def _gain(counts: Ints, is_open: NDArray[np.bool_], eta: Floats, effects: Floats, t: int, factor: float) -> float:
    """Return the log likelihood of all tables when effect t grows by a factor."""
    total = 0.0
    for a in range(counts.shape[0]):
        for i in range(counts.shape[1]):
            if is_open[a, i]:
                tried = eta[a, i] + (factor - 1.0) * effects[a, t, i]
                total += counts[a, i] * (tried - eta[a, i]) - math.exp(min(tried, LARGEST))
    return total


@kernel
def move_scales(
    terms: Terms,
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
        angle, low, high = first_angle(chance)
        for _ in range(MOST_TRIALS):
            tried = math.cos(angle) * hyper[t] + math.sin(angle) * fresh
            factor = scale_of(terms.scale[t], tried) / max(here, _LEAST)
            if _gain(counts, is_open, eta, effects, t, factor) > least:
                hyper[t], scales[t] = tried, here * factor
                for a in range(n_tables):
                    for i in range(n_cells):
                        eta[a, i] += (factor - 1.0) * effects[a, t, i]
                        effects[a, t, i] *= factor
                break
            angle, low, high = next_angle(angle, low, high, chance)
        # With the effects held.
        stop = terms.start[t + 1] if t < last else terms.start[last] + n_cells
        squares = 0.0
        for a in range(n_tables):
            for j in range(terms.start[t], stop):
                squares += normals[a, j] ** 2
        here = scales[t]
        hyper[t] = _slice_held(
            terms.scale[t], hyper[t], n_tables * (stop - terms.start[t]), squares * here * here, chance
        )
        scales[t] = scale_of(terms.scale[t], hyper[t])
        for a in range(n_tables):
            for j in range(terms.start[t], stop):
                normals[a, j] *= here / max(scales[t], _LEAST)
