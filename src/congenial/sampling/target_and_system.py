"""The law to sample from, on bare arrays: noise weights around a centre, on the tables that obey the constraints."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Column, Interval, Row, dense, row_values
from congenial.errors import SamplingError
from congenial.exact import log_of
from congenial.noise import Noise
from congenial.noise.weight import FLAT, NoiseWeight


@dataclass(frozen=True)
class Measured:
    """One linear statistic and the noise it is measured with. Public.

    Attributes
    ----------
    zero_weight : Fraction
        For a statistic of one cell, what the weight of the cell's lower limit is multiplied by; at least 1.
    """

    row: Row
    noise: Noise
    zero_weight: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.zero_weight != 1 and (self.zero_weight < 1 or len(self.row.cells) > 1 or self.noise.exponent != 1):
            raise SamplingError(
                f"a weight of lower limits is at least 1, and for single cells under noise that falls linearly;"
                f" {self.zero_weight} is given for {len(self.row.cells)} cells under {self.noise.title} noise"
            )

    @property
    def weight(self) -> NoiseWeight:
        """The weight of its deviation."""
        return replace(self.noise.weight, zero_weight=self.zero_weight)

    @property
    def cell(self) -> int | None:
        """The cell that is measured by itself, if its coefficient is 1."""
        return self.row.cells[0] if self.row.coefficients == (1,) else None


@dataclass(frozen=True)
class Target:
    """``weight(t) = prod_r w_r(q_r(t) - q_r(s))`` over the tables t that obey the constraints; s is confidential.

    Where a measured cell has a zero weight, tables that have the cell at its lower limit are multiplied by it.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.noise import DoubleGeometric
    >>> from congenial.schema import Schema
    >>> schema = Schema({"age": ["0-17", "18+"]})
    >>> measured = tuple(Measured(Row.of("", [cell]), DoubleGeometric(1)) for cell in range(2))
    >>> target = Target(Constraints.of(schema, [total(equals=3)]), measured, np.array([1, 2]))
    >>> target.log_weight([[1, 2], [3, 0]])
    array([ 0., -4.])
    """

    constraints: Constraints
    measured: tuple[Measured, ...]
    centre: Ints = field(repr=False)

    def __post_init__(self) -> None:
        if not self.constraints.holds(self.centre):
            raise SamplingError("the centre of the law does not obey the constraints")
        if self.is_discrete != all(query.noise.is_discrete for query in self.measured):
            raise SamplingError("discrete and continuous noise cannot be mixed in one law")
        if not self._is_proper:
            raise SamplingError(
                "the law cannot be shown to exist: some cells are unlimited and no measured query tells them apart;"
                " measure cells(precision=...) or give bounds(lower, upper)"
            )

    @property
    def unweighted(self) -> "Target":
        """The noise alone. How likely a table is, as a function of s, depends on zero weights through c(s) only."""
        return replace(self, measured=tuple(replace(query, zero_weight=Fraction(1)) for query in self.measured))

    @property
    def is_discrete(self) -> bool:
        """Whether the noise lives on the integers."""
        return any(query.noise.is_discrete for query in self.measured)

    @property
    def _is_proper(self) -> bool:
        """Whether the weights can be summed: every direction without limits is damped by some noise."""
        lower, upper = self.constraints.quick_bounds.lower, self.constraints.quick_bounds.upper
        limited = [cell for cell in range(len(lower)) if lower[cell] is not None and upper[cell] is not None]
        if len(limited) == len(lower):
            return True
        held = [*(equality.row for equality in self.constraints.equalities), *(query.row for query in self.measured)]
        rows = [*({cell: 1} for cell in limited), *(dict(zip(r.cells, r.coefficients, strict=True)) for r in held)]
        return dependence(rows).rank == len(lower)

    def deviations(self, draws: Ints) -> Ints:
        """Return how far each measured row of each draw is from the centre's (draw, row)."""
        return row_values([query.row for query in self.measured], draws - self.centre)

    def log_weight(self, draws: ArrayLike) -> Floats:
        """Return the unnormalised log probability of each draw (draw, cell), feasible or not."""
        tables = np.asarray(draws)
        out = np.zeros(len(tables))
        if tables.dtype.kind == "f":
            matrix = dense([query.row for query in self.measured], tables.shape[1])
            deviations: Ints | Floats = (tables - self.centre) @ matrix.T
        else:
            deviations = self.deviations(tables)
        for position, query in enumerate(self.measured):
            out += query.noise.log_weight(deviations[:, position])
        for zero_weight, n_at_limit in self.zero_weights(tables).items():
            out += n_at_limit * log_of(zero_weight)
        return out

    def zero_weights(self, tables: Ints | Floats) -> dict[Fraction, Ints]:
        """Return for each zero weight how many cells of each table are at a lower limit with it."""
        out: dict[Fraction, Ints] = {}
        for query in self.measured:
            if query.zero_weight != 1 and (low := self.constraints.lower[query.row.cells[0]]) is not None:
                is_there = (tables[:, query.row.cells[0]] == low).astype(np.int64)
                out[query.zero_weight] = out.get(query.zero_weight, np.zeros(len(tables), np.int64)) + is_there
        return out


