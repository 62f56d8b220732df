"""From the data files that a spec names to confidential tables, one for each area."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.errors import ReadingError
from congenial.hierarchy.tree import Tree
from congenial.reading import sql
from congenial.reading.confidential_csv import write_confidential_csv
from congenial.reading.csv_trouble import csv_trouble
from congenial.reading.files import Source, find_files
from congenial.reading.grouped import Grouped, grouped_source
from congenial.reading.headers import read_sources
from congenial.reading.ids import check_ids
from congenial.reading.public_files import check_apart
from congenial.reading.session import Session, session
from congenial.reading.unknown_values import raise_unknown
from congenial.spec.levels import Levels
from congenial.spec.spec import Spec
from congenial.table import CONFIDENTIAL, AreaTables, Table

_MOST_CELLS = 50_000_000  # of all areas together


def read_tables(spec: Spec, folder: str | Path) -> dict[str | None, Table]:
    """Read the data that a spec names: from each area's label, or from None, to its table. Confidential."""
    found = read_together(spec, folder)
    return {None: found} if isinstance(found, Table) else {area: found[area] for area in found}


def read_together(spec: Spec, folder: str | Path, grouped: Grouped | None = None) -> Table | AreaTables:
    """Read the same as a mechanism takes it: one table, or those of all areas that are published. Confidential."""
    counts = read_counts(spec, folder, grouped)
    if spec.by is None:
        return Table(spec.schema, counts.reshape(spec.schema.shape))
    left_out = set(spec.unpublished)
    places = [place for place, area in enumerate(spec.by.labels) if area not in left_out]
    return AreaTables(spec.schema, [spec.by.labels[place] for place in places], counts[places])


def read_leaves(spec: Spec, tree: Tree, folder: str | Path, grouped: Grouped | None = None) -> NDArray[np.int64]:
    """Read the data of a tree's leaves (leaf, cell), in the order of the tree. Confidential."""
    if spec.hierarchy is None:
        raise ReadingError("the spec has no hierarchy")
    codes = tuple(tree.codes[-1].tolist())
    own = replace(spec, by=Levels(spec.hierarchy.leaf, spec.hierarchy.column, codes, codes))
    return read_counts(own, folder, grouped)


def read_counts(spec: Spec, folder: str | Path, grouped: Grouped | None = None) -> NDArray[np.int64]:
    """Read the data that a spec names, area by area. Confidential.

    Parameters
    ----------
    folder : path
        The folder of the spec, where relative paths start. Values that are not declared levels are listed there, in
        a file marked CONFIDENTIAL, and so are cells that do not have one row of counts.
    grouped : Grouped, optional
        The rows, where they were grouped elsewhere; then no file is opened.

    Returns
    -------
    counts : array (area, cell)

    Raises
    ------
    ReadingError
        When the files do not hold what the spec declares. Columns are named, cells and values never.
    """
    base = Path(folder).resolve()
    levels = (*(() if spec.by is None else (spec.by,)), *spec.dimensions)
    n_areas = 1 if spec.by is None else len(spec.by.labels)
    if n_areas * spec.schema.n_cells > _MOST_CELLS:
        raise ReadingError(
            f"{n_areas:,} areas of {spec.schema.n_cells:,} cells are more than {_MOST_CELLS:,} cells together;"
            " release the areas in parts"
        )
    paths = find_files(spec.data.paths, base) if grouped is None else (Path(grouped.name),)
    check_apart(spec, base, paths)
    with session(paths, None if grouped is None else grouped.rows) as database:
        read = (
            read_sources(database, paths, spec.data.separator)
            if grouped is None
            else [grouped_source(database, grouped)]
        )
        sources = [replace(source, kept_rows=spec.kept_rows) for source in read]
        sql.check_types(sources, levels, spec.data.count)
        check_names(sources, spec, with_ids=grouped is None)
        found = _grouped(database, sources, levels, spec)
        if found is None:
            raise ReadingError(_trouble(sources, spec.data.separator))
        if not len(found["n"]):
            few = "no row that `keep_rows` keeps" if spec.kept_rows else "no rows"
            one = len(paths) == 1
            raise ReadingError(f"{paths[0].name} has a header and {few}" if one else f"the files have {few}")
        places = [found[f"p{number}"] for number in range(len(levels))]
        if any(np.ma.getmaskarray(place).any() for place in places):
            file = base / f"{CONFIDENTIAL}unknown-levels-{spec.release}.csv"
            raise_unknown(database, sources, levels, spec.data.separator, file)
        if grouped is None and spec.unit is not None and spec.unit.id_column is not None:
            rows = sql.rows_of(sources, [spec.unit.id_column], spec.data.separator)
            if not check_ids(database, rows, spec.unit):
                raise ReadingError(_trouble(sources, spec.data.separator))
    counts = _counts(found, places, levels, spec, base)
    return counts.reshape(n_areas, spec.schema.n_cells)


