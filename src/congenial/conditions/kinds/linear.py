"""Any integer combination of cells."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from congenial.conditions.condition import arguments, plain
from congenial.conditions.entry import LIMITS, Entry, Key, Keys, SpecList
from congenial.conditions.interval import Interval
from congenial.conditions.kinds.query import Query, asked, limited, nested, stated
from congenial.conditions.rows import Row
from congenial.errors import ConditionError, SchemaError
from congenial.schema import Schema

LARGEST_COEFFICIENT = 2**31

_TERMS = Key("terms", "a whole-number combination of cells")


@dataclass(frozen=True)
class OfCell:
    """The coefficient of one cell, which is named by its labels."""

    cell: Any
    times: Any


@dataclass(frozen=True)
class Linear(Query):
    """One integer combination of cells.

    Attributes
    ----------
    coefficients : tuple of OfCell, or nested tuples of the schema's shape
        Cells that are not named have coefficient 0.
    """

    coefficients: Any = None
    at_least: int | None = None
    at_most: int | None = None

    kind: ClassVar[str] = "linear"
    word: ClassVar[str] = "linear"
    keys: ClassVar[Mapping[SpecList, Keys]] = {
        "measure": {"linear": _TERMS},
        "invariants": {"linear": _TERMS},
        "conditions": {"linear": Key("terms", "limits of a whole-number combination of cells"), **LIMITS},
    }

    @property
    def stated_range(self) -> Interval:
        """Limits of the combination, where such are stated."""
        return Interval(self.at_least, self.at_most)

    def rows(self, schema: Schema) -> list[Row]:
        """Return the combination."""
        of_cell: dict[int, int] = {}
        if self._names_cells:
            for entry in self.coefficients:
                cell = schema.cell(entry.cell)
                if cell in of_cell:
                    raise ConditionError(f"linear: cell {schema.cell_name(cell)} has two coefficients")
                of_cell[cell] = _coefficient(entry.times)
        else:
            array = np.asarray(self.coefficients, object)
            if array.shape != schema.shape:
                raise SchemaError(
                    f"linear: coefficients have shape {array.shape}, the schema {schema} needs {schema.shape}"
                )
            of_cell = {cell: _coefficient(times) for cell, times in enumerate(array.reshape(-1).tolist())}
        kept = sorted((cell, times) for cell, times in of_cell.items() if times)
        if not kept:
            raise ConditionError("linear: every coefficient is 0; name at least one cell")
        shown = " ".join(f"{times:+d} x [{schema.cell_name(cell)}]" for cell, times in kept[:3])
        more = f" and {len(kept) - 3} more cells" if len(kept) > 3 else ""
        name = self.name or shown.removeprefix("+") + more
        return [Row(name, tuple(cell for cell, _ in kept), tuple(times for _, times in kept))]

    @property
    def _names_cells(self) -> bool:
        is_listed = isinstance(self.coefficients, tuple)
        return is_listed and all(isinstance(entry, OfCell) for entry in self.coefficients)

    @classmethod
    def from_entry(cls, entry: Entry) -> Query:
        """Read ``linear: [{times: 2, of: female}, {times: -1, of: male}]``."""
        terms = entry.said["linear"]
        name = entry.name or entry.picks.terms_text(terms)
        return linear(entry.picks.coefficients(terms), name=name, **stated(entry, cls.kind))

    def as_json(self) -> dict[str, Any]:
        """Return plain values; cells that are named stand beside their coefficients."""
        if not self._names_cells:
            return super().as_json()
        named = [{"cell": plain(entry.cell), "times": entry.times} for entry in self.coefficients]
        return {**super().as_json(), "coefficients": named}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Query:
        """Return the query that plain values determine."""
        parts = ("coefficients", "precision", "portion", "equals", "at_least", "at_most", "name")
        said = arguments(given, cls.kind, parts)
        coefficients = said.pop("coefficients", None)
        if isinstance(coefficients, list) and any(isinstance(entry, Mapping) for entry in coefficients):
            if not all(isinstance(entry, Mapping) and set(entry) == {"cell", "times"} for entry in coefficients):
                raise ConditionError("linear: a coefficient of a named cell has a `cell` and a `times`")
            coefficients = tuple(OfCell(nested(entry["cell"]), entry["times"]) for entry in coefficients)
        return linear(coefficients, **said)


def linear(
    coefficients: object,
    *,
    precision: object = None,
    portion: object = None,
    equals: int | None = None,
    at_least: int | None = None,
    at_most: int | None = None,
    name: str | None = None,
    mandate: str | None = None,
) -> Query:
    """Any integer combination of cells.

    Parameters
    ----------
    coefficients : mapping from labels to integers, or nested lists or an array of the schema's shape
        Cells that a mapping does not mention have coefficient 0.

    Examples
    --------
    >>> linear({("female", "18+"): 2, ("male", "18+"): -1}, at_least=0).at_least
    0
    """
    if isinstance(coefficients, Mapping):
        coefficients = tuple(OfCell(labels, nested(times)) for labels, times in coefficients.items())
    return Linear(
        coefficients=nested(coefficients),
        name=name,
        mandate=mandate,
        **asked("linear", precision=precision, portion=portion, equals=equals),
        **limited("linear", equals, at_least, at_most),
    )


def _coefficient(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ConditionError(
            f"linear: a coefficient must be a whole number, not {value!r}; multiply the row by a common denominator"
        )
    if abs(int(value)) > LARGEST_COEFFICIENT:
        raise ConditionError(f"linear: coefficient {value} is beyond 2^31; divide the row by a common factor")
    return int(value)
