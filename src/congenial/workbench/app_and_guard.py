"""The application: all routes behind one guard."""

import asyncio
import socket
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hmac import compare_digest
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

import python_multipart  # noqa: F401  what reads forms is needed, and missed at once where it is not there
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from congenial.disk_and_gzip import disable_core_dumps
from congenial.errors import ReadingError, reason_of
from congenial.randomness import secret_bytes
from congenial.workbench import ask_pages
from congenial.workbench import choose_exact_pages as choose_pages
from congenial.workbench import release_and_ledger_pages as release_pages
from congenial.workbench import spec_and_describe_pages as spec_pages
from congenial.workbench.endpoints_and_templates import broken, computed, in_words, missing, page
from congenial.workbench.jobs_and_errors import AHEAD, report_internal, silence_loop
from congenial.workbench.open_bundles_and_answers import OpenBundles
from congenial.workbench.workspace import Workspace, list_folder

# Who may talk to the workbench: whoever has the secret that every address of it begins with.
#
# Loopback ports are open to every user of the computer and to every web page in the browser, and browsers send a
# cookie to all ports of a host. So there are no cookies: the secret is in the path, and a request without it learns
# nothing. The remaining checks keep out web pages that were given an address: a name that points here (DNS
# rebinding), a form or a script of another origin, a frame around a page.

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; frame-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",  # the address holds the secret
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
LARGEST_BODY = 300_000_000
"""Bytes of a request; what a page may send stays far below, but for a bundle that is dropped."""

_SAFE = {"GET", "HEAD"}
_HOW_TO_OPEN = (
    "The workbench opens with its whole link, which `congenial workbench` printed in its terminal. A link is good until"
    " that workbench ends; the next one has another.\n"
)


def new_token() -> str:
    """Return a secret of 256 bits for the path of every address."""
    return secret_bytes(32).hex()


class Guard:
    """Lets through requests whose path begins with the secret, without it, and from the workbench's own pages.

    Parameters
    ----------
    token : str
        The secret. The application behind the guard never sees it: its pages link to each other by relative addresses.
    host : str
        What a request must call this server: the loopback address with the port.
    """

    def __init__(self, app: ASGIApp, token: str, host: str) -> None:
        self.app, self.host, self._token = app, host, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
            return
        send = _with_headers(send)
        first, slash, rest = scope["path"].removeprefix("/").partition("/")
        refusal = self._refusal(Headers(scope=scope), scope["method"], first)
        if refusal is None and not slash:  # relative addresses need it
            refusal = RedirectResponse(f"/{self._token}/", 308)
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        inner = {**scope, "path": f"/{rest}", "raw_path": f"/{quote(rest)}".encode()}
        try:
            await self.app(inner, _limited(receive), send)
        except Exception as error:  # noqa: BLE001  a server would log its text, which may quote data
            report_internal(error)

    def _refusal(self, headers: Headers, method: str, first: str) -> Response | None:
        """Return the answer to what may not pass; None lets it through."""
        if headers.get("host", "") != self.host:
            return PlainTextResponse("The workbench answers to its own address only, not to this name.\n", 421)
        if not compare_digest(first.encode(errors="replace"), self._token.encode()):
            return PlainTextResponse(_HOW_TO_OPEN, 403)
        if not _is_same_origin(headers, self.host, method):
            return PlainTextResponse("This came from another page than the workbench's own; it is refused.\n", 403)
        return None


def _is_same_origin(headers: Headers, host: str, method: str) -> bool:
    """Whether a request comes from a page of this server, or is a plain visit.

    Pages without a referrer send forms with the origin `null`, so it is the browser's word on the site that counts;
    one that is too old to give it must give the origin.
    """
    site = headers.get("sec-fetch-site")
    if method not in _SAFE:
        return site == "same-origin" if site is not None else headers.get("origin") == f"http://{host}"
    is_visit = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return site in {None, "none", "same-origin"} or is_visit


def _limited(receive: Receive) -> Receive:
    """Stop reading a body that is too long, whatever its header says of it."""
    n_bytes = 0

    async def receiving() -> Message:
        nonlocal n_bytes
        message = await receive()
        n_bytes += len(message.get("body", b""))
        return {"type": "http.disconnect"} if n_bytes > LARGEST_BODY else message

    return receiving


def _with_headers(send: Send) -> Send:
    """Add the headers that every answer has; an answer that sets one itself keeps it."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            present = {name.lower() for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in present]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending


HOST = "127.0.0.1"
"""The address that is listened on. Not `localhost`: another user may have the same port of its other address."""


def make_app(workspace: Workspace, token: str, port: int) -> Guard:
    """Return the application for one folder, behind a guard that knows the secret and the port."""
    bundles = OpenBundles(workspace)

    async def home(_: Request) -> Response:
        accounts, trouble = await computed(workspace, lambda: release_pages.accounts(workspace))
        create = "The ledger has no datasets yet: congenial ledger create DATASET --epsilon 4."
        return page(
            "home.html",
            title="Folder",
            here="home",
            folder=str(workspace.folder),
            listing=list_folder(workspace.folder.resolve()),
            accounts=[status.splitlines()[0] for status, _, _ in accounts],
            no_ledger=trouble or ("" if accounts else create),
        )

    @asynccontextmanager
    async def whole(_: Starlette) -> AsyncIterator[None]:
        silence_loop(asyncio.get_running_loop())
        workspace.worker.submit(_warm_up, AHEAD)
        yield
        workspace.close()

    app = Starlette(
        routes=[
            Route("/", in_words(home)),
            *spec_pages.routes(workspace),
            *choose_pages.routes(workspace),
            *release_pages.routes(workspace, bundles),
            *ask_pages.routes(workspace, bundles),
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


# Serve a folder on the loopback address, and open the link.


def serve(
    folder: Path,
    *,
    ledger: str | None,
    key: Path | None,
    who: str,
    port: int,
    opens_browser: bool,
    announce: Callable[[str], None],
) -> None:
    """Serve until interrupted; a release that was begun is finished first.

    Parameters
    ----------
    port : int
        0 is any that is free.
    announce : function
        Tells somebody the link, which is good until the end.
    """
    disable_core_dumps()
    listening = _listen(port)
    bound_port = listening.getsockname()[1]
    token = new_token()
    workspace = Workspace(folder.absolute(), ledger, key, who)
    link = f"http://{HOST}:{bound_port}/{token}/"
    announce(link)
    if opens_browser:
        webbrowser.open(page_to(link, workspace.scratch).as_uri())
    app = make_app(workspace, token, bound_port)
    config = uvicorn.Config(
        app,
        log_level="critical",  # what the server would log quotes errors
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=5,
        proxy_headers=False,
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()


def page_to(link: str, folder: Path) -> Path:
    """Write a page that leads to the link, in a folder of this user's alone: all users see arguments of programs."""
    page = folder / "open.html"
    page.write_text(
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<title>congenial workbench</title><meta http-equiv="refresh" content="0; url={link}">'
        f'<a href="{link}">Open the workbench</a></html>\n',
        encoding="utf-8",
    )
    return page


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # from here on a browser that comes early waits, and is not turned away
    except OSError as refused:
        listening.close()
        raise ReadingError(
            f"port {port} cannot be used: {reason_of(refused)}; name another one, or leave it out"
        ) from None
    return listening
