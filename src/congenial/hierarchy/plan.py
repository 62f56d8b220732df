"""How a tree is released and what that costs, before anything is drawn. Public."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.condition import Condition
from congenial.errors import HierarchyError, PrivacyError, SamplingError
from congenial.hierarchy.law import ChainLaw
from congenial.hierarchy.leaves import check_leaves
from congenial.hierarchy.tree import TreeTables
from congenial.hierarchy.words import ChainWords
from congenial.plan import Plan
from congenial.privacy.budget import Budget, Spent, spent
from congenial.privacy.certificate import Certificate
from congenial.privacy.chain import chain_certificate
from congenial.progress import REHEARSING, Progress, no_news


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
    invariants_below : mapping from level to conditions
        What was stated to be exact in every unit of levels below the top.
    """

    law: ChainLaw
    top: Plan = field(repr=False)
    budget: Budget | None = None
    shares: tuple[Fraction, ...] | None = None
    invariants_below: Mapping[str, tuple[Condition, ...]] = field(default_factory=dict)

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
        self._check_single_records()
        return chain_certificate(
            self.top.certificate,
            self.law.top.noise,
            [noise.precision for noise in self.law.noises],
            total_is_fixed=self.total_is_fixed,
            why=self._why,
        )

    def _check_single_records(self) -> None:
        """Refuse exact numbers that no change of one record keeps: charges are for one record (hierarchy.md, 2)."""
        if not self.law.exact or self._can_change_leaf():
            return
        if not any(structure.case.neighbourhood.has_cells_alike for structure in self.top.structures):
            raise PrivacyError(
                "no certificate: the exact numbers of all levels together leave no cell and no leaf that one record"
                " could change into; leave out some of them"
            )

    def _can_change_leaf(self) -> bool:
        """Whether a record of some cell can change its leaf: two leaves that may have it, inside one exact number."""
        tree, bars = self.law.tree, self.law.zeros.bars
        for cell in range(self.law.n_cells):
            units = np.arange(tree.n_leaves)
            for level in range(len(self.law.exact) - 1, -1, -1):
                exact = self.law.exact[level]
                if exact is not None and any(cell in row.cells for row in exact.rows.rows):
                    break
                units = tree.parents[level][units]
            is_open = np.ones(tree.n_leaves, np.bool_) if not bars else ~bars[-1][:, cell]
            if np.bincount(units[is_open], minlength=1).max() > 1:
                return True
        return False

    @property
    def _why(self) -> tuple[str, ...]:
        """What was proven of the rows of each step."""
        if not self.law.exact:
            return ("below the top, rows are the parents' sums: no cell is in two of them, so they are unimodular",)
        found = []
        for name, exact in zip(self.law.tree.levels[1:], self.law.exact, strict=True):
            own = "rows are the parents' sums, and no cell is in two of them"
            if exact is not None:
                own = f"{exact.rows.names} exact in every unit; {exact.rows.certified(2).why}"
            found.append(f"{name}: {own}")
        return tuple(found)

    @property
    def not_protected_text(self) -> list[str]:
        """What the published numbers give away by themselves, in sentences."""
        out = list(self.top.not_protected_text)
        out += [
            f"{condition.title}, of every {level}, and whatever follows from it"
            for level, conditions in self.invariants_below.items()
            for condition in conditions
        ]
        pinned = [
            name
            for name, exact in zip(self.law.tree.levels[1:], self.law.exact, strict=False)
            if exact is not None and all(part.is_held for part in exact.rows.parts)
        ]
        if pinned:
            out.append(f"{', '.join(pinned)}: not protected, no change of one record alters its {pinned[-1]}")
        return out

    @property
    def spent(self) -> Spent:
        """What the release costs, in the budget's currency."""
        return spent(self.certificate, self.budget)

    def rehearse(self, progress: Progress = no_news) -> list[str]:
        """Draw around made-up tables: what cannot be drawn, whatever comes out above, is refused here."""
        if self.law.exact:
            progress(REHEARSING)
        found = self.law.rehearse()
        return self.top.rehearse(progress) + found

    def draw(
        self,
        leaves: Ints,
        words: ChainWords,
        *,
        n_threads: int | None = None,
        always_certain: bool = False,
        progress: Progress = no_news,
    ) -> TreeTables:
        """Return one release: the tables of every level, around confidential leaves in the order of the tree.

        Parameters
        ----------
        leaves : array (leaf, cell)
            Confidential.
        n_threads : int, optional
            As many as this process has processors if not given. How many there are changes no table.
        always_certain : bool
            Whether every decision below the top is made in ball arithmetic: the same tables, slowly.
        progress : Progress
            Is told how many units are drawn, level by level.
        """
        check_leaves(self.law.tree, self.law.n_cells, self.law.zeros, leaves)
        tree, tables = self.law.tree, self.law.tree.summed(leaves.astype(np.int64, copy=False))
        top = self.top.draw(tables[0], words.top(tree.levels[0], tree.codes[0], tables[0]))
        released = (
            top,
            *self.law.below.draw(
                leaves, top, words, n_threads=n_threads, always_certain=always_certain, progress=progress
            ),
        )
        self.check(released)
        return released

    def check(self, released: Sequence[Ints]) -> None:
        """See that everything adds up and is zero where it must be: a mistake here would be published."""
        is_right = all(int(tables.min(initial=0)) >= 0 for tables in released)
        is_right &= all(
            exact is None or exact.hold(tables) for exact, tables in zip(self.law.exact, released[1:], strict=False)
        )
        for families, above, below in zip(self.law.tree.families, released, released[1:], strict=False):
            is_right &= np.array_equal(np.add.reduceat(below, families.starts[:-1], axis=0), above)
        for bar, tables in zip(self.law.zeros.bars, released, strict=False):
            is_right &= not bool(tables[bar].any())
        if not is_right:
            raise SamplingError("internal: drawn tables do not add up; nothing is published, please report this")

    def __repr__(self) -> str:
        return "\n".join([repr(self.law), str(self.certificate)])
