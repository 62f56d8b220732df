"""Another user of the same computer: servers on other ports of the loopback address, and a look at running programs."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

pytest.importorskip("starlette", reason="needs the extra workbench")

from workbench.bench import PAGES, TOKEN, Served, folder_with, listening, opened_by, serve


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = serve(folder_with(tmp_path_factory.mktemp("bench"), "p12"))
    yield found
    found.stop()


def test_a_cookie_jar_that_knows_no_ports_brings_another_user_nothing(served: Served) -> None:
    """Cookies have no port: whatever a browser keeps for the workbench, it sends to every server of that address."""
    with listening() as other, httpx.Client(follow_redirects=True) as browser:
        assert browser.get(served.link).status_code == 200
        for page in PAGES:
            answer = browser.get(served.address + page)
            assert answer.status_code == 200
            assert not answer.headers.get_list("set-cookie")
        browser.get(f"{other.address}/read-this", headers={"accept": "text/html"})
        assert len(other.requests) == 1
        assert not browser.cookies
        assert "cookie" not in other.requests[0][1]
        assert TOKEN not in other.text
        assert opened_by(other, served) == []


def test_the_browser_is_started_without_the_secret(tmp_path: Path) -> None:
    """All users can see the arguments of a program; the file that leads to the link is the curator's alone."""
    seen = tmp_path / "seen"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\ntr "\\0" "\\n" < /proc/$$/cmdline > {seen}.part; mv {seen}.part {seen}\n')
    program.chmod(0o755)
    line = [sys.executable, "-m", "congenial", "workbench", str(tmp_path)]
    own = {**os.environ, "BROWSER": str(program)}
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own) as process:
        assert process.stdout is not None
        try:
            link = [process.stdout.readline() for _ in range(3)][1].strip()
            while not seen.exists():
                time.sleep(0.02)
            arguments = seen.read_text()
            address = next(line for line in arguments.splitlines() if line.startswith(("file:", "http:")))
            secret = link.rstrip("/").rpartition("/")[2].removeprefix("?token=")
            assert len(secret) == 64
            assert secret not in arguments
            page = Path(address.removeprefix("file://"))
            assert f'url={link}"' in page.read_text()
            assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
            assert httpx.get(link).status_code == 200
        finally:
            process.send_signal(signal.SIGINT)
            _, wrong = process.communicate(timeout=60)
    assert wrong == ""
    assert not page.exists()
