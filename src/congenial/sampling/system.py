"""The public part of a law, in the plainest terms: rows over cells, limits, and weights that fall with deviation."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from congenial.conditions.constraints import Constraints
from congenial.conditions.interval import Interval
from congenial.conditions.rows import Column, Row
from congenial.errors import SamplingError
from congenial.noise.fall import FLAT, Fall
from congenial.sampling.target import Measured

Kind = Literal["equal", "range", "soft", "free"]


@dataclass(frozen=True)
class SystemRow:
    """One row over several cells.

    Attributes
    ----------
    kind : str
        ``equal`` and ``range`` are hard, ``soft`` has a fall, ``free`` is only watched (a marginal is wanted).
    coefficients : tuple of (cell, coefficient)
    lower, upper : int or None
        Absolute limits of a hard row.
    """

    kind: Kind
    coefficients: tuple[tuple[int, int], ...]
    lower: int | None = None
    upper: int | None = None
    fall: Fall = FLAT


@dataclass(frozen=True)
class System:
    """Everything about a law but its centre."""

    lower: tuple[int | None, ...]
    upper: tuple[int | None, ...]
    falls: tuple[Fall, ...]
    rows: tuple[SystemRow, ...]

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        return len(self.lower)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Each cell's coefficients in the rows."""
        found: list[list[tuple[int, int]]] = [[] for _ in range(self.n_cells)]
        for number, row in enumerate(self.rows):
            for cell, coefficient in row.coefficients:
                found[cell].append((number, coefficient))
        return tuple(map(tuple, found))

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
        falls = [FLAT] * constraints.schema.n_cells
        soft: dict[tuple[tuple[int, int], ...], Fall] = {}
        for query in measured:
            if not query.noise.is_discrete:
                raise SamplingError(
                    f"the exact sampler needs noise on the integers; {query.noise.title} noise is for study"
                )
            row, fall = query.row, query.fall
            if len(row.cells) == 1:
                cell = row.cells[0]
                has_floor = constraints.lower[cell] is not None
                falls[cell] *= (fall if has_floor else query.noise.fall).stretched(row.coefficients[0])
            else:
                soft[_coefficients(row)] = soft.get(_coefficients(row), FLAT) * fall
        rows = [
            SystemRow("equal" if hard.is_equality else "range", _coefficients(hard.row), hard.lower, hard.upper)
            for hard in constraints.rows
        ]
        rows += [SystemRow("soft", coefficients, fall=fall) for coefficients, fall in soft.items()]
        rows += [SystemRow("free", _coefficients(row)) for row in watched]
        return cls(constraints.lower, constraints.upper, tuple(falls), tuple(rows))

    def over(self, values: Iterable[Interval]) -> "System":
        """Return the structure for tables whose equalities have any of these values: what fits it fits all of them.

        Limits follow from wider values by interval arithmetic, so no sum has a longer message in one of the tables.
        """
        own = iter(values)
        rows = []
        for row in self.rows:
            wider = next(own) if row.kind == "equal" else Interval(row.lower, row.upper)
            rows.append(replace(row, lower=wider.low, upper=wider.high))
        return replace(self, rows=tuple(rows))

    def counting(self) -> "System":
        """Return the same limits with every weight 1: its normaliser counts the tables."""
        hard = tuple(row for row in self.rows if row.kind in {"equal", "range"})
        return System(self.lower, self.upper, (FLAT,) * self.n_cells, hard)


def _coefficients(row: Row) -> tuple[tuple[int, int], ...]:
    return tuple(zip(row.cells, row.coefficients, strict=True))
