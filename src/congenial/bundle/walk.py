"""The released tables as a report lays them out: one, or units to find and to open, those of one parent together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_codes import texts_of
from congenial.bundle.exact_numbers import with_commas
from congenial.bundle.manifest import Manifest
from congenial.bundle.tree_files import level_file
from congenial.display import laid_out, row_titles, titles
from congenial.hierarchy.plan import ChainPlan
from congenial.page import filled_in
from congenial.schema import Schema

if TYPE_CHECKING:
    from markupsafe import Markup

_MOST_NUMBERS = 200_000  # in the page: about 4 MB
_MOST_TABLES = 5_000
_FEW_OF_MANY = 500  # of more tables than fit: nobody reads on, and a page is made in a tenth of the time
_MOST_EXACT = 20_000  # exact values in the page
_MOST_ROWS = 5_000  # of one table
_TOGETHER = 100  # areas without parents that stand under one heading, where there are more


@dataclass(frozen=True)
class Grid:
    """A table in two directions: a header, rows, and whether the last row sums the others up."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    ends_in_total: bool


def grids(schema: Schema, tables: Ints) -> "list[Markup]":
    """Lay tables (table, cell) out for a page; of very long ones their beginning."""
    lines = row_titles(schema)
    numbers = laid_out(schema, tables)[:, :_MOST_ROWS]
    header = [title.replace("%", "%%") for title in titles(schema)]
    rows = [[line.replace("%", "%%"), *["%s"] * numbers.shape[2]] for line in lines[:_MOST_ROWS]]
    pattern = Grid(header, rows, ends_in_total=1 < len(lines) <= _MOST_ROWS)
    return filled_in("grid.html", "grid", pattern, numbers.reshape(len(tables), -1).tolist())


@dataclass(frozen=True)
class Unit:
    """What one opens by its title: a table with what is exact of it, its parts, or both."""

    title: str
    grid: "Markup | None" = None
    exact: Sequence[tuple[str, str]] = ()
    parts: list["Unit"] = field(default_factory=list)
    more: str = ""


def units_of_areas(manifest: Manifest, tables: Ints) -> tuple[list[Unit], int]:
    """Return the areas, under their parents where the release names them, and how many were left out.

    Of many areas those with the most people are laid out, in the declared order.
    """
    law, places = manifest.law, _shown(manifest.law.schema, tables)
    labels = [str(law.areas.labels[place]) for place in places]
    laid = grids(law.schema, tables[places])
    units = [
        Unit(f"{label}: {int(tables[place].sum()):,}", grid, _exact(manifest, place, len(places)))
        for label, place, grid in zip(labels, places, laid, strict=True)
    ]
    left_out = len(tables) - len(places)
    if manifest.naming.parents:
        parents = list(_each(manifest.naming.parents))
        return _under(zip((parents[place] for place in places), units, strict=True)), left_out
    if len(units) <= _TOGETHER:
        return units, left_out
    out = []
    for start in range(0, len(units), _TOGETHER):
        some = units[start : start + _TOGETHER]
        out.append(Unit(f"{labels[start]} to {labels[start + len(some) - 1]}", parts=some))
    return out, left_out


def _exact(manifest: Manifest, place: int, n_shown: int) -> list[tuple[str, str]]:
    """Return what is exact of an area, if there is room for that of all areas."""
    if len(manifest.exactly) * n_shown > _MOST_EXACT:
        return []
    return [(exact.text, with_commas(exact.value(place))) for exact in manifest.exactly]


def _shown(schema: Schema, tables: Ints) -> list[int]:
    """Return which tables are laid out: all that fit, or of more than fit the largest, fewer of them."""
    n_shown = _n_shown(schema, len(tables))
    if n_shown == len(tables):
        return list(range(n_shown))
    largest = np.argsort(-tables.sum(axis=1), kind="stable")[: min(n_shown, _FEW_OF_MANY)]
    return sorted(largest.tolist())


def _n_shown(schema: Schema, n_tables: int) -> int:
    return min(n_tables, _MOST_TABLES, max(1, _MOST_NUMBERS // schema.n_cells))


def _each(runs: Iterable[tuple[str, int]]) -> Iterator[str]:
    for parent, n in runs:
        yield from [parent] * n


def _under(parts: Iterable[tuple[str, Unit]]) -> list[Unit]:
    """Put units under their parents, those in the order in which they come first."""
    found: dict[str, list[Unit]] = {}
    for parent, unit in parts:
        found.setdefault(parent, []).append(unit)
    return [Unit(f"{parent} ({len(units):,})", parts=units) for parent, units in found.items()]


def units_of_tree(manifest: Manifest, chain: ChainPlan, released: Sequence[Ints]) -> list[Unit]:
    """Return the units of the upper levels, each with its parts; levels of very many units stay in their files."""
    schema, tree = chain.law.top.schema, chain.law.tree
    n_levels = 1
    while n_levels < len(released):
        n_units = sum(map(len, released[: n_levels + 1]))
        if _n_shown(schema, n_units) < n_units:
            break
        n_levels += 1
    found: list[list[Unit]] = []
    for number, (name, codes, tables) in enumerate(zip(tree.levels, tree.codes, released, strict=True)):
        if number == n_levels:
            break
        more, n_shown = _more(chain, number, n_levels), _n_shown(schema, len(codes))
        laid = grids(schema, tables[:n_shown])
        found.append(
            [
                Unit(
                    f"{name} {code}: {int(table.sum()):,}",
                    grid,
                    () if number else _exact(manifest, place, n_shown),
                    more=more,
                )
                for place, (code, table, grid) in enumerate(zip(texts_of(codes[:n_shown]), tables, laid, strict=False))
            ]
        )
        if number:
            for unit, parent in zip(found[number], tree.parents[number - 1].tolist(), strict=True):
                found[number - 1][parent].parts.append(unit)
    return found[0]


def _more(chain: ChainPlan, number: int, n_levels: int) -> str:
    """Say where the parts of the lowest units in the page are."""
    levels = chain.law.tree.levels
    if number < n_levels - 1 or number == len(levels) - 1:
        return ""
    return f"its {levels[number + 1]} units are in {level_file(number + 2)}"
