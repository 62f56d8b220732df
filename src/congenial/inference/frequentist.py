"""Confidence intervals that need no prior: docs/claims/frequentist.md has the statements and the proofs.

Exact where the law of the error is the same whatever the table is (equalities, no limits). Conservative where cells
have limits, for linear numbers whose errors the published sums tie together in one way. Not available elsewhere.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.areas import Area
from congenial.conditions.constraints import Constraints
from congenial.conditions.groups import group_cells
from congenial.conditions.integer_program import minimise, propagate
from congenial.conditions.interval import Interval
from congenial.conditions.rows import Limited, Row
from congenial.inference.error_bounds import NotProvenError
from congenial.inference.intervals import check_level, known_count
from congenial.inference.reaches import Errors, Number, reaches
from congenial.inference.statistic import RATIO, SHARE, Statistic
from congenial.law import Law
from congenial.public_law import PublicLaw

DETERMINED, EXACT, CONSERVATIVE, UNAVAILABLE = "determined", "exact", "conservative", "not available"


@dataclass(frozen=True)
class Confidence:
    """An interval that covers the confidential value with at least this probability, whatever the table is.

    Attributes
    ----------
    how : str
        ``"determined"`` by the invariants, ``"exact"``, ``"conservative"``, or ``"not available"``.
    why : str
        On what the interval rests, or why there is none.
    is_simultaneous : bool
        Whether all intervals that were asked for hold together with this probability.
    """

    query: str
    low: float
    high: float
    level: float
    how: str
    why: str
    is_simultaneous: bool = False

    @property
    def is_available(self) -> bool:
        """Whether there is an interval."""
        return self.how != UNAVAILABLE

    def __repr__(self) -> str:
        if not self.is_available:
            return f"{self.query}: no interval without a prior: {self.why}"
        joint = ", all together" if self.is_simultaneous else ""
        return f"{self.query}: {self.level:.0%} confidence interval {self.low:g} to {self.high:g} ({self.how}{joint})"


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
    found: dict[int, Confidence] = {}
    asked: dict[int, _Asked] = {}
    errors: dict[Area, Errors] = {}
    for place, statistic in enumerate(statistics):
        told = _told(law, area, statistic, level, is_simultaneous)
        if isinstance(told, Confidence):
            found[place] = told
            continue
        asked[place] = told
    n_together = len(asked) if is_simultaneous else 1
    bounded: dict[int, Number] = {}
    for place, number in asked.items():
        if number.is_free(law):
            low, high = _exact(law, number, released, miss / n_together)
            found[place] = number.interval(low, high, EXACT, "the law of the error is the same for every table")
            continue
        try:
            errors |= {own: Errors.of(law, own) for own in number.rows if own not in errors}
            bounded[place] = Number.of({own: errors[own] for own in number.rows}, number.rows)
        except NotProvenError as why:
            found[place] = number.none(str(why))
    together = [list(bounded)] if is_simultaneous else [[place] for place in bounded]
    for places in together:
        if not places:
            continue
        try:
            ends = reaches([bounded[place] for place in places], released, miss * len(places) / n_together)
        except NotProvenError as why:
            found |= {place: asked[place].none(str(why)) for place in places}
            continue
        for place, (above, below) in zip(places, ends, strict=True):
            number = asked[place]
            at = sum(row.value(released[own].tolist()) for own, row in number.rows.items())
            least, most = _possible(law, number.rows)
            low = at - above if least is None else max(at - above, least)
            high = at + below if most is None else min(at + below, most)
            found[place] = number.interval(low, high, CONSERVATIVE, "errors are bounded whatever the table is")
    return [found[place] for place in range(len(statistics))]


@dataclass(frozen=True)
class _Asked:
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
        return len(self.rows) == 1 and not constraints.ranges and all(own.is_free for own in constraints.limits)


def _none(text: str, level: float, why: str) -> Confidence:
    return Confidence(text, float("nan"), float("nan"), level, UNAVAILABLE, why)


def _told(law: PublicLaw, area: Area, statistic: Statistic, level: float, is_simultaneous: bool) -> Confidence | _Asked:
    """Return the number to bound; or its interval where nothing is left to bound, or nothing can be."""
    if not statistic.is_linear and statistic.kind not in {SHARE, RATIO}:
        return _none(statistic.text, level, "it is not linear in the cells; a posterior answers it")

    def known(row: Row) -> float | None:
        counts = [known_count(law.areas[own], part) for own, part in by_area(row).items()]
        return None if None in counts else float(sum(count for count in counts if count is not None))

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
    return _Asked(statistic.text, level, is_simultaneous, by_area(statistic.above), scale)


def _exact(law: PublicLaw, number: _Asked, released: Mapping[Area, Ints], miss: float) -> tuple[int, int]:
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
    *rows, own = grouped.rows
    box = propagate(rows, grouped.box)
    least = minimise(rows, box, own.coefficients).bound
    most = minimise(rows, box, {group: -times for group, times in own.coefficients.items()}).bound
    return Interval(least, None if most is None else -most)
