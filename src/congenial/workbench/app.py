"""The application: all routes behind one guard."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from congenial.errors import CongenialError
from congenial.workbench import ask_pages, ask_tree, choose_pages, describe_pages, release_pages, spec_pages
from congenial.workbench.desk import Desk
from congenial.workbench.failure import quiet_loop
from congenial.workbench.opened import Opened
from congenial.workbench.places import look_into
from congenial.workbench.security import Guard
from congenial.workbench.serving import broken, computed, in_words, missing, page
from congenial.workbench.work import AHEAD

HOST = "127.0.0.1"
"""The address that is listened on. Not `localhost`: another user may have the same port of its other address."""


def make_app(desk: Desk, token: str, port: int) -> Guard:
    """Return the application for one folder, behind a guard that knows the secret and the port."""
    opened = Opened(desk)
    estimates = ask_tree.Estimates(opened)

    async def home(_: Request) -> Response:
        accounts, no_ledger = await computed(desk, lambda: _accounts(desk))
        found = look_into(desk.folder.resolve())
        return page(
            "home.html",
            title="Folder",
            here="home",
            folder=str(desk.folder),
            found=found,
            accounts=accounts,
            no_ledger=no_ledger,
        )

    @asynccontextmanager
    async def whole(_: Starlette) -> AsyncIterator[None]:
        quiet_loop(asyncio.get_running_loop())
        desk.work.do(_warm_up, AHEAD)
        yield
        desk.close()

    app = Starlette(
        routes=[
            Route("/", in_words(home)),
            *spec_pages.routes(desk),
            *describe_pages.routes(desk),
            *choose_pages.routes(desk),
            *release_pages.routes(desk, opened),
            *ask_pages.routes(desk, opened, estimates),
            *ask_tree.routes(desk, opened, estimates),
            Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
        ],
        exception_handlers={404: missing, Exception: broken},
        lifespan=whole,
    )
    app.router.redirect_slashes = False  # it redirects to addresses without the secret
    return Guard(app, token, f"{HOST}:{port}")


def _warm_up() -> None:
    """Load what the first choice would wait for: the solver of linear programs takes half a second."""
    import_module("highspy")


def _accounts(desk: Desk) -> tuple[list[str], str]:
    """Return a line for each dataset of the ledger, or why there is none."""
    try:
        ledger = desk.ledger()
        lines = [str(ledger.status(dataset.name)).splitlines()[0] for dataset in ledger.datasets()]
    except CongenialError as refused:
        return [], str(refused)
    return lines, "" if lines else "The ledger has no datasets yet: congenial ledger create DATASET --epsilon 4."
