"""How far partial sums can stray: windows outside of which less than ``exp(-nats)`` of the unconstrained mass lies.

The lengths of windows decide the order in which cells are drawn, so they are the same on every machine.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil, inf, sqrt

from congenial.noise.weight import NoiseWeight
from congenial.portable_math import exp_e, log_e

_STEPS = 44  # theta to eight digits, so the bound to sixteen


def half_width(terms: Iterable[tuple[NoiseWeight, int]], nats: float) -> int | None:
    """Return W with ``P(|sum coefficient * v| > W) <= exp(-nats)`` for independent deviations v; None: no limit.

    Chernoff's bound, ``2 exp(-theta (W + 1)) prod E exp(theta coefficient v)``, at the best theta. Conditions on the
    deviations and soft rows only remove mass, so it bounds what a window of a message can miss.

    Examples
    --------
    >>> from fractions import Fraction
    >>> [half_width([(NoiseWeight(linear=Fraction(1, 2)), 1)], nats) for nats in (10.0, 20.0)]
    [19, 34]
    """
    return half_width_of(Counter((weight, abs(coefficient)) for weight, coefficient in terms), nats)


def half_width_of(counted: Mapping[tuple[NoiseWeight, int], int], nats: float) -> int | None:
    """Return the same where deviations of one weight and coefficient, which is above 0, are counted already."""
    return _half_width(tuple(sorted(counted.items(), key=repr)), nats)


@lru_cache(maxsize=4096)
def _half_width(counted: tuple[tuple[tuple[NoiseWeight, int], int], ...], nats: float) -> int | None:
    if any(weight.is_flat for (weight, _), _ in counted):
        return None
    if not counted:
        return 0

    def bound(theta: float) -> float:
        total = nats + log_e(2.0)
        for (weight, coefficient), times in counted:
            total += times * weight.log_moment(theta * coefficient)
        return total / theta

    limit = min(weight.largest_theta / coefficient for (weight, coefficient), _ in counted)
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
