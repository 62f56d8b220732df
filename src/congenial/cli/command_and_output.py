"""What all commands share: results on stdout, refusals on stderr, exit codes, progress.

Whatever is printed goes through this file and is text: no markup is read in it, what a terminal would obey is escaped.
"""

import errno
import gc
import io
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from congenial.errors import CongenialError, LedgerError, reason_of
from congenial.progress_and_interrupts import Progress, silent
from congenial.safe_text import on_one_line, printable_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from congenial.randomness import RandomStream

_PIPE_WIDTH = 140  # characters
_LEAST_TEXT, _MOST_TEXT = 8, 30  # of a column: words are folded
_OBJECTS = 100_000  # made between two searches for lost circles; Python's 700 take a tenth of a short command
REFUSED, INTERRUPTED = 1, 130
"""Exit codes of a refusal and of Ctrl-C; 2 is a wrong command line."""


class Command(click.Command):
    """A command: its help is the docstring of its function, which makes one library call and prints.

    It takes ``--json``. What the library refuses is one message on stderr, and exit code 1; 130 after Ctrl-C.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if all(parameter.name != "as_json" for parameter in self.params):
            self.params.append(click.Option(["--json", "as_json"], is_flag=True, help="Print the result as JSON."))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except CongenialError as refused:
            _refuse(str(refused), REFUSED)
        except OSError as refused:
            if refused.errno == errno.EPIPE:  # whoever read the result has gone
                raise
            _refuse(f"{on_one_line(refused.filename or 'a file')} cannot be used: {reason_of(refused)}", REFUSED)
        except KeyboardInterrupt:
            _refuse(
                "Interrupted. Nothing half-made is left; congenial ledger history says whether a release was charged.",
                INTERRUPTED,
            )


def command(function: Callable[..., None]) -> Command:
    """Make a command of a function, its arguments and options above it."""
    return click.command(cls=Command)(function)


spec_argument = click.argument("spec", type=click.Path(path_type=Path))
bundle_argument = click.argument("bundle", type=click.Path(path_type=Path))
seed_option = click.option("--seed", type=int, help="Repeat a run; without it every run draws anew.")


def rng_of(command: str, seed: int | None) -> "RandomStream":
    """Return what a command draws from: its public seed, or the operating system."""
    from congenial.randomness import replay_rng, secure_rng

    return secure_rng() if seed is None else replay_rng(f"{command} {seed}")


class _LogLines(logging.Handler):
    """Prints what the library logs as lines on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        say(record.getMessage(), err=True)


class CommandLine(click.Group):
    """The command line as a whole: usage errors are escaped, and every stream takes every text."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the options before the command."""
        gc.set_threshold(_OBJECTS)
        log = logging.getLogger("congenial")
        log.setLevel(logging.INFO)
        log.handlers[:] = [_LogLines()]
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a terminal that knows ASCII only
        with _mistakes_in_text():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _mistakes_in_text():
            return super().invoke(ctx)


@contextmanager
def _mistakes_in_text() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:  # the help itself, in lines of its own
        raise
    except click.UsageError as mistake:
        raise click.UsageError(on_one_line(mistake.format_message()), mistake.ctx) from None


def _refuse(message: str, code: int) -> None:
    say(*(f"Error: {message}" if code == REFUSED else message).split("\n"), err=True)
    raise SystemExit(code) from None


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Show a warning as a sentence, without the line of code that it comes from."""
    say(f"Warning: {message}", err=True)


def say(*lines: str, bold: bool = False, err: bool = False) -> None:
    """Print lines of text; line ends and hidden characters inside them are escaped."""
    for line in lines:
        text = on_one_line(line)
        click.echo(click.style(text, bold=True) if bold else text, err=err)


def require_consent(question: str, *, yes: bool) -> None:
    """Require a yes before what cannot be undone; without a terminal, the option --yes."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise LedgerError(f"this cannot be undone, and there is no terminal to ask: {question}? If so, add --yes")
    click.confirm(on_one_line(question), abort=True, err=True)


def show_json(values: object) -> None:
    """Print values as JSON, exact numbers as text."""
    import json

    click.echo(printable_json(json.dumps(values, indent=2, ensure_ascii=False, default=str)))


def show_result(values: object, *lines: str, as_json: bool) -> None:
    """Print a result as JSON or in words."""
    if as_json:
        show_json(values)
    else:
        say(*lines)


def show_lines(text: str) -> None:
    """Print text that programs read, line by line as it is: JSON in ASCII."""
    click.echo(printable_json(text), nl=False)


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> None:
    """Print a table: the first column to the left, numbers to the right; too wide a one in parts, below each other."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if title:  # not the table's own title, which would be folded to its width
        say(title, bold=True)
    # Into a file or a pipe, lines may be longer than a terminal's 80 characters.
    width = console().width if sys.stdout.isatty() else _PIPE_WIDTH
    for places in column_parts(header, rows, width):
        rich_table = Table(box=box.SIMPLE_HEAD)
        for place in places:
            is_number = bool(place) and all(_is_number(row[place]) for row in rows)
            name = Text(on_one_line(header[place]))
            rich_table.add_column(name, justify="right" if is_number else "left", overflow="fold")
        for row in rows:
            rich_table.add_row(*(Text(on_one_line(row[place])) for place in places))
        show_rich_table(rich_table, width)


def column_parts(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[list[int]]:
    """Return the columns of each part of a wide table: numbers are not folded, the first column is in every part.

    Examples
    --------
    >>> column_parts(["unit", "a", "b", "c"], [["north", "1,000", "2,000", "3,000"]], 28)
    [[0, 1, 2], [0, 3]]
    """
    room = []
    for place, name in enumerate(header):
        texts = [on_one_line(row[place]) for row in rows]
        words = [*texts, *name.split()] if place == 0 or all(map(_is_number, texts)) else [_LEAST_TEXT * " "]
        room.append(3 + min(max(map(len, words), default=0), _MOST_TEXT))
    parts: list[list[int]] = [[0]]
    for place in range(1, len(header)):
        if len(parts[-1]) > 1 and sum(room[column] for column in parts[-1]) + room[place] > width - 2:
            parts.append([0])
        parts[-1].append(place)
    return parts


def show_rich_table(rich_table: "Table", width: int | None = None) -> None:
    """Print a table whose cells are texts already."""
    console(width=width).print(rich_table)


def console(**options: Any) -> "Console":
    """Return what prints text as it is."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, **options)


def _is_number(text: str) -> bool:
    return (
        not text
        or text.lstrip("+-").replace(",", "").replace(".", "").removesuffix("%").isdigit()
        or text in {"exact", "inf", "nan"}
    )


# Progress on stderr: a bar that moves on a terminal, a line a step elsewhere.


@contextmanager
def progress_bar(what: str) -> Iterator[Progress]:
    """Give a progress function: it shows the step, and how many of its parts are done."""
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
        yield silent
        return
    with progress_bar(what) as tell:
        yield tell


def _lines(what: str) -> Progress:
    """Return a progress function that prints a line for each step, and nothing about its parts."""
    last = ""

    def tell(step: str, done: int = 0, of: int = 0, /) -> None:  # noqa: ARG001
        nonlocal last
        if step != last:
            say(f"{what}: {step}", err=True)
        last = step

    return tell
