"""Names that a reader takes for one are one dataset, and names that pass for another are refused."""

import sys
from unicodedata import name as unicode_name
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from congenial.errors import LedgerBusyError, LedgerError, TamperedError
from congenial.ledger import Ledger, open_ledger, verify_export
from congenial.ledger.next_record import new_dataset
from congenial.ledger.records import _LOOKS_LATIN, DATASET, Dataset, _script, check_dataset_name, folded
from congenial.ledger.requests_and_canonical_text import canonical
from congenial.ledger.store import Book
from ledgers import NOW, request

SPELLINGS = [
    "CENSUS",
    "Census",
    "\uff43ensus",
    "\uff23\uff45\uff4e\uff53\uff55\uff53",
    "\U0001d41census",
    "cen\u017fus",
]


def created(ledger: Ledger, name: str) -> Dataset:
    return ledger.create_dataset(name, epsilon="1", neighbours="bounded", who="Ada", now=NOW)


def record(name: str) -> Dataset:
    """The record of a dataset, before any look at the others."""
    asked = {"epsilon": "1", "rho": None, "delta": None, "neighbours": "bounded", "who": "Ada"}
    return new_dataset(name, **asked, at="2026-01-16T11:00:00Z", software="congenial")


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_second_spelling_is_no_second_dataset(place: str, spelling: str) -> None:
    ledger = open_ledger(place, create=True)
    created(ledger, "census")
    with pytest.raises(LedgerError, match=r"is in the ledger already as 'census', and its cap is never changed"):
        created(ledger, spelling)
    for ask in (ledger.status, ledger.history, ledger.verify, lambda name: ledger.charge(request(dataset=name))):
        with pytest.raises(LedgerError, match=r"is not in the ledger; did you mean 'census'\?"):
            ask(spelling)
    assert [dataset.name for dataset in ledger.datasets()] == ["census"]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_database_itself_keeps_a_second_spelling_out(
    place: str, spelling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Defect: the names are looked at in one moment and written in another, as without the lock."""
    ledger = open_ledger(place, create=True)
    created(ledger, "census")
    monkeypatch.setattr(Book, "spelling", lambda *_: None)
    with pytest.raises(LedgerBusyError, match="try again; nothing was written"):
        created(ledger, spelling)
    assert [dataset.name for dataset in ledger.datasets()] == ["census"]


def test_every_dataset_has_a_folded_name(place: str) -> None:
    """Without one, the database could not compare it."""
    ledger = open_ledger(place, create=True)
    with pytest.raises(LedgerBusyError):
        ledger._store.write(lambda book: book._add(DATASET, record("census").row))


def test_two_spellings_that_were_written_behind_the_ledgers_back_show() -> None:
    rows = [{"kind": DATASET, **record(name).row} for name in ("census", "Census", "county")]
    with pytest.raises(TamperedError) as caught:
        verify_export("".join(canonical(row) + "\n" for row in rows))
    assert caught.value.findings == ("datasets 'census' and 'Census' have names that are taken for one",)


MIXED = {
    "Cyrillic es": "\u0441ensus",
    "Cyrillic a": "st\u0430te",
    "Greek omicron": "c\u03bfunty",
    "Greek capital": "\u039dorth",
    "Armenian": "c\u0585unty",
    "Cherokee": "\u13d9orth",
    "Hebrew": "county \u05e1",
    "other digits": "county \u09ea",
    "three": "a\u0431\u03b4",
    "Japanese and Korean": "\u3042\ud55c",
}


@pytest.mark.parametrize("name", MIXED.values(), ids=MIXED)
def test_mixed_scripts_are_refused_by_the_names_of_their_letters(place: str, name: str) -> None:
    ledger = open_ledger(place, create=True)
    with pytest.raises(LedgerError, match=r"mixes [A-Z0-9 -]+ and [A-Z]") as caught:
        created(ledger, name)
    assert str(caught.value).isascii()  # what looks alike is written by number
    created(ledger, "county")
    with pytest.raises(LedgerError, match="mixes"):
        ledger.charge(request(dataset=name))


@pytest.mark.parametrize(
    "name",
    [
        *("\u0441\u043e\u0441\u043e", "\u0420\u0410\u0421\u0415 2026", "\u0441\uff0d\u0430"),
        *("\u039d\u039f", "\u03bf\u03bd\u03bf", "\u0585\u0578"),
    ],
)
def test_names_that_look_latin_from_end_to_end_are_refused(name: str) -> None:
    with pytest.raises(LedgerError, match=r"looks like a Latin one and is (Cyrillic|Greek|Armenian)"):
        check_dataset_name(name)


def test_what_looks_latin_is_not_latin() -> None:
    assert {unicode_name(letter).split()[0] for letter in _LOOKS_LATIN} == {"CYRILLIC", "GREEK", "ARMENIAN"}
    assert all(normalize("NFKC", letter) == letter for letter in _LOOKS_LATIN)  # names are compared in that form


@pytest.mark.parametrize(
    "hidden", ["\ufe0f", "\u034f", "\u115f", "\u3164", "\uffa0", "\u17b4", "\u180b", "\U000e0100", "\u2800"]
)
def test_names_with_characters_that_nobody_sees_are_refused(hidden: str) -> None:
    for name in (f"census{hidden}", f"cen{hidden}sus"):
        with pytest.raises(LedgerError, match=r"cannot be seen|does not show"):
            check_dataset_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("county", "2026", "Straße 7", "Île-de-France", "Hawaiʻi", "Łódź", "café nº 5", "—", "county 📊"),
        *("Москва 2026", "Αθήνα", "Երևան", "東京 census", "さくらタワー 人々", "서울 census"),
        *("تهران ۱۴", "مصر ١", "ঢাকা ৪"),
    ],
)
def test_names_in_one_script_are_welcome(name: str) -> None:
    assert check_dataset_name(name) == name


@given(st.text(max_size=8))
def test_folding_is_done_once_and_for_all(name: str) -> None:
    assert folded(folded(name)) == folded(name) == folded(normalize("NFKD", name)) == folded(normalize("NFC", name))


def test_every_letter_has_a_script() -> None:
    found = {_script(chr(code)) for code in range(sys.maxunicode + 1)}
    assert {"", "LATIN", "GREEK", "CYRILLIC", "ARABIC", "CJK", "HANGUL", "HIRAGANA", "KATAKANA"} <= found
    assert not {"EXTENDED", "DIGIT", "MODIFIER", "IDEOGRAPHIC"} & found
