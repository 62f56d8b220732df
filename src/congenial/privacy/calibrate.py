"""From a budget to precisions: the largest, in the user's proportions, whose certificate stays within the budget."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from congenial.errors import PrivacyError
from congenial.fraction import exact_fraction
from congenial.noise import FAMILIES
from congenial.privacy.certificate import Certificate, shown
from congenial.privacy.certify import GAUSSIAN, Case
from congenial.privacy.formulas import calibrated_cells, epsilon_at

_DIGITS = 15  # calibrated precisions are decimals with so many significant digits, rounded toward more noise
_SMALLEST = Fraction(1, 2**60)
_SMALL_ENOUGH = 1000  # of epsilon: beyond it precisions end before budgets do


@dataclass(frozen=True)
class Budget:
    """What a release may cost in total: epsilon, epsilon at a delta, or rho.

    Examples
    --------
    >>> Budget.of(epsilon="1")
    Budget: epsilon 1
    >>> Budget.of(rho="1/2", noise="discrete_gaussian")
    Budget: rho 0.5 at integer orders
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    rho: Fraction | None = None
    orders: str = "integer"

    @classmethod
    def of(
        cls,
        *,
        epsilon: object = None,
        delta: object = None,
        rho: object = None,
        orders: str = "integer",
        noise: str = "double_geometric",
    ) -> "Budget | None":
        """Check what a user wrote; None when there is no budget."""
        if orders not in {"integer", "all"}:
            raise PrivacyError(f'orders={orders!r} is not known; write "integer" (2, 3, 4, ...) or "all"')
        if orders == "all" and rho is None:
            raise PrivacyError('orders="all" goes with a budget in rho: write rho="1/2", orders="all"')
        if epsilon is not None and rho is not None:
            raise PrivacyError("give a budget in epsilon or in rho, not in both")
        if delta is not None and epsilon is None:
            raise PrivacyError('a delta goes with an epsilon: write epsilon="1", delta="1e-10"')
        if epsilon is None and rho is None:
            return None
        total = _amount(epsilon if rho is None else rho, "epsilon" if rho is None else "rho")
        if rho is not None:
            return cls(rho=total, orders=orders)
        if delta is None:
            if noise == GAUSSIAN and total > 0:
                raise PrivacyError(
                    "discrete Gaussian noise has no pure epsilon;"
                    f' write epsilon="{total}", delta="1e-10", or a budget rho="1/2"'
                )
            return cls(epsilon=total)
        exact = exact_fraction(delta, "delta")
        if not 0 < exact < 1:
            raise PrivacyError(f'delta lies strictly between 0 and 1, such as "1e-10", and it is {exact}')
        return cls(epsilon=total, delta=exact)

    @property
    def is_nothing(self) -> bool:
        """Whether nothing may be spent: suppression."""
        return (self.epsilon if self.rho is None else self.rho) == 0

    def cost(self, certificate: Certificate) -> Fraction | None:
        """Return what a certificate costs in this budget's own terms; None when it bounds no such thing."""
        if self.rho is not None:
            return certificate.rho_at_all_orders if self.orders == "all" else certificate.rho
        return certificate.loss if self.delta is None else certificate.epsilon(self.delta)

    def covers(self, certificate: Certificate) -> bool:
        """Whether a certificate stays within the budget."""
        cost, limit = self.cost(certificate), self.epsilon if self.rho is None else self.rho
        return cost is not None and limit is not None and cost <= limit

    def covers_plain(self, distance: Fraction, *, is_gaussian: bool) -> bool:
        """Whether one record at this distance stays within the budget when there are no conditions at all."""
        rho = distance if is_gaussian else distance**2 / 2
        if self.rho is not None:
            return rho <= self.rho
        if self.epsilon is None:
            return False
        if self.delta is None:
            return distance <= self.epsilon
        return epsilon_at(rho, self.delta) <= self.epsilon or (not is_gaussian and distance <= self.epsilon)

    @property
    def text(self) -> str:
        """The budget in words."""
        if self.rho is not None:
            return f"rho {shown(self.rho)} at {self.orders} orders"
        at = "" if self.delta is None else f" at delta {float(self.delta):.3g}"
        return f"epsilon {shown(self.epsilon or Fraction(0))}{at}"

    def __repr__(self) -> str:
        return f"Budget: {self.text}"


