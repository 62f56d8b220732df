"""Bundles of rules that learn: what was learned comes back, decides the same tables, and is refused when changed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial as cg
from bundle.test_tree_bundle import SCHEMA, restamped
from bundle.test_tree_bundle import written as written_tree
from congenial.bundle.decide import decide_again
from congenial.bundle.read import open_bundle
from congenial.bundle.verify import verify_bundle
from congenial.errors import BundleError
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.tree.tree_and_zeros import Tree
from rules.gls_by_force import ONE

CODES = [f"{state}{county}{block:02}" for state in "12" for county in "ab" for block in range(12)]
BLOCKS = np.random.default_rng(3).poisson(2.0, (len(CODES), 4))


def hierarchy(noise: str) -> Hierarchy:
    tree = Tree.of_prefixes(CODES, {"state": 1, "county": 2}, "block")
    rho, epsilon = ("1", None) if noise == "discrete_gaussian" else (None, "2")
    return cg.Hierarchy(tree, SCHEMA, invariants=[cg.total()], rule="leaf-prior", rho=rho, epsilon=epsilon)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written_tree(tmp_path_factory.mktemp("learned"), hierarchy("discrete_gaussian"), BLOCKS)


@pytest.fixture
def place(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "tree")
    return tmp_path / "tree"


def learned_of(folder: Path) -> dict[str, Any]:
    learned: dict[str, Any] = json.loads((folder / "manifest.json").read_text())["rule"].get("learned", {})
    return learned


def test_what_was_learned_comes_back(original: Path) -> None:
    stated = learned_of(original)
    decision = open_bundle(original).manifest.decision
    assert decision is not None
    assert {name: list(some) for name, some in decision.learned.items()} == stated
    assert sum(stated["rates"]) == ONE
    assert len(stated["shapes"]) == 4
    assert any("learned" in some for some in verify_bundle(original).checked)
    assert "What it learned is in manifest.json" in (original / "README.txt").read_text()


def test_another_edition_learns_the_same(original: Path, tmp_path: Path) -> None:
    decide_again(original, tmp_path / "plain", rule="gls")
    assert not learned_of(tmp_path / "plain")
    assert not any("learned" in some for some in verify_bundle(tmp_path / "plain").checked)
    decide_again(tmp_path / "plain", tmp_path / "again", rule="leaf-prior")
    assert learned_of(tmp_path / "again") == learned_of(original)
    name = "level-3-block.parquet"
    assert (tmp_path / "again" / name).read_bytes() == (original / name).read_bytes()


def test_a_pure_epsilon(tmp_path: Path) -> None:
    ledger = cg.open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("town", epsilon="3", neighbours="bounded", who="Ada")
    folder = tmp_path / "tree"
    hierarchy("double_geometric").release(
        BLOCKS, ledger=ledger, dataset="town", release="tree", who="Ada", folder=folder
    )
    assert learned_of(folder)
    verify_bundle(folder)


def moved(rule: dict[str, Any]) -> None:
    rates = rule["learned"]["rates"]
    largest = rates.index(max(rates))
    rates[largest], rates[1] = rates[largest] - ONE // 10, rates[1] + ONE // 10


def shaped(rule: dict[str, Any]) -> None:
    shapes = rule["learned"]["shapes"]
    shapes[0] = ONE // 8 if shapes[0] > ONE else 64 * ONE


def emptied(rule: dict[str, Any]) -> None:
    rule["learned"] = {}


def left_out(rule: dict[str, Any]) -> None:
    del rule["learned"]


def of_another_rule(rule: dict[str, Any]) -> None:
    rule.update(name="gls", chosen="after publication")


def with_text(rule: dict[str, Any]) -> None:
    rule["learned"]["rates"][0] = "1"


def with_truth(rule: dict[str, Any]) -> None:
    rule["learned"]["rates"][0] = True


def with_more(rule: dict[str, Any]) -> None:
    rule["learned"]["remark"] = [1]


def of_one_number(rule: dict[str, Any]) -> None:
    rule["learned"]["rates"] = 3


def with_a_huge_number(rule: dict[str, Any]) -> None:
    rule["learned"]["rates"][0] = 2**70


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (moved, "the chances of rates"),
        (shaped, "the shape of a cell"),
        (emptied, "."),
        (left_out, "nothing is said to be learned"),
        (of_another_rule, "learns nothing"),
        (with_text, "."),
        (with_truth, "."),
        (with_more, "chances of rates"),
        (of_one_number, "."),
        (with_a_huge_number, "2.62 or more"),
    ],
)
def test_a_change_is_found(change: Callable[[dict[str, Any]], None], words: str, place: Path) -> None:
    values = json.loads((place / "manifest.json").read_text())
    change(values["rule"])
    restamped(place, values)
    with pytest.raises(BundleError, match=words):
        verify_bundle(place)


def test_without_tables_nothing_was_learned(place: Path) -> None:
    values = json.loads((place / "manifest.json").read_text())
    values["rule"]["why_no_tables"] = "a family has no table"
    restamped(place, values)
    with pytest.raises(BundleError, match="is said to have learned something"):
        open_bundle(place)
