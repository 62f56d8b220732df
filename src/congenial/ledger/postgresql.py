"""A ledger in a PostgreSQL database.

Nothing that the driver or the server says is repeated: it may quote the URL. Writers queue at an advisory lock, which
needs no more rights than to read and insert. Correctness does not rest on it: a spend's number is part of the primary
key, so of two writers that saw the same last spend only one can commit.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from congenial.errors import LedgerBusyError, LedgerError
from congenial.ledger.address import ServerAddress
from congenial.ledger.backend import Connection

_LOCK = 0x636F6E67656E6961  # "congenia": the same for every ledger of a database

_MEANINGS = {
    "28": "refuses the user or the password; see that the URL, or the password file of PostgreSQL, is right",
    "3D000": "does not exist; create the database first: createdb",
    "42501": "may not be used this way by this user; grant SELECT and INSERT on its tables (CREATE to create it)",
    "42P01": "is damaged: a table of it is missing",
    "53100": "cannot be written: the server's disk is full",
    "53300": "cannot be reached now: the server has too many connections; try again",
    "25006": "cannot be written: the server is read-only, a standby perhaps",
}
# What the server says before a session exists has no code, only words; these are libpq's, in English.
_WORDS = {
    r"password authentication failed|no password supplied|role \".*\" does not exist|no pg_hba.conf entry": "28",
    r"database \".*\" does not exist": "3D000",
    r"permission denied for database": "42501",
    r"too many (clients|connections)|connection slots": "53300",
}


@dataclass(frozen=True)
class PostgresqlBackend:
    """How to reach and lock a PostgreSQL database."""

    address: ServerAddress
    patience: float
    dialect: ClassVar[str] = "postgresql"

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return self.address.place

    @property
    def error(self) -> type[Exception]:
        """What every error of the driver is."""
        from psycopg import Error

        return Error

    def prepare(self, create: bool) -> None:  # noqa: ARG002  a database is made by its administrator
        """See that the driver is there."""
        try:
            import psycopg  # noqa: F401
        except ImportError:
            missing = True
        else:
            missing = False
        if missing:
            raise LedgerError("a ledger in PostgreSQL needs the driver psycopg: pip install 'congenial[postgresql]'")

    def connect(self) -> Connection:
        """Return a new connection, whose transaction begins with its first statement."""
        from psycopg import IsolationLevel, connect
        from psycopg.conninfo import make_conninfo

        # As a text, all that a URL asks for goes to libpq; psycopg has arguments of its own, such as autocommit.
        waits = {"connect_timeout": str(max(2, int(self.patience)))}
        driver = connect(make_conninfo(**{**waits, **self.address.parameters}))
        # Each statement must see what was committed before it, the wait for the lock included; a server can be set up
        # with another default, under which the sum would be that of before the wait.
        driver.isolation_level = IsolationLevel.READ_COMMITTED
        return Connection(driver, "%s")

    def begin(self, connection: Connection, writes: bool) -> None:
        """Start a transaction; one that writes waits for all others that do."""
        if not writes:
            return
        limit = str(max(1, round(self.patience * 1000)))
        connection.execute("SELECT set_config('lock_timeout', ?, true)", limit)
        # With synchronous_commit off the server says "committed" before the spend is on disk.
        connection.execute(
            "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
        )
        connection.execute("SELECT pg_advisory_xact_lock(?)", _LOCK)

    def has_table(self, connection: Connection, name: str) -> bool:
        """Whether there is a table of this name, where statements look for one."""
        return bool(
            connection.rows(
                "SELECT 1 FROM pg_catalog.pg_class WHERE relname = ? AND relkind IN ('r', 'p', 'f', 'v', 'm')"
                " AND pg_catalog.pg_table_is_visible(oid)",
                name,
            )
        )

    def check_room(self, connection: Connection) -> None:
        """Accept any database: the ledger's tables have names of their own."""

    def check_storage(self, connection: Connection) -> list[str]:  # noqa: ARG002  the server looks after its files
        """Return nothing."""
        return []

    def advice(self) -> str:
        """Return nothing: who may read a database is its administrator's to say."""
        return ""

    def explain(self, error: BaseException | None, connected: bool) -> LedgerError:
        """Say in own words what went wrong."""
        code = str(getattr(error, "sqlstate", None) or "")
        if not code and not connected:
            message = str(error)
            code = next((code for words, code in _WORDS.items() if re.search(words, message)), "")
        if code == "55P03":
            return LedgerBusyError(
                f"{self.place} is locked by another program, for more than {self.patience:g} seconds; try again"
            )
        if code.startswith(("23", "40")):
            return LedgerBusyError(f"{self.place} was changed by another program at the same moment; try again")
        for prefix, meaning in _MEANINGS.items():
            if code.startswith(prefix):
                return LedgerError(f"{self.place} {meaning}")
        if not connected:
            return LedgerError(
                f"{self.place} cannot be reached; see that the server runs and that host and port are right"
            )
        return LedgerError(
            f"{self.place} cannot be used: {f'PostgreSQL reports {code}' if code else 'the connection broke'}"
        )
