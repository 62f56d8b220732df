"""Does the prior fit? Released tables beside those that it would have brought about."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.law import PublicLaw
from congenial.randomness import RandomStream, TreeStreams
from congenial.tree.tree_and_zeros import Tree, TreeTables

if TYPE_CHECKING:
    from congenial.inference.tree.chain import TreeChain

_FEW_UNITS = 30
_MUCH = 0.1  # by so much of itself a figure must be off before it is bad: with many units everything is found to differ
FIGURES = (
    "cells that are zero",
    "units without anybody",
    "spread of totals",
    "people in the largest 1 %",
    "spread of cells",
)
SHARES = frozenset({"cells that are zero", "units without anybody", "people in the largest 1 %"})
"""Those of them that are at most 1."""


@dataclass(frozen=True)
class FitCheck:
    """One figure of the released tables of a level, and the same of replicated releases.

    Attributes
    ----------
    low, mean, high : float
        Over releases of tables that the prior brings about, given the drawn tables of the level above.
    """

    level: str
    figure: str
    released: float
    low: float
    mean: float
    high: float

    @property
    def is_bad(self) -> bool:
        """Whether the release lies outside what the prior brings about, and not by little."""
        gap = abs(self.released - self.mean)
        return not self.low <= self.released <= self.high and gap > _MUCH * max(abs(self.mean), 0.01)

    def __str__(self) -> str:
        return (
            f"{self.level}, {self.figure}: {self.released:.3g} in the release, {self.low:.3g} to {self.high:.3g} in"
            " releases as the prior would have them"
        )


def replicated(law: PublicLaw, release: TreeTables, chain: "TreeChain", rng: RandomStream) -> list[Floats]:
    """Return the figures of a replicated release: for each level, children drawn from the prior and then released."""
    from congenial.inference.tree.kernels_effects_and_normalisers import simulate_children

    figures_of_levels, words = [], TreeStreams.simulated(rng)
    for level, step in enumerate(law.steps, 1):
        counts = np.zeros_like(release[level])
        if len(counts) < _FEW_UNITS:
            figures_of_levels.append(np.full(len(FIGURES), np.nan))
            continue
        chain.simulate(level, counts, simulate_children)
        tree = law.tree
        streams = words.families(
            tree.levels[level], tree.codes[level - 1], release[level - 1], step.families.starts, counts
        )
        figures_of_levels.append(figures(step.draw(counts, release[level - 1], streams)))
    return figures_of_levels


def figures(tables: Ints) -> Floats:
    """Return `FIGURES` of tables (unit, cell).

    Examples
    --------
    >>> figures(np.array([[0, 2], [0, 0], [4, 2]])).round(2).tolist()
    [0.5, 0.33, 0.94, 0.75, 1.06]
    """
    totals = tables.sum(axis=1)
    n_largest = max(1, len(totals) // 100)
    people = max(1, int(totals.sum()))
    return np.array(
        [
            float((tables == 0).mean()),
            float((totals == 0).mean()),
            float(totals.std() / max(totals.mean(), 1e-9)),
            float(np.sort(totals)[-n_largest:].sum() / people),
            float(tables.std(axis=0).sum() / max(tables.mean(axis=0).sum(), 1e-9)),
        ]
    )


def check_fit(tree: Tree, release: TreeTables, replicates: Sequence[Sequence[Floats]]) -> tuple[FitCheck, ...]:
    """Return the release's figures beside those of replicates, for the levels that have enough units."""
    out = []
    for level, name in enumerate(tree.levels[1:]):
        if len(release[level + 1]) < _FEW_UNITS:
            continue
        released_figures, others = figures(release[level + 1]), np.array([levels[level] for levels in replicates])
        for figure, value, line in zip(FIGURES, released_figures.tolist(), others.T, strict=True):
            spread = 2 * float(line.std())  # few replicates: their ends are drawn farther apart
            low = max(0.0, float(line.min()) - spread)  # no figure is negative
            high = min(float(line.max()) + spread, 1.0 if figure in SHARES else inf)
            out.append(FitCheck(name, figure, value, low, float(line.mean()), high))
    return tuple(out)
