"""What conditional draws down a tree of areas cost, level by level: docs/claims/hierarchy.md."""

from collections.abc import Sequence
from fractions import Fraction
from math import floor, isqrt

from congenial.errors import PrivacyError
from congenial.exact import exact_fraction
from congenial.noise import FAMILIES
from congenial.privacy import check_relation
from congenial.privacy.bounds_and_enumerated_losses import DIGITS, epsilon_at, rho_at_all_orders, rounded_down
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import Certificate, shown

KINDS = {2: "chain_gaussian", 1: "chain_double_geometric"}
"""The kind of certificate for weights that fall with the square of the deviation, and with the deviation."""

LEAVES = Fraction(3, 10)
"""What the lowest level gets of a budget unless shares are given; the others get equal parts of the rest."""


def level_rho(exponent: int, precision: Fraction, neighbours: str, k: int, *, total_is_fixed: bool) -> Fraction:
    """Return what one level below the top costs at most, for pairs of trees at most `k` records apart.

    Squared: ``precision |z|^2 / 2``, and ``|z|^2 <= 2 k^2`` if records change, ``k^2`` if they come and go, half of
    that if as many come as go. Linear: ``(precision |z|_1)^2 / 2``.

    Examples
    --------
    >>> level_rho(2, Fraction(1, 4), "bounded", 1, total_is_fixed=True)
    Fraction(1, 4)
    >>> level_rho(2, Fraction(1, 4), "unbounded", 1, total_is_fixed=False)
    Fraction(1, 8)
    """
    check_relation(neighbours)
    if exponent == 1:
        entries = 2 * k if neighbours == "bounded" else k
        return (precision * entries) ** 2 / 2
    squares = 2 * k * k if neighbours == "bounded" else Fraction(k * k, 2 if total_is_fixed else 1)
    return precision * squares / 2


def tree_certificate(
    top: Certificate, noise: str, precisions: Sequence[Fraction], *, total_is_fixed: bool, why: Sequence[str] = ()
) -> Certificate:
    """Return the certificate of a whole tree: that of the top, and a charge for each level below.

    Parameters
    ----------
    top : Certificate
        Of the units at the top, drawn with their own conditions.
    precisions : sequence of Fraction
        Of every cell of each level below the top.
    total_is_fixed : bool
        Whether the number of records is published.
    why : sequence of str
        What was proven of the steps' rows, for people.
    """
    family = FAMILIES[noise]
    if top.rho is None:
        raise PrivacyError("no certificate: the top of a tree needs a bound in rho, and it has none")
    k = fewest_records(top, total_is_fixed=total_is_fixed)
    below = [
        level_rho(family.exponent, precision, top.neighbours, k, total_is_fixed=total_is_fixed)
        for precision in precisions
    ]
    is_squared = family.exponent == 2
    plain = top.loss_without_invariants if is_squared else top.loss_without_invariants**2 / 2
    plain += sum(
        level_rho(family.exponent, precision, top.neighbours, 1, total_is_fixed=False) for precision in precisions
    )
    everywhere = [rho_at_all_orders(rho) if is_squared else rho for rho in below]
    star = None if top.rho_at_all_orders is None else top.rho_at_all_orders + sum(everywhere)
    amounts = ", ".join(shown(rho) for rho in (top.rho, *below))
    return Certificate(
        KINDS[family.exponent],
        top.neighbours,
        k,
        None,
        top.rho + sum(below),
        "integer" if is_squared else top.orders,
        star,
        plain,
        f"a chain of {len(below) + 1} levels, each drawn given what is released above it: rho {amounts}, added up",
        (
            f"top: {top.kind}, {top.statement}",
            *why,
            "there is no pure epsilon: conditioned below the top, it can double",
        ),
    )


def fewest_records(top: Certificate, *, total_is_fixed: bool) -> int:
    """Return how many records apart the pairs are that a tree is charged for.

    As many as the top's, and where that is fixed altogether: one that changes, or one that comes and one that goes if
    their number is published.
    """
    return max(2 if top.neighbours == "unbounded" and total_is_fixed else 1, top.k)


def refuse_pure(budget: Budget) -> None:
    """Refuse a budget that a tree cannot be held to."""
    if budget.epsilon is not None and budget.delta is None:
        raise PrivacyError(
            "a chain of draws through a tree has no budget in pure epsilon: below the top the confidential tables do"
            " not add up to the released ones, and conditioning can double the loss of every level. Give rho, such as"
            f' rho="1/2", or a delta: epsilon="{budget.epsilon}", delta="1e-10"; or write method: measured'
        )
    if budget.orders == "all":
        raise PrivacyError(
            'a tree of areas is accounted for at integer orders, where its bound is proven; leave out orders="all"'
        )


def total_rho(budget: Budget) -> Fraction:
    """Return the rho of a budget: as given, or the largest that keeps epsilon at its delta.

    Examples
    --------
    >>> round(float(total_rho(Budget.of(epsilon="17.166", delta="1e-10", noise="discrete_gaussian"))), 3)
    2.56
    """
    refuse_pure(budget)
    if budget.rho is not None:
        return budget.rho
    if budget.epsilon is None or budget.delta is None:
        raise PrivacyError('a tree of areas needs a budget: rho="1/2", or epsilon="10" with delta="1e-10"')
    low, high = Fraction(0), budget.epsilon  # epsilon at a delta is above rho
    for _ in range(60):
        middle = (low + high) / 2
        if epsilon_at(middle, budget.delta) <= budget.epsilon:
            low = middle
        else:
            high = middle
    return rounded_down(low)


def level_precision(exponent: int, rho: Fraction, neighbours: str, k: int, *, total_is_fixed: bool) -> Fraction:
    """Return the largest precision, rounded down, at which a level below the top costs no more than this.

    Examples
    --------
    >>> level_precision(2, Fraction(1, 4), "bounded", 1, total_is_fixed=True)
    Fraction(1, 4)
    """
    if exponent == 2:
        return rounded_down(rho / level_rho(2, Fraction(1), neighbours, k, total_is_fixed=total_is_fixed))
    # (precision entries)^2 / 2 = rho
    at_one = level_rho(1, Fraction(1), neighbours, k, total_is_fixed=total_is_fixed)
    square = rho / at_one
    digits = 10 ** (2 * DIGITS)
    return rounded_down(Fraction(isqrt(floor(square * digits)), 10**DIGITS))


def default_shares(n_levels: int) -> tuple[Fraction, ...]:
    """Return the shares of a budget by level, the top first.

    Examples
    --------
    >>> [str(share) for share in default_shares(3)]
    ['7/20', '7/20', '3/10']
    """
    return (*[(1 - LEAVES) / (n_levels - 1)] * (n_levels - 1), LEAVES)


def checked_shares(shares: Sequence[object], n_levels: int) -> tuple[Fraction, ...]:
    """Return shares in parts of 1, none of them 0: given in any unit, one for each level."""
    exact = [exact_fraction(share, "a level's share") for share in shares]
    if len(exact) != n_levels or any(share <= 0 for share in exact):
        raise PrivacyError(f"{n_levels} levels have a share of the budget each, above 0, not {list(map(str, exact))}")
    return tuple(share / sum(exact) for share in exact)
