"""How far a released number lies from the confidential one: reaches that hold for every table, or for a box of tables.

Reaches without a box depend on what is published exactly, and not on the release. With a box from the release (F3), a
small part of the chance of a miss is spent on its holding the confidential table. Which of the two is taken depends on
published numbers alone, so the choice cannot spoil the coverage.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.areas import Area
from congenial.conditions.constraints import Constraints
from congenial.conditions.interval import FREE, Interval
from congenial.conditions.rows import Row
from congenial.inference.error_bounds import Piece, together
from congenial.inference.extreme_errors import LONGEST, CountBox
from congenial.inference.integer_weights import Weights
from congenial.inference.ties import Tie, ties
from congenial.public_law import PublicLaw

_BOX = 0.1  # of the chance of a miss


@dataclass(frozen=True)
class _Limited:
    """One end of the limits of a cell's count."""

    tie: Tie
    group: tuple[int, ...]
    cell: int
    is_lower: bool


@dataclass(frozen=True)
class Errors:
    """The errors of one released table: its ties, and what is known of the confidential counts without the release."""

    constraints: Constraints
    ties: tuple[Tie, ...]
    known: CountBox

    @classmethod
    def of(cls, law: PublicLaw, area: Area = None) -> "Errors":
        """Return the errors of an area's table."""
        constraints = law.areas[area]
        noise = {query.cell: query.noise for query in law.measured if query.cell is not None}
        counts = [
            own & implied for own, implied in zip(constraints.limits, constraints.quick_bounds.limits, strict=True)
        ]
        return cls(constraints, ties(law, constraints), CountBox(noise, constraints.limits, counts))

    def pieces(self, row: Row) -> list[Piece]:
        """Return what a number takes from each tie, those left out in which its error is zero."""
        coefficients = dict(zip(row.cells, row.coefficients, strict=True))
        touched = [tie for tie in self.ties if any(cell in coefficients for cell in tie.cells)]
        pieces = [Piece.of(tie, coefficients) for tie in touched]
        return [piece for piece in pieces if piece.parts or piece.steps]

    def limited(self, touched: Sequence[Tie]) -> list[_Limited]:
        """Return every end of a count's limits that a box may narrow: what may go wrong with a box for these ties."""
        return [
            _Limited(tie, group, cell, is_lower)
            for tie in touched
            for group in tie.groups
            for cell in group
            for is_lower, stated in ((True, self.known.limits[cell].low), (False, self.known.limits[cell].high))
            if stated is not None and not self.known.counts[cell].is_point
        ]

    def box(self, touched: Sequence[Tie], released: Ints, miss: float) -> CountBox:
        """Return a box from the release that fails at each end of each count with chance at most `miss` (F3)."""
        counts = list(self.known.counts)
        reaches: dict[object, int] = {}
        for end in self.limited(touched):
            cell, at = end.cell, int(released[end.cell])
            like = (end.group, end.is_lower, self.known.noise[cell], self.known.limits[cell], self.known.counts[cell])
            if like not in reaches:
                error = Piece.of(end.tie, {cell: 1 if end.is_lower else -1}).largest(self.known)
                reaches[like] = error.reach_above(miss)
            reach = reaches[like]
            counts[cell] &= Interval(at - reach, None) if end.is_lower else Interval(None, at + reach)
        return replace(self.known, counts=counts)


