"""A tree of areas: levels from the top down, the units of each, and whose parts they are. Public."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import Codes, CodeTexts, codes_as_texts, letters_beyond_ascii
from congenial.errors import BrokenError, HierarchyError, did_you_mean
from congenial.safe_text import LONGEST, explain_hidden, explain_invalid, first_hidden
from congenial.sampling.allocation_to_children.sampler import Families

MOST_ROOM = 1 << 30
"""Bytes of the codes of all leaves at all levels: an array of them has room for the longest in every line."""

TreeTables = tuple[Ints, ...]
"""The tables of every level (unit, cell), the top first, units in the order of the tree."""


@dataclass(frozen=True, eq=False)
class Tree:
    """Levels of areas, each unit but those at the top part of one unit of the level above.

    Made by `Tree.of_parents` or `Tree.of_prefixes`, from a public list of all leaves, those without anybody included.
    Units are arrays: ten million leaves take no object each.

    Attributes
    ----------
    levels : tuple of str
        Their names, the top first.
    codes : tuple of arrays
        The units of each level; those of one parent stand together, in the order of their parents.
    parents : tuple of arrays
        For each level but the top, the place of every unit's parent in the level above; never falling.
    order : array (leaf,)
        Where each leaf stood in the list that the tree was made from.

    Examples
    --------
    >>> tree = Tree.of_parents({"state": ["RI", "HI", "RI"], "county": ["Kent", "Maui", "Bristol"]})
    >>> tree
    tree of 2 levels: 2 state units, 3 county units
    >>> tree.codes[1].tolist(), tree.parents[0].tolist(), tree.order.tolist()
    (['Maui', 'Bristol', 'Kent'], [0, 1, 1], [1, 2, 0])
    >>> [level.tolist() for level in tree.sums([[5, 0], [1, 1], [2, 7]])]
    [[[1, 1], [7, 7]], [[1, 1], [2, 7], [5, 0]]]
    """

    levels: tuple[str, ...]
    codes: tuple[Codes, ...]
    parents: tuple[Ints, ...]
    order: Ints = field(repr=False)

    @classmethod
    def of_parents(cls, columns: Mapping[str, ArrayLike]) -> "Tree":
        """Return the tree of a list of leaves: for each level, the top first, the code of each leaf's unit there."""
        names = tuple(columns)
        _check_names(names)
        codes = [checked_codes(name, column) for name, column in columns.items()]
        if len({column.size for column in codes}) > 1:
            sizes = ", ".join(f"{name} {column.size:,}" for name, column in zip(names, codes, strict=True))
            raise HierarchyError(f"every leaf has one code for each level, and the numbers of codes differ: {sizes}")
        if not codes[0].size:
            raise HierarchyError("a tree has at least one leaf, and the list of leaves is empty")
        check_room(codes[0].size, {name: _width(column) for name, column in zip(names, codes, strict=True)})
        distinct = [_distinct(column) for column in codes]
        if len(distinct[-1][0]) < codes[-1].size:
            raise HierarchyError(
                f"a {names[-1]} is listed twice, {_twice(codes[-1])!r}: each leaf stands in the list once"
            )
        parents = [
            _parents(above, below, names[level : level + 2], distinct[level + 1][0])
            for level, ((_, above), (_, below)) in enumerate(pairwise(distinct))
        ]
        units, places = [distinct[0][0]], np.arange(len(distinct[0][0]))
        ordered = []
        for (labels, _), parent in zip(distinct[1:], parents, strict=True):
            parent = places[parent]  # noqa: PLW2901  where the level above has put it
            into = np.argsort(parent, kind="stable")
            units.append(labels[into])
            ordered.append(parent[into])
            places = np.empty(len(into), np.int64)
            places[into] = np.arange(len(into))
        order = np.empty(codes[-1].size, np.int64)
        order[places[distinct[-1][1]]] = np.arange(codes[-1].size)
        return cls(names, tuple(units), tuple(ordered), order)

    @classmethod
    def of_prefixes(cls, codes: ArrayLike, prefixes: Mapping[str, int], leaf: str) -> "Tree":
        """Return the tree of leaves whose codes begin with those of the units that they are part of.

        Examples
        --------
        >>> Tree.of_prefixes(["44001", "44003", "15001"], {"state": 2}, "county")
        tree of 2 levels: 2 state units, 3 county units
        """
        leaves = checked_codes(leaf, codes)
        lengths = list(prefixes.values())
        if any(type(length) is not int or length < 1 for length in lengths):
            raise HierarchyError(f"a prefix is a number of characters, from 1 on, not one of {lengths}")
        if any(first >= second for first, second in pairwise(lengths)):
            raise HierarchyError(
                f"levels are out of order: from the top down prefixes grow longer, and these are {dict(prefixes)}"
            )
        shortest = int(np.char.str_len(leaves).min(initial=10**9))
        if lengths and shortest <= lengths[-1]:
            raise HierarchyError(
                f"a {leaf} has a code of {shortest} characters, and the prefix of its {list(prefixes)[-1]} alone has"
                f" {lengths[-1]}"
            )
        kind = leaves.dtype.kind
        columns = {name: leaves.astype(f"{kind}{length}") for name, length in prefixes.items()}
        return cls.of_parents({**columns, leaf: leaves})

    @classmethod
    def of_one_level(cls, name: str | None, labels: Sequence[str | None]) -> "Tree":
        """Return the tree of areas that are part of nothing, in their order; of one table, a single unit.

        Examples
        --------
        >>> Tree.of_one_level("county", ["Kent", "Bristol"])
        tree of 1 level: 2 county units
        """
        codes: Codes = (
            labels.codes
            if isinstance(labels, CodeTexts)
            else np.array([label or "" for label in labels], object)  # texts that are there already
        )
        return cls((name or "table",), (codes,), (), np.arange(len(codes)))

    @property
    def n_units(self) -> tuple[int, ...]:
        """The number of units of each level."""
        return tuple(map(len, self.codes))

    @property
    def n_leaves(self) -> int:
        """The number of leaves."""
        return len(self.codes[-1])

    def level_of(self, name: str) -> int:
        """Return the number of a level, 0 being the top."""
        if name not in self.levels:
            raise HierarchyError(f"{name!r} is not a level of the tree; {did_you_mean(name, self.levels)}")
        return self.levels.index(name)

    @cached_property
    def families(self) -> tuple[Families, ...]:
        """For each level but the lowest, which units of the level below are part of each of its units."""
        families = []
        for above, parents in zip(self.codes, self.parents, strict=False):
            starts = np.searchsorted(parents, np.arange(len(above) + 1)).astype(np.int64)
            families.append(Families(starts))
        return tuple(families)

    def sums(self, leaves: ArrayLike) -> tuple[Ints, ...]:
        """Return the tables of every level (unit, cell), the top first, from those of leaves as they were listed."""
        return self.summed(self.in_order(np.asarray(leaves, np.int64)))

    def in_order(self, listed: Ints) -> Ints:
        """Return the tables of leaves in the order of the tree, from those as they were listed."""
        if listed.ndim != 2 or len(listed) != self.n_leaves:
            raise HierarchyError(f"tables of leaves have the shape ({self.n_leaves}, cells), not {listed.shape}")
        return listed[self.order]

    def summed(self, leaves: Ints) -> tuple[Ints, ...]:
        """Return the same from the leaves' tables in the order of the tree."""
        if leaves.ndim != 2 or len(leaves) != self.n_leaves:
            raise HierarchyError(f"tables of leaves have the shape ({self.n_leaves}, cells), not {leaves.shape}")
        levels = [leaves]
        for families in reversed(self.families):
            levels.append(np.add.reduceat(levels[-1], families.starts[:-1], axis=0))
        return tuple(reversed(levels))

    def places(self, level: str, codes: Sequence[str] | Codes) -> Ints:
        """Return where units stand in their level."""
        known = self.codes[self.level_of(level)]
        wanted = _alike(np.asarray(codes), known)
        ranks = np.argsort(known)
        places = ranks[np.minimum(np.searchsorted(known, wanted, sorter=ranks), len(known) - 1)]
        is_wrong = known[places] != wanted
        if is_wrong.any():
            raise HierarchyError(f"{codes_as_texts(np.asarray(codes)[is_wrong][:1])[0]!r} is not a {level} of the tree")
        return np.asarray(places, np.int64)

    def texts(self, level: int) -> list[str]:
        """Return the codes of a level's units as texts, an object each."""
        return codes_as_texts(self.codes[level])

    def places_of_code(self, level: int, code: str) -> Ints:
        """Return where in a level units of a code stand: one place, or none."""
        known = self.codes[level]
        return np.flatnonzero(known == _alike(np.array([code]), known)[0])

    def under(self, level: int, first: int, end: int) -> "Tree":
        """Return the tree under some units of a level that stand together: they are its top.

        Examples
        --------
        >>> tree = Tree.of_prefixes(["11a", "12a", "12b", "21a"], {"state": 1, "county": 2}, "block")
        >>> tree.under(1, 1, 3), tree.under(1, 1, 3).codes[1].tolist()
        (tree of 2 levels: 2 county units, 3 block units, ['12a', '12b', '21a'])
        """
        codes, parents = [self.codes[level][first:end]], []
        for below in range(level, len(self.levels) - 1):
            starts = self.families[below].starts
            before, first, end = first, int(starts[first]), int(starts[end])
            codes.append(self.codes[below + 1][first:end])
            parents.append(self.parents[below][first:end] - before)
        return Tree(self.levels[level:], tuple(codes), tuple(parents), np.arange(end - first))

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(units):,} {name} units" for name, units in zip(self.levels, self.codes, strict=True))
        levels = "1 level" if len(self.levels) == 1 else f"{len(self.levels)} levels"
        return f"tree of {levels}: {sizes}"


