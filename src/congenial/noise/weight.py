"""The weight of a deviation under noise: all that samplers know of a law of noise."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import inf, sqrt
from typing import Any

import flint

from congenial.errors import SamplingError, TooLargeError
from congenial.exact import ball, log_of
from congenial.portable_math import exp_e, exp_minus_1, log_1_plus, log_e

MOST_POWER = 4096


@dataclass(frozen=True)
class NoiseWeight:
    """The weight ``linear ** |v| * quadratic ** (v * v)`` of a deviation v, both bases rational, at most 1.

    Samplers go by its methods, never by its bases: a weight with another tail is a subclass that has its own. It is
    even, 1 at 0 and log-concave, so that the ratio of neighbours falls with distance. Numbers that decide in which
    order cells are drawn are the same on every machine.

    Attributes
    ----------
    zero_weight : Fraction
        What the weight of a cell's lower limit is multiplied by, wherever the cell is centred; at least 1.

    Examples
    --------
    >>> NoiseWeight(linear=Fraction(1, 2)).at(-3)
    Fraction(1, 8)
    """

    linear: Fraction = Fraction(1)
    quadratic: Fraction = Fraction(1)
    zero_weight: Fraction = Fraction(1)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Of three fractions it takes a microsecond each time, and samplers ask for every cell of every table.
        return hash((self.linear, self.quadratic, self.zero_weight))

    @cached_property
    def is_flat(self) -> bool:
        """Whether the weight is 1 everywhere: nothing was measured."""
        return self.linear == self.quadratic == 1

    @property
    def ratio(self) -> Fraction | None:
        """The ratio of a geometric weight, 1 of a flat one; None of any other."""
        return self.linear if self.quadratic == 1 else None

    def __mul__(self, other: "NoiseWeight") -> "NoiseWeight":
        """Return the product: the weight of a cell that is measured twice."""
        if self.is_flat and self.zero_weight == 1:
            return other
        if not type(self) is type(other) is NoiseWeight:
            raise SamplingError(f"a cell measured twice has no {type(self).__name__} times {type(other).__name__} here")
        linear, quadratic = self.linear * other.linear, self.quadratic * other.quadratic
        return NoiseWeight(linear, quadratic, self.zero_weight * other.zero_weight)

    def stretched(self, factor: int) -> "NoiseWeight":
        """Return the weight as a function of v when the deviation is ``factor * v``."""
        power = factor * factor if self.quadratic < 1 else abs(factor)
        if power > MOST_POWER:
            raise TooLargeError(
                f"a measured query of one cell has coefficient {factor:,}, too large to hold its noise as an exact"
                " fraction; measure the cell itself, at a higher precision"
            )
        return replace(self, linear=self.linear ** abs(factor), quadratic=self.quadratic ** (factor * factor))

    def at(self, deviation: int, *, is_limit: bool = False) -> Fraction:
        """Return the weight at a deviation, which may be that of the lower limit, exactly."""
        weight = self.linear ** abs(deviation) * self.quadratic ** (deviation * deviation)
        return self.zero_weight * weight if is_limit else weight

    def enclosures(self, deviations: Iterable[int], anchor: int = 0) -> list[flint.arb]:
        """Return the weights at some deviations, in parts of that of the anchor, as balls at the working precision."""
        linear, quadratic, size = ball(self.linear), ball(self.quadratic), abs(anchor)
        return [linear ** (abs(v) - size) * quadratic ** (v * v - size * size) for v in deviations]

    def doubles(self, most: int) -> list[float]:
        """Return the weights at 0, 1, ... up to `most`, each within a unit in the last place.

        Examples
        --------
        >>> NoiseWeight(linear=Fraction(1, 2)).doubles(3)
        [1.0, 0.5, 0.25, 0.125]
        """
        with flint.ctx.workprec(192):
            return [float(weight.mid()) for weight in self.enclosures(range(most + 1))]

    def log_at(self, size: Any, log_tilt: float = 0.0) -> Any:
        """Return the log weight at deviations of some size, doubles; tilted away from 0 by so much for each unit."""
        return size * (log_base(self.linear) + log_tilt) + size * size * log_base(self.quadratic)

    def log_ratio(self, size: int) -> float:
        """Return the log of how much less the next weight is than that of a deviation of so many, away from 0."""
        return log_base(self.linear) + (2 * size + 1) * log_base(self.quadratic)

    def distance(self, nats: float) -> float:
        """Return the deviation at which the weight has fallen to ``exp(-nats)``; infinite for a flat one."""
        distances = [inf]
        if self.linear < 1:
            distances.append(nats / -log_base(self.linear))
        if self.quadratic < 1:
            distances.append(sqrt(nats / -log_base(self.quadratic)))
        return min(distances)

    @property
    def largest_theta(self) -> float:
        """The theta from which on ``E exp(theta v)`` is infinite."""
        return -log_base(self.linear) if self.quadratic == 1 else inf

    def log_moment(self, theta: float) -> float:
        """Return a bound of ``log E exp(theta v)`` for a deviation v with this weight.

        Exact for a geometric weight; ``theta^2 sigma^2 / 2`` for a discrete Gaussian (Canonne, Kamath and Steinke
        2020). With both factors the smaller one holds: the other is even and falls with ``|v|``, so it only pulls mass
        inward.
        """
        bounds = [inf]
        if self.linear < 1:
            log_a = log_base(self.linear)
            if theta < -log_a:
                two_sides = _log_missing(log_a + theta) + _log_missing(log_a - theta)
                bounds.append(2 * _log_missing(log_a) - two_sides)
        if self.quadratic < 1:
            bounds.append(theta * theta / (-4 * log_base(self.quadratic)))
        return min(bounds)

    def log_mass(self, n_values: float = inf) -> float:
        """Return the log of a bound of the summed weights over all integers, or over so many; infinite for a flat one.

        Without a zero weight no weight is above 1. That multiplies one weight, which was at most 1. (In `log_moment` it
        may be left aside: adding the same to a moment and to the mass that it is divided by makes the quotient
        smaller.)
        """
        log_size = min(self._log_mass, log_e(n_values))
        if self.zero_weight == 1 or log_size == inf:
            return log_size
        return log_e(exp_e(log_size) + float(self.zero_weight) - 1)

    @property
    def _log_mass(self) -> float:
        bounds = [inf]
        if self.linear < 1:
            bounds.append(log_1_plus(float(self.linear)) - log_1_plus(-float(self.linear)))
        if self.quadratic < 1:
            # sum exp(-v^2 / 2 s^2) <= 1 + s sqrt(2 pi)
            bounds.append(log_1_plus(sqrt(3.1416 / -log_base(self.quadratic))))
        return min(bounds)


FLAT = NoiseWeight()
"""The weight of what is not measured: 1 everywhere."""


@lru_cache(maxsize=4096)
def log_base(base: Fraction) -> float:
    """Return the logarithm of a base, however small."""
    return log_of(base)


@lru_cache(maxsize=256)
def _log_missing(x: float) -> float:
    """Return ``log(1 - exp(x))`` for x below 0, however close to it."""
    return log_1_plus(-exp_e(x)) if x < -1 else log_e(-exp_minus_1(x))
