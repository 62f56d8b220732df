"""The page of choosing: what it says first, and what it says of the budget."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra workbench")

from congenial.curator.sections import NO_PROVEN_INTERVALS
from workbench.bench import TestClient, client_of, folder_with, workspace_of


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    workspace = workspace_of(folder_with(tmp_path, "p12"))
    with client_of(workspace) as found:
        yield found
    workspace.close()


def panel(client: TestClient, *changes: dict[str, Any]) -> dict[str, Any]:
    said = {"file": "p12/spec.yaml", "changes": list(changes), "is_whole": True}
    found: dict[str, Any] = client.post("/choose/panel", json=said).json()
    return found


def test_what_is_not_protected_comes_first_and_in_bold(client: TestClient) -> None:
    html = panel(client)["html"]
    said = html.index("<strong>sex: not protected, no change of one record alters it</strong>")
    assert html.index("Not protected any more") < said < html.index("How far numbers will be off")


def test_a_rho_is_an_epsilon_and_lost_intervals_are_named(client: TestClient) -> None:
    words = NO_PROVEN_INTERVALS.replace("'", "&#39;")
    assert words in panel(client)["html"]
    gaussian = panel(client, {"noise": "discrete_gaussian"}, {"budget": {"rho": "1/2"}})
    assert gaussian["cost"] == "rho 0.5 (epsilon 6.859 at delta 1e-10)"
    assert words not in gaussian["html"]
    assert "above 10" not in gaussian["html"]
    assert "above 10" in panel(client, {"noise": "discrete_gaussian"}, {"budget": {"rho": "5"}})["html"]
