"""Intervals of single cells from the measurements of a release: columns of the published table. Public.

A cell's interval is its measurement plus and minus the half-width of its noise, cut at what the exact numbers and
limits leave possible. It needs no prior, and holds the true count with the stated probability whatever the table is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.table_files import Columns
from congenial.conditions.areas_and_bounds import AreaGroup, quick_bounds
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.queries import margin
from congenial.decided_tables import cell_columns
from congenial.measurement import MeasurementDrawing, NoiseKind
from congenial.memory_and_threads import parts_of
from congenial.plan import Plan
from congenial.sampling.lattice_noise.half_widths import HalfWidth, half_width_of

LEVEL = Fraction(9, 10)
"""At which intervals are published; readers compute others from the measurements."""

MEASURED, LOW, HIGH = "measured", "low_90", "high_90"

_MOST_SUMS = 120
_UNITS_AT_ONCE = 2_048  # their cells stay in the cache of a processor


@dataclass(frozen=True, eq=False)
class CellWidths:
    """How far measurements of single cells may be off.

    Attributes
    ----------
    half_widths : array (kind of noise, cell)
        0 of cells without noise.
    noisy : tuple of int
        Those of cells with noise, each once, ascending.
    coverage : float
        The least probability, of all cells, that an interval holds the true count: proven.
    """

    half_widths: Ints
    noisy: tuple[int, ...]
    coverage: float

    @property
    def text(self) -> str:
        """What is said of them, in a sentence."""
        span = sorted({self.noisy[0], self.noisy[-1]}) if self.noisy else [0]
        return (
            f"Each cell's interval in the table's file is its measurement +-{' to '.join(map(str, span))}, cut at what"
            f" is possible. Whatever the table is, it holds the true count with probability {floored(self.coverage)} or"
            " more. Where both ends are one number, the measurement lay further out than its noise usually reaches:"
            " that is no certainty."
        )


def floored(probability: float) -> str:
    """Return a probability rounded down, for people.

    Examples
    --------
    >>> floored(0.93479)
    '0.934'
    """
    return f"{int(probability * 1000 + 1e-9) / 1000:.3f}"  # a double just below a thousandth is that thousandth


def cell_widths(plan: Plan, *, is_alike: bool = False) -> CellWidths | None:
    """Return the half-widths of single cells; None where cells are not measured by themselves.

    Parameters
    ----------
    is_alike : bool
        Whether the noise of all cells that have some has one law, so that it is looked at once.
    """
    drawing = plan.drawing
    if not isinstance(drawing, MeasurementDrawing) or cell_columns(plan.law) is None:
        return None
    half_widths = np.zeros((len(drawing.kinds), plan.law.schema.n_cells), np.int64)
    noisy, coverage = set[int](), 1.0
    for kind, line in zip(drawing.kinds, half_widths, strict=True):
        system = kind.choice.system
        width = HalfWidth(0, 1.0)
        for place, row in enumerate(kind.space.coordinates):
            if place == 0 or not is_alike:
                unit = tuple(int(other == place) for other in range(system.n_coordinates))
                width = half_width_of(((system, unit, 1),), LEVEL)
            line[row.cells[0]] = width.half_width
            noisy.add(width.half_width)
            coverage = min(coverage, width.coverage)
    return CellWidths(half_widths, tuple(sorted(noisy)), coverage)


class _Intervals:
    """Both ends of every cell's interval, computed for some areas when asked for: there may be millions."""

    def __init__(self, plan: Plan, measured: Ints, widths: CellWidths) -> None:
        self._plan, self.measured, self._widths = plan, measured, widths
        self.ends = lru_cache(maxsize=4)(self._ends)  # a part is asked for its lower, then for its upper ends

    def _ends(self, first: int, stop: int) -> tuple[Ints, Ints]:
        ends = np.empty((2, stop - first, self.measured.shape[1]), np.int64)
        for part in parts_of(stop - first, _UNITS_AT_ONCE):
            begin, end = first + part.start, first + part.stop
            reach = self._widths.half_widths[self._plan.sampler_numbers[begin:end]]
            np.subtract(self.measured[begin:end], reach, out=ends[0, part])
            np.add(self.measured[begin:end], reach, out=ends[1, part])
            for group in self._plan.law.areas.groups:  # their places ascend
                members = slice(*np.searchsorted(group.places, (begin, end)).tolist())
                if members.start < members.stop:
                    self._cut(group.part(members), first, ends)
        return ends[0], ends[1]

    @staticmethod
    def _cut(some: AreaGroup, first: int, ends: Ints) -> None:
        """Cut the ends (end, unit, cell) of some units at what is possible; the arrays begin with unit `first`."""
        bounds, places = quick_bounds(some), some.places - first
        low, high = bounds.low, bounds.high
        is_together = places[-1] - places[0] == len(places) - 1
        for out in ends:
            chosen = out[places[0] : places[-1] + 1] if is_together else out[places]
            np.minimum(np.maximum(chosen, low, out=chosen), high, out=chosen)
            if not is_together:
                out[places] = chosen


