"""Chains over small trees, every outcome listed: for the tests and for `make audit-chain`.

The confidential leaves s are any tables of leaves that obey what is published; outcomes are listed the same way. A
level is given by which leaves each of its units has.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from brute import Dice
from congenial.privacy.tree_loss import level_rho

Array = NDArray[np.float64]
Groups = tuple[tuple[int, ...], ...]
ORDERS = (2, 3, 4, 5, 6, 7, 12)

ROUNDING = 1e-10
"""Of a divergence that is computed from logarithms of sums of doubles."""

SHAPES: list[list[Groups]] = [
    [((0, 1),), ((0,), (1,))],
    [((0, 1, 2),), ((0,), (1,), (2,))],
    [((0, 1, 2),), ((0, 1), (2,)), ((0,), (1,), (2,))],
    [((0, 1, 2, 3),), ((0, 1), (2, 3)), ((0,), (1,), (2,), (3,))],
    [((0,), (1, 2)), ((0,), (1,), (2,))],
]
"""Levels from the top down: two and three of them, one unit at the top or two."""


def compositions(n: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in compositions(n - first, parts - 1):
            yield (first, *rest)


def add_up(logs: Array, groups: NDArray[np.int64]) -> Array:
    """Return the log of summed exponentials of each group's columns."""
    out = np.empty((len(logs), int(groups.max()) + 1))
    for number in range(out.shape[1]):
        part = logs[:, groups == number]
        most = part.max(axis=1)
        out[:, number] = most + np.log(np.exp(part - most[:, None]).sum(axis=1))
    return out


