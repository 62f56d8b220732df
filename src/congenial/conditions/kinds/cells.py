"""Every single cell."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from congenial.conditions.condition import arguments
from congenial.conditions.entry import Entry, Key, Keys, SpecList
from congenial.conditions.kinds.query import Query, asked, stated
from congenial.conditions.rows import Row
from congenial.conditions.where import cell_names, where_text
from congenial.errors import ConditionError
from congenial.fraction import exact_fraction
from congenial.schema import Schema, Where

_KEYS: Keys = {"cells": Key("cells", "each of these cells")}
_MEASURED: Keys = {**_KEYS, "zeros": Key("text", "`unweighted`: no weight on a cell's lower limit; or that weight")}
_UNWEIGHTED = "unweighted"


@dataclass(frozen=True)
class Cells(Query):
    """The cells themselves.

    Attributes
    ----------
    zeros : Fraction or None
        Of measured cells: what the weight of a cell's lower limit is multiplied by. None leaves it to the budget, or,
        where the precision is given, to the noise, which has 1.
    """

    zeros: Fraction | None = None

    kind: ClassVar[str] = "cells"
    word: ClassVar[str] = "cells"
    keys: ClassVar[Mapping[SpecList, Keys]] = {"measure": _MEASURED, "invariants": _KEYS}

    def rows(self, schema: Schema) -> list[Row]:
        """Return a row for each cell."""
        cells = schema.cells(self.where).tolist()
        return [Row.of(name, [cell]) for name, cell in zip(cell_names(schema, cells), cells, strict=True)]

    @classmethod
    def from_entry(cls, entry: Entry) -> Query:
        """Read ``cells: all``."""
        zeros = {"zeros": entry.said["zeros"]} if "zeros" in entry.said else {}
        return cells(entry.where("cells"), **stated(entry, cls.kind), **zeros)

    @property
    def title(self) -> str:
        """The cells as readers see them."""
        where = "" if self.where is None else f" with {where_text(self.where)}"
        return self.name or f"every cell{where}"

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Query:
        """Return the query that plain values determine."""
        return cells(**arguments(given, cls.kind, ("where", "precision", "portion", "equals", "zeros")))


def cells(
    where: Where | None = None,
    *,
    precision: object = None,
    portion: object = None,
    equals: object = None,
    zeros: object = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Query:
    """Every single cell. It has a precision, or a portion of the budget relative to those of others (1).

    Parameters
    ----------
    zeros : "unweighted", str, int or Fraction, optional
        How much more a cell's lower limit weighs than the noise alone has it. A budget in epsilon chooses the weight
        that allows most precision (docs/claims/weighted-zeros.md), unless `zeros` is ``"unweighted"``, which is 1; a
        weight above 1 can be given beside a precision.

    Examples
    --------
    >>> cells(precision="1/2").precision
    Fraction(1, 2)
    """
    said = asked("cells", where=where, precision=precision, portion=portion, equals=equals)
    return Cells(name=name, mandate=mandate, zeros=_weight(zeros, said["precision"]), **said)


def _weight(zeros: object, precision: Fraction | None) -> Fraction | None:
    if zeros is None:
        return None
    weight = Fraction(1) if zeros == _UNWEIGHTED else exact_fraction(zeros, "zeros")
    if weight < 1:
        raise ConditionError(f'zeros: a weight is at least 1, which is "unweighted", and it is {weight}')
    if weight != 1 and precision is None:
        raise ConditionError(
            f"zeros: a budget chooses the weight, so {weight} can only be given beside a precision; leave it out, or"
            ' write "unweighted"'
        )
    return weight
