"""Measured trees by enumeration: every table of the leaves, every pair, the noise of every unit on its own lattice.

Nothing here prices or draws with the package: leaves are listed, levels are sums of leaves, and the laws of noise are
those of `lattice_audit`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import inf

import numpy as np
from numpy.typing import NDArray

from brute import Dice
from congenial.conditions.rows_and_intervals import Row
from congenial.privacy.measured_tree import MeasuredLevel, MeasuredTree
from congenial.privacy.record_changes_in_trees import PublicTree
from congenial.tree.areas_across import AreasAcross
from congenial.tree.tree_and_zeros import Tree
from lattice_audit import MOST_POINTS, ORDERS, ROUNDING, Ints, Lattice, TwoLaws, kernel, loss_of, short

NOISES = {1: "double_geometric", 2: "discrete_gaussian"}
LEAST = {0: "0.1", 1: "0.1", 2: "0.4", 3: "1.5"}
MOST_TABLES = 250
Rows = tuple[tuple[int, ...], ...]


def compositions(n: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in compositions(n - first, parts - 1):
            yield (first, *rest)


def row_of(weights: tuple[int, ...]) -> Row:
    return Row.weighted(dict(enumerate(weights)), str(weights))


@dataclass(frozen=True, eq=False)
class SmallTree:
    """A small measured tree in the plainest terms.

    Attributes
    ----------
    units : the unit of each leaf, level by level from the top; at the last level leaves are units
    queries : by level, (precision, rows as weights of cells); after the last level those of areas across
    exact : by level, rows that are exact in every unit
    zeros : array (leaf, cell), structural zeros
    table : array (leaf, cell), one confidential table
    across : the area of each leaf across the tree, -1 for none; empty where there are no such areas
    """

    units: tuple[tuple[int, ...], ...]
    n_cells: int
    exponent: int
    queries: tuple[tuple[tuple[Fraction, Rows], ...], ...]
    exact: tuple[Rows, ...]
    zeros: NDArray[np.bool_]
    table: Ints
    across: tuple[int, ...] = ()

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """Return the units of leaves of all that is measured: by level, and of the areas across."""
        return (*self.units, self.across) if self.across else self.units

    @property
    def n_levels(self) -> int:
        return len(self.units)

    @property
    def n_leaves(self) -> int:
        return len(self.units[-1])

    @cached_property
    def parents(self) -> tuple[Ints, ...]:
        out = []
        for above, below in zip(self.units, self.units[1:], strict=False):
            parent = np.zeros(max(below) + 1, np.int64)
            parent[list(below)] = above
            out.append(parent)
        return tuple(out)

    def summed(self, leaves: Ints, level: int) -> Ints:
        """Return the tables (..., unit, cell) of a level from those of leaves (..., leaf, cell)."""
        units = np.array(self.places[level])
        parts = [leaves[..., units == unit, :].sum(axis=-2) for unit in range(int(units.max()) + 1)]
        out: Ints = np.stack(parts, axis=-2)
        return out

    def values(self, leaves: Ints) -> Ints:
        """Return all exact numbers (..., number) of tables of leaves."""
        parts = [np.zeros((*leaves.shape[:-2], 0), np.int64)]
        for level, rows in enumerate(self.exact):
            for row in rows:
                parts.append(self.summed(leaves, level) @ np.array(row))
        return np.concatenate(parts, axis=-1)

    @cached_property
    def tables(self) -> Ints:
        """Every table (table, leaf, cell) with the exact numbers and zeros, of at most one record more or less."""
        open_places = np.argwhere(~self.zeros)
        n = int(self.table.sum())
        listed = [line for size in range(max(0, n - 1), n + 2) for line in compositions(size, len(open_places))]
        out = np.zeros((len(listed), self.n_leaves, self.n_cells), np.int64)
        out[:, open_places[:, 0], open_places[:, 1]] = listed
        tables: Ints = out[(self.values(out) == self.values(self.table)).all(axis=1)]
        return tables

    def differences(self, neighbours: str) -> tuple[Ints, Ints]:
        """Return the differences of all ordered pairs, each once, and how many records apart they are."""
        flat = self.tables.reshape(len(self.tables), -1)
        gaps = np.unique((flat[:, None] - flat[None]).reshape(-1, flat.shape[1]), axis=0)
        norms = np.abs(gaps).sum(axis=1)
        if neighbours == "bounded":
            gaps, norms = gaps[gaps.sum(axis=1) == 0], norms[gaps.sum(axis=1) == 0] // 2
        keep = norms > 0
        return gaps[keep].reshape(-1, self.n_leaves, self.n_cells), norms[keep]

    def distances(self, changes: Ints) -> list[Fraction]:
        """Return D(z), or rho(z), of differences of leaves (change, leaf, cell), row by row, in fractions."""
        sums, precisions = [np.zeros(len(changes), np.int64)], [Fraction(0)]
        for level, queries in enumerate(self.queries):
            units = self.summed(changes, level)
            for precision, rows in queries:
                sums.append((np.abs(units @ np.array(rows).T) ** self.exponent).sum(axis=(1, 2)))
                precisions.append(precision)
        lines, which = np.unique(np.stack(sums, axis=1), axis=0, return_inverse=True)
        parts = [sum(p * n for p, n in zip(precisions, line, strict=True)) for line in lines.tolist()]
        return [Fraction(parts[number]) / self.exponent for number in which.reshape(-1)]

    def distance(self, change: Ints) -> Fraction:
        """Return D(z), or rho(z), of one difference of leaves."""
        return self.distances(change[None])[0]

    def exact_at(self, level: int) -> list[tuple[int, ...]]:
        return [row for rows in self.exact[min(level, self.n_levels - 1) :] for row in rows]

    def lattice(self, level: int, unit: int, extra: Rows = ()) -> Lattice | None:
        """Return where the noise of a unit lives, in answers; None where nothing is measured."""
        rows = [row for _, query in self.queries[level] for row in query]
        if not rows:
            return None
        leaves = np.array(self.places[level]) == unit
        pinned = np.flatnonzero(self.zeros[leaves].all(axis=0))
        still = np.eye(self.n_cells, dtype=np.int64)[pinned]
        equal = np.array([*self.exact_at(level), *extra], np.int64).reshape(-1, self.n_cells)
        changes = kernel(np.vstack([equal, still]))
        precisions = tuple(precision for precision, query in self.queries[level] for _ in query)
        return Lattice(short(changes @ np.array(rows, np.int64).T), precisions, self.exponent)

    @cached_property
    def lattices(self) -> list[tuple[int, int, Lattice]]:
        """The lattice of every unit that is measured, with its level and number."""
        return [
            (level, unit, lattice)
            for level, units in enumerate(self.places)
            for unit in range(max(units) + 1)
            if (lattice := self.lattice(level, unit)) is not None
        ]

    def answers(self, change: Ints, level: int, unit: int) -> Ints:
        """Return by how much the measured rows of a unit differ."""
        rows = np.array([row for _, query in self.queries[level] for row in query], np.int64)
        out: Ints = rows @ self.summed(change, level)[unit]
        return out

    def measured(self, neighbours: str) -> MeasuredTree:
        """Return it as the certificate wants it."""
        levels = []
        for number, (queries, exact) in enumerate(
            zip(self.queries, (*self.exact, ())[: len(self.queries)], strict=True)
        ):
            measured = tuple((precision, tuple(map(row_of, rows))) for precision, rows in queries)
            levels.append(MeasuredLevel(f"level {number}", measured, tuple(map(row_of, exact))))
        empty = frozenset(np.flatnonzero(self.zeros.all(axis=0)).tolist())
        noise, partings = NOISES[self.exponent], self.public.partings
        facts = (self.n_cells, noise, neighbours, partings, empty)
        if not self.across:
            return MeasuredTree(tuple(levels), *facts)
        *of_tree, across = levels
        areas = AreasAcross("area", np.arange(max(self.across) + 1).astype(str), np.array(self.across))
        return MeasuredTree(tuple(of_tree), *facts, across, areas.crossings(self.tree))

    @property
    def tree(self) -> Tree:
        """Return its units as a tree of areas."""
        codes = tuple(np.arange(max(units) + 1).astype(str) for units in self.units)
        names = tuple(f"level {number}" for number in range(self.n_levels))
        return Tree(names, codes, self.parents, np.arange(self.n_leaves))

    @cached_property
    def public(self) -> PublicTree:
        exact = []
        for level, rows in enumerate(self.exact):
            weights = np.array(rows, np.int64).reshape(-1, self.n_cells)
            exact.append((tuple(map(row_of, rows)), self.summed(self.table, level) @ weights.T))
        zeros: tuple[NDArray[np.bool_] | None, ...] = (*([None] * (self.n_levels - 1)), self.zeros)
        return PublicTree(self.n_cells, max(self.units[0]) + 1, self.parents, zeros, tuple(exact))

    def single_changes(self, neighbours: str, *, is_exact: bool) -> Ints:
        """Return all changes of one record, leaf by leaf and cell by cell, wherever they lead."""
        cells = [cell for cell in range(self.n_cells) if not self.zeros[:, cell].all()]
        places = list(product(range(self.n_leaves), cells))
        ends = list(product(places, places)) if neighbours == "bounded" else [(place, None) for place in places]
        out = np.zeros((len(ends), self.n_leaves, self.n_cells), np.int64)
        for change, (first, second) in zip(out, ends, strict=True):
            change[first] += 1
            if second is not None:
                change[second] -= 1
        keep = out.any(axis=(1, 2))
        if is_exact:
            keep &= ~self.values(out).any(axis=1)
        return out[keep]


def drawn_units(dice: Dice) -> tuple[tuple[int, ...], ...]:
    """Return the unit of each leaf by level: two or three levels, one to three units at the top and children."""
    while True:
        levels = [list(range(dice.choice([1, 1, 2, 3])))]
        for _ in range(dice.choice([1, 1, 2])):
            levels.append([parent for parent in range(len(levels[-1])) for _ in range(dice.choice([1, 2, 2, 3]))])
        if not 2 <= len(levels[-1]) <= 4:
            continue
        units = [list(range(len(levels[-1])))]
        for parents in reversed(levels[1:]):
            units.append([parents[unit] for unit in units[-1]])
        return tuple(map(tuple, reversed(units)))


def drawn_tree(dice: Dice, exponent: int, *, is_crossed: bool = False) -> SmallTree:
    """Return a random small tree: exact sums at any level, structural zeros, several queries a level, areas across."""
    while True:
        units, n_cells = drawn_units(dice), dice.choice([2, 2, 3])
        n_leaves, n_levels = len(units[-1]), len(units)
        cells = tuple(tuple(int(i == j) for j in range(n_cells)) for i in range(n_cells))
        ones = (1,) * n_cells
        part = (1,) * (n_cells - 1) + (0,)
        kinds = {"total": ones, "part": part, "first": cells[0], "weighted": tuple(range(1, n_cells + 1))}
        exact: list[list[tuple[int, ...]]] = [[] for _ in units]
        for _ in range(dice.choice([0, 1, 1, 2, 3])):
            kind, level = dice.choice(["total", "total", "part", "first", "weighted"]), dice.integer(0, n_levels - 1)
            is_listed_above = dice.chance(1, 2)
            for above in range(0 if is_listed_above else level, level + 1):
                exact[above].append(kinds[kind])
        queries: list[tuple[tuple[Fraction, Rows], ...]] = []
        across = tuple(dice.choice([-1, 0, 0, 1, 1]) for _ in range(n_leaves)) if is_crossed else ()
        if is_crossed and max(across) < 0:
            continue
        for _ in (*units, *across[:1]):
            shape = dice.choice(["cells", "cells", "cells and total", "cells and part", "part and total", "nothing"])
            listed: dict[str, list[Rows]] = {
                "cells": [cells],
                "cells and total": [cells, (ones,)],
                "cells and part": [cells, (part, cells[-1])],
                "part and total": [(part,), (ones,)],
                "nothing": [],
            }
            rank = n_cells if shape.startswith("cells") else 2
            queries.append(tuple((dice.between(LEAST[rank], "4"), rows) for rows in listed[shape]))
        if not any(queries):
            continue
        zeros = np.array([[dice.chance(1, 8) for _ in range(n_cells)] for _ in range(n_leaves)])
        if zeros.all():
            continue
        places = np.argwhere(~zeros)
        table = np.zeros((n_leaves, n_cells), np.int64)
        for _ in range(dice.integer(1, 3)):
            table[tuple(places[dice.integer(0, len(places) - 1)])] += 1
        tree = SmallTree(units, n_cells, exponent, tuple(queries), tuple(map(tuple, exact)), zeros, table, across)
        if len(tree.tables) > MOST_TABLES:
            continue
        if all(lattice.rank == 0 or lattice.n_points(20) <= MOST_POINTS for _, _, lattice in tree.lattices):
            return tree


# What the enumeration is held against, and what it counts.


@dataclass
class TreeTally:
    """What was held against the theorem: trees, pairs, orders."""

    trees: int = 0
    losses: int = 0
    largest_gap: float = 0.0
    divergences: int = 0
    largest_excess: float = -inf
    at_integers: float = 0.0

    def enumerate_laws(self, tree: SmallTree, changes: Ints) -> None:
        """Add up over units what the laws of their noise say of each change, by windows of noise."""
        self.trees += 1
        for change, expected in zip(changes, tree.distances(changes), strict=True):
            if tree.exponent == 1:
                loss = sum(
                    loss_of(lattice, tree.answers(change, level, unit)) for level, unit, lattice in tree.lattices
                )
                self.losses += 1
                self.largest_gap = max(self.largest_gap, abs(loss - float(expected)))
                continue
            laws = []
            for level, unit, lattice in tree.lattices:
                answers = tree.answers(change, level, unit)
                k = lattice.coefficients(answers)
                assert k is not None, "a change that keeps all exact numbers is missing from a unit's lattice"
                if lattice.rank and lattice.n_points(max(ORDERS) * float(np.abs(k).max())) > 2 * MOST_POINTS:
                    break
                laws.append(TwoLaws.of(lattice, answers, max(ORDERS)) if answers.any() else None)
            else:
                for order in ORDERS:
                    divergence = sum(one.divergence(order) for one in laws if one is not None)
                    bound = order * float(expected)
                    excess = (divergence - bound) / max(1.0, bound)
                    self.divergences += 1
                    self.largest_excess = max(self.largest_excess, excess)
                    if order == round(order):
                        self.at_integers = max(self.at_integers, abs(excess))

    def check(self) -> None:
        assert self.largest_gap <= ROUNDING, "a loss differs from D"
        assert self.largest_excess <= ROUNDING, "a divergence is above its order times rho"
        assert self.at_integers <= ROUNDING, "a divergence at an integer order is not its order times rho"

    @property
    def text(self) -> str:
        return (
            f"{self.trees:,} trees; {self.losses:,} losses, off D by {self.largest_gap:.1e} at most;"
            f" {self.divergences:,} Renyi divergences, largest relative excess {self.largest_excess:.1e},"
            f" off at integer orders by {self.at_integers:.1e}"
        )
