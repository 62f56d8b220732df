"""Every Python block of the documents runs, in order, in one session a document."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(document: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", document.read_text(encoding="utf-8"), flags=re.M | re.S)


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if blocks(d)], ids=lambda d: d.name)
def test_every_block_runs(document: Path) -> None:
    session: dict[str, object] = {"__name__": document.stem}
    for block in blocks(document):
        exec(compile(block, str(document), "exec"), session)


def test_links_between_documents_lead_somewhere() -> None:
    for document in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
            assert (document.parent / link).exists(), f"{document.name} links to {link}"


def test_audits_that_documents_name_exist() -> None:
    for document in DOCUMENTS:
        for path in re.findall(r"`((?:tests|src|docs|benchmarks)/[\w/.-]+)`", document.read_text(encoding="utf-8")):
            assert (ROOT / path).exists(), f"{document.name} names {path}"


def test_every_kind_of_certificate_has_its_page() -> None:
    from congenial.privacy.certificate import THEOREMS

    for kind, theorem in THEOREMS.items():
        page = theorem.page
        text = (ROOT / page).read_text(encoding="utf-8")
        assert "**Statement" in text, page
        assert "**Proof" in text, page
        assert "**Audit" in text, page
        assert kind == "composition" or kind.removeprefix("gaussian_") in text, f"{page} does not name {kind}"
