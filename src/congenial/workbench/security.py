"""Who may talk to the workbench: a browser that came by the link, on this computer, from its own pages.

Other programs of this user can read its files anyway. What must be kept out is other web pages in the same browser: a
name that points here (DNS rebinding), a form or a script that posts here, a page that shows this one in a frame.
"""

from collections.abc import Sequence
from hmac import compare_digest
from urllib.parse import urlencode

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from congenial.randomness import secret_bytes

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; frame-src 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # without any, browsers call the origin of a form null
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
LARGEST_BODY = 300_000_000
"""Bytes of a request; what a page may send stays far below, but for a bundle that is dropped."""

_SAFE = {"GET", "HEAD"}
_USED = (
    "This link was used, or is not the workbench's. It works once, for one browser. Stop the workbench in its terminal"
    " (Ctrl-C) and start it again for a new one."
)


def new_token() -> str:
    """Return a secret of 256 bits for a link or a cookie."""
    return secret_bytes(32).hex()


class Guard:
    """Lets through what carries the session's cookie and comes from the workbench's own pages.

    Parameters
    ----------
    token : str
        The link's secret. It is good once, for a session of its own.
    hosts : sequence of str
        What a request may call this server: the loopback addresses with the port.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Sequence[str]) -> None:
        self.app, self.hosts = app, frozenset(hosts)
        self._token: str | None = token
        self._session = new_token()

    @property
    def cookie(self) -> str:
        """The cookie's name: browsers do not tell ports of a host apart, and two workbenches may be open."""
        return f"congenial-{min(self.hosts).rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
            return
        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, _with_headers(send))
            return
        await self.app(scope, _limited(receive), _with_headers(send))

    def _refused(self, scope: Scope) -> Response | None:
        """Return the answer to what may not pass; None lets it through."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self.hosts:
            return PlainTextResponse("The workbench answers to its own address only, not to this name.", 421)
        if not _is_own(headers, host, scope["method"]):
            return PlainTextResponse("This came from another page than the workbench's own; it is refused.", 403)
        has_cookie = self._has_cookie(headers)
        asked = QueryParams(scope["query_string"])
        if "token" in asked and scope["method"] == "GET":
            return self._entered(asked, scope["path"], has_cookie=has_cookie)
        return None if has_cookie else PlainTextResponse(_USED, 403)

    def _has_cookie(self, headers: Headers) -> bool:
        found = cookie_parser(headers.get("cookie", "")).get(self.cookie, "")
        return compare_digest(found.encode(), self._session.encode())

    def _entered(self, asked: QueryParams, path: str, *, has_cookie: bool) -> Response:
        """Take the token of the link for the session's cookie, and the token out of the address."""
        is_right = self._token is not None and compare_digest(asked["token"].encode(), self._token.encode())
        if not is_right and not has_cookie:
            return PlainTextResponse(_USED, 403)
        rest = urlencode([(name, value) for name, value in asked.multi_items() if name != "token"])
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), 303)
        if is_right:
            self._token = None
            answer.set_cookie(self.cookie, self._session, httponly=True, samesite="strict", path="/")
        return answer


def _is_own(headers: Headers, host: str, method: str) -> bool:
    """Whether a request comes from a page of this server, or is a plain visit."""
    if method in _SAFE:
        return headers.get("sec-fetch-site", "none") in {"none", "same-origin"} or _is_visit(headers)
    origin = headers.get("origin")
    if origin is None:  # older browsers leave it out of forms; then this must say it
        return headers.get("sec-fetch-site") == "same-origin"
    return origin == f"http://{host}"


def _is_visit(headers: Headers) -> bool:
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


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
