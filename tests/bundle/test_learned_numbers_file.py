"""Bundles of rules that learn: what was learned comes back, decides the same tables, and is refused when changed."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial as cg
from bundle.test_tree_bundle import SCHEMA, changed
from bundle.test_tree_bundle import written as written_tree
from congenial.bundle.canonical_json import canonical_json
from congenial.bundle.decide import decide_again
from congenial.bundle.file_registry import LEARNED
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


def test_what_was_learned_comes_back(original: Path) -> None:
    values = json.loads((original / LEARNED).read_text())
    assert (values["rule"], values["version"], values["unit"]) == ("leaf-prior", 1, "2^-20")
    opened = open_bundle(original)
    assert {name: some.tolist() for name, some in opened.learned.items()} == values["numbers"]
    assert sum(values["numbers"]["rates"]) == ONE
    checked = verify_bundle(original).checked
    assert any(LEARNED in some for some in checked)
    assert LEARNED in (original / "README.txt").read_text()


def test_another_edition_learns_the_same(original: Path, tmp_path: Path) -> None:
    decide_again(original, tmp_path / "plain", rule="gls")
    assert not (tmp_path / "plain" / LEARNED).exists()
    assert not any(LEARNED in some for some in verify_bundle(tmp_path / "plain").checked)
    decide_again(tmp_path / "plain", tmp_path / "again", rule="leaf-prior")
    for name in (LEARNED, "level-3-block.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (original / name).read_bytes()


def test_a_pure_epsilon(tmp_path: Path) -> None:
    ledger = cg.open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("town", epsilon="3", neighbours="bounded", who="Ada")
    folder = tmp_path / "tree"
    hierarchy("double_geometric").release(
        BLOCKS, ledger=ledger, dataset="town", release="tree", who="Ada", folder=folder
    )
    assert (folder / LEARNED).exists()
    verify_bundle(folder)


def moved(values: dict[str, Any]) -> None:
    rates = values["numbers"]["rates"]
    largest = rates.index(max(rates))
    rates[largest], rates[1] = rates[largest] - ONE // 10, rates[1] + ONE // 10


def shaped(values: dict[str, Any]) -> None:
    shapes = values["numbers"]["shapes"]
    shapes[0] = ONE // 8 if shapes[0] > ONE else 64 * ONE


def emptied(values: dict[str, Any]) -> None:
    values["numbers"] = {}


def of_another_rule(values: dict[str, Any]) -> None:
    values["rule"] = "gls"


def with_text(values: dict[str, Any]) -> None:
    values["numbers"]["rates"][0] = "1"


def with_truth(values: dict[str, Any]) -> None:
    values["numbers"]["rates"][0] = True


def with_more(values: dict[str, Any]) -> None:
    values["remark"] = "hidden"


def of_one_number(values: dict[str, Any]) -> None:
    values["numbers"]["rates"] = 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (moved, "not those of the rule 'leaf-prior': the chances of rates"),
        (shaped, "not those of the rule 'leaf-prior': the shape of a cell"),
        (emptied, "does not hold"),
        (of_another_rule, "does not hold"),
        (with_text, "does not hold"),
        (with_truth, "does not hold"),
        (with_more, "does not hold"),
        (of_one_number, "does not hold"),
    ],
)
def test_a_change_is_found(change: Callable[[dict[str, Any]], None], words: str, place: Path) -> None:
    values = json.loads((place / LEARNED).read_text())
    change(values)
    changed(place, LEARNED, canonical_json(values))
    with pytest.raises(BundleError, match=words):
        verify_bundle(place)


@pytest.mark.parametrize("content", [b"", b"[", b"\xff", b"[1]", b'{"rule": "leaf-prior"}'])
def test_other_files_are_refused(content: bytes, place: Path) -> None:
    changed(place, LEARNED, content)
    with pytest.raises(BundleError, match="does not hold"):
        verify_bundle(place)


def test_a_missing_file_is_said(place: Path) -> None:
    (place / LEARNED).unlink()
    with pytest.raises(BundleError, match=LEARNED.replace(".", r"\.")):
        verify_bundle(place)
