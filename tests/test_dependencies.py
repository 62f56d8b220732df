"""docs/dependencies.md speaks of every direct dependency, with the range and the licence that it has."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")

ABOUT_ALL = ("Licence", "Kept by", "Native code", "For")
ABOUT_INSTALLED = (*ABOUT_ALL, "Could", "Limited by")
FAMILIES = {
    "MIT": r"\bMIT\b",
    "Apache": r"\bApache\b",
    "BSD": r"\bBSD\b",
    "0BSD": r"\b0BSD\b",
    "LGPL": r"\bLGPL|Lesser General Public",
    "GPL": r"\bGPL|GNU General Public",
    "MPL": r"\bMPL|Mozilla Public",
    "PSF": r"\bPSF|Python Software Foundation",
    "Zlib": r"\bZlib\b",
    "CC0": r"\bCC0\b",
}


def ranges(requirements: list[str]) -> dict[str, str]:
    """Return the name of each requirement, and what it asks for: extras and versions."""
    found = (re.fullmatch(r"([A-Za-z0-9._-]+)(.*)", one) for one in requirements)
    return {match[1]: match[2] for match in found if match}


INSTALLED = ranges(PROJECT["project"]["dependencies"])
EXTRAS = {group: ranges(wanted) for group, wanted in PROJECT["project"]["optional-dependencies"].items()}
TOOLS = {*EXTRAS["dev"], *EXTRAS["build"], *EXTRAS["docs"]}  # what no release runs
DIRECT = INSTALLED | {name: asked for group in EXTRAS.values() for name, asked in group.items()}


def sections(page: str) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the range and the lines of each section of the page."""
    found = {}
    for name, asked, text in re.findall(r"^### (\S+) [`*](.+?)[`*]\n(.*?)(?=^##|\Z)", page, flags=re.M | re.S):
        lines = dict(re.findall(r"^- ([A-Z][\w ]+): (.*?)(?=^- |\Z)", text, flags=re.M | re.S))
        found[name] = ("" if asked == "any" else asked, {key: value.strip() for key, value in lines.items()})
    return found


def families(statement: str) -> set[str]:
    """Return the kinds of licences that a text names; packages state theirs in many ways."""
    return {name for name, pattern in FAMILIES.items() if re.search(pattern, statement)}


def stated_licence(name: str) -> str:
    """Return the licence that an installed package states: an expression, classifiers, or the head of a text."""
    try:
        stated = metadata(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed here")
    classifiers = [one for one in stated.get_all("Classifier") or [] if one.startswith("License ::")]
    expression, text = (" ".join(stated.get_all(field) or []) for field in ("License-Expression", "License"))
    return expression or " ".join(classifiers) or text.strip().partition("\n")[0]


def test_every_direct_dependency_has_its_section() -> None:
    assert {name: asked for name, (asked, _) in sections(PAGE).items()} == DIRECT
    assert set(PROJECT["build-system"]["requires"]) <= set(DIRECT)


@pytest.mark.parametrize("name", DIRECT)
def test_a_section_says_everything(name: str) -> None:
    _, lines = sections(PAGE)[name]
    assert tuple(lines) == (ABOUT_ALL if name in TOOLS else ABOUT_INSTALLED)
    assert all(lines.values())


@pytest.mark.parametrize("name", DIRECT)
def test_the_licence_is_that_of_the_installed_package(name: str) -> None:
    _, lines = sections(PAGE)[name]
    found = families(stated_licence(name))
    assert found
    assert families(lines["Licence"]) == found


def test_a_wrong_page_is_seen() -> None:
    assert "numpy" not in sections(PAGE.replace("### numpy ", "### numpie "))
    assert sections(PAGE.replace("`>=2.0`", "`>=1.0`"))["numpy"][0] != INSTALLED["numpy"]
    assert families("GNU General Public License v2 or later (GPLv2+)") == {"GPL"} != families("LGPL-3.0-only")
    assert families("BSD-3-Clause AND 0BSD") == {"BSD", "0BSD"} != families("BSD License")


def test_nothing_that_is_installed_with_the_package_is_under_the_gpl() -> None:
    """It would ask for the same terms for what is distributed with it; LGPL does not."""
    for name, (_, lines) in sections(PAGE).items():
        assert name in TOOLS or "GPL" not in families(lines["Licence"]), name


def test_the_table_names_every_package_that_a_release_can_run() -> None:
    table = set(re.findall(r"`([^`]+)`", "\n".join(line.split("|")[1] for line in PAGE.splitlines() if "|" in line)))
    extras = {name for wanted in EXTRAS.values() for name in wanted} - TOOLS
    assert table == set(INSTALLED) | extras
