"""Tilts under which every row and column of a grid has mean 0. They move the acceptance, never the law."""

import math

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.sampling.allocation_to_children.kernels import LEAST, LevelNoise
from congenial.sampling.jit import kernel
from congenial.sampling.kernel_scaled_floats import exp_e

_LONGEST_STEP = 0.5
_MARGIN = 1.002  # more than rounding the tilts takes


@kernel
def moments(value: Floats, first: int, last: int, tilt: float) -> tuple[float, float]:
    """Return mean and variance of a deviation weighted by ``value * tilt ** deviation``; 0 is among its values."""
    mass, above, squares = value[-first], 0.0, 0.0
    power = 1.0
    for x in range(1, last + 1):
        power *= tilt
        weight = value[x - first] * power
        mass += weight
        above += x * weight
        squares += x * x * weight
    power, below = 1.0, 0.0
    for x in range(1, 1 - first):
        power /= tilt
        weight = value[-x - first] * power
        mass += weight
        below += x * weight
        squares += x * x * weight
    mean = (above - below) / mass
    return mean, max(0.0, squares / mass - mean * mean)


@kernel
def settle_tilts(
    value: Floats,
    first: Ints,
    last: Ints,
    least: Floats,
    most: Floats,
    kind: Ints,
    is_tied: Ints,
    is_free: Ints,
    n_sweeps: int,
    rows: Floats,
    columns: Floats,
    mean: Floats,
    variance: Floats,
) -> None:
    """Alternate between rows and columns, a step of Newton's method for each; leave variances at the end.

    Parameters
    ----------
    least, most : array (kind)
        The smallest and the largest tilt of a kind.
    is_tied : array (row)
        Whether the deviations of a row add up to 0; elsewhere its tilt stays 1.
    is_free : array (column)
        Whether nothing holds a column's sum: its tilt stays 1.
    rows, columns : array (row), (column)
        Where the tilts begin, and where they are left.
    mean, variance : array (row, column)
        Of each cell under the tilts at the end.
    """
    n_rows, n_columns = kind.shape
    for sweep in range(n_sweeps):
        farthest = 0.0
        for side in range(2):
            for a in range(n_rows if side == 0 else n_columns):
                if (is_tied[a] == 0) if side == 0 else (is_free[a] == 1):
                    continue
                total, spread = 0.0, 0.0
                for b in range(n_columns if side == 0 else n_rows):
                    i, j = (a, b) if side == 0 else (b, a)
                    k = kind[i, j]
                    if first[k] == last[k]:
                        continue
                    tilt = min(most[k], max(least[k], rows[i] * columns[j]))
                    average, own_spread = moments(value[k], first[k], last[k], tilt)
                    total += average
                    spread += own_spread
                if spread <= 0.0:
                    continue
                step = min(_LONGEST_STEP, max(-_LONGEST_STEP, -total / spread))
                farthest = max(farthest, abs(step))
                factor = (1.0 + step / 2.0) / (1.0 - step / 2.0)
                # No pair may leave the limits of its kind: one that did would hold all others back later.
                low, high = 1e-3, 1e3
                for b in range(n_columns if side == 0 else n_rows):
                    i, j = (a, b) if side == 0 else (b, a)
                    k = kind[i, j]
                    if first[k] != last[k]:
                        other = columns[j] if side == 0 else rows[i]
                        low, high = max(low, least[k] * _MARGIN / other), min(high, most[k] / _MARGIN / other)
                if low > high:
                    continue
                if side == 0:
                    rows[a] = min(high, max(low, rows[a] * factor))
                else:
                    columns[a] = min(high, max(low, columns[a] * factor))
        if farthest < 1e-3 and sweep > 0:
            break
    for i in range(n_rows):
        for j in range(n_columns):
            k = kind[i, j]
            tilt = min(most[k], max(least[k], rows[i] * columns[j]))
            mean[i, j], variance[i, j] = moments(value[k], first[k], last[k], tilt)


# A table with both margins given, around counts that need not have them, under squared noise: tilts and weights.
#
# Only additions, products, quotients, comparisons and square roots of doubles: the same bits on every machine.

_FAR = 5.5  # deviations: from there on a limit is not felt
_TILT = 2.0**24  # tilts have so many digits: the product of two is a double
_NEAR_ENOUGH = 0.02
_LEAST_TAIL = 2.0**-1000


@kernel
def cell_moments(centre: float, most: int, variance: float) -> tuple[float, float]:
    """Return mean and variance of a count between 0 and `most` whose weights fall with the square, about."""
    far = _FAR * math.sqrt(variance)
    if variance > 0.5 and centre > far and most - centre > far:
        return centre, variance
    mode = min(max(math.floor(centre + 0.5), 0.0), float(most))
    fall = exp_e(-1.0 / variance)
    mass, first, second = 1.0, 0.0, 0.0
    weight, ratio = 1.0, exp_e(max(-600.0, -(2.0 * (mode - centre) + 1.0) / (2.0 * variance)))
    for step in range(1, most - int(mode) + 1):
        weight *= ratio
        ratio *= fall
        mass += weight
        first += weight * step
        second += weight * step * step
        if weight < 1e-12:
            break
    weight, ratio = 1.0, exp_e(max(-600.0, (2.0 * (mode - centre) - 1.0) / (2.0 * variance)))
    for step in range(1, int(mode) + 1):
        weight *= ratio
        ratio *= fall
        mass += weight
        first -= weight * step
        second += weight * step * step
        if weight < 1e-12:
            break
    first /= mass
    return mode + first, max(second / mass - first * first, 0.0)


