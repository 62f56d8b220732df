"""Many processes at once, and processes that die: what was promised in docs/ledger.md."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from congenial.errors import TamperedError
from congenial.ledger import Receipt, open_ledger
from ledgers import ledger_with

PROGRAM = Path(__file__).parents[1] / "ledger_race.py"


def run(place: str, how: str) -> str:
    done = subprocess.run([sys.executable, str(PROGRAM), place, how], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_sixteen_processes_spend_exactly_the_cap(place: str) -> None:
    """16 x 5 tries at 1 each, for a cap of 20."""
    ledger = ledger_with(place, epsilon="20")
    assert json.loads(run(place, "charge")) == {"spent": 20, "refused": 60, "busy": 0}
    assert ledger.status("county").left == 0
    assert ledger.verify().n_spends == 20


def test_sixteen_processes_create_one_ledger(place: str) -> None:
    assert json.loads(run(place, "create"))["spent"] == 16
    assert ledger_with(place, epsilon="1").verify().n_spends == 0


def test_without_the_lock_the_primary_key_still_keeps_the_cap(place: str) -> None:
    """Of those that saw the same last spend only one can write the next; the others are told to try again."""
    ledger = ledger_with(place, epsilon="20")
    found = json.loads(run(place, "unlocked"))
    assert found["busy"] > 0
    assert 0 < found["spent"] <= 20
    assert ledger.verify().n_spends == found["spent"]


def test_the_race_catches_a_sum_that_is_read_before_the_write(place: str) -> None:
    """The mutant: the race does overspend when looking and writing are two transactions, and verify says so."""
    ledger = ledger_with(place, epsilon="20")
    assert json.loads(run(place, "mutant"))["spent"] > 20
    with pytest.raises(TamperedError, match="above the cap"):
        ledger.verify()


def test_killed_processes_leave_a_ledger_that_verifies(place: str) -> None:
    """No receipt without a spend; the other way round is possible, and at most once for each process that died."""
    ledger = ledger_with(place, epsilon="20")
    receipts = [Receipt.from_json(line) for line in run(place, "kill").splitlines() if line.endswith("}")]
    assert len(receipts) >= 20
    history = {spend.release: spend for spend in open_ledger(place).history("county")}
    assert all(history[receipt.release].head == receipt.head for receipt in receipts)
    assert len(receipts) <= len(history) <= len(receipts) + 20
    assert ledger.verify(head=max(receipts, key=lambda one: one.number).head).n_spends == len(history)
