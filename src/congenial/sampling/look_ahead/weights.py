"""Weights of cells as tables: one for all cells whose noise and limits, cut off at the window, are the same."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil, frexp, inf, ldexp, sqrt

import numpy as np

from congenial.arrays import Floats
from congenial.balls import falling_doubles
from congenial.errors import SamplingError
from congenial.noise.fall import FLAT, Fall
from congenial.sampling.contraction.windows import log_base
from congenial.sampling.look_ahead.shapes import Weights
from congenial.sampling.steady import exp_e, log_e

NATS = 64.0
"""Weights are tabulated down to ``exp(-NATS)``; what is beyond is bounded in closed form."""

MOST_VALUES = 4096
_LEAST = 2.0**-1000  # a bound is never rounded down to nothing
_MOST_TILT_NATS = 300.0


@dataclass(frozen=True)
class CellWeight:
    """The weight of a deviation: a fall between limits.

    Attributes
    ----------
    low, high : int or None
        Limits of the deviation. `near` puts one in place of all that lie beyond the window.
    """

    fall: Fall
    low: int | None
    high: int | None

    @cached_property
    def half(self) -> int:
        """How far the window reaches to both sides."""
        if self.fall.is_flat:
            if self.low is None or self.high is None or self.high - self.low > MOST_VALUES:
                raise SamplingError("internal: a cell without noise has no window")
            return max(-self.low, self.high)
        return window(self.fall)

    def near(self) -> "CellWeight":
        """Return the kind that has the same table: limits beyond the window are as far as each other."""
        far = self.half + 1
        low, high = (None if v is None or abs(v) >= far else v for v in (self.low, self.high))
        return CellWeight(self.fall, low, high)

    @property
    def first(self) -> int:
        """The smallest deviation inside the window."""
        return -self.half if self.low is None else max(self.low, -self.half)

    @property
    def last(self) -> int:
        """The largest one."""
        return self.half if self.high is None else min(self.high, self.half)

    def values(self) -> Floats:
        """Return the weights of ``first .. last``, each the double next to it."""
        sizes = _sizes(self.fall, max(-self.first, self.last))
        out = sizes[np.abs(np.arange(self.first, self.last + 1))]
        if self.low is not None and self.low == self.first and self.fall.floor != 1:
            out[0] = float(self.fall.weight(self.low, is_floor=True))
        return out

    def log_ratio(self, size: int) -> float:
        """Return the log of how much less the next weight is than that of a deviation of so many, away from 0."""
        return log_base(self.fall.linear) + (2 * size + 1) * log_base(self.fall.quadratic)

    def tails(self, tilt: float, half: int | None = None) -> tuple[float, float]:
        """Return bounds of the tilted weights below and above the window, as powers of two.

        Ratios of neighbours only fall with distance, so a geometric series bounds the rest from any place on.
        """
        edge = (self.half if half is None else half) + 1
        return (
            0.0 if self.low is not None and self.low > -edge else self._tail(edge, 1 / tilt) * float(self.fall.floor),
            0.0 if self.high is not None and self.high < edge else self._tail(edge, tilt),
        )

    def _tail(self, edge: int, tilt: float) -> float:
        ratio = exp_e(self.log_ratio(edge)) * tilt
        if not ratio < 1:
            raise SamplingError("internal: a tilt beyond the fall of a weight")
        log_first = edge * (log_base(self.fall.linear) + log_e(tilt)) + edge * edge * log_base(self.fall.quadratic)
        return ldexp(1.0, frexp(max(exp_e(log_first) / (1 - ratio) * 1.001, _LEAST))[1])

    @property
    def tilts(self) -> tuple[float, float]:
        """The smallest and the largest tilt under which the table stays within doubles and its tails add up."""
        far = exp_e(min(_MOST_TILT_NATS / max(1, self.half), 30.0))
        # The weights beyond the window keep three tenths of their fall: exp(-19), so that few lines are doubtful.
        steep = inf if self.fall.is_flat else exp_e(min(-0.7 * self.log_ratio(self.half), 700.0))
        low = far if self.low is not None else min(far, steep)
        high = far if self.high is not None else min(far, steep)
        return 1 / low, high


POINT = CellWeight(FLAT, 0, 0)
"""No deviation at all: a cell that is not there."""


@lru_cache(maxsize=4096)
def window(fall: Fall) -> int:
    """Return where a weight has fallen below ``exp(-NATS)``."""
    bounds = [inf]
    if fall.linear < 1:
        bounds.append(NATS / -log_base(fall.linear))
    if fall.quadratic < 1:
        bounds.append(sqrt(NATS / -log_base(fall.quadratic)))
    return ceil(min(bounds))


@lru_cache(maxsize=256)
def _sizes(fall: Fall, most: int) -> Floats:
    return np.array(falling_doubles(fall.linear, fall.quadratic, most))


def tabulate(kinds: Iterable[CellWeight]) -> Weights:
    """Return the tables of some kinds, in one array."""
    listed = list(kinds)
    value = np.zeros((len(listed), max(kind.last - kind.first + 1 for kind in listed)))
    for line, kind in zip(value, listed, strict=True):
        line[: kind.last - kind.first + 1] = kind.values()
    first, last = ([getattr(kind, name) for kind in listed] for name in ("first", "last"))
    return Weights(value, np.array(first, np.int64), np.array(last, np.int64))