def _check_names(names: Sequence[str]) -> None:
    if len(names) < 2:
        raise HierarchyError(f"a tree has at least two levels, such as state and county, not {list(names)}")
    for name in names:
        if type(name) is not str or not name.strip():
            raise HierarchyError(f"the name of a level is text, such as county, not {name!r}")
        if wrong := explain_invalid(name, f"the level {name[:40]!r}"):
            raise HierarchyError(wrong)


def check_room(n_leaves: int, widths: Mapping[str, int]) -> None:
    """Refuse codes that take too much room together: `widths` are the bytes of the longest code of each level."""
    if n_leaves * sum(widths.values()) > MOST_ROOM:
        longest = max(widths, key=lambda name: widths[name])
        raise HierarchyError(
            f"the codes of {n_leaves:,} leaves have up to {sum(widths.values()):,} bytes at all levels, together more"
            f" than {MOST_ROOM:,}; shorten the longest codes, which are of {longest}"
        )


def _width(codes: Codes) -> int:
    """Return the bytes of the longest code, as an array holds it."""
    return int(np.char.str_len(codes).max()) * (1 if codes.dtype.kind == "S" else 4)


def checked_codes(name: str, column: ArrayLike) -> Codes:
    """Check the codes of one level, a line each."""
    codes = np.asarray(column)
    if codes.dtype.kind == "O" and all(type(code) is str for code in codes.reshape(-1)[:1000].tolist()):
        codes = codes.astype(str)
    if codes.ndim != 1 or codes.dtype.kind not in "US":
        raise HierarchyError(f'codes of {name} are a list of text such as "44001", not {codes.dtype} {codes.shape}')
    if codes.size:
        _check_texts(name, codes)
    return codes


