"""What every command keeps to: the result on stdout, errors on stderr, JSON that parses, exit codes, no colours."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import congenial as cg
from commands import run_command, run_python
from congenial.cli import command_and_output as output
from congenial.cli.main import COMMANDS as REGISTRY
from congenial.cli.main import command_line, main, reference
from congenial.errors import ReadingError
from congenial.ledger import open_ledger
from releases import CASES, NOW, ledger_for, place, release

ROOT = Path(__file__).parents[2]


def every_command(
    group: click.Group = main, head: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from every_command(command, (*head, name))
        else:
            yield (*head, name), command


COMMANDS = {" ".join(words): command for words, command in every_command()}


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spec of simulated data, a ledger, a key and a bundle. Tests write to new names only."""
    folder = tmp_path_factory.mktemp("town")
    case = CASES["areas with totals"]
    spec = place(folder, case)
    spec.write_text(case.spec.replace("count: n", "count: n, status: simulated"), encoding="utf-8")
    ledger = ledger_for(folder, case)
    assert CliRunner().invoke(main, ["keygen", str(folder / "key")]).exit_code == 0
    release(spec, folder / "bundle", ledger=ledger, who="Ada", now=NOW, key=folder / "key")
    _release_tree(folder)
    measured = case.spec.replace("release: small", "release: measured") + "method: measured\n"
    (folder / "measured.yaml").write_text(measured, encoding="utf-8")
    release(folder / "measured.yaml", folder / "measured", ledger=ledger, who="Ada", now=NOW)
    return folder


def _release_tree(folder: Path) -> None:
    """Release a tree of two levels beside the town, as draws, which estimates are made of."""
    tree = cg.Tree.of_prefixes([f"{county}{town}" for county in "ab" for town in "xyz"], {"county": 1}, "town")
    ledger = open_ledger(folder / "tree.db", create=True)
    ledger.create_dataset("tree", rho="4", neighbours="bounded", who="Ada")
    hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), rho="4", method="conditional")
    people = [[90, 80]] * 6
    hierarchy.release(people, ledger=ledger, dataset="tree", release="t", who="Ada", folder=folder / "tree")


LEDGER = ["--ledger", "budget.db"]
# A line that works for every command, in a copy of the town.
LINES: dict[str, list[str]] = {
    "init": ["data.csv", "--out", "starter.yaml"],
    "check": ["spec.yaml"],
    "plan": ["spec.yaml"],
    "release": ["again.yaml", "--out", "again", *LEDGER, "--who", "Ada", "--sign", "key", "--yes"],
    "withdraw": ["town", "small", *LEDGER, "--reason", "a column was misread", "--who", "Ada", "--yes"],
    "verify": ["bundle", *LEDGER, "--key", "key.pub"],
    "decide": ["measured", "--out", "edition"],
    "show": ["bundle", "--area", "02"],
    "infer": ["bundle", "--area", "02", "--query", "all", "--draws", "200", "--seed", "1"],
    "estimate": ["tree", "--out", "estimates", "--draws", "400", "--seed", "1"],
    "ledger create": ["other", *LEDGER, "--epsilon", "1/2"],
    "ledger upgrade": LEDGER,
    "ledger status": LEDGER,
    "ledger history": ["town", *LEDGER],
    "ledger verify": [*LEDGER, "--bundle", "bundle"],
    "ledger export": LEDGER,
    "keygen": ["other-key"],
    "simulate": ["spec.yaml", "--out", "simulated"],
    "compare": ["spec.yaml", "--releases", "3", "--seed", "1", "--method", "raw"],
    "study coverage": ["spec.yaml", "--releases", "1", "--draws", "40", "--seed", "1"],
    "study errors": ["measured", "--releases", "2", "--seed", "1"],
    "reproduce": [],
    "demo": ["--out", "demo"],
    "workbench": ["--no-browser"],
}
# Run by tests/study/test_paper.py, for it takes a minute, and by tests/workbench/test_command.py, for it does not end.
ELSEWHERE = {"reproduce", "workbench"}


