"""What differs from one kind of database to another."""

from typing import Protocol

from congenial.errors import LedgerError
from congenial.ledger.connection import Connection


class Backend(Protocol):
    """How to reach, lock and look at a database, and what its errors mean."""

    @property
    def place(self) -> str:
        """Where the ledger is, in words, without user and password."""

    @property
    def dialect(self) -> str:
        """Which SQL it speaks: ``sqlite`` or ``postgresql``."""

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
