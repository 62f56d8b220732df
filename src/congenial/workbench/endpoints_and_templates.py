"""Endpoints: what they return, what becomes of a refusal, and the thread that computes."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from congenial.display import figure
from congenial.errors import CongenialError
from congenial.safe_text import printable
from congenial.workbench.jobs_and_errors import AT_ONCE, INTERNAL, error_message
from congenial.workbench.workspace import Workspace

# What words mean, from docs/glossary.md: a heading each, then sentences.

_INSTALLED = Path(__file__).parent / "glossary.md"
_SOURCE = Path(__file__).parents[3] / "docs" / "glossary.md"


@cache
def meanings() -> dict[str, str]:
    """Return what each word of the glossary means, in plain text.

    Examples
    --------
    >>> meanings()["rho"].startswith("A budget")
    True
    """
    text = (_INSTALLED if _INSTALLED.is_file() else _SOURCE).read_text(encoding="utf-8")
    entries = re.findall(r"^## (.+)\n+((?:(?!^## ).*\n?)+)", text, flags=re.M)
    return {name.strip(): " ".join(_plain(body).split()) for name, body in entries}


def _plain(body: str) -> str:
    """Take links and marks out."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", body).replace("`", "").replace("**", "")


# The pages of the workbench: templates of this package, every value escaped.

_HERE = Path(__file__).parent
_NUMBER = count(1)


def render(template: str, **values: Any) -> str:
    """Return a page of the templates folder."""
    return environment().get_template(template).render(**values)


def word(name: str, shown: str | None = None) -> Markup:
    """Return a word with its meaning from the glossary, in a popover that needs no script.

    Examples
    --------
    >>> "popovertarget" in word("rho")
    True
    """
    meaning, key = meanings()[name], f"word-{next(_NUMBER)}"  # a word may stand on a page twice, and in pieces of it
    return Markup(
        '<span class="word"><button type="button" class="word-button" popovertarget="{key}"'
        ' aria-label="What is {name}?">{shown}</button>'
        '<span popover id="{key}" role="note"><b>{name}</b>: {meaning}</span></span>'
    ).format(key=key, name=name, shown=shown or name, meaning=meaning)


def _shown(value: object) -> object:
    return printable(value) if type(value) is str else value


@cache
def environment() -> Environment:
    """Return the templates; what does not show in a text is escaped, as direction marks that turn a line around."""
    templates = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals["word"] = word
    templates.filters["figure"] = figure
    return templates


Result = TypeVar("Result")
Endpoint = Callable[[Request], Awaitable[Response]]

_LARGEST_JSON = 2_000_000


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page."""
    return HTMLResponse(render(template, **values), status)


async def computed(workspace: Workspace, function: Callable[[], Result], urgency: int = AT_ONCE) -> Result:
    """Wait for what a function returns in the computing thread."""
    return await asyncio.wrap_future(workspace.worker.submit(function, urgency))


async def json_of(request: Request) -> dict[str, Any]:
    """Read a small JSON object."""
    body = await request.body()
    try:
        message = json.loads(body) if len(body) <= _LARGEST_JSON else None
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise CongenialError("this is not what a page of the workbench sends")
    return message


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
            status, message = error_message(error)
            return JSONResponse({"error": message}, status)

    return answering


async def broken(_: Request, error: Exception) -> Response:
    """Answer an error: a refusal in its words, and what nobody foresaw by its kind and place."""
    status, message = error_message(error)
    title = "Something went wrong" if status == INTERNAL else "This is refused"
    return page("error.html", status, title=title, message=message, here="")


async def missing(request: Request, _: Exception) -> Response:
    """Answer an address that there is not."""
    message = "The address is not one of the workbench."
    if request.url.path.count("/") > 1:  # links of a page are relative, and would lead further astray
        return PlainTextResponse(message, 404)
    return page("error.html", 404, title="There is no such page", message=message, here="")
