"""Asking bundles of several areas: what is known at once, what is drawn, and what is kept."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from concurrent.futures.process import BrokenProcessPool
from math import sqrt
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs the extra workbench")

from congenial.bundle.recompute import Bundle
from congenial.bundle.verify import Verified, verify_bundle
from congenial.conditions.rows_and_intervals import Row
from congenial.inference.analyst_bundle import AnalystBundle
from congenial.inference.ask_and_answers import ask
from congenial.inference.error_intervals import ErrorInterval
from congenial.randomness import replay_rng
from congenial.sampling.error_moments import exact_errors
from congenial.sampling.target_and_system import System
from congenial.workbench.endpoints_and_templates import render
from congenial.workbench.jobs_and_errors import Worker
from congenial.workbench.open_bundles_and_answers import AnswerCache, Question, draw_areas
from releases import simulate
from workbench.bench import TestClient, client_of, workspace_of

AREAS = """\
release: three
data: {path: counts.csv, kind: counts, count: n, status: simulated}
dimensions: {sex: [female, male], age: [young, middle, old]}
by: {name: area, levels: [North, South, West]}
invariants: [total]
budget: {epsilon: 1}
"""
QUERY = "difference(sex=female & area=North, sex=female & area=South)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("asking")
    cells = [(sex, age) for sex in ("female", "male") for age in ("young", "middle", "old")]
    rows = [
        f"{area},{sex},{age},{20 + 7 * place + 3 * cell}"
        for place, area in enumerate(("North", "South", "West"))
        for cell, (sex, age) in enumerate(cells)
    ]
    (place / "counts.csv").write_text("\n".join(["area,sex,age,n", *rows]) + "\n")
    (place / "spec.yaml").write_text(AREAS)
    simulate(place / "spec.yaml", place / "three", seed=1)
    return place


@pytest.fixture(scope="module")
def verified(folder: Path) -> Verified:
    return verify_bundle(folder / "three")


def error_of_females(bundle: Bundle, area: str) -> float:
    """The standard deviation of the sum of women around the released table, computed without a draw."""
    row = Row.of("women", [0, 1, 2])
    system = System.of(bundle.law.areas[area], bundle.law.measured)
    found = exact_errors(system, bundle.released(area), [row])
    assert found is not None
    return sqrt(float(found.size[0]) ** 2 - float(found.bias[0]) ** 2)


def test_what_is_known_at_once_has_the_width_of_both_noises(verified: Verified) -> None:
    (found,) = AnswerCache(str).at_once(verified, Question(QUERY, "0.9"))
    sizes = [error_of_females(verified.bundle, area) for area in ("North", "South")]
    width = 2 * 1.645 * sqrt(sizes[0] ** 2 + sizes[1] ** 2)
    assert found.high - found.low == pytest.approx(width, rel=0.15)
    assert found.high - found.low != pytest.approx(2 * 1.645 * sizes[0], rel=0.15)  # a mutant with one noise
    assert found.low < found.estimate < found.high
    (wide,) = AnswerCache(str).at_once(verified, Question(QUERY, "0.99"))
    assert width < wide.high - wide.low < 3 * width  # there are errors enough for the highest level
    (exact,) = AnswerCache(str).at_once(verified, Question("difference(area=North, area=South)", "0.9"))
    assert exact.low == exact.high == exact.released
    assert exact.is_exact
    assert not found.is_exact
    assert AnswerCache(str).at_once(verified, Question("sex=female", "0.9", "North")) == []


def test_the_draws_of_all_areas_are_made_once(verified: Verified, monkeypatch: pytest.MonkeyPatch) -> None:
    answering, asked = AnswerCache(str), Question(QUERY, "0.9")
    missing = answering.missing("three", verified, asked)
    assert missing is not None
    answering.keep("three", draw_areas(*missing))
    by_command = ask(
        AnalystBundle.of(verified.bundle), [QUERY], n_draws=asked.n_draws(verified.bundle), rng=replay_rng("infer 1")
    )
    monkeypatch.setattr(AnalystBundle, "posterior", None)  # whoever draws again fails
    first = answering.answers("three", verified, asked)
    assert [one.estimate for one in first.numbers] == [one.estimate for one in by_command.numbers]
    other = answering.answers("three", verified, Question(QUERY.replace("South", "West"), "0.8"))
    assert answering.answers("three", verified, asked) is first
    assert [one.estimate.level for one in (*first.numbers, *other.numbers)] == [0.9, 0.8]
    assert answering.missing("three", verified, Question("sex=female", "0.9")) is None
    answering.key_of = lambda name: f"{name}, changed"
    assert answering.missing("three", verified, asked) is not None
    nothing_to_draw = (Question("difference(area=North, area=South)", "0.9"), Question("sex=female", "0.9", "North"))
    assert all(answering.missing("three", verified, known) is None for known in nothing_to_draw)


def test_errors_that_are_all_alike_are_not_called_exact() -> None:
    still, known = (ErrorInterval("x", 4.0, 4.0, 4.0, 4.0, 0.9, is_exact=is_exact) for is_exact in (False, True))
    pages = [
        render("at_once.html", lines=[(one, "4", "4", "4", "4")], picture=None, level="90%") for one in (still, known)
    ]
    assert ["exact" in page for page in pages] == [False, True]
    assert "4 to 4" in pages[0]


def test_nobody_waits_for_what_is_drawn_apart() -> None:
    work = Worker()
    assert work.submit_apart(abs, -2).result() == 2
    long = work.submit_apart(time.sleep, 3_600)
    assert work.submit(lambda: 3).result() == 3
    assert not long.done()
    work.close()
    with pytest.raises((BrokenProcessPool, CancelledError)):  # it was ended, and not waited for
        long.result()


@pytest.fixture
def client(folder: Path) -> Iterator[TestClient]:
    workspace = workspace_of(folder)
    with client_of(workspace) as found:
        yield found
    workspace.close()


def test_the_page_names_what_it_shows(client: TestClient) -> None:
    asked = {"bundle": "three", "query": QUERY, "level": "0.9", "area": ""}
    early = client.post("/ask/at-once", json=asked).json()["html"]
    assert "approximate" in early
    assert "law of the" in early
    later = client.post("/ask/answer", json=asked).json()["html"]
    assert "--draws 400" in later
    heads = [re.sub("<.*?>", "", head) for head in re.findall("<th scope=.col.*?</th>", later)]
    assert heads[:5] == ["number", "released", "90% by the law of the noise", "estimate", "90% under a prior"]
    lines = client.get("/answers.csv", params=asked).text.splitlines()
    assert lines[0].startswith("area,query,released,low_by_error_law,high_by_error_law,estimate,low,high,")
    low, high = lines[1].rsplit(",", 8)[1:3]
    assert f"{float(low):,.0f} to {float(high):,.0f}" in later
    assert client.post("/ask/at-once", json={**asked, "query": "sex=female", "area": "North"}).json()["html"] == ""
    for wrong in ({"level": "2"}, {"query": "colour=red"}, {"bundle": "none"}):
        assert client.post("/ask/at-once", json={**asked, **wrong}).status_code == 400
