"""`congenial demo` as a person would run it."""

from click.testing import CliRunner

from congenial.cli import main


def test_demo_shows_both_tables_and_that_every_invariant_holds() -> None:
    result = CliRunner().invoke(main, ["demo", "--seed", "1"])
    assert result.exit_code == 0, result.output
    assert "Every invariant holds" in result.output
    totals = next(line for line in result.output.splitlines() if "all ages" in line)
    assert totals.split() == ["all", "ages", *["130", "126", "256"] * 2]
    voting = next(line for line in result.output.splitlines() if line.strip().startswith("voting age"))
    assert voting.count("213") == 2


def test_demo_repeats_only_with_a_seed() -> None:
    run = CliRunner().invoke
    first, again = (run(main, ["demo", "--seed", "5"]).output for _ in range(2))
    assert first == again


def test_demo_refuses_nonsense() -> None:
    result = CliRunner().invoke(main, ["demo", "--seed", "x"])
    assert result.exit_code == 2
    assert "'x' is not a valid integer" in result.output


def test_help_and_version() -> None:
    assert "demo" in CliRunner().invoke(main, ["--help"]).output
    assert "0.1.0" in CliRunner().invoke(main, ["--version"]).output
