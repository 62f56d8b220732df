"""Machine code of kernels, called without numba.

numba takes half a second to load and to take up again what it has compiled; the code itself, which stands on its own,
is in memory after five milliseconds. Kernels that make no arrays of their own are called here, whether numba has just
compiled them or `kept_code` has found them on disk.

A compiled function takes room for what it returns, room for an error, and its arguments one by one; of an array who
holds it (nobody here), how many numbers it has, how long each is, where they stand, and the lengths and steps of its
axes. It returns 0 when all is well.
"""

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, cast

import numpy as np

from congenial.sampling.kernels.packed import Packed, name_of, title_of

ALIEN = ("NRT_Free", "NRT_MemInfo_call_dtor")
"""Functions of numba's that code names and never calls here: they let go of arrays that somebody holds."""

FROM_C = frozenset(
    {
        *("exp", "exp2", "expm1", "log", "log1p", "log2", "pow", "sqrt", "floor", "ceil", "trunc", "fabs", "fmod"),
        *("ldexp", "frexp", "memset", "memcpy", "memmove"),
    }
)
"""Functions of C's own libraries, which are in every process."""

_LARGEST = 2**63 - 1
_NUMBERS = {"none": ctypes.c_void_p, "int64": ctypes.c_int64, "float64": ctypes.c_double, "bool": ctypes.c_bool}
_POINTER, _WHOLE = ctypes.c_void_p, ctypes.c_int64


class NotAloneError(TypeError):
    """Code that needs more than stands in it, such as numba's arrays: it is for numba to call."""


def kind_of(value: object) -> str:
    """Return what an argument is, as far as it decides what is compiled: whether an array may be written does not.

    Examples
    --------
    >>> [kind_of(value) for value in (np.zeros((2, 3)), 4, 0.5, True, (np.arange(3), 1))]
    ['float64 2 C', 'int64', 'float64', 'bool', 'tuple(int64 1 C, int64)']
    """
    if isinstance(value, np.ndarray):
        flags = value.flags
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        if not flags.aligned:
            raise TypeError("an array whose numbers are not aligned cannot be given to a kernel")
        if not value.dtype.isnative or value.dtype.kind not in "biuf":
            raise TypeError(f"an array of {value.dtype} cannot be given to a kernel")
        return f"{name_of(value.dtype)} {value.ndim} {order}"
    if isinstance(value, Packed):
        return title_of(type(value).__name__, value.layout)
    if isinstance(value, tuple):
        return f"{type(value).__name__}({', '.join(map(kind_of, value))})"
    if isinstance(value, bool | np.bool_):
        return "bool"
    if isinstance(value, int | np.int64) and -_LARGEST <= value <= _LARGEST:
        return "int64"
    if isinstance(value, float):
        return "float64"
    raise TypeError(f"a {type(value).__name__} cannot be given to a kernel")


def _types(value: object) -> Iterator[Any]:
    """Go through the types of the numbers that stand for an argument."""
    if isinstance(value, np.ndarray):
        yield from (_POINTER, _POINTER, _WHOLE, _WHOLE, _POINTER, *[_WHOLE] * (2 * value.ndim))
    elif isinstance(value, Packed):
        yield _POINTER
    elif isinstance(value, tuple):
        for part in value:
            yield from _types(part)
    else:
        yield _NUMBERS[kind_of(value)]


def _numbers(values: Sequence[object]) -> Iterator[Any]:
    """Go through the numbers that stand for arguments."""
    for value in values:
        if isinstance(value, np.ndarray):
            yield from (None, None, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        elif isinstance(value, Packed):
            yield value.address
        elif isinstance(value, tuple):
            yield from _numbers(value)
        else:
            yield value.item() if isinstance(value, np.generic) else value


def _result_type(kind: str) -> Any:
    """Return the type of what a kernel returns: a number, nothing, or numbers in brackets."""
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    if not kind.startswith("(") or not {*kind[1:-1].split(", ")} <= {*_NUMBERS}:
        raise NotAloneError(f"a kernel that returns {kind} is for numba to call")
    parts = [(f"at_{place}", _NUMBERS[part]) for place, part in enumerate(kind[1:-1].split(", "))]
    return type("Several", (ctypes.Structure,), {"_fields_": parts})


@dataclass(frozen=True)
class MachineCode:
    """What a kernel was compiled to, for arguments of one kind.

    Attributes
    ----------
    name : str
        That of the function in the code.
    returns : str
        What it returns: ``none``, ``int64``, ``float64``, ``bool``, or several of them in brackets.
    code : bytes
        An object file, with all that the function needs but `FROM_C`.
    """

    name: str
    returns: str
    code: bytes


class Loaded:
    """Machine code in memory, to be called with arguments of the kind that it was compiled for."""

    def __init__(self, machine_code: MachineCode, arguments: Sequence[object]) -> None:
        self._holder, address = _in_memory(machine_code)
        types = [kind for argument in arguments for kind in _types(argument)]
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, _POINTER, *types)(address)  # without Python's lock
        self._result, self._returns = _result_type(machine_code.returns), machine_code.returns

    def __call__(self, *arguments: object) -> Any:
        """Run it."""
        result, error = self._result(), _POINTER()
        if self._run(ctypes.addressof(result), ctypes.addressof(error), *_numbers(arguments)) != 0:
            raise ArithmeticError("internal: a kernel has failed; please report this")
        if self._returns == "none":
            return None
        if self._returns in _NUMBERS:
            return result.value
        return tuple(getattr(result, name) for name, _ in result._fields_)


def _in_memory(machine_code: MachineCode) -> tuple[Any, int]:
    """Return what holds code in memory, and where its function begins."""
    from llvmlite import binding

    with _numbas_lock():
        for name in ALIEN:
            if binding.address_of_symbol(name) is None:
                binding.add_symbol(name, _never())
    # An engine of its own: it has to hold nothing but this code.
    holder = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine())
    holder.add_object_file(binding.ObjectFileRef.from_data(machine_code.code))
    holder.finalize_object()
    address = holder.get_function_address(machine_code.name)
    if not address:
        raise ValueError("the code has no such function")
    return holder, address


def _numbas_lock() -> AbstractContextManager[object]:
    """Return the lock under which numba names its functions, if it is loaded: what it has named stays."""
    if "numba" not in sys.modules:
        return nullcontext()
    lock = import_module("numba.core.compiler_lock").global_compiler_lock
    return cast("AbstractContextManager[object]", lock)


def _never() -> int:
    """Return the address of what ends the process: no kernel comes here."""
    address = ctypes.cast(ctypes.CDLL(None).abort, _POINTER).value
    assert address is not None  # noqa: S101
    return address


def _target_machine() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(jit=True)


@cache
def processor() -> str:
    """Return what this computer's processor is and can do: code is compiled for it."""
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    return f"{binding.get_default_triple()} {binding.get_host_cpu_name()} {features}"
