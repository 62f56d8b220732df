"""Several tables of the same records in the workbench: chosen live, simulated, released, looked at and asked."""

import csv
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra workbench")

from congenial.bundle.workload_bundle import WorkloadBundle
from congenial.curator import pipeline
from congenial.curator.workload_errors import WorkloadErrors
from congenial.curator.workload_preview import workload_preview
from congenial.display import figure
from congenial.errors import CongenialError, ReadingError, SamplingError
from congenial.inference.analyst_bundle import load_bundle
from congenial.inference.workload_answers import AnalystWorkloadBundle
from congenial.spec.load import load_spec, parse_spec
from congenial.workbench.panel_and_design import design_in
from congenial.workbench.spec_edit import changed
from congenial.workbench.workload_bundles import MODEL
from congenial.workbench.workspace import Workspace
from congenial.workload.plan import WorkloadPlan
from workbench.bench import CELLS, TABLES, TestClient, client_of, tables_in, workspace_of

FILE = "clinic/spec.yaml"
PAIR = {"add_table": {"name": "sex by diagnosis", "margin": ["sex", "diagnosis"]}}
CELLS_TOO = {"add_measured": {"portion": "3/20"}}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    tables_in(tmp_path)
    made = workspace_of(tmp_path)
    yield made
    made.close()


@pytest.fixture
def client(workspace: Workspace) -> Iterator[TestClient]:
    with client_of(workspace) as entered:
        yield entered


def panel(client: TestClient, *changes: dict[str, Any], file: str = FILE) -> dict[str, Any]:
    answer: dict[str, Any] = client.post("/choose/panel", json={"file": file, "changes": list(changes)}).json()
    return answer


def plain(html: str) -> str:
    """The text of a page, without its popovers."""
    shown = re.sub(r"<span popover.*?</span>", "", html)
    return " ".join(re.sub(r"<[^>]+>", " ", shown).replace("&#39;", "'").replace("&amp;", "&").split())


def bundle_of(client: TestClient, workspace: Workspace, page: str, form: dict[str, str]) -> str:
    """Start a release or a simulation, wait for it, and return the name of its bundle."""
    started = client.post(page, data=form, follow_redirects=False)
    assert started.status_code == 303, plain(started.text)
    (job,) = re.findall(r"job=(\d+)", started.headers["location"])
    while not workspace.jobs[job].is_over:
        time.sleep(0.02)
    assert workspace.jobs[job].error == ""
    return re.sub(r"%2F", "/", re.sub(r"%3A", ":", re.findall(r"bundle=([^&]+)", str(workspace.jobs[job].result))[0]))


def released(client: TestClient, workspace: Workspace) -> str:
    return bundle_of(client, workspace, "/release", {"file": FILE, "consent": "clinic-2026", "who": "Ada"})


def asked(client: TestClient, bundle: str, query: str, **more: str) -> Any:
    return client.post("/ask/answer", json={"bundle": bundle, "query": query, **more})


def opened(workspace: Workspace, bundle: str) -> AnalystWorkloadBundle:
    loaded = load_bundle(workspace.folder / bundle)
    assert isinstance(loaded, AnalystWorkloadBundle)
    return loaded


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (PAIR, "  sex by diagnosis: [sex, diagnosis]"),
        (CELLS_TOO, "  - cells: all\n    portion: 3/20"),
        ({"add_measured": {"margin": ["sex"], "portion": "1/20"}}, "  - margin: [sex]\n    portion: 1/20"),
        ({"protects": "any 2 records"}, "protects: any 2 records"),
        ({"share_by": "cells"}, "shares: {by: cells}"),
    ],
)
def test_a_change_is_one_of_the_text_and_is_read_as_such(change: dict[str, Any], line: str) -> None:
    text = changed(TABLES, [change])
    assert line in text
    assert set(TABLES.splitlines()) <= set(text.splitlines())  # nothing else is touched
    parse_spec(text.encode(), folder=Path())


def test_portions_come_and_go_with_the_way_to_share() -> None:
    text = changed(TABLES, [{"share_by": "portions"}, {"portion": "3", "table": "by sex"}, CELLS_TOO])
    text = changed(text, [{"portion": "1/10", "table": 0}])
    stated = parse_spec(text.encode(), folder=Path()).tables
    assert stated is not None
    assert [str(query.portion) for query in (*stated.published.values(), *stated.also_measured.values())] == [
        *("3", "1", "1/10")
    ]
    text = changed(text, [{"share_by": "tables"}, {"remove_measured": 0}, {"protects": ""}])
    stated = parse_spec(text.encode(), folder=Path()).tables
    assert stated is not None
    assert [query.portion for query in stated.published.values()] == [None, None]
    assert stated.also_measured == {}
    assert "# they agree" in text


