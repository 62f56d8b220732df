"""Sums in vectors, written in LLVM's own code.

Loops over rows of a convolution that LLVM turned into vectors by itself took eight times as long for windows of some
twenty entries: it went through the rest of each row one by one, and each row waited for the sums that the one before
had written. Here sixteen sums stay in registers until they are complete. Products and sums are rounded one by one, as
in a loop.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from congenial.sampling.kernel_numbers import LANES

_WHOLE, _PLACE = ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


def _sum_rows(_: Any, x: Any, at: Any, weights: Any, first: Any, last: Any, out: Any, k: Any) -> Any:
    """Set ``out(k + i)`` to the sum of ``w(j) x(at + i - j)`` over j from `first` to before `last`, i below `LANES`."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, given: tuple[Any, ...]) -> Any:
        def start_of(number: int) -> Any:
            return context.make_array(signature.args[number])(context, builder, given[number]).data

        def vector_at(start: Any, place: Any) -> Any:
            return builder.bitcast(builder.gep(start, [place]), _VECTOR.as_pointer())

        x, weights, out = start_of(0), start_of(2), start_of(5)
        at, first, last, k = given[1], given[3], given[4], given[6]
        nothing, undefined = ir.Constant(_VECTOR, [0.0] * LANES), ir.Constant(_VECTOR, ir.Undefined)
        before, rows, after = builder.block, builder.append_basic_block("rows"), builder.append_basic_block("summed")
        builder.cbranch(builder.icmp_signed("<", first, last), rows, after)
        builder.position_at_end(rows)
        j, total = builder.phi(_WHOLE), builder.phi(_VECTOR)
        weight = builder.insert_element(undefined, builder.load(builder.gep(weights, [j])), ir.Constant(_PLACE, 0))
        everywhere = ir.Constant(ir.VectorType(_PLACE, LANES), [0] * LANES)
        line = builder.load(vector_at(x, builder.sub(at, j)), align=8)
        product = builder.fmul(builder.shuffle_vector(weight, undefined, everywhere), line)
        further, following = builder.fadd(total, product), builder.add(j, ir.Constant(_WHOLE, 1))
        for block, number, found in ((before, first, nothing), (rows, following, further)):
            j.add_incoming(number, block)
            total.add_incoming(found, block)
        builder.cbranch(builder.icmp_signed("<", following, last), rows, after)
        builder.position_at_end(after)
        summed = builder.phi(_VECTOR)
        summed.add_incoming(nothing, before)
        summed.add_incoming(further, rows)
        builder.store(summed, vector_at(out, k), align=8)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(x, whole, weights, whole, whole, out, whole), generate


sum_rows: Any = intrinsic(_sum_rows)
