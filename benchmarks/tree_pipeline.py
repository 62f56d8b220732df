"""A tree of blocks from Parquet files to a verified bundle: seconds and memory of each command, by number of blocks.

    python benchmarks/tree_pipeline.py [--data FOLDER] [--copies 1 8 32 164] [--method measured]

Rhode Island and Hawaii, 50,197 blocks x 16 cells, planted many times side by side under one nation: 164 times are 8.2
million blocks in six levels. Without --data blocks of about the same shape are simulated. The counts are a row for each
cell that is not empty, in no particular order. Every command runs in a process of its own, so what it takes to start is
in the figures.
"""

import argparse
import tempfile
from pathlib import Path

import duckdb
import numpy as np
from command_cost import CommandCost, run
from numpy.typing import NDArray
from real_tables import RACES
from tree import AGES, LEVELS, blocks

import congenial as cg

SPEC = """
release: nation
dataset: nation
data: {{path: counts.parquet, kind: counts, count: people, missing_cells: zero}}
dimensions: {{age: [{ages}], race: [{races}]}}
hierarchy:
  file: blocks.parquet
  leaf: block
  levels: {{nation: {{column: nation}}, {levels}}}
invariants: [{invariant}]
method: {method}
{rule}
budget: {{rho: 2.56}}
outputs: [{outputs}]
"""

Ints = NDArray[np.int64]


def simulated(n_blocks: int = 50_000) -> tuple[NDArray[np.str_], Ints]:
    """Return codes and counts (block, cell) of two made-up states: half of the blocks empty, the others skewed."""
    rng = cg.replay_rng("blocks of a benchmark")
    places = np.arange(n_blocks)
    state, tract, group, block = places // (n_blocks // 2), places // 85, places // 28 % 3, places % 28
    codes = np.array(
        [
            f"{90 + s}{t // 30:03}{t:06}{g}{b:03}"
            for s, t, g, b in zip(state.tolist(), tract.tolist(), group.tolist(), block.tolist(), strict=True)
        ]
    )
    codes, first = np.unique(codes, return_index=True)
    size = rng.below(np.full(n_blocks, 12)) * rng.below(np.full(n_blocks, 12)) * rng.below(np.full(n_blocks, 2))
    weights = np.array([24, 4, 2, 1, 3, 1, 1, 2, 70, 11, 5, 2, 9, 2, 3, 4])
    throws = rng.below(np.full((n_blocks, 16), 100))
    return codes, (size[:, None] * weights * throws // 5_000)[first]


def write_inputs(
    folder: Path,
    codes: NDArray[np.str_],
    counts: Ints,
    copies: int,
    *,
    exact: str,
    outputs: str,
    method: str,
    rule: str,
) -> int:
    """Write the public list of blocks, the counts and the spec; return how many blocks there are."""
    place, cell = np.nonzero(counts)
    ages, races = np.array(AGES, object), np.array(RACES, object)
    few = {"code": codes.astype(object)}
    many = {
        "code": codes.astype(object)[place],
        "age": ages[cell // len(RACES)],
        "race": races[cell % len(RACES)],
        "people": counts[place, cell],
    }
    with duckdb.connect() as database:
        database.register("few", few)
        database.register("many", many)
        prefixed = f"(SELECT printf('%03d', range) AS copy FROM range({copies}))"
        database.execute(
            f"COPY (SELECT 'US' AS nation, copy || code AS block FROM {prefixed}, few)"
            f" TO '{folder}/blocks.parquet' (FORMAT parquet)"
        )
        database.execute(
            f"COPY (SELECT copy || code AS block, age, race, people FROM {prefixed}, many)"
            f" TO '{folder}/counts.parquet' (FORMAT parquet)"
        )
    levels = ", ".join(f"{name}: {{prefix: {length + 3}}}" for name, length in LEVELS.items())
    text = SPEC.format(
        ages=", ".join(AGES),
        races=", ".join(RACES),
        levels=levels,
        invariant="total" if exact == "nation" else f"{{total: all, at: {exact}}}",
        outputs=outputs,
        method=method,
        rule=f"rule: {rule}" if rule else "",
    )
    (folder / "spec.yaml").write_text(text)
    return len(codes) * copies


def measure(
    codes: NDArray[np.str_], counts: Ints, copies: int, *, exact: str, outputs: str, method: str, rule: str
) -> tuple[int, list[CommandCost]]:
    """Release blocks and verify their bundle."""
    with tempfile.TemporaryDirectory(prefix="congenial-bench-") as name:
        folder = Path(name)
        n_blocks = write_inputs(folder, codes, counts, copies, exact=exact, outputs=outputs, method=method, rule=rule)
        budget = ("--ledger", "budget.db")
        run(folder, "ledger", "create", "nation", "--rho", "3", *budget)
        released = run(folder, "release", "spec.yaml", "--out", "bundle", "--who", "bench", "--yes", *budget)
        return n_blocks, [released, run(folder, "verify", "bundle", *budget)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--exact", default="state", help="totals of every unit of this level are exact")
    parser.add_argument("--method", choices=["conditional", "measured"], default="measured")
    parser.add_argument("--rule", default="", help="of measured trees; the default one if not given")
    parser.add_argument("--outputs", default="parquet, report")
    options = parser.parse_args()
    codes, counts = simulated() if options.data is None else blocks(options.data, ("RI", "HI"))
    heads = [f"{command}, {what}" for command in ("release", "verify") for what in ("CPU s", "clock s", "GB")]
    print(f"{'blocks':>10}" + "".join(f"{head:>17}" for head in (*heads, "CPU us a block")), flush=True)
    for copies in options.copies:
        n_blocks, measures = measure(
            codes,
            counts,
            copies,
            exact=options.exact,
            outputs=options.outputs,
            method=options.method,
            rule=options.rule,
        )
        columns = "".join(
            f"{measure.cpu:17.1f}{measure.clock:17.1f}{measure.megabytes / 1024:17.2f}" for measure in measures
        )
        print(f"{n_blocks:10,}{columns}{1e6 * sum(measure.cpu for measure in measures) / n_blocks:17.1f}", flush=True)


if __name__ == "__main__":
    main()