def test_changes_that_make_no_sense_are_refused() -> None:
    for change, words in (
        ({"add_table": {"name": "by sex", "margin": ["sex"]}}, "no name for a further table"),
        ({"add_table": {"name": " ", "margin": ["sex"]}}, "no name for a further table"),
        ({"remove_table": "by age"}, "not in the spec any more"),
        ({"portion": "2", "table": "by age"}, "not in the spec any more"),
        ({"share_by": "lot"}, "none that the workbench knows"),
    ):
        with pytest.raises(ReadingError, match=words):
            changed(TABLES, [change])
    with pytest.raises(ReadingError, match="the only table"):
        changed(TABLES, [{"remove_table": "by sex"}, {"remove_table": "by diagnosis"}])


def test_the_panel_says_what_plan_says(client: TestClient, workspace: Workspace) -> None:
    workspace.path(FILE).write_text(changed(TABLES, [{"protects": "one record"}]))
    answer = panel(client)
    assert answer["ok"]
    spec = load_spec(workspace.path(FILE))
    preview = workload_preview(spec, pipeline.prepare(spec, workspace.path(FILE).parent))
    plan, words = preview.plan, plain(answer["html"])
    lines = plan.price_lines
    assert [re.sub(r"<[^>]+>", "", line).strip() for line in re.findall(r"<li.*</li>", answer["html"])] == lines
    (charged,) = re.findall(r'<li class="is-charged">(.*?)</li>', answer["html"])
    assert charged == next(line for line in lines if "this is what the budget is for" in line)
    bold = re.findall(r"<strong>(.*?)</strong>", answer["html"])
    assert bold == plan.not_protected_text != []
    assert answer["cost"] == plan.spent.text
    for table in preview.errors.tables:
        assert f"{table.name} {table.n_cells} {table.share:.0%} {table.noise:.2f}" in words
        assert f"{table.estimate:.2f} {table.typical:.2f}" in words
        assert f"off by {figure(table.typical)}" in plain(answer["tables"])
    for margin in preview.errors.margins:
        error = "exact exact" if margin.is_exact else f"{margin.estimate:.2f} {margin.typical:.2f}"
        assert f"inside: {margin.name} {margin.n_cells} {error}" in words
    assert "WARNING: what was not measured is a model" in words
    assert "Pairs of dimensions in no measured table: sex x diagnosis" in words
    assert "is a structural zero" in plain(answer["invariants"])
    assert "finance act" in answer["invariants"]


def test_what_is_exact_and_other_designs_are_priced(client: TestClient, workspace: Workspace) -> None:
    reply = client.post("/choose/levels", json={"file": FILE, "changes": []}).json()
    spec = load_spec(workspace.path(FILE))
    preview = workload_preview(spec, pipeline.prepare(spec, workspace.path(FILE).parent))
    words = plain(reply["html"])
    for text, price in (*preview.prices, *preview.designs):
        assert price is not None
        figures = " ".join("exact" if table.is_exact else f"{table.typical:.2f}" for table in price.tables)
        assert f"{text} {price.change} {figures}" in words
    bare = client.post("/choose/levels", json={"file": FILE, "changes": [{"remove": 0}]}).json()
    assert "What exactness buys, and what it costs" not in plain(bare["html"])


def test_every_change_shows_at_once(client: TestClient) -> None:
    before = panel(client)
    added = panel(client, PAIR)
    assert "sex by diagnosis" in plain(added["tables"])
    assert "in no measured table:" not in plain(added["html"])  # every pair is in one now
    assert "Every pair of dimensions is measured; three together are not" in plain(added["html"])
    whole = panel(client, CELLS_TOO)
    assert "measured, not published" in plain(whole["tables"])
    assert "what was not measured is a model" not in plain(whole["html"])
    assert panel(client, PAIR, {"remove_table": "sex by diagnosis"})["tables"] == before["tables"]
    assert panel(client, CELLS_TOO, {"remove_measured": 0})["tables"] == before["tables"]
    portions = panel(client, {"share_by": "portions"}, {"portion": "3", "table": "by sex"})
    assert "share 75%" in plain(portions["tables"])
    assert 'value="portions" selected' in portions["tables"]
    less = panel(client, {"budget": {"rho": "1/4"}})
    assert float(less["noise"]) > float(before["noise"])
    exact = panel(client, {"add": {"margin": ["sex", "county"], "mandate": "census act"}})
    assert "not measured" in plain(exact["tables"])
    assert "off by exact" in plain(exact["tables"])
    assert "margin of sex and county" in plain(exact["invariants"])
    named = panel(client, {"protects": "any 2 records"})
    (charged,) = re.findall(r'<li class="is-charged">(.*?)</li>', named["html"])
    assert charged == "any 2 records: at most rho 1 (this is what the budget is for)"
    assert 'value="any 2 records" selected' in named["tables"]
    assert float(named["noise"]) > float(before["noise"])
    assert "two that exchange" not in named["tables"]  # there is no such change of these exact numbers


