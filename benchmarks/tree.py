"""Trees of real areas: how long a release takes, how near it is, level by level.

    python benchmarks/tree.py --data FOLDER [--large] [--releases 4]

Rhode Island and Hawaii, 50,197 blocks x 16 cells in five levels, the totals of both states exact. `--large` repeats
their trees to 8.2 million blocks. Errors are at rho 2.56, with the 2020 Census' shares by level, with the default ones,
and with everything spent on blocks alone.
"""

import argparse
import resource
import time
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray
from real_tables import BLOCK_SCHEMA, RACES

import congenial as cg
from congenial.hierarchy.hierarchy import Hierarchy
from congenial.hierarchy.plan import ChainPlan
from congenial.hierarchy.tree import Tree
from congenial.hierarchy.words import ChainWords
from congenial.noise import DiscreteGaussian
from congenial.randomness import KeyedWords, RandomStream
from congenial.sampling.share_out.families import Families
from congenial.sampling.share_out.sampler import ShareOut

LEVELS = {"state": 2, "county": 5, "tract": 11, "group": 12}
CENSUS = {"state": "1544", "county": "447", "tract": "687", "group": "1256", "block": "165"}
COPIES = 164  # of 50,197 blocks: 8.2 million
AGES = ("u18", "v18")

Ints = NDArray[np.int64]


def blocks(folder: Path, states: tuple[str, ...]) -> tuple[NDArray[np.str_], Ints]:
    """Read the 2010 counts of blocks (block, cell) and their codes."""
    columns = ", ".join(f"{age}_{race}" for age in AGES for race in RACES)
    found = duckdb.execute(
        f"SELECT geo_id, {columns} FROM read_parquet(?) WHERE census = 2010 AND state IN {states} ORDER BY geo_id",
        [str(folder / "pl94_block_hi_ri.parquet")],
    ).fetchnumpy()
    codes = np.array(found.pop("geo_id"), str)
    return codes, np.stack([np.asarray(column, np.int64) for column in found.values()], axis=1)


def planned(tree: Tree, leaves: Ints, shares: dict[str, str] | None) -> ChainPlan:
    hierarchy = Hierarchy(tree, BLOCK_SCHEMA, invariants=[cg.total()], rho="2.56", shares=shares)
    return hierarchy.plan(hierarchy.disclose(leaves))


def clock(plan: ChainPlan, leaves: Ints, n: int) -> float:
    """Return the CPU seconds of a release, the least of some."""
    best = np.inf
    for number in range(n):
        start = time.process_time()
        plan.draw(leaves, ChainWords.simulated(cg.replay_rng(f"clock {number}")))
        best = min(best, time.process_time() - start)
    return float(best)


def errors(folder: Path, state: str, shares: dict[str, str] | None, n: int, *, is_flat: bool = False) -> str:
    """Return the mean absolute error of a cell, of a unit's total in brackets, at each level; and bias at blocks."""
    codes, counts = blocks(folder, (state, state))
    tree = Tree.of_prefixes(codes, LEVELS, "block")
    leaves = counts[tree.order]
    plan, truth = planned(tree, leaves, shares), tree.summed(leaves)
    cells, totals = np.zeros(len(truth)), np.zeros(len(truth))
    empty = several = children = 0.0
    for number in range(n):
        rng = cg.replay_rng(f"error {number}")
        release = tree.summed(alone(leaves, rng)) if is_flat else plan.draw(leaves, ChainWords.simulated(rng))
        for level, (drawn, real) in enumerate(zip(release, truth, strict=True)):
            cells[level] += abs(drawn - real).mean() / n
            totals[level] += abs(drawn.sum(axis=1) - real.sum(axis=1)).mean() / n
        empty += float((release[-1] - leaves)[leaves == 0].mean()) / n
        several += float((release[-1] - leaves)[(leaves >= 5) & (leaves < 20)].mean()) / n
        children += float(release[0][0, RACES.index("aian")]) / n
    parts = [f"{name} {cell:.3f} ({all_:.2f})" for name, cell, all_ in zip(tree.levels, cells, totals, strict=True)]
    real_children = truth[0][0, RACES.index("aian")]
    return (
        f"{', '.join(parts)}; bias of empty / 5-19 block cells {empty:+.2f} / {several:+.2f};"
        f" American Indian children {children:.0f} of {real_children}"
    )


def alone(leaves: Ints, rng: RandomStream) -> Ints:
    """Return blocks at the whole budget with no level above: everybody shared out among all cells of all blocks."""
    words = KeyedWords(rng.words(4).tobytes(), rng.words(2).reshape(1, 2))
    counts = leaves.reshape(-1, 1)
    family = Families(np.array([0, len(counts)]))
    return (
        ShareOut(DiscreteGaussian("2.56")).draw(family, counts, counts.sum(axis=0)[None], words).reshape(leaves.shape)
    )


def repeated(codes: NDArray[np.str_], counts: Ints) -> tuple[Tree, Ints]:
    """Return the trees of both states, planted many times side by side."""
    prefixes = np.array([f"{copy:03}" for copy in range(COPIES)], "S3")
    plain = codes.astype("S15")
    many = np.char.add(np.repeat(prefixes, len(codes)), np.tile(plain, COPIES))
    tree = Tree.of_prefixes(many, {name: length + 3 for name, length in LEVELS.items()}, "block")
    assert (np.diff(tree.order) == 1).all()  # codes ascend already: no copy
    return tree, np.tile(counts, (COPIES, 1))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--releases", type=int, default=4)
    options = parser.parse_args()
    codes, counts = blocks(options.data, ("RI", "HI"))
    tree = Tree.of_prefixes(codes, LEVELS, "block")
    leaves = counts[tree.order]
    for name, shares in (("2020 shares", CENSUS), ("default shares", None)):
        plan = planned(tree, leaves, shares)
        print(f"{len(leaves):,} blocks x 16 cells, {name}: {clock(plan, leaves, 4):.2f} CPU seconds a release")
    for name, shares in (("2020 shares", CENSUS), ("default shares", None)):
        for state in ("RI", "HI"):
            print(f"{state}, {name}: {errors(options.data, state, shares, options.releases)}")
    print(f"RI, blocks only: {errors(options.data, 'RI', None, 1, is_flat=True)}")
    if options.large:
        tree, leaves = repeated(codes, counts)
        plan = planned(tree, leaves, CENSUS)
        seconds = clock(plan, leaves, 1)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{len(leaves):,} blocks x 16 cells: {seconds:.0f} CPU seconds, {memory:.1f} GB in all")


if __name__ == "__main__":
    main()
