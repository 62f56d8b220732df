"""What a report says of a tree: its levels and their errors. Public."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.adding_up import ClassError, classes
from congenial.bundle.expected_error import by_size
from congenial.bundle.tree_files import level_file
from congenial.hierarchy.plan import ChainPlan
from congenial.hierarchy.words import ChainWords
from congenial.randomness import replay_rng

MOST_NUMBERS = 5_000_000
"""In the tables of a tree, up to which they are drawn once more for the errors to expect."""

_SIZES = (0, 1, 5, 20, 100)


def level_lines(chain: ChainPlan, released: Sequence[Ints]) -> list[tuple[str, ...]]:
    """Return for each level its name, units, file, standard deviation of its noise, share of cells that are 0."""
    law = chain.law
    out: list[tuple[str, ...]] = []
    deviations = [level_deviation(chain, number) for number in range(len(law.tree.levels))]
    for number, (name, tables) in enumerate(zip(law.tree.levels, released, strict=True)):
        file = "table.csv" if number == 0 else level_file(number + 1)
        share = "" if chain.shares is None else f"{float(chain.shares[number]):.0%}"
        out.append((name, f"{len(tables):,}", file, share, f"{deviations[number]:.3g}", f"{(tables == 0).mean():.0%}"))
    return out


def level_deviation(chain: ChainPlan, number: int) -> float:
    """Return the standard deviation of a level's noise, before anything is conditioned on."""
    law = chain.law
    noise = law.top.family(law.top.queries[0].precision) if number == 0 else law.noises[number - 1]
    return sqrt(float(noise.variance))


@dataclass(frozen=True)
class LevelError:
    """What to expect at one level of a tree.

    Attributes
    ----------
    cell, total : float
        Mean absolute error of a unit's cell, and of its total.
    biases : tuple of (str, float)
        Mean error by size of the count.
    classes : tuple of ClassError
    """

    name: str
    cell: float
    total: float
    biases: tuple[tuple[str, float], ...]
    classes: tuple[ClassError, ...]


def level_errors(chain: ChainPlan, released: Sequence[Ints]) -> list[LevelError]:
    """Return the errors to expect at each level, from a chain around the release; none of a tree that is too large.

    The release is drawn around as if it were confidential; what is drawn comes from a public seed.
    """
    law, leaves = chain.law, released[-1]
    if sum(tables.size for tables in released) > MOST_NUMBERS:
        return []
    drawn = chain.draw(leaves, ChainWords.simulated(replay_rng("errors of a tree")))
    out = []
    for name, truth, again in zip(law.tree.levels, released, drawn, strict=True):
        gap = again - truth
        exact = gap.astype(np.float64)
        biases = [(words, float(gap[chosen].mean())) for words, chosen in by_size(truth, _SIZES)]
        total = float(np.abs(gap.sum(axis=1)).mean())
        found = tuple(classes(truth, exact, exact**2))
        out.append(LevelError(name, float(np.abs(gap).mean()), total, tuple(biases), found))
    return out
