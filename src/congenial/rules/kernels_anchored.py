"""Kernels of the rule *anchored*: exponents that make means meet sums, and whole numbers of least expected error.

All loops go in one order and use additions, products, quotients and square roots alone: the same doubles on every
machine. Costs of whole numbers are integers, so that what is least is the same everywhere, too.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.rules.kernels_cell_posteriors import exp_of
from congenial.sampling.jit import kernel

_MOST_STEPS = 40
_LARGEST_STEP = 0.8
_LARGEST_EXPONENT = 12.0
_FARTHEST = 600.0
_NEAR_ENOUGH = 0.05
_NEAR_ENOUGH_BAND = 0.02
_BAND_STEPS = 25
_COST = 2.0**30
_FAR_COST = 5.0
_OUTSIDE = 1e-3
_PRICE, _MOST_CARRIED = 0.1, 2.0


class SumModel(NamedTuple):
    """How exact sums tie the cells of one kind of conditions; public.

    Attributes
    ----------
    rows_of_cell, first_row : arrays
        The exact sums that each cell is in, and where the list of each cell begins.
    cells_by_part, first_of_part : arrays
        The open cells of each part of a band, whose sum is anchored.
    tail, head : arrays (cell,)
        The two sums that a cell is in, as nodes of a graph; the last node stands for none.
    n_nodes : int
    group_of_cell : array (cell,)
        Cells that are in the same sums; of open cells in none, the last group.
    rows_of_group, first_row_of_group : arrays
    is_open : array (cell,)
    lower, upper : arrays (cell,)
        Limits; -1 above where there is none.
    """

    rows_of_cell: Ints
    first_row: Ints
    cells_by_part: Ints
    first_of_part: Ints
    tail: Ints
    head: Ints
    n_nodes: int
    group_of_cell: Ints
    groups_of_row: Ints
    first_group: Ints
    is_open: NDArray[np.bool_]
    lower: Ints
    upper: Ints


@kernel
def raked_groups(shares: Floats, wanted: Ints, sums: SumModel, out: Floats) -> None:
    """Put shares of groups in proportion until they have the exact sums of each area, by turns.

    Parameters
    ----------
    shares : array (group,)
    wanted : array (area, sum)
        What the open cells of each exact sum must be.
    out : array (area, group)
    """
    n_rows = wanted.shape[1]
    for area in range(len(wanted)):
        for group in range(len(shares)):
            out[area, group] = shares[group]
        for _ in range(12):
            for row in range(n_rows):
                total = 0.0
                for place in range(sums.first_group[row], sums.first_group[row + 1]):
                    total += out[area, sums.groups_of_row[place]]
                factor = wanted[area, row] / total if total > 0.0 else 0.0
                for place in range(sums.first_group[row], sums.first_group[row + 1]):
                    out[area, sums.groups_of_row[place]] *= factor


@kernel
def tilted_moments(chances: Floats, exponent: float, n_counts: int) -> tuple[float, float, float]:
    """Return the sum, the mean and the variance of chances times ``exp(exponent count)``, from a common first one."""
    total, mean, square = 0.0, 0.0, 0.0
    if exponent * (n_counts - 1) > _FARTHEST:  # from the end down, where the way up would leave the doubles
        ratio, weight = exp_of(-exponent), 1.0
        for count in range(n_counts - 1, -1, -1):
            chance = chances[count] * weight
            total += chance
            mean += chance * count
            square += chance * count * count
            weight *= ratio
    else:
        ratio, weight = exp_of(exponent), 1.0
        if exponent > 0.0:
            weight = exp_of(-exponent * (n_counts - 1))
        for count in range(n_counts):
            chance = chances[count] * weight
            total += chance
            mean += chance * count
            square += chance * count * count
            weight *= ratio
    total = max(total, 1e-300)
    mean /= total
    return total, mean, max(square / total - mean * mean, 1e-6)


@kernel
def tilt(chances: Floats, exponent: float, total: float, n_counts: int) -> None:
    """Multiply chances by ``exp(exponent count)``, divided by a sum that is known."""
    if exponent * (n_counts - 1) > _FARTHEST:
        ratio, weight = exp_of(-exponent), 1.0 / total
        for count in range(n_counts - 1, -1, -1):
            chances[count] *= weight
            weight *= ratio
        return
    ratio, weight = exp_of(exponent), 1.0
    if exponent > 0.0:
        weight = exp_of(-exponent * (n_counts - 1))
    weight /= total
    for count in range(n_counts):
        chances[count] *= weight
        weight *= ratio


@kernel
def solve_positive(matrix: Floats, values: Floats, n: int) -> None:
    """Solve a positive definite system in place, by Cholesky's factors."""
    for i in range(n):
        for j in range(i + 1):
            rest = matrix[i, j]
            for k in range(j):
                rest -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = np.sqrt(max(rest, 1e-12)) if i == j else rest / matrix[j, j]
    for i in range(n):
        for k in range(i):
            values[i] -= matrix[i, k] * values[k]
        values[i] /= matrix[i, i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            values[i] -= matrix[k, i] * values[k]
        values[i] /= matrix[i, i]


@kernel
def meet_sums(
    chances: Floats, firsts: Ints, wanted: Ints, exponents: Floats, sums: SumModel, means: Floats, spreads: Floats
) -> None:
    """Tilt the chances of each area, in place, until the means of its cells have the exact sums.

    Parameters
    ----------
    chances : array (area, cell, count)
    wanted : array (area, sum)
    exponents : array (cell,)
        Of columns: added to those of the exact sums.
    means, spreads : arrays (area, cell)
        Become the means and variances.
    """
    n_areas, n_cells, width = chances.shape
    n_rows = wanted.shape[1]
    matrix = np.empty((n_rows, n_rows))
    gap = np.empty(n_rows)
    level = np.empty(n_rows)
    totals = np.empty(n_cells)
    tilts = np.empty(n_cells)
    ends = np.empty(n_cells, np.int64)
    for area in range(n_areas):
        level[:] = 0.0
        for cell in range(n_cells):
            end = width
            while end > 1 and chances[area, cell, end - 1] == 0.0:
                end -= 1
            ends[cell] = end
        for step in range(_MOST_STEPS):
            matrix[:] = 0.0
            for row in range(n_rows):
                gap[row] = wanted[area, row]
            for cell in range(n_cells):
                exponent = exponents[cell]
                for place in range(sums.first_row[cell], sums.first_row[cell + 1]):
                    exponent += level[sums.rows_of_cell[place]]
                tilts[cell] = exponent
                if ends[cell] == 1:
                    totals[cell], mean, spread = chances[area, cell, 0], 0.0, 1e-6
                    tilts[cell] = 0.0
                else:
                    totals[cell], mean, spread = tilted_moments(chances[area, cell], exponent, ends[cell])
                means[area, cell] = firsts[area, cell] + mean
                spreads[area, cell] = spread
                for place in range(sums.first_row[cell], sums.first_row[cell + 1]):
                    row = sums.rows_of_cell[place]
                    gap[row] -= means[area, cell]
                    for other in range(sums.first_row[cell], place + 1):
                        matrix[row, sums.rows_of_cell[other]] += spread
            largest = 0.0
            for row in range(n_rows):
                largest = max(largest, abs(gap[row]))
            if largest < _NEAR_ENOUGH or step == _MOST_STEPS - 1:
                break
            for row in range(n_rows):
                matrix[row, row] += 1e-4
            solve_positive(matrix, gap, n_rows)
            largest = 0.0
            for row in range(n_rows):
                largest = max(largest, abs(gap[row]))
            factor = 1.0 if largest < _LARGEST_STEP else _LARGEST_STEP / largest
            for row in range(n_rows):
                level[row] = min(max(level[row] + factor * gap[row], -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
        for cell in range(n_cells):
            tilt(chances[area, cell], tilts[cell], totals[cell], ends[cell])


@kernel
def inherit_zeros(chances: Floats, firsts: Ints, nearest: Ints, sums: SumModel) -> None:
    """Leave no chance but 0 to the cells that are 0 in the nearest table, where their limits allow it."""
    n_areas, n_cells, _ = chances.shape
    for area in range(n_areas):
        for cell in range(n_cells):
            if sums.is_open[cell] and nearest[area, cell] == 0 and sums.lower[cell] == 0:
                chances[area, cell] = 0.0
                chances[area, cell, 0] = 1.0
                firsts[area, cell] = 0


@kernel
def anchor_bands(
    chances: Floats, firsts: Ints, estimates: Floats, nearest: Ints, sums: SumModel, means: Floats
) -> None:
    """Tilt the chances of each part of a band, in place, until its mean is between the estimate and the nearest table.

    Parameters
    ----------
    estimates, nearest : arrays (area, cell)
    means : array (area, cell)
        Become those of the tilted chances.
    """
    n_areas, n_cells, width = chances.shape
    totals = np.empty(n_cells)
    ends = np.empty(n_cells, np.int64)
    for area in range(n_areas):
        for part in range(len(sums.first_of_part) - 1):
            start, stop = sums.first_of_part[part], sums.first_of_part[part + 1]
            target = 0.0
            for place in range(start, stop):
                cell = sums.cells_by_part[place]
                target += 0.5 * (estimates[area, cell] + nearest[area, cell])
                end = width
                while end > 1 and chances[area, cell, end - 1] == 0.0:
                    end -= 1
                ends[cell] = end
            exponent = 0.0
            for step in range(_BAND_STEPS):
                mean, spread = 0.0, 0.0
                for place in range(start, stop):
                    cell = sums.cells_by_part[place]
                    if ends[cell] == 1:
                        totals[cell], one, width_of_one = chances[area, cell, 0], 0.0, 1e-6
                    else:
                        totals[cell], one, width_of_one = tilted_moments(chances[area, cell], exponent, ends[cell])
                    means[area, cell] = firsts[area, cell] + one
                    mean += means[area, cell]
                    spread += width_of_one
                gap = target - mean
                if abs(gap) < _NEAR_ENOUGH_BAND or abs(exponent) > 11.0 or step == _BAND_STEPS - 1:
                    break
                exponent += min(max(gap / spread, -_LARGEST_STEP), _LARGEST_STEP)
            for place in range(start, stop):
                cell = sums.cells_by_part[place]
                if ends[cell] == 1:
                    tilt(chances[area, cell], 0.0, totals[cell], 1)
                else:
                    tilt(chances[area, cell], exponent, totals[cell], ends[cell])


@kernel
def add_up(measured: Ints, nearest: Ints, means: Floats, whole: Ints, real: Floats) -> None:
    """Add the sums over areas of measurements and nearest tables (2, cell), and of means (cell,), in their order."""
    for area in range(len(means)):
        for cell in range(means.shape[1]):
            whole[0, cell] += measured[area, cell]
            whole[1, cell] += nearest[area, cell]
            real[cell] += means[area, cell]


@kernel
def run_carry(measured: Ints, nearest: Ints, means: Floats, weights: Floats, out: Floats) -> None:
    """Put into `out` how far the means of a run are above its target: nearest weighted with measurements (cell,)."""
    out[:] = 0.0
    for area in range(len(means)):
        for cell in range(means.shape[1]):
            target = measured[area, cell] + weights[cell] * (nearest[area, cell] - measured[area, cell])
            out[cell] += means[area, cell] - target


@kernel
def unit_costs(chances: Floats, first: int, price: float, is_held: bool, count: int) -> int:
    """Return what one record more costs at a count: the change of twice the expected absolute error, and the price."""
    below = count - first
    if below < 0:
        cost = -1.0 + _OUTSIDE * below
    elif below >= len(chances):
        cost = 1.0 + _OUTSIDE * (below - len(chances) + 1)
    else:
        inside = 0.0
        for place in range(below + 1):
            inside += chances[place]
        cost = 2.0 * min(inside, 1.0) - 1.0
    if is_held:
        cost += _FAR_COST
    return int(np.floor((cost + price) * _COST + 0.5))


@kernel
def cheapest_cycle(
    tail: Ints, head: Ints, more: Ints, less: Ints, n_nodes: int, distance: Ints, origin: Ints, mark: Ints
) -> int:
    """Return a node on a cycle of moves that costs less than nothing, or -1; `origin` has the moves that lead to it.

    A move is ``2 cell`` for one record more, along the cell's arc, and ``2 cell + 1`` for one less, against it.
    """
    distance[:n_nodes] = 0
    origin[:n_nodes] = -1
    while True:
        has_changed = False
        for cell in range(len(tail)):
            if tail[cell] == head[cell]:
                continue
            if more[cell] < _NO_MOVE and distance[tail[cell]] + more[cell] < distance[head[cell]]:
                distance[head[cell]] = distance[tail[cell]] + more[cell]
                origin[head[cell]] = 2 * cell
                has_changed = True
            if less[cell] < _NO_MOVE and distance[head[cell]] + less[cell] < distance[tail[cell]]:
                distance[tail[cell]] = distance[head[cell]] + less[cell]
                origin[tail[cell]] = 2 * cell + 1
                has_changed = True
        if not has_changed:
            return -1
        mark[:n_nodes] = -1
        for start in range(n_nodes):
            node = start
            while node >= 0 and mark[node] == -1:
                mark[node] = start
                move = origin[node]
                if move < 0:
                    node = -1
                else:
                    node = tail[move // 2] if move % 2 == 0 else head[move // 2]
            if node >= 0 and mark[node] == start:
                return node


_NO_MOVE = 2**60


@kernel
def whole_numbers(
    chances: Floats, firsts: Ints, means: Floats, nearest: Ints, words: Ints, carry: Floats, sums: SumModel, out: Ints
) -> None:
    """Decide the whole numbers of each area, given its exact sums, and carry what columns are off to the next area.

    Each area begins at its nearest table, which has the exact sums, and moves records along cycles of moves that cost
    less than nothing, until there are none: then no table with these sums costs less, as costs are convex in each cell
    and cells are arcs of a graph whose nodes are sums.

    Parameters
    ----------
    nearest : array (area, cell)
    words : array (area, cell)
        Small public numbers that are added to costs: they decide between equals.
    carry : array (cell,)
        How far columns are too high; from area to area.
    out : array (area, cell)
    """
    n_areas, n_cells, _ = chances.shape
    more = np.empty(n_cells, np.int64)
    less = np.empty(n_cells, np.int64)
    is_held = np.empty(n_cells, np.bool_)
    price = np.empty(n_cells)
    distance = np.empty(sums.n_nodes, np.int64)
    origin = np.empty(sums.n_nodes, np.int64)
    mark = np.empty(sums.n_nodes, np.int64)
    for area in range(n_areas):
        for cell in range(n_cells):
            out[area, cell] = nearest[area, cell]
            more[cell] = _NO_MOVE
            less[cell] = _NO_MOVE
            price[cell] = _PRICE * min(max(carry[cell], -_MOST_CARRIED), _MOST_CARRIED)
            is_held[cell] = firsts[area, cell] == 0 and chances[area, cell, 0] >= 1.0
            if not sums.is_open[cell]:
                continue
            if sums.tail[cell] == sums.head[cell]:  # in no exact sum: by itself
                while not is_held[cell]:
                    count = out[area, cell]
                    rise = unit_costs(chances[area, cell], firsts[area, cell], price[cell], False, count)
                    fall = unit_costs(chances[area, cell], firsts[area, cell], price[cell], False, count - 1)
                    if rise + words[area, cell] < 0 and count != sums.upper[cell]:
                        out[area, cell] += 1
                    elif fall + words[area, cell] > 0 and count != sums.lower[cell]:
                        out[area, cell] -= 1
                    else:
                        break
                continue
            set_moves(chances, firsts, price, is_held, words, sums, area, cell, out, more, less)
        while True:
            node = cheapest_cycle(sums.tail, sums.head, more, less, sums.n_nodes, distance, origin, mark)
            if node < 0:
                break
            start = node
            while True:
                move = origin[node]
                cell = move // 2
                out[area, cell] += 1 if move % 2 == 0 else -1
                node = sums.tail[cell] if move % 2 == 0 else sums.head[cell]
                set_moves(chances, firsts, price, is_held, words, sums, area, cell, out, more, less)
                if node == start:
                    break
        for cell in range(n_cells):
            carry[cell] += out[area, cell] - means[area, cell]


@kernel
def set_moves(
    chances: Floats,
    firsts: Ints,
    price: Floats,
    is_held: NDArray[np.bool_],
    words: Ints,
    sums: SumModel,
    area: int,
    cell: int,
    out: Ints,
    more: Ints,
    less: Ints,
) -> None:
    """Set what one record more and one less of a cell cost."""
    count = out[area, cell]
    row, first = chances[area, cell], firsts[area, cell]
    more[cell] = _NO_MOVE
    less[cell] = _NO_MOVE
    if count != sums.upper[cell]:
        more[cell] = unit_costs(row, first, price[cell], is_held[cell], count) + words[area, cell]
    if count > sums.lower[cell]:
        less[cell] = -unit_costs(row, first, price[cell], is_held[cell], count - 1) - words[area, cell]
