"""Small systems with weighted zeros by brute force: every table, every pair; no code of the privacy layer.

Normalisers are sums of positive doubles, good to 1e-12; where a test asks for equality they are fractions.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from brute import Dice, Limits, tables_of

Floats = NDArray[np.float64]
Law = tuple[Fraction, Fraction]
"""The base of the noise and the weight of zero."""


@dataclass(frozen=True)
class Group:
    """Cells that every row treats alike, with one base and one weight of zero; `most` is an upper limit or None."""

    cells: tuple[int, ...]
    base: Fraction
    weight: Fraction
    most: int | None = None
    is_total_fixed: bool = False


@dataclass(frozen=True)
class Weighted:
    """A system of groups: rows with limits, and measured rows with their bases, by weights of cells."""

    groups: tuple[Group, ...]
    rows: tuple[Limits, ...]
    soft: tuple[tuple[tuple[int, ...], Fraction], ...]
    top: int

    @property
    def n_cells(self) -> int:
        return sum(len(group.cells) for group in self.groups)

    @cached_property
    def tables(self) -> NDArray[np.int64]:
        most = {cell: group.most for group in self.groups for cell in group.cells}
        box = [(0, self.top if (end := most[cell]) is None else end) for cell in range(self.n_cells)]
        return tables_of(box, self.rows)

    @cached_property
    def weights(self) -> Floats:
        """Log weight of every released table around every centre (centre, table)."""
        apart = np.abs(self.tables[:, None, :] - self.tables[None, :, :]).astype(float)
        out = np.zeros(apart.shape[:2])
        for group in self.groups:
            cells = list(group.cells)
            out += apart[:, :, cells].sum(axis=2) * np.log(float(group.base))
            out += ((self.tables[:, cells] == 0).sum(axis=1) * np.log(float(group.weight)))[None, :]
        for row, base in self.soft:
            value = (self.tables @ np.array(row)).astype(float)
            out += np.abs(value[:, None] - value[None, :]) * np.log(float(base))
        return out

    @cached_property
    def log_normalisers(self) -> Floats:
        """Of every centre."""
        peak = self.weights.max(axis=1)
        out: Floats = peak + np.log(np.exp(self.weights - peak[:, None]).sum(axis=1))
        return out

    def neighbours(self) -> Iterator[tuple[int, int, int]]:
        """Yield ordered pairs of tables one record of a group apart, and the number of the group."""
        index = {tuple(table): number for number, table in enumerate(self.tables.tolist())}
        for table, s in index.items():
            for number, group in enumerate(self.groups):
                for i, j in itertools.permutations(group.cells, 2):
                    moved = list(table)
                    moved[i] -= 1
                    moved[j] += 1
                    if (other := index.get(tuple(moved))) is not None:
                        yield s, other, number

    def several(self) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield ordered pairs of tables that differ by moves inside groups, with the number of records of each."""
        tables = self.tables
        for number in range(len(tables)):
            change = tables - tables[number]
            totals = np.stack([change[:, list(group.cells)].sum(axis=1) for group in self.groups], axis=1)
            moved = np.stack([np.abs(change[:, list(group.cells)]).sum(axis=1) for group in self.groups], axis=1) // 2
            for other in np.flatnonzero((totals == 0).all(axis=1) & (moved.sum(axis=1) > 1)).tolist():
                yield number, other, tuple(moved[other].tolist())