@kernel
def settle_shifts(
    counts: Ints, row_sum: Ints, column_sum: Ints, variance: float, n_sweeps: int, rows: Floats, columns: Floats
) -> None:
    """Move the centres of rows and columns until means add up to about what they must: Newton's method, in turns.

    Any shifts give the same law; these make acceptance likely. A mean moves by no more than its centre, so the gap over
    the number of cells is a step that is never too long; a longer one is cut to a deviation. (Twice that gap was tried:
    at precise noise, whose variance is nearly 0 at whole centres, it turned every gap into its opposite, for ever.)
    """
    n_rows, n_columns = counts.shape
    deviation = math.sqrt(variance)
    for _ in range(n_sweeps):
        worst = 0.0
        for side in range(2):
            n, across = (n_rows, n_columns) if side == 0 else (n_columns, n_rows)
            for a in range(n):
                total, spread = 0.0, 0.0
                for b in range(across):
                    i, j = (a, b) if side == 0 else (b, a)
                    most = min(row_sum[i], column_sum[j])
                    mean, own_spread = cell_moments(counts[i, j] + rows[i] + columns[j], most, variance)
                    total += mean
                    spread += own_spread
                gap = (row_sum[a] if side == 0 else column_sum[a]) - total
                worst = max(worst, abs(gap) / math.sqrt(spread + 1e-6))
                most_step = max(abs(gap) / across, deviation)
                step = min(most_step, max(-most_step, gap * variance / (spread + 1e-9)))
                if side == 0:
                    rows[a] += step
                else:
                    columns[a] += step
        if worst < _NEAR_ENOUGH:
            break


@kernel
def split_shifts(shifts: Floats, variance: float, whole: Ints, tilts: Floats) -> None:
    """Split shifts into whole numbers, which move centres, and tilts of few digits for what is left."""
    for a in range(shifts.size):
        whole[a] = np.int64(math.floor(shifts[a] + 0.5))
        mantissa, exponent = math.frexp(exp_e((shifts[a] - whole[a]) / variance))
        tilts[a] = math.ldexp(math.floor(mantissa * _TILT + 0.5) / _TILT, exponent)


@kernel
def _fall_of(noise: LevelNoise, distance: int) -> tuple[float, int]:
    """Return ``base ** (2 distance)``, and how many rounding units it may be off by."""
    out, units, power, place = 1.0, 0, 2 * distance, 0
    while power > 0:
        if power & 1:
            out *= noise.powers[place]
            units += 3
        power >>= 1
        place += 1
    return out, units


@kernel
def tabulate_two_way(
    noise: LevelNoise,
    centres: Ints,  # (row, column) counts moved by whole shifts
    row_sum: Ints,
    column_sum: Ints,
    row_tilts: Floats,
    column_tilts: Floats,
    value: Floats,  # (cell, place)
    first: Ints,  # (cell)
    last: Ints,
    low: Floats,  # (row, column)
    high: Floats,
    anchor: Ints,
    tail: Floats,  # (row, column, side)
    mean: Floats,
    variance: Floats,
) -> float:
    """Write the tilted weights of every cell, 1 at its anchor; return how many rounding units they may be off by.

    The anchor is the deviation nearest to 0 that limits allow. Weights are made step by step away from it, by ratios
    ``base ** (2 distance) base ** (2 step + 1)`` and the tilt; beyond the last one ratios only fall.
    """
    n_rows, n_columns = centres.shape
    worst = 0.0
    for i in range(n_rows):
        for j in range(n_columns):
            cell, tilt = i * n_columns + j, row_tilts[i] * column_tilts[j]
            least, most = -centres[i, j], min(row_sum[i], column_sum[j]) - centres[i, j]
            at = min(max(0, least), most)
            low[i, j], high[i, j], anchor[i, j] = least, most, at
            start, units = _fall_of(noise, abs(at))
            per_step, n_steps = 8.0 + units, 0
            # Downward first, backwards into the row; then upward.
            n_below, weight, tail[i, j, 0] = 0, 1.0, 0.0
            weights = value[cell]
            while at - n_below > least:
                ratio = start * noise.ratios[n_below] / tilt
                following = weight * ratio
                if following < LEAST or n_below == noise.side:
                    tail[i, j, 0] = max(1.001 * following / (1.0 - ratio), _LEAST_TAIL)
                    break
                weight = following
                weights[n_below] = weight
                n_below += 1
            for a in range(n_below // 2):
                weights[a], weights[n_below - 1 - a] = weights[n_below - 1 - a], weights[a]
            weights[n_below] = 1.0
            n_above, weight, tail[i, j, 1] = 0, 1.0, 0.0
            while at + n_above < most:
                ratio = start * noise.ratios[n_above] * tilt
                following = weight * ratio
                if following < LEAST or n_above == noise.side:
                    tail[i, j, 1] = max(1.001 * following / (1.0 - ratio), _LEAST_TAIL)
                    break
                weight = following
                n_above += 1
                weights[n_below + n_above] = weight
            n_steps = max(n_below, n_above)
            worst = max(worst, per_step * n_steps + 8.0)
            first[cell], last[cell] = at - n_below, at + n_above
            mass, total, squares = 0.0, 0.0, 0.0
            for a in range(n_below + n_above + 1):
                x = a - n_below
                mass += weights[a]
                total += weights[a] * x
                squares += weights[a] * x * x
            total /= mass
            mean[i, j], variance[i, j] = at + total, max(0.0, squares / mass - total * total)
    return worst
