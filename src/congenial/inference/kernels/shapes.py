"""What kernels are given, as named arrays. Imported without numba."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints


class Words(NamedTuple):
    """Random words, and how many of them are used up."""

    words: NDArray[np.uint64]
    used: Ints  # (1)


class Terms(NamedTuple):
    """What the effects are made of. Public: from the schema alone."""

    offset: Floats  # (cell) log widths
    start: Ints  # (term + 1) first normal of each term; those of the cells follow
    shape: Ints  # (term, 4) rows and columns of the left operator, and of the right one
    place: Ints  # (term, 2) where each operator begins
    operators: Floats  # all operators, line by line
    left: Ints  # (term, cell) level along the first dimension
    right: Ints  # (term, cell)
    scale: Floats  # (term + 1) fixed, or the unit of the estimated one
    is_estimated: NDArray[np.bool_]  # (term + 1)


class Steps(NamedTuple):
    """Everything public that steps need, of tables that share their rows."""

    circuit: Ints  # (circuit + 1) first member of each circuit
    member: Ints  # (member + 1) first cell of each member
    cell: Ints  # cells of all members
    weight: Ints  # (member) by how much one of its cells changes
    longest: Ints  # (circuit) the largest multiple of a step
    lower: Ints  # (cell) never below 0
    upper: Ints  # (cell)
    linear: Floats  # (cell) log weights of the noise, by deviation and by its square
    quadratic: Floats
    column: Ints  # (cell + 1) first entry of each cell's column of soft rows and ranges
    row: Ints  # (entry)
    coefficient: Ints  # (entry)
    row_linear: Floats  # (row) of ranges, 0
    row_quadratic: Floats
    row_lower: Ints  # (row) of soft rows, none
    row_upper: Ints
    kind: Ints  # (cell) which stand-in
    floor: Ints  # (cell) the lower limit of the noise, or -NEVER
