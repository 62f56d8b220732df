"""Documents keep up with the code: their Python blocks run, and the files and names they give exist."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from test_architecture import LAYERS

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
DOCUMENTS = [ROOT / "README.md", CONTRIBUTING, *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [*DOCUMENTS, ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *sorted((ROOT / "examples").glob("*/README.md"))]
PRESENT = [page for page in PAGES if page.name != "CHANGELOG.md"]  # that one names what was renamed since, too
INSTANCES = {
    "bundle": ("AnalystBundle",),
    "certificate": ("Certificate",),
    "constraints": ("Constraints",),
    "estimate": ("TreeEstimate",),
    "hierarchy": ("Hierarchy",),
    "law": ("Law", "PublicLaw"),
    "ledger": ("Ledger",),
    "mechanism": ("Mechanism",),
    "model": ("ModelPosterior",),
    "plan": ("Plan",),
    "posterior": ("Posterior", "AreasPosterior"),
    "receipt": ("Receipt",),
    "release": ("Release",),
    "status": ("Status",),
}
"""What a variable of a page's sentences is, by its name."""
KEYS = {"law.groups", "unit.word"}  # of a manifest
ENDINGS = "csv|db|html|json|key|keys|lock|md|parquet|png|pub|svg|toml|txt|yaml|yml"
RECIPES = {
    "a noise family": ("FAMILIES", "tests/noise/contract.py", "tests/noise/test_new_family.py"),
    "a sampler": ("SAMPLERS", "tests/sampling/contract.py", "tests/sampling/test_choose.py"),
    "a kind of invariant": ("KINDS", "tests/conditions/contract.py", "tests/conditions/test_kinds.py"),
    "a command": ("COMMANDS", "tests/cli/test_commands.py", "count_rows"),
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


# Names of attributes and of modules are looked up in the source: nothing is imported for it.


@cache
def source() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "congenial").rglob("*.py"))}


@cache
def class_files() -> dict[str, list[Path]]:
    out: dict[str, list[Path]] = {}
    for path, text in source().items():
        for name in re.findall(r"^class (\w+)", text, flags=re.M):
            out.setdefault(name, []).append(path)
    return out


@cache
def attributes(name: str) -> frozenset[str]:
    """Return the attributes of all classes of a name, those of the package that they extend included."""
    out: set[str] = set()
    for path in class_files().get(name, ()):
        tree = ast.parse(source()[path])
        (definition,) = (one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == name)
        for one in ast.walk(definition):
            if isinstance(one, ast.FunctionDef):
                out.add(one.name)
            elif isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                out.add(one.id)
            elif isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
                out.add(one.attr)
        for base in definition.bases:
            out |= attributes(base.id) if isinstance(base, ast.Name) else set()
    return frozenset(out)


def in_modules(home: str, name: str) -> bool | None:
    """Return whether a module or a package, named by the end of its path, has a name; None if there is no such."""
    end = home.replace(".", "/")
    paths = [path for path in source() if f"/{path.relative_to(ROOT)}".endswith((f"/{end}.py", f"/{end}/__init__.py"))]
    if not paths:
        return None
    folders = [path.parent for path in paths if path.name == "__init__.py"]
    is_module = any((folder / f"{name}.py").exists() or (folder / name).is_dir() for folder in folders)
    return is_module or any(re.search(rf"^(?:def |class )?{name}\b", source()[path], flags=re.M) for path in paths)


def missing_attributes(text: str) -> list[str]:
    """Return names such as `Plan.draw`, `plan.draw()` or `privacy.audit` that a text gives and the code has not."""
    out = []
    for one in dict.fromkeys(quoted(text)):
        dotted = re.match(r"[A-Za-z]\w*(?:\.[A-Za-z_]\w*)+(?=[(\[,]|$)", one)
        if dotted is None or dotted[0] in KEYS or re.search(rf"\.(?:{ENDINGS}|py)$", dotted[0]):
            continue
        parts = dotted[0].split(".")
        if re.match("[A-Z][a-z]", parts[0]):
            known: list[bool | None] = [parts[1] in attributes(parts[0])]
        else:
            known = [parts[1] in attributes(name) for name in INSTANCES.get(parts[0], ())]
            known += [] if parts[0] in {"congenial", "cg"} else [in_modules(".".join(parts[:-1]), parts[-1])]
        is_known = any(known) and identifiers().issuperset(parts)
        if not is_known and set(known) - {None}:
            out.append(dotted[0])
    return out


def unknown_identifiers(text: str) -> list[str]:
    """Return names of several words, such as `read_leaves`, that a text gives and that stand nowhere in the code."""
    named = [re.split(r"[(]", one)[0] for one in quoted(text)]
    words = [one for one in dict.fromkeys(named) if re.fullmatch(r"[a-z]{3,}(?:_[a-z]{2,})+|(?:[A-Z][a-z]+){2,}", one)]
    return [word for word in words if word not in identifiers()]


@cache
def identifiers() -> frozenset[str]:
    """Return every word of the package, the tests and the schema of specs."""
    others = [*(ROOT / "tests").rglob("*.py"), ROOT / "docs" / "spec.schema.json"]
    texts = [*source().values(), *(path.read_text(encoding="utf-8") for path in others if path != Path(__file__))]
    return frozenset(word for text in texts for word in re.findall(r"\w+", text))


@pytest.mark.parametrize("document", PRESENT, ids=lambda d: str(d.relative_to(ROOT)))
def test_attributes_and_identifiers_that_documents_give_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    assert missing_attributes(text) == []
    assert unknown_identifiers(text) == []


def test_an_attribute_or_an_identifier_that_does_not_exist_is_found() -> None:
    right = "`Plan.draw`, `plan.draw(leaves)`, `Law.target`, `Mechanism.release`, `privacy.audit`, `release.charged`"
    assert missing_attributes(f"{right}, `table.csv`, `numba.core`, `tree.drawing.Subtree`, `bundle.released`") == []
    wrong = "`Plan.rehearse`, `plan.rehearse()`, `Pln.draw`, `privacy.attack`, `release.drwn`, `tree.drawing.Subtreee`"
    assert missing_attributes(wrong) == [re.split("[(]", one)[0] for one in quoted(wrong)]
    named = "`read_leaves`, `read_leaves(spec)`, `AreaTables`, `x_ij`, `read_no_leaves`, `AreaTabels(x)`"
    assert unknown_identifiers(named) == ["read_no_leaves", "AreaTabels"]


@pytest.mark.filterwarnings(
    "default::congenial.inference.tree.chain.PoorChainsWarning"
)  # pages release in earnest: noise may bring one
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


def test_the_glossary_has_one_entry_a_term_and_names_that_the_code_has() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries, code = text.split("## Words of the code")
    terms = re.findall(r"^## (.*)$", entries, flags=re.M)
    assert terms == sorted(set(terms), key=str.lower)
    for name in quoted(code.partition("\nAvoided")[0]):
        is_class = re.match("[A-Z][a-z]", name) is not None and name.partition(".")[0] in class_files()
        assert is_class or (name[0].islower() and set(name.split(".")) <= identifiers()), name


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
    (layout,) = re.findall(r"^```\n(safe_text .*?)^```", text, flags=re.M | re.S)
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
