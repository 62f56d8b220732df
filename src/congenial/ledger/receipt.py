"""A receipt: proof of a spend to keep outside the ledger, in the bundle."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from congenial.errors import LedgerError
from congenial.fraction import exact_fraction
from congenial.ledger.records import Dataset, Head, Spend

_AMOUNTS = ("loss", "spent", "left", "cap")


@dataclass(frozen=True)
class Receipt:
    """What was charged, and where it stands in the chain. Public.

    Attributes
    ----------
    dataset, release : str
    number : int
        The spend's place in the dataset's chain.
    hash, previous : str
        Its hash and that of the record before it.
    currency : str
    loss, spent, left, cap : Fraction
        What this release cost; all spends so far; what remains; the cap.
    at : str
        UTC.
    plan : str
        SHA-256 of the plan that was paid for.

    Examples
    --------
    >>> one, zero = Fraction(1), Fraction(0)
    >>> amounts = {"loss": one, "spent": one, "left": zero, "cap": one}
    >>> receipt = Receipt("county", "2026", 1, "ab", "cd", "epsilon", **amounts, at="2026-11-16T11:00:00Z", plan="ef")
    >>> Receipt.from_json(receipt.as_json()) == receipt
    True
    """

    dataset: str
    release: str
    number: int
    hash: str
    previous: str
    currency: str
    loss: Fraction
    spent: Fraction
    left: Fraction
    cap: Fraction
    at: str
    plan: str

    @classmethod
    def of(cls, dataset: Dataset, spend: Spend) -> "Receipt":
        """Return the receipt of a recorded spend."""
        return cls(
            dataset=spend.dataset,
            release=spend.release,
            number=spend.number,
            hash=spend.hash,
            previous=spend.previous,
            currency=dataset.currency,
            loss=spend.loss,
            spent=spend.spent,
            left=dataset.cap - spend.spent,
            cap=dataset.cap,
            at=spend.at,
            plan=spend.plan,
        )

    @property
    def head(self) -> Head:
        """The place in the chain, for `Ledger.verify`."""
        return Head(self.dataset, self.number, self.hash)

    def as_json(self) -> dict[str, str | int]:
        """Return plain values that any JSON writer takes, fractions as text."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: str(value) if name in _AMOUNTS else value for name, value in values.items()}

    @classmethod
    def from_json(cls, given: str | Mapping[str, object]) -> "Receipt":
        """Read a receipt from JSON text or from the values in it."""
        values = _object(given)
        names = [field.name for field in fields(cls)]
        if set(values) != set(names):
            raise LedgerError(f"a receipt has exactly the fields {', '.join(names)}")
        number = values["number"]
        if not isinstance(number, int) or isinstance(number, bool):
            raise LedgerError("a receipt's number is a whole number")
        parts: dict[str, Any] = {}
        for name in names:
            value = values[name]
            if name != "number" and not isinstance(value, str):
                raise LedgerError(f"a receipt's {name} is text, not a {type(value).__name__}")
            parts[name] = exact_fraction(value, f"a receipt's {name}") if name in _AMOUNTS else value
        return cls(**parts)


def _object(given: object) -> Mapping[str, object]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    if not isinstance(given, Mapping):
        raise LedgerError("a receipt is a JSON object, as Receipt.as_json returns it")
    return given
