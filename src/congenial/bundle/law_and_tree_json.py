"""The public law as plain values, for a manifest. The values of many areas stand in a file of their own.

A law's rows are written once, whoever shares them. Areas whose conditions differ only in values form a group: the group
says which rows and limits hold, and the values of its equalities are `values` for one table, columns of areas.parquet
for several.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import Codes
from congenial.bundle.canonical_json import read_as
from congenial.conditions.areas_and_bounds import Area, AreaGroup, Areas
from congenial.conditions.base import Condition
from congenial.conditions.constraints import Constraints
from congenial.conditions.registry import from_json as condition_of_json
from congenial.conditions.rows_and_intervals import Interval, Limited, Row
from congenial.errors import BundleError, CongenialError, HierarchyError, PrivacyError
from congenial.exact import exact_fraction
from congenial.law import MeasuredQuery, PublicLaw
from congenial.memory_and_threads import explain_memory
from congenial.noise import FAMILIES
from congenial.plan import Plan
from congenial.privacy.budget import Budget
from congenial.privacy.certificate_inputs import MEASURED
from congenial.privacy.tree_loss import total_rho
from congenial.schema import Dimension, Schema
from congenial.tree.areas_across import AreasAcross
from congenial.tree.drawing import Subtree, discrete_noises
from congenial.tree.exact_sums import ExactRows, ExactSums, exact_rows
from congenial.tree.tree_and_zeros import Tree, Zeros

EACH_CELL = "each cell"
_LONG = 10**18  # from here on a number is written as text
_OF_ROW, _OF_CELL, _OF_LIMIT = 120, 5, 16  # numbers of 64 bits that a row, each of its cells, and a cell's limits take


def law_as_json(law: PublicLaw) -> dict[str, Any]:
    """Return plain values for a manifest."""
    known: dict[Row, int] = {}
    groups = [_group_json(group, known) for group in law.areas.groups]
    return {
        "dimensions": [dimension_json(dimension) for dimension in law.schema.dimensions],
        "noise": law.noise,
        "measured": [_query_json(law, query) for query in law.queries],
        "area": law.areas.name,
        "rows": [_row_json(row) for row in known],
        "groups": groups,
        "values": [int(value) for value in law.areas.groups[0].values[0]] if law.areas.name is None else None,
        "tree": None,
        **_method_json(law),
    }


def _method_json(law: PublicLaw) -> dict[str, Any]:
    """Return the method of a measured law and its rule; of a conditional one nothing, as before there were others."""
    if not law.is_measured:
        return {}
    name, version = law.rule or ("", 0)
    return {"method": law.method, "rule": {"name": name, "version": version}}


def _method(entry: Mapping[str, Any]) -> dict[str, Any]:
    if "method" not in entry:
        return {}
    rule = read_as(str, entry["rule"]["name"]), read_as(int, entry["rule"]["version"])
    if entry["method"] != MEASURED:
        raise BundleError(f"method {str(entry['method'])[:40]!r} is not known to this version")
    return {"method": MEASURED, "rule": rule}


def dimension_json(dimension: Dimension) -> dict[str, Any]:
    """Return a dimension; groups and widths are said where there are some."""
    groups = [{"name": name, "labels": list(labels)} for name, labels in dimension.groups]
    return {
        "name": dimension.name,
        "labels": list(dimension.labels),
        **({"groups": groups} if groups else {}),
        **({} if dimension.widths is None else {"widths": [str(width) for width in dimension.widths]}),
    }


def _query_json(law: PublicLaw, query: MeasuredQuery) -> dict[str, Any]:
    is_each = len(query.rows) == law.schema.n_cells and all(
        row == Row.of(law.schema.cell_name(cell), [cell]) for cell, row in enumerate(query.rows)
    )
    rows = EACH_CELL if is_each else [_row_json(row) for row in query.rows]
    return {
        "query": query.text,
        "precision": str(query.precision),
        "base": _base(law.noise, query),
        "floor": str(query.zero_weight),
        "rows": rows,
    }


def _base(noise: str, query: MeasuredQuery) -> str | None:
    """Return the rational number whose powers are the weights: a version that rounds otherwise has another law."""
    return str(FAMILIES[noise](query.precision).base) if query.precision else None


def _group_json(group: AreaGroup, known: dict[Row, int]) -> dict[str, Any]:
    pattern = group.pattern
    rows = [
        [known.setdefault(limited.row, len(known)), *([] if limited.is_equality else [limited.lower, limited.upper])]
        for limited in pattern.rows
    ]
    ends = zip(pattern.lower, pattern.upper, strict=True)
    limits = [[cell, low, high] for cell, (low, high) in enumerate(ends) if (low, high) != (0, None)]
    return {"rows": rows, "limits": limits}


def _row_json(row: Row) -> dict[str, Any]:
    out: dict[str, Any] = {"text": row.name, "cells": _runs(row.cells)}
    if set(row.coefficients) != {1}:
        out["coefficients"] = list(row.coefficients)
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


@dataclass(frozen=True, eq=False)
class AreaValues:
    """What areas.parquet says of the law: each area's label, its group, and the values of its equalities.

    Attributes
    ----------
    values : sequence of arrays (area,)
        The first equality of every area's group, the second, ...; where a group has fewer it is masked, or among
        objects None.
    """

    labels: tuple[str, ...]
    groups: Ints
    values: Sequence[NDArray[Any]]

    @classmethod
    def of(cls, areas: Areas) -> "AreaValues":
        """Take them from areas, in the declared order."""
        labels, n_areas = tuple(map(str, areas.labels)), len(areas)
        width = max(group.values.shape[1] for group in areas.groups)
        columns: list[NDArray[Any]] = []
        for number in range(width):
            of_groups = [
                (group.places, group.values[:, number]) for group in areas.groups if group.values.shape[1] > number
            ]
            is_long = any(values.dtype == object or np.abs(values).max(initial=0) >= _LONG for _, values in of_groups)
            column: NDArray[Any] = np.full(n_areas, None, object) if is_long else np.zeros(n_areas, np.int64)
            is_there = np.zeros(n_areas, np.bool_)
            for places, values in of_groups:
                column[places] = values
                is_there[places] = True
            columns.append(column if is_long or is_there.all() else np.ma.MaskedArray(column, ~is_there))
        return cls(labels, areas.group_numbers.astype(np.int64), columns)


def law_of_json(entry: Mapping[str, Any], values: AreaValues | None = None) -> PublicLaw:
    """Read what `law_as_json` wrote; refuses what does not describe a law."""
    try:
        return _read(entry, values)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as wrong:
        reason = str(wrong) if isinstance(wrong, CongenialError) else "a part is missing or has the wrong form"
        raise BundleError(f"the manifest does not describe a law: {reason}") from None


def _read(law: Mapping[str, Any], values: AreaValues | None) -> PublicLaw:
    schema = read_dimensions(law["dimensions"])
    noise = law["noise"]
    if noise not in FAMILIES or not FAMILIES[noise].is_for_release:
        raise BundleError(f"noise {noise!r} is not known to this version")
    _check_room(law, schema.n_cells)
    queries = tuple(_query(schema, noise, entry) for entry in law["measured"])
    rows = [_row(entry, schema.n_cells) for entry in law["rows"]]
    name = law["area"]
    if (name is None) != (values is None) or not (name is None or isinstance(name, str)):
        raise BundleError("it does not say whether there are several areas, or their values are missing")
    if values is None:
        columns = [np.array([_whole(value)], object) for value in law["values"]]
        values = AreaValues(("",), np.zeros(1, np.int64), columns)
        labels: tuple[Area, ...] = (None,)
    else:
        labels = values.labels
        if law["values"] is not None:
            raise BundleError("the values of several areas stand in a file of their own")
    areas = Areas(name, labels, tuple(_groups(schema, rows, law["groups"], values)))
    method = _method(law)
    if method and any(query.zero_weight != 1 for query in queries):
        raise BundleError("measurements have no limits, and so no weights of limits")
    if method and not any(query.precision for query in queries):
        raise BundleError("it measures nothing")
    return PublicLaw(schema, noise, queries, areas, **method)


def read_dimensions(entries: Sequence[Mapping[str, Any]], kind: type[Schema] = Schema) -> Schema:
    """Read the dimensions that `dimension_json` wrote."""
    return kind(
        {entry["name"]: tuple(entry["labels"]) for entry in entries},
        {
            entry["name"]: {group["name"]: tuple(group["labels"]) for group in entry["groups"]}
            for entry in entries
            if "groups" in entry
        },
        ordered={entry["name"]: tuple(entry["widths"]) for entry in entries if "widths" in entry},
    )


def _check_room(law: Mapping[str, Any], n_cells: int) -> None:
    """Refuse rows that cannot be in memory, before their runs of cells are written out."""
    n_single = sum(entry["rows"] == EACH_CELL for entry in law["measured"]) * n_cells
    listed = [
        *law["rows"],
        *(row for entry in law["measured"] if entry["rows"] != EACH_CELL for row in entry["rows"]),
    ]
    n_listed = sum(max(0, _whole(last) - _whole(first) + 1) for row in listed for first, last in row["cells"])
    n_limits = len(law["groups"]) * n_cells
    n_numbers = _OF_ROW * (n_single + len(listed)) + _OF_CELL * n_listed + _OF_LIMIT * n_limits
    if wrong := explain_memory(n_numbers, "the rows and limits of its law"):
        raise BundleError(wrong)


def _groups(
    schema: Schema, rows: Sequence[Row], entries: Sequence[Mapping[str, Any]], values: AreaValues
) -> list[AreaGroup]:
    if not values.labels or len(set(values.labels)) != len(values.labels):
        raise BundleError("its areas are not all different, or there are none")
    out, n_placed = [], 0
    for number, entry in enumerate(entries):
        places = np.flatnonzero(values.groups == number)
        n_equal = sum(len(row) == 1 for row in entry["rows"])
        if not len(places) or len(values.values) < n_equal:
            raise BundleError("a group has no area, or its areas lack values")
        columns = [column[places] for column in values.values]
        lacks = [_is_missing(column) for column in columns]
        if any(lack.any() for lack in lacks[:n_equal]) or not all(lack.all() for lack in lacks[n_equal:]):
            raise BundleError("an area has more or fewer values than its group has equalities")
        table = _table_of([np.ma.getdata(column) for column in columns[:n_equal]], len(places))
        out.append(AreaGroup(_constraints(schema, rows, entry, table[0].tolist()), places, table))
        n_placed += len(places)
    if n_placed != len(values.labels):
        raise BundleError("an area is in no group")
    return out


def _is_missing(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.dtype == object:
        return np.array([value is None for value in column.tolist()], np.bool_)
    return np.ma.getmaskarray(column)


def _table_of(columns: Sequence[NDArray[Any]], n_areas: int) -> NDArray[Any]:
    """Return columns as an array (area, equality), in 64 bits where they fit."""
    if all(column.dtype != object and np.abs(column).max(initial=0) < 2**62 for column in columns):
        return np.stack(columns, axis=1) if columns else np.zeros((n_areas, 0), np.int64)
    lines = np.stack([column.astype(object) for column in columns], axis=1)
    fits = all(abs(value) < 2**62 for value in lines.reshape(-1).tolist())
    return lines.astype(np.int64) if fits else lines


def _row(entry: Mapping[str, Any], n_cells: int) -> Row:
    runs = [(_whole(first), _whole(last)) for first, last in entry["cells"]]
    if any(not 0 <= first <= last < n_cells for first, last in runs):  # before a run is written out: it may be endless
        raise BundleError("a row names cells that the schema does not have")
    cells = tuple(cell for first, last in runs for cell in range(first, last + 1))
    coefficients = tuple(_whole(number) for number in entry.get("coefficients", (1,) * len(cells)))
    if list(cells) != sorted(set(cells)) or not cells:
        raise BundleError("a row names a cell twice, out of order, or none")
    if len(coefficients) != len(cells) or 0 in coefficients:
        raise BundleError("a row's coefficients do not fit its cells")
    return Row(str(entry["text"]), cells, coefficients)


def _query(schema: Schema, noise: str, entry: Mapping[str, Any]) -> MeasuredQuery:
    precision = exact_fraction(entry["precision"], "a precision")
    if entry["rows"] == EACH_CELL:
        rows = tuple(Row.of(schema.cell_name(cell), [cell]) for cell in range(schema.n_cells))
    else:
        rows = tuple(_row(row, schema.n_cells) for row in entry["rows"])
    query = MeasuredQuery(str(entry["query"]), precision, rows, exact_fraction(entry["floor"], "a floor"))
    if _base(noise, query) != entry["base"]:
        raise BundleError("this version rounds the noise of that precision to another base; use the version it names")
    return query


def _constraints(schema: Schema, rows: Sequence[Row], group: Mapping[str, Any], values: Sequence[int]) -> Constraints:
    lower: list[int | None] = [0] * schema.n_cells
    upper: list[int | None] = [None] * schema.n_cells
    for cell, low, high in group["limits"]:
        if not 0 <= _whole(cell) < schema.n_cells:
            raise BundleError("a limit names a cell that the schema does not have")
        lower[cell], upper[cell] = _end(low), _end(high)
    limited, remaining = [], list(values)
    for number, *ends in group["rows"]:
        low, high = (_end(end) for end in ends) if ends else [remaining.pop(0)] * 2
        if ends and low is not None and low == high:
            raise BundleError("a range of one value is not written as one")
        limited.append(Limited.of(rows[_index(number, rows)], low, high))
    return Constraints(schema, tuple(limited), tuple(map(Interval, lower, upper)))


def _index(number: object, rows: Sequence[Row]) -> int:
    index = _whole(number)
    if not 0 <= index < len(rows):
        raise BundleError("a table names a row that is not listed")
    return index


def _end(value: object) -> int | None:
    return None if value is None else _whole(value)


def _whole(value: object) -> int:
    if type(value) is not int:
        raise BundleError("a number that must be whole is not")
    return value


# The tree of a law as plain values, for a manifest; codes of units and structural zeros stand in spine.parquet.


class TreeParts(NamedTuple):
    """What a manifest does not hold of a tree: itself, structural zeros, exact numbers below the top, areas across."""

    tree: Tree
    zeros: Zeros
    exact: tuple[ExactSums | None, ...]
    across: AreasAcross | None = None


def tree_as_json(plan: Plan) -> dict[str, Any]:
    """Return the entry `tree`: levels from the top down with units, shares and noise; of one level, nothing."""
    law = plan.law
    if not law.is_tree:
        return {}
    tree = {
        "levels": [
            {
                "name": level.name,
                "units": len(level.codes),
                "share": None if level.share is None else str(level.share),
                **_noise_below(law, number),
                "exact": [{"text": condition.title, **condition.as_json()} for condition in level.exact],
            }
            for number, level in enumerate(plan.levels)
        ],
        **_across_json(law),
        "digest": law.tree_digest,
    }
    return {"tree": tree}


def _across_json(law: PublicLaw) -> dict[str, Any]:
    """Return what is said of areas that cross a tree; nothing where there are none."""
    if law.across is None:
        return {}
    measured = [_query_json(law, query) for query in law.queries_across]
    facts = {"name": law.across.name, "units": len(law.across.codes), "portion": str(law.across.portion)}
    return {"across": {**facts, "measured": measured}}


def _noise_below(law: PublicLaw, level: int) -> dict[str, Any]:
    """Return what is measured of the units of a level, or the noise of each cell; of the first, the law has it."""
    if law.is_measured:
        return {"measured": [_query_json(law, query) for query in law.queries_below[level - 1]] if level else []}
    noise = law.noises_below[level - 1] if level else None
    return {"precision": noise and str(noise.precision), "base": noise and str(noise.base)}


class StatedAcross(NamedTuple):
    """What a manifest says of areas that cross the tree: their name, how many there are, their part of the budget."""

    name: str
    units: int
    portion: Fraction

    def areas(self, tree: Tree, codes: Codes) -> AreasAcross:
        """Return the areas from the code of each leaf's."""
        areas = AreasAcross.of(tree, self.name, codes, self.portion)
        if len(areas.codes) != self.units:
            raise HierarchyError(f"it has {len(areas.codes):,} of {self.name}, and the manifest {self.units:,}")
        return areas


