"""Whole numbers near the medians that add up to their parents': greedy, the nearest in sum for each family."""

import numpy as np

from congenial.arrays import Ints
from congenial.inference.kernels.tree_shapes import Truths
from congenial.sampling.jit import kernel


@kernel
def _at_most(ranked: Ints, child: int, cell: int, value: int) -> int:
    """Return how many of a child's draws (draw, child, cell), in ascending order, are at most a value."""
    low, high = 0, ranked.shape[0]
    while low < high:
        middle = (low + high) // 2
        if ranked[middle, child, cell] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def fit_children(ranked: Ints, is_open: Truths, starts: Ints, wanted: Ints, out: Ints) -> None:
    """Set whole numbers (child, cell) that add up to what is wanted of each family.

    The expected distance of a child from its number is convex in that number, so single steps, the cheapest first,
    from the medians on lead to the least sum of distances.
    """
    n_draws, _, n_cells = ranked.shape
    steepest = 2 * n_draws
    for family in range(starts.size - 1):
        first, n = starts[family], starts[family + 1] - starts[family]
        costs = np.empty(n, np.int64)
        for cell in range(n_cells):
            left = wanted[family, cell]
            for child in range(first, first + n):
                out[child, cell] = ranked[(n_draws - 1) // 2, child, cell] if is_open[child, cell] else 0
                left -= out[child, cell]
            way = 1 if left > 0 else -1
            for place in range(n if left != 0 else 0):
                costs[place] = _cost(ranked, is_open, first + place, cell, out[first + place, cell], way, steepest)
            while left != 0:
                place = int(np.argmin(costs))
                out[first + place, cell] += way
                left -= way
                costs[place] = _cost(ranked, is_open, first + place, cell, out[first + place, cell], way, steepest)


@kernel
def _cost(ranked: Ints, is_open: Truths, child: int, cell: int, value: int, way: int, never: int) -> int:
    """Return what a step of one child adds to its expected distance, times the number of draws."""
    n_draws = ranked.shape[0]
    if not is_open[child, cell] or value + way < 0:
        return never
    if way > 0:
        return int(2 * _at_most(ranked, child, cell, value) - n_draws)
    return int(n_draws - 2 * _at_most(ranked, child, cell, value - 1))
