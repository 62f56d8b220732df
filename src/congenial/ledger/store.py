"""Transactions on a ledger's database, and its errors in words of our own.

A store keeps no connection between transactions, so it can be used after a fork and has nothing to close.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Engine, column, inspect, select, table
from sqlalchemy.exc import SQLAlchemyError

from congenial.errors import CongenialError, LedgerError, OtherVersionError, UncertainError
from congenial.ledger.address import FileAddress, ServerAddress
from congenial.ledger.postgresql import PostgresqlBackend
from congenial.ledger.sqlite import SqliteBackend
from congenial.ledger.tables import VERSION, VERSION_TABLE, Book

_Answer = TypeVar("_Answer")


class UnsafePlaceWarning(UserWarning):
    """A ledger that others can read or write."""


class Backend(Protocol):
    """What differs from one kind of database to another."""

    @property
    def place(self) -> str:
        """Where the ledger is, in words, without user and password."""

    def prepare(self, create: bool) -> None:
        """See that a connection can be tried at all."""

    def engine(self) -> Engine:
        """Return an engine that opens a connection for each transaction."""

    def begin(self, connection: Connection, writes: bool) -> None:
        """Start a transaction; those that write run one after the other."""

    def check_room(self, connection: Connection) -> None:
        """Refuse a database that belongs to something else."""

    def check_storage(self, connection: Connection) -> list[str]:
        """Return what the database itself finds wrong."""

    def advice(self) -> str:
        """Say in words what is unsafe about the place; nothing when all is well."""

    def explain(self, error: BaseException | None, connected: bool) -> LedgerError:
        """Say in words what went wrong."""


@dataclass(frozen=True)
class Store:
    """A ledger's database."""

    backend: Backend
    engine: Engine = field(repr=False)

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
            with self.engine.connect() as connection:
                stage = "working"
                self.backend.begin(connection, writes)
                answer = work(Book(connection))
                stage = "committing"
                connection.commit()
                return answer
        except CongenialError:
            raise
        except SQLAlchemyError as error:
            failed: BaseException = getattr(error, "orig", None) or error
        except Exception as error:  # a driver may quote the URL in any kind of error
            if stage != "connecting":
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


def open_store(address: FileAddress | ServerAddress, *, create: bool, patience: float) -> Store:
    """Open a ledger's database, and create or upgrade it when asked."""
    backend: Backend
    if isinstance(address, FileAddress):
        backend = SqliteBackend(address, patience)
    else:
        backend = PostgresqlBackend(address, patience)
    backend.prepare(create)
    store = Store(backend, backend.engine())
    if create:
        store.write(lambda book: _create(backend, book.connection))
    else:
        store.read(lambda book: _check_version(backend, book.connection))
    advice = backend.advice()
    if advice:
        warnings.warn(advice, UnsafePlaceWarning, stacklevel=3)  # where open_ledger was called
    return store


def _create(backend: Backend, connection: Connection) -> None:
    """Bring the tables to the newest version, in one transaction."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    if not inspect(connection).has_table(VERSION_TABLE):
        backend.check_room(connection)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError:
        raise LedgerError(f"{backend.place} was made by a newer congenial; install a newer version") from None


def _check_version(backend: Backend, connection: Connection) -> None:
    if not inspect(connection).has_table(VERSION_TABLE):
        raise LedgerError(
            f"{backend.place} is not a ledger yet; create it first: congenial ledger create, or"
            " open_ledger(..., create=True)"
        )
    found: Sequence[str] = (
        connection.execute(select(column("version_num")).select_from(table(VERSION_TABLE))).scalars().all()
    )
    if found != [VERSION]:
        raise OtherVersionError(
            f"{backend.place} has tables of another version than {VERSION}, which this congenial knows; bring an older"
            " one up to date, congenial ledger upgrade or open_ledger(..., create=True), or install a newer congenial"
        )
