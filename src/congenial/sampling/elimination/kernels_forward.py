"""Messages forward: the exact sampler's loops over one table; `draw` goes backward.

All sums are deviations from the centre. Each message is a dense block over the windows of its key, scaled by a power of
two; with it go `units`, a bound of its relative rounding error in units of 2^-53, and `missing`, a bound of what the
windows left out of any entry (docs/claims/exact-sampling.md has the derivation).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.sampling.elimination.kernels_convolve import add_point, convolve_geometric, is_long, sum_products
from congenial.sampling.elimination.kernels_layout import lay_out
from congenial.sampling.jit import kernel
from congenial.sampling.kernel_scaled_floats import (
    LANES,
    LOST_BY_SCALING,
    NEVER,
    WORK,
    Numbers,
    clear,
    cut_tables,
    flushed_by_product,
    get,
    joint_shortfall,
    log_of_number,
    log_of_shortfall,
    lost_of_term,
    lowered,
    number_of,
    one_of,
    part,
    plus,
    put,
    row_of,
    settle,
    shortfall,
    size_of,
    times,
    zero_of,
)

# Going through the pairs of two parts that fit together: forward to add them up, backward to pick one.
#
# The walk's inputs are the free coordinates of the pair, then the whole's key when it is given. Everything that
# limits a pair is a form in them that must lie in a window. Where all forms are whole numbers the last free
# coordinate is left to run: everything is linear along it. Otherwise every pair is a run of its own.
#
# The steps of a run take a few arrays each, not the program: handing all of it over takes longer than a run.


class PairRun(NamedTuple):
    """Pairs that fit, from step `first` to `last`, and where step 0 and the later ones stand in the three messages."""

    first: int
    last: int
    left: int
    left_stride: int
    right: int
    right_stride: int
    whole: int
    whole_stride: int


_NO_PAIRS = PairRun(1, 0, 0, 0, 0, 0, 0, 0)


class Ends(NamedTuple):
    """Where the forms that limit a pair end: coordinates of the left part, the right one, the whole; all of them."""

    left: int
    right: int
    whole: int
    limited: int


@kernel
def _set_windows(
    part: int, n: int, place: int, low: Ints, length: Ints, strides: Ints, bounds: Ints, stride: Ints
) -> None:
    """Set windows and strides of a node's coordinates, from a place on."""
    for d in range(n):
        bounds[place + d, 0] = low[part, d]
        bounds[place + d, 1] = low[part, d] + length[part, d] - 1
        stride[place + d] = strides[part, d]


@kernel
def _set_limits(rows: Ints, n_checks: int, n_ranges: int, place: int, low: Ints, high: Ints, bounds: Ints) -> None:
    """Set what checks must be, 0, and the limits of complete ranges, from a place on."""
    for c in range(n_checks):
        bounds[place + c, 0] = bounds[place + c, 1] = 0
    for k in range(n_ranges):
        bounds[place + n_checks + k, 0], bounds[place + n_checks + k, 1] = low[rows[k]], high[rows[k]]


@kernel
def _begin(free: Ints, n_free: int, bounds: Ints, inputs: Ints) -> None:
    """Set every free coordinate to the first of its window."""
    for f in range(n_free):
        inputs[f] = bounds[free[f], 0]


@kernel
def _n_runs(free: Ints, n_stepped: int, bounds: Ints) -> int:
    """Return how many runs of pairs there are: a step of the stepped coordinates each."""
    n_runs = 1
    for f in range(n_stepped):
        n_runs *= bounds[free[f], 1] - bounds[free[f], 0] + 1
    return n_runs


