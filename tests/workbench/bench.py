"""A workbench in the tests: an example copied to a folder of its own, with a ledger, behind the guard or on a port."""

import re
import shutil
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import uvicorn

from congenial.ledger import open_ledger
from congenial.workbench.app_and_guard import make_app
from congenial.workbench.workspace import Workspace

with warnings.catch_warnings():  # it asks for the next major version of its client
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient as TestClient  # noqa: PLC0414  handed on

if TYPE_CHECKING:
    from playwright.sync_api import Page

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKEN = "f" * 64
HOST = "127.0.0.1:8000"
ORIGIN = {"origin": f"http://{HOST}"}
PAGES = [
    "/",
    "/spec?file=p12/spec.yaml",
    "/choose?file=p12/spec.yaml",
    "/release?file=p12/spec.yaml",
    "/ask",
    "/ledger",
]
DATASETS = {"p12": "p12-example", "counties": "state-population"}


def folder_with(place: Path, *names: str) -> Path:
    """Copy examples into a folder, with a ledger beside them that can pay."""
    for name in names:
        shutil.copytree(EXAMPLES / name, place / name)
    ledger = open_ledger(place / "budget.db", create=True)
    for name in names:
        ledger.create_dataset(DATASETS[name], epsilon="4", neighbours="bounded", who="Ada")
    return place


def tree_in(place: Path, counts: Callable[[int, int], int] = lambda block, cell: (7 * block + 5 * cell) % 9) -> Path:
    """A state of two counties, four tracts and 24 blocks, with a ledger beside it that can pay."""
    folder = place / "town"
    folder.mkdir(parents=True)
    blocks = [f"44{c}{t}{b:02}" for c in (1, 2) for t in (1, 2) for b in range(6)]
    cells = [(sex, age) for sex in ("female", "male") for age in ("young", "old")]
    rows = [
        f"{block},{sex},{age},{counts(n, cell)}"
        for n, block in enumerate(blocks)
        for cell, (sex, age) in enumerate(cells)
    ]
    (folder / "counts.csv").write_text("\n".join(["block,sex,age,n", *rows]) + "\n")
    (folder / "blocks.csv").write_text("\n".join(["block", *blocks]) + "\n")
    (folder / "spec.yaml").write_text(TOWN)
    ledger = open_ledger(place / "budget.db", create=not (place / "budget.db").exists())
    ledger.create_dataset("town", rho="4", neighbours="bounded", who="Ada")
    return folder


TOWN = """\
release: town-2026
dataset: town
data: {path: counts.csv, kind: counts, count: n, status: simulated}
dimensions: {sex: [female, male], age: [young, old]}
hierarchy:
  file: blocks.csv
  leaf: block
  levels: {state: {prefix: 2}, county: {prefix: 3}, tract: {prefix: 4}}  # the top first
invariants:
  - total
budget: {rho: 1}
"""


TABLES = """\
release: clinic-2026
dataset: clinic
data: {path: counts.csv, kind: counts, count: n, status: simulated}
dimensions: {county: [north, south, west], sex: [female, male], diagnosis: [lung, bowel, ovary]}
tables:  # they agree
  by sex: [county, sex]
  by diagnosis: [county, diagnosis]
invariants:
  - {margin: [county], mandate: finance act}
conditions:
  - zeros: {diagnosis: ovary, sex: male}
budget: {rho: 1}
"""
CELLS = (30, 22, 4, 25, 31, 0, 9, 14, 2, 12, 8, 0, 51, 40, 6, 60, 33, 0)


def tables_in(place: Path, counts: Sequence[int] = CELLS, name: str = "clinic") -> Path:
    """Cases of a clinic in three counties, of which a spec names two tables, with a ledger that can pay."""
    folder = place / name
    folder.mkdir(parents=True)
    cells = product(("north", "south", "west"), ("female", "male"), ("lung", "bowel", "ovary"))
    rows = [",".join((*cell, str(count))) for cell, count in zip(cells, counts, strict=True)]
    (folder / "counts.csv").write_text("\n".join(["county,sex,diagnosis,n", *rows]) + "\n")
    (folder / "spec.yaml").write_text(TABLES)
    if not (ledger := place / "budget.db").exists() or "clinic" not in [
        one.name for one in open_ledger(ledger).datasets()
    ]:
        opened = open_ledger(ledger, create=not ledger.exists())
        opened.create_dataset("clinic", rho="4", neighbours="bounded", who="Ada")
    return folder


def workspace_of(place: Path) -> Workspace:
    return Workspace(place, str(place / "budget.db"), None, "Ada")


@contextmanager
def client_of(workspace: Workspace, *, enters: bool = True) -> Iterator[TestClient]:
    """A browser without a screen, which has the link unless said otherwise."""
    client = TestClient(make_app(workspace, TOKEN, 8000), base_url=f"http://{HOST}" + (f"/{TOKEN}" if enters else ""))
    client.headers.update(ORIGIN)
    yield client
    client.close()


@dataclass
class Served:
    """A workbench that listens; its address begins with the secret."""

    workspace: Workspace
    address: str
    _server: uvicorn.Server
    _thread: threading.Thread

    @property
    def link(self) -> str:
        return f"{self.address}/"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)


def serve(place: Path, port: int = 0) -> Served:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    own = listening.getsockname()[1]
    workspace = workspace_of(place)
    config = uvicorn.Config(make_app(workspace, TOKEN, own), log_level="critical", timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    return Served(workspace, f"http://127.0.0.1:{own}/{TOKEN}", server, thread)


@dataclass
class Listener:
    """A server of another user, on the same loopback address: it keeps what it is sent, and answers any page."""

    address: str
    page: str = "<!DOCTYPE html><title>elsewhere</title>"
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def text(self) -> str:
        return repr(self.requests)


@contextmanager
def listening() -> Iterator[Listener]:
    found = Listener("")

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            found.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            content = found.page.encode()
            self.send_response(200)
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    found.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join(20)


def opened_by(other: Listener, served: Served) -> list[str]:
    """Send on what a listener received, header by header, to every page; return those that open."""
    root = re.match(r"http://[^/]+", served.address)[0]  # type: ignore[index]
    return [
        page
        for path, headers, _ in other.requests
        for page in [*PAGES, path, f"{path}/ledger"]
        for answer in (httpx.get(root + page, headers={name: own for name, own in headers.items() if name != "host"}),)
        if answer.status_code < 400
    ]


def settled(page: "Page") -> None:
    """Wait until the page shows what it asked for last, proven."""
    page.wait_for_selector("#choose[data-bound=false]:not(.is-busy)")
