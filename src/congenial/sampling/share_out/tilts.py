"""The tilts of one level's noise, from public numbers alone: a child's weights may be tilted by any of them."""

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt

import numpy as np

from congenial.arrays import Floats
from congenial.balls import double_above_power
from congenial.errors import SamplingError
from congenial.noise.family import DiscreteNoise
from congenial.sampling.kernels.share_shapes import ShareNoise

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
def share_noise(noise: DiscreteNoise, fineness: int = 1) -> ShareNoise:
    """Return a level's noise as kernels take it, with tilts for families of some size.

    Every number follows from integers, or is the smallest double above a real one, found by enclosure: the same
    everywhere.

    Examples
    --------
    >>> from congenial.noise import DiscreteGaussian
    >>> made = share_noise(DiscreteGaussian("1/9"))
    >>> made.tilts.size, made.side
    (16, 33)
    """
    return _squared(noise, fineness) if noise.exponent == 2 else _linear(noise, fineness)


def _squared(noise: DiscreteNoise, fineness: int) -> ShareNoise:
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
    return ShareNoise(
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


def _linear(noise: DiscreteNoise, fineness: int) -> ShareNoise:
    base, precision = noise.base, noise.precision
    side = max(_LINEAR_SIDE, ceil(4 * _NATS / precision))
    _check(noise, side)
    slowest = 1 - Fraction(_NATS, side)  # a fall by which a table ends before it is too long
    # Above the centre weights fall by base * tilt, below it by tilt / base or base / tilt: the odds of each on a grid.
    parts = 4 * fineness
    wanted = [
        *(fall / base for fall in _falls(-40, slowest, parts)),
        *(fall * base for fall in _falls(-3, slowest, parts)),
        *(base / fall for fall in _falls(-3, slowest, parts)),
    ]
    rounded = {float(tilt) for tilt in wanted if tilt < 1 / base}
    tilts = [
        tilt
        for tilt in map(Fraction, sorted(rounded))
        if tilt * base <= slowest and (tilt <= slowest * base or base <= slowest * tilt)
    ]
    return ShareNoise(
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


def _falls(least: int, slowest: Fraction, parts: int) -> Iterator[Fraction]:
    """Go through falls whose odds are powers of two, a part of a power apart, up to the slowest."""
    number = least * parts
    while True:
        odds = Fraction(double_above_power(Fraction(2), Fraction(number, parts)))
        if (fall := odds / (1 + odds)) > slowest:
            return
        yield fall
        number += 1


def _powers(base: Fraction) -> Floats:
    return np.array([double_above_power(base, Fraction(2**i)) for i in range(62)])


def _check(noise: DiscreteNoise, side: int) -> None:
    if side > _MOST_SIDE:
        raise SamplingError(
            f"precision {float(noise.precision):.3g} of {noise.title} noise spreads a child's count over {2 * side:,}"
            f" values, more than the {2 * _MOST_SIDE:,} that tables are made for; give its level a larger share"
        )
