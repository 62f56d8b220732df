"""Trees of real areas: how long a release takes, how near it is, level by level.

    python benchmarks/tree.py --data FOLDER [--large] [--releases 20]

Rhode Island and Hawaii, 50,197 blocks x 16 cells in five levels, the totals of both states exact. `--large` repeats
their trees to 8.2 million blocks. The congenial release, TopDown and blocks alone are compared at rho 2.56, with the
2020 Census' shares by level and with the default ones: the comparison of docs/compare.md.
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
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.plan import Plan
from congenial.randomness import TreeStreams
from congenial.tree.tree_and_zeros import Tree

LEVELS = {"state": 2, "county": 5, "tract": 11, "group": 12}
CENSUS = {"state": "1544", "county": "447", "tract": "687", "group": "1256", "block": "165"}
COPIES = 164  # of 50,197 blocks: 8.2 million
AGES = ("u18", "v18")

Ints = NDArray[np.int64]


def blocks(folder: Path, states: tuple[str, ...]) -> tuple[NDArray[np.str_], Ints]:
    """Read the 2010 counts of blocks (block, cell) and their codes."""
    columns = ", ".join(f"{age}_{race}" for age in AGES for race in RACES)
    columns_read = duckdb.execute(
        f"SELECT geo_id, {columns} FROM read_parquet(?) WHERE census = 2010 AND state IN {states} ORDER BY geo_id",
        [str(folder / "pl94_block_hi_ri.parquet")],
    ).fetchnumpy()
    codes = np.array(columns_read.pop("geo_id"), str)
    return codes, np.stack([np.asarray(column, np.int64) for column in columns_read.values()], axis=1)


def planned(tree: Tree, leaves: Ints, shares: dict[str, str] | None, exact: str = "state") -> Plan:
    hierarchy = Hierarchy(tree, BLOCK_SCHEMA, invariants={exact: [cg.total()]}, rho="2.56", shares=shares)
    return hierarchy.plan(hierarchy.disclose(leaves))


def clock(plan: Plan, leaves: Ints, n: int) -> float:
    """Return the CPU seconds of a release, the least of some."""
    best = np.inf
    for number in range(n):
        start = time.process_time()
        plan.draw(leaves, TreeStreams.simulated(cg.replay_rng(f"clock {number}")))
        best = min(best, time.process_time() - start)
    return float(best)


def compare(folder: Path, state: str, n: int) -> None:
    """Print the congenial release, TopDown and blocks alone side by side; the last has no shares and runs once."""
    codes, counts = blocks(folder, (state, state))
    tree = Tree.of_prefixes(codes, LEVELS, "block")
    is_empty = np.repeat(counts.sum(axis=1, keepdims=True) == 0, counts.shape[1], axis=1)
    known, both = cg.Zeros.of_leaves(tree, is_empty), ["conditional", "topdown"]
    cases = {
        "2020 shares": (CENSUS, None, [*both, "leaves"]),
        "default shares": (None, None, both),
        "2020 shares, empty blocks declared uninhabited": (CENSUS, known, both),
        "2020 shares, every unit's total exact": (CENSUS, None, ["conditional"]),
        "default shares, every unit's total exact": (None, None, ["conditional"]),
    }
    for name, (shares, zeros, methods) in cases.items():
        exact = {"block" if "exact" in name else "state": [cg.total()]}
        hierarchy = Hierarchy(tree, BLOCK_SCHEMA, invariants=exact, rho="2.56", shares=shares, zeros=zeros)
        rng = cg.replay_rng(f"{state} {name}")
        comparison = cg.compare_tree(hierarchy, counts, source="public", methods=methods, n_releases=n, rng=rng)
        print(f"{state}, {name}: {comparison}", flush=True)
    print(comparison.printed_tables[1].text, flush=True)


def nation(folder: Path) -> None:
    """Print how long the nation takes: 51 states with exact totals, 3,143 counties, their urban and rural parts."""
    file = str(folder / "p12_dec2010_hierarchy.parquet")
    names = [row[0] for row in duckdb.execute("DESCRIBE SELECT * FROM read_parquet(?)", [file]).fetchall()]
    cells = ", ".join(name for name in names if name[:2] in {"f_", "m_"})
    columns_read = duckdb.execute(
        f"SELECT geo_id, parent_id, {cells} FROM read_parquet(?) WHERE level = 'county_part' ORDER BY geo_id", [file]
    ).fetchnumpy()
    parts, counties = (np.array(columns_read.pop(name), str) for name in ("geo_id", "parent_id"))
    counts = np.stack([np.asarray(column, np.int64) for column in columns_read.values()], axis=1)
    levels = {"nation": np.full(len(parts), "US"), "state": counties.astype("U2"), "county": counties, "part": parts}
    tree = Tree.of_parents(levels)
    leaves = tree.in_order(counts)
    schema = cg.Schema({"cell": [str(cell) for cell in range(counts.shape[1])]})
    for exact in ("nation", "state", "county", "part"):
        plan = Hierarchy(tree, schema, invariants={exact: [cg.total()]}, rho="2.56")
        ready = plan.plan(plan.disclose(leaves))
        ready.dry_run()
        print(
            f"{tree}, {schema.n_cells} cells, totals of every {exact} exact: {clock(ready, leaves, 1):.1f} CPU seconds"
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
    parser.add_argument("--releases", type=int, default=20)
    options = parser.parse_args()
    codes, counts = blocks(options.data, ("RI", "HI"))
    tree = Tree.of_prefixes(codes, LEVELS, "block")
    leaves = counts[tree.order]
    for name, shares in (("2020 shares", CENSUS), ("default shares", None)):
        plan = planned(tree, leaves, shares)
        print(f"{len(leaves):,} blocks x 16 cells, {name}: {clock(plan, leaves, 4):.2f} CPU seconds a release")
        plan = planned(tree, leaves, shares, "block")
        start = time.process_time()
        plan.dry_run()
        pilots, seconds = time.process_time() - start, clock(plan, leaves, 1)
        print(f"  every unit's total exact: {seconds:.1f} CPU seconds a release, {pilots:.1f} for pilots", flush=True)
    nation(options.data)
    for state in ("RI", "HI"):
        compare(options.data, state, options.releases)
    if options.large:
        tree, leaves = repeated(codes, counts)
        plan = planned(tree, leaves, CENSUS)
        seconds = clock(plan, leaves, 1)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"{len(leaves):,} blocks x 16 cells: {seconds:.0f} CPU seconds, {memory:.1f} GB in all", flush=True)
        seconds = clock(planned(tree, leaves, CENSUS, "block"), leaves, 1)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"  every unit's total exact: {seconds:.0f} CPU seconds, {memory:.1f} GB in all")


if __name__ == "__main__":
    main()
