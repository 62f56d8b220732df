"""Tables and versions of a ledger's database, and transactions on it; driver errors are replaced by own messages.

A store keeps no connection between transactions, so it can be used after a fork and has nothing to close.
"""

import warnings
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

from congenial.errors import CongenialError, LedgerError, OtherVersionError, TamperedError, UncertainError
from congenial.ledger.address import FileAddress, ServerAddress
from congenial.ledger.backend import Backend, Connection
from congenial.ledger.postgresql import PostgresqlBackend
from congenial.ledger.records import DATASET, FIELDS, SPEND, WITHDRAWAL, Dataset, Spend, Withdrawal, folded
from congenial.ledger.requests_and_canonical_text import Row
from congenial.ledger.sqlite import SqliteBackend
from congenial.ledger.verification_and_export import HashChain

# The tables of a ledger: queries and inserts inside one open transaction.

VERSION_TABLE = "congenial_ledger_version"

TABLES = {DATASET: "congenial_datasets", SPEND: "congenial_spends", WITHDRAWAL: "congenial_withdrawals"}
"""Where records of each kind are. A dataset has its folded name there besides: an index, and no part of the record."""

_Record = TypeVar("_Record", Dataset, Spend, Withdrawal)


@dataclass(frozen=True)
class Book:
    """A ledger inside one transaction."""

    connection: Connection

    def dataset(self, name: str) -> Dataset | None:
        """Return a dataset."""
        row = self._first_record(DATASET, "WHERE name = ?", name)
        return None if row is None else _read(Dataset, row, f"dataset {name!r}")

    def names(self) -> list[str]:
        """Return the names of all datasets."""
        return self._texts("SELECT name FROM congenial_datasets ORDER BY name")

    def spelling(self, name: str) -> str | None:
        """Return how a name is written here, in case and form; compared without the column, which could be edited."""
        return next((known for known in self.names() if folded(known) == folded(name)), None)

    def last_spend(self, dataset: str) -> Spend | None:
        """Return the newest spend of a dataset."""
        return self._spend("WHERE dataset = ? ORDER BY number DESC LIMIT 1", dataset)

    def namesake(self, dataset: str, release: str) -> Spend | None:
        """Return the spend of a release whose name is taken for this one."""
        wanted = folded(release)
        names = self._texts("SELECT release FROM congenial_spends WHERE dataset = ?", dataset)  # an index has them all
        spelling = next((name for name in names if folded(name) == wanted), None)
        return None if spelling is None else self._spend("WHERE dataset = ? AND release = ?", dataset, spelling)

    def releases(self, dataset: str) -> list[str]:
        """Return the names of all releases of a dataset that were charged."""
        return self._texts("SELECT release FROM congenial_spends WHERE dataset = ? ORDER BY number", dataset)

    def last_withdrawal(self, dataset: str, release: str | None = None) -> Withdrawal | None:
        """Return the newest withdrawal of a dataset, or of one of its releases."""
        mine, values = ("", (dataset,)) if release is None else (" AND release = ?", (dataset, release))
        row = self._first_record(WITHDRAWAL, f"WHERE dataset = ?{mine} ORDER BY number DESC LIMIT 1", *values)
        return None if row is None else _read(Withdrawal, row, f"withdrawal {row['number']} of dataset {dataset!r}")

    def hash_chain(self, name: str) -> HashChain | None:
        """Return all records of a dataset as they are stored."""
        dataset = self._first_record(DATASET, "WHERE name = ?", name)
        if dataset is None:
            return None
        records = [
            (kind, row)
            for kind in (SPEND, WITHDRAWAL)
            for row in self._records(kind, "WHERE dataset = ? ORDER BY number", name)
        ]
        return HashChain(dataset, tuple(sorted(records, key=_place)))

    def orphans(self) -> list[str]:
        """Return the datasets that records name and that are not there."""
        return self._texts(
            "SELECT dataset FROM congenial_spends WHERE dataset NOT IN (SELECT name FROM congenial_datasets) UNION"
            " SELECT dataset FROM congenial_withdrawals WHERE dataset NOT IN (SELECT name FROM congenial_datasets)"
        )

    def add_dataset(self, dataset: Dataset) -> None:
        """Write a new dataset."""
        self._add(DATASET, {**dataset.row, "folded": folded(dataset.name)})

    def add_spend(self, spend: Spend) -> None:
        """Write a new spend."""
        self._add(SPEND, spend.row)

    def add_withdrawal(self, withdrawal: Withdrawal) -> None:
        """Write a new withdrawal."""
        self._add(WITHDRAWAL, withdrawal.row)

    def _add(self, kind: str, row: Row) -> None:
        """Write a record."""
        fields, places = ", ".join(row), ", ".join("?" for _ in row)
        statement = f"INSERT INTO {TABLES[kind]} ({fields}) VALUES ({places})"  # noqa: S608  names of our own
        self.connection.execute(statement, *row.values())

    def _records(self, kind: str, clause: str, *values: object) -> list[Row]:
        """Return the records of a kind, as they are stored."""
        fields = FIELDS[kind]
        statement = f"SELECT {', '.join(fields)} FROM {TABLES[kind]} {clause}"  # noqa: S608  names of our own
        return [dict(zip(fields, row, strict=True)) for row in self.connection.rows(statement, *values)]

    def _first_record(self, kind: str, clause: str, *values: object) -> Row | None:
        return next(iter(self._records(kind, clause, *values)), None)

    def _spend(self, clause: str, *values: object) -> Spend | None:
        row = self._first_record(SPEND, clause, *values)
        return None if row is None else _read(Spend, row, f"spend {row['number']} of dataset {row['dataset']!r}")

    def _texts(self, statement: str, *values: object) -> list[str]:
        """Return the one column of an answer."""
        return [str(text) for (text,) in self.connection.rows(statement, *values)]


