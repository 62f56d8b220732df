"""The documentation site has every page, loads nothing from elsewhere, and its checker sees what is broken."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from project_pages import PAGES, as_on_site
from site_check import main, troubles

ROOT = Path(__file__).parents[2]
CONFIG: dict[str, Any] = YAML(typ="safe").load(ROOT / "mkdocs.yml")


def pages_of(entry: object) -> list[str]:
    """Return the pages below an entry of the navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    assert isinstance(parts, list | type({}.values()))
    return [page for part in parts for page in pages_of(part)]


def test_every_page_stands_once_in_the_navigation() -> None:
    docs = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    listed = pages_of(CONFIG["nav"])
    assert sorted(listed) == sorted(docs | set(PAGES.values())), "a page of docs/ belongs into nav of mkdocs.yml"


def test_the_claims_are_all_on_their_first_page() -> None:
    folder = ROOT / "docs" / "claims"
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (folder / "index.md").read_text(encoding="utf-8")))
    assert linked == {path.name for path in folder.glob("*.md")} - {"index.md"}


def test_the_configuration_loads_nothing_from_elsewhere() -> None:
    assert CONFIG["theme"]["font"] is False
    assert {"search", "offline"} == set(CONFIG["plugins"])
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert "http" not in text
    style = (ROOT / "website" / "theme" / "assets" / "congenial.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style


def test_what_npm_installs_is_pinned_by_hash_and_names_no_host() -> None:
    lock = json.loads((ROOT / "website" / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: said for name, said in lock["packages"].items() if name}
    assert packages
    for name, said in packages.items():
        assert said["integrity"].startswith("sha512-"), name
        assert "resolved" not in said, name


def test_both_lock_files_agree() -> None:
    pins = [
        dict(re.findall(r"^([\w.-]+)==([^ ;\\]+)", (ROOT / name).read_text(encoding="utf-8"), flags=re.M))
        for name in ("requirements-dev.lock", "requirements-docs.lock")
    ]
    shared = set(pins[0]) & set(pins[1])
    assert "jinja2" in shared
    assert {name: pins[0][name] for name in shared} == {name: pins[1][name] for name in shared}


@pytest.mark.parametrize(
    ("document", "link", "there"),
    [
        ("docs/compare.md", "../CONTRIBUTING.md", "project/contributing.md"),
        ("docs/claims/rejection.md", "../known-limits.md#wide-tables", "../known-limits.md#wide-tables"),
        ("docs/curator.md", "../README.md", "index.md"),
        ("CHANGELOG.md", "docs/estimates.md", "../estimates.md"),
        ("CONTRIBUTING.md", "SECURITY.md", "security.md"),
    ],
)
def test_links_follow_documents_to_their_place(document: str, link: str, there: str) -> None:
    assert as_on_site(document, f"See [this]({link}).") == f"See [this]({there})."


def test_addresses_and_anchors_stay() -> None:
    text = "[a](https://doi.org/10.1145/3412815.3416892) [b](#wide-tables)"
    assert as_on_site("docs/compare.md", text) == text


def test_a_link_to_what_is_not_on_the_site_is_refused() -> None:
    with pytest.raises(ValueError, match=r"docs/compare\.md links to src/congenial/law\.py"):
        as_on_site("docs/compare.md", "[law](../src/congenial/law.py)")


GOOD = '<link href="style.css"><h1 id="top">A</h1><a href="b.html#part">b</a><img src="p.png" alt="a table">'


def site(folder: Path, page: str, style: str = "") -> Path:
    (folder / "a.html").write_text(page)
    (folder / "b.html").write_text('<h2 id="part">B</h2><a href="a.html">a</a>')
    (folder / "style.css").write_text(style)
    (folder / "p.png").write_bytes(b"")
    return folder


def test_a_good_site_has_no_troubles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(troubles(site(tmp_path, GOOD))) == []
    assert main(str(tmp_path), str(ROOT / "README.md")) == 0
    assert "2 pages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("page", "style", "said"),
    [
        ('<a href="c.html">c</a>', "", "a.html: the link c.html leads nowhere"),
        ('<a href="b.html#gone">b</a>', "", "a.html: the link b.html#gone leads to no heading"),
        (
            '<script src="https://cdn.org/x.js"></script>',
            "",
            "a.html: https://cdn.org/x.js is loaded from elsewhere",
        ),
        ('<link href="//cdn.org/x.css">', "", "a.html: //cdn.org/x.css is loaded from elsewhere"),
        ('<script src="gone.js"></script>', "", "a.html: gone.js is not there"),
        ('<img src="p.png">', "", "a.html: the picture p.png has no words for those who do not see it"),
        ('<div role="dialog"></div>', "", "a.html: the dialog has no words for those who do not see it"),
        (
            "",
            "@import 'https://f.org/x.css'",
            "style.css: https://f.org/x.css is loaded from elsewhere or not there",
        ),
        ("", "a {src: url(fonts/gone.woff2)}", "style.css: fonts/gone.woff2 is loaded from elsewhere or not there"),
    ],
)
def test_each_trouble_is_seen(page: str, style: str, said: str, tmp_path: Path) -> None:
    assert list(troubles(site(tmp_path, page, style))) == [said]


def test_a_broken_link_of_a_document_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "README.md"
    document.write_text("[here](docs/gone.md#part) and [there](https://doi.org/1)")
    assert main(str(site(tmp_path, GOOD)), str(document)) == 1
    assert capsys.readouterr().out == "README.md: the link docs/gone.md leads nowhere\n"
