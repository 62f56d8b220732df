"""Killed, interrupted, out of space: never a bundle without a spend, never half a bundle, always clear words."""

import json
import os
import runpy
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from commands import COMMAND, ENVIRONMENT, run_python
from congenial.curator import pipeline
from congenial.inference.analyst_bundle import load_bundle
from congenial.spec.load import load_spec
from releases import CASES, ledger_for, place

ROOT = Path(__file__).parents[2]
CASE = CASES["given precisions"]  # each release is a process of its own, and a budget would be searched in each


def test_a_kill_at_each_step() -> None:
    """Seven; `make soak` does two hundred."""
    soak = runpy.run_path(str(ROOT / "benchmarks" / "soak.py"))
    done = soak["soak"](7, seed=1)
    assert set(done.killed_in) == set(soak["MOMENTS"])
    assert sum(done.outcomes.values()) == 7
    assert done.outcomes["nothing charged"]  # at least the kills during the imports
    assert done.outcomes["charged, resumed"]


PROGRAM = """
import signal
for caught in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # nohup ignores SIGHUP
    signal.signal(caught, signal.default_int_handler if caught == signal.SIGINT else signal.SIG_DFL)
import contextlib, json, os, sys
from congenial.cli.main import main
@contextlib.contextmanager
def told(*_):
    yield lambda step, *_: [os.kill(os.getpid(), number) for moment in moments if moment == step]
sys.modules["congenial.cli.release_withdraw_keygen"].progress_bar = told
"""


def words(folder: Path) -> list[str]:
    arguments = ["release", folder / "spec.yaml", "--out", folder / "out", "--ledger", folder / "budget.db"]
    return [*map(str, arguments), "--who", "Ada", "--no-confidential-report", "--yes"]


def interrupted(folder: Path, moments: "list[str]", number: signal.Signals) -> "subprocess.CompletedProcess[str]":
    """Run a release that is sent a signal at each of some steps."""
    program = f"{PROGRAM}\nmoments, number = {moments!r}, {int(number)}\nmain(sys.argv[1:])"
    return run_python(program, *words(folder))


BETWEEN = ["charging the budget", "drawing", "writing the bundle"]


def test_an_interruption_before_the_charge_leaves_nothing(tmp_path: Path) -> None:
    place(tmp_path, CASE)
    ledger = ledger_for(tmp_path, CASE)
    run = interrupted(tmp_path, ["planning"], signal.SIGINT)
    assert run.returncode == 130, run.stderr
    assert run.stdout == ""
    assert run.stderr.startswith("Interrupted.")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["budget.db", "data.csv", "spec.yaml"]
    assert ledger.verify().n_spends == 0


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def test_one_interruption_between_charge_and_bundle_is_held(tmp_path: Path) -> None:
    """Each signal at each moment, in one process: nine interruptions, nine bundles."""
    runs = [(tmp_path / f"{moment}-{int(number)}", moment, int(number)) for moment in BETWEEN for number in SIGNALS]
    ledgers = []
    for folder, _, _ in runs:
        place(folder, CASE)
        ledgers.append(ledger_for(folder, CASE))
    program = """
for words, moment, number in json.loads(sys.argv[1]):
    moments = [moment]
    main(words, standalone_mode=False)
    print("next", file=sys.stderr, flush=True)
"""
    run = run_python(PROGRAM + program, json.dumps([(words(folder), *rest) for folder, *rest in runs]))
    assert run.returncode == 0, run.stderr
    messages = run.stderr.split("next\n")[:-1]
    for (folder, _, _), ledger, heard in zip(runs, ledgers, messages, strict=True):
        assert heard.startswith("\nHeld: the budget is charged"), heard
        assert load_bundle(folder / "out").manifest.receipt == ledger.paid("town", "small")[0]  # type: ignore[index]
        assert not list((folder / "budget.db.keys").iterdir())


def test_nothing_is_said_to_be_charged_where_the_charge_is_refused(tmp_path: Path) -> None:
    poor = replace(CASE, cap=("epsilon", "1/100"))
    place(tmp_path, poor)
    ledger_for(tmp_path, poor)
    run = interrupted(tmp_path, ["charging the budget"], signal.SIGINT)
    assert run.returncode == 1
    assert run.stderr.startswith("Error: release 'small' costs epsilon 1.4899, and")


@pytest.mark.parametrize("moments", [["drawing", "drawing"], ["drawing", "writing the bundle"]])
def test_a_second_interruption_stops_and_can_be_gone_on_with(moments: list[str], tmp_path: Path) -> None:
    spec = place(tmp_path, CASE)
    ledger = ledger_for(tmp_path, CASE)
    run = interrupted(tmp_path, moments, signal.SIGINT)
    assert run.returncode == 130, run.stderr
    assert "Interrupted." in run.stderr
    assert "congenial release --resume" in run.stderr
    assert not (tmp_path / "out").exists()
    assert [path.suffix for path in (tmp_path / "budget.db.keys").iterdir()] == [".key"]
    assert ledger.verify().n_spends == 1
    published = pipeline.resume(load_spec(spec), tmp_path, ledger=ledger)
    assert published.folder == tmp_path / "out"
    assert load_bundle(published.folder).manifest.receipt == published.release.receipt
    assert ledger.verify().n_spends == 1
    assert not list((tmp_path / "budget.db.keys").iterdir())


