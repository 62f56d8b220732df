"""Trees on the command line: levels of many cells, and whom an answer is about."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.cli.command_and_output import column_parts
from congenial.cli.main import main
from congenial.inference.analyst_bundle import load_bundle

N_CELLS = 60


@pytest.fixture(scope="module", params=["measured", "conditional"])
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    codes = [f"1{district}{block}" for district in "ab" for block in "xy"]
    made = cg.Hierarchy(
        cg.Tree.of_prefixes(codes, {"state": 1, "district": 2}, "block"),
        cg.Schema({"age": [f"y{n}" for n in range(N_CELLS)]}),
        invariants=[cg.total()],
        rho="1",
        method=request.param,
    )
    ledger = cg.open_ledger(folder / "budget.db", create=True)
    ledger.create_dataset("town", rho="3", neighbours="bounded", who="Ada")
    counts = 20_000 + np.arange(4 * N_CELLS).reshape(4, N_CELLS) * 37
    made.release(counts, ledger=ledger, dataset="town", release="t", who="Ada", folder=folder / "bundle")
    return folder / "bundle"


def test_every_count_of_a_level_of_many_cells_is_shown(tree: Path) -> None:
    """A table of 62 columns beside each other has none but blank lines."""
    done = CliRunner().invoke(main, ["show", str(tree), "--level", "district"])
    assert done.exit_code == 0, done.output
    words = set(done.stdout.split())
    codes, tables = load_bundle(tree).level("district")
    assert set(codes) <= words
    assert {f"{count:,}" for count in tables.reshape(-1).tolist()} <= words
    assert all(len(line) <= 140 for line in done.stdout.splitlines())


def test_a_table_that_fits_is_in_one_part() -> None:
    assert column_parts(["unit", "a", "b"], [["north", "1", "a long text that is folded"]], 40) == [[0, 1, 2]]


def test_answers_of_a_tree_say_whom_they_are_about(tree: Path) -> None:
    done = CliRunner().invoke(main, ["infer", str(tree), "--query", "age=y3", "--draws", "200", "--seed", "1"])
    assert done.exit_code == 0, done.output
    assert "These answers are about the top of the tree: state 1." in done.stdout
    is_measured = load_bundle(tree).law.is_measured
    assert ("--units block" if is_measured else "congenial estimate BUNDLE") in done.stdout


@pytest.mark.parametrize("tree", ["measured"], indirect=True)
def test_a_measured_tree_has_no_estimates_with_a_prior(tree: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["estimate", str(tree), "--out", str(tmp_path / "estimates")])
    assert done.exit_code == 1
    assert "congenial infer --units LEVEL" in " ".join(done.stderr.split())
