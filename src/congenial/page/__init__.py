"""Pages: one offline HTML file each, from a template and plain values. Everything is escaped but figures."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from congenial.plain_text import printable

if TYPE_CHECKING:
    from jinja2 import Environment


def render(template: str, **values: Any) -> str:
    """Return the page of a template in this folder.

    Examples
    --------
    >>> "<title>A &amp; B</title>" in render("base.html", title="A & B", language="en")
    True
    """
    return _environment().get_template(template).render(**values)


def _shown(value: object) -> object:
    """Escape what does not show, as direction marks that turn a line around; figures are no plain text."""
    return printable(value) if type(value) is str else value


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,  # a missing value is an error, not a gap in the page
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
