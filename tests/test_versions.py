"""Versions read off the names of folders are those that packages state."""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from congenial.versions import version_of

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_dependency() -> None:
    names = [one.split(">")[0] for one in PROJECT["project"]["dependencies"]]
    assert {name: version_of(name) for name in names} == {name: version(name) for name in names}
    assert version_of("congenial") == PROJECT["project"]["version"]


def test_the_first_on_the_path_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Some.Package-1.2+local.dist-info").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path / "missing"), str(tmp_path), *sys.path])
    assert version_of("some-package") == version_of("SOME_package") == "1.2+local"


def test_what_installers_described_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "older.egg-info").mkdir()
    (tmp_path / "older.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: older\nVersion: 0.3\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert version_of("older") == "0.3"
    with pytest.raises(PackageNotFoundError):
        version_of("nobody-has-this")
