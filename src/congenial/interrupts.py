"""Ctrl-C and SIGTERM while something must not be left half done."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def first_interrupt_held(why: str) -> Iterator[None]:
    """Inside, the first Ctrl-C or SIGTERM only says on stderr why it is held; the second one interrupts.

    Signals reach the main thread alone, so in another one nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    n_seen = 0

    def hold(_number: int, _frame: FrameType | None) -> None:
        nonlocal n_seen
        n_seen += 1
        if n_seen > 1:
            raise KeyboardInterrupt
        with suppress(OSError):  # whoever reads it may be gone, and that must not end the work
            os.write(2, f"\n{why}\n".encode())

    before = [signal.signal(number, hold) for number in _SIGNALS]
    try:
        yield
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)
