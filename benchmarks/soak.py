"""Kill `congenial release` at moments spread over its whole run, go on with what was charged, and look at what is left.

    python benchmarks/soak.py [--kills 200] [--seed 1]

After each kill: no bundle without a spend; a release that was charged ends, resumed, in the one bundle that its key
determines, byte for byte, without a second charge; one that was not charged can be run again, once the key that it may
have left is removed; the key's bytes are in no file afterwards; every bundle and the ledger verify, and only hidden
remainders lie about. The moments are spread evenly over the steps that the program itself reports, so that kills fall
before, during and after the charge, the draw and the writing of files, and not only into the imports. Every other
resumption is killed as well, and resumed again.
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

import numpy as np

from congenial.curator import pipeline
from congenial.curator.pipeline import example_files, release, resume
from congenial.errors import AlreadySpentError, BundleError
from congenial.inference.analyst_bundle import load_bundle
from congenial.ledger import Ledger, open_ledger
from congenial.progress_and_interrupts import CHARGING, DRAWING, PLANNING, READING, WRITING
from congenial.release_key import KeyFolder, ReleaseKey
from congenial.spec.load import load_spec

REMAINDER = re.compile(r"\..+\.unfinished-.+")
# The command itself, telling on stderr which step it begins.
PROGRAM = """
import contextlib, sys
from congenial.cli.main import main
@contextlib.contextmanager
def told(*_):
    yield lambda step, *_: print(step, file=sys.stderr, flush=True)
