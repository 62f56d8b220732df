"""Whatever is wrong with a request is found before anything is written."""

from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from congenial.errors import CongenialError, LedgerError
from congenial.ledger import Request, open_ledger
from congenial.ledger.requests_and_canonical_text import moment
from ledgers import DIGEST, certificate, ledger_with, request

NAMES = ["", " ", " a", "a ", "a\nb", "a\0b", "\ud800", "x" * 201, "e\u0301", "a\u200bb", None, 1, b"a", ["a"], True]
NAMES += [f"a{letter}b" for letter in "\u3164\u115f\u1160\uffa0\u034f"]  # letters without ink


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("field", ["dataset", "release", "who"])
def test_names(field: str, name: Any) -> None:
    with pytest.raises(LedgerError):
        replace(request(), **{field: name})


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, "0" * 64 + "\n", None, 1, b"0" * 64])
def test_digests(digest: Any) -> None:
    with pytest.raises(LedgerError, match="64 digits"):
        replace(request(), plan_digest=digest)


@pytest.mark.parametrize(
    "invariants",
    [
        *(None, "total", 1, {"total": 1}, ["total"], [("total",)], [("total", 1, 2)], [(1, 2)], [("total", None)]),
        *([("total", 1.5)], [("total", True)], [("to\0tal", 1)], [("total", "\ud800")], [("total", 10**300)], b"ab"),
        *([("total", Fraction(1, 10**300))], [("x" * 10_001, 1)], [("total", [1])], [("total", float("nan"))]),
    ],
)
def test_invariants(invariants: Any) -> None:
    with pytest.raises(LedgerError):
        replace(request(), invariants=invariants)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "magic"},
        {"kind": None},
        {"neighbours": "both"},
        {"orders": "some"},
        {"k": -1},
        {"k": True},
        {"k": 1.0},
        {"k": None},
        {"loss": Fraction(-1)},
        {"loss": 1.0},
        {"loss": 1},
        {"loss": "1"},
        {"loss": Fraction(10**9 + 1)},
        {"rho": Fraction(1, 3**5000)},
        {"rho": float("nan")},
        {"rho_at_all_orders": Fraction(-1, 2)},
        {"loss_without_invariants": None},
        {"statement": None},
        {"statement": "\0"},
    ],
)
def test_certificates(changes: dict[str, Any]) -> None:
    with pytest.raises(LedgerError):
        request(cost=replace(certificate(), **changes))


@pytest.mark.parametrize("other", [None, 1, "1", Fraction(1), {"loss": 1}])
def test_only_certificates_are_charged(other: Any) -> None:
    with pytest.raises(LedgerError, match="only a certificate can be charged"):
        Request("county", "first", other, [], DIGEST, "Ada")


@pytest.mark.parametrize("now", [datetime(2026, 1, 1), "2026-01-01", 1, True])
def test_times_have_a_zone(now: Any, tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="time zone"):
        moment(now)
    ledger = ledger_with(tmp_path / "budget.db", epsilon="1")
    with pytest.raises(LedgerError, match="time zone"):
        ledger.charge(request(), now=now)
    assert ledger.history("county") == ()


DATASETS: dict[str, dict[str, Any]] = {
    "no cap": {},
    "two caps": {"epsilon": "1", "rho": "1"},
    "float": {"epsilon": 0.5},
    "zero": {"epsilon": "0"},
    "negative": {"rho": "-1"},
    "text": {"epsilon": "much"},
    "boolean": {"epsilon": True},
    "infinite": {"epsilon": float("inf")},
    "huge": {"epsilon": "1e99"},
    "long": {"epsilon": "0." + "1" * 198},
    "delta with epsilon": {"epsilon": "1", "delta": "1e-9"},
    "delta 0": {"rho": "1", "delta": "0"},
    "delta 1": {"rho": "1", "delta": "1"},
    "delta float": {"rho": "1", "delta": 1e-9},
    "tiny delta": {"rho": "1", "delta": "1e-999"},
    "relation": {"epsilon": "1", "neighbours": "bouned"},
    "no relation": {"epsilon": "1", "neighbours": None},
    "nobody": {"epsilon": "1", "who": ""},
    "name": {"epsilon": "1", "name": "a\n"},
    "time": {"epsilon": "1", "now": 7},
}


@pytest.mark.parametrize("wrong", DATASETS)
def test_datasets(tmp_path: Path, wrong: str) -> None:
    ledger = open_ledger(tmp_path / "budget.db", create=True)
    arguments = {"name": "county", "neighbours": "bounded", "who": "Ada"} | DATASETS[wrong]
    with pytest.raises(CongenialError):
        ledger.create_dataset(**arguments)
    assert ledger.datasets() == ()


@settings(max_examples=40)
@given(
    st.text(max_size=12),
    st.lists(st.tuples(st.text(max_size=12), st.one_of(st.integers(), st.fractions(), st.text(max_size=8)))),
)
def test_what_is_accepted_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, release: str, invariants: list[tuple[str, object]]
) -> None:
    ledger = ledger_with(tmp_path_factory.mktemp("ledger") / "budget.db", epsilon="9")
    try:
        asked = request(release, invariants=tuple(invariants))
    except LedgerError:
        return
    ledger.charge(asked)
    (spend,) = ledger.history("county")
    assert (spend.release, spend.invariants) == (release, asked.disclosed)
    assert [(one.statistic, one.value) for one in ledger.disclosed("county")] == [(s, str(v)) for s, v in invariants]


@pytest.mark.parametrize("patience", [-1, True, "5", None, float("nan"), float("inf"), 10**6])
def test_patience(tmp_path: Path, patience: Any) -> None:
    with pytest.raises(LedgerError, match="seconds"):
        open_ledger(tmp_path / "budget.db", create=True, patience=patience)
