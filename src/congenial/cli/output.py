"""What every command shares: results on stdout, progress on a terminal only, refusals in words."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from congenial.errors import CongenialError

REFUSED = 1
"""The exit code of a refusal; 2 is a wrong command line, by click's convention."""


def refusals_in_words(command: Callable[..., None]) -> Callable[..., None]:
    """Show what the library refuses as one message on stderr, and exit with code 1."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except CongenialError as refused:
            click.echo(f"Error: {refused}", err=True)
            raise SystemExit(REFUSED) from None

    return run


@contextmanager
def progress_bar(what: str, n_steps: int) -> Iterator[Callable[[str], None]]:
    """Give a function that names the next step; a bar on stderr shows it if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=n_steps)
        begun = 0

        def step(name: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=f"{what}: {name}")
            begun += 1

        yield step
