"""Laplace noise, the continuous twin: for study, never for a release."""

from dataclasses import dataclass
from fractions import Fraction
from math import factorial, log

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats
from congenial.noise.family import Noise, even_order, levels
from congenial.randomness import RandomStream


@dataclass(frozen=True, init=False)
class Laplace(Noise):
    """Density ``precision / 2 * exp(-precision * |u|)``.

    Doubles are not real numbers: which ones a float sampler can return depends on the confidential value
    (Mironov 2012), so no release is made with this noise. It is here to reproduce GM's continuous examples.

    Examples
    --------
    >>> Laplace("1/2").variance
    Fraction(8, 1)
    """

    family = "laplace"
    title = "Laplace"
    is_discrete = False
    is_for_release = False
    why_not_released = (
        "laplace noise is drawn in doubles, for study: which of them can come up depends on the confidential value"
    )
    exponent = 1
    currency = "epsilon"

    @property
    def log_base(self) -> float:
        """``-precision``."""
        return -float(self.precision)

    def log_weight(self, u: ArrayLike) -> Floats:
        """Return ``-precision * |u|``."""
        return self.log_base * np.abs(np.asarray(u, np.float64))

    def log_pmf(self, u: ArrayLike) -> Floats:
        """Return the log density."""
        return self.log_weight(u) + log(float(self.precision) / 2)

    def cdf(self, u: ArrayLike) -> Floats:
        """Return the distribution function."""
        tail = np.exp(self.log_weight(u)) / 2
        return np.where(np.asarray(u) < 0, tail, 1 - tail)

    def quantile(self, level: ArrayLike) -> Floats:
        """Return the inverse of the cdf."""
        v = levels(level)
        return np.where(v < 0.5, np.log(2 * v), -np.log(2 * (1 - v))) / float(self.precision)

    def moment(self, order: int) -> Fraction:
        """Return ``order! / precision ** order`` for even orders."""
        return Fraction(factorial(order)) / self.precision**order if even_order(order) else Fraction(0)

    def sample(self, n: int, rng: RandomStream) -> Floats:
        """Return draws as doubles, by the inverse cdf."""
        return self.quantile(rng.uniforms(n))
