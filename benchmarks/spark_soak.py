"""Kill releases on a cluster of Spark at moments spread over their run, go on with each, and look at what is left.

    python benchmarks/spark_soak.py [--kills 20] [--seed 1]

A real standalone cluster on loopback is started and stopped. The driver of `congenial release --engine spark` is killed
in each of its steps in turn. A release that was charged is gone on with, by Spark and by one machine in turn: it ends
in the one bundle that its key determines, with one charge. Afterwards the key is in no file that the cluster or the
drivers have written.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from congenial.curator import pipeline
from congenial.inference.analyst_bundle import load_bundle
from congenial.ledger import Ledger
from congenial.release_key import KeyFolder, ReleaseKey
from congenial.spec.load import load_spec
from engines.spark_cluster import MISSING, REASON, Cluster, cluster
from engines.spark_data import Data, blocks, people

START = "start"


def start(data: Data, name: str, running: Cluster | None, *options: str) -> "subprocess.Popen[str]":
    """Begin or go on with a release; without a cluster, on this machine."""
    where = (
        {"people": "people", "blocks": "counts"}
        if running
        else {"people": "people.parquet", "blocks": "counts.parquet"}
    )
    spec = data.spec(name, where[data.dataset])
    words = [
        "release",
        spec,
        "--out",
        data.folder / name,
        "--ledger",
        data.folder / "budget.db",
        "--who",
        "soak",
        "--yes",
    ]
    if running is not None:
        words += ["--engine", "spark", "--master", running.address, "--tables", data.folder / f"{name}.tables"]
        for setting in running.options.items():
            words += ["--spark-conf", "=".join(setting)]
    command = [sys.executable, "-m", "congenial", *map(str, words), "--no-confidential-report", *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def steps_of(process: "subprocess.Popen[str]", name: str) -> "list[tuple[str, float]]":
    """Return the steps that a run has told of, with the time of each, when it has ended."""
    assert process.stderr is not None
    marks, output = [(START, time.perf_counter())], []
    for line in process.stderr:
        output.append(line)
        if line.startswith(f"releasing {name}: "):
            marks.append((line.partition(": ")[2].strip(), time.perf_counter()))
    assert process.wait() == 0, "".join(output)
    return [*marks, ("end", time.perf_counter())]


def kill(data: Data, name: str, running: Cluster, moment: str, seconds: float) -> None:
    """Begin a release, wait for a step and some time, and kill its driver."""
    process = start(data, name, running)
    assert process.stderr is not None
    for line in process.stderr if moment != START else ():
        if line.strip() == f"releasing {name}: {moment}":
            break
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.stderr.close()
    process.wait()


def key_of(ledger: Ledger, data: Data, name: str) -> bytes | None:
    assert ledger.keys is not None
    key_file = KeyFolder(ledger.keys, ledger.dataset(data.dataset).hash).find(data.dataset, name)
    if key_file is None:
        return None
    key_file.close()
    return None if key_file.key is None else bytes(key_file.key.secret)


def check(data: Data, ledger: Ledger, name: str, running: Cluster, *, on_spark: bool) -> str:
    """Finish a release, and return what had become of it; anything that must not be fails."""
    n_spends = [spend.release for spend in ledger.history(data.dataset)].count(name)
    bundle, secret = data.folder / name, key_of(ledger, data, name)
    assert n_spends <= 1, f"{name}: charged twice"
    if not n_spends:
        assert not bundle.exists(), f"{name}: a bundle without a spend"
        return "nothing charged"
    outcome = "charged, whole bundle, key destroyed"
    if secret is not None:
        outcome = "charged, whole bundle, key left" if bundle.exists() else "charged, gone on with"
        steps_of(start(data, name, running if on_spark else None, "--resume"), name)
        ready = pipeline.prepare(load_spec(data.spec(name, _file(data))), data.folder)
        drawn = ready.draw(ready.streams(ReleaseKey(type(ReleaseKey().secret)(secret))))
        contents = load_bundle(bundle)
        top = np.stack(list(contents.tables.values()))
        assert np.array_equal(top, drawn[0]), f"{name}: other tables than its key determines"
        leaked = [path for path in [*data.folder.rglob("*"), *running.folder.rglob("*")] if _holds(path, secret)]
        assert not leaked, f"{name}: the key is in {leaked}"
    load_bundle(bundle)
    assert key_of(ledger, data, name) is None
    assert [spend.release for spend in ledger.history(data.dataset)].count(name) == 1
    ledger.verify()
    return outcome


def _file(data: Data) -> str:
    return {"people": "people.parquet", "blocks": "counts.parquet"}[data.dataset]


def _holds(path: Path, secret: bytes) -> bool:
    try:
        content = path.read_bytes() if path.is_file() else b""
    except OSError:
        return False
    return secret in content or secret.hex().encode() in content


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4)))
    arguments = options.parse_args()
    if MISSING:
        sys.exit(REASON)
    print(f"seed {arguments.seed}", flush=True)
    dice, outcomes = random.Random(arguments.seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="congenial-spark-soak-") as place:
        folder = Path(place)
        (folder / "cluster").mkdir()
        kinds = [people(folder / "people"), blocks(folder / "blocks")]
        ledgers = [data.ledger("budget", cap="100000") for data in kinds]
        with cluster(folder / "cluster") as running:
            marks = steps_of(start(kinds[0], "measured", running), "measured")
            seconds = {step: later - now for (step, now), (_, later) in pairwise(marks)}
            print(
                "seconds of each step: " + ", ".join(f"{step} {took:.3g}" for step, took in seconds.items()), flush=True
            )
            moments = list(seconds)
            for number in range(arguments.kills):
                data, ledger, name = kinds[number // 2 % 2], ledgers[number // 2 % 2], f"kill-{number}"
                moment = moments[number % len(moments)]
                kill(data, name, running, moment, dice.random() * seconds[moment] * 1.1)
                outcome = check(data, ledger, name, running, on_spark=number % 2 == 0)
                outcomes[outcome] += 1
                print(f"{number + 1}: killed in {moment!r}: {outcome}", flush=True)
    print("what was left: " + ", ".join(f"{name} {count}" for name, count in outcomes.items()))


if __name__ == "__main__":
    main()
