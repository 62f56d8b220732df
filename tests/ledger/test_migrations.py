"""The tables that migrations make are those that the code speaks of, and they come all at once or not at all."""

import sqlite3
from pathlib import Path

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect
from sqlalchemy.pool import NullPool

from congenial.errors import LedgerError, UncertainError
from congenial.ledger import ledger as home
from congenial.ledger import open_ledger
from congenial.ledger.address import read_address
from congenial.ledger.records import DATASET, FIELDS, SPEND
from congenial.ledger.store import Store, backend_of
from congenial.ledger.tables import VERSION
from ledgers import texts_of


def test_the_code_knows_the_newest_version() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(home.__file__).with_name("migrations")).replace("%", "%%"))
    assert ScriptDirectory.from_config(config).get_current_head() == VERSION


def test_columns_keys_and_constraints(place: str) -> None:
    backend = open_ledger(place, create=True)._store.backend
    engine = create_engine(f"{backend.dialect}://", creator=lambda: backend.connect().driver, poolclass=NullPool)

    def look(name: str) -> tuple[set[str], list[str], list[list[str]]]:
        found = inspect(engine)
        columns = {column["name"] for column in found.get_columns(name)}
        unique = [list(one["column_names"]) for one in found.get_unique_constraints(name)]
        return columns, found.get_pk_constraint(name)["constrained_columns"], unique

    assert look("congenial_datasets") == ({*FIELDS[DATASET], "folded"}, ["name"], [["folded"]])
    assert look("congenial_spends") == (set(FIELDS[SPEND]), ["dataset", "number"], [["dataset", "release"]])


def test_versions_come_in_one_transaction_with_the_lock(place: str) -> None:
    """The second version fails, on a name that is taken, and what the first one made is gone with it."""
    address = read_address(place)
    if not place.startswith("postgresql"):
        Path(place).touch(mode=0o600)
    store = Store(backend_of(address, 1.0))
    store.write(lambda book: book.connection.execute("CREATE VIEW congenial_withdrawals AS SELECT 1 AS one"))
    with pytest.raises(LedgerError, match=r"cannot be used: .* reports .*; nothing was written") as caught:
        open_ledger(place, create=True)
    assert "view" not in texts_of(caught.value)  # nothing of what the database says of itself
    assert "CREATE" not in texts_of(caught.value)
    for table in ("congenial_datasets", "congenial_spends", "congenial_ledger_version"):
        assert not store.read(lambda book, name=table: store.backend.has_table(book.connection, name))  # type: ignore[misc]
    store.write(lambda book: book.connection.execute("DROP VIEW congenial_withdrawals"))
    assert open_ledger(place, create=True).datasets() == ()


def test_a_reader_in_the_way_of_new_tables(tmp_path: Path) -> None:
    """The commit is the store's, also where Alembic has written."""
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
