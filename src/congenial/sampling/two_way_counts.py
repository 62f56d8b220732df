"""How many two-way tables of whole numbers have given margins, where one side has at most four lines. Public.

Split the columns in two pairs. The lines of the first pair add up to some u, those of the second to the rest; for each
u a pair of columns can be filled in a number of ways that inclusion and exclusion give at once. So the count is a sum
over all u, and no table is built: a second for 592 people by colours of eyes and hair.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb, prod

import numpy as np

from congenial.arrays import Ints

MOST_SUMS = 3 * 10**8
_MOST_COLUMNS = 4


def count_two_way(lines: Sequence[int], columns: Sequence[int]) -> int | None:
    """Return the number of tables with these sums of lines and columns; None where that takes too long.

    Examples
    --------
    >>> count_two_way([2, 2, 2], [2, 2, 2])
    21
    >>> count_two_way([220, 215, 93, 64], [108, 286, 71, 127])
    1225914276768514
    """
    lines, columns = [v for v in lines if v], [v for v in columns if v]
    if min(len(lines), len(columns)) <= 1:
        return 1
    ways = [(lines, columns), (columns, lines)]
    fits = [(n, held, free) for held, free in ways if len(free) <= _MOST_COLUMNS and (n := _n_sums(held)) <= MOST_SUMS]
    if not fits:
        return None
    _, held, free = min(fits)
    held, free = sorted(held), sorted(free, reverse=True)
    if comb(max(free) + len(held) - 1, len(held) - 1) ** 2 >= 2**62:
        return None
    if len(free) == 2:
        return int(_ways([np.array([v]) for v in held], free[0])[0])
    return _sum_over_pairs(held, free)


def _n_sums(held: Sequence[int]) -> int:
    """Return how many numbers are added up: the sums of lines, of which the largest follows, times sets of lines."""
    return int(2 ** len(held)) * prod(sorted(held)[i] + 1 for i in range(len(held) - 1))


def _sum_over_pairs(held: Sequence[int], free: Sequence[int]) -> int:
    first = free[0] + free[1]
    total = 0
    for start in range(held[0] + 1):  # a slice at a time bounds the memory
        axes = [np.array([start]), *(np.arange(v + 1) for v in held[1:-1])]
        grid = [part.reshape(-1) for part in np.meshgrid(*axes, indexing="ij")]
        last = first - sum(grid, np.zeros(1, np.int64))
        inside = (last >= 0) & (last <= held[-1])
        u = [*(part[inside] for part in grid), last[inside]]
        rest = [v - part for v, part in zip(held, u, strict=True)]
        ways = _ways(u, free[0]) * (_ways(rest, free[2]) if len(free) == 4 else 1)
        total += (int((ways >> 32).sum()) << 32) + int((ways & 0xFFFFFFFF).sum())
    return total


def _ways(u: list[Ints], column: int) -> Ints:
    """Return in how many ways numbers between 0 and u_i add up to a column's sum, for many u at once."""
    n = len(u)
    out = np.zeros(u[0].shape, np.int64)
    for size in range(n + 1):
        for chosen in combinations(range(n), size):
            left = column - sum((u[i] + 1 for i in chosen), np.zeros(u[0].shape, np.int64))
            out += (-1) ** size * _compositions(left, n)
    return out


def _compositions(left: Ints, n: int) -> Ints:
    """Return the number of n numbers from 0 on that add up to `left`."""
    out = np.ones(left.shape, np.int64)
    for k in range(1, n):
        out = out * (left + k) // k
    return np.where(left >= 0, out, 0)
