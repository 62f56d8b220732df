"""The public part of a law, in the plainest terms: rows over cells, limits, and weights that fall with deviation."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import Row
from congenial.errors import SamplingError, TooLargeError
from congenial.noise import DiscreteGaussian, DiscreteNoise, DoubleGeometric
from congenial.sampling.target import Measured

MOST_POWER = 4096

Kind = Literal["equal", "range", "soft", "free"]


@dataclass(frozen=True)
class Fall:
    """A weight that falls with deviation: ``linear ** |v| * quadratic ** (v * v)``, both bases rational, at most 1."""

    linear: Fraction = Fraction(1)
    quadratic: Fraction = Fraction(1)

    @property
    def is_flat(self) -> bool:
        """Whether the weight is 1 everywhere: nothing was measured."""
        return self.linear == self.quadratic == 1

    def __mul__(self, other: "Fall") -> "Fall":
        return Fall(self.linear * other.linear, self.quadratic * other.quadratic)

    def stretched(self, factor: int) -> "Fall":
        """Return the weight as a function of v when the deviation is ``factor * v``."""
        power = factor * factor if self.quadratic < 1 else abs(factor)
        if power > MOST_POWER:
            raise TooLargeError(
                f"a measured query of one cell has weight {factor:,}, too large to hold its noise as an exact fraction;"
                " measure the cell itself, at a higher precision"
            )
        return Fall(self.linear ** abs(factor), self.quadratic ** (factor * factor))

    def weight(self, deviation: int) -> Fraction:
        """Return the weight at a deviation, exactly."""
        return self.linear ** abs(deviation) * self.quadratic ** (deviation * deviation)


def fall_of(noise: object) -> Fall:
    """Return the weights of a discrete noise."""
    if isinstance(noise, DoubleGeometric):
        return Fall(linear=noise.base)
    if isinstance(noise, DiscreteGaussian):
        return Fall(quadratic=noise.base)
    if isinstance(noise, DiscreteNoise):
        raise SamplingError(f"the exact sampler does not know {noise.family} noise")
    raise SamplingError("the exact sampler needs noise on the integers; Laplace noise is for study")


@dataclass(frozen=True)
class SystemRow:
    """One row over several cells.

    Attributes
    ----------
    kind : str
        ``equal`` and ``range`` are hard, ``soft`` has a fall, ``free`` is only watched (a marginal is wanted).
    lower, upper : int or None
        Absolute limits of a hard row.
    """

    kind: Kind
    weights: tuple[tuple[int, int], ...]
    lower: int | None = None
    upper: int | None = None
    fall: Fall = Fall()


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

    @classmethod
    def of(cls, constraints: Constraints, measured: Iterable[Measured], watched: Iterable[Row] = ()) -> "System":
        """Collect constraints and measured queries; queries of one cell become part of the cell's own weight."""
        falls = [Fall()] * constraints.schema.n_cells
        soft: dict[tuple[tuple[int, int], ...], Fall] = {}
        for one in measured:
            fall = fall_of(one.noise)
            if len(one.row.cells) == 1:
                falls[one.row.cells[0]] *= fall.stretched(one.row.coefficients[0])
            else:
                weights = tuple(zip(one.row.cells, one.row.coefficients, strict=True))
                soft[weights] = soft.get(weights, Fall()) * fall
        rows = [
            SystemRow("equal" if one.is_equality else "range", _weights(one.row), one.lower, one.upper)
            for one in constraints.rows
        ]
        rows += [SystemRow("soft", weights, fall=fall) for weights, fall in soft.items()]
        rows += [SystemRow("free", _weights(row)) for row in watched]
        return cls(constraints.lower, constraints.upper, tuple(falls), tuple(rows))

    def counting(self) -> "System":
        """Return the same limits with every weight 1: its normaliser counts the tables."""
        hard = tuple(row for row in self.rows if row.kind in {"equal", "range"})
        return System(self.lower, self.upper, (Fall(),) * self.n_cells, hard)


def _weights(row: Row) -> tuple[tuple[int, int], ...]:
    return tuple(zip(row.cells, row.coefficients, strict=True))
