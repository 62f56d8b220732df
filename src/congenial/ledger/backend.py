"""The interface to a database: connection, transactions, locks, errors."""

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from congenial.errors import LedgerError

# A connection to a ledger's database: plain SQL through the driver.


@dataclass(frozen=True)
class Connection:
    """A connection for one transaction.

    A value is never written into a statement: its place there is a ``?``, and it goes to the database beside it.

    Attributes
    ----------
    driver : connection
        Of sqlite3 or psycopg.
    marker : str
        What the driver has in place of ``?``.
    """

    driver: Any = field(repr=False)
    marker: str

    def rows(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        return list(self.driver.execute(self._marked(statement), values).fetchall())

    def execute(self, statement: str, *values: object) -> None:
        """Run a statement whose result is not needed."""
        self.driver.execute(self._marked(statement), values)

    def commit(self) -> None:
        """Commit the transaction."""
        self.driver.commit()

    def close(self) -> None:
        """Roll back and close; errors of a broken connection are ignored."""
        for end in (self.driver.rollback, self.driver.close):
            with suppress(Exception):
                end()

    def _marked(self, statement: str) -> str:
        return statement.replace("?", self.marker)


class Backend(Protocol):
    """How to connect to, lock and inspect a database, and what its errors mean."""

    @property
    def place(self) -> str:
        """Where the ledger is, in words, without user and password."""

    @property
    def dialect(self) -> str:
        """The SQL dialect: ``sqlite`` or ``postgresql``."""

    @property
    def error(self) -> type[Exception]:
        """What every error of the driver is."""

    def prepare(self, create: bool) -> None:
        """See that a connection can be tried at all."""

    def connect(self) -> Connection:
        """Return a new connection."""

    def begin(self, connection: Connection, writes: bool) -> None:
        """Start a transaction; those that write run one after the other."""

    def has_table(self, connection: Connection, name: str) -> bool:
        """Whether there is a table of this name."""

    def check_room(self, connection: Connection) -> None:
        """Refuse a database that belongs to something else."""

    def check_storage(self, connection: Connection) -> list[str]:
        """Return what the database itself finds wrong."""

    def advice(self) -> str:
        """Say in words what is unsafe about the place; nothing when all is well."""

    def explain(self, error: BaseException | None, connected: bool) -> LedgerError:
        """Say in words what went wrong."""
