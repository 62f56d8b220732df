"""Privacy losses by brute force: every table of a small set, every pair, every output; no code of the privacy layer.

Tables come from trying a whole box, normalisers are exact integers, and logarithms are balls with proven error.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import flint
import numpy as np
from numpy.typing import NDArray

import congenial as cg
from congenial.conditions.base import Condition
from congenial.conditions.rows_and_intervals import Row
from congenial.noise import FAMILIES, DiscreteNoise
from congenial.privacy.certificate_inputs import Case
from congenial.randomness import RandomStream

Weights = tuple[int, ...]
Limits = tuple[Weights, int | None, int | None]
Ints = NDArray[np.int64]
Long = NDArray[np.longdouble]

T = TypeVar("T")

BITS = 256


def tables_of(box: Sequence[tuple[int, int]], rows: Sequence[Limits]) -> Ints:
    """Return every table (table, cell) of a box that obeys the rows."""
    grid = np.array(list(itertools.product(*(range(low, high + 1) for low, high in box))), np.int64)
    keep = np.ones(len(grid), bool)
    for weights, low, high in rows:
        value = grid @ np.array(weights)
        keep &= (value >= low if low is not None else True) & (value <= high if high is not None else True)
    return grid[keep]


@dataclass(frozen=True)
class Plain:
    """A system in the plainest terms.

    Attributes
    ----------
    box : the limits of every cell that are tried, wide enough for all of S*
    rows : weights with limits; equal limits are an invariant
    classes : measured rows, a class for each precision
    precisions : one a class
    is_open : whether the upper ends of the box follow from the rows, and are not stated as conditions
    """

    box: tuple[tuple[int, int], ...]
    rows: tuple[Limits, ...]
    classes: tuple[tuple[Weights, ...], ...]
    precisions: tuple[Fraction, ...]
    noise: str = "double_geometric"
    is_open: bool = False

    @property
    def schema(self) -> cg.Schema:
        return cg.Schema({"cell": [f"c{i}" for i in range(len(self.box))]})

    @property
    def conditions(self) -> list[Condition]:
        made: list[Condition] = []
        for weights, low, high in self.rows:
            named = {f"c{i}": w for i, w in enumerate(weights) if w}
            if low == high:
                made.append(cg.linear(named, equals=low))
            else:
                made.append(cg.linear(named, at_least=low, at_most=high))
        for i, (low, high) in enumerate(self.box):
            made.append(cg.bounds(low, None if self.is_open else high, where={"cell": f"c{i}"}))
        return made

    @cached_property
    def constraints(self) -> cg.Constraints:
        return cg.Constraints.of(self.schema, self.conditions)

    def case(self, neighbours: str) -> Case:
        classes = tuple(tuple(row_of(weights) for weights in rows) for rows in self.classes)
        return Case(self.constraints, classes, self.noise, neighbours)

    @cached_property
    def tables(self) -> Ints:
        """Every table (table, cell), by trying the whole box."""
        return tables_of(self.box, self.rows)

    @property
    def measured(self) -> list[tuple[Weights, Fraction]]:
        return [(w, p) for rows, p in zip(self.classes, self.precisions, strict=True) for w in rows if p]


def row_of(weights: Weights) -> Row:
    cells = tuple(i for i, w in enumerate(weights) if w)
    return Row("+".join(f"{weights[i]}c{i}" for i in cells), cells, tuple(weights[i] for i in cells))


def records_apart(tables: Ints, neighbours: str) -> Ints:
    """Return how many records two tables are apart (table, table); -1 where no number of changes leads over."""
    change = tables[:, None, :] - tables[None, :, :]
    norm = np.abs(change).sum(axis=2)
    return np.where(change.sum(axis=2) == 0, norm // 2, -1) if neighbours == "bounded" else norm


@dataclass(frozen=True)
class Brute:
    """All laws of a system at once.

    Attributes
    ----------
    steps : the whole powers of each noise base (base, confidential table, released table)
    """

    system: Plain
    tables: Ints
    bases: tuple[Fraction, ...]
    steps: Ints

    @classmethod
    def of(cls, system: Plain) -> "Brute":
        tables = system.tables
        powers: dict[Fraction, Ints] = {}
        for weights, precision in system.measured:
            noise = FAMILIES[system.noise](precision)
            assert isinstance(noise, DiscreteNoise)
            value = tables @ np.array(weights)
            gap = np.abs(value[:, None] - value[None, :])
            power = gap * gap if system.noise == "discrete_gaussian" else gap
            powers[noise.base] = powers.get(noise.base, np.zeros_like(power)) + power
        return cls(system, tables, tuple(powers), np.array(list(powers.values())))

    @cached_property
    def normalisers(self) -> list[Fraction]:
        """c(s) of every table, exactly."""
        tops = self.steps.max(axis=(1, 2)).tolist()
        scale, weight = 1, np.ones(self.steps.shape[1:], object)
        for base, top, power in zip(self.bases, tops, self.steps, strict=True):
            ladder = np.array([base.numerator**n * base.denominator ** (top - n) for n in range(top + 1)], object)
            weight = weight * ladder[power]
            scale *= base.denominator**top
        return [Fraction(int(total), scale) for total in weight.sum(axis=1)]

    @cached_property
    def log_bases(self) -> list[flint.arb]:
        return [log_ball(base) for base in self.bases]

    @cached_property
    def log_normalisers(self) -> list[flint.arb]:
        return [log_ball(value) for value in self.normalisers]

    @cached_property
    def log_probability(self) -> Long:
        """Log probabilities (confidential table, released table) in 80 bits."""
        logs = np.array([long_of(value) for value in self.log_bases])
        out: Long = np.tensordot(logs, self.steps.astype(np.longdouble), axes=(0, 0))
        out -= np.array([long_of(value) for value in self.log_normalisers])[:, None]
        return out

    def exact_loss(self, s: int, other: int) -> flint.arb:
        """Return ``D + log c(s') - log c(s)`` as a ball."""
        with flint.ctx.workprec(BITS):
            parts = zip(self.log_bases, self.steps[:, s, other].tolist(), strict=True)
            distance = sum((-log * power for log, power in parts), flint.arb(0))
            return distance + self.log_normalisers[other] - self.log_normalisers[s]

    def pairs(self, neighbours: str, k: int | None = None) -> NDArray[np.intp]:
        """Return the ordered pairs of different neighbouring tables, at most `k` records apart (pair, 2)."""
        apart = records_apart(self.tables, neighbours)
        return np.argwhere((apart > 0) & ((apart <= k) if k is not None else True))

    def losses(self, pairs: NDArray[np.intp]) -> Long:
        """Return the largest log ratio of each pair over every released table: no formula for where it is attained."""
        log_p = self.log_probability
        return np.array([(log_p[s] - log_p[other]).max() for s, other in pairs.tolist()], np.longdouble)

    def worst(self, pairs: NDArray[np.intp]) -> flint.arb:
        """Return the largest exact loss of some pairs, as a ball."""
        losses = self.losses(pairs)
        s, other = pairs[int(np.argmax(losses))].tolist()
        return self.exact_loss(s, other)

    def divergences(self, pairs: NDArray[np.intp], order: float) -> Long:
        """Return the Renyi divergence of each pair, in 80 bits."""
        log_p, a = self.log_probability, np.longdouble(order)
        out = np.empty(len(pairs), np.longdouble)
        for start in range(0, len(pairs), 4096):
            part = pairs[start : start + 4096]
            terms = a * log_p[part[:, 0]] + (1 - a) * log_p[part[:, 1]]
            peak = terms.max(axis=1)
            out[start : start + 4096] = (peak + np.log(np.exp(terms - peak[:, None]).sum(axis=1))) / (a - 1)
        return out

    def rhos(self, pairs: NDArray[np.intp]) -> Long:
        """Return ``sum_r p_r q_r(z)^2 / 2`` of each pair at the stated precisions."""
        out = np.zeros(len(pairs), np.longdouble)
        change = self.tables[pairs[:, 0]] - self.tables[pairs[:, 1]]
        for weights, precision in self.system.measured:
            half = np.longdouble(precision.numerator) / np.longdouble(2 * precision.denominator)
            out += half * (change @ np.array(weights)) ** 2
        return out


def log_ball(value: Fraction) -> flint.arb:
    with flint.ctx.workprec(BITS):
        return flint.arb(flint.fmpq(value.numerator, value.denominator)).log()


def ball(value: Fraction | int) -> flint.arb:
    with flint.ctx.workprec(BITS):
        exact = Fraction(value)
        return flint.arb(flint.fmpq(exact.numerator, exact.denominator))


def long_of(value: flint.arb) -> np.longdouble:
    """Return a ball's middle as a long double: a double and the rest of it."""
    with flint.ctx.workprec(BITS):
        head = float(value.mid())
        return np.longdouble(head) + np.longdouble(float((value.mid() - flint.arb(head)).mid()))


class Dice:
    """Plain choices from a replayed stream: seeds are the tests' own names."""

    def __init__(self, rng: RandomStream) -> None:
        self.rng = rng

    def integer(self, low: int, high: int) -> int:
        """Return an integer from low to high, both included."""
        return low + int(self.rng.below(np.array([high - low + 1]))[0])

    def chance(self, numerator: int, denominator: int) -> bool:
        return self.integer(1, denominator) <= numerator

    def choice(self, options: Sequence[T]) -> T:
        return options[self.integer(0, len(options) - 1)]

    def between(self, low: str, high: str) -> Fraction:
        """Return a fraction, log-uniform between two."""
        a, b = float(Fraction(low)), float(Fraction(high))
        u = float(self.rng.uniforms(1)[0])
        return Fraction(round(1000 * a * (b / a) ** u), 1000)

    def weights(self, n: int, choices: Sequence[int]) -> Weights:
        while True:
            found = tuple(self.choice(choices) for _ in range(n))
            if sum(map(bool, found)) > 1:
                return found


def cell_classes(n: int) -> tuple[Weights, ...]:
    return tuple(tuple(int(i == j) for j in range(n)) for i in range(n))


def margins(n_rows: int, n_columns: int) -> list[Weights]:
    """Return the rows and then the columns of a two-way table as weights of its cells."""
    lines = [tuple(int(c // n_columns == i) for c in range(n_rows * n_columns)) for i in range(n_rows)]
    return lines + [tuple(int(c % n_columns == j) for c in range(n_rows * n_columns)) for j in range(n_columns)]


def is_at_most(value: flint.arb, bound: Fraction) -> bool:
    """Whether a ball lies at or below a bound; a tie is decided by 60 digits."""
    with flint.ctx.workprec(BITS):
        return bool(value - ball(bound) < flint.arb("1e-60"))


def random_system(dice: Dice, noise: str = "double_geometric") -> Plain:
    """Return any small system: equalities, ranges measured or not, soft rows, uneven precisions, unmeasured cells."""
    while True:
        n = dice.integer(2, 5)
        box = tuple((low := dice.choice([0, 0, 0, -1, 1]), low + dice.integer(0, 4)) for _ in range(n))
        inside = [dice.integer(*ends) for ends in box]
        rows: list[Limits] = []
        soft: list[Weights] = []
        for _ in range(dice.integer(0, 2)):
            weights = dice.weights(n, [0, 1, 1, 1] if dice.chance(2, 3) else [0, 1, -1, 2, 3])
            value = sum(w * x for w, x in zip(weights, inside, strict=True))
            rows.append((weights, value, value))
        for _ in range(dice.integer(0, 2)):
            weights = dice.weights(n, [0, 1, 1, -1] if dice.chance(2, 3) else [0, 1, 2, -3])
            value = sum(w * x for w, x in zip(weights, inside, strict=True))
            ends = [value - dice.integer(0, 3), value + dice.integer(0, 3)]
            rows.append((weights, *dice.choice([(ends[0], ends[1]), (ends[0], None), (None, ends[1])])))
            if dice.chance(1, 2):
                soft.append(weights)
        soft += [dice.weights(n, [0, 1, 1, 2]) for _ in range(dice.integer(0, 2))]
        ones = list(cell_classes(n))
        cut = dice.integer(1, n)
        classes = [ones[:cut], ones[cut:], *([row] for row in dict.fromkeys(soft))]
        precisions = [dice.between("1/20", "4") for _ in classes]
        if dice.chance(1, 5):
            precisions[1] = Fraction(0)
        system = Plain(box, tuple(rows), tuple(map(tuple, classes)), tuple(precisions), noise)
        if 2 <= len(system.tables) <= 150:
            return system
