"""What the kernels of a tree's estimate are given. Imported without numba."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints

Truths = NDArray[np.bool_]


class ChildLaws(NamedTuple):
    """The tilted law of one child at each level, as a function of where its centre lies. Public.

    A child with count s under the tilt ``exp(theta y)`` has weights ``exp(theta s + theta^2 v / 2) f(y - c)`` with its
    centre at ``c = s + theta v``. Tilts are whole numbers: so many parts of a step of the centre.

    Attributes
    ----------
    noise : array (level,)
        v, the variance parameter of the level's noise; nothing for the top.
    parts, step : array (level,)
        Tilts in a step of 1, a power of two, and the step of the centre from one to the next.
    first, size, base : array (level,)
        Where the level's tables begin, in parts from a centre of 0, how long they are, and where they stand.
    table : array (place, 3)
        ``log sum_{y >= 0} f(y - c)``, the mean less c, and the variance, for centres a part apart.
    """

    noise: Floats
    parts: Ints
    step: Floats
    first: Ints
    size: Ints
    base: Ints
    table: Floats


class Spine(NamedTuple):
    """A tree, all units of all levels in one list, the top first. Public.

    Attributes
    ----------
    starts : array (level + 1,)
        Where each level's units begin.
    level, parent : array (unit,)
        The unit's level, and whose part it is: -1 at the top.
    first, end : array (unit,)
        Its children; none for leaves.
    first_leaf, end_leaf : array (unit,)
        The leaves that are part of it.
    released : array (unit, cell)
    is_open : array (unit, cell)
        Whether a cell is not zero by structure.
    informs : array (unit, cell)
        Whether the released children of a unit say anything: it has several of them, and something to share out.
    """

    starts: Ints
    level: Ints
    parent: Ints
    first: Ints
    end: Ints
    first_leaf: Ints
    end_leaf: Ints
    released: Ints
    is_open: Truths
    informs: Truths


class TreeState(NamedTuple):
    """Where a chain stands; kernels change it.

    Attributes
    ----------
    counts : array (unit, cell)
        The tables: those of leaves, and their sums.
    tilts, means, variances : array (unit, cell)
        Of a family: under which tilt its children's means add up to about what was released of the parent, and the sum
        of their means and variances there.
    is_occupied : array (unit,)
        Whether a leaf is not empty as a whole; true above.
    empty : array (unit,)
        Of the parents of leaves, the share of empty leaves.
    effects : array (unit, effect)
        Factors of mean 1, by kind and label.
    weights : array (unit, cell)
        Their products: what part of its parent's people a unit attracts, beside its siblings.
    sums : array (unit, cell)
        Of the weights of a unit's occupied children.
    rates : array (unit, cell)
        People for each weight among a unit's children.
    log_shares : array (unit, cell)
        The logarithm of a unit's part of all people at the top; 0 there.
    """

    counts: Ints
    tilts: Ints
    means: Floats
    variances: Floats
    is_occupied: Truths
    empty: Floats
    effects: Floats
    weights: Floats
    sums: Floats
    rates: Floats
    log_shares: Floats
