"""Exact numbers of units below the top: whether a step with them is covered by the theorem, and can always be drawn.

Public: decided from rows, the number of children and zeros, before anything is charged.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import AreaGroup, Areas
from congenial.conditions.base import Condition
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import Query
from congenial.conditions.rows_and_intervals import NONNEGATIVE, POINT_ZERO, Limited, Row, row_values
from congenial.errors import HierarchyError
from congenial.privacy.unimodular import Unimodularity, certify_unimodular
from congenial.rules.family_integers import ExactCellSums
from congenial.schema import Schema

_MOST_ROWS = 400  # of a step whose rows are compared in pairs, children by children


@dataclass(frozen=True)
class ExactRows:
    """What is exact in every unit of a level: sums of cells.

    Attributes
    ----------
    level : str
        The level's name.
    rows : tuple of Row
        The sums, the same for every unit.
    n_cells : int
        The number of cells of a unit's table.

    Examples
    --------
    >>> nested = ExactRows("county", (Row.of("total", range(4)), Row.of("voting age", [1, 3])), 4)
    >>> nested.certified(3000).why
    "parents' sums are disjoint and the units' rows are nested: two nested families"
    """

    level: str
    rows: tuple[Row, ...]
    n_cells: int

    def __post_init__(self) -> None:
        for row in self.rows:
            if set(row.coefficients) != {1}:
                raise HierarchyError(
                    f"{row.name} is exact in every {self.level} and has coefficients other than 1: a step with it is"
                    " not unimodular; only sums of cells can be exact below the top"
                )

    @property
    def names(self) -> str:
        """The sums, for people."""
        return ", ".join(row.name for row in self.rows)

    @property
    def is_nested(self) -> bool:
        """Whether any two sums share no cell, or one is part of the other."""
        sets = [set(row.cells) for row in self.rows]
        return all(not (a & b) or a <= b or b <= a for a, b in combinations(sets, 2))

    def step_rows(self, n_children: int) -> list[Row]:
        """Return all rows of a family of `n_children`; cells are numbered child by child."""
        n = self.n_cells
        above = [Row.of(f"sum of cell {cell}", range(cell, n * n_children, n)) for cell in range(n)]
        of_children = [
            Row.of(f"{row.name} of child {child}", [n * child + cell for cell in row.cells])
            for child in range(n_children)
            for row in self.rows
        ]
        return [*above, *of_children]

    def certified(self, most_children: int) -> Unimodularity:
        """Return whether all rows of the largest family are proven unimodular together; smaller ones are part of it."""
        if self.is_nested:
            why = "parents' sums are disjoint and the units' rows are nested: two nested families"
            return Unimodularity(True, False, why)
        if self.n_cells + most_children * len(self.rows) > _MOST_ROWS:
            # What fails for a few children fails for more.
            few = certify_unimodular(self.step_rows(4), [], range(4 * self.n_cells))
            return few if few.is_refuted else Unimodularity(False, False, "too many rows to decide about")
        return certify_unimodular(self.step_rows(most_children), [], range(most_children * self.n_cells))

    def check(self, most_children: int, zeros: NDArray[np.bool_] | None = None) -> Unimodularity:
        """Refuse a step that no theorem covers, or that could meet a parent's table which it cannot be drawn for.

        Parameters
        ----------
        zeros : array (unit, cell), optional
            Structural zeros of the level's units: of all cells of an exact sum, or of none.
        """
        proof = self.certified(most_children)
        if not proof.is_certified:
            raise HierarchyError(
                f"{self.names} exact in every {self.level} are not certified together with the parents' sums:"
                f" {proof.why}. Nested sums are, such as the total and the total of voting age: leave out those that"
                " cross others"
            )
        if not self.is_nested:
            raise HierarchyError(
                f"{self.names} exact in every {self.level} cross each other, and it is not proven that every table of a"
                " parent can be shared out among such children; leave out those that cross others, or write method:"
                " measured"
            )
        if zeros is not None:
            for part in self.parts:
                of_part = zeros[:, list(part.cells)]
                if part.is_held and bool((of_part.any(axis=1) & ~of_part.all(axis=1)).any()):
                    raise HierarchyError(
                        f"{self.names} exact in every {self.level} beside structural zeros of some of their cells: a"
                        " parent's table may leave no children that fit. A unit's zeros are for all cells of an exact"
                        " number, as where nobody lives, or for none; leave out the others, or the exact numbers"
                    )
        return proof

    def check_decided(self) -> None:
        """Refuse sums with which a rule could decide a parent's table that no children fit."""
        if reason := ExactCellSums(tuple(row.cells for row in self.rows), self.n_cells).why_not():
            raise HierarchyError(f"{self.names} exact in every {self.level}: {reason}")

    @cached_property
    def parts(self) -> tuple["SumPart", ...]:
        """The cells in parts whose sums follow from nested rows: what a row has beyond those inside it."""
        members: dict[tuple[int, ...], list[int]] = {}
        for cell in range(self.n_cells):
            having = tuple(number for number, row in enumerate(self.rows) if cell in row.cells)
            members.setdefault(having, []).append(cell)
        parts = []
        for having, cells in members.items():
            if not having:
                parts.append(SumPart(tuple(cells), None, ()))
                continue
            smallest = min(having, key=lambda number: len(self.rows[number].cells))
            inside = [
                number
                for number, row in enumerate(self.rows)
                if set(row.cells) < set(self.rows[smallest].cells)
                and not any(set(row.cells) < set(other.cells) < set(self.rows[smallest].cells) for other in self.rows)
            ]
            parts.append(SumPart(tuple(cells), smallest, tuple(inside)))
        return tuple(parts)


