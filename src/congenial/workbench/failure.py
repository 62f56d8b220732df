"""What is said of an error: a refusal in its own words, and anything unforeseen by its class and place alone.

The text of an unforeseen exception may quote data. It goes to no page, no log and no terminal.
"""

import asyncio
import sys
from pathlib import Path
from traceback import walk_tb
from typing import Any

from starlette.requests import ClientDisconnect

import congenial
from congenial.errors import CongenialError

INTERNAL = 500
_PACKAGE = Path(congenial.__file__).parent


def failure_of(error: Exception) -> tuple[int, str]:
    """Return the status and the message of an answer; what is internal is reported as well."""
    if isinstance(error, CongenialError):
        return 400, str(error)
    if isinstance(error, MemoryError):
        return 503, "the memory of this computer is not enough for this; close other programs, or do less at a time"
    if isinstance(error, ClientDisconnect):
        return 413, "the request was cut off, or is larger than the workbench takes"
    return INTERNAL, f"{report_internal(error)}. Please report this, with what you did before"


def report_internal(error: BaseException) -> str:
    """Print the class of an error and its place in the package on stderr; returns what was printed."""
    line = f"internal error: {type(error).__name__} at {place_of(error)}"
    sys.stderr.write(f"{line}\n")
    return line


def place_of(error: BaseException) -> str:
    """Return the file and line of this package that an exception came through last."""
    places = [
        f"{Path(frame.f_code.co_filename).relative_to(_PACKAGE.parent).as_posix()}:{line}"
        for frame, line in walk_tb(error.__traceback__)
        if Path(frame.f_code.co_filename).is_relative_to(_PACKAGE)
    ]
    return places[-1] if places else "a place outside of the package"


def quiet_loop(loop: asyncio.AbstractEventLoop) -> None:
    """See that an event loop reports errors which nobody waits for without their text."""

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), BaseException):
            report_internal(error)

    loop.set_exception_handler(handle)
