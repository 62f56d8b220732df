"""From a budget to weighted zeros: the largest precision of a group, and the weight, whose certificate stays within it.

Every decision is made in balls on decimal grids of precisions and weights, so that it is the same on every machine.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from math import ceil, floor

import flint

from congenial.balls import ball, double_above_exp, ends
from congenial.errors import PrivacyError
from congenial.privacy.formulas import round_up, unit_of
from congenial.privacy.weighted_group import EXCESS_DIGITS, MOST_CELLS, group_excess_holds, group_side_holds
from congenial.privacy.weighted_lines import lines_excess, pair_excess
from congenial.privacy.weighted_total import (
    MOST_ROUNDS,
    Multiset,
    broken_multiset,
    spread_multisets,
    total_excess,
    total_side_is_likely,
)

_PRECISION_DIGITS = 5
_FEW_DIGITS = 3  # where choices are compared
_WEIGHT_DIGITS = 4
_BITS = 160
_FEWEST, _MOST = Fraction(1, 20), Fraction(30)  # budgets: outside, the closed form is near or series are too long
_SMALL, _SMALL_FOR_TOTALS, _FEW_CELLS = Fraction(1, 4), Fraction(1, 10), 20


Check = Callable[[str, Fraction, Fraction, Fraction], bool]
"""Whether a side, ``lower`` or ``upper``, holds at a base, a weight and an excess."""


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


def excess_left(epsilon: Fraction, precision: Fraction) -> Fraction:
    """Return the largest excess that a budget leaves beside a precision, rounded down as certificates round it up."""
    with flint.ctx.workprec(_BITS + 3 * ceil(epsilon)):
        low: Fraction = ends(ball(epsilon - 2 * precision).expm1())[0]
    if low <= 0:
        return low
    unit = unit_of(low, EXCESS_DIGITS)
    return floor(low / unit) * unit


@lru_cache(maxsize=256)
def calibrated_zeros(epsilon: Fraction, cells: int, *, is_total_fixed: bool = False) -> WeightedZeros:
    """Return the largest precision of a group of cells, with its weight, that a budget for one changed record covers.

    Parameters
    ----------
    epsilon : Fraction
        For one record that changes between two cells of the group.
    cells : int
        Of the group; of a single cell no record can move to another, and nothing is lost but what the cap leaves.
    is_total_fixed : bool
        Whether an invariant says the total of the group, or it follows from invariants.

    Examples
    --------
    >>> found = calibrated_zeros(Fraction(1), 4)
    >>> float(found.precision), float(found.weight), found.theorem
    (0.39576, 4.968, 'group')
    >>> float(calibrated_zeros(Fraction(1), 4, is_total_fixed=True).precision) > 0.47
    True
    """
    if epsilon <= 0:
        raise PrivacyError(f"a budget must be above 0 to leave a precision, and it is {epsilon}")
    if type(cells) is not int or cells < 1:
        raise PrivacyError(f"a group has a number of cells, from 1 on, not {cells!r}")
    if cells == 1:
        return _alone(epsilon)
    found: list[WeightedZeros | None] = [calibrated_lines(epsilon)]
    if _FEWEST <= epsilon <= _MOST:
        found.append(_calibrated_group(epsilon, cells))
        if is_total_fixed and 2 < cells <= _most_cells_of_totals(epsilon):
            found.append(_calibrated_total(epsilon, cells))
    if is_total_fixed and cells == 2:
        found.append(_closed_form(epsilon, "total", _balanced, pair_excess))
    return max((one for one in found if one is not None), key=lambda one: one.precision)


@lru_cache(maxsize=256)
def likely_zeros(epsilon: Fraction, cells: int, *, is_total_fixed: bool = False) -> tuple[Fraction, Fraction]:
    """Return about the precision and weight of `calibrated_zeros`, to three digits and without a proof.

    It compares choices in a tenth of the time. Nothing is drawn with it.

    Examples
    --------
    >>> precision, _ = likely_zeros(Fraction(1), 8, is_total_fixed=True)
    >>> found = calibrated_zeros(Fraction(1), 8, is_total_fixed=True)
    >>> abs(precision / found.precision - 1) < Fraction(1, 100)
    True
    """
    if not _FEWEST <= epsilon <= _MOST or cells <= 2:
        found = calibrated_zeros(epsilon, cells, is_total_fixed=is_total_fixed)
        return found.precision, found.weight
    size = min(cells, MOST_CELLS if epsilon >= _SMALL else _FEW_CELLS)
    group = _search(partial(_quick_group, size), epsilon, "group", digits=_FEW_DIGITS) or calibrated_lines(epsilon)
    if is_total_fixed and cells <= _most_cells_of_totals(epsilon):
        tried: tuple[Multiset, ...] = ((0,) * (cells - 2), *spread_multisets(cells, group.base))
        likely = partial(total_side_is_likely, tried, cells)
        total = _search(likely, epsilon, "total", least=group.precision, digits=_FEW_DIGITS)
        group = total or group
    return group.precision, group.weight


def _quick_group(cells: int, side: str, base: Fraction, weight: Fraction, excess: Fraction) -> bool:
    return group_side_holds(side, cells, base, weight, excess, is_quick=True)


def _most_cells_of_totals(epsilon: Fraction) -> int:
    """Return up to which size a group with a fixed total is searched: a larger one gains little and takes long."""
    if epsilon >= _SMALL:
        return MOST_CELLS
    return 6 if epsilon >= _SMALL_FOR_TOTALS else 2


@lru_cache(maxsize=256)
def _calibrated_group(epsilon: Fraction, cells: int) -> WeightedZeros | None:
    """Search with a quick check, and once more with the whole one if that does not confirm what was found."""
    # At small budgets series are long, and fewer cells are counted, which is valid.
    size = min(cells, MOST_CELLS if epsilon >= _SMALL else _FEW_CELLS)

    def whole(side: str, base: Fraction, weight: Fraction, excess: Fraction) -> bool:
        return group_side_holds(side, size, base, weight, excess)

    found = _search(partial(_quick_group, size), epsilon, "group")
    if found is None or group_excess_holds(size, found.base, found.weight, found.excess):
        return found
    return _search(whole, epsilon, "group", most=found.precision)


def _calibrated_total(epsilon: Fraction, cells: int) -> WeightedZeros | None:
    """Search with few multisets of types, and add the first that breaks what was found until none does."""
    by_group = _calibrated_group(epsilon, cells)
    least = None if by_group is None else by_group.precision
    most: Fraction | None = None
    tried: list[Multiset] = [(0,) * (cells - 2)]
    is_quick = True
    for _ in range(MOST_ROUNDS):
        likely = partial(total_side_is_likely, tuple(tried), cells, is_quick=is_quick)
        found = _search(likely, epsilon, "total", least=least, most=most)
        if found is None:
            return None
        if len(tried) > 1:  # the certificate will ask the same, and all multisets take a second
            proven = total_excess(cells, found.base, found.weight)
            if proven is not None and proven <= found.excess:
                return found
        broken = broken_multiset(cells, found.base, found.weight, found.excess)
        if broken is None:
            is_proven = group_excess_holds(cells, found.base, found.weight, found.excess, sides=("upper",))
            return found if is_proven else None
        most = found.precision
        if broken in tried:
            is_quick = False
        elif len(tried) == 1:
            tried = [broken, *spread_multisets(cells, found.base)]
        else:
            tried = [broken, *tried]
    return None


@lru_cache(maxsize=256)
def calibrated_lines(epsilon: Fraction) -> WeightedZeros:
    """Return the largest precision by the bound for any conditions, with the weight of noise clamped at zero.

    Examples
    --------
    >>> float(calibrated_lines(Fraction(1)).precision)
    0.35377
    """
    found = _closed_form(epsilon, "lines", clamped_weight, lines_excess)
    if found is None:
        raise PrivacyError(f"a budget of epsilon {float(epsilon):.3g} leaves no precision that noise can have")
    return found


def clamped_weight(base: Fraction) -> Fraction:
    """Return the weight of noise that is clamped at zero, ``1 / (1 - base)``, as a short decimal above it."""
    exact = 1 / (1 - base)
    unit = unit_of(exact, _WEIGHT_DIGITS)
    return ceil(exact / unit) * unit


def _balanced(base: Fraction) -> Fraction:
    """Return ``1 / (1 - b)`` to ten digits: two cells with a fixed total then have all but equal normalisers."""
    exact = 1 / (1 - base * base)
    unit = unit_of(exact, 10)
    return ceil(exact / unit) * unit


def _closed_form(
    epsilon: Fraction,
    theorem: str,
    weight_of: Callable[[Fraction], Fraction],
    excess_of: Callable[[Fraction, Fraction], Fraction],
) -> WeightedZeros | None:
    def at(precision: Fraction) -> WeightedZeros | None:
        base = Fraction(double_above_exp(precision))
        weight = weight_of(base)
        found = WeightedZeros(precision, weight, round_up(excess_of(base, weight)), theorem)
        return found if found.loss() <= epsilon else None

    return _bisect(at, epsilon)


def _alone(epsilon: Fraction) -> WeightedZeros:
    unit = unit_of(epsilon / 2, _PRECISION_DIGITS)
    precision = floor(epsilon / 2 / unit) * unit
    return WeightedZeros(precision, clamped_weight(Fraction(double_above_exp(precision))), Fraction(0), "lines")


def _bisect(
    at: Callable[[Fraction], WeightedZeros | None],
    epsilon: Fraction,
    least: Fraction | None = None,
    most: Fraction | None = None,
    digits: int = _PRECISION_DIGITS,
) -> WeightedZeros | None:
    """Return what is found at the largest decimal precision between two, by default a quarter and half of a budget."""
    unit = unit_of(epsilon / 2, digits)
    low, high = floor((least or epsilon / 4) / unit) - 1, floor((most or epsilon / 2) / unit) + 1
    best = None
    while high - low > 1:
        middle = (low + high) // 2
        if (found := at(middle * unit)) is None:
            high = middle
        else:
            low, best = middle, found
    return best


def _search(
    holds: Check,
    epsilon: Fraction,
    theorem: str,
    *,
    least: Fraction | None = None,
    most: Fraction | None = None,
    digits: int = _PRECISION_DIGITS,
) -> WeightedZeros | None:
    """Return the largest precision for which some weight passes both sides of a check."""
    share = Fraction(3, 2)  # the weight times 1 - base, where the last search ended

    def at(precision: Fraction) -> WeightedZeros | None:
        nonlocal share
        base, left = Fraction(double_above_exp(precision)), excess_left(epsilon, precision)
        if left <= 0:
            return None
        weight = _weight(lambda side, weight: holds(side, base, weight, left), 1 / (1 - base), share)
        if weight is None:
            return None
        share = weight * (1 - base)
        return WeightedZeros(precision, weight, left, theorem)

    return _bisect(at, epsilon, least, most, digits)


def _weight(holds: Callable[[str, Fraction], bool], clamped: Fraction, share: Fraction) -> Fraction | None:
    """Return a weight at which both sides hold: too small a weight breaks the lower one, too large a one the upper."""
    unit = unit_of(clamped, _WEIGHT_DIGITS)
    low, high = max(ceil(1 / unit), floor(clamped / 2 / unit)) - 1, ceil(5 * clamped / 2 / unit)
    middle = min(max(floor(share * clamped / unit), low + 1), high - 1)
    while high - low > 1:
        weight = middle * unit
        has_upper, has_lower = holds("upper", weight), holds("lower", weight)
        if has_upper and has_lower:
            return weight
        if not has_upper and not has_lower:  # no weight above holds, and none below
            return None
        low, high = (middle, high) if has_upper else (low, middle)
        middle = (low + high) // 2
    return None