def test_ctrl_c_while_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from congenial.bundle import write as writing

    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("congenial.bundle.write.os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writing.write_folder(tmp_path / "out", lambda out: out.add("a", b"1"))
    assert list(tmp_path.iterdir()) == []


def can_mount() -> bool:
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        return False
    tried = subprocess.run([unshare, "-m", "mount", "-t", "tmpfs", "none", "/tmp"], capture_output=True, check=False)
    return tried.returncode == 0


def in_small_disk(script: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a shell script in a mount namespace of its own, where $DISK is a folder to mount things on."""
    if not can_mount():
        pytest.skip("needs to be root and to have unshare: file systems are mounted")
    (folder / "disk").mkdir()
    environment = ENVIRONMENT | {"DISK": str(folder / "disk"), "CONGENIAL": " ".join(COMMAND)}
    command = ["unshare", "-m", "sh", "-c", "set -e\n" + script]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)


RELEASE = "$CONGENIAL release spec.yaml --out $DISK/out --ledger budget.db --who Ada --no-confidential-report --yes"


def test_a_full_disk(tmp_path: Path) -> None:
    """Space for the hidden folder and not for the files: charged, said so, nothing half-made, gone on with later."""
    place(tmp_path, CASE)
    ledger = ledger_for(tmp_path, CASE)
    full = "mount -t tmpfs -o size=16k none $DISK\n"
    run = in_small_disk(f"{full}{RELEASE} || echo code $?\nls -A $DISK\n{RELEASE} || echo code $?", tmp_path)
    assert run.stdout == "code 1\ncode 1\n", run
    assert (
        "no space left on device. The budget was charged (spend 1 of dataset 'town') and is not refunded" in run.stderr
    )
    assert "was charged on" in run.stderr
    assert "congenial release --resume" in run.stderr
    assert "Traceback" not in run.stderr
    assert ledger.verify().n_spends == 1
    (tmp_path / "disk").rmdir()
    resumed = in_small_disk(f"mount -t tmpfs none $DISK\n{RELEASE} --resume && ls $DISK/out", tmp_path)
    assert "manifest.json" in resumed.stdout, resumed
    assert ledger.verify().n_spends == 1


def test_a_disk_that_is_full_for_the_ledger(tmp_path: Path) -> None:
    """The spend cannot be recorded, so nothing is drawn."""
    place(tmp_path, CASE)
    ledger_for(tmp_path, CASE)
    script = """
mount -t tmpfs -o size=128k none $DISK
cp budget.db $DISK
head -c 200k /dev/zero > $DISK/filler 2> /dev/null || true
$CONGENIAL release spec.yaml --out out --ledger $DISK/budget.db --who Ada --no-confidential-report --yes || echo code $?
rm $DISK/filler
$CONGENIAL ledger verify --ledger $DISK/budget.db --json
$CONGENIAL ledger status --ledger $DISK/budget.db --json
"""
    run = in_small_disk(script, tmp_path)
    assert run.returncode == 0, run
    code, _, rest = run.stdout.partition("\n")
    assert code == "code 1", run
    assert "Traceback" not in run.stderr
    assert "Error: " in run.stderr
    decoder = json.JSONDecoder()
    verified, end = decoder.raw_decode(rest)
    assert verified["verified"]
    status, _ = decoder.raw_decode(rest[end:].lstrip())
    assert status[0]["spent"] == "0"
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_read_only(tmp_path: Path) -> None:
    place(tmp_path, CASE)
    ledger = ledger_for(tmp_path, CASE)
    run = in_small_disk(f"mount -t tmpfs -o ro none $DISK\n{RELEASE} || echo code $?", tmp_path)
    assert run.stdout == "code 1\n", run
    assert "nothing can be written into" in run.stderr
    assert "read-only file system" in run.stderr
    assert ledger.verify().n_spends == 0


def test_a_ledger_that_is_read_only(tmp_path: Path) -> None:
    place(tmp_path, CASE)
    ledger = ledger_for(tmp_path, CASE)
    script = """
mount -t tmpfs none $DISK
cp budget.db $DISK
mount -o remount,ro $DISK
$CONGENIAL release spec.yaml --out out --ledger $DISK/budget.db --who Ada --no-confidential-report --yes || echo code $?
$CONGENIAL ledger status --ledger $DISK/budget.db > /dev/null
"""
    run = in_small_disk(script, tmp_path)
    assert run.stdout == "code 1\n", run
    assert "Traceback" not in run.stderr
    assert "Error: " in run.stderr
    assert not (tmp_path / "out").exists()
    assert ledger.verify().n_spends == 0


def test_a_spec_in_a_read_only_folder(tmp_path: Path) -> None:
    """The curator's comparison goes beside the spec: seen before the charge, with the way out."""
    place(tmp_path, CASE)
    ledger = ledger_for(tmp_path, CASE)
    script = """
mount -t tmpfs none $DISK
cp spec.yaml data.csv $DISK
mount -o remount,ro $DISK
$CONGENIAL release $DISK/spec.yaml --out out --ledger budget.db --who Ada --yes || echo code $?
"""
    run = in_small_disk(script, tmp_path)
    assert run.stdout == "code 1\n", run
    assert "its folder is read-only" in run.stderr
    assert ledger.verify().n_spends == 0
    again = (
        "mount -t tmpfs none $DISK\n$CONGENIAL release spec.yaml --out out --ledger budget.db --who Ada --yes --json"
    )
    (tmp_path / "disk").rmdir()
    assert in_small_disk(again, tmp_path).returncode == 0
    assert load_bundle(tmp_path / "out").manifest.receipt is not None