def _place(record: tuple[str, Row]) -> float:
    """Return where a record belongs; one whose number was edited away goes last."""
    number = record[1]["number"]
    return number if isinstance(number, int) else float("inf")


def _read(kind: type[_Record], row: Row, what: str) -> _Record:
    try:
        return kind.of_row(row)
    except ValueError as error:
        raise TamperedError(f"{what} was edited after it was written: {error}", (f"{what}: {error}",)) from None


# The versions of a ledger's tables as SQL scripts, and the upgrade to the newest.
#
# All versions that are missing run in the transaction that is open, under the lock of writers: they come together or
# not at all. The triggers keep a mistaken UPDATE or DELETE from going through; they are no protection against whoever
# owns the database. What was changed on purpose shows in the hash chain.

_REFUSE = "BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END"

_VERSION_TABLE = (
    f"CREATE TABLE {VERSION_TABLE} (version_num VARCHAR(32) NOT NULL,"
    f" CONSTRAINT {VERSION_TABLE}_pkc PRIMARY KEY (version_num))"
)
_DATASETS = """CREATE TABLE congenial_datasets (
    name TEXT NOT NULL, folded TEXT NOT NULL, neighbours TEXT NOT NULL, currency TEXT NOT NULL, cap TEXT NOT NULL,
    who TEXT NOT NULL, at TEXT NOT NULL, software TEXT NOT NULL, hash TEXT NOT NULL, delta TEXT,
    PRIMARY KEY (name), UNIQUE (folded))"""
_SPENDS = """CREATE TABLE congenial_spends (
    dataset TEXT NOT NULL, release TEXT NOT NULL, loss TEXT NOT NULL, spent TEXT NOT NULL, certificate TEXT NOT NULL,
    invariants TEXT NOT NULL, plan TEXT NOT NULL, key TEXT NOT NULL, who TEXT NOT NULL, at TEXT NOT NULL,
    software TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL, number INTEGER NOT NULL,
    PRIMARY KEY (dataset, number), UNIQUE (dataset, release),
    FOREIGN KEY (dataset) REFERENCES congenial_datasets (name), CHECK (number > 0))"""
_WITHDRAWALS = """CREATE TABLE congenial_withdrawals (
    dataset TEXT NOT NULL, release TEXT NOT NULL, reason TEXT NOT NULL, who TEXT NOT NULL, at TEXT NOT NULL,
    software TEXT NOT NULL, previous TEXT NOT NULL, hash TEXT NOT NULL, number INTEGER NOT NULL, replaced_by TEXT,
    PRIMARY KEY (dataset, number),
    FOREIGN KEY (dataset, release) REFERENCES congenial_spends (dataset, release),
    FOREIGN KEY (dataset, replaced_by) REFERENCES congenial_spends (dataset, release), CHECK (number > 1))"""


