"""Every part required in CI: with CONGENIAL_REQUIRE_ALL=1 a skipped test fails the run."""

import os

import pytest
from hypothesis import settings

settings.register_profile("fixed", derandomize=True)
if os.environ.get("CONGENIAL_REQUIRE_ALL") == "1":  # the same examples in every run of the whole check
    settings.load_profile("fixed")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker of a parallel run: the main process reports
        return
    skipped = reporter.stats.get("skipped", [])
    if os.environ.get("CONGENIAL_REQUIRE_ALL") == "1" and skipped and exitstatus == 0:
        reporter.write_line(f"{len(skipped)} tests were skipped, and every part is required here", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
