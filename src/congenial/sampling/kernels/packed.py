"""Named arrays that kernels are given as one address. Imported without numba.

A tuple of arrays goes into compiled code by value: each array is seven numbers and more, counted in and out at every
call. With sixty of them that was most of what compiling took, and a good part of short calls. An address is one number,
and what stands there is looked up where it is used.
"""

import hashlib
import struct
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any

import numpy as np

from congenial.arrays import Ints


@dataclass(frozen=True, eq=False)
class Packed:
    """A dataclass of arrays, numbers, tuples of arrays and others of its kind, to be extended.

    Attributes
    ----------
    layout : tuple
        What the values are, by name: of an array its type and number of axes, of a number its type and 0, of the
        others their class and what is in them. The compiler goes by it.
    places : array
        Numbers, and where arrays stand with the lengths of their axes.
    address : int
        Where the places stand.
    """

    layout: tuple[Any, ...] = field(init=False, repr=False)
    places: Ints = field(init=False, repr=False)
    address: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        found = [(one.name, *_described(getattr(self, one.name))) for one in fields(self) if one.init]
        object.__setattr__(self, "layout", tuple((name, kind) for name, kind, _ in found))
        object.__setattr__(self, "places", np.array([place for *_, places in found for place in places], np.int64))
        object.__setattr__(self, "address", self.places.ctypes.data)


def _described(value: object) -> tuple[tuple[Any, Any], list[int]]:
    """Return what a value is, and the numbers that say where it stands."""
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise ValueError("arrays of a packed value stand in one piece")
        return (name_of(value.dtype), value.ndim), [value.ctypes.data, *value.shape]
    if isinstance(value, Packed):
        return (type(value), value.layout), [value.address]
    if isinstance(value, tuple):
        parts = [_described(part) for part in value]
        return (type(value), tuple(kind for kind, _ in parts)), [place for _, places in parts for place in places]
    if isinstance(value, float):
        return ("float64", 0), list(struct.unpack("q", struct.pack("d", value)))
    if isinstance(value, int):  # True is one, too
        return ("int64", 0), [int(value)]
    raise TypeError(f"a {type(value).__name__} cannot be packed for kernels")


@cache
def title_of(name: str, layout: tuple[Any, ...]) -> str:
    """Return what packed values of one class and layout are called. Asked at every call of a kernel."""
    return f"{name}_{hashlib.sha256(repr(layout).encode()).hexdigest()[:12]}"


@cache
def name_of(kind: "np.dtype[Any]") -> str:
    """Return the name of a type, which numpy makes anew each time it is asked: a third of what packing took."""
    return str(kind.name)
