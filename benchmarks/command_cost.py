"""Commands of congenial as processes of their own, and what they cost."""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CommandCost:
    """What a command cost: CPU seconds of all its threads, seconds by the clock, and its memory at most."""

    cpu: float
    clock: float
    megabytes: float


def run(folder: Path, *arguments: str) -> CommandCost:
    """Run a command of congenial and return what it cost; its output is thrown away unless it fails."""
    begun = time.perf_counter()
    # Modules are translated once, as where packages are installed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile() as output:
        started = subprocess.Popen(
            [sys.executable, "-m", "congenial", *arguments],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        if started.returncode:
            output.seek(0)
            raise SystemExit(f"congenial {' '.join(arguments)}: {output.read().decode()}")
    return CommandCost(used.ru_utime + used.ru_stime, time.perf_counter() - begun, used.ru_maxrss / 1024)
