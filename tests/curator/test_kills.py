"""Killed, interrupted, out of space: never a bundle without a spend, never half a bundle, always clear words."""

import json
import os
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest

from commands import COMMAND, ENVIRONMENT, run_python
from congenial.bundle.loading import load_bundle
from releases import CASES, ledger_for, place

ROOT = Path(__file__).parents[2]


def test_twenty_kills() -> None:
    """Each step in its turn; `make soak` does two hundred."""
    soak = runpy.run_path(str(ROOT / "benchmarks" / "soak.py"))
    done = soak["soak"](21, seed=1)
    assert set(done.killed_in) == set(soak["MOMENTS"])
    assert sum(done.outcomes.values()) == 21
    assert done.outcomes["nothing charged"]  # at least the kills during the imports
    assert done.outcomes["charged, no bundle"]


@pytest.mark.parametrize("step", ["planning", "drawing", "writing the bundle"])
def test_an_interruption_leaves_nothing_half_made(step: str, tmp_path: Path) -> None:
    """Ctrl-C in each phase: exit code 130, words on stderr, no hidden remainder either."""
    program = f"""
import contextlib, os, signal, sys
from congenial.cli import main
@contextlib.contextmanager
def told(*_):
    yield lambda step: os.kill(os.getpid(), signal.SIGINT) if step == {step!r} else None
sys.modules["congenial.cli.release"].progress_bar = told
main(sys.argv[1:])
"""
    spec, ledger = place(tmp_path, CASES["one table"]), ledger_for(tmp_path, CASES["one table"])
    arguments = ["release", spec, "--out", tmp_path / "out", "--ledger", tmp_path / "budget.db", "--who", "Ada"]
    run = run_python(program, *arguments)
    assert run.returncode == 130, run.stderr
    assert run.stdout == ""
    assert run.stderr.startswith("Interrupted.")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["budget.db", "data.csv", "spec.yaml"]
    assert ledger.verify().n_spends == (step != "planning")


def test_ctrl_c_while_files_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from congenial.bundle import writing

    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("congenial.bundle.writing.os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        writing.write_folder(tmp_path / "out", {"a": b"1"})
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


RELEASE = "$CONGENIAL release spec.yaml --out $DISK/out --ledger budget.db --who Ada --no-confidential-report"


def test_a_full_disk(tmp_path: Path) -> None:
    """Space for the hidden folder and not for the files: charged, said so, nothing half-made, no retry."""
    place(tmp_path, CASES["one table"])
    ledger = ledger_for(tmp_path, CASES["one table"])
    full = "mount -t tmpfs -o size=16k none $DISK\n"
    run = in_small_disk(f"{full}{RELEASE} || echo code $?\nls -A $DISK\n{RELEASE} || echo code $?", tmp_path)
    assert run.stdout == "code 1\ncode 1\n", run
    assert (
        "no space left on device. The budget was charged (spend 1 of dataset 'town') and is not refunded" in run.stderr
    )
    assert "choose a new release name" in run.stderr
    assert "Traceback" not in run.stderr
    assert ledger.verify().n_spends == 1


def test_a_disk_that_is_full_for_the_ledger(tmp_path: Path) -> None:
    """The spend cannot be recorded, so nothing is drawn."""
    place(tmp_path, CASES["one table"])
    ledger_for(tmp_path, CASES["one table"])
    script = """
mount -t tmpfs -o size=128k none $DISK
cp budget.db $DISK
head -c 200k /dev/zero > $DISK/filler 2> /dev/null || true
$CONGENIAL release spec.yaml --out out --ledger $DISK/budget.db --who Ada --no-confidential-report || echo code $?
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
    place(tmp_path, CASES["one table"])
    ledger = ledger_for(tmp_path, CASES["one table"])
    run = in_small_disk(f"mount -t tmpfs -o ro none $DISK\n{RELEASE} || echo code $?", tmp_path)
    assert run.stdout == "code 1\n", run
    assert "nothing can be written into" in run.stderr
    assert "read-only file system" in run.stderr
    assert ledger.verify().n_spends == 0


def test_a_ledger_that_is_read_only(tmp_path: Path) -> None:
    place(tmp_path, CASES["one table"])
    ledger = ledger_for(tmp_path, CASES["one table"])
    script = """
mount -t tmpfs none $DISK
cp budget.db $DISK
mount -o remount,ro $DISK
$CONGENIAL release spec.yaml --out out --ledger $DISK/budget.db --who Ada --no-confidential-report || echo code $?
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
    place(tmp_path, CASES["one table"])
    ledger = ledger_for(tmp_path, CASES["one table"])
    script = """
mount -t tmpfs none $DISK
cp spec.yaml data.csv $DISK
mount -o remount,ro $DISK
$CONGENIAL release $DISK/spec.yaml --out out --ledger budget.db --who Ada || echo code $?
"""
    run = in_small_disk(script, tmp_path)
    assert run.stdout == "code 1\n", run
    assert "its folder is read-only" in run.stderr
    assert ledger.verify().n_spends == 0
    again = "mount -t tmpfs none $DISK\n$CONGENIAL release spec.yaml --out out --ledger budget.db --who Ada --json"
    (tmp_path / "disk").rmdir()
    assert in_small_disk(again, tmp_path).returncode == 0
    assert load_bundle(tmp_path / "out").manifest.receipt is not None
