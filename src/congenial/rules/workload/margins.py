"""Margins of tables with any number of attributes: sums in a fixed order, spreading, counts of records.

A table is an array over some attributes, its *axes*: numbers of attributes in ascending order. The joint table of all
attributes is never needed. Sums of doubles are loops in the order of the cells, so that they are the same doubles on
every machine, which NumPy's own sums are not.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.sampling.jit import kernel

Axes = tuple[int, ...]
"""Attributes of a table, by number and ascending; those of the total are ``()``."""


def subsets(axes: Axes) -> tuple[Axes, ...]:
    """Return the axes of all margins of a table, the total first.

    Examples
    --------
    >>> subsets((0, 2))
    ((), (0,), (2,), (0, 2))
    """
    return tuple(some for n in range(len(axes) + 1) for some in combinations(axes, n))


def is_inside(axes: Axes, others: Iterable[Axes]) -> bool:
    """Return whether a table is a margin of one of some tables.

    Examples
    --------
    >>> is_inside((0, 2), [(1, 2), (0, 1, 2)]), is_inside((0, 2), [(0, 1), (1, 2)])
    (True, False)
    """
    return any(set(axes) <= set(other) for other in others)


def maximal(tables: Iterable[Axes]) -> tuple[Axes, ...]:
    """Return the distinct tables that are no margin of another one, in the order in which they come.

    Examples
    --------
    >>> maximal([(0,), (0, 1), (2,), (0, 1)])
    ((0, 1), (2,))
    """
    distinct = list(dict.fromkeys(tables))
    return tuple(axes for axes in distinct if not is_inside(axes, [other for other in distinct if other != axes]))


def shape_of(sizes: Sequence[int], axes: Axes) -> tuple[int, ...]:
    """Return the shape of a table, given the levels of all attributes."""
    return tuple(sizes[axis] for axis in axes)


@lru_cache(maxsize=65_536)
def _runs(shape: tuple[int, ...], kept: tuple[bool, ...]) -> tuple[Ints, Ints]:
    """Return sizes of the runs of axes that are kept, or not, and the step of each in the margin: 0 if not kept."""
    sizes, is_kept = [1], [False]
    for size, keep in zip(shape, kept, strict=True):
        if keep == is_kept[-1]:
            sizes[-1] *= size
        else:
            sizes.append(size)
            is_kept.append(keep)
    steps, step = [0] * len(sizes), 1
    for run in reversed(range(len(sizes))):
        if is_kept[run]:
            steps[run], step = step, step * sizes[run]
    return np.array(sizes), np.array(steps)


def sum_onto(table: NDArray[Any], axes: Axes, onto: Axes) -> NDArray[Any]:
    """Return the margin of a table over some of its axes: whole numbers or doubles, added in the order of the cells.

    Examples
    --------
    >>> sum_onto(np.arange(6).reshape(2, 3), (1, 4), (4,)).tolist()
    [3, 5, 7]
    """
    if axes == onto:
        return table
    kept = tuple(axis in onto for axis in axes)
    sizes, steps = _runs(table.shape, kept)
    shape = tuple(size for size, keep in zip(table.shape, kept, strict=True) if keep)
    margin = np.zeros(prod(shape), table.dtype)
    add_up(np.ascontiguousarray(table).reshape(-1), sizes, steps, margin)
    return margin.reshape(shape)


def scale(table: Floats, axes: Axes, factors: Floats, onto: Axes) -> None:
    """Multiply the cells of a table by the factors of one of its margins, in place.

    Examples
    --------
    >>> table = np.ones((2, 2))
    >>> scale(table, (0, 1), np.array([2.0, 3.0]), (1,))
    >>> table.tolist()
    [[2.0, 3.0], [2.0, 3.0]]
    """
    sizes, steps = _runs(table.shape, tuple(axis in onto for axis in axes))
    multiply(table.reshape(-1), sizes, steps, np.ascontiguousarray(factors).reshape(-1))


def spread(table: NDArray[Any], axes: Axes, over: Axes) -> NDArray[Any]:
    """Return a table with axes of length 1 where it has none of others, for arithmetic with a table of those.

    Examples
    --------
    >>> spread(np.arange(3), (4,), (1, 4)).shape
    (1, 3)
    """
    lengths = dict(zip(axes, table.shape, strict=True))
    return table.reshape([lengths.get(axis, 1) for axis in over])


def count_records(records: NDArray[np.integer], sizes: Sequence[int], axes: Axes) -> Ints:
    """Return the table of some attributes of records (record, attribute).

    Examples
    --------
    >>> count_records(np.array([[0, 1], [1, 1], [0, 1]]), (2, 2), (0, 1)).tolist()
    [[0, 2], [0, 1]]
    """
    cells = np.zeros(len(records), np.int64)
    for axis in axes:
        cells *= sizes[axis]
        cells += records[:, axis]
    shape = shape_of(sizes, axes)
    return np.bincount(cells, minlength=prod(shape)).astype(np.int64, copy=False).reshape(shape)


@kernel
def add_up(cells: NDArray[Any], sizes: Ints, steps: Ints, out: NDArray[Any]) -> None:
    """Add cells to those of a margin, in the order of the cells.

    Parameters
    ----------
    sizes, steps : arrays (run,)
        Of runs of axes of the table: how many cells, and how far apart these are in the margin; 0 if they are added.
    """
    last = len(sizes) - 1
    places = np.zeros(last + 1, np.int64)
    target = 0
    for first in range(0, len(cells), sizes[last]):
        if steps[last] == 0:
            total = out[target]
            for cell in range(first, first + sizes[last]):
                total += cells[cell]
            out[target] = total
        else:
            for cell in range(sizes[last]):
                out[target + cell] += cells[first + cell]
        for run in range(last - 1, -1, -1):
            places[run] += 1
            target += steps[run]
            if places[run] < sizes[run]:
                break
            places[run] = 0
            target -= steps[run] * sizes[run]


@kernel
def multiply(cells: Floats, sizes: Ints, steps: Ints, factors: Floats) -> None:
    """Multiply cells by the factors of a margin, in place; runs of axes as in `add_up`."""
    last = len(sizes) - 1
    places = np.zeros(last + 1, np.int64)
    target = 0
    for first in range(0, len(cells), sizes[last]):
        if steps[last] == 0:
            factor = factors[target]
            for cell in range(first, first + sizes[last]):
                cells[cell] *= factor
        else:
            for cell in range(sizes[last]):
                cells[first + cell] *= factors[target + cell]
        for run in range(last - 1, -1, -1):
            places[run] += 1
            target += steps[run]
            if places[run] < sizes[run]:
                break
            places[run] = 0
            target -= steps[run] * sizes[run]


@kernel
def dot(left: Floats, right: Floats) -> float:
    """Return the sum of products, added in the order of the cells."""
    total = 0.0
    for cell in range(len(left)):
        total += left[cell] * right[cell]
    return total
