"""Convolution of a message with one cell's weights.

Messages are windows of a function on the integers: `x` holds its values from `x0` on, and is 0 elsewhere. Only positive
terms are added, never subtracted, so relative errors stay near the rounding of one operation times the length.

How many steps a loop takes follows from the lengths of windows, which are public, and not from where a cell's limit
lies in them: steps that a limit rules out are taken, and count for nothing.
"""

from functools import cache
from typing import Any

import numpy as np

from congenial.arrays import Ints
from congenial.sampling.jit import generic, is_tuple, kernel
from congenial.sampling.kernel_scaled_floats import LANES, Numbers, clear, get, part, plus, put, size_of, times, zero_of

_MOST_DIRECT = 256  # values of a cell up to which sums of products, in vectors, beat two recurrences
_MOST_BY_NUMPY = 4096


@generic
def is_long(message: Any, span: Any) -> Any:
    """Return whether a cell has too many values to go through all products."""
    if message is None:  # by Python, whose loops are slower than NumPy's
        return lambda message, span: span > _MOST_BY_NUMPY
    return lambda message, span: span > _MOST_DIRECT


@kernel
def _set_ends(
    x: Numbers, n: int, weights: Numbers, n_weights: int, is_flat: bool, length: int, block: int, ends: Numbers
) -> None:
    """Cut positions 0 .. n-1 into stretches; set ``ends(i) = sum of a^(e - t) x(t)``, t from i to its own end e."""
    far, near, zero, r, n_x = zero_of(x), zero_of(x), zero_of(x), 0, size_of(x)
    to_end = length - 1 - (n - 1) % length  # steps to the end of the last stretch
    for i in range(n - 1, -1, -1):
        far, near, r = zero if to_end == 0 else far, zero if to_end == 0 else near, 0 if to_end == 0 else r
        has_weight = to_end < n_weights or is_flat
        weight = get(weights, 0 if is_flat or not has_weight else to_end)
        entry = get(x, min(i, n_x - 1))
        near = plus(near, times(weight if has_weight else zero, entry if i < n_x else zero))
        both = plus(far, near)
        put(ends, i, both)
        r += 1
        far, near, r = both if r == block else far, zero if r == block else near, 0 if r == block else r
        to_end = 0 if to_end == length - 1 else to_end + 1


@kernel
def add_geometric_tail(
    x: Numbers,
    x0: int,
    powers: Numbers,
    weights: Numbers,
    n_weights: int,
    is_flat: bool,
    reach: int,
    is_limited: bool,
    factor: Numbers,
    ends: Numbers,
    out: Numbers,
    out0: int,
) -> None:
    """Add ``factor * sum_{v=0..reach} a^v x(k - v)`` to ``out(k)`` for every k of its window. O(length).

    `powers` holds ``a^0, a^1, ...`` for one block. Without a limit this is a first-order recurrence, started anew in
    each block with what came before carried over: a chain of roundings is as long as one block plus the number of
    blocks, not as the message. A limited reach is a sliding window: positions are cut into stretches of its length, and
    a window is the end of one stretch and the beginning of the next, so nothing is subtracted. `weights` are the powers
    that are not 0; of a flat cell, one 1.

    Where a stretch ends is confidential, so nothing is skipped there: values are chosen, not ways through the code.
    """
    a, block, zero, n_x = get(powers, 1), size_of(powers) - 1, zero_of(x), size_of(x)
    n = out0 + size_of(out) - x0  # positions from x0 to the end of out's window
    length = reach + 1 if is_limited else n + 1
    if is_limited and n > 0:
        _set_ends(x, n, weights, n_weights, is_flat, length, block, ends)
    running, carry, r, place = zero, zero, 0, 0
    for i in range(n):
        entry = get(x, min(i, n_x - 1))
        running = plus(times(a, running), entry if i < n_x else zero)
        r, place = r + 1, place + 1
        value = plus(running, times(get(powers, r), carry))
        total = value
        if is_limited:
            has_end = i >= length and place < length and (place < n_weights or is_flat)
            weight = get(weights, 0 if is_flat or not has_end else place)
            end = get(ends, i - length + 1 if has_end else 0)
            total = plus(total, times(weight if has_end else zero, end))
        k = x0 + i - out0
        if k >= 0:
            put(out, k, plus(get(out, k), times(factor, total)))
        is_over, is_full = place == length, r == block
        carry = zero if is_over else value if is_full else carry
        running = zero if is_over or is_full else running
        r, place = 0 if is_over or is_full else r, 0 if is_over else place


