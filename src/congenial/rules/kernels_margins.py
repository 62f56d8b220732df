"""Children's cells near to their margins: a proportional fit, and single moves that bring whole counts nearer.

Margins are *answers* of a table: entry ``places[table, cell]`` of all answers counts the cell. Estimates are whole
numbers of ``2**-bits``. What is made small is the sum over tables of a weight times squared distances of answers, with
whole weights, so that every comparison is exact. Sums of doubles have a fixed order.
"""

import numpy as np

from congenial.arrays import Ints
from congenial.rules.kernels_family import tie_word
from congenial.sampling.jit import kernel

_MOST_SWEEPS = 30
_PARTNERS = 32  # of a child in a sweep; in families with no more children than that, all others
_MOST_MOVES = 4096  # of a pair in a sweep


@kernel
def fit_cells(
    starts: Ints,
    parents: Ints,
    estimates: Ints,
    places: Ints,
    n_sweeps: int,
    bits: int,
    floor: float,
    out: Ints,
) -> None:
    """Fit the cells of children to their margins, from the proportions of the parent: 0 where it has none.

    Parameters
    ----------
    starts : array (family + 1,)
        Where the children of each family begin.
    parents : array (family, cell)
    estimates : array (child, answer)
        In units of ``2**-bits``.
    places : array (table, cell)
    floor : float
        The least answer: one of 0 is a mere estimate, and would bar its cells.
    out : array (child, cell)
        In units of ``2**-bits``.
    """
    n_tables, n_cells = places.shape
    one = float(1 << bits)
    cells, sums = np.empty(n_cells), np.empty(estimates.shape[1])
    for family in range(len(starts) - 1):
        for child in range(starts[family], starts[family + 1]):
            for cell in range(n_cells):
                cells[cell] = float(parents[family, cell])
            for _ in range(n_sweeps):
                for table in range(n_tables):
                    for cell in range(n_cells):
                        sums[places[table, cell]] = 0.0
                    for cell in range(n_cells):
                        sums[places[table, cell]] += cells[cell]
                    for cell in range(n_cells):
                        place = places[table, cell]
                        if sums[place] > 0.0:
                            cells[cell] *= max(estimates[child, place] / one, floor) / sums[place]
            for cell in range(n_cells):
                out[child, cell] = np.int64(np.rint(cells[cell] * one))


