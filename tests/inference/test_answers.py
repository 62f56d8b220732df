"""Answers leave as frames, pictures and CSV, with the same numbers everywhere."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from congenial.cli.main import main
from congenial.curator.pipeline import demonstrate
from congenial.inference.analyst_bundle import AnalystBundle
from congenial.inference.ask_and_answers import Answer, answer, answers_frame, plot_answers, write_draws
from congenial.inference.error_intervals import ErrorInterval
from congenial.inference.estimates_and_draw_quality import ALIKE, Estimate, Quality, end_rank, number_text
from congenial.inference.frequentist import Confidence
from congenial.inference.questions import parse_query
from images import is_blank
from releases import CASES, COUNTS, FEW, NOW, Case, ledger_for, place, release

# Few draws are enough to see that numbers agree.
pytestmark = pytest.mark.filterwarnings("ignore::congenial.inference.estimates_and_draw_quality.PoorDrawsWarning")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> AnalystBundle:
    return cg.load_bundle(demonstrate(tmp_path_factory.mktemp("answers") / "demo").folder)


def test_frames_of_every_library_agree(bundle: AnalystBundle) -> None:
    rng = cg.replay_rng("frames")
    found = answer(
        bundle,
        ["all", "sex=female & age=85+"],
        None,
        level=0.9,
        prior="flat",
        n_draws=200,
        is_simultaneous=False,
        rng=rng,
    )
    pandas, polars, arrow = (answers_frame(found.numbers, backend) for backend in ("pandas", "polars", "pyarrow"))
    assert pandas["mean"].tolist() == polars["mean"].to_list() == arrow["mean"].to_pylist()
    assert pandas["is_exact"].tolist() == [True, False]
    draws = bundle.posterior(n_draws=200, rng=cg.replay_rng(1)).frame("polars")
    assert draws.shape == (200, 50)  # the chain, the draw in it and in all, its probability, and 46 cells
    with pytest.raises(cg.CongenialError, match="did you mean 'pandas'"):
        answers_frame(found.numbers, "panda")


def test_the_law_of_the_noise_comes_first(tmp_path: Path) -> None:
    """Of counts, sums and shares the first interval is the one that hardly needs a prior; the posterior's is second."""
    queries = ["age in {80-84, 85+}", "share(age=85+ | sex=female)", "ratio(age=85+ / age=80-84)", "all"]
    made, rng = demonstrate(tmp_path / "demo"), cg.replay_rng("first")
    bundle = cg.load_bundle(made.folder)
    found = answer(bundle, queries, None, level=0.9, prior="flat", n_draws=200, is_simultaneous=False, rng=rng).numbers
    for one in found[:2]:
        row = one.as_row()
        assert row[2] == f"{number_text(one.by_error.low)} to {number_text(one.by_error.high)}"
        assert row[3] == number_text(one.estimate.mean)
        assert row[5:7] == (number_text(one.estimate.low), number_text(one.estimate.high))
    assert found[2].as_row()[2] == "not available"
    assert found[3].as_row()[2:] == ("exact", "256", "exact", "exact", "exact", "exact", "")
    assert [one.as_json()["by_error_law"]["how"] for one in found] == [*["approximate"] * 2, "not available", "exact"]
    assert list(answers_frame(found).columns)[3:6] == ["low_by_error_law", "high_by_error_law", "estimate"]
    run = CliRunner(env={"COLUMNS": "200"}).invoke(
        main, ["infer", str(made.folder), "--query", queries[0], "--prior", "flat", "--draws", "400"]
    )
    assert run.exit_code == 0, run.output
    header = next(line for line in run.output.splitlines() if "released" in line)
    assert header.index("released") < header.index("by error law") < header.index("estimate") < header.index("low")


def test_draws_that_are_alike_say_so() -> None:
    """An error of 0 and "all" draws would be claims that nobody can make."""
    alike, stuck = Quality(400.0, 1.0, float("nan"), ALIKE), Quality(float("nan"), float("nan"), float("nan"))
    nothing = Confidence("q", float("nan"), float("nan"), 0.9, "not available", "no reason")
    ends = {}
    for name, quality in (("alike", alike), ("stuck", stuck)):
        estimate = Estimate("q", 0.0, 0.0, 0.0, 0.0, 0.0, 0.9, False, quality)
        row = Answer(None, estimate, nothing, ErrorInterval("q", 0.0, 0.0, 0.0, 0.0, 0.9)).as_row()
        assert "exact" not in row
        assert row[4] == "unknown"
        assert row[2] == "0 to 0"
        ends[name] = row[-1]
    assert ends == {"alike": "400 alike", "stuck": "unknown POOR"}


