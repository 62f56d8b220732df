"""Pages: one offline HTML file each, from a template and plain values. Everything is escaped but figures and scripts.

A page's content security policy allows its own styles, figures inside it, at most one script, known by its hash, and
nothing from elsewhere.
"""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from congenial.display import number
from congenial.safe_text import printable

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


def render(template: str, *, script: "Script | None" = None, **values: Any) -> str:
    """Return the page of a template in this folder; `script` is the one that it runs, if it runs one.

    Examples
    --------
    >>> "<title>A &amp; B</title>" in render("base.html", title="A & B", language="en")
    True
    """
    return _environment().get_template(template).render(script=script, **values)


def filled_in(template: str, macro: str, value: Any, numbers: Iterable[Sequence[int]]) -> "list[Markup]":
    """Return what a macro of a template makes of a value, over and over with other numbers where the value has `%s`.

    Any other percent sign in the value stands twice. The macro runs once: thousands of tables differ in numbers only.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> one = SimpleNamespace(header=["age"], rows=[["0-17", "%s"]], ends_in_total=False)
    >>> [str(grid).count("<td>7") for grid in filled_in("grid.html", "grid", one, [[7], [8]])]
    [1, 0]
    """
    from markupsafe import Markup

    text = str(getattr(_environment().get_template(template).module, macro)(value))
    return [Markup(text % tuple(map(number, values))) for values in numbers]  # noqa: S704


@dataclass(frozen=True)
class Script:
    """A script inside a page, and the hash by which the page allows it and no other.

    Attributes
    ----------
    text : str
        Of this package alone: nothing of a release goes into it.
    source : str
        As a content security policy names it.
    """

    text: str
    source: str


def inline_script(name: str) -> Script:
    """Return a script of this folder.

    Examples
    --------
    >>> inline_script("find.js").source[:7]
    'sha256-'
    """
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return Script(text, f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}")


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
