"""Going through the pairs of two parts that fit together: forward to add them up, backward to pick one.

The walk's inputs are the free coordinates of the pair, then the whole's key when it is given. Everything that limits a
pair is a form in them that must lie in a window. Where all forms are whole numbers the last free coordinate is left to
run: everything is linear along it. Otherwise every pair is a line of its own.

The steps of a line take a few arrays each, not the program: handing all of it over takes longer than a line.
"""

from typing import Any, NamedTuple

from congenial.arrays import Ints
from congenial.sampling.jit import kernel
from congenial.sampling.kernels.codes import NEVER
from congenial.sampling.kernels.numbers import get, line_of, lowered, part, plus, put, times, zero_of
from congenial.sampling.kernels.wide import Numbers


class Line(NamedTuple):
    """Pairs that fit, from step `first` to `last`, and where step 0 and the later ones stand in the three messages."""

    first: int
    last: int
    left: int
    left_stride: int
    right: int
    right_stride: int
    whole: int
    whole_stride: int


_NO_LINE = Line(1, 0, 0, 0, 0, 0, 0, 0)


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
def _n_lines(free: Ints, n_stepped: int, bounds: Ints) -> int:
    """Return how many lines of pairs there are: a step of the stepped coordinates each."""
    n_lines = 1
    for f in range(n_stepped):
        n_lines *= bounds[free[f], 1] - bounds[free[f], 0] + 1
    return n_lines


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
) -> Line:
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
        return _NO_LINE
    return Line(j0, j1, left, left_stride, right, right_stride, whole, whole_stride)


@kernel
def _single(
    form: Ints, divisor: Ints, ends: Ends, inputs: Ints, n_inputs: int, bounds: Ints, stride: Ints, z: Ints
) -> Line:
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
    return Line(0, 0, left, 0, right, 0, whole, 0) if fits else _NO_LINE


@kernel
def _next_line(free: Ints, n_stepped: int, bounds: Ints, inputs: Ints) -> None:
    """Go on to the next line: the last of the stepped coordinates moves fastest."""
    f = n_stepped - 1
    while f >= 0:
        inputs[f] += 1
        if inputs[f] <= bounds[free[f], 1]:
            break
        inputs[f] = bounds[free[f], 0]
        f -= 1


@kernel
def _soft_weight(tables: Numbers, table_length: Ints, table: int, value: int) -> Any:
    size, weights = abs(value), line_of(tables, table)
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
    is_steady: bool,
) -> int:
    """Go through all pairs of parts that fit together.

    Forward, their products are added to the whole's message. In a draw (`state.key` is given) they are added up until
    the sum passes `aim`, and the coordinates there are `state.picked`; returns 1 when the outcome is within the
    tolerance of another one, 0 when it is sure. A steady draw goes through all pairs whatever it picks.

    How many pairs of a line fit follows from where windows lie, which is confidential: steady loops take all steps of a
    line, and those that do not fit count for nothing.
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
    for _ in range(_n_lines(free, n_stepped, bounds)):
        if walk.is_whole[m]:
            line = _run(form, ends, inputs, n_inputs, runs, n_steps, bounds, stride, z)
        else:
            line = _single(form, walk.divisor[m], ends, inputs, n_inputs, bounds, stride, z)
        first, last = (0, n_steps - 1) if is_steady else (line.first, line.last)
        for step in range(first, last + 1):
            fits = line.first <= step <= line.last
            j = step if fits else max(0, line.last)
            product = times(
                get(left_message, line.left + line.left_stride * j),
                get(right_message, line.right + line.right_stride * j),
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
                place = line.whole + line.whole_stride * j
                put(out, place, plus(get(out, place), product))
                continue
            total += lowered(product, lift)
            if is_open:
                before, after, is_open = after, total, total <= aim
                if not is_open:
                    for c in range(ends.right):
                        state.picked[c] = z[c, 0] + z[c, 1] * j
                    if not is_steady:
                        return 0 if min(after - aim, aim - before) > tolerance else 1
        _next_line(free, n_stepped, bounds, inputs)
    if not is_draw:
        return 0
    return 0 if not is_open and min(after - aim, aim - before) > tolerance else 1
