"""The command line as documents show it: their shell blocks run in process, in a folder of their own."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from congenial.cli.main import main

JARGON = re.compile(r"\bwidths?\b|\bstates\b|\bk\b|\bD\b|GM|factor of two|\w\('|precision|sampler|zCDP|orders")
"""What a statistician without a course in differential privacy stumbles over, on the first screen."""


def congenial_lines(document: Path) -> list[list[str]]:
    """Return the arguments of every `congenial` command in the shell blocks of a document, in order."""
    text = document.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(?:console|sh)\n(.*?)^```", text, flags=re.M | re.S)
    lines = [line.removeprefix("$ ") for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("congenial ")]


def run_lines(document: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run every line in the folder; return what each printed, by the line. A refusal fails the test."""
    monkeypatch.chdir(folder)
    printed = {}
    for arguments in congenial_lines(document):
        result = CliRunner().invoke(main, arguments)
        line = shlex.join(arguments)
        assert result.exit_code == 0, f"congenial {line}\n{result.output}"
        printed[line] = result.stdout
    return printed