@dataclass(frozen=True)
class Chain:
    """A chain over one small tree.

    Attributes
    ----------
    exponent : int
        2 for weights that fall with the square of the deviation, 1 with the deviation.
    precisions : tuple of Fraction
        Of the cells of each level.
    n_records : tuple of int
        The least and the largest number of records; the same where the total is published.
    exact : int or None
        The level at which every unit's own sums are published, and kept.
    totals : tuple of int
        Those sums, unit by unit.
    sets : tuple of tuples of cells
        What they are sums of; all cells if not given.
    barred : tuple of (leaf, cell)
        What is zero by structure.
    """

    levels: Sequence[Groups]
    n_cells: int
    exponent: int
    precisions: tuple[Fraction, ...]
    n_records: tuple[int, int]
    exact: int | None = None
    totals: tuple[int, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    barred: tuple[tuple[int, int], ...] = ()

    @cached_property
    def leaves(self) -> NDArray[np.int64]:
        """Every table of leaves (table, leaf, cell) that obeys what is published."""
        n_leaves = len(self.levels[-1])
        found = [
            table
            for n in range(self.n_records[0], self.n_records[1] + 1)
            for table in compositions(n, n_leaves * self.n_cells)
        ]
        tables = np.array(found, np.int64).reshape(-1, n_leaves, self.n_cells)
        if self.exact is not None:
            wanted = np.array(self.totals)
            sets = self.sets or (tuple(range(self.n_cells)),)
            units = [tables[:, list(group)].sum(axis=1) for group in self.levels[self.exact]]
            sums = np.stack([unit[:, list(cells)].sum(axis=1) for unit in units for cells in sets], axis=1)
            tables = tables[(sums == wanted).all(axis=1)]
        for leaf, cell in self.barred:
            tables = tables[tables[:, leaf, cell] == 0]
        return tables

    def position(self, tables: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of all tables of leaves each one is (table, leaf, cell); -1 for none."""
        known = {table.tobytes(): number for number, table in enumerate(self.leaves)}
        return np.array([known.get(table.tobytes(), -1) for table in np.ascontiguousarray(tables)])

    @cached_property
    def sums(self) -> list[NDArray[np.int64]]:
        """The tables of each level (table, unit x cell)."""
        return [
            np.stack([self.leaves[:, list(group)].sum(axis=1) for group in groups], axis=1).reshape(
                len(self.leaves), -1
            )
            for groups in self.levels
        ]

    @cached_property
    def log_law(self) -> Array:
        """The log probability of every release given every confidential table (confidential, released)."""
        above = np.zeros(len(self.leaves), np.int64)
        out = np.zeros((len(self.leaves), len(self.leaves)))
        for tables, precision in zip(self.sums, self.precisions, strict=True):
            distinct, which = np.unique(tables, axis=0, return_inverse=True)
            which = which.reshape(-1)
            parent = np.empty(len(distinct), np.int64)
            parent[which] = above
            gaps = np.abs(distinct[None] - tables[:, None])
            weights = -float(precision) / self.exponent * (gaps**self.exponent).sum(axis=2)
            out += (weights - add_up(weights, parent)[:, parent])[:, which]
            above = which
        return out

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """Ordered pairs one record apart: one that changes, or, where totals differ, one that comes or goes."""
        flat = self.leaves.reshape(len(self.leaves), -1)
        gaps = np.abs(flat[None] - flat[:, None]).sum(axis=2)
        same = flat.sum(axis=1)[None] == flat.sum(axis=1)[:, None]
        is_near = (gaps == 2) & same if self.is_bounded else (gaps == 1)
        return np.argwhere(is_near)

    @property
    def is_bounded(self) -> bool:
        return self.n_records[0] == self.n_records[1]

    def charges(self, pairs: NDArray[np.int64]) -> Array:
        """Theorem H's charge of each pair: ``precision |z|^2 / 2`` added up, or ``(precision |z|_1)^2 / 2``."""
        out = np.zeros(len(pairs))
        for tables, precision in zip(self.sums, self.precisions, strict=True):
            gaps = np.abs(tables[pairs[:, 0]] - tables[pairs[:, 1]])
            if self.exponent == 2:
                out += float(precision) * (gaps**2).sum(axis=1) / 2
            else:
                out += (float(precision) * gaps.sum(axis=1)) ** 2 / 2
        return out

    @property
    def certified(self) -> float:
        """What `level_rho` charges for all levels."""
        relation = "bounded" if self.is_bounded else "unbounded"
        return float(
            sum(level_rho(self.exponent, p, relation, 1, total_is_fixed=self.is_bounded) for p in self.precisions)
        )

    def divergences(self, pairs: NDArray[np.int64], order: float) -> Array:
        """The Renyi divergence of each pair."""
        first, second = self.log_law[pairs[:, 0]], self.log_law[pairs[:, 1]]
        logs = order * first + (1 - order) * second
        most = logs.max(axis=1)
        found: Array = (most + np.log(np.exp(logs - most[:, None]).sum(axis=1))) / (order - 1)
        return found

    def losses(self, pairs: NDArray[np.int64]) -> Array:
        """The largest log probability ratio of each pair."""
        found: Array = (self.log_law[pairs[:, 0]] - self.log_law[pairs[:, 1]]).max(axis=1)
        return found


def drawn_chain(dice: Dice, exponent: int, *, is_bounded: bool, has_totals: bool) -> Chain:
    """Return a random chain of at most some hundred tables."""
    while True:
        levels = dice.choice(SHAPES)
        n_cells, n = dice.integer(1, 3), dice.integer(1, 5)
        precisions = tuple(dice.between("0.05", "20" if exponent == 2 else "3") for _ in levels)
        chain = Chain(levels, n_cells, exponent, precisions, (n, n if is_bounded else n + 1))
        if has_totals:
            level = dice.integer(0, len(levels) - 1)
            totals = dice.choice(list(compositions(n, len(levels[level]))))
            if n_cells > 2 and dice.integer(0, 1):  # the total, and the sum of two cells inside it
                pairs = tuple((total, dice.integer(0, total)) for total in totals)
                chain = replace(chain, exact=level, totals=sum(pairs, ()), sets=((0, 1, 2), (0, 1)))
            else:
                chain = replace(chain, exact=level, totals=totals)
        if 1 < len(chain.leaves) <= 260 and len(chain.pairs):
            return chain


@dataclass
class Tally:
    """How many divergences were held against their charges, and the largest excess."""

    chains: int = 0
    checks: int = 0
    largest: float = -np.inf
    nearest: float = 0.0

    def add(self, chain: Chain, orders: Sequence[int] = ORDERS) -> None:
        pairs = chain.pairs
        charges = chain.charges(pairs)
        self.chains += 1
        assert charges.max() <= chain.certified * (1 + 1e-12)
        for order in orders:
            found = chain.divergences(pairs, order)
            self.checks += len(pairs)
            self.largest = max(self.largest, float((found - order * charges).max()))
            self.nearest = max(self.nearest, float((found / (order * charges)).max()))


def audit(seeds: Iterator[Dice], n_checks: int) -> Tally:
    tally = Tally()
    for dice in seeds:
        for exponent, is_bounded, has_totals in product((2, 1), (True, False), (False, True)):
            if is_bounded or not has_totals:
                tally.add(drawn_chain(dice, exponent, is_bounded=is_bounded, has_totals=has_totals))
        if tally.checks >= n_checks:
            break
    return tally
