"""Every edit of a ledger shows; what needs a receipt to show is said and tested too."""

import json
import random
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from congenial.errors import LedgerError, TamperedError
from congenial.ledger import Head, Ledger, verify_export
from congenial.ledger.records import DATASET, FIELDS, SPEND, link_hash
from congenial.ledger.requests_and_canonical_text import canonical
from ledgers import NOW, certificate, ledger_with, request

GOLDEN = Path(__file__).with_name("golden_ledger.jsonl").read_text(encoding="ascii")
"""A ledger of version 0.1.0: every later version verifies it."""


def filled(path: Path) -> Ledger:
    ledger = ledger_with(path, epsilon="9")
    for number, cost in enumerate(("1", "1/3", "2", "1/7"), 1):
        ledger.charge(request(f"release {number}", certificate(cost), invariants=(("total", number),)), now=NOW)
    return ledger


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return filled(tmp_path_factory.mktemp("chain") / "budget.db").export()


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def text_of(lines: list[dict[str, Any]]) -> str:
    return "".join(canonical(line) + "\n" for line in lines)


def rehashed(lines: list[dict[str, Any]], start: int = 0) -> list[dict[str, Any]]:
    """What a forger does who knows the format: recompute every hash from a record on."""
    out = [dict(line) for line in lines]
    for number in range(start, len(out)):
        if number:
            out[number]["previous"] = out[number - 1]["hash"]
        out[number]["hash"] = link_hash(out[number]["kind"], out[number])
    return out


def head_of(lines: list[dict[str, Any]], number: int) -> Head:
    return Head("county", number, lines[number]["hash"])


def test_an_honest_chain_verifies_against_every_head(text: str) -> None:
    lines = lines_of(text)
    for number in range(5):
        assert verify_export(text, head_of(lines, number)).heads == (head_of(lines, 4),)


def test_ledgers_of_older_versions_still_verify() -> None:
    verified = verify_export(GOLDEN)
    assert verified.heads == (Head("county", 2, lines_of(GOLDEN)[2]["hash"]),)


EDITS: dict[str, Any] = {
    **dict.fromkeys(("cap", "loss", "spent", "delta"), "1/2"),
    **dict.fromkeys(("name", "dataset", "release", "who", "software", "plan", "key"), "another"),
    **dict.fromkeys(("previous", "hash"), "0" * 64),
    "neighbours": "unbounded",
    "currency": "rho",
    "at": "2030-01-01T00:00:00Z",
    "certificate": canonical({"kind": "composition"}),
    "invariants": canonical([["total", "11"]]),
    "number": 17,
}


@pytest.mark.parametrize(
    ("line", "field"),
    [(0, field) for field in FIELDS[DATASET]] + [(line, field) for line in (1, 2, 4) for field in FIELDS[SPEND]],
)
@pytest.mark.parametrize("change", ["other", None, 1.5, ["list"], "", "not a fraction", "2/4", "1e99999"])
def test_every_edit_of_every_field_shows(text: str, line: int, field: str, change: object) -> None:
    lines = lines_of(text)
    new = EDITS[field] if change == "other" else change
    if lines[line][field] == new:
        assert (field, new) == ("delta", None)  # the only edit here that is none
        return
    lines[line][field] = new
    with pytest.raises(TamperedError) as caught:
        verify_export(text_of(lines))
    assert caught.value.findings


@settings(max_examples=200)
@given(st.data())
def test_every_flipped_character_of_an_export_shows(text: str, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(text) - 2))  # the last line break may go
    letter = data.draw(st.characters(codec="utf-8").filter(lambda letter: letter != text[position]))
    with pytest.raises(TamperedError):
        verify_export(text[:position] + letter + text[position + 1 :])


def test_missing_repeated_and_reordered_records_show(text: str) -> None:
    lines = lines_of(text)
    for number in range(4):  # the last one can be cut without trace: see below
        with pytest.raises(TamperedError):
            verify_export(text_of(lines[:number] + lines[number + 1 :]))
    for number in range(5):
        with pytest.raises(TamperedError):
            verify_export(text_of([*lines[: number + 1], lines[number], *lines[number + 1 :]]))
    rng = random.Random("reordered")
    for _ in range(20):
        order = lines[1:]
        rng.shuffle(order)
        if order != lines[1:]:
            with pytest.raises(TamperedError):
                verify_export(text_of([lines[0], *order]))


