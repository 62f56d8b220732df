"""Tables backward: from messages and random words to drawn tables, with a count of decisions too close to call."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.sampling.elimination.kernels_forward import build, log_missing_share, longest, run_merge, terms_an_entry
from congenial.sampling.jit import kernel
from congenial.sampling.kernel_scaled_floats import (
    WORK,
    Numbers,
    get,
    lift_of,
    lowered,
    part,
    row_of,
    shortfall_at,
    size_of,
    times,
)


@kernel
def draw(
    program: Any,
    centre: Ints,
    state: Any,
    messages: Numbers,
    words: NDArray[np.uint64],
    all_steps: bool,
    out: Ints,
) -> int:
    """Draw one table from the messages, one word a decision; return how many decisions were too close to call.

    With `all_steps` it goes on to the end of every window when a decision is made: its time tells nothing of the table.
    """
    n_groups = program.group_start.size - 1
    unproven, word = 0, 0
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
        entry = get(messages, state.node_offset[node] + index)
        lift = lift_of(entry)
        whole = lowered(entry, lift) * scale
        aim = (float(words[word]) + 0.5) * 2.0**-64 * whole
        terms = terms_an_entry(program, m, state)
        missing = shortfall_at(messages, state.node_missing[node], lift) * scale
        tolerance = whole * (3.0 * state.node_units[node] + terms + 8.0) * 2.0**-53 + 2.0 * missing
        for d in range(program.node_dim[node]):
            state.key[d] = state.chosen[node, d]
        unproven += run_merge(program, program.backward, m, True, state, messages, aim, tolerance, lift, all_steps)
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
            weights, n_weights = row_of(program.tables, table), program.table_length[table]
            before = part(messages, state.prefix_offset[position - 1], state.prefix_length[position - 1])
            first, span = state.cell_first[position], state.cell_span[position]
            entry = get(messages, state.prefix_offset[position] + rest - state.prefix_low[position])
            scale, lift = state.prefix_scale[position], lift_of(entry)
            whole = lowered(entry, lift) * scale
            aim = (float(words[word]) + 0.5) * 2.0**-64 * whole
            value, margin = _pick_value(
                weights,
                n_weights,
                program.base[table] == 1.0,
                before,
                rest - state.prefix_low[position - 1],
                first,
                span,
                program.lower[cell] - centre[cell],
                program.zero_weight[table],
                aim,
                lift,
                all_steps,
            )
            missing = shortfall_at(messages, state.prefix_missing[position], lift) * scale
            tolerance = whole * (3.0 * state.prefix_units[position] + 2.0 * span + 8.0) * 2.0**-53 + 2.0 * missing
            out[cell] = centre[cell] + value
            rest -= value
            unproven += 0 if margin > tolerance else 1
            word += 1
        out[program.cell_at[start]] = centre[program.cell_at[start]] + rest
    return unproven


@kernel
def _pick_value(
    weights: Numbers,
    n_weights: int,
    is_flat: bool,
    x: Numbers,  # the message of the cells before
    middle: int,  # its place where this cell deviates by 0
    low: int,
    span: int,
    at_limit: int,
    zero_weight: float,
    aim: float,
    lift: int,
    all_steps: bool,
) -> tuple[int, float]:
    """Return the deviation at which the sum of ``x(middle - v) w(v)`` passes the aim, and how near a change is to it.

    Values are gone through nearest first: 0, 1, -1, 2, -2, ..., and from the nearer end of the window on, those of the
    other side.
    """
    before, after, total, value, v, is_open, high = 0.0, 0.0, 0.0, 0, 0, True, low + span - 1
    for _ in range(span):
        size, i = abs(v), middle - v
        if 0 <= i < size_of(x) and (is_flat or size < n_weights):
            term = lowered(get(x, i) if is_flat else times(get(weights, size), get(x, i)), lift)
            total += term if v != at_limit else term * zero_weight
        if is_open:
            before, after, value = after, total, v
            is_open = total <= aim
            if not (is_open or all_steps):
                break
        if v > 0:
            v = -v if -v >= low else v + 1
        else:
            v = 1 - v if 1 - v <= high else v - 1
    return value, min(after - aim, aim - before)


@kernel
def draw_many(
    program: Any, centre: Ints, state: Any, messages: Numbers, words: NDArray[np.uint64], out: Ints, unproven: Ints
) -> None:
    """Draw a table for each line of words."""
    for number in range(words.shape[0]):
        unproven[number] = draw(program, centre, state, messages, words[number], False, out[number])


@kernel
def draw_batch(
    program: Any,
    centres: Ints,  # (table, cell)
    state: Any,
    messages: Numbers,
    work: Numbers,
    mirror: Numbers,
    words: NDArray[np.uint64],  # (table, decision)
    log_loosest: float,
    out: Ints,  # (table, cell)
    unproven: Ints,  # (table) above 0: too close to call; -1: the buffers or the windows are too narrow for this table
) -> None:
    """Forward pass and one draw for each table."""
    for number in range(centres.shape[0]):
        centre = centres[number]
        size = build(program, centre, state, messages, work, mirror)
        is_built = 0 <= size <= size_of(messages) and WORK * longest(state) <= size_of(work)
        if is_built and log_missing_share(state, messages) <= log_loosest:
            unproven[number] = draw(program, centre, state, messages, words[number], True, out[number])
        else:
            unproven[number] = -1
