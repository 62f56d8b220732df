"""The front door to trees: what is asked for, then disclosed, then planned."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Ints
from congenial.conditions.areas import Area, Areas
from congenial.conditions.condition import Condition, as_list
from congenial.conditions.constraints import Constraints
from congenial.conditions.limits import structural_zeros
from congenial.conditions.queries import cells
from congenial.errors import HierarchyError, PrivacyError
from congenial.exact import positive_fraction
from congenial.noise import FAMILIES
from congenial.noise.base import DiscreteNoise
from congenial.plan import Asked, Plan
from congenial.privacy import check_relation
from congenial.privacy.budget import Budget
from congenial.privacy.tree import (
    checked_shares,
    default_shares,
    fewest_records,
    level_precision,
    refuse_pure,
    total_rho,
)
from congenial.schema import Schema
from congenial.tree.exact_sums import Disclosed, exact_rows, exact_sums, with_those_below
from congenial.tree.plan import ChainLaw, ChainPlan
from congenial.tree.tree import Bars, Tree, Zeros, check_leaves


class Hierarchy:
    """A release of a tree of areas, every cell measured at every level. Public: it has seen no table.

    Parameters
    ----------
    tree : Tree
    schema : Schema
        The cells of a table; each record is counted in one cell of one leaf.
    invariants : iterable of conditions, or mapping from level to such
        What the units at the top obey exactly; or those of each level that is named. Below the top they are sums of
        cells, one inside the other or apart, and what is exact in a level is exact in all levels above it.
    rho, epsilon, delta : exact numbers
        The budget: rho, or epsilon with a delta.
    shares : mapping from level to an exact number, optional
        What each level gets of the budget, in any unit; 0.3 for the lowest and equal parts of the rest if not given.
    precisions : mapping from level to an exact number, optional
        In place of a budget, the precision of each level's cells.
    noise : str
        ``discrete_gaussian`` or ``double_geometric``.
    zeros : Zeros
        What is zero by structure.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.tree.steps import ChainWords
    >>> from congenial.randomness import replay_rng
    >>> tree = Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> hierarchy = Hierarchy(tree, Schema({"sex": ["f", "m"]}), invariants=[total()], rho="1")
    >>> blocks = np.array([[3, 4], [0, 1], [2, 2]])  # confidential
    >>> plan = hierarchy.plan(hierarchy.disclose(blocks))
    >>> plan.certificate.kind, float(plan.certificate.rho)
    ('chain_gaussian', 1.0)
    >>> counties, leaves = plan.draw(blocks, ChainWords.simulated(replay_rng(1)))
    >>> counties.sum(axis=1).tolist(), (counties[0] == leaves[0] + leaves[1]).tolist()
    ([8, 4], [True, True])
    """

    def __init__(
        self,
        tree: Tree,
        schema: Schema,
        *,
        invariants: Iterable[Condition] | Mapping[str, Iterable[Condition]] = (),
        rho: object = None,
        epsilon: object = None,
        delta: object = None,
        shares: Mapping[str, object] | None = None,
        precisions: Mapping[str, object] | None = None,
        noise: str = "discrete_gaussian",
        neighbours: str = "bounded",
        zeros: Zeros | None = None,
    ) -> None:
        check_relation(neighbours)
        if noise not in FAMILIES or not FAMILIES[noise].is_for_release:
            names = [name for name, family in FAMILIES.items() if family.is_for_release]
            raise HierarchyError(f"noise of a tree is one of {', '.join(names)}, not {noise!r}")
        self.tree, self.schema, self.noise, self.neighbours = tree, schema, noise, neighbours
        named = dict(invariants) if isinstance(invariants, Mapping) else {tree.levels[0]: invariants}
        for level in named:
            tree.level_of(level)
        self.invariants_below = {
            level: as_list(named[level], f"invariants of {level}") for level in tree.levels[1:] if level in named
        }
        self.exact_rows = exact_rows(tree.levels[1:], schema, self.invariants_below)
        self.invariants = with_those_below(
            as_list(named.get(tree.levels[0], ()), "invariants"), schema, self.invariants_below
        )
        self.zeros = zeros or Zeros()
        for level, rows in enumerate(self.exact_rows):
            if rows is not None:
                barred = self.zeros.bars[level + 1] if self.zeros.bars else None
                rows.check(int(tree.families[level].sizes.max()), barred)
                if noise != "discrete_gaussian":
                    raise HierarchyError(
                        f"{rows.names} exact in every {rows.level} can be drawn under discrete Gaussian noise only, not"
                        f' {noise}; write noise="discrete_gaussian"'
                    )
        if epsilon is not None and delta is None and rho is None:
            refuse_pure(Budget(epsilon=positive_fraction(epsilon, "epsilon")))
        self.budget = Budget.of(rho=rho, epsilon=epsilon, delta=delta, noise=noise)
        if (self.budget is None) == (precisions is None):
            raise PrivacyError('a tree has a budget, rho="1/2", or the precisions of its levels, and not both')
        if self.budget is not None and self.budget.is_nothing:
            raise PrivacyError("a budget of 0 leaves nothing to release of a tree")
        self.precisions = None if precisions is None else self._by_level(precisions, "precision")
        self.shares = default_shares(len(tree.levels))
        if shares is not None:
            self.shares = checked_shares(self._by_level(shares, "share"), len(tree.levels))

    def _by_level(self, given: Mapping[str, object], what: str) -> tuple[Fraction, ...]:
        for name in given:
            self.tree.level_of(name)
        if missing := [name for name in self.tree.levels if name not in given]:
            raise PrivacyError(f"every level has a {what}, and {missing[0]} has none")
        return tuple(positive_fraction(given[name], f"the {what} of {name}") for name in self.tree.levels)

    def counts_of(self, leaves: ArrayLike) -> Ints:
        """Check confidential tables of leaves (leaf, cell) as they were listed; return them in the tree's order."""
        counts = self.tree.in_order(np.asarray(leaves))
        check_leaves(self.tree, self.schema.n_cells, self.zeros, counts)
        return counts.astype(np.int64, copy=False)

    def disclose(self, leaves: ArrayLike) -> Disclosed:
        """Return what the units obey, with their values: public from here on.

        Parameters
        ----------
        leaves : array (leaf, cell)
            Confidential, in the order of the tree.
        """
        tables = self.tree.summed(np.asarray(leaves, np.int64))
        return Disclosed(self.areas_of(tables[0]), exact_sums(self.exact_rows, tables[1:]))

    def areas_of(self, tables: Ints) -> Areas:
        """Return the same from the tables of the units at the top (unit, cell), confidential or released."""
        codes, level = self.tree.texts(0), self.tree.levels[0]
        zeros = [self._zeros(bar) for bar in self.zeros.bars[0]] if self.zeros.bars else [[]] * len(codes)
        if len(codes) > 1 and (not self.zeros.bars or bool((self.zeros.bars[0] == self.zeros.bars[0][0]).all())):
            named = dict(zip(codes, tables, strict=True))
            return Areas.disclosed(self.schema, [*self.invariants, *zeros[0]], named, name=level)
        found: dict[Area, Constraints] = {}
        for code, counts, own in zip(codes, tables, zeros, strict=True):
            conditions = [*self.invariants, *own]
            found[code if len(codes) > 1 else None] = Constraints.of(self.schema, conditions, counts.tolist())
        return Areas.collected(level if len(codes) > 1 else None, found)

    def _zeros(self, bar: Bars) -> list[Condition]:
        return [structural_zeros(self.schema.labels_of(int(cell))) for cell in np.flatnonzero(bar)]

    def plan(self, disclosed: Disclosed) -> ChainPlan:
        """Return law and certificate: each level as precise as its share of the budget allows."""
        family, areas = FAMILIES[self.noise], disclosed.top
        if self.precisions is not None or self.budget is None:
            top = self._top(areas, None)
            precisions = (self.precisions or ())[1:]
        else:
            top, precisions = self._calibrated(areas, total_rho(self.budget))
        noises = tuple(_discrete(family(precision)) for precision in precisions)
        shares = None if self.precisions is not None else self.shares
        law = ChainLaw(self.tree, top.law, noises, self.zeros, disclosed.below)
        return ChainPlan(law, top, self.budget, shares, self.invariants_below)

    def _calibrated(self, areas: Areas, total: Fraction) -> tuple[Plan, tuple[Fraction, ...]]:
        """Return the top at its share, and the precisions below it: they get what the top has left."""
        family = FAMILIES[self.noise]
        top = self._top(areas, Budget(rho=self.shares[0] * total))
        certificate = top.certificate
        left = (total - (certificate.rho or Fraction(0))) / sum(self.shares[1:])
        is_fixed = _total_is_fixed(top)
        k = fewest_records(certificate, total_is_fixed=is_fixed)
        precisions = (
            level_precision(family.exponent, share * left, self.neighbours, k, total_is_fixed=is_fixed)
            for share in self.shares[1:]
        )
        return top, tuple(min(precision, family.most) for precision in precisions)

    def _top(self, areas: Areas, budget: Budget | None) -> Plan:
        precision = None if self.precisions is None else self.precisions[0]
        asked = Asked(self.schema, self.noise, (cells(precision=precision),), budget, self.neighbours)
        return asked.plan(areas)


def _total_is_fixed(top: Plan) -> bool:
    return all(structure.case.moves.total_is_fixed for structure in top.structures)


def _discrete(noise: object) -> DiscreteNoise:
    if not isinstance(noise, DiscreteNoise):
        raise HierarchyError(f"noise of a tree is on the integers, and {noise} is not")
    return noise
