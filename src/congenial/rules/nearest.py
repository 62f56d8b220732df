"""The rule *nearest*: the table with the least sum of squared differences from the measured cells."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import AreaGroup, Areas
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows_and_intervals import Interval, Row
from congenial.errors import ConditionError, TooLargeError
from congenial.memory_and_threads import map_in_threads, parts_of
from congenial.progress_and_interrupts import DECIDING, Progress, silent
from congenial.rules.free_sum import decide_sums
from congenial.rules.integer_least_squares import LeastSquares, Variable
from congenial.rules.rule_and_input import (
    WORD_BITS,
    RuleInput,
    TableRule,
    TieWords,
    check_conditions,
    words_by_fraction,
)
from congenial.rules.sums_and_parts import Line, Part, SumStructure
from congenial.rules.transport import Families, Transport
from congenial.rules.water_level import CellSet, far_of

_UNITS_AT_ONCE = 4_096  # their cells stay in the cache of a processor
_SOLVED_AT_ONCE = 32  # a few milliseconds each
_MOST_SOLVED = 4_000  # cells of a part that goes to the solver
_SOLVER_BITS = 24  # of the words there: floats hold them
_WEIGHTS = 1_000


@dataclass(frozen=True)
class Nearest(TableRule):
    """Least squares in cells, under every exact number, range and limit.

    ``sum (s - n)^2`` is least, and among equals ``sum word s``, where each cell of each unit has a public random word.
    So no table is favoured for the order of its cells, and the result does not depend on how it was found.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.schema import Schema
    >>> areas = Areas.one(Constraints.of(Schema({"age": ["0-17", "18-64", "65+"]}), [total(equals=10)]))
    >>> rows = tuple(Row.of(name, [cell]) for cell, name in enumerate(["0-17", "18-64", "65+"]))
    >>> data = RuleInput(areas, rows, (Fraction(1),) * 3, 1, np.array([[-3, 8, 4]]), bytes(32))
    >>> NEAREST.decide(data).tolist()
    [[0, 7, 3]]
    """

    def decide(self, data: RuleInput, progress: Progress = silent, *, n_threads: int | None = None) -> Ints:
        """Return the nearest table of each unit (unit, cell)."""
        tables = self._decided(data, progress, n_threads, None)
        check_conditions(data, tables)
        return tables

    def check(self, data: RuleInput, tables: Ints) -> None:
        """Raise `ConditionError` unless these are the nearest tables.

        They are computed again. Where a solver was needed, conditions, cost and words are compared in integers, so
        that it does not matter which solver has found the optimum.
        """
        check_conditions(data, tables)
        again = self._decided(data, silent, None, np.asarray(tables, np.int64))
        n_wrong = int((again != tables).any(axis=1).sum())
        if n_wrong:
            units = "the table of 1 unit is" if n_wrong == 1 else f"the tables of {n_wrong:,} units are"
            raise ConditionError(f"{units} not what the rule {self.name!r}, version {self.version}, gives")

    def seconds(self, areas: Areas, rows: Sequence[Row], precisions: Sequence[Fraction]) -> float:
        """Return about how long a table takes among many; a solver takes its milliseconds for every one."""
        solved = [_Method(group.pattern, tuple(rows), tuple(precisions), 1).solved_cells for group in areas.groups]
        n_cells = max((sum(map(len, programs)) for programs in solved), default=0)
        return 0.02 + 1e-3 * n_cells if n_cells else super().seconds(areas, rows, precisions)

    def why_not(self, areas: Areas, rows: Sequence[Row], precisions: Sequence[Fraction]) -> str | None:
        """Return why there is no nearest table of such measurements; None if there is one."""
        if not rows or not any(precisions):
            return "nothing is measured, so that no table is nearest to the measurements"
        for group in areas.groups:
            method = _Method(group.pattern, tuple(rows), tuple(precisions), 1)
            n_cells = max(map(len, method.solved_cells), default=0)
            if n_cells > _MOST_SOLVED:
                return (
                    f"the nearest table is an integer program of {n_cells:,} cells, and this rule is made for"
                    f" {_MOST_SOLVED:,}, except where each cell is measured and the exact sums are disjoint, leave one"
                    " sum free or form two families of disjoint sums"
                )
        return None

    def _decided(self, data: RuleInput, progress: Progress, n_threads: int | None, claimed: Ints | None) -> Ints:
        """Return the tables; those that are claimed, where a solver has found others that are as good."""
        n_units, n_cells = len(data.areas), data.areas.groups[0].pattern.schema.n_cells
        tables = np.empty((n_units, n_cells), np.int64)
        n_done = 0
        for group in data.areas.groups:
            method = _Method(group.pattern, data.rows, data.precisions, data.exponent)

            def work(part: slice, group: AreaGroup = group, method: _Method = method) -> tuple[Ints, Ints]:
                return group.places[part], method.tables(data, group.part(part), claimed)

            at_once = _SOLVED_AT_ONCE if method.solved_cells else _UNITS_AT_ONCE
            for places, some in map_in_threads(work, parts_of(len(group.places), at_once), n_threads):
                tables[places] = some
                n_done += len(places)
                progress(DECIDING, n_done, n_units)
        return tables


NEAREST = Nearest(
    "nearest",
    1,
    "nearest table",
    "The table with all exact numbers and limits that is nearest to the measurements: the sum of squared differences"
    " of its cells is the least. Tables that are equally near are decided between by public random numbers.",
)


@dataclass(frozen=True)
class _Method:
    """How the tables of one pattern of conditions are decided; public."""

    constraints: Constraints
    rows: tuple[Row, ...]
    precisions: tuple[Fraction, ...]
    exponent: int

    @cached_property
    def structure(self) -> SumStructure:
        return SumStructure.of(self.constraints)

    @cached_property
    def columns(self) -> list[int]:
        """The measured row of each cell by itself, the most precise one; -1 where there is none."""
        out = [-1] * self.constraints.schema.n_cells
        for number, row in enumerate(self.rows):
            if row.coefficients == (1,) and self.precisions[number] > 0:
                (cell,) = row.cells
                if out[cell] < 0 or self.precisions[number] > self.precisions[out[cell]]:
                    out[cell] = number
        return out

    @cached_property
    def is_cellwise(self) -> bool:
        """Whether each cell is measured by itself, or determined by the exact numbers."""
        fixed = set(self.structure.fixed)
        missing = [cell for cell, number in enumerate(self.columns) if number < 0 and cell not in fixed]
        implied = self.constraints.known.implied_each([Row.of("", [cell]) for cell in missing])
        return all(value is not None for value in implied)

    @cached_property
    def transports(self) -> dict[int, Transport]:
        """The parts with two families of sums, by number."""
        parts = [(n, part) for n, part in enumerate(self.structure.parts) if part.line is None]
        families = [(number, part, Families.of(part)) for number, part in parts]
        limits = self.constraints.limits
        return {number: Transport(part, some, limits) for number, part, some in families if some is not None}

    @cached_property
    def solved_cells(self) -> list[tuple[int, ...]]:
        """The cells of each program for the solver."""
        if not self.is_cellwise:
            return [tuple(range(self.constraints.schema.n_cells))]
        return [
            _cells_of(part)
            for number, part in enumerate(self.structure.parts)
            if part.line is None and number not in self.transports
        ]

    def tables(self, data: RuleInput, group: AreaGroup, claimed: Ints | None) -> Ints:
        """Return the tables of some units (unit, cell)."""
        if group.values.dtype == object:
            raise TooLargeError("an exact number of 2**62 or more is beyond what the rule computes with")
        n_cells = self.constraints.schema.n_cells
        measured = data.measurements[group.places]
        words = TieWords(data.seed, data.areas.labels, n_cells).of(group.places)
        claims = None if claimed is None else claimed[group.places]
        if not self.is_cellwise:
            row_words = TieWords(data.seed, data.areas.labels, len(self.rows), b"rule row words").of(group.places)
            return _least_squares_in_rows(self, group, measured, words, row_words, claims)
        if data.fractions is not None:
            words = words_by_fraction(words, data.fractions[group.places][:, self.columns])
        # A column of zeros at the end stands for the cells that are determined.
        padded = np.concatenate([measured, np.zeros((len(measured), 1), np.int64)], axis=1)
        return self._nearest(group, np.ascontiguousarray(padded[:, self.columns]), words, claims)

    def _nearest(self, group: AreaGroup, measured: Ints, words: Ints, claims: Ints | None) -> Ints:
        structure, limits = self.structure, self.constraints.limits
        values = structure.row_values(group.values)
        tables = np.empty_like(measured)
        for cell in structure.fixed:
            tables[:, cell] = limits[cell].low or 0
        far = far_of(self._largest(values, measured), len(limits))
        for number, part in enumerate(structure.parts):
            wanted = values[:, part.rows]
            if part.line is not None:
                for cells, counts in self._on_line(part, part.line, wanted, measured, words, far):
                    tables[:, cells] = counts
            elif number in self.transports:
                for cell, counts in self.transports[number].decide(wanted, measured, words, far):
                    tables[:, cell] = counts
            else:
                for unit, targets in enumerate(measured):
                    program = _program(self.constraints, part, wanted[unit], targets, words[unit])
                    cells = _cells_of(part)
                    claim = None if claims is None else [int(claims[unit, cell]) for cell in cells]
                    tables[unit, cells] = _solved(program, claim)
        if structure.loose:
            tables[:, structure.loose] = _cell_set(limits, structure.loose, measured, far).nearest().T
        return tables

    def _largest(self, values: Ints, measured: Ints) -> int:
        ends = [abs(end) for limits in self.constraints.limits for end in (limits.low, limits.high) if end is not None]
        for numbers in (values, measured):
            ends += [abs(int(end)) for end in (numbers.min(initial=0), numbers.max(initial=0))]
        lines = [part.line.numerators for part in self.structure.parts if part.line is not None]
        return max(ends, default=0) * max([1, *(int(np.abs(line).sum(axis=1).max()) for line in lines)])

    def _on_line(
        self, part: Part, line: Line, values: Ints, measured: Ints, words: Ints, far: int
    ) -> Iterator[tuple[tuple[int, ...], Ints]]:
        """Yield cells and their counts (unit, cell) where at most one sum is free."""
        limits = self.constraints.limits
        sets = [None if group.is_slack else _cell_set(limits, group.cells, measured, far) for group in part.groups]
        own_words = [np.ascontiguousarray(words[:, group.cells].T) for group in part.groups]
        sums = decide_sums(part, line, sets, values, own_words)
        for group, cells, sum_, some in zip(part.groups, sets, sums, own_words, strict=True):
            if cells is not None:
                yield group.cells, cells.spread(sum_, some).T


def _cells_of(part: Part) -> tuple[int, ...]:
    return tuple(cell for group in part.groups for cell in group.cells)


def _cell_set(limits: Sequence[Interval], cells: Sequence[int], measured: Ints, far: int) -> CellSet:
    ends = [limits[cell] for cell in cells]
    chosen = np.ascontiguousarray(measured[:, cells].T)
    return CellSet.of(chosen, [end.low for end in ends], [end.high for end in ends], far)


# What goes to the solver, unit by unit.


def _short(word: int | np.int64) -> int:
    return int(word) >> (WORD_BITS - _SOLVER_BITS)


def _solved(program: LeastSquares, claim: list[int] | None) -> list[int]:
    """Return the optimum, or what is claimed if it is as good."""
    best = program.solution()
    if claim is None or not program.holds(claim):
        return best.point
    is_as_good = (program.cost(claim), program.word(claim)) == (best.cost, best.word)
    return claim if is_as_good else best.point


def _program(constraints: Constraints, part: Part, values: Ints, targets: Ints, words: Ints) -> LeastSquares:
    """Return the least squares of one unit in the cells of a part."""
    cells = _cells_of(part)
    place = {cell: number for number, cell in enumerate(cells)}
    variables = [Variable(1, int(targets[cell]), constraints.limits[cell], _short(words[cell])) for cell in cells]
    rows = []
    for number, value in zip(part.rows, values.tolist(), strict=True):
        limited = constraints.rows[number]
        # A value is what is left for these cells: of an equality its value, of a range the shift of both ends.
        limits = Interval(value, value) if limited.is_equality else limited.limits.shifted(value)
        rows.append(({place[c]: t for c, t in limited.terms.items() if c in place}, limits))
    return LeastSquares(tuple(variables), tuple(rows))


def _weights(precisions: Sequence[Fraction], exponent: int) -> list[int]:
    """Return whole weights in proportion to one over the variance of the noise, to a thousandth of the largest.

    Examples
    --------
    >>> _weights([Fraction(1), Fraction(1, 2)], 1), _weights([Fraction(1), Fraction(1, 2)], 2)
    ([1000, 250], [1000, 500])
    """
    inverse = [precision ** (2 if exponent == 1 else 1) for precision in precisions]
    most = max(inverse)
    return [max(1, round(_WEIGHTS * some / most)) if some else 0 for some in inverse]


def _least_squares_in_rows(
    method: _Method, group: AreaGroup, measured: Ints, words: Ints, row_words: Ints, claims: Ints | None
) -> Ints:
    """Return tables where some cells are not measured by themselves (unit, cell).

    First the answers to the measured rows, nearest by weighted squares; then the table with these answers that is
    spread most evenly, by the least sum of squares.
    """
    n_cells = method.constraints.schema.n_cells
    weights = _weights(method.precisions, method.exponent)
    rows = [(number, row) for number, row in enumerate(method.rows) if weights[number] and row.cells]
    limits = method.constraints.limits
    tables = np.empty((len(measured), n_cells), np.int64)
    for unit, answers in enumerate(measured):
        conditions = [(limited.terms, limited.limits) for limited in group.constraints(unit).rows]
        free = [Variable(0, 0, limits[cell], 0) for cell in range(n_cells)]
        variables = [
            Variable(weights[number], int(answers[number]), Interval(None, None), _short(row_words[unit, number]))
            for number, _ in rows
        ]
        tied = [({**row.terms, n_cells + place: -1}, Interval(0, 0)) for place, (_, row) in enumerate(rows)]
        first = LeastSquares((*free, *variables), (*conditions, *tied))
        claim = None if claims is None else [int(count) for count in claims[unit]]
        point = _solved(first, None if claim is None else [*claim, *(row.value(claim) for _, row in rows)])
        exact = [(row.terms, Interval(value, value)) for (_, row), value in zip(rows, point[n_cells:], strict=True)]
        even = [Variable(1, 0, limits[cell], _short(words[unit, cell])) for cell in range(n_cells)]
        tables[unit] = _solved(LeastSquares(tuple(even), (*conditions, *exact)), claim)
    return tables
