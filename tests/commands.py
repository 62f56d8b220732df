"""`congenial` as a process of its own, running the code under test wherever it is started."""

import os
import subprocess
import sys
from pathlib import Path

import congenial

COMMAND = [sys.executable, "-m", "congenial"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("CONGENIAL_LEDGER")} | {
    "PYTHONPATH": str(Path(congenial.__file__).parents[1])
}


def run_python(
    code: str, *arguments: object, cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a program text."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    whole = ENVIRONMENT | environment
    return subprocess.run(command, capture_output=True, text=True, check=False, env=whole, cwd=cwd)


def run_command(*arguments: object, cwd: Path | None = None, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run `congenial` with these arguments."""
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=ENVIRONMENT | environment, cwd=cwd, timeout=1_800
    )
