"""250 specs and data files, sound, odd, damaged, through the commands with a real ledger; `make fuzz`: 4,000.

Whatever is written in them: a result or a refusal in words, never a traceback, and never a charge on refusal.
"""

import os
import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from congenial.cli.main import main
from congenial.inference.analyst_bundle import load_bundle
from congenial.ledger import Ledger, open_ledger
from releases import COUNTS, FEW, HOLES, MICRODATA, TWO_AREAS

N_CHUNKS, CHUNK = int(os.environ.get("CONGENIAL_FUZZ", "2")), 125

# Each section of a spec in several ways: ordinary ones first, then what can be asked for and should not be.
SECTIONS: list[list[str]] = [
    [
        "data: {path: data.csv, kind: counts, count: n}\n",
        "data: {path: data.csv, kind: counts, count: n, missing_cells: zero}\n",
        "data: {path: data.csv, kind: microdata}\nunit: {one_row_per: person}\n",
        "data: {path: data.csv, kind: microdata}\nunit: {id: person, at_most: 3}\n",
        "data: {path: 'd*.csv', kind: counts, count: n, separator: semicolon}\n",
        "data: {path: spec.yaml, kind: counts, count: n}\n",
        "data: {path: [data.csv, data.csv], kind: counts, count: n}\n",
    ],
    [
        "dimensions: {sex: [f, m], age: ['010', '020', '030']}\n",
        "dimensions: {sex: [f, m], age: {levels: ['010', '020', '030'], groups: {old: {from: '020'}}}}\n",
        "dimensions: {sex: {levels: {f: women, m: men}}, age: ['010', '020', '030']}\n",
        "dimensions: {sex: [f, m], age: {cut: [0, 15, 25], below: true}}\n",
        "dimensions: {sex: [f, m]}\n",
        "dimensions: {n: {cut: [0, 1, 2]}}\n",
        "dimensions: {sex: [m], age: ['010']}\n",
    ],
    [
        "", "", "",
        "by: {name: area, levels: ['01', '02']}\n",
        "by: {name: area, levels: {'01': North, '02': South}}\n",
        "by: {name: sex, levels: [f, m]}\n",
    ],
    [
        "invariants: [total]\n",
        "invariants: [{margin: [sex]}]\n",
        "",
        "invariants: [{margin: [sex, age]}]\n",
        "invariants: [total of f by age, {total: m, mandate: law}]\n",
        "invariants: [{share: f, of: all}]\n",
        "invariants: [{linear: [{times: 2, of: f}, {times: -3, of: '010'}], name: points}]\n",
        "invariants: [{total: all, equals: 9}]\n",
        "invariants: [{linear: [{times: 999999999999, of: f}, {times: 7, of: m}]}]\n",
        "invariants: [total, total, {total: f, equals: 5}, {margin: [age]}]\n",
    ],
    [
        "", "", "",
        "conditions: [{zeros: {sex: f, age: '020'}}]\n",
        "conditions: [{bounds: all, at_least: none, at_most: 20}]\n",
        "conditions: [{bounds: all, at_least: -5, at_most: 1000000000}]\n",
        "conditions: [{total: f, at_least: 3, at_most: 3}]\n",
        "conditions: [{linear: [{times: 5, of: f}, {times: -1, of: m}], at_most: 40}]\n",
        "conditions: [{bounds: all, at_least: 7, at_most: 2}]\n",
    ],
    [
        "", "", "",
        "measure: [{cells: all, portion: 1}, {margin: [sex], portion: 1/3}]\n",
        "measure: [{cells: all}, {total: all, precision: 1/100}]\n",
        "measure: [{total: all}]\n",
        "measure: [{linear: [{times: 3, of: f}, {times: 1, of: m}], portion: 1}, {cells: all, portion: 1}]\n",
        "measure: [{cells: all, precision: 1/2}]\n",
        "measure: [{cells: all, precision: 0}]\n",
    ],
    [
        "budget: {epsilon: 1}\n",
        "budget: {epsilon: 1/3}\n",
        "budget: {rho: 1/8}\n",
        "budget: {epsilon: 1, delta: 1e-9}\n",
        "",
        "budget: {epsilon: 0}\n",
        "budget: {epsilon: 1e-11}\n",
        "budget: {epsilon: 500}\n",
        "budget: {rho: 1e-20}\n",
    ],
    ["", "", "noise: discrete_gaussian\n"],
    ["", "", "neighbours: unbounded\n"],
    ["outputs: [csv]\n"],
]  # fmt: skip
PROGRESS = ("releasing ", "planning ", "checking ")  # a line a step, before what comes of it