@dataclass(frozen=True)
class StatedTree:
    """What a manifest says of a tree.

    Attributes
    ----------
    units : tuple of int
        How many units each level has.
    shares : tuple of Fraction, or None
        Of the budget, the top first; None where precisions were given.
    precisions : tuple of Fraction
        Of the levels below the top, where they are drawn.
    measured_below : tuple of entries
        Of a measured release, what is measured of the units of each level below the top.
    invariants_below : mapping from level to conditions
        What is exact in every unit of levels below the top.
    across : StatedAcross or None
        Areas that cross the tree.
    measured_across : entries
        What is measured of these areas.
    """

    levels: tuple[str, ...]
    units: tuple[int, ...]
    shares: tuple[Fraction, ...] | None
    precisions: tuple[Fraction, ...]
    measured_below: tuple[Sequence[Mapping[str, Any]], ...]
    invariants_below: Mapping[str, tuple[Condition, ...]]
    across: StatedAcross | None = None
    measured_across: Sequence[Mapping[str, Any]] = ()

    @property
    def is_measured(self) -> bool:
        """Whether each level is measured."""
        return any(self.measured_below)

    def exact_rows(self, schema: Schema) -> tuple[ExactRows | None, ...]:
        """Return what is exact in each level below the top."""
        return exact_rows(self.levels[1:], schema, self.invariants_below)

    def check_budget(self, budget: Budget | None, *, is_measured: bool) -> None:
        """Refuse a budget that a tree cannot be held to, and shares without one."""
        if (budget is None) != (self.shares is None):
            raise BundleError("levels of a tree have shares of a budget, and there is none, or they have none")
        if budget is None or is_measured:
            return
        try:
            total_rho(budget)
        except PrivacyError:  # its words are for whoever has the data
            raise BundleError(
                f"a tree has a budget in rho, or in epsilon at a delta, and the manifest states {budget.text}"
            ) from None

    def law(self, first: PublicLaw, parts: TreeParts) -> PublicLaw:
        """Return the law of the first level with those below it: the tree, its zeros and exact numbers."""
        noises = discrete_noises(first.family, self.precisions)
        queries = tuple(
            tuple(_query(first.schema, first.noise, entry) for entry in entries)
            for entries in (*self.measured_below, self.measured_across)
        )
        *below, across = queries
        if any(bool(of_level) != first.is_measured for of_level in below) or bool(across) != (self.across is not None):
            raise BundleError("each level of a measured tree says what is measured, and no other tree does")
        if any(query.zero_weight != 1 for of_level in queries for query in of_level):
            raise BundleError("measurements have no limits, and so no weights of limits")
        return replace(
            first,
            tree_below=Subtree(parts.tree, noises, parts.zeros, parts.exact),
            queries_below=tuple(below) if first.is_measured else (),
            across=parts.across,
            queries_across=across,
        )


