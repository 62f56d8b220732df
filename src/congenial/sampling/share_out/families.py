"""Which children belong together: the structure that sharing out goes by."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints


@dataclass(frozen=True, eq=False)
class Families:
    """Families of children, one after another. Public.

    Attributes
    ----------
    starts : array (family + 1,)
        Where each family's children begin.
    is_barred : array (child, cell), or None
        Which cells of which children are zero by structure.

    Examples
    --------
    >>> families = Families(np.array([0, 2, 2, 5]))
    >>> len(families), families.sizes
    (3, array([2, 0, 3]))
    """

    starts: Ints
    is_barred: NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> Ints:
        """How many children each family has."""
        return np.diff(self.starts)

    def part(self, first: int, end: int) -> "Families":
        """Return some families that stand together, by themselves."""
        starts = self.starts[first : end + 1]
        barred = None if self.is_barred is None else self.is_barred[starts[0] : starts[-1]]
        return Families(starts - starts[0], barred)

    def children_of(self, places: Ints) -> Ints:
        """Return the children of some families, family by family."""
        sizes = self.sizes[places]
        ends = np.cumsum(sizes)
        return np.repeat(self.starts[places] - ends + sizes, sizes) + np.arange(int(sizes.sum()))

    def some(self, places: Ints) -> "Families":
        """Return some of the families, by themselves."""
        starts = np.concatenate([[0], np.cumsum(self.sizes[places])]).astype(np.int64)
        return Families(starts, None if self.is_barred is None else self.is_barred[self.children_of(places)])
