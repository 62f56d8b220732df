"""What was charged to a dataset and what became of it, for people: the newest first."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from congenial.errors import LedgerError, did_you_mean
from congenial.ledger.records import Spend
from congenial.ledger.withdrawal import Withdrawal, what_became

if TYPE_CHECKING:
    from congenial.ledger.ledger import Ledger

_MOST_NAMED = 6


@dataclass(frozen=True)
class PastRelease:
    """A charge, and what was said of its release afterwards. Public.

    Attributes
    ----------
    became : Withdrawal or None
        None while it stands.
    """

    spend: Spend
    became: Withdrawal | None

    @property
    def standing(self) -> str:
        """What became of the release, in words; nothing while it stands."""
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
    return [PastRelease(spend, what_became(spend.release, withdrawals)) for spend in chosen]


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
