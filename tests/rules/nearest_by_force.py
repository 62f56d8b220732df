"""Nearest tables by brute force: every integer table of a box, no code of the rules."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows_and_intervals import Row
from congenial.rules.registry import RuleInput


def tables_of(constraints: Constraints, box: Sequence[tuple[int, int]]) -> Ints:
    """Return every table (table, cell) of a box, within its limits, that obeys the conditions."""
    sides = []
    for (low, high), limits in zip(box, constraints.limits, strict=True):
        sides.append(
            range(low if limits.low is None else limits.low, (high if limits.high is None else limits.high) + 1)
        )
    grid = np.array(list(itertools.product(*sides)), np.int64)
    obeying: Ints = grid[np.asarray(constraints.holds(grid))]
    return obeying


def best_of(tables: Ints, measured: Ints) -> Ints:
    """Return the tables of least squared distance."""
    cost = ((tables - measured) ** 2).sum(axis=1)
    nearest: Ints = tables[cost == cost.min()]
    return nearest


def with_least_words(tables: Ints, words: Ints) -> Ints:
    """Return the one table of the least sum of words."""
    table: Ints = tables[int((tables @ words).argmin())]
    return table


def cell_rows(n_cells: int) -> tuple[Row, ...]:
    return tuple(Row.of(f"cell {cell}", [cell]) for cell in range(n_cells))


def input_of(areas: Areas | Constraints, measured: Ints, seed: bytes = bytes(32), exponent: int = 1) -> RuleInput:
    """Return measured cells of one precision."""
    there = Areas.one(areas) if isinstance(areas, Constraints) else areas
    lines = np.asarray(measured, np.int64).reshape(len(there), -1)
    rows = cell_rows(lines.shape[1])
    return RuleInput(there, rows, (Fraction(1),) * len(rows), exponent, lines, seed)
