"""What equalities together fix: which follow from which, and what they leave another row."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from congenial.conditions.interval import Interval
from congenial.conditions.lattice import Dependence, dependence
from congenial.conditions.rows import Limited, Row


@dataclass(frozen=True)
class Equalities:
    """Rows with one value each.

    Examples
    --------
    >>> both = Row.of("both", [0, 1])
    >>> known = Equalities((Limited.equal(both, 9), Limited.equal(Row.of("first", [0]), 4)))
    >>> known.implied(Row.of("second", [1]))
    Fraction(5, 1)
    >>> known.implied(Row.of("third", [2])) is None
    True
    """

    limits: tuple[Limited, ...] = ()

    @cached_property
    def dependence(self) -> Dependence:
        """Which of them follow from which earlier ones."""
        return _dependence(self.limits)

    @property
    def rank(self) -> int:
        """Number of independent ones."""
        return self.dependence.rank

    def implied(self, row: Row) -> Fraction | None:
        """Return the value that they leave a row; None when they leave it several."""
        return self.implied_each([row])[0]

    def implied_each(self, rows: Sequence[Row]) -> list[Fraction | None]:
        """Return the value that they leave each of several rows."""
        if not rows or not self.limits:
            return [None] * len(rows)
        n = len(self.limits)
        follows = _dependence([*self.limits, *(Limited.of(row, None, None) for row in rows)]).follows
        of_row = [follows.get(n + place) for place in range(len(rows))]
        # What rests on another of the rows is as free as that one: the combination is the only one.
        return [None if how is None or max(how, default=0) >= n else self.combined(how) for how in of_row]

    def combined(self, combination: dict[int, Fraction]) -> Fraction:
        """Return the value of a combination of them."""
        return sum((times * (self.limits[place].lower or 0) for place, times in combination.items()), Fraction(0))


def cells_fixed(limits: Sequence[Interval]) -> list[Limited]:
    """Return the cells whose own limits leave one value, as equalities without a name."""
    return [Limited(Row.of("", [cell]), interval) for cell, interval in enumerate(limits) if interval.is_point]


def _dependence(limits: Sequence[Limited]) -> Dependence:
    return dependence([dict(zip(limited.row.cells, limited.row.coefficients, strict=True)) for limited in limits])