@kernel
def convolve_geometric(
    x: Numbers,
    x0: int,
    powers: Numbers,
    weights: Numbers,
    n_weights: int,
    is_flat: bool,
    below: int,  # how far the cell can go down, and up
    above: int,
    has_lower: bool,  # whether there is a limit, which is public; where it lies is not
    has_upper: bool,
    buffer: Numbers,
    mirror: Numbers,
    out: Numbers,
    out0: int,
) -> None:
    """Set ``out(k) = sum_{v=-below..above} a^|v| x(k - v)``. O(length)."""
    n_x, n = size_of(x), size_of(out)
    clear(out)
    add_geometric_tail(x, x0, powers, weights, n_weights, is_flat, above, has_upper, get(powers, 0), buffer, out, out0)
    # The other side is the same in the mirror: sum_{v=1..below} a^v x(k + v), the sum over v - 1 times a.
    flipped_x, flipped_out = part(mirror, 0, n_x), part(mirror, n_x, n)
    for i in range(n_x):
        put(flipped_x, i, get(x, n_x - 1 - i))
    clear(flipped_out)
    factor = get(powers, 1) if below > 0 else zero_of(x)
    x_start, out_start = -(x0 + n_x - 1), -(out0 + n - 1) - 1
    reach = max(0, below - 1)
    add_geometric_tail(
        flipped_x,
        x_start,
        powers,
        weights,
        n_weights,
        is_flat,
        reach,
        has_lower,
        factor,
        buffer,
        flipped_out,
        out_start,
    )
    for k in range(n):
        put(out, k, plus(get(out, k), get(flipped_out, n - 1 - k)))


@kernel
def add_point(x: Numbers, x0: int, value: int, weight: Numbers, out: Numbers, out0: int) -> None:
    """Add ``weight * x(k - value)`` to ``out(k)`` for every k of its window."""
    shift, n_x, zero = out0 - x0 - value, size_of(x), zero_of(x)
    for k in range(size_of(out)):
        inside = 0 <= k + shift < n_x
        entry = get(x, k + shift if inside else 0)
        put(out, k, plus(get(out, k), times(weight, entry if inside else zero)))


# Sums of products: what a convolution comes to where windows are short.


@cache
def vector_sum() -> Any:
    """Return sums in vectors, written in LLVM's own code, for compiled kernels to call.

    Loops over rows of a convolution that LLVM turned into vectors by itself took eight times as long for windows of
    some twenty entries: it went through the rest of each row one by one, and each row waited for the sums that the one
    before had written. Here sixteen sums stay in registers until they are complete. Products and sums are rounded one
    by one, as in a loop.
    """
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    whole_type, place_type = ir.IntType(64), ir.IntType(32)
    vector_type = ir.VectorType(ir.DoubleType(), LANES)

    def sum_rows(_: Any, x: Any, at: Any, weights: Any, first: Any, last: Any, out: Any, k: Any) -> Any:
        """Set ``out(k + i)`` to the sum of ``w(j) x(at + i - j)``, j from `first` to before `last`, i below `LANES`."""

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: tuple[Any, ...]) -> Any:
            def start_of(number: int) -> Any:
                return context.make_array(signature.args[number])(context, builder, values[number]).data

            def vector_at(start: Any, place: Any) -> Any:
                return builder.bitcast(builder.gep(start, [place]), vector_type.as_pointer())

            x, weights, out = start_of(0), start_of(2), start_of(5)
            at, first, last, k = values[1], values[3], values[4], values[6]
            nothing, undefined = ir.Constant(vector_type, [0.0] * LANES), ir.Constant(vector_type, ir.Undefined)
            before, rows, after = (
                builder.block,
                builder.append_basic_block("rows"),
                builder.append_basic_block("summed"),
            )
            builder.cbranch(builder.icmp_signed("<", first, last), rows, after)
            builder.position_at_end(rows)
            j, total = builder.phi(whole_type), builder.phi(vector_type)
            weight = builder.insert_element(
                undefined, builder.load(builder.gep(weights, [j])), ir.Constant(place_type, 0)
            )
            everywhere = ir.Constant(ir.VectorType(place_type, LANES), [0] * LANES)
            line = builder.load(vector_at(x, builder.sub(at, j)), align=8)
            product = builder.fmul(builder.shuffle_vector(weight, undefined, everywhere), line)
            further, following = builder.fadd(total, product), builder.add(j, ir.Constant(whole_type, 1))
            for block, number, vector in ((before, first, nothing), (rows, following, further)):
                j.add_incoming(number, block)
                total.add_incoming(vector, block)
            builder.cbranch(builder.icmp_signed("<", following, last), rows, after)
            builder.position_at_end(after)
            summed = builder.phi(vector_type)
            summed.add_incoming(nothing, before)
            summed.add_incoming(further, rows)
            builder.store(summed, vector_at(out, k), align=8)
            return context.get_dummy_value()

        whole = types.int64
        return types.void(x, whole, weights, whole, whole, out, whole), generate

    return intrinsic(sum_rows)


