"""Messages forward: the exact sampler's loops over one table; `draw` goes backward.

All sums are deviations from the centre. Each message is a dense block over the windows of its key, scaled by a power of
two; with it go `units`, a bound of its relative rounding error in units of 2^-53, and `missing`, a bound of what the
windows left out of any entry (docs/claims/exact-sampling.md has the derivation).
"""

import math
from typing import Any

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.sampling.jit import kernel
from congenial.sampling.kernels.codes import LANES, NEVER, WORK
from congenial.sampling.kernels.convolve import add_point, convolve_geometric, is_long
from congenial.sampling.kernels.layout import lay_out
from congenial.sampling.kernels.merge import run_merge
from congenial.sampling.kernels.numbers import (
    LOST_BY_SCALING,
    clear,
    cut_tables,
    flushed_by_product,
    get,
    joint_shortfall,
    line_of,
    log_of_number,
    log_of_shortfall,
    lost_of_term,
    number_of,
    one_of,
    part,
    plus,
    put,
    settle,
    shortfall,
    size_of,
    times,
    zero_of,
)
from congenial.sampling.kernels.products import sum_products
from congenial.sampling.kernels.wide import Numbers

TABLE_UNITS = 6.0  # relative error of a tabulated weight, times a floor if there is one, in units of 2^-53


@kernel
def _log_cut(clips: int, log_mass: float, nats: float) -> float:
    """Return the logarithm of what windows left out of any entry of a message."""
    return -np.inf if clips == 0 else math.log(2.0 * clips) + log_mass - nats


@kernel
def _convolution_units(length: int, block: int) -> float:
    """Return the rounding units that one convolution adds: chains of one block and of all blocks (see the claim)."""
    return 3.0 * block + 12.0 * (length / (block - 1.0) + 1.0) + 30.0


@kernel
def _set_weights(
    tabulated: Numbers, n_tabulated: int, is_flat: bool, first: int, at_floor: int, floor: float, weights: Numbers
) -> None:
    """Set the weights of a cell's values, from the first of its window on; its lower limit has a floor."""
    for j in range(size_of(weights)):
        size = abs(first + j)
        if is_flat:
            put(weights, j, one_of(weights))
        elif size < n_tabulated:
            put(weights, j, get(tabulated, size))
        else:
            put(weights, j, zero_of(weights))
    place = at_floor - first
    if 0 <= place < size_of(weights):
        put(weights, place, times(number_of(weights, floor), get(weights, place)))


@kernel
def forward_groups(program: Any, centre: Ints, state: Any, messages: Numbers, work: Numbers, mirror: Numbers) -> None:
    """Build the message of each group's sum, cell by cell."""
    for g in range(program.group_start.size - 1):
        start, stop = program.group_start[g], program.group_start[g + 1]
        if start == stop:
            put(messages, state.node_offset[g], one_of(messages))
            state.node_exponent[g], state.node_units[g] = 0, 0.0
            state.node_missing[g], state.node_flushed[g] = shortfall(messages, -np.inf, 0), 0.0
            continue
        exponent, units, flushed = 0, TABLE_UNITS, 0.0
        for position in range(start, stop):
            cell = program.cell_at[position]
            table = program.table_of[cell]
            tabulated, n_tabulated = line_of(program.tables, table), program.table_length[table]
            is_flat = program.base[table] == 1.0
            length, out0 = state.prefix_length[position], state.prefix_low[position]
            out = part(messages, state.prefix_offset[position], length)
            first, span = state.cell_first[position], state.cell_span[position]
            at_floor, floor, excess = (
                program.lower[cell] - centre[cell],
                program.floor[table],
                program.floor_excess[table],
            )
            if position == start:
                # The window of the first cell's sum lies inside that of its values.
                _set_weights(tabulated, n_tabulated, is_flat, out0, at_floor, floor, out)
            else:
                before = position - 1
                x_length, x0 = state.prefix_length[before], state.prefix_low[before]
                x = part(messages, state.prefix_offset[before], x_length)
                if program.base[table] >= 0.0 and is_long(x, span):
                    powers = line_of(program.powers, table)
                    has_lower, has_upper = program.lower[cell] != -NEVER, program.upper[cell] != NEVER
                    below, above = centre[cell] - program.lower[cell], program.upper[cell] - centre[cell]
                    convolve_geometric(
                        x,
                        x0,
                        powers,
                        tabulated,
                        n_tabulated,
                        is_flat,
                        below,
                        above,
                        has_lower,
                        has_upper,
                        work,
                        mirror,
                        out,
                        out0,
                    )
                    if excess > 0.0:
                        is_known = abs(at_floor) < n_tabulated
                        own = get(tabulated, abs(at_floor) if is_known else 0)
                        point = times(number_of(x, excess), own if is_known else zero_of(x))
                        add_point(x, x0, at_floor, point, out, out0)
                    units += _convolution_units(x_length + length, size_of(powers))
                else:
                    weights = part(mirror, 0, span)
                    _set_weights(tabulated, n_tabulated, is_flat, first, at_floor, floor, weights)
                    is_cut = state.prefix_clips[position] > 0  # else all windows lie at public limits
                    sum_products(x, weights, out0 - x0 - first, is_cut, work, out)
                    units += min(x_length, span) + TABLE_UNITS
                mass = min(x_length, span) + excess  # terms of an entry, of a weight of at most 1 but for the floor
                if not is_flat:
                    mass = min(mass, program.mass[cell])
                flushed *= mass
            shift, lost, extra = settle(out)
            units += extra
            exponent += shift
            flushed += lost
            state.prefix_scale[position] = 1.0
            if shift != 0:
                flushed = flushed * 2.0 ** float(-shift) + LOST_BY_SCALING
                state.prefix_scale[position] = 2.0 ** float(shift)
            state.prefix_units[position] = units
            cut = _log_cut(state.prefix_clips[position], state.prefix_log_mass[position], program.nats)
            state.prefix_missing[position] = shortfall(messages, cut, exponent) + flushed
        state.node_exponent[g] = exponent
        state.node_units[g] = units
        state.node_missing[g] = state.prefix_missing[stop - 1]
        state.node_flushed[g] = flushed


