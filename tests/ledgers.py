"""Small certificates and requests for tests of the ledger."""

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

from congenial.ledger import Ledger, Request, open_ledger
from congenial.privacy.certificate import Certificate

NOW = datetime(2026, 11, 16, 11, 0, 0, tzinfo=UTC)
DIGEST = "0123456789abcdef" * 4


def certificate(
    epsilon: str | None = "1",
    rho: str | None = "1/2",
    *,
    neighbours: str = "bounded",
    orders: str = "all",
    k: int = 1,
) -> Certificate:
    """A certificate with these figures; without epsilon it is one of Gaussian noise."""
    kind = "limited_cells" if epsilon is not None else "gaussian_unimodular"
    loss, bound = (None if figure is None else Fraction(figure) for figure in (epsilon, rho))
    everywhere = bound if orders == "all" or bound is None else 2 * bound
    return Certificate(kind, neighbours, k, loss, bound, orders, everywhere, Fraction(1), "a statement")


def request(
    release: str = "first",
    cost: Certificate | None = None,
    *,
    dataset: str = "county",
    invariants: tuple[tuple[str, object], ...] = (("total", 10),),
) -> Request:
    return Request(dataset, release, cost or certificate(), invariants, DIGEST, "Ada")


def ledger_with(place: str | Path, *, epsilon: object = None, rho: object = None, delta: object = None) -> Ledger:
    """A new ledger with the dataset "county", bounded."""
    ledger = open_ledger(place, create=True)
    ledger.create_dataset("county", epsilon=epsilon, rho=rho, delta=delta, neighbours="bounded", who="Ada", now=NOW)
    return ledger
