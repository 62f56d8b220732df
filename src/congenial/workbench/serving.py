"""Endpoints: what they return, what becomes of a refusal, and the thread that computes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from congenial.errors import CongenialError
from congenial.workbench.desk import Desk
from congenial.workbench.failure import INTERNAL, failure_of
from congenial.workbench.pages import render
from congenial.workbench.work import AT_ONCE

Made = TypeVar("Made")
Endpoint = Callable[[Request], Awaitable[Response]]

_LARGEST_JSON = 2_000_000


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page."""
    return HTMLResponse(render(template, **values), status)


async def computed(desk: Desk, make: Callable[[], Made], urgency: int = AT_ONCE) -> Made:
    """Wait for something that the computing thread makes."""
    return await asyncio.wrap_future(desk.work.do(make, urgency))


async def json_of(request: Request) -> dict[str, Any]:
    """Read a small JSON object."""
    body = await request.body()
    try:
        found = json.loads(body) if len(body) <= _LARGEST_JSON else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise CongenialError("this is not what a page of the workbench sends")
    return found


def in_words(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint whose errors become a page."""

    async def answering(request: Request) -> Response:
        try:
            return await endpoint(request)
        except HTTPException:
            raise
        except Exception as error:  # noqa: BLE001  the text of what is unforeseen goes nowhere
            return await broken(request, error)

    return answering


def in_json(endpoint: Callable[[Request], Awaitable[dict[str, Any]]]) -> Endpoint:
    """Return an endpoint that answers plain values, and an error as one of them."""

    async def answering(request: Request) -> Response:
        try:
            return JSONResponse(await endpoint(request))
        except Exception as error:  # noqa: BLE001  the text of what is unforeseen goes nowhere
            status, message = failure_of(error)
            return JSONResponse({"error": message}, status)

    return answering


async def broken(_: Request, error: Exception) -> Response:
    """Answer an error: a refusal in its words, and what nobody foresaw by its kind and place."""
    status, message = failure_of(error)
    title = "Something went wrong" if status == INTERNAL else "This is refused"
    return page("error.html", status, title=title, message=message, here="")


async def missing(request: Request, _: Exception) -> Response:
    """Answer an address that there is not."""
    message = "The address is not one of the workbench."
    if request.url.path.count("/") > 1:  # links of a page are relative, and would lead further astray
        return PlainTextResponse(message, 404)
    return page("error.html", 404, title="There is no such page", message=message, here="")