def _amount(value: object, name: str) -> Fraction:
    exact = exact_fraction(value, name)
    if exact < 0:
        raise PrivacyError(f"{name} must not be negative, and it is {exact}; 0 is suppression")
    return exact


def calibrate(
    case: Case, precisions: Sequence[Fraction | None], weights: Sequence[Fraction], budget: Budget
) -> tuple[Fraction, ...]:
    """Return a precision for each class of queries.

    Parameters
    ----------
    precisions : sequence of Fraction or None
        Given ones stay; None asks for a common scale times the weight.
    weights : sequence of Fraction
        The user's proportions.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> constraints = mechanism.disclose(p12_table())
    >>> case = Case(constraints, mechanism.classes, "double_geometric", "bounded")
    >>> (precision,) = calibrate(case, [None], [Fraction(1)], Budget.of(epsilon="1"))
    >>> float(2 * precision)  # log((1 + e) / 2), where GM's halving has 0.5
    0.620114506958276
    """
    family = FAMILIES[case.noise]
    largest = max((w for own, w in zip(precisions, weights, strict=True) if own is None), default=Fraction(1))
    weights = [weight / largest for weight in weights]

    def at(scale: Fraction) -> tuple[Fraction, ...]:
        return tuple(scale * weight if own is None else own for own, weight in zip(precisions, weights, strict=True))

    if budget.is_nothing:
        if any(precisions):
            raise PrivacyError("a budget of 0 leaves nothing for the queries that have a precision of their own")
        return at(Fraction(0))

    def is_within(scale: Fraction, *, try_all_pairs: bool = False) -> bool:
        chosen = at(scale)
        if max(chosen) > family.most:
            return False
        plain = case.moves.one_record_without_invariants(chosen, case.power, case.neighbours)
        if not budget.covers_plain(plain, is_gaussian=case.is_gaussian):
            return False
        return budget.covers(case.certificate(chosen, try_all_pairs=try_all_pairs))

    found = _largest(is_within, start=_closed_form(budget, case))
    if found is None:
        given = at(Fraction(0))
        spent = case.certificate(given) if any(given) else None
        already = (
            "" if spent is None else f" beside those with a precision of their own, which cost {_cost(budget, spent)}"
        )
        raise PrivacyError(
            f"a budget of {budget.text} is too small to measure anything{already}; raise the budget or measure less"
        )
    is_supported = all(precision >= family.least for precision in at(found) if precision)
    if is_supported and case.is_small and not case.is_one_table:
        better = _largest(lambda scale: is_within(scale, try_all_pairs=True), digits=6, start=found)
        found = found if better is None else max(found, better)
    chosen = at(found)
    for precision in chosen:
        if 0 < precision < family.least:
            raise PrivacyError(
                f"a budget of {budget.text} leaves a precision of {float(precision):.3g}, below the least supported,"
                f" {float(family.least):.3g}; raise the budget or measure less"
            )
    return chosen


def _closed_form(budget: Budget, case: Case) -> Fraction:
    """Return the answer for equally precise nonnegative cells, which is most often the answer or near it."""
    if budget.epsilon is None or budget.delta is not None or budget.epsilon > _SMALL_ENOUGH:
        return Fraction(1)
    return calibrated_cells(budget.epsilon, case.neighbours) or Fraction(1)


def _cost(budget: Budget, certificate: Certificate) -> str:
    cost = budget.cost(certificate)
    return "more than any epsilon" if cost is None else shown(cost)


def _largest(holds: Callable[[Fraction], bool], start: Fraction, digits: int = _DIGITS) -> Fraction | None:
    """Return the largest decimal scale that holds, from a first guess by doubling and halving; None when none does."""
    unit = _unit(start, digits)
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
    unit = _unit(low, digits)
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


def _unit(scale: Fraction, digits: int) -> Fraction:
    """Return the last of so many significant digits of a number."""
    unit = Fraction(1)
    while scale / unit < 10 ** (digits - 1):
        unit /= 10
    while scale / unit >= 10**digits:
        unit *= 10
    return unit
