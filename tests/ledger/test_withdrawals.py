"""Releases that are withdrawn or replaced: the ledger keeps everything, and no edit of it goes unseen."""

import json
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from congenial.errors import AlreadySpentError, BudgetError, LedgerError, OtherVersionError, TamperedError
from congenial.ledger import Ledger, Request, open_ledger, verify_export
from congenial.ledger.records import FIELDS, WITHDRAWAL, link_hash, newest_withdrawal
from congenial.ledger.requests_and_canonical_text import canonical
from congenial.privacy.budget import Budget
from ledgers import DIGEST, NOW, certificate, ledger_with, request

SAID: dict[str, Any] = {"reason": "a column was misread", "who": "Ada", "now": NOW}


def correction(release: str, replaces: str) -> Request:
    return Request("county", release, certificate(), [("total", 10)], DIGEST, "Ada", replaces=replaces)


def told(place: str | Path) -> Ledger:
    """Three releases: the first replaced by the second, which was withdrawn, and a third that stands."""
    ledger = ledger_with(place, epsilon="9")
    ledger.charge(request("first"), now=NOW)
    ledger.charge(correction("second", "first"), now=NOW)
    ledger.withdraw("county", "second", **SAID)
    ledger.charge(request("third"), now=NOW)
    return ledger


def test_what_became_of_releases_is_kept_and_what_they_cost_stays_spent(place: str) -> None:
    ledger = told(place)
    assert ledger.status("county").spent == 3
    assert [spend.number for spend in ledger.history("county")] == [1, 2, 5]
    found = ledger.withdrawals("county")
    assert [(one.number, one.release, one.replaced_by) for one in found] == [
        (3, "first", "second"),
        (4, "second", None),
    ]
    first, second, third = (newest_withdrawal(name, found) for name in ("first", "second", "third"))
    assert first is not None
    assert first.text == "replaced by release 'second' on 2026-01-16"
    assert second is not None
    assert second.text == "withdrawn on 2026-01-16 by Ada: a column was misread"
    assert third is None
    verified = ledger.verify()
    assert (verified.n_spends, verified.heads[0].number) == (3, 5)
    for head in [*(spend.head for spend in ledger.history("county")), *(one.head for one in found)]:
        assert verify_export(ledger.export(), head) == verified


def test_a_release_is_withdrawn_once_and_replaced_once(tmp_path: Path) -> None:
    ledger = told(tmp_path / "budget.db")
    text = ledger.export()
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: ledger.withdraw("county", "second", **SAID), "was withdrawn on 2026-01-16 by Ada"),
        (lambda: ledger.withdraw("county", "first", **SAID), "was replaced by release 'second'"),
        (lambda: ledger.charge(correction("fourth", "first"), now=NOW), "write `replaces: second`"),
        (lambda: ledger.charge(correction("fourth", "frist"), now=NOW), "never charged; did you mean 'first'"),
        (lambda: ledger.withdraw("county", "Third", **SAID), "never charged; did you mean 'third'"),
        (lambda: ledger.withdraw("county", "third", reason=" ", who="Ada"), "say why"),
        (lambda: ledger.withdraw("county", "third", reason="two\nlines", who="Ada"), "a reason"),
        (lambda: ledger.withdraw("county", "third", reason="x", who=""), "who withdraws"),
        (lambda: ledger.withdraw("country", "third", **SAID), "did you mean 'county'"),
    ]
    for attempt, words in refused:
        with pytest.raises(LedgerError, match=words):
            attempt()
    assert ledger.export() == text
    ledger.charge(correction("fourth", "second"), now=NOW)  # what was withdrawn may still be replaced
    assert newest_withdrawal("second", ledger.withdrawals("county")) == ledger.withdrawals("county")[-1]


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def text_of(lines: list[dict[str, Any]]) -> str:
    return "".join(canonical(line) + "\n" for line in lines)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return told(tmp_path_factory.mktemp("told") / "budget.db").export()


@pytest.mark.parametrize("line", [3, 4])
@pytest.mark.parametrize("field", FIELDS[WITHDRAWAL])
def test_every_edit_of_every_field_shows(text: str, line: int, field: str) -> None:
    changes: list[object] = ["another", None, 1.5, 17, [], "", "2030-01-01T00:00:00Z"]
    for change in changes:
        lines = lines_of(text)
        if lines[line][field] == change:
            continue
        lines[line][field] = change
        with pytest.raises(TamperedError):
            verify_export(text_of(lines))


def nobody(lines: list[dict[str, Any]]) -> str:
    lines[4]["release"] = "another"
    return "withdraws release 'another', which was not charged before it"


def later(lines: list[dict[str, Any]]) -> str:
    lines[4]["release"] = "third"
    return "withdraws release 'third', which was not charged before it"


def by_nobody(lines: list[dict[str, Any]]) -> str:
    lines[3]["replaced_by"] = "another"
    return "'first' cannot be replaced by 'another'"


def by_itself(lines: list[dict[str, Any]]) -> str:
    lines[3]["replaced_by"] = "first"
    return "'first' cannot be replaced by 'first'"


