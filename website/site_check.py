"""Check the built site: every link and anchor leads somewhere, nothing is loaded from elsewhere, pictures have words.

    python website/site_check.py build/site [README.md ...]

Documents beside the site, such as the README, have their links into the repository checked too.
"""

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "object": "data"}
IN_STYLE = re.compile(r"url\(\s*[\"']?(?!data:|#)([^\"')]+)|@import\s+[\"']([^\"']+)")
FETCHES = re.compile(r"""(?:src|href)\s*=\s*["'](?:https?:)?//|importScripts\(["']https?:|fetch\(["']https?:""")


class Page(HTMLParser):
    """What a page links to, loads, and can be linked to by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.wordless: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take down one element."""
        said = {name: value or "" for name, value in attrs}
        self.anchors |= {said[name] for name in ("id", "name") if said.get(name)}
        if tag == "a" and "href" in said:
            self.links.append(said["href"])
        where = LOADED.get(tag)
        if where and said.get(where) and said.get("rel") not in {"prev", "next", "canonical"}:
            self.loads.append(said[where])
        if tag == "img" and not said.get("alt"):
            self.wordless.append(f"picture {said.get('src', '?')}")
        if said.get("role") == "dialog" and not said.get("aria-label"):
            self.wordless.append("dialog")


def is_elsewhere(link: str) -> bool:
    """Say whether a link leads out of the site."""
    return bool(urlsplit(link).scheme or link.startswith("//"))


def troubles(site: Path) -> Iterator[str]:
    """Go through a built site and say what is wrong with it."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        here = path.relative_to(site)
        if path.name == "404.html":  # its links are those of the site's address
            continue
        for link in page.links:
            if not is_elsewhere(link):
                parts = urlsplit(link)
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                target = target / "index.html" if target.is_dir() else target
                if not target.exists():
                    yield f"{here}: the link {link} leads nowhere"
                elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                    yield f"{here}: the link {link} leads to no heading"
        for address in page.loads:
            if is_elsewhere(address) and not address.startswith("data:"):
                yield f"{here}: {address} is loaded from elsewhere"
            elif not address.startswith("data:") and not (path.parent / unquote(urlsplit(address).path)).exists():
                yield f"{here}: {address} is not there"
        for one in page.wordless:
            yield f"{here}: the {one} has no words for those who do not see it"
    for path in sorted(site.rglob("*.css")):
        for found in IN_STYLE.finditer(path.read_text(encoding="utf-8")):
            address = found[1] or found[2]
            if is_elsewhere(address) or not (path.parent / urlsplit(address).path).exists():
                yield f"{path.relative_to(site)}: {address} is loaded from elsewhere or not there"
    for path in sorted(site.rglob("*.js")):
        if "search_index" not in path.name and FETCHES.search(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(site)}: loads something from elsewhere"


def broken_links(document: Path) -> Iterator[str]:
    """Say which links of a document lead to no file of the repository."""
    for link in re.findall(r"\]\(([^)#:\s]+)[)#]", document.read_text(encoding="utf-8")):
        if not (document.parent / link).exists():
            yield f"{document.name}: the link {link} leads nowhere"


def main(site: str, *documents: str) -> int:
    """Print what is wrong, or how much was looked at."""
    found = [*troubles(Path(site).resolve()), *(one for name in documents for one in broken_links(Path(name)))]
    pages = len(list(Path(site).rglob("*.html")))
    good = f"{pages} pages: every link leads somewhere; open {site}/index.html"
    sys.stdout.write("\n".join(found or [good]) + "\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
