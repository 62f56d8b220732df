"""How large the error of a released number is expected to be: from the published law, around a public table."""

from dataclasses import dataclass

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.areas import Area
from congenial.conditions.queries import margin
from congenial.conditions.rows import dense
from congenial.plan import Plan
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


def expected_error(plan: Plan, area: Area, centre: Ints, reference: str) -> ExpectedError:
    """Return the errors of cells and one-way margins around a public table of one area, from repeatable draws."""
    schema = plan.law.schema
    n_draws = int(np.clip(_NUMBERS // schema.n_cells, _FEWEST_DRAWS, _MOST_DRAWS))
    gaps = plan.sampler_of(area).at(centre).sample(n_draws, replay_rng("expected error")) - centre
    rows = [row for name in schema.names for row in margin(name).rows(schema)]
    chosen = rows if len(rows) <= _MOST_MARGINS and len(schema.names) > 1 else []
    sums = gaps @ dense(chosen, schema.n_cells).T
    names = [row.name for row in chosen]
    return ExpectedError(reference, area, _size(gaps), tuple(zip(names, _size(sums).tolist(), strict=True)))


def _size(gaps: Ints) -> Floats:
    return np.asarray(np.sqrt((gaps.astype(np.float64) ** 2).mean(axis=0)))


def typical_places(sizes: Ints) -> list[int]:
    """Return where the smallest, the median and the largest of some tables stand, by size; of three or fewer, all."""
    ranked = np.argsort(sizes, kind="stable").tolist()
    return [ranked[0], ranked[len(ranked) // 2], ranked[-1]] if len(ranked) > 3 else ranked
