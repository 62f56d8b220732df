"""What people do today with trees of areas: fit noisy answers from the top down, or release the leaves alone."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from congenial.arrays import Ints
from congenial.baselines.baseline import Label, Problem
from congenial.baselines.simplex import SimplexFit
from congenial.baselines.topdown import TopDown
from congenial.errors import BaselineError
from congenial.hierarchy.plan import ChainPlan
from congenial.hierarchy.tree import Tree, TreeTables
from congenial.hierarchy.zeros import Bars
from congenial.noise.family import DiscreteNoise
from congenial.privacy.chain import level_precision
from congenial.randomness import KeyedWords, RandomStream
from congenial.sampling.share_out.families import Families
from congenial.sampling.share_out.sampler import ShareOut


class TreeBaseline(Protocol):
    """Another way from confidential leaves to released tables, at the loss of a chain's plan."""

    @property
    def label(self) -> Label:
        """What is known of it."""

    def release(self, plan: ChainPlan, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Return the tables of every level, around confidential leaves (leaf, cell) in the order of the tree."""


@dataclass(frozen=True)
class TopDownTree:
    """Noisy cells at every level, fitted from the top down, as the 2020 Census did.

    Every cell of every unit is measured with the chain's own noise, so that both spend the same. The top is fitted
    under its conditions and rounded by the TopDown node. Then the children of every unit: the nonnegative numbers
    nearest to their noisy answers that add up to what is released of the unit, rounded by largest remainder.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.hierarchy.hierarchy import Hierarchy
    >>> from congenial.randomness import replay_rng
    >>> from congenial.schema import Schema
    >>> tree = Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> hierarchy = Hierarchy(tree, Schema({"sex": ["f", "m"]}), invariants=[total()], rho="1")
    >>> blocks = np.array([[3, 4], [0, 1], [2, 2]])
    >>> plan = hierarchy.plan(hierarchy.disclose(blocks))
    >>> counties, leaves = TopDownTree().release(plan, blocks, replay_rng(1))
    >>> counties.sum(axis=1).tolist(), (counties[0] == leaves[0] + leaves[1]).tolist()
    ([8, 4], [True, True])
    """

    label = Label(
        "TopDown",
        is_integer=True,
        keeps_invariants=True,
        privacy="rho of the noise alone for trees that share the invariants' values; otherwise nothing is known",
        law="not available; biased next to limits",
    )

    def release(self, plan: ChainPlan, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Measure every level, fit and round it given the level above."""
        law = plan.law
        tables = law.tree.summed(leaves)
        released = [_fitted_top(plan, tables[0], rng)]
        for step, counts in zip(law.steps, tables[1:], strict=True):
            noise = step.noise.sample(counts.size, rng).astype(np.int64).reshape(counts.shape)
            released.append(SimplexFit.of(step.families, counts + noise, released[-1]).rounded(rng))
        plan.check(released)
        return tuple(released)


def _fitted_top(plan: ChainPlan, tables: Ints, rng: RandomStream) -> Ints:
    law = plan.law.top
    out = np.empty_like(tables)
    for place, area in enumerate(plan.law.areas):
        problem = Problem(law.areas[area], law.measured)
        answers = np.array([query.row.value(tables[place].tolist()) for query in law.measured], np.float64)
        answers += [int(query.noise.sample(1, rng)[0]) for query in law.measured]
        out[place] = TopDown().repair(problem, answers)
    return out


@dataclass(frozen=True)
class LeavesAlone:
    """The leaves at the whole budget, nothing measured above them, and added up.

    Counts are not negative, and the number of records of each unit at the top is kept if it is published; other
    invariants are not.
    """

    label = Label(
        "leaves alone",
        is_integer=True,
        keeps_invariants=False,
        privacy="all trees that share the invariants' values",
        law="known exactly: the conditional law",
    )

    def release(self, plan: ChainPlan, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Draw all leaves under each unit at the top together, or each cell by itself."""
        tree, noise, counts = plan.law.tree, leaf_noise(plan), leaves.reshape(-1, 1)
        bars = plan.law.zeros.bars[-1].reshape(-1, 1) if plan.law.zeros.bars else None
        if not plan.total_is_fixed:
            return tree.summed(_not_negative(noise, counts, bars, rng).reshape(leaves.shape))
        families = Families(_leaves_of_tops(tree) * leaves.shape[1], bars)
        totals = tree.summed(leaves)[0].sum(axis=1, keepdims=True)
        words = KeyedWords(rng.words(4).tobytes(), rng.words(2 * len(totals)).reshape(-1, 2))
        return tree.summed(ShareOut(noise).draw(families, counts, totals, words).reshape(leaves.shape))


def leaf_noise(plan: ChainPlan) -> DiscreteNoise:
    """Return the noise of leaves that alone cost what the whole chain costs."""
    own, certificate = plan.law.noises[-1], plan.certificate
    if certificate.rho is None:
        raise BaselineError("leaves alone are given the rho of a chain, and this one has none")
    is_fixed = plan.total_is_fixed
    precision = level_precision(
        own.exponent, certificate.rho, certificate.neighbours, certificate.k, total_is_fixed=is_fixed
    )
    return type(own)(min(precision, own.most))


def _leaves_of_tops(tree: Tree) -> Ints:
    """Return where the leaves of each unit at the top begin, and where the last ones end."""
    ends = tree.families[0].starts
    for families in tree.families[1:]:
        ends = families.starts[ends]
    return ends


def _not_negative(noise: DiscreteNoise, counts: Ints, bars: Bars | None, rng: RandomStream) -> Ints:
    """Return counts with noise, each drawn again until it is not negative."""
    out = np.full_like(counts, -1)
    if bars is not None:
        out[bars] = 0
    while (places := np.flatnonzero(out < 0)).size:
        out[places, 0] = counts[places, 0] + noise.sample(places.size, rng)
    return out
