"""Messages forward, tables backward: the exact sampler's loops over one table.

All sums are deviations from the centre. Each message is a dense block over the windows of its key, scaled by a power of
two; with it go `units`, a bound of its relative rounding error in units of 2^-53, and `missing`, a bound of what the
windows left out of any entry (docs/claims/exact-sampling.md has the derivation).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.sampling.kernels.codes import NEVER
from congenial.sampling.kernels.compiled import compiled
from congenial.sampling.kernels.convolve import convolve_geometric, convolve_table
from congenial.sampling.kernels.layout import lay_out
from congenial.sampling.kernels.merge import run_merge

FLUSH = 1e-290  # more than all that underflow can lose of one entry
SOFT_FLUSH = 1e-262
FAR_FROM_UNDERFLOW = 1e-270  # an entry above this loses less than a rounding unit of itself to underflow
TABLE_UNITS = 4.0  # relative error of a tabulated weight, in units of 2^-53


@compiled
def _scale(message: Floats) -> int:
    """Divide a message whose largest entry has gone far by that entry's power of two; return the exponent."""
    top = 0.0
    for value in message:
        top = max(top, value)
    if 2.0**-100 < top < 2.0**100 or top == 0.0:
        return 0
    exponent = max(-1000, int(np.floor(np.log2(top))))
    factor = 2.0 ** float(-exponent)
    for i in range(message.size):
        message[i] *= factor
    return exponent


@compiled
def _least(message: Floats) -> float:
    """Return the smallest entry."""
    low = np.inf
    for value in message:
        low = min(low, value)
    return low


@compiled
def _missing(clips: int, log_mass: float, exponent: int, nats: float, flushed: float) -> float:
    """Return what windows left out of any entry of a message, in its scaled units, plus what underflow lost."""
    if clips == 0:
        return flushed
    return flushed + math.exp(min(700.0, math.log(2.0 * clips) + log_mass - nats - exponent * math.log(2.0)))


@compiled
def _convolution_units(length: int, block: int) -> float:
    """Return the rounding units that one convolution adds: chains of one block and of all blocks (see the claim)."""
    return 3.0 * block + 12.0 * (length / (block - 1.0) + 1.0) + 16.0


@compiled
def forward_groups(program: Any, centre: Ints, state: Any, messages: Floats, work: Floats, mirror: Floats) -> None:
    """Build the message of each group's sum, cell by cell."""
    for g in range(program.group_start.size - 1):
        start, stop = program.group_start[g], program.group_start[g + 1]
        if start == stop:
            messages[state.node_offset[g]] = 1.0
            state.node_exponent[g], state.node_units[g], state.node_missing[g] = 0, 0.0, 0.0
            continue
        exponent, units, flushed = 0, TABLE_UNITS, 0.0
        for position in range(start, stop):
            cell = program.cell_at[position]
            table = program.table_of[cell]
            base = program.base[table]
            reach = program.table_reach[table]
            below = min(reach, centre[cell] - program.lower[cell]) if program.lower[cell] != -NEVER else reach
            above = min(reach, program.upper[cell] - centre[cell]) if program.upper[cell] != NEVER else reach
            offset, length = state.prefix_offset[position], state.prefix_length[position]
            out, out0 = messages[offset : offset + length], state.prefix_low[position]
            if position == start:
                for i in range(length):
                    v = out0 + i
                    if v < -below or v > above:
                        out[i] = 0.0
                    elif base == 1.0:
                        out[i] = 1.0
                    else:
                        out[i] = program.tables[table, abs(v)] if abs(v) < program.table_length[table] else 0.0
            else:
                before = position - 1
                x_offset, x_length = state.prefix_offset[before], state.prefix_length[before]
                x, x0 = messages[x_offset : x_offset + x_length], state.prefix_low[before]
                if base >= 0.0:
                    powers = program.powers[table]
                    convolve_geometric(x, x0, powers, below, above, work, mirror, out, out0)
                    units += _convolution_units(x_length + length, powers.size)
                else:
                    weights = program.tables[table, : program.table_length[table]]
                    convolve_table(x, x0, weights, below, above, out, out0)
                    units += min(x_length, 2 * reach + 1) + TABLE_UNITS
                mass = float(min(x_length, below + above + 1))  # terms of an entry, each with a weight of at most 1
                if base != 1.0:
                    mass = min(mass, np.exp(min(700.0, program.log_mass[cell])))
                flushed *= mass
            # Underflow is far below a rounding unit of entries that are far from it.
            if _least(out) > FAR_FROM_UNDERFLOW:
                units += 1.0
            else:
                flushed += FLUSH
            shift = _scale(out)
            exponent += shift
            if shift != 0:
                flushed *= 2.0 ** float(-shift)
            state.prefix_scale[position] = 1.0 if shift == 0 else 2.0 ** float(shift)
            state.prefix_units[position] = units
            state.prefix_missing[position] = _missing(
                state.prefix_clips[position], state.prefix_log_mass[position], exponent, program.nats, flushed
            )
        state.node_exponent[g] = exponent
        state.node_units[g] = units
        state.node_missing[g] = state.prefix_missing[stop - 1]
        state.node_flushed[g] = flushed


