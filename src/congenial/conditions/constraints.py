"""S*: the public set of tables that obey the conditions."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.conditions.base import Claim, Condition, Counts, as_list
from congenial.conditions.compile import CompiledConditions, compile_claims, compile_conditions
from congenial.conditions.grouped_cells_and_lattice import (
    Box,
    Equalities,
    GroupedSystem,
    cell_limits,
    cells_fixed,
    group_cells,
    spread,
)
from congenial.conditions.integer_program import find_point, minimise, propagate
from congenial.conditions.rows_and_intervals import (
    NONNEGATIVE,
    Column,
    Interval,
    Limited,
    Row,
    cell_names,
    cells_alike,
    row_values,
)
from congenial.errors import ConditionError, UndecidedError
from congenial.schema import Schema

if TYPE_CHECKING:
    from congenial.sampling.counting import EstimatedCount


class CellLimits:
    """The limits of every cell."""

    limits: tuple[Interval, ...]

    @cached_property
    def lower(self) -> tuple[int | None, ...]:
        """The lower limits, None where there is none."""
        return tuple(interval.low for interval in self.limits)

    @cached_property
    def upper(self) -> tuple[int | None, ...]:
        """The upper limits, None where there is none."""
        return tuple(interval.high for interval in self.limits)

    @cached_property
    def fixed_cells(self) -> tuple[int, ...]:
        """The cells whose limits leave them one value."""
        return tuple(cell for cell, interval in enumerate(self.limits) if interval.is_point)


@dataclass(frozen=True)
class CellBounds(CellLimits):
    """The limits of every cell that follow from all conditions together.

    Attributes
    ----------
    limits : tuple of Interval
        They are never too narrow.
    is_tight : tuple of bool
        Whether tables are known that attain both limits of the cell.
    """

    limits: tuple[Interval, ...]
    is_tight: tuple[bool, ...]

    @property
    def pinned(self) -> tuple[int, ...]:
        """Cells with one possible value: the conditions alone disclose them."""
        return self.fixed_cells


@dataclass(frozen=True)
class Constraints(CellLimits):
    """The conditions as integer rows and cell limits; public, and knows nothing of the confidential cells.

    Attributes
    ----------
    rows : tuple of Limited
        Equalities and ranges over two or more cells; equalities are linearly independent.
    limits : tuple of Interval
        Stated limits of single cells; `cell_bounds` has those that follow, and `cell_bounds.pinned` what all
        conditions together fix.
    notes : tuple of str
        Which conditions were dropped because they follow from others, and what is exact besides them.
    also_exact : tuple of Limited
        Statistics that a condition mentions without stating them, and that are exact all the same.
    origin : tuple of conditions, or None
        What they were compiled from, where that is known.

    Examples
    --------
    >>> from congenial.conditions.queries import total, margin
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> constraints = Constraints.of(schema, [total(equals=10), margin("sex", equals=[7, 3])])
    >>> constraints.rank
    2
    >>> constraints.notes
    ('«sex=male is 3» follows from «total is 10», «sex=female is 7» and was dropped',)
    >>> constraints.violations([[7, 1], [1, 2]])
    ['total is 11, and must be 10', 'sex=female is 8, and must be 7']
    """

    schema: Schema
    rows: tuple[Limited, ...]
    limits: tuple[Interval, ...]
    notes: tuple[str, ...] = ()
    also_exact: tuple[Limited, ...] = ()
    origin: tuple[Condition, ...] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, schema: Schema, conditions: Iterable[Condition], counts: Counts | None = None) -> "Constraints":
        """Compile conditions with stated values, or with those of the confidential counts."""
        stated = as_list(conditions, "conditions")
        return cls._of(schema, compile_conditions(schema, stated, counts), stated)

    @classmethod
    def _of(
        cls, schema: Schema, compiled: CompiledConditions, origin: tuple[Condition, ...] | None = None
    ) -> "Constraints":
        return cls(schema, compiled.rows, compiled.limits, compiled.notes, compiled.also_exact, origin)

    def together(self, other: "Constraints") -> "Constraints":
        """Return the set of tables that obey both sets of conditions, as after two releases of one dataset.

        Examples
        --------
        >>> from congenial.conditions.queries import total
        >>> schema = Schema({"sex": ["female", "male"]})
        >>> both = Constraints.of(schema, [total(equals=9)]).together(
        ...     Constraints.of(schema, [total({"sex": "male"}, equals=4)])
        ... )
        >>> both.disclosed_cells
        {'sex=female': 5, 'sex=male': 4}
        """
        if self.schema != other.schema:
            raise ConditionError(f"conditions on {self.schema} and on {other.schema} speak of different tables")
        claims = [Claim(limited.text, (limited,)) for side in (self, other) for limited in side.rows]
        names = cell_names(self.schema, range(self.schema.n_cells))
        for side in (self, other):
            for cell, (name, limits) in enumerate(zip(names, side.limits, strict=True)):
                limited = Limited(Row.of(name, [cell]), limits)
                claims.append(Claim(limited.text, (limited,)))
        return Constraints._of(self.schema, compile_claims(self.schema.n_cells, claims))

    def same_rows(self, other: "Constraints") -> bool:
        """Whether the rows over several cells say the same, name and order aside."""
        first, second = (
            {(limited.row.cells, limited.row.coefficients, limited.limits) for limited in side.rows}
            for side in (self, other)
        )
        return first == second

    def is_fixed(self, cell: int) -> bool:
        """Whether a cell's own limits leave it one value."""
        return self.limits[cell].is_point

    @property
    def equalities(self) -> tuple[Limited, ...]:
        """The rows that must have one value."""
        return tuple(limited for limited in self.rows if limited.is_equality)

    @property
    def ranges(self) -> tuple[Limited, ...]:
        """The rows that must lie in a range."""
        return tuple(limited for limited in self.rows if not limited.is_equality)

    @cached_property
    def known(self) -> Equalities:
        """Everything that must have one value: cells with a stated single one, and rows."""
        return Equalities((*cells_fixed(self.limits), *self.equalities))

    @property
    def rank(self) -> int:
        """Number of independent equalities, cells with a stated single value included."""
        return self.known.rank

    def holds(self, draw: ArrayLike) -> bool | NDArray[np.bool_]:
        """Whether a table obeys every condition; an array of answers for a stack of tables (draw, cell)."""
        draws, is_stack = self._cells(draw)
        answers = np.ones(len(draws), bool)
        for end, wrong in ((self.lower, np.less), (self.upper, np.greater)):
            stated = [cell for cell, value in enumerate(end) if value is not None]
            if stated:
                limit = np.array([end[cell] for cell in stated], np.int64)
                answers &= ~wrong(draws[:, stated], limit).any(axis=1)
        if self.rows:
            values = row_values([limited.row for limited in self.rows], draws)
            for limited, column in zip(self.rows, values.T, strict=True):
                if limited.lower is not None:
                    answers &= column >= limited.lower
                if limited.upper is not None:
                    answers &= column <= limited.upper
        return answers if is_stack else bool(answers[0])

    def violations(self, draw: ArrayLike) -> list[str]:
        """Return each broken condition of one table in words; an empty list when it obeys them all."""
        draws, is_stack = self._cells(draw)
        if is_stack:
            raise ConditionError("violations takes one table; call it for each draw that does not hold")
        counts = draws[0].tolist()
        outside = [
            cell for cell, (limits, count) in enumerate(zip(self.limits, counts, strict=True)) if count not in limits
        ]
        names = cell_names(self.schema, outside)
        cells = (
            Limited(Row.of(f"cell {name}", [cell]), self.limits[cell])
            for name, cell in zip(names, outside, strict=True)
        )
        return [
            f"{limited.row.name} is {value:,}, and must be {limited.limits.text.removeprefix('is ')}"
            for limited in (*self.rows, *cells)
            if (value := limited.row.value(counts)) not in limited.limits
        ]

    def _cells(self, draw: ArrayLike) -> tuple[NDArray[np.int64], bool]:
        array = np.asarray(draw)
        if array.dtype.kind not in "iu":
            raise ConditionError(f"a draw is a table of whole numbers, this has type {array.dtype}")
        n_cells = self.schema.n_cells
        if array.shape in {self.schema.shape, (n_cells,)}:
            return array.reshape(1, n_cells).astype(np.int64), False
        if array.ndim == 2 and array.shape[1] == n_cells:
            return array.astype(np.int64), True
        raise ConditionError(
            f"a draw has shape {self.schema.shape} or ({n_cells},), several have (draw, {n_cells});"
            f" this has {array.shape}"
        )

    @cached_property
    def alike(self) -> dict[Column, tuple[int, ...]]:
        """Cells by their column in the equalities: one record passes between no others."""
        return cells_alike([limited.row for limited in self.equalities], self.schema.n_cells)

    @cached_property
    def grouped(self) -> GroupedSystem:
        """Cells with identical columns merged."""
        return group_cells(self.rows, self.limits)

    @cached_property
    def quick_bounds(self) -> CellBounds:
        """Limits of each cell by interval arithmetic alone: valid, cheap, and looser than `cell_bounds`."""
        limits = cell_limits(self.grouped, propagate(self.grouped.rows, self.grouped.box), self.limits)
        return CellBounds(tuple(limits), (False,) * self.schema.n_cells)

    @cached_property
    def cell_bounds(self) -> CellBounds:
        """The tightest limits of each cell that can be proven."""
        grouped = self.grouped
        box = propagate(grouped.rows, grouped.box)
        proven: list[Interval] = []
        tight: list[bool] = []
        for group, known in enumerate(box.limits):
            least = minimise(grouped.rows, box, {group: 1})
            most = minimise(grouped.rows, box, {group: -1})
            proven.append(known & Interval(least.bound, None) & Interval(most.bound, None).negated)
            tight.append(least.is_attained and most.is_attained)
        limits = cell_limits(grouped, Box.of(proven), self.limits)
        of_cell = {cell: tight[group] for group, cells in enumerate(grouped.members) for cell in cells}
        return CellBounds(tuple(limits), tuple(of_cell[cell] for cell in range(self.schema.n_cells)))

    def count(self) -> int:
        """Return how many tables obey the conditions, exactly.

        Examples
        --------
        >>> from congenial.conditions.queries import margin
        >>> square = Schema({"row": ["1", "2", "3"], "column": ["1", "2", "3"]})
        >>> lines = [margin("row", equals=[2, 2, 2]), margin("column", equals=[2, 2, 2])]
        >>> Constraints.of(square, lines).count()
        21
        """
        from congenial.sampling.counting import count_of  # the engine answers: the one place where a layer looks up

        return count_of(self)

    def estimated_count(self, n_attempts: int = 100_000) -> "EstimatedCount":
        """Return how many tables obey the conditions, by simulation and with its error: two families of sums.

        Examples
        --------
        >>> from congenial.conditions.queries import margin
        >>> square = Schema({"row": ["1", "2", "3"], "column": ["1", "2", "3"]})
        >>> lines = [margin("row", equals=[2, 2, 2]), margin("column", equals=[2, 2, 2])]
        >>> estimate = Constraints.of(square, lines).estimated_count(10_000)
        >>> round(estimate.value), estimate.error < 0.01
        (21, True)
        """
        from congenial.sampling.counting import estimated_count  # likewise

        return estimated_count(self, n_attempts)

    @cached_property
    def point(self) -> tuple[int, ...]:
        """A table that obeys the conditions; public, and nothing to do with the confidential one."""
        sums = find_point(self.grouped.rows, self.grouped.box)
        if sums is None:
            raise UndecidedError("no table that obeys the conditions was found within the search limit")
        return spread(self.grouped, sums, self.lower, self.upper)

    @property
    def disclosed_cells(self) -> dict[str, int]:
        """Cells that the conditions alone disclose, with their value: no noise protects them.

        Structural zeros and other cells stated outright are among them.
        """
        bounds = self.cell_bounds
        return {
            self.schema.cell_name(cell): value for cell in bounds.pinned if (value := bounds.lower[cell]) is not None
        }

    def __repr__(self) -> str:
        lines = [f"Constraints on {self.schema}: {len(self.equalities)} equalities, {len(self.ranges)} inequalities"]
        shown = [limited.text for limited in self.rows[:12]]
        if len(self.rows) > 12:
            shown.append(f"... and {len(self.rows) - 12} more")
        limited = sum(not interval.is_free for interval in self.limits)
        if all(interval == NONNEGATIVE for interval in self.limits):
            shown.append("every cell is at least 0")
        elif limited:
            shown.append(f"{limited} cells have bounds")
        return "\n  ".join([*lines, *shown, *(f"note: {note}" for note in self.notes)])
