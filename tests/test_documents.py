"""Documents keep up with the code: their Python blocks run, and the files and names they give exist."""

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from test_architecture import LAYERS

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
DOCUMENTS = [ROOT / "README.md", CONTRIBUTING, *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *sorted((ROOT / "examples").glob("*/README.md"))]
RECIPES = {
    "a noise family": ("FAMILIES", "tests/noise/contract.py", "tests/noise/test_new_family.py"),
    "a sampler": ("SAMPLERS", "tests/sampling/contract.py", "tests/sampling/test_choose.py"),
    "a kind of invariant": ("KINDS", "tests/conditions/contract.py", "tests/conditions/test_kinds.py"),
    "a file of a bundle": ("FILES", "src/congenial/bundle/files.py", "tests/bundle/test_files.py"),
}


def blocks(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(encoding="utf-8"), flags=re.M | re.S)


def quoted(text: str) -> list[str]:
    """Return what a text sets in code inside its sentences."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))


def missing_files(text: str) -> list[str]:
    """Return the files of the repository that a text names and that are not there."""
    named = [one for one in quoted(text) if re.fullmatch(r"(?:tests|src|docs|benchmarks|examples|\.ci)/[\w/.-]+", one)]
    # A file of Python is named from the root on, so that it can be looked up; `generate.py` stands beside its own page.
    named += [one for one in quoted(text) if re.fullmatch(r"[\w/]+\.py", one) and one != "generate.py"]
    return [path for path in dict.fromkeys(named) if not (ROOT / path).exists()]


def missing_names(text: str) -> list[str]:
    """Return the names inside the package that a text gives and that cannot be imported."""
    named = [re.split(r"[( ]", one)[0] for one in quoted(text) if one.startswith(("congenial.", "cg."))]
    return [name for name in dict.fromkeys(named) if not is_importable(re.sub("^cg", "congenial", name))]


def is_importable(name: str) -> bool:
    home, _, last = name.rpartition(".")
    try:
        if find_spec(name) is not None:
            return True
    except ModuleNotFoundError:
        pass
    try:
        return hasattr(import_module(home), last)
    except ModuleNotFoundError:
        return False


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if blocks(d)], ids=lambda d: d.name)
def test_every_block_runs(document: Path) -> None:
    session: dict[str, object] = {"__name__": document.stem}
    for block in blocks(document):
        exec(compile(block, str(document), "exec"), session)


def test_diagrams_fit_a_narrow_page() -> None:
    """A block that is no code has lines that a page of 60 characters shows whole; printed results may be longer."""
    found = []
    for document in DOCUMENTS:
        for block in re.findall(r"^```\n(.*?)^```", document.read_text(encoding="utf-8"), flags=re.M | re.S):
            if "->" in block:
                found += [(document.name, line) for line in block.splitlines() if len(line) > 60]
    assert found == []


def test_links_between_documents_lead_somewhere() -> None:
    for document in PAGES:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"


def headings(document: Path) -> set[str]:
    """Return the anchors of a document's headings."""
    found = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def test_links_into_documents_lead_to_headings() -> None:
    for document in PAGES:
        for link, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text(encoding="utf-8")):
            target = document.parent / link if link else document
            assert anchor in headings(target), f"{document.name} links to {link}#{anchor}"


@pytest.mark.parametrize("document", PAGES, ids=lambda d: str(d.relative_to(ROOT)))
def test_files_and_names_that_documents_give_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert missing_files(text) == []
    assert missing_names(text) == []


def test_a_file_or_a_name_that_does_not_exist_is_found() -> None:
    text = "See `tests/nowhere.py`, `sampling/kernels.py`, `src/congenial/law.py`, `congenial.law`, `cg.compare(x)`.\n"
    assert missing_files(text) == ["tests/nowhere.py", "sampling/kernels.py"]
    assert missing_names(text) == []
    assert missing_names("`congenial.release.run` and `congenial.law.Low`") == [
        "congenial.release.run",
        "congenial.law.Low",
    ]


def unknown_words(text: str) -> list[str]:
    """Return the flags of commands and the targets of make that a text names and that do not exist."""
    commands = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    lines = [*quoted(text), *re.findall(r"^(?:\$ )?((?:congenial|make) .*?)(?:  *#.*)?$", text, flags=re.M)]
    flags = [
        flag for line in lines if line.startswith(("congenial ", "--")) for flag in re.findall(r"--[a-z][a-z-]*", line)
    ]
    targets = [one for line in lines if line.startswith("make ") for one in re.findall(r" ([a-z-]+)(?![\w=-])", line)]
    known = {*re.findall(r"--[a-z][a-z-]*", commands), *re.findall(r"^([a-z-]+):", makefile, flags=re.M)}
    return [word for word in dict.fromkeys([*flags, *targets]) if word not in known]


@pytest.mark.parametrize("document", PAGES, ids=lambda d: str(d.relative_to(ROOT)))
def test_flags_and_targets_that_documents_name_exist(document: Path) -> None:
    assert unknown_words(document.read_text(encoding="utf-8")) == []


def test_a_flag_or_a_target_that_does_not_exist_is_found() -> None:
    block = "```\n$ congenial show x --full  # --no\nmake tset\n```\n"
    text = f"Say `congenial plan spec.yaml --fuller`, `make bench-nothing`:\n\n{block}"
    assert unknown_words(text) == ["--fuller", "bench-nothing", "tset"]


def recipes() -> Iterator[tuple[str, str]]:
    text = CONTRIBUTING.read_text(encoding="utf-8")
    yield from re.findall(r"^## Recipe: (.*?)\n(.*?)(?=^## |^After a change|\Z)", text, flags=re.M | re.S)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_names_its_registry_its_contract_and_its_toy(recipe: str) -> None:
    """Capitals that a recipe sets in code are names in a file that it names: a registry that moved is noticed."""
    text = dict(recipes())[recipe]
    named = quoted(text)
    assert set(RECIPES[recipe]) <= set(named)
    files = [ROOT / one for one in named if one.endswith(".py")]
    assert missing_files(text) == []
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for name in named:
        if re.fullmatch(r"[A-Z]\w+", name) and name != "None":
            assert re.search(rf"^(?:class )?{name}\b", code, flags=re.M), f"{recipe} names {name}"


def test_every_recipe_is_checked() -> None:
    assert {name for name, _ in recipes()} == set(RECIPES)


def test_the_layers_are_those_that_are_held() -> None:
    text = CONTRIBUTING.read_text(encoding="utf-8")
    (layout,) = re.findall(r"^```\n(text .*?)^```", text, flags=re.M | re.S)
    listed = [re.split(r" {3,}", line)[0].replace("/", "").split() for line in layout.splitlines()]
    of_name = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    assert {name for line in listed for name in line} == set(of_name) - {"__main__"}
    numbers = [[of_name[name] for name in line] for line in listed]
    assert all(len(set(line)) == 1 for line in numbers)
    assert [line[0] for line in numbers] == sorted(line[0] for line in numbers)


def test_every_kind_of_certificate_has_its_page() -> None:
    from congenial.privacy.certificate import THEOREMS

    for kind, theorem in THEOREMS.items():
        page = theorem.page
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "**Statement" in text, page
        assert "**Proof" in text, page
        assert "**Audit" in text, page
        assert kind == "composition" or kind.removeprefix("gaussian_") in text, f"{page} does not name {kind}"
