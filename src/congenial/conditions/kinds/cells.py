"""Every single cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from congenial.conditions.condition import arguments
from congenial.conditions.entry import Entry, Key, Keys, SpecList
from congenial.conditions.kinds.query import Query, asked, stated
from congenial.conditions.rows import Row
from congenial.conditions.where import cell_names, where_text
from congenial.schema import Schema, Where

_KEYS: Keys = {"cells": Key("cells", "each of these cells")}


@dataclass(frozen=True)
class Cells(Query):
    """The cells themselves."""

    kind: ClassVar[str] = "cells"
    word: ClassVar[str] = "cells"
    keys: ClassVar[Mapping[SpecList, Keys]] = {"measure": _KEYS, "invariants": _KEYS}

    def rows(self, schema: Schema) -> list[Row]:
        """Return a row for each cell."""
        cells = schema.cells(self.where).tolist()
        return [Row.of(name, [cell]) for name, cell in zip(cell_names(schema, cells), cells, strict=True)]

    @classmethod
    def from_entry(cls, entry: Entry) -> Query:
        """Read ``cells: all``."""
        return cells(entry.where("cells"), **stated(entry, cls.kind))

    @property
    def title(self) -> str:
        """The cells as readers see them."""
        where = "" if self.where is None else f" with {where_text(self.where)}"
        return self.name or f"every cell{where}"

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Query:
        """Return the query that plain values determine."""
        return cells(**arguments(given, cls.kind, ("where", "precision", "portion", "equals")))


def cells(
    where: Where | None = None,
    *,
    precision: object = None,
    portion: object = None,
    equals: object = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Query:
    """Every single cell. It has a precision, or a portion of the budget relative to those of others (1).

    Examples
    --------
    >>> cells(precision="1/2").precision
    Fraction(1, 2)
    """
    said = asked("cells", where=where, precision=precision, portion=portion, equals=equals)
    return Cells(name=name, mandate=mandate, **said)
