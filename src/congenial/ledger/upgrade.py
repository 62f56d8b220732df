"""How a ledger's tables are made and brought up to date: by Alembic, in the transaction that is open.

SQLAlchemy, which Alembic works through, is imported here and in the migrations alone: no charge waits for it.
"""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from congenial.errors import LedgerError
from congenial.ledger.backend import Backend
from congenial.ledger.connection import Connection
from congenial.ledger.tables import VERSION_TABLE

# A type that no ledger has, and that would be looked for through psycopg's own kind of connection.
_OPTIONS: dict[str, dict[str, Any]] = {"postgresql+psycopg": {"use_native_hstore": False}}


class _Lent:
    """A driver's connection that is lent to SQLAlchemy, and whose transaction stays that of the store."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    def commit(self) -> None:
        """Leave the transaction open."""

    def rollback(self) -> None:
        """Leave the transaction open; when SQLAlchemy looks at a server for the first time, this is how it ends."""

    def close(self) -> None:
        """Leave the connection open."""


def bring_up_to_date(backend: Backend, connection: Connection) -> None:
    """Bring the tables to the newest version."""
    if not backend.has_table(connection, VERSION_TABLE):
        backend.check_room(connection)
    lent = _Lent(connection.driver)
    engine = create_engine(
        f"{backend.dialect}://",
        creator=lambda: lent,
        poolclass=NullPool,
        hide_parameters=True,
        **_OPTIONS.get(backend.dialect, {}),
    )
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    try:
        with engine.begin() as borrowed:
            config.attributes["connection"] = borrowed
            command.upgrade(config, "head")
    except CommandError:
        raise LedgerError(f"{backend.place} was made by a newer congenial; install a newer version") from None
    except SQLAlchemyError as error:
        said = getattr(error, "orig", None)
        raise said if isinstance(said, backend.error) else backend.error() from None
