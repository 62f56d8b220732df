"""The report in a browser: it draws, stays offline, can be read by everybody, and stays small."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from chromium import look_at
from congenial.bundle.loading import Bundle, load_bundle
from congenial.bundle.report import report
from congenial.conditions.areas import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.page import render
from congenial.plan import Plan
from images import is_blank
from releases import simulate

EXAMPLES = Path(__file__).parents[2] / "examples"
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bundles")
    return {name: simulate(EXAMPLES / name / "spec.yaml", folder / name, seed=1).folder for name in ("p12", "counties")}


class Outline(HTMLParser):
    """Headings, pictures without words, and addresses outside the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.wordless: list[str] = []
        self.outside: list[str] = []
        self.ids: list[str] = []
        self._described = 0  # how many open elements with a label enclose this one
        self._open: list[bool] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "div":
            is_described = given.get("role") == "img" and bool(given.get("aria-label"))
            self._open.append(is_described)
            self._described += is_described
        is_wordless = not (given.get("alt") or given.get("aria-label") or self._described)
        if tag in {"img", "svg"} and is_wordless:
            self.wordless.append(tag)
        for key in ("src", "href", "xlink:href", "action", "data"):
            if (address := given.get(key)) is not None and not address.startswith("#"):
                self.outside.append(address)
        if tag in {"script", "link", "iframe"}:
            self.outside.append(f"<{tag}>")
        self.ids += [given["id"] or ""] if "id" in given else []

    def handle_endtag(self, tag: str) -> None:
        if tag == "div":
            self._described -= self._open.pop()


def page_of(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["p12", "counties"])
def test_a_browser_draws_the_page_without_trouble_and_without_the_network(
    name: str, bundles: dict[str, Path], tmp_path: Path
) -> None:
    seen = look_at(bundles[name] / "report.html", tmp_path)
    assert not is_blank(seen.picture)
    assert seen.console == []
    assert seen.asked == []


def test_the_browser_test_can_fail(tmp_path: Path) -> None:
    """The mutant: a page with a broken script and a picture from elsewhere is caught, and an empty one is blank."""
    page = tmp_path / "bad.html"
    page.write_text("<html><img src='http://elsewhere.invalid/x.png'><script>nothing_of_this_name()</script></html>")
    seen = look_at(page, tmp_path)
    assert "nothing_of_this_name" in seen.console[0]
    assert seen.asked == ["http://elsewhere.invalid/x.png"]
    empty = tmp_path / "empty.html"
    empty.write_text("<html></html>")
    assert is_blank(look_at(empty, tmp_path).picture)


@pytest.mark.parametrize("name", ["p12", "counties"])
def test_the_page_can_be_read_by_everybody(name: str, bundles: dict[str, Path]) -> None:
    text = page_of(bundles[name])
    outline = Outline(text)
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(outline.headings)), "no level is skipped"
    assert outline.wordless == []
    assert outline.outside == []
    assert "@import" not in text
    assert not re.search(r"url\((?!['\"]?#)", text)
    assert '<html lang="en">' in text
    targets = re.findall(r'href="#([^"]+)"', text)
    assert set(targets) <= set(outline.ids)


def test_the_outline_can_fail() -> None:
    outline = Outline(
        '<h1>a</h1><h3>b</h3><img src="x.png"><div role="img" aria-label="words"><svg></svg></div><svg></svg>'
    )
    assert outline.headings == [1, 3]
    assert outline.wordless == ["img", "svg"]
    assert outline.outside == ["x.png"]


def contrast(text: str, ground: str) -> float:
    """Return the ratio of luminances that WCAG 2 defines, 1 to 21."""
    lighter, darker = sorted((_luminance(text), _luminance(ground)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_text_stands_out_from_its_ground() -> None:
    style = render("base.html", title="x").partition("<style>")[2].partition("</style>")[0]
    named = dict(re.findall(r"--(\w+): (#[0-9a-f]{3,6})", style))
    colours = {named.get(name, name) for name in re.findall(r"[{; ]color: (?:var\(--)?(#?\w+)", style)} - {"inherit"}
    grounds = {named.get(name, name) for name in re.findall(r"background: (?:var\(--)?(#?\w+)", style)}
    assert len(colours) >= 3
    assert len(grounds) >= 3
    for text in colours:
        for ground in grounds:
            assert contrast(text, ground) >= 4.5, f"{text} on {ground}"


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000", "#fff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)
    assert contrast("#777777", "#ffffff") < 4.5


def test_sixty_counties_stay_under_a_megabyte(bundles: dict[str, Path]) -> None:
    assert len(page_of(bundles["counties"]).encode()) < MEGABYTE
    text = page_of(bundles["counties"])
    assert "Willow" in text
    assert "300,000" in text


def test_thousands_of_areas_stay_under_five_megabytes(bundles: dict[str, Path]) -> None:
    manifest, tables = _many(load_bundle(bundles["counties"]), copies=50)
    text = report(manifest, tables)
    assert len(manifest.law.areas) == 3_000
    assert len(text.encode()) < 5 * MEGABYTE
    assert "A line for each county" in text


def _many(bundle: Bundle, copies: int) -> tuple[Any, dict[Any, Any]]:
    """Repeat every area of a bundle under other names."""
    one = bundle.manifest
    named: dict[Area, Constraints] = {
        f"{area} {copy}": own for copy in range(copies) for area, own in one.law.areas.items()
    }
    law = replace(one.law, areas=Areas.collected(one.law.areas.name, named))
    tables = {f"{area} {copy}": counts for copy in range(copies) for area, counts in bundle.tables.items()}
    exactly = tuple(
        replace(each, values={f"{area} {copy}": value for copy in range(copies) for area, value in each.values.items()})
        for each in one.exactly
    )
    return replace(one, plan=Plan.of(law, one.plan.neighbours), exactly=exactly), tables
