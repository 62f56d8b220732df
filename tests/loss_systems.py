"""Small systems for losses by brute force; each at any precision."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from brute import Plain, Weights, cell_classes, margins

RELATIONS = ["bounded", "unbounded"]

Maker = Callable[[Fraction], Plain]


def plain(
    n: int,
    upper: int | list[int],
    rows: list[tuple[Weights, int | None, int | None]],
    *soft: tuple[list[Weights], str],
    cells: str = "1",
    lower: int = 0,
    is_open: bool = False,
) -> Maker:
    """Return a system whose precisions are multiples of one: cells first, then classes of further rows."""
    tops = [upper] * n if isinstance(upper, int) else upper

    def make(precision: Fraction) -> Plain:
        classes = (cell_classes(n), *(tuple(lines) for lines, _ in soft))
        factors = (Fraction(cells), *(Fraction(factor) for _, factor in soft))
        box = tuple((lower, top) for top in tops)
        return Plain(box, tuple(rows), classes, tuple(precision * f for f in factors), is_open=is_open)

    return make


def uneven(precision: Fraction) -> Plain:
    """Two cells measured well, two badly."""
    ones = cell_classes(4)
    rows: tuple[tuple[Weights, int, int], ...] = (((1, 1, 1, 1), 5, 5),)
    return Plain(((0, 5),) * 4, rows, (ones[:2], ones[2:]), (precision, precision / 8), is_open=True)


def weighted_measure(precision: Fraction) -> Plain:
    """Three times a cell is measured, and twice a sum that also has a range."""
    classes = (((3, 0, 0), (0, 1, 0), (0, 0, 2)), ((2, 2, 0),))
    return Plain(((0, 4),) * 3, (((1, 1, 0), 1, 5),), classes, (precision, precision / 2))


CUBE = np.arange(8).reshape(2, 2, 2)
TWO_WAY = [
    tuple(int(c in {int(x) for x in line}) for c in range(8))
    for axis in range(3)
    for line in np.moveaxis(CUBE, axis, -1).reshape(-1, 2)
]
ONE_WAY = [tuple(int(index[axis] == 0) for index in np.ndindex(2, 2, 2)) for axis in range(3)]

SYSTEMS: dict[str, Maker] = {
    "one total": plain(4, 5, [((1, 1, 1, 1), 5, 5)], is_open=True),
    "total and upper bounds": plain(4, 2, [((1, 1, 1, 1), 4, 4)]),
    "uneven upper bounds": plain(4, [1, 3, 2, 4], [((1, 1, 1, 1), 5, 5)]),
    "weighted row": plain(4, 6, [((2, 3, 1, 1), 12, 12)]),
    "mixed signs": plain(4, 4, [((1, -2, 1, 0), 0, 0)]),
    "steps of two records": plain(3, 7, [((1, 2, 3), 10, 10)]),
    "soft margin": plain(4, 4, [((1, 1, 1, 1), 4, 4)], ([(1, 1, 0, 0)], "3"), is_open=True),
    "soft margins, faint cells": plain(
        4, 6, [((1, 1, 1, 1), 6, 6)], ([(1, 1, 0, 0), (0, 0, 1, 1)], "1"), cells="1/100"
    ),
    "uneven precisions": uneven,
    "unmeasured cells": plain(4, 3, [((1, 1, 1, 1), 5, 5)], ([(1, 1, 0, 0), (0, 1, 1, 0)], "1"), cells="0"),
    "measured range": plain(3, 4, [((1, 1, 0), 1, 4)], ([(1, 1, 0)], "2")),
    "range of a multiple": weighted_measure,
    "unmeasured range": plain(4, 4, [((1, 0, 0, 1), 0, 4), ((1, -1, 0, 0), 0, None), ((1, 0, -1, 0), 0, None)]),
    "two-way margins": plain(6, 4, list(zip(margins(2, 3), [4, 3, 3, 2, 2], [4, 3, 3, 2, 2], strict=True))),
    "three by three": plain(9, 2, list(zip(margins(3, 3), [2] * 6, [2] * 6, strict=True)), is_open=True),
    "cube, one-way": plain(8, 2, [((1,) * 8, 2, 2), (ONE_WAY[0], 1, 1)], ([ONE_WAY[1]], "1/2"), is_open=True),
    "cube, two-way": plain(8, 3, list(zip(TWO_WAY, [3] * 12, [3] * 12, strict=True))),
    "subset total": plain(5, 3, [((1, 1, 1, 0, 0), 3, 3), ((0, 0, 0, 1, 1), 2, 2)], ([(0, 0, 1, 1, 0)], "1")),
    "negative cells": plain(3, 2, [((1, 1, 1), 0, 0)], lower=-2),
    "no equalities": plain(3, 4, [((1, 1, 1), 2, 8)]),
}
