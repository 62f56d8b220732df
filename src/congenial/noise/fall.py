"""How a weight falls with deviation: the only thing that samplers know of noise."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from congenial.errors import TooLargeError

MOST_POWER = 4096


@dataclass(frozen=True)
class Fall:
    """A weight that falls with deviation: ``linear ** |v| * quadratic ** (v * v)``, both bases rational, at most 1.

    Attributes
    ----------
    floor : Fraction
        What the weight of a cell's lower limit is multiplied by, wherever the cell is centred; at least 1.

    Examples
    --------
    >>> Fall(linear=Fraction(1, 2)).weight(-3)
    Fraction(1, 8)
    """

    linear: Fraction = Fraction(1)
    quadratic: Fraction = Fraction(1)
    floor: Fraction = Fraction(1)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        # Of three fractions it takes a microsecond each time, and samplers ask for every cell of every table.
        return hash((self.linear, self.quadratic, self.floor))

    @cached_property
    def is_flat(self) -> bool:
        """Whether the weight is 1 everywhere: nothing was measured."""
        return self.linear == self.quadratic == 1

    def __mul__(self, other: "Fall") -> "Fall":
        return Fall(self.linear * other.linear, self.quadratic * other.quadratic, self.floor * other.floor)

    def stretched(self, factor: int) -> "Fall":
        """Return the weight as a function of v when the deviation is ``factor * v``."""
        power = factor * factor if self.quadratic < 1 else abs(factor)
        if power > MOST_POWER:
            raise TooLargeError(
                f"a measured query of one cell has coefficient {factor:,}, too large to hold its noise as an exact"
                " fraction; measure the cell itself, at a higher precision"
            )
        return Fall(self.linear ** abs(factor), self.quadratic ** (factor * factor), self.floor)

    def weight(self, deviation: int, *, is_floor: bool = False) -> Fraction:
        """Return the weight at a deviation, which may be that of the lower limit, exactly."""
        own = self.linear ** abs(deviation) * self.quadratic ** (deviation * deviation)
        return self.floor * own if is_floor else own


FLAT = Fall()
"""The weight of what is not measured: 1 everywhere."""
