"""Background work: the thread that computes, jobs with their progress, and what is said of an error."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from queue import PriorityQueue
from traceback import walk_tb
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect

import congenial
from congenial.errors import CongenialError, ReadingError
from congenial.progress_and_interrupts import cancellation

# One thread that computes, so that two tabs never plan, draw or charge at the same time.
#
# Arithmetic in balls keeps its working precision in one place for the whole process, and a ledger's charge is one at
# a time anyway. What a person waits for goes first; what is computed ahead goes when nobody waits. What takes a
# minute and needs no confidential table has a process of its own, so that no other page waits for it.

Result = TypeVar("Result")

AT_ONCE, SOON, AHEAD = 0, 1, 2
"""Somebody waits for it; it arrives later on a page; it is computed in case it will be asked for."""


class _PreemptedError(Exception):
    """Something more urgent waits; this is done again later."""


class Worker:
    """A thread with a queue of things to do, the urgent ones first; a long proof gives way to them."""

    def __init__(self) -> None:
        self._queue: PriorityQueue[tuple[int, int, Callable[[], None] | None]] = PriorityQueue()
        self._number = count()
        self._thread = threading.Thread(target=self._run, name="workbench", daemon=True)
        self._thread.start()
        self._apart: ProcessPoolExecutor | None = None

    def submit(self, function: Callable[[], Result], urgency: int = AT_ONCE) -> "Future[Result]":
        """Return the future of what a function returns."""
        future: Future[Result] = Future()
        number = next(self._number)

        def check() -> None:
            if urgency > AT_ONCE and self._queue.queue and self._queue.queue[0][0] < urgency:
                raise _PreemptedError

        def run() -> None:
            if future.cancelled():
                return
            try:
                with cancellation(check):
                    result = function()
            except _PreemptedError:
                self._queue.put((urgency, number, run))
            except BaseException as error:  # noqa: BLE001  whoever waits for it gets it
                future.set_exception(error)
            else:
                future.set_result(result)

        self._queue.put((urgency, number, run))
        return future

    def submit_apart(self, function: Callable[..., Result], *arguments: object) -> "Future[Result]":
        """Return the future of a module's function of public arguments, run in a process of its own."""
        for _ in range(2):
            if self._apart is None:
                context = get_context("spawn")  # a copy of a process with threads may hold their locks for ever
                self._apart = ProcessPoolExecutor(1, context, initializer=_leave_interrupts_alone)
            try:
                return self._apart.submit(function, *arguments)
            except BrokenProcessPool:  # somebody has ended it
                self._apart = None
        raise ReadingError("the process that draws for all areas does not start")

    def close(self) -> None:
        """Finish what is being done, such as a release that was charged, and nothing else."""
        if self._apart is not None:
            for process in list(self._apart._processes.values()):  # it draws for a minute, and nobody waits any more
                process.terminate()
            self._apart.shutdown(cancel_futures=True)
        self._queue.put((AT_ONCE - 1, next(self._number), None))
        self._thread.join()

    def _run(self) -> None:
        while (task := self._queue.get()[2]) is not None:
            with suppress(InvalidStateError):  # nobody waits for it any more
                task()


def _leave_interrupts_alone() -> None:
    """Leave Ctrl-C to the process that serves, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass
class BackgroundJob:
    """Something that takes a while, and how far it is.

    Attributes
    ----------
    result : Any
        What came of it: an address to go to.
    error : str
        Why nothing came of it.
    """

    title: str
    step: str = "waiting"
    done: int = 0
    of: int = 0
    result: Any = None
    error: str = ""
    is_over: bool = False

    def progress(self, step: str, done: int = 0, of: int = 0, /) -> None:
        """Take note of a step."""
        self.step, self.done, self.of = step, done, of

    def as_json(self) -> dict[str, Any]:
        """Return plain values for a page that waits."""
        return {name: value for name, value in vars(self).items() if name != "title"}


# What is said of an error: a refusal in its own words, anything unforeseen by its class and place alone. The text of an
# unforeseen exception may quote data: it goes to no page, no log and no terminal.

INTERNAL = 500
_PACKAGE = Path(congenial.__file__).parent


def error_message(error: Exception) -> tuple[int, str]:
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
    line = f"internal error: {type(error).__name__} at {source_place(error)}"
    sys.stderr.write(f"{line}\n")
    return line


def source_place(error: BaseException) -> str:
    """Return the file and line of this package that an exception came through last."""
    places = [
        f"{Path(frame.f_code.co_filename).relative_to(_PACKAGE.parent).as_posix()}:{line}"
        for frame, line in walk_tb(error.__traceback__)
        if Path(frame.f_code.co_filename).is_relative_to(_PACKAGE)
    ]
    return places[-1] if places else "a place outside of the package"


def silence_loop(loop: asyncio.AbstractEventLoop) -> None:
    """See that an event loop reports errors which nobody waits for without their text."""

    def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(error := context.get("exception"), BaseException):
            report_internal(error)

    loop.set_exception_handler(handle)
