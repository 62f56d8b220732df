"""The tree under units whose tables are released: drawn from public structure, confidential leaves and keyed words.

A subtree's tables are a function of these and of nothing else: not of the subtrees drawn beside it, nor of the order,
the chunks, the threads or the machine. So any engine may draw any subtree, and a retry gives the same tables.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from congenial.arrays import Ints
from congenial.hierarchy.exact_rows import ExactSums
from congenial.hierarchy.exact_step import ExactSumsStep
from congenial.hierarchy.steps import ChainStep, ShareOutStep
from congenial.hierarchy.tree import Tree, TreeTables
from congenial.hierarchy.words import ChainWords
from congenial.hierarchy.zeros import Zeros
from congenial.noise.family import DiscreteNoise
from congenial.progress import DRAWING, Progress, no_news
from congenial.resources import n_processors
from congenial.sampling.share_out.families import Families

_TOGETHER = 1 << 17  # children drawn in one go, about: their words and tables take 100 MB


@dataclass(frozen=True, eq=False)
class Subtree:
    """How the levels below some units are drawn, given the units' released tables. Public: it has seen no table.

    Attributes
    ----------
    tree : Tree
        Its top are the units whose tables are released; of a release, the whole tree or any part of it.
    noises : tuple of DiscreteNoise
        The noise of every cell of each level below the top.
    zeros : Zeros
        What is zero by structure in these units.
    exact : tuple of ExactSums or None
        What is exact in the units of each level below the top; empty where nothing is anywhere.

    Examples
    --------
    >>> from congenial.noise import DiscreteGaussian
    >>> from congenial.randomness import replay_rng
    >>> tree = Tree.of_prefixes(["1a", "1b", "2a", "2b"], {"tract": 1}, "block")
    >>> whole = Subtree(tree, (DiscreteGaussian(1),))
    >>> blocks = np.array([[3], [4], [0], [9]])  # confidential
    >>> tracts = np.array([[8], [10]])  # released
    >>> (drawn,) = whole.draw(blocks, tracts, ChainWords.simulated(replay_rng(1)))
    >>> (second,) = whole.under(0, 1, 2).draw(blocks[2:], tracts[1:], ChainWords.simulated(replay_rng(1)))
    >>> drawn[:2].sum(), drawn[2:].sum(), bool((second == drawn[2:]).all())
    (np.int64(8), np.int64(10), True)
    """

    tree: Tree
    noises: tuple[DiscreteNoise, ...]
    zeros: Zeros = field(default_factory=Zeros)
    exact: tuple[ExactSums | None, ...] = ()

    @cached_property
    def steps(self) -> tuple[ChainStep, ...]:
        """How each level below the top is drawn."""
        found: list[ChainStep] = []
        for level, noise in enumerate(self.noises):
            barred = self.zeros.bars[level + 1] if self.zeros.bars else None
            families = Families(self.tree.families[level].starts, barred)
            exact = self.exact[level] if self.exact else None
            found.append(ShareOutStep(families, noise) if exact is None else ExactSumsStep(families, noise, exact))
        return tuple(found)

    def under(self, level: int, first: int, end: int) -> "Subtree":
        """Return the part under some units of a level that stand together: they are its top."""
        bars, exact = [], []
        start, stop = first, end
        for below in range(level, len(self.tree.levels)):
            if self.zeros.bars:
                bars.append(self.zeros.bars[below][start:stop])
            if self.exact and below > level:
                own = self.exact[below - 1]
                exact.append(None if own is None else own.part(start, stop))
            if below < len(self.tree.levels) - 1:
                start, stop = self.tree.families[below].starts[[start, stop]].tolist()
        return Subtree(self.tree.under(level, first, end), self.noises[level:], Zeros(tuple(bars)), tuple(exact))

    def draw(
        self,
        leaves: Ints,
        released: Ints,
        words: ChainWords,
        *,
        n_threads: int | None = None,
        always_certain: bool = False,
        progress: Progress = no_news,
    ) -> TreeTables:
        """Return the drawn tables of every level below the top.

        Parameters
        ----------
        leaves : array (leaf, cell)
            Confidential, in the order of the tree.
        released : array (unit, cell)
            The released tables of the units at the top.
        words : ChainWords
            Of the release: each family takes its own.
        n_threads : int, optional
            As many as this process has processors if not given.
        always_certain : bool
            Whether every decision is made in ball arithmetic: the same tables, slowly.
        progress : Progress
            Is told how many units are drawn, those at the top included.
        """
        n_threads = n_threads or n_processors()
        tables = self.tree.summed(leaves.astype(np.int64, copy=False))
        out = [released]
        n_done, n_units = len(released), sum(map(len, tables))
        progress(DRAWING, n_done, n_units)
        with ThreadPoolExecutor(n_threads) as pool:
            for level, step in enumerate(self.steps):
                drawn = np.empty(tables[level + 1].shape, np.int64)
                drawing = _Drawing(self, level, tables[level + 1], out[-1], words, always_certain, drawn)
                for n_children in pool.map(drawing.run, _spans(step.families.starts, n_threads)):
                    n_done += n_children
                    progress(DRAWING, n_done, n_units)
                out.append(drawn)
        return tuple(out[1:])


@dataclass(frozen=True, eq=False)
class _Drawing:
    """A level that is being drawn, some families at a time. Confidential."""

    subtree: Subtree
    level: int
    counts: Ints
    above: Ints
    words: ChainWords
    always_certain: bool
    out: Ints

    def run(self, span: tuple[int, int]) -> int:
        """Draw the children of a run of families, and return how many there are."""
        (first, end), tree, step = span, self.subtree.tree, self.subtree.steps[self.level]
        start, stop = step.families.starts[[first, end]].tolist()
        own, above, part = self.counts[start:stop], self.above[first:end], step.part(first, end)
        codes, name = tree.codes[self.level][first:end], tree.levels[self.level + 1]
        words = self.words.families(name, codes, above, part.families.starts, own)
        self.out[start:stop] = part.draw(own, above, words, always_certain=self.always_certain)
        return int(stop - start)


def _spans(starts: Ints, n_threads: int) -> Iterator[tuple[int, int]]:
    """Cut families into runs of about as many children; how they are cut changes no draw."""
    n_children = int(starts[-1])
    together = max(1, min(_TOGETHER, -(-n_children // n_threads)))
    edges = np.searchsorted(starts, np.arange(together, n_children, together))
    cuts = np.unique([0, *edges.tolist(), len(starts) - 1]).tolist()
    return pairwise(cuts)