TABLES = [
    COUNTS, COUNTS, FEW, HOLES, TWO_AREAS, MICRODATA,
    COUNTS.replace(",2\n", ",9007199254740992\n"), COUNTS.replace(",", ";"), "sex,age,n\n" + "f,010,0\n", "",
]  # fmt: skip
PIECES = [
    "- ", ": ", "[", "]", "{", "}", "\t", "'", '"', "\n", "#", "0", "-1", "1e999", "9" * 25, "none", "all", "null", "é",
    "\x00", "\u2028", "1/0", "nan", "\\", "equals: 4", "at_most: 2", "f", "m", "'010'", ",", ";", ".5", " ", "x" * 300,
]  # fmt: skip


def damaged(text: str, dice: random.Random) -> bytes:
    """Put pieces into a text, or leave some of it out, at one to three places; sometimes bytes that are no text."""
    for _ in range(dice.randint(1, 3)):
        start = dice.randint(0, len(text))
        end = min(len(text), start + dice.choice((0, 0, 1, 3, 20)))
        text = text[:start] + dice.choice([*PIECES, ""]) + text[end:]
    content = text.encode()
    if dice.random() < 0.05:
        place = dice.randint(0, len(content))
        content = content[:place] + bytes(dice.randrange(256) for _ in range(3)) + content[place:]
    return content


def usually_first(choices: list[str], dice: random.Random) -> str:
    return choices[0] if dice.random() < 0.68 else dice.choice(choices)


def invented(number: int, dice: random.Random) -> tuple[bytes, bytes]:
    """Return a spec and its data."""
    spec = f"release: r{number}\ndataset: {dice.choice(['town'] * 8 + ['city', 'none'])}\n"
    spec += "".join(usually_first(choices, dice) for choices in SECTIONS)
    table = usually_first(TABLES, dice)
    return (
        damaged(spec, dice) if dice.random() < 0.35 else spec.encode(),
        damaged(table, dice) if dice.random() < 0.2 else table.encode(),
    )


def is_in_words(done: Result) -> bool:
    return done.exception is None or (isinstance(done.exception, SystemExit) and done.exit_code in {0, 1})


def n_spends(ledger: Ledger) -> int:
    return sum(len(ledger.history(dataset.name)) for dataset in ledger.datasets())


@pytest.mark.parametrize("chunk", range(N_CHUNKS))
def test_a_result_or_a_refusal_in_words(chunk: int, tmp_path: Path) -> None:
    dice = random.Random(f"test_a_result_or_a_refusal_in_words {chunk}")
    ledger = open_ledger(tmp_path / "budget.db", create=True)
    ledger.create_dataset("town", epsilon="100000", neighbours="bounded", who="Ada")
    ledger.create_dataset("city", rho="100000", neighbours="unbounded", who="Ada")
    spec, spent = tmp_path / "spec.yaml", 0
    released = 0
    for number in range(CHUNK):
        content, table = invented(number, dice)
        spec.write_bytes(content)
        (tmp_path / "data.csv").write_bytes(table)
        out = tmp_path / f"out-{number}"
        line = [
            "release",
            str(spec),
            "--out",
            str(out),
            "--ledger",
            str(tmp_path / "budget.db"),
            "--who",
            "Ada",
            "--yes",
        ]
        lines = [["check", str(spec)], [*line, "--no-confidential-report"]]
        lines += [["plan", str(spec)]] if number % 5 == 0 else []
        for command in lines:
            done = CliRunner().invoke(main, command)
            about = (command[0], content, table, done.output)
            assert is_in_words(done), (*about, done.exc_info)
            last = [text for text in done.stderr.splitlines(keepends=True) if not text.startswith(PROGRESS)]
            assert done.exit_code == 0 or "".join(last).startswith("Error: "), about
            if command[0] == "release" and done.exit_code == 0:
                spent += 1
                released += 1
                load_bundle(out)
            assert n_spends(ledger) == spent, about
            assert out.exists() == (command[0] != "check" and done.exit_code == 0) or command[0] == "plan", about
        assert not list(tmp_path.glob(".*")), "a hidden remainder"
    ledger.verify()
    assert released >= 2  # sound ones are among them


def test_a_charge_on_refusal_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: a refusal after the charge."""
    from congenial.errors import SamplingError
    from congenial.plan import Plan

    calls = []

    def fails_the_second_time(*_: object) -> None:
        calls.append(1)
        if len(calls) > 1:
            raise SamplingError("no")

    monkeypatch.setattr(Plan, "draw", fails_the_second_time)
    with pytest.raises(AssertionError):
        test_a_result_or_a_refusal_in_words(0, tmp_path)
