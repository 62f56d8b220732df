"""Whatever is asked of a bundle: numbers that span areas, and two runs that agree as well as they say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import congenial as cg
from agreement import own_rng
from congenial.cli.main import main
from congenial.curator.pipeline import simulate
from congenial.inference import ask_and_answers as across_areas
from congenial.inference import error_intervals as areas_errors
from congenial.inference.areas_posterior import AreasPosterior, areas_posterior
from congenial.inference.ask_and_answers import ask, error_intervals_across, estimates_across
from congenial.inference.questions import parse_query
from congenial.spec.load import load_spec
from releases import CASES, Case, place

pytestmark = pytest.mark.filterwarnings("ignore::congenial.inference.estimates_and_draw_quality.PoorDrawsWarning")

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0-9", "10+"]})
TRUTH = {"north": [30, 1, 24, 0], "south": [2, 9, 1, 40], "east": [12, 12, 12, 12]}


@pytest.fixture
def together(request: pytest.FixtureRequest) -> AreasPosterior:
    tables = {area: cg.Table(SCHEMA, np.reshape(counts, (2, 2))) for area, counts in TRUTH.items()}
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/3")], invariants=[cg.total()])
    law = mechanism.plan(mechanism.disclose(tables, area="county")).law
    rng = own_rng(request)
    drawn = [cg.Law(law, table.counts, area).sample(1, rng)[0] for area, table in tables.items()]
    return areas_posterior(law, np.array(drawn), prior="flat", n_draws=400, rng=rng)


def test_numbers_that_span_areas_are_those_of_the_draws(
    together: AreasPosterior, request: pytest.FixtureRequest
) -> None:
    cube = together.chains.reshape(-1, 3, 2, 2)
    by_hand = {
        "age=10+ over areas": cube[:, :, :, 1].sum(axis=(1, 2)),
        "difference(sex=f & county=south, sex=f & county=north)": cube[:, 1, 0].sum(axis=1) - cube[:, 0, 0].sum(axis=1),
        "share(age=10+ | all) over areas": cube[:, :, :, 1].sum(axis=(1, 2)) / cube.sum(axis=(1, 2, 3)),
        "odds_ratio(county=south, sex=f)": None,
        "all over areas": None,
    }
    statistics = [parse_query(query, SCHEMA, together.law.areas)[0] for query in by_hand]
    found = estimates_across(together, statistics, 0.9)
    for estimate, drawn in zip(found, by_hand.values(), strict=True):
        if drawn is not None:
            assert estimate.mean == pytest.approx(drawn.mean())
            assert (drawn < estimate.low).mean() <= 0.05 >= (drawn > estimate.high).mean()
    by_error = error_intervals_across(together, statistics, 0.9, own_rng(request))
    assert found[-1].is_exact
    assert found[-1].mean == by_error[-1].low == by_error[-1].high == sum(map(sum, TRUTH.values()))
    total, share = by_error[0], by_error[2]
    assert share.released * 155 == pytest.approx(total.released)  # one is the other over everybody
    assert (share.high - share.low) * 155 == pytest.approx(total.high - total.low, abs=4)
    assert by_error[3].why == "it is not linear"
    apart, joint = (estimates_across(together, statistics, 0.9, is_simultaneous=own) for own in (False, True))
    assert joint[0].high - joint[0].low > apart[0].high - apart[0].low


def test_errors_of_areas_add_up(
    together: AreasPosterior, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of tables that are known: mean and spread of a difference as by the exact sampler; a sum's are others."""
    monkeypatch.setattr(areas_errors, "_AREA_RELEASES", 400)
    known = np.array(list(TRUTH.values()), np.int32)[None, None].repeat(12, axis=1)
    sure = AreasPosterior(together.law, together.released, together.prior, known, 1.0)
    rng = own_rng(request)
    drawn = {area: cg.Law(sure.law, np.array(counts), area).sample(4_000, rng) for area, counts in TRUTH.items()}
    off = [(drawn[area] - np.array(TRUTH[area]))[:, [1, 3]].sum(axis=1) for area in ("south", "north")]
    for query, by_hand in (
        ("difference(age=10+ & county=south, age=10+ & county=north)", off[0] - off[1]),
        ("age=10+ & county in {south, north}", off[0] + off[1]),
    ):
        (statistic,) = parse_query(query, SCHEMA, sure.law.areas)
        errors = across_areas._errors(sure, statistic.by_area(4), rng)
        assert errors.mean() == pytest.approx(by_hand.mean(), abs=0.5)
        assert errors.std() == pytest.approx(by_hand.std(), rel=0.1)
    assert abs((off[0] + off[1]).mean() - (off[0] - off[1]).mean()) > 2  # the one is not the other


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulation, so that the same tables are asked about in every run."""
    folder = tmp_path_factory.mktemp("asked")
    case = CASES["areas with totals"]
    spec = place(folder, Case(case.spec.replace("count: n}", "count: n, status: simulated}"), case.data))
    return simulate(load_spec(spec), folder, folder / "bundle", seed=1).folder


def infer(bundle: Path, *more: str) -> list[dict[str, Any]]:
    done = CliRunner().invoke(main, ["infer", str(bundle), *more, "--json"])
    assert done.exit_code == 0, done.output
    return list(json.loads(done.stdout))


def test_queries_that_span_areas_from_the_command_line(bundle: Path, tmp_path: Path) -> None:
    asked = ["--query", "sex=f over areas", "--query", "sex=f", "--query", "all by area"]
    spare = ["--prior", "flat", "--draws", "200", "--seed", "1"]
    found = infer(bundle, *asked, *spare)
    assert [(one["query"], one["area"]) for one in found] == [
        ("sex=f over areas", None),
        ("all, area=01", None),
        ("all, area=02", None),
        ("sex=f", "01"),
        ("sex=f", "02"),
    ]
    assert found[0]["released"] == found[3]["released"] + found[4]["released"]
    assert found[1]["is_exact"]
    infer(bundle, *asked[:2], *spare, "--export-draws", str(tmp_path / "draws.csv"))
    assert len((tmp_path / "draws.csv").read_text(encoding="utf-8").splitlines()) == 401
    printed = CliRunner().invoke(main, ["infer", str(bundle), *asked, *spare])
    assert "together" in printed.output
    refused = CliRunner().invoke(main, ["infer", str(bundle), *asked, *spare, "--area", "01"])
    assert refused.exit_code == 1
    assert "leave --area out" in " ".join(refused.output.split())


def test_what_is_wrong_is_refused_before_anything_is_drawn(bundle: Path, tmp_path: Path) -> None:
    """Thousands of areas take minutes: a slip of the pen should not."""
    loaded, said = cg.load_bundle(bundle), list[Any]()
    slips: list[tuple[dict[str, Any], str]] = [
        ({"areas": ["01", "20"]}, "no area '20'"),
        ({"level": 90.0}, "strictly between 0 and 1"),
        ({"prior": "flt"}, "did you mean 'flat'"),
    ]
    for wrong, match in slips:
        with pytest.raises(cg.CongenialError, match=match):
            ask(loaded, ["all"], rng=cg.replay_rng(1), progress=lambda *news: said.append(news), **wrong)
    assert not said
    (tmp_path / "draws.csv").touch()
    for option, path in (("--plot", "x.gif"), ("--export-draws", str(tmp_path / "draws.csv"))):
        done = CliRunner().invoke(main, ["infer", str(bundle), "--query", "all", option, path])
        assert done.exit_code == 1
        assert "inferring" not in done.output


def test_published_numbers_are_not_drawn(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what the draws would say, all of them alike; draws that are wanted for themselves are drawn."""
    loaded = cg.load_bundle(bundle)
    queries = ["all over areas", "share(area=01 | all)", "all"]
    drawn = ask(loaded, queries, prior="flat", n_draws=40, needs_draws=True, rng=cg.replay_rng(1))
    assert len(drawn.posteriors) == 2
    monkeypatch.setattr(type(loaded), "posterior", None)
    found = ask(loaded, queries, rng=cg.replay_rng(1))
    assert not found.posteriors
    assert [one.as_json() for one in found.numbers] == [one.as_json() for one in drawn.numbers]
    assert all(one.estimate.is_exact for one in found.numbers)
    with pytest.raises(TypeError):
        ask(loaded, [*queries, "sex=f"], rng=cg.replay_rng(1))


