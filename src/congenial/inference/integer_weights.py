"""Weights on the integers, and what becomes of them when independent errors are added or conditions are put on them."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from congenial.arrays import Floats, Ints


@dataclass(frozen=True)
class Weights:
    """Weights, not negative, of the integers from `low` on; all others have none.

    Examples
    --------
    >>> coin = Weights(0, np.array([0.5, 0.5]))
    >>> coin.plus(coin), coin.negated.low
    (Weights(low=0, values=array([0.25, 0.5 , 0.25])), -1)
    """

    low: int
    values: Floats

    @property
    def high(self) -> int:
        """The last integer with a weight."""
        return self.low + len(self.values) - 1

    @property
    def integers(self) -> Ints:
        """All integers from `low` to `high`."""
        return np.arange(self.low, self.high + 1)

    @property
    def negated(self) -> "Weights":
        """The weights of ``-x``."""
        return Weights(-self.high, self.values[::-1])

    @property
    def normalised(self) -> "Weights":
        """The same with sum one."""
        return Weights(self.low, self.values / self.values.sum())

    def at(self, low: int, high: int) -> Floats:
        """Return the weights of the integers from `low` to `high`, zeros where there are none."""
        out = np.zeros(high - low + 1)
        first, last = max(low, self.low), min(high, self.high)
        if first <= last:
            out[first - low : last - low + 1] = self.values[first - self.low : last - self.low + 1]
        return out

    def plus(self, other: "Weights") -> "Weights":
        """Return the weights of the sum of two independent integers."""
        return Weights(self.low + other.low, np.convolve(self.values, other.values))

    def within(self, reach: int) -> "Weights":
        """Leave out what is farther than `reach` from zero."""
        low, high = max(self.low, -reach), min(self.high, reach)
        return Weights(low, self.at(low, high))

    def times(self, other: "Weights") -> "Weights":
        """Return the product of both at each integer."""
        low, high = max(self.low, other.low), min(self.high, other.high)
        if low > high:
            return Weights(0, np.zeros(1))
        return Weights(low, self.at(low, high) * other.at(low, high))

    def stretched(self, factor: int) -> "Weights":
        """Return the weights of ``factor * x``, the factor not 0."""
        if factor < 0:
            return self.negated.stretched(-factor)
        values = np.zeros((len(self.values) - 1) * factor + 1)
        values[::factor] = self.values
        return Weights(self.low * factor, values)

    def chance_above(self, bounds: Ints) -> Floats:
        """Return the share of the weight on integers above each bound."""
        tail = np.append(np.cumsum(self.values[::-1])[::-1], 0.0) / self.values.sum()
        return np.asarray(tail[np.clip(bounds - self.low + 1, 0, len(self.values))])

    def reach_above(self, tail: float) -> int:
        """Return the least bound, not negative, exceeded with chance at most `tail`; allows for rounding."""
        bounds = np.arange(max(self.high, 0) + 1)
        return int(np.argmax(self.chance_above(bounds) <= tail * (1 - 1e-9)))


NOTHING = Weights(0, np.ones(1))
"""An error that is zero."""


def sum_of(parts: Iterable[tuple[Weights, int]], reach: int) -> Weights:
    """Return the weights of a sum of independent integers, each kind so many times, as far as `reach` from zero."""
    out = NOTHING
    for weights, times in parts:
        out = out.plus(_power(weights, times, reach)).within(reach)
    return out


def _power(weights: Weights, times: int, reach: int) -> Weights:
    out, square = NOTHING, weights
    while times:
        if times & 1:
            out = out.plus(square).within(reach)
        times >>= 1
        if times:
            square = square.plus(square).within(reach)
    return out
