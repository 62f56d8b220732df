"""From the data files that a spec names to confidential tables, one for each area."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from congenial.arrow_codes import CodeTexts
from congenial.errors import ReadingError
from congenial.hierarchy.tree import Tree
from congenial.progress import Progress, no_news
from congenial.reading import sql
from congenial.reading.cells import Cells
from congenial.reading.confidential_csv import write_confidential_csv
from congenial.reading.csv_trouble import csv_trouble
from congenial.reading.files import Source, find_files
from congenial.reading.grouped import Grouped, grouped_source
from congenial.reading.headers import read_sources
from congenial.reading.ids import check_ids
from congenial.reading.public_files import check_apart
from congenial.reading.session import Session, session
from congenial.reading.unknown_values import raise_unknown
from congenial.resources import what_is_too_large
from congenial.spec.levels import Levels
from congenial.spec.spec import Spec
from congenial.table import CONFIDENTIAL, AreaTables, Table


def read_tables(spec: Spec, folder: str | Path) -> dict[str | None, Table]:
    """Read the data that a spec names: from each area's label, or from None, to its table. Confidential."""
    found = read_together(spec, folder)
    return {None: found} if isinstance(found, Table) else {area: found[area] for area in found}


def read_together(
    spec: Spec, folder: str | Path, progress: Progress = no_news, grouped: Grouped | None = None
) -> Table | AreaTables:
    """Read the same as a mechanism takes it: one table, or those of all areas that are published. Confidential."""
    counts = read_counts(spec, folder, progress, grouped)
    if spec.by is None:
        return Table(spec.schema, counts.reshape(spec.schema.shape))
    if not spec.unpublished:
        return AreaTables.kept(spec.schema, spec.by.labels, counts)
    left_out = set(spec.unpublished)
    places = [place for place, area in enumerate(spec.by.labels) if area not in left_out]
    return AreaTables.kept(spec.schema, [spec.by.labels[place] for place in places], counts[places])


def read_leaves(
    spec: Spec, tree: Tree, folder: str | Path, progress: Progress = no_news, grouped: Grouped | None = None
) -> NDArray[np.int64]:
    """Read the data of a tree's leaves (leaf, cell), in the order of the tree. Confidential."""
    if spec.hierarchy is None:
        raise ReadingError("the spec has no hierarchy")
    codes = CodeTexts(tree.codes[-1])
    by = Levels(spec.hierarchy.leaf, spec.hierarchy.column, codes, codes)
    return read_counts(replace(spec, by=by), folder, progress, grouped)


def read_counts(
    spec: Spec, folder: str | Path, progress: Progress = no_news, grouped: Grouped | None = None
) -> NDArray[np.int64]:
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
    if wrong := what_is_too_large(n_areas, spec.schema.n_cells):
        raise ReadingError(wrong)
    paths = find_files(spec.data.paths, base) if grouped is None else (Path(grouped.name),)
    check_apart(spec, base, paths)
    with session(paths, None if grouped is None else grouped.rows) as database:
        if grouped is None:
            read = read_sources(database, paths, spec.data.separator)
            sources = [replace(source, kept_rows=spec.kept_rows) for source in read]
        else:
            sources = [grouped_source(database, grouped)]
        sql.check_types(sources, levels, spec.data.count)
        _check_names(sources, spec, with_all=grouped is None)
        query = _cells_query(database, sources, levels, spec)
        found = Cells(tuple(len(dimension.labels) for dimension in levels), progress)
        if not database.each_part(query, found.take):
            raise ReadingError(_trouble(sources, spec.data.separator))
        if not found.n_rows:
            few = "no row that `keep_rows` keeps" if spec.kept_rows else "no rows"
            one = len(paths) == 1
            raise ReadingError(f"{paths[0].name} has a header and {few}" if one else f"the files have {few}")
        if found.has_unknown:
            file = base / f"{CONFIDENTIAL}unknown-levels-{spec.release}.csv"
            raise_unknown(database, sources, levels, spec.data.separator, file)
        if grouped is None and spec.unit is not None and spec.unit.id_column is not None:
            rows = sql.rows_of(sources, [spec.unit.id_column], spec.data.separator)
            if not check_ids(database, rows, spec.unit):
                raise ReadingError(_trouble(sources, spec.data.separator))
        if spec.data.count is not None:
            _check_counts(found, database, query, levels, spec, base)
    return found.counts.reshape(n_areas, spec.schema.n_cells)


