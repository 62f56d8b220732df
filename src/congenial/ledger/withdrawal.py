"""What a ledger writes down after publication: that a release was withdrawn, why, and what replaced it."""

from collections.abc import Container
from dataclasses import dataclass, replace

from congenial.errors import LedgerError
from congenial.ledger.as_text import Row, read_text, read_time
from congenial.ledger.records import FIELDS, WITHDRAWAL, Head, link_hash
from congenial.ledger.request import LONGEST_NAME, check_name


@dataclass(frozen=True)
class Withdrawal:
    """A release that should no longer be used. What it cost stays spent. Public.

    Attributes
    ----------
    dataset : str
    number : int
        Its place in the dataset's chain.
    release : str
        What is withdrawn.
    reason : str
    replaced_by : str or None
        The release of the corrected edition, if one came with this record.
    who, at, software : str
        Who withdrew it, when (UTC) and with which version.
    previous, hash : str
        The hash of the record before, and its own.
    """

    dataset: str
    number: int
    release: str
    reason: str
    replaced_by: str | None
    who: str
    at: str
    software: str
    previous: str
    hash: str

    @property
    def head(self) -> Head:
        """The place in the chain."""
        return Head(self.dataset, self.number, self.hash)

    @property
    def row(self) -> dict[str, object]:
        """The record as it is stored."""
        return {field: getattr(self, field) for field in FIELDS[WITHDRAWAL]}

    @property
    def text(self) -> str:
        """What became of the release, in words."""
        if self.replaced_by is not None:
            return f"replaced by release {self.replaced_by!r} on {self.at[:10]}"
        return f"withdrawn on {self.at[:10]} by {self.who}: {self.reason}"

    @classmethod
    def of_row(cls, row: Row) -> "Withdrawal":
        """Read a stored record; raises ValueError when it is not in the one way to write it."""
        texts = {field: read_text(row, field) for field in FIELDS[WITHDRAWAL] if field not in {"number", "replaced_by"}}
        replaced_by = None if row["replaced_by"] is None else read_text(row, "replaced_by")
        number = row["number"]
        if not isinstance(number, int) or isinstance(number, bool):
            raise ValueError("number is no whole number")
        read_time(texts["at"])
        if not texts["reason"]:
            raise ValueError("a withdrawal has a reason")
        return cls(number=number, replaced_by=replaced_by, **texts)

    def sealed(self) -> "Withdrawal":
        """Return the record with its hash."""
        return replace(self, hash=link_hash(WITHDRAWAL, self.row))


def check_reason(value: object) -> str:
    """Return a reason that looks the same wherever it is printed."""
    if not isinstance(value, str) or not value.strip():
        raise LedgerError(f"say why, in one line of at most {LONGEST_NAME} characters: the ledger keeps the reason")
    return check_name(value, "a reason")


def wrong_withdrawal(record: Withdrawal, charged: Container[str], last: Withdrawal | None) -> list[str]:
    """Return what is wrong with a withdrawal, given the releases that were charged and the last one of this release.

    A release that was withdrawn may still be replaced; one that was replaced is done with.
    """
    wrong = []
    if record.release not in charged:
        wrong.append(f"it withdraws release {record.release!r}, which was not charged before it")
    if record.replaced_by is not None and (record.replaced_by not in charged or record.replaced_by == record.release):
        wrong.append(f"release {record.release!r} cannot be replaced by {record.replaced_by!r}")
    if last is not None and (last.replaced_by is not None or record.replaced_by is None):
        wrong.append(f"release {record.release!r} is withdrawn twice")
    return wrong


def what_became(release: str, withdrawals: "tuple[Withdrawal, ...]") -> "Withdrawal | None":
    """Return the newest record about a release; None while it stands."""
    return next((one for one in reversed(withdrawals) if one.release == release), None)
