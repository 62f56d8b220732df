"""The tables of a ledger, and one open transaction on them."""

from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, insert, select, union
from sqlalchemy.sql import Select

from congenial.errors import TamperedError
from congenial.ledger.as_text import Row
from congenial.ledger.chain import Chain
from congenial.ledger.dataset_name import folded
from congenial.ledger.records import DATASET, FIELDS, SPEND, WITHDRAWAL, Dataset, Spend
from congenial.ledger.withdrawal import Withdrawal

VERSION_TABLE = "congenial_ledger_version"
VERSION = "v0002"
"""The newest revision in `migrations/versions`, which has keys, constraints and triggers."""

_Record = TypeVar("_Record", Dataset, Spend, Withdrawal)
_metadata = MetaData()
DATASETS = Table("congenial_datasets", _metadata, *(Column(field, Text) for field in (*FIELDS[DATASET], "folded")))
_DATASET_RECORD = tuple(DATASETS.c[field] for field in FIELDS[DATASET])  # the folded name is an index, not a record
SPENDS, WITHDRAWALS = (
    Table(name, _metadata, *(Column(field, Integer if field == "number" else Text) for field in FIELDS[kind]))
    for name, kind in (("congenial_spends", SPEND), ("congenial_withdrawals", WITHDRAWAL))
)


@dataclass(frozen=True)
class Book:
    """A ledger inside one transaction."""

    connection: Connection

    def dataset(self, name: str) -> Dataset | None:
        """Return a dataset."""
        row = self._one(select(*_DATASET_RECORD).where(DATASETS.c.name == name))
        return None if row is None else _read(Dataset, row, f"dataset {name!r}")

    def names(self) -> list[str]:
        """Return the names of all datasets."""
        return [str(name) for name in self.connection.scalars(select(DATASETS.c.name).order_by(DATASETS.c.name))]

    def spelling(self, name: str) -> str | None:
        """Return how a name is written here, in case and form; compared without the column, which could be edited."""
        return next((own for own in self.names() if folded(own) == folded(name)), None)

    def last_spend(self, dataset: str) -> Spend | None:
        """Return the newest spend of a dataset."""
        mine = select(SPENDS).where(SPENDS.c.dataset == dataset)
        return self._spend(mine.order_by(SPENDS.c.number.desc()).limit(1))

    def namesake(self, dataset: str, release: str) -> Spend | None:
        """Return the spend of a release whose name is taken for this one."""
        mine, wanted = SPENDS.c.dataset == dataset, folded(release)
        names = self.connection.scalars(select(SPENDS.c.release).where(mine)).all()
        own = next((name for name in names if folded(str(name)) == wanted), None)
        return None if own is None else self._spend(select(SPENDS).where(mine, SPENDS.c.release == own))

    def releases(self, dataset: str) -> list[str]:
        """Return the names of all releases of a dataset that were charged."""
        mine = select(SPENDS.c.release).where(SPENDS.c.dataset == dataset)
        return [str(name) for name in self.connection.scalars(mine.order_by(SPENDS.c.number))]

    def last_withdrawal(self, dataset: str, release: str | None = None) -> Withdrawal | None:
        """Return the newest withdrawal of a dataset, or of one of its releases."""
        mine = select(WITHDRAWALS).where(WITHDRAWALS.c.dataset == dataset)
        mine = mine if release is None else mine.where(WITHDRAWALS.c.release == release)
        row = self._one(mine.order_by(WITHDRAWALS.c.number.desc()).limit(1))
        return None if row is None else _read(Withdrawal, row, f"withdrawal {row['number']} of dataset {dataset!r}")

    def chain(self, name: str) -> Chain | None:
        """Return all records of a dataset as they are stored."""
        dataset = self._one(select(*_DATASET_RECORD).where(DATASETS.c.name == name))
        if dataset is None:
            return None
        found: list[tuple[str, Row]] = []
        for kind, table in ((SPEND, SPENDS), (WITHDRAWAL, WITHDRAWALS)):
            query = select(table).where(table.c.dataset == name).order_by(table.c.number)
            found += [(kind, dict(row)) for row in self.connection.execute(query).mappings()]
        return Chain(dataset, tuple(sorted(found, key=_place)))

    def orphans(self) -> list[str]:
        """Return the datasets that records name and that are not there."""
        known = select(DATASETS.c.name)
        missing = [select(table.c.dataset).where(table.c.dataset.not_in(known)) for table in (SPENDS, WITHDRAWALS)]
        return [str(name) for name in self.connection.scalars(union(*missing))]

    def add_dataset(self, dataset: Dataset) -> None:
        """Write a new dataset."""
        self.connection.execute(insert(DATASETS).values(**dataset.row, folded=folded(dataset.name)))

    def add_spend(self, spend: Spend) -> None:
        """Write a new spend."""
        self.connection.execute(insert(SPENDS).values(spend.row))

    def add_withdrawal(self, withdrawal: Withdrawal) -> None:
        """Write a new withdrawal."""
        self.connection.execute(insert(WITHDRAWALS).values(withdrawal.row))

    def _one(self, query: Select[Any]) -> Row | None:
        row = self.connection.execute(query).mappings().first()
        return None if row is None else dict(row)

    def _spend(self, query: Select[Any]) -> Spend | None:
        row = self._one(query)
        return None if row is None else _read(Spend, row, f"spend {row['number']} of dataset {row['dataset']!r}")


def _place(record: tuple[str, Row]) -> float:
    """Return where a record belongs; one whose number was edited away goes last."""
    number = record[1]["number"]
    return number if isinstance(number, int) else float("inf")


def _read(kind: type[_Record], row: Row, what: str) -> _Record:
    try:
        return kind.of_row(row)
    except ValueError as error:
        raise TamperedError(f"{what} was edited after it was written: {error}", (f"{what}: {error}",)) from None
