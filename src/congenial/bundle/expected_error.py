"""How large the error of a released number is expected to be: from the published law, around a public table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.areas import Area
from congenial.conditions.queries import margin
from congenial.conditions.rows import Row, dense
from congenial.plan import Plan
from congenial.public_law import PublicLaw
from congenial.randomness import replay_rng
from congenial.sampling.exact_errors import exact_errors
from congenial.sampling.system import System

# Draws are for what has no quick exact answer: their standard error is below one percent from 5,000 on, and the kernels
# that draw take longer to load (1 s) than the exact moments of 46 cells and 25 margins to compute (0.05 s).
NO_ERROR = 1e-6
"""Below it a number is exact, and what is left is of floating point."""

_MOST_DRAWS = 20_000
_FEWEST_DRAWS = 1_000
_FEWEST_SLOW_DRAWS, _SECONDS = 50, 10.0  # a tenth off, where more would take long
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
    """Return the errors of cells and one-way margins around a public table of one area."""
    schema = plan.law.schema
    rows = [row for name in schema.names for row in margin(name).rows(schema)]
    chosen = rows if len(rows) <= _MOST_MARGINS and len(schema.names) > 1 else []
    system = System.of(plan.law.areas[area], plan.law.measured)
    cells = [Row(schema.cell_name(cell), (cell,), (1,)) for cell in range(schema.n_cells)]
    found = exact_errors(system, centre, [*cells, *chosen])
    errors = _drawn_errors(plan, area, centre, chosen) if found is None else found.size
    own, of_margins = errors[: schema.n_cells], errors[schema.n_cells :].tolist()
    return ExpectedError(reference, area, own, tuple(zip((row.name for row in chosen), of_margins, strict=True)))


def quick_errors(law: PublicLaw, area: Area, centre: Ints) -> Floats | None:
    """Return the errors of single cells around a public table of one area; None where draws would be needed."""
    schema = law.schema
    cells = [Row(schema.cell_name(cell), (cell,), (1,)) for cell in range(schema.n_cells)]
    found = exact_errors(System.of(law.areas[area], law.measured), centre, cells)
    return None if found is None else found.size


def _drawn_errors(plan: Plan, area: Area, centre: Ints, rows: Sequence[Row]) -> Floats:
    """Estimate the errors of cells and rows from repeatable draws."""
    n_cells = plan.law.schema.n_cells
    sampler = plan.sampler_of(area)
    n_draws = int(np.clip(_NUMBERS // n_cells, _FEWEST_DRAWS, _MOST_DRAWS))
    n_draws = max(_FEWEST_SLOW_DRAWS, min(n_draws, int(_SECONDS / sampler.seconds)))
    gaps = sampler.at(centre).sample(n_draws, replay_rng("expected error")) - centre
    return np.concatenate([_size(gaps), _size(gaps @ dense(rows, n_cells).T)])


def _size(gaps: Ints) -> Floats:
    return np.asarray(np.sqrt((gaps.astype(np.float64) ** 2).mean(axis=0)))


def by_size(counts: Ints, edges: Sequence[int]) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Go through the classes of counts that occur, each in words and with the counts that are in it.

    Examples
    --------
    >>> [(words, mask.tolist()) for words, mask in by_size(np.array([0, 3, 2]), (0, 1, 5, 20))]
    [('0', [True, False, False]), ('1 to 4', [False, True, True])]
    """
    for low, high in size_classes(edges):
        chosen = (counts >= low) if high is None else (counts >= low) & (counts < high)
        if chosen.any():
            yield class_text(low, high), chosen


def size_classes(edges: Sequence[int]) -> list[tuple[int, int | None]]:
    """Return where each class of counts begins and what it stays below; the last has no end."""
    return list(zip(edges, [*edges[1:], None], strict=True))


def class_text(low: int, high: int | None) -> str:
    """Return a class of counts in words."""
    if high is None:
        return f"{low:,} or more"
    return f"{low:,}" if high == low + 1 else f"{low:,} to {high - 1:,}"


def typical_places(sizes: Ints) -> list[int]:
    """Return where the smallest, the median and the largest of some tables stand, by size; of three or fewer, all."""
    ranked = np.argsort(sizes, kind="stable").tolist()
    return [ranked[0], ranked[len(ranked) // 2], ranked[-1]] if len(ranked) > 3 else ranked