@generic
def sum_products(x: Any, weights: Any, shift: Any, is_cut: Any, buffer: Any, out: Any) -> Any:
    """Set ``out(k)`` to the sum of ``w(j) x(k + shift - j)`` over all j; x is 0 outside its window.

    In whichever order terms are added, rounding is within one unit for each of them. If windows are cut, the shift is
    confidential, and no step that is left out follows from it.
    """
    if x is None:  # by Python

        def sum_by_numpy(x: Any, weights: Any, shift: Any, is_cut: Any, buffer: Any, out: Any) -> None:
            full, n = np.convolve(x, weights), out.size
            first, last = min(n, max(0, -shift)), max(0, min(n, full.size - shift))
            out[:] = 0.0
            if first < last:
                out[first:last] = full[first + shift : last + shift]

        return sum_by_numpy
    if not is_tuple(x):
        sum_rows = vector_sum()

        def sum_doubles(x: Any, weights: Any, shift: Any, is_cut: Any, buffer: Any, out: Any) -> None:
            n_x, n_weights, n = x.size, weights.size, out.size
            # Zeros around x: as many as a vector reaches over its ends, or a row over them wherever the window lies.
            margin = LANES + (n + n_weights if is_cut else 0)
            for i in range(n_x + 2 * margin):
                buffer[i] = 0.0
            for i in range(n_x):
                buffer[margin + i] = x[i]
            shift = max(-n, min(n_x + n_weights, shift))
            for k in range(0, n, LANES):
                first, last = 0, n_weights
                if not is_cut:
                    first, last = max(0, k + shift - n_x + 1), min(n_weights, k + shift + LANES)
                if k + LANES <= n:
                    sum_rows(buffer, margin + k + shift, weights, first, last, out, k)
                    continue
                spare = n_x + 2 * margin
                sum_rows(buffer, margin + k + shift, weights, first, last, buffer, spare)
                for i in range(n - k):
                    out[k + i] = buffer[spare + i]

        return sum_doubles

    def sum_scaled(x: Any, weights: Any, shift: Any, is_cut: Any, buffer: Any, out: Any) -> None:
        n_full = size_of(x) + size_of(weights) - 1
        full = part(buffer, 0, n_full)
        clear(full)
        _add_scaled(x, weights, full, part(buffer, n_full, n_full))
        for k in range(size_of(out)):
            inside = 0 <= k + shift < n_full
            entry = get(full, k + shift if inside else 0)
            put(out, k, entry if inside else zero_of(out))

    return sum_scaled


@kernel
def _add_scaled(x: Any, weights: Any, out: Any, buffer: Any) -> None:
    """Add ``w(j) x(i)`` to ``out(i + j)`` for all i and j.

    Where powers are the same, products are those of doubles, and as fast: 2^-512 to 2^512, and sums of them.
    """
    j = 0
    while j < weights.value.size:
        j_end = _end_of_run(weights.power, j)
        i = 0
        while i < x.value.size:
            i_end = _end_of_run(x.power, i)
            n, power = i_end - i + j_end - j - 1, weights.power[j] + x.power[i]
            sums = buffer.value[:n]
            sums[:] = 0.0
            for b in range(j_end - j):
                for a in range(i_end - i):
                    sums[a + b] += weights.value[j + b] * x.value[i + a]
            for k in range(n):
                number = times((sums[k], power), (1.0, 0))
                put(out, i + j + k, plus(get(out, i + j + k), number))
            i = i_end
        j = j_end


@kernel
def _end_of_run(power: Ints, start: int) -> int:
    """Return where a run of one power ends."""
    end = start + 1
    while end < power.size and power[end] == power[start]:
        end += 1
    return end
