"""The law of a release of a tree: the top as any table, then level by level, given what is released above. Public."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow import CodeTexts, texts_of
from congenial.conditions.areas import Area, Group
from congenial.conditions.condition import Condition
from congenial.conditions.constraints import Constraints
from congenial.conditions.queries import margin
from congenial.conditions.rows import NONNEGATIVE, POINT_ZERO, Limited
from congenial.errors import HierarchyError, PrivacyError, SamplingError
from congenial.law import Law, PublicLaw
from congenial.noise.base import DiscreteNoise
from congenial.plan import Plan
from congenial.privacy.budget import Budget, Spent, spent
from congenial.privacy.certificate import Certificate
from congenial.privacy.disclosure import Review, review, reviewed, with_differences
from congenial.privacy.tree import chain_certificate
from congenial.progress import REHEARSING, Progress, no_news
from congenial.resources import parts_of
from congenial.sampling.allocation.tilts import level_noise
from congenial.tree.exact_sums import ExactSums
from congenial.tree.steps import ChainStep, ChainWords, Subtree
from congenial.tree.tree import Tree, TreeTables, Zeros, check_leaves

_FAR = 100  # linear noise goes farther than so many times 1 / precision with probability exp(-100)


@dataclass(frozen=True, eq=False)
class ChainLaw:
    """Everything about a tree's distribution but the confidential leaves.

    The children of a unit with released table x have weights ``prod f(y - s)`` on the nonnegative tables that add up to
    x and have the exact sums of their level, around their confidential tables s, which need not add up to x themselves.

    Attributes
    ----------
    top : PublicLaw
        The law of the units at the top, every cell measured.
    noises : tuple of DiscreteNoise
        The noise of every cell of each level below.
    exact : tuple of ExactSums or None
        What is exact in the units of each level below; empty where nothing is anywhere.
    """

    tree: Tree
    top: PublicLaw
    noises: tuple[DiscreteNoise, ...]
    zeros: Zeros = field(default_factory=Zeros)
    exact: tuple[ExactSums | None, ...] = ()

    def __post_init__(self) -> None:
        below = self.tree.levels[1:]
        if len(self.noises) != len(below):
            raise HierarchyError(f"{len(below)} levels below the top have a noise each, not {len(self.noises)}")
        if self.exact and len(self.exact) != len(below):
            raise HierarchyError(f"exact numbers are said for {len(below)} levels below the top, not {len(self.exact)}")
        if len(self.top.areas) != len(self.tree.codes[0]):
            raise HierarchyError(
                f"the tree has {len(self.tree.codes[0])} units at the top, and the law of the top {len(self.top.areas)}"
            )
        if any(
            (limit.low is None or limit.low < 0) for group in self.top.areas.groups for limit in group.pattern.limits
        ):
            raise HierarchyError(
                "cells at the top of a tree are not negative: what is below zero cannot be shared out among counts;"
                " leave out bounds() that allow it"
            )
        self._check_reach()
        if self.zeros.bars:
            # A cell that no child can have must be zero above, or the table there could not be shared out.
            for area, bar in zip(self.areas, self.zeros.bars[0], strict=True):
                limits = self.top.areas[area].limits
                if any((limits[cell].low, limits[cell].high) != (0, 0) for cell in np.flatnonzero(bar)):
                    raise HierarchyError("a cell that is barred in every part of a unit at the top is not zero there")

    def _check_reach(self) -> None:
        """Refuse linear noise that is much coarser above than below: sums that it brings about are hardly ever drawn.

        Squared noise has no such limit: its centres can be moved as far as need be.
        """
        coarsest = min(precision for precision in self.top.precisions if precision)
        for name, noise in zip(self.tree.levels[1:], self.noises, strict=True):
            if noise.exponent == 1 and _FAR / coarsest > level_noise(noise).side:
                raise HierarchyError(
                    f"{noise.title} noise of precision {float(coarsest):.3g} above {name} is too coarse to be shared"
                    f" out at precision {float(noise.precision):.3g}: give levels shares that are nearer to each other,"
                    ' or use noise="discrete_gaussian"'
                )
            coarsest = min(coarsest, noise.precision)

    @property
    def areas(self) -> tuple[Area, ...]:
        """The units at the top, as the law of the top names them."""
        return self.top.areas.labels

    @property
    def n_cells(self) -> int:
        """The number of cells of a table."""
        return self.top.schema.n_cells

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the tree: levels, codes of all units, whose parts they are, zeros, and exact numbers."""
        state = hashlib.sha256("\0".join(self.tree.levels).encode())
        for codes in self.tree.codes:
            state.update(len(codes).to_bytes(8, "little"))
            for part in parts_of(len(codes)):
                state.update("\0".join([*([""] if part.start else []), *texts_of(codes[part])]).encode())
        for parents in self.tree.parents:
            state.update(np.ascontiguousarray(parents, "<i8").data)
        for bar in self.zeros.bars[-1:]:
            state.update(np.packbits(bar, axis=None).data)
        for exact in self.exact:
            if exact is not None:
                state.update(np.ascontiguousarray(exact.values, "<i8").data)
        return state.hexdigest()

    @cached_property
    def below(self) -> Subtree:
        """How everything below the top is drawn."""
        return Subtree(self.tree, self.noises, self.zeros, self.exact)

    @property
    def steps(self) -> tuple[ChainStep, ...]:
        """How each level below the top is drawn."""
        return self.below.steps

    def dry_run(self) -> list[str]:
        """Refuse levels below the top that cannot be drawn, from public facts; say what trials promise."""
        out, variance = [], 1 / float(min(precision for precision in self.top.precisions if precision))
        for step in self.steps:
            out += step.dry_run(sqrt(variance))
            variance += 1 / float(step.noise.precision)
        return out

    def log_probability(self, leaves: Ints, release: TreeTables) -> float:
        """Return the log probability of a release around confidential leaves (leaf, cell), both in the tree's order.

        It adds up over the units at the top and over families: exactly but for rounding, by messages at the top and by
        convolution below. Confidential.
        """
        tables = self.tree.summed(leaves)
        total = 0.0
        for place, area in enumerate(self.areas):
            total += float(Law(self.top, tables[0][place], area).log_probability(release[0][place : place + 1])[0])
        for level, step in enumerate(self.steps):
            if total == -np.inf:
                break
            total += float(step.log_probabilities(tables[level + 1], release[level], release[level + 1]).sum())
        return total

    def __repr__(self) -> str:
        noises = ", ".join(
            f"{name} at precision {noise.precision}"
            for name, noise in zip(self.tree.levels[1:], self.noises, strict=True)
        )
        return f"{self.tree}; {self.tree.levels[0]}: {self.top}; {noises}"


