"""The law of a release of a tree: the top as any table, then level by level, given what is released above. Public."""

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_codes import texts_of
from congenial.chunks import parts_of
from congenial.conditions.areas import Area
from congenial.errors import HierarchyError
from congenial.hierarchy.exact_rows import ExactSums
from congenial.hierarchy.steps import ChainStep
from congenial.hierarchy.subtree import Subtree
from congenial.hierarchy.tree import Tree, TreeTables
from congenial.hierarchy.zeros import Zeros
from congenial.law import Law
from congenial.noise.family import DiscreteNoise
from congenial.public_law import PublicLaw
from congenial.sampling.share_out.tilts import share_noise

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
            if noise.exponent == 1 and _FAR / coarsest > share_noise(noise).side:
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

    def rehearse(self) -> list[str]:
        """Refuse levels below the top that cannot be drawn, from public facts; say what trials promise."""
        out, variance = [], 1 / float(min(precision for precision in self.top.precisions if precision))
        for step in self.steps:
            out += step.rehearse(sqrt(variance))
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
