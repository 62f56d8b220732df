"""How far partial sums can stray: windows outside of which less than ``exp(-nats)`` of the unconstrained mass lies.

The lengths of windows decide the order in which cells are drawn, so they are the same on every machine.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, inf, sqrt

from congenial.exact import log_of
from congenial.noise.base import Fall
from congenial.sampling.portable_math import exp_e, exp_minus_1, log_1_plus, log_e

_STEPS = 44  # theta to eight digits, so the bound to sixteen


def half_width(terms: Iterable[tuple[Fall, int]], nats: float) -> int | None:
    """Return W with ``P(|sum coefficient * v| > W) <= exp(-nats)`` for independent deviations v; None: no limit.

    Chernoff's bound, ``2 exp(-theta (W + 1)) prod E exp(theta coefficient v)``, at the best theta. Conditions on the
    deviations and soft rows only remove mass, so it bounds what a window of a message can miss.

    Examples
    --------
    >>> [half_width([(Fall(linear=Fraction(1, 2)), 1)], nats) for nats in (10.0, 20.0)]
    [19, 34]
    """
    return half_width_of(Counter((fall, abs(coefficient)) for fall, coefficient in terms), nats)


def half_width_of(counted: Mapping[tuple[Fall, int], int], nats: float) -> int | None:
    """Return the same where deviations of one fall and coefficient, which is above 0, are counted already."""
    return _half_width(tuple(sorted(counted.items(), key=repr)), nats)


@lru_cache(maxsize=4096)
def _half_width(counted: tuple[tuple[tuple[Fall, int], int], ...], nats: float) -> int | None:
    if any(fall.is_flat for (fall, _), _ in counted):
        return None
    if not counted:
        return 0

    def bound(theta: float) -> float:
        total = nats + log_e(2.0)
        for (fall, coefficient), times in counted:
            total += times * log_moment(fall, theta * coefficient)
        return total / theta

    limit = min(
        (-log_base(fall.linear) / coefficient for (fall, coefficient), _ in counted if fall.quadratic == 1), default=inf
    )
    high = limit if limit < inf else 1e6
    low = min(1e-12, high / 1e3)
    ratio = (sqrt(5.0) - 1) / 2
    # Golden section on log theta: the bound falls, then rises. Any theta gives a bound; near the best one it is flat.
    a, b = log_e(low), log_e(high)
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    at_c, at_d = bound(exp_e(c)), bound(exp_e(d))
    for _ in range(_STEPS):
        if at_c < at_d:
            b, d, at_d = d, c, at_c
            c = b - ratio * (b - a)
            at_c = bound(exp_e(c))
        else:
            a, c, at_c = c, d, at_d
            d = a + ratio * (b - a)
            at_d = bound(exp_e(d))
    return max(0, ceil(min(at_c, at_d) * (1 + 1e-9)) - 1)


@lru_cache(maxsize=4096)
def log_base(base: Fraction) -> float:
    """Return the logarithm of a base, however small."""
    return log_of(base)


def log_moment(fall: Fall, theta: float) -> float:
    """Return a bound of ``log E exp(theta v)``.

    Exact for a geometric fall; ``theta^2 sigma^2 / 2`` for a discrete Gaussian (Canonne, Kamath and Steinke 2020). With
    both factors the smaller one holds: the other is even and falls with ``|v|``, so it only pulls mass inward.
    """
    bounds = [inf]
    if fall.linear < 1:
        log_a = log_base(fall.linear)
        if theta < -log_a:
            two_sides = _log_missing(log_a + theta) + _log_missing(log_a - theta)
            bounds.append(2 * _log_missing(log_a) - two_sides)
    if fall.quadratic < 1:
        bounds.append(theta * theta / (-4 * log_base(fall.quadratic)))
    return min(bounds)


@lru_cache(maxsize=256)
def _log_missing(x: float) -> float:
    """Return ``log(1 - exp(x))`` for x below 0, however close to it."""
    return log_1_plus(-exp_e(x)) if x < -1 else log_e(-exp_minus_1(x))


def log_mass(fall: Fall) -> float:
    """Return the logarithm of a bound of the summed weights over all integers; infinite for a flat one.

    A floor multiplies one weight, which was at most 1. (In `half_width` it may be left aside: adding the same to a
    moment and to the mass that it is divided by makes the quotient smaller.)
    """
    bounds = [inf]
    if fall.linear < 1:
        bounds.append(log_1_plus(float(fall.linear)) - log_1_plus(-float(fall.linear)))
    if fall.quadratic < 1:
        # sum exp(-v^2 / 2 s^2) <= 1 + s sqrt(2 pi)
        bounds.append(log_1_plus(sqrt(3.1416 / -log_base(fall.quadratic))))
    return _with_floor(min(bounds), fall)


def log_mass_of(fall: Fall, n_values: float) -> float:
    """Return the same for a cell that has so many values at most; without a floor no weight is above 1."""
    return min(log_mass(fall), _with_floor(log_e(n_values), fall))


def _with_floor(log_size: float, fall: Fall) -> float:
    return (
        log_size if fall.zero_weight == 1 or log_size == inf else log_e(exp_e(log_size) + float(fall.zero_weight) - 1)
    )
