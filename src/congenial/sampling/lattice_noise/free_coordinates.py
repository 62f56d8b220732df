"""Noise on a lattice by free coordinates: draw all coordinates but a few by themselves, solve for these, accept or not.

The simplest exact sampler there is, for any noise and any equalities. Coordinates that are not *solved* are drawn from
their own weights. The equalities leave one value for each solved coordinate. Where that is an integer, the attempt is
accepted with probability the product of the weights that were not drawn from: those of solved coordinates and of soft
rows. It succeeds once in ``prod mass of the drawn coordinates / normaliser of the lattice`` attempts, so it is for few
equalities. docs/claims/lattice-noise.md has the proof. Nothing here has seen a table.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from math import ceil, log, prod
from typing import ClassVar, Self

import flint
import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.rows_and_intervals import dense
from congenial.errors import SamplingError, TooLargeError
from congenial.exact import ends, scaled_ends
from congenial.noise.weight import NoiseWeight
from congenial.proven_decisions import WORD, Uniform, choose_by_cdf, is_below, refine_until_proven
from congenial.randomness import KeyedWords
from congenial.sampling.lattice_noise.rejection import (
    LEAST_ACCEPTANCE,
    MOST_EXACT,
    UNIT,
    Attempts,
    Flags,
    Words,
    draw_until_accepted,
    matrix_product,
    mean_acceptance,
)
from congenial.sampling.lattice_noise.system import LatticeSystem

_MOST_ENTRIES = 1 << 16


# One coordinate by itself. Outcomes 0, 1, 2, 3, 4, ... stand for 0, 1, -1, 2, -2, ...


def signed(outcomes: Ints) -> Ints:
    """Return which values outcomes stand for.

    Examples
    --------
    >>> signed(np.arange(5)).tolist()
    [0, 1, -1, 2, -2]
    """
    return np.where(outcomes % 2 == 1, (outcomes + 1) // 2, -(outcomes // 2))


@lru_cache(maxsize=256)
def cdf_bounds(weight: NoiseWeight, bits: int) -> tuple[list[int], list[int]]:
    """Return integers around the cdf of one coordinate times ``2**bits``; what is left beyond is below ``2**-bits``."""
    # Neighbours' ratios fall with distance, so the rest beyond `reach` is at most following / (1 - ratio).
    reach = ceil(weight.distance((bits + 8) * log(2))) + 1
    while True:
        with flint.ctx.workprec(2 * bits + 64):
            *weights, edge, following = weight.enclosures(range(1, reach + 3))
            rest = 2 * following / (1 - following / edge)
            if ends(rest * 2**bits)[1] < 1:
                break
        reach = 2 * reach
    with flint.ctx.workprec(2 * bits + 64):
        total = 1 + 2 * sum([*weights, edge], flint.arb(0)) + flint.arb(0).union(rest)
        points = [flint.arb(1)]
        for one in (*weights, edge):
            points += [points[-1] + one, points[-1] + 2 * one]
        pairs = [scaled_ends(point / total, bits) for point in points]
    return [low for low, _ in pairs], [high for _, high in pairs]


@dataclass(frozen=True)
class Thresholds:
    """The cdf of one coordinate as 64-bit integers, for a search of a fixed number of steps.

    Attributes
    ----------
    lows, highs : array of uint64
        Around each point of the cdf; filled up to a power of two with the largest word.
    """

    lows: Words
    highs: Words

    @classmethod
    def of(cls, weight: NoiseWeight) -> "Thresholds":
        """Return the thresholds of a weight."""
        top, sides = 2**WORD - 1, cdf_bounds(weight, WORD)
        size = 1 << len(sides[0]).bit_length()
        full = [np.array([min(end, top) for end in side] + [top] * (size - len(side)), np.uint64) for side in sides]
        return cls(*full)

    @property
    def reach(self) -> int:
        """How far from 0 an outcome can be."""
        return len(self.lows) // 2

    def search(self, words: Words) -> tuple[Ints, Flags]:
        """Return the outcome of each word, and where its 64 bits do not prove it.

        As many steps for every word, whatever its outcome.
        """
        position = np.zeros(words.shape, np.int64)
        step = len(self.lows) // 2
        while step:
            position += step * (self.lows[position + (step - 1)] <= words)
            step //= 2
        # `position` points are possibly at or below U: the last of them surely is, or it is in doubt.
        last = self.highs[np.maximum(position - 1, 0)]
        is_doubtful = ((position > 0) & (last > words)) | (words == np.uint64(2**WORD - 1))
        return position, is_doubtful


def draw_independent(groups: list[tuple[Thresholds, list[int]]], words: Words) -> tuple[Ints, Flags]:
    """Return coordinates drawn each by itself (unit, coordinate), and which units are in doubt.

    Parameters
    ----------
    groups : list of (Thresholds, columns)
        Coordinates of equal weight together.
    words : array (unit, coordinate)
    """
    out = np.zeros(words.shape, np.int64)
    is_doubtful = np.zeros(len(words), np.bool_)
    for thresholds, columns in groups:
        outcomes, doubts = thresholds.search(words[:, columns])
        out[:, columns] = signed(outcomes)
        is_doubtful |= doubts.any(axis=1)
    return out, is_doubtful


# The sampler.


@dataclass(frozen=True)
class FreeCoordinates:
    """Draws all coordinates but as many as there are equalities, solves for these, and accepts by their weights.

    Parameters
    ----------
    system : LatticeSystem

    Examples
    --------
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.noise import DoubleGeometric
    >>> from congenial.sampling.lattice_noise.rejection import public_words
    >>> system = LatticeSystem((DoubleGeometric(1).weight,) * 3, (Row.of("total", [0, 1, 2]),))
    >>> noise = FreeCoordinates(system).draw(public_words(1000))
    >>> system.holds(noise)
    True
    """

    system: LatticeSystem

    name: ClassVar[str] = "free_coordinates"
    title: ClassVar[str] = "free coordinates, the others solved for, and rejection"
    is_exact: ClassVar[bool] = True

    @classmethod
    def of(cls, system: LatticeSystem) -> Self | None:
        """Return the sampler: it applies to every system, and `check` says whether it is fast enough."""
        return cls(system)

    @cached_property
    def solved(self) -> tuple[int, ...]:
        """The coordinates that are solved for.

        Attempts are accepted at the rate of the lattice's normaliser over the masses of the coordinates drawn. So the
        best to solve for are those of largest mass whose columns are independent, and a greedy choice finds them.
        """
        weights = self.system.weights
        order = sorted(range(self.system.n_coordinates), key=lambda number: (-weights[number].log_mass(), number))
        columns = flint.fmpz_mat(self.system.matrix[:, order].tolist()) if self.system.equalities else None
        if columns is None:
            return ()
        reduced, _, rank = columns.rref()
        pivots, column = [], 0
        for line in range(rank):
            column = next(number for number in range(column, len(order)) if reduced[line, number] != 0)
            pivots.append(order[column])
        return tuple(sorted(pivots))

    @cached_property
    def drawn(self) -> tuple[int, ...]:
        """The coordinates that are drawn by themselves."""
        return tuple(number for number in range(self.system.n_coordinates) if number not in set(self.solved))

    @cached_property
    def solution(self) -> tuple[Floats, int]:
        """Matrix (drawn, solved) and divisor: ``solved * divisor = drawn @ matrix``. Integers, as doubles."""
        if not self.solved:
            return np.zeros((len(self.drawn), 0)), 1
        matrix = self.system.matrix
        inverse = flint.fmpq_mat(flint.fmpz_mat(matrix[:, self.solved].tolist())).inv()
        numerators, divisor = (inverse * flint.fmpz_mat(matrix[:, self.drawn].tolist())).numer_denom()
        numbers = [[-int(entry) for entry in line] for line in numerators.table()]
        largest = max((abs(number) for line in numbers for number in line), default=0)
        if (
            largest * sum(table.reach * len(places) for table, places in self._groups) >= MOST_EXACT
            or int(divisor) >= MOST_EXACT
        ):
            raise TooLargeError(
                f"solving for {len(self.solved)} coordinates takes coefficients up to {largest:,}, too large for exact"
                " arithmetic in doubles; divide the coefficients of the exact numbers by a common factor"
            )
        return np.array(numbers, np.float64).reshape(len(numbers), len(self.drawn)).T.copy(), int(divisor)

    @cached_property
    def _groups(self) -> list[tuple[Thresholds, list[int]]]:
        columns: dict[NoiseWeight, list[int]] = {}
        for place, number in enumerate(self.drawn):
            columns.setdefault(self.system.weights[number], []).append(place)
        if any(weight.distance((WORD + 8) * log(2)) > _MOST_ENTRIES for weight in columns):
            raise TooLargeError(
                f"noise that reaches beyond {_MOST_ENTRIES:,} needs too long a table; raise the precision of its query"
            )
        return [(Thresholds.of(weight), places) for weight, places in columns.items()]

    @cached_property
    def _accepting(self) -> list[tuple[Floats, Floats]]:
        """For each weight that decides acceptance: coefficients over coordinates, and its table by size.

        A table ends with 0, where the weight is below 2^-70.
        """
        n, out = self.system.n_coordinates, []
        rows = [*np.eye(n)[list(self.solved)], *dense([soft.row for soft in self.system.soft], n).astype(np.float64)]
        weights = [
            *(self.system.weights[number] for number in self.solved),
            *(soft.weight for soft in self.system.soft),
        ]
        for row, weight in zip(rows, weights, strict=True):
            most = ceil(weight.distance(70 * log(2)))
            if most > _MOST_ENTRIES:
                raise TooLargeError(f"a soft row whose noise reaches beyond {_MOST_ENTRIES:,}; raise its precision")
            if np.abs(row).sum() * 4 * _MOST_ENTRIES >= MOST_EXACT:
                raise TooLargeError(
                    "a soft row has coefficients too large for exact arithmetic; divide them by a factor"
                )
            out.append((row, np.array([*weight.doubles(most), 0.0])))
        return out

    @cached_property
    def n_words(self) -> int:
        """Words of an attempt: one for each coordinate drawn, one to accept, and one more if that is odd."""
        return (len(self.drawn) + 2) // 2 * 2

    @property
    def _tolerance(self) -> float:
        # A tabulated weight is off by 2 units, a product by one more; U by 2; a weight left out is below 2^-70.
        return (4 * len(self._accepting) + 16) * UNIT

    def _attempt(self, words: Words) -> Attempts:
        n_drawn = len(self.drawn)
        free, is_doubtful = draw_independent(self._groups, words[:, :n_drawn])
        matrix, divisor = self.solution
        multiples = matrix_product(free.astype(np.float64), matrix)  # exact: integers below 2^52
        rest = np.rint(multiples / divisor)
        # multiples / divisor is within half a unit in the last place; only where rest * divisor is exact is it equal.
        is_integer = (rest * divisor == multiples).all(axis=1)
        vectors = np.zeros((len(words), self.system.n_coordinates), np.int64)
        vectors[:, self.drawn], vectors[:, self.solved] = free, rest
        probability = is_integer.astype(np.float64)
        values = vectors.astype(np.float64)
        for row, table in self._accepting:
            size = np.abs(np.einsum("uc,c->u", values, row))
            probability *= table[np.minimum(size, len(table) - 1).astype(np.int64)]
        uniform = words[:, n_drawn].astype(np.float64) * 2.0**-WORD
        is_doubtful |= is_integer & (np.abs(uniform - probability) <= self._tolerance)
        return Attempts(vectors, probability, uniform < probability, is_doubtful)

    def _refine(self, uniforms: list[Uniform]) -> list[int] | None:
        """Decide an attempt by enclosures: the vector, or None where it is not accepted."""
        free = [
            int(signed(np.array(choose_by_cdf(uniform, partial(cdf_bounds, self.system.weights[number])))))
            for uniform, number in zip(uniforms, self.drawn, strict=False)
        ]
        matrix, divisor = self.solution
        multiples = [sum(int(times) * value for times, value in zip(line, free, strict=True)) for line in matrix.T]
        if any(multiple % divisor for multiple in multiples):
            return None
        vector = [0] * self.system.n_coordinates
        for number, value in (*zip(self.drawn, free, strict=True), *zip(self.solved, multiples, strict=True)):
            vector[number] = value
        for number in self.solved:
            vector[number] //= divisor
        factors = [(self.system.weights[number], vector[number]) for number in self.solved]
        factors += [(soft.weight, sum(t * vector[c] for c, t in soft.row.terms.items())) for soft in self.system.soft]

        def decide(_: int) -> bool:
            probability = prod((weight.enclosures([value])[0] for weight, value in factors), start=flint.arb(1))
            low, high = ends(probability)
            return is_below(uniforms[len(self.drawn)], low, min(high, Fraction(1)))

        return vector if refine_until_proven(decide) else None

    def draw(self, words: KeyedWords, *, always_refined: bool = False) -> Ints:
        """Return noise (unit, coordinate), one vector for each unit of the words."""
        return draw_until_accepted(
            words, self.n_words, self.system.n_coordinates, self._attempt, self._refine, always_refined
        )

    @cached_property
    def acceptance(self) -> float:
        """About how often an attempt is accepted, from attempts with public words."""
        return mean_acceptance(self._attempt, self.n_words)

    @property
    def slow_rate(self) -> float:
        """A bound of the share of attempts that are decided again by enclosures."""
        entries = sum(len(table.lows) * len(places) for table, places in self._groups)
        return entries * 2.0 ** (2 - WORD) + 2 * self._tolerance

    @property
    def seconds(self) -> float:
        """About how long the noise of a unit takes."""
        steps = sum((len(table.lows).bit_length() + 4) * len(places) for table, places in self._groups)
        return (3e-7 + steps * 6e-9 + 2e-8 * len(self._accepting)) / max(self.acceptance, LEAST_ACCEPTANCE / 100)

    def check(self) -> None:
        """Refuse a system for which this is too slow, by public numbers."""
        if self.acceptance < LEAST_ACCEPTANCE:
            raise SamplingError(
                f"free coordinates would accept fewer than one attempt in {1 / LEAST_ACCEPTANCE:,.0f} with"
                f" {len(self.solved)} exact numbers and {len(self.system.soft)} measured sums; leave out some of them"
            )

    def describe(self) -> str:
        """Return in words how noise is drawn."""
        return (
            f"{len(self.drawn)} coordinates drawn by themselves, {len(self.solved)} solved for; about"
            f" {self.acceptance:.3g} of all attempts are accepted"
        )
