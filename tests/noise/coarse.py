"""A family of one's own, as a test would add it: geometric noise whose base is a multiple of 2^-30.

It inherits from no other family, so whatever still asks which family a noise is cannot mistake it for one.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp, log, log1p

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.decisions import exact_choice
from congenial.noise import DiscreteNoise
from congenial.randomness import RandomStream

GRAIN = 2**30


@dataclass(frozen=True, init=False)
class Coarse(DiscreteNoise):
    """Weight ``base ** |u|``, the base rounded up to a multiple of 2^-30."""

    family = "coarse"
    title = "Coarse Geometric"
    most = Fraction(20)  # exp(-20) is a few grains
    exponent = 1
    currency = "epsilon"

    @cached_property
    def base(self) -> Fraction:
        # exp and the product are each off by less than 2^-20 of a grain here, so one grain more is surely above.
        return Fraction(int(exp(-self.precision) * GRAIN) + 1, GRAIN)

    def log_pmf(self, u: ArrayLike) -> Floats:
        a = float(self.base)
        return self.log_weight(u) + log1p(-a) - log1p(a)

    def _tail(self, u: Ints) -> Floats:
        return np.asarray(np.exp((u + 1) * self.log_base - log1p(float(self.base))))

    def _nearby_quantile(self, v: Floats) -> Ints:
        smaller = np.minimum(v, 1 - v)
        size = np.floor((np.log(smaller) + log1p(float(self.base))) / self.log_base).astype(np.int64)
        return np.where(v < 0.5, -size, size)

    def moment(self, order: int) -> float:
        reach = int(800 / -self.log_base) + 10 * order
        u = np.arange(reach, 0, -1, dtype=float)
        if order == 0:
            return 1.0
        return 0.0 if order % 2 else 2 * float(np.sum(np.exp(order * np.log(u) + self.log_pmf(u))))

    def sample(self, n: int, rng: RandomStream) -> Ints:
        outcome = exact_choice(self._cdf_bounds, n, rng)  # 0, 1, 2, ... stand for 0, 1, -1, 2, -2, ...
        return np.where(outcome % 2 == 1, (outcome + 1) // 2, -(outcome // 2))

    def _cdf_bounds(self, bits: int) -> tuple[list[int], list[int]]:
        """Beyond k = 1, 2, ... lies a^k, beyond -k 2 a^(k + 1) / (1 + a); in whole numbers, for fractions take long."""
        scale, (a, grain) = 2**bits, self.base.as_integer_ratio()
        beyond, power, of = [(2 * a, grain + a)], 1, 1
        for _ in range(int(bits * log(2) / -self.log_base) + 4):
            power, of = power * a, of * grain
            beyond += [(power, of), (2 * power * a, of * (grain + a))]
        return [scale + -scale * n // whole for n, whole in beyond], [scale - scale * n // whole for n, whole in beyond]
