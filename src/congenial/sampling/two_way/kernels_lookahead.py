"""Bounds of all that may follow a row, column by column, from the last row back (docs/claims/rejection.md, 3)."""

import math
from typing import Any

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.sampling.jit import kernel
from congenial.sampling.kernel_scaled_floats import exp_e, log_e
from congenial.sampling.two_way.weights_and_buffers import FEWEST_POINTS, MOST_POINTS, LaterBounds

# Bounds of what is still to come in a column: norms of Fourier transforms that never fall short.

_SMALL = 2.0**-44  # what is left out is added to the bound: next to nothing, and half of the terms
_FLUSH = 1e-280  # more than underflow takes of a sum; every partial sum that is tabulated can be reached


@kernel
def bound_later_rows(
    weights: Floats,
    first: int,
    tail: float,
    after: Floats,
    after_low: int,
    after_below: float,
    after_above: float,
    low: int,
    cosines: Floats,  # (place, frequency)
    sines: Floats,
    share: float,
    inflation: float,
    out: Floats,
) -> None:
    """Write a bound of ``|| sum_x w(x) g(u + x) e^(i x theta) ||`` for each partial sum u from `low` on.

    The norm is that of exponent ``1 / share``, between the two even exponents around it; a share of 0 is the largest
    value, at theta = 0. `tail` bounds the weights outside the window, where the bound after it is at most 1.
    """
    n, n_points, n_frequencies = weights.size, cosines.shape[0], cosines.shape[1]
    terms, real, imaginary, power = (
        np.empty(n),
        np.empty(n_frequencies),
        np.empty(n_frequencies),
        np.empty(n_frequencies),
    )
    for place in range(out.size):
        u = low + place
        mass, top = 0.0, 0.0
        for a in range(n):
            k = u + first + a - after_low
            value = weights[a] * (after_below if k < 0 else after_above if k >= after.size else after[k])
            terms[a] = value
            mass += value
            top = max(top, value)
        if mass == 0.0:
            out[place] = tail * inflation + _FLUSH
            continue
        begin, end, rest = 0, n, tail
        while terms[begin] < _SMALL * top:
            rest += terms[begin]
            begin += 1
        while terms[end - 1] < _SMALL * top:
            end -= 1
            rest += terms[end]
        if share == 0.0 or end - begin == 1:
            out[place] = (mass + tail) * inflation + _FLUSH
            continue
        real[:] = 0.0
        imaginary[:] = 0.0
        for a in range(begin, end):
            value, at = terms[a] / mass, (first + a) % n_points
            for f in range(n_frequencies):
                real[f] += value * cosines[at, f]
                imaginary[f] += value * sines[at, f]
        for f in range(n_frequencies):
            real[f] = real[f] * real[f] + imaginary[f] * imaginary[f]
        half = int(0.5 / share)
        between = 0.5 / share - half
        lower, upper = _mean_power(real, half, power), 0.0
        for f in range(n_frequencies):
            power[f] *= real[f]
        upper = _mean(power)
        log_norm = share * ((1.0 - between) * log_e(lower) + between * log_e(upper))
        out[place] = (mass * exp_e(log_norm) + rest) * inflation + _FLUSH


@kernel
def _mean(values: Floats) -> float:
    """Return the mean over the circle of what is given for half of it, ends included."""
    total = 0.0
    for f in range(1, values.size - 1):
        total += values[f]
    mean: float = (values[0] + 2.0 * total + values[-1]) / (2.0 * (values.size - 1))
    return mean


@kernel
def _mean_power(values: Floats, exponent: int, power: Floats) -> float:
    """Return the mean of a whole power, which is left in `power`."""
    power[:] = 1.0
    bit = 1
    while 2 * bit <= exponent:
        bit *= 2
    while exponent > 0 and bit > 0:
        for f in range(values.size):
            power[f] *= power[f]
        if exponent & bit:
            for f in range(values.size):
                power[f] *= values[f]
        bit //= 2
    return _mean(power)


