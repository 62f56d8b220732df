"""Documents of the project that stand beside docs/ become pages of the site, and links between them follow.

A hook of MkDocs. In the repository a page links to `../CONTRIBUTING.md`, on the site to `project/contributing.md`.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
}
STANDS_FOR = PAGES | {"README.md": "index.md"}
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")


def as_on_site(document: str, text: str) -> str:
    """Return a document with links as the site has them.

    `document` is its path in the repository: links are relative to it there.
    """
    page = STANDS_FOR.get(document) or document.removeprefix("docs/")

    def moved(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(document), found[1]))
        if target not in STANDS_FOR and not target.startswith("docs/"):
            raise ValueError(f"{document} links to {target}, which is not on the site; name it in code instead")
        there = STANDS_FOR.get(target) or target.removeprefix("docs/")
        return posixpath.relpath(there, posixpath.dirname(page) or ".")

    return LINK.sub(moved, text)


def on_files(files: Any, config: Any) -> Any:
    """Add the documents (MkDocs calls this)."""
    from mkdocs.structure.files import File

    for document, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / document).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Mend the links of one page (MkDocs calls this)."""
    documents = {there: here for here, there in PAGES.items()}
    return as_on_site(documents.get(page.file.src_uri, f"docs/{page.file.src_uri}"), markdown)
