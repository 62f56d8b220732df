"""A page in headless Chromium: what it draws, what it writes to the console, what it asks the network for."""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

PATIENCE = 600  # seconds: a hung program is found, a busy machine is not
_QUIET = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--enable-logging=stderr"),
)
_NO_NETWORK = "--host-resolver-rules=MAP * ~NOTFOUND"  # what is asked for is written down, and never reached
_OWN_HOSTS = ("google.com", "googleapis.com", "gstatic.com")  # the browser's own questions, whatever the page


@dataclass(frozen=True)
class Seen:
    """What a browser made of a page."""

    picture: Path
    console: list[str]
    asked: list[str]


def chromium() -> str:
    """Return the browser's path, or skip the test."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip("Chromium is not installed; make services installs it")
    return found


def look_at(page: Path, folder: Path, *, width: int = 1100, height: int = 2400) -> Seen:
    """Open a page in a browser with a profile of its own."""
    picture, log = folder / f"{page.stem}.png", folder / f"{page.stem}-net.json"
    options = [*_QUIET, _NO_NETWORK, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}"]
    size = [f"--window-size={width},{height}", f"--screenshot={picture}"]
    ran = subprocess.run(
        [chromium(), *options, *size, page.absolute().as_uri()],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    console = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    text = log.read_text(encoding="utf-8").rstrip()
    events = json.loads(text if text.endswith("}") else text.rstrip(",") + "]}")["events"]
    asked = {str(event["params"]["url"]) for event in events if "url" in event.get("params", {})}
    return Seen(picture, console, sorted(url for url in asked if not _is_own(url)))


def dom_of(page: Path, folder: Path) -> str:
    """Return a page as it is after its scripts have run."""
    options = [*_QUIET, _NO_NETWORK, f"--user-data-dir={folder / 'profile'}", "--dump-dom"]
    return subprocess.run(
        [chromium(), *options, page.absolute().as_uri()], capture_output=True, text=True, timeout=PATIENCE, check=True
    ).stdout


def _is_own(url: str) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme in {"file", "data", "chrome"} or any(host.endswith(own) for own in _OWN_HOSTS)
