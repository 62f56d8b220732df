"""The smooth field of log rates: effects of standard normals, sampled given tables by elliptical slices.

An effect is ``scale * A Z B'`` for a matrix Z of standard normals and an operator along each of two dimensions, read
off at each cell's levels; the last effect has a normal of its own for every cell. Effects of one table are held scaled
(effect, cell), and ``eta = offset + level + effects``. Counts are Poisson with rates ``exp(eta)``.

An elliptical slice of a block needs one evaluation of its effect at fresh normals: along the ellipse it is linear.
"""

import math

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.inference.kernels_random_numbers import (
    MOST_TRIALS,
    Terms,
    Words,
    first_angle,
    gamma,
    next_angle,
    normal,
    uniform,
)
from congenial.sampling.jit import kernel

LARGEST = 60.0  # log rates beyond are no counts
# Every level on the log scale is as likely as any other: given its total, a table is then multinomial, whatever the
# field is. One of nobody says nothing of its level.
_OF_NOBODY = 0.5
_TOGETHER = 3  # moves of all terms at once, in a sweep


@kernel
def scale_of(unit: float, hyper: float, tail: float) -> float:
    """Return the scale that a standard normal z stands for, ``unit |z| exp(tail z^2)``: half-normal near 0.

    Far out it is above s with probability in proportion to ``s ** (-1 / (2 tail))``, up to logs: with a tail of 1/2 as
    under a half-Cauchy law.
    """
    return unit * abs(hyper) * math.exp(min(hyper * hyper, 40.0) * tail)


@kernel
def add_effect(terms: Terms, t: int, normals: Floats, scale: float, scratch: Floats, out: Floats) -> None:
    """Set the effect of one term's own normals, or of the cells' (the last one), on each cell."""
    n_cells = out.size
    if t == terms.start.size - 1:
        for i in range(n_cells):
            out[i] = scale * normals[i]
        return
    n_left, k_left, n_right, k_right = terms.shape[t, 0], terms.shape[t, 1], terms.shape[t, 2], terms.shape[t, 3]
    a, b = terms.place[t, 0], terms.place[t, 1]
    for i in range(n_left):
        for k in range(k_right):
            total = 0.0
            for j in range(k_left):
                total += terms.operators[a + i * k_left + j] * normals[j * k_right + k]
            scratch[i * k_right + k] = total
    whole = n_left * k_right
    for i in range(n_left):
        for j in range(n_right):
            total = 0.0
            for k in range(k_right):
                total += scratch[i * k_right + k] * terms.operators[b + j * k_right + k]
            scratch[whole + i * n_right + j] = scale * total
    for i in range(n_cells):
        out[i] = scratch[whole + terms.left[t, i] * n_right + terms.right[t, i]]


@kernel
def log_likelihood(counts: Ints, is_open: NDArray[np.bool_], eta: Floats) -> float:
    """Return the log probability of Poisson counts, up to a constant."""
    total = 0.0
    for i in range(counts.size):
        if is_open[i]:
            total += counts[i] * eta[i] - math.exp(min(eta[i], LARGEST))
    return total


@kernel
def _slice_terms(
    terms: Terms,
    first: int,
    stop: int,
    scales: Floats,
    counts: Ints,
    is_open: NDArray[np.bool_],
    normals: Floats,
    effects: Floats,
    eta: Floats,
    scratch: Floats,
    chance: Words,
) -> None:
    """Move the normals of one term or several along one ellipse: only together one takes from another."""
    n_cells, start = counts.size, terms.start[first]
    fresh, trial = np.empty(terms.start[stop] - start), np.empty(n_cells)
    others, here, there = np.empty((stop - first, n_cells)), np.zeros(n_cells), np.zeros(n_cells)
    for j in range(fresh.size):
        fresh[j] = normal(chance)
    for t in range(first, stop):
        block = fresh[terms.start[t] - start : terms.start[t + 1] - start]
        add_effect(terms, t, block, scales[t], scratch, others[t - first])
        for i in range(n_cells):
            here[i] += effects[t, i]
            there[i] += others[t - first, i]
    least = log_likelihood(counts, is_open, eta) + math.log(uniform(chance))
    angle, low, high = first_angle(chance)
    for _ in range(MOST_TRIALS):
        c, d = math.cos(angle), math.sin(angle)
        for i in range(n_cells):
            trial[i] = eta[i] + (c - 1.0) * here[i] + d * there[i]
        if log_likelihood(counts, is_open, trial) > least:
            for j in range(fresh.size):
                normals[start + j] = c * normals[start + j] + d * fresh[j]
            for t in range(first, stop):
                for i in range(n_cells):
                    effects[t, i] = c * effects[t, i] + d * others[t - first, i]
            eta[:] = trial
            return
        angle, low, high = next_angle(angle, low, high, chance)


@kernel
def slice_number(count: float, rest: float, here: float, scale: float, value: float, chance: Words) -> float:
    """Move one standard normal whose effect on a cell's log rate is ``scale * value``, given the count.

    Parameters
    ----------
    rest
        The log rate less the effect.
    here
        The effect that the normal has now.
    """
    fresh = normal(chance)
    least = count * here - math.exp(min(rest + here, LARGEST)) + math.log(uniform(chance))
    angle, low, high = first_angle(chance)
    for _ in range(MOST_TRIALS):
        tried = math.cos(angle) * value + math.sin(angle) * fresh
        effect = scale * tried
        if count * effect - math.exp(min(rest + effect, LARGEST)) > least:
            return tried
        angle, low, high = next_angle(angle, low, high, chance)
    return value


