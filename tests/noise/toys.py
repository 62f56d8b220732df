"""Families of one's own, as a test would add them: one with a known tail and another base, one with another tail.

They inherit from no other family, so whatever still asks which family a noise is cannot mistake them for one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import exp
from typing import Any

import flint
import numpy as np

from congenial.errors import SamplingError
from congenial.exact import ball
from congenial.noise import DiscreteNoise, NoiseWeight
from congenial.noise.weight import log_base
from congenial.portable_math import exp_e, log_e

GRAIN = 2**30
KNEE = 2


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


@dataclass(frozen=True, init=False)
class Huber(DiscreteNoise):
    """Weight ``base ** power(u)``, where the power is ``u ** 2`` up to the knee and goes on in a straight line."""

    family = "huber"
    title = "Huber"
    exponent = 1
    currency = "epsilon"

    def power(self, u: Any) -> Any:
        return _power(np.abs(u))

    @property
    def weight(self) -> NoiseWeight:
        return HuberWeight(quadratic=self.base)


def _power(size: Any) -> Any:
    return np.where(size <= KNEE, size * size, 2 * KNEE * size - KNEE * KNEE)


@dataclass(frozen=True)
class HuberWeight(NoiseWeight):
    """The weight ``quadratic ** power(v)``: all that samplers have to know of the tail."""

    __hash__ = NoiseWeight.__hash__

    @property
    def ratio(self) -> None:
        return None

    def stretched(self, factor: int) -> NoiseWeight:
        if abs(factor) != 1:
            raise SamplingError(f"a coefficient of {factor} bends the weight elsewhere")
        return self

    def at(self, deviation: int, *, is_limit: bool = False) -> Fraction:
        weight = self.quadratic ** int(_power(abs(deviation)))
        return self.zero_weight * weight if is_limit else weight

    def enclosures(self, deviations: Iterable[int], anchor: int = 0) -> list[flint.arb]:
        base, at_anchor = ball(self.quadratic), int(_power(abs(anchor)))
        return [base ** (int(_power(abs(v))) - at_anchor) for v in deviations]

    def log_at(self, size: Any, log_tilt: float = 0.0) -> Any:
        return _power(size) * log_base(self.quadratic) + size * log_tilt

    def log_ratio(self, size: int) -> float:
        return float(self.log_at(size + 1) - self.log_at(size))

    def distance(self, nats: float) -> float:
        power = nats / -log_base(self.quadratic)
        return float(power**0.5 if power <= KNEE * KNEE else (power + KNEE * KNEE) / (2 * KNEE))

    @property
    def largest_theta(self) -> float:
        return -2 * KNEE * log_base(self.quadratic)

    def log_moment(self, theta: float) -> float:
        return log_e(self._sum(theta) / self._sum(0.0)) + 1e-9

    @property
    def _log_mass(self) -> float:
        return log_e(self._sum(0.0)) + 1e-9

    def _sum(self, theta: float) -> float:
        """Return the sum of ``w(v) exp(theta v)``: up to the knee one by one, then two geometric series."""
        inside = sum(exp_e(float(self.log_at(abs(v))) + theta * v) for v in range(-KNEE, KNEE + 1))
        ratios = [exp_e(sign * theta - self.largest_theta) for sign in (1, -1)]
        edges = [exp_e(float(self.log_at(KNEE)) + sign * theta * KNEE) for sign in (1, -1)]
        return inside + sum(edge * ratio / (1 - ratio) for edge, ratio in zip(edges, ratios, strict=True))
