"""The audit of pinned packages: what it reads, what it asks, and that silence never looks like success."""

import json
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "audit.py"
AUDIT = runpy.run_path(str(SCRIPT))
LOCK = """\
alpha==1.0 \\
    --hash=sha256:00 \\
    # via congenial
beta[binary]==2.1.0 ; python_full_version < '3.12' \\
    --hash=sha256:11
beta==2.2 ; python_full_version >= '3.12' \\
    --hash=sha256:22
"""
PINS = [("alpha", "1.0"), ("beta", "2.1.0"), ("beta", "2.2")]


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "requirements.lock"
    path.write_text(LOCK)
    return path


def answering(*answers: object) -> tuple[Callable[[bytes], bytes], list[Any]]:
    """A database that gives these answers in turn, and what it was asked."""
    asked: list[Any] = []
    left = list(answers)

    def fetch(question: bytes) -> bytes:
        asked.append(json.loads(question))
        return json.dumps(left.pop(0)).encode()

    return fetch, asked


def test_every_pin_of_the_lock_file_is_found() -> None:
    assert AUDIT["pins_of"](LOCK) == PINS
    text = (ROOT / "requirements-dev.lock").read_text()
    pins = AUDIT["pins_of"](text)
    assert len(pins) == len([line for line in text.splitlines() if not line.startswith(" ")]) > 80
    assert {"numpy", "cryptography", "ruamel-yaml"} <= {name for name, _ in pins}


def test_nothing_known(lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch, asked = answering({"results": [{}, {"vulns": []}, {}]})
    assert AUDIT["audit"](lock, fetch) == 0
    assert capsys.readouterr().out == "3 pinned packages were checked; none has a known vulnerability.\n"
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in PINS]
    assert asked == [{"queries": queries}]


def test_findings_have_exit_code_1(lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fetch, _ = answering({"results": [{}, {"vulns": [{"id": "PYSEC-2"}, {"id": "GHSA-1", "modified": "x"}]}, {}]})
    assert AUDIT["audit"](lock, fetch) == 1
    said = capsys.readouterr().out
    assert said.startswith("beta 2.1.0: GHSA-1, PYSEC-2\n")
    assert "1 of 3 pinned packages" in said


def test_pages_are_read_to_the_end(lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Defect: a first page that holds no vulnerability, only the token of the next."""
    fetch, asked = answering(
        {"results": [{}, {"next_page_token": "more"}, {}]}, {"results": [{"vulns": [{"id": "A"}]}]}
    )
    assert AUDIT["audit"](lock, fetch) == 1
    assert "beta 2.1.0: A" in capsys.readouterr().out
    assert asked[1]["queries"][0]["page_token"] == "more"
    endless, _ = answering(*[{"results": [{"next_page_token": "more"}] * 3}] * 200)
    assert AUDIT["audit"](lock, endless) == 3


@pytest.mark.parametrize(
    "answer",
    [None, [], {}, {"results": []}, {"results": [{}, {}]}, {"results": [{}, {}, None]}, {"results": [{}, {}, []]},
     {"results": [{}, {}, {"vulns": [{}]}]}, {"results": [{}, {}, {"vulns": 1}]}, {"code": 3, "message": "no"}],
)  # fmt: skip
def test_an_answer_that_cannot_be_read_is_no_success(
    lock: Path, answer: object, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch, _ = answering(answer)
    assert AUDIT["audit"](lock, fetch) == 3
    assert capsys.readouterr().err.startswith("NOT checked: the database gave an answer that cannot be read")


@pytest.mark.parametrize("text", ["", "# nothing\n", "alpha>=1.0\n", "alpha==1\n-e .\n", "https://host/alpha.whl\n"])
def test_a_lock_file_without_pins_is_no_success(lock: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    lock.write_text(text)
    fetch, asked = answering()
    assert AUDIT["audit"](lock, fetch) == 3
    assert asked == []
    assert AUDIT["audit"](lock.with_name("missing"), fetch) == 3
    assert capsys.readouterr().err.count("NOT checked: ") == 2


@pytest.fixture
def database() -> Iterator[tuple[str, list[int]]]:
    """A database on this machine, and the status that it answers with."""
    status = [200]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps({"results": [{"vulns": [{"id": "A"}]} for _ in asked["queries"]]}).encode()
            self.send_response(status[0])
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", status
        server.shutdown()
        thread.join()


def test_over_the_wire(lock: Path, database: tuple[str, list[int]], capsys: pytest.CaptureFixture[str]) -> None:
    url, status = database
    assert AUDIT["audit"](lock, AUDIT["fetch_from"](url)) == 1
    assert "3 of 3 pinned packages" in capsys.readouterr().out
    status[0] = 503
    assert AUDIT["audit"](lock, AUDIT["fetch_from"](url)) == 3
    assert "could not be reached: HTTP Error 503" in capsys.readouterr().err


def test_a_database_that_cannot_be_reached_is_said_plainly(lock: Path) -> None:
    """The program itself, in an environment whose proxy leads nowhere."""
    environment = {"https_proxy": "http://127.0.0.1:9", "PATH": ""}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(lock)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 3
    assert done.stderr.startswith("NOT checked: https://api.osv.dev/v1/querybatch could not be reached: ")
    assert "none has a known vulnerability" not in done.stdout


def test_the_whole_check_does_not_depend_on_the_audit() -> None:
    assert "audit" not in (ROOT / ".ci" / "run").read_text()
    assert "audit.py requirements.lock" in (ROOT / "Makefile").read_text()
