"""Questions to a measured bundle: from its measurements at once, with a posterior where one is asked for."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.cli.main import main
from congenial.curator.pipeline import simulate
from congenial.errors import BundleError, InferenceError
from congenial.inference.analyst_bundle import AnalystBundle
from congenial.inference.ask_and_answers import answers_frame, ask, plot_answers
from congenial.spec.load import load_spec

SPEC = """
release: questions
dataset: four-counties
data: {path: counts.csv, kind: counts, count: n, status: simulated}
dimensions:
  sex: [female, male]
  age: {levels: [0-17, 18-64, 65+], groups: {adult: {from: 18-64}}}
by: {name: county, levels: [North, South, East]}
invariants: [total by sex]
budget: {epsilon: 1}
method: measured
"""
COUNTS = {"North": [[3, 9, 2], [4, 8, 0]], "South": [[1, 0, 5], [0, 0, 0]], "East": [[20, 31, 12], [18, 40, 7]]}
QUERIES = ["age=65+", "sex=female & age=65+", "share(adult | sex=female)", "difference(age=0-17, age=65+)"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("measured")
    lines = ["county,sex,age,n"]
    for county, counts in COUNTS.items():
        for sex, line in zip(("female", "male"), counts, strict=True):
            lines += [f"{county},{sex},{age},{n}" for age, n in zip(("0-17", "18-64", "65+"), line, strict=True)]
    (place / "counts.csv").write_text("\n".join(lines) + "\n")
    (place / "spec.yaml").write_text(SPEC)
    return simulate(load_spec(place / "spec.yaml"), place, place / "bundle", seed=1).folder


@pytest.fixture(scope="module")
def bundle(folder: Path) -> AnalystBundle:
    return cg.load_bundle(folder)


def test_answers_come_from_measurements_without_draws(bundle: AnalystBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AnalystBundle, "posterior", None)
    spanning = ["age=65+ over areas", "difference(adult & county=North, adult & county=East)"]
    replies = ask(bundle, [*QUERIES, *spanning, "all"], rng=cg.replay_rng("none"))
    assert not replies.posteriors
    assert bundle.measurements is not None
    by_name = {(answer.area, answer.estimate.query): answer for answer in replies.numbers}
    north = by_name["North", "age=65+"]
    assert north.confidence.measured == bundle.measurements[0, [2, 5]].sum()
    assert north.estimate.released == bundle.tables["North"][[2, 5]].sum()
    assert (north.by_error.low, north.by_error.high) == (north.confidence.low, north.confidence.high)
    assert by_name[None, spanning[0]].confidence.measured == bundle.measurements[:, [2, 5]].sum()
    assert by_name["South", "all"].estimate.is_exact
    assert by_name["South", "all"].by_error.is_exact
    for answer in replies.numbers:
        known = answer.confidence
        assert known.is_available
        assert (known.coverage or 0) >= 0.9
        values = answer.as_json()
        assert values["coverage"] == known.coverage
        assert values["measured"] == known.measured
        assert values["by_error_law"]["how"] == ("exact" if answer.estimate.is_exact else "from the measurements")
        assert not values["is_poor"]
        json.dumps(values, allow_nan=False)
        assert len(answer.as_measured_row(has_posterior=False)) == 5


def test_an_empty_sex_has_no_noise(bundle: AnalystBundle) -> None:
    """South has no men, and says so by its exact numbers: its men are exactly none at every age."""
    for interval in bundle.confidence("sex=male by age", "South"):
        assert (interval.low, interval.high, interval.coverage) == (0, 0, 1)


def test_a_named_prior_adds_a_posterior(bundle: AnalystBundle, tmp_path: Path) -> None:
    queries = ["age=65+", "ratio(age=65+ / age=0-17)"]
    replies = ask(bundle, queries, ["North"], prior="flat", n_draws=400, rng=cg.replay_rng("named"))
    count, ratio = replies.numbers
    assert count.is_drawn
    assert ratio.is_drawn
    assert not ratio.confidence.is_available
    assert count.by_error.high == count.confidence.high
    assert len(count.as_measured_row(has_posterior=True)) == 10
    frame = answers_frame(replies.numbers, "pyarrow")
    assert frame.column("measured").to_pylist() == [count.confidence.measured, None]
    plot_answers(tmp_path / "drawn.svg", replies.numbers)
    plot_answers(tmp_path / "at-once.svg", ask(bundle, queries, ["North"], rng=cg.replay_rng("")).numbers)
    assert {path.name for path in tmp_path.iterdir()} == {"drawn.svg", "at-once.svg"}
    together = ask(bundle, ["age=65+ over areas"], prior="flat", n_draws=400, rng=cg.replay_rng("over"))
    assert together.numbers[0].is_drawn
    assert (together.numbers[0].confidence.coverage or 0) >= 0.9


def test_intervals_together_say_what_they_cover_together(bundle: AnalystBundle) -> None:
    single = bundle.confidence("all by sex, age", "East")
    together = bundle.confidence("all by sex, age", "East", is_simultaneous=True)
    assert len({interval.coverage for interval in together}) == 1
    assert (together[0].coverage or 0) >= 0.9 - 1e-12
    assert all(wide.low <= one.low <= one.high <= wide.high for wide, one in zip(together, single, strict=True))


def test_a_release_without_tables_answers_as_well(bundle: AnalystBundle) -> None:
    """Where a rule refused there is no table, and the measurements say the same as ever."""
    without = AnalystBundle.of(replace(bundle, levels=()))
    one, other = (ask(some, QUERIES, ["East"], rng=cg.replay_rng("")).numbers for some in (bundle, without))
    assert [answer.confidence for answer in one] == [answer.confidence for answer in other]
    assert all(np.isnan(answer.estimate.released) for answer in other)
    assert other[0].as_measured_row(has_posterior=False)[1] == "none"
    known = without.posterior("East", prior="flat", n_draws=400, rng=cg.replay_rng("undecided"))
    assert np.all(bundle.law.areas["East"].holds(known.tables))
    with pytest.raises(BundleError, match="no area 'Est'"):
        without.confidence("all", "Est")


def test_what_is_refused_in_words(bundle: AnalystBundle) -> None:
    with pytest.raises(InferenceError, match="independence test is not offered yet for measured releases"):
        bundle.independence_test("North")
    with pytest.raises(BundleError, match="no area 'Est'"):
        bundle.confidence("all", "Est")
    model = bundle.model(["sex"], "East", n_draws=320, rng=cg.replay_rng("model"))
    with pytest.raises(InferenceError, match="not offered yet for measured releases"):
        model.goodness_of_fit()


def test_commands_print_measurements_and_coverage(folder: Path, tmp_path: Path) -> None:
    line = ["infer", str(folder), "--query", "age=65+", "--area", "North", "--query", "odds_ratio(sex=male, age=65+)"]
    shown = CliRunner().invoke(main, line)
    assert shown.exit_code == 0, shown.output
    for text in ("measured", "coverage", "interval*", "not available", "--prior smooth"):
        assert text in shown.output
    assert "eff. draws" not in shown.output
    drawn = CliRunner().invoke(main, [*line, "--prior", "flat", "--draws", "400", "--seed", "1"])
    assert "eff. draws" in drawn.output
    plain = json.loads(CliRunner().invoke(main, [*line, "--json"]).output)
    assert [answer["prior"] for answer in plain] == [None, None]
    assert plain[0]["coverage"] >= 0.9 > (plain[1]["coverage"] or 0)
    draws = tmp_path / "draws.csv"
    exported = CliRunner().invoke(main, [*line, "--draws", "400", "--seed", "1", "--export-draws", str(draws)])
    assert exported.exit_code == 0, exported.output
    assert len(draws.read_text().splitlines()) == 401


def test_show_prints_measurements(folder: Path, bundle: AnalystBundle) -> None:
    shown = CliRunner().invoke(main, ["show", str(folder), "--area", "North"])
    assert shown.exit_code == 0, shown.output
    for text in ("Measurements of county North", "can be negative", "Table, decided from the measurements"):
        assert text in shown.output
    plain = json.loads(CliRunner().invoke(main, ["show", str(folder), "--area", "North", "--json"]).output)
    assert bundle.measurements is not None
    assert [one["value"] for one in plain["measurements"]] == bundle.measurements[0].tolist()
    assert plain["method"] == "measured"
