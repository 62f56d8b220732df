"""Trees of areas in the workbench: chosen level by level, released, asked by units."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra workbench")

from congenial.curator.preview import TreePreview
from congenial.curator.preview_text import screen
from congenial.inference.analyst_bundle import AnalystBundle, load_bundle
from congenial.spec.load import parse_spec
from congenial.workbench.panel_and_design import Crosstab, design_of
from congenial.workbench.workspace import Leaves, Workspace
from workbench.bench import TOWN, TestClient, client_of, tree_in, workspace_of

SPEC = {"file": "town/spec.yaml"}
OLD_IN_BLOCKS = {"add": {"total": {"age": ["old"]}, "at": "block", "mandate": "Pensions Act"}}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    tree_in(tmp_path)
    made = workspace_of(tmp_path)
    yield made
    made.close()


@pytest.fixture
def client(workspace: Workspace) -> Iterator[TestClient]:
    with client_of(workspace) as found:
        yield found


def panel(client: TestClient, *changes: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.post("/choose/panel", json={**SPEC, "changes": list(changes)}).json()
    return found


def finished(client: TestClient, address: str, **fields: str) -> dict[str, Any]:
    """Begin a job and wait for its end."""
    started = client.post(address, data=fields, follow_redirects=False)
    job = re.search(r"working\?job=(\d+)", started.headers["location"])
    assert job is not None
    while not (state := client.get(f"/job/{job[1]}").json())["is_over"]:
        time.sleep(0.02)
    return dict(state)


def test_what_is_kept_goes_with_data_and_tree_and_not_with_shares(workspace: Workspace) -> None:
    def key(text: str) -> object:
        return workspace.data_key(workspace.spec(SPEC["file"], text), SPEC["file"])

    shared = TOWN.replace("hierarchy:\n", "hierarchy:\n  shares: {state: 1, county: 1, tract: 1, block: 5}\n")
    assert key(TOWN) == key(TOWN) == key(shared)
    for name in ("counts.csv", "blocks.csv"):
        before, file = key(TOWN), workspace.folder / "town" / name
        file.write_text(file.read_text() + "\n")
        assert key(TOWN) != before


def test_shares_of_levels_move_the_noise_and_are_written(client: TestClient, workspace: Workspace) -> None:
    page = client.get("/choose", params=SPEC).text
    assert 'data-level="county"' in page
    before = panel(client)
    shares = {"state": "1", "county": "1", "tract": "1", "block": "5"}
    after = panel(client, {"shares": shares})
    assert after["shares"] == {"state": "12%", "county": "12%", "tract": "12%", "block": "62%"}
    assert float(after["noise"]) < float(before["noise"])
    assert after["cost"] == before["cost"] == "rho 1 (epsilon 10.065 at delta 1e-10)"
    read = parse_spec(after["text"].encode(), folder=workspace.folder / "town")
    assert read.hierarchy is not None
    assert {name: str(own) for name, own in (read.hierarchy.shares or {}).items()} == shares
    again = panel(client, {"shares": shares}, {"shares": {**shares, "block": "7"}})
    gone, new = set(after["text"].splitlines()), set(again["text"].splitlines())
    assert len(gone - new) == len(new - gone) == 1
    refused = panel(client, {"shares": {**shares, "block": "none"}})
    assert not refused["ok"]


def test_the_grid_says_down_to_which_level_a_sum_is_exact(client: TestClient) -> None:
    first, then = panel(client)["grid"], panel(client, OLD_IN_BLOCKS)
    assert {key for key, own in first.items() if own["exact"]} == {"."}
    exact = {key: own["text"] for key, own in then["grid"].items() if own["exact"]}
    # The old in every block; the total, and so the young, in the state alone.
    assert exact == {".": "every state", ".1": "every block", ".0": "every state"}
    assert "Pensions Act" in then["invariants"]
    assert "of every block" in then["html"]


def test_what_plan_says_of_a_chain_is_on_the_page(client: TestClient, workspace: Workspace) -> None:
    chain = {"method": "conditional"}
    reply = panel(client, chain)
    spec = workspace.spec("town/spec.yaml", reply["text"])
    leaves = workspace.data(spec, "town/spec.yaml")
    assert isinstance(leaves, Leaves)
    population = design_of(spec, leaves).panel(Crosstab.of(spec.schema)).population
    assert population is not None
    page = reply["html"].replace("&#39;", "'")
    for section in screen(population):
        assert section.heading in page
        assert all(line in page for line in section.lines)
    assert population.plan.certificate.statement in page
    later = client.post("/choose/levels", json={**SPEC, "changes": [chain]}).json()
    for row in population.lines[1]:
        assert f"{row[0]}: a cell" in later["html"]
        assert row[6] in later["html"]
    assert later["error"] == population.lines[1][-1][4]


@pytest.mark.parametrize(
    "change",
    [
        {"add": {"total": {"age": ["old"]}, "at": "parish"}},
        {"shares": {"state": "1"}},
    ],
)
def test_what_a_tree_cannot_have_is_refused_at_its_line(change: dict[str, Any], client: TestClient) -> None:
    found = panel(client, change)
    assert not found["ok"]
    assert "spec.yaml:" in found["html"]


def test_a_pure_epsilon_is_refused_to_a_chain_alone(client: TestClient) -> None:
    pure = {"budget": {"epsilon": "1"}}
    assert ">epsilon</option>" in client.get("/choose", params=SPEC).text
    assert panel(client, pure)["cost"] == "epsilon 1"
    refused = panel(client, {"method": "conditional"}, pure)
    assert not refused["ok"]
    assert "spec.yaml:" in refused["html"]


def test_a_tree_is_read_again_when_its_files_change(workspace: Workspace) -> None:
    spec = workspace.spec("town/spec.yaml")
    first = workspace.data(spec, "town/spec.yaml")
    assert isinstance(first, Leaves)
    assert workspace.data(spec, "town/spec.yaml") is first
    counts = workspace.folder / "town/counts.csv"
    counts.write_text(counts.read_text().replace("441100,female,young,0", "441100,female,young,99999"))
    then = workspace.data(spec, "town/spec.yaml")
    assert isinstance(then, Leaves)
    assert then.counts.sum() == first.counts.sum() + 99_999


def test_the_whole_path_of_a_chain(client: TestClient, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Describe, choose, rehearse, release, ask; the chain is chosen, as it has estimates."""
    fields = {"data": "town/counts.csv", "release": "mine", "dataset": "town", "status": "simulated", "name": "my.yaml"}
    roles = ("leaves of a tree", "dimension", "dimension", "count")
    for number, (name, role) in enumerate(zip(("block", "sex", "age", "n"), roles, strict=True)):
        fields |= {f"column-{number}": name, f"role-{number}": role}
    fields |= {"levels-1": "female, male", "levels-2": "young, old"}
    fields |= {"tree_file": "blocks.csv", "tree_levels": "state 2, county 3, tract 4"}
    described = client.post("/describe", data=fields)
    assert "The spec is complete" in described.text
    said = {"file": "town/my.yaml", "changes": [{"method": "conditional"}, {"add": {"total": "all", "at": "state"}}]}
    digest = re.search(r'data-digest="(\w+)"', client.get("/choose", params={"file": "town/my.yaml"}).text)
    assert digest is not None
    assert client.post("/choose/save", json={**said, "digest": digest[1]}).status_code == 200
    rehearsed = finished(client, "/simulate", file="town/my.yaml")
    assert "NOT FOR RELEASE" in client.get(rehearsed["result"]).text
    released = finished(client, "/release", file="town/my.yaml", who="Ada", consent="mine")
    page = client.get(released["result"]).text
    assert "Verified" in page
    assert "Estimate areas" in page
    units = client.get("/ask", params={"bundle": "town/mine", "show": "tract", "within": "441"}).text
    assert "4411" in units
    assert "4421" not in units
    whole = AnalystBundle.estimate
    few = lambda self, **given: whole(self, n_draws=40, n_chains=2, **given)  # noqa: E731
    monkeypatch.setattr(AnalystBundle, "estimate", few)
    asked = {"bundle": "town/mine", "units": "441", "minus": "442", "query": "share(age=old | all)", "level": "0.8"}
    answered = finished(client, "/ask-estimate", **asked)
    assert not answered["error"]
    shown = client.get(answered["result"]).text
    assert "share(age=old | all) of 441 less 442" in shown
    assert "congenial estimate town/mine" in shown
    assert "is no unit" in finished(client, "/ask-estimate", **{**asked, "units": "999"})["error"]
    assert finished(client, "/ask-estimate", **{**asked, "query": "colour=red"})["error"]


