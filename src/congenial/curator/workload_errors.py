"""How far several tables of the same records are off, in closed form and from public structure alone.

The rule *records* estimates by least squares over all tables, so errors of estimates follow from the noise of each
table and the exact numbers, not from counts. Tables are whole and nowhere negative, so nearer where counts are small.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from math import prod, sqrt
from typing import Any

import numpy as np

from congenial.bundle.expected_errors import NO_ERROR
from congenial.rules.workload.components import LeastSquares
from congenial.rules.workload.margins import Axes
from congenial.rules.workload.measurements import MeasuredTable, WorkloadMeasurements
from congenial.workload.law import RecordTable, WorkloadLaw
from congenial.workload.plan import WorkloadPlan

TYPICAL = 0.798
"""The mean absolute error over the standard deviation, of normal errors."""

_MOST_TIED = 300  # zeros and further exact sums, up to which variances are exact within a second; else upper bounds


@dataclass(frozen=True)
class CellError:
    """How far the cells of a margin of the records are off: one that is measured, or lies in a measured table.

    Attributes
    ----------
    name : str
    dimensions : tuple of str
    n_cells : int
    estimate : float
        The standard deviation of a cell's estimate, on average over cells; 0 where exact numbers determine it.
    """

    name: str
    dimensions: tuple[str, ...]
    n_cells: int
    estimate: float

    @property
    def typical(self) -> float:
        """The mean absolute error of a cell's estimate."""
        return TYPICAL * self.estimate

    @property
    def is_exact(self) -> bool:
        """Whether exact numbers determine it."""
        return self.estimate < NO_ERROR

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "typical": self.typical, "is_exact": self.is_exact}


@dataclass(frozen=True)
class TableError(CellError):
    """How far the cells of a table are off.

    Attributes
    ----------
    is_published : bool
        Whether its counts are published, and not its measurements alone.
    share : float
        Of the precision of all tables together; 0 where exact numbers determine the table.
    noise : float
        The standard deviation of the noise of a cell, before exact numbers are kept.
    alone : float
        Of a cell's estimate from the measurements of this table alone, with the exact numbers.
    """

    is_published: bool
    share: float
    noise: float
    alone: float


@dataclass(frozen=True)
class WorkloadErrors:
    """The errors of the tables of a law, and of whatever lies inside one of them. Public.

    Examples
    --------
    >>> import congenial as cg
    >>> workload = cg.Workload(
    ...     {"county": ["north", "south"], "sex": ["f", "m"], "ill": ["yes", "no"]},
    ...     tables={"by sex": cg.margin("county", "sex"), "by illness": cg.margin("county", "ill")},
    ...     rho="1",
    ... )
    >>> errors = WorkloadErrors(workload.plan(()).law)
    >>> [(table.name, round(table.alone, 2), round(table.estimate, 2)) for table in errors.tables]
    [('by sex', 1.41, 1.22), ('by illness', 1.41, 1.22)]
    >>> [(margin.name, round(margin.estimate, 2)) for margin in errors.margins]
    [('total', 2.0), ('county', 1.41), ('sex', 1.73), ('ill', 1.73)]
    >>> errors.unknown_pairs
    (('sex', 'ill'),)
    """

    law: WorkloadLaw

    @cached_property
    def _measurements(self) -> WorkloadMeasurements:
        return WorkloadPlan(self.law).measurement_structure

    @cached_property
    def _least(self) -> LeastSquares:
        return LeastSquares.of(self._measurements)

    def at(self, dimensions: Sequence[str]) -> float:
        """Return the standard deviation of a cell's estimate of a margin inside a table, on average over cells."""
        return _deviation(self._least, self.law.axes(dimensions))

    def knows(self, dimensions: Sequence[str]) -> bool:
        """Whether a margin lies inside a measured or exact table."""
        return self._least.knows(self.law.axes(dimensions))

    @cached_property
    def tables(self) -> tuple[TableError, ...]:
        """The errors of every table, in the order in which they were stated."""
        whole = float(sum(table.precision for table in self.law.tables))
        return tuple(self._of_table(table, whole) for table in self.law.tables)

    def _of_table(self, table: RecordTable, whole: float) -> TableError:
        facts = table.name, table.dimensions, self._n_cells(table.dimensions)
        if not table.precision:
            return TableError(*facts, 0.0, table.is_published, 0.0, 0.0, 0.0)
        axes, variance = self.law.axes(table.dimensions), float(self.law.family(table.precision).variance)
        (alone,) = [measured for measured in self._measurements.measured() if measured.axes == axes]
        return TableError(
            *facts,
            self.at(table.dimensions),
            table.is_published,
            float(table.precision) / whole,
            sqrt(variance),
            self._alone(alone),
        )

    def _alone(self, table: MeasuredTable) -> float:
        return _deviation(LeastSquares.of(self._measurements, [table]), table.axes)

    def _n_cells(self, dimensions: Sequence[str]) -> int:
        return prod(len(self.law.schema.labels(name)) for name in dimensions)

    @cached_property
    def margins(self) -> tuple[CellError, ...]:
        """The total, single dimensions and pairs inside measured tables that are no tables themselves."""
        names = self.law.schema.names
        stated = {table.dimensions for table in self.law.tables}
        some = [(), *((name,) for name in names), *combinations(names, 2)]
        return tuple(self._of_margin(one) for one in some if one not in stated and self.knows(one))

    def _of_margin(self, dimensions: tuple[str, ...]) -> CellError:
        name = " x ".join(dimensions) or "total"
        return CellError(name, dimensions, self._n_cells(dimensions), self.at(dimensions))

    @cached_property
    def unknown_pairs(self) -> tuple[tuple[str, str], ...]:
        """The pairs of dimensions in no measured or exact table: what the records say of them is a model."""
        return tuple(pair for pair in combinations(self.law.schema.names, 2) if not self.knows(pair))

    @property
    def unknown_triples(self) -> Iterator[tuple[str, ...]]:
        """Three dimensions that are in no measured table together, though each two of them are."""
        for triple in combinations(self.law.schema.names, 3):
            if not self.knows(triple) and all(self.knows(pair) for pair in combinations(triple, 2)):
                yield triple


def _deviation(least: LeastSquares, axes: Axes) -> float:
    variance = least.variance(axes) if least.n_tied <= _MOST_TIED else least.symmetric_variance(axes)
    return float(np.sqrt(np.maximum(np.asarray(variance), 0.0)).mean())
