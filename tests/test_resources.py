"""Memory and processors: what is set, what is there, and what is refused."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from congenial import memory_and_threads as resources
from congenial.cli.main import main
from congenial.errors import CongenialError


def test_a_setting_bounds_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resources.MEMORY, "1GB")
    assert resources.memory() == 10**9
    assert resources.memory_for_reading() == 10**9 // 3
    resources.set_memory("2.5 GB")
    assert resources.memory() == 2_500_000_000
    assert resources.explain_too_large(1_000, 46) == ""
    message = resources.explain_too_large(2_000_000, 46)
    assert message.startswith(
        "2,000,000 tables of 46 cells take about 3.1 GB of memory, and this process may take 2.5 GB;"
    )


def test_a_million_areas_fit_into_two_gigabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resources.MEMORY, "2GB")
    assert resources.explain_too_large(1_000_000, 46) == ""


@pytest.mark.parametrize("text", ["", "2", "GB", "100MB", "-3GB", "2 gigabytes", "1e9"])
def test_amounts_that_are_none(text: str) -> None:
    with pytest.raises(CongenialError, match=r"is no amount of memory of 0\.5 GB or more; write one such as 2GB"):
        resources.read_amount(text)


def test_without_a_setting_half_of_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(resources.MEMORY, raising=False)
    container = tmp_path / "memory.max"
    monkeypatch.setattr(resources, "_CONTAINER", container)
    whole = resources.memory()
    container.write_text("max\n")
    assert resources.memory() == whole
    container.write_text("1400000000\n")
    assert resources.memory() == min(whole, 700_000_000)


def test_threads_are_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(resources.THREADS, "7")
    assert resources.n_processors() == 7
    monkeypatch.setenv(resources.THREADS, "none")
    assert resources.n_processors() >= 1


def test_the_command_refuses_an_amount_that_is_none() -> None:
    done = CliRunner().invoke(main, ["release", "spec.yaml", "--memory", "plenty"])
    assert done.exit_code == 2
    assert "'plenty' is no amount of memory" in done.stderr
