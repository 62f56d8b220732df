"""What every command shares: results on stdout, progress on a terminal only, refusals in words, exit codes."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from congenial.errors import CongenialError

REFUSED, INTERRUPTED = 1, 130
"""Exit codes of a refusal and of Ctrl-C; 2 is a wrong command line."""

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def refusals_in_words(command: Callable[..., None]) -> Callable[..., None]:
    """Show what the library refuses as one message on stderr, and exit with code 1; with 130 after Ctrl-C."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                command(*arguments, **options)
        except CongenialError as refused:
            click.echo(f"Error: {refused}", err=True)
            raise SystemExit(REFUSED) from None
        except KeyboardInterrupt:
            click.echo(
                "Interrupted. Nothing half-made is left; congenial ledger history says whether a release was charged.",
                err=True,
            )
            raise SystemExit(INTERRUPTED) from None

    return run


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning as a sentence, without the line of code that it comes from."""
    click.echo(f"Warning: {message}", err=True)


def show_json(values: object) -> None:
    """Print values as JSON, exact numbers as text."""
    import json

    click.echo(json.dumps(values, indent=2, ensure_ascii=False, default=str))


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table: the first column to the left, numbers to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    if title:  # not the table's own title, which would be folded to its width
        click.secho(title, bold=True)
    grid = Table(box=box.SIMPLE_HEAD)
    for place, name in enumerate(header):
        is_number = bool(place) and all(_is_number(row[place]) for row in rows)
        grid.add_column(name.replace("[", r"\["), justify="right" if is_number else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(text.replace("[", r"\[") for text in row))
    # Into a file or a pipe, lines may be longer than a terminal's 80 characters.
    Console(highlight=False, width=None if sys.stdout.isatty() else 140).print(grid)


def _is_number(text: str) -> bool:
    return (
        not text
        or text.lstrip("+-").replace(",", "").replace(".", "").removesuffix("%").isdigit()
        or text in {"exact", "inf", "nan"}
    )


def _is_first_run() -> bool:
    """Whether no compiled kernel is kept on disk yet, as far as the usual places tell."""
    import os

    import congenial

    kept = os.environ.get("NUMBA_CACHE_DIR") or str(Path(congenial.__file__).parent / "sampling" / "kernels")
    return not any(Path(kept).rglob("*.nbi"))


@contextmanager
def progress_bar(what: str, n_steps: int) -> Iterator[Callable[[str], None]]:
    """Give a function that names the next step; a bar on stderr shows it if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if _is_first_run():
        console.print("The first run compiles the sampler, once; that takes about a minute.", highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=n_steps)
        begun = 0

        def step(name: str) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=f"{what}: {name}")
            begun += 1

        yield step
