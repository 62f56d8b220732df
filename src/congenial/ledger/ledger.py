"""The budget ledger: what each dataset may lose, what it has lost, and what was disclosed of it."""

import os
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from congenial.errors import LedgerError, TamperedError, did_you_mean
from congenial.ledger.address import KEYS_VARIABLE, FileAddress, ServerAddress, read_address
from congenial.ledger.next_record import (
    ChainEnd,
    check_new,
    check_request,
    check_withdrawal,
    new_dataset,
    next_spend,
    next_withdrawal,
)
from congenial.ledger.records import Dataset, Head, Receipt, Spend, Withdrawal, check_dataset_name, check_reason
from congenial.ledger.requests_and_canonical_text import Request, check_name, moment
from congenial.ledger.status_and_past_releases import Status, status_of
from congenial.ledger.verification_and_export import (
    DatasetAccount,
    HashChain,
    Verification,
    export_text,
    verify_hash_chains,
)
from congenial.privacy.budget import Budget

if TYPE_CHECKING:
    from congenial.ledger.store import Book, Store

PATIENCE = 30.0
"""How many seconds to wait for other programs that write."""


@dataclass(frozen=True)
class DisclosedStatistic:
    """A statistic that a release disclosed exactly. No noise protects it.

    Attributes
    ----------
    statistic, value : str
    release : str
    """

    statistic: str
    value: str
    release: str


