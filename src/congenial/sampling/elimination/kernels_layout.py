"""Ranges and windows of all sums of one table."""

from typing import Any

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.grouped_cells_and_lattice import ROUNDS
from congenial.sampling.jit import kernel
from congenial.sampling.kernel_scaled_floats import EQUAL, FAR, NEVER, NONE, RANGE


@kernel
def _clipped(value: int) -> int:
    return max(-NEVER, min(NEVER, value))


@kernel
def _limited(value: int) -> int:
    """Return a deviation's limit; one that is far off counts as none."""
    return -NEVER if value < -FAR else NEVER if value > FAR else value


@kernel
def _added(x: int, y: int) -> int:
    """Return the sum of two lower limits, or of two upper ones: none if there is none of either."""
    return x if abs(x) == NEVER else y if abs(y) == NEVER else x + y


@kernel
def _scaled(coefficient: int, limit: int) -> int:
    """Return a multiple of a limit."""
    if abs(limit) != NEVER:
        return coefficient * limit
    return limit if coefficient > 0 else -limit


@kernel
def _group_ranges(program: Any, centre: Ints, state: Any) -> None:
    """Set the range of each group's deviation, and the limits of each hard row's, by interval propagation.

    Rows are gone through as by `conditions.integer_program.propagate`, so no range is wider than the public one.
    """
    n_groups = program.group_start.size - 1
    low, high, totals = state.group_low, state.group_high, state.group_total
    rows_low, rows_high = state.rows_low, state.rows_high
    kinds, coefficients = program.row_kind, program.row_coefficient
    for g in range(n_groups):
        least, most, total = 0, 0, 0
        for position in range(program.group_start[g], program.group_start[g + 1]):
            cell = program.cell_at[position]
            value = centre[cell]
            below, above = _limited(program.lower[cell] - value), _limited(program.upper[cell] - value)
            least, most, total = _added(least, below), _added(most, above), total + value
            state.cell_below[position], state.cell_above[position] = below, above
        low[g], high[g], totals[g] = least, most, total
    for r in range(kinds.size):
        value = 0
        for g in range(n_groups):
            value += coefficients[r, g] * totals[g]
        if kinds[r] == EQUAL:
            rows_low[r] = rows_high[r] = 0
        elif kinds[r] == RANGE:
            rows_low[r] = -NEVER if program.row_lower[r] == -NEVER else _clipped(program.row_lower[r] - value)
            rows_high[r] = NEVER if program.row_upper[r] == NEVER else _clipped(program.row_upper[r] - value)
            rows_low[r] = -NEVER if rows_low[r] < -FAR else rows_low[r]
            rows_high[r] = NEVER if rows_high[r] > FAR else rows_high[r]
        else:
            rows_low[r], rows_high[r] = -NEVER, NEVER
    for _ in range(ROUNDS):
        changed = False
        for r in range(kinds.size):
            if kinds[r] > RANGE:  # soft and free rows limit nothing
                continue
            for side in range(2):
                # side 0: sum <= rows_high; side 1: -sum <= -rows_low
                limit = rows_high[r] if side == 0 else -rows_low[r]
                if limit >= FAR:
                    continue
                known, open_terms = 0, 0
                for g in range(n_groups):
                    coefficient = coefficients[r, g] if side == 0 else -coefficients[r, g]
                    if coefficient != 0:
                        end = low[g] if coefficient > 0 else high[g]
                        if abs(end) == NEVER:
                            open_terms += 1
                        else:
                            known += coefficient * end
                if open_terms > 1:
                    continue
                for g in range(n_groups):
                    coefficient = coefficients[r, g] if side == 0 else -coefficients[r, g]
                    if coefficient == 0:
                        continue
                    end = low[g] if coefficient > 0 else high[g]
                    is_open = abs(end) == NEVER
                    if open_terms == 1 and not is_open:
                        continue
                    slack = limit - (known if is_open else known - coefficient * end)
                    if coefficient > 0:
                        top = slack // coefficient
                        if top < high[g] and top < FAR:
                            high[g], changed = top, True
                    else:
                        bottom = -(slack // -coefficient)
                        if bottom > low[g] and bottom > -FAR:
                            low[g], changed = bottom, True
        if not changed:
            break


@kernel
def _window(low: int, high: int, half: int) -> tuple[int, int, bool]:
    """Return start and length of a window of a range, and whether it leaves anything out.

    The length depends on the range's length and the half-width only, not on where the centre lies in the range.
    """
    if half >= 0 and (low == -NEVER or high == NEVER or high - low > 2 * half):
        start = max(-half, low)
        if high != NEVER:
            start = min(start, high - 2 * half)
        return start, 2 * half + 1, True
    return low, high - low + 1, False


@kernel
def lay_out(program: Any, centre: Ints, state: Any) -> int:
    """Place the windows of all messages; return the number of entries they need, or -1 where a sum has no limit."""
    _group_ranges(program, centre, state)
    n_groups = program.group_start.size - 1
    low, high, rows_low, rows_high = state.group_low, state.group_high, state.rows_low, state.rows_high
    cell_below, cell_above, used = state.cell_below, state.cell_above, 0
    for g in range(n_groups):
        start, stop = program.group_start[g], program.group_start[g + 1]
        rest_low, rest_high = 0, 0
        for position in range(stop - 1, start - 1, -1):  # what the cells after this one can be
            state.rest_low[position], state.rest_high[position] = rest_low, rest_high
            rest_low, rest_high = _added(rest_low, cell_below[position]), _added(rest_high, cell_above[position])
        own_low, own_high, log_mass, log_span, known_span, known_table = 0, 0, 0.0, 0.0, NONE, NONE
        clips, least, most, group_low, group_high = 0, rest_low, rest_high, low[g], high[g]
        for position in range(start, stop):
            cell = program.cell_at[position]
            table, below, above = program.table_of[cell], cell_below[position], cell_above[position]
            own_low, own_high = _added(own_low, below), _added(own_high, above)
            rest_low, rest_high = state.rest_low[position], state.rest_high[position]
            first, last = own_low, own_high
            if group_low != -NEVER and rest_high != NEVER:
                first = max(first, group_low - rest_high)
            if group_high != NEVER and rest_low != -NEVER:
                last = min(last, group_high - rest_low)
            begin, length, is_clipped = _window(first, last, program.prefix_half[position])
            if begin == -NEVER or length > FAR:
                return -1
            # What the other cells of the group can be at least and at most limits this one too.
            upmost = above
            if group_high != NEVER and least != -NEVER:
                above = min(above, group_high - (least - below))
            if group_low != -NEVER and most != NEVER:
                below = max(below, group_low - (most - upmost))
            first, span, is_cut = _window(_limited(below), _limited(above), program.table_reach[table])
            if first == -NEVER or span > FAR:  # not measured, and without a limit
                return -1
            clips += is_clipped + is_cut
            state.cell_first[position], state.cell_span[position] = first, span
            state.prefix_low[position] = begin
            state.prefix_length[position] = length
            state.prefix_offset[position] = used
            state.prefix_clips[position] = clips
            used += length
            # No weight but a zero weight's is above 1: the values that limits allow bound a cell's mass too.
            if span != known_span or table != known_table:  # a logarithm for each cell was a third of all this
                known_span, known_table = span, table
                log_span = np.log(span + program.zero_weight_excess[table])
            log_mass += min(program.log_mass[cell], log_span)
            state.prefix_log_mass[position] = log_mass
        if stop > start:
            state.node_low[g, 0] = state.prefix_low[stop - 1]
            state.node_length[g, 0] = state.prefix_length[stop - 1]
            state.node_offset[g] = state.prefix_offset[stop - 1]
            state.node_size[g] = state.prefix_length[stop - 1]
        else:
            state.node_offset[g], state.node_size[g] = used, 1
            used += 1
        state.node_stride[g, 0] = 1
        state.node_clips[g], state.node_log_mass[g] = clips, log_mass
    for m in range(program.left.size):
        node, left, right = n_groups + m, program.left[m], program.right[m]
        # Components that are finished are a factor of every pair: what their windows left out is counted by itself.
        is_factor = program.is_factor[m]
        state.node_log_mass[node] = state.node_log_mass[right] + (0.0 if is_factor else state.node_log_mass[left])
        clips = state.node_clips[right] + (0 if is_factor else state.node_clips[left])
        size = 1
        for d in range(program.node_dim[node] - 1, -1, -1):
            own_low, own_high, r = 0, 0, program.coordinate_row[node, d]
            out_low, out_high = 0, 0
            for g in range(n_groups):
                inside = program.coordinate_coefficient[node, d, g]
                coefficient = inside if inside != 0 else (program.row_coefficient[r, g] if r >= 0 else 0)
                if coefficient == 0:
                    continue
                least = low[g] if coefficient > 0 else high[g]
                most = high[g] if coefficient > 0 else low[g]
                least, most = _scaled(coefficient, least), _scaled(coefficient, most)
                if inside != 0:
                    own_low, own_high = _added(own_low, least), _added(own_high, most)
                else:
                    out_low, out_high = _added(out_low, least), _added(out_high, most)
            if r >= 0 and program.row_kind[r] <= RANGE:
                if rows_low[r] != -NEVER and out_high != NEVER:
                    own_low = max(own_low, rows_low[r] - out_high)
                if rows_high[r] != NEVER and out_low != -NEVER:
                    own_high = min(own_high, rows_high[r] - out_low)
            begin, length, is_clipped = _window(own_low, own_high, program.coordinate_half[node, d])
            if begin == -NEVER or length > FAR:
                return -1
            clips += is_clipped
            state.node_low[node, d], state.node_length[node, d], state.node_stride[node, d] = begin, length, size
            size *= length
            if size > FAR:
                return -1
        state.node_clips[node] = clips
        state.node_offset[node], state.node_size[node] = used, size
        used += size
    return used
