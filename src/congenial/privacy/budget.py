"""What a release may cost, and what it costs in the budget's own terms."""

from dataclasses import dataclass
from fractions import Fraction

from congenial.errors import NoiseError, PrivacyError, did_you_mean
from congenial.exact import exact_fraction
from congenial.noise import DEFAULT, FAMILIES
from congenial.privacy.bounds_and_enumerated_losses import epsilon_at
from congenial.privacy.certificate import Certificate, rho_text, shown


@dataclass(frozen=True)
class Spent:
    """An amount of privacy loss: in epsilon or rho, exactly, and at which delta."""

    currency: str
    amount: Fraction
    delta: Fraction | None = None

    @property
    def text(self) -> str:
        """The amount in words, rounded up; a rho as an epsilon at a delta as well."""
        if self.currency == "rho":
            return rho_text(self.amount)
        at = "" if self.delta is None else f" at delta {float(self.delta):g}"
        return f"{self.currency} {shown(self.amount)}{at}"


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
        noise: str = DEFAULT,
    ) -> "Budget | None":
        """Check what a user wrote; None when there is no budget."""
        if noise not in FAMILIES:
            raise NoiseError(f"noise {noise!r} is not known; {did_you_mean(str(noise), FAMILIES)}")
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
            if FAMILIES[noise].currency == "rho" and total > 0:
                raise PrivacyError(
                    f"{FAMILIES[noise].title} noise has no pure epsilon;"
                    f' write epsilon="{total}", delta="1e-10", or a budget rho="1/2"'
                )
            return cls(epsilon=total)
        exact = exact_fraction(delta, "delta")
        if not 0 < exact < 1:
            raise PrivacyError(f'delta lies strictly between 0 and 1, such as "1e-10", and it is {exact}')
        return cls(epsilon=total, delta=exact)

    @property
    def limit(self) -> Fraction:
        """The most that may be spent, in the budget's own terms."""
        return (self.epsilon if self.rho is None else self.rho) or Fraction(0)

    @property
    def is_nothing(self) -> bool:
        """Whether nothing may be spent: suppression."""
        return self.limit == 0

    def cost(self, certificate: Certificate) -> Fraction | None:
        """Return what a certificate costs in this budget's own terms; None when it bounds no such thing."""
        if self.rho is not None:
            return certificate.rho_at_all_orders if self.orders == "all" else certificate.rho
        return certificate.loss if self.delta is None else certificate.epsilon(self.delta)

    def covers(self, certificate: Certificate) -> bool:
        """Whether a certificate stays within the budget."""
        cost = self.cost(certificate)
        return cost is not None and cost <= self.limit

    def covers_plain(self, distance: Fraction, *, currency: str) -> bool:
        """Whether one record at this distance stays within the budget when there are no conditions at all."""
        rho = distance if currency == "rho" else distance**2 / 2
        if self.rho is not None:
            return rho <= self.rho
        if self.delta is None:
            return distance <= self.limit
        return epsilon_at(rho, self.delta) <= self.limit or (currency == "epsilon" and distance <= self.limit)

    @property
    def text(self) -> str:
        """The budget in words."""
        if self.rho is not None:
            return f"rho {shown(self.rho)} at {self.orders} orders"
        at = "" if self.delta is None else f" at delta {float(self.delta):.3g}"
        return f"epsilon {shown(self.limit)}{at}"

    @property
    def amount(self) -> str:
        """What may be spent, in words that leave Renyi orders out; a rho as an epsilon at a delta as well."""
        return self.text if self.rho is None else rho_text(self.rho)

    def __repr__(self) -> str:
        return f"Budget: {self.text}"


def _amount(value: object, name: str) -> Fraction:
    exact = exact_fraction(value, name)
    if exact < 0:
        raise PrivacyError(f"{name} must not be negative, and it is {exact}; 0 is suppression")
    return exact


def spent(certificate: Certificate, budget: Budget | None) -> Spent:
    """Return what a certificate costs: in the budget's currency, or, without one, in the one that it bounds.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> mechanism = p12_mechanism()
    >>> spent(mechanism.plan(mechanism.disclose(p12_table())).certificate, None).text
    'epsilon 1.4899'
    """
    if budget is not None and (cost := budget.cost(certificate)) is not None:
        return Spent("epsilon" if budget.rho is None else "rho", cost, budget.delta)
    if certificate.loss is not None:
        return Spent("epsilon", certificate.loss)
    return Spent("rho", certificate.rho or Fraction(0))
