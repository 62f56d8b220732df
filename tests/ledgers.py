"""Small certificates and requests for tests of the ledger."""

import os
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any

from congenial.ledger import Ledger, Request, open_ledger
from congenial.privacy.certificate import Certificate

NOW = datetime(2026, 1, 16, 11, 0, 0, tzinfo=UTC)  # no clock that the tests run by is before it
SECRET = "Xyzzy"  # a password that must not come out anywhere
DIGEST = "0123456789abcdef" * 4

NUMBERS = count(1)


@dataclass(frozen=True)
class Server:
    """A running PostgreSQL server that this test session started."""

    folder: Path
    socket: str

    def url(self, database: str = "postgres", user: str = "postgres", password: str = "") -> str:
        return f"postgresql://{user}:{password}@/{database}?host={self.socket}"

    def run(self, *statements: str, database: str = "postgres") -> list[Any]:
        """Run statements outside transactions, and return the rows of the last one."""
        import psycopg

        with psycopg.connect(host=self.socket, user="postgres", dbname=database, autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def reload(self) -> None:
        """Have the rules read again, and wait until a new connection is judged by them."""
        loaded = "SELECT pg_conf_load_time()"
        before = self.run(loaded)
        self.run("SELECT pg_reload_conf()")
        while self.run(loaded) == before:
            pass

    def new_database(self) -> str:
        name = f"ledger_{os.getpid()}_{next(NUMBERS)}"
        self.run(f"CREATE DATABASE {name}")
        return name


def certificate(
    epsilon: str | None = "1",
    rho: str | None = "1/2",
    *,
    neighbours: str = "bounded",
    orders: str = "all",
    k: int = 1,
) -> Certificate:
    """A certificate with these figures; without epsilon it is one of Gaussian noise."""
    kind = "limited_cells" if epsilon is not None else "gaussian_unimodular"
    loss, bound = (None if figure is None else Fraction(figure) for figure in (epsilon, rho))
    everywhere = bound if orders == "all" or bound is None else 2 * bound
    return Certificate(kind, neighbours, k, loss, bound, orders, everywhere, Fraction(1), "a statement")


def request(
    release: str = "first",
    cost: Certificate | None = None,
    *,
    dataset: str = "county",
    invariants: tuple[tuple[str, object], ...] = (("total", 10),),
) -> Request:
    return Request(dataset, release, cost or certificate(), invariants, DIGEST, "Ada", "fedcba98" * 8)


def ledger_with(place: str | Path, *, epsilon: object = None, rho: object = None, delta: object = None) -> Ledger:
    """A new ledger with the dataset "county", bounded."""
    ledger = open_ledger(place, create=True)
    ledger.create_dataset("county", epsilon=epsilon, rho=rho, delta=delta, neighbours="bounded", who="Ada", now=NOW)
    return ledger


def codes_as_texts(error: BaseException | None) -> str:
    """All that an error and what lies behind it can print."""
    found = []
    while error is not None:
        found += [str(error), repr(error), *map(repr, error.args), *traceback.format_exception_only(error)]
        error = error.__cause__ or error.__context__
    return "\n".join(found)
