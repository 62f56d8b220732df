"""Intervals from the measurements of a release, without a prior: docs/claims/measured.md has the law.

    q(n) = q(x) + q(u)     with u from a law that is the same for every table

so that ``q(n) - h`` to ``q(n) + h`` holds ``q(x)`` as often as ``|q(u)| <= h``, whatever the table is. What a sum of
cells takes from exact numbers has no noise. Ends beyond what is possible are cut, which loses nothing.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import lcm

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import NONE, Area, AreaBounds, AreaGroup, quick_bounds
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.rows_and_intervals import Interval, Row
from congenial.decided_tables import cell_columns
from congenial.errors import InferenceError
from congenial.inference.estimates_and_draw_quality import check_level
from congenial.inference.frequentist import DETERMINED, EXACT, UNAVAILABLE, Confidence, possible_values
from congenial.inference.statistics_registry import Statistic
from congenial.law import PublicLaw
from congenial.measurement import MeasurementDrawing, NoiseKind
from congenial.plan import Plan
from congenial.sampling.lattice_noise.half_widths import HalfWidth, NoiseSum, canonical, half_width_of, joint_coverage
from congenial.sampling.lattice_noise.system import LatticeSystem

NOT_MEASURED = "no sum of measured rows and exact numbers gives it"
_TYPICAL = Fraction(9, 10)  # the level at which readings are compared
_FEW_UNITS = 20  # whose limits come from integer programs; of more, from the limits of their cells


@dataclass(frozen=True)
class Reading:
    """A sum of cells as exact numbers plus measured rows, for all units of one kind of noise.

    Attributes
    ----------
    divisor : int
        All coefficients below are for so many times the sum.
    exact : tuple of (equality, coefficient)
    pinned : tuple of (cell, coefficient)
        Of cells with one possible value.
    measured : tuple of (measured row, coefficient)
    noise : tuple of int
        The coefficient of each coordinate of the noise.
    """

    divisor: int
    exact: tuple[tuple[int, int], ...]
    pinned: tuple[tuple[int, int], ...]
    measured: tuple[tuple[int, int], ...]
    noise: tuple[int, ...]

    @classmethod
    def of(
        cls,
        exact: Mapping[int, Fraction],
        pinned: Mapping[int, Fraction],
        measured: Mapping[int, Fraction],
        answers: Ints,
    ) -> "Reading":
        """Return a combination over its common divisor.

        Parameters
        ----------
        answers : array (measured row, coordinate)
            The noise of each measured row.
        """
        divisor = lcm(*(times.denominator for part in (exact, pinned, measured) for times in part.values()))
        whole = tuple(
            tuple((place, int(times * divisor)) for place, times in sorted(part.items()) if times)
            for part in (exact, pinned, measured)
        )
        noise = [0] * answers.shape[1]
        for row, times in whole[2]:
            for place in np.flatnonzero(answers[row]).tolist():
                noise[place] += times * int(answers[row, place])
        return cls(divisor, whole[0], whole[1], whole[2], tuple(noise))

    def values(self, sums: Ints, pinned: Ints, measurements: Ints) -> int:
        """Return ``divisor`` times the sum, added up over units.

        Parameters
        ----------
        sums : array (unit, equality)
        pinned : array (unit, cell)
            The least value of each cell.
        measurements : array (unit, measured row)
        """
        total = 0
        parts = ((self.exact, sums), (self.pinned, pinned), (self.measured, measurements))
        for terms, numbers in parts:
            for place, times in terms:
                column = numbers[:, place]
                total += times * (int(column.sum()) if column.dtype != object else sum(map(int, column)))
        return total


@dataclass(frozen=True, eq=False)
class Measurements:
    """The measurements of a release, with all that tells their law. Public.

    Attributes
    ----------
    drawing : MeasurementDrawing
    numbers : array (unit,)
        Which kind of noise each unit has.
    values : array (unit, measured row)

    Examples
    --------
    >>> import congenial as cg
    >>> schema = cg.Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.total()], epsilon="1", method="measured")
    >>> plan = mechanism.plan(mechanism.disclose(cg.Table(schema, [[30, 41], [11, 25]])))
    >>> known = Measurements.of(plan, np.array([[33, 40, 9, 25]]))
    >>> from congenial.inference.questions import parse_queries
    >>> known.confidences(parse_queries("all", schema))[0].low
    107.0
    """

    law: PublicLaw
    drawing: MeasurementDrawing
    numbers: Ints
    values: Ints = field(repr=False)

    @classmethod
    def of(cls, plan: Plan, values: Ints | None) -> "Measurements":
        """Return the measurements (unit, row) of a release, given its plan."""
        drawing = plan.drawing
        if values is None or not isinstance(drawing, MeasurementDrawing):
            raise InferenceError("a conditional release has no measurements; its tables are draws")
        return cls(plan.law, drawing, plan.sampler_numbers, values)

    @cached_property
    def _cell_columns(self) -> Ints | None:
        return cell_columns(self.law)

    @cached_property
    def _readings(self) -> dict[object, Reading | None]:
        return {}

    def at_units(self, places: Ints) -> tuple[Ints, AreaBounds]:
        """Return exact sums (unit, equality) and limits of cells of some units of one kind."""
        group = self.law.areas.groups[int(self.law.areas.group_numbers[places[0]])]
        sums = group.values[np.searchsorted(group.places, places)]
        return sums, quick_bounds(AreaGroup(group.pattern, places, sums))

    def reading(self, number: int, row: Row, pinned: tuple[int, ...]) -> Reading | None:
        """Return how a sum of cells is read off in units of one kind; None where it is not measured.

        Parameters
        ----------
        pinned : tuple of int
            Cells with one possible value in all of these units.
        """
        key = number, row.cells, row.coefficients, pinned
        if key not in self._readings:
            self._readings[key] = _reading(
                self.drawing.kinds[number], self.drawing.rows, self._cell_columns, row, pinned
            )
        return self._readings[key]

    def number(self, rows: Mapping[Area, Row]) -> "LinearReading | None":
        """Return what rows, one of each unit's table, add up to; None where some of it is not measured."""
        members: dict[object, tuple[Row, list[int]]] = {}
        for area, row in rows.items():
            place = self.law.areas.places[area]
            key = int(self.numbers[place]), row.cells, row.coefficients
            members.setdefault(key, (row, []))[1].append(place)
        parts: list[tuple[Reading, int]] = []
        noises: list[tuple[LatticeSystem, tuple[int, ...], int, int]] = []
        limits = Interval(0, 0)
        for row, listed in members.values():
            places = np.sort(np.array(listed, np.int64))
            kind_number = int(self.numbers[places[0]])
            sums, bounds = self.at_units(places)
            pinned = tuple(np.flatnonzero(bounds.pinned.all(axis=0)).tolist())
            reading = self.reading(kind_number, row, pinned)
            if reading is None:
                return None
            parts.append((reading, reading.values(sums, bounds.low, self.values[places])))
            system = self.drawing.kinds[kind_number].choice.system
            if any(reading.noise):
                noises.append((system, reading.noise, reading.divisor, len(places)))
            limits += self._limits(places, bounds, row, n_units=len(rows))
        divisor = lcm(*(reading.divisor for reading, _ in parts))
        value = sum(total * (divisor // reading.divisor) for reading, total in parts)
        return LinearReading(Fraction(value, divisor), divisor, _noise_sum(noises, divisor), limits)

    def _limits(self, places: Ints, bounds: AreaBounds, row: Row, *, n_units: int) -> Interval:
        """Return what a row of some units can be, added up."""
        if n_units <= _FEW_UNITS:
            out = Interval(0, 0)
            for place in places.tolist():
                out += possible_values(self.law.areas.at(place), row)
            return out
        low: int | None = 0
        high: int | None = 0
        for cell, times in zip(row.cells, row.coefficients, strict=True):
            ends = bounds.low[:, cell], bounds.high[:, cell]
            least, most = ends if times > 0 else ends[::-1]
            low = None if low is None or (np.abs(least) >= NONE).any() else low + times * int(least.sum())
            high = None if high is None or (np.abs(most) >= NONE).any() else high + times * int(most.sum())
        return Interval(low, high)

    def confidences(
        self,
        statistics: Sequence[Statistic],
        area: Area = None,
        *,
        level: float = 0.9,
        is_simultaneous: bool = False,
    ) -> list[Confidence]:
        """Return the interval of each number, with the probability that it has; or why there is none.

        Parameters
        ----------
        area : Area
            Whose table is meant by numbers that do not span areas.
        is_simultaneous : bool
            Whether all intervals hold together with this probability: each then misses with an equal part of the rest.
        """

        def reading(statistic: Statistic, row: Row) -> "LinearReading | None":
            is_one = statistic.areas is None
            return self.number({area: row} if is_one else statistic.by_area(self.law.schema.n_cells, row))

        return confidences_of(statistics, reading, level=level, is_simultaneous=is_simultaneous)


ReadRow = Callable[[Statistic, Row], "LinearReading | None"]
"""Gives how a row of a statistic is read off measurements; None where it is not measured."""


def confidences_of(
    statistics: Sequence[Statistic],
    reading: ReadRow,
    *,
    level: float,
    is_simultaneous: bool,
) -> list[Confidence]:
    """Return the interval of each number, or why there is none, from how its rows are read off: see `Measurements`."""
    miss = Fraction(1) - Fraction(check_level(level))
    scaled = [scaled_reading(statistic, reading) for statistic in statistics]
    n_noisy = sum(not isinstance(number, str) and bool(number.reading.noise) for number in scaled)
    each = 1 - miss / (max(1, n_noisy) if is_simultaneous else 1)
    widths: dict[int, HalfWidth] = {}
    for place, number in enumerate(scaled):
        if isinstance(number, str):
            continue
        try:
            widths[place] = half_width_of(number.reading.noise, each)
        except InferenceError as refused:
            scaled[place] = str(refused)
    together = joint_coverage(widths)
    out = []
    for place, (statistic, number) in enumerate(zip(statistics, scaled, strict=True)):
        if isinstance(number, str):
            nothing = float("nan")
            out.append(Confidence(statistic.text, nothing, nothing, level, UNAVAILABLE, number))
            continue
        coverage = together if is_simultaneous else widths[place].coverage
        interval = number.interval(statistic.text, widths[place], level)
        out.append(Confidence(*interval, is_simultaneous, coverage, number.value))
    return out


def scaled_reading(statistic: Statistic, reading: ReadRow) -> "ScaledReading | str":
    """Return the number that a statistic is, or why it has no interval."""
    if not statistic.definition.is_scaled_count:
        return "it is not linear in the cells; a posterior answers it"
    scale = Fraction(1)
    if statistic.below is not None:
        below = reading(statistic, statistic.below)
        if below is None or below.noise:
            return "what it is divided by is not published exactly; a posterior answers it"
        if not below.value:
            return "what it is divided by is zero"
        scale = below.value
    above = reading(statistic, statistic.above)
    return NOT_MEASURED if above is None else ScaledReading(above, scale)


def _noise_sum(noises: Sequence[tuple[LatticeSystem, tuple[int, ...], int, int]], divisor: int) -> NoiseSum:
    """Return independent noises over a common divisor, those of one law counted."""
    counted: Counter[tuple[LatticeSystem, tuple[int, ...]]] = Counter()
    for system, noise, own, n_units in noises:
        scaled = [times * (divisor // own) for times in noise]
        counted[system, canonical(system, scaled)] += n_units
    return tuple((system, coefficients, times) for (system, coefficients), times in counted.items())


def _reading(
    kind: NoiseKind, measured: Sequence[Row], of_cell: Ints | None, row: Row, pinned: tuple[int, ...]
) -> Reading | None:
    equalities = [limited.row for limited in kind.pattern.equalities]
    known = [*(each.terms for each in equalities), *({cell: 1} for cell in pinned)]
    how = dependence([*known, row.terms]).follows.get(len(known))
    if how is None and of_cell is not None:
        return _best(kind, [_from_cells(kind, of_cell, row, set(pinned)), *_measured_itself(kind, measured, row)])
    if how is None:
        how = dependence([*known, *(each.terms for each in measured), row.terms]).follows.get(
            len(known) + len(measured)
        )
    if how is None:
        return None
    n_sums, n_known = len(equalities), len(known)
    return Reading.of(
        {place: times for place, times in how.items() if place < n_sums},
        {pinned[place - n_sums]: times for place, times in how.items() if n_sums <= place < n_known},
        {place - n_known: times for place, times in how.items() if place >= n_known},
        kind.answers,
    )


def _measured_itself(kind: NoiseKind, measured: Sequence[Row], row: Row) -> list[Reading]:
    """Return the readings of a row that was measured; one that has the noise of its cells is read off these."""
    if not kind.choice.lifted:
        return []
    places = [place for place, known in enumerate(measured) if known.terms == row.terms]
    return [Reading.of({}, {}, {place: Fraction(1)}, kind.answers) for place in places]


def _best(kind: NoiseKind, readings: Sequence[Reading]) -> Reading:
    """Return the reading with the smallest noise, which is a public matter."""
    system = kind.choice.system

    def width(reading: Reading) -> int:
        return half_width_of(((system, canonical(system, reading.noise), 1),), _TYPICAL).half_width

    return readings[0] if len(readings) == 1 else min(readings, key=width)


def _from_cells(kind: NoiseKind, of_cell: Ints, row: Row, pinned: set[int]) -> Reading:
    """Return a sum of cells that are measured each by itself.

    Exact sums that the noise does not keep are taken off as often as makes the rest small: what is left out of a large
    part of a total is read off better than the part.
    """
    terms = {cell: times for cell, times in row.terms.items() if cell not in pinned}
    of_pinned = {cell: Fraction(times) for cell, times in row.terms.items() if cell in pinned}
    exact: dict[int, Fraction] = {}
    for number, equality in enumerate(kind.pattern.equalities):
        if not kind.dropped or equality.row.name not in kind.dropped:
            continue
        inside = {cell: times for cell, times in equality.terms.items() if cell not in pinned}
        size = sum(times * times for times in inside.values())
        n_times = round(Fraction(sum(times * terms.get(cell, 0) for cell, times in inside.items()), size or 1))
        if n_times:
            exact[number] = Fraction(n_times)
            terms = {cell: terms.get(cell, 0) - n_times * inside.get(cell, 0) for cell in {*terms, *inside}}
            for cell in pinned.intersection(equality.terms):
                of_pinned[cell] = of_pinned.get(cell, Fraction(0)) - n_times * equality.terms[cell]
    measured = {int(of_cell[cell]): Fraction(times) for cell, times in terms.items()}
    return Reading.of(exact, of_pinned, measured, kind.answers)


@dataclass(frozen=True)
class LinearReading:
    """A linear number as it was measured.

    Attributes
    ----------
    value : Fraction
        It is the confidential number plus ``noise / divisor``.
    noise : NoiseSum
        Nothing where exact numbers determine it.
    limits : Interval
        What the confidential number can be.
    """

    value: Fraction
    divisor: int
    noise: NoiseSum
    limits: Interval

    def __add__(self, other: "LinearReading") -> "LinearReading":
        """Return the sum of two numbers whose noises are independent."""
        divisor = lcm(self.divisor, other.divisor)
        noises = [(system, noise, each.divisor, times) for each in (self, other) for system, noise, times in each.noise]
        limits = self.limits + other.limits
        return LinearReading(self.value + other.value, divisor, _noise_sum(noises, divisor), limits)

    def ends(self, half_width: int) -> tuple[Interval, bool]:
        """Return what is within reach and possible, and whether anything is; else the nearest possible number."""
        reach = Fraction(half_width, self.divisor)
        low, high = -(-(self.value - reach) // 1), (self.value + reach) // 1
        cut = Interval(int(low), int(high)) & self.limits
        if not cut.is_empty:
            return cut, True
        nearest = round(self.value)
        if self.limits.low is not None:
            nearest = max(nearest, self.limits.low)
        if self.limits.high is not None:
            nearest = min(nearest, self.limits.high)
        return Interval(nearest, nearest), False


@dataclass(frozen=True)
class ScaledReading:
    """A linear number, divided by an exact one."""

    reading: LinearReading
    scale: Fraction

    @property
    def value(self) -> float:
        """The number as it was measured."""
        return float(self.reading.value / self.scale)

    def interval(self, text: str, width: HalfWidth, level: float) -> tuple[str, float, float, float, str, str]:
        """Return text, ends, level, how and why."""
        if not self.reading.noise:
            value = self.value
            return text, value, value, level, DETERMINED, "the published invariants determine it"
        cut, is_possible = self.reading.ends(width.half_width)
        ends = sorted(float(end / self.scale) for end in (Fraction(cut.low or 0), Fraction(cut.high or 0)))
        why = "the law of the noise is the same for every table"
        if not is_possible:
            why = "the measurement is farther than its reach from anything possible; this is the nearest possible value"
        return text, ends[0], ends[1], level, EXACT, f"{why}; {width.how}" if width.how else why