@dataclass(frozen=True)
class SumPart:
    """Cells that are in the same exact sums.

    Attributes
    ----------
    row : int or None
        The smallest sum that has them; None where none does.
    inside : tuple of int
        The largest sums inside that one: what they leave of it is the part's own sum.
    """

    cells: tuple[int, ...]
    row: int | None
    inside: tuple[int, ...]

    @property
    def is_held(self) -> bool:
        """Whether the part's sum is exact."""
        return self.row is not None

    def sums(self, values: Ints) -> Ints:
        """Return the part's sum in every unit (unit,), from the values of all exact sums (unit, row)."""
        if self.row is None:
            raise HierarchyError("internal: a part of no exact sum has none")
        sums: Ints = values[:, self.row] - values[:, list(self.inside)].sum(axis=1)
        return sums


@dataclass(frozen=True, eq=False)
class ExactSums:
    """What is exact in every unit of a level, with its values. Public.

    Attributes
    ----------
    values : array (unit, row)

    Examples
    --------
    >>> rows = ExactRows("county", (Row.of("total", range(3)), Row.of("voting age", [2])), 3)
    >>> exact = ExactSums.of(rows, np.array([[1, 2, 7], [0, 4, 9]]))
    >>> exact.values.tolist(), [part.sums(exact.values).tolist() for part in rows.parts]
    ([[10, 7], [13, 9]], [[3, 4], [7, 9]])
    """

    rows: ExactRows
    values: Ints

    @classmethod
    def of(cls, rows: ExactRows, tables: Ints) -> "ExactSums":
        """Return the sums of tables (unit, cell), confidential or released; they are public from here on."""
        return cls(rows, np.ascontiguousarray(row_values(rows.rows, tables)))

    def part(self, first: int, end: int) -> "ExactSums":
        """Return the sums of some units that stand together."""
        return ExactSums(self.rows, self.values[first:end])

    def hold(self, tables: Ints) -> bool:
        """Whether tables (unit, cell) have these sums."""
        return bool(np.array_equal(row_values(self.rows.rows, tables), self.values))


def summed_upward(levels: Sequence[str], exact: Mapping[str, Sequence[Row]]) -> dict[str, tuple[Row, ...]]:
    """Return what is exact at each level, the top first, with what follows from the levels below.

    Examples
    --------
    >>> summed = summed_upward(["state", "county", "block"], {"county": (Row.of("total", [0, 1]),)})
    >>> {level: [row.name for row in rows] for level, rows in summed.items()}
    {'state': ['total'], 'county': ['total'], 'block': []}
    """
    rows: list[Row] = []
    out: dict[str, tuple[Row, ...]] = {}
    for level in reversed(levels):
        for row in exact.get(level, ()):
            if (row.cells, row.coefficients) not in {(other.cells, other.coefficients) for other in rows}:
                rows.append(row)
        out[level] = tuple(rows)
    return {level: out[level] for level in levels}


# What is exact in a tree: what a user states for each level, what follows for the levels above, and the values.


