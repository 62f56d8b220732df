"""Intervals without a prior against every table of small sets: for the tests and for `make audit-intervals`.

The law of the release is computed for every confidential table and every outcome from the weights alone, so coverage is
exact. Errors are listed the same way: every vector of errors that the published sums allow.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

import congenial as cg
from brute import Dice
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.conditions.rows_and_intervals import Row
from congenial.inference.error_bounds import NotProvenError
from congenial.inference.frequentist import LinearNumber, TableErrors, bound_errors
from congenial.law import MeasuredQuery, PublicLaw

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NOISES = ("double_geometric", "discrete_gaussian")
ROUNDING = 1e-9


@dataclass(frozen=True)
class Small:
    """A law whose tables can all be listed, and a number: a coefficient for each cell."""

    law: PublicLaw
    coefficients: tuple[int, ...]
    miss: float

    @property
    def row(self) -> Row:
        cells = tuple(cell for cell, times in enumerate(self.coefficients) if times)
        return Row("a number", cells, tuple(self.coefficients[cell] for cell in cells))

    def tables(self, most: int = 8) -> Ints:
        constraints = self.law.areas[None]
        ends = [range(own.low or 0, (most if own.high is None else own.high) + 1) for own in constraints.limits]
        listed = np.array(list(product(*ends)), np.int64)
        kept: Ints = listed[np.asarray(constraints.holds(listed))]
        return kept

    def chances(self, tables: Ints) -> Floats:
        """The chance of each outcome given each table (table, outcome)."""
        logs = np.zeros((len(tables), len(tables)))
        for measured in self.law.measured:
            column = tables[:, measured.row.cells[0]]
            logs += measured.noise.log_weight(column[None, :] - column[:, None])
        weights = np.exp(logs)
        found: Floats = weights / weights.sum(axis=1, keepdims=True)
        return found

    def coverage(self) -> Floats:
        """The chance that the interval covers, for every table."""
        tables = self.tables()
        values = tables @ np.array(self.coefficients)
        number = LinearNumber.of({None: TableErrors.of(self.law)}, {None: self.row})
        covered = np.zeros((len(tables), len(tables)), bool)
        for place, released in enumerate(tables):
            ((above, below),) = bound_errors([number], {None: released}, self.miss)
            covered[:, place] = (values >= values[place] - above) & (values <= values[place] + below)
        found: Floats = (self.chances(tables) * covered).sum(axis=1)
        return found


def law_on(schema: cg.Schema, conditions: Sequence[Condition], noise: str, precisions: Sequence[Fraction]) -> PublicLaw:
    """A law with a precision for each cell."""
    rows = [Row.of(schema.cell_name(cell), [cell]) for cell in range(schema.n_cells)]
    queries = tuple(MeasuredQuery(row.name, precision, (row,)) for row, precision in zip(rows, precisions, strict=True))
    return PublicLaw(schema, noise, queries, Areas.one(cg.Constraints.of(schema, conditions)))


def drawn(dice: Dice, *, has_upper: bool) -> Small:
    """One published sum, or three that cross as P12's do; lower limits, and upper ones if asked for."""
    while True:
        n_cells, total = dice.integer(3, 5), dice.integer(1, 4)
        schema = cg.Schema({"c": [str(cell) for cell in range(n_cells)]})
        conditions: list[Condition] = [cg.total(equals=total)]
        if n_cells > 3 and dice.chance(2, 3):
            first, both, second = dice.choice([(0, 1, 2), (1, 0, 3), (2, 3, 1)])
            conditions += [
                cg.total({"c": [str(first), str(both)]}, equals=dice.integer(0, total)),
                cg.total({"c": [str(both), str(second)]}, equals=dice.integer(0, total)),
            ]
        if has_upper:
            limited = [str(cell) for cell in range(n_cells) if dice.chance(1, 2)] or ["0"]
            conditions.append(cg.bounds(0, dice.integer(1, total), where={"c": limited}))
        choices = (0, 1) if dice.chance(2, 3) else (-1, 0, 1)
        coefficients = tuple(dice.choice(choices) for _ in range(n_cells))
        one = dice.between("0.15", "2")
        precisions = [one if dice.chance(2, 3) else dice.between("0.15", "2") for _ in range(n_cells)]
        miss = dice.choice((0.1, 0.2, 0.3, 0.5, 0.7))
        try:
            small = Small(law_on(schema, conditions, dice.choice(NOISES), precisions), coefficients, miss)
            LinearNumber.of({None: TableErrors.of(small.law)}, {None: small.row})
        except (cg.CongenialError, NotProvenError):
            continue
        if any(coefficients) and len(small.tables()) > 1:
            return small


@dataclass
class Tally:
    """How many tables' coverage was computed, and the least that it is above its level."""

    systems: int = 0
    tables: int = 0
    least: float = np.inf

    def add(self, small: Small) -> None:
        found = small.coverage()
        self.systems, self.tables = self.systems + 1, self.tables + len(found)
        self.least = min(self.least, float(found.min()) - (1 - small.miss))


def audit(seeds: Iterator[Dice], n_systems: int) -> Tally:
    tally = Tally()
    for dice in seeds:
        tally.add(drawn(dice, has_upper=dice.chance(1, 2)))
        if tally.systems >= n_systems:
            break
    return tally


def error_law(
    centre: Sequence[int],
    limits: Sequence[tuple[int, int]],
    groups: Sequence[tuple[str, int]],
    coefficients: Sequence[int],
    weights: Floats,
    *,
    floor: float = 1.0,
) -> dict[int, float]:
    """The law of a number's error, by listing every vector of errors.

    Parameters
    ----------
    centre : the confidential counts; their sums need not be anything
    groups : of each cell, the name and sign of its group: errors of a group add up to its sign times y
    weights : of errors from -K to K, for all cells alike
    floor : what the weight of a lower limit is multiplied by
    """
    reach = len(weights) // 2
    windows = [
        range(max(low - at, -reach), min(high - at, reach) + 1) for at, (low, high) in zip(centre, limits, strict=True)
    ]
    out: dict[int, float] = {}
    for errors in product(*windows):
        sums = dict.fromkeys(groups, 0)
        for error, group in zip(errors, groups, strict=True):
            sums[group] += error
        if any(total and not sign for (_, sign), total in sums.items()):
            continue
        if len({total * sign for (_, sign), total in sums.items() if sign}) > 1:
            continue
        weight = float(np.prod([weights[e + reach] for e in errors]))
        weight *= floor ** sum(at + e == low for at, e, (low, _) in zip(centre, errors, limits, strict=True))
        value = sum(e * times for e, times in zip(errors, coefficients, strict=True))
        out[value] = out.get(value, 0.0) + weight
    return out
