"""The families of noise: Double Geometric, discrete Gaussian, Laplace; and suppression, which is none."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, factorial, floor, log, log1p, log2
from typing import NoReturn

import flint
import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.errors import SuppressedError
from congenial.exact import ball, scaled_ends
from congenial.noise.noise_and_discrete_noise import DiscreteNoise, Noise, even_order, levels
from congenial.proven_decisions import CdfBounds, exact_bernoulli, exact_choice
from congenial.randomness import RandomStream

# Double Geometric noise: ``P(u) = (1 - a) / (1 + a) * a ** |u|``, ``a = exp(-precision)``, on the integers.


@dataclass(frozen=True, init=False)
class DoubleGeometric(DiscreteNoise):
    """The integer twin of Laplace noise (GM, Definition 2).

    Examples
    --------
    >>> noise = DoubleGeometric("1/2")
    >>> noise.pmf([0, 1]).round(4)
    array([0.2449, 0.1486])
    >>> round(float(noise.variance), 4)
    7.8354
    """

    family = "double_geometric"
    title = "Double Geometric"
    exponent = 1
    currency = "epsilon"

    def log_pmf(self, u: ArrayLike) -> Floats:
        """Return the log probability at integer `u`."""
        a = float(self.base)
        return self.log_weight(u) + (log1p(-a) - log1p(a))

    def _tail(self, u: Ints) -> Floats:
        """Return ``a**(u + 1) / (1 + a)``."""
        a = float(self.base)
        tail: Floats = np.exp((u + 1) * log(a) - log1p(a))
        return tail

    def _nearby_quantile(self, v: Floats) -> Ints:
        """Return GM's quantile function, Appendix B.

        The print is one too large where v > 1 / (1 + a) is exactly a value of the cdf (``floor`` should be
        ``ceil - 1``): no matter for a uniform draw, but not the quantile.
        """
        a = float(self.base)
        lower = np.ceil((-np.log(v) - log1p(a)) / log(a))
        upper = np.floor((np.log1p(-v) + log1p(a)) / log(a))
        return np.where(v <= 1 / (1 + a), lower, upper).astype(np.int64)

    def moment(self, order: int) -> Fraction:
        """Return the exact moment, by Eulerian polynomials: ``sum u^k a^u = a E_k(a) / (1 - a)^(k + 1)``."""
        if not even_order(order):
            return Fraction(0)
        if order == 0:
            return Fraction(1)
        a = self.base
        eulerian = [1]
        for k in range(2, order + 1):
            eulerian = [
                (j + 1) * (eulerian[j] if j < k - 1 else 0) + (k - j) * (eulerian[j - 1] if j else 0) for j in range(k)
            ]
        series = a * sum(c * a**j for j, c in enumerate(eulerian)) / (1 - a) ** (order + 1)
        return 2 * (1 - a) / (1 + a) * series

    def sample(self, n: int, rng: RandomStream) -> Ints:
        """Return exact draws, decided by random integers: the only kind that may be released.

        The noise is the difference of two geometric variables. One of those is ``L * blocks + rest`` with ``L`` a power
        of two near ``1 / precision``: the block number is geometric with ratio ``a**L``, and the binary digits of the
        rest are independent, digit j being 1 with probability ``a**(2**j) / (1 + a**(2**j))``.
        """
        return self._geometric(n, rng) - self._geometric(n, rng)

    def _geometric(self, n: int, rng: RandomStream) -> Ints:
        digits = max(0, ceil(-log2(float(self.precision))))
        out = exact_choice(self._block_cdf(2**digits), n, rng) << digits
        for j in range(digits):
            out += exact_bernoulli(self._digit_bounds(2**j), n, rng).astype(np.int64) << j
        return out

    def _block_cdf(self, length: int) -> CdfBounds:
        decay = -log2(float(self.base)) * length  # bits lost a block, between 0.7 and 1010

        def cdf_bounds(bits: int) -> tuple[list[int], list[int]]:
            with flint.ctx.workprec(2 * bits + 64):
                ratio = ball(self.base) ** length
                pairs = [scaled_ends(1 - ratio ** (k + 1), bits) for k in range(floor(bits / decay) + 2)]
            return [low for low, _ in pairs], [high for _, high in pairs]

        return cdf_bounds

    def _digit_bounds(self, weight: int) -> Callable[[int], tuple[int, int]]:
        def bounds(bits: int) -> tuple[int, int]:
            with flint.ctx.workprec(2 * bits + 64):
                ratio = ball(self.base) ** weight
                return scaled_ends(ratio / (1 + ratio), bits)

        return bounds

    def sample_by_float_inverse(self, uniforms: ArrayLike) -> Ints:
        """Return GM Appendix B's draws, ``F^{-1}(uniform)`` in floats: for study, never for a release.

        A uniform float takes at most 2^53 values, so probabilities are multiples of 2^-53: integers far out that the
        law gives positive probability can never come up, and which ones depends on the confidential centre. Seeing
        one of them tells two neighbouring tables apart with certainty. `docs/known-limits.md` has the figures.
        """
        return self._nearby_quantile(levels(uniforms))


# Discrete Gaussian noise: ``P(u) ~ exp(-precision * u**2 / 2)`` on the integers; precision is 1 / sigma^2.


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

    def _total(self, bits: int) -> flint.arb:
        """Return the sum of all weights as a ball: Jacobi's theta function with nome `base`."""
        with flint.ctx.workprec(bits):
            tau = flint.acb(0, -ball(self.base).log() / flint.arb.pi())
            return flint.acb(0).modular_theta(tau, 0)[2].real


# Laplace noise, the continuous twin: for study, never for a release.


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


# Precision 0: nothing but the invariants is released (GM's M0).


@dataclass(frozen=True)
class Suppression:
    """The mechanism of zero loss: it says nothing, and no probability describes what it says (GM, Definition 3).

    Examples
    --------
    >>> Suppression()
    Suppression: precision 0, nothing but the invariants is released
    """

    family = "suppression"

    def sample(self, *_: object) -> NoReturn:
        """Refuse: there is no draw."""
        raise SuppressedError(
            "precision 0 is suppression: nothing but the invariants is released, so there is nothing to draw;"
            ' give the measured queries a precision above 0, such as precision="1/2"'
        )

    def __repr__(self) -> str:
        return "Suppression: precision 0, nothing but the invariants is released"
