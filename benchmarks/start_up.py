"""What it takes to begin: CPU seconds of first and later runs, each in a process of its own, the least of several.

Cold runs have an empty folder for compiled kernels; warm ones find what the run before has left there.

Run with: python benchmarks/start_up.py --repeat 3
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

IMPORT = "import congenial"
ONE = """
import congenial as cg
from congenial.examples import p12_mechanism, p12_table
p12_mechanism().law(p12_table()).sample(1, rng=cg.replay_rng(1))
"""
AREAS = """
import numpy as np
import congenial as cg
from congenial.examples import p12_mechanism, p12_table
from congenial.sampling.elimination.sampler import elimination_of, sample_batch
target = p12_mechanism().law(p12_table()).target
sample_batch(elimination_of(target), np.tile(target.centre, (1000, 1)), cg.replay_rng(1))
"""
MANY = (
    AREAS.replace("sample_batch(elimination_of(target), np.tile(target.centre, (1000, 1)), cg.replay_rng(1))", "")
    + """
p12_mechanism().law(p12_table()).sample(1000, rng=cg.replay_rng(1))
"""
)


def run(command: list[str], folder: str, cache: str) -> tuple[float, float]:
    """Run a command; return its CPU seconds, children's and threads' included, and those on the clock."""
    started, environment = time.perf_counter(), {**os.environ, "NUMBA_CACHE_DIR": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # modules are translated once, as where packages are installed
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=told, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            told.seek(0)
            raise SystemExit(f"{' '.join(command)}: {told.read().decode()}")
    return used.ru_utime + used.ru_stime, time.perf_counter() - started


def release(folder: str, cache: str, number: int) -> tuple[float, float]:
    """Release P12 once more, under a name of its own."""
    spec = (ROOT / "examples" / "p12" / "spec.yaml").read_text(encoding="utf-8")
    name = f"p12-{number}"
    Path(folder, "counts.csv").write_bytes((ROOT / "examples" / "p12" / "counts.csv").read_bytes())
    Path(folder, "spec.yaml").write_text(spec.replace("release: p12-demo", f"release: {name}"), encoding="utf-8")
    congenial = [sys.executable, "-m", "congenial"]
    if number == 0:
        create = ["ledger", "create", "p12-example", "--epsilon", "1000", "--ledger", "budget.db"]
        run([*congenial, *create], folder, cache)
    return run([*congenial, "release", "spec.yaml", "--ledger", "budget.db", "--out", name, "--yes"], folder, cache)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    n = parser.parse_args().repeat
    scripts = {
        "import congenial": IMPORT,
        "one draw of P12": ONE,
        "1,000 areas of P12": AREAS,
        "1,000 draws of P12": MANY,
    }
    print(f"{'':28}{'cold, CPU s':>14}{'warm, CPU s':>14}{'warm, clock s':>16}")
    with tempfile.TemporaryDirectory(prefix="congenial-bench-") as folder:
        runs = {name: [sys.executable, "-c", text] for name, text in scripts.items()}
        runs["congenial --help"] = [sys.executable, "-m", "congenial", "--help"]
        for name, command in runs.items():
            cold, warm = [], []
            for _ in range(n):
                with tempfile.TemporaryDirectory(prefix="congenial-kernels-") as cache:
                    cold.append(run(command, folder, cache)[0])
                    warm.append(run(command, folder, cache))
            say(name, cold, warm)
        cold, warm = [], []
        for number in range(0, 2 * n, 2):
            with tempfile.TemporaryDirectory(prefix="congenial-kernels-") as cache:
                cold.append(release(folder, cache, number)[0])
                warm.append(release(folder, cache, number + 1))
        say("congenial release, P12", cold, warm)


def say(name: str, cold: list[float], warm: list[tuple[float, float]]) -> None:
    """Print the least of each."""
    seconds = [min(one[place] for one in warm) for place in (0, 1)]
    print(f"{name:28}{min(cold):14.2f}{seconds[0]:14.2f}{seconds[1]:16.2f}", flush=True)


if __name__ == "__main__":
    main()
