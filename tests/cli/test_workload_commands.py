"""Every command with a spec of several tables of the same records, or their bundle: it works, or refuses in words."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from congenial.cli.main import main
from releases import CASES, NOW, ledger_for, place, release
from tables_of_records import SPEC, release_tables

LEDGER = ["--ledger", "budget.db"]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    release_tables(folder)
    return folder


@pytest.fixture
def here(released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(shutil.copytree(released, tmp_path / "tables"))
    monkeypatch.chdir(folder)
    return folder


def run(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line))


WORKS = {
    "check spec.yaml": "2 tables of the same records (by age and sex, by illness)",
    "plan spec.yaml": "How far numbers are off",
    "plan spec.yaml --target-error 3 --level 'by illness'": "A mean absolute error of 3 for a cell of table",
    "verify bundle --ledger budget.db": "records and tables are what the rule records makes of the measurements",
    "show bundle": "by age and sex, decided from the measurements of all tables:",
    "show bundle --table 'by illness' --estimates": "counts, measurements and estimates with 90% intervals",
    "infer bundle --query 'sex=f by age' --query 'share(sex=f | county=n)'": "90% intervals",
    "infer bundle --query 'sex=f & ill=flu' --from-records": "none: a model",
    "infer bundle --query all": "exact",
    "infer bundle --query 'sex=f by age' --simultaneous": "90% intervals, all together",
    "decide bundle --out edition": "Written: edition",
    "simulate spec.yaml --out simulated": "NOT FOR RELEASE",
    "compare spec.yaml --releases 2 --seed 1 --out compared": "written to compared",
    "ledger history town --ledger budget.db": "county=n",
    "ledger verify --ledger budget.db --bundle bundle": "The records hang together",
}


@pytest.mark.parametrize("line", WORKS)
def test_it_works_in_words_and_as_json(line: str, here: Path) -> None:
    done = run(line)
    assert done.exit_code == 0, done.output
    assert WORKS[line] in " ".join(done.stdout.split())
    for name in ("edition", "simulated", "compared"):
        shutil.rmtree(here / name, ignore_errors=True)
    done = run(f"{line} --json")
    assert done.exit_code == 0, done.output
    json.loads(done.stdout)


REFUSED = {
    "plan spec.yaml --reference data.csv": "leave --reference out",
    "plan spec.yaml --compare-methods": "there is no other method",
    "plan spec.yaml --target-error 1 --target-of areas": "not of areas",
    "plan spec.yaml --target-error 1 --level sex": "'sex' is not a table",
    "plan spec.yaml --level sex": "give that as well",
    "show bundle --table sex": "no table 'sex'",
    "show bundle --area n": "--area is not for several tables",
    "show bundle --level county": "--level is not for several tables",
    "infer bundle --query 'sex=f & ill=flu'": "sex and ill are together in no measured table",
    "infer bundle --query all --area n": "--area is not for several tables",
    "infer bundle --query all --units county": "--units is not for several tables",
    "infer bundle --query all --district data.csv": "--district is not for several tables",
    "infer bundle --query all --pooled": "--pooled is not for several tables",
    "infer bundle --query all --prior smooth": "--prior is not for several tables",
    "infer bundle --query all --plot p.svg": "--plot is not for several tables",
    "infer bundle --query all --export-draws d.csv": "--export-draws is not for several tables",
    "infer bundle --query median(age)": "median is not answered",
    "estimate bundle --out e": "this command is for trees of areas",
    "decide bundle --out e --rule nearest": "not by 'nearest'",
    "study coverage spec.yaml": "congenial compare shows errors",
    "compare spec.yaml --method raw": "leave --method out",
    "simulate secret.yaml --out simulated": "confidential",
    "compare secret.yaml": "congenial plan says errors without looking",
    "release spec.yaml --ledger budget.db --out b --yes": "small",
}


@pytest.mark.parametrize("line", REFUSED)
def test_it_refuses_in_words(line: str, here: Path) -> None:
    (here / "secret.yaml").write_text(SPEC.replace("status: simulated", "status: confidential"), encoding="utf-8")
    done = run(line)
    assert done.exit_code == 1, done.output
    assert REFUSED[line] in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_options_of_several_tables_are_for_these_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["measured"]
    release(place(tmp_path, case), tmp_path / "bundle", ledger=ledger_for(tmp_path, case), who="Ada", now=NOW)
    monkeypatch.chdir(tmp_path)
    for line in ("show bundle --table all", "show bundle --estimates", "infer bundle --query all --from-records"):
        done = run(line)
        assert done.exit_code == 1
        assert "for several tables of the same records" in done.stderr


def test_the_comparison_with_the_truth_is_by_table(released: Path) -> None:
    page = (released / "CONFIDENTIAL-small.html").read_text(encoding="utf-8")
    assert "of an estimate, expected" in page
    assert page.count("by age and sex") == 2
    assert "Root mean squared error" not in page


def test_an_edition_has_the_same_measurements(here: Path) -> None:
    assert run("decide bundle --out edition").exit_code == 0
    one, other = ({file.name: file.read_bytes() for file in (here / name).iterdir()} for name in ("bundle", "edition"))
    assert {name for name in one if one[name] != other[name]} <= {"manifest.json", "report.html", "README.txt"}
    assert run("verify edition").exit_code == 0


def test_a_starter_spec_mentions_several_tables(here: Path) -> None:
    assert run("init data.csv --out starter.yaml").exit_code == 0
    assert "# tables:" in (here / "starter.yaml").read_text(encoding="utf-8")
