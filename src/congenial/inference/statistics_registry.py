"""Statistics of a table: the registry `STATISTICS` of what the query language can ask for, and a statistic of cells."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isfinite

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import Area
from congenial.conditions.rows_and_intervals import Row, row_values
from congenial.errors import InferenceError

CellSet = set[int]
Coefficients = Mapping[int, int]
"""Of the cells in a sum."""


@dataclass(frozen=True)
class StatisticArguments:
    """The cells that a query names.

    Attributes
    ----------
    sets : sequence of sets of cells
        The arguments, one after the other.
    whole : set of cells
        All cells, or those at one level of the dimensions after ``by``.
    levels : sequence of sets of cells
        At each label of the dimension that the statistic takes, if it takes one.
    """

    sets: Sequence[CellSet]
    whole: CellSet
    levels: Sequence[CellSet] = ()


@dataclass(frozen=True)
class StatisticKind:
    """A kind of statistic: how it is written, the counts that it is computed from, and how.

    Parser, estimates, intervals, figures and the workbench go by what it says of itself. See "Recipe: a statistic" in
    CONTRIBUTING.md.

    Attributes
    ----------
    name : str
        As in a query, ``name(...)``.
    form : str
        How it is written, for messages: two sets of cells. A count is written without a name, and has no form.
    separator : str
        The sign between the two arguments.
    unit : str
        The label of its axis in figures; statistics of the same label share an axis.
    counts : function of the arguments
        The counts that it is computed from, each by the coefficients of its cells.
    values : function of counts (draw, count)
        Its value in each draw; NaN where it would be 0/0, infinite where it is n/0.
    takes_dimension : bool
        Whether the first argument is the name of a dimension; the second is then a set of cells, and may be left out.
        Values are places among the labels of that dimension.
    minimum : float
        The least value that it takes.
    n_nonempty : int
        The first so many of its counts need cells. Without any the statistic would be 0, infinite or undefined whatever
        the table is, so that the query is refused.
    refusal : str
        What is said of such a query.
    is_scaled_count : bool
        Whether it is the first count, divided by the second if there are two. The law of the release's error gives
        intervals for such a statistic, if the divisor is published.
    is_estimated_by_median : bool
        Whether the posterior median is the better estimate. The mean of a ratio goes with a few large values, and was
        farther from the truth than the release.
    """

    name: str
    form: str
    separator: str
    unit: str
    counts: Callable[[StatisticArguments], list[Coefficients]]
    values: Callable[[Floats], Floats]
    takes_dimension: bool = False
    minimum: float = 0.0
    n_nonempty: int = 2
    refusal: str = "compares with nobody: it needs cells in common, and some in each part; look at its conditions"
    is_scaled_count: bool = True
    is_estimated_by_median: bool = False


def ones(cells: CellSet) -> Coefficients:
    """Return the coefficients of a sum of cells."""
    return dict.fromkeys(sorted(cells), 1)


def quotient(above: Floats, below: Floats) -> Floats:
    """Return quotients; NaN for 0/0, infinite for n/0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)


def _difference(arguments: StatisticArguments) -> list[Coefficients]:
    first, second = arguments.sets
    return [{cell: 1 if cell in first else -1 for cell in sorted(first ^ second)}]


def _two_by_two(arguments: StatisticArguments) -> list[Coefficients]:
    first, second = arguments.sets
    both, neither = first & second, arguments.whole - first - second
    return [ones(cells) for cells in (both, neither, first - second, second - first)]


def _first_half(counts: Floats) -> Floats:
    """Return the first level at which half of the people are reached."""
    reached = np.cumsum(counts[:, 1:], axis=1)
    places = (2 * reached >= reached[:, -1:]).argmax(axis=1).astype(np.float64)
    return np.where(reached[:, -1] > 0, places, np.nan)


COUNT = "count"

