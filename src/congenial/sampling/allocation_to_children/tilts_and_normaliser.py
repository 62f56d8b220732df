"""The tilts of one level's noise, from public numbers alone: a child's weights may be tilted by any of them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt, log

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import SamplingError
from congenial.exact import double_above_power
from congenial.noise.noise_and_discrete_noise import DiscreteNoise
from congenial.sampling.allocation_to_children.kernels import LevelNoise, TiltedLaws, empty_laws

_PARTS = 32  # tilts a standard deviation: the means of 256 children add up to within a quarter of one of their sum's
_MOST_SIDE = 1 << 16
_LINEAR_SIDE = 8192  # tables of linear noise go at least so far, so that sums far off what children have are reached
_NATS = 48  # by so many a table falls before it ends: more than LEAST says


def fineness_of(n_children: int) -> int:
    """Return by how much finer tilts are for a family of so many children, a power of two.

    Examples
    --------
    >>> [fineness_of(n) for n in (2, 256, 257, 10_000)]
    [1, 1, 2, 8]
    """
    fineness = 1
    while 256 * fineness * fineness < n_children:
        fineness *= 2
    return fineness


@lru_cache(maxsize=256)
def level_noise(noise: DiscreteNoise, fineness: int = 1) -> LevelNoise:
    """Return a level's noise as kernels take it, with tilts for families of some size.

    Every number follows from integers, or is the smallest double above a real one, found by enclosure: the same
    everywhere.

    Examples
    --------
    >>> from congenial.noise import DiscreteGaussian
    >>> noise = level_noise(DiscreteGaussian("1/9"))
    >>> noise.tilts.size, noise.side
    (16, 33)
    """
    return _squared(noise, fineness) if noise.exponent == 2 else _linear(noise, fineness)


def _squared(noise: DiscreteNoise, fineness: int) -> LevelNoise:
    base, precision = noise.base, noise.precision
    side = isqrt(ceil(2 * _NATS / precision)) + 4
    _check(noise, side)
    n_parts = 1
    while n_parts * n_parts < (_PARTS * fineness) ** 2 * precision:
        n_parts *= 2
    parts = [Fraction(2 * part + 1 - n_parts, 2 * n_parts) for part in range(n_parts)]
    tilts = [double_above_power(base, -2 * part) for part in parts]
    # The mode is where the centre is, whatever the tilt: then heights are at most 1, and every attempt is a fair one.
    if not all(base < Fraction(tilt) < 1 / base for tilt in tilts):
        raise SamplingError(f"internal: tilts of {noise} move the mode; please report this")
    return LevelNoise(
        is_squared=True,
        base=float(base),
        ratios=np.array([double_above_power(base, Fraction(2 * v + 1)) for v in range(side + 1)]),
        powers=_powers(base),
        tilts=np.array(tilts),
        middle=0,
        cap=side,
        reach=ceil(_NATS / precision) + 2,
        slope=float(n_parts / precision),
        in_sigma=isqrt(int(n_parts * n_parts / precision)),
        side=side,
    )


def _linear(noise: DiscreteNoise, fineness: int) -> LevelNoise:
    base, precision = noise.base, noise.precision
    side = max(_LINEAR_SIDE, ceil(4 * _NATS / precision))
    _check(noise, side)
    slowest = 1 - Fraction(_NATS, side)  # a decay by which a table ends before it is too long
    # Above the centre weights fall by base * tilt, below it by tilt / base or base / tilt: the odds of each on a grid.
    parts = 4 * fineness
    wanted = [
        *(decay / base for decay in _decays(-40, slowest, parts)),
        *(decay * base for decay in _decays(-3, slowest, parts)),
        *(base / decay for decay in _decays(-3, slowest, parts)),
    ]
    rounded = {float(tilt) for tilt in wanted if tilt < 1 / base}
    tilts = [
        tilt
        for tilt in map(Fraction, sorted(rounded))
        if tilt * base <= slowest and (tilt <= slowest * base or base <= slowest * tilt)
    ]
    return LevelNoise(
        is_squared=False,
        base=float(base),
        ratios=np.empty(0),
        powers=np.empty(0),
        tilts=np.array([float(tilt) for tilt in tilts]),
        middle=sum(tilt < 1 for tilt in tilts) - 1,
        cap=side,
        reach=0,
        slope=0.0,
        in_sigma=0,
        side=side,
    )


def _decays(least: int, slowest: Fraction, parts: int) -> Iterator[Fraction]:
    """Go through decays whose odds are powers of two, a part of a power apart, up to the slowest."""
    number = least * parts
    while True:
        odds = Fraction(double_above_power(Fraction(2), Fraction(number, parts)))
        if (decay := odds / (1 + odds)) > slowest:
            return
        yield decay
        number += 1


def _powers(base: Fraction) -> Floats:
    return np.array([double_above_power(base, Fraction(2**i)) for i in range(62)])


def _check(noise: DiscreteNoise, side: int) -> None:
    if side > _MOST_SIDE:
        raise SamplingError(
            f"precision {float(noise.precision):.3g} of {noise.title} noise spreads a child's count over {2 * side:,}"
            f" values, more than the {2 * _MOST_SIDE:,} that tables are made for; give its level a larger share"
        )


# How much weight the children of a cell have together, given their sum: by convolution in one dimension.


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Summed weights of families under one level's noise. Its tables serve all of them.

    Examples
    --------
    >>> from congenial.noise import DoubleGeometric
    >>> round(Normaliser(DoubleGeometric(1)).log(np.array([1, 0]), 1), 12)  # (1, 0) and (0, 1)
    0.126928011043
    """

    noise: DiscreteNoise
    _laws: dict[int, TiltedLaws] = field(default_factory=dict, repr=False)

    def log(self, counts: Ints, wanted: int) -> float:
        """Return ``log sum prod f(y_i - s_i)`` over nonnegative y that add up to what is wanted.

        Weights are tilted so that the sum is near its mean, and followed until they fall below ``2**-68`` of the
        largest: correct to about ten digits of the weight.
        """
        if wanted == 0 or counts.size == 1:
            only = counts if wanted == 0 else counts - wanted
            return float(self.noise.log_weight(only).sum())
        if counts.size == 0:
            return -np.inf
        distinct, times = (np.array(weight, np.int64) for weight in zip(*Counter(counts.tolist()).items(), strict=True))
        tilt = self._log_tilt(distinct, times, counts.size, wanted)
        logs, values, first = 0.0, np.ones(1), 0
        for count, repeats in zip(distinct.tolist(), times.tolist(), strict=True):
            low, weights, log_largest = _weights(self.noise, count, tilt, wanted)
            for _ in range(repeats):
                values = np.convolve(values, weights)[: max(0, wanted - first - low + 1)]
                first += low
                scale = float(values.max(initial=0.0))
                if scale == 0.0:
                    return -np.inf
                values /= scale
                logs += log(scale) + log_largest
        place = wanted - first
        weight = float(values[place]) if 0 <= place < values.size else 0.0
        return logs + log(weight) - tilt * wanted if weight > 0 else -np.inf

    def _log_tilt(self, counts: Ints, times: Ints, n_children: int, wanted: int) -> float:
        """Return the logarithm of the tilt that a draw would take."""
        from congenial.sampling.allocation_to_children.kernels import tilt_of

        fineness = fineness_of(n_children)
        level = level_noise(self.noise, fineness)
        if fineness not in self._laws:
            self._laws[fineness] = empty_laws(level)
        laws = self._laws[fineness]
        tilt = tilt_of(level, laws, counts, times, len(counts), n_children, wanted)
        if not level.is_squared:
            return log(float(level.tilts[tilt]))
        shift, part = divmod(int(tilt), level.tilts.size)
        return log(float(level.tilts[part])) - 2 * shift * self.noise.log_base


def _weights(noise: DiscreteNoise, count: int, tilt: float, wanted: int) -> tuple[int, Floats, float]:
    """Return the first value that matters, the tilted weights from there on, and the logarithm of their scale."""
    side = level_noise(noise).side
    if noise.exponent == 2:
        mode = max(0, round(count - tilt / (2 * noise.log_base)))
    else:
        mode = count if tilt >= noise.log_base else 0
    values = np.arange(max(0, mode - side), min(wanted, mode + side) + 1)
    if not values.size:
        values = np.arange(wanted, wanted + 1)
    logs = noise.log_weight(values - count) + tilt * values
    largest = float(logs.max())
    return int(values[0]), np.exp(logs - largest), largest
