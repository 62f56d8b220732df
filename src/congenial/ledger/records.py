"""What a ledger writes down: a dataset with its cap, its spends, and the hash that links each record to the one before.

A record as it is stored is a flat row of texts and one number. Its hash covers every field but itself, and the fields
of all but the first include the hash of the record before, so the records of a dataset form a chain that starts with
its cap. What is said of a release after publication stands in `withdrawal`.
"""

from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256

from congenial.ledger.as_text import (
    Row,
    canonical,
    certificate_as_json,
    certificate_from_json,
    read_fraction,
    read_json,
    read_text,
    read_time,
)
from congenial.privacy.certificate import Certificate

DATASET = "congenial dataset 1"
SPEND = "congenial spend 1"
WITHDRAWAL = "congenial withdrawal 1"
"""Kinds of records; the number is the version of their fields."""

FIELDS = {
    DATASET: ("name", "neighbours", "currency", "cap", "delta", "who", "at", "software", "hash"),
    SPEND: (
        *("dataset", "number", "release", "loss", "spent", "certificate", "invariants", "plan", "key"),
        *("who", "at", "software", "previous", "hash"),
    ),
    WITHDRAWAL: (
        *("dataset", "number", "release", "reason", "replaced_by"),
        *("who", "at", "software", "previous", "hash"),
    ),
}
"""The fields of each kind, in the order in which they are shown."""


def link_hash(kind: str, row: Row) -> str:
    """Return the hash of a record: SHA-256 of its kind and all its fields except the hash."""
    content = {field: row[field] for field in FIELDS[kind] if field != "hash"}
    return sha256(canonical({"kind": kind, **content}).encode()).hexdigest()


@dataclass(frozen=True)
class Head:
    """A place in a chain that was seen; kept outside the ledger, it shows truncation and recomputation.

    Attributes
    ----------
    dataset : str
    number : int
        0 is the dataset's creation, 1 its first spend.
    hash : str
    """

    dataset: str
    number: int
    hash: str


@dataclass(frozen=True)
class Dataset:
    """A dataset with its cap, which nothing changes later.

    Attributes
    ----------
    name : str
    neighbours : str
        ``"bounded"`` or ``"unbounded"``: the relation of every certificate that is charged.
    currency : str
        ``"epsilon"`` (pure) or ``"rho"``.
    cap : Fraction
        The largest sum of losses.
    delta : Fraction or None
        Where a dataset in rho is also shown as an epsilon.
    who, at, software : str
        Who created it, when (UTC) and with which version.
    hash : str
    """

    name: str
    neighbours: str
    currency: str
    cap: Fraction
    delta: Fraction | None
    who: str
    at: str
    software: str
    hash: str

    @property
    def head(self) -> Head:
        """The first place in the chain."""
        return Head(self.name, 0, self.hash)

    @property
    def row(self) -> dict[str, object]:
        """The record as it is stored."""
        delta = None if self.delta is None else str(self.delta)
        return {field: getattr(self, field) for field in FIELDS[DATASET]} | {"cap": str(self.cap), "delta": delta}

    @classmethod
    def of_row(cls, row: Row) -> "Dataset":
        """Read a stored record; raises ValueError when it is not in the one way to write it."""
        texts = {field: read_text(row, field) for field in FIELDS[DATASET] if field != "delta"}
        delta = None if row["delta"] is None else read_fraction(read_text(row, "delta"))
        read_time(texts["at"])
        cap = read_fraction(texts.pop("cap"))
        return cls(cap=cap, delta=delta, **texts)


@dataclass(frozen=True)
class Spend:
    """One charge. Public.

    Attributes
    ----------
    dataset : str
    number : int
        Its place in the dataset's chain, from 1.
    release : str
    loss : Fraction
        What was charged, in the dataset's currency.
    spent : Fraction
        All charges of the dataset so far, this one included.
    certificate : Certificate
        What was certified, in every currency that it has; without its reasons.
    invariants : tuple of (str, str)
        What the release discloses exactly: each statistic with its value.
    plan : str
        SHA-256 of the public plan.
    key : str
        A commitment to the secret key that the release is drawn with, so that no other key can be; empty without one.
    who, at, software : str
        Who asked, when (UTC) and with which version.
    previous, hash : str
        The hash of the record before, and its own.
    """

    dataset: str
    number: int
    release: str
    loss: Fraction
    spent: Fraction
    certificate: Certificate
    invariants: tuple[tuple[str, str], ...]
    plan: str
    key: str
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
        return {field: getattr(self, field) for field in FIELDS[SPEND]} | {
            "loss": str(self.loss),
            "spent": str(self.spent),
            "certificate": canonical(certificate_as_json(self.certificate)),
            "invariants": canonical([list(pair) for pair in self.invariants]),
        }

    @classmethod
    def of_row(cls, row: Row) -> "Spend":
        """Read a stored record; raises ValueError when it is not in the one way to write it."""
        texts = {field: read_text(row, field) for field in FIELDS[SPEND] if field != "number"}
        number = row["number"]
        if not isinstance(number, int) or isinstance(number, bool):
            raise ValueError("number is no whole number")
        read_time(texts["at"])
        loss, spent = read_fraction(texts.pop("loss")), read_fraction(texts.pop("spent"))
        certificate = certificate_from_json(read_json(texts.pop("certificate")))
        pairs = read_json(texts.pop("invariants"))
        if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
            raise ValueError("invariants are no list of statistics and values")
        invariants = tuple((statistic, value) for statistic, value in pairs)
        return cls(number=number, loss=loss, spent=spent, certificate=certificate, invariants=invariants, **texts)


def _is_pair(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
