"""Records moved one or two at a time, so that their tables come near to targets: annealing in whole numbers.

Counts and targets are in units of ``2**-COUNT_BITS``, weights are whole numbers, and what a move costs is a sum of
their products: the same on every machine. A move changes one attribute of a record, or exchanges attributes of two
records. It is taken if it costs less than a public random threshold, minus the temperature times the logarithm of a
uniform number, which is looked up.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.sampling.jit import kernel

COUNT_BITS = 12
"""Of counts and targets after the point."""

THRESHOLD_BITS = 12
"""There are ``2**THRESHOLD_BITS`` thresholds for a temperature."""

ENERGY, ZEROS, SUM, SOFT_SUM = 0, 1, 2, 3
"""Kinds of tables: counts with targets; structural zeros; coefficients of an exact sum that moves keep, or may miss."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_MIX = np.uint64(0x94D049BB133111EB)
_BY_30, _BY_27, _BY_31, _BY_32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)
_BY_MOVE, _BY_MOVE_BITS = np.uint64(THRESHOLD_BITS), np.uint64(20)
_LOW_20, _LOW_THRESHOLD = np.uint64(2**20 - 1), np.uint64(2**THRESHOLD_BITS - 1)


class Moves(NamedTuple):
    """What may be moved, and which tables a move touches.

    Attributes
    ----------
    sizes : array (attribute,)
        Levels of each attribute.
    starts, attributes : arrays (move + 1,) and flat
        The attributes that a move takes together.
    is_exchange : array (move,)
    agree_starts, agree : arrays (move + 1,) and flat
        The attributes in which two records must agree.
    bucket : array (move,)
        Which line of the partners, -1 if any record may be one.
    table_starts, tables : arrays (move + 1,) and flat
        The tables that a move touches, zeros first and then sums.
    term_starts, term_attributes, term_steps, term_moves : arrays
        For each of these, where its cells are: attributes, how far apart their levels are, whether the move takes them.
    """

    sizes: Ints
    starts: Ints
    attributes: Ints
    is_exchange: NDArray[np.bool_]
    agree_starts: Ints
    agree: Ints
    bucket: Ints
    table_starts: Ints
    tables: Ints
    term_starts: Ints
    term_attributes: Ints
    term_steps: Ints
    term_moves: NDArray[np.bool_]


class Board(NamedTuple):
    """Tables of the records, which moves keep up to date.

    Attributes
    ----------
    kinds, offsets, weights : arrays (table,)
        One of the kinds above; where its cells begin; what a unit away from the target costs.
    cells : array
        Of all tables: counts less targets; 1 for a structural zero; coefficients.
    away : array (table,)
        Of sums: how far from exact.
    """

    kinds: Ints
    offsets: Ints
    weights: Ints
    cells: Ints
    away: Ints


class Partners(NamedTuple):
    """For moves with records that agree: records in the order of what they agree in, and where each one's like are.

    Attributes
    ----------
    order, first, size : arrays (bucket, record)
    """

    order: NDArray[np.int32]
    first: NDArray[np.int32]
    size: NDArray[np.int32]


@kernel
def random_word(key: np.uint64, number: int) -> np.uint64:
    """Return a public random word: splitmix64."""
    word = key + np.uint64(number + 1) * _GOLDEN
    word = (word ^ (word >> _BY_30)) * _FIRST_MIX
    word = (word ^ (word >> _BY_27)) * _SECOND_MIX
    return word ^ (word >> _BY_31)


