"""From a budget to weighted zeros: the largest precision of a group, and the weight, whose certificate stays within it.

Every decision is made in balls on decimal grids of precisions and weights, so that it is the same on every machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

import flint

from congenial.balls import ball, double_above_exp, ends
from congenial.errors import PrivacyError
from congenial.privacy.formulas import round_up
from congenial.privacy.weighted_group import group_side_holds
from congenial.privacy.weighted_lines import lines_excess

Check = Callable[[str, Fraction, Fraction, Fraction], bool]
"""Whether a side, ``lower`` or ``upper``, is proven at a base, a weight and an excess."""

_DIGITS = 4  # of precisions and weights
_BITS = 160


@dataclass(frozen=True)
class WeightedZeros:
    """A group's precision and weight of zero, with what they are proven to cost. Public.

    Attributes
    ----------
    precision : Fraction
        Of the Double Geometric noise of every cell; `base` is the rational number in use.
    weight : Fraction
        Of the value 0.
    excess : Fraction
        The normalisers of two tables one record apart have a ratio of at most ``1 + excess``.
    theorem : str
        ``lines``, ``group`` or ``total``: which section of docs/claims/weighted-zeros.md proves it.
    """

    precision: Fraction
    weight: Fraction
    excess: Fraction
    theorem: str

    @property
    def base(self) -> Fraction:
        """The smallest double at or above ``exp(-precision)``, as noise has it."""
        return Fraction(double_above_exp(self.precision))

    def loss(self, records: int = 1) -> Fraction:
        """Return what so many records cost at most that change between cells of the group, rounded up."""
        return records * changed_loss(self.precision, self.excess)


def changed_loss(precision: Fraction, excess: Fraction) -> Fraction:
    """Return ``2 precision + log(1 + excess)``, rounded up.

    Examples
    --------
    >>> float(changed_loss(Fraction("0.42"), Fraction("0.17")))
    0.997003748809665
    """
    with flint.ctx.workprec(_BITS):
        return 2 * precision + round_up(ends((1 + ball(excess)).log())[1])


def excess_left(epsilon: Fraction, precision: Fraction, digits: int = 9) -> Fraction:
    """Return the largest excess that a budget leaves beside a precision, rounded down."""
    with flint.ctx.workprec(_BITS + 3 * ceil(epsilon)):
        low: Fraction = ends(ball(epsilon - 2 * precision).expm1())[0]
    return Fraction(floor(low * 10**digits), 10**digits)


@lru_cache(maxsize=256)
def calibrated_group(epsilon: Fraction, cells: int) -> WeightedZeros:
    """Return the largest precision of a group of cells, with its weight, that a budget for one changed record covers.

    Examples
    --------
    >>> found = calibrated_group(Fraction(1), 4)
    >>> float(found.precision), float(found.weight), found.loss() <= 1
    (0.3957, 4.775, True)
    """

    def check(side: str, base: Fraction, weight: Fraction, excess: Fraction) -> bool:
        return group_side_holds(side, cells, base, weight, excess)

    found = _largest(check, epsilon, "group")
    by_lines = calibrated_lines(epsilon)
    return by_lines if found is None or found.precision < by_lines.precision else found


@lru_cache(maxsize=256)
def calibrated_lines(epsilon: Fraction) -> WeightedZeros:
    """Return the largest precision by the bound for any conditions, with the weight of noise clamped at zero."""

    def at(precision: Fraction) -> WeightedZeros | None:
        base = Fraction(double_above_exp(precision))
        weight = round_up(1 / (1 - base), 4)
        excess = lines_excess(base, weight)
        found = WeightedZeros(precision, weight, excess, "lines")
        return found if found.loss() <= epsilon else None

    found = _bisect(at, epsilon)
    if found is None:
        raise PrivacyError(f"a budget of epsilon {float(epsilon):.3g} leaves no precision that noise can have")
    return found


def _bisect(at: Callable[[Fraction], WeightedZeros | None], epsilon: Fraction) -> WeightedZeros | None:
    """Return what is found at the largest decimal precision between a quarter and half of a budget."""
    unit = _unit(epsilon / 2)
    low, high = floor(epsilon / 4 / unit) - 1, floor(epsilon / 2 / unit) + 1
    best = None
    while high - low > 1:
        middle = (low + high) // 2
        if (found := at(middle * unit)) is None:
            high = middle
        else:
            low, best = middle, found
    return best


def _largest(check: Check, epsilon: Fraction, theorem: str) -> WeightedZeros | None:
    """Return the largest precision for which some weight passes both sides of a check."""
    share = Fraction(3, 2)  # the weight times 1 - base, where the last search ended

    def at(precision: Fraction) -> WeightedZeros | None:
        nonlocal share
        base, left = Fraction(double_above_exp(precision)), excess_left(epsilon, precision)
        weight = _weight(lambda side, weight: check(side, base, weight, left), 1 / (1 - base), share)
        if weight is None:
            return None
        share = weight * (1 - base)
        return WeightedZeros(precision, weight, left, theorem)

    return _bisect(at, epsilon)


def _weight(holds: Callable[[str, Fraction], bool], clamped: Fraction, share: Fraction) -> Fraction | None:
    """Return a weight at which both sides hold: too small a weight breaks the lower one, too large a one the upper."""
    unit = _unit(clamped)
    low, high = max(ceil(1 / unit), floor(clamped / 2 / unit)) - 1, ceil(4 * clamped / unit)
    middle = min(max(floor(share * clamped / unit), low + 1), high - 1)
    while high - low > 1:
        weight = middle * unit
        is_large_enough = holds("lower", weight)
        is_small_enough = holds("upper", weight)
        if is_large_enough and is_small_enough:
            return weight
        if not is_large_enough and not is_small_enough:
            return None
        low, high = (low, middle) if is_large_enough else (middle, high)
        middle = (low + high) // 2
    return None


def _unit(size: Fraction) -> Fraction:
    """Return the last digit's worth of a number."""
    unit = Fraction(1)
    while size / unit < 10 ** (_DIGITS - 1):
        unit /= 10
    while size / unit >= 10**_DIGITS:
        unit *= 10
    return unit
