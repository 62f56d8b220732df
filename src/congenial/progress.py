"""How far the work is, for whoever wants to know."""

from typing import Protocol

DRAWING = "drawing"
"""The step whose parts are areas, or units of a tree."""


class Progress(Protocol):
    """Is told which step begins; in a step that has many parts, also how many of them are done."""

    def __call__(self, step: str, done: int = 0, of: int = 0, /) -> None:
        """Take note."""


def no_news(step: str, done: int = 0, of: int = 0, /) -> None:
    """Tell nobody."""
