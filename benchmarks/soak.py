"""Kill `congenial release` at moments spread over its whole run, and look at what is left.

    python benchmarks/soak.py [--kills 200] [--seed 1]

After each kill: no bundle without a spend, no second table for one spend, every bundle and the ledger verify, and only
hidden remainders lie about. The moments are spread evenly over the steps that the program itself reports, so that kills
fall before, during and after the charge, the draw and the writing of files, and not only into the imports.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from congenial.bundle.loading import load_bundle
from congenial.curator.demonstration import example_files
from congenial.curator.pipeline import STEPS, release
from congenial.errors import AlreadySpentError, BundleError
from congenial.ledger import Ledger, open_ledger
from congenial.spec.load import load_spec

REMAINDER = re.compile(r"\..+\.unfinished-.+")
# The command itself, telling on stderr which step it begins.
PROGRAM = """
import contextlib, sys
from congenial.cli import main
@contextlib.contextmanager
def told(*_):
    yield lambda step: print(step, file=sys.stderr, flush=True)
sys.modules["congenial.cli.release"].progress_bar = told
main(sys.argv[1:])
"""
FILES = "writing files"
MOMENTS = ("start", *STEPS, FILES)


@dataclass
class Soak:
    """A folder with a ledger, and what became of each release in it."""

    folder: Path
    ledger: Ledger
    dice: random.Random
    seconds: dict[str, float] = field(default_factory=dict)
    killed_in: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)


def prepare(folder: Path, seed: int) -> Soak:
    """Make the ledger, and measure how long each step takes."""
    shutil.copyfile(example_files() / "counts.csv", folder / "counts.csv")
    ledger = open_ledger(folder / "budget.db", create=True)
    ledger.create_dataset("p12-example", epsilon="100000", neighbours="bounded", who="soak")
    soak = Soak(folder, ledger, random.Random(seed))
    for name in ("warm-up", "measured"):
        soak.seconds = timed(soak, name)
        check(soak, name)
    return soak


def start(soak: Soak, name: str) -> "subprocess.Popen[str]":
    text = (example_files() / "spec.yaml").read_text(encoding="utf-8").replace("release: p12-demo", f"release: {name}")
    (soak.folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    spec, out, place = soak.folder / f"{name}.yaml", soak.folder / name, soak.folder / "budget.db"
    arguments = ["release", spec, "--out", out, "--ledger", place, "--who", "soak", "--json"]
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def timed(soak: Soak, name: str) -> dict[str, float]:
    """Run a release to its end; return the seconds between its steps."""
    running = start(soak, name)
    assert running.stderr is not None
    marks = [("start", time.perf_counter())]
    marks += [(line.strip(), time.perf_counter()) for line in running.stderr]
    running.communicate()
    marks.append(("end", time.perf_counter()))
    assert [mark for mark, _ in marks] == ["start", *STEPS, "end"], marks
    return {step: later - now for (step, now), (_, later) in pairwise(marks)} | {FILES: 0.03}


def kill(soak: Soak, name: str, moment: str) -> None:
    """Start a release and kill it somewhere in one of its steps."""
    running = start(soak, name)
    assert running.stderr is not None
    if moment != "start":
        for line in running.stderr:
            if line.strip() == (STEPS[-1] if moment == FILES else moment):
                break
    if moment == FILES:  # most of the step is the report; wait until the hidden folder appears
        while running.poll() is None and not any(soak.folder.glob(f".{name}.unfinished-*")):
            time.sleep(0.0002)
    # A little beyond the step's usual length, so that its end is hit as well.
    time.sleep(soak.dice.random() * soak.seconds[moment] * 1.1)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    soak.killed_in[moment] += 1


def check(soak: Soak, name: str) -> str:
    """Return what became of a release; anything that must not be fails."""
    spent = any(spend.release == name for spend in soak.ledger.history("p12-example"))
    soak.ledger.verify()
    bundle = soak.folder / name
    if bundle.exists():
        manifest = load_bundle(bundle).manifest
        assert spent, f"{name}: a bundle without a spend"
        assert manifest.receipt is not None
        soak.ledger.verify("p12-example", manifest.receipt.head)
    strange = [
        path.name
        for path in soak.folder.iterdir()
        if path.is_dir() and path.name != name and not REMAINDER.fullmatch(path.name) and not is_known(soak, path.name)
    ]
    assert not strange, f"{name}: left {strange}"
    if not spent:
        return "nothing charged"
    before = contents(bundle) if bundle.exists() else None
    for out in (soak.folder / "second", bundle):
        try:
            spec = load_spec(soak.folder / f"{name}.yaml")
            release(spec, soak.folder, out, ledger=soak.ledger, who="soak")
        except AlreadySpentError:
            continue
        except BundleError:  # the folder is there
            continue
        raise AssertionError(f"{name}: a second table for one spend")
    assert before == (contents(bundle) if bundle.exists() else None)
    return "charged, no bundle" if before is None else "charged, whole bundle"


def is_known(soak: Soak, name: str) -> bool:
    return (soak.folder / f"{name}.yaml").is_file()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def soak(n_kills: int, seed: int) -> Soak:
    """Kill so many releases, each step in its turn, and check after each; then that a release still works."""
    folder = Path(tempfile.mkdtemp(prefix="congenial-soak-"))
    try:
        made = prepare(folder, seed)
        for number in range(n_kills):
            name = f"kill-{number}"
            kill(made, name, MOMENTS[number % len(MOMENTS)])
            made.outcomes[check(made, name)] += 1
        timed(made, "after")
        assert check(made, "after") == "charged, whole bundle"
        n_bundles = sum((folder / path.stem / "manifest.json").is_file() for path in folder.glob("*.yaml"))
        assert n_bundles <= made.ledger.verify().n_spends
        return made
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    given = options.parse_args()
    print(f"seed {given.seed}")
    done = soak(given.kills, given.seed)
    for title, counts in (("seconds of each step", done.seconds), ("kills in each", done.killed_in)):
        print(title + ": " + ", ".join(f"{name} {value:.3g}" for name, value in counts.items()))
    print("what was left: " + ", ".join(f"{name} {count}" for name, count in done.outcomes.items()))


if __name__ == "__main__":
    main()
