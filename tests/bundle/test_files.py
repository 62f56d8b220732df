"""A new file of a bundle is one entry of the registry, as the recipe in CONTRIBUTING.md says."""

import json
from pathlib import Path

import pytest

from congenial.bundle import file_registry as files
from congenial.bundle.file_registry import BundleContents, BundleFile
from congenial.bundle.manifest import Manifest
from congenial.bundle.verify import verify_bundle
from congenial.errors import BundleError
from congenial.inference.analyst_bundle import load_bundle
from forger import forge, nothing
from releases import CASES, NOW, ledger_for, place, release


def _size(contents: BundleContents) -> bytes:
    """Make the toy: the number of released records of each level, in words."""
    levels = zip(contents.manifest.law.tree.levels, contents.levels, strict=True)
    return "".join(f"{name}: {int(tables.sum())}\n" for name, tables in levels).encode()


def _has_areas(manifest: Manifest) -> bool:
    return manifest.law.areas.name is not None


TOY = BundleFile(
    "size.txt", "the records of each level", _size, is_due=_has_areas, is_page=True, software=("congenial",)
)


@pytest.fixture
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FILES", (*files.FILES[:-1], TOY, files.FILES[-1]))


def _released(folder: Path, case: str) -> Path:
    spec = place(folder, CASES[case])
    return release(spec, folder / "bundle", ledger=ledger_for(folder, CASES[case]), who="Ada", now=NOW).folder


@pytest.mark.usefixtures("_registered")
def test_an_entry_is_written_listed_verified_and_in_the_readme(tmp_path: Path) -> None:
    folder = _released(tmp_path, "areas with totals")
    assert (folder / "size.txt").read_text() == f"area: {int(load_bundle(folder).counts.sum())}\n"
    assert list(json.loads((folder / "manifest.json").read_text())["files"])[-2:] == ["size.txt", "README.txt"]
    assert "size.txt         " in (folder / "README.txt").read_text()
    assert "size.txt was made again and is the same" in verify_bundle(folder).checked


@pytest.mark.usefixtures("_registered")
@pytest.mark.parametrize(("content", "reason"), [("area: 1\n", "not the file that"), ("\x1b[2Jx\n", "does not show")])
def test_another_content_is_refused(tmp_path: Path, content: str, reason: str) -> None:
    folder = _released(tmp_path, "areas with totals")
    (folder / "size.txt").write_text(content)
    with pytest.raises(BundleError, match=reason):
        verify_bundle(forge(folder, nothing))


@pytest.mark.usefixtures("_registered")
def test_there_is_none_where_it_is_not_due(tmp_path: Path) -> None:
    folder = _released(tmp_path, "one table")
    assert not (folder / "size.txt").exists()
    verify_bundle(folder)


def test_a_file_that_no_entry_names_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(files, "FILES", (*files.FILES[:-1], TOY, files.FILES[-1]))
        folder = _released(tmp_path, "areas with totals")
    with pytest.raises(BundleError, match=r"lists 'size\.txt', and no bundle has such a file"):
        load_bundle(folder)
