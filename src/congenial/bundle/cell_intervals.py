"""Intervals of single cells from the measurements of a release: columns of the published table. Public.

A cell's interval is its measurement plus and minus the half-width of its noise, cut at what the exact numbers and
limits leave possible. It needs no prior, and holds the true count with the stated probability whatever the table is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.table_files import Columns
from congenial.conditions.areas_and_bounds import quick_bounds
from congenial.conditions.grouped_cells_and_lattice import dependence
from congenial.conditions.queries import margin
from congenial.decided_tables import cell_columns
from congenial.measurement import MeasurementDrawing, NoiseKind
from congenial.plan import Plan
from congenial.sampling.lattice_noise.half_widths import half_width_of

LEVEL = Fraction(9, 10)
"""At which intervals are published; readers compute others from the measurements."""

MEASURED, LOW, HIGH = "measured", "low_90", "high_90"

_MOST_SUMS = 120


@dataclass(frozen=True, eq=False)
class CellWidths:
    """How far measurements of single cells may be off.

    Attributes
    ----------
    half_widths : array (kind of noise, cell)
    coverage : float
        The least probability, of all cells, that an interval holds the true count: proven.
    """

    half_widths: Ints
    coverage: float

    @property
    def text(self) -> str:
        """What is said of them, in a sentence."""
        widths = self.half_widths[self.half_widths > 0]
        span = sorted({int(widths.min()), int(widths.max())}) if widths.size else [0]
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


def cell_widths(plan: Plan) -> CellWidths | None:
    """Return the half-widths of single cells; None where cells are not measured by themselves."""
    drawing = plan.drawing
    if not isinstance(drawing, MeasurementDrawing) or cell_columns(plan.law) is None:
        return None
    half_widths = np.zeros((len(drawing.kinds), plan.law.schema.n_cells), np.int64)
    coverage = 1.0
    for number, kind in enumerate(drawing.kinds):
        coverage = min(coverage, _widths_of_kind(kind, half_widths[number]))
    return CellWidths(half_widths, coverage)


def _widths_of_kind(kind: NoiseKind, out: Ints) -> float:
    """Fill in the half-width of each cell, and return the least coverage."""
    system, coverage = kind.choice.system, 1.0
    for place, row in enumerate(kind.space.coordinates):
        unit = tuple(int(other == place) for other in range(system.n_coordinates))
        width = half_width_of(((system, unit, 1),), LEVEL)
        out[row.cells[0]] = width.half_width
        coverage = min(coverage, width.coverage)
    return coverage


class IntervalEnds:
    """An end of every cell's interval (area, cell), computed for areas when asked for: there may be millions."""

    def __init__(self, plan: Plan, measured: Ints, widths: CellWidths, sign: int) -> None:
        self._plan, self._measured, self._widths, self._sign = plan, measured, widths, sign

    def __getitem__(self, part: slice) -> Ints:
        first, stop, _ = part.indices(len(self._measured))
        reach = self._widths.half_widths[self._plan.sampler_numbers[first:stop]]
        out = self._measured[first:stop] + self._sign * reach
        for group in self._plan.law.areas.groups:  # their places ascend
            begin, end = np.searchsorted(group.places, (first, stop)).tolist()
            if begin < end:
                some = group.part(slice(begin, end))
                bounds, places = quick_bounds(some), some.places - first
                out[places] = np.clip(out[places], bounds.low, bounds.high)
        return out


def interval_columns(plan: Plan, measurements: Ints) -> Columns:
    """Return further columns of the published table (area, cell): measurement and interval; none without cells."""
    widths, columns = cell_widths(plan), cell_columns(plan.law)
    if widths is None or columns is None:
        return []
    is_same = np.array_equal(columns, np.arange(measurements.shape[1]))
    measured = measurements if is_same else np.ascontiguousarray(measurements[:, columns])
    ends = (IntervalEnds(plan, measured, widths, sign) for sign in (-1, 1))
    return list(zip((MEASURED, LOW, HIGH), (measured, *ends), strict=True))


def _has_no_noise(kind: NoiseKind, coefficients: Sequence[int]) -> bool:
    """Whether the equalities of the noise make a combination of coordinates 0."""
    rows = [row.terms for row in kind.choice.system.equalities]
    row = {place: times for place, times in enumerate(coefficients) if times}
    return len(rows) in dependence([*rows, row]).follows


def sum_widths(plan: Plan) -> list[tuple[str, str, str]]:
    """Return how far measured sums over each level of each dimension may be off, with the coverage, in words.

    Of areas, those of the most frequent kind.
    """
    drawing, schema = plan.drawing, plan.law.schema
    if not isinstance(drawing, MeasurementDrawing) or cell_columns(plan.law) is None or len(schema.names) < 2:
        return []
    kind = drawing.kinds[int(np.bincount(plan.sampler_numbers).argmax())]
    place = {row.cells[0]: number for number, row in enumerate(kind.space.coordinates)}
    rows = [row for name in schema.names for row in margin(name).rows(schema)]
    if len(rows) > _MOST_SUMS:
        return []
    out = []
    for row in rows:
        coefficients = [0] * kind.choice.system.n_coordinates
        for cell in row.cells:
            if cell in place:
                coefficients[place[cell]] = 1
        width = half_width_of(((kind.choice.system, tuple(coefficients), 1),), LEVEL)
        exact = width.half_width == 0 and _has_no_noise(kind, coefficients)
        out.append(
            (row.name, "exact" if exact else f"+-{width.half_width:,}", "" if exact else floored(width.coverage))
        )
    return out
