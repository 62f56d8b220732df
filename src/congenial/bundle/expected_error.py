"""How large the error of a released number is expected to be: from the published law, around a public table."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.queries import margin
from congenial.conditions.rows import dense
from congenial.law import Law
from congenial.public_law import Area, PublicLaw
from congenial.randomness import replay_rng

# Draws, not exact moments: 46 cells and 25 margins take 0.1 s so, and 2 s one marginal law at a time. The standard
# error of what is shown is below one percent from 5,000 draws on.
_MOST_DRAWS = 20_000
_FEWEST_DRAWS = 1_000
_NUMBERS = 2_000_000
_MOST_MARGINS = 60


@dataclass(frozen=True)
class ExpectedError:
    """Root mean squared error of statistics of one table, if the confidential table were the reference.

    Attributes
    ----------
    reference : str
        Which public table stands in for the confidential one.
    cells : array (cell,)
        Zero where the invariants determine the cell.
    margins : tuple of (text, error)
        Sums over each level of each dimension.
    """

    reference: str
    area: Area
    cells: Floats
    margins: tuple[tuple[str, float], ...]


def expected_error(law: PublicLaw, area: Area, centre: Ints, reference: str) -> ExpectedError:
    """Return the errors of cells and one-way margins around a public table of one area, from repeatable draws."""
    n_draws = int(np.clip(_NUMBERS // law.schema.n_cells, _FEWEST_DRAWS, _MOST_DRAWS))
    gaps = Law(law.target(area, centre)).sample(n_draws, replay_rng("expected error")) - centre
    rows = [row for name in law.schema.names for row in margin(name).rows(law.schema)]
    chosen = rows if len(rows) <= _MOST_MARGINS and len(law.schema.names) > 1 else []
    sums = gaps @ dense(chosen, law.schema.n_cells).T
    names = [row.name for row in chosen]
    return ExpectedError(reference, area, _size(gaps), tuple(zip(names, _size(sums).tolist(), strict=True)))


def _size(gaps: Ints) -> Floats:
    return np.asarray(np.sqrt((gaps.astype(np.float64) ** 2).mean(axis=0)))


def typical_areas(tables: Mapping[Area, Ints]) -> list[Area]:
    """Return the area itself, or of several the smallest, the median and the largest released table."""
    ranked = sorted(tables, key=lambda area: int(tables[area].sum()))
    picked = [ranked[0], ranked[len(ranked) // 2], ranked[-1]] if len(ranked) > 3 else ranked
    return list(dict.fromkeys(picked))