def _sqlite_no_changes(table: str) -> list[str]:
    return [
        f"CREATE TRIGGER {table}_no_{action.lower()} BEFORE {action} ON {table} {_REFUSE}"
        for action in ("UPDATE", "DELETE")
    ]


def _postgresql_no_changes(table: str) -> str:
    return (
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        " FOR EACH STATEMENT EXECUTE FUNCTION congenial_append_only()"
    )


def _sqlite_new(table: str, *same: str) -> str:
    """No record takes the place of another: INSERT OR REPLACE deletes without a DELETE trigger."""
    existing = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {fields})" for fields in same)  # noqa: S608
    return f"CREATE TRIGGER {table}_new BEFORE INSERT ON {table} WHEN {existing} {_REFUSE}"


def _sqlite_apart(table: str, other: str) -> str:
    """A place in the chain belongs to one record, of either kind; INSERT OR REPLACE runs no DELETE trigger."""
    existing = f"SELECT 1 FROM {other} WHERE dataset = NEW.dataset AND number = NEW.number"  # noqa: S608  constant names
    return f"CREATE TRIGGER {table}_apart_from_{other} BEFORE INSERT ON {table} WHEN EXISTS ({existing}) {_REFUSE}"


_SCRIPTS = {
    "v0001": {
        "sqlite": [
            *(_DATASETS, _SPENDS),
            *_sqlite_no_changes("congenial_datasets"),
            *_sqlite_no_changes("congenial_spends"),
            _sqlite_new("congenial_datasets", "name = NEW.name OR folded = NEW.folded"),
            _sqlite_new(
                "congenial_spends",
                "dataset = NEW.dataset AND number = NEW.number",
                "dataset = NEW.dataset AND release = NEW.release",
            ),
        ],
        "postgresql": [
            *(_DATASETS, _SPENDS),
            "CREATE FUNCTION congenial_append_only() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'a ledger is append-only'; END $$",
            *map(_postgresql_no_changes, ("congenial_datasets", "congenial_spends")),
        ],
    },
    "v0002": {
        "sqlite": [
            _WITHDRAWALS,
            *_sqlite_no_changes("congenial_withdrawals"),
            _sqlite_apart("congenial_withdrawals", "congenial_withdrawals"),
            _sqlite_apart("congenial_withdrawals", "congenial_spends"),
            _sqlite_apart("congenial_spends", "congenial_withdrawals"),
        ],
        "postgresql": [_WITHDRAWALS, _postgresql_no_changes("congenial_withdrawals")],
    },
}
"""The statements of each version, in order, by the kind of database."""

VERSIONS = tuple(_SCRIPTS)


def bring_up_to_date(backend: Backend, connection: Connection, newest: str = VERSIONS[-1]) -> None:
    """Bring the tables to the newest version."""
    if not backend.has_table(connection, VERSION_TABLE):
        backend.check_room(connection)
        connection.execute(_VERSION_TABLE)
    numbers = [str(number) for (number,) in connection.rows(f"SELECT version_num FROM {VERSION_TABLE}")]  # noqa: S608
    if len(numbers) > 1 or not {*numbers} <= {*VERSIONS}:
        raise LedgerError(f"{backend.place} was made by a newer congenial; install a newer version")
    n_there = 0 if not numbers else VERSIONS.index(numbers[0]) + 1
    for version in VERSIONS[n_there : VERSIONS.index(newest) + 1]:
        for statement in _SCRIPTS[version][backend.dialect]:
            connection.execute(statement)
        connection.execute(f"DELETE FROM {VERSION_TABLE}")  # noqa: S608  a constant name
        connection.execute(f"INSERT INTO {VERSION_TABLE} VALUES (?)", version)  # noqa: S608


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
        """Do work and commit. Messages of the database are not passed on, not even as the context of the error."""
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
    """Return the backend of the database at an address."""
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
    versions = connection.rows(f"SELECT version_num FROM {VERSION_TABLE}")  # noqa: S608  a name of our own
    if versions != [(VERSIONS[-1],)]:
        raise OtherVersionError(
            f"{backend.place} has tables of another version than {VERSIONS[-1]}, which this congenial knows; bring an"
            " older one up to date, congenial ledger upgrade or open_ledger(..., create=True), or install a newer"
            " congenial"
        )
