"""Templates are translated once, where that can be kept, and anew when anything that decides it has changed."""

from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader

from congenial.page.translated import Translated


def made(folder: Path) -> str:
    """Return what a page of a new environment says, for templates in a folder."""
    kept = Translated(folder / "code.py")
    environment = Environment(loader=FileSystemLoader(folder), bytecode_cache=kept, autoescape=True)
    return environment.get_template("page.html").render(name="A & B")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    (tmp_path / "code.py").write_text("one", encoding="utf-8")
    (tmp_path / "page.html").write_text("Hello {{ name }}", encoding="utf-8")
    return tmp_path


def test_a_template_is_translated_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "__pycache__").mkdir()
    assert made(folder) == "Hello A &amp; B"
    assert len(list((folder / "__pycache__").iterdir())) == 1
    with monkeypatch.context() as patched:
        patched.setattr(Environment, "compile", None)
        assert made(folder) == "Hello A &amp; B"
    (folder / "page.html").write_text("Good day {{ name }}", encoding="utf-8")
    assert made(folder) == "Good day A &amp; B"
    for kept in (folder / "__pycache__").iterdir():
        kept.write_bytes(kept.read_bytes()[:40])  # cut short
    assert made(folder) == "Good day A &amp; B"
    (folder / "code.py").write_text("another set-up", encoding="utf-8")
    monkeypatch.setattr(Environment, "compile", None)
    with pytest.raises(TypeError):
        made(folder)


def test_where_nothing_can_be_kept_pages_are_made_all_the_same(folder: Path) -> None:
    assert made(folder) == "Hello A &amp; B"
    assert not (folder / "__pycache__").exists()
