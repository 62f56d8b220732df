"""Endpoints: what they return, what becomes of a refusal, and the thread that computes."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from congenial.errors import CongenialError
from congenial.workbench.desk import Desk
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
    """Return an endpoint whose refusals become a page."""

    async def answering(request: Request) -> Response:
        try:
            return await endpoint(request)
        except CongenialError as refused:
            return page("error.html", 400, title="This is refused", message=str(refused), here="")

    return answering


def in_json(endpoint: Callable[[Request], Awaitable[dict[str, Any]]]) -> Endpoint:
    """Return an endpoint that answers plain values, and a refusal as one of them."""

    async def answering(request: Request) -> Response:
        try:
            return JSONResponse(await endpoint(request))
        except CongenialError as refused:
            return JSONResponse({"error": str(refused)}, 400)

    return answering


async def broken(_: Request, error: Exception) -> Response:
    """Answer what nobody foresaw: by its kind alone, for its text may quote data."""
    message = f"internal: {type(error).__name__}. Please report this, with what you did before"
    return page("error.html", 500, title="Something went wrong", message=message, here="")


async def missing(_: Request, __: Exception) -> Response:
    """Answer an address that there is not."""
    return page(
        "error.html", 404, title="There is no such page", message="The address is not one of the workbench.", here=""
    )
