"""Siblings that are in the same groups, decided together before each by itself.

Groups of leaves, such as districts, cross a tree: the children of a unit may be parts of several. Counts that are
nearest to the estimates of each child add up to group sums that may be far off: siblings' estimates share their
fractions, so that a small shift of one group decides all that is equally near in its favour, and what is cut off at 0
adds up. So a unit is shared out among its *pieces* first, the children that have all their leaves in the same groups,
and each piece among its children.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from congenial.arrays import Ints, distinct_rows
from congenial.rules.family_integers import Cells, Siblings, with_decided_sums

_KEY_OF_PIECES = int.from_bytes(b"glspiece", "big")  # words of pieces are others than those of their children


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of all families of a level.

    Attributes
    ----------
    order : array (child,)
        Children of the level, those of a piece together; families stay where they are.
    starts : array (piece + 1,)
        Where the children of each piece begin in that order.
    families : array (family + 1,)
        Where the pieces of each family begin.
    """

    order: Ints
    starts: Ints
    families: Ints

    def shared_out(self, siblings: Siblings, families: slice, sums: tuple[Cells, ...]) -> Ints:
        """Return the tables (child, cell) of the children of some families.

        Parameters
        ----------
        sums : tuple of cells
            What is decided before the cells, of pieces as of children.
        """
        pieces = slice(int(self.families[families.start]), int(self.families[families.stop]))
        bounds = self.starts[pieces.start : pieces.stop + 1]
        order = self.order[bounds[0] : bounds[-1]] - bounds[0]
        bounds = bounds - bounds[0]
        children = replace(
            siblings,
            estimates=siblings.estimates[order],
            values=siblings.values[order],
            zeros=siblings.zeros[order] if siblings.zeros.size else siblings.zeros,
            ranges=siblings.ranges[order],
        )
        of_pieces = replace(
            siblings,
            estimates=np.add.reduceat(children.estimates, bounds[:-1], axis=0),
            starts=self.families[families.start : families.stop + 1] - pieces.start,
            values=np.add.reduceat(children.values, bounds[:-1], axis=0),
            zeros=np.logical_and.reduceat(children.zeros, bounds[:-1], axis=0)
            if children.zeros.size
            else siblings.zeros,
            ranges=np.add.reduceat(children.ranges, bounds[:-1], axis=0),
            key=siblings.key ^ _KEY_OF_PIECES,
            first_place=pieces.start,
        )
        tables = with_decided_sums(of_pieces, sums).shared_out()
        out = np.empty_like(siblings.estimates)
        out[order] = with_decided_sums(replace(children, starts=bounds, parents=tables), sums).shared_out()
        return out


def pieces_of_levels(starts: Sequence[Ints], groups_of_leaf: Sequence[Ints]) -> tuple[Pieces, ...]:
    """Return the pieces of all levels but the first.

    Parameters
    ----------
    starts : sequence of arrays (unit + 1,)
        For each level but the last, where the children of each unit begin.
    groups_of_leaf : sequence of arrays (leaf,)
        One or more divisions of the leaves into groups.

    Examples
    --------
    >>> pieces, = pieces_of_levels([np.array([0, 3, 5])], [np.array([7, 2, 7, 2, 2])])
    >>> pieces.order.tolist(), pieces.starts.tolist(), pieces.families.tolist()
    ([1, 0, 2, 3, 4], [0, 1, 3, 5], [0, 2, 3])
    """
    distinct, labels = distinct_rows(np.stack(groups_of_leaf, axis=1))
    levels = []
    for some in reversed(starts):
        family = np.repeat(np.arange(len(some) - 1), np.diff(some))
        order = np.lexsort((labels, family))
        is_first = np.diff(family, prepend=-1) > 0
        is_first[1:] |= np.diff(labels[order]) != 0
        first = np.flatnonzero(is_first)
        levels.append(Pieces(order, np.append(first, len(order)), np.searchsorted(first, some)))
        # A unit has the label of its children where they have one; else it is a piece by itself.
        low, high = (extreme.reduceat(labels, some[:-1]) for extreme in (np.minimum, np.maximum))
        labels = np.where((low == high) & (high < len(distinct)), low, len(distinct) + np.arange(len(low)))
    return tuple(reversed(levels))
