"""`congenial compare` on a spec: what is public is shown, what is confidential is not."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from congenial.cli.main import main
from congenial.curator.pipeline import example_files


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
    shown = CliRunner().invoke(main, [*arguments[:-2], "--json", "--method", "conditional", "--method", "raw"])
    assert json.loads(shown.stdout)["method"] == ["conditional", "raw"]


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


def test_a_tree_is_compared(tmp_path: Path) -> None:
    (tmp_path / "blocks.csv").write_text("block\n" + "\n".join(f"{c}{b}" for c in "12" for b in "abcd"))
    (tmp_path / "people.csv").write_text("block,sex,n\n1a,f,5\n1b,m,4\n2c,f,2\n2a,m,7\n")
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        "release: tree\ndata: {path: people.csv, kind: counts, count: n, status: simulated, missing_cells: zero}\n"
        "dimensions: {sex: [f, m]}\nhierarchy: {file: blocks.csv, leaf: block, levels: {county: {prefix: 1}}}\n"
        "invariants: [total]\nbudget: {rho: 1}\n"
    )
    run = CliRunner().invoke(main, ["compare", str(spec), "--releases", "2", "--seed", "1"])
    assert run.exit_code == 0, run.output
    assert "leaves alone, block" in run.stdout
    spec.write_text(spec.read_text().replace("invariants: [total]", "invariants: [{total: all, at: block}]"))
    run = CliRunner().invoke(main, ["compare", str(spec), "--releases", "2", "--seed", "1"])
    assert run.exit_code == 0, run.output
    assert "conditional, block" in run.stdout
    run = CliRunner().invoke(main, ["compare", str(spec), "--releases", "2", "--method", "topdown"])
    assert "kept by the conditional and the measured method alone" in run.stderr
