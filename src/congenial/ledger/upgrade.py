"""The versions of a ledger's tables, in plain SQL, and how a database is brought to the newest.

All versions that are missing run in the transaction that is open, under the lock of writers: they come together or not
at all. The triggers keep a mistaken UPDATE or DELETE from going through; they are no protection against whoever owns
the database. What was changed on purpose shows in the hash chain.
"""

from congenial.errors import LedgerError
from congenial.ledger.backend import Backend
from congenial.ledger.connection import Connection
from congenial.ledger.tables import VERSION_TABLE

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
    taken = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {fields})" for fields in same)  # noqa: S608
    return f"CREATE TRIGGER {table}_new BEFORE INSERT ON {table} WHEN {taken} {_REFUSE}"


def _sqlite_apart(table: str, other: str) -> str:
    """A place in the chain belongs to one record, of either kind; INSERT OR REPLACE runs no DELETE trigger."""
    taken = f"SELECT 1 FROM {other} WHERE dataset = NEW.dataset AND number = NEW.number"  # noqa: S608  constant names
    return f"CREATE TRIGGER {table}_apart_from_{other} BEFORE INSERT ON {table} WHEN EXISTS ({taken}) {_REFUSE}"


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
