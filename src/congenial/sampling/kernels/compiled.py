"""Kernels: loops that are compiled, or run by Python itself where there is little to do.

Compiling takes ten seconds on a first run, and loading what is kept on disk a tenth of a second, or half of one by
numba; Python is done with a P12 table in 16 milliseconds. So a kernel is a function whose names are bound when it is
first called: to other kernels as numba compiles them, or to other kernels as they stand in their files. Both decide by
the same words, within proven errors, so the tables are the same.
"""

from collections.abc import Callable
from functools import cached_property
from threading import Lock
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

from congenial.sampling.kernels.kept_code import find, is_known, keep
from congenial.sampling.kernels.machine_code import Loaded, NotAloneError, kind_of
from congenial.sampling.kernels.made_from import names_of

Code = Callable[..., Any]
Function = TypeVar("Function", bound=Code)

_AT_MOST = 600_000  # operations, about those of twenty P12 tables: Python is done while numba would still be loading
_n_interpreted = 0


class Kernel:
    """A kernel; calling it from Python compiles it."""

    def __init__(self, function: FunctionType) -> None:
        self.written = function
        self.__name__, self.__doc__ = function.__name__, function.__doc__

    @cached_property
    def compiled(self) -> Code:
        """What numba makes of it, for Python to call."""
        return self._by_numba()

    def _by_numba(self) -> Code:
        from congenial.sampling.kernels.compiler import compile_kernel

        return compile_kernel(_bound(self.written, "inner"))

    @cached_property
    def inner(self) -> Code:
        """What numba makes of it, for other kernels to call."""
        from congenial.sampling.kernels.compiler import compile_inner

        return compile_inner(_bound(self.written, "inner"))

    @cached_property
    def interpreted(self) -> Code:
        """The same by Python alone, for messages of doubles."""
        return _bound(self.written, "interpreted")

    def __call__(self, *arguments: Any) -> Any:
        """Run it, compiled."""
        return self.compiled(*arguments)


class EntryKernel(Kernel):
    """A kernel that makes no arrays of its own: its machine code is kept, and called without numba."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        self._known: dict[tuple[str, ...], Code] = {}
        self._one_at_a_time = Lock()  # threads that begin together would compile the same

    @cached_property
    def compiled(self) -> Code:
        """What numba makes, or once made, of it, for each kind of arguments."""
        return self._run if is_known() else self._by_numba()

    def _run(self, *arguments: object) -> Any:
        kinds = tuple(map(kind_of, arguments))
        if kinds not in self._known:
            with self._one_at_a_time:
                if kinds not in self._known:
                    self._known[kinds] = self._loaded(kinds, arguments)
        return self._known[kinds](*arguments)

    def _loaded(self, kinds: tuple[str, ...], arguments: tuple[object, ...]) -> Code:
        found = find(self.written, kinds)
        if found is not None:
            return Loaded(found, arguments)
        from congenial.sampling.kernels.compiler import compile_code

        try:
            code = compile_code(_bound(self.written, "inner"), arguments)
            loaded = Loaded(code, arguments)
        except NotAloneError:
            return self._by_numba()
        keep(self.written, kinds, code)
        return loaded


class Either:
    """A function for kernels that differs by type."""

    def __init__(self, choose: FunctionType) -> None:
        self.written = choose
        self.__name__, self.__doc__ = choose.__name__, choose.__doc__

    @cached_property
    def inner(self) -> Code:
        """What numba chooses by the types of arguments."""
        from congenial.sampling.kernels.compiler import compile_either

        return compile_either(self.written, lambda function: _bound(function, "inner"))

    @cached_property
    def interpreted(self) -> Code:
        """What there is for doubles."""
        doubles = self.written(*[None] * self.written.__code__.co_argcount)
        return _bound(doubles, "interpreted")

    def __call__(self, *_: object) -> object:
        """Refuse: only kernels say which type it is."""
        raise TypeError(f"{self.__name__} is for kernels")


def _bound(function: FunctionType, how: str) -> FunctionType:
    """Return a function that calls other kernels as `inner` ones, or `interpreted`."""
    given = function.__globals__
    names = {name: given[name] for name in names_of(function.__code__) if name in given}
    bound = {name: getattr(one, how) if isinstance(one, Kernel | Either) else one for name, one in names.items()}
    bound |= {"__name__": function.__module__, "__builtins__": given["__builtins__"]}
    made = FunctionType(function.__code__, bound, function.__name__, function.__defaults__, function.__closure__)
    made.__qualname__, made.__doc__ = function.__qualname__, function.__doc__
    vars(made)["written"] = function
    return made


def compiled(function: Function) -> Function:
    """Make a kernel of a function."""
    return cast("Function", Kernel(cast("FunctionType", function)))


def entry(function: Function) -> Function:
    """Make a kernel of a function that samplers begin with, and that makes no arrays of its own."""
    return cast("Function", EntryKernel(cast("FunctionType", function)))


def of_either_type(choose: Function) -> Function:
    """Make a function for kernels that differs by type: `choose` is given types, and returns what to run."""
    return cast("Function", Either(cast("FunctionType", choose)))


def is_tuple(kind: object) -> bool:
    """Return whether a type is that of a tuple. None stands for a double, or an array of them."""
    if kind is None:
        return False
    from congenial.sampling.kernels.compiler import is_tuple_type

    return is_tuple_type(kind)


def interpreted(kernel: Function) -> Function:
    """Return what a kernel does by Python alone, for messages of doubles."""
    run = cast("Kernel", kernel).interpreted

    def call(*arguments: Any) -> Any:
        with np.errstate(all="ignore"):  # what is too large or too small is the kernel's own concern, as when compiled
            return run(*arguments)

    return cast("Function", call)


def light(kernel: Function, n_operations: float) -> Function:
    """Return a kernel that is run by Python as long as that is quicker than to begin with compiled ones.

    For messages of doubles. A process that has gone through many operations compiles: more will follow.

    Parameters
    ----------
    n_operations : float
        About how many steps of innermost loops the call takes. Public, like all that time tells.
    """
    global _n_interpreted  # noqa: PLW0603  what this process has done so far
    if "compiled" in vars(kernel) or _n_interpreted + n_operations > _AT_MOST:
        return kernel
    _n_interpreted += int(n_operations)
    return interpreted(kernel)
