"""Cells of units that are zero by structure, and what follows for parents and children. Public."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.errors import HierarchyError
from congenial.hierarchy.tree import Tree

Bars = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Zeros:
    """Which cells of which units are zero by structure: closed, so that every parent's table can be shared out.

    A unit's bar holds for all that is part of it; a cell that is barred in every child is barred in the parent. So a
    parent's cell is above zero only if some child's may be.

    Attributes
    ----------
    bars : tuple of arrays (unit, cell), or an empty tuple
        For each level, the top first; empty if nothing is barred.

    Examples
    --------
    >>> tree = Tree.of_parents({"county": ["A", "A", "B"], "block": ["1", "2", "3"]})
    >>> zeros = Zeros.of(tree, 2, {"county": {"B": [True, False]}, "block": {"1": [False, True], "2": [False, True]}})
    >>> zeros.bars[0].tolist()
    [[False, True], [True, False]]
    """

    bars: tuple[Bars, ...] = ()

    @classmethod
    def of(cls, tree: Tree, n_cells: int, barred: Mapping[str, Mapping[str, ArrayLike]]) -> "Zeros":
        """Return the zeros that follow from some: for each level, what is barred (cell) in the units that are named."""
        if not barred:
            return cls()
        bars = [np.zeros((len(units), n_cells), np.bool_) for units in tree.codes]
        for level, units in barred.items():
            places = tree.places(level, list(units))
            for place, bar in zip(places.tolist(), units.values(), strict=True):
                bars[tree.level_of(level)][place] = _checked(np.asarray(bar), n_cells, level)
        return cls._closed(tree, bars)

    @classmethod
    def of_leaves(cls, tree: Tree, is_barred: Bars) -> "Zeros":
        """Return the zeros that follow from those of all leaves (leaf, cell), as they were listed."""
        bars = [np.zeros((len(units), is_barred.shape[1]), np.bool_) for units in tree.codes[:-1]]
        return cls._closed(tree, [*bars, is_barred[tree.order]])

    @classmethod
    def _closed(cls, tree: Tree, bars: list[Bars]) -> "Zeros":
        for level, parents in enumerate(tree.parents):
            bars[level + 1] |= bars[level][parents]
        for level in range(len(tree.parents) - 1, -1, -1):
            starts = tree.families[level].starts[:-1]
            bars[level] |= np.logical_and.reduceat(bars[level + 1], starts, axis=0)
        return cls(tuple(bars))

    def hold(self, leaves: NDArray[np.int64]) -> bool:
        """Whether the tables of leaves (leaf, cell), in the order of the tree, are zero where they must be."""
        return not self.bars or not bool(leaves[self.bars[-1]].any())


def _checked(bar: Bars, n_cells: int, level: str) -> Bars:
    if bar.shape != (n_cells,) or bar.dtype != np.bool_:
        raise HierarchyError(f"what is barred in a {level} is said for each of {n_cells} cells, True or False")
    return bar