sys.modules["congenial.cli.release_withdraw_keygen"].progress_bar = told
main(sys.argv[1:])
"""
FILES = "writing files"
STEPS = (READING, PLANNING, CHARGING, DRAWING, WRITING)
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
    output: list[str] = field(default_factory=list)


def prepare(folder: Path, seed: int) -> Soak:
    """Make the ledger, and measure how long each step takes."""
    shutil.copyfile(example_files() / "counts.csv", folder / "counts.csv")
    ledger = open_ledger(folder / "budget.db", create=True)
    ledger.create_dataset("p12-example", epsilon="100000", neighbours="bounded", who="soak")
    soak = Soak(folder, ledger, random.Random(seed))
    soak.seconds = timed(soak, "measured")
    check(soak, "measured")
    return soak


def start(soak: Soak, name: str, *options: str) -> "subprocess.Popen[str]":
    text = (example_files() / "spec.yaml").read_text(encoding="utf-8").replace("release: p12-demo", f"release: {name}")
    text = text.replace("budget: {epsilon: 1}", "measure: [{cells: all, precision: 1/2}]")  # no search in each process
    (soak.folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    spec, out, place = soak.folder / f"{name}.yaml", soak.folder / name, soak.folder / "budget.db"
    arguments = ["release", spec, "--out", out, "--ledger", place, "--who", "soak", "--yes", "--json", *options]
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
    """Return what became of a release, and finish it; anything that must not be fails."""
    n_spends = [spend.release for spend in soak.ledger.history("p12-example")].count(name)
    soak.ledger.verify()
    bundle = soak.folder / name
    known = {"budget.db.keys", *(path.stem for path in soak.folder.glob("*.yaml"))}
    strange = [path.name for path in soak.folder.iterdir() if path.is_dir() and path.name not in known]
    assert all(REMAINDER.fullmatch(file) for file in strange), f"{name}: left {strange}"
    if not n_spends:
        assert not bundle.exists(), f"{name}: a bundle without a spend"
        if key_of(soak, name) is not None:  # it had come as far as the key, which is removed as the refusal says
            remove_key(soak, name)
            timed(soak, name)
            assert check(soak, name) == "charged, whole bundle, key destroyed"
        return "nothing charged"
    secret = key_of(soak, name)
    was_whole = bundle.exists()
    if secret is None:
        assert was_whole, f"{name}: charged, and neither a bundle nor a key"
        outcome = "charged, whole bundle, key destroyed"
    else:
        outcome = "charged, whole bundle, key left" if was_whole else "charged, resumed"
        before = contents(bundle) if was_whole else None
        finish(soak, name)
        assert before in (None, contents(bundle)), f"{name}: a resumption changed the bundle"
        check_determined(soak, name, secret)
        leaked = [path.name for path in soak.folder.rglob("*") if path.is_file() and holds(path, secret)]
        assert not leaked, f"{name}: the key is in {leaked}"
    assert key_of(soak, name) is None
    manifest = load_bundle(bundle).manifest
    assert manifest.receipt is not None
    soak.ledger.verify("p12-example", manifest.receipt.head)
    assert [spend.release for spend in soak.ledger.history("p12-example")].count(name) == 1, f"{name}: charged twice"
    for again in (release, resume):
        try:
            spec, out = load_spec(soak.folder / f"{name}.yaml"), soak.folder / "second"
            again(spec, soak.folder, out, ledger=soak.ledger, **({"who": "soak"} if again is release else {}))
        except (AlreadySpentError, BundleError):
            continue
        raise AssertionError(f"{name}: a second table for one spend")
    return outcome


def finish(soak: Soak, name: str) -> None:
    """Go on with a release; every other time, kill the resumption first."""
    if soak.dice.random() < 0.5:
        running = start(soak, name, "--resume")
        time.sleep(soak.dice.random() * sum(soak.seconds.values()))
        running.send_signal(signal.SIGKILL)
        running.communicate()
        if key_of(soak, name) is None:
            return
    running = start(soak, name, "--resume")
    out, err = running.communicate()
    assert running.returncode == 0, f"{name}: {err}"
    soak.output.append(out + err)


def key_of(soak: Soak, name: str) -> bytes | None:
    """Return the secret key of a release that is under way."""
    assert soak.ledger.keys is not None
    key_file = KeyFolder(soak.ledger.keys, soak.ledger.dataset("p12-example").hash).find("p12-example", name)
    if key_file is None:
        return None
    key_file.close()
    return None if key_file.key is None else key_file.key.secret


def remove_key(soak: Soak, name: str) -> None:
    """Begin a release again whose key was never charged: refused, with the file to remove; remove it."""
    _, err = start(soak, name).communicate()
    match = re.search(r"its key is there, (\S+\.key)\.", err)
    assert match, f"{name}: {err}"
    Path(match[1]).unlink()


def check_determined(soak: Soak, name: str, secret: bytes) -> None:
    """See that the bundle holds the tables that an undisturbed run with this key draws."""
    ready = pipeline.prepare(load_spec(soak.folder / f"{name}.yaml"), soak.folder)
    (drawn,) = ready.draw(ready.streams(ReleaseKey(secret)))
    assert np.array_equal(load_bundle(soak.folder / name).tables[None], drawn[0]), f"{name}: another table"


def holds(path: Path, secret: bytes) -> bool:
    content = path.read_bytes()
    return secret in content or secret.hex().encode() in content


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def soak(n_kills: int, seed: int) -> Soak:
    """Kill so many releases, each step in its turn, and check after each; then that a release still works."""
    folder = Path(tempfile.mkdtemp(prefix="congenial-soak-"))
    try:
        state = prepare(folder, seed)
        for number in range(n_kills):
            name = f"kill-{number}"
            kill(state, name, MOMENTS[number % len(MOMENTS)])
            state.outcomes[check(state, name)] += 1
        timed(state, "after")
        assert check(state, "after") == "charged, whole bundle, key destroyed"
        n_bundles = sum((folder / path.stem / "manifest.json").is_file() for path in folder.glob("*.yaml"))
        assert n_bundles == state.ledger.verify().n_spends
        return state
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--kills", type=int, default=200)
    options.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    arguments = options.parse_args()
    print(f"seed {arguments.seed}")
    done = soak(arguments.kills, arguments.seed)
    for title, counts in (("seconds of each step", done.seconds), ("kills in each", done.killed_in)):
        print(title + ": " + ", ".join(f"{name} {value:.3g}" for name, value in counts.items()))
    print("what was left: " + ", ".join(f"{name} {count}" for name, count in done.outcomes.items()))


if __name__ == "__main__":
    main()
