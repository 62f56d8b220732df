"""The page for R users: its blocks run in base R on a bundle, and give Python's numbers."""

import csv
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from congenial.cli.main import main
from congenial.curator.pipeline import demonstrate
from congenial.inference.estimates_and_draw_quality import ends_of_draws

PAGE = Path(__file__).parents[1] / "docs" / "r.md"
RSCRIPT = shutil.which("Rscript")


@pytest.mark.skipif(
    RSCRIPT is None and not os.environ.get("CONGENIAL_REQUIRE_ALL"), reason="R is not installed; make services does it"
)
def test_the_page_runs_in_r_and_agrees(tmp_path: Path) -> None:
    assert RSCRIPT is not None, "R is required here; make services installs it"
    made = demonstrate(tmp_path / "demo")
    made.folder.rename(tmp_path / "bundle")
    arguments = ["infer", str(tmp_path / "bundle"), "--query", "all", "--draws", "800", "--seed", "1"]
    run = CliRunner().invoke(main, [*arguments, "--export-draws", str(tmp_path / "draws.csv")])
    assert run.exit_code == 0, run.output
    blocks = re.findall(r"^```r\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
    (tmp_path / "page.R").write_text("\n".join(blocks), encoding="utf-8")
    shown = subprocess.run(
        [RSCRIPT, "--vanilla", "page.R"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=600
    ).stdout
    said = {line.split(":")[0]: [float(number) for number in line.split(":")[1].split()] for line in shown.splitlines()}
    assert said["people"] == [256]
    assert said["women"] == [130]
    with (tmp_path / "draws.csv").open(encoding="utf-8") as lines:
        header, *rows = csv.reader(lines)
    draws = {name: np.array(column, float) for name, column in zip(header, zip(*rows, strict=True), strict=True)}
    women = draws["sex=female, age=65-66"] + draws["sex=female, age=67-69"]
    assert said["women of 65 to 69"] == pytest.approx([women.mean(), *ends_of_draws(women, None, 0.9)], rel=1e-5)
    share = (draws["sex=male, age=80-84"] + draws["sex=male, age=85+"]) / 126
    assert said["share of 80+ among men"] == pytest.approx([share.mean(), *ends_of_draws(share, None, 0.9)], rel=1e-5)
