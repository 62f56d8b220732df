"""Slow tests are tests that exist, and `make test-slow` and CI run them: no test is left out by both selections."""

import ast
import re
from pathlib import Path

import pytest

from slow import COLLECTED, QUICK, SLOW, is_slow

ROOT = Path(__file__).parents[1]


def names(file: Path) -> set[str]:
    """Return the tests of a file, and its classes: a test may be inherited."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize("test", sorted({test.partition("[")[0] for test in SLOW | QUICK}))
def test_a_slow_test_exists(test: str) -> None:
    file, name, *_ = test.split("::")
    assert name in names(ROOT / file)


def test_parameters_that_are_listed_exist(request: pytest.FixtureRequest) -> None:
    """Of the tests that were collected with this one; those in QUICK are exceptions from SLOW."""
    tests = request.config.stash[COLLECTED]
    collected = set(tests)
    functions = {test.partition("[")[0] for test in collected}
    if not any("::" in chosen for chosen in request.config.args):  # else a file may have been collected in part
        assert {test for test in SLOW | QUICK if test.partition("[")[0] in functions and "[" in test} <= collected
    assert all(test.partition("[")[0] in SLOW for test in QUICK)
    assert not any(is_slow(test) for test in QUICK)


def test_every_test_is_run_by_one_of_two_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    chosen = dict(re.findall(r'^(test|test-slow): .*\n\t.* -m (".*"|\w+)$', makefile, flags=re.M))
    assert chosen == {"test": '"not slow"', "test-slow": "slow"}
    assert "CONGENIAL_REQUIRE_ALL=1 make test test-slow\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
