"""Ctrl-C, SIGTERM and a lost terminal while something must not be left half done."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def first_interrupt_held() -> Iterator[Callable[[str], None]]:
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
    found = {number: signal.getsignal(number) for number in _SIGNALS}
    before = {number: handler for number, handler in found.items() if handler not in (None, signal.SIG_IGN)}
    try:
        for number in before:
            signal.signal(number, hold)
        yield tell
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
