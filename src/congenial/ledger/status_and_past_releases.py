"""What a dataset has spent and what is left."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from congenial.errors import LedgerError, did_you_mean
from congenial.ledger.records import Dataset, Head, Spend, Withdrawal, newest_withdrawal
from congenial.ledger.requests_and_canonical_text import certificate_as_json
from congenial.ledger.verification_and_export import DatasetAccount
from congenial.privacy.bounds_and_enumerated_losses import epsilon_at
from congenial.privacy.certificate import EXCHANGE, USUAL_DELTA, Certificate, shown, shown_left, weak_promise
from congenial.privacy.compose_and_price_areas import add_up

if TYPE_CHECKING:
    from congenial.ledger.ledger import Ledger


@dataclass(frozen=True, repr=False)
class Status:
    """The account of one dataset. Public.

    Attributes
    ----------
    dataset : Dataset
    n_spends : int
    spent, left : Fraction
        In the dataset's currency.
    certificate : Certificate
        All releases together: their bounds add up, for tables that obey every release's invariants and are at most
        `certificate.k` records apart.
    head : Head
        The newest record.
    """

    dataset: Dataset
    n_spends: int
    spent: Fraction
    left: Fraction
    certificate: Certificate
    head: Head

    @property
    def delta(self) -> Fraction | None:
        """Where a rho is shown as an epsilon: the dataset's delta, or the usual one; None for a cap in epsilon."""
        return None if self.dataset.currency == "epsilon" else self.dataset.delta or USUAL_DELTA

    @property
    def epsilon(self) -> Fraction | None:
        """What was spent as an epsilon at the delta; None for a cap in epsilon."""
        return None if self.delta is None else self.certificate.epsilon(self.delta)

    @property
    def epsilon_of_cap(self) -> Fraction | None:
        """The cap as an epsilon at the delta; None for a cap in epsilon."""
        return None if self.delta is None else epsilon_at(self.dataset.cap, self.delta)

    @property
    def warnings(self) -> list[str]:
        """What is said where releases may together cost, or have cost, more than an epsilon of 10."""
        spent = weak_promise(self.spent if self.epsilon is None else self.epsilon)
        cap = weak_promise(self.dataset.cap if self.epsilon_of_cap is None else self.epsilon_of_cap)
        return [f"WARNING, spent: {spent}"] if spent else [f"WARNING, the cap: {cap}"] if cap else []

    def as_json(self) -> dict[str, object]:
        """Return plain values that any JSON writer takes, fractions as text."""
        amounts = {
            "spent": self.spent,
            "left": self.left,
            "epsilon": self.epsilon,
            "epsilon_of_cap": self.epsilon_of_cap,
        }
        return {
            "dataset": self.dataset.row,
            "n_spends": self.n_spends,
            **{name: None if value is None else str(value) for name, value in amounts.items()},
            "certificate": certificate_as_json(self.certificate),
            "head": {"number": self.head.number, "hash": self.head.hash},
        }

    def __repr__(self) -> str:
        currency = self.dataset.currency
        releases = "1 release" if self.n_spends == 1 else f"{self.n_spends} releases"
        lines = [
            f"dataset {self.dataset.name!r}: {currency} {shown(self.spent)} of {shown(self.dataset.cap)} spent,"
            f" {shown_left(self.left, self.dataset.cap)} left, {releases}, {self.dataset.neighbours} neighbours"
        ]
        if currency == "rho" and self.certificate.orders == "integer":
            lines.append("rho holds at integer Renyi orders, which is enough for epsilon at any delta")
        if self.epsilon is not None and self.epsilon_of_cap is not None and self.delta is not None:
            lines.append(
                f"at delta {float(self.delta):g}: epsilon {shown(self.epsilon)} spent,"
                f" {shown(self.epsilon_of_cap)} at the cap"
            )
        return "\n  ".join([*lines, *self.warnings])


def status_of(account: DatasetAccount) -> Status:
    """Return what an account comes to."""
    dataset, spends = account.dataset, account.spends
    spent = spends[-1].spent if spends else Fraction(0)
    return Status(dataset, len(spends), spent, dataset.cap - spent, _together(dataset, spends), account.head)


def _together(dataset: Dataset, spends: Sequence[Spend]) -> Certificate:
    zero = Fraction(0)
    if not spends:
        return Certificate("composition", dataset.neighbours, 0, zero, zero, "all", zero, zero, "no release so far")
    # A release at k = 0 has no pair of tables at all, so it limits nothing; the others hold up to their own k.
    k = min((spend.certificate.k for spend in spends if spend.certificate.k), default=0)
    statement = f"{len(spends)} releases of one dataset: what each was certified for adds up, at k = {k}"
    together = add_up([spend.certificate for spend in spends], k, statement)
    # A change of one record is in every kind; of two records, only those are that each release is certified for.
    if any(spend.certificate.change == EXCHANGE and spend.certificate.k == k for spend in spends):
        return replace(together, change=EXCHANGE, statement=f"{statement}, for {EXCHANGE} in each release")
    return together


# The releases of a dataset for display, the newest first.

_MOST_NAMED = 6


@dataclass(frozen=True)
class PastRelease:
    """A charge, and the newest withdrawal of its release. Public.

    Attributes
    ----------
    became : Withdrawal or None
        None while it stands.
    """

    spend: Spend
    became: Withdrawal | None

    @property
    def standing(self) -> str:
        """The withdrawal in words; empty while the release stands."""
        return "" if self.became is None else self.became.text

    def as_json(self) -> dict[str, Any]:
        """Return plain values, amounts as exact text."""
        spend = self.spend
        return {
            "number": spend.number,
            "release": spend.release,
            "at": spend.at,
            "who": spend.who,
            "loss": str(spend.loss),
            "spent": str(spend.spent),
            "withdrawn": None if self.became is None else self.became.row,
            "invariants": [list(pair) for pair in spend.invariants],
            "hash": spend.hash,
        }


def past_of(ledger: "Ledger", dataset: str, release: str | None = None) -> list[PastRelease]:
    """Return the releases of a dataset, the newest first, or the one of this name."""
    spends, withdrawals = ledger.history(dataset), ledger.withdrawals(dataset)
    chosen = [spend for spend in reversed(spends) if release in (None, spend.release)]
    if release is not None and not chosen:
        names = [spend.release for spend in spends]
        hint = did_you_mean(release, names) if names else "nothing was"
        raise LedgerError(f"release {release!r} of dataset {dataset!r} was never charged; {hint}")
    return [PastRelease(spend, newest_withdrawal(spend.release, withdrawals)) for spend in chosen]


def summary_of_disclosed(invariants: Sequence[tuple[str, str]]) -> str:
    """Return what a release disclosed exactly, in a line: a statistic of many areas is named once.

    Examples
    --------
    >>> summary_of_disclosed([("county A: total", "9"), ("county B: total", "8"), ("county A: women", "4")])
    '3 numbers: total (2 areas), women'
    """
    if not invariants:
        return "nothing"
    names = Counter(text.partition(": ")[2] or text for text, _ in invariants)
    parts = [name if count == 1 else f"{name} ({count:,} areas)" for name, count in names.items()]
    more = f" and {len(parts) - _MOST_NAMED:,} more" if len(parts) > _MOST_NAMED else ""
    what = "1 number" if len(invariants) == 1 else f"{len(invariants):,} numbers"
    return f"{what}: {', '.join(parts[:_MOST_NAMED])}{more}"