STATISTICS: dict[str, StatisticKind] = {
    kind.name: kind
    for kind in (
        StatisticKind(
            name=COUNT,
            form="",
            separator="",
            unit="count",
            counts=lambda arguments: [ones(arguments.sets[0])],
            values=lambda counts: counts[:, 0],
            n_nonempty=1,
            refusal="picks no cell at all: its conditions exclude each other",
        ),
        StatisticKind(
            name="share",
            form="share(part | whole)",
            separator="|",
            unit="share",
            counts=lambda arguments: [ones(arguments.sets[0] & arguments.sets[1]), ones(arguments.sets[1])],
            values=lambda counts: quotient(counts[:, 0], counts[:, 1]),
        ),
        StatisticKind(
            name="ratio",
            form="ratio(one / other)",
            separator="/",
            unit="ratio",
            counts=lambda arguments: [ones(cells) for cells in arguments.sets],
            values=lambda counts: quotient(counts[:, 0], counts[:, 1]),
            is_estimated_by_median=True,
        ),
        StatisticKind(
            name="difference",
            form="difference(one, other)",
            separator=",",
            unit="count",
            counts=_difference,
            values=lambda counts: counts[:, 0],
            minimum=-np.inf,
            n_nonempty=0,
        ),
        StatisticKind(
            name="odds_ratio",  # of the two-by-two table that two sets of cells make
            form="odds_ratio(one, other)",
            separator=",",
            unit="odds ratio",
            counts=_two_by_two,
            values=lambda counts: quotient(counts[:, 0] * counts[:, 1], counts[:, 2] * counts[:, 3]),
            n_nonempty=4,
            refusal="compares with nobody: it needs two sets that cross; look at its conditions",
            is_scaled_count=False,
            is_estimated_by_median=True,
        ),
        StatisticKind(
            name="median",
            form="median(dimension | part)",
            separator="|",
            unit="",
            counts=lambda arguments: [
                ones(arguments.sets[0] & cells) for cells in (arguments.whole, *arguments.levels)
            ],
            values=_first_half,
            takes_dimension=True,
            n_nonempty=1,
            is_scaled_count=False,
            is_estimated_by_median=True,
        ),
    )
}
"""Every kind of statistic that queries can ask for, by name."""


@dataclass(frozen=True)
class Statistic:
    """A number of a table, or of the tables of all areas.

    Attributes
    ----------
    kind : str
        A name in `STATISTICS`: ``"count"``, ``"share"``, ...
    above : Row
        The count or difference, or what stands above the line.
    below : Row, optional
        What stands below the line.
    more : tuple of Row
        Of an odds ratio the two counts whose product it is divided by, `above` and `below` being the others; of a
        median the counts at all levels, in order.
    areas : tuple of areas, or None
        Where the number spans areas: all of them, in order. Cells are then those of the first, the second, ...
    labels : tuple of str
        Of a median, what its values 0, 1, ... stand for.

    Examples
    --------
    >>> women, men = Row.of("women", [0]), Row.of("men", [1])
    >>> Statistic("women for each man", "ratio", women, men).values(np.array([[3, 2], [0, 0]]))
    array([1.5, nan])
    """

    text: str
    kind: str
    above: Row
    below: Row | None = None
    more: tuple[Row, ...] = ()
    areas: tuple[Area, ...] | None = None
    labels: tuple[str, ...] = ()

    @property
    def definition(self) -> StatisticKind:
        """What its kind says of itself."""
        return STATISTICS[self.kind]

    @property
    def is_linear(self) -> bool:
        """Whether it is a sum or difference of cells."""
        return self.definition.is_scaled_count and self.below is None

    def values(self, tables: Ints) -> Floats:
        """Return the number for each table (draw, cell); NaN where it would be 0/0, infinite where it is n/0."""
        last = max((cell for row in self.rows for cell in row.cells), default=0)
        if last >= tables.shape[-1]:
            raise InferenceError(
                f"{self.text!r} spans areas, and the posterior of one area's table cannot answer it; congenial infer"
                " and bundle.posterior().interval(query) can"
            )
        return self.of_counts(row_values(self.rows, tables).astype(np.float64))

    @property
    def rows(self) -> list[Row]:
        """All counts that it is made of."""
        return [row for row in (self.above, self.below, *self.more) if row is not None]

    def of_counts(self, counts: Floats) -> Floats:
        """Return the number from the values (draw, row) of its rows."""
        return self.definition.values(counts)

    def of_known(self, counts: Sequence[Fraction | float | None]) -> float | None:
        """Return the number from the values of its rows; None where one is not known, or the number is not finite."""
        if None in counts:
            return None
        value = float(self.of_counts(np.array([counts], np.float64))[0])
        return value if isfinite(value) else None

    def by_area(self, n_cells: int, row: Row | None = None) -> dict[Area, Row]:
        """Return what one of its counts, `above` if not given, takes from each area's table of so many cells."""
        if self.areas is None:
            raise InferenceError(f"{self.text!r} is of one area's table, and not of several")
        entries: dict[Area, tuple[list[int], list[int]]] = {}
        whole = self.above if row is None else row
        for cell, times in zip(whole.cells, whole.coefficients, strict=True):
            cells, coefficients = entries.setdefault(self.areas[cell // n_cells], ([], []))
            cells.append(cell % n_cells)
            coefficients.append(times)
        return {area: Row(whole.name, tuple(cells), tuple(times)) for area, (cells, times) in entries.items()}
