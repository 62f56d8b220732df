"""Exact linear algebra over the integers and rationals (FLINT)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd

import flint

from congenial.conditions.groups import GroupedRow
from congenial.conditions.rows import Limited, Row


@dataclass(frozen=True)
class Dependence:
    """Which rows of a matrix are independent, and how the others follow from them.

    Attributes
    ----------
    independent : tuple of int
        Row numbers, the earliest possible ones.
    follows : dict
        For every other row its coefficients on the independent ones (zeros left out).
    """

    independent: tuple[int, ...]
    follows: dict[int, dict[int, Fraction]]

    @property
    def rank(self) -> int:
        """Number of independent rows."""
        return len(self.independent)


def dependence(rows: Sequence[Mapping[int, int]]) -> Dependence:
    """Split sparse integer rows into independent ones and consequences, by exact elimination.

    Examples
    --------
    >>> dependence([{0: 1, 1: 1}, {0: 1}, {1: 1}]).follows
    {2: {0: Fraction(1, 1), 1: Fraction(-1, 1)}}
    """
    columns = sorted({column for row in rows for column in row})
    if not rows or not columns:
        return Dependence((), {number: {} for number in range(len(rows))})
    # Columns of the transpose are the rows: its pivots are the earliest independent rows.
    transpose = flint.fmpz_mat(len(columns), len(rows), [row.get(column, 0) for column in columns for row in rows])
    reduced, denominator, rank = transpose.rref()
    pivots: list[int] = []
    for line in range(rank):
        start = pivots[-1] + 1 if pivots else 0
        pivots.append(next(number for number in range(start, len(rows)) if reduced[line, number] != 0))
    follows = {
        number: {
            pivot: Fraction(int(reduced[line, number]), int(denominator))
            for line, pivot in enumerate(pivots)
            if reduced[line, number] != 0
        }
        for number in range(len(rows))
        if number not in set(pivots)
    }
    return Dependence(tuple(pivots), follows)


def echelon(equalities: Sequence[Limited]) -> list[Limited]:
    """Return equivalent equalities, each ending at a cell of its own, as early as possible.

    Examples
    --------
    >>> pair = [Limited(Row("", (0, 1, 2), (1, 1, 1)), 9, 9), Limited(Row("", (1, 2), (1, 1)), 5, 5)]
    >>> [(one.row.cells, one.lower) for one in echelon(pair)]
    [((1, 2), 5), ((0,), 4)]
    """
    cells = sorted({cell for one in equalities for cell in one.row.cells}, reverse=True)
    if not cells:
        return []
    entries = []
    for one in equalities:
        of_cell = dict(zip(one.row.cells, one.row.weights, strict=True))
        entries += [*(of_cell.get(cell, 0) for cell in cells), one.lower or 0]
    reduced, _, rank = flint.fmpz_mat(len(equalities), len(cells) + 1, entries).rref()
    out = []
    for line in range(rank):
        numbers = [int(reduced[line, column]) for column in range(len(cells) + 1)]
        divisor = gcd(*numbers)
        *weights, value = (number // divisor for number in numbers)
        kept = sorted((cell, weight) for cell, weight in zip(cells, weights, strict=True) if weight)
        row = Row("", tuple(cell for cell, _ in kept), tuple(weight for _, weight in kept))
        out.append(Limited(row, value, value))
    return out


def has_integer_solution(rows: Sequence[GroupedRow]) -> bool:
    """Whether the equalities among the rows have any integer solution, limits of the variables left aside."""
    equal = [row for row in rows if row.lower is not None and row.lower == row.upper and row.weights]
    columns = sorted({g for row in equal for g in row.weights})
    if not equal:
        return True
    plain = flint.fmpz_mat(len(equal), len(columns), [row.weights.get(g, 0) for row in equal for g in columns])
    wide = flint.fmpz_mat(
        len(equal),
        len(columns) + 1,
        [v for row in equal for v in (*(row.weights.get(g, 0) for g in columns), row.lower or 0)],
    )
    # Solvable over the integers exactly when the right-hand side changes no invariant factor.
    return _invariant_factors(plain) == _invariant_factors(wide)


def _invariant_factors(matrix: flint.fmpz_mat) -> list[int]:
    normal = matrix.snf()
    diagonal = (int(normal[i, i]) for i in range(min(normal.nrows(), normal.ncols())))
    return [factor for factor in diagonal if factor]


def solve_equalities(rows: Sequence[GroupedRow], fixed: Mapping[int, int], guess: Sequence[int]) -> list[int] | None:
    """Return an integer point that obeys the equalities exactly, with some variables fixed and free ones as guessed."""
    equal = [row for row in rows if row.lower is not None and row.lower == row.upper]
    unknown = sorted({g for row in equal for g in row.weights} - set(fixed))
    point = [fixed.get(g, value) for g, value in enumerate(guess)]
    if not equal or not unknown:
        return point
    entries: list[int] = []
    for row in equal:
        settled = sum(weight * fixed[g] for g, weight in row.weights.items() if g in fixed)
        entries += [*(row.weights.get(g, 0) for g in unknown), (row.lower or 0) - settled]
    reduced, denominator, rank = flint.fmpz_mat(len(equal), len(unknown) + 1, entries).rref()
    for line in range(rank):
        pivot = next(column for column in range(len(unknown) + 1) if reduced[line, column] != 0)
        if pivot == len(unknown):
            return None
        rest = sum(int(reduced[line, c]) * point[unknown[c]] for c in range(pivot + 1, len(unknown)))
        value = Fraction(int(reduced[line, len(unknown)]) - rest, int(denominator))
        if value.denominator != 1:
            return None
        point[unknown[pivot]] = int(value)
    return point
