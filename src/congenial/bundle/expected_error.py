"""How large the error of a released number is expected to be: from the published law, around a public table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from congenial.bundle.published import Area, PublishedLaw
from congenial.conditions.queries import margin
from congenial.conditions.rows import Row
from congenial.law import Law

Ints = NDArray[np.int64]

_MOST_CELLS = 400  # beyond, cells are not gone through one by one
_MOST_MARGINS = 60


@dataclass(frozen=True)
class ExpectedError:
    """Root mean squared error of statistics of one table, if the confidential table were the reference.

    Attributes
    ----------
    reference : str
        Which public table stands in for the confidential one.
    cells : array (cell,)
        Zero where the invariants determine the cell; empty for tables with very many cells.
    margins : tuple of (text, error)
        Sums over each level of each dimension.
    """

    reference: str
    area: Area
    cells: NDArray[np.float64]
    margins: tuple[tuple[str, float], ...]


def expected_error(law: PublishedLaw, area: Area, centre: Ints, reference: str) -> ExpectedError:
    """Return the errors of cells and one-way margins around a public table of one area."""
    exact = Law(law.target(area, centre))
    cells = np.zeros(0)
    if law.schema.n_cells <= _MOST_CELLS:
        cells = np.sqrt(exact.variance() + (exact.mean() - centre) ** 2)
    rows = [row for name in law.schema.names for row in margin(name).rows(law.schema)]
    chosen: Sequence[Row] = rows if len(rows) <= _MOST_MARGINS and len(law.schema.names) > 1 else ()
    margins = tuple((row.name, _error(exact, row, centre)) for row in chosen)
    return ExpectedError(reference, area, cells, margins)


def _error(exact: Law, row: Row, centre: Ints) -> float:
    found = exact.marginal_of(row)
    return sqrt(found.variance + (found.mean - row.value(centre.tolist())) ** 2)


def typical_areas(tables: Mapping[Area, Ints]) -> list[Area]:
    """Return the area itself, or of several the smallest, the median and the largest released table."""
    ranked = sorted(tables, key=lambda area: int(tables[area].sum()))
    picked = [ranked[0], ranked[len(ranked) // 2], ranked[-1]] if len(ranked) > 3 else ranked
    return list(dict.fromkeys(picked))