# The public part of a law, in the plainest terms: rows over cells, limits, and weights that fall with deviation.

Kind = Literal["equal", "range", "soft", "free"]


@dataclass(frozen=True)
class SystemRow:
    """One row over several cells.

    Attributes
    ----------
    kind : str
        ``equal`` and ``range`` are hard, ``soft`` has a weight, ``free`` is only watched (a marginal is wanted).
    coefficients : tuple of (cell, coefficient)
    lower, upper : int or None
        Absolute limits of a hard row.
    """

    kind: Kind
    coefficients: tuple[tuple[int, int], ...]
    lower: int | None = None
    upper: int | None = None
    weight: NoiseWeight = FLAT


@dataclass(frozen=True)
class System:
    """Everything about a law but its centre."""

    lower: tuple[int | None, ...]
    upper: tuple[int | None, ...]
    weights: tuple[NoiseWeight, ...]
    rows: tuple[SystemRow, ...]

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.lower)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Each cell's coefficients in the rows."""
        columns: list[list[tuple[int, int]]] = [[] for _ in range(self.n_cells)]
        for number, row in enumerate(self.rows):
            for cell, coefficient in row.coefficients:
                columns[cell].append((number, coefficient))
        return tuple(map(tuple, columns))

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Cells with equal columns: they act on the rows through their sum. One in no row is a group of its own."""
        members: dict[object, list[int]] = {}
        for cell, column in enumerate(self.columns):
            members.setdefault(column or ("alone", cell), []).append(cell)
        return tuple(map(tuple, members.values()))

    @classmethod
    def of(cls, constraints: Constraints, measured: Iterable[Measured], watched: Iterable[Row] = ()) -> "System":
        """Collect constraints and measured queries; queries of one cell become part of the cell's own weight."""
        weights = [FLAT] * constraints.schema.n_cells
        soft: dict[tuple[tuple[int, int], ...], NoiseWeight] = {}
        for query in measured:
            if not query.noise.is_discrete:
                raise SamplingError(
                    f"the exact sampler needs noise on the integers; {query.noise.title} noise is for study"
                )
            row, weight = query.row, query.weight
            if len(row.cells) == 1:
                cell = row.cells[0]
                has_limit = constraints.lower[cell] is not None
                weights[cell] *= (weight if has_limit else query.noise.weight).stretched(row.coefficients[0])
            else:
                soft[_coefficients(row)] = soft.get(_coefficients(row), FLAT) * weight
        rows = [
            SystemRow("equal" if hard.is_equality else "range", _coefficients(hard.row), hard.lower, hard.upper)
            for hard in constraints.rows
        ]
        rows += [SystemRow("soft", coefficients, weight=weight) for coefficients, weight in soft.items()]
        rows += [SystemRow("free", _coefficients(row)) for row in watched]
        return cls(constraints.lower, constraints.upper, tuple(weights), tuple(rows))

    def over(self, values: Iterable[Interval]) -> "System":
        """Return the structure for tables whose equalities have any of these values: what fits it fits all of them.

        Limits follow from wider values by interval arithmetic, so no sum has a longer message in one of the tables.
        """
        intervals = iter(values)
        rows = []
        for row in self.rows:
            wider = next(intervals) if row.kind == "equal" else Interval(row.lower, row.upper)
            rows.append(replace(row, lower=wider.low, upper=wider.high))
        return replace(self, rows=tuple(rows))

    def counting(self) -> "System":
        """Return the same limits with every weight 1: its normaliser counts the tables."""
        hard = tuple(row for row in self.rows if row.kind in {"equal", "range"})
        return System(self.lower, self.upper, (FLAT,) * self.n_cells, hard)


def connected(n: int, links: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the connected components of the numbers below n, some of which are linked with one another.

    Examples
    --------
    >>> connected(4, [(0, 2), (3,)])
    ((0, 2), (1,), (3,))
    """
    parent = list(range(n))

    def root(number: int) -> int:
        while parent[number] != number:
            parent[number] = parent[parent[number]]
            number = parent[number]
        return number

    for first, *others in filter(None, map(tuple, links)):
        for other in others:
            parent[root(other)] = root(first)
    members: dict[int, list[int]] = {}
    for number in range(n):
        members.setdefault(root(number), []).append(number)
    return tuple(map(tuple, members.values()))


def _coefficients(row: Row) -> tuple[tuple[int, int], ...]:
    return tuple(zip(row.cells, row.coefficients, strict=True))
