"""What people read of a ledger: releases the newest first, what became of them, what is left."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner

from congenial.cli.main import main
from congenial.errors import LedgerError
from congenial.ledger.status_and_past_releases import past_of, summary_of_disclosed
from ledgers import NOW, certificate, ledger_with, request


def test_history_has_the_newest_first_and_one_release_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = ledger_with(path, epsilon="3")
    many = tuple((f"county {n}: {what}", n) for what in ("total", "women") for n in range(150))
    ledger.charge(request("first", invariants=many), now=NOW)
    ledger.charge(request("second"), now=NOW)
    ledger.withdraw("county", "first", reason="a column was misread", who="Ada", now=NOW)
    assert [one.spend.release for one in past_of(ledger, "county")] == ["second", "first"]
    with pytest.raises(LedgerError, match="did you mean 'first'"):
        past_of(ledger, "county", "frist")

    def history(*words: str) -> str:
        done = CliRunner().invoke(main, ["ledger", "history", "county", "--ledger", str(path), *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    text = history()
    assert text.index("second") < text.index("first  ")
    assert "withdrawn on 2026-01-16 by Ada: a column was misread" in text
    assert "first: 300 numbers: total (150 areas), women (150 areas)" in text
    assert "county 7" not in text
    one = history("--release", "first")
    assert "second" not in one
    assert "county 149: total" in one
    assert "These are the first 200 of 300" in one
    values = json.loads(history("--json"))
    assert [(value["release"], bool(value["withdrawn"])) for value in values] == [("second", False), ("first", True)]
    assert len(values[1]["invariants"]) == 300
    assert [value["release"] for value in json.loads(history("--json", "--release", "second"))] == ["second"]


def test_a_trifle_reads_as_nothing_and_an_amount_does_not(tmp_path: Path) -> None:
    ledger = ledger_with(tmp_path / "budget.db", epsilon="4")
    ledger.charge(request("first", certificate(str(4 - Fraction(4, 10**15)))), now=NOW)
    assert "epsilon 4 of 4 spent, 0 left" in str(ledger.status("county"))
    assert ledger.status("county").left == Fraction(4, 10**15)
    other = ledger_with(tmp_path / "other.db", epsilon="4")
    other.charge(request("first", certificate(str(4 - Fraction(1, 1000)))), now=NOW)
    assert "0.001 left" in str(other.status("county"))


def test_many_statistics_are_summed_up() -> None:
    assert summary_of_disclosed([]) == "nothing"
    assert summary_of_disclosed([("total", "9")]) == "1 number: total"
    text = summary_of_disclosed([(f"statistic {n}", "1") for n in range(9)])
    assert text.endswith("statistic 5 and 3 more")
