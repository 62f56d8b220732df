"""Kernels: loops that numba compiles, or that Python runs itself where there is little to do.

Compiling all kernels of a sampler takes some twenty seconds of CPU time, once for an installation, and loading them
about a second in each process; Python is done with a P12 table in 16 milliseconds. So a kernel is a function whose
global names are bound when it is first called: to other kernels as numba compiles them, or to other kernels as plain
Python. Both decide by the same random words, within proven errors, so the tables are the same.

numba keeps compiled code on disk and reads it back by pickle, so whoever can write those files can run code as this
user. `private_cache_folder` names a folder that nobody else can write, or none; without one, kernels are
compiled in memory, anew in each process.
"""

import dis
import hashlib
import logging
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

import numpy as np

# Compiled kernels are kept in ``$NUMBA_CACHE_DIR``, else ``$XDG_CACHE_HOME/congenial`` or ``~/.cache/congenial``, and
# there in a folder named by a digest of the kernels' sources and of the compiler's versions: numba compares a kernel's
# own file alone, not those that it calls.

_PACKAGE = Path(__file__).resolve().parents[1]
_KERNEL_SOURCES = (
    "sampling",
    "inference",
    "study",
    "rules",
    "conditions",
    "portable_math.py",
)  # conditions: a constant
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def is_cached_source(file: str | Path) -> bool:
    """Return whether the digest covers a source file: kernels of other files are compiled in memory."""
    return any(Path(file).is_relative_to(_PACKAGE / name) for name in _KERNEL_SOURCES)


@cache
def _sources_digest() -> str | None:
    """Return a digest of the kernels' sources and of what compiles them; None where they cannot be read."""
    digest = hashlib.sha256(repr((sys.version, *map(version, ("numba", "llvmlite", "numpy")))).encode())
    try:
        for path in filter(is_cached_source, sorted(_PACKAGE.rglob("*.py"))):
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    except OSError:
        return None
    return digest.hexdigest()[:20]


def _base_folder() -> Path | None:
    """Return the folder that holds those of all versions: absolute, and of the user's choice if there is one."""
    if named := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(named).absolute()
    users = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(users) if os.path.isabs(users) else Path.home() / ".cache") / "congenial"
    except RuntimeError:  # no home folder is known
        return None


def _is_trusted(folder: Path) -> bool:
    """Return whether nobody but this user and root can replace a folder: neither it nor a parent is open to others."""
    for place in (folder, *folder.parents):
        state = place.lstat()
        is_own = state.st_uid in {0, os.geteuid()} and stat.S_ISDIR(state.st_mode)
        if not is_own or (state.st_mode & _OTHERS_WRITE and not state.st_mode & stat.S_ISVTX):
            return False
    return True


def _is_private(folder: Path) -> bool:
    """Return whether a folder, and all that is in it, is this user's or root's, and closed to others."""
    if folder.stat().st_mode & 0o077:
        return False
    entries = [Path(inside, name) for inside, *names in os.walk(folder) for name in (*names[0], *names[1])]
    states = [entry.lstat() for entry in entries]
    return all(
        state.st_uid in {0, os.geteuid()}
        and (stat.S_ISDIR(state.st_mode) or (stat.S_ISREG(state.st_mode) and state.st_nlink == 1))
        for state in states
    )


@cache
def private_cache_folder() -> Path | None:
    """Return the folder of this version's compiled kernels, made if need be; None if it cannot be had safely."""
    base, digest = _base_folder(), _sources_digest()
    if base is None or digest is None:
        return None
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = base.resolve() / f"kernels-{digest}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder if _is_trusted(folder) and _is_private(folder) else None
    except OSError:
        return None


def was_compiled(kernel: str) -> bool:
    """Return whether a kernel was compiled before, and kept."""
    folder = private_cache_folder()
    return folder is not None and (folder / kernel).exists()


def note_compiled(kernel: str) -> None:
    """Note that a kernel is compiled and kept."""
    folder = private_cache_folder()
    if folder is not None:
        with suppress(OSError):
            (folder / kernel).touch()


Code = Callable[..., Any]
Function = TypeVar("Function", bound=Code)

_MAX_INTERPRETED = 600_000  # operations, about those of twenty P12 tables: Python is done while numba would be loading
_n_interpreted = 0
_log = logging.getLogger("congenial")
_compiler_lock = RLock()  # numba's cache folder is set while a kernel is made; threads would each compile the same


class Kernel:
    """A kernel; calling it from Python compiles it.

    Attributes
    ----------
    function : function
        As it is written.
    """

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self._is_ready = False

    @cached_property
    def compiled(self) -> Code:
        """The kernel as numba compiles it, for Python and for other kernels to call."""
        with _compiler_lock:
            return _compile(_bind_globals(self.function, "compiled"))

    @cached_property
    def interpreted(self) -> Code:
        """The kernel as plain Python, for messages of doubles."""
        return _bind_globals(self.function, "interpreted")

    def __call__(self, *arguments: Any) -> Any:
        """Run it, compiled."""
        if self._is_ready:
            return self.compiled(*arguments)
        name = f"{self.function.__module__}.{self.__name__}"
        if not was_compiled(name):
            _announce()
        result = self.compiled(*arguments)
        note_compiled(name)
        self._is_ready = True
        return result


