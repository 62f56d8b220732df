"""How far the work is, for whoever wants to know."""

from typing import Protocol

READING = "reading the data"
"""The first step; where there are very many rows, they are its parts."""

DRAWING = "drawing"
"""The step whose parts are areas, or units of a tree."""

REHEARSING = "trying draws of made-up tables"
"""Where the time of a draw depends on more than the structure, and may be seconds."""

WRITING = "writing the bundle"
"""The last step; where there are many areas, they are its parts."""

VERIFYING = "verifying"
"""The step whose parts are areas of a bundle."""


class Progress(Protocol):
    """Is told which step begins; in a step that has many parts, also how many of them are done."""

    def __call__(self, step: str, done: int = 0, of: int = 0, /) -> None:
        """Take note."""


def no_news(step: str, done: int = 0, of: int = 0, /) -> None:
    """Tell nobody."""
