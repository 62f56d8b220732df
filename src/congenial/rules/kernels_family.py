"""A parent's counts shared out among its children: least squares in integers, decided by public words among equals.

Estimates are whole numbers of a small unit, ``2**-bits`` of a count, so that all that is compared is exact and the same
on every machine. A *family* is a parent with its children, which stand together.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.sampling.jit import kernel

# Status of a call: 0, or the number of the first family that could not be decided, from 1 on.

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_MIX = np.uint64(0x94D049BB133111EB)
_BY_30, _BY_27, _BY_31 = np.uint64(30), np.uint64(27), np.uint64(31)

_WORD_BITS = 42  # beside a fraction of 20 bits
PATH_WORD_BITS = 14  # of words that are added up along paths
_MOST_SWEEPS = 40
_MOST_BITS = 61
_ENDLESS = 2**62


class Grid(NamedTuple):
    """A transport: open rows (children) and columns (cells) of a family, numbered from 0; nodes are rows, then columns.

    Attributes
    ----------
    target, words : array (row, column)
        Estimates, and words that are part of the cost of each unit.
    is_open : array (row, column)
    counts : array (row, column)
    needs : array (node,)
        What the counts of a row or column lack.
    prices : array (node,)
    costs : array (number,)
        What units cost, where that is not a square of differences from targets; of no size where it is. Those of a row
        and column begin at `first`: of the units that follow on `width` counts from `low` on, ascending. Beyond these
        each unit costs 1 more.
    first, low, width : array (row, column)
    """

    target: Ints
    words: Ints
    is_open: NDArray[np.bool_]
    counts: Ints
    needs: Ints
    prices: Ints
    costs: Ints
    first: Ints
    low: Ints
    width: Ints


class Paths(NamedTuple):
    """Shortest paths: what is known of each node, and a heap of nodes by distance, whose size is in `size`."""

    distance: Ints
    origin: Ints
    is_settled: NDArray[np.bool_]
    heap_distance: Ints
    heap_node: Ints
    size: Ints


@kernel
def tie_word(key: np.uint64, place: int, n_cells: int, cell: int) -> np.uint64:
    """Return the public random word of a cell of a unit: splitmix64 at the cell's number in the whole level."""
    word = key + np.uint64(place * n_cells + cell + 1) * _GOLDEN
    word = (word ^ (word >> _BY_30)) * _FIRST_MIX
    word = (word ^ (word >> _BY_27)) * _SECOND_MIX
    return word ^ (word >> _BY_31)


@kernel
def share_cells(
    estimates: Ints,
    starts: Ints,
    parents: Ints,
    cells: Ints,
    barred: NDArray[np.bool_],
    key: np.uint64,
    first_place: int,
    bits: int,
    out: Ints,
) -> int:
    """Share out each cell by itself: children not below 0 with the parent's sum, nearest to the estimates.

    A count k of a child costs its unit number k at ``k - estimate``, whatever the child: units are taken in that
    order. All below the *level* of real numbers less one are taken, and of the next one unit of each child that is
    open, those with the largest fractions, and among these with the largest words.

    Parameters
    ----------
    estimates : array (child, cell)
        In units of ``2**-bits``.
    starts : array (family + 1,)
        Where the children of each family begin.
    parents : array (family, cell)
    cells : array
        The cells to share out.
    barred : array (child, cell)
        Structural zeros; of no size where there are none.
    first_place : int
        The number of the first child in its whole level.
    out : array (child, cell)
    """
    n_cells = estimates.shape[1]
    one = 1 << bits
    most = 1
    for family in range(len(starts) - 1):
        most = max(most, starts[family + 1] - starts[family])
    members = np.empty(most, np.int64)
    ranks = np.empty(most, np.int64)
    for family in range(len(starts) - 1):
        first, end = starts[family], starts[family + 1]
        for cell in cells:
            total = parents[family, cell]
            n_open, sum_ = 0, 0
            for child in range(first, end):
                out[child, cell] = 0
                if total > 0 and (barred.size == 0 or not barred[child, cell]):
                    members[n_open] = child
                    n_open += 1
                    sum_ += estimates[child, cell]
            if total == 0:
                continue
            if n_open == 0 or total < 0:
                return family + 1
            while True:
                level = (total * one - sum_) // n_open
                n_left = 0
                for number in range(n_open):
                    estimate = estimates[members[number], cell]
                    if estimate + level >= 0:
                        members[n_left] = members[number]
                        n_left += 1
                    else:
                        sum_ -= estimate
                if n_left == n_open:
                    break
                n_open = n_left
            rest = total
            for number in range(n_open):
                count = (estimates[members[number], cell] + level) >> bits
                out[members[number], cell] = count
                rest -= count
            if rest == 0:
                continue
            for number in range(n_open):
                child = members[number]
                fraction = (estimates[child, cell] + level) & (one - 1)
                word = tie_word(key, first_place + child, n_cells, cell) >> np.uint64(64 - _WORD_BITS)
                ranks[number] = (fraction << _WORD_BITS) | np.int64(word)
            last = np.sort(ranks[:n_open])[n_open - rest]
            for number in range(n_open):
                if ranks[number] > last:
                    out[members[number], cell] += 1
                    rest -= 1
            for number in range(n_open):
                if rest > 0 and ranks[number] == last:
                    out[members[number], cell] += 1
                    rest -= 1
    return 0


