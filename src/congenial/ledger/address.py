"""The address of a ledger. A URL can hold a password, so messages repeat only parts known to be harmless."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from congenial.errors import LedgerError

VARIABLE = "CONGENIAL_LEDGER"
"""The environment variable that is read when no place is given."""

KEYS_VARIABLE = "CONGENIAL_KEYS"
"""The environment variable that names the folder of the keys of releases that are under way."""

_POSTGRESQL = ("postgresql", "postgres", "postgresql+psycopg")
_ALMOST_URL = re.compile(r"^[a-z+]{2,}:|:.*@|password\s*=", re.IGNORECASE)
_HARMLESS = re.compile(r"[A-Za-z0-9_.-]*")
_NUMBERED_HOST = re.compile(r"[0-9A-Fa-f:.]+")
_PORT = re.compile(r"[0-9]{1,5}")
# A password may hold all but an @. Every part takes as much as it can, and what it should not hold is refused later:
# were it refused here, the search would go on, and could find a host and a database inside a password.
_SERVER = re.compile(
    r"((?P<user>[^:/]*)(:(?P<password>[^@]*))?@)?"
    r"(\[(?P<numbered>[^/?]+)\]|(?P<host>[^/:?]+))?(:(?P<port>[^/?]*))?"
    r"(/(?P<database>[^?]*))?(\?(?P<options>.*))?"
)


@dataclass(frozen=True)
class FileAddress:
    """An SQLite file."""

    path: Path

    @property
    def place(self) -> str:
        """Where it is, in words."""
        return f"the ledger {str(self.path)!r}"


@dataclass(frozen=True)
class ServerAddress:
    """A PostgreSQL database.

    Attributes
    ----------
    database, host : str
        As they are shown; no host is a local socket.
    parameters : mapping of str to str
        What a connection asks for, by the names of libpq, the password among it; not shown.
    """

    database: str
    host: str
    parameters: Mapping[str, str] = field(repr=False)

    @property
    def place(self) -> str:
        """Where it is, in words, without user and password."""
        return f"the ledger in PostgreSQL database {self.database!r} on {self.host or 'a local socket'}"


def read_address(place: object = None) -> FileAddress | ServerAddress:
    """Read a path, an ``sqlite:///`` or a ``postgresql://`` URL; without one, the environment variable.

    Examples
    --------
    >>> read_address("postgresql://curator:secret@localhost/budgets").place
    "the ledger in PostgreSQL database 'budgets' on localhost"
    """
    if place is None:
        place = os.environ.get(VARIABLE) or None
        if place is None:
            raise LedgerError(
                f"say where the ledger is: a file such as budget.db, or a postgresql:// URL, given here or in the"
                f" environment variable {VARIABLE}; congenial ledger create makes one"
            )
    if isinstance(place, os.PathLike):
        place = os.fspath(place)
        if isinstance(place, str):
            return _file(place)
    if not isinstance(place, str):
        raise LedgerError(f"the place of a ledger is a path or a URL as text, not a {type(place).__name__}")
    scheme, separator, rest = place.partition("://")
    if not separator:
        if _ALMOST_URL.search(place):
            raise LedgerError(
                "the place of the ledger looks like a URL or a connection text with a mistake in it (it is not shown,"
                " for it may hold a password); write a path, or postgresql://user:password@host:5432/database"
            )
        return _file(place)
    if scheme == "sqlite":
        if not rest.startswith("/") or len(rest) == 1 or "?" in rest:
            raise LedgerError(
                "an SQLite URL names a file, sqlite:///budget.db or sqlite:////srv/budget.db, and no options; a ledger"
                " in memory would forget what was spent"
            )
        return _file(rest[1:])
    if scheme in _POSTGRESQL:
        return _server(rest)
    raise LedgerError("a ledger is a file, an sqlite:/// or a postgresql:// URL; this URL starts with something else")


def _file(path: str) -> FileAddress:
    if not path or "\0" in path:
        raise LedgerError("the path of the ledger is empty or holds a null character; write one such as budget.db")
    if path == ":memory:":
        raise LedgerError("a ledger in memory would forget what was spent; name a file, such as budget.db")
    try:
        return FileAddress(Path(path).expanduser().absolute())
    except RuntimeError:
        raise LedgerError("the path of the ledger starts with ~ and a user who is not known") from None


def _server(rest: str) -> ServerAddress:
    """Read a URL so that no part of a badly written password can pass for a host or a database."""
    match = _SERVER.fullmatch(rest) if rest.isprintable() and rest.count("@") <= 1 else None
    if match is not None:
        parts = match.groupdict("")
        host, database = parts["host"] or parts["numbered"], unquote(parts["database"])
        user, password = unquote(parts["user"]), unquote(parts["password"])
        named = {"host": host, "port": parts["port"], "dbname": database, "user": user, "password": password}
        options = parse_qsl(parts["options"])
        parameters = {name: text for name, text in named.items() if text} | dict(options)
        sound = (
            database
            and _is_harmless(host, database)
            and (match["port"] is None or _PORT.fullmatch(match["port"]))
            and len(dict(options)) == len(options)
            and "\0" not in "".join(parameters.values())
        )
        if sound:
            return ServerAddress(database, host, parameters)
    raise LedgerError(
        "the PostgreSQL URL cannot be read (it is not shown, for it may hold a password); write"
        " postgresql://user:password@host:5432/database, with @ : / ? # % in the password as %40 %3A %2F %3F %23"
        " %25, letters, digits and . _ - in host and database, and no option twice"
    )


def _is_harmless(host: str, database: str) -> bool:
    return bool((_HARMLESS.fullmatch(host) or _NUMBERED_HOST.fullmatch(host)) and _HARMLESS.fullmatch(database))
