"""A workbench in the tests: an example copied to a folder of its own, with a ledger, behind the guard or on a port."""

import shutil
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn

from congenial.ledger import open_ledger
from congenial.workbench.app import make_app
from congenial.workbench.desk import Desk

with warnings.catch_warnings():  # it asks for the next major version of its client
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient as TestClient  # noqa: PLC0414  handed on

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKEN = "f" * 64
HOST = "127.0.0.1:8000"
ORIGIN = {"origin": f"http://{HOST}"}
DATASETS = {"p12": "p12-example", "counties": "state-population"}


def folder_with(place: Path, *names: str) -> Path:
    """Copy examples into a folder, with a ledger beside them that can pay."""
    for name in names:
        shutil.copytree(EXAMPLES / name, place / name)
    ledger = open_ledger(place / "budget.db", create=True)
    for name in names:
        ledger.create_dataset(DATASETS[name], epsilon="4", neighbours="bounded", who="Ada")
    return place


def desk_of(place: Path) -> Desk:
    return Desk(place, str(place / "budget.db"), None, "Ada")


@contextmanager
def client_of(desk: Desk, *, enters: bool = True) -> Iterator[TestClient]:
    """A browser without a screen, which has come by the link unless said otherwise."""
    client = TestClient(make_app(desk, TOKEN, 8000), base_url=f"http://{HOST}")
    if enters:
        client.get(f"/?token={TOKEN}")
        client.headers.update(ORIGIN)
    yield client
    client.close()


@dataclass
class Served:
    """A workbench that listens."""

    desk: Desk
    address: str
    _server: uvicorn.Server
    _thread: threading.Thread

    @property
    def link(self) -> str:
        return f"{self.address}/?token={TOKEN}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)


def serve(place: Path, port: int = 0) -> Served:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    own = listening.getsockname()[1]
    desk = desk_of(place)
    server = uvicorn.Server(uvicorn.Config(make_app(desk, TOKEN, own), log_level="error", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    return Served(desk, f"http://127.0.0.1:{own}", server, thread)


def settled(page: "Page") -> None:
    """Wait until the page shows what it asked for last, proven."""
    page.wait_for_selector("#choose[data-bound=false]:not(.is-busy)")
