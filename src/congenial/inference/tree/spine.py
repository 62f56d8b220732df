"""A tree and its release as the kernels take them: all units in one list."""

from collections.abc import Sequence

import numpy as np

from congenial.arrays import Ints
from congenial.hierarchy.law import ChainLaw
from congenial.inference.kernels.tree_shapes import Spine


def spine_of(law: ChainLaw, release: Sequence[Ints]) -> Spine:
    """Return the list of units with what was released of each (unit, cell), level by level."""
    tree = law.tree
    sizes = [len(codes) for codes in tree.codes]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n_units = int(starts[-1])
    first, end = np.zeros(n_units, np.int64), np.zeros(n_units, np.int64)
    for level, families in enumerate(tree.families):
        own = slice(starts[level], starts[level + 1])
        first[own], end[own] = starts[level + 1] + families.starts[:-1], starts[level + 1] + families.starts[1:]
    first_leaf, end_leaf = np.arange(n_units), np.arange(n_units) + 1
    for level in range(len(sizes) - 2, -1, -1):
        own = slice(starts[level], starts[level + 1])
        first_leaf[own], end_leaf[own] = first_leaf[first[own]], end_leaf[end[own] - 1]
    released = np.concatenate(release).astype(np.int64)
    is_open = np.ones(released.shape, np.bool_)
    if law.zeros.bars:
        is_open = ~np.concatenate(law.zeros.bars)
    n_open = np.zeros(released.shape, np.int64)
    inner = slice(0, starts[-2])
    n_open[inner] = np.add.reduceat(is_open.astype(np.int64), first[inner], axis=0)
    return Spine(
        starts=starts,
        level=np.repeat(np.arange(len(sizes)), sizes),
        parent=np.concatenate(
            [np.full(sizes[0], -1), *(starts[level] + parents for level, parents in enumerate(tree.parents))]
        ),
        first=first,
        end=end,
        first_leaf=first_leaf,
        end_leaf=end_leaf,
        released=released,
        is_open=is_open,
        informs=(n_open >= 2) & (released > 0),
    )