def test_areas_that_are_named_are_asked_by_themselves(bundle: Path) -> None:
    """Whether another one is named as well does not change an answer; pooled ones are those of all areas."""
    spare = ["--query", "sex=f", "--draws", "200", "--seed", "1"]
    alone, two = infer(bundle, *spare, "--area", "01"), infer(bundle, *spare, "--area", "01", "--area", "02")
    for one in (*alone, *two):
        assert all(text.startswith(("01: sex=f", "02: sex=f")) for text in one.pop("warnings"))
    assert alone[0] == two[0]
    assert not alone[0]["is_pooled"]
    everywhere, pooled = infer(bundle, *spare), infer(bundle, *spare, "--area", "01", "--pooled")
    assert everywhere[0]["mean"] == pooled[0]["mean"]
    assert everywhere[0]["is_pooled"]
    assert pooled[0]["is_pooled"]


def test_nothing_is_said_of_a_fit_that_was_not_tested(tmp_path: Path) -> None:
    """Replicates of rates that were fitted to the same release cannot tell whether the prior fits it."""
    data = "sex,age,n\nf,010,90\nf,020,1\nf,030,0\nm,010,0\nm,020,2\nm,030,80\n"
    text = CASES["one table"].spec.replace("count: n}", "count: n, status: simulated}")
    spec = place(tmp_path, Case(text, data))
    made = cg.load_bundle(simulate(load_spec(spec), tmp_path, tmp_path / "bundle", seed=1).folder)
    found = ask(made, ["sex=f"], prior="flat", n_draws=400, rng=cg.replay_rng(1))
    assert not [line for line in found.warnings if "contradicts the prior" in line]
    assert not hasattr(found.posteriors[0], "check_fit")


def test_two_runs_agree_within_the_error_that_they_print(bundle: Path) -> None:
    """Not farther apart than four Monte Carlo errors, and not much nearer than errors of that size would have it."""
    queries = ["sex=f & age=010", "sex=f", "share(age=030 | sex=m)", "difference(age=010, age=020)", "sex=m & age=020"]
    asked = [part for query in queries for part in ("--query", query)]
    one, two = (infer(bundle, *asked, "--area", "02", "--draws", "2000", "--seed", seed) for seed in ("1", "2"))
    gaps = [abs(a["mean"] - b["mean"]) for a, b in zip(one, two, strict=True)]
    errors = [np.hypot(a["monte_carlo_error"], b["monte_carlo_error"]) for a, b in zip(one, two, strict=True)]
    apart = np.array(gaps) / np.array(errors)
    assert apart.max() < 4
    assert apart.mean() > 0.1
