"""The records of a ledger: a dataset with its cap, its spends, and the hash that links each record to the one before.

A record as it is stored is a flat row of texts and one number. Its hash covers every field but itself, and the fields
of all but the first include the hash of the record before, so the records of a dataset form a hash chain that starts
with its cap.
"""

import json
import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from hashlib import sha256
from typing import Any
from unicodedata import category, normalize
from unicodedata import name as unicode_name

from congenial.errors import LedgerError
from congenial.exact import exact_fraction
from congenial.ledger.released_tables import ReleasedTables
from congenial.ledger.requests_and_canonical_text import (
    LONGEST_NAME,
    Row,
    canonical,
    certificate_as_json,
    certificate_from_json,
    check_name,
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
    """A record of a hash chain by number and hash; stored outside the ledger, it reveals truncation and recomputation.

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
    tables : ReleasedTables or None
        Of several tables of the same records, which were measured, and what is exact. It is stored with the
        certificate, so that spends of earlier versions, which have none, read as before.
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
    tables: ReleasedTables | None = None

    @property
    def head(self) -> Head:
        """The place in the chain."""
        return Head(self.dataset, self.number, self.hash)

    @property
    def row(self) -> dict[str, object]:
        """The record as it is stored."""
        tables = {} if self.tables is None else {"tables": self.tables.as_json()}
        return {field: getattr(self, field) for field in FIELDS[SPEND]} | {
            "loss": str(self.loss),
            "spent": str(self.spent),
            "certificate": canonical({**certificate_as_json(self.certificate), **tables}),
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
        certified, tables = read_json(texts.pop("certificate")), None
        if isinstance(certified, dict) and "tables" in certified:
            tables = ReleasedTables.of_json(certified.pop("tables"))
        certificate = certificate_from_json(certified)
        pairs = read_json(texts.pop("invariants"))
        if not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
            raise ValueError("invariants are no list of statistics and values")
        invariants = tuple((statistic, value) for statistic, value in pairs)
        facts: dict[str, Any] = {"certificate": certificate, "invariants": invariants, "tables": tables, **texts}
        return cls(number=number, loss=loss, spent=spent, **facts)


def _is_pair(pair: object) -> bool:
    return isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)


# The record of a withdrawal: which release, why, and what replaced it.


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


def withdrawal_errors(record: Withdrawal, charged: Container[str], last: Withdrawal | None) -> list[str]:
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


def newest_withdrawal(release: str, withdrawals: "tuple[Withdrawal, ...]") -> "Withdrawal | None":
    """Return the newest record about a release; None while it stands."""
    return next((withdrawal for withdrawal in reversed(withdrawals) if withdrawal.release == release), None)


# A receipt: proof of a spend to keep outside the ledger, in the bundle.

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
    def from_json(cls, content: str | Mapping[str, object]) -> "Receipt":
        """Read a receipt from JSON text or from the values in it."""
        values = _object(content)
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


def _object(content: object) -> Mapping[str, object]:
    if isinstance(content, str):
        try:
            content = json.loads(content)
        except ValueError:
            content = None
    if not isinstance(content, Mapping):
        raise LedgerError("a receipt is a JSON object, as Receipt.as_json returns it")
    return content


# A dataset's name: what may stand in one, and which names are taken for one.
#
# Two accounts whose names a reader cannot tell apart would be two budgets for one dataset. So names that differ in
# case or in compatible forms (full width, ligatures) are one, and a name that can pass for one of another script is
# refused.

# Scripts that are written together; every other mixture is refused. These are the sets that Unicode's Technical
# Standard 39 calls highly restrictive: a letter of the one does not pass for a letter of the other.
_TOGETHER = (
    {"LATIN", "CJK", "HIRAGANA", "KATAKANA"},
    {"LATIN", "CJK", "BOPOMOFO"},
    {"LATIN", "CJK", "HANGUL"},
)
# First words of Unicode names that are no script.
_OF_EVERY_SCRIPT = {"DIGIT", "MODIFIER", "CARON", "TURNED", "VERTICAL", "MASU", "VEDIC"}
_ANOTHER_WORD = {"IDEOGRAPHIC": "CJK", "HENTAIGANA": "HIRAGANA"}

_LOOKS_LATIN = frozenset(
    "АВЕЅІЈКМНОРСТУҮХԌԚԜ"  # Cyrillic
    "асеѕіјорухүһԁԛԝӏѵ"
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"  # Greek
    "αγινορυϳ"
    "ԼՍՕ"  # Armenian
    "օոսհցզյ"
)
# What shows beside other letters, or in print for the blind, and makes no difference to see: variants, a blank pattern.
_NOTHING_SEEN = re.compile("[\u180b-\u180d\u180f\u2800\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def folded(name: str) -> str:
    """Return the form in which names are compared: case and compatibility forms folded.

    Examples
    --------
    >>> folded("Census") == folded("CENSUS") == folded("\uff23ensus") == "census"
    True
    """
    return normalize("NFKC", normalize("NFKC", name).casefold())


def check_dataset_name(value: object) -> str:
    """Return a dataset's name that nobody takes for another one."""
    name = check_name(value, "a dataset's name")
    if _NOTHING_SEEN.search(name):
        raise LedgerError(
            f"a dataset's name has no characters that cannot be seen, and {name[:40]!a} has; leave them out"
        )
    letters = {letter: script for letter in normalize("NFKC", name) if (script := _script(letter))}
    scripts = set(letters.values())
    if len(scripts) > 1 and not any(scripts <= together for together in _TOGETHER):
        examples = [next(letter for letter in letters if letters[letter] == script) for script in sorted(scripts)]
        raise LedgerError(
            f"a dataset's name is written in one script, and {name[:40]!a} mixes"
            f" {' and '.join(unicode_name(letter, 'a letter without a name') for letter in examples)}, so that it can"
            " pass for another name; write it in one"
        )
    if letters and _LOOKS_LATIN.issuperset(letters):
        raise LedgerError(
            f"a dataset's name does not pass for one of another script, and every letter of {name[:40]!a} looks like a"
            f" Latin one and is {scripts.pop().title()}; write it in Latin letters, or add a word that shows its script"
        )
    return name


def _script(letter: str) -> str:
    """Return the script of a letter or digit, by its Unicode name; nothing for what every script uses."""
    if category(letter)[0] != "L" and category(letter) != "Nd":
        return ""
    word = re.split("[ -]", unicode_name(letter, "OTHER").removeprefix("EXTENDED "))[0]
    return "" if word in _OF_EVERY_SCRIPT else _ANOTHER_WORD.get(word, word)