@kernel
def share_with_sums(
    estimates: Ints,
    starts: Ints,
    parents: Ints,
    cells: Ints,
    sums: Ints,
    barred: NDArray[np.bool_],
    key: np.uint64,
    first_place: int,
    bits: int,
    out: Ints,
) -> int:
    """Share out cells whose sum is known in each child: a transport of least cost, by successive shortest paths.

    Shifts of rows (children) and columns (cells) bring the estimates near to the sums. The counts nearest to shifted
    estimates are optimal for the sums that they have, so that with the shifts as prices no residual arc costs less
    than 0; words are part of all costs, of the start as well. Single units then go along shortest paths.

    Parameters
    ----------
    sums : array (child,)
        What the cells add up to in each child.
    estimates, starts, parents, cells, barred, first_place, out
        As in `share_cells`.
    """
    n_cells = estimates.shape[1]
    most = 1
    for family in range(len(starts) - 1):
        most = max(most, starts[family + 1] - starts[family])
    size = len(cells)
    rows, columns = np.empty(most, np.int64), np.empty(size, np.int64)
    n_nodes, n_arcs = most + size, 2 * most * size
    grid = Grid(
        np.empty((most, size), np.int64),
        np.empty((most, size), np.int64),
        np.empty((most, size), np.bool_),
        np.empty((most, size), np.int64),
        np.empty(n_nodes, np.int64),
        np.empty(n_nodes, np.int64),
        np.empty(0, np.int64),
        np.empty((0, 0), np.int64),
        np.empty((0, 0), np.int64),
        np.empty((0, 0), np.int64),
    )
    paths = Paths(
        np.empty(n_nodes, np.int64),
        np.empty(n_nodes, np.int64),
        np.empty(n_nodes, np.bool_),
        np.empty(n_arcs, np.int64),
        np.empty(n_arcs, np.int64),
        np.empty(1, np.int64),
    )
    target, words, is_open, counts, needs = grid.target, grid.words, grid.is_open, grid.counts, grid.needs
    for family in range(len(starts) - 1):
        n_rows, n_columns, balance = 0, 0, 0
        for cell in cells:
            balance -= parents[family, cell]
            if parents[family, cell] > 0:
                columns[n_columns] = cell
                n_columns += 1
        for child in range(starts[family], starts[family + 1]):
            balance += sums[child]
            for cell in cells:
                out[child, cell] = 0
            if sums[child] > 0:
                rows[n_rows] = child
                n_rows += 1
            elif sums[child] < 0:
                return family + 1
        if balance != 0:
            return family + 1
        if n_rows == 0:
            continue
        for row in range(n_rows):
            for column in range(n_columns):
                child, cell = rows[row], columns[column]
                target[row, column] = estimates[child, cell]
                is_open[row, column] = barred.size == 0 or not barred[child, cell]
                word = tie_word(key, first_place + child, n_cells, cell)
                words[row, column] = np.int64(word >> np.uint64(64 - PATH_WORD_BITS))
        for row in range(n_rows):
            needs[row] = sums[rows[row]]
        for column in range(n_columns):
            needs[n_rows + column] = parents[family, columns[column]]
        if n_rows == 1 or n_columns == 1:
            # Nothing is left to decide, except that no barred cell may be needed.
            for row in range(n_rows):
                for column in range(n_columns):
                    count = min(needs[row], needs[n_rows + column])
                    if not is_open[row, column]:
                        return family + 1
                    out[rows[row], columns[column]] = count
            continue
        find_shifts(grid, n_rows, n_columns, bits)
        scale = 1 << (PATH_WORD_BITS + bit_length(min(n_rows, n_columns)))
        fraction_bits = start_counts(grid, n_rows, n_columns, bits, scale)
        if fraction_bits < 0:
            return family + 1
        status = 1
        while status == 1:
            status = augment(grid, paths, n_rows, n_columns, 1 << fraction_bits, scale)
        if status < 0:
            return family + 1
        for row in range(n_rows):
            for column in range(n_columns):
                out[rows[row], columns[column]] = counts[row, column]
    return 0


