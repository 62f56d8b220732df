"""Areas that cross a tree: places or districts, each some leaves put together, of which a leaf is in one at most."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import Codes, CodeTexts
from congenial.conditions.areas_and_bounds import Areas
from congenial.errors import HierarchyError
from congenial.exact import positive_fraction
from congenial.schema import Schema
from congenial.tree.exact_sums import ExactSums, unit_groups
from congenial.tree.tree_and_zeros import Mask, Tree, Zeros, checked_codes

NOWHERE = -1
"""The area of a leaf that is in none."""

USUAL_PORTION = Fraction(1, 10)


@dataclass(frozen=True, eq=False)
class AreasAcross:
    """Which leaves of a tree each area consists of. Public.

    Attributes
    ----------
    name : str
        What an area is called, such as district.
    codes : array (area,)
    area_of_leaf : array (leaf,)
        The number of each leaf's area, in the order of the tree, or `NOWHERE`.
    portion : Fraction
        Of the budget, what their measurements get; levels share the rest.

    Examples
    --------
    >>> tree = Tree.of_prefixes(["1a", "1b", "2a", "2b"], {"county": 1}, "block")
    >>> districts = AreasAcross.of(tree, "district", ["east", "west", "west", None])
    >>> districts.codes.tolist(), districts.summed(np.array([[1], [2], [3], [4]])).tolist()
    (['east', 'west'], [[1], [5]])
    """

    name: str
    codes: Codes = field(repr=False)
    area_of_leaf: Ints = field(repr=False)
    portion: Fraction = USUAL_PORTION

    def __post_init__(self) -> None:
        if not 0 < self.portion < 1:
            raise HierarchyError(
                f"the portion of the budget for each {self.name} is between 0 and 1, such as 1/10, not {self.portion}"
            )

    @classmethod
    def of(
        cls, tree: Tree, name: str, areas: "ArrayLike | Sequence[str | None]", portion: object = USUAL_PORTION
    ) -> "AreasAcross":
        """Return the areas from the code of each leaf's area, in the order in which leaves were listed.

        Parameters
        ----------
        areas : array (leaf,)
            None, or an empty text, for a leaf that is in no area.
        """
        listed = np.asarray(areas)
        if listed.dtype.kind == "O":
            listed = np.array(["" if code is None else code for code in listed.reshape(-1).tolist()])
        if len(listed) != tree.n_leaves:
            raise HierarchyError(f"each of {tree.n_leaves:,} leaves has a {name} or none, and {len(listed):,} are said")
        if name.casefold() in {level.casefold() for level in tree.levels}:
            raise HierarchyError(f"{name!r} is a level of the tree; areas across it have a name of their own")
        codes, numbers = np.unique(listed[tree.order], return_inverse=True)
        numbers = numbers.reshape(-1).astype(np.int64)
        if not int(np.char.str_len(codes[:1]).sum()):  # the first, in order, is the empty one
            codes, numbers = codes[1:], numbers - 1
        if not len(codes):
            raise HierarchyError(f"no leaf is in a {name}: leave out the areas that cross the tree")
        codes = checked_codes(name, codes)
        return cls(name, codes, numbers, positive_fraction(portion, f"the portion of each {name}"))

    @property
    def is_somewhere(self) -> Mask:
        """Which leaves are in an area (leaf,)."""
        somewhere: Mask = self.area_of_leaf != NOWHERE
        return somewhere

    def codes_of_leaves(self, first: int, end: int) -> Codes:
        """Return the code of the area of each of some leaves, an empty text where there is none."""
        some = self.area_of_leaf[first:end]
        codes: Codes = np.where(some == NOWHERE, np.array("", self.codes.dtype), self.codes[some])
        return codes

    def summed(self, leaves: Ints) -> Ints:
        """Return the tables of the areas (area, cell) from those of leaves."""
        out = np.zeros((len(self.codes), leaves.shape[1]), np.int64)
        np.add.at(out, self.area_of_leaf[self.is_somewhere], leaves[self.is_somewhere])
        return out

    def areas(self, schema: Schema, exact: ExactSums | None, zeros: Zeros) -> Areas:
        """Return what the tables of the areas obey: sums of what is exact in every leaf, and of structural zeros."""
        sums = None if exact is None else ExactSums(exact.rows, self.summed(exact.values))
        mask = zeros.of_level(-1)
        is_zero = None if mask is None else self.summed((~mask).astype(np.int64)) == 0
        groups = unit_groups(schema, sums, len(self.codes), is_zero)
        return Areas(self.name, CodeTexts(self.codes), tuple(groups))

    def part(self, first: int, end: int) -> "AreasAcross | None":
        """Return the areas of some leaves that stand together; None if they are in none."""
        some = self.area_of_leaf[first:end]
        present = np.unique(some[some != NOWHERE])
        if not len(present):
            return None
        numbers = np.where(some == NOWHERE, NOWHERE, np.searchsorted(present, some))
        return replace(self, codes=self.codes[present], area_of_leaf=numbers)

    def crossings(self, tree: Tree) -> tuple[int, ...]:
        """Return the levels at which two leaves can part that are in different areas, or one of them in none."""
        out, units = [], np.zeros(tree.n_leaves, np.int64)
        for level, numbers in enumerate(_units_of_leaves(tree)):
            several = _has_several(units, numbers) & _has_several(units, self.area_of_leaf)
            if several.any():
                out.append(level)
            units = numbers
        return tuple(out)


def _units_of_leaves(tree: Tree) -> Sequence[Ints]:
    """Return the number of each leaf's unit at every level, the top first."""
    units = [np.arange(tree.n_leaves)]
    for parents in reversed(tree.parents):
        units.append(parents[units[-1]])
    return units[::-1]


def _has_several(units: Ints, values: Ints) -> Mask:
    """Return which units have leaves of different values (unit,)."""
    n_units = int(units.max(initial=-1)) + 1
    least, largest = np.full(n_units, np.iinfo(np.int64).max), np.full(n_units, np.iinfo(np.int64).min)
    np.minimum.at(least, units, values)
    np.maximum.at(largest, units, values)
    several: Mask = least < largest
    return several