def test_draws_and_pictures_are_written_once(bundle: AnalystBundle, tmp_path: Path) -> None:
    rng = cg.replay_rng("written")
    found = answer(bundle, ["all by age"], None, level=0.8, prior="flat", n_draws=200, is_simultaneous=True, rng=rng)
    plot_answers(tmp_path / "plot.png", found.numbers)
    assert not is_blank(tmp_path / "plot.png")
    plot_answers(tmp_path / "plot.svg", found.numbers)
    assert (tmp_path / "plot.svg").read_text(encoding="utf-8").startswith("<svg")
    with pytest.raises(cg.CongenialError, match="written as"):
        plot_answers(tmp_path / "plot.gif", found.numbers)
    write_draws(tmp_path / "draws.csv", [found.posterior])
    with (tmp_path / "draws.csv").open(encoding="utf-8") as lines:
        header, *rows = csv.reader(lines)
    assert header[:5] == [".chain", ".iteration", ".draw", "probability", "sex=female, age=under 5"]
    np.testing.assert_array_equal(np.array([row[4:] for row in rows], np.int64), found.posterior.tables)
    assert {row[3] for row in rows} == {"0.005"}
    n_chains, n_draws, _ = found.posterior.chains.shape
    assert [row[:3] for row in rows[n_draws - 1 : n_draws + 1]] == [
        ["1", str(n_draws), str(n_draws)],
        ["2", "1", str(n_draws + 1)],
    ]
    assert len({row[0] for row in rows}) == n_chains


def test_draws_of_chains_are_arviz_s(bundle: AnalystBundle) -> None:
    posterior = bundle.posterior(n_draws=200, rng=cg.replay_rng("arviz draws"))
    table = posterior.to_arviz()["posterior"]["table"]
    assert table.dims == ("chain", "draw", "cell")
    assert table.coords["cell"].values[0] == "sex=female, age=under 5"
    np.testing.assert_array_equal(table.values, posterior.chains)


def test_files_of_draws_are_written_once(bundle: AnalystBundle, tmp_path: Path) -> None:
    found = answer(
        bundle, ["all"], None, level=0.8, prior="flat", n_draws=40, is_simultaneous=False, rng=cg.replay_rng("once")
    )
    write_draws(tmp_path / "draws.csv", [found.posterior])
    with pytest.raises(cg.CongenialError, match="cannot be written"):
        write_draws(tmp_path / "draws.csv", [found.posterior])


def test_the_exported_draws_give_the_printed_intervals(tmp_path: Path) -> None:
    """Two areas in one file: all 21 tables of the first with exact probabilities, draws of chains of the second."""
    areas = {"01": FEW, "02": COUNTS}
    lines = [f"{area},{line}" for area, data in areas.items() for line in data.splitlines()[1:]]
    case = Case(CASES["areas with totals"].spec, "\n".join(["area,sex,age,n", *lines]) + "\n")
    release(place(tmp_path, case), tmp_path / "bundle", ledger=ledger_for(tmp_path, case), who="Ada", now=NOW)
    queries = ["--query", "sex=f", "--query", "sex=m & age in {010, 020}", "--query", "share(age=030 | sex=f)"]
    written = ["--export-draws", str(tmp_path / "draws.csv")]
    done = CliRunner().invoke(
        main, ["infer", str(tmp_path / "bundle"), *queries, "--prior", "flat", "--draws", "400", "--json", *written]
    )
    assert done.exit_code == 0, done.output
    with (tmp_path / "draws.csv").open(encoding="utf-8") as rows:
        header, *draws = csv.reader(rows)
    assert header[:6] == ["area", ".chain", ".iteration", ".draw", "probability", "sex=f, age=010"]
    schema = cg.Schema({"sex": ["f", "m"], "age": ["010", "020", "030"]})
    for printed in json.loads(done.stdout):
        own = [row for row in draws if row[0] == printed["area"]]
        tables, chances = np.array([row[5:] for row in own], np.int64), np.array([row[4] for row in own], np.float64)
        assert chances.sum() == pytest.approx(1, abs=1e-12)
        assert len(own) == 21 if printed["area"] == "01" else np.all(chances == 1 / 400)
        values = parse_query(printed["query"], schema)[0].values(tables)
        there = np.isfinite(values)
        assert printed["mean"] == pytest.approx(np.average(values[there], weights=chances[there]), abs=1e-12)
        for end, outside in (("low", values < printed["low"]), ("high", values > printed["high"])):
            tail = 0.05 * chances[there].sum()
            at_least = tail if printed["area"] == "01" else end_rank(int(there.sum()), 0.9) / 400
            assert chances[outside & there].sum() <= tail + 1e-12, end
            assert chances[(outside | (values == printed[end])) & there].sum() >= at_least - 1e-12, end


def test_an_area_called_probability_keeps_its_column(tmp_path: Path) -> None:
    data = CASES["areas"].data.replace("area,", "probability,", 1)
    case = Case(CASES["areas"].spec.replace("name: area", "name: probability"), data)
    release(place(tmp_path, case), tmp_path / "bundle", ledger=ledger_for(tmp_path, case), who="Ada", now=NOW)
    columns = cg.load_bundle(tmp_path / "bundle").posterior("02", prior="flat", n_draws=40).columns()
    assert list(columns)[:5] == ["area", ".chain", ".iteration", ".draw", "probability"]
    assert set(columns["area"]) == {"02"}


def test_unknown_areas_are_refused(bundle: AnalystBundle) -> None:
    with pytest.raises(cg.CongenialError, match="no area 'x'"):
        bundle.posterior("x")
