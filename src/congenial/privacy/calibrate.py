"""From a budget to precisions: the largest, in the user's proportions, whose certificate stays within the budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import floor

from congenial.conditions.queries import Query
from congenial.errors import PrivacyError
from congenial.noise import FAMILIES
from congenial.privacy.bounds_and_enumerated_losses import calibrated_cells, unit_of
from congenial.privacy.budget import Budget, spent
from congenial.privacy.certificate_inputs import MEASURED
from congenial.privacy.compose_and_price_areas import Pricing

_DIGITS = 15  # calibrated precisions are decimals with so many significant digits, rounded toward more noise
_ROUGH_DIGITS = 6  # where every step goes through all pairs of tables
_SMALLEST = Fraction(1, 2**60)
_SMALL_ENOUGH = 1000  # of epsilon: beyond it precisions end before budgets do


@dataclass(frozen=True)
class PrecisionRequest:
    """What a user requests of one measured query: a precision, or a portion of the budget."""

    precision: Fraction | None
    portion: Fraction = Fraction(1)


def precisions_of(pricing: Pricing, queries: Sequence[Query], budget: Budget | None) -> tuple[Fraction, ...]:
    """Return the precision of each measured query: its own, or what the budget leaves for its portion."""
    if budget is None:
        return tuple(query.precision or Fraction(0) for query in queries)
    return calibrate(
        pricing, [PrecisionRequest(query.precision, query.portion or Fraction(1)) for query in queries], budget
    )


def calibrate(pricing: Pricing, requests: Sequence[PrecisionRequest], budget: Budget) -> tuple[Fraction, ...]:
    """Return a precision for each measured query: given ones stay, the others get a common scale times their portion.

    Parameters
    ----------
    pricing : Pricing
        What a release of all areas together costs at some precisions.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism(epsilon="1")
    >>> pricing = mechanism.pricing(mechanism.disclose(p12_table()))
    >>> (precision,) = calibrate(pricing, [PrecisionRequest(None)], Budget.of(epsilon="1"))
    >>> float(2 * precision)  # log((1 + e) / 2), where GM's halving has 0.5
    0.620114506958276
    """
    family = FAMILIES[pricing.noise]
    largest = max((request.portion for request in requests if request.precision is None), default=Fraction(1))

    def at(scale: Fraction) -> tuple[Fraction, ...]:
        portions = [scale * request.portion / largest for request in requests]
        pairs = zip(requests, portions, strict=True)
        return tuple(share if request.precision is None else request.precision for request, share in pairs)

    if budget.is_nothing:
        if any(request.precision for request in requests):
            raise PrivacyError("a budget of 0 leaves nothing for the queries that have a precision of their own")
        return at(Fraction(0))

    def is_within(scale: Fraction, *, try_all_pairs: bool = False) -> bool:
        chosen = at(scale)
        if max(chosen) > family.most:
            return False
        if not budget.covers_plain(pricing.one_record_without_invariants(chosen), currency=family.currency):
            return False
        if pricing.method == MEASURED and not budget.covers(pricing.without_exact_numbers(chosen)):
            return False
        return budget.covers(pricing.certificate(chosen, try_all_pairs=try_all_pairs))

    scale = _largest(is_within, start=_closed_form(budget, pricing))
    if scale is None:
        raise PrivacyError(_too_small(pricing, at(Fraction(0)), budget))
    is_supported = all(precision >= family.least for precision in at(scale) if precision)
    if is_supported and pricing.has_small_sets:
        better = _largest(partial(is_within, try_all_pairs=True), digits=_ROUGH_DIGITS, start=scale)
        scale = scale if better is None else max(scale, better)
    chosen = at(scale)
    for precision in chosen:
        if 0 < precision < family.least:
            raise PrivacyError(
                f"a budget of {budget.text} leaves a precision of {float(precision):.3g}, below the least supported,"
                f" {float(family.least):.3g}; raise the budget or measure less"
            )
    return chosen


def _too_small(pricing: Pricing, precisions: tuple[Fraction, ...], budget: Budget) -> str:
    already = ""
    if any(precisions):
        cost = budget.cost(certificate := pricing.certificate(precisions))
        amount = "more than any epsilon" if cost is None else spent(certificate, budget).text
        already = f" beside those with a precision of their own, which cost {amount}"
    counted = "" if pricing.is_simple else ", once all rows of a unit and all areas are counted"
    what = f"a budget of {budget.text} is too small to measure anything{already}{counted}"
    return f"{what}; raise the budget or measure less"


def _closed_form(budget: Budget, pricing: Pricing) -> Fraction:
    """Return the answer for equally precise cells, nonnegative or measured, which is most often it or near it."""
    if pricing.method == MEASURED and budget.delta is None:
        n_ends = 2 if pricing.neighbours == "bounded" else 1
        power = FAMILIES[pricing.noise].exponent
        return budget.limit * power / n_ends if (budget.rho is None) == (power == 1) else Fraction(1)
    if budget.epsilon is None or budget.delta is not None or budget.epsilon > _SMALL_ENOUGH:
        return Fraction(1)
    return calibrated_cells(budget.epsilon, pricing.neighbours) or Fraction(1)


def _largest(holds: Callable[[Fraction], bool], start: Fraction, digits: int = _DIGITS) -> Fraction | None:
    """Return the largest decimal scale that holds, from a first guess by doubling and halving; None when none does."""
    unit = unit_of(start, digits)
    guess = floor(start / unit) * unit
    if holds(guess) and not holds(guess + unit):
        return guess
    low, high = start, start
    if holds(start):
        while holds(high := 2 * low):
            low = high
            if low > 2**12:  # beyond every precision that noise can have
                return low
    else:
        while not holds(low := low / 2):
            high = low
            if low < _SMALLEST:
                return None
    unit = unit_of(low, digits)
    first, last = floor(low / unit), floor(high / unit) + 1
    if not holds(first * unit):
        first -= 1
    while last - first > 1:
        middle = (first + last) // 2
        if holds(middle * unit):
            first = middle
        else:
            last = middle
    return first * unit if first and holds(first * unit) else None
