"""The tree of a law as plain values, for a manifest; codes of units and structural zeros stand in spine.parquet."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from congenial.bundle.canonical import read_as
from congenial.conditions.condition import Condition
from congenial.conditions.kinds import from_json as condition_of_json
from congenial.errors import BundleError, PrivacyError
from congenial.fraction import exact_fraction
from congenial.hierarchy.disclosed import exact_rows
from congenial.hierarchy.exact_rows import ExactRows, ExactSums
from congenial.hierarchy.law import ChainLaw
from congenial.hierarchy.plan import ChainPlan
from congenial.hierarchy.tree import Tree
from congenial.hierarchy.zeros import Zeros
from congenial.noise import FAMILIES
from congenial.noise.family import DiscreteNoise
from congenial.plan import Plan
from congenial.privacy.budget import Budget
from congenial.privacy.chain import total_rho
from congenial.schema import Schema

TreeParts = tuple[Tree, Zeros, tuple[ExactSums | None, ...]]
"""What a manifest does not hold of a tree: the tree itself, structural zeros, and exact numbers below the top."""


def tree_as_json(plan: ChainPlan) -> dict[str, Any]:
    """Return levels from the top down: units, shares of the budget, and the noise of those below the top."""
    law = plan.law
    noises = [None, *law.noises]
    shares = [None] * len(noises) if plan.shares is None else [str(share) for share in plan.shares]
    return {
        "levels": [
            {
                "name": name,
                "units": len(codes),
                "share": share,
                "precision": None if noise is None else str(noise.precision),
                "base": None if noise is None else str(noise.base),
                "exact": [
                    {"text": condition.title, **condition.as_json()}
                    for condition in plan.invariants_below.get(name, ())
                ],
            }
            for name, codes, share, noise in zip(law.tree.levels, law.tree.codes, shares, noises, strict=True)
        ],
        "digest": law.digest,
    }


@dataclass(frozen=True)
class StatedTree:
    """What a manifest says of a tree.

    Attributes
    ----------
    units : tuple of int
        How many units each level has.
    shares : tuple of Fraction, or None
        Of the budget, the top first; None where precisions were given.
    precisions : tuple of Fraction
        Of the levels below the top.
    invariants_below : mapping from level to conditions
        What is exact in every unit of levels below the top.
    """

    levels: tuple[str, ...]
    units: tuple[int, ...]
    shares: tuple[Fraction, ...] | None
    precisions: tuple[Fraction, ...]
    invariants_below: Mapping[str, tuple[Condition, ...]]

    def exact_rows(self, schema: Schema) -> tuple[ExactRows | None, ...]:
        """Return what is exact in each level below the top."""
        return exact_rows(self.levels[1:], schema, self.invariants_below)

    def budget_of_top(self, budget: Budget | None) -> Budget | None:
        """Return what the top may cost."""
        if (budget is None) != (self.shares is None):
            raise BundleError("levels of a tree have shares of a budget, and there is none, or they have none")
        if budget is None or self.shares is None:
            return None
        try:
            return Budget(rho=self.shares[0] * total_rho(budget))
        except PrivacyError:  # its words are for whoever has the data
            raise BundleError(
                f"a tree has a budget in rho, or in epsilon at a delta, and the manifest states {budget.text}"
            ) from None

    def plan(self, found: TreeParts, top: Plan, budget: Budget | None) -> ChainPlan:
        """Return the plan that is stated, of a tree with its zeros and exact numbers."""
        make = FAMILIES[top.law.noise]
        noises = []
        for precision in self.precisions:
            noise = make(precision)
            if not isinstance(noise, DiscreteNoise):
                raise BundleError("the noise of a tree is on the integers")
            noises.append(noise)
        tree, zeros, exact = found
        law = ChainLaw(tree, top.law, tuple(noises), zeros, exact)
        return ChainPlan(law, top, budget, self.shares, self.invariants_below)


def tree_of_json(given: Mapping[str, Any]) -> StatedTree:
    """Read what `tree_as_json` wrote; how many units there are is compared with the spine elsewhere."""
    entries = given["levels"]
    if len(entries) < 2:
        raise BundleError("a tree has at least two levels")
    shares = [entry["share"] for entry in entries]
    if len({share is None for share in shares}) > 1:
        raise BundleError("some levels of the tree have a share of the budget, and others have none")
    return StatedTree(
        tuple(read_as(str, entry["name"]) for entry in entries),
        tuple(read_as(int, entry["units"]) for entry in entries),
        None if shares[0] is None else tuple(exact_fraction(share, "a share") for share in shares),
        tuple(exact_fraction(entry["precision"], "a precision") for entry in entries[1:]),
        {
            read_as(str, entry["name"]): tuple(condition_of_json(_plain(one)) for one in entry["exact"])
            for entry in entries[1:]
            if entry["exact"]
        },
    )


def _plain(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "text"}
