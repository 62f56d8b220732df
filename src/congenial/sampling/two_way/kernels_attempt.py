"""Attempts at a table, line after line: draw a line, and go on with the chance that its bound leaves."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.sampling.jit import kernel
from congenial.sampling.two_way.weights import ACCEPTED, REJECTED, UNSURE

_UNIT = 2.0**-53
_SMALL = 2.0**-76
_FLUSH = 1e-250  # more than underflow takes of a message
_FLUSH_OF_PART = 1e-300


@kernel
def bound_at(tables: Any, line: int, column: int, u: int) -> float:
    """Return the bound before a line at a partial sum."""
    bounds = tables.bounds
    k = u - bounds.low[line, column]
    found: float = bounds.below[line, column]
    if k >= bounds.size[line, column]:
        found = bounds.above[line, column]
    elif k >= 0:
        found = bounds.value[bounds.start[line, column] + k]
    return found


@kernel
def _weigh(tables: Any, line: int, column: int, u: int, out: Floats) -> tuple[int, int, int, float, float]:
    """Write a cell's weights times the bounds after it.

    Returns the place of the first in the weights' table, their number, the scale (a power of two), their sum, and what
    was left out.
    """
    k = tables.kind[line, column]
    first, last = tables.weights.first[k], tables.weights.last[k]
    weights = tables.weights.value[k]
    top, rest = 0.0, tables.tail[line, column] + _FLUSH_OF_PART
    for x in range(first, last + 1):
        value = weights[x - first] * bound_at(tables, line + 1, column, u + x)
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
def weigh_line(tables: Any, line: int, u: Ints, room: Any) -> int:
    """Build the messages of a line: weights of its first columns given their sum. Returns the scale, or -2^40.

    That number says that a message does not fit or is empty, and nothing is known.
    """
    n_columns = tables.kind.shape[1]
    room.message[0, 0], room.message_low[0], room.message_size[0] = 1.0, 0, 1
    room.lost[0], room.units[0] = 0.0, 0.0
    total, before = 0, 1.0
    for j in range(n_columns):
        part, message, out = room.part[j], room.message[j], room.work
        low, n, exponent, mass, rest = _weigh(tables, line, j, u[j], part)
        size = room.message_size[j]
        if n == 0 or n + size - 1 > out.size:
            return -(2**40)
        room.part_low[j], room.part_size[j] = low, n
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
        lost = (room.lost[j] * (mass + rest) + before * rest) * 1.001 + _FLUSH
        room.lack[j] = lost
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
            room.message[j + 1, t - begin] = value
            after += value
        room.message_low[j + 1], room.message_size[j + 1] = room.message_low[j] + low + begin, end - begin
        room.lost[j + 1] = lost * scale * 1.001
        before = (after + room.lost[j + 1]) * 1.001
        room.units[j + 1] = room.units[j] + min(n, size) + tables.units
        total += exponent + shift
    return total


@kernel
def ratio_of(tables: Any, line: int, u: Ints, room: Any, scale: int) -> tuple[float, float]:
    """Return the chance to go on with a line that has been weighed, and how far off it may be."""
    n_columns = tables.kind.shape[1]
    k = tables.line_sum[line] - room.message_low[n_columns]
    inside = 0 <= k < room.message_size[n_columns]
    whole = room.message[n_columns, k] if inside else 0.0
    mantissa, exponent = 1.0, scale + tables.bounds.shift[line]
    for j in range(n_columns):
        value, step = math.frexp(bound_at(tables, line, j, u[j]))
        mantissa *= value
        exponent -= step
        if mantissa < 2.0**-500:
            mantissa *= 2.0**500
            exponent += 500
    factor = math.ldexp(1.0 / mantissa, max(-1000, min(1000, exponent)))
    units = room.units[n_columns] + n_columns + 8.0
    return whole * factor, whole * factor * units * _UNIT + room.lost[n_columns] * factor * 1.001 + 2.0**-62


@kernel
def _pick_line(tables: Any, line: int, words: NDArray[np.uint64], room: Any, out: Ints) -> bool:
    """Draw a line that has been weighed, the last column first; return whether every choice was clear."""
    rest = tables.line_sum[line]
    for j in range(tables.kind.shape[1] - 1, 0, -1):
        part, low, n = room.part[j], room.part_low[j], room.part_size[j]
        message, message_low, size = room.message[j], room.message_low[j], room.message_size[j]
        begin, end = max(0, rest - message_low - size + 1 - low), min(n, rest - message_low - low + 1)
        total = 0.0
        for a in range(begin, end):
            total += part[a] * message[rest - low - a - message_low]
        tolerance = total * (3.0 * room.units[j + 1] + 8.0) * _UNIT + 2.0 * room.lack[j]
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
    a = rest - room.part_low[0]
    if a < 0 or a >= room.part_size[0]:
        return False
    out[0] = rest
    return True


@kernel
def _last_ratio(tables: Any, line: int, u: Ints) -> tuple[float, float]:
    """Return the chance to end with what columns lack, and how far off it may be; -1: not known."""
    n_columns, ratio = u.size, 1.0
    exponent = tables.bounds.shift[line]
    for j in range(n_columns):
        k, x = tables.kind[line, j], tables.column_sum[j] - u[j]
        bound = bound_at(tables, line, j, u[j])
        if bound == 0.0:
            return 0.0, 0.0
        if k >= 0:
            if x < tables.weights.first[k] or x > tables.weights.last[k]:
                return -1.0, 0.0
            value, step = math.frexp(tables.weights.value[k, x - tables.weights.first[k]] / bound)
            ratio *= value
        else:
            value, step = math.frexp(1.0 / bound)
            ratio *= value
        exponent += step
        if ratio < 2.0**-500:
            ratio *= 2.0**500
            exponent -= 500
    ratio = math.ldexp(ratio, max(-1000, min(1000, exponent)))
    return ratio, ratio * n_columns * tables.units * _UNIT + 2.0**-62


@kernel
def run_line(tables: Any, line: int, u: Ints, words: NDArray[np.uint64], room: Any, seen: Floats, out: Ints) -> int:
    """Decide whether to go on with a line and draw it; the first word is the acceptance's, the others the columns'.

    `seen` counts acceptance decisions, and keeps the largest chance less its tolerance.
    """
    is_last, scale = line == tables.kind.shape[0] - 1, 0
    ratio, tolerance = 1.0, 0.0
    if is_last:
        ratio, tolerance = _last_ratio(tables, line, u)
        if ratio < 0.0:
            return UNSURE
    else:
        scale = weigh_line(tables, line, u, room)
        if scale == -(2**40):
            return UNSURE
        if line > 0:
            ratio, tolerance = ratio_of(tables, line, u, room, scale)
    if line > 0:
        seen[0] += 1.0
        if not ratio - tolerance <= seen[1]:  # a chance that is no number is kept as well
            seen[1] = ratio - tolerance
        aim = (float(words[0]) + 0.5) * 2.0**-64
        if not abs(aim - ratio) > tolerance:
            return UNSURE
        if aim > ratio:
            return REJECTED
    if is_last:
        for j in range(u.size):
            out[j] = tables.column_sum[j] - u[j]
        return ACCEPTED
    return ACCEPTED if _pick_line(tables, line, words, room, out) else UNSURE


@kernel
def run_attempts(
    tables: Any,
    words: NDArray[np.uint64],  # (attempt, line, column)
    progress: Ints,  # (3) attempt, line, draws so far
    u: Ints,  # (column) partial sums before that line
    table: Ints,  # (line, column) the lines before it
    room: Any,
    seen: Floats,
    out: Ints,  # (draw, line, column)
) -> bool:
    """Go on with attempts until the draws are there or the words are used up; return whether a line was unsure.

    Then `progress` says where, and whoever decides it goes on from the next line.
    """
    n_lines, n_columns = tables.kind.shape
    while progress[2] < out.shape[0] and progress[0] < words.shape[0]:
        line = progress[1]
        if line == 0:
            u[:] = 0
        found = ACCEPTED
        if line < n_lines:
            found = run_line(tables, line, u, words[progress[0], line], room, seen, table[line])
            if found == UNSURE:
                return True
        if found == ACCEPTED and line < n_lines:
            for j in range(n_columns):
                u[j] += table[line, j]
            progress[1] = line + 1
            continue
        if found == ACCEPTED:
            out[progress[2]] = table
            progress[2] += 1
        progress[0] += 1
        progress[1] = 0
    return False
