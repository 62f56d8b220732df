"""Transactions on a ledger's database, and its errors in words of our own.

A store keeps no connection between transactions, so it can be used after a fork and has nothing to close.
"""

import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from congenial.errors import CongenialError, LedgerError, OtherVersionError, UncertainError
from congenial.ledger.address import FileAddress, ServerAddress
from congenial.ledger.backend import Backend
from congenial.ledger.connection import Connection
from congenial.ledger.postgresql import PostgresqlBackend
from congenial.ledger.sqlite import SqliteBackend
from congenial.ledger.tables import VERSION_TABLE, Book
from congenial.ledger.upgrade import VERSIONS, bring_up_to_date

_Answer = TypeVar("_Answer")


class UnsafePlaceWarning(UserWarning):
    """A ledger that others can read or write."""


@dataclass(frozen=True)
class Store:
    """A ledger's database."""

    backend: Backend

    def read(self, work: Callable[[Book], _Answer]) -> _Answer:
        """Do work in one transaction that writes nothing."""
        return self._run(work, writes=False)

    def write(self, work: Callable[[Book], _Answer]) -> _Answer:
        """Do work in one transaction that no other writer can come between."""
        return self._run(work, writes=True)

    def _run(self, work: Callable[[Book], _Answer], *, writes: bool) -> _Answer:
        """Do work and commit. What the database says is not passed on, not even as the context of the error."""
        stage = "connecting"
        try:
            with closing(self.backend.connect()) as connection:
                stage = "working"
                self.backend.begin(connection, writes)
                answer = work(Book(connection))
                stage = "committing"
                connection.commit()
                return answer
        except CongenialError:
            raise
        except Exception as error:  # a driver may quote the URL in any kind of error while it connects
            if stage != "connecting" and not isinstance(error, self.backend.error):
                raise
            failed = error
        refusal = self.backend.explain(failed, connected=stage != "connecting")
        if writes and stage == "committing":
            raise UncertainError(
                f"{refusal}; it is not known whether the last record was written; look at the history before you try"
                " again"
            )
        after = "nothing was written" if writes else ""
        raise type(refusal)(f"{refusal}; {after}" if after else str(refusal))


def backend_of(address: FileAddress | ServerAddress, patience: float) -> Backend:
    """Return how to speak to the database at an address."""
    if isinstance(address, FileAddress):
        return SqliteBackend(address, patience)
    return PostgresqlBackend(address, patience)


def open_store(address: FileAddress | ServerAddress, *, create: bool, patience: float) -> Store:
    """Open a ledger's database, and create or upgrade it when asked."""
    backend = backend_of(address, patience)
    backend.prepare(create)
    store = Store(backend)
    if create:
        store.write(lambda book: bring_up_to_date(backend, book.connection))
    else:
        store.read(lambda book: _check_version(backend, book.connection))
    advice = backend.advice()
    if advice:
        warnings.warn(advice, UnsafePlaceWarning, stacklevel=3)  # where open_ledger was called
    return store


def _check_version(backend: Backend, connection: Connection) -> None:
    if not backend.has_table(connection, VERSION_TABLE):
        raise LedgerError(
            f"{backend.place} is not a ledger yet; create it first: congenial ledger create, or"
            " open_ledger(..., create=True)"
        )
    found = connection.rows(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608  a name of our own
    if found != [(VERSIONS[-1],)]:
        raise OtherVersionError(
            f"{backend.place} has tables of another version than {VERSIONS[-1]}, which this congenial knows; bring an"
            " older one up to date, congenial ledger upgrade or open_ledger(..., create=True), or install a newer"
            " congenial"
        )
