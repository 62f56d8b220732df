"""The examples: their commands run as their READMEs give them, and their data can be drawn again."""

import runpy
import shutil
import sys
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from congenial.cli.main import main
from congenial.inference.analyst_bundle import AnalystBundle, load_bundle
from console import JARGON, run_lines

EXAMPLES = Path(__file__).parents[2] / "examples"
BUNDLES = {
    "p12": "p12-demo",
    "counties": "counties-2026",
    "clinics": "clinics-2026",
    "microdata": "work-2026",
    "state": "state-2026",
    "health": "health-2026",
}


def test_every_example_is_tried() -> None:
    assert {path.name for path in EXAMPLES.iterdir()} == set(BUNDLES)


@pytest.mark.parametrize("name", BUNDLES)
def test_the_commands_of_the_readme_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder)
    printed = run_lines(folder / "README.md", folder, monkeypatch)
    assert [line.split()[0] for line in printed] == ["check", "plan", "ledger", "release", "verify", "show"]
    planned = printed["plan spec.yaml"]
    most = {"p12": 45, "health": 68}.get(name, 54)  # of several tables, a line for each in three sections
    assert len(planned.splitlines()) <= most, "one screen"
    assert not JARGON.findall(planned)
    bundle = load_bundle(folder / BUNDLES[name])
    assert bundle.manifest.is_for_release
    assert bundle.manifest.sampler, "it says how it was drawn"
    if name == "state":
        check_state(bundle)
    if name == "clinics":
        assert bundle.measurements is not None
        assert bundle.measurements.min() < 0 <= bundle.counts.min()


def check_state(bundle: AnalystBundle) -> None:
    levels = [bundle.level(name) for name in ("state", "county", "tract", "block")]
    assert [len(codes) for codes, _ in levels] == [1, 12, 446, 20_062]
    assert [int(tables.sum()) for _, tables in levels] == [1_068_155] * 4
    codes, tables = levels[-1]
    lines = (EXAMPLES / "state" / "blocks.csv").read_text(encoding="utf-8").splitlines()[1:]
    uninhabited = {line.partition(",")[0] for line in lines if line.endswith(",1")}
    assert len(uninhabited) == 2_435
    assert not tables[[place for place, code in enumerate(codes) if code in uninhabited]].any()


@pytest.mark.parametrize(
    ("example", "data", "most_bytes"),
    [
        ("counties", "counts.csv", 200_000),
        ("health", "counts.csv", 200_000),
        ("clinics", "counts.csv", 30_000),
        ("microdata", "persons.csv", 300_000),
    ],
)
def test_generators_give_the_committed_files(
    example: str, data: str, most_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["generate.py", "--out", str(tmp_path / data)])
    runpy.run_path(str(EXAMPLES / example / "generate.py"), run_name="__main__")
    committed = (EXAMPLES / example / data).read_bytes()
    assert (tmp_path / data).read_bytes() == committed
    assert len(committed) < most_bytes


def test_counties_are_of_very_different_sizes() -> None:
    lines = (EXAMPLES / "counties" / "counts.csv").read_text(encoding="utf-8").splitlines()[1:]
    people: dict[str, int] = {}
    for line in lines:
        county, _, _, count = line.split(",")
        people[county] = people.get(county, 0) + int(count)
    assert (len(people), min(people.values()), max(people.values())) == (60, 300, 300_000)
    assert min(people) == "001"


def plan_of(name: str) -> str:
    result = CliRunner().invoke(main, ["plan", str(EXAMPLES / name / "spec.yaml")])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_plans_say_what_the_invariants_give_away() -> None:
    plan = " ".join(plan_of("microdata").split())
    given_away = plan.partition("The invariants give away: ")[2].partition(" How far")[0]
    assert given_away.count("age=0 to <16, employment=not in labour force, income=0 to <15000") == 4
    assert "unemployed" not in given_away, "structural zeros are declared, not given away"


def test_plans_of_many_areas_have_a_column_for_the_smallest_the_median_and_the_largest() -> None:
    lines = [line.split() for line in plan_of("counties").splitlines()]
    assert ["county", "Alder", "county", "Harbor", "county", "Pine"] in lines
    assert any(" ".join(line).count(", 1 exact") == 3 for line in lines), "three totals determine a fourth"


def test_the_generator_of_a_state_gives_the_committed_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet names the program that wrote it, so its rows are compared, not its bytes."""
    monkeypatch.setattr(sys, "argv", ["generate.py", "--out", str(tmp_path)])
    runpy.run_path(str(EXAMPLES / "state" / "generate.py"), run_name="__main__")
    committed = EXAMPLES / "state"
    assert (tmp_path / "blocks.csv").read_bytes() == (committed / "blocks.csv").read_bytes()
    rows = [duckdb.read_parquet(str(folder / "counts.parquet")).fetchall() for folder in (tmp_path, committed)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 74_248
    assert sum(path.stat().st_size for path in committed.iterdir()) < 600_000
