"""Versions read off the names of folders are those that packages state."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from zipfile import ZipFile

import pytest

from congenial.versions import version_of

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_dependency() -> None:
    names = [one.split(">")[0] for one in PROJECT["project"]["dependencies"]]
    assert {name: version_of(name) for name in names} == {name: version(name) for name in names}
    assert version_of("congenial") == PROJECT["project"]["version"]


def test_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Some.Package-1.2+local.dist-info").mkdir()
    (tmp_path / "Some.Package-1.2+local.dist-info" / "METADATA").write_text("Name: some-package\nVersion: 1.2+local\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), str(tmp_path), *sys.path])
    assert version_of("some-package") == version_of("SOME_package") == "1.2+local"


def test_what_installers_described_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "older.egg-info").mkdir()
    (tmp_path / "older.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: older\nVersion: 0.3\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert version_of("older") == "0.3"
    with pytest.raises(PackageNotFoundError):
        version_of("nobody-has-this")


@pytest.mark.parametrize("first", ["two versions", "an older kind", "nothing inside"])
def test_where_it_is_not_clear_the_description_counts(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands first on the path is found as `importlib.metadata` finds it."""
    folders = {"two versions": ["0.2", "0.4"], "an older kind": [], "nothing inside": ["0.2"]}[first]
    earlier, later = tmp_path / "earlier", tmp_path / "later"
    for folder in [*(earlier / f"odd-{one}.dist-info" for one in folders), later / "odd-9.dist-info"]:
        folder.mkdir(parents=True)
        if first != "nothing inside":
            (folder / "METADATA").write_text(f"Name: odd\nVersion: {folder.name[4:-10]}\n")
    if first == "an older kind":
        (earlier / "odd.egg-info").mkdir(parents=True)
        (earlier / "odd.egg-info" / "PKG-INFO").write_text("Name: odd\nVersion: 0.3\n")
    monkeypatch.setattr(sys, "path", [str(earlier), str(later)])
    assert version_of("odd") == version("odd")


def test_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("odd-2.0.dist-info/METADATA", "Name: odd\nVersion: 2.0\n")
    (tmp_path / "odd-1.0.dist-info").mkdir()
    (tmp_path / "odd-1.0.dist-info" / "METADATA").write_text("Name: odd\nVersion: 1.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "packed.zip"), str(tmp_path)])
    assert version_of("odd") == version("odd") == "2.0"
