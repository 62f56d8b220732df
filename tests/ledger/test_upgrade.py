"""The tables of a ledger: those that earlier versions made, all at once or not at all, and upgraded in one step."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from congenial.errors import LedgerError, OtherVersionError, UncertainError
from congenial.ledger import open_ledger
from congenial.ledger.address import read_address
from congenial.ledger.records import DATASET, FIELDS, SPEND, link_hash
from congenial.ledger.released_tables import ReleasedTables
from congenial.ledger.store import VERSIONS, Store, backend_of, bring_up_to_date
from ledgers import Server, certificate, codes_as_texts, ledger_with, request

EARLIER = Path(__file__).parents[1] / "earlier" / "0.1.0"
TABLES = ("congenial_datasets", "congenial_spends", "congenial_withdrawals", "congenial_ledger_version")


def earlier_ledger(kind: str, fixtures: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the place of a ledger that version 0.1.0 made through SQLAlchemy and Alembic."""
    if kind == "sqlite":
        place = tmp_path / "earlier.db"
        shutil.copy(EARLIER / "budget.db", place)
        place.chmod(0o600)
        return str(place)
    server: Server = fixtures.getfixturevalue("server")
    database = server.new_database()
    server.run((EARLIER / "budget.sql").read_text(encoding="utf-8"), database=database)
    return server.url(database)


def _sqlite_structure(place: str) -> dict[str, Any]:
    with closing(sqlite3.connect(place)) as connection:

        def ask(statement: str) -> list[tuple[Any, ...]]:
            return connection.execute(statement).fetchall()

        tables = {
            name: (
                ask(f"PRAGMA table_info({name})"),
                sorted(
                    [column for _, _, column in ask(f"PRAGMA index_info({index})")]
                    for _, index, unique, *_ in ask(f"PRAGMA index_list({name})")
                    if unique
                ),
                sorted(row[2:5] for row in ask(f"PRAGMA foreign_key_list({name})")),
            )
            for name in TABLES
        }
        triggers = ask("SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name")
    return {**tables, "triggers": [(*names, " ".join(text.split())) for *names, text in triggers]}


_POSTGRESQL_STRUCTURE = {
    "columns": "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable"
    " FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
    "constraints": "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
    " WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
    "triggers": "SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger"
    " WHERE NOT tgisinternal ORDER BY 1, 2",
    "functions": "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace",
}


