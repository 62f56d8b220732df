"""A ledger in an SQLite file.

The journal is SQLite's ordinary one (``DELETE``) and not the write-ahead log: a ledger is then one file that can be
copied, backed up and read from a read-only medium, and it does not need shared memory, which network file systems lack.
``synchronous = EXTRA`` makes a commit survive a power cut in that mode: with ``FULL`` the removal of the journal may
not have reached the disk, and the journal would then undo the last spend.

A new file is its owner's alone, and SQLite gives the journal the mode of the file that it belongs to.
"""

import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import ClassVar

from congenial.errors import LedgerBusyError, LedgerError, reason_of
from congenial.ledger.address import FileAddress
from congenial.ledger.backend import Connection

_MEANINGS = {
    "SQLITE_NOTADB": "is not a ledger: the file is no SQLite database",
    "SQLITE_CORRUPT": "is damaged: SQLite cannot read the file; go back to a copy that verifies",
    "SQLITE_READONLY": "cannot be written: the file or its folder is read-only",
    "SQLITE_CANTOPEN": "cannot be opened: the file or its folder is missing, or may not be read and written",
    "SQLITE_PERM": "cannot be opened: its permissions do not allow it",
    "SQLITE_FULL": "cannot be written: the disk is full",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error or is full",
    "SQLITE_TOOBIG": "cannot take a record that large",
}

_OWNER_ALONE, _OTHERS = 0o600, 0o066


@dataclass(frozen=True)
class SqliteBackend:
    """How to reach and lock an SQLite file."""

    address: FileAddress
    patience: float
    dialect: ClassVar[str] = "sqlite"
    error: ClassVar[type[Exception]] = sqlite3.Error

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return self.address.place

    def prepare(self, create: bool) -> None:
        """See that there is a file; an empty one is an empty database."""
        path = self.address.path
        problem = ""
        try:
            if path.is_dir():
                problem = "is a folder; name a file in it, such as budget.db"
            elif not path.exists():
                if create:
                    _create_private(path)
                else:
                    problem = (
                        "does not exist; create it first: congenial ledger create, or open_ledger(..., create=True)"
                    )
            elif not path.is_file():
                problem = "is no ordinary file"
        except OSError as error:
            problem = f"cannot be created or opened: {reason_of(error)}"
        if problem:
            raise LedgerError(f"{self.place} {problem}")

    def connect(self) -> Connection:
        """Return a new connection, on which transactions begin and end where it is said."""
        # mode=rw: a file that went away is an error and not a new, empty ledger.
        where = f"{self.address.path.as_uri()}?mode=rw"
        connection = Connection(sqlite3.connect(where, uri=True, timeout=self.patience, isolation_level=None), "?")
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("PRAGMA fullfsync = ON")  # on macOS an ordinary fsync does not reach the disk
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
        return connection

    def begin(self, connection: Connection, writes: bool) -> None:
        """Start a transaction; one that writes keeps all others from writing from its first moment."""
        connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    def has_table(self, connection: Connection, name: str) -> bool:
        """Whether there is a table of this name."""
        return bool(connection.rows("SELECT 1 FROM sqlite_master WHERE type IN ('table', 'view') AND name = ?", name))

    def check_room(self, connection: Connection) -> None:
        """Refuse to make a ledger in a database of something else."""
        if connection.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"):
            raise LedgerError(f"{self.place} is not a ledger: the file holds other tables; name another file")

    def check_storage(self, connection: Connection) -> list[str]:
        """Return what SQLite itself finds wrong with the file."""
        findings = [str(row[0]) for row in connection.rows("PRAGMA integrity_check(10)")]
        return [] if findings == ["ok"] else [f"SQLite finds the file damaged: {line}" for line in findings]

    def advice(self) -> str:
        """Say who else can read or write the file, and how to end that; nothing when it is its owner's alone."""
        path = self.address.path
        mode = path.stat().st_mode & 0o777
        if not mode & _OTHERS:
            return ""
        return (
            f"{self.place} can be read or written by other users of this computer: its mode is {mode:o}. Make it yours"
            f" alone: chmod 600 {quote(str(path))}. Curators who share a ledger keep it in PostgreSQL"
        )

    def explain(self, error: BaseException | None, connected: bool) -> LedgerError:  # noqa: ARG002
        """Say in words what went wrong."""
        name = str(getattr(error, "sqlite_errorname", ""))
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return LedgerBusyError(
                f"{self.place} is locked by another program, for more than {self.patience:g} seconds; try again, and if"
                " it stays locked look for a program that has the file open"
            )
        if name.startswith("SQLITE_CONSTRAINT"):
            return LedgerBusyError(f"{self.place} was changed by another program at the same moment; try again")
        for prefix, meaning in _MEANINGS.items():
            if name.startswith(prefix):
                return LedgerError(f"{self.place} {meaning}")
        return LedgerError(f"{self.place} cannot be used: SQLite reports {name or 'an error'}; it may be damaged")


def _create_private(path: Path) -> None:
    """Make an empty file with mode 600, whatever the umask; one that another program has just made is left alone."""
    try:
        opened = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _OWNER_ALONE)
    except FileExistsError:
        return
    try:
        os.fchmod(opened, _OWNER_ALONE)
    finally:
        os.close(opened)
