"""Laws that can be written down: equal noise on every cell, given that it sums to zero.

They need cells without limits, so they serve to check the general samplers, and GM's two-bin histogram.
"""

from fractions import Fraction
from math import comb

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import SamplingError
from congenial.noise import Laplace, Noise
from congenial.noise.exact_choice import CdfBounds, exact_choice
from congenial.randomness import RandomStream
from congenial.sampling.draws import Draws
from congenial.sampling.target import Target


def geometric_sum_zero(noise: Noise, n_cells: int, n_draws: int, rng: RandomStream) -> Ints:
    """Return exact draws (draw, cell) of integer noise of weight ``a ** |u|`` given that it sums to zero.

    Noise is a difference of two geometrics; given a zero sum both sides total the same N, with
    ``P(N) ~ (C(N + d - 1, d - 1) a^N)^2``, and each side is a uniform composition of N into d parts.

    Examples
    --------
    >>> from congenial.noise import DoubleGeometric
    >>> from congenial.randomness import replay_rng
    >>> geometric_sum_zero(DoubleGeometric(1), 3, 1000, replay_rng(1)).sum(axis=1).any()
    np.False_
    """
    sizes = exact_choice(_size_cdf(noise.base, n_cells), n_draws, rng)
    return _compositions(sizes, n_cells, rng) - _compositions(sizes, n_cells, rng)


def _size_cdf(base: Fraction, n_cells: int) -> CdfBounds:
    x, d = base * base, n_cells
    # sum_N C(N+d-1, d-1)^2 x^N = sum_k C(d-1, k)^2 x^k / (1 - x)^(2d - 1), by Euler's transformation.
    total = sum((comb(d - 1, k) ** 2 * x**k for k in range(d)), Fraction(0)) / (1 - x) ** (2 * d - 1)

    def cdf_bounds(bits: int) -> tuple[list[int], list[int]]:
        low, high = [], []
        size, missing = 0, total
        power = Fraction(1)
        while missing * 2**bits > total:
            missing -= comb(size + d - 1, d - 1) ** 2 * power
            scaled = (1 - missing / total) * 2**bits
            low.append(scaled.numerator // scaled.denominator)
            high.append(-(-scaled.numerator // scaled.denominator))
            size, power = size + 1, power * x
        return low, high

    return cdf_bounds


def _compositions(sizes: Ints, n_parts: int, rng: RandomStream) -> Ints:
    """Return a uniform weak composition of each size into parts: where d - 1 bars stand among size + d - 1 places."""
    places = sizes + n_parts - 1
    bars = np.full((len(sizes), n_parts - 1), -1, np.int64)
    for k in range(n_parts - 1):  # Floyd's subset: one more place than before is open in each step
        newest = places - (n_parts - 1) + k
        pick = rng.below(newest + 1)
        taken = (bars == pick[:, None]).any(axis=1)
        bars[:, k] = np.where(taken, newest, pick)
    bars.sort(axis=1)
    edges = np.column_stack([np.full(len(sizes), -1), bars, places])
    return np.diff(edges, axis=1) - 1


def laplace_sum_zero(noise: Noise, n_cells: int, n_draws: int, rng: RandomStream) -> Floats:
    """Return draws (draw, cell) of Laplace noise given that it sums to zero.

    Both sides of the difference total the same ``N ~ Gamma(2d - 1, scale / 2)``, spread by uniform points of a simplex.
    """
    exponentials = -np.log(rng.uniforms(n_draws * (4 * n_cells - 1))).reshape(n_draws, -1)
    size = exponentials[:, : 2 * n_cells - 1].sum(axis=1) / (2 * float(noise.precision))
    plus, minus = np.split(exponentials[:, 2 * n_cells - 1 :], 2, axis=1)
    noise_of_cell: Floats = size[:, None] * (_shares(plus) - _shares(minus))
    return noise_of_cell


def _shares(parts: Floats) -> Floats:
    shares: Floats = parts / parts.sum(axis=1, keepdims=True)
    return shares


def two_bin_law(noise: Laplace) -> Laplace:
    """Return the law of the first of two Laplace variables given that they sum to zero: twice the precision.

    With GM's Laplace(2 / epsilon) in each bin this is Laplace(1 / epsilon), their equation for the two-bin histogram.

    Examples
    --------
    >>> two_bin_law(Laplace("1/2"))
    Laplace(precision=Fraction(1, 1))
    """
    return Laplace(2 * noise.precision)


def sample(target: Target, n_draws: int, rng: RandomStream) -> Draws:
    """Return independent draws of a target whose only condition is the total, with the same noise on every cell."""
    noise = _common_noise(target)
    n_cells = len(target.centre)
    if noise.exponent != 1:
        raise SamplingError(f"there is no closed form for {noise.family} noise")
    draw = geometric_sum_zero if noise.is_discrete else laplace_sum_zero
    tables: Ints | Floats = target.centre + draw(noise, n_cells, n_draws, rng)
    return Draws(tables, 1.0, is_independent=True)


def _common_noise(target: Target) -> Noise:
    constraints = target.constraints
    is_total = (
        len(constraints.rows) == 1 and constraints.equalities and set(constraints.rows[0].row.coefficients) == {1}
    )
    covers = is_total and len(constraints.rows[0].row.cells) == len(target.centre)
    unlimited = set(constraints.lower) == set(constraints.upper) == {None}
    noises = {query.noise for query in target.measured}
    cells = sorted(query.cell for query in target.measured if query.cell is not None)
    if not (
        covers
        and unlimited
        and len(noises) == 1
        and cells == list(range(len(target.centre)))
        and len(target.measured) == len(cells)
    ):
        raise SamplingError(
            "the closed form needs the total as the only condition, bounds(None) on every cell"
            " and the same noise on each"
        )
    return noises.pop()
