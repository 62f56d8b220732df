"""A certificate: what a release costs at most, under which relation, and where the proof stands."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from congenial.errors import PrivacyError
from congenial.exact import exact_fraction
from congenial.privacy.bounds_and_enumerated_losses import epsilon_at, odds_factor

_WEAK = 10  # epsilon
USUAL_DELTA = Fraction(1, 10**10)
"""The delta at which a rho is stated as an epsilon as well, unless another is given."""

ONE_RECORD, EXCHANGE = "one record", "two that exchange"
"""Kinds of change by name; the third is ``any k records``. The second leaves out some pairs k records apart."""


@dataclass(frozen=True)
class Theorem:
    """Where a kind of certificate has its statement, its proof and the test that audits it; and what it counts in.

    `currency` is epsilon where one record without invariants is compared in epsilon, rho where in rho.
    """

    page: str
    currency: str = "epsilon"


_LOSS, _LISTED, _ZCDP, _WEIGHTED, _TREE, _MEASURED, _MEASURED_TREE, _TABLES = (
    f"docs/claims/{name}.md"
    for name in (
        *("conditional-loss", "enumerated-loss", "conditional-zcdp", "weighted-zeros", "hierarchy"),
        *("measured", "measured-trees", "measured-tables"),
    )
)
THEOREMS = {
    "suppression": Theorem(_LOSS),
    "singleton": Theorem(_LOSS),
    "equalities_only": Theorem(_LOSS),
    "limited_cells": Theorem(_LOSS),
    "general": Theorem(_LOSS),
    "weighted_lines": Theorem(_WEIGHTED),
    "weighted_group": Theorem(_WEIGHTED),
    "weighted_fixed_total": Theorem(_WEIGHTED),
    "clamped_unbounded": Theorem(_WEIGHTED),
    "weighted_general": Theorem(_WEIGHTED),
    "enumerated": Theorem(_LISTED),
    "gaussian_equalities_only": Theorem(_ZCDP, "rho"),
    "gaussian_rank_one": Theorem(_ZCDP, "rho"),
    "gaussian_unimodular": Theorem(_ZCDP, "rho"),
    "gaussian_range": Theorem(_ZCDP, "rho"),
    "gaussian_enumerated": Theorem(_LISTED, "rho"),
    "measured_double_geometric": Theorem(_MEASURED),
    "measured_gaussian": Theorem(_MEASURED, "rho"),
    "measured_tree_double_geometric": Theorem(_MEASURED_TREE),
    "measured_tree_gaussian": Theorem(_MEASURED_TREE, "rho"),
    "measured_tables_double_geometric": Theorem(_TABLES),
    "measured_tables_gaussian": Theorem(_TABLES, "rho"),
    "chain_gaussian": Theorem(_TREE, "rho"),
    "chain_double_geometric": Theorem(_TREE, "rho"),
    "composition": Theorem("docs/claims/composition.md"),
}
"""Every kind of certificate: nothing else may be charged."""


@dataclass(frozen=True, repr=False)
class Certificate:
    """A proven bound of the privacy loss of one release. Public.

    It holds for all pairs of tables that obey the conditions and are at most `k` records apart. A numerical search for
    bad pairs is no certificate, and nothing but a certificate may be charged to a budget.

    Attributes
    ----------
    kind : str
        Which theorem it rests on; `page` has the proof.
    neighbours : str
        ``"bounded"`` (records change) or ``"unbounded"`` (records come and go).
    k : int
        The number of records.
    loss : Fraction or None
        Pure epsilon, an upper bound; None when there is no finite one.
    rho : Fraction or None
        Renyi divergence of order alpha is at most ``alpha * rho`` at the orders below.
    orders : str
        ``"all"`` (ordinary zCDP) or ``"integer"`` (orders 2, 3, 4, ... only: never use it at others).
    rho_at_all_orders : Fraction or None
        A bound that is valid at every order above 1.
    loss_without_invariants : Fraction
        What one record costs (epsilon, or rho under Gaussian noise) with the same noise and no conditions at all.
    reasons : tuple of str
        Why this certificate and not another.
    change : str
        The kind of change that it was named for, of several tables of the same records; empty elsewhere. Under ``two
        that exchange`` it holds for pairs that differ in one record, or in two that no two changes of one record that
        keep the exact numbers add up to, and for no others.
    """

    kind: str
    neighbours: str
    k: int
    loss: Fraction | None
    rho: Fraction | None
    orders: str
    rho_at_all_orders: Fraction | None
    loss_without_invariants: Fraction
    statement: str
    reasons: tuple[str, ...] = ()
    change: str = ""

    @property
    def page(self) -> str:
        """The page with statement, proof and audit."""
        return THEOREMS[self.kind].page

    @property
    def currency(self) -> str:
        """What losses are compared in: epsilon, or rho under noise that has no pure loss of its own."""
        return THEOREMS[self.kind].currency

    @property
    def gamma(self) -> Fraction:
        """GM's gamma: the loss is ``(1 + gamma) k epsilon``, epsilon being the loss of one record without invariants.

        Under Gaussian noise, where losses are in rho and k records cost ``k^2 rho``, it compares those.
        """
        plain = self.loss_without_invariants
        if self.kind == "composition":
            raise PrivacyError("a composition has no gamma of its own; its releases have")
        if self.currency == "rho" and self.rho is not None:
            return self.rho / (self.k**2 * plain) - 1 if plain and self.k else Fraction(-1)
        if self.loss is None:
            raise PrivacyError(f"a {self.kind} certificate bounds no pure loss, so it has no gamma")
        return self.loss / (self.k * plain) - 1 if plain and self.k else Fraction(-1)

    def charged_in(self, currency: str) -> Fraction | None:
        """Return what a ledger in this currency is charged; None when no such bound is certified."""
        return self.loss if currency == "epsilon" else self.rho

    def epsilon(self, delta: object) -> Fraction:
        """Return epsilon at a delta, rounded up: the better of the pure loss and the conversion at integer orders.

        Examples
        --------
        >>> from congenial.examples import p12_mechanism, p12_table
        >>> mechanism = p12_mechanism()
        >>> certificate = mechanism.plan(mechanism.disclose(p12_table())).certificate
        >>> float(certificate.epsilon("1e-10"))  # at this delta, the pure loss
        1.48988012564475
        """
        exact = exact_fraction(delta, "delta")
        if not 0 < exact < 1:
            raise PrivacyError(f'delta lies strictly between 0 and 1, such as "1e-10", and it is {exact}')
        bounds = [] if self.loss is None else [self.loss]
        bounds += [] if self.rho is None else [epsilon_at(self.rho, exact)]
        return min(bounds)

    @property
    def per_record(self) -> str:
        """The number of records that it holds for, in words."""
        if self.k == 0:
            return "no pair of tables"
        if self.change == EXCHANGE:
            return EXCHANGE
        many = {"bounded": "changed", "unbounded": "added or removed"}[self.neighbours]
        return f"one record {many}" if self.k == 1 else f"{self.k} records {many}"

    @property
    def amounts(self) -> str:
        """The bounds in words, rounded up."""
        parts = [] if self.loss is None else [f"epsilon {shown(self.loss)}"]
        if self.rho is not None:
            rho = f"rho {shown(self.rho)}" if self.loss is not None else rho_text(self.rho)
            star = self.rho_at_all_orders
            also = "" if star is None else f", {shown(star)} at all orders"
            parts.append(rho if self.orders == "all" else f"{rho} at integer orders{also}")
        return " and ".join(parts) or "0"

    def __repr__(self) -> str:
        head = f"{self.kind}: at most {self.amounts}, {self.neighbours} neighbours, {self.per_record}"
        return "\n  ".join([head, self.statement, *self.reasons, f"proof and audit: {self.page}"])


def rho_text(rho: Fraction, delta: Fraction = USUAL_DELTA) -> str:
    """Return a rho in words, with the epsilon that it is at a delta.

    Examples
    --------
    >>> rho_text(Fraction(1, 2))
    'rho 0.5 (epsilon 6.859 at delta 1e-10)'
    """
    return f"rho {shown(rho)} (epsilon {shown(epsilon_at(rho, delta), 3)} at delta {float(delta):g})"


def odds_text(epsilon: Fraction) -> str:
    """Return the factor by which odds change at most, in words.

    Examples
    --------
    >>> odds_text(Fraction(1)), odds_text(Fraction(11)), odds_text(Fraction(30))
    ('2.72', '59,900', 'more than a billion')
    """
    factor = odds_factor(epsilon)
    if factor < 1000:
        return f"{factor:.3g}"
    unit = 10 ** max(0, len(f"{factor:.0f}") - 3) if factor <= 10**9 else 1
    return "more than a billion" if factor > 10**9 else f"{ceil(factor / unit) * unit:,}"


def weak_promise(epsilon: Fraction) -> str:
    """Return a warning of an epsilon above 10; nothing of a smaller one.

    Examples
    --------
    >>> weak_promise(Fraction(12))
    'Epsilon 12 is above 10: odds about one person may change 163,000-fold, which protects hardly anybody.'
    >>> weak_promise(Fraction(10))
    ''
    """
    if epsilon <= _WEAK:
        return ""
    return (
        f"Epsilon {shown(epsilon, 1)} is above {_WEAK}: odds about one person may change {odds_text(epsilon)}-fold,"
        " which protects hardly anybody."
    )


def shown_below(value: Fraction) -> str:
    """Return a precision rounded down to six digits, for display.

    Examples
    --------
    >>> shown_below(Fraction(2, 3)), shown_below(Fraction(1, 2))
    ('0.666666', '0.5')
    """
    unit = Fraction(1)
    while 0 < value < 10**5 * unit:
        unit /= 10
    return f"{float(floor(value / unit) * unit):.6g}"


def shown_left(remaining: Fraction, cap: Fraction) -> str:
    """Return what remains of a cap, rounded down for people: less than a hundred-thousandth of it is nothing.

    Precisions are rounded toward more noise, so a budget that is used up leaves a small remainder.

    Examples
    --------
    >>> shown_left(Fraction(1, 3), Fraction(4)), shown_left(Fraction(7, 10**6), Fraction(4))
    ('0.333333', '0')
    """
    return "0" if remaining * 10**5 < cap else shown_below(remaining)


def shown(value: Fraction, digits: int = 4) -> str:
    """Return a bound rounded up for people; exact where it is short.

    Examples
    --------
    >>> shown(Fraction(1, 2)), shown(Fraction("1.48988012")), shown(Fraction(1, 3 * 10**9))
    ('0.5', '1.4899', '3.34e-10')
    """
    if 0 < value < Fraction(1, 1000):
        unit = Fraction(1)
        while value < 100 * unit:
            unit /= 10
        return f"{float(ceil(value / unit) * unit):.3g}"
    return f"{ceil(value * 10**digits) / 10**digits:.{digits}f}".rstrip("0").rstrip(".")