def _check_texts(name: str, codes: Codes) -> None:
    """Refuse codes that are empty, too long, or hold characters that do not show."""
    lengths = np.char.str_len(codes)
    if int(lengths.min()) == 0:
        raise HierarchyError(f"a leaf has no {name}: every leaf names its unit of every level, an empty code is none")
    if int(lengths.max()) > LONGEST:
        raise HierarchyError(
            f"a code of {name} has {int(lengths.max()):,} characters, and the limit is {LONGEST:,}; shorten it"
        )
    letters = letters_beyond_ascii(codes)
    if codes.dtype.kind == "S" and letters and max(letters) > "\x7f":
        raise HierarchyError(f"codes of {name} are bytes beyond ASCII; give them as text")
    if hidden := [letter for letter in letters if first_hidden(letter)]:
        code = next(text for text in CodeTexts(codes) if any(letter in text for letter in hidden))
        raise HierarchyError(explain_hidden(code, f"the code {code[:40]!r} of {name}"))


def _distinct(column: Codes) -> tuple[Codes, Ints]:
    """Return the distinct codes, ascending, and which of them each line has; quickly where they ascend already."""
    if bool((column[1:] >= column[:-1]).all()):
        is_new = np.concatenate([[True], column[1:] != column[:-1]])
        return column[is_new], np.cumsum(is_new) - 1
    labels, inverse = np.unique(column, return_inverse=True)
    return labels, inverse.reshape(-1).astype(np.int64)


