"""What a report says of a tree: its levels and their errors. Public."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from congenial.arrays import Ints
from congenial.bundle.adding_up import classes
from congenial.bundle.expected_error import by_size
from congenial.bundle.tree_files import level_file
from congenial.hierarchy.plan import ChainPlan
from congenial.hierarchy.words import ChainWords
from congenial.randomness import replay_rng

_MOST_NUMBERS = 5_000_000  # redrawn for the errors
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


def level_errors(chain: ChainPlan, released: Sequence[Ints]) -> list[dict[str, Any]]:
    """Return mean absolute errors to expect at each level, and the bias by size, from a chain around the release.

    The release is drawn around as if it were confidential; what is drawn comes from a public seed.
    """
    law, leaves = chain.law, released[-1]
    if sum(tables.size for tables in released) > _MOST_NUMBERS:
        return []
    drawn = chain.draw(leaves, ChainWords.simulated(replay_rng("errors of a tree")))
    out: list[dict[str, Any]] = []
    for name, truth, again in zip(law.tree.levels, released, drawn, strict=True):
        gap = again - truth
        sizes = [
            (words, f"{int(chosen.sum()):,}", f"{gap[chosen].mean():+,.2f}") for words, chosen in by_size(truth, _SIZES)
        ]
        out.append(
            {
                "name": name,
                "cell": f"{np.abs(gap).mean():,.2f}",
                "total": f"{np.abs(gap.sum(axis=1)).mean():,.2f}",
                "sizes": sizes,
                "classes": classes(truth, gap.astype(np.float64), gap.astype(np.float64) ** 2),
            }
        )
    return out
