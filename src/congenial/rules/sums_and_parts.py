"""How conditions tie cells together: groups of cells with equal columns, and parts of groups that share no condition.

Cells with equal columns act on the conditions only through their sum. Groups fall into parts that share no row; the
table of a part is decided by itself. What is left open in a part is how many of the sums of its groups are free:

- none: the exact numbers determine every sum;
- one: all sums move along a line, ``sums = start + y direction`` with one integer y, as in P12 with total, women and
  voting age exact;
- more: two families of disjoint sums (`transport`), or anything else (`integer_least_squares`).

A row that must lie in a range is an equality with one more variable, the *slack*, that costs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import dependence, reduced
from congenial.conditions.rows_and_intervals import Interval, Row, columns, connected_parts, total_interval
from congenial.errors import TooLargeError

_SAFE = 2**62


@dataclass(frozen=True)
class SumGroup:
    """Cells with equal columns, or the slack of a range, which has none.

    Attributes
    ----------
    cells : tuple of int
    limits : Interval
        Of their sum; of the slack.
    """

    cells: tuple[int, ...]
    limits: Interval

    @property
    def is_slack(self) -> bool:
        """Whether it is the slack of a range."""
        return not self.cells


@dataclass(frozen=True)
class Line:
    """All integer sums that equalities allow: ``(numerators @ values) / scale + y direction``.

    Attributes
    ----------
    numerators : array (group, row)
    scale : int
    direction : array (group,)
        Entries -1, 0 and 1; all 0 where the sums are determined.
    """

    numerators: Ints
    scale: int
    direction: Ints

    def start(self, values: Ints) -> Ints:
        """Return the sums of each unit at y = 0 (group, unit), from what the rows must be (unit, row)."""
        largest = int(np.abs(values).max(initial=0)) * int(np.abs(self.numerators).sum(axis=1).max(initial=0))
        if largest >= _SAFE:
            raise TooLargeError(
                f"exact numbers up to {int(np.abs(values).max(initial=0)):,} make sums that 64 bits do not hold; the"
                " rule is made for counts below about 2**50"
            )
        return (self.numerators @ values.T) // self.scale


@dataclass(frozen=True)
class Part:
    """Groups that conditions tie together.

    Attributes
    ----------
    groups : tuple of SumGroup
    rows : tuple of int
        Which rows of the constraints they are in.
    matrix : array (row, group)
    """

    groups: tuple[SumGroup, ...]
    rows: tuple[int, ...]
    matrix: Ints

    @cached_property
    def n_free(self) -> int:
        """Number of sums that the rows leave free."""
        lines = [{g: int(times) for g, times in enumerate(line) if times} for line in self.matrix]
        return len(self.groups) - dependence(lines).rank

    @cached_property
    def line(self) -> Line | None:
        """How the sums move where at most one is free, each by at most one at a time; else None."""
        if len(self.groups) - len(self.rows) > 1 or self.n_free > 1:  # the first is quick, also for wide tables
            return None
        order = list(range(len(self.groups)))
        direction = _direction(self.matrix, order) if self.n_free else [0] * len(order)
        if max(map(abs, direction), default=0) > 1:
            return None
        if self.n_free:
            # A sum that moves by one may have any integer, so it is 0 where y is.
            free = next(g for g, step in enumerate(direction) if step)
            order = [*(g for g in order if g != free), free]
        lines, origins, scale = reduced(self.matrix[:, order])
        numerators = np.zeros((len(order), len(self.rows)), np.int64)
        for line, origin in zip(lines, origins, strict=True):
            pivot = next(place for place, entry in enumerate(line) if entry)
            numerators[order[pivot]] = [entry * (scale // line[pivot]) for entry in origin]
        return Line(numerators, scale, np.array(direction, np.int64))


def _direction(matrix: Ints, order: Sequence[int]) -> list[int]:
    """Return the primitive vector that every row takes to 0, where there is one."""
    lines, _, _ = reduced(matrix)
    pivots = [next(place for place, entry in enumerate(line) if entry) for line in lines]
    free = next(g for g in order if g not in pivots)
    shared = 1
    for line, pivot in zip(lines, pivots, strict=True):
        shared = shared * line[pivot] // gcd(shared, line[pivot])
    vector = [0] * len(order)
    vector[free] = shared
    for line, pivot in zip(lines, pivots, strict=True):
        vector[pivot] = -line[free] * shared // line[pivot]
    divisor = gcd(*vector)
    return [entry // divisor for entry in vector]


def tied_parts(groups: Sequence[tuple[SumGroup, Mapping[int, int]]]) -> tuple[Part, ...]:
    """Return groups, each with its coefficients by row, in parts that share no row.

    Examples
    --------
    >>> groups = [(SumGroup((cell,), Interval(0, None)), {row: 1}) for cell, row in enumerate([0, 1, 0])]
    >>> [[group.cells for group in part.groups] for part in tied_parts(groups)]
    [[(0,), (2,)], [(1,)]]
    """
    in_row: dict[int, list[int]] = {}
    for number, (_, times) in enumerate(groups):
        for row in times:
            in_row.setdefault(row, []).append(number)
    parts = []
    for members in connected_parts(in_row.values(), range(len(groups))):
        chosen = sorted(members)
        numbers = tuple(sorted({row for member in chosen for row in groups[member][1]}))
        matrix = np.array([[groups[member][1].get(row, 0) for member in chosen] for row in numbers], np.int64)
        parts.append(Part(tuple(groups[member][0] for member in chosen), numbers, matrix))
    return tuple(parts)


@dataclass(frozen=True)
class SumStructure:
    """The parts of constraints; public.

    Attributes
    ----------
    constraints : Constraints
    fixed : tuple of int
        Cells with one value.
    loose : tuple of int
        Cells in no row.
    parts : tuple of Part

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.schema import Schema
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18-64", "65+"]})
    >>> sums = [total(equals=9), total({"sex": "male"}, equals=4), total({"age": ["18-64", "65+"]}, equals=6)]
    >>> (part,) = SumStructure.of(Constraints.of(schema, sums)).parts
    >>> [group.cells for group in part.groups], part.n_free
    ([(0,), (1, 2), (3,), (4, 5)], 1)
    >>> part.line.direction.tolist()
    [1, -1, -1, 1]
    """

    constraints: Constraints
    fixed: tuple[int, ...]
    loose: tuple[int, ...]
    parts: tuple[Part, ...]

    @classmethod
    def of(cls, constraints: Constraints) -> "SumStructure":
        """Return how the conditions of a pattern tie cells together."""
        limits = constraints.limits
        fixed = set(constraints.fixed_cells)
        open_cells = [cell for cell in range(len(limits)) if cell not in fixed]
        rows = [limited.row for limited in constraints.rows]
        place = {cell: number for number, cell in enumerate(open_cells)}
        inner = [Row.weighted({place[c]: t for c, t in row.terms.items() if c in place}) for row in rows]
        by_column: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for number, column in enumerate(columns(inner, len(open_cells))):
            by_column.setdefault(column, []).append(open_cells[number])
        loose = tuple(by_column.pop((), ()))
        groups = [
            (SumGroup(tuple(cells), total_interval(limits[cell] for cell in cells)), dict(column))
            for column, cells in by_column.items()
        ]
        for number, limited in enumerate(constraints.rows):
            if not limited.is_equality and inner[number].cells:
                groups.append((SumGroup((), limited.limits.negated), {number: 1}))
        return cls(constraints, tuple(sorted(fixed)), loose, tied_parts(groups))

    def row_values(self, values: Ints) -> Ints:
        """Return what each row must be without its fixed cells (unit, row), from the values of equalities; ranges 0."""
        limits, rows = self.constraints.limits, self.constraints.rows
        out = np.zeros((len(values), len(rows)), np.int64)
        equal = iter(values.T)
        for number, limited in enumerate(rows):
            if limited.is_equality:
                out[:, number] = next(equal)
            out[:, number] -= sum(
                times * (limits[cell].low or 0) for cell, times in limited.terms.items() if limits[cell].is_point
            )
        return out
