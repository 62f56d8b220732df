"""The compiler's type of packed values: an address, and what is read from there."""

from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from congenial.sampling.kernels.lines_type import LinesType, read_lines
from congenial.sampling.kernels.packed import Packed, title_of


class _PackedType(types.Type):
    """The type of packed values with one layout: an address."""

    def __init__(self, title: str, layout: tuple[Any, ...]) -> None:
        self.members: dict[str, tuple[types.Type, int]] = {}
        n_places = 0
        for name, kind in layout:
            self.members[name] = _type_of(kind), n_places
            n_places += _n_places(kind)
        super().__init__(title_of(title, layout))


def _type_of(kind: tuple[Any, Any]) -> types.Type:
    """Return the compiler's type of what `Packed` describes."""
    what, inside = kind
    if isinstance(what, str):
        number = types.boolean if what == "bool" else getattr(types, what)
        return LinesType(number, inside) if inside else number
    if issubclass(what, Packed):
        return _packed_type(what.__name__, inside)
    return types.NamedTuple([_type_of(part) for part in inside], what)


def _n_places(kind: tuple[Any, Any]) -> int:
    what, inside = kind
    if isinstance(what, str):
        return 1 + int(inside)
    return 1 if issubclass(what, Packed) else sum(map(_n_places, inside))


@cache
def _packed_type(title: str, layout: tuple[Any, ...]) -> _PackedType:
    """Return the type of a layout: numba asks at every call, and to make it anew took 4 ms, most of a short call."""
    return _PackedType(title, layout)


@typeof_impl.register(Packed)
def _typeof_packed(value: Packed, _: object) -> types.Type:
    return _packed_type(type(value).__name__, value.layout)


@register_model(_PackedType)
class _PackedModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: _PackedType) -> None:
        super().__init__(manager, kind, ir.IntType(64).as_pointer())


@unbox(_PackedType)
def _unbox_packed(_: _PackedType, value: Any, context: Any) -> NativeValue:
    number = context.pyapi.object_getattr_string(value, "address")
    address = context.pyapi.long_as_voidptr(number)
    context.pyapi.decref(number)
    return NativeValue(context.builder.bitcast(address, ir.IntType(64).as_pointer()))


@infer_getattr
class _PackedMembers(AttributeTemplate):
    key = _PackedType

    def generic_resolve(self, kind: _PackedType, name: str) -> types.Type | None:  # type: ignore[override]
        return kind.members[name][0] if name in kind.members else None


@lower_getattr_generic(_PackedType)
def _member(context: Any, builder: Any, kind: _PackedType, places: Any, name: str) -> Any:
    member, place = kind.members[name]
    return _read(context, builder, member, places, place)[0]


def _read(context: Any, builder: Any, kind: types.Type, places: Any, place: int) -> tuple[Any, int]:
    """Return the value that stands at a place, and the place after it."""
    if isinstance(kind, types.NamedTuple):
        parts = []
        for part in kind.types:
            value, place = _read(context, builder, part, places, place)
            parts.append(value)
        return context.make_tuple(builder, kind, parts), place

    def load(i: int) -> Any:
        found = builder.load(cgutils.gep_inbounds(builder, places, place + i))
        found.set_metadata("invariant.load", builder.module.add_metadata([]))
        return found

    if isinstance(kind, LinesType):
        lengths = [load(1 + axis) for axis in range(kind.n_axes)]
        return read_lines(context, builder, kind, load(0), lengths), place + 1 + kind.n_axes
    if isinstance(kind, _PackedType):
        return builder.inttoptr(load(0), ir.IntType(64).as_pointer()), place + 1
    target = context.get_value_type(kind)
    return (builder.bitcast(load(0), target) if kind == types.float64 else builder.trunc(load(0), target)), place + 1