def _alike(wanted: Codes, known: Codes) -> Codes:
    """Return codes in the kind of others, to be compared with them."""
    if known.dtype.kind == "S" and wanted.dtype.kind != "S":
        return np.char.encode(wanted.astype(str), "utf-8")
    return wanted.astype(str) if known.dtype.kind == "U" else wanted


def _twice(column: Codes) -> str:
    ranked = np.sort(column)
    return codes_as_texts(ranked[1:][ranked[1:] == ranked[:-1]][:1])[0]


def _parents(above: Ints, below: Ints, names: Sequence[str], labels: Codes) -> Ints:
    """Return each unit's parent, of which there must be one."""
    parent = np.empty(len(labels), np.int64)
    parent[below] = above
    is_torn = parent[below] != above
    if is_torn.any():
        torn = codes_as_texts(labels[below[is_torn][:1]])[0]
        raise HierarchyError(
            f"{names[1]} {torn!r} is part of two {names[0]} units: a unit has one parent;"
            " give units of one name in different places codes of their own, or put the levels in order, the top first"
        )
    return parent


# Structural zeros of units, and what follows for parents and children. Public.

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Zeros:
    """The structural zeros of a tree's units: closed, so that every parent's table can be shared out.

    A unit's structural zero is one of all that is part of it; a structural zero of every child is one of the parent. So
    a parent's cell is above zero only if some child's may be.

    Attributes
    ----------
    masks : tuple of arrays (unit, cell), or an empty tuple
        For each level, the top first; empty if there are no structural zeros.

    Examples
    --------
    >>> tree = Tree.of_parents({"county": ["A", "A", "B"], "block": ["1", "2", "3"]})
    >>> zeros = Zeros.of(tree, 2, {"county": {"B": [True, False]}, "block": {"1": [False, True], "2": [False, True]}})
    >>> zeros.masks[0].tolist()
    [[False, True], [True, False]]
    """

    masks: tuple[Mask, ...] = ()

    @classmethod
    def of(cls, tree: Tree, n_cells: int, stated: Mapping[str, Mapping[str, ArrayLike]]) -> "Zeros":
        """Return the zeros that follow from some: for each level, the mask (cell) of each unit that is named."""
        if not stated:
            return cls()
        masks = [np.zeros((len(units), n_cells), np.bool_) for units in tree.codes]
        for level, units in stated.items():
            places = tree.places(level, list(units))
            for place, mask in zip(places.tolist(), units.values(), strict=True):
                masks[tree.level_of(level)][place] = _checked(np.asarray(mask), n_cells, level)
        return cls._closed(tree, masks)

    @classmethod
    def of_leaves(cls, tree: Tree, mask: Mask) -> "Zeros":
        """Return the zeros that follow from those of all leaves (leaf, cell), as they were listed."""
        masks = [np.zeros((len(units), mask.shape[1]), np.bool_) for units in tree.codes[:-1]]
        return cls._closed(tree, [*masks, mask[tree.order]])

    @classmethod
    def _closed(cls, tree: Tree, masks: list[Mask]) -> "Zeros":
        for level, parents in enumerate(tree.parents):
            masks[level + 1] |= masks[level][parents]
        for level in range(len(tree.parents) - 1, -1, -1):
            starts = tree.families[level].starts[:-1]
            masks[level] |= np.logical_and.reduceat(masks[level + 1], starts, axis=0)
        return cls(tuple(masks))

    def of_level(self, level: int) -> Mask | None:
        """Return the mask of a level's units (unit, cell); None where there are no structural zeros."""
        return self.masks[level] if self.masks else None

    def hold(self, leaves: NDArray[np.int64]) -> bool:
        """Whether the tables of leaves (leaf, cell), in the order of the tree, are zero where they must be."""
        return not self.masks or not bool(leaves[self.masks[-1]].any())


def _checked(mask: Mask, n_cells: int, level: str) -> Mask:
    if mask.shape != (n_cells,) or mask.dtype != np.bool_:
        raise HierarchyError(f"structural zeros of a {level} are said for each of {n_cells} cells, True or False")
    return mask


# Whether confidential tables of leaves are of a tree at all.

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
