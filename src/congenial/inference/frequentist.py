"""Confidence intervals that need no prior: docs/claims/frequentist.md has the statements and the proofs.

Exact where the law of the error is the same whatever the table is (equalities, no limits). Conservative where cells
have limits, for linear numbers whose errors the published sums make dependent in one way. Not available elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.constraints import Constraints
from congenial.conditions.grouped_cells_and_lattice import group_cells
from congenial.conditions.integer_program import minimise, propagate
from congenial.conditions.rows_and_intervals import FREE, Interval, Limited, Row
from congenial.inference.error_bounds import (
    LONGEST,
    CountBox,
    Dependency,
    DependencyTerm,
    IntegerWeights,
    NotProvenError,
    find_dependencies,
    together,
)
from congenial.inference.estimates_and_draw_quality import check_level, known_sum, number_text
from congenial.inference.statistics_registry import Statistic
from congenial.law import Law, PublicLaw

# How far a released number lies from the confidential one: bounds that hold for every table, or for a box of tables.
#
# Bounds without a box depend on what is published exactly, and not on the release. With a box from the release (F3),
# a small part of the chance of a miss is spent on its holding the confidential table. Which of the two is taken
# depends on published numbers alone, so the choice cannot spoil the coverage.

_BOX = 0.1  # of the chance of a miss


@dataclass(frozen=True)
class _LimitEnd:
    """One end of the limits of a cell's count."""

    dependency: Dependency
    group: tuple[int, ...]
    cell: int
    is_lower: bool


@dataclass(frozen=True)
class TableErrors:
    """The errors of one released table: their dependencies, and what is known of the counts without the release."""

    constraints: Constraints
    dependencies: tuple[Dependency, ...]
    known: CountBox

    @classmethod
    def of(cls, law: PublicLaw, area: Area = None) -> "TableErrors":
        """Return the errors of an area's table."""
        constraints = law.areas[area]
        noise = {query.cell: query.noise for query in law.measured if query.cell is not None}
        counts = [
            stated & implied
            for stated, implied in zip(constraints.limits, constraints.quick_bounds.limits, strict=True)
        ]
        return cls(constraints, find_dependencies(law, constraints), CountBox(noise, constraints.limits, counts))

    def terms(self, row: Row) -> list[DependencyTerm]:
        """Return what a number takes from each dependency, those left out in which its error is zero."""
        coefficients = dict(zip(row.cells, row.coefficients, strict=True))
        affected = [each for each in self.dependencies if any(cell in coefficients for cell in each.cells)]
        terms = [DependencyTerm.of(dependency, coefficients) for dependency in affected]
        return [term for term in terms if term.parts or term.steps]

    def limited(self, affected: Sequence[Dependency]) -> list[_LimitEnd]:
        """Return every end of a count's limits that a box for these dependencies may narrow: it may fail there."""
        return [
            _LimitEnd(dependency, group, cell, is_lower)
            for dependency in affected
            for group in dependency.groups
            for cell in group
            for is_lower, stated in ((True, self.known.limits[cell].low), (False, self.known.limits[cell].high))
            if stated is not None and not self.known.counts[cell].is_point
        ]

    def box(self, affected: Sequence[Dependency], released: Ints, miss: float) -> CountBox:
        """Return a box from the release that fails at each end of each count with chance at most `miss` (F3)."""
        counts = list(self.known.counts)
        bounds: dict[object, int] = {}
        for end in self.limited(affected):
            cell, at = end.cell, int(released[end.cell])
            like = (end.group, end.is_lower, self.known.noise[cell], self.known.limits[cell], self.known.counts[cell])
            if like not in bounds:
                error = DependencyTerm.of(end.dependency, {cell: 1 if end.is_lower else -1}).largest(self.known)
                bounds[like] = error.upper_bound(miss)
            bound = bounds[like]
            counts[cell] &= Interval(at - bound, None) if end.is_lower else Interval(None, at + bound)
        return replace(self.known, counts=counts)


