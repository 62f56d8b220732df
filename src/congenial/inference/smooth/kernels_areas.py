"""Log rates of many areas around a profile that they share, one area after the other.

Given counts, the log rates of an area are nearly normal: each count s says ``log(s + 1/2)`` with precision ``s + 1/2``.
An elliptical slice from this approximation, which depends on nothing that moves, is nearly an independent draw, and
exact. Where counts are small it is rough, so another slice starts from the prior.
"""

import math

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.inference.kernels_random_numbers import MOST_TRIALS, Words, first_angle, next_angle, normal, uniform
from congenial.inference.smooth.kernels import LARGEST, scale_of
from congenial.sampling.jit import kernel

_SLICES = 2
_LEAST_SPREAD = 1e-3


@kernel
def _factor(precision: Floats) -> None:
    """Turn a precision matrix into its upper factor U, with U'U the matrix; what is below the diagonal stays."""
    n = precision.shape[0]
    for k in range(n):
        by = 1.0 / math.sqrt(precision[k, k])
        for j in range(k, n):
            precision[k, j] *= by
        for i in range(k + 1, n):
            weight = precision[k, i]
            for j in range(i, n):
                precision[i, j] -= weight * precision[k, j]


@kernel
def _solve_lower(factor: Floats, b: Floats) -> None:
    """Replace b by the solution of ``U' y = b``."""
    n = b.size
    for k in range(n):
        b[k] /= factor[k, k]
        for j in range(k + 1, n):
            b[j] -= factor[k, j] * b[k]


@kernel
def _solve_upper(factor: Floats, b: Floats) -> None:
    """Replace b by the solution of ``U x = b``."""
    n = b.size
    for k in range(n - 1, -1, -1):
        total = b[k]
        for j in range(k + 1, n):
            total -= factor[k, j] * b[j]
        b[k] = total / factor[k, k]


@kernel
def _log_weight(counts: Ints, is_open: NDArray[np.bool_], eta: Floats, by_normal: float) -> float:
    """Return the log likelihood of Poisson counts, less its normal approximation if ``by_normal`` is 1."""
    total = 0.0
    for i in range(counts.size):
        if is_open[i]:
            total += counts[i] * eta[i] - math.exp(min(eta[i], LARGEST))
            if by_normal > 0.0:
                off = eta[i] - math.log(counts[i] + 0.5)
                total += 0.5 * (counts[i] + 0.5) * off * off
    return total


@kernel
def _slice(
    counts: Ints,
    is_open: NDArray[np.bool_],
    centre: Floats,
    fresh: Floats,  # a draw of the normal law, less the centre
    by_normal: float,
    eta: Floats,
    trial: Floats,
    chance: Words,
) -> None:
    """Move log rates along an ellipse around the centre."""
    least = _log_weight(counts, is_open, eta, by_normal) + math.log(uniform(chance))
    angle, low, high = first_angle(chance)
    for _ in range(MOST_TRIALS):
        c, d = math.cos(angle), math.sin(angle)
        for i in range(eta.size):
            trial[i] = centre[i] + c * (eta[i] - centre[i]) + d * fresh[i]
        if _log_weight(counts, is_open, trial, by_normal) > least:
            eta[:] = trial
            return
        angle, low, high = next_angle(angle, low, high, chance)


@kernel
def _slice_width(log_width: float, centre: float, spread: float, n: int, squares: float, chance: Words) -> float:
    """Move the log of an area's width, given n deviations with this sum of squares in units of the shared scales."""
    here, fresh = (log_width - centre) / spread, normal(chance)
    least = -n * log_width - 0.5 * squares * math.exp(-2.0 * log_width) + math.log(uniform(chance))
    angle, low, high = first_angle(chance)
    for _ in range(MOST_TRIALS):
        tried = centre + spread * (math.cos(angle) * here + math.sin(angle) * fresh)
        if -n * tried - 0.5 * squares * math.exp(min(-2.0 * tried, LARGEST)) > least:
            return tried
        angle, low, high = next_angle(angle, low, high, chance)
    return log_width


