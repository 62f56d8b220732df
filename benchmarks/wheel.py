"""Build the wheel, install it into empty environments, and use what is installed, away from the source tree.

    python benchmarks/wheel.py [--python PATH ...]

Without arguments the oldest and the newest Python are taken that are installed here and new enough: those on the path, those
of pyenv, and this one. In each the wheel is used without extras, then with all but `spark`, which the tests cover. Packages
come from where pip is configured to look; nothing is pinned, so that what a reader's `pip install` takes is what is tried.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((SOURCE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("analysis", "opendp", "postgresql", "study", "workbench")
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
Version = tuple[int, int]

RELEASE = """
import sys
from pathlib import Path

import congenial as cg

site, place = sys.argv[1:]
assert Path(cg.__file__).is_relative_to(site), cg.__file__
schema = cg.Schema({"sex": ["female", "male"], "age": ["0-17", "18-64", "65+"]})
table = cg.Table(schema, [[3, 9, 4], [5, 8, 2]])
mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=[cg.total(), cg.margin("sex")], epsilon="1")
ledger = cg.open_ledger(Path(place) / "budget.db", create=True)
ledger.create_dataset("town", epsilon="4", neighbours="bounded", who="Ada")
release = mechanism.release(table, ledger=ledger, dataset="town", release="first", who="Ada")
release.write(Path(place) / "first")
bundle = cg.load_bundle(Path(place) / "first")
assert bundle.tables[None].sum() == 31, bundle
"""

WITH_EXTRAS = """
import congenial as cg
from congenial.examples import p12_mechanism, p12_schema
from congenial.opendp_measurement import as_measurement
from congenial.pages.figures import *

import psycopg
mechanism = p12_mechanism()
table = cg.Table(p12_schema(), [[1] * 23] * 2)
as_measurement(mechanism, mechanism.disclose(table))
"""


def pythons() -> dict[Version, str]:
    """Return a Python of every minor version that is installed here, by version."""
    folders = [Path(folder) for folder in os.get_exec_path()]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=True).stdout.strip()
        folders += sorted(Path(root, "versions").glob("*/bin"))
    candidates = [sys.executable, *(str(path) for folder in folders for path in folder.glob("python3.*"))]
    named = [path for path in candidates if path == sys.executable or re.fullmatch(r"python3\.\d+", Path(path).name)]
    ask = "import sys, ensurepip, venv; print(*sys.version_info[:2])"
    versions: dict[Version, str] = {}
    for path in named:
        ran = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
        if ran.returncode == 0:  # else a shim without a version behind it, or a Python without venv
            major, minor = map(int, ran.stdout.split())
            versions.setdefault((major, minor), path)
    return versions


def oldest_and_newest() -> list[str]:
    """Return the ends of what is installed here and not older than the project takes."""
    oldest = re.fullmatch(r">=(\d+)\.(\d+)", PROJECT["requires-python"])
    assert oldest is not None
    least = (int(oldest[1]), int(oldest[2]))
    usable = {version: path for version, path in pythons().items() if version >= least}
    print("Python here:", *(f"{major}.{minor}" for major, minor in sorted(usable)), flush=True)
    return [usable[version] for version in sorted({min(usable), max(usable)})]


def run(*command: str | Path, cwd: Path, refused: str | None = None) -> str:
    """Run a command outside of the source tree; with `refused`, it must refuse with these words."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CONGENIAL"))}
    environment["XDG_CACHE_HOME"] = str(cwd / "cache") if command[1] not in PIP else os.environ.get("XDG_CACHE_HOME", "")
    if not environment["XDG_CACHE_HOME"]:
        del environment["XDG_CACHE_HOME"]
    ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    expected = 0 if refused is None else 1
    if ran.returncode != expected or (refused or "") not in ran.stderr:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout
