"""Pages: one offline HTML file each, from a template and plain values. Everything is escaped but figures."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,  # a missing value is an error, not a gap in the page
        trim_blocks=True,
        lstrip_blocks=True,
    )