@kernel
def move_log_rates(
    precision: Floats,  # (cell, cell) of deviations, whatever their mean
    root: Floats,  # (cell, cell) lower factor of their covariance
    profiles: Floats,  # (area, cell)
    mean_level: float,  # of log rates, and the precision with which it is known
    level_precision: float,
    counts: Ints,  # (area, cell)
    is_open: NDArray[np.bool_],
    width_centre: Floats,  # (area) of the logs of widths
    width_spread: float,
    log_width: Floats,  # (area)
    eta: Floats,  # (area, cell)
    n_words: int,
    first: int,
    chance: Words,
) -> int:
    """Move log rates and width of each area, given its counts; return the area before which words may run out."""
    n_areas, n = counts.shape
    factor, centre, fresh, drawn = np.empty((n, n)), np.empty(n), np.empty(n), np.empty(n)
    trial, pulled = np.empty(n), np.empty(n)
    for a in range(first, n_areas):
        if chance.words.size - chance.used[0] < n_words:
            return a
        profile = profiles[a]
        by = math.exp(-2.0 * log_width[a])
        for i in range(n):
            pulled[i] = 0.0
            for j in range(n):
                pulled[i] += precision[i, j] * profile[j]
        for i in range(n):
            weight = counts[a, i] + 0.5 if is_open[a, i] else 0.0
            for j in range(i, n):
                factor[i, j] = by * precision[i, j] + level_precision / (n * n)
            factor[i, i] += weight
            centre[i] = by * pulled[i] + level_precision * mean_level / n
            if is_open[a, i]:
                centre[i] += weight * math.log(weight)
        _factor(factor)
        _solve_lower(factor, centre)
        _solve_upper(factor, centre)
        for _ in range(_SLICES):
            for i in range(n):
                fresh[i] = normal(chance)
            _solve_upper(factor, fresh)
            _slice(counts[a], is_open[a], centre, fresh, 1.0, eta[a], trial, chance)
        # From the prior: deviations whatever their mean, and a level of its own.
        wide = math.exp(log_width[a])
        mean, middle = 0.0, 0.0
        for i in range(n):
            drawn[i] = normal(chance)
            middle += profile[i] / n
        for i in range(n):
            fresh[i] = 0.0
            for j in range(i + 1):
                fresh[i] += wide * root[i, j] * drawn[j]
            mean += fresh[i] / n
        level = normal(chance) / math.sqrt(level_precision)
        for i in range(n):
            fresh[i] += level - mean
            centre[i] = profile[i] - middle + mean_level
        _slice(counts[a], is_open[a], centre, fresh, 0.0, eta[a], trial, chance)
        squares = 0.0
        for i in range(n):
            along = 0.0
            for j in range(n):
                along += precision[i, j] * (eta[a, j] - profile[j])
            squares += along * (eta[a, i] - profile[i])
        log_width[a] = _slice_width(log_width[a], width_centre[a], width_spread, n - 1, squares, chance)
    return int(n_areas)


@kernel
def move_spread(spread: float, unit: float, n: int, squares: float, chance: Words) -> float:
    """Move a half-normal deviation, given n numbers around 0 with this sum of squares."""
    here, fresh = spread / unit, normal(chance)
    least = -n * math.log(spread) - squares / (2.0 * spread * spread) + math.log(uniform(chance))
    angle, low, high = first_angle(chance)
    for _ in range(MOST_TRIALS):
        tried = max(unit * abs(math.cos(angle) * here + math.sin(angle) * fresh), _LEAST_SPREAD)
        if -n * math.log(tried) - squares / (2.0 * tried * tried) > least:
            return tried
        angle, low, high = next_angle(angle, low, high, chance)
    return spread


@kernel
def log_density(covariance: Floats, n_areas: int, lines: Floats, scratch: Floats) -> float:
    """Return the log density of deviations whatever their mean, up to a constant.

    Parameters
    ----------
    covariance
        It is overwritten.
    lines
        Deviations, or others with the same sums of products (line, cell).
    scratch
        Two numbers a cell.
    """
    n = covariance.shape[0]
    _factor(covariance)
    log_size = 0.0
    ones, line = scratch[:n], scratch[n : 2 * n]
    ones[:] = 1.0
    _solve_lower(covariance, ones)
    across = 0.0
    for i in range(n):
        log_size += 2.0 * math.log(covariance[i, i])
        across += ones[i] * ones[i]
    log_size += math.log(across)
    squares = 0.0
    for number in range(lines.shape[0]):
        line[:] = lines[number]
        _solve_lower(covariance, line)
        along = 0.0
        for i in range(n):
            squares += line[i] * line[i]
            along += line[i] * ones[i]
        squares -= along * along / across
    return -0.5 * (n_areas * log_size + squares)


@kernel
def _covariance(products: Floats, scales: Floats, least: float, out: Floats) -> None:
    out[:] = 0.0
    for t in range(scales.size):
        out += scales[t] ** 2 * products[t]
    out += least * products[scales.size - 1]


@kernel
def move_hyper(
    products: Floats,  # (effect, cell, cell)
    unit: Floats,  # (effect)
    tail: float,
    least_variance: float,
    n_areas: int,
    lines: Floats,  # (line, cell)
    hyper: Floats,  # (effect)
    chance: Words,
) -> None:
    """Move the normals behind scales one after the other, given deviations."""
    n = products.shape[1]
    covariance, scratch, scales = np.empty((n, n)), np.empty(2 * n), unit.copy()
    for t in range(unit.size):
        scales[t] = scale_of(unit[t], hyper[t], tail)
    for t in range(unit.size):
        fresh, here = normal(chance), hyper[t]
        _covariance(products, scales, least_variance, covariance)
        least = log_density(covariance, n_areas, lines, scratch) + math.log(uniform(chance))
        angle, low, high = first_angle(chance)
        before = scales[t]
        for trial in range(MOST_TRIALS):
            tried = math.cos(angle) * here + math.sin(angle) * fresh
            scales[t] = scale_of(unit[t], tried, tail)
            _covariance(products, scales, least_variance, covariance)
            if log_density(covariance, n_areas, lines, scratch) > least:
                hyper[t] = tried
                break
            angle, low, high = next_angle(angle, low, high, chance)
            if trial == MOST_TRIALS - 1:
                scales[t] = before
