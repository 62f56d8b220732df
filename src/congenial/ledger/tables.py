"""The tables of a ledger, and what is asked of them and written to them in one open transaction."""

from dataclasses import dataclass
from typing import TypeVar

from congenial.errors import TamperedError
from congenial.ledger.as_text import Row
from congenial.ledger.chain import Chain
from congenial.ledger.connection import Connection
from congenial.ledger.dataset_name import folded
from congenial.ledger.records import DATASET, FIELDS, SPEND, WITHDRAWAL, Dataset, Spend
from congenial.ledger.withdrawal import Withdrawal

VERSION_TABLE = "congenial_ledger_version"

TABLES = {DATASET: "congenial_datasets", SPEND: "congenial_spends", WITHDRAWAL: "congenial_withdrawals"}
"""Where records of each kind are. A dataset has its folded name there besides: an index, and no part of the record."""

_Record = TypeVar("_Record", Dataset, Spend, Withdrawal)


@dataclass(frozen=True)
class Book:
    """A ledger inside one transaction."""

    connection: Connection

    def dataset(self, name: str) -> Dataset | None:
        """Return a dataset."""
        row = self._one(DATASET, "WHERE name = ?", name)
        return None if row is None else _read(Dataset, row, f"dataset {name!r}")

    def names(self) -> list[str]:
        """Return the names of all datasets."""
        return self._texts("SELECT name FROM congenial_datasets ORDER BY name")

    def spelling(self, name: str) -> str | None:
        """Return how a name is written here, in case and form; compared without the column, which could be edited."""
        return next((own for own in self.names() if folded(own) == folded(name)), None)

    def last_spend(self, dataset: str) -> Spend | None:
        """Return the newest spend of a dataset."""
        return self._spend("WHERE dataset = ? ORDER BY number DESC LIMIT 1", dataset)

    def namesake(self, dataset: str, release: str) -> Spend | None:
        """Return the spend of a release whose name is taken for this one."""
        wanted = folded(release)
        names = self._texts("SELECT release FROM congenial_spends WHERE dataset = ?", dataset)  # an index has them all
        own = next((name for name in names if folded(name) == wanted), None)
        return None if own is None else self._spend("WHERE dataset = ? AND release = ?", dataset, own)

    def releases(self, dataset: str) -> list[str]:
        """Return the names of all releases of a dataset that were charged."""
        return self._texts("SELECT release FROM congenial_spends WHERE dataset = ? ORDER BY number", dataset)

    def last_withdrawal(self, dataset: str, release: str | None = None) -> Withdrawal | None:
        """Return the newest withdrawal of a dataset, or of one of its releases."""
        mine, values = ("", (dataset,)) if release is None else (" AND release = ?", (dataset, release))
        row = self._one(WITHDRAWAL, f"WHERE dataset = ?{mine} ORDER BY number DESC LIMIT 1", *values)
        return None if row is None else _read(Withdrawal, row, f"withdrawal {row['number']} of dataset {dataset!r}")

    def chain(self, name: str) -> Chain | None:
        """Return all records of a dataset as they are stored."""
        dataset = self._one(DATASET, "WHERE name = ?", name)
        if dataset is None:
            return None
        found = [
            (kind, row)
            for kind in (SPEND, WITHDRAWAL)
            for row in self._records(kind, "WHERE dataset = ? ORDER BY number", name)
        ]
        return Chain(dataset, tuple(sorted(found, key=_place)))

    def orphans(self) -> list[str]:
        """Return the datasets that records name and that are not there."""
        return self._texts(
            "SELECT dataset FROM congenial_spends WHERE dataset NOT IN (SELECT name FROM congenial_datasets) UNION"
            " SELECT dataset FROM congenial_withdrawals WHERE dataset NOT IN (SELECT name FROM congenial_datasets)"
        )

    def add_dataset(self, dataset: Dataset) -> None:
        """Write a new dataset."""
        self._add(DATASET, {**dataset.row, "folded": folded(dataset.name)})

    def add_spend(self, spend: Spend) -> None:
        """Write a new spend."""
        self._add(SPEND, spend.row)

    def add_withdrawal(self, withdrawal: Withdrawal) -> None:
        """Write a new withdrawal."""
        self._add(WITHDRAWAL, withdrawal.row)

    def _add(self, kind: str, row: Row) -> None:
        """Write a record."""
        fields, places = ", ".join(row), ", ".join("?" for _ in row)
        statement = f"INSERT INTO {TABLES[kind]} ({fields}) VALUES ({places})"  # noqa: S608  names of our own
        self.connection.execute(statement, *row.values())

    def _records(self, kind: str, which: str, *values: object) -> list[Row]:
        """Return the records of a kind, as they are stored."""
        fields = FIELDS[kind]
        statement = f"SELECT {', '.join(fields)} FROM {TABLES[kind]} {which}"  # noqa: S608  names of our own
        return [dict(zip(fields, row, strict=True)) for row in self.connection.rows(statement, *values)]

    def _one(self, kind: str, which: str, *values: object) -> Row | None:
        return next(iter(self._records(kind, which, *values)), None)

    def _spend(self, which: str, *values: object) -> Spend | None:
        row = self._one(SPEND, which, *values)
        return None if row is None else _read(Spend, row, f"spend {row['number']} of dataset {row['dataset']!r}")

    def _texts(self, statement: str, *values: object) -> list[str]:
        """Return the one column of an answer."""
        return [str(text) for (text,) in self.connection.rows(statement, *values)]


def _place(record: tuple[str, Row]) -> float:
    """Return where a record belongs; one whose number was edited away goes last."""
    number = record[1]["number"]
    return number if isinstance(number, int) else float("inf")


def _read(kind: type[_Record], row: Row, what: str) -> _Record:
    try:
        return kind.of_row(row)
    except ValueError as error:
        raise TamperedError(f"{what} was edited after it was written: {error}", (f"{what}: {error}",)) from None
