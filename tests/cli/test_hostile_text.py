"""2,000 hostile labels, areas, names, mandates and titles through every command: nothing is obeyed, nothing breaks.

Texts that show what they are go through and come out as they are. Texts with characters that do not show are refused
with their code points, in a spec and in a bundle; where a file or a ledger brings them along they are escaped.
"""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import congenial as cg
from commands import run_command
from congenial.bundle.file_registry import AREAS, PARQUET
from congenial.bundle.naming_and_versions import Naming
from congenial.bundle.table_files import formula_warnings
from congenial.cli.command_and_output import progress_bar, say, show_json, show_table
from congenial.cli.main import main
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.constraints import Constraints
from congenial.errors import BundleError, ConditionError, SchemaError
from congenial.ledger import open_ledger
from congenial.pages.page import inline_script, render
from congenial.safe_text import first_hidden
from forger import at, forge, nothing
from hostile import ATTACKS, HIDDEN, check_text, hidden_texts, hostile_texts
from releases import CASES, NOW, ledger_for, place, release
from table_files import csv_to_parquet

LEDGER = ["--ledger", "budget.db", "--json"]
FIRST, AREA = "[link=x]first", "<b>area"


def run(*line: str, code: int = 0) -> Result:
    """Run a command as on a terminal with colours; whatever it prints is text."""
    done = CliRunner(env={"FORCE_COLOR": "1"}).invoke(main, list(line))
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code == code, done.output
    check_text(done.stdout + done.stderr)
    return done


class HostileSpec:
    """A spec with hostile texts wherever it takes text, and its data."""

    def __init__(self, texts: Iterator[str], n_rows: int, n_areas: int, n_names: int) -> None:
        self.rows, self.areas = ([next(texts) for _ in range(number)] for number in (n_rows, n_areas))
        self.title = next(texts)
        self.names = [(next(texts), next(texts)) for _ in range(n_names)]
        self.group = next(texts)

    def write(self, folder: Path) -> None:
        named = [
            {"total": {FIRST: self.rows[2 * place : 2 * place + 2]}, "name": name, "mandate": mandate}
            for place, (name, mandate) in enumerate(self.names)
        ]
        spec: dict[str, Any] = {
            "release": "hostile",
            "dataset": "town",
            "title": self.title,
            "data": {"path": "data.csv", "kind": "counts", "count": "=n", "status": "simulated"},
            "dimensions": {FIRST: {"levels": self.rows, "groups": {self.group: self.rows[:3]}}},
            "invariants": [*named, "total"],
            "budget": {"epsilon": "1"},
        }
        if self.areas:
            spec["by"] = {"name": AREA, "levels": self.areas}
        (folder / "spec.yaml").write_text(json.dumps(spec), encoding="utf-8")
        with (folder / "data.csv").open("w", encoding="utf-8", newline="") as out:
            rows = csv.writer(out)
            rows.writerow([*([AREA] if self.areas else []), FIRST, "=n"])
            for head in [[area] for area in self.areas] or [[]]:
                rows.writerows([*head, row, place % 3] for place, row in enumerate(self.rows))


_TEXTS = iter(hostile_texts(2_000))
HOSTILE_SPECS = {"one table": HostileSpec(_TEXTS, 120, 0, 20), "areas": HostileSpec(_TEXTS, 3, 1_833, 0)}


def test_there_are_2000_texts() -> None:
    used = [
        text
        for hostile in HOSTILE_SPECS.values()
        for text in (
            *hostile.rows,
            *hostile.areas,
            hostile.title,
            hostile.group,
            *(part for pair in hostile.names for part in pair),
        )
    ]
    assert len(used) == len(set(used)) == 2_000
    assert set(ATTACKS) <= set(used)
    assert not any(map(first_hidden, used))
    for mutant in ("\x1b]8;;https://attack.example\x07", "\u202e", "Traceback (most recent call last)"):
        with pytest.raises(AssertionError):
            check_text(mutant)


