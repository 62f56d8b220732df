"""A basis of the lattice of noise, short in the metric of its energy.

Any basis gives the same law of noise; with a short one attempts are accepted more often. It is found by operations that
give the same numbers on every machine, since the noise is a function of random words and of the basis.
"""

from dataclasses import dataclass

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.grouped_cells_and_lattice import integer_solutions, reduced
from congenial.errors import TooLargeError
from congenial.sampling.lattice_noise.system import LatticeSystem


def lattice_basis(system: LatticeSystem) -> Ints:
    """Return a basis (vector, coordinate) of the integer vectors that keep all equalities.

    Examples
    --------
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.noise import DiscreteGaussian
    >>> lattice_basis(LatticeSystem((DiscreteGaussian(1).weight,) * 3, (Row.of("total", [0, 1, 2]),))).tolist()
    [[-1, 1, 0], [-1, 0, 1]]
    """
    n = system.n_coordinates
    lines, _, scale = reduced(system.matrix) if system.equalities else ([], [], 1)
    if any(entry % scale for line in lines for entry in line):
        solutions = integer_solutions([(row.terms, 0) for row in system.equalities], n)
        entries = [list(line) for line in solutions.basis] if solutions else []  # 0 is one, so there are some
    else:  # pivots are 1: every vector is an integer combination of those with one free coordinate (40 times faster)
        pivots = [next(column for column in range(n) if line[column]) for line in lines]
        entries = []
        for free in sorted(set(range(n)) - set(pivots)):
            vector = [0] * n
            vector[free] = 1
            for pivot, line in zip(pivots, lines, strict=True):
                vector[pivot] = -line[free] // scale
            entries.append(vector)
    if any(abs(entry) >= 2**20 for line in entries for entry in line):
        raise TooLargeError(
            "the exact numbers have coefficients too large for a basis of the noise; leave out some of them"
        )
    return np.array(entries, np.int64).reshape(len(entries), n)


@dataclass
class GramSchmidt:
    """A basis with its Gram matrix in integers and its Gram-Schmidt coefficients, changed in place until it is short.

    Only sums, products, quotients and comparisons of single numbers in a fixed order: the same on every machine.

    Attributes
    ----------
    basis : array (vector, coordinate)
    gram : array (vector, vector)
        Inner products in the metric of the energy, integers below 2^52.
    mu : array (vector, vector)
        Unit lower triangular: a vector is the sum of orthogonal ones with these coefficients.
    norms : array (vector,)
        Squared lengths of the orthogonal vectors.
    """

    basis: Ints
    gram: Floats
    mu: Floats
    norms: Floats

    @classmethod
    def of(cls, basis: Ints, gram: Floats) -> "GramSchmidt":
        """Reduce a basis by the algorithm of Lenstra, Lenstra and Lovasz."""
        n = len(basis)
        state = cls(basis.copy(), gram.copy(), np.eye(n), np.zeros(n))
        number, visits_left = 0, 100 * n
        while number < n:
            state._orthogonalise(number)
            while state._shorten(number):
                state._orthogonalise(number)
            visits_left -= 1
            before, after = state.norms[number - 1], state.norms[number]
            slope = state.mu[number, number - 1]
            if number and after < (0.99 - slope * slope) * before and visits_left > 0:
                pair, swapped = [number - 1, number], [number, number - 1]
                state.basis[pair] = state.basis[swapped]
                state.gram[pair] = state.gram[swapped]
                state.gram[:, pair] = state.gram[:, swapped]
                number -= 1
            else:
                number += 1
        return state

    def _orthogonalise(self, number: int) -> None:
        rest = self.gram[number, : number + 1].copy()
        for other in range(number):
            times = rest[other] / self.norms[other]
            self.mu[number, other] = times
            if times:
                rest[other + 1 : number] -= rest[other] * self.mu[other + 1 : number, other]
                rest[number] -= rest[other] * times
        self.norms[number] = rest[number]

    def _shorten(self, number: int) -> bool:
        """Subtract multiples of earlier vectors; return whether any was."""
        is_changed = False
        while (long := np.flatnonzero(np.abs(self.mu[number, :number]) > 0.51)).size:
            other = long[-1]
            times = np.rint(self.mu[number, other])
            self.basis[number] -= int(times) * self.basis[other]
            self.gram[number] -= times * self.gram[other]
            self.gram[:, number] -= times * self.gram[:, other]
            self.mu[number, : other + 1] -= times * self.mu[other, : other + 1]
            is_changed = True
        return is_changed