_LEAST = 2.0**-1000
_BOUND_FLUSH = 1e-280
_SMALLEST_SHARE = 1 / 256
_SHARE_STEPS = 2**20
_DEVIATIONS = 7.0
_N_KEYS = 6
_FREE, _LAST = -1, -2


@kernel
def shares_of(variance: Floats, rest: Floats, shares: Floats) -> None:
    """Write the shares of columns in a row's bound: of the variance given what follows; in all at most 1."""
    n = variance.size
    for j in range(n):
        shares[j] = 0.0
        if variance[j] > 0.0:
            shares[j] = variance[j] if rest[j] == np.inf else variance[j] * rest[j] / (variance[j] + rest[j])
    for _ in range(4):
        total = 0.0
        for j in range(n):
            total += shares[j]
        if total <= 0.0:
            return
        some = False
        for j in range(n):
            shares[j] /= total
            some |= shares[j] >= _SMALLEST_SHARE
        if some:
            for j in range(n):
                if shares[j] < _SMALLEST_SHARE:
                    shares[j] = 0.0
    total = 0.0
    for j in range(n):
        total += shares[j]
    for j in range(n):
        shares[j] = math.floor(shares[j] / total * _SHARE_STEPS * (1.0 - 1e-12)) / _SHARE_STEPS


@kernel
def points_of(variance: float, share: float) -> int:
    """Return over how many points of the circle a norm is taken, as a power of two: fewer would make it larger."""
    aim = 24.0 + 9.0 * math.sqrt(variance / max(share, _SMALLEST_SHARE)) if share > 0.0 else 2.0
    points, power = FEWEST_POINTS, 0
    while points < aim and points < MOST_POINTS:
        points *= 2
        power += 1
    return power


@kernel
def _spread(weights: Floats, first: int) -> float:
    """Return the variance of a deviation with these weights."""
    mass, mean, square = 0.0, 0.0, 0.0
    for a in range(weights.size):
        mass += weights[a]
        mean += weights[a] * (first + a)
        square += weights[a] * (first + a) * (first + a)
    mean /= mass
    return max(0.0, square / mass - mean * mean)


@kernel
def _beyond(
    weights: Floats, first: int, after: Floats, low: int, below: float, above: float, u: int, step: int
) -> float:
    """Return a bound of ``sum_x w(x) g(y + x)`` for all y from u on, downward or upward: g's largest value so far.

    With the mass of the weights in place of it, 1 outside a window would outweigh 10^-26 inside, from 60 rows on.
    """
    n, largest = after.size, np.empty(after.size + 1)
    largest[0] = below if step < 0 else above
    for k in range(n):
        largest[k + 1] = max(largest[k], after[k] if step < 0 else after[n - 1 - k])
    end = max(largest[n], above if step < 0 else below)
    total = 0.0
    for a in range(weights.size):
        inside = u + first + a - low + 1
        place = inside if step < 0 else n + 1 - inside
        total += weights[a] * (largest[0] if place < 0 else largest[place] if place <= n else end)
    return total


@kernel
def _slot(keys: Ints, key: Ints) -> int:
    """Return where a key stands in a table of keys, or the empty place where it would."""
    mixed = np.uint64(1469598103934665603)
    for part in range(_N_KEYS):
        mixed = (mixed ^ np.uint64(key[part])) * np.uint64(1099511628211)
        mixed ^= mixed >> np.uint64(29)
    size = keys.shape[0]
    place = np.int64(mixed % np.uint64(size))
    while keys[place, _N_KEYS] >= 0:
        same = True
        for part in range(_N_KEYS):
            same &= keys[place, part] == key[part]
        if same:
            break
        place = np.int64((place + 1) % size)
    return int(place)