def twice(lines: list[dict[str, Any]]) -> str:
    lines[4]["release"] = "first"
    return "release 'first' is withdrawn twice"


def for_no_reason(lines: list[dict[str, Any]]) -> str:
    lines[4]["reason"] = ""
    return "a withdrawal has a reason"


def refunded(lines: list[dict[str, Any]]) -> str:
    lines[5]["spent"] = "2"
    return "the sum of the losses is wrong"


@pytest.mark.parametrize("forge", [nobody, later, by_nobody, by_itself, twice, for_no_reason, refunded])
def test_nonsense_shows_even_with_every_hash_recomputed(
    text: str, forge: Callable[[list[dict[str, Any]]], str]
) -> None:
    lines = lines_of(text)
    expected = forge(lines)
    for number, line in enumerate(lines):
        if number:
            line["previous"] = lines[number - 1]["hash"]
        line["hash"] = link_hash(line["kind"], line)
    with pytest.raises(TamperedError) as caught:
        verify_export(text_of(lines))
    assert any(expected in finding for finding in caught.value.findings)


EDITED = {
    "another reason": "UPDATE congenial_withdrawals SET reason = 'none' WHERE number = 4",
    "gone": "DELETE FROM congenial_withdrawals WHERE number = 4",
    "of a dataset that is gone": "UPDATE congenial_withdrawals SET dataset = 'village' WHERE number = 4",
    "number as text": "UPDATE congenial_withdrawals SET number = 'x' WHERE number = 4",
}


@pytest.mark.parametrize("edit", EDITED)
def test_edits_of_the_file_show(tmp_path: Path, edit: str) -> None:
    ledger = told(tmp_path / "budget.db")
    connection = sqlite3.connect(tmp_path / "budget.db")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(EDITED[edit])
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(EDITED[edit])
    connection.commit()
    connection.close()
    with pytest.raises(TamperedError):
        ledger.verify()
    if edit == "another reason":
        with pytest.raises(TamperedError, match="edited after it was written; nothing was charged"):
            ledger.withdraw("county", "third", **SAID)


def test_no_two_records_have_one_place(tmp_path: Path) -> None:
    """Of both kinds: the tables are two, and the chain is one."""
    told(tmp_path / "budget.db")
    connection = sqlite3.connect(tmp_path / "budget.db")
    for table, number in (("congenial_withdrawals", 5), ("congenial_spends", 4)):
        fields = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        values = ", ".join({"number": str(number), "release": "'first'"}.get(field, f'"{field}"') for field in fields)
        for how in ("INSERT", "INSERT OR REPLACE"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(f"{how} INTO {table} ({', '.join(fields)}) SELECT {values} FROM {table} LIMIT 1")
    connection.close()


def test_a_ledger_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = ledger_with(path, epsilon="9")
    ledger.charge(request("first"), now=NOW)
    text = ledger.export()
    connection = sqlite3.connect(path)
    connection.execute("DROP TRIGGER congenial_spends_apart_from_congenial_withdrawals")
    connection.execute("DROP TABLE congenial_withdrawals")
    connection.execute("UPDATE congenial_ledger_version SET version_num = 'v0001'")
    connection.commit()
    connection.close()
    with pytest.raises(OtherVersionError, match="congenial ledger upgrade"):
        open_ledger(path)
    upgraded = open_ledger(path, create=True)
    assert upgraded.export() == text
    upgraded.withdraw("county", "first", **SAID)
    assert upgraded.verify().n_spends == 1


def test_what_cannot_be_charged_is_found_without_a_plan(tmp_path: Path) -> None:
    ledger = ledger_with(tmp_path / "budget.db", epsilon="2")
    ledger.charge(request("first", certificate("3/2")), now=NOW)
    text = ledger.export()

    def ask(release: str = "second", neighbours: str = "bounded", budget: Budget | None = None, **options: Any) -> Any:
        return ledger.check_request("county", release, neighbours=neighbours, budget=budget, **options)

    half, more = Budget(epsilon=Fraction(1, 2)), Budget(epsilon=Fraction(1, 2) + Fraction(1, 10**30))
    assert ask(budget=half).left == Fraction(1, 2)
    assert ask(budget=Budget(epsilon=Fraction(9), delta=Fraction(1, 10))).left == Fraction(1, 2)  # not known before
    with pytest.raises(BudgetError, match=r"asks for up to epsilon 0.5001, and dataset 'county' has 0.5 left"):
        ask(budget=more)
    with pytest.raises(AlreadySpentError, match="was charged as 'first'"):
        ask("FIRST", budget=half)
    with pytest.raises(BudgetError, match="do not add up"):
        ask(neighbours="unbounded", budget=half)
    with pytest.raises(LedgerError, match="never charged"):
        ask(budget=half, replaces="zeroth")
    assert ask(budget=half, replaces="first").n_spends == 1
    assert ledger.export() == text
    ledger.charge(request("second", certificate("1/2")), now=NOW)
    with pytest.raises(BudgetError, match=r"has 0 left: 2 of 2 is spent. Nothing was charged; nothing is left"):
        ask("third")
