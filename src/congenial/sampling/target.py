"""The law to sample from, on bare arrays: noise weights around a centre, on the tables that obey the constraints."""

from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Floats, Ints
from congenial.balls import log_of
from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import dependence
from congenial.conditions.rows import Row, dense, row_values
from congenial.errors import SamplingError
from congenial.noise import Fall, Noise


@dataclass(frozen=True)
class Measured:
    """One linear statistic and the noise it is measured with. Public.

    Attributes
    ----------
    floor : Fraction
        For a statistic of one cell, what the weight of the cell's lower limit is multiplied by; at least 1.
    """

    row: Row
    noise: Noise
    floor: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if self.floor != 1 and (self.floor < 1 or len(self.row.cells) > 1 or self.noise.exponent != 1):
            raise SamplingError(
                f"a weight of lower limits is at least 1, and for single cells under noise that falls linearly;"
                f" {self.floor} is given for {len(self.row.cells)} cells under {self.noise.title} noise"
            )

    @property
    def fall(self) -> Fall:
        """How its weight falls with deviation."""
        return replace(self.noise.fall, floor=self.floor)

    @property
    def cell(self) -> int | None:
        """The cell that is measured by itself, if its coefficient is 1."""
        return self.row.cells[0] if self.row.coefficients == (1,) else None


@dataclass(frozen=True)
class Target:
    """``weight(t) = prod_r w_r(q_r(t) - q_r(s))`` over the tables t that obey the constraints; s is confidential.

    Where a measured cell has a floor, the weight is multiplied by it in tables that have the cell at its lower limit.

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
        """The noise alone. How likely a released table is, as a function of s, depends on floors through c(s) only."""
        return replace(self, measured=tuple(replace(query, floor=Fraction(1)) for query in self.measured))

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
        for floor, n_floors in self.floors(tables).items():
            out += n_floors * log_of(floor)
        return out

    def floors(self, tables: Ints | Floats) -> dict[Fraction, Ints]:
        """Return for each floor how many cells of each table are at a lower limit with it."""
        out: dict[Fraction, Ints] = {}
        for query in self.measured:
            if query.floor != 1 and (low := self.constraints.lower[query.row.cells[0]]) is not None:
                is_there = (tables[:, query.row.cells[0]] == low).astype(np.int64)
                out[query.floor] = out.get(query.floor, np.zeros(len(tables), np.int64)) + is_there
        return out
