"""The rule *leaf-prior* of trees: *gls* above the leaves, and at the leaves a learned prior with inherited zeros.

Least squares know nothing of what counts look like: most cells of a block are 0 or small, and a block that is large in
one cell is large in others. That can be learned from measurements, and decides most where noise is larger than counts.
The count of a leaf's cell is negative binomial around its rate times the cell's part of the family's decided table; the
chances of rates, and a shape for each cell, are those that make the measurements of some families likely. Given these,
a leaf's posteriors follow from its measurements alone. They are tilted to what the family has to add up to, and the
integers have the least expected absolute loss under all sums.

*Inherited zeros*: a cell that the rule *gls* has at 0, and that has a chance of 1/4 or more to be 0, is 0.

Public: nothing here reads more than measurements and structure. What is learned is rounded, and published beside the
tables; given it, each table of a family is computed by itself and in a fixed order, the same on every machine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError
from congenial.memory_and_threads import map_in_threads
from congenial.portable_math import exp_e, log_1_plus
from congenial.progress_and_interrupts import Progress, silent
from congenial.rules import gls
from congenial.rules.family_integers import Cells, families_at_once
from congenial.rules.kernels_leaf_prior import (
    LARGEST,
    LOWEST_MEAN,
    MEANS,
    RATES,
    STEPS,
    PriorTables,
    decide_leaves,
    update_rates,
)
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.rules.tree_measurements import Bools, DecideTop, TreeMeasurements, TreeRule

SHAPES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
"""Shapes of a cell that are compared."""

LEAST_ZERO = 0.25
"""The least chance of 0 with which a zero is inherited."""

_MOST_LEAVES = 6_000  # that are learned from
_STEPS_OF_LEARNING = 24
_SHAPES_AT = (5, 10, 15, 20)
_FIRST_SHAPE = 4
_CELLS_AT_ONCE = 2**18
_LEAST_LIKELIHOOD = 1e-18
_ONE = 1 << FRACTION_BITS


def noise_weights(variance: float, exponent: int) -> Floats:
    """Return weights of noise of 0, 1, ..., up to twice as far as posteriors go (offset,).

    Parameters
    ----------
    exponent : int
        2 for the discrete Gaussian, where the variance is its parameter; 1 for Double Geometric noise.
    """
    if exponent == 2:
        reach = int(np.ceil(5.0 * np.sqrt(variance))) + 1
        weights = [exp_e(-offset * offset / (2.0 * variance)) for offset in range(2 * reach + 1)]
    else:
        half = 1.0 + 1.0 / variance
        base = half - float(np.sqrt(half * half - 1.0))
        weights = [1.0]
        while weights[-1] > 1e-7:
            weights.append(weights[-1] * base)
        reach = len(weights)
        while len(weights) < 2 * reach + 1:
            weights.append(weights[-1] * base)
    return np.array(weights)


@lru_cache(maxsize=64)
def _chances(shape: float, n_counts: int) -> Floats:
    """Return chances of counts (mean, count): negative binomial of a shape, around each mean of the grid."""
    means = np.array([exp_e((place + LOWEST_MEAN) / STEPS) for place in range(MEANS)])
    out = np.empty((MEANS, n_counts))
    out[:, 0] = [exp_e(-shape * log_1_plus(mean / shape)) for mean in means]
    ratio = means / (means + shape)
    for count in range(1, n_counts):
        out[:, count] = out[:, count - 1] * ratio * ((count - 1 + shape) / count)
    return out


def prior_tables(rates: Floats, shapes: Sequence[float], variance: float, exponent: int) -> PriorTables:
    """Return the tables of a prior and of noise."""
    noise = noise_weights(variance, exponent)
    reach = len(noise) // 2
    counts = np.stack([_chances(shape, LARGEST + reach + 1) for shape in shapes])
    likelihoods = np.zeros((len(shapes), LARGEST + reach + 1, MEANS))
    for offset in range(-reach, reach + 1):
        # A measurement is a count and the offset; its row is its place from -reach on.
        low = max(0, -reach - offset)
        high = min(counts.shape[2], LARGEST - offset + 1)
        likelihoods[:, low + offset + reach : high + offset + reach] += noise[abs(offset)] * counts[
            :, :, low:high
        ].transpose(0, 2, 1)
    at_0 = np.array([noise[abs(number)] if abs(number) < len(noise) else 0.0 for number in range(-reach, LARGEST + 1)])
    largest = np.maximum(likelihoods.max(axis=(0, 2)), at_0)
    likelihoods = np.maximum(likelihoods / largest[None, :, None], _LEAST_LIKELIHOOD)
    at_0 = np.maximum(at_0 / largest, _LEAST_LIKELIHOOD)
    return PriorTables(rates, counts, likelihoods, np.tile(at_0, (len(shapes), 1)), noise, reach)
