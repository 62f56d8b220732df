"""How a tree is released and what that costs, before anything is drawn. Public."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from congenial.arrays import Ints
from congenial.errors import HierarchyError, SamplingError
from congenial.hierarchy.law import ChainLaw, TreeTables
from congenial.hierarchy.leaves import check_leaves
from congenial.hierarchy.words import ChainWords
from congenial.plan import Plan
from congenial.privacy.budget import Budget, Spent, spent
from congenial.privacy.certificate import Certificate
from congenial.privacy.chain import chain_certificate


@dataclass(frozen=True, eq=False)
class ChainPlan:
    """The law of a tree, how its top is drawn, and the certificate of the whole.

    Attributes
    ----------
    top : Plan
        Of the units at the top.
    budget : Budget or None
        What was asked for; None where every precision was given.
    shares : tuple of Fraction or None
        What each level gets of the budget, the top first.
    """

    law: ChainLaw
    top: Plan = field(repr=False)
    budget: Budget | None = None
    shares: tuple[Fraction, ...] | None = None

    def __post_init__(self) -> None:
        if self.top.law is not self.law.top:
            raise HierarchyError("a tree's plan has the plan of its own top")
        if self.top.rows_per_unit != 1:
            raise HierarchyError("a tree of areas is certified for units with one record each")

    @property
    def total_is_fixed(self) -> bool:
        """Whether the number of records is published."""
        return all(structure.case.moves.total_is_fixed for structure in self.top.structures)

    @cached_property
    def certificate(self) -> Certificate:
        """What the release costs at most; raises `PrivacyError` when nothing can be certified."""
        return chain_certificate(
            self.top.certificate,
            self.law.top.noise,
            [noise.precision for noise in self.law.noises],
            total_is_fixed=self.total_is_fixed,
            why=("below the top, rows are the parents' sums: no cell is in two of them, so they are unimodular",),
        )

    @property
    def spent(self) -> Spent:
        """What the release costs, in the budget's currency."""
        return spent(self.certificate, self.budget)

    def rehearse(self) -> list[str]:
        """Draw the top around made-up tables; what is below can be drawn whatever comes out above, or is refused."""
        for step in self.law.steps:
            step.rehearse()
        return self.top.rehearse()

    def draw(self, leaves: Ints, words: ChainWords, *, n_threads: int = 1, always_certain: bool = False) -> TreeTables:
        """Return one release: the tables of every level, around confidential leaves in the order of the tree.

        Parameters
        ----------
        leaves : array (leaf, cell)
            Confidential.
        always_certain : bool
            Whether every decision below the top is made in ball arithmetic: the same tables, slowly.
        """
        check_leaves(self.law.tree, self.law.n_cells, self.law.zeros, leaves)
        tree, tables = self.law.tree, self.law.tree.summed(leaves.astype(np.int64, copy=False))
        released = [self.top.draw(tables[0], words.top(tree.levels[0], tree.codes[0], tables[0]))]
        for level, step in enumerate(self.law.steps):
            starts, counts = step.families.starts, tables[level + 1]
            own = words.families(tree.levels[level + 1], tree.codes[level], released[-1], starts, counts)
            released.append(step.draw(counts, released[-1], own, n_threads=n_threads, always_certain=always_certain))
        self.check(released)
        return tuple(released)

    def check(self, released: Sequence[Ints]) -> None:
        """See that everything adds up and is zero where it must be: a mistake here would be published."""
        is_right = all(int(tables.min(initial=0)) >= 0 for tables in released)
        for families, above, below in zip(self.law.tree.families, released, released[1:], strict=False):
            is_right &= np.array_equal(np.add.reduceat(below, families.starts[:-1], axis=0), above)
        for bar, tables in zip(self.law.zeros.bars, released, strict=False):
            is_right &= not bool(tables[bar].any())
        if not is_right:
            raise SamplingError("internal: drawn tables do not add up; nothing is published, please report this")

    def __repr__(self) -> str:
        return "\n".join([repr(self.law), str(self.certificate)])
