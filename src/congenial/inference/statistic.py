"""Numbers of a table: a count or difference, one count over another, an odds ratio, a median."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas import Area
from congenial.conditions.rows import Row, row_values
from congenial.errors import InferenceError, did_you_mean, import_extra

COUNT, DIFFERENCE, SHARE, RATIO, ODDS_RATIO, MEDIAN = "count", "difference", "share", "ratio", "odds_ratio", "median"
RATIOS = {RATIO, ODDS_RATIO}
"""Kinds that are unlimited, and large where what they are divided by is small."""


@dataclass(frozen=True)
class Statistic:
    """A number of a table, or of the tables of all areas.

    Attributes
    ----------
    kind : str
        ``"count"``, ``"difference"``, ``"share"``, ``"ratio"``, ``"odds_ratio"`` or ``"median"``.
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
    def is_linear(self) -> bool:
        """Whether it is a sum or difference of cells."""
        return self.kind in {COUNT, DIFFERENCE}

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
        return _VALUES[self.kind](counts)

    def by_area(self, n_cells: int, row: Row | None = None) -> dict[Area, Row]:
        """Return what one of its counts, `above` if not given, takes from each area's table of so many cells."""
        if self.areas is None:
            raise InferenceError(f"{self.text!r} is of one area's table, and not of several")
        taken: dict[Area, tuple[list[int], list[int]]] = {}
        whole = self.above if row is None else row
        for cell, times in zip(whole.cells, whole.coefficients, strict=True):
            cells, coefficients = taken.setdefault(self.areas[cell // n_cells], ([], []))
            cells.append(cell % n_cells)
            coefficients.append(times)
        return {area: Row(whole.name, tuple(cells), tuple(times)) for area, (cells, times) in taken.items()}


def _quotient(above: Floats, below: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / below)


def _median(counts: Floats) -> Floats:
    """Return the first level at which half of the people are reached."""
    reached = np.cumsum(counts, axis=1)
    places = (2 * reached >= reached[:, -1:]).argmax(axis=1).astype(np.float64)
    return np.where(reached[:, -1] > 0, places, np.nan)


_VALUES: Mapping[str, Callable[[Floats], Floats]] = {
    COUNT: lambda counts: counts[:, 0],
    DIFFERENCE: lambda counts: counts[:, 0],
    SHARE: lambda counts: _quotient(counts[:, 0], counts[:, 1]),
    RATIO: lambda counts: _quotient(counts[:, 0], counts[:, 1]),
    ODDS_RATIO: lambda counts: _quotient(counts[:, 0] * counts[:, 1], counts[:, 2] * counts[:, 3]),
    MEDIAN: lambda counts: _median(counts[:, 1:]),
}
"""Each kind of number from its counts (draw, row): above, below, more."""

# Answers and draws as a pandas, polars or Arrow table, as arviz has them, and as R's `posterior` reads them.

BACKENDS: dict[str, Any] = {
    "pandas": nw.Implementation.PANDAS,
    "polars": nw.Implementation.POLARS,
    "pyarrow": nw.Implementation.PYARROW,
}


def frame(columns: Mapping[str, Sequence[Any]], backend: str = "pandas") -> Any:
    """Return columns as a frame of the library that is asked for; it must be installed.

    Examples
    --------
    >>> frame({"query": ["all"], "mean": [256.0]}, "pyarrow").num_rows
    1
    """
    if backend not in BACKENDS:
        raise InferenceError(f"{backend!r} makes no frames here; {did_you_mean(str(backend), BACKENDS)}")
    try:
        made = nw.from_dict({name: list(values) for name, values in columns.items()}, backend=BACKENDS[backend])
        return made.to_native()
    except ImportError:
        raise InferenceError(f"{backend} is not installed; pip install {backend}") from None


def chain_columns(n_chains: int, n_draws: int) -> dict[str, list[int]]:
    """Return which chain each draw is of, and its place in the chain and in all of them: as R's `posterior` has them.

    Examples
    --------
    >>> chain_columns(2, 2)
    {'.chain': [1, 1, 2, 2], '.iteration': [1, 2, 1, 2], '.draw': [1, 2, 3, 4]}
    """
    return {
        ".chain": [chain for chain in range(1, n_chains + 1) for _ in range(n_draws)],
        ".iteration": list(range(1, n_draws + 1)) * n_chains,
        ".draw": list(range(1, n_chains * n_draws + 1)),
    }


def to_arviz(groups: Mapping[str, Any], names: Mapping[str, Sequence[str]], axes: Mapping[str, Sequence[str]]) -> Any:
    """Return draws (chain, draw, ...) as arviz's own object, with names along their other axes; needs ``arviz``."""
    return import_extra("arviz_base", "analysis").from_dict(groups, coords=dict(names), dims=dict(axes))
