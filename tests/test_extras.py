"""What needs an extra says which one where it is not installed; a release and its check need none."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EARLIER = Path(__file__).parent / "earlier" / "0.1.0"
EXAMPLE = Path(__file__).parents[1] / "examples" / "p12"

EXTRAS = ("arviz_base", "arviz_stats", "daqp", "matplotlib", "scipy", "pandas", "polars")


def run_without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that cannot import any package of the extras."""
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({EXTRAS!r}));"
        "from congenial.cli.main import main; main(sys.argv[1:], standalone_mode=True)"
    )
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_a_plan_of_crossing_margins_needs_no_extra(tmp_path: Path) -> None:
    """Its made-up tables must meet rows, columns and a range together: by the solver that a release has."""
    (tmp_path / "n.csv").write_text("a,b,n\n" + "".join(f"{i},{j},{i + j}\n" for i in range(3) for j in range(3)))
    (tmp_path / "spec.yaml").write_text(
        "release: r\ndata: {path: n.csv, kind: counts, count: n}\n"
        "dimensions: {a: ['0', '1', '2'], b: ['0', '1', '2']}\ninvariants: [margin of a, margin of b]\n"
        "conditions: [{total: {a: '0', b: '0'}, at_most: 1}]\nbudget: {epsilon: 1}\n"
    )
    ran = run_without_extras("plan", str(tmp_path / "spec.yaml"))
    assert ran.returncode == 0, ran.stderr


def test_a_release_and_its_check_need_no_extra(tmp_path: Path) -> None:
    for name in ("spec.yaml", "counts.csv"):
        shutil.copy(EXAMPLE / name, tmp_path)
    spec, ledger, out = str(tmp_path / "spec.yaml"), str(tmp_path / "budget.db"), str(tmp_path / "out")
    commands = [
        ["plan", spec],
        ["ledger", "create", "p12-example", "--epsilon", "4", "--ledger", ledger],
        ["release", spec, "--ledger", ledger, "--out", out, "--yes"],
        ["verify", out, "--ledger", ledger],
        ["show", out],
    ]
    for command in commands:
        ran = run_without_extras(*command)
        assert ran.returncode == 0, (command, ran.stderr)


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("infer", str(EARLIER / "one-table"), "--query", "age=65+"), "analysis"),
        (("infer", str(EARLIER / "one-table"), "--query", "age=65+", "--plot", "out.svg"), "analysis"),
        (("compare", str(EXAMPLE / "spec.yaml"), "--releases", "2"), "study"),
    ],
)
def test_what_needs_an_extra_names_it(
    arguments: tuple[str, ...], extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_without_extras(*arguments)
    assert ran.returncode == 1
    assert f"pip install 'congenial[{extra}]'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not list(tmp_path.iterdir())
