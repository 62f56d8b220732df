"""One free sum a child: what it is in the nearest table without negative cells, and a parent's number shared out."""

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.rules.kernels_family import tie_word
from congenial.sampling.jit import kernel

_ENDLESS = 2**62


@kernel
def find_free_sums(
    estimates: Ints,
    cells: Ints,
    firsts: Ints,
    starts: Ints,
    direction: Ints,
    ranges: Ints,
    barred: NDArray[np.bool_],
    bits: int,
    out: Ints,
) -> None:
    """Find the free sum of each child's nearest table of real numbers that are not negative, whatever the others have.

    Where a class has the sum y, its cells are ``max(0, estimate + level)``, and one more costs twice the level. Levels
    rise with y, so that the free sum at which those of all classes, each in its direction, balance is found by halving.
    Without the limit at 0 that would be the sum of the estimates; many small counts make a difference.

    Parameters
    ----------
    estimates : array (child, cell)
        In units of ``2**-bits``.
    cells : array
        Those of the classes that move, one class after the other.
    firsts : array (class + 1,)
        Where the cells of each class begin.
    starts : array (class, child)
        The sum of each class where the free sum is 0.
    direction : array (class,)
    ranges : array (child, 2)
        The lowest and the highest free sum.
    barred : array (child, cell)
        Structural zeros; of no size where there are none.
    out : array (child,)
        In units of ``2**-bits``.
    """
    n_classes = len(direction)
    ordered = np.empty(len(cells), np.int64)
    n_open = np.empty(n_classes, np.int64)
    for child in range(len(estimates)):
        low, high = ranges[child, 0] << bits, ranges[child, 1] << bits
        out[child] = low
        if low >= high:
            continue
        for number in range(n_classes):
            first, n = firsts[number], 0
            for place in range(first, firsts[number + 1]):
                if barred.size == 0 or not barred[child, cells[place]]:
                    ordered[first + n] = -estimates[child, cells[place]]
                    n += 1
            ordered[first : first + n].sort()
            n_open[number] = n
        while high - low > 1:
            free = low + ((high - low) >> 1)
            slope = 0
            for number in range(n_classes):
                sum_, n_above = (starts[number, child] << bits) + direction[number] * free, 0
                for place in range(firsts[number], firsts[number] + n_open[number]):
                    # The cell is above 0 where the level is above this, its estimate with the other sign.
                    if n_above > 0 and sum_ <= n_above * ordered[place]:
                        break
                    sum_ += ordered[place]
                    n_above += 1
                if n_above > 0:
                    slope += direction[number] * (sum_ // n_above)
            if slope < 0:
                low = free
            else:
                high = free
        out[child] = high


@kernel
def share_within(
    estimates: Ints,
    starts: Ints,
    parents: Ints,
    ranges: Ints,
    key: np.uint64,
    first_place: int,
    bits: int,
    out: Ints,
) -> int:
    """Share out one number a family: children within their ranges with the parent's sum, nearest to the estimates.

    As in `share_cells`, a number k costs ``k - estimate`` more than k - 1, whatever the child. The highest level at
    which all that costs no more can be taken is found by halving; of what costs one level more, the largest words.

    Parameters
    ----------
    estimates : array (child,)
        In units of ``2**-bits``.
    parents : array (family,)
    ranges : array (child, 2)
        The lowest and the highest number.
    starts, first_place, out : arrays, int
        As in `share_cells`, for numbers (child,).
    """
    most = 1
    for family in range(len(starts) - 1):
        most = max(most, starts[family + 1] - starts[family])
    members = np.empty(most, np.int64)
    ranks = np.empty(most, np.int64)
    for family in range(len(starts) - 1):
        first, end = starts[family], starts[family + 1]
        lowest, highest, low, high = 0, 0, _ENDLESS, -_ENDLESS
        for child in range(first, end):
            if ranges[child, 0] > ranges[child, 1]:
                return family + 1
            lowest += ranges[child, 0]
            highest += ranges[child, 1]
            low = min(low, (ranges[child, 0] << bits) - estimates[child])
            high = max(high, (ranges[child, 1] << bits) - estimates[child])
            out[child] = ranges[child, 1]
        if not lowest <= parents[family] <= highest:
            return family + 1
        if parents[family] == highest:
            continue
        while high - low > 1:
            middle = low + ((high - low) >> 1)
            sum_ = 0
            for child in range(first, end):
                sum_ += min(max((estimates[child] + middle) >> bits, ranges[child, 0]), ranges[child, 1])
            if sum_ <= parents[family]:
                low = middle
            else:
                high = middle
        rest, n_next = parents[family], 0
        for child in range(first, end):
            out[child] = min(max((estimates[child] + low) >> bits, ranges[child, 0]), ranges[child, 1])
            rest -= out[child]
            if min((estimates[child] + high) >> bits, ranges[child, 1]) > out[child]:
                members[n_next] = child
                ranks[n_next] = np.int64(tie_word(key, first_place + child, 1, 0) >> np.uint64(1))
                n_next += 1
        if rest > 0:
            last = np.sort(ranks[:n_next])[n_next - rest]
            for number in range(n_next):
                if ranks[number] >= last and rest > 0:
                    out[members[number]] += 1
                    rest -= 1
    return 0
