"""Rows that were grouped elsewhere, by an engine for many machines: each distinct row once. Confidential."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from congenial.errors import ReadingError
from congenial.reading.files import Column, Source
from congenial.reading.session import GROUPED, Session


@dataclass(frozen=True, repr=False)
class Grouped:
    """What is left of the data when equal rows are put together.

    Attributes
    ----------
    name : str
        What the data are called in messages.
    columns : tuple of str
        The names of the columns.
    rows : pyarrow.Table
        The columns in their order, as ``c0``, ``c1``, ..., and last how many rows are alike.
    """

    name: str
    columns: tuple[str, ...]
    rows: Any = field(repr=False)


def grouped_source(database: Session, grouped: Grouped) -> Source:
    """Return the rows as a source, like a file of theirs."""
    kinds = database.rows(f"DESCRIBE SELECT * FROM {GROUPED}")  # noqa: S608
    if kinds is None or len(kinds) != len(grouped.columns) + 1:
        raise ReadingError(f"the grouped rows of {grouped.name} do not have the columns that were asked for")
    names = [*grouped.columns, ""]  # a column of the data has a name
    columns = tuple(Column(name, kind[1]) for name, kind in zip(names, kinds, strict=True))
    return Source((Path(grouped.name),), True, columns, is_grouped=True)
