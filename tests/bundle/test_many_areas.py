"""Bundles of many areas: no CSV beyond a number of rows, a page of the largest tables, the same files in any chunks."""

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import congenial as cg
from congenial import memory_and_threads as chunks
from congenial.bundle import file_registry as file_names
from congenial.bundle import report_and_readme as walk
from congenial.bundle import table_files
from congenial.bundle.verify import verify_bundle
from congenial.errors import BundleError
from congenial.inference.analyst_bundle import load_bundle
from congenial.randomness import replay_rng
from forger import at, forge
from releases import NOW, simulate

N_AREAS = 40
SPEC = """
release: r
data: {path: counts.csv, kind: counts, count: n, status: simulated, missing_cells: zero}
dimensions: {sex: [f, m], age: [0-17, 18+]}
by: {name: block, levels: {file: blocks.csv, code: block}}
invariants: [total]
budget: {epsilon: 1}
"""


def written(folder: Path, order: list[int] | None = None) -> Path:
    """Write a spec with its files, rows in some order."""
    folder.mkdir(parents=True, exist_ok=True)
    counts = replay_rng("blocks").below(np.full((N_AREAS, 2, 2), 9)).tolist()
    rows = [
        f"{area:03d},{sex},{age},{counts[area][s][a]}\n"
        for area in range(N_AREAS)
        for s, sex in enumerate("fm")
        for a, age in enumerate(("0-17", "18+"))
    ]
    chosen = range(len(rows)) if order is None else order
    (folder / "counts.csv").write_text("block,sex,age,n\n" + "".join(rows[place] for place in chosen))
    (folder / "blocks.csv").write_text("block\n" + "".join(f"{area:03d}\n" for area in range(N_AREAS)))
    (folder / "spec.yaml").write_text(SPEC)
    return folder / "spec.yaml"


def simulated(folder: Path, out: str = "bundle", order: list[int] | None = None) -> Path:
    return simulate(written(folder, order), folder / out, seed=1, now=NOW).folder


@pytest.fixture
def long_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_names, "MOST_ROWS", 4 * N_AREAS - 1)


@pytest.mark.usefixtures("long_tables")
def test_long_tables_are_parquet_alone(tmp_path: Path) -> None:
    folder = simulated(tmp_path)
    assert not (folder / "table.csv").exists()
    left_out = json.loads((folder / "manifest.json").read_text())["left_out"]
    assert left_out == {"table.csv": file_names.TOO_LONG}
    assert "table.csv" not in (folder / "README.txt").read_text()
    verify_bundle(folder)
    rows = duckdb.read_parquet(str(folder / "table.parquet")).fetchall()
    assert [row[3] for row in rows] == load_bundle(folder).counts.reshape(-1).tolist()
    assert rows[5][:3] == ("001", "f", "18+")


@pytest.mark.usefixtures("long_tables")
def test_a_reason_of_ones_own_for_no_csv(tmp_path: Path) -> None:
    folder = simulated(tmp_path)
    with pytest.raises(BundleError, match=r"table\.csv is not left out because"):
        load_bundle(forge(folder, at("left_out", "table.csv", value="lost")))


def without_csv(values: dict[str, Any]) -> None:
    del values["files"]["table.csv"]
    values["left_out"]["table.csv"] = file_names.TOO_LONG


def test_a_short_table_is_not_left_out(tmp_path: Path) -> None:
    folder = simulated(tmp_path)
    (folder / "table.csv").unlink()
    with pytest.raises(BundleError, match=r"'table\.csv' is left out"):
        load_bundle(forge(folder, without_csv))


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_chunks_change_no_byte_and_neither_does_the_order_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = contents(simulated(tmp_path))
    order = np.argsort(replay_rng("rows").words(4 * N_AREAS)).tolist()
    (tmp_path / "counts.csv").unlink()
    assert contents(simulated(tmp_path, "again", order)) == once
    for module, name in ((table_files, "_CSV_ROWS"), (table_files, "_GROUP_ROWS")):
        monkeypatch.setattr(module, name, 12)
    monkeypatch.setattr(chunks.parts_of, "__defaults__", (7,))
    parts = simulated(tmp_path, "parts")
    changed = {name for name, content in contents(parts).items() if once[name] != content}
    assert changed == {"table.parquet", "manifest.json"}  # row groups of other sizes, and their digest
    verify_bundle(parts)
    assert np.array_equal(load_bundle(parts).counts, load_bundle(tmp_path / "bundle").counts)


def test_of_more_tables_than_fit_the_largest_are_laid_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = load_bundle(simulated(tmp_path))
    monkeypatch.setattr(walk, "_MOST_TABLES", N_AREAS - 1)
    monkeypatch.setattr(walk, "_FEW_OF_MANY", 5)
    units, left_out = walk.units_of(loaded.manifest, loaded.levels)
    sizes = np.sort(loaded.counts.sum(axis=1))[::-1]
    shown = [int(unit.title.split(": ")[1]) for unit in units]
    assert (sorted(shown, reverse=True), left_out) == (sizes[:5].tolist(), N_AREAS - 5)
    assert [unit.title for unit in units] == sorted(unit.title for unit in units)


def test_a_mapping_of_tables(tmp_path: Path) -> None:
    loaded = load_bundle(simulated(tmp_path))
    assert isinstance(loaded, cg.Bundle)
    assert list(loaded.tables) == [f"{area:03d}" for area in range(N_AREAS)]
    assert np.array_equal(loaded.tables["017"], loaded.counts[17])
    assert "nowhere" not in loaded.tables
