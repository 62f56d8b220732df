"""Nothing confidential leaves but the draw: every byte of every file, stream and remainder is searched."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from congenial.bundle.signing import create_key
from congenial.cli.main import main
from congenial.plan import Plan
from releases import BUDGET, HEAD, NOW, Case, ledger_for, place, release

CANARIES = (71_828_182, 31_415_926, 57_721_566, 16_180_339, 14_142_135, 26_457_513)
NAME = "Ermintrude"
CELLS = [(sex, age) for sex in ("f", "m") for age in ("010", "020", "030")]
# The number of women is public; their counts are not. Noise is far too small to hide a canary's first digits, so the
# draw is replaced by zeros and the public totals: whatever digits are found come from somewhere else.
PUBLIC = (sum(CANARIES[:3]), sum(CANARIES[3:]))
CASE = Case(
    HEAD + BUDGET + "invariants: [{margin: [sex], mandate: law}]\n",
    "sex,age,n\n" + "".join(f"{sex},{age},{n}\n" for (sex, age), n in zip(CELLS, CANARIES, strict=True)),
)
Ints = NDArray[np.int64]


def digits(text: str) -> str:
    for mark in (",", "_", "\u2009", "\u00a0", "&#39;"):
        text = text.replace(mark, "")
    return text


def check_clean(content: bytes | str, where: str) -> None:
    """Search some bytes for a canary, as text, with separators, and as the integers that binary files hold."""
    raw = content.encode() if isinstance(content, str) else content
    text = digits(raw.decode("latin-1"))
    for canary in CANARIES:
        assert str(canary) not in text, f"{where} names a count"
        assert f"{canary:x}" not in text, f"{where} names a count in hexadecimal digits"
        for order in ("little", "big"):
            assert canary.to_bytes(4, order) not in raw, f"{where} holds a count"
    assert NAME not in text, f"{where} names a value"


def check_folder(folder: Path, confidential: tuple[str, ...] = ("data.csv", "CONFIDENTIAL-")) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and not path.name.startswith(confidential):
            check_clean(path.read_bytes(), str(path))
            check_clean(path.name, "a file name")


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    """Mutants of every kind of leak."""
    for leak in (
        str(CANARIES[0]), f"{CANARIES[0]:,}", f"{CANARIES[1]:_}", NAME, f"{CANARIES[2]:x}",
        CANARIES[3].to_bytes(8, "little"), np.array(CANARIES).tobytes(),
    ):  # fmt: skip
        with pytest.raises(AssertionError):
            check_clean(leak, "x")
    (tmp_path / ".hidden").write_text(str(CANARIES[0]), encoding="utf-8")
    with pytest.raises(AssertionError):
        check_folder(tmp_path)


def public_draw(plan: Plan, tables: Ints, rng: object, progress: object = None) -> tuple[Ints, ...]:
    """A draw that knows the public totals only."""
    return (np.tile([PUBLIC[0], 0, 0, 0, PUBLIC[1], 0], (len(plan.law.areas), 1)),)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files of this process go, so that what is left can be searched."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


def test_no_byte_of_a_release_is_confidential(tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundle, ledger with its journal, stdout, stderr and what is left of temporary files, of every command."""
    work = tmp_path / "work"
    spec = place(work, CASE)
    ledger_for(work, CASE)
    create_key(work / "key")
    monkeypatch.setattr(Plan, "draw", public_draw)
    monkeypatch.chdir(work)
    book, out = ["--ledger", "budget.db"], "out"
    commands: list[list[str]] = [
        ["init", "data.csv", "--out", "starter.yaml"],
        ["check", str(spec)],
        ["plan", str(spec)],
        ["release", str(spec), "--out", out, *book, "--yes", "--who", "Ada", "--sign", "key"],
        ["verify", out, *book, "--key", "key.pub"],
        ["show", out],
        ["ledger", "status", *book],
        ["ledger", "history", "town", *book],
        ["ledger", "verify", "--bundle", out, *book],
        ["ledger", "export", *book],
        # refused
        ["release", str(spec), "--out", out, *book, "--yes", "--who", "Ada"],
        ["release", str(spec), "--out", "second", *book, "--yes", "--who", "Ada"],
        ["simulate", str(spec), "--out", "third"],
        ["compare", str(spec), "--releases", "2"],
        ["plan", str(spec), "--reference", "data.csv"],
        ["show", "data.csv"],
        ["check", "data.csv"],
        ["ledger", "status", "--ledger", "data.csv"],
        ["verify", out, "--key", "data.csv"],
        ["release", str(spec), "--out", "fourth", *book, "--yes", "--who", "Ada", "--sign", "data.csv"],
    ]
    refused = 0
    for command in commands:
        for extra in ([], ["--json"]):
            if extra and command[0] == "release" and "--sign" in command and out in command:
                continue  # once
            done = CliRunner().invoke(main, [*command, *extra])
            assert done.exception is None or isinstance(done.exception, SystemExit), command
            check_clean(done.stdout, f"stdout of {command}")
            check_clean(done.stderr, f"stderr of {command}")
            refused += done.exit_code != 0
    assert refused >= 12
    assert (work / "out" / "report.html").is_file()
    assert (work / "CONFIDENTIAL-small.html").is_file()
    check_folder(work)
    check_folder(temporary)
    assert str(PUBLIC[0]) in digits((work / "out" / "manifest.json").read_text(encoding="utf-8"))