@dataclass(frozen=True, repr=False)
class Ledger:
    """A ledger that is open; `open_ledger` makes one.

    Each method is one transaction. Nothing is kept open in between, so there is nothing to close.

    Attributes
    ----------
    keys : Path or None
        The folder of the keys of releases that are under way; None if nobody said where.
    """

    _store: "Store" = field(repr=False)
    keys: Path | None = field(default=None, repr=False)

    def create_dataset(
        self,
        name: str,
        *,
        epsilon: object = None,
        rho: object = None,
        delta: object = None,
        neighbours: str,
        who: str,
        now: datetime | None = None,
    ) -> Dataset:
        """Add a dataset with its cap, which cannot be changed later.

        Parameters
        ----------
        name : str
        epsilon, rho : str, int or Fraction
            The cap, in one of the two currencies.
        delta : str, int or Fraction, optional
            With rho: where the account is also shown as an epsilon.
        neighbours : str
            ``"bounded"`` or ``"unbounded"``.
        who : str
        now : datetime, optional
            With a time zone; the clock's time when not given.
        """
        dataset = new_dataset(
            name,
            epsilon=epsilon,
            rho=rho,
            delta=delta,
            neighbours=neighbours,
            who=who,
            at=moment(now),
            software=_software(),
        )

        def work(book: "Book") -> Dataset:
            spelling = book.spelling(dataset.name)
            if spelling is not None:
                written = "" if spelling == dataset.name else f" as {spelling!r}"
                raise LedgerError(
                    f"dataset {dataset.name!r} is in the ledger already{written}, and its cap is never changed; give"
                    " another name"
                )
            book.add_dataset(dataset)
            return dataset

        return self._store.write(work)

    def charge(self, request: Request, *, now: datetime | None = None) -> Receipt:
        """Record a spend if the dataset can pay for it. It is never refunded.

        Call it before anything is drawn. When it returns, the spend is on disk.
        """
        if not isinstance(request, Request):
            raise LedgerError(f"charge takes a Request, not a {type(request).__name__}")
        at, software = moment(now), _software()

        def work(book: "Book") -> Receipt:
            chain_end = self._chain_end(book, request.dataset)
            namesake = book.namesake(chain_end.dataset.name, request.release)
            replaced = None if request.replaces is None else _charged(book, chain_end.dataset.name, request.replaces)
            spend = next_spend(chain_end, namesake, request, at, software)
            book.add_spend(spend)
            if replaced is not None:
                reason = f"replaced by {spend.release}"
                self._withdraw(book, replaced, reason, spend.release, request.who, at)
            return Receipt.of(chain_end.dataset, spend)

        return self._store.write(work)

    def check_request(
        self, dataset: str, release: str, *, neighbours: str, budget: Budget | None = None, replaces: str | None = None
    ) -> Status:
        """Refuse, before a release is planned, what could not be charged whatever its plan; return the account.

        That is a name that was used, a budget above what is left, the other neighbour relation, and a corrected edition
        of a release that was never charged or was replaced already.
        """

        def work(book: "Book") -> None:
            chain_end = self._chain_end(book, dataset)
            check_new(dataset, release, book.namesake(dataset, release))
            check_request(chain_end, release, neighbours, budget)
            if replaces is not None:
                replaced = _charged(book, dataset, replaces).release
                check_withdrawal(dataset, replaced, book.last_withdrawal(dataset, replaced), release)

        self._store.read(work)
        return self.status(dataset)

    def withdraw(self, dataset: str, release: str, *, reason: str, who: str, now: datetime | None = None) -> Withdrawal:
        """Record that a release should no longer be used. What it cost stays spent: copies of it may be kept."""
        why, name, at = check_reason(reason), check_name(who, "who withdraws a release"), moment(now)

        def work(book: "Book") -> Withdrawal:
            spend = _charged(book, self._dataset(book, dataset).name, release)
            return self._withdraw(book, spend, why, None, name, at)

        return self._store.write(work)

    def _withdraw(
        self, book: "Book", spend: Spend, reason: str, replaced_by: str | None, who: str, at: str
    ) -> Withdrawal:
        withdrawal = next_withdrawal(
            self._chain_end(book, spend.dataset),
            spend.release,
            book.last_withdrawal(spend.dataset, spend.release),
            reason=reason,
            replaced_by=replaced_by,
            who=who,
            at=at,
            software=_software(),
        )
        book.add_withdrawal(withdrawal)
        return withdrawal

    def paid(self, dataset: str, release: str) -> tuple[Receipt, str] | None:
        """Return the receipt of a release that was charged, and the commitment to its key; None if it was not.

        It waits for others that write, so that a charge which is just being written is not taken for none. The chain is
        verified on the way: an edited commitment must not let another key draw.
        """
        hash_chain = self._store.write(lambda book: self._hash_chain(book, dataset))
        account = verify_hash_chains([hash_chain]).accounts[0]
        spend = next((spend for spend in account.spends if spend.release == release), None)
        return None if spend is None else (Receipt.of(account.dataset, spend), spend.key)

    def dataset(self, name: str) -> Dataset:
        """Return a dataset as it was created."""
        return self._store.read(lambda book: self._dataset(book, name))

    def datasets(self) -> tuple[Dataset, ...]:
        """Return all datasets, by name."""
        return self._store.read(lambda book: tuple(self._dataset(book, name) for name in book.names()))

    def status(self, dataset: str) -> Status:
        """Return what a dataset has spent and what is left; its hash chain is verified on the way."""
        return status_of(self._account(dataset))

    def history(self, dataset: str) -> tuple[Spend, ...]:
        """Return all spends of a dataset in order; its hash chain is verified on the way."""
        return self._account(dataset).spends

    def withdrawals(self, dataset: str) -> tuple[Withdrawal, ...]:
        """Return the withdrawals of a dataset in order; its hash chain is verified on the way."""
        return self._account(dataset).withdrawals

    def disclosed(self, dataset: str) -> tuple[DisclosedStatistic, ...]:
        """Return every statistic that any release of a dataset disclosed exactly, in the order of the releases."""
        return tuple(
            DisclosedStatistic(statistic, value, spend.release)
            for spend in self.history(dataset)
            for statistic, value in spend.invariants
        )

    def verify(self, dataset: str | None = None, head: Head | None = None) -> Verification:
        """Recompute every hash and every sum, of one dataset or of all.

        Parameters
        ----------
        dataset : str, optional
        head : Head, optional
            A place that was seen before, such as ``receipt.head``: without it, a ledger that was cut short or
            recomputed as a whole cannot be told from an honest one.

        Raises
        ------
        TamperedError
            With everything that was found.
        """
        if head is not None and dataset not in (None, head.dataset):
            raise LedgerError(f"the head is of dataset {head.dataset!r}, not of {dataset!r}; verify that one")

        def work(book: "Book") -> list[HashChain]:
            findings = self._store.backend.check_storage(book.connection)
            findings += [f"records name dataset {name!r}, which is gone" for name in book.orphans()]
            if findings:
                raise TamperedError(f"the ledger does not hang together: {'; '.join(findings)}", tuple(findings))
            return self._hash_chains(book, dataset, head)

        return verify_hash_chains(self._store.read(work), head)

    def export(self, dataset: str | None = None) -> str:
        """Return the records of one dataset or of all as JSON lines, for `verify_export`; nothing is checked."""
        return self._store.read(lambda book: export_text(self._hash_chains(book, dataset)))

    def _account(self, name: str) -> DatasetAccount:
        """Read and verify the records of a dataset."""
        hash_chain = self._store.read(lambda book: self._hash_chain(book, name))
        return verify_hash_chains([hash_chain]).accounts[0]

    def _hash_chains(self, book: "Book", name: str | None, head: Head | None = None) -> list[HashChain]:
        """Read one chain or all; a dataset that a head names may be gone, which is for the verification to say."""
        if name is not None and head is None:
            return [self._hash_chain(book, name)]
        hash_chains = (book.hash_chain(known) for known in (book.names() if name is None else [name]))
        return [hash_chain for hash_chain in hash_chains if hash_chain is not None]

    def _hash_chain(self, book: "Book", name: object) -> HashChain:
        hash_chain = book.hash_chain(name) if isinstance(name, str) else None
        if hash_chain is None:
            raise _unknown(book, name)
        return hash_chain

    def _dataset(self, book: "Book", name: object) -> Dataset:
        dataset = book.dataset(name) if isinstance(name, str) else None
        if dataset is None:
            raise _unknown(book, name)
        return dataset

    def _chain_end(self, book: "Book", name: str) -> ChainEnd:
        """Return where the chain of a dataset ends."""
        dataset = self._dataset(book, name)
        return ChainEnd(dataset, book.last_spend(name), book.last_withdrawal(name))

    def __repr__(self) -> str:
        return self._store.backend.place