def _check_names(sources: Sequence[Source], spec: Spec, *, with_all: bool) -> None:
    """Look up every column before any row is read; those that pick and check rows, if nobody has done that before."""
    columns = cell_columns(spec)
    if with_all:
        columns += [rows.column for rows in spec.kept_rows]
        columns += [] if spec.unit is None or spec.unit.id_column is None else [spec.unit.id_column]
    for source in sources:
        for column in columns:
            source.place(column)


def cell_columns(spec: Spec) -> list[str]:
    """Return the columns of the data that say in which cell a row is counted, and as how many."""
    area = None if spec.hierarchy is None else spec.hierarchy.column
    area = area if spec.by is None else spec.by.column
    columns = [levels.column for levels in spec.dimensions]
    columns += [] if area is None else [area]
    columns += [] if spec.data.count is None else [spec.data.count]
    return list(dict.fromkeys(columns))


def _cells_query(database: Session, sources: Sequence[Source], levels: Sequence[Levels], spec: Spec) -> str:
    """Return a query for the cell of every row, NULL where a value is no declared level, and for counts its count."""
    for number, dimension in enumerate(levels):
        if not dimension.cut:
            places = np.arange(len(dimension.codes), dtype=np.int32)
            database.know(f"levels_{number}", {"code": dimension.codes, "place": places})
    columns: list[str | Levels] = [*levels, *(() if spec.data.count is None else (sql.CountColumn(spec.data.count),))]
    rows = sql.rows_of(sources, columns, spec.data.separator)
    parts = [sql.place_of(f"v{number}", dimension, number) for number, dimension in enumerate(levels)]
    cell = "0::BIGINT"
    for (place, _), dimension in zip(parts, levels, strict=True):
        cell = f"({cell}) * {len(dimension.labels)} + ({place})"
    count = "" if spec.data.count is None else f", v{len(levels)} AS value, problem"
    count += ", w" if any(source.is_grouped for source in sources) else ""
    return f"SELECT {cell} AS cell{count} FROM ({rows}){''.join(join for _, join in parts)}"  # noqa: S608


def _trouble(sources: Sequence[Source], separator: str) -> str:
    for source in sources:
        for path in source.paths if not source.is_parquet else ():
            found = csv_trouble(path, len(source.columns), separator)
            if found is not None:
                return found
    names = ", ".join(path.name for source in sources for path in source.paths[:3])
    return f"the rows of {names} cannot be read; the file may be damaged, or not be what its name says"


def _check_counts(
    found: Cells, database: Session, query: str, levels: Sequence[Levels], spec: Spec, folder: Path
) -> None:
    """Refuse counts that are none, and cells with more than one row, or without one where that is an error."""
    if found.problems:
        words = "; ".join(sql.COUNT_PROBLEMS[problem] for problem in sorted(found.problems))
        raise ReadingError(f"column {spec.data.count!r} has {words}")
    if found.n_rows > found.is_there.sum():
        again = Cells(found.shape)  # as many rows as a cell has, in place of its count
        database.each_part(f"SELECT COLUMNS('^(cell|w)$') FROM ({query})", again.take)  # noqa: S608
        many = _listed(again.counts > 1, again.counts, levels, spec, folder)
        raise ReadingError(
            f"some cells have more than one row; the list {many}. Add their counts up first, or use `kind: microdata`"
        )
    if spec.data.missing_cells == "error" and not found.is_there.all():
        none = _listed(~found.is_there, found.is_there.astype(np.int64), levels, spec, folder)
        raise ReadingError(
            f"some cells have no row; the list {none}. Give every cell a count, or write `missing_cells: zero` if cells"
            " without a row are empty"
        )


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