@kernel
def bit_length(number: int) -> int:
    """Return how many binary digits a number has."""
    length = 0
    while number > 0:
        number >>= 1
        length += 1
    return length


@kernel
def find_shifts(grid: Grid, n_rows: int, n_columns: int, bits: int) -> None:
    """Find shifts of rows and columns with which targets, cut off at 0, nearly have the needed sums.

    Each shift is a step of Newton's method towards its sum, rows and columns in turn. All numbers are whole, so that
    the result is the same everywhere; the optimum does not depend on it, only how many paths are left to find. Shifts
    are written into the prices.
    """
    target, is_open, needs, prices = grid.target, grid.is_open, grid.needs, grid.prices
    for node in range(n_rows + n_columns):
        prices[node] = 0
    near = (n_rows + n_columns) << max(bits - 4, 0)
    for _ in range(_MOST_SWEEPS):
        off = 0
        for row in range(n_rows):
            sum_, n_up, largest = 0, 0, -_ENDLESS
            for column in range(n_columns):
                if is_open[row, column]:
                    shifted = target[row, column] + prices[row] + prices[n_rows + column]
                    largest = max(largest, shifted)
                    if shifted > 0:
                        sum_ += shifted
                        n_up += 1
            lacking = (needs[row] << bits) - sum_
            off += abs(lacking)
            if n_up > 0:
                prices[row] += lacking // n_up
            elif largest > -_ENDLESS:
                prices[row] += lacking - largest
        if off < near:
            return
        for column in range(n_columns):
            sum_, n_up, largest = 0, 0, -_ENDLESS
            for row in range(n_rows):
                if is_open[row, column]:
                    shifted = target[row, column] + prices[row] + prices[n_rows + column]
                    largest = max(largest, shifted)
                    if shifted > 0:
                        sum_ += shifted
                        n_up += 1
            lacking = (needs[n_rows + column] << bits) - sum_
            if n_up > 0:
                prices[n_rows + column] += lacking // n_up
            elif largest > -_ENDLESS:
                prices[n_rows + column] += lacking - largest


@kernel
def start_counts(grid: Grid, n_rows: int, n_columns: int, bits: int, scale: int) -> int:
    """Round shifted targets to counts, take these off the needs, and turn shifts into prices.

    Returns the bits that fractions keep: fewer where path costs would not fit into 64 bits otherwise, with targets and
    shifts rounded to these; -1 where none would do.
    """
    target, is_open, needs = grid.target, grid.is_open, grid.needs
    prices, counts = grid.prices, grid.counts
    bits_left = bits
    while True:
        half = (1 << bits_left) >> 1
        largest, n_off = 0, 0
        for row in range(n_rows):
            for column in range(n_columns):
                counts[row, column] = 0
                if is_open[row, column]:
                    shifted = target[row, column] + prices[row] + prices[n_rows + column]
                    # The least count whose next unit has a price of 0 or more; a tie keeps the lower one, as words
                    # are not negative.
                    counts[row, column] = max(0, -((half - shifted) >> bits_left))
                    gap = abs((counts[row, column] << bits_left) - target[row, column])
                    largest = max(largest, gap, abs(prices[row]), abs(prices[n_rows + column]))
        for row in range(n_rows):
            sum_ = 0
            for column in range(n_columns):
                sum_ += counts[row, column]
            n_off += abs(needs[row] - sum_)
        for column in range(n_columns):
            sum_ = 0
            for row in range(n_rows):
                sum_ += counts[row, column]
            n_off += abs(needs[n_rows + column] - sum_)
        n_arcs = 2 * min(n_rows, n_columns) + 2
        # A cost is below scale * 4 * the larger number, a price or a distance below four times n_arcs costs.
        used = max(bit_length(largest), bit_length((n_off + 1) << bits_left)) + 5 + bit_length(scale * n_arcs)
        if used <= _MOST_BITS:
            break
        if bits_left < 2:
            return -1
        bits_left -= 1
        for row in range(n_rows):
            prices[row] >>= 1
            for column in range(n_columns):
                target[row, column] >>= 1
        for column in range(n_columns):
            prices[n_rows + column] >>= 1
    for row in range(n_rows):
        prices[row] *= 2 * scale
        for column in range(n_columns):
            needs[row] -= counts[row, column]
            needs[n_rows + column] -= counts[row, column]
    for column in range(n_columns):
        prices[n_rows + column] *= 2 * scale
    return bits_left


