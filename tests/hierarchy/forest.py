"""Many copies of a small tree side by side: one draw gives as many independent releases."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import congenial as cg
from chain_audit import Chain
from congenial.conditions.queries import Query
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.plan import Plan
from congenial.tree.tree_and_zeros import Tree, Zeros

NOISES = {1: "double_geometric", 2: "discrete_gaussian"}


@dataclass(frozen=True)
class Forest:
    """Copies of a chain's tree, each with one unit at the top whose total is exact, and their plan."""

    chain: Chain
    plan: Plan
    leaves: NDArray[np.int64]

    @classmethod
    def of(cls, chain: Chain, counts: list[list[int]], n_copies: int) -> "Forest":
        """Plant a tree so many times, each with the same confidential leaves (leaf, cell)."""
        n_leaves = len(chain.levels[-1])
        columns: dict[str, list[str]] = {}
        for depth, groups in enumerate(chain.levels):
            unit_of = {leaf: number for number, group in enumerate(groups) for leaf in group}
            columns[f"level {depth}"] = [
                f"{copy:07}.{unit_of[leaf]:03}" for copy in range(n_copies) for leaf in range(n_leaves)
            ]
        tree = Tree.of_parents({name: np.array(codes) for name, codes in columns.items()})
        schema = cg.Schema({"cell": [str(cell) for cell in range(chain.n_cells)]})
        barred = np.zeros((n_leaves, chain.n_cells), np.bool_)
        for leaf, cell in chain.barred:
            barred[leaf, cell] = True
        zeros = Zeros.of_leaves(tree, np.tile(barred, (n_copies, 1))) if chain.barred else None
        hierarchy = Hierarchy(
            tree,
            schema,
            invariants={"level 0": [cg.total()], **cls._exact(chain, schema)},
            precisions=dict(zip(columns, chain.precisions, strict=True)),
            noise=NOISES[chain.exponent],
            zeros=zeros,
            method="conditional",
        )
        leaves = np.tile(np.array(counts, np.int64), (n_copies, 1))
        return cls(chain, hierarchy.plan(hierarchy.disclose(leaves)), leaves)

    @staticmethod
    def _exact(chain: Chain, schema: cg.Schema) -> dict[str, list[Query]]:
        """Return what is exact in every unit of a level below the top."""
        if not chain.exact:
            return {}
        sets = [schema.labels("cell")] if not chain.sets else [[str(cell) for cell in cells] for cells in chain.sets]
        return {f"level {chain.exact}": [cg.total({"cell": cells}) for cells in sets]}

    def outcomes(self, released: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which outcome each copy's leaves are."""
        shape = (-1, len(self.chain.levels[-1]), self.chain.n_cells)
        return self.chain.position(released.reshape(shape))

    def probabilities(self) -> NDArray[np.float64]:
        """Return the law of a copy's outcome."""
        shape = (-1, len(self.chain.levels[-1]), self.chain.n_cells)
        (confidential,) = self.chain.position(self.leaves[: shape[1]].reshape(shape))
        probabilities: NDArray[np.float64] = np.exp(self.chain.log_law[confidential])
        return probabilities
