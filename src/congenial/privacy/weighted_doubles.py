"""The first level of `weighted_group` in doubles, where rounding leaves no doubt.

A search for the largest precision asks some hundred times whether sums hold, and most questions are far from the edge.
Doubles answer those in the same way, and a search takes down to a fifth of the time; no certificate rests on them.
"""

from math import isfinite

import numpy as np

from congenial.arrays import Floats

_ROUNDING = 1e-10  # of sums of positive terms: some thousand roundings of 2^-53 each are a thousandth of it
_SMALLEST = 1e-250  # below, doubles lose their digits


def first_level_holds(side: str, k: int, base: float, weight: float, excess: float, end: int) -> bool | None:
    """Return whether the partial sums of a side hold at level 0, beside k empty cells; None where it is too close.

    Parameters
    ----------
    side : str
        ``lower`` or ``upper``, as in `weighted_group.group_side_holds`.
    end : int
        Where the tail begins.

    Examples
    --------
    >>> [first_level_holds("lower", 2, 0.6733, 4.5, excess, 80) for excess in (0.3, 0.01)]
    [True, False]
    """
    fall = base * base
    falls: Floats = np.power(fall, np.arange(end + 2), dtype=np.float64)  # 1, b, b^2, ...
    if not (falls[-1] > _SMALLEST and isfinite(weight ** (k + 3))):
        return None
    empty, one = falls.copy(), np.concatenate([[weight], falls[:-1]])
    empty[0] = weight
    others = _power(empty, k)
    step = (1 - fall) * _times(falls, others)
    before = np.concatenate([[0.0], step[:-1]])
    if side == "lower":
        grown = np.concatenate([[0.0], _times(empty, step)[:-1]])
        terms = excess * grown - (weight * step - (weight - 1) * before)
    else:
        grown = _times(one, step)
        terms = excess * grown + (weight * step - (weight - 1) * before)
    doubt = _ROUNDING * (excess * grown + weight * step + (weight - 1) * before)
    floor = excess * _times(_times(empty, one), others)
    if not (np.isfinite(floor).all() and step[-1] > _SMALLEST):
        return None
    return _sums_hold((terms - doubt).tolist(), (terms + doubt).tolist(), floor.tolist(), end)


def _sums_hold(least: list[float], most: list[float], floor: list[float], end: int) -> bool | None:
    """Decide as `weighted_group` does, for terms that lie between two ends."""
    low = high = 0.0
    is_sure = True
    for n in range(end):
        low, high = least[n] + min(low, 0.0), most[n] + min(high, 0.0)
        if high < 0 and (1 + _ROUNDING) * floor[n + 1] + high < 0:
            return False
        is_sure = is_sure and (low >= 0 or (1 - _ROUNDING) * floor[n + 1] + low >= 0)
    if high < 0:
        return False
    return True if is_sure and low >= 0 else None


def _times(a: Floats, b: Floats) -> Floats:
    found: Floats = np.convolve(a, b)
    return found[: len(a)]


def _power(series: Floats, k: int) -> Floats:
    """Return a power of a series by squares: all terms are positive, so nothing cancels."""
    out, square = np.zeros_like(series), series
    out[0] = 1.0
    while k:
        if k & 1:
            out = _times(out, square)
        k >>= 1
        square = _times(square, square) if k else square
    return out
