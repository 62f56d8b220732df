"""Processes that race for a budget, and processes that are killed while they charge; a program of its own.

It forks before any thread is started and after all is imported, so each process starts in a millisecond and not in the
second that imports take.

    python ledger_race.py PLACE charge|unlocked|mutant|create|kill
"""

import json
import multiprocessing as mp
import os
import random
import signal
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from congenial.errors import BudgetError, LedgerBusyError
from congenial.ledger import Ledger, Request, open_ledger
from congenial.ledger.next_record import ChainEnd, next_spend
from congenial.ledger.records import DATASET, SPEND, link_hash
from congenial.ledger.requests_and_canonical_text import moment
from ledgers import certificate, ledger_with, request

N_PROCESSES = 16
N_TRIES = 5
N_KILLS = 20
PATIENCE = 600  # seconds, on however busy a machine


def charge(ledger: Ledger, asked: Request, _: Barrier) -> str:
    try:
        ledger.charge(asked)
    except BudgetError:
        return "refused"
    except LedgerBusyError:
        return "busy"
    return "spent"


def charge_by_stale_sum(ledger: Ledger, asked: Request, barrier: Barrier) -> str:
    """The mutant: look in one transaction what is left, write in another."""
    last = ledger._store.read(lambda book: book.last_spend(asked.dataset))
    barrier.wait(PATIENCE)
    if last is not None and last.spent + 1 > 20:
        return "refused"

    def work(book: Any) -> None:
        dataset = book.dataset(asked.dataset)
        roomy = replace(dataset, cap=10**6)
        roomy = replace(roomy, hash=link_hash(DATASET, roomy.row))
        spend = next_spend(ChainEnd(roomy, book.last_spend(asked.dataset), None), None, asked, moment(None), "")
        spend = replace(spend, previous=dataset.hash) if spend.number == 1 else spend
        book.add_spend(replace(spend, hash=link_hash(SPEND, spend.row)))

    ledger._store.write(work)
    return "spent"


def without_lock(ledger: Ledger, barrier: Barrier) -> Ledger:
    """The other mutant: no lock, and on PostgreSQL a snapshot from before the others' commits.

    Of the first charge of each process all have read before one of them writes, however busy the machine.
    """
    store, has_raced = ledger._store, False

    class Unlocked:
        def __getattr__(self, name: str) -> Any:
            return getattr(store.backend, name)

        def connect(self) -> Any:
            connection = store.backend.connect()
            if store.backend.dialect.startswith("postgresql"):
                from psycopg import IsolationLevel

                connection.driver.isolation_level = IsolationLevel.REPEATABLE_READ
            return connection

        def begin(self, connection: Any, writes: bool) -> None:
            nonlocal has_raced
            store.backend.begin(connection, False)
            if writes and not has_raced:
                has_raced = True
                connection.rows("SELECT count(*) FROM congenial_spends")
                barrier.wait(PATIENCE)

    return Ledger(replace(store, backend=Unlocked()))


def try_often(place: str, way: str, process: int, barrier: Barrier, out: Any) -> None:
    if way == "create":
        barrier.wait(PATIENCE)
        open_ledger(place, create=True, patience=PATIENCE)
        out.put(["spent"])
        return
    ledger = open_ledger(place, patience=PATIENCE)
    if way == "unlocked":
        ledger = without_lock(ledger, barrier)
    attempt = charge_by_stale_sum if way == "mutant" else charge
    barrier.wait(PATIENCE)
    found = [attempt(ledger, request(f"{process}-{number}"), barrier) for number in range(N_TRIES)]
    out.put(found)


def race(place: str, way: str) -> None:
    context = mp.get_context("fork")
    barrier, out = context.Barrier(N_PROCESSES), context.Queue()
    arguments = [(place, way, number, barrier, out) for number in range(N_PROCESSES)]
    racers = [context.Process(target=try_often, args=one, daemon=True) for one in arguments]
    for racer in racers:
        racer.start()
    found = [outcome for _ in racers for outcome in out.get(timeout=PATIENCE)]
    for racer in racers:
        racer.join()
    sys.stdout.write(json.dumps({outcome: found.count(outcome) for outcome in ("spent", "refused", "busy")}))


def kill(place: str) -> None:
    """Kill a process that charges as fast as it can, at random moments; print the receipts that it got to see."""
    rng = random.Random("kill")
    for number in range(N_KILLS):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            ledger = open_ledger(place, patience=PATIENCE)
            for count in range(10**6):
                receipt = ledger.charge(request(f"{number}-{count}", certificate("1e-9")))
                os.write(write_end, json.dumps(receipt.as_json()).encode() + b"\n")
        os.close(write_end)
        first = os.read(read_end, 1)  # it is under way
        time.sleep(rng.random() / 20)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(read_end, "rb") as pipe:
            sys.stdout.write((first + pipe.read()).decode())


def import_all() -> None:
    """Charge another ledger, which imports what a ledger needs; and what one on a server needs besides."""
    with tempfile.TemporaryDirectory() as folder:
        ledger_with(str(Path(folder, "other.db")), epsilon="20").charge(request("other"))
    with suppress(ImportError):
        import psycopg.conninfo  # noqa: F401


if __name__ == "__main__":
    _, where, how = sys.argv
    import_all()
    kill(where) if how == "kill" else race(where, how)
