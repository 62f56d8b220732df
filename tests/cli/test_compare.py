"""`congenial compare` on a spec: what is public is shown, what is confidential is not."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from congenial.cli import main
from congenial.curator.demonstration import example_files


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    for name in ("spec.yaml", "counts.csv"):
        shutil.copyfile(example_files() / name, tmp_path / name)
    return tmp_path / "spec.yaml"


def test_simulated_data_are_compared(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["compare", str(spec), "--releases", "5", "--seed", "1", "--out", str(out)]
    run = CliRunner().invoke(main, arguments)
    assert run.exit_code == 0, run.output
    assert "TopDown" in run.stdout
    assert (out / "index.html").is_file()
    shown = CliRunner().invoke(main, [*arguments[:-2], "--json", "--method", "congenial", "--method", "raw"])
    assert json.loads(shown.stdout)["method"] == ["congenial", "raw"]


def test_confidential_data_are_not(spec: Path, tmp_path: Path) -> None:
    spec.write_text(
        spec.read_text(encoding="utf-8").replace("status: simulated", "status: confidential"), encoding="utf-8"
    )
    run = CliRunner().invoke(main, ["compare", str(spec), "--releases", "5"])
    assert run.exit_code == 1
    assert run.stdout == ""
    assert "CONFIDENTIAL-comparison" in run.stderr
    marked = tmp_path / "CONFIDENTIAL-comparison"
    run = CliRunner().invoke(main, ["compare", str(spec), "--releases", "5", "--method", "raw", "--out", str(marked)])
    assert run.exit_code == 0, run.output
    assert run.stdout.splitlines() == [f"CONFIDENTIAL: written to {marked}"]
