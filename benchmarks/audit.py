"""Ask a public database of vulnerabilities about every package that requirements.lock pins.

    python benchmarks/audit.py [requirements.lock]

Only names and versions of public packages are sent. The exit code is 0 when no vulnerability is known, 1 when some are,
and 3 when nothing was checked, because the database could not be reached or gave an answer that cannot be read.
"""

import argparse
import json
import re
import sys
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

URL = "https://api.osv.dev/v1/querybatch"
SECONDS = 20
MOST_QUERIES, MOST_PAGES, MOST_BYTES = 1_000, 100, 50_000_000
NONE_KNOWN, SOME_KNOWN, NOT_CHECKED = 0, 1, 3

PINNED = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^ ;\\]+)")

Pin = tuple[str, str]
Fetch = Callable[[bytes], bytes]


class NotCheckedError(Exception):
    """Why nothing can be said about the packages."""


def pins_of(lock: str) -> list[Pin]:
    """Return the name and version of every pinned package; one can be pinned twice, for two versions of Python."""
    pins = []
    for number, line in enumerate(lock.splitlines(), 1):
        if not line.strip() or line[0] in " \t#":  # hashes and remarks
            continue
        match = PINNED.match(line)
        if match is None:
            raise NotCheckedError(f"line {number} of the lock file pins no package by ==")
        pins.append((match[1], match[2]))
    if not pins:
        raise NotCheckedError("the lock file pins no package")
    return list(dict.fromkeys(pins))


def fetch_from(url: str) -> Fetch:
    """Return what sends a question to a database and returns its answer."""

    def fetch(question: bytes) -> bytes:
        request = urllib.request.Request(url, question, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                content: bytes = answer.read(MOST_BYTES)
                return content
        except (OSError, HTTPException, ValueError) as refused:
            raise NotCheckedError(f"{url} could not be reached: {refused}") from None

    return fetch


def vulnerabilities(pins: list[Pin], fetch: Fetch) -> dict[Pin, list[str]]:
    """Return the names of the vulnerabilities of each package that has any; an answer can come in several pages."""
    names_of_pin: dict[Pin, list[str]] = {}
    tokens = dict.fromkeys(pins, "")
    for _ in range(MOST_PAGES):
        if not tokens:
            return names_of_pin
        queried = list(tokens)[:MOST_QUERIES]
        answers = results_of(fetch(question(queried, tokens)), len(queried))
        for pin, (names, token) in zip(queried, answers, strict=True):
            if names:
                names_of_pin.setdefault(pin, []).extend(names)
            tokens.pop(pin)
            if token:
                tokens[pin] = token
    raise NotCheckedError(f"the answer has more than {MOST_PAGES} pages")


def question(pins: list[Pin], tokens: dict[Pin, str]) -> bytes:
    """Return what is asked about some packages: the page that comes next of each."""
    queries = [
        {"package": {"name": pin[0], "ecosystem": "PyPI"}, "version": pin[1]}
        | ({"page_token": tokens[pin]} if tokens[pin] else {})
        for pin in pins
    ]
    return json.dumps({"queries": queries}).encode()


def results_of(answer: bytes, n_queries: int) -> list[tuple[list[str], str]]:
    """Return the names of the vulnerabilities of each package that was asked about, and the token of its next page."""
    try:
        results = json.loads(answer)["results"]
        if len(results) != n_queries:
            raise ValueError("other packages than were asked about")
        return [
            ([str(entry["id"]) for entry in result.get("vulns", [])], str(result.get("next_page_token", "")))
            for result in results
        ]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as wrong:
        raise NotCheckedError(f"the database gave an answer that cannot be read ({type(wrong).__name__})") from None


def audit(lock: Path, fetch: Fetch) -> int:
    """Print what is known of the packages of a lock file, and return the exit code."""
    try:
        pins = pins_of(lock.read_text(encoding="utf-8"))
        affected = vulnerabilities(pins, fetch)
    except (NotCheckedError, OSError, UnicodeDecodeError) as reason:
        print(f"NOT checked: {reason}", file=sys.stderr)
        print("No package was looked up; run make audit where the database can be reached.", file=sys.stderr)
        return NOT_CHECKED
    for (name, version), names in affected.items():
        print(f"{name} {version}: {', '.join(sorted(set(names)))}")
    if affected:
        print(
            f"{len(affected)} of {len(pins)} pinned packages have known vulnerabilities; see osv.dev, then make lock."
        )
        return SOME_KNOWN
    print(f"{len(pins)} pinned packages were checked; none has a known vulnerability.")
    return NONE_KNOWN


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("lock", type=Path, nargs="?", default=Path("requirements.lock"))
    sys.exit(audit(parser.parse_args().lock, fetch_from(URL)))