def open_ledger(
    place: object = None, *, create: bool = False, patience: float = PATIENCE, keys: str | Path | None = None
) -> Ledger:
    """Open a budget ledger.

    Parameters
    ----------
    place : str or path, optional
        A file such as ``budget.db``, ``sqlite:///budget.db`` or ``postgresql://user:password@host/database``. Without
        it, the environment variable CONGENIAL_LEDGER.
    create : bool
        Create the ledger if there is none, and bring an older one up to date.
    patience : float
        How many seconds to wait for other programs that write.
    keys : path, optional
        A private folder on this computer for the keys of releases that are under way. Without it, the environment
        variable CONGENIAL_KEYS; without that, a folder beside the ledger's file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> ledger = open_ledger(f"{folder.name}/budget.db", create=True)
    >>> ledger.create_dataset("county", epsilon="4", neighbours="bounded", who="Ada").cap
    Fraction(4, 1)
    >>> ledger.status("county")
    dataset 'county': epsilon 0 of 4 spent, 4 left, 0 releases, bounded neighbours
    >>> folder.cleanup()
    """
    _check_patience(patience)
    address = read_address(place)
    from congenial.ledger.store import open_store

    return Ledger(open_store(address, create=create, patience=float(patience)), _key_folder(address, keys))


def _key_folder(address: FileAddress | ServerAddress, keys: str | Path | None) -> Path | None:
    named = keys or os.environ.get(KEYS_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    return address.path.with_name(f"{address.path.name}.keys") if isinstance(address, FileAddress) else None


def _check_patience(seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 86_400:
        raise LedgerError("patience is a number of seconds between 0 and 86,400")


def _unknown(book: "Book", name: object) -> LedgerError:
    names = book.names()
    if not names:
        return LedgerError("the ledger has no datasets yet; add one with ledger.create_dataset")
    try:
        wanted = check_dataset_name(name)
    except LedgerError as refused:
        return refused
    spelling = book.spelling(wanted)
    hint = did_you_mean(wanted, names) if spelling is None else f"did you mean {spelling!r}?"
    return LedgerError(f"dataset {wanted!r} is not in the ledger; {hint}")


def _charged(book: "Book", dataset: str, release: str) -> Spend:
    """Return the spend of a release, by its very name."""
    spend = book.namesake(dataset, check_name(release, "a release's name"))
    if spend is not None and spend.release == release:
        return spend
    names = book.releases(dataset)
    hint = did_you_mean(release, names) if names else "nothing was"
    raise LedgerError(f"release {release!r} of dataset {dataset!r} was never charged; {hint}")


def _software() -> str:
    try:
        return f"congenial {version('congenial')}"
    except ModuleNotFoundError:  # run from its source folder
        return "congenial"