def test_a_cut_chain_shows_against_a_head_only(text: str) -> None:
    lines = lines_of(text)
    cut = text_of(lines[:3])
    assert verify_export(cut).n_spends == 2
    assert verify_export(cut, head_of(lines, 2)).n_spends == 2
    with pytest.raises(TamperedError, match=r"record 3 is gone, the chain ends at 2"):
        verify_export(cut, head_of(lines, 3))
    with pytest.raises(TamperedError, match="'county' is gone"):
        verify_export("", head_of(lines, 0))


def raised_cap(lines: list[dict[str, Any]]) -> None:
    lines[0]["cap"] = "1000"


def other_value(lines: list[dict[str, Any]]) -> None:
    lines[2]["invariants"] = canonical([["total", "12"]])


@pytest.mark.parametrize(("forge", "first"), [(raised_cap, 0), (other_value, 2)])
def test_a_recomputed_chain_shows_against_a_head_only(
    text: str, forge: Callable[[list[dict[str, Any]]], None], first: int
) -> None:
    """Whoever owns the database can write a new history; a receipt that was kept elsewhere contradicts it."""
    lines = lines_of(text)
    forged = lines_of(text)
    forge(forged)
    with pytest.raises(TamperedError):  # without recomputing, it shows at once
        verify_export(text_of(forged))
    with pytest.raises(TamperedError):  # and with one record recomputed, the next one does not follow
        verify_export(text_of([*forged[:first], rehashed(forged, first)[first], *forged[first + 1 :]]))
    forged = rehashed(forged, first)
    verify_export(text_of(forged))
    for number in range(first, 5):
        with pytest.raises(TamperedError, match=f"record {number} is not the one that the receipt names"):
            verify_export(text_of(forged), head_of(lines, number))


def lower_loss(lines: list[dict[str, Any]]) -> str:
    lines[1]["loss"] = "1/100"
    return "loss is not that of its certificate"


def wrong_sum(lines: list[dict[str, Any]]) -> str:
    lines[2]["spent"] = "1"
    return "the sum of the losses is wrong"


def lower_cap(lines: list[dict[str, Any]]) -> str:
    lines[0]["cap"] = "2"
    return "above the cap"


def same_name(lines: list[dict[str, Any]]) -> str:
    lines[3]["release"] = lines[1]["release"]
    return "charged twice"


def other_relation(lines: list[dict[str, Any]]) -> str:
    lines[0]["neighbours"] = "unbounded"
    return "cannot be charged to this dataset"


def other_dataset(lines: list[dict[str, Any]]) -> str:
    lines[3]["dataset"] = "elsewhere"
    return "belongs to dataset 'elsewhere'"


def skipped_number(lines: list[dict[str, Any]]) -> str:
    lines[4]["number"] = 9
    return "stands where record 4 belongs"


def earlier(lines: list[dict[str, Any]]) -> str:
    lines[3]["at"] = "2026-01-16T10:59:59Z"
    return "spend 3: its time lies before that of the record before it"


def before_its_dataset(lines: list[dict[str, Any]]) -> str:
    lines[0]["at"] = "2026-01-16T11:00:01Z"
    return "spend 1: its time lies before that of the record before it"


def no_time(lines: list[dict[str, Any]]) -> str:
    lines[2]["at"] = "2026-01-16 11:00:00"
    return "a time is not in UTC and to the second"


def negative_loss(lines: list[dict[str, Any]]) -> str:
    lines[3]["loss"] = "-2"
    return "no fraction in lowest terms"


@pytest.mark.parametrize(
    "forge",
    [
        *(lower_loss, wrong_sum, lower_cap, same_name, other_relation, other_dataset, skipped_number, negative_loss),
        *(earlier, before_its_dataset, no_time),
    ],
)
def test_nonsense_shows_even_with_every_hash_recomputed(
    text: str, forge: Callable[[list[dict[str, Any]]], str]
) -> None:
    forged = lines_of(text)
    expected = forge(forged)
    with pytest.raises(TamperedError) as caught:
        verify_export(text_of(rehashed(forged)))
    assert any(expected in finding for finding in caught.value.findings)


@pytest.mark.parametrize(
    "broken", ["{}", "[]", "null", "1", "", "{", '{"kind":"spend"}', "[" * 100_000, '{"kind":["x"]}', '"text"']
)
def test_lines_that_are_no_records_show(text: str, broken: str) -> None:
    first, rest = text.split("\n", 1)
    for changed in (f"{broken}\n{text}", f"{first}\n{broken}\n{rest}"):
        with pytest.raises(TamperedError, match="the export is broken"):
            verify_export(changed)


