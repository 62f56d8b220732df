"""How kernels are compiled. The only module that imports numba."""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.extending import overload

Function = TypeVar("Function", bound=Callable[..., Any])


def drop_stale(kernels: Path, *shapes: Path) -> None:
    """Delete compiled kernels that were made from other sources than those that are here.

    numba looks at a kernel's own file only: one that calls a changed kernel of another file would go on with the old
    one, and a kept kernel whose argument types were renamed cannot even be read.

    Parameters
    ----------
    kernels, shapes : Path
        The folder of the kernels, and those of the types which they take.
    """
    state = hashlib.sha256(numba.__version__.encode())
    for path in sorted(path for folder in (kernels, *shapes) for path in folder.glob("*.py")):
        state.update(path.read_bytes())
    kept = kernels / "__pycache__"
    stamp = kept / "kernels.sha256"
    with suppress(OSError):  # a folder that cannot be written has nothing to keep
        if stamp.exists() and stamp.read_text(encoding="ascii") == state.hexdigest():
            return
        for path in [*kept.glob("*.nbi"), *kept.glob("*.nbc")]:
            path.unlink(missing_ok=True)
        kept.mkdir(exist_ok=True)
        stamp.write_text(state.hexdigest(), encoding="ascii")


_HERE = Path(__file__).parent
drop_stale(_HERE, *(_HERE.parent / folder for folder in ("contraction", "look_ahead", "share_out")))


def compiled(function: Function) -> Function:
    """Compile without the interpreter's lock; keep the result on disk where a folder can be written."""
    return _compile(function)


def inner(function: Function) -> Function:
    """Compile what other kernels call, and Python never does: it gets no way in from there.

    For kernels that take tuples of many arrays the way in is most of the work of compiling.
    """
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Function) -> Function:
    """Put a function into the kernels that call it; by itself it is compiled when Python calls it, and not before."""
    return _compile(function, inline="always")


def _compile(function: Function, **options: Any) -> Function:
    try:
        return numba.njit(function, nogil=True, cache=True, **options)  # type: ignore[no-any-return]
    except RuntimeError:  # no writable cache folder: compile anew in each process
        return numba.njit(function, nogil=True, **options)  # type: ignore[no-any-return]


def of_either_type(choose: Function) -> Function:
    """Make a function for kernels that differs by type: `choose` is given types, and returns what to compile."""

    def called(*_: object) -> object:
        raise TypeError(f"{choose.__name__} is for compiled code")

    called.__name__, called.__doc__ = choose.__name__, choose.__doc__
    overload(called, strict=False)(choose)  # strict: the annotations would have to agree as well
    return called  # type: ignore[return-value]


def is_tuple(kind: object) -> bool:
    """Return whether a type is that of a tuple."""
    return isinstance(kind, numba.types.BaseTuple)
