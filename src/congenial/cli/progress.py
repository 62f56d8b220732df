"""Progress on stderr: a bar that moves on a terminal, a line a step elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from congenial.cli.output import console, say
from congenial.plain_text import on_one_line
from congenial.progress import Progress, no_news


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """Give a function that names the step that begins, and how many of its parts are done, if it has parts."""
    if not sys.stderr.isatty():
        yield _lines(what)
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    texts = [TextColumn(f"{{task.{field}}}", markup=False) for field in ("description", "fields[parts]")]
    columns = (texts[0], BarColumn(), texts[1], TimeElapsedColumn())
    with Bars(*columns, console=console(stderr=True), transient=True) as bars:
        task = bars.add_task(on_one_line(what), total=None, parts="")

        def tell(step: str, done: int = 0, of: int = 0, /) -> None:
            parts = f"{done:,} of {of:,}" if of else ""
            named = on_one_line(f"{what}: {step}")
            # A step without parts has a bar that runs to and fro; rich wants it without a total for that.
            bars.reset(task, start=False, description=named, total=of or None, completed=done, parts=parts)
            bars.start_task(task)

        yield tell


@contextmanager
def quiet_bar(what: str) -> Iterator[Progress]:
    """Give the same on a terminal, and nothing elsewhere: for a command that is usually quick."""
    if not sys.stderr.isatty():
        yield no_news
        return
    with progress_bar(what) as tell:
        yield tell


def _lines(what: str) -> Progress:
    """Return what prints a line when another step begins, and nothing about its parts."""
    last = ""

    def tell(step: str, done: int = 0, of: int = 0, /) -> None:  # noqa: ARG001
        nonlocal last
        if step != last:
            say(f"{what}: {step}", err=True)
        last = step

    return tell
