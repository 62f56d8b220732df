"""How far sums of noise reach: the half-widths of intervals from measurements, with the coverage that is proven.

By the law of the sum, convolved with proven bounds; where the noise has no tables, by the rank of the new measurement's
error among public draws, or, under squared noise, by a bound of its tails (docs/claims/measured.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, isqrt, log

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.rows_and_intervals import columns
from congenial.errors import InferenceError, SamplingError, TooLargeError
from congenial.randomness import replay_rng
from congenial.sampling.lattice_noise.choose import LatticeSampler, choose_lattice_sampler
from congenial.sampling.lattice_noise.statistic_law import StatisticLaw, statistic_law
from congenial.sampling.lattice_noise.system import LatticeSystem

NoiseSum = tuple[tuple[LatticeSystem, tuple[int, ...], int], ...]
"""Independent noises that are added up: the system, the coefficients of its coordinates, and how many units have it."""

_FEW_DRAWS, _DRAWS, _MANY_DRAWS = 999, 19_999, 99_999  # at least, as a rule, and for levels near 1
_FEW_BEYOND = 100  # draws beyond a half-width: with fewer, more are drawn
_MOST_SECONDS = 20.0
_SLACK = 1e-9  # of a variance in doubles


@dataclass(frozen=True)
class HalfWidth:
    """How far a measured number may be off.

    Attributes
    ----------
    half_width : int
    coverage : float
        A number below the probability that it is off by no more.
    how : str
        On what that rests, where it is not the law itself.
    """

    half_width: int
    coverage: float
    how: str = ""


@lru_cache(maxsize=1024)
def _alike(system: LatticeSystem) -> tuple[tuple[int, ...], ...]:
    """Return the coordinates that the law cannot tell apart: one weight, and one column in all rows."""
    rows = [*system.equalities, *(soft.row for soft in system.soft)]
    members: dict[object, list[int]] = {}
    for place, column in enumerate(columns(rows, system.n_coordinates)):
        members.setdefault((system.weights[place], column), []).append(place)
    return tuple(map(tuple, members.values()))


def canonical(system: LatticeSystem, noise: Sequence[int]) -> tuple[int, ...]:
    """Return coefficients with the same law: sorted among coordinates that are alike, and of one sign.

    Examples
    --------
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.noise import DoubleGeometric
    >>> pair = LatticeSystem((DoubleGeometric(1).weight,) * 3, (Row.of("total", [0, 1, 2]),))
    >>> canonical(pair, (0, -1, 0)), canonical(pair, (1, 0, 0))
    ((1, 0, 0), (1, 0, 0))
    """
    both = []
    for sign in (1, -1):
        out = [0] * len(noise)
        for places in _alike(system):
            ranked = sorted((sign * noise[place] for place in places), reverse=True)
            for place, times in zip(places, ranked, strict=True):
                out[place] = times
        both.append(tuple(out))
    return max(both)


def half_width_of(noise: NoiseSum, level: Fraction) -> HalfWidth:
    """Return the smallest half-width whose coverage is proven to reach a level.

    Examples
    --------
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.noise import DoubleGeometric
    >>> pair = LatticeSystem((DoubleGeometric(1).weight,) * 2, (Row.of("total", [0, 1]),))
    >>> half_width_of(((pair, (1, 0), 1),), Fraction(9, 10)).half_width
    1
    >>> half_width_of(((pair, (1, 0), 100),), Fraction(9, 10)).half_width
    10
    >>> half_width_of((), Fraction(9, 10))
    HalfWidth(half_width=0, coverage=1.0, how='')
    """
    if not noise:
        return HalfWidth(0, 1.0)
    times_of: dict[tuple[LatticeSystem, tuple[int, ...]], int] = {}
    for system, coefficients, times in noise:  # those that have one law together
        key = system, canonical(system, coefficients)
        times_of[key] = times_of.get(key, 0) + times
    terms = ((system, coefficients, times) for (system, coefficients), times in times_of.items())
    return _half_width(tuple(sorted(terms, key=lambda term: term[1:])), level)


@lru_cache(maxsize=65_536)
def _half_width(noise: NoiseSum, level: Fraction) -> HalfWidth:
    try:
        return HalfWidth(*_sum_law(noise).half_width(level))
    except (TooLargeError, SamplingError):
        return _without_law(noise, level)


@lru_cache(maxsize=4096)
def _law(system: LatticeSystem, coefficients: tuple[int, ...]) -> StatisticLaw:
    return statistic_law(system, coefficients)


@lru_cache(maxsize=4096)
def _sum_law(noise: NoiseSum) -> StatisticLaw:
    """Return the law of independent noises together; those of equal units by squaring."""
    total: StatisticLaw | None = None
    for system, coefficients, times in noise:
        law = _law(system, coefficients)
        law = law.repeated(times) if times > 1 else law
        total = law if total is None else total.plus(law)
    if total is None:
        raise InferenceError("internal: a sum of no noises has no law")
    return total


# Where the law is not at hand.


@lru_cache(maxsize=256)
def _sampler(system: LatticeSystem) -> LatticeSampler:
    return choose_lattice_sampler(system).sampler


@lru_cache(maxsize=2)
def _public_draws(system: LatticeSystem, seed: str, n: int) -> Ints:
    """Return draws of the noise (draw, coordinate); several numbers are asked of one system."""
    return _sampler(system).draw(replay_rng(seed).keyed(n))


def _without_law(noise: NoiseSum, level: Fraction) -> HalfWidth:
    # Not the narrower of the two: choosing by what was drawn would spoil the coverage that ranks have.
    width = simulated(noise, level) or sub_gaussian(noise, level)
    if width is None:
        raise InferenceError(
            "the law of its noise has no tables, and too many public draws would be needed; ask for one area, or for a"
            " lower level"
        )
    return width


def simulated(noise: NoiseSum, level: Fraction) -> HalfWidth | None:
    """Return the half-width by rank among public draws; None where these would take too long.

    The error of a new measurement is as likely to have any rank among n public draws and itself: it is no larger than
    the ``ceil(level (n + 1))``-th with at least the level.
    """
    seconds = sum(times * _sampler(system).seconds for system, _, times in noise)
    wanted = _DRAWS if (1 - level) * (_DRAWS + 1) >= _FEW_BEYOND else _MANY_DRAWS
    n = int(min(wanted, _MOST_SECONDS / max(seconds, 1e-9)))
    rank = ceil(level * (n + 1))
    if n < _FEW_DRAWS or rank > n:
        return None
    total = np.zeros(n, np.int64)
    for number, (system, coefficients, times) in enumerate(noise):
        for unit in range(times):
            total += _public_draws(system, f"half-width {number} {unit}", n) @ np.array(coefficients, np.int64)
    width = int(np.partition(np.abs(total), rank - 1)[rank - 1])
    coverage = Fraction(rank, n + 1)
    return HalfWidth(width, _below(coverage), f"by rank among {n:,} public draws of the noise")


def sub_gaussian(noise: NoiseSum, level: Fraction) -> HalfWidth | None:
    """Return the half-width by ``P(|q| >= t) <= 2 exp(-t^2 / 2 V)``, V the least-squares variance; None unless squared.

    The same holds of sums of independent noises, whose V add up.
    """
    variance = 0.0
    for system, coefficients, times in noise:
        weights = [*system.weights, *(soft.weight for soft in system.soft)]
        if any(weight.linear != 1 for weight in weights):
            return None
        variance += times * _least_squares_variance(system, np.array(coefficients, np.float64))
    variance *= 1 + _SLACK
    width = isqrt(ceil(2 * variance * log(2 / float(1 - level))))  # P(|q| > h) = P(|q| >= h + 1)
    coverage = 1 - 2 * exp(-((width + 1) ** 2) / (2 * variance)) if variance > 0 else 1.0
    return HalfWidth(width, coverage, "by a bound of the tails of squared noise") if coverage >= level else None


def _least_squares_variance(system: LatticeSystem, coefficients: Floats) -> float:
    """Return ``q' (W^-1 given A u = 0) q`` with W the quadratic form of the noise."""
    n = system.n_coordinates
    form = np.diag([_curvature(weight.quadratic) for weight in system.weights])
    for soft in system.soft:
        row = np.zeros(n)
        row[list(soft.row.cells)] = soft.row.coefficients
        form += _curvature(soft.weight.quadratic) * np.outer(row, row)
    across = np.linalg.solve(form, coefficients)
    variance = float(coefficients @ across)
    if system.equalities:
        matrix = system.matrix.astype(np.float64)
        sums = matrix @ across
        variance -= float(sums @ np.linalg.solve(matrix @ np.linalg.solve(form, matrix.T), sums))
    return max(variance, 0.0)


def _curvature(base: Fraction) -> float:
    """Return c with weight ``exp(-c v^2 / 2)``."""
    return -2 * (log(base.numerator) - log(base.denominator))


def _below(probability: Fraction) -> float:
    value = float(probability)
    return value if Fraction(value) <= probability else float(np.nextafter(value, 0.0))


def joint_coverage(widths: Mapping[int, HalfWidth]) -> float:
    """Return a number below the probability that no one of several numbers is off by more than its half-width.

    Examples
    --------
    >>> joint_coverage({0: HalfWidth(3, 0.96875), 1: HalfWidth(2, 0.96875)})
    0.9375
    """
    return _below(1 - sum((1 - Fraction(width.coverage) for width in widths.values()), Fraction(0)))
