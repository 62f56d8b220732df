"""Bundles that are made once a worker; tests that change one take a copy."""

import shutil
from pathlib import Path

import pytest

from congenial.bundle.signing import create_key
from releases import CASES, NOW, TABLE_CASES, Maker, ledger_for, place, release


@pytest.fixture(scope="session")
def case_folder(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    """Give the folder of a case: its spec, its data, its ledger, a key, and the signed bundle. Not to be changed."""
    known: dict[str, Path] = {}

    def find(name: str) -> Path:
        if name not in known:
            folder = tmp_path_factory.mktemp("made")
            case = CASES.get(name) or TABLE_CASES[name]
            spec, ledger = place(folder, case), ledger_for(folder, case)
            create_key(folder / "key")
            release(spec, folder / "bundle", ledger=ledger, who="Ada", now=NOW, key=folder / "key")
            known[name] = folder
        return known[name]

    return find


@pytest.fixture
def bundle(case_folder: Maker, tmp_path: Path) -> Path:
    """A signed bundle of one table that a test may change."""
    return Path(shutil.copytree(case_folder("one table") / "bundle", tmp_path / "bundle"))
