"""Verification of hash chains: the records of a dataset, their hashes and sums; export as JSON lines."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from congenial.errors import BudgetError, LedgerError, TamperedError
from congenial.ledger.next_record import price
from congenial.ledger.records import (
    DATASET,
    FIELDS,
    SPEND,
    WITHDRAWAL,
    Dataset,
    Head,
    Spend,
    Withdrawal,
    folded,
    link_hash,
    withdrawal_errors,
)
from congenial.ledger.requests_and_canonical_text import Row, canonical

TITLES = {SPEND: "spend", WITHDRAWAL: "withdrawal"}
"""What records after the first are called."""


@dataclass(frozen=True)
class HashChain:
    """The records of one dataset as they are stored, in the order of their numbers. They may be wrong.

    Attributes
    ----------
    dataset : Row
    records : tuple of (str, Row)
        Each with its kind.
    """

    dataset: Row
    records: tuple[tuple[str, Row], ...]

    @property
    def name(self) -> str:
        """The dataset's name."""
        return str(self.dataset["name"])


@dataclass(frozen=True)
class DatasetAccount:
    """A dataset and its records in order, parsed from a hash chain."""

    dataset: Dataset
    records: tuple[Spend | Withdrawal, ...]

    @property
    def spends(self) -> tuple[Spend, ...]:
        """The charges."""
        return tuple(record for record in self.records if isinstance(record, Spend))

    @property
    def withdrawals(self) -> tuple[Withdrawal, ...]:
        """What was said of releases afterwards."""
        return tuple(record for record in self.records if isinstance(record, Withdrawal))

    @property
    def head(self) -> Head:
        """The newest record."""
        return self.records[-1].head if self.records else self.dataset.head


@dataclass(frozen=True, repr=False)
class Verification:
    """A ledger, or a part of it, that was verified.

    Attributes
    ----------
    accounts : tuple of DatasetAccount
    """

    accounts: tuple[DatasetAccount, ...]

    @property
    def heads(self) -> tuple[Head, ...]:
        """The newest record of each hash chain: stored elsewhere, they reveal truncation and recomputation."""
        return tuple(account.head for account in self.accounts)

    @property
    def n_spends(self) -> int:
        """How many spends were checked."""
        return sum(len(account.spends) for account in self.accounts)

    def __repr__(self) -> str:
        newest = "".join(f"\n  {head.dataset}: {head.number} {head.hash}" for head in self.heads)
        datasets = "1 dataset" if len(self.heads) == 1 else f"{len(self.heads)} datasets"
        spends = "1 spend" if self.n_spends == 1 else f"{self.n_spends} spends"
        return f"The records hang together, {datasets} and {spends}; newest:{newest}"


def verify_hash_chains(hash_chains: Sequence[HashChain], head: Head | None = None) -> Verification:
    """Check every record of every hash chain, and that an earlier head is still there.

    Raises
    ------
    TamperedError
        With everything that was found.
    """
    findings: list[str] = []
    accounts = [_read(hash_chain, findings) for hash_chain in hash_chains]
    findings += _namesakes(hash_chains)
    findings += _findings_at(head, hash_chains) if head is not None else []
    if findings:
        shown = "; ".join(findings[:5]) + (f"; and {len(findings) - 5} more" if len(findings) > 5 else "")
        raise TamperedError(
            f"the ledger does not hang together: {shown}. Charge nothing more to it; compare it with copies, receipts"
            " and bundles",
            tuple(findings),
        )
    return Verification(tuple(account for account in accounts if account is not None))


def _read(hash_chain: HashChain, findings: list[str]) -> DatasetAccount | None:
    """Parse a hash chain and add everything that is wrong with it to the findings.

    Each record is compared with what the one before it says of itself, so one edit gives one or two findings.
    """
    title = f"dataset {hash_chain.name!r}"
    if link_hash(DATASET, hash_chain.dataset) != hash_chain.dataset["hash"]:
        findings.append(f"{title}: its content does not match its hash")
    try:
        dataset = Dataset.of_row(hash_chain.dataset)
    except ValueError as error:
        findings.append(f"{title}: {error}")
        return None
    number, previous, last_at, spent = 0, dataset.hash, dataset.at, Fraction(0)
    charged: set[str] = set()
    became: dict[str, Withdrawal] = {}
    records: list[Spend | Withdrawal] = []
    for kind, row in hash_chain.records:
        where = f"{title}, {TITLES[kind]} {row['number']}"
        if link_hash(kind, row) != row["hash"]:
            findings.append(f"{where}: its content does not match its hash")
        try:
            record = Spend.of_row(row) if kind == SPEND else Withdrawal.of_row(row)
        except ValueError as error:
            findings.append(f"{where}: {error}")
            previous, number = str(row["hash"]), number + 1
            continue
        if record.number != number + 1:
            findings.append(f"{where}: stands where record {number + 1} belongs")
        if record.previous != previous:
            findings.append(f"{where}: does not follow on the record before it")
        if record.dataset != dataset.name:
            findings.append(f"{where}: belongs to dataset {record.dataset!r}")
        if isinstance(record, Withdrawal):
            wrong = withdrawal_errors(record, charged, became.get(record.release))
            became[record.release] = record
        else:
            wrong = [f"release {record.release!r} is charged twice"] if record.release in charged else []
            wrong += _wrong_amounts(dataset, record, spent)
            spent = record.spent
            charged.add(record.release)
        findings += [f"{where}: {what}" for what in wrong]
        if record.at < last_at:
            findings.append(f"{where}: its time lies before that of the record before it")
        number, previous, last_at = record.number, record.hash, record.at
        records.append(record)
    return DatasetAccount(dataset, tuple(records))


