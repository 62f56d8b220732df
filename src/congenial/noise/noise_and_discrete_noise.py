"""What a family of noise must say, and what every law of noise has in common.

A family is data: its name, what it is for, its precisions, its weight and what its loss is counted in. Nothing outside
its own file asks which family it is; `noise/__init__.py` lists it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, log
from typing import ClassVar, Literal, TypeVar

import flint
import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.errors import NoiseError
from congenial.exact import Exact, double_above_exp, exact_fraction, scaled_ends
from congenial.noise.weight import NoiseWeight
from congenial.proven_decisions import exact_choice
from congenial.randomness import RandomStream

LARGEST = 2.0**60
Numbers = TypeVar("Numbers", Ints, Floats)


@dataclass(frozen=True, init=False)
class Noise(ABC):
    """A law of noise on one query, symmetric about 0.

    Parameters
    ----------
    precision : str, int or Fraction
        How sharp the noise is; an exact number. The weight is ``exp(-precision / exponent * power(u))``.

    Attributes
    ----------
    family, title : str
        The name in specs and manifests, and in words.
    is_discrete : bool
        Whether it lives on the integers.
    is_for_release : bool
        Whether a table may be released with it; if not, `why_not_released` is the sentence why.
    least, most : Fraction
        The precisions it can be drawn at.
    exponent : 1 or 2
        Of the tail: `power` grows with the size of the deviation, or with its square. Certificates go by it.
    currency : str
        What its loss adds up in: ``epsilon``, a pure loss, or ``rho`` of zero-concentrated privacy.
    """

    precision: Fraction

    family: ClassVar[str]
    title: ClassVar[str]
    is_discrete: ClassVar[bool]
    is_for_release: ClassVar[bool]
    why_not_released: ClassVar[str] = ""
    least: ClassVar[Fraction] = Fraction(1, 2**40)
    most: ClassVar[Fraction] = Fraction(700)
    exponent: ClassVar[Literal[1, 2]]
    currency: ClassVar[Literal["epsilon", "rho"]]

    def __init__(self, precision: Exact) -> None:
        exact = exact_fraction(precision, "precision")
        if exact == 0:
            raise NoiseError(
                f"{self.family} noise of precision 0 does not exist: precision 0 is suppression,"
                " see congenial.noise.Suppression"
            )
        if exact < 0:
            raise NoiseError(f"precision must not be negative, and it is {exact}")
        if not self.least <= exact <= self.most:
            raise NoiseError(
                f"precision {exact} of {self.family} noise is outside {float(self.least):.3g} .. {float(self.most):.3g}"
            )
        object.__setattr__(self, "precision", exact)

    @property
    def base(self) -> Fraction:
        """The rational number whose powers are the weights; noise that is not on the integers has none."""
        raise NoiseError(f"{self.family} noise has no rational base: it is not on the integers")

    @property
    def weight(self) -> NoiseWeight:
        """The weight of a deviation, exactly: what samplers take."""
        return NoiseWeight(linear=self.base) if self.exponent == 1 else NoiseWeight(quadratic=self.base)

    @property
    @abstractmethod
    def log_base(self) -> float:
        """The log weight at 1: the log weight at u is ``log_base * power(u)``."""

    def power(self, u: Numbers) -> Numbers:
        """Return ``|u| ** exponent``: the power of the base at `u`. A family with another tail has its own."""
        return np.abs(u) if self.exponent == 1 else u * u

    @abstractmethod
    def log_weight(self, u: ArrayLike) -> Floats:
        """Return the log density at `u`, up to a constant: 0 at ``u = 0``."""

    @abstractmethod
    def log_pmf(self, u: ArrayLike) -> Floats:
        """Return the log probability (log density for continuous noise) at `u`."""

    def pmf(self, u: ArrayLike) -> Floats:
        """Return the probability (density for continuous noise) at `u`."""
        return np.exp(self.log_pmf(u))

    @abstractmethod
    def cdf(self, u: ArrayLike) -> Floats:
        """Return the probability of at most `u`."""

    @abstractmethod
    def quantile(self, level: ArrayLike) -> Ints | Floats:
        """Return the smallest value whose cdf is at least `level`, each level strictly between 0 and 1."""

    @abstractmethod
    def moment(self, order: int) -> Fraction | float:
        """Return the expectation of ``u ** order``: a Fraction where it is rational, else a double."""

    @property
    def variance(self) -> Fraction | float:
        """The second moment."""
        return self.moment(2)

    @abstractmethod
    def sample(self, n: int, rng: RandomStream) -> Ints | Floats:
        """Return `n` independent draws."""


@dataclass(frozen=True, init=False)
class DiscreteNoise(Noise):
    """Noise on the integers with weight ``base ** power(u)``, `base` rational.

    The base is the smallest double that is at least what the precision asks for, so that the law in use is an exact
    rational one, rounded toward more noise, and its float is the same number. Probabilities, moments and exact draws
    are sums of weights here; a family with closed forms has those instead.
    """

    is_discrete = True
    is_for_release = True

    @cached_property
    def base(self) -> Fraction:
        """The smallest double at or above ``exp(-precision / exponent)``."""
        return Fraction(double_above_exp(self.precision / self.exponent))

    @property
    def log_base(self) -> float:
        """The logarithm of `base`."""
        return float(np.log(float(self.base)))

    def log_weight(self, u: ArrayLike) -> Floats:
        """Return ``power(u) * log(base)``."""
        size = np.abs(integers(u)).astype(np.float64)  # a square of integers could go past 2^63
        return self.power(size) * np.float64(self.log_base)

    @cached_property
    def _normaliser(self) -> float:
        return float(self._total(96).mid())

    def _total(self, bits: int) -> flint.arb:
        """Return the sum of all weights as a ball. Beyond the last one added, ratios of neighbours only fall."""
        last = self._reach(bits * log(2))
        with flint.ctx.workprec(bits):
            *weights, edge, following = self.weight.enclosures(range(last + 2))
            beyond = following / (1 - following / edge)
            return 2 * (sum(weights, edge) + flint.arb(0).union(beyond)) - 1

    def _reach(self, nats: float) -> int:
        """Return a deviation whose weight is below ``exp(-nats)``."""
        return ceil(self.weight.distance(nats)) + 1

    def log_pmf(self, u: ArrayLike) -> Floats:
        """Return the log probability at integer `u`."""
        return self.log_weight(u) - log(self._normaliser)

    @cached_property
    def _upper_tail(self) -> Floats:
        """Probabilities of more than 0, 1, 2, ... up to where a double is 0: small terms added first."""
        pmf = self.pmf(np.arange(1, self._reach(745) + 1))
        return np.append(np.cumsum(pmf[::-1])[::-1], 0.0)

    def _tail(self, u: Ints) -> Floats:
        """Return the probability of more than `u`, each at least 0."""
        return self._upper_tail[np.minimum(u, self._upper_tail.size - 1)]

    def cdf(self, u: ArrayLike) -> Floats:
        """Return the probability of at most `u`, accurate in the lower tail."""
        values = integers(u)
        tail = self._tail(np.where(values < 0, -values - 1, values))
        return np.where(values < 0, tail, 1 - tail)

    def quantile(self, level: ArrayLike) -> Ints:
        """Return the smallest integer whose `cdf` is at least `level`, as far as doubles next to 1 can tell."""
        v = levels(level)
        # Rounding puts the first guess off by one at most, and only next to a value of the cdf.
        guess = self._nearby_quantile(v)
        candidates = guess[..., None] + np.arange(-2, 3)
        below: Ints = np.sum(self.cdf(candidates) < v[..., None], axis=-1)
        # None below: the cdf is flat in doubles there, and the guess is as good as can be.
        return np.where(below == 0, guess, guess - 2 + below)

    def _nearby_quantile(self, v: Floats) -> Ints:
        """Return the quantile up to one unit."""
        rising = self._upper_tail[::-1]  # the cdf of ..., -2, -1
        low = np.searchsorted(rising, v, side="left") - rising.size
        high = rising.size - np.searchsorted(rising, 1 - v, side="right")
        return np.where(v <= rising[-1], low, high).astype(np.int64)

    def moment(self, order: int) -> Fraction | float:
        """Return the moment, summed smallest terms first: correct to a few units of the last digit."""
        if not even_order(order):
            return 0.0
        if order == 0:
            return 1.0
        # u^k w(u) has fallen below a double's last digit of its peak well before this reach.
        u = np.arange(self._reach(745 + 12 * order) + order, 0, -1, dtype=np.float64)
        return 2 * float(np.sum(np.exp(order * np.log(u) + self.log_pmf(u))))

    def sample(self, n: int, rng: RandomStream) -> Ints:
        """Return exact draws, decided by random integers: the only kind that may be released."""
        outcome = exact_choice(self._cdf_bounds, n, rng)
        return np.where(outcome % 2 == 1, (outcome + 1) // 2, -(outcome // 2))

    @lru_cache(maxsize=64)  # noqa: B019  a noise is a small value; its table is worth keeping
    def _cdf_bounds(self, bits: int) -> tuple[list[int], list[int]]:
        # Outcomes 0, 1, 2, ... stand for 0, 1, -1, 2, -2, ...: what is left beyond +-reach is far below 2^-bits.
        reach = self._reach((bits + 16) * log(2)) + 1
        with flint.ctx.workprec(bits + 64):
            total = self._total(bits + 64)
            points = [1 / total]
            for weight in self.weight.enclosures(range(1, reach + 1)):
                points += [points[-1] + weight / total, points[-1] + 2 * weight / total]
            pairs = [scaled_ends(point, bits) for point in points]
        return [low for low, _ in pairs], [high for _, high in pairs]


def integers(u: ArrayLike) -> Ints:
    """Check that noise values are integers."""
    array = np.asarray(u)
    if array.dtype.kind not in "iuf" or (array.dtype.kind == "f" and not bool(np.all(array == np.floor(array)))):
        raise NoiseError("discrete noise takes whole numbers only")
    if array.size and not (float(array.min()) >= -LARGEST and float(array.max()) <= LARGEST):
        raise NoiseError("discrete noise takes whole numbers up to 2^60")
    return array.astype(np.int64)


def levels(level: ArrayLike) -> Floats:
    """Check that levels lie strictly between 0 and 1."""
    array = np.asarray(level, np.float64)
    if not bool(np.all((array > 0) & (array < 1))):
        raise NoiseError("levels of a quantile lie strictly between 0 and 1")
    return array


def even_order(order: int) -> bool:
    """Check a moment's order; odd moments of symmetric noise are 0."""
    if type(order) is not int or order < 0:
        raise NoiseError(f"the order of a moment is an integer from 0 on, not {order!r}")
    return order % 2 == 0
