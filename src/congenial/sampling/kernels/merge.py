"""Going through the pairs of two parts that fit together: forward to add them up, backward to pick one."""

from typing import Any

from congenial.arrays import Floats, Ints
from congenial.sampling.kernels.codes import NEVER, RANGE, SOFT
from congenial.sampling.kernels.compiled import compiled


@compiled
def _range_of_inner(first: int, slope: int, low: int, high: int, j0: int, j1: int) -> tuple[int, int]:
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


@compiled
def _soft_weight(program: Any, row: int, value: int) -> float:
    table = program.row_table[row]
    size = abs(value)
    return program.tables[table, size] if size < program.table_length[table] else 0.0


@compiled
def run_merge(
    program: Any,
    walk: Any,
    m: int,
    is_draw: bool,
    key: Ints,
    state: Any,
    messages: Floats,
    aim: float,
    tolerance: float,
    picked: Ints,
) -> int:
    """Go through all pairs of parts that fit together.

    Forward, their products are added to the whole's message. In a draw (the whole's key is given) they are added up
    until the sum passes `aim`, and the coordinates there are `picked`; returns 1 when the outcome is within the
    tolerance of another one, 0 when it is sure.
    """
    n_groups = program.group_start.size - 1
    node, left, right = n_groups + m, program.left[m], program.right[m]
    n_left, n_right = program.node_dim[left], program.node_dim[right]
    n_z, n_x = n_left + n_right, program.node_dim[node]
    n_free, n_rows = walk.n_free[m], walk.n_rows[m]
    n_inputs = n_free + (n_x if is_draw else 0)
    inputs, first_of, length_of = state.inputs, state.first_of, state.length_of
    rows_low, rows_high = state.rows_low, state.rows_high
    z_first, z_slope = state.z_first, state.z_slope
    left_message = messages[state.node_offset[left] : state.node_offset[left] + state.node_size[left]]
    right_message = messages[state.node_offset[right] : state.node_offset[right] + state.node_size[right]]
    out = messages[state.node_offset[node] : state.node_offset[node] + state.node_size[node]]
    for f in range(n_free):
        coordinate = walk.free[m, f]
        part, d = (left, coordinate) if coordinate < n_left else (right, coordinate - n_left)
        first_of[f], length_of[f] = state.node_low[part, d], state.node_length[part, d]
        inputs[f] = first_of[f]
    for d in range(n_x if is_draw else 0):
        inputs[n_free + d] = key[d]
    inner = n_free - 1
    n_inner = length_of[inner] if n_free > 0 else 1
    n_outer = 1
    for f in range(n_free - 1):
        n_outer *= length_of[f]
    total = 0.0
    for _ in range(n_outer):
        j0, j1 = 0, n_inner - 1
        left_index, left_slope, right_index, right_slope, out_index, out_slope = 0, 0, 0, 0, 0, 0
        if walk.is_whole[m]:
            for c in range(n_z):
                value, slope = 0, (walk.z[m, c, inner] if n_free > 0 else 0)
                for i in range(n_inputs):
                    value += walk.z[m, c, i] * inputs[i]
                part, d = (left, c) if c < n_left else (right, c - n_left)
                low = state.node_low[part, d]
                j0, j1 = _range_of_inner(value, slope, low, low + state.node_length[part, d] - 1, j0, j1)
                z_first[c], z_slope[c] = value, slope
                stride = state.node_stride[part, d]
                if c < n_left:
                    left_index += (value - low) * stride
                    left_slope += slope * stride
                else:
                    right_index += (value - low) * stride
                    right_slope += slope * stride
            for c in range(walk.n_checks[m]):
                value, slope = 0, (walk.checks[m, c, inner] if n_free > 0 else 0)
                for i in range(n_inputs):
                    value += walk.checks[m, c, i] * inputs[i]
                j0, j1 = _range_of_inner(value, slope, 0, 0, j0, j1)
                if slope != 0 and j0 <= j1 and value + slope * j0 != 0:
                    j0, j1 = 1, 0
            if not is_draw:
                for d in range(n_x):
                    value, slope = 0, (walk.x[m, d, inner] if n_free > 0 else 0)
                    for i in range(n_inputs):
                        value += walk.x[m, d, i] * inputs[i]
                    low = state.node_low[node, d]
                    j0, j1 = _range_of_inner(value, slope, low, low + state.node_length[node, d] - 1, j0, j1)
                    out_index += (value - low) * state.node_stride[node, d]
                    out_slope += slope * state.node_stride[node, d]
            for place in range(n_rows):
                r = walk.row[m, place]
                if program.row_kind[r] == RANGE:
                    value, slope = 0, (walk.row_form[m, place, inner] if n_free > 0 else 0)
                    for i in range(n_inputs):
                        value += walk.row_form[m, place, i] * inputs[i]
                    j0, j1 = _range_of_inner(value, slope, rows_low[r], rows_high[r], j0, j1)
        for j in range(j0, j1 + 1):
            if not walk.is_whole[m]:
                # Some sums are fractions of the inputs: look at every one.
                if n_free > 0:
                    inputs[inner] = first_of[inner] + j
                fits = True
                left_index = right_index = out_index = 0
                for c in range(n_z):
                    value = 0
                    for i in range(n_inputs):
                        value += walk.z[m, c, i] * inputs[i]
                    part, d = (left, c) if c < n_left else (right, c - n_left)
                    if value % walk.z_divisor[m, c] != 0:
                        fits = False
                        break
                    value = value // walk.z_divisor[m, c]
                    place = value - state.node_low[part, d]
                    if place < 0 or place >= state.node_length[part, d]:
                        fits = False
                        break
                    z_first[c], z_slope[c] = value, 0
                    if c < n_left:
                        left_index += place * state.node_stride[part, d]
                    else:
                        right_index += place * state.node_stride[part, d]
                for c in range(walk.n_checks[m] if fits else 0):
                    value = 0
                    for i in range(n_inputs):
                        value += walk.checks[m, c, i] * inputs[i]
                    fits = fits and value == 0
                for d in range(n_x if fits and not is_draw else 0):
                    value = 0
                    for i in range(n_inputs):
                        value += walk.x[m, d, i] * inputs[i]
                    if value % walk.x_divisor[m, d] != 0:
                        fits = False
                        break
                    place = value // walk.x_divisor[m, d] - state.node_low[node, d]
                    if place < 0 or place >= state.node_length[node, d]:
                        fits = False
                        break
                    out_index += place * state.node_stride[node, d]
                for place in range(n_rows if fits else 0):
                    value, r = 0, walk.row[m, place]
                    for i in range(n_inputs):
                        value += walk.row_form[m, place, i] * inputs[i]
                    value = value // walk.row_divisor[m, place]
                    if program.row_kind[r] == RANGE and (value < rows_low[r] or value > rows_high[r]):
                        fits = False
                if n_free > 0:
                    inputs[inner] = first_of[inner]
                if not fits:
                    continue
                product = left_message[left_index] * right_message[right_index]
            else:
                product = left_message[left_index + left_slope * j] * right_message[right_index + right_slope * j]
            if product == 0.0:
                continue
            for place in range(n_rows):
                r = walk.row[m, place]
                if program.row_kind[r] == SOFT:
                    value = walk.row_form[m, place, inner] * j if n_free > 0 else 0
                    for i in range(n_inputs):
                        value += walk.row_form[m, place, i] * inputs[i]
                    product *= _soft_weight(program, r, value // walk.row_divisor[m, place])
            if not is_draw:
                out[out_index + out_slope * j] += product
                continue
            before = total
            total += product
            if total > aim:
                for c in range(n_z):
                    picked[c] = z_first[c] + z_slope[c] * j
                return 0 if min(total - aim, aim - before) > tolerance else 1
        # Next outer state: the last of the outer coordinates runs fastest.
        f = inner - 1
        while f >= 0:
            inputs[f] += 1
            if inputs[f] < first_of[f] + length_of[f]:
                break
            inputs[f] = first_of[f]
            f -= 1
    return 1 if is_draw else 0
