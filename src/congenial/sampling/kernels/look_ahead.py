"""Bounds of what is still to come in a column: norms of Fourier transforms that never fall short."""

import numpy as np

from congenial.arrays import Floats
from congenial.sampling.jit import kernel
from congenial.sampling.kernels.steady_powers import exp_e, log_e

_SMALL = 2.0**-44  # what is left out is added to the bound: next to nothing, and half of the terms
_FLUSH = 1e-280  # more than underflow takes of a sum; every partial sum that is tabulated can be reached


@kernel
def look_ahead(
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
    room, real, imaginary, power = (
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
            room[a] = value
            mass += value
            top = max(top, value)
        if mass == 0.0:
            out[place] = tail * inflation + _FLUSH
            continue
        begin, end, rest = 0, n, tail
        while room[begin] < _SMALL * top:
            rest += room[begin]
            begin += 1
        while room[end - 1] < _SMALL * top:
            end -= 1
            rest += room[end]
        if share == 0.0 or end - begin == 1:
            out[place] = (mass + tail) * inflation + _FLUSH
            continue
        real[:] = 0.0
        imaginary[:] = 0.0
        for a in range(begin, end):
            value, at = room[a] / mass, (first + a) % n_points
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
