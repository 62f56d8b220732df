"""What noise alone can bring about in units without people: where a release does not tell them from others.

Cells are not negative, so noise can only push an empty unit up. The prior has leaves that are empty as a whole, and no
larger units, whose draws exclude 0 for that reason. Their low end is 0 wherever the noise of an empty unit reaches the
released number with at least the probability of a tail.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil, exp, sqrt
from statistics import NormalDist

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.hierarchy.law import ChainLaw

_FAR = 12  # deviations of one cell's noise: beyond them nothing is seen
_MANY = 400  # cells whose sum is taken for normal
_DIGITS = 6


def noise_variances(law: ChainLaw) -> tuple[Floats, ...]:
    """Return the variance of the noise of an empty unit's cell (unit,), for each level, the top first.

    Children add up to what was released above them. Of n children each takes an n-th of the error of the sum, so an
    only child has that of its parent; the larger variance is taken, that with the parent's error or without it.
    """
    least = min(float(precision) for precision in law.top.precisions if precision)
    found = [np.full(len(law.tree.codes[0]), 1 / least)]
    for noise, parents, families in zip(law.noises, law.tree.parents, law.tree.families, strict=True):
        own, sizes = float(1 / noise.precision), families.sizes[parents]
        found.append(np.maximum(own, own * (1 - 1 / sizes) + found[-1][parents] / sizes**2))
    return tuple(found)


def reaches(variances: Floats, n_cells: Ints, tail: float) -> Ints:
    """Return for each of some units the largest sum of its cells that noise alone reaches with a tail's probability."""
    pairs, places = np.unique(np.stack([variances.round(_DIGITS), n_cells], axis=1), axis=0, return_inverse=True)
    each = [reach({variance: int(n)}, tail) for variance, n in pairs.tolist()]
    return np.array(each, np.int64)[places.reshape(-1)]


def reach(cells: Mapping[float, int], tail: float) -> int:
    """Return the largest sum that noise alone reaches with a tail's probability, over cells given by their variance.

    Examples
    --------
    >>> reach({1.0: 1}, 0.05), reach({1.0: 16}, 0.05), reach({}, 0.05)
    (2, 13, 0)
    """
    return _reach(tuple(sorted((variance, n) for variance, n in cells.items() if n)), tail)


@lru_cache(maxsize=4096)
def _reach(cells: Sequence[tuple[float, int]], tail: float) -> int:
    if sum(n for _, n in cells) > _MANY:
        moments = [(n, _law(variance), np.arange(_law(variance).size)) for variance, n in cells]
        mean = sum(n * float(law @ values) for n, law, values in moments)
        variance = sum(n * float(law @ values**2 - (law @ values) ** 2) for n, law, values in moments)
        return int(mean + NormalDist().inv_cdf(1 - tail) * sqrt(variance) + 1)
    total = np.ones(1)
    for variance, n in cells:
        for _ in range(n):
            total = np.convolve(total, _law(variance))
    above = np.cumsum(total[::-1])[::-1]  # the probability of this sum or a larger one
    return int(np.flatnonzero(above >= tail - 1e-12)[-1])


@lru_cache(maxsize=4096)
def _law(variance: float) -> Floats:
    """Return the law of one cell without people: discrete Gaussian noise, given that it is not negative."""
    weights = np.array([exp(-(value**2) / (2 * variance)) for value in range(ceil(_FAR * sqrt(variance)) + 1)])
    return np.asarray(weights / weights.sum())