@dataclass(frozen=True)
class LinearNumber:
    """A linear number of one released table or several: the terms of each, which err independently."""

    errors: Mapping[Area, TableErrors]
    terms: Mapping[Area, list[DependencyTerm]]

    @classmethod
    def of(cls, errors: Mapping[Area, TableErrors], rows: Mapping[Area, Row]) -> "LinearNumber":
        """Return what rows of tables add up to; refused where no bound of the error is proven."""
        return cls(errors, {area: errors[area].terms(row) for area, row in rows.items()})

    @property
    def affected(self) -> dict[Area, list[Dependency]]:
        """The dependencies whose errors it has in it."""
        return {area: [term.dependency for term in terms] for area, terms in self.terms.items()}

    def laws(self, boxes: Mapping[Area, CountBox]) -> tuple[IntegerWeights, IntegerWeights]:
        """Return the largest law of the error, and that of its negative."""
        both = [term.laws(boxes[area]) for area, terms in self.terms.items() for term in terms]
        return together([up for up, _ in both]), together([down for _, down in both])

    def fixed_bounds(self, miss: float) -> tuple[int, int]:
        """Return bounds up and down that hold for every table, the narrowest where the misses can be shared."""
        up, down = self.laws({area: errors.known for area, errors in self.errors.items()})
        terms = [term for terms_of_area in self.terms.values() for term in terms_of_area]
        if len(terms) == 1 and terms[0].is_ordered and (narrowest := narrowest_bounds(up, down, miss)) is not None:
            return narrowest
        return up.upper_bound(miss / 2), down.upper_bound(miss / 2)

    def uses_box(self, fixed: tuple[int, int], miss: float) -> bool:
        """Whether a box could narrow the bounds: if all counts were far from their limits, it would."""
        far = {
            area: replace(
                errors.known, limits=[FREE] * len(errors.known.limits), counts=[FREE] * len(errors.known.limits)
            )
            for area, errors in self.errors.items()
        }
        return sum(law.upper_bound(miss / 2) for law in self.laws(far)) < sum(fixed)


def bound_errors(numbers: Sequence[LinearNumber], released: Mapping[Area, Ints], miss: float) -> list[tuple[int, int]]:
    """Return how far each released number lies above and below the confidential one, all of them with one chance.

    Parameters
    ----------
    miss : float
        The largest chance that any of the numbers lies farther.
    """
    for_box, each = _BOX * miss, (1 - _BOX) * miss / len(numbers)
    fixed = [number.fixed_bounds(miss if len(numbers) == 1 else each) for number in numbers]
    boxed = [place for place, number in enumerate(numbers) if number.uses_box(fixed[place], each)]
    if not boxed:
        return fixed
    affected: dict[Area, dict[Dependency, None]] = {}
    for place in boxed:
        for area, own in numbers[place].affected.items():
            affected.setdefault(area, {}).update(dict.fromkeys(own))
    errors = {area: own for number in numbers for area, own in number.errors.items()}
    n_events = sum(len(errors[area].limited(list(own))) for area, own in affected.items())
    boxes = {
        area: errors[area].box(list(own), released[area], for_box / max(n_events, 1)) for area, own in affected.items()
    }
    for place in boxed:
        up, down = numbers[place].laws(boxes)
        fixed[place] = up.upper_bound(each / 2), down.upper_bound(each / 2)
    return fixed


def narrowest_bounds(up: IntegerWeights, down: IntegerWeights, miss: float) -> tuple[int, int] | None:
    """Return the narrowest pair of bounds whose largest chance of a miss, over all tables, is at most `miss`.

    A released number lies above or below the confidential one, not both. Given that it lies above, it does so by at
    most what the largest law says given the same; likewise below.
    """
    longest = max(up.upper_bound(miss / 4), down.upper_bound(miss / 4)) + 1
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


DETERMINED, EXACT, CONSERVATIVE, UNAVAILABLE = "determined", "exact", "conservative", "not available"
COMBINED = "combined"
"""From all levels of a measured tree together."""


