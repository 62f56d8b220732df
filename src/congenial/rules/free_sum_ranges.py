"""Ranges of free sums: which tables of a unit can be shared out all the way down, known before any is decided.

Exact sums that cross each other may leave one sum of each set of tied classes free (`TiedClasses`): with total, women
and people of voting age exact, that of girls. In a leaf it may be anything that leaves no class below 0. In a unit
above, it is as well the sum of what it is in the unit's parts. Exact numbers are public, and so are all these ranges.

**Lemma.** Take a tree in which what is exact at a level is exact above it, and from the second level on

(i) each set of tied classes has one free sum at most, which moves each class by -1, 0 or 1, and
(ii) siblings that are open for any cell of a class are open for the same cells of it.

Let the range R(u) of a free sum t of a unit u be all integers for which every class of its set is 0 or more, 0 where
zeros bar all its cells, and, where u has children, every free sum t' of these, which is ``a + k t`` in u, lies between
the sum of the lowest and the sum of the highest numbers of the ranges of t' in them. Then a table of u that is not
negative, has u's exact sums and is 0 at its structural zeros is the sum of such tables of all units below it if and
only if each of its free sums lies in its range.

*Proof.* By induction from the leaves, where there is nothing to show: R says that classes are not negative. *Only if*:
t' of u is the sum of those of its children. *If*: ranges are intervals of integers, so integers from the ranges of the
children add up to every integer between the sum of the lowest and that of the highest numbers. Choose some that add up
to t' of u. Class sums of children are then given by the same formula, linear in exact sums and free sum, that gives
those of u: they add up to these, and are not negative. So each class is a transport, from the cells of u to the
children: by (ii) all cells that u has in it are open in all children that get something. Such a transport has a
solution in integers. Cells in no exact sum go to any child that is open for them. So there are tables of the children,
with free sums in their ranges, and by induction of all below. *And t' is* ``a + k t``, *with a known*: sums that are
exact below are exact in u, so a class of the children is made of classes of u, which one of u's sums ties: all of one
set, hence with one t or none. If k is 0, t' is known, and in its range because the true tables are. QED

So nothing has to be done at the first level, whatever is exact there, but to decide it with the free sums of the second
level within the sums of their ranges.
"""

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.rules.family_integers import ExactCellSums

_FAR = 2**61


def ranges_by_classes(exact: ExactCellSums, values: Ints, zeros: NDArray[np.bool_]) -> Ints:
    """Return from where to where free sums leave no class below 0 (unit, free sum, 2).

    Parameters
    ----------
    values : array (unit, row)
        Of the exact sums.
    zeros : array (unit, cell)
        Structural zeros; of no size where there are none.

    Examples
    --------
    >>> sums = ExactCellSums(((0, 1, 2, 3), (2, 3), (1, 3)), 4)  # total, women, adults of boys, men, girls, women
    >>> sums.free[0].free_cells
    (0,)
    >>> ranges_by_classes(sums, np.array([[9, 4, 7], [5, 5, 3]]), np.zeros((0, 0), bool)).tolist()
    [[[0, 2]], [[0, 0]]]
    """
    ranges = np.empty((len(values), len(exact.free), 2), np.int64)
    ranges[:] = -_FAR, _FAR
    for number, tied in enumerate(exact.free):
        for cells, start, step in zip(tied.classes, tied.starts(values), tied.line.direction.tolist(), strict=True):
            if step:
                is_barred = zeros[:, list(cells)].all(axis=1) if zeros.size else False
                _narrow(ranges[:, number], start, step, np.zeros_like(start), np.where(is_barred, 0, _FAR))
    return ranges


def ranges_with_children(
    exact: ExactCellSums, values: Ints, zeros: NDArray[np.bool_], below: ExactCellSums, sums: Ints
) -> Ints:
    """Return the same of units that have children.

    Parameters
    ----------
    below : ExactCellSums
        What is exact in the children.
    sums : array (unit, free sum of the children, 2)
        Of the ranges of each unit's children.
    """
    ranges = ranges_by_classes(exact, values, zeros)
    for place, inner in enumerate(below.free):
        for number, tied in enumerate(exact.free):
            within = [set(cells) <= set(inner.free_cells) for cells in tied.classes]
            step = int(tied.line.direction[within].sum())
            if step:
                start = tied.starts(values)[within].sum(axis=0)
                _narrow(ranges[:, number], start, step, *sums[:, place].T)
    return ranges


def _narrow(ranges: Ints, start: Ints, step: int, low: Ints, high: Ints) -> None:
    """Leave the numbers t for which ``start + step t`` is between two others, in place."""
    if step < 0:
        start, step, low, high = -start, -step, -high, -low
    ranges[:, 0] = np.maximum(ranges[:, 0], -((start - low) // step))
    ranges[:, 1] = np.minimum(ranges[:, 1], (high - start) // step)