def test_the_bytes_of_a_tree_spec_stay(client: TestClient, workspace: Workspace) -> None:
    digest = re.search(r'data-digest="(\w+)"', client.get("/choose", params=SPEC).text)
    assert digest is not None
    assert client.post("/choose/save", json={**SPEC, "digest": digest[1], "changes": []}).status_code == 200
    assert (workspace.folder / "town/spec.yaml").read_text() == TOWN


@pytest.mark.parametrize(
    ("method", "heading"), [("measured", "How far numbers are off, level by level"), ("conditional", "The levels")]
)
def test_what_is_not_protected_stands_first_and_in_bold(method: str, heading: str, client: TestClient) -> None:
    """In a tree with an exact number below the top, before what is said of its levels."""
    html = panel(client, {"method": method}, OLD_IN_BLOCKS)["html"]
    said = html.index("<strong>total of age=old, of every block")
    assert said < html.index(heading)
    assert html.index("NOT PROTECTED") < said
    assert html.index("<h2") > html.index("<section")
    assert "epsilon 10.065 at delta 1e-10" in html
    assert "above 10" in html


def test_a_measured_tree_is_chosen_released_and_asked(client: TestClient, workspace: Workspace) -> None:
    assert panel(client)["method"] == "measured"
    released = finished(client, "/release", **SPEC, who="Ada", consent="town-2026")
    page = client.get(released["result"]).text
    assert "the tables are what rule gls makes of the measurements" in page
    assert '<option value="tract">tract (4)</option>' in page
    assert "Estimate areas" not in page
    bundle = load_bundle(workspace.folder / "town" / "town-2026")
    asked = {"bundle": "town/town-2026", "query": "age=old", "level": "0.9", "units": "tract", "area": "4411"}
    (expected,) = bundle.units("tract").confidence("age=old", "4411")
    html = client.post("/ask/answer", json=asked).json()["html"]
    assert f"{expected.low:,.0f} to {expected.high:,.0f}" in html
    assert "--units tract" in html
    assert client.post("/ask/answer", json={**asked, "units": "", "area": ""}).json()["html"]
    assert client.post("/ask/answer", json={**asked, "area": "", "query": "age=old over areas"}).json()["html"]
    refused = client.post("/ask/answer", json={**asked, "area": "999"}).json()
    assert "no area '999'" in refused["error"]
    units = client.get("/ask", params={"bundle": "town/town-2026", "show": "tract", "within": "441"}).text
    assert "4411" in units