@dataclass(frozen=True)
class Confidence:
    """An interval that covers the confidential value with at least this probability, whatever the table is.

    Attributes
    ----------
    how : str
        ``"determined"`` by the invariants, ``"exact"``, ``"combined"`` from all levels of a tree, ``"conservative"``,
        or ``"not available"``.
    why : str
        On what the interval rests, or why there is none.
    is_simultaneous : bool
        Whether all intervals that were asked for hold together with this probability.
    coverage : float or None
        Of a measured release, the probability that is proven, which is the level or more; of all intervals together
        where they are simultaneous.
    measured : float or None
        The number as it was measured: the confidential one plus noise, so that it may be negative. Where levels are
        combined, its estimate.
    """

    query: str
    low: float
    high: float
    level: float
    how: str
    why: str
    is_simultaneous: bool = False
    coverage: float | None = None
    measured: float | None = None

    @property
    def is_available(self) -> bool:
        """Whether there is an interval."""
        return self.how != UNAVAILABLE

    def __repr__(self) -> str:
        if not self.is_available:
            return f"{self.query}: no interval without a prior: {self.why}"
        joint = ", all together" if self.is_simultaneous else ""
        if self.coverage is not None and self.measured is not None:
            if self.how == DETERMINED:
                return f"{self.query}: exactly {number_text(self.low)}"
            ends = f"confidence interval {number_text(self.low)} to {number_text(self.high)}"
            is_combined = self.how == COMBINED
            word, source = ("estimated", "all levels") if is_combined else ("measured", "the measurements")
            start = f"{self.query}: {word} {number_text(self.measured)}, {coverage_text(self.coverage)}"
            return f"{start} {ends} (from {source}{joint})"
        return f"{self.query}: {self.level:.0%} confidence interval {self.low:g} to {self.high:g} ({self.how}{joint})"


def coverage_text(coverage: float) -> str:
    """Return a probability in per cent, never more than it is.

    Examples
    --------
    >>> coverage_text(0.93586), coverage_text(1.0)
    ('93.5 %', '100 %')
    """
    return f"{floor(coverage * 1000) / 10:g} %"


def confidence(law: PublicLaw, area: Area, released: Ints, statistic: Statistic, level: float = 0.9) -> Confidence:
    """Return the interval of one number of one table."""
    return confidences(law, {area: released}, [statistic], area, level=level)[0]


def confidences(
    law: PublicLaw,
    released: Mapping[Area, Ints],
    statistics: Sequence[Statistic],
    area: Area = None,
    *,
    level: float = 0.9,
    is_simultaneous: bool = False,
) -> list[Confidence]:
    """Return the interval of each number: linear, or a share or ratio over a number that the invariants determine.

    Parameters
    ----------
    released : mapping from area to its table
    area : Area
        Whose table is meant by numbers that do not span areas.
    is_simultaneous : bool
        Whether all intervals hold together with this probability. A box is then shared, and what is left of the chance
        of a miss is divided among the numbers.
    """
    miss = 1 - check_level(level)
    intervals: dict[int, Confidence] = {}
    unknown: dict[int, _ScaledNumber] = {}
    errors: dict[Area, TableErrors] = {}
    for place, statistic in enumerate(statistics):
        number = _number_to_bound(law, area, statistic, level, is_simultaneous)
        if isinstance(number, Confidence):
            intervals[place] = number
            continue
        unknown[place] = number
    n_together = len(unknown) if is_simultaneous else 1
    bounded: dict[int, LinearNumber] = {}
    for place, number in unknown.items():
        if number.is_free(law):
            low, high = _exact(law, number, released, miss / n_together)
            intervals[place] = number.interval(low, high, EXACT, "the law of the error is the same for every table")
            continue
        try:
            errors |= {its_area: TableErrors.of(law, its_area) for its_area in number.rows if its_area not in errors}
            bounded[place] = LinearNumber.of({its_area: errors[its_area] for its_area in number.rows}, number.rows)
        except NotProvenError as why:
            intervals[place] = number.none(str(why))
    together = [list(bounded)] if is_simultaneous else [[place] for place in bounded]
    for places in together:
        if not places:
            continue
        try:
            ends = bound_errors([bounded[place] for place in places], released, miss * len(places) / n_together)
        except NotProvenError as why:
            intervals |= {place: unknown[place].none(str(why)) for place in places}
            continue
        for place, (above, below) in zip(places, ends, strict=True):
            number = unknown[place]
            at = sum(row.value(released[its_area].tolist()) for its_area, row in number.rows.items())
            least, most = _possible(law, number.rows)
            low = at - above if least is None else max(at - above, least)
            high = at + below if most is None else min(at + below, most)
            intervals[place] = number.interval(low, high, CONSERVATIVE, "errors are bounded whatever the table is")
    return [intervals[place] for place in range(len(statistics))]