@kernel
def backward(
    weights: Any,  # TabulatedWeights, tilted
    kind: Ints,  # (row, column) the weights of a cell
    tail: Floats,  # (row, column, side) what they have below and above their window
    low: Floats,  # (row, column) the limits of a cell, infinite where there is none
    high: Floats,
    mean: Floats,  # (row, column) of a cell under its tilt
    variance: Floats,
    is_free: Ints,  # (column) whether nothing holds its sum
    column_sum: Ints,  # (column)
    margin: Floats,  # (column) how much farther than seven deviations a column's partial sums are tabulated
    cosines: tuple[Floats, ...],
    sines: tuple[Floats, ...],
    inflation: float,
) -> Any:
    """Return the bounds before every row: columns that are alike from a row on share them."""
    n_rows, n_columns = kind.shape
    number, start, lowest, size = (
        np.zeros((n_rows, n_columns), np.int64),
        np.zeros((n_rows, n_columns), np.int64),
        np.zeros((n_rows, n_columns), np.int64),
        np.ones((n_rows, n_columns), np.int64),
    )
    below, above = np.zeros((n_rows, n_columns)), np.zeros((n_rows, n_columns))
    shift, rest, is_open = np.zeros(n_rows, np.int64), np.empty(n_columns), np.zeros((n_rows, n_columns), np.int64)
    later_variance = np.zeros((n_rows, n_columns))  # variance of the rows after each
    for j in range(n_columns):
        _span(j, low, high, mean, variance, is_free, column_sum, margin, later_variance, lowest, size, is_open)
        k = kind[-1, j]
        if is_free[j] == 0:
            lowest[-1, j], size[-1, j] = (
                column_sum[j] - weights.last[k],
                weights.last[k] - weights.first[k] + 1,
            )
    value = np.empty(size.sum())
    n_bounds = n_rows * n_columns
    keys, key = np.full((2 * n_bounds + 1, _N_KEYS + 1), -1, np.int64), np.empty(_N_KEYS, np.int64)
    ends, exponents = np.zeros((n_bounds, 2)), np.zeros(n_bounds, np.int64)
    starts = np.zeros(n_bounds, np.int64)
    n_made, n_used, shares = 0, 0, np.empty(n_columns)
    for i in range(n_rows - 1, -1, -1):
        for j in range(n_columns):
            rest[j] = np.inf if is_free[j] == 1 else later_variance[i, j]
        shares_of(variance[i], rest, shares)
        for j in range(n_columns):
            k, n = kind[i, j], size[i, j]
            if i == n_rows - 1:
                key[0], key[1] = (_FREE, 0) if is_free[j] == 1 else (_LAST, k)
                key[2], key[3], key[4], key[5] = lowest[i, j], 0, 0, 0
            else:
                key[0], key[1], key[2] = k, np.int64(shares[j] * _SHARE_STEPS), lowest[i, j]
                key[3], key[4], key[5] = n, is_open[i, j], number[i + 1, j]
            place = _slot(keys, key)
            if keys[place, _N_KEYS] < 0:
                out = value[n_used : n_used + n]
                if i == n_rows - 1:
                    below_, above_ = _last(weights, k, is_free[j], tail[i, j], inflation, out)
                else:
                    at, first = starts[number[i + 1, j]], weights.first[k]
                    after = value[at : at + size[i + 1, j]]
                    cell_weights = weights.value[k, : weights.last[k] - first + 1]
                    spread = _spread(cell_weights, first)
                    if spread > 0.0 and rest[j] < np.inf:
                        spread = spread * rest[j] / (spread + rest[j])
                    power = points_of(spread, shares[j])
                    beyond = tail[i, j, 0] + tail[i, j, 1]
                    down, up = ends[number[i + 1, j], 0], ends[number[i + 1, j], 1]
                    begin, after_low = lowest[i, j], lowest[i + 1, j]
                    bound_later_rows(
                        cell_weights,
                        first,
                        beyond,
                        after,
                        after_low,
                        down,
                        up,
                        begin,
                        cosines[power],
                        sines[power],
                        shares[j],
                        inflation,
                        out,
                    )
                    if is_free[j] == 1:  # the same everywhere
                        below_, above_ = out[0], out[0]
                    else:
                        below_ = _beyond(cell_weights, first, after, after_low, down, up, begin - 1, -1)
                        above_ = _beyond(cell_weights, first, after, after_low, down, up, begin + n, 1)
                        below_ = (below_ + beyond) * inflation + _BOUND_FLUSH if is_open[i, j] & 1 else 0.0
                        above_ = (above_ + beyond) * inflation + _BOUND_FLUSH if is_open[i, j] & 2 else 0.0
                for part in range(_N_KEYS):
                    keys[place, part] = key[part]
                keys[place, _N_KEYS] = n_made
                exponents[n_made] = _scale(out, below_, above_, ends[n_made])
                starts[n_made] = n_used
                n_made += 1
                n_used += n
            bound = keys[place, _N_KEYS]
            number[i, j], start[i, j] = bound, starts[bound]
            below[i, j], above[i, j] = ends[bound, 0], ends[bound, 1]
            shift[i] -= exponents[bound]
    return LaterBounds(value[:n_used].copy(), start, lowest, size, below, above, shift)


