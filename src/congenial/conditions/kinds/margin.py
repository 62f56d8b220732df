"""The sums over all other dimensions, one for each combination of labels of some."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from congenial.conditions.condition import arguments
from congenial.conditions.entry import Entry, Key, Keys, SpecList
from congenial.conditions.kinds.query import Query, asked, stated
from congenial.conditions.rows import Row
from congenial.conditions.where import where_text
from congenial.errors import ConditionError
from congenial.schema import Schema, Where

_KEYS: Keys = {
    "margin": Key("dimensions", "one sum for each level of these dimensions"),
    "where": Key("cells", "only these cells"),
}


@dataclass(frozen=True)
class Margin(Query):
    """One sum for each combination of labels."""

    dimensions: tuple[str, ...] = ()

    kind: ClassVar[str] = "margin"
    word: ClassVar[str] = "margin"
    keys: ClassVar[Mapping[SpecList, Keys]] = {"measure": _KEYS, "invariants": _KEYS}

    def _inside(self) -> list[str]:
        return [*map(repr, self.dimensions), *super()._inside()]

    def shape(self, schema: Schema) -> tuple[int, ...]:
        """Return the number of labels of each dimension."""
        return tuple(len(schema.labels(name)) for name in self.dimensions)

    def rows(self, schema: Schema) -> list[Row]:
        """Return a sum for each combination, the last dimension fastest."""
        picked = schema.cells(self.where)
        index = np.unravel_index(picked, schema.shape)
        axes = [schema.axis(dimension) for dimension in self.dimensions]
        if self.where is not None and set(self.where) & set(self.dimensions):
            raise ConditionError(
                "a margin's where names dimensions that are summed over; leave its own dimensions out of it"
            )
        shape = self.shape(schema)
        key = np.ravel_multi_index(tuple(index[axis] for axis in axes), shape)
        suffix = "" if self.where is None else f" with {where_text(self.where)}"
        rows = []
        for combination in range(int(np.prod(shape))):
            at = np.unravel_index(combination, shape)
            words = ", ".join(
                f"{schema.names[axis]}={schema.dimensions[axis].labels[i]}" for axis, i in zip(axes, at, strict=True)
            )
            rows.append(Row.of(words + suffix, picked[key == combination]))
        return rows

    @classmethod
    def from_entry(cls, entry: Entry) -> Query:
        """Read ``margin: [sex, age]``."""
        return margin(*entry.dimensions("margin"), where=entry.where("where"), **stated(entry, cls.kind))

    @property
    def title(self) -> str:
        """The sums as readers see them."""
        where = "" if self.where is None else f" with {where_text(self.where)}"
        return self.name or f"margin of {' and '.join(self.dimensions)}{where}"

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Query:
        """Return the query that plain values determine."""
        said = arguments(given, cls.kind, ("dimensions", "where", "precision", "portion", "equals"))
        dimensions = said.pop("dimensions", ())
        if not isinstance(dimensions, list | tuple):
            raise ConditionError("the dimensions of a margin are a list of names")
        return margin(*dimensions, **said)


def margin(
    *dimensions: str,
    where: Where | None = None,
    precision: object = None,
    portion: object = None,
    equals: object = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Query:
    """The sums over all other dimensions, one for each combination of labels of these.

    Examples
    --------
    >>> margin("sex").text
    "margin('sex')"
    """
    if not all(isinstance(dimension, str) for dimension in dimensions):
        raise ConditionError('the dimensions of a margin are names: write margin("sex", "age")')
    if not dimensions:
        raise ConditionError("a margin needs at least one dimension; for the sum of all cells write total()")
    if len(set(dimensions)) != len(dimensions):
        raise ConditionError(f"margin{dimensions} names a dimension twice")
    said = asked("margin", where=where, precision=precision, portion=portion, equals=equals)
    return Margin(dimensions=dimensions, name=name, mandate=mandate, **said)
