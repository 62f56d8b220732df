"""Posteriors of cells from their measurements: negative binomial counts, with effects of areas and bands on a grid.

The count of a cell is negative binomial around ``mean * effect``; the effect of an area in a band of cells is a Gamma
variable, on a grid of logarithms, and is integrated out with what all cells of the band say of it. A probability of a
window of counts follows from the one before by ``(v + shape) / (v + 1) * ratio``, so that additions, products and
quotients in a fixed order are all there is: the same doubles on every machine.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.portable_math import exp_e, log_e
from congenial.sampling.jit import kernel

# Means are nodes of a fine grid of logarithms, and effects of a coarse one: each effect is a shift of so many nodes.

NODE = 0.015
"""Between the logarithms of two means that are told apart."""
NODES_OF_EFFECT = 8
N_EFFECTS = 40
FIRST_EFFECT = -24
"""Effects are ``exp(0.12 number)``, from this number on."""
FIRST_NODE = -460
"""The smallest mean is 0.001."""
N_NODES = 2_200
"""And the largest 2.1e11."""
SHAPES = (0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 30.0, 150.0)
"""Of the negative binomial, of which the likeliest of a band is taken."""
EFFECT_SHAPES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 40.0, 150.0)
"""Of the effects of areas."""

_LOG_2 = 0.6931471805599453
_STEPS = 64
_PARTS = np.array([exp_e(_LOG_2 * part / _STEPS) for part in range(_STEPS)])
_POWERS = np.array([2.0**power for power in range(-1060, 1024)])
_LOG_2_PI = 1.8378770664093453

log_of = kernel(log_e)


@kernel
def exp_of(x: float) -> float:
    """Return e to a power, to some 1e-14 times the power; 0 and the largest doubles at the ends, 0 of what is none."""
    if not x >= -730.0:  # of no number as well: it must not become a place in a table
        return 0.0
    x = min(x, 700.0)
    whole = int(np.floor(x * (64.0 / 0.6931471805599453) + 0.5))
    rest = x - whole * (0.6931471805599453 / 64.0)
    near: float = 1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6.0 + rest * (1.0 / 24.0 + rest * (1.0 / 120.0)))))
    part = whole & 63
    scale: float = _PARTS[part] * _POWERS[((whole - part) >> 6) + 1060]
    return near * scale


@kernel
def log_gamma(x: float) -> float:
    """Return the logarithm of the Gamma function above 0, to some 1e-12."""
    product = 1.0
    while x < 10.0:
        product *= x
        x += 1.0
    square = 1.0 / (x * x)
    series = (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0))) / x
    return (x - 0.5) * log_of(x) - x + 0.5 * _LOG_2_PI + series - log_of(product)


class CellModel(NamedTuple):
    """What posteriors rest on, apart from means and measurements.

    Attributes
    ----------
    noise : array (kind, distance)
        Weights of the noise by distance from the measurement.
    noise_of_cell : array (cell,)
    reach : array (kind,)
        From how far below the measurement a window begins, and how far above it ends.
    lower, upper : arrays (cell,)
        Limits; -1 above where there is none.
    is_open : array (cell,)
        Whether a cell has more than one possible count.
    band_of_cell : array (cell,)
    cells_by_band, first_of_band : arrays
        The open cells band by band, and where each band begins.
    shape_of_band : array (band,)
        Which of the shapes.
    prior : array (band, effect)
    means, log_means : arrays (node,)
    log_sums, ratios : arrays (shape, node)
        ``log(mean + shape)`` and ``mean / (mean + shape)``.
    shapes, log_shapes : arrays (shape,)
    effects : array (effect,)
    """

    noise: Floats
    noise_of_cell: Ints
    reach: Ints
    lower: Ints
    upper: Ints
    is_open: NDArray[np.bool_]
    band_of_cell: Ints
    cells_by_band: Ints
    first_of_band: Ints
    shape_of_band: Ints
    prior: Floats
    means: Floats
    log_means: Floats
    log_sums: Floats
    ratios: Floats
    shapes: Floats
    log_shapes: Floats
    effects: Floats


@kernel
def node_of(mean: float, means: Floats) -> int:
    """Return the node of a mean: the last that is not above it, or the one after where that is nearer."""
    low, high = 0, len(means) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if means[middle] <= mean:
            low = middle
        else:
            high = middle
    return low if mean - means[low] <= means[high] - mean else high


@kernel
def window_of(measurement: int, cell: int, model: CellModel) -> tuple[int, int, int]:
    """Return where the window of a cell begins, how many counts it has, and the measurement that it goes by."""
    reach = model.reach[model.noise_of_cell[cell]]
    centre = max(measurement, model.lower[cell] - reach)
    if model.upper[cell] >= 0:
        centre = min(centre, model.upper[cell] + reach)
    first = max(model.lower[cell], centre - reach)
    last = first + 2 * reach
    if model.upper[cell] >= 0:
        last = min(last, model.upper[cell])
    return first, last - first + 1, centre


@kernel
def likelihoods(
    measurement: int, node: int, shape: int, cell: int, model: CellModel, counts: Floats, out: Floats
) -> float:
    """Put the probability of a measurement under each effect into `out`, over a common factor whose log is returned.

    Parameters
    ----------
    counts : array (count, effect)
        Becomes the probability of each count of the window under each effect, over the same factor.
    out : array (effect,)
    """
    first, n_counts, centre = window_of(measurement, cell, model)
    kind = model.noise_of_cell[cell]
    size, log_size = model.shapes[shape], model.log_shapes[shape]
    ratios = np.empty(N_EFFECTS)
    most = -1e300
    for effect in range(N_EFFECTS):
        place = min(max(node + NODES_OF_EFFECT * (effect + FIRST_EFFECT), 0), N_NODES - 1)
        log_sum = model.log_sums[shape, place]
        start = size * (log_size - log_sum)
        if first > 0:
            start += first * (model.log_means[place] - log_sum)
        out[effect] = start
        most = max(most, start)
        ratios[effect] = model.ratios[shape, place]
    for effect in range(N_EFFECTS):
        counts[0, effect] = exp_of(out[effect] - most)
        out[effect] = counts[0, effect] * model.noise[kind, abs(centre - first)]
    for number in range(1, n_counts):
        rise = (first + number - 1 + size) / (first + number)
        weight = model.noise[kind, abs(centre - first - number)]
        for effect in range(N_EFFECTS):
            chance = counts[number - 1, effect] * (ratios[effect] * rise)
            counts[number, effect] = chance
            out[effect] += chance * weight
    return most


@kernel
def scale_to_one(values: Floats) -> float:
    """Divide values by the largest of them, and return it; all 1 where all are 0."""
    most = 0.0
    for place in range(len(values)):
        most = max(most, values[place])
    if most <= 0.0:
        values[:] = 1.0
        return 1.0
    for place in range(len(values)):
        values[place] /= most
    return most


@kernel
def posteriors(measured: Ints, means: Floats, model: CellModel, chances: Floats, firsts: Ints, effects: Floats) -> None:
    """Compute the posterior probabilities of the counts of every cell.

    Parameters
    ----------
    measured, means : arrays (area, cell)
        Measurements, and what cells are expected to be where effects are 1.
    chances : array (area, cell, count)
        Of the counts from the first of a window on.
    firsts : array (area, cell)
    effects : array (area, band)
        Posterior means of the effects.
    """
    n_areas, n_cells = measured.shape
    width = chances.shape[2]
    n_bands = len(model.first_of_band) - 1
    most_cells = 1
    for band in range(n_bands):
        most_cells = max(most_cells, model.first_of_band[band + 1] - model.first_of_band[band])
    counts = np.empty((width, N_EFFECTS))
    told = np.empty((most_cells, N_EFFECTS))
    after = np.empty((most_cells + 1, N_EFFECTS))
    before = np.empty(N_EFFECTS)
    weights = np.empty(N_EFFECTS)
    sums = np.empty(8)
    for area in range(n_areas):
        for band in range(n_bands):
            start, end = model.first_of_band[band], model.first_of_band[band + 1]
            shape, n_inside = model.shape_of_band[band], end - start
            for number in range(n_inside):
                cell = model.cells_by_band[start + number]
                node = node_of(means[area, cell], model.means)
                likelihoods(measured[area, cell], node, shape, cell, model, counts, told[number])
                scale_to_one(told[number])
            after[n_inside] = 1.0
            for number in range(n_inside - 1, -1, -1):
                for effect in range(N_EFFECTS):
                    after[number, effect] = after[number + 1, effect] * told[number, effect]
                scale_to_one(after[number])
            top, bottom = 0.0, 0.0
            for effect in range(N_EFFECTS):
                weight = model.prior[band, effect] * after[0, effect]
                top += weight * model.effects[effect]
                bottom += weight
            effects[area, band] = top / bottom if bottom > 0.0 else 1.0
            for effect in range(N_EFFECTS):
                before[effect] = model.prior[band, effect]
            for number in range(n_inside):
                cell = model.cells_by_band[start + number]
                for effect in range(N_EFFECTS):
                    weights[effect] = before[effect] * after[number + 1, effect]
                scale_to_one(weights)
                node = node_of(means[area, cell], model.means)
                first, n_counts, centre = window_of(measured[area, cell], cell, model)
                # The same probabilities again: keeping them for a band would leave the processor's cache.
                likelihoods(measured[area, cell], node, shape, cell, model, counts, told[number])
                scale_to_one(told[number])
                kind = model.noise_of_cell[cell]
                total = 0.0
                for count in range(n_counts):
                    sums[:] = 0.0
                    for block in range(0, N_EFFECTS, 8):
                        for lane in range(8):
                            sums[lane] += weights[block + lane] * counts[count, block + lane]
                    chance = sums[0]
                    for lane in range(1, 8):
                        chance += sums[lane]
                    chance *= model.noise[kind, abs(centre - first - count)]
                    chances[area, cell, count] = chance
                    total += chance
                if not (0.0 < total < 1e300):
                    total = 0.0
                    for count in range(n_counts):
                        chances[area, cell, count] = model.noise[kind, abs(centre - first - count)]
                        total += chances[area, cell, count]
                for count in range(n_counts):
                    chances[area, cell, count] /= total
                for count in range(n_counts, width):
                    chances[area, cell, count] = 0.0
                firsts[area, cell] = first
                for effect in range(N_EFFECTS):
                    before[effect] *= told[number, effect]
                scale_to_one(before)
        for cell in range(n_cells):
            if not model.is_open[cell]:
                chances[area, cell] = 0.0
                chances[area, cell, 0] = 1.0
                firsts[area, cell] = model.lower[cell]


@kernel
def band_likelihoods(measured: Ints, means: Floats, model: CellModel, priors: Floats, out: Floats) -> None:
    """Add up the log likelihood of every band under every shape of counts and of effects.

    Parameters
    ----------
    priors : array (effect shape, effect)
    out : array (band, shape, effect shape)
    """
    width = 1
    for kind in range(len(model.reach)):
        width = max(width, 2 * model.reach[kind] + 1)
    counts = np.empty((width, N_EFFECTS))
    told = np.empty(N_EFFECTS)
    product = np.empty(N_EFFECTS)
    for area in range(len(measured)):
        for band in range(len(model.first_of_band) - 1):
            for shape in range(len(model.shapes)):
                size = model.shapes[shape]
                product[:] = 1.0
                log_scale = 0.0
                for number in range(model.first_of_band[band], model.first_of_band[band + 1]):
                    cell = model.cells_by_band[number]
                    node = node_of(means[area, cell], model.means)
                    first, _, _ = window_of(measured[area, cell], cell, model)
                    log_scale += likelihoods(measured[area, cell], node, shape, cell, model, counts, told)
                    log_scale += log_gamma(first + size) - log_gamma(size) - log_gamma(first + 1.0)
                    for effect in range(N_EFFECTS):
                        product[effect] *= told[effect]
                    log_scale += log_of(scale_to_one(product))
                for number in range(len(priors)):
                    total = 0.0
                    for effect in range(N_EFFECTS):
                        total += priors[number, effect] * product[effect]
                    out[band, shape, number] += log_scale + log_of(max(total, 1e-300))