@kernel
def _span(
    j: int,
    low: Floats,
    high: Floats,
    mean: Floats,
    variance: Floats,
    is_free: Ints,
    column_sum: Ints,
    margin: Floats,
    later_variance: Floats,
    lowest: Ints,
    size: Ints,
    is_open: Ints,
) -> None:
    """Write where the bounds of a column are tabulated: as far as rows before and after allow, and sums stray."""
    n_rows = low.shape[0]
    least, most, after = float(column_sum[j]), float(column_sum[j]), 0.0
    for i in range(n_rows - 1, -1, -1):  # what is to come lies between minus these
        later_variance[i, j] = after
        after += variance[i, j]
        least -= high[i, j]
        most -= low[i, j]
        is_open[i, j] = 3
        if is_free[j] == 0:
            lowest[i, j] = np.int64(max(least, -(2.0**60)))
            size[i, j] = np.int64(min(most, 2.0**60))
    if is_free[j] == 1:
        return
    smallest, largest, middle, before = 0.0, 0.0, 0.0, 0.0
    for i in range(n_rows):
        least, most = float(lowest[i, j]), float(size[i, j])
        first, last = max(least, smallest), min(most, largest)
        spread = before * after / (before + after) if before > 0.0 and after > 0.0 else 0.0
        far = _DEVIATIONS * math.sqrt(spread) + margin[j]
        begin, end = max(first, math.floor(middle - far + 0.5)), min(last, math.floor(middle + far + 0.5))
        if begin > end:
            begin = min(max(math.floor(middle + 0.5), first), last)
            end = begin
        is_open[i, j] = (1 if begin > least else 0) + (2 if end < most else 0)
        lowest[i, j], size[i, j] = np.int64(begin), np.int64(end - begin) + 1
        smallest += low[i, j]
        largest += high[i, j]
        middle += mean[i, j]
        before += variance[i, j]
        after = max(0.0, after - variance[i, j])


@kernel
def _last(weights: Any, k: int, is_free: int, tail: Floats, inflation: float, out: Floats) -> tuple[float, float]:
    """Write the bound before the last row, which makes up for a column's sum; return those outside of it."""
    if is_free == 1:
        out[0] = 1.0
        return 1.0, 1.0
    n = weights.last[k] - weights.first[k] + 1
    for a in range(n):
        out[a] = weights.value[k, n - 1 - a] * inflation
    return tail[1], tail[0]


@kernel
def _scale(value: Floats, below: float, above: float, ends: Floats) -> int:
    """Scale a bound by a power of two to be at most 1, and never down to nothing; return the power."""
    top = max(below, above)
    for a in range(value.size):
        top = max(top, value[a])
    exponent = math.frexp(top)[1]
    scale = math.ldexp(1.0, -exponent)
    for a in range(value.size):
        value[a] = max(value[a] * scale, _LEAST)
    ends[0] = max(below * scale, _LEAST) if below > 0.0 else 0.0
    ends[1] = max(above * scale, _LEAST) if above > 0.0 else 0.0
    return exponent
