"""Attempts at a table, row after row: draw a row, and go on with the chance that its bound leaves."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.sampling.jit import kernel
from congenial.sampling.two_way.weights_and_buffers import ACCEPTED, REJECTED, UNPROVEN

_UNIT = 2.0**-53
_SMALL = 2.0**-76
_FLUSH = 1e-250  # more than underflow takes of a message
_FLUSH_OF_PART = 1e-300


@kernel
def bound_at(inputs: Any, row: int, column: int, u: int) -> float:
    """Return the bound before a row at a partial sum."""
    bounds = inputs.bounds
    k = u - bounds.low[row, column]
    bound: float = bounds.below[row, column]
    if k >= bounds.size[row, column]:
        bound = bounds.above[row, column]
    elif k >= 0:
        bound = bounds.value[bounds.start[row, column] + k]
    return bound


@kernel
def _weigh(inputs: Any, row: int, column: int, u: int, out: Floats) -> tuple[int, int, int, float, float]:
    """Write a cell's weights times the bounds after it.

    Returns the place of the first in the weights' table, their number, the scale (a power of two), their sum, and what
    was left out.
    """
    k = inputs.kind[row, column]
    first, last = inputs.weights.first[k], inputs.weights.last[k]
    weights = inputs.weights.value[k]
    top, rest = 0.0, inputs.tail[row, column] + _FLUSH_OF_PART
    for x in range(first, last + 1):
        value = weights[x - first] * bound_at(inputs, row + 1, column, u + x)
        out[x - first] = value
        top = max(top, value)
    if top == 0.0:
        return first, 0, 0, 0.0, rest
    begin, end = 0, last - first + 1
    while out[begin] < _SMALL * top:
        rest += out[begin]
        begin += 1
    while out[end - 1] < _SMALL * top:
        end -= 1
        rest += out[end]
    exponent = math.frexp(top)[1]
    scale, mass = math.ldexp(1.0, -exponent), 0.0
    for a in range(begin, end):
        out[a - begin] = out[a] * scale
        mass += out[a - begin]
    return first + begin, end - begin, exponent, mass, rest * scale


@kernel
def weigh_row(inputs: Any, row: int, u: Ints, buffers: Any) -> int:
    """Build the messages of a row: weights of its first columns given their sum. Returns the scale, or -2^40.

    That number says that a message does not fit or is empty, and nothing is known.
    """
    n_columns = inputs.kind.shape[1]
    buffers.message[0, 0], buffers.message_low[0], buffers.message_size[0] = 1.0, 0, 1
    buffers.lost[0], buffers.units[0] = 0.0, 0.0
    total, before = 0, 1.0
    for j in range(n_columns):
        part, message, out = buffers.part[j], buffers.message[j], buffers.work
        low, n, exponent, mass, rest = _weigh(inputs, row, j, u[j], part)
        size = buffers.message_size[j]
        if n == 0 or n + size - 1 > out.size:
            return -(2**40)
        buffers.part_low[j], buffers.part_size[j] = low, n
        width = n + size - 1
        for t in range(width):
            out[t] = 0.0
        for a in range(n):
            weight = part[a]
            for t in range(size):
                out[a + t] += weight * message[t]
        top, begin, end = 0.0, 0, width
        for t in range(width):
            top = max(top, out[t])
        lost = (buffers.lost[j] * (mass + rest) + before * rest) * 1.001 + _FLUSH
        buffers.lack[j] = lost
        while out[begin] < _SMALL * top:
            lost += out[begin]
            begin += 1
        while out[end - 1] < _SMALL * top:
            end -= 1
            lost += out[end]
        shift = math.frexp(top)[1]
        scale, after = math.ldexp(1.0, -shift), 0.0
        for t in range(begin, end):
            value = out[t] * scale
            buffers.message[j + 1, t - begin] = value
            after += value
        buffers.message_low[j + 1], buffers.message_size[j + 1] = buffers.message_low[j] + low + begin, end - begin
        buffers.lost[j + 1] = lost * scale * 1.001
        before = (after + buffers.lost[j + 1]) * 1.001
        buffers.units[j + 1] = buffers.units[j] + min(n, size) + inputs.units
        total += exponent + shift
    return total


@kernel
def ratio_of(inputs: Any, row: int, u: Ints, buffers: Any, scale: int) -> tuple[float, float]:
    """Return the chance to go on with a row that has been weighed, and how far off it may be."""
    n_columns = inputs.kind.shape[1]
    k = inputs.row_sum[row] - buffers.message_low[n_columns]
    inside = 0 <= k < buffers.message_size[n_columns]
    whole = buffers.message[n_columns, k] if inside else 0.0
    mantissa, exponent = 1.0, scale + inputs.bounds.shift[row]
    for j in range(n_columns):
        value, step = math.frexp(bound_at(inputs, row, j, u[j]))
        mantissa *= value
        exponent -= step
        if mantissa < 2.0**-500:
            mantissa *= 2.0**500
            exponent += 500
    factor = math.ldexp(1.0 / mantissa, max(-1000, min(1000, exponent)))
    units = buffers.units[n_columns] + n_columns + 8.0
    return whole * factor, whole * factor * units * _UNIT + buffers.lost[n_columns] * factor * 1.001 + 2.0**-62


@kernel
def _pick_row(inputs: Any, row: int, words: NDArray[np.uint64], buffers: Any, out: Ints) -> bool:
    """Draw a row that has been weighed, the last column first; return whether every choice was clear."""
    rest = inputs.row_sum[row]
    for j in range(inputs.kind.shape[1] - 1, 0, -1):
        part, low, n = buffers.part[j], buffers.part_low[j], buffers.part_size[j]
        message, message_low, size = buffers.message[j], buffers.message_low[j], buffers.message_size[j]
        begin, end = max(0, rest - message_low - size + 1 - low), min(n, rest - message_low - low + 1)
        total = 0.0
        for a in range(begin, end):
            total += part[a] * message[rest - low - a - message_low]
        tolerance = total * (3.0 * buffers.units[j + 1] + 8.0) * _UNIT + 2.0 * buffers.lack[j]
        aim = (float(words[j]) + 0.5) * 2.0**-64 * total
        before, after, a = 0.0, 0.0, begin
        while a < end:
            before = after
            after += part[a] * message[rest - low - a - message_low]
            if after > aim:
                break
            a += 1
        if a >= end or min(after - aim, aim - before) <= tolerance:
            return False
        out[j] = low + a
        rest -= low + a
    a = rest - buffers.part_low[0]
    if a < 0 or a >= buffers.part_size[0]:
        return False
    out[0] = rest
    return True


@kernel
def _last_ratio(inputs: Any, row: int, u: Ints) -> tuple[float, float]:
    """Return the chance to end with what columns lack, and how far off it may be; -1: not known."""
    n_columns, ratio = u.size, 1.0
    exponent = inputs.bounds.shift[row]
    for j in range(n_columns):
        k, x = inputs.kind[row, j], inputs.column_sum[j] - u[j]
        bound = bound_at(inputs, row, j, u[j])
        if bound == 0.0:
            return 0.0, 0.0
        if k >= 0:
            if x < inputs.weights.first[k] or x > inputs.weights.last[k]:
                return -1.0, 0.0
            value, step = math.frexp(inputs.weights.value[k, x - inputs.weights.first[k]] / bound)
            ratio *= value
        else:
            value, step = math.frexp(1.0 / bound)
            ratio *= value
        exponent += step
        if ratio < 2.0**-500:
            ratio *= 2.0**500
            exponent -= 500
    ratio = math.ldexp(ratio, max(-1000, min(1000, exponent)))
    return ratio, ratio * n_columns * inputs.units * _UNIT + 2.0**-62


@kernel
def run_row(inputs: Any, row: int, u: Ints, words: NDArray[np.uint64], buffers: Any, chances: Floats, out: Ints) -> int:
    """Decide whether to go on with a row and draw it; the first word is the acceptance's, the others the columns'.

    `chances` counts acceptance decisions, and keeps the largest chance less its tolerance.
    """
    is_last, scale = row == inputs.kind.shape[0] - 1, 0
    ratio, tolerance = 1.0, 0.0
    if is_last:
        ratio, tolerance = _last_ratio(inputs, row, u)
        if ratio < 0.0:
            return UNPROVEN
    else:
        scale = weigh_row(inputs, row, u, buffers)
        if scale == -(2**40):
            return UNPROVEN
        if row > 0:
            ratio, tolerance = ratio_of(inputs, row, u, buffers, scale)
    if row > 0:
        chances[0] += 1.0
        if not ratio - tolerance <= chances[1]:  # a chance that is no number is kept as well
            chances[1] = ratio - tolerance
        aim = (float(words[0]) + 0.5) * 2.0**-64
        if not abs(aim - ratio) > tolerance:
            return UNPROVEN
        if aim > ratio:
            return REJECTED
    if is_last:
        for j in range(u.size):
            out[j] = inputs.column_sum[j] - u[j]
        return ACCEPTED
    return ACCEPTED if _pick_row(inputs, row, words, buffers, out) else UNPROVEN


@kernel
def run_attempts(
    inputs: Any,
    words: NDArray[np.uint64],  # (attempt, row, column)
    progress: Ints,  # (3) attempt, row, draws so far
    u: Ints,  # (column) partial sums before that row
    table: Ints,  # (row, column) the rows before it
    buffers: Any,
    chances: Floats,
    out: Ints,  # (draw, row, column)
) -> bool:
    """Go on with attempts until the draws are there or the words are used up; return whether a row was unproven.

    Then `progress` says where, and whoever decides it goes on from the next row.
    """
    n_rows, n_columns = inputs.kind.shape
    while progress[2] < out.shape[0] and progress[0] < words.shape[0]:
        row = progress[1]
        if row == 0:
            u[:] = 0
        outcome = ACCEPTED
        if row < n_rows:
            outcome = run_row(inputs, row, u, words[progress[0], row], buffers, chances, table[row])
            if outcome == UNPROVEN:
                return True
        if outcome == ACCEPTED and row < n_rows:
            for j in range(n_columns):
                u[j] += table[row, j]
            progress[1] = row + 1
            continue
        if outcome == ACCEPTED:
            out[progress[2]] = table
            progress[2] += 1
        progress[0] += 1
        progress[1] = 0
    return False