@compiled
def _terms_an_entry(program: Any, m: int, state: Any) -> float:
    """Return how many pairs of parts an entry of the whole's message adds up at most."""
    left, right, terms = program.left[m], program.right[m], 1.0
    n_left = program.node_dim[left]
    for f in range(program.backward.n_free[m]):
        coordinate = program.backward.free[m, f]
        part, d = (left, coordinate) if coordinate < n_left else (right, coordinate - n_left)
        terms *= float(state.node_length[part, d])
    return terms


@compiled
def forward(program: Any, centre: Ints, state: Any, messages: Floats, work: Floats, mirror: Floats) -> None:
    """Build all messages of one table; windows must have been laid out."""
    forward_groups(program, centre, state, messages, work, mirror)
    n_groups = program.group_start.size - 1
    for m in range(program.left.size):
        node, left, right = n_groups + m, program.left[m], program.right[m]
        offset, size = state.node_offset[node], state.node_size[node]
        messages[offset : offset + size] = 0.0
        run_merge(program, program.forward, m, False, state, messages, 0.0, 0.0)
        shift = _scale(messages[offset : offset + size])
        exponent = state.node_exponent[left] + state.node_exponent[right] + shift
        terms = _terms_an_entry(program, m, state)
        state.node_units[node] = (
            state.node_units[left] + state.node_units[right] + terms + 4.0 + TABLE_UNITS * program.forward.n_rows[m]
        )
        sum_left = sum_right = 0.0
        for i in range(state.node_size[left]):
            sum_left += messages[state.node_offset[left] + i]
        for i in range(state.node_size[right]):
            sum_right += messages[state.node_offset[right] + i]
        flushed = state.node_flushed[left] * sum_right + state.node_flushed[right] * sum_left
        # A soft weight that is 0 in doubles is below exp(-745), times products of at most 2^200.
        flushed += (FLUSH if program.forward.n_rows[m] == 0 else SOFT_FLUSH) * (1.0 + terms)
        flushed *= 2.0 ** float(-shift)
        state.node_flushed[node], state.node_exponent[node] = flushed, exponent
        state.node_missing[node] = _missing(
            state.node_clips[node], state.node_log_mass[node], exponent, program.nats, flushed
        )