@kernel
def move_nearer(
    estimates: Ints,
    starts: Ints,
    places: Ints,
    weights: Ints,
    classes: Ints,
    counted: Ints,
    key: np.uint64,
    first_place: int,
    bits: int,
    counts: Ints,
) -> None:
    """Move counts between siblings, in place, while a move brings their answers nearer to the estimates.

    A move takes one from a cell of a child and gives it to the same cell of a sibling, or two children exchange what
    they have in two cells: the sums over siblings stay. Of all moves between two siblings the best is taken.

    Parameters
    ----------
    estimates : array (child, answer)
    weights : array (table,)
        Of squared distances.
    classes : array (cell,)
        Cells that are in the same exact sums: they are exchanged for each other; -1 of a cell in none, which moves.
    counted : array (child,)
        Whose distances count: 1, or 0 of a stock that others draw from.
    counts : array (child, cell)
    """
    n_tables, n_cells = places.shape
    one = np.int64(1) << bits
    most = 1
    for family in range(len(starts) - 1):
        most = max(most, starts[family + 1] - starts[family])
    shared = np.zeros((n_cells, n_cells), np.int64)
    largest = np.int64(0)
    for cell in range(n_cells):
        for other in range(n_cells):
            for table in range(n_tables):
                if places[table, cell] == places[table, other]:
                    shared[cell, other] += 2 * weights[table] * one
            if cell != other:
                largest = max(largest, shared[cell, other])
    gaps = np.empty((most, estimates.shape[1]), np.int64)
    taking, giving = np.empty((most, n_cells), np.int64), np.empty((most, n_cells), np.int64)
    words, moved, moves_now = np.empty(most, np.uint64), np.empty(most, np.bool_), np.empty(most, np.bool_)
    forth, back = np.empty(n_cells, np.int64), np.empty(n_cells, np.int64)
    for family in range(len(starts) - 1):
        first, size = starts[family], starts[family + 1] - starts[family]
        for number in range(size):
            words[number] = tie_word(key, first_place + first + number, 1, 0)
            moved[number] = True
            for place in range(estimates.shape[1]):
                gaps[number, place] = -estimates[first + number, place]
            for table in range(n_tables):
                for cell in range(n_cells):
                    gaps[number, places[table, cell]] += counts[first + number, cell] << bits
            _price(gaps, places, weights, int(counted[first + number]), one, number, taking, giving)
        order = np.argsort(words[:size])
        is_every_pair = size <= _PARTNERS + 1
        n_partners = size - 1 if is_every_pair else _PARTNERS
        for sweep in range(_MOST_SWEEPS):
            has_moved = False
            for number in range(size):
                moves_now[number] = False
            for rank in range(size):
                left = order[rank]
                for turn in range(n_partners):
                    word = tie_word(key ^ np.uint64(sweep + 1), first_place + first + left, _PARTNERS + 1, turn)
                    if is_every_pair:
                        if turn >= rank:
                            break
                        right = order[turn]
                        if not (moved[left] or moved[right] or moves_now[left] or moves_now[right]):
                            continue
                    else:
                        right = np.int64(word % np.uint64(size - 1))
                        right += right >= left
                    start = np.int64((word >> np.uint64(32)) % np.uint64(n_cells))
                    for _ in range(_MOST_MOVES):
                        one_cell, other_cell = _best_move(
                            (taking[left], giving[left], taking[right], giving[right]),
                            (counts[first + left], counts[first + right]),
                            (forth, back),
                            classes,
                            shared,
                            int(largest),
                            int(counted[first + left] + counted[first + right]),
                            int(start),
                        )
                        if one_cell < 0 and other_cell < 0:
                            break
                        for cell, sign in ((one_cell, -1), (other_cell, 1)):
                            if cell >= 0:
                                counts[first + left, cell] += sign
                                counts[first + right, cell] -= sign
                                for table in range(n_tables):
                                    gaps[left, places[table, cell]] += sign * one
                                    gaps[right, places[table, cell]] -= sign * one
                        for number in (left, right):
                            _price(gaps, places, weights, int(counted[first + number]), one, number, taking, giving)
                            moves_now[number] = True
                        has_moved = True
            if not has_moved:
                break
            for number in range(size):
                moved[number] = moves_now[number]


@kernel
def _price(
    gaps: Ints, places: Ints, weights: Ints, times: int, one: np.int64, number: int, taking: Ints, giving: Ints
) -> None:
    """Write what it costs to take one from each cell of a child, and to give it one."""
    for cell in range(places.shape[1]):
        take, give = np.int64(0), np.int64(0)
        for table in range(places.shape[0]):
            gap = 2 * gaps[number, places[table, cell]]
            take += weights[table] * (one - gap)
            give += weights[table] * (one + gap)
        taking[number, cell], giving[number, cell] = times * take, times * give


@kernel
def _best_move(
    prices: tuple[Ints, Ints, Ints, Ints],
    counts: tuple[Ints, Ints],
    room: tuple[Ints, Ints],
    classes: Ints,
    shared: Ints,
    largest: int,
    n_counted: int,
    start: int,
) -> tuple[int, int]:
    """Return which cell goes from the left child to the right one, and which back; -1 for none."""
    left_taking, left_giving, right_taking, right_giving = prices
    forth, back = room
    n_cells = len(classes)
    far = np.int64(2) ** 61
    best, one_cell, other_cell, least_back = np.int64(0), -1, -1, far
    for cell in range(n_cells):
        forth[cell] = left_taking[cell] + right_giving[cell] if counts[0][cell] > 0 else far
        back[cell] = left_giving[cell] + right_taking[cell] if counts[1][cell] > 0 else far
        least_back = min(least_back, back[cell])
        if classes[cell] < 0:
            if forth[cell] < best:
                best, one_cell, other_cell = forth[cell], cell, -1
            if back[cell] < best:
                best, one_cell, other_cell = back[cell], -1, cell
    if least_back == far:
        return one_cell, other_cell
    for number in range(n_cells):
        cell = (start + number) % n_cells
        if forth[cell] == far or forth[cell] + least_back - n_counted * largest >= best:
            continue
        for other in range(n_cells):
            if back[other] < far and other != cell and classes[other] == classes[cell]:
                cost = forth[cell] + back[other] - n_counted * shared[cell, other]
                if cost < best:
                    best, one_cell, other_cell = cost, cell, other
    return one_cell, other_cell