def structure(place: str, server: Server | None) -> dict[str, Any]:
    """Return all columns, keys, constraints and triggers of a ledger."""
    if server is None:
        return _sqlite_structure(place)
    database = place.partition("?")[0].rpartition("/")[2]
    return {what: server.run(statement, database=database) for what, statement in _POSTGRESQL_STRUCTURE.items()}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_new_tables_are_those_of_the_earlier_version(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server = request.getfixturevalue("server") if kind == "postgresql" else None
    place = str(tmp_path / "new.db") if server is None else server.url(server.new_database())
    open_ledger(place, create=True)
    new = structure(place, server)
    assert new == structure(earlier_ledger(kind, request, tmp_path), server)
    columns = [name for table, name, *_ in new["columns"] if table == TABLES[0]] if server else []
    columns = columns or [name for _, name, *_ in new[TABLES[0]][0]]
    assert {*columns} == {*FIELDS[DATASET], "folded"}


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_ledger_of_the_earlier_version_goes_on(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    ledger = open_ledger(earlier_ledger(kind, request, tmp_path))
    assert [dataset.name for dataset in ledger.datasets()] == ["town", "tree"]
    ledger.verify()
    assert [spend.release for spend in ledger.history("town")] == ["first", "second"]
    assert ledger.withdrawals("town")[0].reason == "a mistake in the data"
    ledger.create_dataset("county", epsilon="2", neighbours="bounded", who="Ada")
    ledger.charge(_request())
    ledger.withdraw("county", "first", reason="misread", who="Ada")
    ledger.verify()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_older_spends_read_as_before_and_tables_of_records_come_after_them(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Spends that keep which tables they paid for need no new columns: a hash chain of the earlier version goes on."""
    place = earlier_ledger(kind, request, tmp_path)
    ledger = open_ledger(place)
    before = ledger.history("town")
    assert {(spend.tables, spend.certificate.change) for spend in before} == {(None, "")}
    assert all(link_hash(SPEND, spend.row) == spend.hash for spend in before)
    tables = ReleasedTables(
        (("sex", 2), ("age", 3)), "double_geometric", "bounded", ((("sex", "age"), Fraction(1)),), (("sex",),)
    )
    charged = replace(_request(), dataset="town", release="tables", tables=tables)
    charged = replace(charged, certificate=replace(certificate("1/1000"), change="one record"))
    ledger.charge(charged)
    ledger.verify()
    *older, newest = open_ledger(place, create=True).history("town")
    assert tuple(older) == before
    assert (newest.tables, newest.certificate.change) == (tables, "one record")


def _request() -> Any:
    return request()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_first_version_is_upgraded(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server = request.getfixturevalue("server") if kind == "postgresql" else None
    place = str(tmp_path / "first.db") if server is None else server.url(server.new_database())
    if server is None:
        Path(place).touch(mode=0o600)
    store = Store(backend_of(read_address(place), 1.0))
    store.write(lambda book: bring_up_to_date(store.backend, book.connection, VERSIONS[0]))
    with pytest.raises(OtherVersionError, match="congenial ledger upgrade"):
        open_ledger(place)
    ledger = open_ledger(place, create=True)
    assert ledger.datasets() == ()
    assert structure(place, server) == structure(earlier_ledger(kind, request, tmp_path), server)


def test_a_newer_version_is_refused(place: str) -> None:
    ledger = ledger_with(place, epsilon="9")
    ledger._store.write(lambda book: book.connection.execute("UPDATE congenial_ledger_version SET version_num = 'v99'"))
    with pytest.raises(LedgerError, match="made by a newer congenial"):
        open_ledger(place, create=True)


def test_spends_have_the_fields_of_their_records(place: str) -> None:
    ledger = ledger_with(place, epsilon="9")
    ledger.charge(_request())
    stored = ledger._store.read(lambda book: book._records(SPEND, ""))
    assert [tuple(row) for row in stored] == [FIELDS[SPEND]]


def test_versions_come_in_one_transaction_with_the_lock(place: str) -> None:
    """The second version fails, on a name that is taken, and what the first one made is gone with it."""
    address = read_address(place)
    if not place.startswith("postgresql"):
        Path(place).touch(mode=0o600)
    store = Store(backend_of(address, 1.0))
    store.write(lambda book: book.connection.execute("CREATE VIEW congenial_withdrawals AS SELECT 1 AS one"))
    with pytest.raises(LedgerError, match=r"cannot be used: .* reports .*; nothing was written") as caught:
        open_ledger(place, create=True)
    assert "view" not in codes_as_texts(caught.value)  # nothing of what the database says of itself
    assert "CREATE" not in codes_as_texts(caught.value)
    for table in ("congenial_datasets", "congenial_spends", "congenial_ledger_version"):
        assert not store.read(lambda book, name=table: store.backend.has_table(book.connection, name))  # type: ignore[misc]
    store.write(lambda book: book.connection.execute("DROP VIEW congenial_withdrawals"))
    assert open_ledger(place, create=True).datasets() == ()


def test_a_reader_in_the_way_of_new_tables(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    path.touch(mode=0o600)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM sqlite_master").fetchall()
    with pytest.raises(UncertainError, match="not known whether the last record was written"):
        open_ledger(path, create=True, patience=0.05)
    reader.close()
    with pytest.raises(LedgerError, match="not a ledger yet"):
        open_ledger(path)
