"""The report in a browser: it draws, stays offline, can be read by everybody, and stays small."""

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chromium import dom_of, look_at
from congenial.bundle.report_and_readme import report, units_of
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.constraints import Constraints
from congenial.inference.analyst_bundle import AnalystBundle, load_bundle
from congenial.pages.page import render
from congenial.plan import Plan
from images import is_blank
from releases import simulate

EXAMPLES = Path(__file__).parents[2] / "examples"
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("bundles")
    return {
        name: simulate(EXAMPLES / name / "spec.yaml", folder / name, seed=1).folder
        for name in ("p12", "counties", "clinics")
    }


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
        attributes = dict(attrs)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "div":
            is_described = attributes.get("role") == "img" and bool(attributes.get("aria-label"))
            self._open.append(is_described)
            self._described += is_described
        is_wordless = not (attributes.get("alt") or attributes.get("aria-label") or self._described)
        if tag in {"img", "svg"} and is_wordless:
            self.wordless.append(tag)
        for key in ("src", "href", "xlink:href", "action", "data"):
            if (address := attributes.get(key)) is not None and not address.startswith("#"):
                self.outside.append(address)
        if tag in {"link", "iframe"} or (tag == "script" and attrs):
            self.outside.append(f"<{tag}>")
        self.ids += [attributes["id"] or ""] if "id" in attributes else []

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
        '<script type="module"></script>'
    )
    assert outline.headings == [1, 3]
    assert outline.wordless == ["img", "svg"]
    assert outline.outside == ["x.png", "<script>"]


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
    text = report(manifest, (tables,))
    assert len(manifest.law.areas) == 3_000
    assert len(text.encode()) < 5 * MEGABYTE
    assert "Alder 0 to " in text
    assert text.count("<table") > 3_000
    assert not re.search(r"<td>[0-9]{4}", text), "thousands have a comma"


def parents_of(bundle: AnalystBundle) -> Any:
    """Give the areas of a bundle parents: the first forty of them, and the others."""
    naming = replace(bundle.manifest.naming, parents=(("Northern part", 40), ("Île-Sud", 20)))
    return replace(bundle.manifest, naming=naming)


def test_areas_stand_under_their_parents(bundles: dict[str, Path]) -> None:
    bundle = load_bundle(bundles["counties"])
    units, left_out = units_of(parents_of(bundle), bundle.levels)
    assert ([unit.title for unit in units], left_out) == (["Northern part (40)", "Île-Sud (20)"], 0)
    titles = [part.title for unit in units for part in unit.parts]
    assert titles == [f"{area}: {int(counts.sum()):,}" for area, counts in bundle.tables.items()]
    assert units[1].parts[-1].exact[0] == ("residents", f"{int(bundle.tables['Willow'].sum()):,}")


TYPED = """
<script>
const input = document.querySelector(".find input"), shown = (own) => own.firstElementChild.textContent;
const seen = {};
for (const text of %s) {
  input.value = text;
  input.dispatchEvent(new Event("input"));
  const units = [...document.querySelectorAll("[data-find] details")];
  seen[text] = [
    document.querySelector("output").textContent,
    units.filter((own) => !own.hidden).map(shown).length,
    units.filter((own) => own.open).map((own) => shown(own).replace(/:.*/, "")),
  ];
}
const answer = document.createElement("pre");
answer.id = "answer";
answer.textContent = JSON.stringify(seen);
document.body.append(answer);
</script></body>"""


def typed(page: str, texts: list[str], folder: Path) -> dict[str, list[Any]]:
    """Type texts into the page's field, one after the other: what it says, how many are left, which are open."""
    free = re.sub(r"<meta http-equiv=[^>]*>", "", page)  # the page's own policy lets nobody type by a script
    file = folder / "typed.html"
    file.write_text(free.replace("</body>", TYPED % json.dumps(texts)), encoding="utf-8")
    element = re.search(r'<pre id="answer">(.*?)</pre>', dom_of(file, folder), flags=re.S)
    assert element is not None
    answer: dict[str, list[Any]] = json.loads(unescape(element.group(1)))
    return answer


