"""What the kernels of look-ahead rejection are given, as plain arrays. Imported without numba."""

from typing import NamedTuple

import numpy as np

from congenial.arrays import Floats, Ints

ACCEPTED, REJECTED, UNSURE = 1, 0, 2
"""How a line of an attempt ends."""

FEWEST_POINTS, MOST_POINTS = 32, 1024
"""Over how many points of the circle norms are taken: powers of two."""


class Weights(NamedTuple):
    """Tabulated weights of cells, one line for each that differs.

    Attributes
    ----------
    value : array (kind, place)
        The weight at deviation ``first + place``; 0 after that of ``last``.
    first, last : array (kind)
        Deviations inside the window.
    """

    value: Floats
    first: Ints
    last: Ints


class LaterBounds(NamedTuple):
    """Bounds of what is still to come, before every line, as functions of a column's partial sum.

    Attributes
    ----------
    value : array
        All of them after one another, scaled to be at most 1.
    start, low, size : array (line, column)
        Where those before this line begin, the partial sum of their first entry, and how many there are.
    below, above : array (line, column)
        The bound before the first entry and after the last one.
    shift : array (line)
        By how many powers of two the bounds before a line were scaled against those after it.
    """

    value: Floats
    start: Ints
    low: Ints
    size: Ints
    below: Floats
    above: Floats
    shift: Ints


class Tables(NamedTuple):
    """Everything that attempts at one table read.

    Attributes
    ----------
    weights : Weights
        Tilted ones.
    units : float
        How many rounding units a weight may be off by.
    kind : array (line, column)
        Which weights a cell has; -1 where any deviation weighs 1.
    tail : array (line, column)
        A bound of the tilted weight beyond the window.
    line_sum, column_sum : array (line), (column)
        What deviations add up to.
    bounds : LaterBounds
    """

    weights: Weights
    units: float
    kind: Ints
    tail: Floats
    line_sum: Ints
    column_sum: Ints
    bounds: LaterBounds


class Room(NamedTuple):
    """Where a line is worked out: parts (column, place), their messages (column + 1, place), and what was lost."""

    part: Floats
    part_low: Ints
    part_size: Ints
    message: Floats
    message_low: Ints
    message_size: Ints
    lost: Floats  # of an entry of a message, in its own scale
    lack: Floats  # of a sum over a part and the message before it, before it is scaled
    units: Floats  # rounding units of a message
    work: Floats

    @classmethod
    def of(cls, n_columns: int, width: int, length: int) -> "Room":
        """Return room for lines of so many columns, weights of so many places and messages of that length."""
        n = n_columns + 1
        part, part_low, part_size = np.zeros((n_columns, width)), np.zeros(n, np.int64), np.zeros(n, np.int64)
        message, low, size = np.zeros((n, length)), np.zeros(n, np.int64), np.zeros(n, np.int64)
        lost, lack, units = np.zeros(n), np.zeros(n), np.zeros(n)
        return cls(part, part_low, part_size, message, low, size, lost, lack, units, np.zeros(length))
