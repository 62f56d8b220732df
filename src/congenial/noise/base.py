"""What a family of noise must say, and what every law of noise has in common.

A family is data: its name, what it is for, its precisions, the shape of its weights and what its loss is counted in.
Nothing outside its own file asks which family it is; `noise/__init__.py` lists it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.errors import NoiseError, TooLargeError
from congenial.exact import Exact, double_above_exp, exact_fraction
from congenial.randomness import RandomStream

# How a weight falls with deviation: the only thing that samplers know of noise.

MOST_POWER = 4096


@dataclass(frozen=True)
class Fall:
    """A weight that falls with deviation: ``linear ** |v| * quadratic ** (v * v)``, both bases rational, at most 1.

    Attributes
    ----------
    zero_weight : Fraction
        What the weight of a cell's lower limit is multiplied by, wherever the cell is centred; at least 1.

    Examples
    --------
    >>> Fall(linear=Fraction(1, 2)).weight(-3)
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

    def __mul__(self, other: "Fall") -> "Fall":
        return Fall(self.linear * other.linear, self.quadratic * other.quadratic, self.zero_weight * other.zero_weight)

    def stretched(self, factor: int) -> "Fall":
        """Return the weight as a function of v when the deviation is ``factor * v``."""
        power = factor * factor if self.quadratic < 1 else abs(factor)
        if power > MOST_POWER:
            raise TooLargeError(
                f"a measured query of one cell has coefficient {factor:,}, too large to hold its noise as an exact"
                " fraction; measure the cell itself, at a higher precision"
            )
        return Fall(self.linear ** abs(factor), self.quadratic ** (factor * factor), self.zero_weight)

    def weight(self, deviation: int, *, is_floor: bool = False) -> Fraction:
        """Return the weight at a deviation, which may be that of the lower limit, exactly."""
        own = self.linear ** abs(deviation) * self.quadratic ** (deviation * deviation)
        return self.zero_weight * own if is_floor else own


FLAT = Fall()
"""The weight of what is not measured: 1 everywhere."""

LARGEST = 2.0**60


@dataclass(frozen=True, init=False)
class Noise(ABC):
    """A law of noise on one query, symmetric about 0.

    Parameters
    ----------
    precision : str, int or Fraction
        How sharp the noise is; an exact number. The weight is ``exp(-precision / exponent * |u| ** exponent)``.

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
        What the weight falls with: the size of the deviation, or its square.
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
    def fall(self) -> Fall:
        """How the weight falls with deviation, exactly."""
        return Fall(linear=self.base) if self.exponent == 1 else Fall(quadratic=self.base)

    @property
    @abstractmethod
    def log_base(self) -> float:
        """The log weight at 1: the log weight at u is ``log_base * |u| ** exponent``."""

    def power(self, u: Ints) -> Ints:
        """Return ``|u| ** exponent``: the power of the base at `u`."""
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
    """Noise on the integers with weight ``base ** (|u| ** exponent)``, `base` rational.

    The base is the smallest double that is at least what the precision asks for, so that the law in use is an exact
    rational one, rounded toward more noise, and its float is the same number.
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
        return (size if self.exponent == 1 else size * size) * np.float64(self.log_base)

    @abstractmethod
    def _tail(self, u: Ints) -> Floats:
        """Return the probability of more than `u`, each at least 0."""

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

    @abstractmethod
    def _nearby_quantile(self, v: Floats) -> Ints:
        """Return the quantile up to one unit."""


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
