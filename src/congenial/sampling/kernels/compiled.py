"""How kernels are compiled. The only module that imports numba."""

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile without the interpreter's lock; keep the result on disk where a folder can be written."""
    try:
        return numba.njit(function, nogil=True, cache=True)  # type: ignore[no-any-return]
    except RuntimeError:  # no writable cache folder: compile anew in each process
        return numba.njit(function, nogil=True)  # type: ignore[no-any-return]