# How a tree is released and what that costs, before anything is drawn. Public.


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

    def dry_run(self, progress: Progress = no_news) -> list[str]:
        """Draw around made-up tables: what cannot be drawn, whatever comes out above, is refused here."""
        if self.law.exact:
            progress(REHEARSING)
        found = self.law.dry_run()
        return self.top.dry_run(progress) + found

    def draw(
        self,
        leaves: Ints,
        words: ChainWords,
        *,
        n_threads: int | None = None,
        always_refined: bool = False,
        progress: Progress = no_news,
    ) -> TreeTables:
        """Return one release: the tables of every level, around confidential leaves in the order of the tree.

        Parameters
        ----------
        leaves : array (leaf, cell)
            Confidential.
        n_threads : int, optional
            As many as this process has processors if not given. How many there are changes no table.
        always_refined : bool
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
                leaves, top, words, n_threads=n_threads, always_refined=always_refined, progress=progress
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


# What the exact numbers of a tree give away, level by level.
#
# Each level is looked at by its own exact numbers, and by the cells that are 0 above it: where a county has nobody,
# none of its blocks has. What siblings say of each other beyond that is not looked for.

Flags = NDArray[np.bool_]


def reviews_of(plan: Plan | ChainPlan, conditions: Sequence[Condition]) -> tuple[Review, ...]:
    """Look at everything that a plan releases: one table, or one for each area; of a tree, level by level."""
    if isinstance(plan, ChainPlan):
        return review_tree(plan.law, conditions)
    return (review(plan.law.areas, conditions),)


def review_tree(law: ChainLaw, conditions: Sequence[Condition]) -> tuple[Review, ...]:
    """Look at every unit of every level, the top first.

    Parameters
    ----------
    conditions : sequence of Condition
        What the units at the top obey, as it was stated.

    Examples
    --------
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), invariants={"block": [cg.total()]}, rho="1")
    >>> plan = hierarchy.plan(hierarchy.disclose(hierarchy.counts_of([[3, 4], [0, 0], [0, 1]])))
    >>> for level in review_tree(plan.law, hierarchy.invariants):
    ...     print(level.counted.area, level.counted.n_exact, [(one.n_zero, one.n_one) for one in level.counted.sums])
    county 0 [(0, 1)]
    block 2 [(1, 1)]
    """
    tree = law.tree
    top = review(law.top.areas, conditions)
    barred = law.zeros.bars[0] if law.zeros.bars else np.zeros((len(law.areas), law.n_cells), np.bool_)
    out, zero = [top], _zeros(top, law.n_cells) | barred
    for level, parents in enumerate(tree.parents, 1):
        barred = law.zeros.bars[level] if law.zeros.bars else np.zeros((len(parents), law.n_cells), np.bool_)
        exact = law.exact[level - 1] if law.exact else None
        groups = list(_groups(law, exact, zero[parents] | barred, barred))
        stated = () if exact is None else exact.rows.rows
        schema = law.top.schema
        others = [row for name in schema.names for row in margin(name).rows(schema)]
        found = reviewed(
            tree.levels[level], CodeTexts(tree.codes[level]), groups, with_differences(schema, stated, others)
        )
        out.append(found)
        zero = _zeros(found, law.n_cells) | barred
    return tuple(out)


def _groups(law: ChainLaw, exact: ExactSums | None, zero: Flags, barred: Flags) -> Iterator[tuple[Group, Flags]]:
    """Go through the units of a level that have the same cells at 0 by structure and from above."""
    first, which = _patterns(zero, barred)
    n_units = len(zero)
    values = np.zeros((n_units, 0), np.int64) if exact is None else exact.values
    rows = () if exact is None else exact.rows.rows
    for number, one in enumerate(first.tolist()):
        places = np.flatnonzero(which == number)
        limits = tuple(POINT_ZERO if is_zero else NONNEGATIVE for is_zero in zero[one].tolist())
        stated = tuple(Limited.equal(row, int(value)) for row, value in zip(rows, values[one].tolist(), strict=True))
        yield Group(Constraints(law.top.schema, stated, limits), places, values[places]), barred[one]


def _patterns(zero: Flags, barred: Flags) -> tuple[Ints, Ints]:
    """Return a unit of each pattern of zeros, and which pattern every unit has."""
    keys = np.packbits(np.hstack([zero, barred]), axis=1)
    if bool((keys == keys[0]).all()):  # nothing is zero anywhere, as a rule
        return np.zeros(1, np.int64), np.zeros(len(keys), np.int64)
    _, first, which = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, which.reshape(-1)


def _zeros(found: Review, n_cells: int) -> Flags:
    """Return which cells of each unit are known to be 0 (unit, cell)."""
    out = np.zeros((len(found.labels), n_cells), np.bool_)
    for one in found.kinds:
        out[one.places] = (one.found.is_known & (one.found.values == 0))[one.which]
    return out
