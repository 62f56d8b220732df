"""What every noise law has in common."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats
from congenial.errors import NoiseError
from congenial.fraction import Exact, exact_fraction
from congenial.randomness import RandomStream

LARGEST = 2.0**60


@dataclass(frozen=True, init=False)
class Noise(ABC):
    """A law of noise on one query, symmetric about 0.

    Parameters
    ----------
    precision : str, int or Fraction
        How sharp the noise is; an exact number. What it multiplies in the log density is the family's to say.
    """

    precision: Fraction

    family: ClassVar[str]
    title: ClassVar[str]
    currency: ClassVar[str] = "epsilon"
    exponent: ClassVar[int] = 1
    is_discrete: ClassVar[bool] = True
    least: ClassVar[Fraction] = Fraction(1, 2**40)
    most: ClassVar[Fraction] = Fraction(700)

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
    def quantile(self, level: ArrayLike) -> NDArray[np.int64] | Floats:
        """Return the smallest value whose cdf is at least `level`, each level strictly between 0 and 1."""

    @abstractmethod
    def moment(self, order: int) -> Fraction | float:
        """Return the expectation of ``u ** order``: a Fraction where it is rational, else a double."""

    @property
    def variance(self) -> Fraction | float:
        """The second moment."""
        return self.moment(2)

    @abstractmethod
    def sample(self, n: int, rng: RandomStream) -> NDArray[np.int64] | Floats:
        """Return `n` independent draws."""


@dataclass(frozen=True, init=False)
class DiscreteNoise(Noise):
    """Noise on the integers with weight ``base ** power(u)``, `base` rational.

    The base is the smallest double that is at least what the precision asks for, so that the law in use is an exact
    rational one, rounded toward more noise, and its float is the same number.
    """

    @property
    @abstractmethod
    def base(self) -> Fraction:
        """The rational number whose powers are the weights."""

    @abstractmethod
    def power(self, u: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the integer power of the base at `u`."""

    def log_weight(self, u: ArrayLike) -> Floats:
        """Return ``power(u) * log(base)``."""
        return self._float_power(np.abs(integers(u)).astype(np.float64)) * np.float64(np.log(float(self.base)))

    @abstractmethod
    def _float_power(self, size: Floats) -> Floats:
        """Return the power as a double, for any size."""

    @abstractmethod
    def _tail(self, u: NDArray[np.int64]) -> Floats:
        """Return the probability of more than `u`, each at least 0."""

    def cdf(self, u: ArrayLike) -> Floats:
        """Return the probability of at most `u`, accurate in the lower tail."""
        values = integers(u)
        tail = self._tail(np.where(values < 0, -values - 1, values))
        return np.where(values < 0, tail, 1 - tail)

    def quantile(self, level: ArrayLike) -> NDArray[np.int64]:
        """Return the smallest integer whose `cdf` is at least `level`, as far as doubles next to 1 can tell."""
        v = levels(level)
        # Rounding puts the first guess off by one at most, and only next to a value of the cdf.
        guess = self._nearby_quantile(v)
        candidates = guess[..., None] + np.arange(-2, 3)
        below: NDArray[np.int64] = np.sum(self.cdf(candidates) < v[..., None], axis=-1)
        # None below: the cdf is flat in doubles there, and the guess is as good as can be.
        return np.where(below == 0, guess, guess - 2 + below)

    @abstractmethod
    def _nearby_quantile(self, v: Floats) -> NDArray[np.int64]:
        """Return the quantile up to one unit."""


def integers(u: ArrayLike) -> NDArray[np.int64]:
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