def random_weighted(dice: Dice, laws: Sequence[Law], largest: int = 5) -> Weighted:
    """Return one to three groups with laws of their own, one or two equalities, perhaps a range and a measured row."""
    while True:
        sizes = [dice.integer(2, largest)] + [dice.integer(1, 3) for _ in range(dice.integer(0, 2))]
        ends = list(itertools.accumulate(sizes, initial=0))
        n, top = ends[-1], dice.integer(2, 5 if sum(sizes) < 6 else 3)
        is_fixed = dice.chance(1, 2)
        groups = []
        for number, (start, end) in enumerate(itertools.pairwise(ends)):
            base, weight = dice.choice(laws)
            most = dice.integer(1, 2) if number and dice.chance(1, 3) else None
            groups.append(
                Group(
                    tuple(range(start, end)),
                    base,
                    Fraction(1) if most is not None else weight,
                    most,
                    is_fixed and number == 0,
                )
            )

        def by_group(values: Sequence[int], sizes: Sequence[int] = tuple(sizes)) -> tuple[int, ...]:
            return tuple(value for value, size in zip(values, sizes, strict=True) for _ in range(size))

        # The first row has positive coefficients only, so that no cell is above `top` and the set is finite.
        weights = [by_group([dice.choice([1, 1, 2, 3]) for _ in sizes])]
        if is_fixed:
            weights.append(by_group([int(number == 0) for number in range(len(sizes))]))
        elif dice.chance(1, 2):
            weights.append(by_group([dice.integer(-1, 2) for _ in sizes]))
        rows: list[Limits] = []
        centre = [dice.integer(0, top) if dice.chance(1, 2) else 0 for _ in range(n)]
        centre = [min(x, g.most) if g.most is not None else x for g in groups for x in (centre[c] for c in g.cells)]
        for number, row in enumerate(weights):
            value = min(top, sum(w * x for w, x in zip(row, centre, strict=True))) if number == 0 else 0
            value = value or sum(w * x for w, x in zip(row, centre, strict=True))
            rows.append((row, value, value))
        if dice.chance(1, 4):
            rows.append((by_group([dice.integer(-1, 2) for _ in sizes]), None, dice.integer(0, top)))
        soft = []
        if dice.chance(1, 3):
            soft.append((by_group([dice.integer(0, 2) for _ in sizes]), dice.choice(laws)[0]))
        bound = max(rows[0][1] or 0, 0)
        system = Weighted(tuple(groups), tuple(rows), tuple(soft), bound)
        if (bound + 1) ** n <= 60_000 and 2 <= len(system.tables) <= 150:
            return system


# ---- one group at one total, exactly ----


def cell_series(count: int, base: Fraction, weight: Fraction, length: int) -> list[Fraction]:
    """Return ``weight(t) base^|t - count|`` at t = 0, 1, ...: one cell's law around its count."""
    return [(weight if t == 0 else Fraction(1)) * base ** abs(t - count) for t in range(length)]


def normaliser(counts: Sequence[int], base: Fraction, weight: Fraction, total: int) -> Fraction:
    """Return the sum of the weights of all tables of a total around some counts."""
    product = [Fraction(1)] + [Fraction(0)] * total
    for count in counts:
        cell = cell_series(count, base, weight, total + 1)
        product = [sum((product[k] * cell[n - k] for k in range(n + 1)), Fraction(0)) for n in range(total + 1)]
    return product[total]


def group_ratio(before: Sequence[int], base: Fraction, weight: Fraction, total: int) -> Fraction:
    """Return by how much the normaliser grows when a record moves from the second cell to the first."""
    after = [before[0] + 1, before[1] - 1, *before[2:]]
    return normaliser(after, base, weight, total) / normaliser(before, base, weight, total)


def crowd_ratio(before: Sequence[int], base: Fraction, weight: Fraction, total: int, crowd: int) -> Fraction:
    """Return the same for a whole system whose tables mostly have the group at `total`.

    Beside the group there are a cell t_0 of count 1 and `crowd` empty cells t_k, all of weight 1 and the same base,
    and the rows ``group + (S - total) sum t_k = S`` and ``t_0 + sum t_k = 1``: the group's total is S, or `total` in as
    many ways as the crowd has cells.
    """
    after = [before[0] + 1, before[1] - 1, *before[2:]]

    def whole(counts: Sequence[int]) -> Fraction:
        alone = normaliser(counts, base, weight, sum(before))
        return alone + crowd * base**2 * normaliser(counts, base, weight, total)

    return whole(after) / whole(before)