@dataclass(frozen=True, eq=False)
class TreeInvariants:
    """The exact numbers of a tree. Public.

    Attributes
    ----------
    top : Areas
        What the units at the top obey.
    below : tuple of ExactSums or None
        What is exact in the units of each level below; empty where nothing is anywhere.
    """

    top: Areas
    below: tuple[ExactSums | None, ...] = ()


def exact_rows(
    levels: Sequence[str], schema: Schema, stated: Mapping[str, Sequence[Condition]]
) -> tuple[ExactRows | None, ...]:
    """Return what is exact in each level below the top, with what follows from levels farther down.

    Parameters
    ----------
    levels : sequence of str
        Those below the top, from above.
    stated : mapping from level to conditions
    """
    by_level = {
        level: [row for condition in conditions for row in _sums(condition, level, schema)]
        for level, conditions in stated.items()
    }
    if not any(by_level.values()):
        return ()
    summed = summed_upward(levels, by_level)
    return tuple(ExactRows(level, summed[level], schema.n_cells) if summed[level] else None for level in levels)


def with_conditions_below(
    top: Sequence[Condition], schema: Schema, stated: Mapping[str, Sequence[Condition]]
) -> tuple[Condition, ...]:
    """Return the conditions of the top with those that follow from the levels below: their sums are exact, too."""
    out = list(top)
    seen = {
        (row.cells, row.coefficients)
        for condition in out
        if isinstance(condition, Query) and not condition.is_stated
        for row in condition.rows(schema)
    }
    for level, conditions in stated.items():
        for condition in conditions:
            rows = {(row.cells, row.coefficients) for row in _sums(condition, level, schema)}
            if not rows <= seen:
                out.append(condition)
            seen |= rows
    return tuple(out)


def exact_sums(rows: Sequence[ExactRows | None], tables: Sequence[Ints]) -> tuple[ExactSums | None, ...]:
    """Return the values of exact rows in the tables (unit, cell) of each level below the top."""
    return tuple(
        None if rows_of_level is None else ExactSums.of(rows_of_level, table)
        for rows_of_level, table in zip(rows, tables, strict=False)
    )


def _sums(condition: Condition, level: str, schema: Schema) -> list[Row]:
    """Return the sums that a condition holds exactly in every unit of a level, or refuse it."""
    if not isinstance(condition, Query):
        raise HierarchyError(
            f"{condition.text} cannot be asked of every {level}: below the top of a tree exact numbers are sums of"
            " cells, such as total() or margin()"
        )
    if condition.is_stated:
        raise HierarchyError(
            f"{condition.text} states its value, and below the top exact numbers come from the data; leave the value"
            " out"
        )
    condition.check(schema)
    return condition.rows(schema)


# Units that obey the same conditions but for the values of their exact sums.

Flags = NDArray[np.bool_]


def unit_groups(
    schema: Schema,
    exact: ExactSums | None,
    n_units: int,
    is_zero: Flags | None = None,
    *,
    apart_by: Flags | None = None,
) -> list[AreaGroup]:
    """Return the units of a level by which of their cells are zero, each group with its exact sums.

    Parameters
    ----------
    is_zero : array (unit, cell), optional
        Cells that are zero by structure, or known to be.
    apart_by : array (unit, cell), optional
        Units that differ here are in different groups, too.
    """
    values = np.zeros((n_units, 0), np.int64) if exact is None else exact.values
    rows = () if exact is None else exact.rows.rows
    first, pattern_of_unit = np.zeros(1, np.int64), np.zeros(n_units, np.int64)
    if is_zero is not None:
        keys = np.packbits(is_zero if apart_by is None else np.hstack([is_zero, apart_by]), axis=1)
        if not bool((keys == keys[0]).all()):
            _, first, pattern_of_unit = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    groups = []
    for number, unit in enumerate(first.tolist()):
        places = np.flatnonzero(pattern_of_unit.reshape(-1) == number)
        zero = np.zeros(schema.n_cells, np.bool_) if is_zero is None else is_zero[unit]
        limits = tuple(POINT_ZERO if is_fixed else NONNEGATIVE for is_fixed in zero.tolist())
        equalities = tuple(
            Limited.equal(row, int(value)) for row, value in zip(rows, values[unit].tolist(), strict=True)
        )
        groups.append(AreaGroup(Constraints(schema, equalities, limits), places, values[places]))
    return groups