class IntervalEnds:
    """The lower or the upper end of every cell's interval (area, cell)."""

    def __init__(self, intervals: _Intervals, which: int) -> None:
        self._intervals, self._which = intervals, which

    def __getitem__(self, part: slice) -> Ints:
        first, stop, _ = part.indices(len(self._intervals.measured))
        return self._intervals.ends(first, stop)[self._which]


def interval_columns(plan: Plan, measurements: Ints, *, is_alike: bool = False) -> Columns:
    """Return further columns of the published table (area, cell): measurement and interval; none without cells."""
    widths, columns = cell_widths(plan, is_alike=is_alike), cell_columns(plan.law)
    if widths is None or columns is None:
        return []
    is_same = np.array_equal(columns, np.arange(measurements.shape[1]))
    measured = measurements if is_same else np.ascontiguousarray(measurements[:, columns])
    intervals = _Intervals(plan, measured, widths)
    return [(MEASURED, measured), (LOW, IntervalEnds(intervals, 0)), (HIGH, IntervalEnds(intervals, 1))]


def _has_no_noise(kind: NoiseKind, coefficients: Sequence[int]) -> bool:
    """Whether a combination of coordinates has none, or the equalities of the noise make it 0."""
    if not any(coefficients):
        return True
    rows = [row.terms for row in kind.choice.system.equalities]
    row = {place: times for place, times in enumerate(coefficients) if times}
    return len(rows) in dependence([*rows, row]).follows


@dataclass(frozen=True)
class SumWidth:
    """A sum over one level of one dimension, in one area or over all of them: how far its measurement may be off.

    Attributes
    ----------
    value : int or None
        What was measured; None before a release, and of one area among others.
    half_width : int
    coverage : float
        The probability, proven, that the measurement is off by no more.
    is_exact : bool
        Whether it carries no noise.
    """

    name: str
    value: int | None
    half_width: int
    coverage: float
    is_exact: bool

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """Name, measured value, half-width and coverage, for people."""
        value = "" if self.value is None else f"{self.value:,}"
        if self.is_exact:
            return self.name, value, "exact", ""
        return self.name, value, f"+-{self.half_width:,}", floored(self.coverage)


def _totals(measurements: Ints) -> Ints:
    """Return sums over units (row,): in Python's integers where 64 bits might not hold the sum of all of them."""
    largest = int(np.abs(measurements).max(initial=0))
    is_large = largest * measurements.size >= 2**62
    totals: Ints = (measurements.astype(object) if is_large else measurements).sum(axis=0)
    return totals


def sum_widths(plan: Plan, measurements: Ints | None = None) -> list[SumWidth]:
    """Return how far measured sums over each level of each dimension may be off; none where there are very many.

    Parameters
    ----------
    measurements : array (unit, row), optional
        With them, sums over all areas together and their measured values; without, sums of one area, of areas one of
        the most frequent kind.
    """
    drawing, schema, columns = plan.drawing, plan.law.schema, cell_columns(plan.law)
    if not isinstance(drawing, MeasurementDrawing) or columns is None:
        return []
    rows = [row for name in schema.names for row in margin(name).rows(schema)]
    if len(rows) > _MOST_SUMS:
        return []
    n_of_kind = np.bincount(plan.sampler_numbers, minlength=len(drawing.kinds))
    if measurements is None:
        n_of_kind = np.eye(len(n_of_kind), dtype=np.int64)[n_of_kind.argmax()]
    totals = None if measurements is None else _totals(measurements)[columns]
    out = []
    for row in rows:
        noise = []
        for kind, n in zip(drawing.kinds, n_of_kind.tolist(), strict=True):
            coefficients = kind.answers[columns[list(row.cells)]].sum(axis=0).tolist()
            if n and not _has_no_noise(kind, coefficients):
                noise.append((kind.choice.system, tuple(coefficients), n))
        width = half_width_of(tuple(noise), LEVEL)
        value = None if totals is None else int(totals[list(row.cells)].sum())
        out.append(SumWidth(row.name, value, width.half_width, width.coverage, is_exact=not noise))
    return out