@dataclass(frozen=True)
class _ScaledNumber:
    """A linear number of each area's table, divided by a known number."""

    text: str
    level: float
    is_simultaneous: bool
    rows: Mapping[Area, Row]
    scale: float

    def interval(self, low: float, high: float, how: str, why: str) -> Confidence:
        ends = sorted((low / self.scale, high / self.scale))
        return Confidence(self.text, ends[0], ends[1], self.level, how, why, self.is_simultaneous)

    def none(self, why: str) -> Confidence:
        return _none(self.text, self.level, why)

    def is_free(self, law: PublicLaw) -> bool:
        """Whether it is of one table without limits and ranges."""
        constraints = law.areas[next(iter(self.rows))]
        return len(self.rows) == 1 and not constraints.ranges and all(limits.is_free for limits in constraints.limits)


def _none(text: str, level: float, why: str) -> Confidence:
    return Confidence(text, float("nan"), float("nan"), level, UNAVAILABLE, why)


def _number_to_bound(
    law: PublicLaw, area: Area, statistic: Statistic, level: float, is_simultaneous: bool
) -> Confidence | _ScaledNumber:
    """Return the number to bound; or its interval where nothing is left to bound, or nothing can be."""
    if not statistic.definition.is_scaled_count:
        return _none(statistic.text, level, "it is not linear in the cells; a posterior answers it")

    def known(row: Row) -> float | None:
        total = known_sum(law, by_area(row))
        return None if total is None else float(total)

    def by_area(row: Row) -> dict[Area, Row]:
        return {area: row} if statistic.areas is None else statistic.by_area(law.schema.n_cells, row)

    above, scale = known(statistic.above), 1.0
    if statistic.below is not None:
        below = known(statistic.below)
        if below is None:
            return _none(statistic.text, level, "what it is divided by is not published exactly")
        if not below:
            return _none(statistic.text, level, "what it is divided by is zero")
        scale = below
    if above is not None:
        value, why = above / scale, "the published invariants determine it"
        return Confidence(statistic.text, value, value, level, DETERMINED, why, is_simultaneous)
    return _ScaledNumber(statistic.text, level, is_simultaneous, by_area(statistic.above), scale)


def _exact(law: PublicLaw, number: _ScaledNumber, released: Mapping[Area, Ints], miss: float) -> tuple[int, int]:
    (area, row), *_ = number.rows.items()
    at = row.value(released[area].tolist())
    marginal = Law(law, released[area], area).marginal_of(row)
    total = np.cumsum(marginal.probabilities)
    gaps = marginal.values - at
    least = int(gaps[int(np.searchsorted(total, miss / 2, side="right"))])
    most = int(gaps[min(int(np.searchsorted(total, 1 - miss / 2, side="left")), len(gaps) - 1)])
    return at - most, at - least


def _possible(law: PublicLaw, rows: Mapping[Area, Row]) -> tuple[int | None, int | None]:
    """Return the least and the most that a number can be, given what is published; None where there is no limit."""
    least: int | None = 0
    most: int | None = 0
    for area, row in rows.items():
        ends = possible_values(law.areas[area], row)
        least = None if least is None or ends.low is None else least + ends.low
        most = None if most is None or ends.high is None else most + ends.high
    return least, most


def possible_values(constraints: Constraints, row: Row) -> Interval:
    """Return limits of a row's values that follow from all conditions together; they are never too narrow.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> possible_values(p12_mechanism().disclose(p12_table()), Row.of("two girls", [0, 1]))
    Interval(low=0, high=43)
    """
    grouped = group_cells([*constraints.rows, Limited.of(row, None, None)], constraints.limits)
    *rows, objective = grouped.rows
    box = propagate(rows, grouped.box)
    least = minimise(rows, box, objective.terms).bound
    most = minimise(rows, box, {group: -times for group, times in objective.terms.items()}).bound
    return Interval(least, None if most is None else -most)