def _wrong_amounts(dataset: Dataset, spend: Spend, before: Fraction) -> Iterable[str]:
    try:
        cost = price(dataset, spend.certificate)
    except BudgetError:
        yield "its certificate cannot be charged to this dataset"
    else:
        if spend.loss != cost or cost < 0:
            yield "its loss is not that of its certificate"
    if spend.spent != before + spend.loss:
        yield "the sum of the losses is wrong"
    if spend.spent > dataset.cap:
        yield "the sum of the losses is above the cap"


def _namesakes(hash_chains: Sequence[HashChain]) -> Iterable[str]:
    """Yield names that differ only in case or form: a dataset has one account."""
    spellings: dict[str, str] = {}
    for hash_chain in hash_chains:
        first = spellings.setdefault(folded(hash_chain.name), hash_chain.name)
        if first != hash_chain.name:
            yield f"datasets {first!r} and {hash_chain.name!r} have names that are taken for one"


def _findings_at(head: Head, hash_chains: Sequence[HashChain]) -> list[str]:
    """Look for a record that was seen before."""
    hash_chain = next((hash_chain for hash_chain in hash_chains if hash_chain.name == head.dataset), None)
    if hash_chain is None:
        return [f"dataset {head.dataset!r} is gone: a receipt names its record {head.number}"]
    hashes = [hash_chain.dataset["hash"], *(row["hash"] for _, row in hash_chain.records)]
    if not 0 <= head.number < len(hashes):
        return [
            f"dataset {head.dataset!r}: record {head.number} is gone, the chain ends at {len(hashes) - 1}: it was cut,"
            " or replaced by an older copy"
        ]
    if hashes[head.number] != head.hash:
        return [
            f"dataset {head.dataset!r}: record {head.number} is not the one that the receipt names: it was rewritten"
        ]
    return []


# A ledger as text, one JSON object a line, that can be verified without the database.


def export_text(hash_chains: Iterable[HashChain]) -> str:
    """Return hash chains as JSON lines: each dataset, then its records in order."""
    lines = []
    for hash_chain in hash_chains:
        lines.append(canonical({"kind": DATASET, **hash_chain.dataset}))
        lines += [canonical({"kind": kind, **row}) for kind, row in hash_chain.records]
    return "".join(line + "\n" for line in lines)


def verify_export(text: str, head: Head | None = None) -> Verification:
    """Verify an exported ledger from its text alone.

    Parameters
    ----------
    text : str
        What `Ledger.export` returned.
    head : Head, optional
        A place that was seen before, such as ``receipt.head``.
    """
    if not isinstance(text, str):
        raise LedgerError(f"an exported ledger is text, not a {type(text).__name__}")
    return verify_hash_chains(read_export(text), head)


def read_export(text: str) -> list[HashChain]:
    """Parse exported lines into hash chains; records may be wrong, the format may not."""
    datasets: dict[str, Row] = {}
    records: dict[str, list[tuple[str, Row]]] = {}
    name = ""
    for number, line in enumerate(text.splitlines(), 1):
        kind, row = _row(line, number)
        if kind == DATASET:
            name = str(row["name"])
            if name in datasets:
                raise _broken(f"line {number} repeats dataset {name!r}")
            datasets[name], records[name] = row, []
        elif not datasets:
            raise _broken(f"it starts with a {TITLES[kind]} and not with its dataset")
        else:
            # A record that stands below another dataset shows as one that does not belong.
            records[name].append((kind, row))
    return [HashChain(row, tuple(records[name])) for name, row in datasets.items()]


def _row(line: str, number: int) -> tuple[str, Row]:
    try:
        value = json.loads(line)
        kind = value.pop("kind")
        if set(value) == set(FIELDS[kind]) and canonical({"kind": kind, **value}) == line:
            return kind, value
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        pass
    raise _broken(f"line {number} is no record as a ledger writes it")


def _broken(finding: str) -> TamperedError:
    return TamperedError(f"the export is broken: {finding}; export the ledger again", (finding,))
