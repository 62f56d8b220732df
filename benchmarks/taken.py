"""Commands of congenial as processes of their own, and what they take."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Taken:
    """What a command took: CPU seconds of all its threads, seconds by the clock, and its memory at most."""

    cpu: float
    clock: float
    megabytes: float


def run(folder: Path, *words: str) -> Taken:
    """Run a command of congenial and return what it took; its output is thrown away unless it fails."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile() as told:
        started = subprocess.Popen(
            [sys.executable, "-m", "congenial", *words], cwd=folder, stdout=told, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode:
            told.seek(0)
            raise SystemExit(f"congenial {' '.join(words)}: {told.read().decode()}")
    return Taken(used.ru_utime + used.ru_stime, time.perf_counter() - begun, used.ru_maxrss / 1024)