@pytest.fixture
def here(town: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(shutil.copytree(town, tmp_path / "town"))
    text = (folder / "spec.yaml").read_text(encoding="utf-8").replace("release: small", "release: again")
    (folder / "again.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(folder)
    return folder


def test_every_command_has_a_line_here() -> None:
    assert set(LINES) == set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json_and_describes_its_options(name: str) -> None:
    command = COMMANDS[name]
    options = [option for option in command.params if isinstance(option, click.Option)]
    assert "--json" in {text for option in options for text in option.opts}
    assert all(option.help for option in options)
    assert command.help
    done = CliRunner().invoke(main, [*name.split(), "--help"])
    assert done.exit_code == 0
    assert done.stderr == ""


@pytest.mark.parametrize("name", sorted(set(LINES) - ELSEWHERE))
def test_results_go_to_stdout_in_words_and_as_json(name: str, here: Path, town: Path) -> None:
    for extra in ([], ["--json"]):
        if name == "withdraw":  # once for each release
            shutil.copyfile(town / "budget.db", here / "budget.db")
        line = [word if not (extra and word in NEW) else f"{word}-2" for word in LINES[name]]
        if extra and name == "release":
            line[0] = "third.yaml"
            text = (here / "spec.yaml").read_text(encoding="utf-8").replace("release: small", "release: third")
            (here / "third.yaml").write_text(text, encoding="utf-8")
        done = CliRunner().invoke(main, [*name.split(), *line, *extra])
        assert done.exit_code == 0, done.output
        assert [line for line in done.stderr.splitlines() if not STEP.match(line)] == []
        assert done.stdout.strip()
        assert "\x1b" not in done.stdout
        if extra:
            json.loads(done.stdout)


# One line a step, where there is no terminal.
STEP = re.compile(r"(planning|releasing|simulating|comparing|coverage|estimating|inferring|deciding|demo)[^:]*: \S")

NEW = {"starter.yaml", "again", "edition", "estimates", "other", "other-key", "simulated", "demo"}

REFUSED: dict[str, list[str]] = {
    "init": ["nothing.csv"],
    "check": ["nothing.yaml"],
    "plan": ["data.csv"],
    "release": ["again.yaml", *LEDGER, "--out", "bundle", "--yes"],
    "withdraw": ["town", "smal", *LEDGER, "--reason", "a column was misread", "--yes"],
    "verify": ["data.csv"],
    "decide": ["bundle", "--out", "edition"],
    "show": ["bundle", "--area", "03"],
    "infer": ["bundle", "--query", "nothing=here"],
    "estimate": ["bundle", "--out", "estimates"],
    "ledger create": ["town", *LEDGER, "--epsilon", "1"],
    "ledger upgrade": ["--ledger", "nothing.db"],
    "ledger status": ["twon", *LEDGER],
    "ledger history": ["town", "--ledger", "nothing.db"],
    "ledger verify": ["--ledger", "data.csv"],
    "ledger export": [*LEDGER, "--out", "data.csv"],
    "keygen": ["key"],
    "simulate": ["spec.yaml", "--out", "bundle"],
    "compare": ["spec.yaml", "--method", "magic"],
    "study coverage": ["spec.yaml", "--releases", "0"],
    "study errors": ["bundle"],
    "reproduce": ["--out", "data.csv"],
    "demo": ["--out", "bundle"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_go_to_stderr_with_code_1(name: str, here: Path) -> None:
    for extra in ([], ["--json"]):
        done = CliRunner().invoke(main, [*name.split(), *REFUSED[name], *extra])
        assert done.exit_code == 1, done.output
        assert done.stdout == ""
        lines = [line for line in done.stderr.splitlines() if not STEP.match(line)]
        assert lines[0].startswith("Error: ")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_wrong_lines_have_code_2(name: str) -> None:
    done = CliRunner().invoke(main, [*name.split(), "--no-such-option"])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "Usage: " in done.stderr


def test_a_wrong_command_has_code_2() -> None:
    assert CliRunner().invoke(main, ["relaese"]).exit_code == 2
    assert CliRunner().invoke(main, ["ledger", "relaese"]).exit_code == 2


def test_no_colours_where_nobody_sees_them(here: Path) -> None:
    """A real process with pipes, on a machine whose terminal would have colours."""
    environment = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    for name in ("plan", "show"):
        done = run_command(*name.split(), *LINES[name], cwd=here, **environment)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        assert all(STEP.match(line) for line in done.stderr.splitlines())


def test_the_ledger_may_be_named_by_the_environment(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONGENIAL_LEDGER", "budget.db")
    assert CliRunner().invoke(main, ["ledger", "status"]).exit_code == 0
    monkeypatch.delenv("CONGENIAL_LEDGER")
    without = CliRunner().invoke(main, ["ledger", "status"])
    assert without.exit_code == 1
    assert "CONGENIAL_LEDGER" in without.stderr


@pytest.mark.filterwarnings("default")
def test_warnings_go_to_stderr_as_sentences(here: Path) -> None:
    (here / "budget.db").chmod(0o644)
    done = CliRunner().invoke(main, ["ledger", "status", *LEDGER, "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)
    (line,) = done.stderr.splitlines()
    assert line.startswith("Warning: the ledger '")
    assert "chmod 600" in line


def test_a_password_in_an_address_is_never_printed(here: Path) -> None:
    address = "postgresql://ada:Ermintrude@127.0.0.1:1/none?connect_timeout=1"
    for line in (["ledger", "status"], ["release", "again.yaml", "--who", "Ada", "--yes"], ["verify", "bundle"]):
        done = CliRunner().invoke(main, [*line, "--ledger", address])
        assert done.exit_code == 1, done.output
        assert "Ermintrude" not in done.output + done.stderr


def test_release_names_its_folder_after_the_release(here: Path) -> None:
    done = CliRunner().invoke(main, ["release", "again.yaml", *LEDGER, "--who", "Ada", "--yes", "--json"])
    values = json.loads(done.stdout)
    assert values["bundle"] == "again"
    assert values["receipt"]["release"] == "again"
    assert Path(values["confidential_report"]).name == "CONFIDENTIAL-again.html"
    assert open_ledger("budget.db").verify().n_spends == 3
    verified = CliRunner().invoke(main, ["verify", "again", *LEDGER])
    assert "the ledger holds the spend that paid for it" in verified.stdout
    assert "it is not signed" in verified.stdout


def test_a_ledger_that_was_cut_short_is_seen_from_the_bundle(here: Path, town: Path) -> None:
    assert CliRunner().invoke(main, ["release", "again.yaml", *LEDGER, "--who", "Ada", "--yes"]).exit_code == 0
    shutil.copyfile(town / "budget.db", "budget.db")  # as it was before
    for line in (["verify", "again", *LEDGER], ["ledger", "verify", "--bundle", "again", *LEDGER]):
        done = CliRunner().invoke(main, line)
        assert done.exit_code == 1
        assert done.stdout == ""


def test_shells_complete_commands() -> None:
    script = run_command(_CONGENIAL_COMPLETE="bash_source")
    assert script.returncode == 0
    assert "_CONGENIAL_COMPLETE=bash_complete" in script.stdout
    found = run_command(_CONGENIAL_COMPLETE="bash_complete", COMP_WORDS="congenial re", COMP_CWORD="1")
    assert found.stdout.split() == ["plain,release", "plain,reproduce"]
    found = run_command(_CONGENIAL_COMPLETE="bash_complete", COMP_WORDS="congenial ledger create --n", COMP_CWORD="3")
    assert found.stdout.split() == ["plain,--neighbours"]


def test_the_page_of_commands_is_current() -> None:
    assert (ROOT / "docs" / "commands.md").read_text(encoding="utf-8") == reference(), "run: make commands"


@output.command
@output.seed_option
@click.argument("column")
def count_rows(column: str, seed: int | None, as_json: bool) -> None:
    """Count rows, by the recipe of CONTRIBUTING.md."""
    if column == "nothing":
        raise ReadingError("there is no column 'nothing'")
    output.show_json({"rows": seed}) if as_json else output.say(f"{seed} rows")


def test_a_new_command_is_one_object() -> None:
    """A toy: listed once, it has its place in the help and on the page, takes --json, and refuses in words."""
    group = command_line((*REGISTRY, count_rows))
    page = reference(group)
    assert "\n## congenial count-rows\n\n```\nUsage: congenial count-rows [OPTIONS] COLUMN\n" in page
    run = CliRunner().invoke
    assert run(group, ["count-rows", "sex", "--seed", "3"]).stdout == "3 rows\n"
    assert json.loads(run(group, ["count-rows", "sex", "--seed", "3", "--json"]).stdout) == {"rows": 3}
    refused = run(group, ["count-rows", "nothing"])
    assert (refused.exit_code, refused.stderr) == (1, "Error: there is no column 'nothing'\n")
    assert run(group, ["count-rows"]).exit_code == 2
    assert "count-rows" not in main.commands


HEAVY = {
    "cryptography", "duckdb", "flint", "jinja2", "matplotlib", "narwhals", "numba", "numpy", "pandas",
    "polars", "pyarrow", "pydantic", "rich", "ruamel", "scipy",
}  # fmt: skip


def loaded_by(*arguments: str) -> set[str]:
    code = (
        "import sys\nfrom congenial.cli.main import main\n"
        "try:\n    main(sys.argv[1:], prog_name='congenial')\n"
        "finally:\n    print('\\n@', *sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = run_python(code, *arguments)
    return set(done.stdout.rsplit("@", 1)[1].split())


@pytest.mark.parametrize("line", [["--help"], ["--version"], ["release", "--help"], ["ledger", "create", "--help"]])
def test_help_loads_nothing_heavy(line: list[str]) -> None:
    assert not loaded_by(*line) & HEAVY


def test_commands_load_what_they_use(town: Path) -> None:
    """No compiler for `check`, `plan` and `verify`; no database without a ledger; matplotlib and pandas for none."""
    assert not loaded_by("check", str(town / "spec.yaml")) & {"numba", "matplotlib"}
    ledger = ["--ledger", os.fspath(town / "budget.db")]
    assert "sqlite3" not in loaded_by("verify", str(town / "bundle"))
    verify = loaded_by("verify", str(town / "bundle"), *ledger)
    assert "sqlite3" in verify
    assert not verify & {"numba", "matplotlib", "pandas"}
    assert not loaded_by("plan", str(town / "spec.yaml")) & {"numba", "scipy", "matplotlib"}
    status = loaded_by("ledger", "status", *ledger)
    assert not status & {"numba", "matplotlib", "duckdb", "pydantic", "scipy"}


def test_a_release_does_not_load_what_makes_the_tables_of_a_ledger(here: Path) -> None:
    loaded = loaded_by("release", *LINES["release"])
    assert (here / "again").is_dir()
    assert "sqlite3" in loaded
    assert not loaded & {"matplotlib", "pandas"}
