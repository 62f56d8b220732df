"""Who may talk to the workbench: whoever has the secret that every address of it begins with.

Loopback ports are open to every user of the computer and to every web page in the browser, and browsers send a cookie
to all ports of a host. So there are no cookies: the secret is in the path, and a request without it learns nothing. The
remaining checks keep out web pages that were given an address: a name that points here (DNS rebinding), a form or a
script of another origin, a frame around a page.
"""

from hmac import compare_digest
from urllib.parse import quote

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from congenial.randomness import secret_bytes
from congenial.workbench.failure import report_internal

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
        own = {**scope, "path": f"/{rest}", "raw_path": f"/{quote(rest)}".encode()}
        try:
            await self.app(own, _limited(receive), send)
        except Exception as error:  # noqa: BLE001  a server would log its text, which may quote data
            report_internal(error)

    def _refusal(self, headers: Headers, method: str, first: str) -> Response | None:
        """Return the answer to what may not pass; None lets it through."""
        if headers.get("host", "") != self.host:
            return PlainTextResponse("The workbench answers to its own address only, not to this name.\n", 421)
        if not compare_digest(first.encode(errors="replace"), self._token.encode()):
            return PlainTextResponse(_HOW_TO_OPEN, 403)
        if not _is_own(headers, self.host, method):
            return PlainTextResponse("This came from another page than the workbench's own; it is refused.\n", 403)
        return None


def _is_own(headers: Headers, host: str, method: str) -> bool:
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
    """Add the headers that every answer has; an answer that sets one itself keeps its own."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.lower() for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in own]
            message = {**message, "headers": [*message["headers"], *more]}
        await send(message)

    return sending
