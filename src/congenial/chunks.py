"""Long work in parts: what is done at a time stays small, and several threads take parts in turn."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import TypeVar

from congenial.resources import n_processors

LINES = 16_384
"""Areas at a time where nothing else decides: of 46 cells, six megabytes."""

_Made = TypeVar("_Made")


def parts_of(n: int, at_once: int = LINES) -> list[slice]:
    """Return slices that cover the first `n` places in order.

    Examples
    --------
    >>> parts_of(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + at_once, n)) for start in range(0, n, at_once)]


def in_threads(work: Callable[[slice], _Made], parts: Sequence[slice], n_threads: int | None = None) -> Iterator[_Made]:
    """Go through what each part makes, in order; at most a few parts are made ahead.

    Parameters
    ----------
    n_threads : int, optional
        As many as this process has processors if not given.

    Examples
    --------
    >>> list(in_threads(lambda part: part.stop, parts_of(5, 2), 2))
    [2, 4, 5]
    """
    n_threads = n_processors() if n_threads is None else n_threads
    if n_threads == 1 or len(parts) < 2:
        yield from map(work, parts)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        ahead: list[Future[_Made]] = []
        try:
            for part in parts:
                ahead.append(pool.submit(work, part))
                if len(ahead) > 2 * n_threads:
                    yield ahead.pop(0).result()
            while ahead:
                yield ahead.pop(0).result()
        finally:
            for one in ahead:
                one.cancel()


@contextmanager
def beside(work: Callable[[], _Made]) -> Iterator[Callable[[], _Made]]:
    """Do work in a thread of its own while the body runs; calling what is yielded waits for what it makes.

    Where this process has one processor, it is done when it is asked for.

    Examples
    --------
    >>> with beside(lambda: sum(range(5))) as summed:
    ...     print("meanwhile", summed())
    meanwhile 10
    """
    if n_processors() == 1:
        yield cache(work)
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(copy_context().run, work).result
