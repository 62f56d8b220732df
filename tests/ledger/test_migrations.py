"""The tables that migrations make are those that the code speaks of."""

from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from congenial.ledger import ledger as home
from congenial.ledger import open_ledger
from congenial.ledger.records import DATASET, FIELDS, SPEND
from congenial.ledger.tables import VERSION


def test_the_code_knows_the_newest_version() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(home.__file__).with_name("migrations")).replace("%", "%%"))
    assert ScriptDirectory.from_config(config).get_current_head() == VERSION


def test_columns_keys_and_constraints(place: str) -> None:
    ledger = open_ledger(place, create=True)

    def look(name: str) -> tuple[set[str], list[str], list[list[str]]]:
        def work(book: object) -> tuple[set[str], list[str], list[list[str]]]:
            found = inspect(book.connection)  # type: ignore[attr-defined]
            columns = {column["name"] for column in found.get_columns(name)}
            unique = [one["column_names"] for one in found.get_unique_constraints(name)]
            return columns, found.get_pk_constraint(name)["constrained_columns"], unique

        return ledger._store.read(work)

    assert look("congenial_datasets") == ({*FIELDS[DATASET], "folded"}, ["name"], [["folded"]])
    assert look("congenial_spends") == (set(FIELDS[SPEND]), ["dataset", "number"], [["dataset", "release"]])
