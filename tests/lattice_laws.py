"""Small lattices of noise with every vector that matters, by brute force."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product
from math import ceil

import numpy as np

from agreement import p_value
from congenial.arrays import Floats, Ints
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Row, dense
from congenial.noise import DiscreteGaussian, DoubleGeometric
from congenial.noise.weight import NoiseWeight
from congenial.randomness import KeyedWords, RandomStream
from congenial.sampling.lattice_noise.system import LatticeSystem, SoftRow

Weights = Callable[[str], NoiseWeight]


def gaussian(variance: str) -> NoiseWeight:
    from fractions import Fraction

    return DiscreteGaussian(1 / Fraction(variance)).weight


def geometric(precision: str) -> NoiseWeight:
    return DoubleGeometric(precision).weight


def keyed(rng: RandomStream, n: int) -> KeyedWords:
    return KeyedWords(rng.words(4).tobytes(), rng.words(2 * n).reshape(n, 2))


def lattice(
    weights: list[NoiseWeight], rows: list[dict[int, int]], soft: list[tuple[dict[int, int], NoiseWeight]] | None = None
) -> LatticeSystem:
    kept = dependence(rows).independent
    return LatticeSystem(
        tuple(weights),
        tuple(Row.weighted(rows[number], name=f"row {number}") for number in kept),
        tuple(SoftRow(Row.weighted(terms), weight) for terms, weight in soft or []),
    )


def margins(shape: tuple[int, ...], order: int) -> list[dict[int, int]]:
    """The cells of every margin over `order` dimensions."""
    cells = np.arange(int(np.prod(shape))).reshape(shape)
    out = []
    for dimensions in combinations(range(len(shape)), order):
        rest = [number for number in range(len(shape)) if number not in dimensions]
        moved = np.transpose(cells, (*dimensions, *rest)).reshape(-1, int(np.prod([shape[number] for number in rest])))
        out += [dict.fromkeys(line, 1) for line in moved.tolist()]
    return out


def p12(weight: NoiseWeight) -> LatticeSystem:
    """Total, women and voting age of a table of 46 cells."""
    women = dict.fromkeys(range(23, 46), 1)
    adults = {cell: 1 for cell in range(46) if cell % 23 >= 4}
    return lattice([weight] * 46, [dict.fromkeys(range(46), 1), women, adults])


@dataclass(frozen=True)
class Enumerated:
    """Vectors and probabilities; all others together have less than a millionth of a millionth."""

    vectors: Ints
    probabilities: Floats

    @classmethod
    def of(cls, system: LatticeSystem, nats: float = 30.0) -> "Enumerated":
        n, matrix = system.n_coordinates, system.matrix
        pivots = next(
            list(columns)
            for columns in combinations(range(n), len(matrix))
            if round(float(np.linalg.det(matrix[:, columns].astype(float))))
        )
        free = [number for number in range(n) if number not in pivots]
        reach = [range(-(top := ceil(system.weights[number].distance(nats))), top + 1) for number in free]
        values = np.array(list(product(*reach)), np.int64).reshape(-1, len(free))
        vectors = np.zeros((len(values), n), np.int64)
        vectors[:, free] = values
        if pivots:
            solved = np.linalg.solve(matrix[:, pivots].astype(float), -(matrix[:, free] @ values.T).astype(float))
            vectors[:, pivots] = np.rint(solved.T)
        vectors = vectors[~(vectors @ matrix.T).any(axis=1)]
        sizes = np.abs(np.hstack([vectors, vectors @ dense([soft.row for soft in system.soft], n).T])).astype(float)
        weights = [*system.weights, *(soft.weight for soft in system.soft)]
        log_weights = sum((w.log_at(sizes[:, number]) for number, w in enumerate(weights)), np.zeros(len(vectors)))
        vectors, log_weights = vectors[log_weights > -nats], log_weights[log_weights > -nats]
        total = np.exp(log_weights).sum()
        return cls(vectors, np.exp(log_weights) / total)

    def p_value(self, draws: Ints) -> float:
        """The chi-square tail probability of draws; what is not listed is one more outcome."""
        place = {vector: number for number, vector in enumerate(map(tuple, self.vectors.tolist()))}
        outcomes = np.array([place.get(draw, len(place)) for draw in map(tuple, draws.tolist())])
        return p_value(outcomes, np.append(self.probabilities, 1e-12))


ONE_SUM = [{0: 1, 1: 1, 2: 1}]


def structures(w: Weights, wide: str, middle: str, narrow: str) -> dict[str, LatticeSystem]:
    """Lattices of up to five dimensions, under noise of three widths."""
    a, b, c = w(wide), w(middle), w(narrow)
    return {
        "no equality": lattice([b, c], []),
        "one sum": lattice([b] * 3, ONE_SUM),
        "one sum, precisions that differ": lattice([a, b, c, b], [dict.fromkeys(range(4), 1)]),
        "coefficients": lattice([b] * 3, [{0: 2, 1: 3, 2: -1}]),
        "index": lattice([b, c, b], [{0: 2, 1: 4, 2: 6}, {0: 1, 1: -1, 2: 3}]),
        "large steps": lattice([b, b, a], [{0: 3, 1: 5}]),
        "soft row": lattice([b] * 3, ONE_SUM, [({0: 1, 1: 1}, c)]),
        "soft rows, coefficients, precisions that differ": lattice(
            [b, c, a, b], [{0: 1, 1: 2, 2: 1, 3: -1}], [({0: 1, 1: -2}, c), ({1: 1, 2: 1, 3: 1}, b)]
        ),
        "nested sums": lattice([c] * 5, [dict.fromkeys(range(5), 1), {0: 1, 1: 1}]),
        "overlapping sums": lattice([c] * 5, [{0: 1, 1: 1, 2: 1}, {2: 1, 3: 1, 4: 1}]),
        "3 x 3, both margins": lattice([c] * 9, margins((3, 3), 1)),
        "2 x 2 x 2, all two-way margins": lattice([a, *[b] * 7], margins((2, 2, 2), 2)),
        "2 x 2 x 3, all two-way margins": lattice([b] * 12, margins((2, 2, 3), 2)),
    }
