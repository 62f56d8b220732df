"""The public law as plain values, for a manifest."""

from collections.abc import Mapping, Sequence
from typing import Any

from congenial.conditions.constraints import Constraints
from congenial.conditions.interval import Interval
from congenial.conditions.rows import Limited, Row
from congenial.errors import BundleError, CongenialError
from congenial.fraction import exact_fraction
from congenial.noise import FAMILIES
from congenial.public_law import Area, MeasuredQuery, PublicLaw
from congenial.schema import Schema

EACH_CELL = "each cell"


def law_as_json(law: PublicLaw) -> dict[str, Any]:
    """Return plain values for a manifest. Rows that areas share are written once."""
    known: dict[Row, int] = {}
    tables = [_table_json(area, constraints, known) for area, constraints in law.tables]
    return {
        "dimensions": [{"name": one.name, "labels": list(one.labels)} for one in law.schema.dimensions],
        "noise": law.noise,
        "measured": [_query_json(law, query) for query in law.queries],
        "area": law.area_name,
        "rows": [_row_json(row) for row in known],
        "tables": tables,
    }


def _query_json(law: PublicLaw, query: MeasuredQuery) -> dict[str, Any]:
    each = [Row.of(law.schema.cell_name(cell), [cell]) for cell in range(law.schema.n_cells)]
    rows = EACH_CELL if list(query.rows) == each else [_row_json(row) for row in query.rows]
    made = FAMILIES[law.noise](query.precision) if query.precision else None
    base = None if made is None else str(getattr(made, "base"))  # noqa: B009  discrete laws have one
    return {"query": query.text, "precision": str(query.precision), "base": base, "rows": rows}


def law_of_json(given: Mapping[str, Any]) -> PublicLaw:
    """Read what `law_as_json` wrote; refuses what does not describe a law."""
    try:
        return _read(given)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        reason = str(wrong) if isinstance(wrong, CongenialError) else "a part is missing or has the wrong form"
        raise BundleError(f"the manifest does not describe a law: {reason}") from None


def _read(given: Mapping[str, Any]) -> PublicLaw:
    schema = Schema({one["name"]: tuple(one["labels"]) for one in given["dimensions"]})
    noise = given["noise"]
    if noise not in FAMILIES or not FAMILIES[noise].is_discrete:
        raise BundleError(f"noise {noise!r} is not known to this version")
    queries = tuple(_query(schema, noise, one) for one in given["measured"])
    rows = [_row(one, schema.n_cells) for one in given["rows"]]
    tables = tuple((one["area"], _constraints(schema, rows, one)) for one in given["tables"])
    areas = [area for area, _ in tables]
    if len(set(areas)) != len(areas) or not areas or (given["area"] is None) != (areas == [None]):
        raise BundleError("the areas of its tables are not all different, or not named")
    return PublicLaw(schema, noise, queries, given["area"], tables)


def _table_json(area: Area, constraints: Constraints, known: dict[Row, int]) -> dict[str, Any]:
    rows = [[known.setdefault(one.row, len(known)), one.lower, one.upper] for one in constraints.rows]
    ends = zip(constraints.lower, constraints.upper, strict=True)
    limits = [[cell, low, high] for cell, (low, high) in enumerate(ends) if (low, high) != (0, None)]
    return {"area": area, "rows": rows, "limits": limits}


def _row_json(row: Row) -> dict[str, Any]:
    out: dict[str, Any] = {"text": row.name, "cells": _runs(row.cells)}
    if set(row.coefficients) != {1}:
        out["weights"] = list(row.coefficients)
    return out


def _runs(cells: Sequence[int]) -> list[list[int]]:
    """Write ascending cell numbers as runs [first, last]."""
    out: list[list[int]] = []
    for cell in cells:
        if out and out[-1][1] == cell - 1:
            out[-1][1] = cell
        else:
            out.append([cell, cell])
    return out


def _row(given: Mapping[str, Any], n_cells: int) -> Row:
    runs = [(_whole(first), _whole(last)) for first, last in given["cells"]]
    if any(not 0 <= first <= last < n_cells for first, last in runs):  # before a run is written out: it may be endless
        raise BundleError("a row names cells that the schema does not have")
    cells = tuple(cell for first, last in runs for cell in range(first, last + 1))
    weights = tuple(_whole(weight) for weight in given.get("weights", (1,) * len(cells)))
    if list(cells) != sorted(set(cells)) or not cells:
        raise BundleError("a row names a cell twice, out of order, or none")
    if len(weights) != len(cells) or 0 in weights:
        raise BundleError("a row's weights do not fit its cells")
    return Row(str(given["text"]), cells, weights)


def _query(schema: Schema, noise: str, given: Mapping[str, Any]) -> MeasuredQuery:
    precision = exact_fraction(given["precision"], "a precision")
    if given["rows"] == EACH_CELL:
        rows = tuple(Row.of(schema.cell_name(cell), [cell]) for cell in range(schema.n_cells))
    else:
        rows = tuple(_row(one, schema.n_cells) for one in given["rows"])
    query = MeasuredQuery(str(given["query"]), precision, rows)
    base = None if not precision else str(getattr(FAMILIES[noise](precision), "base"))  # noqa: B009
    if base != given["base"]:
        raise BundleError("this version rounds the noise of that precision to another base; use the version it names")
    return query


def _constraints(schema: Schema, rows: Sequence[Row], given: Mapping[str, Any]) -> Constraints:
    lower: list[int | None] = [0] * schema.n_cells
    upper: list[int | None] = [None] * schema.n_cells
    for cell, low, high in given["limits"]:
        if not 0 <= _whole(cell) < schema.n_cells:
            raise BundleError("a limit names a cell that the schema does not have")
        lower[cell], upper[cell] = _end(low), _end(high)
    limited = tuple(
        Limited.of(rows[_index(number, rows)], _end(low), _end(high)) for number, low, high in given["rows"]
    )
    return Constraints(schema, limited, tuple(map(Interval, lower, upper)))


def _index(number: object, rows: Sequence[Row]) -> int:
    found = _whole(number)
    if not 0 <= found < len(rows):
        raise BundleError("a table names a row that is not listed")
    return found


def _end(value: object) -> int | None:
    return None if value is None else _whole(value)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise BundleError("a number that must be whole is not")
    return value