@kernel
def terms_an_entry(program: Any, m: int, state: Any) -> float:
    """Return how many pairs of parts an entry of the whole's message adds up at most."""
    left, right, terms = program.left[m], program.right[m], 1.0
    n_left = program.node_dim[left]
    for f in range(program.backward.n_free[m]):
        coordinate = program.backward.free[m, f]
        part, d = (left, coordinate) if coordinate < n_left else (right, coordinate - n_left)
        terms *= float(state.node_length[part, d])
    return terms


@kernel
def _sum_of(message: Numbers) -> Any:
    """Return the sum of a message."""
    total = zero_of(message)
    for i in range(size_of(message)):
        total = plus(total, get(message, i))
    return total


@kernel
def forward(program: Any, centre: Ints, state: Any, messages: Numbers, work: Numbers, mirror: Numbers) -> None:
    """Build all messages of one table; windows must have been laid out."""
    forward_groups(program, centre, state, messages, work, mirror)
    n_groups = program.group_start.size - 1
    for m in range(program.left.size):
        node, left, right = n_groups + m, program.left[m], program.right[m]
        out = part(messages, state.node_offset[node], state.node_size[node])
        clear(out)
        run_merge(program, program.forward, m, False, state, messages, 0.0, 0.0, 0, True)
        shift, _, _ = settle(out)
        terms = terms_an_entry(program, m, state)
        state.node_exponent[node] = state.node_exponent[left] + state.node_exponent[right] + shift
        state.node_units[node] = (
            state.node_units[left] + state.node_units[right] + terms + 5.0 + TABLE_UNITS * program.forward.n_rows[m]
        )
        of_left = _sum_of(part(messages, state.node_offset[left], state.node_size[left]))
        of_right = _sum_of(part(messages, state.node_offset[right], state.node_size[right]))
        flushed = flushed_by_product(messages, state.node_flushed[left], state.node_flushed[right], of_left, of_right)
        flushed *= terms
        # A soft weight that is 0 in doubles is below exp(-745), times products of at most 2^200.
        flushed += lost_of_term(messages, program.forward.n_rows[m]) * (1.0 + terms)
        if shift != 0:
            flushed = flushed * 2.0 ** float(-shift) + LOST_BY_SCALING
        state.node_flushed[node] = flushed
        clips = state.node_clips[node] + cut_tables(messages, program.n_soft[node])
        log_cut = _log_cut(clips, state.node_log_mass[node], program.nats)
        if program.is_factor[m]:
            cut = shortfall(messages, log_cut, state.node_exponent[right] + shift)
            whole = _sum_of(out)
            missing = joint_shortfall(messages, cut, of_left, state.node_missing[left], whole)
        else:
            missing = shortfall(messages, log_cut, state.node_exponent[node])
        state.node_missing[node] = missing + flushed


@kernel
def log_root(state: Any, messages: Numbers) -> Any:
    """Return the logarithm of the sum of the last message, in its scale."""
    last = state.node_size.size - 1
    return log_of_number(_sum_of(part(messages, state.node_offset[last], state.node_size[last])))


@kernel
def log_missing_share(state: Any, messages: Numbers) -> Any:
    """Return the logarithm of the share that windows and underflow may have taken of the last message."""
    missing = state.node_missing[state.node_size.size - 1]
    return log_of_shortfall(messages, missing) - log_root(state, messages)


@kernel
def longest(state: Any) -> int:
    """Return the length of the longest window of a sum of cells, or of a cell's values; at least a vector's."""
    found = LANES
    for i in range(state.prefix_length.size):
        found = max(found, state.prefix_length[i], state.cell_span[i])
    return found


@kernel
def build(program: Any, centre: Ints, state: Any, messages: Numbers, work: Numbers, mirror: Numbers) -> int:
    """Place the windows and, if the buffers hold them, build all messages; return the number of entries."""
    size = lay_out(program, centre, state)
    if 0 <= size <= size_of(messages) and WORK * longest(state) <= size_of(work):
        forward(program, centre, state, messages, work, mirror)
    return size


@kernel
def normalise_batch(
    program: Any,
    centres: Ints,  # (table, cell)
    state: Any,
    messages: Numbers,
    work: Numbers,
    mirror: Numbers,
    log_loosest: float,
    out: Floats,  # (table) log c(s), or NaN where the buffers or the windows are too narrow for this table
) -> None:
    """Forward pass of each table, for its normaliser alone."""
    for number in range(centres.shape[0]):
        size = build(program, centres[number], state, messages, work, mirror)
        out[number] = np.nan
        is_built = 0 <= size <= size_of(messages) and WORK * longest(state) <= size_of(work)
        if is_built and log_missing_share(state, messages) <= log_loosest:
            exponent = state.node_exponent[state.node_size.size - 1]
            out[number] = log_root(state, messages) + exponent * math.log(2.0)
