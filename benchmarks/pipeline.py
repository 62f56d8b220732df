"""The whole pipeline, from a file of counts to a verified bundle: CPU seconds and memory of each command, by areas.

Areas of 46 cells are simulated: total, women and voting age come out exactly, as in P12. Every command runs in a
process of its own, so what it takes to start is in the figures; the smallest run shows how much that is.

Run with: python benchmarks/pipeline.py --areas 1000 10000
"""

import argparse
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

import congenial as cg
from congenial.examples import P12_AGES, P12_VOTING_AGES

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


@dataclass(frozen=True)
class Taken:
    """What a command took: CPU seconds of all its threads, and its memory at most."""

    seconds: float
    megabytes: float


def write_inputs(folder: Path, n_areas: int) -> None:
    """Write the simulated counts, the public list of areas, and the spec."""
    rng = cg.replay_rng(f"{n_areas} areas of a benchmark")
    labels = np.char.zfill(np.arange(1, n_areas + 1).astype(str), 8)
    throws = rng.below(np.full((4, n_areas, 46), 46 * 4))
    counts = (throws < MEAN).sum(axis=0).astype(np.int64)  # four throws a cell, each a record with the same chance
    (folder / "areas.csv").write_text("area\n" + "".join(f"{label}\n" for label in labels))
    quoted = [f'"{age}"' for age in P12_AGES]
    adults = [f'"{age}"' for age in P12_VOTING_AGES]
    (folder / "spec.yaml").write_text(SPEC.format(ages=", ".join(quoted), adults=", ".join(adults)))
    columns = {
        "area": np.repeat(labels.astype(object), 46),
        "sex": np.tile(np.repeat(np.array(["female", "male"], object), 23), n_areas),
        "age": np.tile(np.array(P12_AGES * 2, object), n_areas),
        "people": counts.reshape(-1),
    }
    with duckdb.connect() as database:
        database.register("given", columns)
        database.table("given").write_parquet(str(folder / "counts.parquet"))


def run(folder: Path, *words: str) -> Taken:
    """Run a command of congenial and return what it took; its output is thrown away unless it fails."""
    with tempfile.TemporaryFile() as told:
        started = subprocess.Popen(
            [sys.executable, "-m", "congenial", *words], cwd=folder, stdout=told, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode:
            told.seek(0)
            raise SystemExit(f"congenial {' '.join(words)}: {told.read().decode()}")
    return Taken(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def measure(n_areas: int) -> dict[str, Taken]:
    """Release simulated areas and verify their bundle."""
    with tempfile.TemporaryDirectory(prefix="congenial-bench-") as name:
        folder = Path(name)
        write_inputs(folder, n_areas)
        budget = ("--ledger", "budget.db")
        run(folder, "ledger", "create", "areas", "--epsilon", "1", *budget)
        released = run(folder, "release", "spec.yaml", "--out", "bundle", "--who", "bench", "--yes", *budget)
        return {"release": released, "verify": run(folder, "verify", "bundle", *budget)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--areas", type=int, nargs="+", default=[10, 1_000, 10_000])
    heads = ("release, CPU s", "verify, CPU s", "areas a second", "ms an area", "most MB")
    print(f"{'areas':>9}" + "".join(f"{head:>16}" for head in heads))
    for n_areas in parser.parse_args().areas:
        taken = measure(n_areas)
        both = sum(one.seconds for one in taken.values())
        columns = "".join(f"{one.seconds:16.2f}" for one in taken.values())
        most = max(one.megabytes for one in taken.values())
        print(f"{n_areas:9,}{columns}{n_areas / both:16,.0f}{1e3 * both / n_areas:16.3f}{most:16,.0f}", flush=True)


if __name__ == "__main__":
    main()