@kernel
def _steps_inside(first: int, slope: int, low: int, high: int, j0: int, j1: int) -> tuple[int, int]:
    """Narrow the steps j for which ``low <= first + slope * j <= high``."""
    if slope == 0:
        return (j0, j1) if low <= first <= high else (1, 0)
    if slope > 0:
        if low != -NEVER:
            j0 = max(j0, -((first - low) // slope))
        if high != NEVER:
            j1 = min(j1, (high - first) // slope)
    else:
        if high != NEVER:
            j0 = max(j0, -((high - first) // -slope))
        if low != -NEVER:
            j1 = min(j1, (first - low) // -slope)
    return j0, j1


@kernel
def _run(
    form: Ints, ends: Ends, inputs: Ints, n_inputs: int, runs: int, n_steps: int, bounds: Ints, stride: Ints, z: Ints
) -> PairRun:
    """Return the pairs from the current inputs on, with coordinate `runs` (-1: none) left to run over its window."""
    j0, j1 = 0, n_steps - 1
    left, left_stride, right, right_stride, whole, whole_stride = 0, 0, 0, 0, 0, 0
    for place in range(ends.limited):
        value, slope = 0, (form[place, runs] if runs >= 0 else 0)
        for i in range(n_inputs):
            value += form[place, i] * inputs[i]
        low = bounds[place, 0]
        j0, j1 = _steps_inside(value, slope, low, bounds[place, 1], j0, j1)
        if place < ends.left:
            left += (value - low) * stride[place]
            left_stride += slope * stride[place]
        elif place < ends.right:
            right += (value - low) * stride[place]
            right_stride += slope * stride[place]
        elif place < ends.whole:
            whole += (value - low) * stride[place]
            whole_stride += slope * stride[place]
        z[place, 0], z[place, 1] = value, slope
    if j0 > j1:
        return _NO_PAIRS
    return PairRun(j0, j1, left, left_stride, right, right_stride, whole, whole_stride)


@kernel
def _single(
    form: Ints, divisor: Ints, ends: Ends, inputs: Ints, n_inputs: int, bounds: Ints, stride: Ints, z: Ints
) -> PairRun:
    """Return the one pair at the current inputs, or none: a sum that is a fraction belongs to no table."""
    left, right, whole, fits = 0, 0, 0, True
    for place in range(ends.limited):
        value, low = 0, bounds[place, 0]
        for i in range(n_inputs):
            value += form[place, i] * inputs[i]
        fits &= value % divisor[place] == 0
        value = value // divisor[place]
        fits &= low <= value <= bounds[place, 1]
        if place < ends.left:
            left += (value - low) * stride[place]
        elif place < ends.right:
            right += (value - low) * stride[place]
        elif place < ends.whole:
            whole += (value - low) * stride[place]
        z[place, 0], z[place, 1] = value, 0
    return PairRun(0, 0, left, 0, right, 0, whole, 0) if fits else _NO_PAIRS


@kernel
def _next_run(free: Ints, n_stepped: int, bounds: Ints, inputs: Ints) -> None:
    """Go on to the next run: the last of the stepped coordinates moves fastest."""
    f = n_stepped - 1
    while f >= 0:
        inputs[f] += 1
        if inputs[f] <= bounds[free[f], 1]:
            break
        inputs[f] = bounds[free[f], 0]
        f -= 1


@kernel
def _soft_weight(tables: Numbers, table_length: Ints, table: int, value: int) -> Any:
    size, weights = abs(value), row_of(tables, table)
    return get(weights, size) if size < table_length[table] else zero_of(weights)


@kernel
def run_merge(
    program: Any,
    walk: Any,
    m: int,
    is_draw: bool,
    state: Any,
    messages: Numbers,
    aim: float,
    tolerance: float,
    lift: int,
    all_steps: bool,
) -> int:
    """Go through all pairs of parts that fit together.

    Forward, their products are added to the whole's message. In a draw (`state.key` is given) they are added up until
    the sum passes `aim`, and the coordinates there are `state.picked`; returns 1 when the outcome is within the
    tolerance of another one, 0 when it is sure. With `all_steps` a draw goes through all pairs whatever it picks.

    How many pairs of a run fit follows from where windows lie, which is confidential: loops then take all steps of a
    run, and those that do not fit count for nothing.
    """
    node, left, right = program.group_start.size - 1 + m, program.left[m], program.right[m]
    left_message = part(messages, state.node_offset[left], state.node_size[left])
    right_message = part(messages, state.node_offset[right], state.node_size[right])
    out = part(messages, state.node_offset[node], state.node_size[node])
    inputs, bounds, stride, z = state.inputs, state.walk_bounds, state.walk_stride, state.walk_z
    n_left, n_right = program.node_dim[left], program.node_dim[right]
    ends = Ends(n_left, n_left + n_right, n_left + n_right + walk.n_whole[m], walk.n_limited[m])
    low, length, strides = state.node_low, state.node_length, state.node_stride
    _set_windows(left, n_left, 0, low, length, strides, bounds, stride)
    _set_windows(right, n_right, n_left, low, length, strides, bounds, stride)
    _set_windows(node, walk.n_whole[m], n_left + n_right, low, length, strides, bounds, stride)
    if ends.whole < ends.limited:
        rows, n_checks, n_ranges = walk.range_row[m], walk.n_checks[m], walk.n_ranges[m]
        _set_limits(rows, n_checks, n_ranges, ends.whole, state.rows_low, state.rows_high, bounds)
    free, form = walk.free[m], walk.form[m]
    n_inputs, n_stepped, n_soft = walk.n_free[m], walk.n_stepped[m], walk.n_soft[m]
    _begin(free, n_inputs, bounds, inputs)
    runs = n_inputs - 1 if n_stepped < n_inputs else -1
    n_steps = bounds[free[runs], 1] - bounds[free[runs], 0] + 1 if runs >= 0 else 1
    if is_draw:
        for d in range(program.node_dim[node]):
            inputs[n_inputs + d] = state.key[d]
        n_inputs += program.node_dim[node]
    total, before, after, is_open = 0.0, 0.0, 0.0, True
    for _ in range(_n_runs(free, n_stepped, bounds)):
        if walk.is_whole[m]:
            run = _run(form, ends, inputs, n_inputs, runs, n_steps, bounds, stride, z)
        else:
            run = _single(form, walk.divisor[m], ends, inputs, n_inputs, bounds, stride, z)
        first, last = (0, n_steps - 1) if all_steps else (run.first, run.last)
        for step in range(first, last + 1):
            fits = run.first <= step <= run.last
            j = step if fits else max(0, run.last)
            product = times(
                get(left_message, run.left + run.left_stride * j),
                get(right_message, run.right + run.right_stride * j),
            )
            product = product if fits else zero_of(out)
            for k in range(n_soft):
                value = walk.soft_form[m, k, runs] * j if runs >= 0 else 0
                for i in range(n_inputs):
                    value += walk.soft_form[m, k, i] * inputs[i]
                value = value // walk.soft_divisor[m, k]
                weight = _soft_weight(program.tables, program.table_length, walk.soft_table[m, k], value)
                product = times(product, weight)
            if not is_draw:
                place = run.whole + run.whole_stride * j
                put(out, place, plus(get(out, place), product))
                continue
            total += lowered(product, lift)
            if is_open:
                before, after, is_open = after, total, total <= aim
                if not is_open:
                    for c in range(ends.right):
                        state.picked[c] = z[c, 0] + z[c, 1] * j
                    if not all_steps:
                        return 0 if min(after - aim, aim - before) > tolerance else 1
        _next_run(free, n_stepped, bounds, inputs)
    if not is_draw:
        return 0
    return 0 if not is_open and min(after - aim, aim - before) > tolerance else 1


TABLE_UNITS = 6.0  # relative error of a tabulated weight, times a zero weight if there is one, in units of 2^-53


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
    tabulated: Numbers, n_tabulated: int, is_flat: bool, first: int, at_limit: int, zero_weight: float, weights: Numbers
) -> None:
    """Set the weights of a cell's values, from the first of its window on; its lower limit has a zero weight."""
    for j in range(size_of(weights)):
        size = abs(first + j)
        if is_flat:
            put(weights, j, one_of(weights))
        elif size < n_tabulated:
            put(weights, j, get(tabulated, size))
        else:
            put(weights, j, zero_of(weights))
    place = at_limit - first
    if 0 <= place < size_of(weights):
        put(weights, place, times(number_of(weights, zero_weight), get(weights, place)))


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
            tabulated, n_tabulated = row_of(program.tables, table), program.table_length[table]
            is_flat = program.base[table] == 1.0
            length, out0 = state.prefix_length[position], state.prefix_low[position]
            out = part(messages, state.prefix_offset[position], length)
            first, span = state.cell_first[position], state.cell_span[position]
            at_limit, zero_weight, excess = (
                program.lower[cell] - centre[cell],
                program.zero_weight[table],
                program.zero_weight_excess[table],
            )
            if position == start:
                # The window of the first cell's sum lies inside that of its values.
                _set_weights(tabulated, n_tabulated, is_flat, out0, at_limit, zero_weight, out)
            else:
                before = position - 1
                x_length, x0 = state.prefix_length[before], state.prefix_low[before]
                x = part(messages, state.prefix_offset[before], x_length)
                if program.base[table] >= 0.0 and is_long(x, span):
                    powers = row_of(program.powers, table)
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
                        is_known = abs(at_limit) < n_tabulated
                        weight = get(tabulated, abs(at_limit) if is_known else 0)
                        point = times(number_of(x, excess), weight if is_known else zero_of(x))
                        add_point(x, x0, at_limit, point, out, out0)
                    units += _convolution_units(x_length + length, size_of(powers))
                else:
                    weights = part(mirror, 0, span)
                    _set_weights(tabulated, n_tabulated, is_flat, first, at_limit, zero_weight, weights)
                    is_cut = state.prefix_clips[position] > 0  # else all windows lie at public limits
                    sum_products(x, weights, out0 - x0 - first, is_cut, work, out)
                    units += min(x_length, span) + TABLE_UNITS
                mass = (
                    min(x_length, span) + excess
                )  # terms of an entry, of a weight of at most 1 but for the zero weight
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
    length = LANES
    for i in range(state.prefix_length.size):
        length = max(length, state.prefix_length[i], state.cell_span[i])
    return length


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