BROKEN = {
    "a level that is not declared": CASE.data.replace("f,010", f"{NAME},010"),
    "a negative count": CASE.data.replace(f",{CANARIES[0]}", f",-{CANARIES[0]}"),
    "a fraction": CASE.data.replace(f",{CANARIES[0]}", f",{CANARIES[0]}.5"),
    "a word": CASE.data.replace(f",{CANARIES[0]}", f",{NAME}"),
    "too large": CASE.data.replace(f",{CANARIES[0]}", f",{CANARIES[0]}0000000000000"),
    "a cell twice": CASE.data + f"f,010,{CANARIES[0]}\n",
    "a cell missing": CASE.data.replace(f"f,020,{CANARIES[1]}\n", ""),
    "a short row": CASE.data + f"f,{NAME}\n",
    "a quote": CASE.data + f'f,"{NAME},{CANARIES[1]}\n',
    "not UTF-8": CASE.data + f"{NAME}\udce9,010,1\n",
    "no header": CASE.data.split("\n", 1)[1],
    "another separator": CASE.data.replace(",", ";"),
}
CONDITIONS = {
    "a stated total": "invariants: [{total: all, equals: 3}]\n",
    "a zero": "conditions: [{zeros: {sex: f, age: '010'}}]\n",
    "a bound": "conditions: [{bounds: all, at_most: 1000}]\n",
    "a limit": "conditions: [{total: f, at_most: 1000}]\n",
    "a share": "invariants: [{share: f, of: all, equals: 1/3}]\n",
    "a budget of 0": "budget: {epsilon: 0}\n",
    "a budget too large": "budget: {epsilon: 1000}\n",
    "a wide system": "measure:\n  - {cells: all, portion: 1}\n"
    "  - {linear: [{times: 99991, of: f}, {times: 7, of: '010'}], portion: 1}\n",
}