def test_errors_of_a_measured_tree_are_on_the_page_and_move_with_shares(
    client: TestClient, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `congenial plan` prints, in closed form: nothing is drawn while somebody waits."""

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("tables were made up")

    monkeypatch.setattr(TreePreview, "leaves", property(never))
    measured, shares = {"method": "measured"}, {"state": "1", "county": "1", "tract": "1", "block": "5"}
    before, after = panel(client, measured), panel(client, measured, {"shares": shares})
    assert float(after["error"]) < float(before["error"])
    for changes, reply in (([measured], before), ([measured, {"shares": shares}], after)):
        spec = workspace.spec(SPEC["file"], reply["text"])
        leaves = workspace.data(spec, SPEC["file"])
        assert isinstance(leaves, Leaves)
        population = design_of(spec, leaves).panel(Crosstab.of(spec.schema)).population
        assert population is not None
        html = reply["html"].replace("&#39;", "'")
        for section in screen(population):
            assert section.heading in html
            assert all(line in html for line in section.lines)
            assert all(f">{text}</t" in html for row in section.rows for text in row if text)
        assert "How far numbers are off, level by level" in html
        later = client.post("/choose/levels", json={**SPEC, "changes": changes}).json()
        assert "What exactness costs" in later["html"]
        assert "with nothing exact" in later["html"]
        assert later["error"] == reply["error"]
    nothing = client.post("/choose/levels", json={**SPEC, "changes": [measured, {"remove": 0}]}).json()
    assert "Nothing is exact." in nothing["html"]


def test_areas_across_a_tree_are_planned_released_and_asked(client: TestClient, workspace: Workspace) -> None:
    blocks = (workspace.folder / "town/blocks.csv").read_text().split()[1:]
    lines = [f"{block},{'east' if number % 3 else 'west'}" for number, block in enumerate(blocks)]
    (workspace.folder / "town/blocks.csv").write_text("\n".join(["block,ward", *lines]) + "\n")
    entry = "hierarchy:\n  across: {name: ward, column: ward, portion: 1/5}\n"
    (workspace.folder / "town/spec.yaml").write_text(TOWN.replace("hierarchy:\n", entry))
    html = panel(client)["html"]
    assert "2 ward areas, each some block units put together" in html
    assert "by summation" in html
    assert "without each ward" in client.post("/choose/levels", json=SPEC).json()["html"]
    finished(client, "/release", **SPEC, who="Ada", consent="town-2026")
    bundle = load_bundle(workspace.folder / "town" / "town-2026")
    page = client.get("/ask", params={"bundle": "town/town-2026"}).text
    assert '<option value="ward">ward (2)</option>' in page
    asked = {"bundle": "town/town-2026", "query": "age=old", "level": "0.9", "units": "ward", "area": "east"}
    (expected,) = bundle.units("ward").confidence("age=old", "east")
    reply = client.post("/ask/answer", json=asked).json()["html"]
    assert f"{expected.low:,.0f} to {expected.high:,.0f}" in reply
    assert bundle.measurements is not None
    for level, numbers in (("ward", bundle.measured_levels[-1]), ("tract", bundle.measured_levels[2])):
        of_level = {"bundle": "town/town-2026", "show": level}
        for what, values in (("measurements", numbers), ("table", bundle.level(level)[1])):
            units = client.get("/ask", params={**of_level, "what": what}).text
            assert all(f">{value:,}<" in units for value in values[0].tolist())
