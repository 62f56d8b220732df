"""Whether a long proof may go on: whoever computes for people that wait can stop it between two of its steps.

A proof that is stopped leaves nothing behind, and is begun again when it is asked for.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_CHECK: ContextVar[Callable[[], None] | None] = ContextVar("patience", default=None)


def give_way() -> None:
    """Let whoever set a limit stop the proof here; called every few milliseconds."""
    check = _CHECK.get()
    if check is not None:
        check()


@contextmanager
def patience(check: Callable[[], None]) -> Iterator[None]:
    """Inside, `check` is called between the steps of long proofs; it stops one by raising an exception of its own.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from congenial.privacy.weighted import calibrated_zeros
    >>> def stop():
    ...     raise TimeoutError
    >>> with patience(stop):
    ...     calibrated_zeros(Fraction(1, 3), 5)
    Traceback (most recent call last):
    TimeoutError
    """
    token = _CHECK.set(check)
    try:
        yield
    finally:
        _CHECK.reset(token)