@dataclass(frozen=True)
class Number:
    """A linear number of one released table or several: the pieces of each, which err independently."""

    errors: Mapping[Area, Errors]
    pieces: Mapping[Area, list[Piece]]

    @classmethod
    def of(cls, errors: Mapping[Area, Errors], rows: Mapping[Area, Row]) -> "Number":
        """Return what rows of tables add up to; refused where no bound of the error is proven."""
        return cls(errors, {area: errors[area].pieces(row) for area, row in rows.items()})

    @property
    def touched(self) -> dict[Area, list[Tie]]:
        """The ties whose errors it has in it."""
        return {area: [piece.tie for piece in pieces] for area, pieces in self.pieces.items()}

    def laws(self, boxes: Mapping[Area, CountBox]) -> tuple[Weights, Weights]:
        """Return the largest law of the error, and that of its negative."""
        both = [piece.laws(boxes[area]) for area, pieces in self.pieces.items() for piece in pieces]
        return together([up for up, _ in both]), together([down for _, down in both])

    def fixed_reaches(self, miss: float) -> tuple[int, int]:
        """Return reaches up and down that hold for every table, the narrowest where the misses can be shared."""
        up, down = self.laws({area: errors.known for area, errors in self.errors.items()})
        pieces = [piece for own in self.pieces.values() for piece in own]
        if len(pieces) == 1 and pieces[0].is_ordered and (found := shared(up, down, miss)) is not None:
            return found
        return up.reach_above(miss / 2), down.reach_above(miss / 2)

    def uses_box(self, fixed: tuple[int, int], miss: float) -> bool:
        """Whether a box could narrow the reaches: if all counts were far from their limits, it would."""
        far = {
            area: replace(
                errors.known, limits=[FREE] * len(errors.known.limits), counts=[FREE] * len(errors.known.limits)
            )
            for area, errors in self.errors.items()
        }
        return sum(law.reach_above(miss / 2) for law in self.laws(far)) < sum(fixed)


def reaches(numbers: Sequence[Number], released: Mapping[Area, Ints], miss: float) -> list[tuple[int, int]]:
    """Return how far each released number lies above and below the confidential one, all of them with one chance.

    Parameters
    ----------
    miss : float
        The largest chance that any of the numbers lies farther.
    """
    for_box, each = _BOX * miss, (1 - _BOX) * miss / len(numbers)
    fixed = [number.fixed_reaches(miss if len(numbers) == 1 else each) for number in numbers]
    boxed = [place for place, number in enumerate(numbers) if number.uses_box(fixed[place], each)]
    if not boxed:
        return fixed
    touched: dict[Area, dict[Tie, None]] = {}
    for place in boxed:
        for area, own in numbers[place].touched.items():
            touched.setdefault(area, {}).update(dict.fromkeys(own))
    errors = {area: own for number in numbers for area, own in number.errors.items()}
    n_events = sum(len(errors[area].limited(list(own))) for area, own in touched.items())
    boxes = {
        area: errors[area].box(list(own), released[area], for_box / max(n_events, 1)) for area, own in touched.items()
    }
    for place in boxed:
        up, down = numbers[place].laws(boxes)
        fixed[place] = up.reach_above(each / 2), down.reach_above(each / 2)
    return fixed


def shared(up: Weights, down: Weights, miss: float) -> tuple[int, int] | None:
    """Return the narrowest pair of reaches whose largest chance of a miss, over all tables, is at most `miss`.

    A released number lies above or below the confidential one, not both. Given that it lies above, it does so by at
    most what the largest law says given the same; likewise below.
    """
    longest = max(up.reach_above(miss / 4), down.reach_above(miss / 4)) + 1
    if longest > LONGEST:
        return None
    r = np.arange(longest + 1)
    chance = [float(law.chance_above(np.zeros(1, np.int64))[0]) for law in (up, down)]
    tails = [law.chance_above(r) / max(some, 1e-300) for law, some in zip((up, down), chance, strict=True)]
    best: tuple[int, int] | None = None
    for above in range(longest + 1):
        # P(above) <= chance[0], P(below) <= chance[1], together at most 1: the larger tail gets as much as it can.
        first = float(tails[0][above])
        up_first = first >= tails[1]
        share_up = np.where(up_first, chance[0], np.minimum(chance[0], 1 - chance[1]))
        share_down = np.where(up_first, np.minimum(chance[1], 1 - chance[0]), chance[1])
        fits = np.flatnonzero(share_up * first + share_down * tails[1] <= miss * (1 - 1e-9))
        if fits.size and (best is None or above + int(fits[0]) < sum(best)):
            best = above, int(fits[0])
    return best
