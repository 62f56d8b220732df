"""Receipts survive JSON, and nothing else passes for one."""

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from congenial.errors import CongenialError
from congenial.ledger import Head, Receipt

AMOUNT = st.fractions(0, 10**6)
RECEIPT = Receipt(
    "county", "first", 3, "ab", "cd", "rho", Fraction(1, 3), Fraction(2, 3), Fraction(1, 3), Fraction(1), "2026", "ef"
)


@given(st.builds(Receipt, loss=AMOUNT, spent=AMOUNT, left=AMOUNT, cap=AMOUNT))
def test_round_trip(receipt: Receipt) -> None:
    plain = receipt.as_json()
    assert Receipt.from_json(plain) == receipt
    assert Receipt.from_json(json.dumps(plain)) == receipt
    assert receipt.head == Head(receipt.dataset, receipt.number, receipt.hash)


def test_what_it_looks_like() -> None:
    assert RECEIPT.as_json() == {
        "dataset": "county",
        "release": "first",
        "number": 3,
        "hash": "ab",
        "previous": "cd",
        "currency": "rho",
        "loss": "1/3",
        "spent": "2/3",
        "left": "1/3",
        "cap": "1",
        "at": "2026",
        "plan": "ef",
    }


@pytest.mark.parametrize("wrong", ["", "{", "[]", "1", "null", None, 7, [], {}, b"{}"])
def test_no_receipts(wrong: Any) -> None:
    with pytest.raises(CongenialError):
        Receipt.from_json(wrong)


@pytest.mark.parametrize("field", [*RECEIPT.as_json(), "extra"])
@pytest.mark.parametrize("value", [None, 1.5, ["x"], True, "absent"])
def test_wrong_fields(field: str, value: object) -> None:
    changed: dict[str, object] = RECEIPT.as_json() | {field: value}
    if value == "absent":
        changed.pop(field)
        if field == "extra":
            changed["loss"] = 1
    with pytest.raises(CongenialError):
        Receipt.from_json(changed)