@pytest.mark.parametrize("name", HOSTILE_SPECS)
def test_texts_that_show_come_out_as_they_are(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile = HOSTILE_SPECS[name]
    hostile.write(tmp_path)
    monkeypatch.chdir(tmp_path)
    book = LEDGER[:2]
    run("ledger", "create", "town", *book, "--epsilon", "9", "--who", r"\[/x]")
    assert "for a formula: import table.csv as text" in run("check", "spec.yaml").stdout
    planned = run("plan", "spec.yaml").stdout
    run("init", "data.csv", "--out", "starter.yaml")
    run("release", "spec.yaml", "--yes", "--out", "out", *book, "--who", "[link=https://attack.example]x")
    run("verify", "out", *book)
    shown = run("show", "out").stdout
    history = run("ledger", "history", "town", *book).stdout
    assert hostile.title in shown.splitlines()
    assert "[link=https://attack.example]x" in history
    if hostile.areas:
        query = hostile.areas[::12]  # all of them took a minute; what prints them is sent 2,000 texts below
        areas = [word for area in query for word in ("--area", area)]
        listed = run("infer", "out", "--query", "all", "--draws", "8", "--seed", "1", "--json", *areas).stdout
        assert [number["area"] for number in json.loads(listed)] == query
        run("infer", "out", "--query", f'all by "{FIRST}"', "--draws", "8", "--area", hostile.areas[7])
    else:
        assert all(name in " ".join(planned.split()) for name in (" ".join(pair[0].split()) for pair in hostile.names))
        assert all(f"  {name}: " in shown for name, _ in hostile.names)
        run("infer", "out", "--query", f'all by "{FIRST}"', "--draws", "8", "--plot", "plot.svg", "--level", "0.5")
        assert "<script" not in (tmp_path / "plot.svg").read_text(encoding="utf-8")
        run("compare", "spec.yaml", "--releases", "2", "--method", "raw")
    for line in (["status"], ["verify", "--bundle", "out"], ["export"]):
        run("ledger", *line, *book)
    run("simulate", "spec.yaml", "--out", "simulated")
    check_files(tmp_path / "out", hostile)


def check_files(folder: Path, hostile: HostileSpec) -> None:
    """The page has no script and no link but its own; the README is plain text; the CSV has the labels as they are."""
    page = (folder / "report.html").read_text(encoding="utf-8").replace(inline_script("find.js").text, "", 1)
    page = page.replace("<script></script>", "")
    for attack in ("<script", "<b>", 'onmouseover="', "--><"):
        assert attack not in page
    assert "href=" not in page.replace('href="#', "")
    readme = (folder / "README.txt").read_text(encoding="utf-8")
    check_text(readme)
    assert "import table.csv as text" in readme
    with (folder / "table.csv").open(encoding="utf-8", newline="") as lines:
        assert {line[-2] for line in csv.reader(lines)} == {*hostile.rows, FIRST}


def test_studies_go_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    HostileSpec(iter(hostile_texts(12)), 5, 2, 0).write(tmp_path)
    run("study", "coverage", "spec.yaml", "--releases", "1", "--draws", "8", "--csv", "[b].csv")
    run("compare", "spec.yaml", "--releases", "2", "--method", "raw", "--out", "[/x]")


# ---- characters that do not show: in a spec

COMMANDS = {
    "check": [],
    "plan": [],
    "release": [*LEDGER, "--who", "Ada", "--yes"],
    "simulate": [],
    "compare": [],
    "study coverage": [],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_spec_with_hidden_characters_is_refused_with_their_code_points(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = hidden_texts(400)
    hostile = HostileSpec(iter(texts), 330, 20, 20)
    hostile.write(tmp_path)
    text = (tmp_path / "spec.yaml").read_text(encoding="utf-8")
    raw = json.dumps(json.loads(text), ensure_ascii=False)  # as it is, where YAML takes it
    for content, least in ((text, 370), (raw, 1)):
        (tmp_path / "spec.yaml").write_text(content, encoding="utf-8")
        message = run(*command.split(), "spec.yaml", *COMMANDS[command], code=1).stderr
        assert message.count("which does not show; write plain text") + message.count("does not allow") >= least
    for hidden in HIDDEN:
        letter = next(letter for letter in hidden if first_hidden(letter))
        escape = f"\\U{ord(letter):08x}"  # as YAML writes it
        (tmp_path / "spec.yaml").write_text(f'title: "x{escape}"', encoding="utf-8")
        assert f"(U+{ord(letter):04X}, " in run(*command.split(), "spec.yaml", *COMMANDS[command], code=1).stderr


# ---- in Python

SCHEMA = cg.Schema({"sex": ["f", "m"]})
IN_PYTHON: dict[str, tuple[Callable[[str], object], type[Exception]]] = {
    "label": (lambda text: cg.Schema({"sex": ["f", text]}), SchemaError),
    "dimension": (lambda text: cg.Schema({text: ["f", "m"]}), SchemaError),
    "name": (lambda text: cg.total(name=text), ConditionError),
    "mandate": (lambda text: cg.bounds(0, 5, mandate=text), ConditionError),
    "area": (lambda text: Areas.disclosed(SCHEMA, [], {"a": [1, 2], text: [1, 2]}, name="county"), ConditionError),
    "what areas are": (lambda text: Areas.disclosed(SCHEMA, [], {"a": [1, 2]}, name=text), ConditionError),
    "title": (lambda text: Naming("r", "d", text), BundleError),
    "unit": (lambda text: Naming("r", "d", "t", text), BundleError),
}


@pytest.mark.parametrize("name", IN_PYTHON)
def test_python_refuses_them_too(name: str) -> None:
    make, kind = IN_PYTHON[name]
    for hidden in HIDDEN:
        with pytest.raises(kind, match=r"\(U\+[0-9A-F]{4,5}, .*\), which does not show") as caught:
            make(f"x{hidden}")
        check_text(str(caught.value))
    assert Constraints.of(SCHEMA, [cg.total(name="[/x]", equals=3)]).rank == 1


# ---- in a bundle that somebody else made

IN_A_MANIFEST: dict[str, Callable[[str], Callable[[dict[str, Any]], None]]] = {
    "title": lambda text: at("title", value=text),
    "release": lambda text: at("release", value=text),
    "version": lambda text: at("version", value=text),
    "format": lambda text: at("format", value=text),
    "noise": lambda text: at("law", "noise", value=text),
    "area": lambda text: at("law", "area", value=text),
    "sampler": lambda text: at("sampler", "name", value=text),
    "software": lambda text: at("software", text, value="1"),
    "file": lambda text: at("files", text, value="0" * 64),
    "reason": lambda text: at("privacy", "certificate", "reasons", value=[text]),
    "key": lambda text: at(text, value=1),
    "label": lambda text: lambda values: values["law"]["dimensions"][0]["labels"].__setitem__(0, text),
    "dimension": lambda text: lambda values: values["law"]["dimensions"][0].__setitem__("name", text),
    "row": lambda text: lambda values: values["law"]["rows"][0].__setitem__("text", text),
    "condition": lambda text: lambda values: values["conditions"][0].__setitem__("kind", text),
    "name": lambda text: lambda values: values["conditions"][0].__setitem__("name", text),
    "exactly": lambda text: lambda values: values["exactly"][0].__setitem__("text", text),
}
READERS = (["show"], ["verify"], ["infer", "--query", "all", "--draws", "8"], ["ledger", "verify", *LEDGER, "--bundle"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles of one table and of areas."""
    hostile = tmp_path_factory.mktemp("made")
    for name in ("one table", "areas with totals"):
        spec, ledger = place(hostile / name, CASES[name]), ledger_for(hostile / name, CASES[name])
        release(spec, hostile / name / "bundle", ledger=ledger, who="Ada", now=NOW)
    return hostile


def copied(source: Path, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


@pytest.mark.parametrize("place_of", IN_A_MANIFEST)
def test_a_hostile_bundle_is_read_as_text(
    place_of: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "one table")
    number = list(IN_A_MANIFEST).index(place_of)
    for text in (HIDDEN[number % len(HIDDEN)], HIDDEN[-number % len(HIDDEN)], "\x1b[2J", r"\[/x]", "[link=x]y"):
        copy = copied(Path("bundle"), tmp_path / "bundle")
        forge(copy, IN_A_MANIFEST[place_of](f"x{text}"))
        for command in READERS:
            done = CliRunner(env={"FORCE_COLOR": "1"}).invoke(main, [*command, str(copy)])
            assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
            check_text(done.stdout + done.stderr)
            if first_hidden(text):
                assert done.exit_code == 1, done.output
                assert done.stdout == ""


def test_an_area_of_a_hostile_bundle_is_text(folder: Path, tmp_path: Path) -> None:
    """Labels of areas stand in a Parquet file, which the manifest's own check does not see."""
    for label in ("\x1b[2J", "\u202e", r"\[/x]"):
        copy = copied(folder / "areas with totals" / "bundle", tmp_path / "bundle")
        table = (copy / "table.csv").read_text(encoding="utf-8").replace('"02"', f'"{label}"').encode()
        content = f'"area","group","value_1","exact_1"\n"01",0,9,9\n"{label}",0,9,9\n'.encode()
        types = {"area": "VARCHAR", "group": "INTEGER", "value_1": "BIGINT", "exact_1": "BIGINT"}
        columns = {"area": "VARCHAR", "sex": "VARCHAR", "age": "VARCHAR", "count": "BIGINT"}
        files = {"table.csv": table, AREAS: csv_to_parquet(content, types), PARQUET: csv_to_parquet(table, columns)}
        for name, hostile_text in files.items():
            (copy / name).write_bytes(hostile_text)
        expected = 0 if label == r"\[/x]" else 1
        forge(copy, nothing, pages=not expected)
        for command in READERS[:3]:
            done = run(*command, str(copy), code=expected)
            assert not expected or "does not show" in done.stderr


def test_a_manifest_of_many_brackets_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = copied(folder / "one table" / "bundle", tmp_path / "bundle")
    for depth in (50, 900, 5_000, 100_000):
        nested = "[" * depth + '"x"' + "]" * depth
        content = f'{{"format": "congenial bundle", "version": 2, "title": {nested}}}'
        (copy / "manifest.json").write_text(content, encoding="utf-8")
        run("show", str(copy), code=1)
    deep: Any = "x\x1b"
    for _ in range(700):
        deep = [deep]
    copied(folder / "one table" / "bundle", copy)
    run("show", str(forge(copy, at("title", value=deep))), code=1)


# ---- from elsewhere: names of files, headers, arguments, ledgers


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such file names")
def test_names_of_files_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for hidden in (*HIDDEN, r"\[/x]", "[link=x]y[/link]", "\udce9"):
        name = f"n{hidden}".replace("/", "_")
        for line in (
            ["init", name], ["check", name], ["plan", name], ["verify", name],
            ["release", name, "--yes", "--ledger", name],
            ["show", name], ["infer", name, "--query", "all"], ["ledger", "status", "--ledger", name],
            ["simulate", name], ["compare", name], ["study", "coverage", name],
        ):  # fmt: skip
            assert len(run(*line, code=1).stderr.splitlines()) == 1
        Path(name).write_text(f"a{hidden},n\n" if not hidden.startswith("\udce9") else "a,n\n", encoding="utf-8")
        run("init", name, "--out", f"{name}.yaml", code=int(hidden == "\udce9"))
        run("check", f"{name}.yaml", code=1)
        run("keygen", f"{name}.key")
        run("keygen", f"{name}.key", code=1)
        run("show", name, code=1)
        run("verify", ".", "--key", name, code=1)
        Path("spec.yaml").write_text("data: {path: '*', kind: counts, count: b}\nrelease: x\nbudget: {epsilon: 1}\n"
                                     "dimensions: {c: [d]}\n", encoding="utf-8")  # fmt: skip
        run("check", "spec.yaml", code=1)
        for path in tmp_path.iterdir():
            path.unlink()


def test_arguments_and_names_in_a_ledger_are_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    book = LEDGER[:2]
    run("ledger", "create", r"\[/x][link=y]", *book, "--epsilon", "1", "--who", "[bold]")
    assert r"\[/x][link=y]" in run("ledger", "status", *book).stdout
    for text in (*HIDDEN, r"\[/x]"):
        hostile_text = f"x{text}"
        if not text.isprintable():
            run("ledger", "create", hostile_text, *book, "--epsilon", "1", "--who", "Ada", code=1)
            run("ledger", "create", "y", *book, "--epsilon", "1", "--who", hostile_text, code=1)
        run("ledger", "history", hostile_text, *book, code=1)
        run("ledger", "create", "z", *book, "--epsilon", hostile_text, "--who", "Ada", code=1)
        run(hostile_text, code=2)
        run("show", f"--{hostile_text}", code=2)
        run("show", "a", hostile_text, code=2)
        run("infer", "a", "--query", "all", "--draws", hostile_text, code=2)
        run("ledger", "create", "z", *book, "--neighbours", hostile_text, code=2)


def test_queries_and_areas_that_are_asked_for_are_text(folder: Path) -> None:
    bundle = str(folder / "areas with totals" / "bundle")
    for number, text in enumerate((*HIDDEN, *ATTACKS)[::2]):
        query = (
            ["infer", "--query", f"sex={text}"],
            ["infer", "--query", "all", "--area", f"x{text}"],
            ["show", "--area", f"x{text}"],
        )
        run(*query[number % 3], bundle, code=1)


def test_what_is_printed_is_text_whatever_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 texts of either kind in lines, tables, JSON and a progress bar."""
    texts = [*hidden_texts(1_000), *hostile_texts(1_000)]
    monkeypatch.setenv("FORCE_COLOR", "1")
    say(*texts, bold=True)
    show_table(("a\x1b", "[/x]"), [(text, text) for text in texts[::20]], "\u202e[/x]")
    captured = capsys.readouterr()
    check_text(captured.out)
    assert all(attack in captured.out for attack in ATTACKS)
    show_json(texts)
    shown = capsys.readouterr().out
    check_text(shown)
    assert json.loads(shown) == texts
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress_bar("[/x]\x1b]8;;") as step:
        for text in texts[::10]:
            step(text)
    bar = capsys.readouterr().err
    assert "\x1b]" not in bar
    assert not any(letter in bar for letter in "\u202e\u2028\x9b\x07")


def test_a_terminal_that_lacks_a_letter_gets_its_escape(folder: Path, tmp_path: Path) -> None:
    copy = copied(folder / "one table" / "bundle", tmp_path / "bundle")
    forge(copy, at("title", value="漢字"))
    done = run_command("show", copy, PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == r"\u6f22\u5b57"
    done = run_command("infer", copy, "--query", "all", PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_hostile_ledger_is_read_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics reach a ledger from Python too, where only a null character is refused."""
    from ledgers import request

    monkeypatch.chdir(tmp_path)
    hostile = open_ledger("budget.db", create=True)
    hostile.create_dataset("county", epsilon="9", neighbours="bounded", who="Ada")
    hostile.charge(request(invariants=tuple((text, "[/x]\x1b") for text in (*HIDDEN, *ATTACKS))))
    for line in (["history", "county"], ["export"], ["verify"], ["status"]):
        run("ledger", *line, *LEDGER[:2])
        run("ledger", *line, *LEDGER)


def test_pages_escape_what_does_not_show() -> None:
    page = render("base.html", title="".join(HIDDEN) + "<script>")
    assert "&lt;script&gt;" in page
    assert not any(letter in page for hidden in HIDDEN for letter in hidden if first_hidden(letter) and letter != "\n")


def test_labels_that_a_spreadsheet_would_compute_are_warned_about() -> None:
    for label in ("=1", "+a", "-5 to 0", "@x", "\uff1d1"):
        (warning,) = formula_warnings(cg.Schema({"d": ["a", label]}), ())
        assert repr(label) in warning
        assert formula_warnings(cg.Schema({label: ["a"]}), ())
        assert formula_warnings(SCHEMA, ("area", label))
    for label in ("-5", "+1.5", "-10%", "5-9", "a=b", "<=5"):
        assert formula_warnings(cg.Schema({"d": ["a", label]}), ()) == []
