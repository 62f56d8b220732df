"""A sampler of one's own, as a test would add it: every table of a tiny system, written down."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import lcm, prod
from typing import ClassVar

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.grouped_cells_and_lattice import Box
from congenial.conditions.integer_program import propagate
from congenial.conditions.rows_and_intervals import Limited, Row
from congenial.exact import log_of
from congenial.proven_decisions import exact_choice, weights_cdf
from congenial.randomness import RandomStream, Streams
from congenial.sampling.target_and_system import System, SystemRow

MOST_TABLES = 2_500


def box_of(system: System, hard: list[Limited]) -> Box:
    return propagate(hard, Box(list(system.lower), list(system.upper)))


def size_of(box: Box) -> float:
    pairs = list(zip(*box, strict=True))
    if any(low is None or high is None for low, high in pairs):
        return np.inf
    return prod(float(high - low + 1) for low, high in pairs if low is not None and high is not None)


@dataclass(frozen=True, eq=False)
class EnumerationAt:
    system: System
    centre: Ints

    @cached_property
    def tables(self) -> Ints:
        rows = [row for row in self.system.rows if row.kind in {"equal", "range"}]
        limits = [self._limits(row) for row in rows]
        hard = [Limited.of(Row.weighted(dict(row.coefficients)), *ends) for row, ends in zip(rows, limits, strict=True)]
        low, high = box_of(self.system, hard)
        values = [range(a, b + 1) for a, b in zip(low, high, strict=True) if a is not None and b is not None]
        return np.array([table for table in product(*values) if all(row.holds(table) for row in hard)], np.int64)

    def _limits(self, row: SystemRow) -> tuple[int | None, int | None]:
        if row.kind == "range":
            return row.lower, row.upper
        value = sum(coefficient * int(self.centre[cell]) for cell, coefficient in row.coefficients)
        return value, value

    @cached_property
    def weights(self) -> list[Fraction]:
        soft = [row for row in self.system.rows if row.kind == "soft"]
        out = []
        for table in self.tables.tolist():
            deviation = [value - int(at) for value, at in zip(table, self.centre, strict=True)]
            own = prod(
                weight.at(v, is_limit=value == low)
                for weight, v, value, low in zip(self.system.weights, deviation, table, self.system.lower, strict=True)
            )
            of_rows = prod(row.weight.at(sum(c * deviation[cell] for cell, c in row.coefficients)) for row in soft)
            out.append(Fraction(own * of_rows))
        return out

    def sample(self, n_draws: int, rng: RandomStream) -> Ints:
        scale = lcm(*(weight.denominator for weight in self.weights))
        return self.tables[exact_choice(weights_cdf([int(weight * scale) for weight in self.weights]), n_draws, rng)]

    @property
    def log_normaliser(self) -> float:
        return log_of(sum(self.weights, Fraction(0)))


@dataclass(frozen=True, eq=False)
class Enumeration:
    system: System

    name: ClassVar[str] = "enumeration"
    title: ClassVar[str] = "independent draw from the list of all tables"
    is_exact: ClassVar[bool] = True
    seconds: ClassVar[float] = 1e-3
    has_predictable_time: ClassVar[bool] = True

    @classmethod
    def of(cls, system: System) -> "Enumeration | None":
        hard = [row for row in system.rows if row.kind in {"equal", "range"}]
        rows = [Limited.of(Row.weighted(dict(row.coefficients)), row.lower, row.upper) for row in hard]
        return cls(system) if size_of(box_of(system, rows)) <= MOST_TABLES else None

    def check(self) -> None:
        pass

    def describe(self) -> str:
        return f"at most {MOST_TABLES:,} tables, exact"

    def draw_each(self, centres: Ints, rng: Streams, *, n_threads: int = 1) -> Ints:
        out = np.empty_like(centres)
        if not isinstance(rng, RandomStream):  # a stream of its own for each table
            for number, centre in enumerate(centres):
                out[number] = self.at(centre).sample(1, rng.stream(number))[0]
            return out
        distinct, which = np.unique(centres, axis=0, return_inverse=True)
        for number, centre in enumerate(distinct):
            mine = which.reshape(-1) == number
            out[mine] = self.at(centre).sample(int(mine.sum()), rng)
        return out

    def at(self, centre: Ints) -> EnumerationAt:
        return EnumerationAt(self.system, centre)

    def dry_run(self, points: Ints) -> str:
        return ""

    def log_normalisers(self, centres: Ints, rng: RandomStream) -> Floats:
        del rng
        return np.array([self.at(centre).log_normaliser for centre in centres])
