"""Several tables by enumeration: every pair of histograms of few records, the noise of every table on its own lattice.

Nothing here prices or searches with the package: histograms are listed as multisets of cells, margins are sums of
cells, changes are differences of two histograms with the same exact numbers, and a change is irreducible if no two
differences of one record that keep the exact numbers add up to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations, combinations_with_replacement, product
from math import inf

import numpy as np
from numpy.typing import NDArray

from brute import Dice
from congenial.errors import PrivacyError
from congenial.privacy.certificate import EXCHANGE, ONE_RECORD
from congenial.privacy.workload import WorkloadFacts, WorkloadTable
from congenial.privacy.workload_certificate import price, workload_certificate
from congenial.privacy.workload_changes import any_records, default_kind, n_records_of, witness
from lattice_audit import MOST_POINTS, ORDERS, ROUNDING, Ints, Lattice, TwoLaws, kernel, loss_of, short

NOISES = {1: "double_geometric", 2: "discrete_gaussian"}
Axes = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class SmallWorkload:
    """A small workload in the plainest terms, with a limit of records whose histograms are all listed."""

    workload: WorkloadFacts
    n_records: int

    @property
    def exponent(self) -> int:
        return {name: power for power, name in NOISES.items()}[self.workload.noise]

    @cached_property
    def cells(self) -> list[tuple[int, ...]]:
        """Every cell of the histogram that is no structural zero."""
        every = product(*(range(size) for size in self.workload.sizes))
        return [
            cell for cell in every if not any(mask[tuple(cell[a] for a in axes)] for axes, mask in self.workload.zeros)
        ]

    def matrix(self, axes: Axes) -> Ints:
        """Return the margin as rows over cells (row, cell)."""
        parts = list(product(*(range(self.workload.sizes[axis]) for axis in axes)))
        out = np.zeros((len(parts), len(self.cells)), np.int64)
        for number, cell in enumerate(self.cells):
            out[parts.index(tuple(cell[axis] for axis in axes)), number] = 1
        return out

    @cached_property
    def exact_rows(self) -> Ints:
        rows = [np.zeros((0, len(self.cells)), np.int64), *(self.matrix(axes) for axes in self.workload.exact)]
        for axes, coefficients in self.workload.sums:
            rows.append(np.array([[coefficients[tuple(cell[axis] for axis in axes)] for cell in self.cells]], np.int64))
        return np.vstack(rows)

    @cached_property
    def changes(self) -> tuple[Ints, Ints]:
        """Return the differences of all pairs of histograms with the same exact numbers, and how far apart they are."""
        n, bounded = len(self.cells), self.workload.neighbours == "bounded"
        sizes = [self.n_records] if bounded else range(self.n_records + 1)
        listed = [some for size in sizes for some in combinations_with_replacement(range(n), size)]
        histograms = np.zeros((len(listed), n), np.int64)
        for line, some in zip(histograms, listed, strict=True):
            np.add.at(line, list(some), 1)
        keys = histograms @ np.vstack([self.exact_rows, np.ones((1 if bounded else 0, n), np.int64)]).T
        _, which = np.unique(keys, axis=0, return_inverse=True)
        parts = [np.zeros((0, n), np.int64)]
        for number in range(int(which.max()) + 1):
            same = histograms[which.reshape(-1) == number]
            first, second = np.triu_indices(len(same), 1)
            parts.append(same[first] - same[second])
        gaps = np.unique(np.vstack(parts), axis=0)
        apart = np.abs(gaps).sum(axis=1) // (2 if bounded else 1)
        keep = (apart > 0) & (apart <= self.n_records)
        return gaps[keep], apart[keep]

    @cached_property
    def moves(self) -> Ints:
        """Return the sum of absolute differences, or of their squares, of each table (change, table)."""
        gaps, _ = self.changes
        columns = [
            (np.abs(gaps @ self.matrix(table.axes).T) ** self.exponent).sum(axis=1) for table in self.workload.tables
        ]
        return np.stack(columns, axis=1)

    @property
    def step(self) -> int:
        """How far apart histograms are that one record parts: one comes and one goes where their number is exact."""
        return 1 if self.workload.neighbours == "bounded" or not self.workload.exact else 2

    @cached_property
    def is_irreducible(self) -> NDArray[np.bool_]:
        """Which changes of two records no two changes of one record that keep the exact numbers add up to."""
        gaps, apart = self.changes
        codes = gaps @ 9 ** np.arange(gaps.shape[1])  # differences of such changes have entries of -4 to 4
        single = np.concatenate([codes[apart == self.step], -codes[apart == self.step]])
        out: NDArray[np.bool_] = apart == 2 * self.step
        out[out] = ~np.isin(codes[out][:, None] - single, single).any(axis=1)
        return out

    def is_of(self, kind: str) -> NDArray[np.bool_]:
        """Which changes a certificate of a kind holds for."""
        _, apart = self.changes
        if kind == ONE_RECORD:
            return apart <= self.step
        if kind == EXCHANGE:
            return (apart <= self.step) | self.is_irreducible
        return apart <= self.step * int(kind.split()[1])

    def dearest(self, kind: str, precisions: Sequence[Fraction] | None = None) -> Fraction | None:
        """Return what the dearest change of a kind costs; None where there is none."""
        rows = self.moves[self.is_of(kind)]
        if not len(rows):
            return None
        weights = self.workload.precisions if precisions is None else precisions
        lines = np.unique(rows, axis=0).tolist()
        return (
            max(sum((p * n for p, n in zip(weights, row, strict=True)), Fraction(0)) for row in lines) / self.exponent
        )

    def lattice(self, table: WorkloadTable, kept: Sequence[Axes]) -> Lattice | None:
        """Return where the noise of a table lives that keeps some margins inside it; None if that is too large."""
        cells = list(product(*(range(self.workload.sizes[axis]) for axis in table.axes)))
        rows = [
            [int(tuple(cell[table.axes.index(a)] for a in axes) == part) for cell in cells]
            for axes in kept
            for part in product(*(range(self.workload.sizes[axis]) for axis in axes))
        ]
        basis = short(kernel(np.array(rows, np.int64).reshape(len(rows), len(cells))))
        lattice = Lattice(basis, (table.precision,) * len(cells), self.exponent)
        return lattice if len(basis) <= 3 and (not len(basis) or lattice.n_points(20) <= MOST_POINTS) else None

    def lattices(self, dice: Dice) -> list[Lattice] | None:
        """Return a lattice for each table: on some of the margins inside it that are exact."""
        out = []
        for table in self.workload.tables:
            inside = [
                axes
                for size in range(len(table.axes) + 1)
                for axes in combinations(table.axes, size)
                if any(set(axes) <= set(face) for face in self.workload.exact)
            ]
            kept = inside if dice.chance(3, 4) else [axes for axes in inside if dice.chance(1, 2)]
            lattice = self.lattice(table, kept)
            if lattice is None:
                return None
            out.append(lattice)
        return out


def drawn_axes(dice: Dice, n: int, most: int) -> Axes:
    """Return some attributes, in any order."""
    while True:
        chosen = [axis for axis in range(n) if dice.chance(1, 2)]
        if 1 <= len(chosen) <= most:
            return tuple(reversed(chosen)) if dice.chance(1, 3) else tuple(chosen)


def drawn_workload(dice: Dice, exponent: int, neighbours: str, *, plain: bool = False) -> SmallWorkload:
    """Return random tables, exact margins, further exact sums and structural zeros over two to four attributes."""
    while True:
        n = dice.choice([2, 2, 3, 3, 3, 4])
        sizes = tuple(dice.choice([2, 2, 2, 3]) if not dice.chance(1, 12) else 1 for _ in range(n))
        if not 4 <= np.prod(sizes) <= 18:
            continue
        tables = tuple(
            WorkloadTable(drawn_axes(dice, n, n), dice.between("0.4", "3")) for _ in range(dice.integer(1, 4))
        )
        exact: list[Axes] = [drawn_axes(dice, n, max(1, n - 1)) for _ in range(dice.choice([0, 1, 2, 2, 3]))]
        if dice.chance(1, 6):
            exact.append(())
        sums: list[tuple[Axes, Ints]] = []
        zeros: list[tuple[Axes, NDArray[np.bool_]]] = []
        for _ in range(0 if plain else dice.choice([0, 0, 0, 1, 2])):
            axes = drawn_axes(dice, n, 2)
            shape = tuple(sizes[axis] for axis in axes)
            entries = dice.choice([(0, 1), (0, 0, 1), (0, 1, -1), (0, 1, 2)])
            values = [dice.choice(entries) for _ in range(int(np.prod(shape)))]
            sums.append((axes, np.array(values, np.int64).reshape(shape)))
        for _ in range(0 if plain else dice.choice([0, 0, 1, 2])):
            axes = drawn_axes(dice, n, 2)
            shape = tuple(sizes[axis] for axis in axes)
            mask = np.array([dice.chance(1, 4) for _ in range(int(np.prod(shape)))]).reshape(shape)
            zeros.append((axes, mask))
        arrays = (tuple(exact), tuple(sums), tuple(zeros))
        workload = WorkloadFacts(sizes, tables, NOISES[exponent], *arrays, neighbours)
        n_cells = int(np.prod(sizes))
        most = 4 if n_cells <= 8 else 3 if n_cells <= 12 else 2
        small = SmallWorkload(workload, most)
        if small.cells:
            return small


@dataclass
class WorkloadTally:
    """What was held against the theorem."""

    workloads: int = 0
    prices: int = 0
    attained: int = 0
    bounds: int = 0
    changes: int = 0
    fewest: int = 0
    refused: int = 0
    losses: int = 0
    largest_gap: float = 0.0
    divergences: int = 0
    largest_excess: float = -inf
    at_integers: float = 0.0
    defaults: dict[str, int] = field(default_factory=dict)

    def hold(self, small: SmallWorkload) -> None:
        """Hold every kind of change, the fewest records and the certificate against all pairs of histograms."""
        workload = small.workload
        self.workloads += 1
        self.changes += len(small.changes[0])
        most = small.n_records // small.step
        kinds = [ONE_RECORD, EXCHANGE, *(any_records(n) for n in range(2, most + 1))]
        for kind in kinds[: 1 if most < 2 else None]:
            self.price(small, kind)
        self.witnesses(small)
        try:
            chosen = default_kind(workload)
        except PrivacyError:
            self.refused += 1
            return
        self.defaults[chosen] = self.defaults.get(chosen, 0) + 1
        certificate = workload_certificate(workload)
        charge = certificate.loss if small.exponent == 1 else certificate.rho
        worst = small.dearest(chosen)
        assert certificate.change == chosen
        assert charge is not None
        assert worst is None or worst <= charge, "a pair exceeds its certificate"
        if worst is not None and certificate.k <= small.n_records:
            moved = small.moves[small.is_of(chosen)].max(axis=0)
            assert all(moved[np.array(workload.determined) == 0]), "the default kind leaves a table unmoved"

    def price(self, small: SmallWorkload, kind: str) -> None:
        workload, worst = small.workload, small.dearest(kind)
        cost = price(workload, kind)
        self.prices += 1
        if kind == EXCHANGE and cost.amount is None:
            assert workload.comes or not small.is_irreducible.any(), "two records that exchange were not found"
            return
        if worst is not None and worst > 0:
            assert cost.amount is not None, f"a change of {kind} was not found"
            assert worst <= cost.amount, f"a pair exceeds what {kind} costs"
        if not workload.zeros and cost.is_attained and cost.k <= small.n_records:
            assert (cost.amount or 0) == (worst or 0), f"{kind} is not attained"
            self.attained += 1
        self.bounds += not cost.is_attained

    def witnesses(self, small: SmallWorkload) -> None:
        """Hold the fewest records by which each table moves against all changes."""
        workload, (_, apart) = small.workload, small.changes
        for table, column in zip(workload.tables, small.moves.T, strict=True):
            found = witness(workload, table.axes)
            least = int(apart[column > 0].min(initial=100))
            by_formula = workload.fewest_by_formula(table.axes)
            if found is None:
                assert least > 2 * small.step, "a witness of one or two records was missed"
                continue
            assert found.keeps(workload)
            assert found.avoids_zeros(workload)
            assert found.margin(table.axes)
            assert by_formula is not None
            assert by_formula <= n_records_of(workload, found)
            assert workload.zeros or workload.sums or by_formula == n_records_of(workload, found)
            norm = found.norm // (2 if workload.neighbours == "bounded" else 1)
            if norm <= small.n_records:
                assert least <= norm, "a witness is no difference of two histograms"
                assert least == norm or norm > 2 * small.step, "fewer records move a table"
                assert least == norm or bool(workload.zeros or workload.sums), "fewer records move a table"
            else:
                assert least > small.n_records or bool(workload.zeros or workload.sums)
            self.fewest += 1

    def enumerate_laws(self, small: SmallWorkload, dice: Dice) -> None:
        """Add up over tables what the laws of their noise say of a drawn change, by windows of noise."""
        lattices, (gaps, _) = small.lattices(dice), small.changes
        if lattices is None or not len(gaps):
            return
        number = dice.integer(0, len(gaps) - 1)
        tables = small.workload.tables
        answers = [small.matrix(table.axes) @ gaps[number] for table in tables]
        moves = small.moves[number].tolist()
        expected = sum((t.precision * m for t, m in zip(tables, moves, strict=True)), Fraction(0)) / small.exponent
        if small.exponent == 1:
            loss = sum(loss_of(lattice, answer) for lattice, answer in zip(lattices, answers, strict=True))
            self.losses += 1
            self.largest_gap = max(self.largest_gap, abs(loss - float(expected)))
            return
        laws = []
        for lattice, answer in zip(lattices, answers, strict=True):
            k = lattice.coefficients(answer)
            assert k is not None, "a change that keeps all exact numbers is missing from a table's lattice"
            if lattice.rank and lattice.n_points(max(ORDERS) * float(np.abs(k).max())) > 2 * MOST_POINTS:
                return
            laws.append(TwoLaws.of(lattice, answer, max(ORDERS)) if answer.any() else None)
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
            f"{self.changes:,} differences of {self.workloads:,} workloads under {self.prices:,} prices, of which"
            f" {self.attained:,} had to be attained and were and {self.bounds:,} are bounds; {self.fewest:,} witnesses,"
            f" {self.refused:,} refusals, default kinds {self.defaults}; {self.losses:,} losses, off D by"
            f" {self.largest_gap:.1e} at most; {self.divergences:,} divergences, largest relative excess"
            f" {self.largest_excess:.1e}, off at integer orders by {self.at_integers:.1e}"
        )
