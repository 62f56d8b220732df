"""The whole pipeline, from a file of counts to a verified bundle: seconds and memory of both commands, by areas.

Areas of 46 cells are simulated: total, women and voting age come out exactly, as in P12. Every command runs in a
process of its own, so what it takes to start is in the figures; the smallest run shows how much that is. Wall time is
that of a computer which may be busy with other things; CPU seconds are of all threads together.

Run with: python benchmarks/pipeline.py --areas 1000 10000 100000 1000000
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from command_cost import CommandCost, run
from pyarrow import parquet

import congenial as cg
from congenial.examples import P12_AGES, P12_VOTING_AGES
from congenial.memory_and_threads import parts_of

MEAN = 38  # people in an area, about that of a census block
SPEC = """
release: areas
dataset: areas
data: {{path: counts.parquet, kind: counts, count: people}}
dimensions:
  sex: [female, male]
  age: [{ages}]
by: {{name: area, levels: {{file: areas.csv, code: area}}}}
invariants:
  - total
  - {{name: women, total: {{sex: female}}}}
  - {{name: voting age, total: {{age: [{adults}]}}}}
budget: {{epsilon: 1}}
"""


def write_inputs(folder: Path, n_areas: int) -> None:
    """Write the simulated counts, the public list of areas, and the spec; areas some at a time."""
    rng = cg.replay_rng(f"{n_areas} areas of a benchmark")
    quoted = [f'"{age}"' for age in P12_AGES]
    adults = [f'"{age}"' for age in P12_VOTING_AGES]
    (folder / "spec.yaml").write_text(SPEC.format(ages=", ".join(quoted), adults=", ".join(adults)))
    sexes, ages = pa.array(["female", "male"]), pa.array(P12_AGES)
    text = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("area", text), ("sex", text), ("age", text), ("people", pa.int64())])
    with (folder / "areas.csv").open("w") as listed, parquet.ParquetWriter(folder / "counts.parquet", schema) as out:
        listed.write("area\n")
        for part in parts_of(n_areas, 20_000):
            n = part.stop - part.start
            labels = [f"{number:08d}" for number in range(part.start + 1, part.stop + 1)]
            listed.writelines(f"{label}\n" for label in labels)
            throws = rng.below(np.full((4, n, 46), 46 * 4))  # four throws a cell, each a record with the same chance
            places = [np.repeat(np.arange(n), 46), np.tile(np.repeat([0, 1], 23), n), np.tile(np.arange(23), 2 * n)]
            columns = [
                pa.DictionaryArray.from_arrays(place.astype(np.int32), known)
                for place, known in zip(places, (pa.array(labels), sexes, ages), strict=True)
            ]
            counts = pa.array((throws < MEAN).sum(axis=0).astype(np.int64).reshape(-1))
            out.write_table(pa.table([*columns, counts], schema=schema))


def measure(n_areas: int) -> dict[str, CommandCost]:
    """Release simulated areas and verify their bundle."""
    with tempfile.TemporaryDirectory(prefix="congenial-bench-") as name:
        folder = Path(name)
        write_inputs(folder, n_areas)
        budget = ("--ledger", "budget.db")
        run(folder, "ledger", "create", "areas", "--epsilon", "1", *budget)
        released = run(folder, "release", "spec.yaml", "--out", "bundle", "--who", "bench", "--yes", *budget)
        return {"release": released, "verify": run(folder, "verify", "bundle", *budget)}


HEADS = ("release, CPU s", "verify, CPU s", "both by clock", "areas a CPU s", "areas a second", "most MB")


def line(n_areas: int, measures: dict[str, CommandCost]) -> str:
    """Return a line of the table."""
    cpu, wall = sum(measure.cpu for measure in measures.values()), sum(measure.clock for measure in measures.values())
    most = max(measure.megabytes for measure in measures.values())
    columns = "".join(f"{measure.cpu:16.2f}" for measure in measures.values())
    return f"{n_areas:9,}{columns}{wall:16.2f}{n_areas / cpu:16,.0f}{n_areas / wall:16,.0f}{most:16,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--areas", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    print(f"{'areas':>9}" + "".join(f"{head:>16}" for head in HEADS))
    for n_areas in parser.parse_args().areas:
        print(line(n_areas, measure(n_areas)), flush=True)


if __name__ == "__main__":
    main()
