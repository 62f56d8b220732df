"""Losses of measured releases by enumeration of lattices: no code of the package that samples or prices.

A lattice is held by the answers of its basis vectors to the measured rows: noise w is an integer combination of them,
of weight ``exp(-E(w))`` with ``E(w) = sum_r e_r |w_r|`` or ``sum_r p_r w_r^2 / 2``. Energies are integers, normalisers
are sums over windows beyond which a proven bound leaves less than `TAIL` of the mass.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, islice, product
from math import exp, inf, lcm, sqrt

import flint
import numpy as np
from numpy.typing import NDArray

from brute import Dice

Ints = NDArray[np.int64]
Long = NDArray[np.longdouble]

TAIL = 1e-16
ROUNDING = 1e-12
ORDERS = (1.01, 1.1, 1.5, 2.0, 2.7, 3.0, 3.14159, 5.0, 7.5, 10.0)
MOST_POINTS = 150_000


def kernel(matrix: Ints) -> Ints:
    """Return a short basis (vector, column) of all integer vectors that a matrix (row, column) takes to 0."""
    n_rows, n = matrix.shape
    if n_rows == 0:
        return np.eye(n, dtype=np.int64)
    lines = flint.fmpz_mat(np.hstack([matrix.T, np.eye(n, dtype=np.int64)]).tolist()).hnf().table()
    basis = [[int(x) for x in line[n_rows:]] for line in lines if not any(int(x) for x in line[:n_rows])]
    return short(np.array(basis, np.int64).reshape(len(basis), n))


def short(basis: Ints) -> Ints:
    """Return a basis of the same lattice with shorter vectors; dependent vectors are removed."""
    if not basis.size:
        return basis
    lines = flint.fmpz_mat(basis.tolist()).lll().table()
    kept = [[int(x) for x in line] for line in lines if any(int(x) for x in line)]
    return np.array(kept, np.int64).reshape(len(kept), basis.shape[1])


def saturated(vectors: Ints) -> Ints:
    """Return a basis of all integer vectors in the real span of some vectors."""
    return kernel(kernel(vectors)) if vectors.size else vectors


@dataclass(frozen=True)
class Lattice:
    """Where the noise of measured rows lives.

    Attributes
    ----------
    basis : array (vector, measured row)
        Independent vectors of answers; the noise is any integer combination.
    precisions : of each measured row
    exponent : 1 for Double Geometric noise, 2 for discrete Gaussian
    """

    basis: Ints
    precisions: tuple[Fraction, ...]
    exponent: int = 1

    @property
    def rank(self) -> int:
        return len(self.basis)

    @cached_property
    def scale(self) -> int:
        """What energies are multiplied by to be integers."""
        return self.exponent * lcm(*(p.denominator for p in self.precisions))

    @cached_property
    def _solver(self) -> tuple[list[int], list[list[Fraction]], float]:
        """Rows on which the basis is invertible, the inverse, and c with ``E(k) >= (c |k|)^exponent`` in coefficients.

        With k = M^-1 y on these rows: ``|k_i| <= max_j (|M^-1_ij| / e_j) sum_j e_j |y_j|``; under squares, by
        Cauchy-Schwarz, ``k_i^2 <= sum_j (M^-1_ij^2 / p_j) * 2 E``.
        """
        best = None
        for rows in islice(combinations(range(self.basis.shape[1]), self.rank), 60):
            matrix = flint.fmpq_mat(flint.fmpz_mat(self.basis[:, list(rows)].T.tolist()))
            if matrix.det() == 0:
                continue
            inverse = [[Fraction(int(x.p), int(x.q)) for x in line] for line in matrix.inv().table()]
            if self.exponent == 1:
                worst = max(abs(x) / self.precisions[r] for line in inverse for x, r in zip(line, rows, strict=True))
                size = 1 / float(worst)
            else:
                spread = max(
                    sum(x * x / self.precisions[r] for x, r in zip(line, rows, strict=True)) for line in inverse
                )
                size = 1 / sqrt(2 * float(spread))
            if best is None or size > best[2]:
                best = list(rows), inverse, size * (1 - 1e-9)
        assert best is not None
        return best

    def coefficients(self, change: Ints) -> Ints | None:
        """Return a vector of answers as a combination of the basis; None if it is not in the lattice."""
        if self.rank == 0:
            return None if change.any() else np.zeros(0, np.int64)
        rows, inverse, _ = self._solver
        k = [sum(x * int(change[r]) for x, r in zip(line, rows, strict=True)) for line in inverse]
        if any(Fraction(x).denominator != 1 for x in k):
            return None
        whole = np.array([int(x) for x in k], np.int64)
        return whole if np.array_equal(whole @ self.basis, change) else None

    @cached_property
    def reach(self) -> int:
        """How far a coefficient goes such that what is beyond has a sum of weights below `TAIL`."""
        if self.rank == 0:
            return 0
        size, m, reach = self._solver[2], self.rank, 0
        while True:
            reach += 1
            # So many vectors have j as their largest coefficient; the ratio of a shell to the one before falls with j.
            shell = 2 * m * float(2 * reach + 3) ** (m - 1) * exp(-((size * (reach + 1)) ** self.exponent))
            fall = size if self.exponent == 1 else size * size * (2 * reach + 3)
            ratio = ((2 * reach + 5) / (2 * reach + 3)) ** (m - 1) * exp(-fall)
            if ratio < 1 and shell / (1 - ratio) < TAIL:
                return reach

    def window(self, *centres: Ints) -> Ints:
        """Return the noise vectors (vector, measured row) around some centres, in coefficients."""
        if self.rank == 0:
            return np.zeros((1, self.basis.shape[1]), np.int64)
        low = np.min(centres, axis=0) - self.reach
        high = np.max(centres, axis=0) + self.reach
        axes = np.meshgrid(*(np.arange(a, b + 1) for a, b in zip(low, high, strict=True)), indexing="ij")
        return np.stack([axis.ravel() for axis in axes], axis=1) @ self.basis

    def n_points(self, spread: float) -> float:
        return float(2 * self.reach + 1 + spread) ** self.rank

    def energy(self, answers: Ints) -> Ints:
        """Return E, times the scale, in integers."""
        weights = np.array([int(p * self.scale) // self.exponent for p in self.precisions], np.int64)
        return np.abs(answers) ** self.exponent @ weights

    def distance(self, change: Ints) -> Fraction:
        """Return D(z), or rho(z)."""
        parts = zip(self.precisions, change.tolist(), strict=True)
        return sum((p * abs(q) ** self.exponent for p, q in parts), Fraction(0)) / self.exponent


@dataclass(frozen=True)
class TwoLaws:
    """The laws of the measurements for two tables whose answers differ by z, on one window.

    Attributes
    ----------
    noise : array (outcome, measured row)
        ``n - q(x')`` of each outcome n; then ``n - q(x)`` is that minus z.
    first, second : log probabilities under x and under x'
    """

    lattice: Lattice
    change: Ints
    noise: Ints
    first: Long
    second: Long

    @classmethod
    def of(cls, lattice: Lattice, change: Ints, farthest: float = 1.0) -> "TwoLaws | None":
        """Enumerate; None if z is not in the lattice: then no outcome is possible under both."""
        k = lattice.coefficients(change)
        if k is None:
            return None
        far = np.ceil(np.abs(k) * farthest).astype(np.int64) * np.sign(k)
        noise = lattice.window(0 * k, k, far)
        scale = np.longdouble(lattice.scale)
        laws = []
        for shift in (change, 0 * change):
            log_weight = -lattice.energy(noise - shift).astype(np.longdouble) / scale
            laws.append(log_weight - np.log(np.exp(log_weight).sum()))
        return cls(lattice, change, noise, laws[0], laws[1])

    def exact_gap(self) -> Fraction:
        """Return the largest ``E(n - x') - E(n - x)``, in integers: the log ratio but for the normalisers."""
        gap = self.lattice.energy(self.noise) - self.lattice.energy(self.noise - self.change)
        return Fraction(int(gap.max()), self.lattice.scale)

    def loss(self) -> float:
        return float((self.first - self.second).max())

    def divergence(self, order: float) -> float:
        a = np.longdouble(order)
        terms = a * self.first + (1 - a) * self.second
        peak = terms.max()
        return float((peak + np.log(np.exp(terms - peak).sum())) / (a - 1))

    def loss_after(self, outcomes: Ints, weights: Long | None = None) -> float:
        """Return the loss of what a kernel makes of n: `outcomes` (map, outcome), drawn with `weights` (map, outcome).

        What is outside of the window is published as it is, and so is what is all but impossible, whose probability a
        float does not hold; its loss is that of single outcomes.
        """
        sums, is_possible = [], np.minimum(self.first, self.second) > -5000
        for law in (self.first, self.second):
            mass = np.where(is_possible, np.exp(law), 0)
            parts = [mass] * len(outcomes) if weights is None else [mass * line for line in weights]
            length = int(outcomes.max()) + 1
            total = np.zeros(length, np.longdouble)
            for which, part in zip(outcomes, parts, strict=True):
                np.add.at(total, which, part)
            sums.append(total)
        is_reached = sums[0] > 0
        return float(np.log(sums[0][is_reached] / sums[1][is_reached]).max())


def loss_of(lattice: Lattice, change: Ints) -> float:
    """Return the pure loss by enumeration; infinite where the lattice misses the change."""
    laws = TwoLaws.of(lattice, change)
    return inf if laws is None else laws.loss()


@dataclass(frozen=True)
class Release:
    """A drawn measured release: exact rows, measured rows, and a lattice that the noise may live on.

    Attributes
    ----------
    exact : array (row, cell)
    measured : array (row, cell)
    changes : array (vector, cell)
        A basis of all integer vectors that the exact rows take to 0.
    """

    kind: str
    exact: Ints
    measured: Ints
    changes: Ints
    lattice: Lattice

    def change(self, dice: Dice) -> Ints:
        """Return the answers of a drawn change, not 0 in all cells."""
        while True:
            k = np.array([dice.integer(-2, 2) for _ in self.changes], np.int64)
            if k.any():
                return self.measured @ (k @ self.changes)


KINDS = ("cells", "cells and sums", "answers", "image", "independent", "dropped")
_LEAST = {1: "0.05", 2: "0.4", 3: "1.5"}


def drawn_release(dice: Dice, exponent: int) -> Release:
    """Return a random release: any integer rows (scaled, dependent, with torsion), any measured rows, any lattice."""
    while True:
        kind, n = dice.choice(KINDS), dice.integer(2, 5)
        entries = dice.choice([(0, 1, 1), (0, 1, -1), (0, 1, 2, 3), (0, 2, 4, -6)])
        exact = np.array([dice.weights(n, entries) for _ in range(dice.integer(1, n - 1))], np.int64)
        if dice.chance(1, 3):  # a multiple, or a row that follows
            exact = np.vstack([exact, dice.integer(2, 3) * exact[0] + (exact[-1] if dice.chance(1, 2) else 0)])
        changes = kernel(exact)
        if not 1 <= len(changes) <= 3:
            continue
        cells = np.eye(n, dtype=np.int64) * np.array([dice.choice([1, 1, 1, 2, -3]) for _ in range(n)])
        sums = np.array([dice.weights(n, (0, 1, 1, 2, -1)) for _ in range(dice.integer(1, 3))], np.int64)
        measured = {"cells": cells, "cells and sums": np.vstack([cells, sums]), "dropped": cells}.get(kind, sums)
        basis = short(changes @ measured.T)
        if kind == "answers":  # every integer vector that satisfies the relations of such answers
            basis = saturated(basis)
        elif kind == "independent":
            basis = np.eye(len(measured), dtype=np.int64)
        elif kind == "dropped":
            basis = short(kernel(exact[: dice.integer(0, len(exact) - 1)]) @ measured.T)
        m = len(basis)
        if not 1 <= m <= 3:
            continue
        precisions = tuple(dice.between(_LEAST[m], "4") for _ in measured)
        lattice = Lattice(basis, precisions, exponent)
        if lattice.n_points(20) <= MOST_POINTS:
            return Release(kind, exact, measured, changes, lattice)


def sublattices_that_miss(lattice: Lattice, change: Ints) -> Iterator[Lattice]:
    """Go through slightly smaller lattices that miss a change: one row more, or a multiple of a vector."""
    k = lattice.coefficients(change)
    assert k is not None
    for number in np.flatnonzero(k).tolist():
        yield replace(lattice, basis=np.delete(lattice.basis, number, axis=0))
        if k[number] % 2:
            doubled = lattice.basis.copy()
            doubled[number] *= 2
            yield replace(lattice, basis=doubled)


@dataclass
class Tally:
    """What was held against the theorem."""

    systems: int = 0
    pure_pairs: int = 0
    largest_gap: float = 0.0
    kernels: int = 0
    largest_after: float = -inf
    divergences: int = 0
    largest_excess: float = -inf
    at_integers: float = 0.0
    misses: int = 0

    def pure(self, release: Release, dice: Dice, n_kernels: int = 3) -> None:
        """Hold the loss of a drawn change, and of what kernels make of the measurements, against D."""
        lattice, change = release.lattice, release.change(dice)
        expected = lattice.distance(change)
        laws = TwoLaws.of(lattice, change)
        assert laws is not None, "a change inside the exact numbers is missing from the lattice"
        assert laws.exact_gap() == expected, "the largest difference of energies is not D"
        self.systems += 1
        self.pure_pairs += 1
        self.largest_gap = max(self.largest_gap, abs(laws.loss() - float(expected)))
        for outcomes, weights in islice(kernels_of(laws.noise, dice), n_kernels):
            self.kernels += 1
            self.largest_after = max(self.largest_after, laws.loss_after(outcomes, weights) - float(expected))
        for smaller in sublattices_that_miss(lattice, change):
            assert loss_of(smaller, change) == inf
            self.misses += 1

    def gaussian(self, release: Release, dice: Dice) -> None:
        """Hold Renyi divergences of a drawn change against ``a rho``."""
        lattice, change = release.lattice, release.change(dice)
        k = lattice.coefficients(change)
        assert k is not None
        if lattice.n_points(max(ORDERS) * float(np.abs(k).max(initial=0))) > MOST_POINTS * 2:
            return
        laws = TwoLaws.of(lattice, change, max(ORDERS))
        assert laws is not None
        rho = float(lattice.distance(change))
        self.systems += 1
        for order in ORDERS:
            excess = laws.divergence(order) - order * rho
            relative = excess / max(1.0, order * rho)
            self.divergences += 1
            self.largest_excess = max(self.largest_excess, relative)
            if order == round(order):
                self.at_integers = max(self.at_integers, abs(relative))

    def check(self) -> None:
        assert self.largest_gap <= ROUNDING, "a loss differs from D"
        assert self.largest_after <= ROUNDING, "a public kernel raised a loss"
        assert self.largest_excess <= ROUNDING, "a divergence is above its order times rho"
        assert self.at_integers <= ROUNDING, "a divergence at an integer order is not its order times rho"

    @property
    def text(self) -> str:
        return (
            f"{self.pure_pairs:,} pairs with Double Geometric noise, loss off D by {self.largest_gap:.1e} at most;"
            f" {self.kernels:,} public kernels, largest excess {self.largest_after:.1e};"
            f" {self.divergences:,} Renyi divergences, largest relative excess {self.largest_excess:.1e},"
            f" off at integer orders by {self.at_integers:.1e}; {self.misses:,} lattices that miss a change"
        )


def kernels_of(noise: Ints, dice: Dice) -> Iterator[tuple[Ints, Long | None]]:
    """Go through public kernels of the measurements: clamping, rounding, random maps, random draws."""
    centre = np.array([dice.integer(-2, 3) for _ in range(noise.shape[1])])
    decided = np.maximum(noise + centre, 0)
    yield _numbered(decided), None
    n_outcomes, n = dice.integer(2, 40), len(noise)
    words = dice.rng.uniforms(6 * n).reshape(6, n)
    yield (words[:1] * n_outcomes).astype(np.int64), None
    weights = words[3:].astype(np.longdouble)
    yield (words[:3] * n_outcomes).astype(np.int64), weights / weights.sum(axis=0)
    yield _numbered(np.round((noise + centre) / dice.integer(2, 4)).astype(np.int64)), None
    yield _numbered(np.abs(noise).argmax(axis=1)[:, None]), None


def _numbered(tables: Ints) -> Ints:
    """Return a number for each different line, as one map."""
    _, numbers = np.unique(tables, axis=0, return_inverse=True)
    return numbers.reshape(1, -1)


def side_by_side(*lattices: Lattice) -> Lattice:
    """Return the product of independent noises: several areas."""
    widths, exponent = [one.basis.shape[1] for one in lattices], lattices[0].exponent
    basis = np.zeros((sum(one.rank for one in lattices), sum(widths)), np.int64)
    row = column = 0
    for one, width in zip(lattices, widths, strict=True):
        basis[row : row + one.rank, column : column + width] = one.basis
        row, column = row + one.rank, column + width
    return Lattice(basis, tuple(p for one in lattices for p in one.precisions), exponent)


def points_in_box(matrix: Ints, size: int) -> set[tuple[int, ...]]:
    """Return every integer vector within a box that a matrix takes to 0, by trying all: the oracle of `kernel`."""
    n = matrix.shape[1]
    grid = np.array(list(product(range(-size, size + 1), repeat=n)), np.int64)
    return {tuple(line) for line in grid[~(grid @ matrix.T).any(axis=1)].tolist()}
