"""`congenial workbench` as a process: the link it prints opens it, Ctrl-C ends it, a port in use is refused."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner

from congenial.cli.main import main


@pytest.mark.parametrize("as_json", [False, True])
def test_the_link_opens_it_and_ctrl_c_ends_it(as_json: bool, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "congenial", "workbench", str(tmp_path), "--no-browser", *(["--json"] * as_json)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = [process.stdout.readline() for _ in range(4 if as_json else 3)]
            link = json.loads("".join(said))["link"] if as_json else said[1].strip()
            assert link.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(link, timeout=60) as answer:
                assert answer.status == 200
                assert b"<html" in answer.read()
        finally:
            process.send_signal(signal.SIGINT)
            rest, wrong = process.communicate(timeout=60)
    assert process.returncode == 0, wrong
    assert wrong == ""
    assert rest == ("" if as_json else "The workbench is closed.\n")


FAILS = """
from congenial.workbench import app_and_guard as app
from congenial.cli.main import main

def fail(*_):
    raise ValueError("Ermintrude 71828182")

app.list_folder = fail
main()
"""


def test_the_text_of_an_error_is_not_on_stderr(tmp_path: Path) -> None:
    """An exception nobody foresaw may quote data, and an address holds the secret: neither is logged."""
    line = [sys.executable, "-c", FAILS, "workbench", str(tmp_path), "--no-browser", "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            link = json.loads("".join(process.stdout.readline() for _ in range(4)))["link"]
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(link, timeout=60)
            page = refused.value.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
            _, wrong = process.communicate(timeout=60)
    assert process.returncode == 0
    assert refused.value.code == 500
    assert re.fullmatch(r"internal error: ValueError at congenial/workbench/app_and_guard\.py:\d+\n", wrong)
    assert "Please report this" in page
    assert "Ermintrude" not in page


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "python_multipart"])
def test_without_the_extra_it_says_what_to_install(package: str, tmp_path: Path) -> None:
    block = f"import sys; sys.modules[{package!r}] = None; from congenial.cli.main import main; main()"
    line = [sys.executable, "-c", block, "workbench", str(tmp_path), "--no-browser"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == f'Error: the workbench needs the package {package!r}: pip install "congenial[workbench]"\n'


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(main, ["workbench", str(tmp_path), "--no-browser", "--port", port])
    assert done.exit_code == 1
    assert done.stdout == ""
    assert f"port {port} cannot be used" in done.stderr
