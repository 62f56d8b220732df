"""Discrete Gaussian noise: ``P(u) ~ exp(-precision * u**2 / 2)`` on the integers; precision is 1 / sigma^2."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, log, sqrt

import flint
import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.balls import ball, scaled_ends
from congenial.noise.exact_choice import exact_choice
from congenial.noise.family import DiscreteNoise, even_order
from congenial.randomness import RandomStream


@dataclass(frozen=True, init=False)
class DiscreteGaussian(DiscreteNoise):
    """The noise of zero-concentrated privacy (Canonne, Kamath and Steinke 2020).

    Parameters
    ----------
    precision : str, int or Fraction
        ``1 / sigma**2``; the variance is close to sigma^2 from sigma = 1 on, and smaller below.

    Examples
    --------
    >>> noise = DiscreteGaussian("1/4")
    >>> noise.pmf([0, 1]).round(4)
    array([0.1995, 0.176 ])
    >>> round(noise.variance, 6)
    4.0
    """

    family = "discrete_gaussian"
    title = "Discrete Gaussian"
    exponent = 2
    currency = "rho"
    least = Fraction(1, 10**8)  # sigma 10,000: beyond it the table that a draw needs takes many seconds

    @cached_property
    def _normaliser(self) -> float:
        return float(self._total(96).mid())

    def _total(self, bits: int) -> flint.arb:
        """Return the sum of all weights as a ball: Jacobi's theta function with nome `base`."""
        with flint.ctx.workprec(bits):
            tau = flint.acb(0, -ball(self.base).log() / flint.arb.pi())
            return flint.acb(0).modular_theta(tau, 0)[2].real

    def log_pmf(self, u: ArrayLike) -> Floats:
        """Return the log probability at integer `u`."""
        return self.log_weight(u) - log(self._normaliser)

    @cached_property
    def _upper_tail(self) -> Floats:
        """Probabilities of more than 0, 1, 2, ... up to where a double is 0: small terms added first."""
        reach = ceil(sqrt(745 / -log(float(self.base)))) + 1
        pmf = self.pmf(np.arange(1, reach + 1))
        return np.append(np.cumsum(pmf[::-1])[::-1], 0.0)

    def _tail(self, u: Ints) -> Floats:
        return self._upper_tail[np.minimum(u, self._upper_tail.size - 1)]

    def _nearby_quantile(self, v: Floats) -> Ints:
        rising = self._upper_tail[::-1]  # the cdf of ..., -2, -1
        low = np.searchsorted(rising, v, side="left") - rising.size
        high = rising.size - np.searchsorted(rising, 1 - v, side="right")
        return np.where(v <= rising[-1], low, high).astype(np.int64)

    def moment(self, order: int) -> float:
        """Return the moment, summed smallest terms first: correct to a few units of the last digit."""
        if not even_order(order):
            return 0.0
        if order == 0:
            return 1.0
        # u^k b^(u^2) has fallen below a double's last digit of its peak well before this reach.
        reach = ceil(sqrt((745 + 2 * order) / -log(float(self.base)))) + order
        u = np.arange(reach, 0, -1, dtype=np.float64)
        return 2 * float(np.sum(np.exp(order * np.log(u) + self.log_pmf(u))))

    def sample(self, n: int, rng: RandomStream) -> Ints:
        """Return exact draws, decided by random integers."""
        outcome = exact_choice(self._cdf_bounds, n, rng)
        return np.where(outcome % 2 == 1, (outcome + 1) // 2, -(outcome // 2))

    @lru_cache(maxsize=64)  # noqa: B019  a noise is a small value; its table is worth keeping
    def _cdf_bounds(self, bits: int) -> tuple[list[int], list[int]]:
        # Outcomes 0, 1, 2, ... stand for 0, 1, -1, 2, -2, ...: what is left beyond +-reach is far below 2^-bits.
        reach = ceil(sqrt((bits + 16) * log(2) / -log(float(self.base)))) + 2
        with flint.ctx.workprec(bits + 64):
            base, total = ball(self.base), self._total(bits + 64)
            running, weight, step, square = 1 / total, 1 / total, base, base * base
            points = [running]
            for _ in range(reach):
                weight, step = weight * step, step * square
                points += [running + weight, running + 2 * weight]
                running = points[-1]
            pairs = [scaled_ends(point, bits) for point in points]
        return [low for low, _ in pairs], [high for _, high in pairs]