@kernel
def anneal(
    records: NDArray[np.int16],
    moves: Moves,
    board: Board,
    partners: Partners,
    thresholds: Ints,
    key: np.uint64,
    n_proposals: int,
) -> int:
    """Propose moves of records, take those that cost little enough, and return how many were taken.

    No move puts a record into a structural zero, and none takes a `SUM` further from exact. One that takes a record out
    of a structural zero is taken whatever it costs.

    Parameters
    ----------
    records : array (record, attribute)
        Changed in place, as are the cells and sums of the board.
    thresholds : array
        ``2**THRESHOLD_BITS`` numbers.
    """
    n = np.uint64(len(records))
    n_moves = np.uint64(len(moves.is_exchange))
    most = np.diff(moves.table_starts).max()
    source = np.empty((most, 2), np.int64)
    target = np.empty((most, 2), np.int64)
    n_taken = 0
    for number in range(n_proposals):
        word = random_word(key, 2 * number)
        one = np.int64(((word >> _BY_32) * n) >> _BY_32)
        move = np.int64((((word >> _BY_MOVE) & _LOW_20) * n_moves) >> _BY_MOVE_BITS)
        threshold = thresholds[np.int64(word & _LOW_THRESHOLD)]
        word = random_word(key, 2 * number + 1) >> _BY_32
        other, value, moved = one, np.int64(0), moves.attributes[moves.starts[move]]
        if moves.is_exchange[move]:
            bucket = moves.bucket[move]
            if bucket < 0:
                other = np.int64((word * n) >> _BY_32)
            else:
                size = np.uint64(partners.size[bucket, one])
                other = np.int64(
                    partners.order[bucket, partners.first[bucket, one] + np.int64((word * size) >> _BY_32)]
                )
            is_same = True
            for place in range(moves.starts[move], moves.starts[move + 1]):
                attribute = moves.attributes[place]
                is_same = is_same and records[one, attribute] == records[other, attribute]
            agrees = True
            for place in range(moves.agree_starts[move], moves.agree_starts[move + 1]):
                attribute = moves.agree[place]
                agrees = agrees and records[one, attribute] == records[other, attribute]
            if is_same or not agrees:
                continue
        else:
            if moves.sizes[moved] < 2:
                continue
            value = np.int64((word * np.uint64(moves.sizes[moved] - 1)) >> _BY_32)
            if value >= records[one, moved]:
                value += 1
        cost, is_barred, leaves = 0, False, False
        first_table = moves.table_starts[move]
        for pair in range(first_table, moves.table_starts[move + 1]):
            table = moves.tables[pair]
            offset = board.offsets[table]
            from_one, to_one, from_other, to_other = offset, offset, offset, offset
            for term in range(moves.term_starts[pair], moves.term_starts[pair + 1]):
                attribute, step = moves.term_attributes[term], moves.term_steps[term]
                old = np.int64(records[one, attribute])
                from_one += old * step
                if other != one:
                    new = np.int64(records[other, attribute])
                    from_other += new * step
                    if moves.term_moves[term]:
                        to_one += new * step
                        to_other += old * step
                    else:
                        to_one += old * step
                        to_other += new * step
                elif moves.term_moves[term]:
                    to_one += value * step
                else:
                    to_one += old * step
            if other != one and from_one == to_other:  # the two trade places, and the table stays
                to_one = from_one
            place = pair - first_table
            source[place, 0], target[place, 0] = from_one, to_one
            source[place, 1], target[place, 1] = from_other, to_other
            if from_one == to_one:
                continue
            kind = board.kinds[table]
            if kind == ENERGY:
                change = board.cells[to_one] - board.cells[from_one] + (1 << COUNT_BITS)
                if other != one:
                    change += board.cells[to_other] - board.cells[from_other] + (1 << COUNT_BITS)
                cost += board.weights[table] * change
            elif kind == ZEROS:
                if board.cells[to_one] == 1 or (other != one and board.cells[to_other] == 1):
                    is_barred = True
                    break
                leaves = leaves or board.cells[from_one] == 1 or (other != one and board.cells[from_other] == 1)
            else:
                change = board.cells[to_one] - board.cells[from_one]
                if other != one:
                    change += board.cells[to_other] - board.cells[from_other]
                before, after = abs(board.away[table]), abs(board.away[table] + change)
                if after > before and kind == SUM:
                    is_barred = True
                    break
                cost -= board.weights[table] * ((before - after) << COUNT_BITS)
        if is_barred or (cost >= threshold and not leaves):
            continue
        n_taken += 1
        for pair in range(first_table, moves.table_starts[move + 1]):
            table, place = moves.tables[pair], pair - first_table
            if source[place, 0] == target[place, 0]:
                continue
            if board.kinds[table] == ENERGY:
                board.cells[source[place, 0]] -= 1 << COUNT_BITS
                board.cells[target[place, 0]] += 1 << COUNT_BITS
                if other != one:
                    board.cells[source[place, 1]] -= 1 << COUNT_BITS
                    board.cells[target[place, 1]] += 1 << COUNT_BITS
            elif board.kinds[table] != ZEROS:
                board.away[table] += board.cells[target[place, 0]] - board.cells[source[place, 0]]
                if other != one:
                    board.away[table] += board.cells[target[place, 1]] - board.cells[source[place, 1]]
        if other == one:
            records[one, moved] = value
        else:
            for place in range(moves.starts[move], moves.starts[move + 1]):
                attribute = moves.attributes[place]
                old_value = records[one, attribute]
                records[one, attribute] = records[other, attribute]
                records[other, attribute] = old_value
    return n_taken
