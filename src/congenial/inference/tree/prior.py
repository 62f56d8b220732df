"""What is believed of a tree before its release: shares of a parent's people that differ by size and by make-up.

The people of a cell fall to the children of a unit in proportion to their weights: size x effect of the cell, and for
leaves, where cells are small, size x effect of each label. Factors are gamma numbers of mean 1, whose shapes are
learned from the release itself, level by level and label by label. A shape is large where children are alike. Leaves
have two factors of size, because their sizes have longer tails than one gamma law, and may be empty as a whole.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.schema import Schema

_USUAL, _SPREAD = np.log(5.0), 1.5  # of the logarithm of a shape, before anything is learned
LEAST_SHAPE, MOST_SHAPE = 0.05, 5_000.0
SHARES = np.linspace(0.01, 0.99, 50)
FIRMNESS = 2.0 ** np.arange(0, 8)


@dataclass(frozen=True)
class Kind:
    """Effects of one kind: of the unit's size, of the labels of a dimension, or of each cell.

    Attributes
    ----------
    first : int
        Its first column among all effects.
    columns : array (cell,)
        Which column a cell's effect of this kind stands in.
    is_of_leaves, is_above : bool
        Whether leaves have it, and whether units above them have.
    """

    name: str
    first: int
    columns: Ints
    is_of_leaves: bool = True
    is_above: bool = True

    @property
    def n_labels(self) -> int:
        """How many effects of this kind a unit has."""
        return int(self.columns.max()) - self.first + 1


def kinds_of(schema: Schema) -> tuple[Kind, ...]:
    """Return the kinds of effects: size, of leaves a second time; every dimension's labels of leaves, every cell above.

    Examples
    --------
    >>> [kind.name for kind in kinds_of(Schema({"sex": ["f", "m"], "age": ["0-17", "18+"]}))]
    ['size', 'size again', 'sex', 'age', 'cell']
    """
    cells = np.arange(schema.n_cells)
    found = [Kind("size", 0, np.zeros_like(cells)), Kind("size again", 1, np.ones_like(cells), is_above=False)]
    first = 2
    places = np.unravel_index(cells, schema.shape)
    for name, labels, own in zip(schema.names, schema.shape, places, strict=True):
        found.append(Kind(name, first, first + own.astype(np.int64), is_above=False))
        first += labels
    return (*found, Kind("cell", first, first + cells, is_of_leaves=False))


@dataclass(frozen=True, eq=False)
class TreePrior:
    """The prior's numbers, as a chain has learned them so far.

    Attributes
    ----------
    shapes : array (level, effect)
        Of the gamma laws, for the levels below the top; the first line is not used.
    empty : float
        The share of leaves that are empty.
    firmness : float
        How alike families are in that share: so many leaves' worth.
    is_learned : bool
        Whether the numbers follow the release, or stay as they are.
    """

    kinds: tuple[Kind, ...] = field(repr=False)
    shapes: Floats
    empty: float = 0.3
    firmness: float = 4.0
    is_learned: bool = True

    @classmethod
    def of(cls, schema: Schema, n_levels: int) -> "TreePrior":
        """Return where learning begins."""
        kinds = kinds_of(schema)
        n_effects = kinds[-1].first + kinds[-1].n_labels
        return cls(kinds, np.full((n_levels, n_effects), 2.0))

    def kinds_at(self, level: int) -> tuple[Kind, ...]:
        """Return the kinds of effects that units of a level have."""
        is_leaf = level == len(self.shapes) - 1
        return tuple(kind for kind in self.kinds if (kind.is_of_leaves if is_leaf else kind.is_above))

    def fixed(self, **numbers: object) -> "TreePrior":
        """Return a prior whose numbers are given and stay."""
        return replace(self, is_learned=False, **numbers)  # type: ignore[arg-type]


def log_density(shape: float) -> float:
    """Return the log density of the logarithm of a shape, up to a constant: wide, and hardly ever at its limits."""
    if not LEAST_SHAPE <= shape <= MOST_SHAPE:
        return -np.inf
    return float(-0.5 * ((np.log(shape) - _USUAL) / _SPREAD) ** 2)