def test_an_area_is_found_by_typing(bundles: dict[str, Path], tmp_path: Path) -> None:
    bundle = load_bundle(bundles["counties"])
    page = report(parents_of(bundle), bundle.levels)
    northern = [str(area) for area in list(bundle.tables)[:40]]
    with_el = sum("el" in area.lower() for area in northern)
    assert with_el > 1
    assert typed(page, ["WILL", "ile sud", "el", "no such", ""], tmp_path) == {
        "WILL": ["1 found", 2, ["Île-Sud (20)", "Willow"]],
        "ile sud": ["20 found", 21, ["Île-Sud (20)"]],
        "el": [f"{with_el} found", with_el + 1, ["Northern part (40)"]],
        "no such": ["none has this in its name", 0, []],
        "": ["", 62, []],
    }


def test_without_its_script_the_page_has_every_table(bundles: dict[str, Path]) -> None:
    text = page_of(bundles["counties"])
    without = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert "Find a" not in without, "no field that does nothing"
    assert without.count("<table") == text.count("<table") > 60


def test_a_page_runs_its_own_script_and_no_other(bundles: dict[str, Path], tmp_path: Path) -> None:
    """What a label might smuggle in is escaped; if it were not, the page's policy would not run it.

    The mutant is a script that differs in one letter from the one whose hash the page names.
    """
    text = page_of(bundles["counties"])
    assert text.count("<script") == 1
    smuggled = tmp_path / "smuggled.html"
    smuggled.write_text(
        text.replace("</main>", "<script>document.title = 'smuggled'</script></main>"), encoding="utf-8"
    )
    seen = dom_of(smuggled, tmp_path)
    assert "<title>smuggled" not in seen
    assert 'class="find"' in seen
    changed = tmp_path / "changed.html"
    changed.write_text(text.replace('"use strict";', "'use strict';"), encoding="utf-8")
    assert 'class="find"' not in dom_of(changed, tmp_path)
    assert "script" not in page_of(bundles["p12"]), "one table is found without"


def _many(bundle: AnalystBundle, copies: int) -> tuple[Any, Any]:
    """Repeat every area of a bundle under other names."""
    original = bundle.manifest
    named: dict[Area, Constraints] = {
        f"{area} {copy}": constraints for copy in range(copies) for area, constraints in original.law.areas.items()
    }
    law = replace(original.law, areas=Areas.collected(original.law.areas.name, named))
    exact_statistics = tuple(
        replace(each, values=np.concatenate([each.values] * copies)) for each in original.exact_statistics
    )
    plan = Plan.of(law, original.plan.neighbours)
    manifest = replace(original, plan=plan, exact_statistics=exact_statistics, known_disclosures=())
    return manifest, np.tile(bundle.counts, (copies, 1))


def test_measured_sums_stand_with_their_intervals(bundles: dict[str, Path]) -> None:
    bundle = load_bundle(bundles["clinics"])
    assert bundle.measurements is not None
    sums = bundle.measurements.sum(axis=0).reshape(bundle.law.schema.shape)
    (table,) = re.findall(
        r"<table>\s*<caption>Measured sums over all 24 areas.*?</table>", page_of(bundles["clinics"]), re.S
    )
    rows = dict(re.findall(r'<th scope="row">(.*?)</th><td class="number">(.*?)</td>', table))
    expected = [*sums.sum(axis=1).tolist(), *sums.sum(axis=0).tolist()]
    assert list(rows.values()) == [f"{value:,}" for value in expected]
    # The half-width of a sum over all areas, by the question that an analyst asks.
    (known,) = bundle.confidence("age=18-39 over areas", level=0.9)
    assert f"+-{(known.high - known.low) / 2:,.0f}<" in table
