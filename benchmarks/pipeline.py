"""The whole pipeline, from a file of counts to a verified bundle: seconds and memory of both commands, by areas.

Areas of 46 cells are simulated: total, women and voting age come out exactly, as in P12. Every command runs in a
process of its own, so what it takes to start is in the figures; the smallest run shows how much that is. Wall time is
that of a computer which may be busy with other things; CPU seconds are of all threads together.

Run with: python benchmarks/pipeline.py --areas 1000 10000 100000 1000000 --method conditional measured
With --people 1 5 20 200 the same number of areas is released at so many people a cell, which the time of a measured
release does not depend on; with --repeat 3 each is run so often, by turns, and medians are printed.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from command_cost import CommandCost, run
from pyarrow import parquet

from congenial.examples import P12_AGES, P12_VOTING_AGES
from congenial.memory_and_threads import parts_of

USUAL_PEOPLE = {"conditional": 38, "measured": 900}
"""In an area, unless --people says otherwise: about a census block, and a block group."""
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
method: {method}
"""


def write_inputs(folder: Path, n_areas: int, method: str, mean: float, *, is_rough: bool) -> None:
    """Write the simulated counts, the public list of areas, and the spec; areas some at a time.

    Smooth areas have the same expected count in every cell. In rough ones it varies as much as between real areas of
    this size: a cell's squared deviation is about four times its mean at 5 people, and a seventh of cells is empty.
    """
    dice = np.random.default_rng([n_areas, round(100 * mean), is_rough])
    quoted = [f'"{age}"' for age in P12_AGES]
    adults = [f'"{age}"' for age in P12_VOTING_AGES]
    text = SPEC.format(ages=", ".join(quoted), adults=", ".join(adults), method=method)
    (folder / "spec.yaml").write_text(text)
    sexes, ages = pa.array(["female", "male"]), pa.array(P12_AGES)
    text_type = pa.dictionary(pa.int32(), pa.string())
    schema = pa.schema([("area", text_type), ("sex", text_type), ("age", text_type), ("people", pa.int64())])
    with (folder / "areas.csv").open("w") as listed, parquet.ParquetWriter(folder / "counts.parquet", schema) as out:
        listed.write("area\n")
        for part in parts_of(n_areas, 20_000):
            n = part.stop - part.start
            labels = [f"{number:08d}" for number in range(part.start + 1, part.stop + 1)]
            listed.writelines(f"{label}\n" for label in labels)
            rates = dice.gamma(1.3, 1 / 1.3, n * 46) if is_rough else np.ones(n * 46)
            places = [np.repeat(np.arange(n), 46), np.tile(np.repeat([0, 1], 23), n), np.tile(np.arange(23), 2 * n)]
            columns = [
                pa.DictionaryArray.from_arrays(place.astype(np.int32), known)
                for place, known in zip(places, (pa.array(labels), sexes, ages), strict=True)
            ]
            counts = pa.array(dice.poisson(mean * rates))
            out.write_table(pa.table([*columns, counts], schema=schema))


def measure(n_areas: int, method: str, mean: float, *, is_rough: bool) -> dict[str, CommandCost]:
    """Release simulated areas and verify their bundle."""
    with tempfile.TemporaryDirectory(prefix="congenial-bench-") as name:
        folder = Path(name)
        write_inputs(folder, n_areas, method, mean, is_rough=is_rough)
        budget = ("--ledger", "budget.db")
        run(folder, "ledger", "create", "areas", "--epsilon", "1", *budget)
        released = run(folder, "release", "spec.yaml", "--out", "bundle", "--who", "bench", "--yes", *budget)
        return {"release": released, "verify": run(folder, "verify", "bundle", *budget)}


def median_of(costs: list[dict[str, CommandCost]]) -> dict[str, CommandCost]:
    """Return the median of each number of several runs."""
    return {
        name: CommandCost(*(float(np.median([getattr(run[name], field) for run in costs])) for field in FIELDS))
        for name in costs[0]
    }


FIELDS = ("cpu", "clock", "megabytes")
HEADS = ("release, CPU s", "verify, CPU s", "both by clock", "areas a CPU s", "areas a second", "most MB")


def line(name: str, n_areas: int, measures: dict[str, CommandCost]) -> str:
    """Return a line of the table."""
    cpu, wall = sum(measure.cpu for measure in measures.values()), sum(measure.clock for measure in measures.values())
    most = max(measure.megabytes for measure in measures.values())
    columns = "".join(f"{measure.cpu:16.2f}" for measure in measures.values())
    return f"{name:30}{n_areas:9,}{columns}{wall:16.2f}{n_areas / cpu:16,.0f}{n_areas / wall:16,.0f}{most:16,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--areas", type=int, nargs="+", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--method", nargs="+", choices=["conditional", "measured"], default=["conditional", "measured"])
    parser.add_argument("--people", type=float, nargs="+", help="a cell, on average")
    parser.add_argument("--rough", action="store_true", help="uneven areas as well as even ones")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each, by turns; medians are printed")
    options = parser.parse_args()
    print(f"{'method, people a cell':30}{'areas':>9}" + "".join(f"{head:>16}" for head in HEADS))
    for method in options.method:
        for n_areas in options.areas:
            cases = [
                (mean, is_rough)
                for mean in options.people or [USUAL_PEOPLE[method] / 46]
                for is_rough in ((False, True) if options.rough else (False,))
            ]
            costs: dict[tuple[float, bool], list[dict[str, CommandCost]]] = {case: [] for case in cases}
            for _ in range(options.repeat):
                for mean, is_rough in cases:
                    costs[mean, is_rough].append(measure(n_areas, method, mean, is_rough=is_rough))
            for mean, is_rough in cases:
                name = f"{method}, {mean:.3g}, {'rough' if is_rough else 'smooth'}"
                print(line(name, n_areas, median_of(costs[mean, is_rough])), flush=True)


if __name__ == "__main__":
    main()