def test_a_table_that_is_needed_is_missed_in_words(client: TestClient) -> None:
    answer = panel(client, {"remove_table": "by diagnosis"})
    assert not answer["ok"]
    assert "'diagnosis' is in no table" in plain(answer["html"])


def test_the_panel_knows_of_the_records_what_is_exact_and_nothing_else(tmp_path: Path) -> None:
    """Records with the same exact numbers have the same page, and such with others do not."""
    moved = [*CELLS]
    for cell, by in ((0, -9), (1, 5), (3, 4), (12, -20), (15, 20)):  # within a county
        moved[cell] += by
    other = [*moved]
    other[0] += 1
    tables_in(tmp_path, CELLS, "one")
    tables_in(tmp_path, moved, "two")
    tables_in(tmp_path, other, "three")
    workspace = workspace_of(tmp_path)
    with client_of(workspace) as client:
        whole = {"add": {"margin": ["county"]}}, {"remove": 0}
        one, two, three = (panel(client, *whole, file=f"{name}/spec.yaml") for name in ("one", "two", "three"))
        for key in ("ok", "digest", "text", "noise", "error", "cost", "tables"):
            assert one[key] == two[key]
        assert plain(one["html"]) == plain(two["html"])
        assert "The invariants" not in one["html"]
        later = [
            client.post("/choose/levels", json={"file": f"{name}/spec.yaml", "changes": []}).json()
            for name in ("one", "two")
        ]
        assert plain(later[0]["html"]) == plain(later[1]["html"])
        spec = load_spec(workspace.path("one/spec.yaml"))
        plans = [
            design_in(workspace, spec, f"{name}/spec.yaml").prepare(spec.naming).plan
            for name in ("one", "two", "three")
        ]
        assert plans[0] == plans[1] != plans[2]
        assert three["ok"]
    workspace.close()


def test_specs_and_confidential_tables_are_shown(client: TestClient) -> None:
    page = plain(client.get("/spec", params={"file": FILE}).text)
    assert "2 tables of the same records : by sex (county x sex); by diagnosis (county x diagnosis)" in page
    first = client.get("/confidential", params={"file": FILE}).text
    assert "CONFIDENTIAL" in first
    assert "north 56 56 112" in plain(first)
    other = client.get("/confidential", params={"file": FILE, "area": "by diagnosis"}).text
    assert "north 55 53 4 112" in plain(other)
    choose = client.get("/choose", params={"file": FILE}).text
    assert "Choose tables, and what is exact" in choose
    assert 'id="grid"' not in choose
    assert '<select id="method"' not in choose
    assert client.post("/choose/cost", json={"file": FILE, "number": 0}).status_code == 400


def test_a_release_is_charged_and_its_bundle_is_asked(client: TestClient, workspace: Workspace) -> None:
    page = plain(client.get("/release", params={"file": FILE}).text)
    assert "tables of the same records that are decided from them in public" in page
    assert "records , version 1" in page
    name = released(client, workspace)
    assert [spend.release for spend in workspace.ledger().history("clinic")] == ["clinic-2026"]
    bundle = opened(workspace, name)
    page = plain(client.get("/ask", params={"bundle": name}).text)
    assert "2 tables, counts of the same made-up records" in page
    assert "by sex county x sex 6 table-1-by-sex.csv" in page
    assert "What lies in no measured table is a model , and has no interval: sex x diagnosis" in page
    assert all(line in page for line in bundle.plan.price_lines)
    assert "Numbers that tables share, each once county The same in by sex, by diagnosis." in page
    assert "north 112 112 exact" in page
    (number,) = bundle.estimate("sex=female & county=west")
    answer = plain(asked(client, name, "sex=female & county=west").json()["html"])
    assert " ".join(text for text in (number.as_row()[index] for index in (0, 2, 4, 5, 1))) in answer
    assert MODEL not in answer
    assert "--query 'sex=female & county=west' --level 0.9 Copy" in answer
    (model,) = bundle.estimate("sex=female & diagnosis=lung", from_records=True)
    answer = plain(asked(client, name, "sex=female & diagnosis=lung").json()["html"])
    assert MODEL in answer
    assert f"{model.query} none: a model {model.count:.0f}" in answer
    assert "--from-records Copy" in answer
    assert "holds the true number" not in answer
    share = plain(asked(client, name, "share(sex=female | county=west)", level="0.5").json()["html"])
    assert bundle.estimate("share(sex=female | county=west)", level=0.5)[0].as_row()[4] in share
    refused = asked(client, name, "ratio(sex=male / sex=female)")
    assert refused.status_code == 400
    assert "ask for counts, differences or shares" in refused.json()["error"]
    assert client.post("/ask/at-once", json={"bundle": name, "query": "all"}).status_code == 400
    download = client.get("/answers.csv", params={"bundle": name, "query": "all by sex"}).text
    rows = list(csv.DictReader(io.StringIO(download)))
    assert [float(row["estimate"]) for row in rows] == [one.value for one in bundle.estimate("all by sex")]
    shown = plain(client.get("/ask", params={"bundle": name, "table": "by diagnosis"}).text)
    assert "by diagnosis, cell by cell" in shown
    frame = bundle.frame("by diagnosis")
    assert f"north, lung {frame['count'][0]} {frame['measured'][0]} {frame['low_90'][0]} to" in shown
    report = client.get("/report", params={"bundle": name}, headers={"sec-fetch-dest": "iframe"})
    assert "by diagnosis" in report.text