def tree_of_json(tree: Mapping[str, Any]) -> StatedTree:
    """Read what `tree_as_json` wrote; how many units there are is compared with the spine elsewhere."""
    entries = tree["levels"]
    if len(entries) < 2:
        raise BundleError("a tree has at least two levels")
    shares = [entry["share"] for entry in entries]
    if len({share is None for share in shares}) > 1:
        raise BundleError("some levels of the tree have a share of the budget, and others have none")
    across = tree.get("across")
    return StatedTree(
        tuple(read_as(str, entry["name"]) for entry in entries),
        tuple(read_as(int, entry["units"]) for entry in entries),
        None if shares[0] is None else tuple(exact_fraction(share, "a share") for share in shares),
        tuple(exact_fraction(entry["precision"], "a precision") for entry in entries[1:] if "measured" not in entry),
        tuple(entry.get("measured", ()) for entry in entries[1:]),
        {
            read_as(str, entry["name"]): tuple(map(condition_of_entry, entry["exact"]))
            for entry in entries[1:]
            if entry["exact"]
        },
        None
        if across is None
        else StatedAcross(
            read_as(str, across["name"]), read_as(int, across["units"]), exact_fraction(across["portion"], "a portion")
        ),
        () if across is None else across["measured"],
    )


def condition_of_entry(entry: Mapping[str, Any]) -> Condition:
    """Read a condition with its words, which follow from the rest."""
    return condition_of_json({name: value for name, value in entry.items() if name != "text"})
