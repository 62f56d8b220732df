"""Ranges of integers, open at an end where there is no limit."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """The integers from `low` to `high`, both included; None is no limit.

    Nothing refuses an empty one: where it comes from other intervals, `is_empty` says so.

    Examples
    --------
    >>> counts = Interval(0, None)
    >>> counts & Interval(-2, 9)
    Interval(low=0, high=9)
    >>> counts.negated.text, Interval(1, 8).divided(3)
    ('is at most 0', Interval(low=1, high=2))
    """

    low: int | None
    high: int | None

    @property
    def is_point(self) -> bool:
        """Whether it has one integer."""
        return self.low is not None and self.low == self.high

    @property
    def is_empty(self) -> bool:
        """Whether it has no integer."""
        return self.low is not None and self.high is not None and self.low > self.high

    @property
    def is_free(self) -> bool:
        """Whether it has no limit."""
        return self.low is None and self.high is None

    @property
    def width(self) -> int | None:
        """How far apart its ends are; None when one of them is open."""
        return None if self.low is None or self.high is None else self.high - self.low

    def __contains__(self, value: int) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)

    def shifted(self, by: int) -> "Interval":
        """Return it with both ends moved."""
        return Interval(None if self.low is None else self.low + by, None if self.high is None else self.high + by)

    @property
    def negated(self) -> "Interval":
        """What ``-value`` ranges over."""
        return Interval(None if self.high is None else -self.high, None if self.low is None else -self.low)

    def times(self, factor: int) -> "Interval":
        """Return the least interval that has every value times a factor."""
        if factor == 0:
            return POINT_ZERO
        low, high = (self.low, self.high) if factor > 0 else (self.high, self.low)
        return Interval(None if low is None else low * factor, None if high is None else high * factor)

    def divided(self, divisor: int) -> "Interval":
        """Return the integers that are in range when multiplied by a divisor: ends round inward."""
        low, high = (self.low, self.high) if divisor > 0 else (self.high, self.low)
        return Interval(None if low is None else -(-low // divisor), None if high is None else high // divisor)

    def on_steps(self, value: int, step: int) -> "Interval":
        """Return it with its ends moved inward to the values ``value + step * k``; a step of 0 leaves `value` only."""
        if step == 0:
            return Interval(value, value) if value in self else EMPTY
        return Interval(
            None if self.low is None else self.low + (value - self.low) % step,
            None if self.high is None else self.high - (self.high - value) % step,
        )

    def __and__(self, other: "Interval") -> "Interval":
        """Return what both have."""
        low = self.low if other.low is None else other.low if self.low is None else max(self.low, other.low)
        high = self.high if other.high is None else other.high if self.high is None else min(self.high, other.high)
        return Interval(low, high)

    def __add__(self, other: "Interval") -> "Interval":
        """Return what sums of one value of each range over."""
        return total_interval((self, other))

    @property
    def text(self) -> str:
        """The range in words.

        Examples
        --------
        >>> Interval(3, 3).text, Interval(3, None).text, Interval(None, None).text
        ('is 3', 'is at least 3', 'is free')
        """
        if self.is_point:
            return f"is {self.low:,}"
        if self.low is not None and self.high is not None:
            return f"is between {self.low:,} and {self.high:,}"
        if self.low is not None:
            return f"is at least {self.low:,}"
        return "is free" if self.high is None else f"is at most {self.high:,}"


class Ranged:
    """Something with limits, whose ends are often wanted one by one."""

    limits: Interval

    @property
    def lower(self) -> int | None:
        """The lower limit."""
        return self.limits.low

    @property
    def upper(self) -> int | None:
        """The upper limit."""
        return self.limits.high

    @property
    def is_equality(self) -> bool:
        """Whether it must have one value."""
        return self.limits.is_point


FREE = Interval(None, None)
NONNEGATIVE = Interval(0, None)
POINT_ZERO = Interval(0, 0)
EMPTY = Interval(1, 0)


def total_interval(terms: Iterable[Interval]) -> Interval:
    """Return what sums of one value of each interval range over.

    Examples
    --------
    >>> total_interval([Interval(0, 3), Interval(2, None)])
    Interval(low=2, high=None)
    """
    low: int | None = 0
    high: int | None = 0
    for term in terms:
        low = None if low is None or term.low is None else low + term.low
        high = None if high is None or term.high is None else high + term.high
    return Interval(low, high)
