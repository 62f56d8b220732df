"""Progress of long work, its cancellation, and held interrupts."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import FrameType
from typing import Protocol

READING = "reading the data"
PLANNING = "planning"
CHARGING = "charging the budget"
"""The first step; where there are very many rows, they are its parts."""

DRAWING = "drawing"
"""The step whose parts are areas, or units of a tree."""

DECIDING = "deciding the tables"
"""Of a measured release: a public step, from the measurements alone."""

DRY_RUN = "trying draws of made-up tables"
"""Where the time of a draw depends on more than the structure, and may be seconds."""

WRITING = "writing the bundle"
"""The last step; where there are many areas, they are its parts."""

VERIFYING = "verifying"
"""The step whose parts are areas of a bundle."""


class Progress(Protocol):
    """Receives the step that begins; in a step of many parts, also how many are done."""

    def __call__(self, step: str, done: int = 0, of: int = 0, /) -> None:
        """Take note."""


def silent(step: str, done: int = 0, of: int = 0, /) -> None:
    """Ignore progress."""


# Cancellation of long proofs between two of their steps. A cancelled proof leaves nothing behind and starts anew.

_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("cancellation", default=None)


def checkpoint() -> None:
    """Let a caller of `cancellation` stop the proof here; called every few milliseconds."""
    check = _CHECK.get()
    if check is not None:
        check()


@contextmanager
def cancellation(check: Callable[[], None]) -> Iterator[None]:
    """Inside, `check` is called between the steps of long proofs; it stops one by raising an exception of its own.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from congenial.privacy.weighted_zeros.calibrate import calibrated_zeros
    >>> def stop():
    ...     raise TimeoutError
    >>> with cancellation(stop):
    ...     calibrated_zeros(Fraction(1, 3), 5)
    Traceback (most recent call last):
    TimeoutError
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)


# Ctrl-C, SIGTERM and SIGHUP during work that must not be left half done.

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def hold_first_interrupt() -> Iterator[Callable[[str], None]]:
    """Inside, the first Ctrl-C, SIGTERM or SIGHUP is held; a second Ctrl-C or SIGTERM interrupts.

    A SIGHUP never does: systems send it twice, or right after a SIGTERM. Signals that are ignored stay so, and what
    other than Python code handles is left alone. Signals reach the main thread alone, so in another one nothing
    changes.

    Yields
    ------
    tell : function
        Takes the reason for holding, as soon as it is true. It is said on stderr once a signal has come.
    """
    is_held, reason = False, ""

    def say() -> None:
        if is_held and reason:
            with suppress(OSError):  # whoever reads it may be gone, and that must not end the work
                os.write(2, f"\n{reason}\n".encode())

    def tell(why: str) -> None:
        nonlocal reason
        reason = why
        say()

    def hold(number: int, _frame: FrameType | None) -> None:
        nonlocal is_held
        if is_held and number != signal.SIGHUP:
            raise KeyboardInterrupt
        if not is_held:
            is_held = True
            say()

    if threading.current_thread() is not threading.main_thread():
        yield tell
        return
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for number in before:
            signal.signal(number, hold)
        yield tell
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
