"""Build the wheel, install it into empty environments, and use what is installed, away from the source tree.

    python benchmarks/wheel.py [--python PATH ...] [--newest]

By default these are the oldest and the newest Python installed here that the project takes, of those on the
path, of pyenv's, and this one. In each the wheel is used without extras, then with all of them but `spark`, which the
tests cover. Packages come from where pip is configured to look, at the versions of requirements-dev.lock, so that the
outcome depends on the code alone; with --newest at those that a reader's `pip install` takes.
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
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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

environment, place = sys.argv[1:]
assert Path(cg.__file__).is_relative_to(environment), cg.__file__
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
import opendp.prelude as dp

import congenial as cg
from congenial.errors import LedgerError
from congenial.examples import p12_mechanism, p12_schema
from congenial.opendp_measurement import as_measurement

dp.enable_features("contrib", "honest-but-curious")
mechanism = p12_mechanism()
assert as_measurement(mechanism, mechanism.disclose(cg.Table(p12_schema(), [[1] * 23] * 2))).map(2) > 0
try:
    cg.open_ledger("postgresql://nobody@127.0.0.1:1/none?connect_timeout=2")
except LedgerError as refused:
    assert "cannot be reached" in str(refused), refused
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
    """Run a command in a folder without sources; with `refused`, it must refuse with these words."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CONGENIAL"))}
    ran = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode != (0 if refused is None else 1) or (refused or "") not in ran.stderr:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def open_workbench(congenial: Path, folder: Path) -> None:
    """Start the workbench, and read a page with a word of the glossary, which lies beside its code in the wheel."""
    line = [congenial, "workbench", folder, "--no-browser", "--json"]
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            link = json.loads("".join(process.stdout.readline() for _ in range(4)))["link"]
            with urllib.request.urlopen(f"{link}choose?file=demo/spec.yaml", timeout=600) as answer:
                assert "popovertarget" in answer.read().decode()
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode in {0, -signal.SIGTERM}, process.returncode


def pins() -> str:
    """Return the versions of the lock file, without hashes: pip takes none for a wheel that was built just now."""
    lines = (SOURCE / "requirements-dev.lock").read_text(encoding="utf-8").splitlines()
    return "\n".join(line.removesuffix(" \\") for line in lines if re.match(r"[A-Za-z0-9]", line))


def try_wheel(wheel: Path, python: str, folder: Path, install: tuple[str, ...]) -> str:
    """Install the wheel without and with extras, and use it; return what was tried."""
    begin = time.perf_counter()
    environment = folder / "environment"
    run(python, "-m", "venv", environment, cwd=folder)
    own, congenial = environment / "bin" / "python", environment / "bin" / "congenial"
    run(own, *install, wheel, cwd=folder)
    assert PROJECT["version"] in run(congenial, "--version", cwd=folder)
    run(congenial, "demo", "--out", "demo", cwd=folder)
    bundle = next(path.parent for path in (folder / "demo").rglob("manifest.json"))
    run(congenial, "verify", bundle, cwd=folder)
    (folder / "library").mkdir()
    run(own, "-c", RELEASE, environment, folder / "library", cwd=folder)
    run(congenial, "verify", folder / "library" / "first", cwd=folder)
    query = ("infer", bundle, "--query", "sex=female & age=65-66")
    run(congenial, *query, cwd=folder, refused="congenial[analysis]")
    run(congenial, "workbench", folder, "--no-browser", cwd=folder, refused="congenial[workbench]")
    size = sum(path.lstat().st_size for path in environment.rglob("*") if path.is_file()) // 10**6

    run(own, *install, f"{wheel}[{','.join(EXTRAS)}]", cwd=folder)
    run(own, "-c", WITH_EXTRAS, cwd=folder)
    run(congenial, *query, cwd=folder)
    run(congenial, "compare", folder / "demo" / "spec.yaml", "--releases", "2", cwd=folder)
    open_workbench(congenial, folder)
    version = run(python, "-c", "import sys; print(sys.version.split()[0])", cwd=folder).strip()
    return f"Python {version}: used without extras ({size} MB) and with them, {time.perf_counter() - begin:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python", nargs="+", help="the Pythons to install into; by default the oldest and the newest here"
    )
    parser.add_argument(
        "--newest", action="store_true", help="take the newest versions of packages, not those of the lock"
    )
    options = parser.parse_args()
    chosen = options.python or oldest_and_newest()
    with tempfile.TemporaryDirectory(prefix="congenial-wheel-") as name:
        folder = Path(name)
        (folder / "pins.txt").write_text("" if options.newest else pins(), encoding="utf-8")
        install = (*PIP, "install", "--no-compile", "--constraint", str(folder / "pins.txt"))
        run(sys.executable, *PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, SOURCE, cwd=folder)
        (wheel,) = folder.glob("*.whl")
        places = [folder / f"python-{number}" for number in range(len(chosen))]
        for place in places:
            place.mkdir()
        with ThreadPoolExecutor() as pool:  # mostly they wait for packages
            for line in pool.map(partial(try_wheel, wheel, install=install), chosen, places):
                print(line, flush=True)


if __name__ == "__main__":
    main()
