"""The pages of the workbench: templates of this package, every value escaped."""

from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from congenial.plain_text import printable
from congenial.workbench.glossary import meanings

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
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["word"] = word
    made.filters["figure"] = figure
    return made


def figure(value: float | None) -> str:
    """Return an error or a deviation as people read it.

    Examples
    --------
    >>> [figure(value) for value in (0.0, 0.034, 2.618, 31.4, 1234.5, None)]
    ['0', '0.03', '2.6', '31', '1,234', '']
    """
    if value is None:
        return ""
    if abs(value) < 0.005:
        return "0"
    if abs(value) < 0.1:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 10 else f"{value:,.0f}"


__all__ = ["Markup", "figure", "render", "word"]