class GenericKernel:
    """A function for kernels whose body depends on the types of its arguments."""

    def __init__(self, choose: FunctionType) -> None:
        self.function = choose
        self.__name__, self.__doc__ = choose.__name__, choose.__doc__

    @cached_property
    def compiled(self) -> Code:
        """What numba compiles: the body is chosen by the types of the arguments."""
        from numba.extending import overload

        def stub(*_: object) -> object:
            raise TypeError(f"{self.__name__} is for compiled code")

        def choose_body(*types: Any) -> FunctionType:
            return _bind_globals(self.function(*types), "compiled")

        stub.__name__, stub.__doc__ = self.__name__, self.__doc__
        with _compiler_lock:
            overload(stub, strict=False)(choose_body)  # strict: the annotations would have to agree as well
        return stub

    @cached_property
    def interpreted(self) -> Code:
        """The body for doubles, as plain Python."""
        return _bind_globals(self.function(*[None] * self.function.__code__.co_argcount), "interpreted")

    def __call__(self, *_: object) -> object:
        """Refuse: the types of its arguments are known inside kernels only."""
        raise TypeError(f"{self.__name__} is for kernels")


@cache
def _announce() -> None:
    """Say, once in a process, why it takes longer than usual."""
    again = "once" if private_cache_folder() is not None else "in each process, as no private folder can keep the code"
    _log.info("compiling the samplers for this computer, %s: up to half a minute", again)


def _global_names(code: CodeType) -> Iterator[str]:
    """Go through the names that a function and the functions inside it take from their module."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL")
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _bind_globals(function: FunctionType, form: str) -> FunctionType:
    """Return a copy of a function that calls other kernels in one form: ``compiled`` or ``interpreted``."""
    module = function.__globals__
    names = {name: module[name] for name in _global_names(function.__code__) if name in module}
    bound = {
        name: getattr(value, form) if isinstance(value, Kernel | GenericKernel) else value
        for name, value in names.items()
    }
    bound |= {"__name__": function.__module__, "__builtins__": module["__builtins__"]}
    copy = FunctionType(function.__code__, bound, function.__name__, function.__defaults__, function.__closure__)
    copy.__qualname__, copy.__doc__ = function.__qualname__, function.__doc__
    return copy


def _compile(function: FunctionType) -> Code:
    """Return what numba makes of a function; it is kept on disk where a private folder can be had."""
    import numba

    folder = private_cache_folder() if is_cached_source(function.__code__.co_filename) else None
    if folder is not None:
        # numba asks for its cache folder while the dispatcher is made; a host program's own setting is put back.
        config: Any = numba.config
        setting, config.CACHE_DIR = config.CACHE_DIR, str(folder)
        try:
            dispatcher: Any = numba.njit(function, cache=True, nogil=True)
            stats = getattr(dispatcher, "stats", None)  # none where numba is set to compile nothing
            if str(getattr(stats, "cache_path", None)).startswith(str(folder)):
                return cast("Code", dispatcher)
        except (RuntimeError, AttributeError):  # no folder that numba can write, or a setting that names no locator
            pass
        finally:
            config.CACHE_DIR = setting
    return cast("Code", numba.njit(function, nogil=True))


def kernel(function: Function) -> Function:
    """Make a kernel of a function."""
    return cast("Function", Kernel(cast("FunctionType", function)))


def generic(choose: Function) -> Function:
    """Make a function for kernels that differs by type: `choose` takes types and returns the body to run."""
    return cast("Function", GenericKernel(cast("FunctionType", choose)))


def is_tuple(kind: object) -> bool:
    """Return whether a type is that of a tuple. None stands for a double, or an array of doubles."""
    if kind is None:
        return False
    from numba import types

    return isinstance(kind, types.BaseTuple)


def interpreted(function: Function) -> Function:
    """Return a kernel as plain Python, for messages of doubles."""
    run = cast("Kernel", function).interpreted

    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):  # kernels handle overflow and underflow themselves, as when compiled
            return run(*arguments)

    return cast("Function", call)


def interpreted_if_small(function: Function, n_operations: float) -> Function:
    """Return a kernel that Python runs as long as that is quicker than to begin with compiled ones.

    For messages of doubles. A process that has gone through many operations compiles: more will follow.

    Parameters
    ----------
    n_operations : float
        About how many steps of innermost loops the call takes. Public, like all that time tells.
    """
    global _n_interpreted  # noqa: PLW0603  what this process has done so far
    if "compiled" in vars(function) or _n_interpreted + n_operations > _MAX_INTERPRETED:
        return function
    _n_interpreted += int(n_operations)
    return interpreted(function)
