"""The compiler's type of arrays in packed values: where one stands, and the lengths of its axes.

numba's own arrays count who holds them, may have gaps, and take numbers from the end: to read an entry takes sixty
instructions, most of which are optimised away again. Four are enough here, which saved a seventh of what compiling a
batch of areas took. Places count from 0; whoever called the kernel holds the array.
"""

import operator
from functools import reduce
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global, signature
from numba.extending import infer_getattr, lower_builtin, lower_getattr, models, register_model

_WHOLE = ir.IntType(64)


class LinesType(types.Type):
    """The type of an array without gaps."""

    def __init__(self, number: types.Type, n_axes: int) -> None:
        self.number, self.n_axes = number, n_axes
        super().__init__(f"Lines({number}, {n_axes})")


@register_model(LinesType)
class _LinesModel(models.StructModel):
    def __init__(self, manager: Any, kind: LinesType) -> None:
        lengths = [(f"length_{axis}", types.int64) for axis in range(kind.n_axes)]
        super().__init__(manager, kind, [("start", types.CPointer(kind.number)), *lengths])


def read_lines(context: Any, builder: Any, kind: LinesType, start: Any, lengths: list[Any]) -> Any:
    """Return an array that stands at an address."""
    made = ir.Constant(context.get_value_type(kind), ir.Undefined)
    start = builder.inttoptr(start, context.get_data_type(kind.number).as_pointer())
    for place, part in enumerate((start, *lengths)):
        made = builder.insert_value(made, part, place)
    return made


def _index(kind: Any) -> tuple[types.Type, int] | None:
    """Return the type that places are turned into, and how many they are."""
    if isinstance(kind, types.Integer):
        return types.int64, 1
    if isinstance(kind, types.BaseTuple) and all(isinstance(part, types.Integer) for part in kind.types):  # type: ignore[attr-defined]
        return types.UniTuple(types.int64, len(kind)), len(kind)
    return None


def _inside(kind: LinesType, n_given: int) -> types.Type:
    return kind.number if n_given == kind.n_axes else LinesType(kind.number, kind.n_axes - n_given)


class _GetItem(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        lines, given = arguments
        if isinstance(lines, LinesType) and (index := _index(given)) is not None:
            return signature(_inside(lines, index[1]), lines, index[0])
        return None


class _SetItem(AbstractTemplate):
    def generic(self, arguments: Any, _: Any) -> Any:
        lines, given, _ = arguments
        if isinstance(lines, LinesType) and (index := _index(given)) is not None and index[1] == lines.n_axes:
            return signature(types.none, lines, index[0], lines.number)
        return None


for _name, _template in ((operator.getitem, _GetItem), (operator.setitem, _SetItem)):
    infer_global(_name)(_template)


@infer_getattr
class _LinesMembers(AttributeTemplate):
    key = LinesType

    def resolve_size(self, _: LinesType) -> types.Type:
        return types.int64

    def resolve_shape(self, lines: LinesType) -> types.Type:
        return types.UniTuple(types.int64, lines.n_axes)


def _lengths(builder: Any, kind: LinesType, lines: Any) -> list[Any]:
    return [builder.extract_value(lines, 1 + axis) for axis in range(kind.n_axes)]


@lower_getattr(LinesType, "size")
def _size(_context: Any, builder: Any, kind: LinesType, lines: Any) -> Any:
    return reduce(builder.mul, _lengths(builder, kind, lines))


@lower_getattr(LinesType, "shape")
def _shape(_context: Any, builder: Any, kind: LinesType, lines: Any) -> Any:
    return cgutils.pack_array(builder, _lengths(builder, kind, lines), _WHOLE)


def _place(builder: Any, kind: LinesType, lines: Any, index_type: types.Type, index: Any) -> tuple[Any, list[Any]]:
    """Return where an index points to, and the lengths of the axes that are left."""
    given = cgutils.unpack_tuple(builder, index) if isinstance(index_type, types.BaseTuple) else [index]
    lengths = _lengths(builder, kind, lines)
    place = given[0]
    for axis, length in enumerate(lengths[1:], 1):
        place = builder.mul(place, length)
        place = builder.add(place, given[axis]) if axis < len(given) else place
    return builder.gep(builder.extract_value(lines, 0), [place], inbounds=True), lengths[len(given) :]


@lower_builtin(operator.getitem, LinesType, types.Integer)
@lower_builtin(operator.getitem, LinesType, types.BaseTuple)
def _get(context: Any, builder: Any, kinds: Any, given: Any) -> Any:
    lines, index = kinds.args
    place, left = _place(builder, lines, given[0], index, given[1])
    if not left:
        return context.unpack_value(builder, lines.number, place)
    return read_lines(context, builder, kinds.return_type, builder.ptrtoint(place, _WHOLE), left)


@lower_builtin(operator.setitem, LinesType, types.Integer, types.Any)
@lower_builtin(operator.setitem, LinesType, types.BaseTuple, types.Any)
def _set(context: Any, builder: Any, kinds: Any, given: Any) -> Any:
    lines, index, _ = kinds.args
    place, _ = _place(builder, lines, given[0], index, given[1])
    context.pack_value(builder, lines.number, given[2], place)
    return context.get_dummy_value()
