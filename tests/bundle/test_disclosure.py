"""What a bundle says about cells that its exact numbers give away."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from congenial.bundle.verify import verify_bundle
from congenial.cli.main import main
from congenial.curator.pipeline import simulate
from congenial.errors import BundleError
from congenial.inference.analyst_bundle import load_bundle
from congenial.spec.load import load_spec
from forger import Change, at, forge
from table_files import parquet_arrays

TOWNS = {"Big": (20, 30, 25, 35), "Tiny": (4, 0, 5, 0), "Empty": (0, 0, 0, 0), "One": (0, 1, 0, 0)}
SPEC = """\
release: r
data: {path: data.csv, kind: counts, count: n, status: public}
budget: {epsilon: 1}
by: {name: town, levels: [Big, Tiny, Empty, One]}
dimensions: {sex: [f, m], ill: ['yes', 'no']}
invariants: [total, {total: 'yes'}]
outputs: [csv, report]
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("towns")
    cells = [("f", "yes"), ("f", "no"), ("m", "yes"), ("m", "no")]
    lines = [f"{town},{sex},{ill},{n}" for town, row in TOWNS.items() for (sex, ill), n in zip(cells, row, strict=True)]
    (folder / "data.csv").write_text("\n".join(["town,sex,ill,n", *lines, ""]), encoding="utf-8")
    (folder / "spec.yaml").write_text(SPEC, encoding="utf-8")
    return simulate(load_spec(folder / "spec.yaml"), folder, folder / "bundle", seed=1).folder


def test_manifest_report_and_file_say_the_same(bundle: Path) -> None:
    (counted,) = json.loads((bundle / "manifest.json").read_text(encoding="utf-8"))["given_away"]
    # Nobody is ill or healthy where a sum is 0: two cells of Tiny, four of Empty, two of One.
    assert (counted["n_areas"], counted["n_exact"], counted["n_with_exact"], counted["n_all_exact"]) == (4, 8, 3, 1)
    assert {small_sum["text"]: (small_sum["n_zero"], small_sum["n_one"]) for small_sum in counted["sums"]} == {
        "total": (1, 1),
        "total of ill=yes": (2, 0),
        "ill=no": (2, 1),
    }
    listed = parquet_arrays((bundle / "exact-cells.parquet").read_bytes())
    assert dict(zip(listed["area"], listed["cells"], strict=True)) == {"Tiny": "0101", "Empty": "1111", "One": "1010"}
    tables = load_bundle(bundle).tables
    for area, cells in zip(listed["area"], listed["cells"], strict=True):
        exact = [digit == "1" for digit in cells]
        assert np.array_equal(tables[area][exact], np.array(TOWNS[area])[exact])
    page = (bundle / "report.html").read_text(encoding="utf-8")
    assert "What is not protected" in page
    assert "The invariants give away: town Tiny: sex=f, ill=no = 0" in page
    assert any("exact-cells.parquet was made again" in what for what in verify_bundle(bundle).checked)


@pytest.mark.parametrize(
    "change",
    [at("given_away", 0, "n_exact", value=7), at("given_away", 0, "sums", 0, "n_one", value=0), at("given_away", 0)],
    ids=["a cell fewer", "nobody alone", "nothing"],
)
def test_counts_that_do_not_follow_are_refused(change: Change, bundle: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "b"))
    with pytest.raises(BundleError, match=r"given_away|should"):
        load_bundle(forge(folder, change))


def test_plan_lists_every_cell_in_a_file_of_the_curator(bundle: Path) -> None:
    folder = bundle.parent
    result = CliRunner().invoke(main, ["plan", str(folder / "spec.yaml"), "--list", "--json"])
    assert result.exit_code == 0, result.output
    file = folder / "CONFIDENTIAL-given-away-r.csv"
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[:2] == ["level,area,sex,ill,value", "town,Tiny,f,no,0"]
    assert len(lines) == 1 + 8
    assert file.stat().st_mode & 0o077 == 0
