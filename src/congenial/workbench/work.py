"""One thread that computes, so that two tabs never plan, draw or charge at the same time.

Arithmetic in balls keeps its working precision in one place for the whole process, and a ledger's charge is one at a
time anyway. What a person waits for goes first; what is computed ahead goes when nobody waits. What takes a minute and
needs no confidential table has a process of its own, so that no other page waits for it.
"""

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import get_context
from queue import PriorityQueue
from typing import Any, TypeVar

from congenial.errors import ReadingError
from congenial.patience import patience
from congenial.progress import Progress

Made = TypeVar("Made")

AT_ONCE, SOON, AHEAD = 0, 1, 2
"""Somebody waits for it; it arrives later on a page; it is computed in case it will be asked for."""


class _GivesWayError(Exception):
    """Something more urgent waits; this is done again later."""


class Work:
    """A thread with a queue of things to do, the urgent ones first; a long proof gives way to them."""

    def __init__(self) -> None:
        self._queue: PriorityQueue[tuple[int, int, Callable[[], None] | None]] = PriorityQueue()
        self._number = count()
        self._thread = threading.Thread(target=self._run, name="workbench", daemon=True)
        self._thread.start()
        self._apart: ProcessPoolExecutor | None = None

    def do(self, make: Callable[[], Made], urgency: int = AT_ONCE) -> "Future[Made]":
        """Return the promise of what a function makes."""
        promise: Future[Made] = Future()

        number = next(self._number)

        def check() -> None:
            if urgency > AT_ONCE and self._queue.queue and self._queue.queue[0][0] < urgency:
                raise _GivesWayError

        def run() -> None:
            if promise.cancelled():
                return
            try:
                with patience(check):
                    made = make()
            except _GivesWayError:
                self._queue.put((urgency, number, run))
            except BaseException as error:  # noqa: BLE001  whoever waits for it gets it
                promise.set_exception(error)
            else:
                promise.set_result(made)

        self._queue.put((urgency, number, run))
        return promise

    def do_apart(self, make: Callable[..., Made], *arguments: object) -> "Future[Made]":
        """Return the promise of what a function of a module makes of public arguments, in a process of its own."""
        for _ in range(2):
            if self._apart is None:
                own = get_context("spawn")  # a copy of a process with threads may hold their locks for ever
                self._apart = ProcessPoolExecutor(1, own, initializer=_leave_interrupts_alone)
            try:
                return self._apart.submit(make, *arguments)
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
class Job:
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
    steps: list[str] = field(default_factory=list)

    @property
    def progress(self) -> Progress:
        """Takes note of the steps."""

        def tell(step: str, done: int = 0, of: int = 0, /) -> None:
            self.step, self.done, self.of = step, done, of
            if step not in self.steps:
                self.steps.append(step)

        return tell

    def as_json(self) -> dict[str, Any]:
        """Return plain values for a page that waits."""
        return {
            "step": self.step,
            "done": self.done,
            "of": self.of,
            "is_over": self.is_over,
            "error": self.error,
            "result": self.result,
        }