def test_exports_are_text() -> None:
    with pytest.raises(LedgerError, match="is text, not a bytes"):
        verify_export(b"")  # type: ignore[arg-type]


def edited(path: Path, *statements: str) -> None:
    """Edit the database file behind the ledger's back; whoever can do that can drop triggers."""
    connection = sqlite3.connect(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


EDITED = {
    "cap": "UPDATE congenial_datasets SET cap = '100'",
    "loss": "UPDATE congenial_spends SET loss = '0' WHERE number = 2",
    "blob": "UPDATE congenial_spends SET who = x'00ff' WHERE number = 2",
    "number as text": "UPDATE congenial_spends SET number = 'x' WHERE number = 2",
    "deleted": "DELETE FROM congenial_spends WHERE number = 2",
    "first deleted": "DELETE FROM congenial_spends WHERE number = 1",
    "dataset renamed": "UPDATE congenial_datasets SET name = 'village'",
    "dataset deleted": "DELETE FROM congenial_datasets",
    "swapped": "UPDATE congenial_spends SET number = CASE number WHEN 2 THEN -3 WHEN 3 THEN -2 ELSE -number END",
}


@pytest.mark.parametrize("edit", EDITED)
def test_edits_of_the_file_show(tmp_path: Path, edit: str) -> None:
    path = tmp_path / "budget.db"
    ledger = filled(path)
    ledger.verify()
    edited(path, "PRAGMA ignore_check_constraints = ON", EDITED[edit])
    with pytest.raises(TamperedError) as caught:
        ledger.verify()
    assert caught.value.findings
    if "dataset" not in edit:
        for look in (ledger.status, ledger.history, ledger.disclosed):
            with pytest.raises(TamperedError):
                look("county")
    assert ledger.export() or edit == "dataset deleted"  # an edited ledger can still be exported and looked at


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE congenial_datasets SET cap = '100'",
        "UPDATE congenial_spends SET spent = '0', loss = '0' WHERE number = 4",
        "UPDATE congenial_spends SET spent = 'nothing' WHERE number = 4",
    ],
)
def test_nothing_is_charged_on_an_edited_cap_or_sum(tmp_path: Path, edit: str) -> None:
    path = tmp_path / "budget.db"
    ledger = filled(path)
    edited(path, edit)
    with pytest.raises(TamperedError, match="edited after it was written"):
        ledger.charge(request("new"))
    assert '"release":"new"' not in ledger.export()


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE congenial_spends SET key = 'ab' WHERE number = 2",
        "UPDATE congenial_spends SET release = 'new' WHERE number = 2",
        "UPDATE congenial_datasets SET cap = '100'",
    ],
)
def test_nothing_is_gone_on_with_on_an_edited_spend(tmp_path: Path, edit: str) -> None:
    path = tmp_path / "budget.db"
    ledger = filled(path)
    releases = [spend.release for spend in ledger.history("county")]
    assert [ledger.paid("county", name)[0].number for name in releases] == [1, 2, 3, 4]  # type: ignore[index]
    edited(path, edit)
    with pytest.raises(TamperedError, match="its content does not match its hash"):
        ledger.paid("county", releases[1])


def test_many_findings_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "budget.db"
    ledger = filled(path)
    for number in range(10):
        ledger.charge(request(str(number), certificate("0")))
    edited(path, "UPDATE congenial_spends SET who = 'Eve'")
    with pytest.raises(TamperedError, match="and 9 more") as caught:
        ledger.verify()
    assert len(caught.value.findings) == 14


def test_verify_is_sensitive_to_the_fraction_not_its_float(text: str) -> None:
    """A loss that is off by 1e-30 is as wrong as one that is off by 1."""
    lines = lines_of(text)
    loss = Fraction(lines[1]["loss"]) + Fraction(1, 10**30)
    lines[1]["loss"] = str(loss)
    with pytest.raises(TamperedError, match="loss is not that of its certificate"):
        verify_export(text_of(rehashed(lines)))


def test_heads_compare_by_all_they_say(text: str) -> None:
    head = head_of(lines_of(text), 2)
    for other in (
        replace(head, number=-1),
        replace(head, number=99),
        replace(head, hash=""),
        replace(head, dataset="x"),
    ):
        with pytest.raises(TamperedError):
            verify_export(text, other)
