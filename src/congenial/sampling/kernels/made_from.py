"""What a kernel is made from: its own code, all that it calls, and the values that it takes from its file.

Files tell less: a program may have been changed on disk since it was loaded, run from an archive, or given another
value for a constant.
"""

import hashlib
from collections.abc import Callable
from opcode import opmap
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

_LOAD, _MORE = opmap["LOAD_GLOBAL"], opmap["EXTENDED_ARG"]


def names_of(code: CodeType) -> set[str]:
    """Return the names that code takes from its file: not those of attributes, which may be the same."""
    inside = [names_of(part) for part in code.co_consts if isinstance(part, CodeType)]
    own, more = set(), 0
    # `dis` describes every step in full: 0.06 s for the kernels of one draw. A step is two bytes, the second a place in
    # the names and one bit besides; larger places come in several steps.
    for step, low in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        place = more << 8 | low
        if step == _LOAD:
            own.add(code.co_names[place >> 1])
        more = place if step == _MORE else 0
    return own.union(*inside)


def digest_of(function: FunctionType) -> str:
    """Return a digest of a function, of all kernels that it calls, and of the values that they take from their files.

    Examples
    --------
    >>> def half(x: float) -> float:
    ...     return x * 0.5
    >>> def third(x: float) -> float:
    ...     return x / 3.0
    >>> digest_of(half) == digest_of(half), digest_of(half) == digest_of(third)
    (True, False)
    """
    made = _Digest(function.__module__)
    made.function(function)
    return made.hexdigest()


def _top(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


class _Digest:
    """A digest that is told one thing after the other, and each function once."""

    def __init__(self, module: str) -> None:
        self._made = hashlib.sha256()
        self._places: dict[FunctionType, int] = {}
        self._ours = {"congenial", _top(module)}

    def hexdigest(self) -> str:
        """Return it."""
        return self._made.hexdigest()

    def _say(self, *parts: object) -> None:
        for part in parts:
            text = part if isinstance(part, bytes) else str(part).encode()
            self._made.update(len(text).to_bytes(8, "little") + text)

    def function(self, function: FunctionType) -> None:
        """Tell of a function and of all that it takes from elsewhere."""
        if function in self._places:
            return self._say("function", self._places[function])
        self._places[function] = len(self._places)
        self._say("function", function.__module__, function.__qualname__)
        if _top(function.__module__) not in self._ours:
            return None  # of a library, whose version counts
        self._code(function.__code__)
        self.value(function.__defaults__)
        for cell in function.__closure__ or ():
            self.value(cell.cell_contents)
        for name in sorted(names_of(function.__code__)):
            self._say(name)
            self.value(function.__globals__.get(name))
        return None

    def _code(self, code: CodeType) -> None:
        self._say(code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_argcount)
        for constant in code.co_consts:
            self.value(constant)

    def value(self, value: Any) -> None:
        """Tell of a value."""
        self._say(type(value).__qualname__)
        tell: Callable[[Any], None] = self._say
        if isinstance(written := getattr(value, "written", None), FunctionType):  # a kernel, wherever it is written
            self._ours.add(_top(written.__module__))
            value, tell = written, self.function
        elif isinstance(value, FunctionType):
            tell = self.function
        elif isinstance(value, CodeType):
            tell = self._code
        elif isinstance(value, tuple):
            tell = self._several
        elif isinstance(value, frozenset):
            value, tell = tuple(sorted(value, key=repr)), self._several
        elif isinstance(value, np.ndarray):
            value = (value.dtype.str, value.shape, value.tobytes())
            tell = self._several
        elif isinstance(value, type):
            value = (value.__module__, value.__qualname__, repr(getattr(value, "__annotations__", {})))
        elif isinstance(value, ModuleType):
            value = value.__name__
        elif not isinstance(value, str | bytes | int | float | complex | type(None) | type(...) | np.generic):
            value = getattr(value, "__qualname__", getattr(value, "__name__", ""))  # of a library as well
        tell(value)

    def _several(self, values: tuple[Any, ...]) -> None:
        self._say(len(values))
        for one in values:
            self.value(one)