def test_estimates_of_a_bundle_are_made_once(client: TestClient, workspace: Workspace, monkeypatch: Any) -> None:
    name = released(client, workspace)
    made: list[object] = []
    before = AnalystWorkloadBundle.of

    def counted(bundle: WorkloadBundle) -> AnalystWorkloadBundle:
        made.append(bundle)
        return before(bundle)

    monkeypatch.setattr(AnalystWorkloadBundle, "of", counted)
    for query in ("sex=female", "all by county"):
        assert asked(client, name, query).status_code == 200
    client.get("/ask", params={"bundle": name})
    assert len(made) == 1


@pytest.mark.parametrize("changes", [[], [{"remove": 0}]], ids=["exact counties", "nothing exact"])
def test_a_simulation_is_of_made_up_records(
    client: TestClient, workspace: Workspace, changes: list[dict[str, Any]]
) -> None:
    path = workspace.path(FILE)
    path.write_text(changed(TABLES.replace("status: simulated", "status: confidential"), changes))
    name = bundle_of(client, workspace, "/simulate", {"file": FILE})
    page = plain(client.get("/ask", params={"bundle": name}).text)
    assert "NOT FOR RELEASE" in page
    assert workspace.ledger().history("clinic") == ()
    assert not (path.parent / "clinic-2026").exists()
    spec = workspace.spec(FILE)
    made_up = design_in(workspace, spec, FILE).synthetic().records  # type: ignore[union-attr]
    truth = np.reshape(CELLS, (3, 2, 3))
    assert (made_up.margin(["county"]).tolist() == truth.sum(axis=(1, 2)).tolist()) == (not changes)
    assert made_up.margin(["county", "sex", "diagnosis"]).tolist() != truth.tolist()
    assert made_up.n_records > 20
    assert made_up.margin(["sex", "diagnosis"])[1, 2] == 0  # a structural zero


def test_a_bundle_without_tables_says_why(
    client: TestClient, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise SamplingError("this rule is out of order")

    with monkeypatch.context() as patched:
        patched.setattr(WorkloadPlan, "decide", refuse)
        name = released(client, workspace)
    page = plain(client.get("/ask", params={"bundle": name}).text)
    assert "There are measurements and no tables: this rule is out of order" in page
    answer = plain(asked(client, name, "sex=female").json()["html"])
    assert opened(workspace, name).estimate("sex=female")[0].as_row()[4] in answer
    assert " count" not in answer
    refused = asked(client, name, "sex=female & diagnosis=lung")
    assert "nothing but a model says it" in refused.json()["error"]


def test_an_earlier_release_is_a_bundle_of_the_folder(client: TestClient, workspace: Workspace, tmp_path: Path) -> None:
    name = released(client, workspace)
    later = TABLES.replace("clinic-2026", "clinic-2027").replace(
        "  by sex: [county, sex]\n", "  sexes: [sex, diagnosis]\n"
    )
    agree = "agree_with: {bundle: clinic-2026, how: keep}\n"
    (workspace.folder / "clinic/later.yaml").write_text(later + agree)
    assert name == "clinic/clinic-2026"
    answer = panel(client, file="clinic/later.yaml")
    assert answer["ok"], plain(answer["html"])
    outside = tmp_path.parent / "elsewhere"
    for place in ("../clinic/clinic-2026", str(outside), "counts.csv", "../budget.db"):
        (workspace.folder / "clinic/later.yaml").write_text(
            later + agree.replace("bundle: clinic-2026", f"bundle: {place}")
        )
        with pytest.raises(CongenialError, match="no bundle of the workbench's folder"):
            workspace.spec("clinic/later.yaml")


def test_errors_on_the_page_are_those_of_the_plan_that_is_released(client: TestClient, workspace: Workspace) -> None:
    """What was promised before the charge is what readers get."""
    before = panel(client)
    plan = opened(workspace, released(client, workspace)).plan
    typical = [f"{table.typical:.2f}" for table in WorkloadErrors(plan.law).tables]
    assert all(text in plain(before["html"]) for text in typical)
