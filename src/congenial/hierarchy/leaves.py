"""Whether confidential tables of leaves are of a tree at all."""

import numpy as np

from congenial.arrays import Ints
from congenial.errors import BrokenError, HierarchyError
from congenial.hierarchy.tree import Tree
from congenial.hierarchy.zeros import Zeros

_MOST = 2**53  # counts are exact as doubles


def check_leaves(tree: Tree, n_cells: int, zeros: Zeros, leaves: Ints) -> None:
    """Refuse tables (leaf, cell), in the order of the tree, that are none of it, without a word about any of them."""
    if leaves.shape != (tree.n_leaves, n_cells) or leaves.dtype.kind not in "iu":
        raise HierarchyError(
            f"tables of leaves are whole numbers of shape ({tree.n_leaves}, {n_cells}), not {leaves.dtype}"
            f" {leaves.shape}"
        )
    if leaves.size and (int(leaves.min()) < 0 or float(leaves.sum(dtype=np.float64)) >= _MOST):
        raise BrokenError("counts are not negative, and add up to less than 2^53", "which of them do is confidential")
    if not zeros.hold(leaves):
        raise BrokenError("structural zeros of the tree", "where they do is confidential")