@compiled
def draw(
    program: Any,
    centre: Ints,
    state: Any,
    messages: Floats,
    words: NDArray[np.uint64],
    out: Ints,
) -> int:
    """Draw one table from the messages, one word a decision; return how many decisions were too close to call."""
    n_groups = program.group_start.size - 1
    unsure, word = 0, 0
    for m in range(program.left.size - 1, -1, -1):
        node, left, right = n_groups + m, program.left[m], program.right[m]
        n_left, n_right = program.node_dim[left], program.node_dim[right]
        if program.backward.n_free[m] == 0:  # the key leaves no choice
            for c in range(n_left + n_right):
                value = 0
                for d in range(program.node_dim[node]):
                    value += program.backward.form[m, c, d] * state.chosen[node, d]
                value = value // program.backward.divisor[m, c]
                if c < n_left:
                    state.chosen[left, c] = value
                else:
                    state.chosen[right, c - n_left] = value
            word += 1
            continue
        index = 0
        for d in range(program.node_dim[node]):
            index += (state.chosen[node, d] - state.node_low[node, d]) * state.node_stride[node, d]
        # The message is scaled by 2^-shift against the sums that the draw adds up again.
        exponent = state.node_exponent[node] - state.node_exponent[left] - state.node_exponent[right]
        scale = 1.0 if exponent == 0 else 2.0 ** float(exponent)
        whole = messages[state.node_offset[node] + index] * scale
        aim = (float(words[word]) + 0.5) * 2.0**-64 * whole
        terms = _terms_an_entry(program, m, state)
        tolerance = (
            whole * (3.0 * state.node_units[node] + terms + 8.0) * 2.0**-53 + 2.0 * state.node_missing[node] * scale
        )
        for d in range(program.node_dim[node]):
            state.key[d] = state.chosen[node, d]
        unsure += run_merge(program, program.backward, m, True, state, messages, aim, tolerance)
        for d in range(n_left):
            state.chosen[left, d] = state.picked[d]
        for d in range(n_right):
            state.chosen[right, d] = state.picked[n_left + d]
        word += 1
    for g in range(n_groups):
        start, stop = program.group_start[g], program.group_start[g + 1]
        if start == stop:
            continue
        rest = state.chosen[g, 0]
        for position in range(stop - 1, start, -1):
            cell = program.cell_at[position]
            table = program.table_of[cell]
            base, length = program.base[table], program.table_length[table]
            reach = program.table_reach[table]
            below = min(reach, centre[cell] - program.lower[cell]) if program.lower[cell] != -NEVER else reach
            above = min(reach, program.upper[cell] - centre[cell]) if program.upper[cell] != NEVER else reach
            before = position - 1
            x0, x_length = state.prefix_low[before], state.prefix_length[before]
            x = messages[state.prefix_offset[before] : state.prefix_offset[before] + x_length]
            # Weights x(rest - v) w(v) for v = 0, 1, -1, 2, -2, ...; their sum is the message itself.
            scale = state.prefix_scale[position]
            whole = messages[state.prefix_offset[position] + rest - state.prefix_low[position]] * scale
            aim = (float(words[word]) + 0.5) * 2.0**-64 * whole
            middle = rest - x0
            farthest = max(abs(middle), abs(middle - x_length + 1))
            previous, total, value = 0.0, 0.0, 0
            if 0 <= middle < x_length:
                total = x[middle]
            size = 0
            while total <= aim and size < farthest:
                size += 1
                weight = 1.0 if base == 1.0 else (program.tables[table, size] if size < length else 0.0)
                if size <= above and 0 <= middle - size < x_length:
                    previous, total, value = total, total + weight * x[middle - size], size
                    if total > aim:
                        break
                if size <= below and 0 <= middle + size < x_length:
                    previous, total, value = total, total + weight * x[middle + size], -size
            tolerance = (
                whole * (3.0 * state.prefix_units[position] + 2.0 * x_length + 8.0) * 2.0**-53
                + 2.0 * state.prefix_missing[position] * scale
            )
            if not min(total - aim, aim - previous) > tolerance:
                unsure += 1
            out[cell] = centre[cell] + value
            rest -= value
            word += 1
        out[program.cell_at[start]] = centre[program.cell_at[start]] + rest
    return unsure


@compiled
def build(program: Any, centre: Ints, state: Any, messages: Floats, work: Floats, mirror: Floats) -> int:
    """Place the windows and, if the buffers hold them, build all messages; return the number of entries."""
    size = lay_out(program, centre, state)
    longest = 0
    for length in state.prefix_length:
        longest = max(longest, length)
    if 0 <= size <= messages.size and 4 * longest <= work.size:
        forward(program, centre, state, messages, work, mirror)
    return size


@compiled
def draw_many(
    program: Any, centre: Ints, state: Any, messages: Floats, words: NDArray[np.uint64], out: Ints, unsure: Ints
) -> None:
    """Draw a table for each line of words."""
    for number in range(words.shape[0]):
        unsure[number] = draw(program, centre, state, messages, words[number], out[number])


@compiled
def draw_batch(
    program: Any,
    centres: Ints,  # (table, cell)
    state: Any,
    messages: Floats,
    work: Floats,
    mirror: Floats,
    words: NDArray[np.uint64],  # (table, decision)
    loosest: float,
    out: Ints,  # (table, cell)
    unsure: Ints,  # (table) above 0: too close to call; -1: the windows or the buffers are too narrow for this table
) -> None:
    """Forward pass and one draw for each table."""
    for number in range(centres.shape[0]):
        centre = centres[number]
        size = build(program, centre, state, messages, work, mirror)
        if size < 0 or size > messages.size or 4 * state.prefix_length.max() > work.size:
            unsure[number] = -1
            continue
        root = messages[state.node_offset[-1]]
        if not state.node_missing[-1] <= loosest * root:
            unsure[number] = -1
            continue
        unsure[number] = draw(program, centre, state, messages, words[number], out[number])