@kernel
def swap_with_cells(terms: Terms, scales: Floats, normals: Floats, effects: Floats, chance: Words) -> None:
    """Draw each term's normals anew given the log rates: what they lose, the cells' own effects take.

    Given the sum of both, everything is normal. Where counts are large the log rates are known well, and without this
    smooth effects would hardly move.
    """
    last = terms.start.size - 1
    n_cells, sigma = effects.shape[1], scales[last]
    if sigma < 1e-4:
        return
    column = np.empty(n_cells)
    for t in range(last):
        k_left, k_right = terms.shape[t, 1], terms.shape[t, 3]
        a, b = terms.place[t, 0], terms.place[t, 1]
        for j in range(k_left):
            for k in range(k_right):
                along, squares = 0.0, 0.0
                for i in range(n_cells):
                    x = terms.operators[a + terms.left[t, i] * k_left + j]
                    x *= scales[t] * terms.operators[b + terms.right[t, i] * k_right + k]
                    column[i] = x
                    along += x * effects[last, i]
                    squares += x * x
                place = terms.start[t] + j * k_right + k
                precision = 1.0 + squares / (sigma * sigma)
                step = (along / (sigma * sigma) - normals[place]) / precision + normal(chance) / math.sqrt(precision)
                normals[place] += step
                for i in range(n_cells):
                    effects[t, i] += step * column[i]
                    effects[last, i] -= step * column[i]
    for i in range(n_cells):
        normals[terms.start[last] + i] = effects[last, i] / sigma


@kernel
def sweep_fields(
    terms: Terms,
    scales: Floats,
    counts: Ints,  # (table, cell)
    is_open: NDArray[np.bool_],  # (table, cell)
    normals: Floats,  # (table, normal)
    effects: Floats,  # (table, effect, cell)
    level: Floats,  # (table)
    eta: Floats,  # (table, cell)
    scratch: Floats,
    n_words: int,
    first: int,
    chance: Words,
) -> int:
    """Move the field of each table once, given its counts; return the table before which words may run out."""
    n_tables, n_cells = counts.shape
    last = terms.start.size - 1
    for a in range(first, n_tables):
        if chance.words.size - chance.used[0] < n_words:
            return a
        most, mass, total = -math.inf, 0.0, 0
        for i in range(n_cells):
            eta[a, i] = terms.offset[i]
            for t in range(last + 1):
                eta[a, i] += effects[a, t, i]
            if is_open[a, i]:
                most = max(most, eta[a, i])
                total += counts[a, i]
        for i in range(n_cells):
            if is_open[a, i]:
                mass += math.exp(eta[a, i] - most)
        level[a] = math.log(gamma(max(float(total), _OF_NOBODY), chance) / mass) - most
        for i in range(n_cells):
            eta[a, i] += level[a]
        for step in range(last + _TOGETHER):
            t, stop = (step, step + 1) if step < last else (0, last)
            _slice_terms(terms, t, stop, scales, counts[a], is_open[a], normals[a], effects[a], eta[a], scratch, chance)
        at = terms.start[last]
        for i in range(n_cells):
            if is_open[a, i]:
                here = effects[a, last, i]
                value = slice_number(
                    float(counts[a, i]), eta[a, i] - here, here, scales[last], normals[a, at + i], chance
                )
            else:
                value = normal(chance)
            normals[a, at + i] = value
            eta[a, i] += scales[last] * value - effects[a, last, i]
            effects[a, last, i] = scales[last] * value
        swap_with_cells(terms, scales, normals[a], effects[a], chance)
    return int(n_tables)


# Scales of effects, given tables and effects.
#
# Scales move twice a sweep: with the normals held (the effects grow and shrink with them), and with the effects held
# (the normals give way). The first is good where the tables say little, the second where they say much.

_LEAST = 1e-9  # a scale that has vanished, as a number to divide by


@kernel
def _slice_held(unit: float, hyper: float, tail: float, n: int, squares: float, chance: Words) -> float:
    """Move the normal behind a scale, given n effects of that scale with this sum of squares."""

    def log_density(scale: float) -> float:
        return -n * math.log(max(scale, _LEAST)) - squares / (2.0 * max(scale, _LEAST) ** 2)

    fresh = normal(chance)
    least = log_density(scale_of(unit, hyper, tail)) + math.log(uniform(chance))
    angle, low, high = first_angle(chance)
    for _ in range(MOST_TRIALS):
        tried = math.cos(angle) * hyper + math.sin(angle) * fresh
        if log_density(scale_of(unit, tried, tail)) > least:
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
            factor = scale_of(terms.scale[t], tried, terms.tail) / max(here, _LEAST)
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
            terms.scale[t], hyper[t], terms.tail, n_tables * (stop - terms.start[t]), squares * here * here, chance
        )
        scales[t] = scale_of(terms.scale[t], hyper[t], terms.tail)
        for a in range(n_tables):
            for j in range(terms.start[t], stop):
                normals[a, j] *= here / max(scales[t], _LEAST)
