"""Measured releases in the workbench: chosen, released, looked at and asked; also where the rule decides no table."""

import re
import time
from collections.abc import Iterator
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra workbench")

import congenial as cg
from congenial.bundle.expected_errors import expected_error
from congenial.bundle.method_text import NEGATIVE
from congenial.conditions.rows_and_intervals import Row
from congenial.curator.alternatives_and_target_error import WHEN_WHICH
from congenial.curator.sections import NO_PROVEN_INTERVALS
from congenial.errors import ReadingError, SamplingError
from congenial.inference.analyst_bundle import load_bundle
from congenial.inference.ask_and_answers import ask
from congenial.plan import Plan
from congenial.randomness import replay_rng
from congenial.rules.registry import rule_named
from congenial.spec.load import parse_spec
from congenial.workbench.measured_drafts import measured_errors
from congenial.workbench.spec_edit import changed
from congenial.workbench.workspace import Workspace
from releases import simulate
from workbench.bench import TestClient, client_of, folder_with, tree_in, workspace_of

MEASURED = {"method": "measured"}
FILE = "p12/spec.yaml"
AREAS = """\
release: three
data: {path: counts.csv, kind: counts, count: n, status: simulated}
dimensions: {sex: [female, male], age: [young, middle, old]}
by: {name: area, levels: [North, South, West]}
invariants: [total]
budget: {epsilon: 1}
method: measured
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    made = workspace_of(folder_with(tmp_path, "p12"))
    yield made
    made.close()


@pytest.fixture
def client(workspace: Workspace) -> Iterator[TestClient]:
    with client_of(workspace) as entered:
        yield entered


def panel(client: TestClient, *changes: dict[str, Any], file: str = FILE) -> dict[str, Any]:
    request = {"file": file, "changes": list(changes), "is_whole": True}
    answer: dict[str, Any] = client.post("/choose/panel", json=request).json()
    return answer


def plain(html: str) -> str:
    """The text of a page, without its popovers."""
    shown = re.sub(r"<span popover.*?</span>", "", html)
    return " ".join(re.sub(r"<[^>]+>", " ", shown).replace("&#39;", "'").split())


def three_areas(place: Path) -> Path:
    cells = [(sex, age) for sex in ("female", "male") for age in ("young", "middle", "old")]
    rows = [
        f"{area},{sex},{age},{2 + 7 * number + 3 * cell}"
        for number, area in enumerate(("North", "South", "West"))
        for cell, (sex, age) in enumerate(cells)
    ]
    (place / "counts.csv").write_text("\n".join(["area,sex,age,n", *rows]) + "\n")
    (place / "spec.yaml").write_text(AREAS)
    return place / "spec.yaml"


def test_the_method_is_written_and_a_rule_goes_with_it() -> None:
    text = "release: a  # first\nmethod: measured  # agreed\nrule: nearest  # the usual one\nbudget: {epsilon: 1}\n"
    assert changed(text, [{"method": "conditional"}]) == (
        "release: a  # first\nmethod: conditional  # agreed\nbudget: {epsilon: 1}\n"
    )
    assert changed(text, [MEASURED]) == text
    assert changed("release: a\n", [MEASURED]) == "release: a\nmethod: measured\n"
    assert changed("release: a\n", [MEASURED, {"method": "conditional"}]) == "release: a\nmethod: conditional\n"
    with pytest.raises(ReadingError, match="none that the workbench knows"):
        changed(text, [{"method": "guessed"}])


def test_both_methods_are_offered_and_figures_are_those_of_the_method(client: TestClient) -> None:
    page = client.get("/choose", params={"file": FILE}).text
    assert '<select id="method"' in page
    assert WHEN_WHICH in plain(page)
    drawn, measured = panel(client), panel(client, MEASURED)
    assert (drawn["method"], measured["method"]) == ("conditional", "measured")
    assert parse_spec(measured["text"].encode(), folder=Path()).method == "measured"
    assert measured["cost"] == "epsilon 1"
    assert float(measured["noise"]) < float(drawn["noise"])  # limits cost nothing
    assert float(measured["error"]) < float(drawn["error"])
    exact = [{key for key, state in found["grid"].items() if state["exact"]} for found in (drawn, measured)]
    assert exact[0] == exact[1] != set()
    words = plain(measured["html"])
    assert "The measurements" in words
    assert "The measurements" not in plain(drawn["html"])
    for phrase in (NO_PROVEN_INTERVALS, "lower limit", "by draws", "drawn given"):
        assert phrase not in words
    assert NO_PROVEN_INTERVALS in plain(drawn["html"])


def test_how_it_is_drawn_names_sampler_rule_and_what_was_dropped(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = {"file": FILE, "changes": [MEASURED]}
    words = plain(client.post("/choose/sampler", json=request).json()["html"])
    assert "It changes no exact number." in words
    assert "by the rule nearest , version 1" in words
    assert rule_named("nearest").words in words
    monkeypatch.setattr(Plan, "dropped_sums", ("women", *(f"sum {number}" for number in range(9))))
    words = plain(client.post("/choose/sampler", json=request).json()["html"])
    assert "changes no exact number" not in words
    assert "will not have these: women, sum 0, sum 1, sum 2, sum 3, sum 4, sum 5, sum 6 and 2 more ." in words


def test_what_each_number_costs_is_by_the_method(client: TestClient) -> None:
    request = {"file": FILE, "changes": [MEASURED], "number": 0}
    row = client.post("/choose/cost", json=request).json()["row"]
    assert row["text"] == "without total"
    assert row["noise"] == panel(client, MEASURED)["noise"]
    assert float(row["error"]) == pytest.approx(float(panel(client, MEASURED)["error"]), rel=0.1)


def test_a_draft_without_a_table_says_so(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise SamplingError("this rule is out of order")

    monkeypatch.setattr(type(rule_named("nearest")), "decide", refuse)
    answer = panel(client, MEASURED)
    assert answer["ok"]
    assert answer["error"] == ""
    assert "measurements would be published and no table: this rule is out of order" in plain(answer["html"])
    row = client.post("/choose/cost", json={"file": FILE, "changes": [MEASURED], "number": 0}).json()["row"]
    assert row["error"] == "no table"


def test_errors_of_a_draft_are_those_of_many_draws() -> None:
    schema = cg.Schema({"sex": ["female", "male"], "age": ["0-17", "18-64", "65+"]})
    options: dict[str, Any] = {"measure": [cg.cells()], "epsilon": "1", "method": "measured"}
    mechanism = cg.Mechanism(schema, invariants=[cg.margin("sex")], **options)
    centre = np.array([3, 9, 0, 5, 8, 2])
    plan = mechanism.plan(mechanism.disclose(cg.Table(schema, centre.reshape(2, 3))))
    rows = [*(Row.of("", [cell]) for cell in range(6)), Row.of("women", [0, 1, 2])]
    errors = measured_errors(plan, None, centre, rows)
    assert errors.table is not None
    assert errors.measurements is not None
    assert errors.table.size[:6] == pytest.approx(expected_error(plan, None, centre, "").cells, rel=0.15)
    assert errors.table.size[6] == errors.measurements.size[6] == 0
    assert errors.table.bias[2] > 0.2  # nobody is there, and no count is negative
    free = cg.Mechanism(schema, neighbours="unbounded", **options)
    law = free.plan(free.disclose(cg.Table(schema, centre.reshape(2, 3))))
    alone = measured_errors(law, None, centre, rows).measurements
    assert alone is not None
    deviation = sqrt(float(law.law.measured[0].noise.variance))
    assert alone.size == pytest.approx([*[deviation] * 6, sqrt(3) * deviation], rel=0.15)


def test_what_is_never_off_in_draws_is_not_called_exact(client: TestClient) -> None:
    """A budget so large that noise does not show in a few thousand draws."""
    states = panel(client, MEASURED, {"budget": {"epsilon": "60"}})["grid"]
    cells = [state for key, state in states.items() if not key.startswith(".") and not key.endswith(".")]
    assert {(state["exact"], state["error"]) for state in cells} == {(False, "0")}
    assert states["."]["exact"]


def test_trees_have_both_methods(tmp_path: Path) -> None:
    tree_in(tmp_path)
    workspace = workspace_of(tmp_path)
    with client_of(workspace) as client:
        page = client.get("/choose", params={"file": "town/spec.yaml"}).text
        assert 'id="method"' in page
        assert "tables of all levels decided together" in plain(page)
        answer = panel(client, MEASURED, file="town/spec.yaml")
    workspace.close()
    assert answer["ok"]
    assert answer["method"] == "measured"


def test_from_the_release_page_to_answers(client: TestClient, workspace: Workspace) -> None:
    file = workspace.folder / "p12/measured.yaml"
    file.write_text(changed((workspace.folder / FILE).read_text(), [MEASURED]))
    page = plain(client.get("/release", params={"file": "p12/measured.yaml"}).text)
    for words in (
        "measured : the measurements are published",
        "nearest , version 1",
        NEGATIVE,
        "until a table pleases",
    ):
        assert words in page
    usual = plain(client.get("/release", params={"file": FILE}).text)
    assert "conditional : the table is drawn" in usual
    assert NEGATIVE not in usual
    form = {"file": "p12/measured.yaml", "who": "Ada", "consent": "p12-demo"}
    answer = client.post("/release", data=form, follow_redirects=False)
    job = re.search(r"job=(\d+)", answer.headers["location"])
    assert job is not None
    while not (state := client.get(f"/job/{job[1]}").json())["is_over"]:
        time.sleep(0.02)
    assert not state["error"]
    page = client.get(f"/{state['result']}").text
    words = plain(page)
    for part in ("Released.", "The measurements ( measurements.csv", "fixed before the data were measured", NEGATIVE):
        assert part.replace("( ", "(") in words.replace("( ", "(")
    bundle = load_bundle(workspace.folder / "p12/p12-demo")
    assert bundle.measurements is not None
    first = f'{bundle.measurements[0, 0]}</td><td class="number">{bundle.counts[0, 0]}</td>'
    assert first in page.replace(",", "")
    assert client.get("/report", params={"bundle": "p12/p12-demo"}).status_code == 200
    check_answers(client, "p12/p12-demo", bundle)


def check_answers(client: TestClient, name: str, bundle: Any) -> None:
    question = {"bundle": name, "query": "age=85+", "level": "0.9"}
    (expected,) = ask(bundle, ["age=85+"], rng=replay_rng("any")).numbers
    html = client.post("/ask/answer", json=question).json()["html"]
    heads = [plain(head) for head in re.findall("<th scope=.col.*?</th>", html)]
    assert heads == ["number", "measured", "exact interval", "its coverage", "table"]
    row = expected.as_measured_row(has_posterior=False)
    assert all(text in plain(html) for text in row)
    assert "data-prior=" in html
    assert "--prior" not in html
    assert expected.confidence.coverage is not None
    assert expected.confidence.coverage >= 0.9
    later = client.post("/ask/answer", json={**question, "prior": "smooth"}).json()["html"]
    assert "90% under a prior" in plain(later)
    assert row[3] in plain(later)
    assert "--prior smooth --seed 1" in later
    assert "data-prior=" not in later
    lines = client.get("/answers.csv", params=question).text.splitlines()
    assert lines[0] == "area,query,table,measured,low,high,coverage,level,is_exact"
    assert float(lines[1].split(",")[3]) == expected.confidence.measured
    median = client.post("/ask/answer", json={**question, "query": "median(age | all)"}).json()["html"]
    assert "No interval from the measurements" in plain(median)
    known = plain(client.post("/ask/answer", json={**question, "query": "all"}).json()["html"])
    assert "exact 100 %" in known
    wrong = client.post("/ask/answer", json={**question, "prior": "rough"})
    assert wrong.status_code == 400


def test_areas_show_their_table_or_their_measurements(tmp_path: Path) -> None:
    bundle = load_bundle(simulate(three_areas(tmp_path), tmp_path / "three", seed=1).folder)
    assert bundle.measurements is not None
    workspace = workspace_of(tmp_path)
    with client_of(workspace) as client:
        for what, numbers in (("table", bundle.counts), ("measurements", bundle.measurements)):
            page = client.get("/ask", params={"bundle": "three", "what": what}).text
            assert f"The {what} of every area" in page
            line = "".join(f'<td class="number">{number}</td>' for number in numbers[1].tolist())
            assert f'<th scope="row">South</th><td class="number"><b>{numbers[1].sum()}</b></td>{line}' in page
        question = {"bundle": "three", "query": "sex=female over areas", "level": "0.9", "area": ""}
        assert client.post("/ask/at-once", json=question).json()["html"] == ""
        html = plain(client.post("/ask/answer", json=question).json()["html"])
        assert f"{bundle.measurements[:, :3].sum()}" in html
        both = plain(client.post("/ask/answer", json={**question, "prior": "smooth"}).json()["html"])
        assert "90% under a prior" in both
        of_each = client.post("/ask/answer", json={**question, "query": "sex=female"}).json()["html"]
        assert all(f"{area}: sex=female" in of_each for area in ("North", "South", "West"))
    workspace.close()


@pytest.mark.parametrize("has_areas", [False, True])
def test_a_bundle_without_a_table_is_opened_and_asked(
    has_areas: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = three_areas(tmp_path)
    if not has_areas:
        spec.write_text(AREAS.replace("by: {name: area, levels: [North, South, West]}\n", ""))
        rows = [row.partition(",")[2] for row in (tmp_path / "counts.csv").read_text().splitlines()]
        (tmp_path / "counts.csv").write_text("\n".join(rows[:7]) + "\n")

    def refuse(*_: Any) -> None:
        raise SamplingError("this rule is out of order")

    with monkeypatch.context() as patched:
        patched.setattr(Plan, "decide_and_learn", refuse)
        made = simulate(spec, tmp_path / "bare", seed=1)
    assert not (made.folder / "table.csv").exists()
    workspace = workspace_of(tmp_path)
    with client_of(workspace) as client:
        answer = client.get("/ask", params={"bundle": "bare"})
        assert answer.status_code == 200
        assert "There is no table: the rule nearest could not decide one (this rule is out of order)" in plain(
            answer.text
        )
        assert "congenial decide" in plain(answer.text)
        assert '<select name="what">' not in answer.text
        question = {"bundle": "bare", "query": "sex=female", "level": "0.9", "area": "South" if has_areas else ""}
        html = client.post("/ask/answer", json=question).json()["html"]
        assert "exact interval" in html
        assert '<th scope="col" class="number">table</th>' not in html
        later = client.post("/ask/answer", json={**question, "prior": "smooth"}).json()
        assert "under a prior" in later["html"]
        assert client.get("/answers.csv", params=question).status_code == 200
    workspace.close()


def test_a_simulation_of_a_measured_release(client: TestClient, workspace: Workspace) -> None:
    text = changed((workspace.folder / FILE).read_text(), [MEASURED])
    (workspace.folder / "p12/measured.yaml").write_text(text)
    answer = client.post("/simulate", data={"file": "p12/measured.yaml"}, follow_redirects=False)
    job = re.search(r"job=(\d+)", answer.headers["location"])
    assert job is not None
    while not (state := client.get(f"/job/{job[1]}").json())["is_over"]:
        time.sleep(0.02)
    page = plain(client.get(f"/{state['result']}").text)
    assert "NOT FOR RELEASE" in page
    assert "What was published" in page