@kernel
def push(paths: Paths, distance: int, node: int) -> None:
    """Put a node into the heap."""
    keys, nodes = paths.heap_distance, paths.heap_node
    place = paths.size[0]
    paths.size[0] += 1
    while place > 0:
        above = (place - 1) >> 1
        if keys[above] <= distance:
            break
        keys[place], nodes[place] = keys[above], nodes[above]
        place = above
    keys[place], nodes[place] = distance, node


@kernel
def pop(paths: Paths) -> int:
    """Take the nearest node that is not settled out of the heap; -1 where none is left."""
    keys, nodes = paths.heap_distance, paths.heap_node
    while paths.size[0] > 0:
        node = nodes[0]
        paths.size[0] -= 1
        size = paths.size[0]
        last, last_node, place = keys[size], nodes[size], 0
        while True:
            below = 2 * place + 1
            if below >= size:
                break
            if below + 1 < size and keys[below + 1] < keys[below]:
                below += 1
            if last <= keys[below]:
                break
            keys[place], nodes[place] = keys[below], nodes[below]
            place = below
        keys[place], nodes[place] = last, last_node
        if not paths.is_settled[node]:
            return int(node)
    return -1


@kernel
def unit_cost(grid: Grid, row: int, column: int, count: int, one: int, scale: int) -> int:
    """Return what the unit costs that follows on a count, its word included: more, or as much, the larger the count."""
    if grid.costs.size == 0:
        cost = (2 * count + 1) * one - 2 * int(grid.target[row, column])
    else:
        offset, last = count - grid.low[row, column], grid.width[row, column] - 1
        if offset < 0:
            cost = offset - one
        elif offset > last:
            cost = offset - last + one
        else:
            cost = int(grid.costs[grid.first[row, column] + offset])
    return scale * cost + int(grid.words[row, column])


@kernel
def settle(grid: Grid, paths: Paths, n_rows: int, n_columns: int, one: int, scale: int, node: int) -> None:
    """Settle a node: see what its arcs reach sooner than was known. From a row counts grow, from a column they fall."""
    counts, prices = grid.counts, grid.prices
    distance, origin, is_settled = paths.distance, paths.origin, paths.is_settled
    is_settled[node] = True
    if node < n_rows:
        row = node
        for column in range(n_columns):
            other = n_rows + column
            if grid.is_open[row, column] and not is_settled[other]:
                cost = unit_cost(grid, row, column, counts[row, column], one, scale)
                reached = distance[node] + cost - prices[row] - prices[other]
                if reached < distance[other]:
                    distance[other], origin[other] = reached, node
                    push(paths, reached, other)
        return
    column = node - n_rows
    for row in range(n_rows):
        if counts[row, column] > 0 and not is_settled[row]:
            cost = unit_cost(grid, row, column, counts[row, column] - 1, one, scale)
            reached = distance[node] - cost + prices[row] + prices[node]
            if reached < distance[row]:
                distance[row], origin[row] = reached, node
                push(paths, reached, row)


@kernel
def augment(grid: Grid, paths: Paths, n_rows: int, n_columns: int, one: int, scale: int) -> int:
    """Move one unit along a shortest path from what has too much to what has too little; Dijkstra with prices.

    A row that lacks counts and a column that has too many are where paths begin. Returns 1, 0 where nothing is
    lacking, or -1 where no path leads on.
    """
    counts, needs, prices = grid.counts, grid.needs, grid.prices
    distance, origin, is_settled = paths.distance, paths.origin, paths.is_settled
    n_nodes = n_rows + n_columns
    is_balanced = True
    paths.size[0] = 0
    for node in range(n_nodes):
        is_source = needs[node] > 0 if node < n_rows else needs[node] < 0
        distance[node] = 0 if is_source else _ENDLESS
        origin[node] = -1
        is_settled[node] = False
        is_balanced = is_balanced and needs[node] == 0
    if is_balanced:
        return 0
    # No distance is below 0, so that sources are settled at once.
    for node in range(n_nodes):
        if distance[node] == 0 and origin[node] < 0:
            settle(grid, paths, n_rows, n_columns, one, scale, node)
    while True:
        sink = pop(paths)
        if sink < 0:
            return -1
        if needs[sink] < 0 if sink < n_rows else needs[sink] > 0:
            break
        settle(grid, paths, n_rows, n_columns, one, scale, sink)
    for node in range(n_nodes):
        if is_settled[node]:
            nearer = distance[sink] - distance[node]
            prices[node] += nearer if node < n_rows else -nearer
    node = sink
    needs[sink] += 1 if sink < n_rows else -1
    while origin[node] >= 0:
        before = origin[node]
        if node < n_rows:
            counts[node, before - n_rows] -= 1
        else:
            counts[before, node - n_rows] += 1
        node = before
    needs[node] -= 1 if node < n_rows else -1
    return 1