def check_names(sources: Sequence[Source], spec: Spec, *, with_ids: bool = True) -> None:
    """Look up every column before any row is read."""
    columns = columns_of(spec)
    columns += [] if not with_ids or spec.unit is None or spec.unit.id_column is None else [spec.unit.id_column]
    for source in sources:
        for column in columns:
            source.place(column)


def columns_of(spec: Spec) -> list[str]:
    """Return the columns of the data that decide in which cell a row is counted, and whether."""
    area = spec.by.column if spec.by is not None else None if spec.hierarchy is None else spec.hierarchy.column
    columns = [levels.column for levels in spec.dimensions]
    columns += [] if area is None else [area]
    columns += [] if spec.data.count is None else [spec.data.count]
    return list(dict.fromkeys([*columns, *(rows.column for rows in spec.kept_rows)]))


def _grouped(
    database: Session, sources: Sequence[Source], levels: Sequence[Levels], spec: Spec
) -> dict[str, Any] | None:
    """Group the rows by the places of their levels; None when the files cannot be read."""
    for number, dimension in enumerate(levels):
        if not dimension.cut:
            database.rows(
                f"CREATE TABLE levels_{number} AS SELECT unnest($codes) AS code, unnest($places)::INTEGER AS place",
                {"codes": list(dimension.codes), "places": list(range(len(dimension.codes)))},
            )
    columns: list[str | Levels] = [*levels, *(() if spec.data.count is None else (spec.data.count,))]
    rows = sql.rows_of(sources, columns, spec.data.separator)
    parts = [sql.place_of(f"v{number}", dimension, number) for number, dimension in enumerate(levels)]
    picked = [*(f"{place} AS p{number}" for number, (place, _) in enumerate(parts)), "w"]
    keys = ", ".join(f"p{number}" for number in range(len(levels)))
    joins = "".join(join for _, join in parts)
    count = f"v{len(levels)}"
    if spec.data.count is None:
        inner, totals = "", "sum(w)::BIGINT AS n"
    else:
        inner = f", {sql.count_value(count)} AS value, {sql.count_problem(count)} AS problem"
        totals = "sum(w)::BIGINT AS n, max(value) AS value, max(problem) AS problem"
    return database.columns(
        f"SELECT {keys}, {totals} FROM (SELECT {', '.join(picked)}{inner} FROM ({rows}){joins}) GROUP BY {keys}"  # noqa: S608
    )


def _trouble(sources: Sequence[Source], separator: str) -> str:
    for source in sources:
        for path in source.paths if not source.is_parquet else ():
            found = csv_trouble(path, len(source.columns), separator)
            if found is not None:
                return found
    names = ", ".join(path.name for source in sources for path in source.paths[:3])
    return f"the rows of {names} cannot be read; the file may be damaged, or not be what its name says"


def _counts(
    found: dict[str, Any], places: Sequence[Any], levels: Sequence[Levels], spec: Spec, folder: Path
) -> NDArray[np.int64]:
    """Put the groups into their cells and check the counts."""
    shape = tuple(len(dimension.labels) for dimension in levels)
    cells = np.ravel_multi_index(tuple(np.asarray(place, np.int64) for place in places), shape)
    counts = np.zeros(int(np.prod(shape)), np.int64)
    if spec.data.count is None:
        counts[cells] = np.asarray(found["n"], np.int64)
        return counts
    problems = sorted(set(np.asarray(found["problem"]).tolist()) - {0})
    if problems:
        words = "; ".join(sql.COUNT_PROBLEMS[problem] for problem in problems)
        raise ReadingError(f"column {spec.data.count!r} has {words}")
    n_rows = np.zeros(len(counts), np.int64)
    n_rows[cells] = np.asarray(found["n"], np.int64)
    if (n_rows > 1).any():
        raise ReadingError(
            f"some cells have more than one row; the list {_listed(n_rows > 1, n_rows, levels, spec, folder)}. Add"
            " their counts up first, or use `kind: microdata`"
        )
    if spec.data.missing_cells == "error" and not n_rows.all():
        raise ReadingError(
            f"some cells have no row; the list {_listed(n_rows == 0, n_rows, levels, spec, folder)}. Give every cell"
            " a count, or write `missing_cells: zero` if cells without a row are empty"
        )
    counts[cells] = np.asarray(found["value"], np.int64)
    return counts


def _listed(
    wrong: NDArray[np.bool_], n_rows: NDArray[np.int64], levels: Sequence[Levels], spec: Spec, folder: Path
) -> str:
    """List cells with their numbers of rows in a file: to name one would say that it is empty, or is not."""
    chosen = np.flatnonzero(wrong)
    places = np.unravel_index(chosen, tuple(len(dimension.labels) for dimension in levels))
    rows = (
        (*(dimension.labels[place] for dimension, place in zip(levels, index, strict=True)), int(n_rows[cell]))
        for cell, *index in zip(chosen.tolist(), *(place.tolist() for place in places), strict=True)
    )
    file = folder / f"{CONFIDENTIAL}rows-of-cells-{spec.release}.csv"
    return write_confidential_csv(file, [*(dimension.name for dimension in levels), "rows"], rows)
