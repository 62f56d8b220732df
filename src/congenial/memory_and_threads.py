"""Memory and processors that this process may use; long work in parts and threads."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache
from pathlib import Path
from typing import TypeVar

from congenial.errors import CongenialError

MEMORY, THREADS = "CONGENIAL_MEMORY", "CONGENIAL_THREADS"
"""Environment variables: what the commands' --memory sets, and the number of threads."""

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([KMGT]?)B?", re.IGNORECASE)
_CONTAINER = Path("/sys/fs/cgroup/memory.max")
_LEAST = 500_000_000
_START = 450_000_000  # Python, numpy, numba with its kernels, and what a report takes


def read_amount(text: str) -> int:
    """Return an amount of memory in bytes.

    Examples
    --------
    >>> read_amount("2GB"), read_amount("1.5 G")
    (2000000000, 1500000000)
    """
    match = _AMOUNT.fullmatch(text.strip())
    amount = int(float(match[1]) * _UNITS[match[2].upper()]) if match else 0
    if amount < _LEAST:
        raise CongenialError(
            f"{text!r} is no amount of memory of {_shown(_LEAST)} or more; write one such as 2GB, for --memory or in"
            f" the environment variable {MEMORY}"
        )
    return amount


def memory() -> int:
    """Return how many bytes this process should take at most: what was set, or half of what the computer has."""
    stated = os.environ.get(MEMORY)
    if stated:
        return read_amount(stated)
    return max(_LEAST, _there() // 2)


def _there() -> int:
    """Return how many bytes there are: of the computer, or of the container that this process runs in."""
    amount = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # no container, or one without a bound, "max"
        amount = min(amount, int(_CONTAINER.read_text(encoding="ascii")))
    return amount


def set_memory(amount: str) -> None:
    """Bound the memory of this process, and of those that it starts."""
    read_amount(amount)
    os.environ[MEMORY] = amount


def memory_for_reading() -> int:
    """Return how many bytes reading may take beside the tables."""
    return memory() // 3


def n_processors() -> int:
    """Return how many processors this process may use."""
    stated = os.environ.get(THREADS, "")
    if stated.isdecimal() and int(stated) > 0:
        return int(stated)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def explain_too_large(n_tables: int, n_cells: int) -> str:
    """Explain that so many tables do not fit into memory, and the way out; empty if they do.

    The confidential and the drawn tables are whole in memory, eight bytes a count, and a third is for parts of them.
    """
    needed = _START + n_tables * (20 * n_cells + 400)
    if needed <= memory():
        return ""
    return (
        f"{n_tables:,} tables of {n_cells:,} cells take about {_shown(needed)} of memory, and this process may take"
        f" {_shown(memory())}; allow more, --memory or the environment variable {MEMORY}, or release them in parts"
    )


def explain_memory(n_numbers: int, what: str) -> str:
    """Explain that so many 64-bit numbers do not fit into memory; empty if they do.

    Examples
    --------
    >>> explain_memory(100, "two tables"), explain_memory(10**15, "the tables")[:38]
    ('', 'the tables take 8000000.0 GB of memory')
    """
    there = memory()
    if 8 * n_numbers <= there:
        return ""
    return (
        f"{what} take {_shown(8 * n_numbers)} of memory, and this process may take {_shown(there)}; a computer with"
        f" more of it is needed, or a larger amount in the environment variable {MEMORY}"
    )


def _shown(amount: int) -> str:
    return f"{amount / 10**9:.1f} GB"


# Long work in parts, so that memory stays bounded, by several threads.

AREAS_AT_ONCE = 16_384
"""Areas at a time where nothing else decides: of 46 cells, six megabytes."""

_Result = TypeVar("_Result")


def parts_of(n: int, at_once: int = AREAS_AT_ONCE) -> list[slice]:
    """Return slices that cover the first `n` places in order.

    Examples
    --------
    >>> parts_of(5, 2)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return [slice(start, min(start + at_once, n)) for start in range(0, n, at_once)]


def map_in_threads(
    work: Callable[[slice], _Result], parts: Sequence[slice], n_threads: int | None = None
) -> Iterator[_Result]:
    """Yield the result of each part, in order; at most a few parts run ahead.

    Parameters
    ----------
    n_threads : int, optional
        As many as this process has processors if not given.

    Examples
    --------
    >>> list(map_in_threads(lambda part: part.stop, parts_of(5, 2), 2))
    [2, 4, 5]
    """
    n_threads = n_processors() if n_threads is None else n_threads
    if n_threads == 1 or len(parts) < 2:
        yield from map(work, parts)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        ahead: list[Future[_Result]] = []
        try:
            for part in parts:
                ahead.append(pool.submit(work, part))
                if len(ahead) > 2 * n_threads:
                    yield ahead.pop(0).result()
            while ahead:
                yield ahead.pop(0).result()
        finally:
            for waiting in ahead:
                waiting.cancel()


@contextmanager
def in_background(work: Callable[[], _Result]) -> Iterator[Callable[[], _Result]]:
    """Run work in a thread while the body runs; calling what is yielded waits for the result.

    With a single processor, the work runs when its result is asked for.

    Examples
    --------
    >>> with in_background(lambda: sum(range(5))) as summed:
    ...     print("meanwhile", summed())
    meanwhile 10
    """
    if n_processors() == 1:
        yield cache(work)
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(copy_context().run, work).result