@pytest.mark.parametrize("name", [*BROKEN, *CONDITIONS])
def test_no_refusal_of_a_command_names_a_value(name: str, tmp_path: Path, temporary: Path) -> None:
    spec = CASE.spec
    if "budget" in name:
        spec = spec.replace(BUDGET, CONDITIONS[name])
    elif name in CONDITIONS:
        spec = HEAD + BUDGET + CONDITIONS[name]
    work = tmp_path / "work"
    place(work, replace(CASE, spec=spec))
    if name in BROKEN:
        (work / "data.csv").write_bytes(BROKEN[name].encode(errors="surrogateescape"))
    ledger = ledger_for(work, CASE)
    for command in ("check", "plan", "release", "compare"):
        arguments = [command, str(work / "spec.yaml")]
        if command == "release":
            arguments += ["--out", str(work / "out"), "--ledger", str(work / "budget.db"), "--who", "Ada", "--yes"]
        done = CliRunner().invoke(main, arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        check_clean(done.stdout, f"stdout of {command}")
        check_clean(done.stderr, f"stderr of {command}")
        if command == "release":
            assert done.exit_code == 1
    assert ledger.verify().n_spends == 0
    check_folder(work)
    check_folder(temporary)


# -- With the draw and the clock held fixed, two confidential tables with the same invariants give the same bytes


def twin(counts: Mapping[tuple[str, str], int]) -> str:
    return "sex,age,n\n" + "".join(f"{sex},{age},{n}\n" for (sex, age), n in counts.items())


FIRST = dict(zip(CELLS, (3, 0, 2, 1, 2, 1), strict=True))
SECOND = dict(zip(CELLS, (0, 5, 0, 0, 0, 4), strict=True))  # as many women, as many men
MARGIN = HEAD + BUDGET + "invariants: [{margin: [sex], mandate: law}]\n"
OTHERS = {
    "one table": MARGIN,
    "ranges": MARGIN + "conditions: [{bounds: all, at_most: 9}]\n",
    "Gaussian": HEAD + "budget: {rho: 1/2}\nnoise: discrete_gaussian\n",
    "several queries": MARGIN + "measure: [{cells: all, portion: 2}, {margin: [age], portion: 1}]\n",
}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.mark.parametrize("name", OTHERS)
def test_bundles_depend_on_the_invariants_and_the_draw_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_key(tmp_path / "key")
    monkeypatch.setattr("congenial.release_key.secret_bytes", bytes)  # as if by chance
    drawn = np.array([[1, 2, 2, 0, 4, 0]])
    monkeypatch.setattr(Plan, "draw", lambda *_: (drawn,))
    bundles, ledgers = [], []
    for number, table in enumerate((FIRST, SECOND)):
        folder = tmp_path / str(number)
        cap = ("rho", "2") if name == "Gaussian" else ("epsilon", "4")
        case = Case(OTHERS[name], twin(table), cap)
        spec, ledger = place(folder, case), ledger_for(folder, case)
        release(spec, folder / "out", ledger=ledger, who="Ada", now=NOW, key=tmp_path / "key")
        bundles.append(contents(folder / "out"))
        ledgers.append(ledger.export())
    assert set(bundles[0]) == {
        "README.txt", "expected-errors.csv", "manifest.json", "report.html", "signature.json",
        "table.csv", "table.parquet",
    }  # fmt: skip
    assert bundles[0] == bundles[1]
    assert ledgers[0] == ledgers[1]


def test_another_invariant_is_another_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: were the tables not compared at the same invariants, the bytes would differ."""
    texts = []
    for number, table in enumerate((FIRST, {**FIRST, ("f", "010"): 4})):
        case = Case(OTHERS["one table"], twin(table))
        folder = tmp_path / str(number)
        drawn = np.array([[1 + number, 2, 2, 0, 4, 0]])
        monkeypatch.setattr(Plan, "draw", lambda *_, drawn=drawn: (drawn,))
        spec, ledger = place(folder, case), ledger_for(folder, case)
        published = release(spec, folder / "out", ledger=ledger, who="Ada", now=NOW)
        texts.append((published.folder / "manifest.json").read_bytes())
    assert texts[0] != texts[1]


@pytest.mark.parametrize("name", OTHERS)
def test_plans_depend_on_the_invariants_alone(name: str, tmp_path: Path) -> None:
    shown = []
    for number, table in enumerate((FIRST, SECOND)):
        spec = place(tmp_path / str(number), Case(OTHERS[name], twin(table)))
        texts = CliRunner().invoke(main, ["plan", str(spec)])
        values = CliRunner().invoke(main, ["plan", str(spec), "--json"])
        assert texts.exit_code == values.exit_code == 0, texts.stderr
        lines = texts.stdout.splitlines()
        parsed = json.loads(values.stdout)
        shown.append((lines, parsed))
    assert shown[0] == shown[1]


def test_checks_say_the_same_of_all_tables_that_fit(tmp_path: Path) -> None:
    outputs = []
    for number, table in enumerate((FIRST, SECOND)):
        spec = place(tmp_path / str(number), Case(OTHERS["one table"], twin(table)))
        outputs.append(CliRunner().invoke(main, ["check", str(spec)]).output)
    assert outputs[0] == outputs[1]


def test_the_curators_comparison_stays_out_of_the_bundle(tmp_path: Path) -> None:
    case = Case(OTHERS["one table"], twin(FIRST))
    spec, ledger = place(tmp_path, case), ledger_for(tmp_path, case)
    secret = tmp_path / "CONFIDENTIAL-small.html"
    release(spec, tmp_path / "out", ledger=ledger, who="Ada", confidential_report=secret)
    assert secret.stat().st_mode & 0o077 == 0
    assert "CONFIDENTIAL" in secret.read_text(encoding="utf-8")
    assert not any("CONFIDENTIAL" in path.name for path in (tmp_path / "out").iterdir())
    shutil.rmtree(tmp_path / "out")
