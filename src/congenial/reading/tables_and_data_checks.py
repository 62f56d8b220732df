"""From the data files that a spec names to confidential tables, one for each area."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import CodeTexts, arrow_to_numbers
from congenial.disk_and_gzip import open_unpacked
from congenial.errors import ReadingError
from congenial.memory_and_threads import explain_too_large
from congenial.progress_and_interrupts import READING, Progress, silent
from congenial.reading import duckdb_session_and_queries as sql
from congenial.reading.duckdb_session_and_queries import (
    GROUPED,
    Session,
    level_index,
    read_sources,
    rows_query,
    session,
)
from congenial.reading.files_and_columns import (
    FileColumn,
    Source,
    check_lists_are_public,
    find_files,
    write_confidential_csv,
)
from congenial.schema import RecordSchema
from congenial.spec.dimension_levels_and_public_lists import Levels
from congenial.spec.spec_and_hierarchy import PrivacyUnit, Spec
from congenial.table import CONFIDENTIAL, AreaTables, Table
from congenial.tree.tree_and_zeros import Tree
from congenial.workload.records import Records

if TYPE_CHECKING:
    from pyarrow import RecordBatch

# Accumulation of rows into counts of cells, batch by batch. Confidential.

_TELLING = 2_000_000  # rows between two words about progress
_PARTS_AT_ONCE = 40


class CellCounts:
    """Accumulates rows into counts of cells: a row of counts has its cell's count, a row of microdata counts one.

    Attributes
    ----------
    shape : tuple of int
        Numbers of levels: areas first, if there are some.
    counts : array (cell of all areas,)
    is_there : array (cell of all areas,)
        Whether a cell has had a row.
    n_rows : int
    has_unknown : bool
        Whether a row had a value that is no declared level.
    problems : set of int
        What is wrong with counts: keys of `COUNT_PROBLEMS`.
    """

    def __init__(self, shape: tuple[int, ...], progress: Progress = silent) -> None:
        self.shape = shape
        self.counts: Ints = np.zeros(prod(shape), np.int64)
        self.is_there = np.zeros(prod(shape), np.bool_)
        self.n_rows, self.has_unknown = 0, False
        self.problems: set[int] = set()
        self._progress = progress

    def take(self, rows: "RecordBatch") -> None:
        """Put rows into their cells. Where a cell has several rows of counts, one of them stays."""
        names = rows.schema.names
        n_alike = (
            arrow_to_numbers(rows.column("w")) if "w" in names else 1
        )  # rows that were grouped elsewhere stand for many
        before, self.n_rows = self.n_rows, self.n_rows + int(np.sum(n_alike) if "w" in names else rows.num_rows)
        cells = rows.column("cell")
        if self.has_unknown or cells.null_count:
            self.has_unknown = True
            return
        places = arrow_to_numbers(cells)
        if "value" not in names:
            np.add.at(self.counts, places, n_alike)
        else:
            values = rows.column("value")
            if values.null_count:
                self.problems |= set(arrow_to_numbers(rows.column("problem")).tolist()) - {0}
                return
            self.counts[places] = arrow_to_numbers(values)
        self.is_there[places] = True
        if self.n_rows // _TELLING > before // _TELLING and len(self.counts) >= self.n_rows:
            self._progress(READING, self.n_rows, len(self.counts))


class RecordCells:
    """Keeps the cell of every row, for records whose cells are too many to be listed: each that occurs once.

    It has what `CellCounts` has, where rows go wrong.
    """

    def __init__(self, progress: Progress = silent) -> None:
        self.n_rows, self.has_unknown = 0, False
        self.problems: set[int] = set()
        self.has_repeated = False
        self._parts: list[tuple[Ints, Ints]] = []
        self._progress = progress

    def take(self, rows: "RecordBatch") -> None:
        """Keep the cells of some rows, equal ones put together."""
        names = rows.schema.names
        n_alike = arrow_to_numbers(rows.column("w")) if "w" in names else np.ones(rows.num_rows, np.int64)
        before, self.n_rows = self.n_rows, self.n_rows + int(np.sum(n_alike))
        cells = rows.column("cell")
        if self.has_unknown or cells.null_count:
            self.has_unknown = True
            return
        counts = n_alike
        if "value" in names:
            values = rows.column("value")
            if values.null_count:
                self.problems |= set(arrow_to_numbers(rows.column("problem")).tolist()) - {0}
                return
            counts = arrow_to_numbers(values)
        self._parts.append(_put_together(arrow_to_numbers(cells), np.asarray(counts, np.int64)))
        if len(self._parts) > _PARTS_AT_ONCE:
            self._parts = [self.together]
        if self.n_rows // _TELLING > before // _TELLING:
            self._progress(READING, self.n_rows)

    @property
    def together(self) -> tuple[Ints, Ints]:
        """The cells that occur, and how many records are in each."""
        if not self._parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        cells, counts = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        return _put_together(cells, counts)


def _put_together(cells: Ints, counts: Ints) -> tuple[Ints, Ints]:
    different, places = np.unique(cells, return_inverse=True)
    sums = np.zeros(len(different), np.int64)
    np.add.at(sums, places.reshape(-1), counts)
    return different.astype(np.int64), sums


# Rows that another engine has grouped: each distinct row once. Confidential.


@dataclass(frozen=True, repr=False)
class GroupedRows:
    """Distinct rows of the data with their multiplicities.

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


def grouped_source(database: Session, grouped: GroupedRows) -> Source:
    """Return the rows as a source, like a file of theirs."""
    kinds = database.rows(f"DESCRIBE SELECT * FROM {GROUPED}")  # noqa: S608
    if kinds is None or len(kinds) != len(grouped.columns) + 1:
        raise ReadingError(f"the grouped rows of {grouped.name} do not have the columns that were asked for")
    names = [*grouped.columns, ""]  # a column of the data has a name
    columns = tuple(FileColumn(name, kind[1]) for name, kind in zip(names, kinds, strict=True))
    return Source((Path(grouped.name),), True, columns, is_grouped=True)


# No privacy unit has more rows than the spec declares.

_AT_ONCE = 5_000_000  # ids in one pass: 500 MB
_MOST_SUSPECTS = 1_000


def check_ids(database: Session, rows: str, unit: PrivacyUnit) -> bool:
    """Refuse units with more rows than declared; False when the rows cannot be read.

    Ids are counted by their hashes, a part of the hashes at a time, so that memory stays small however long ids are.
    Equal ids have equal hashes, so nothing is missed; hashes that occur too often are looked at again by id.

    Parameters
    ----------
    rows : str
        A query for the ids, in a column v0.
    """
    counted = database.rows(f"SELECT count(*), count(v0) FROM ({rows})")  # noqa: S608
    if not counted:
        return False
    n_rows, n_ids = counted[0]
    if n_ids < n_rows:
        raise ReadingError(f"column {unit.id_column!r} has empty values; every row needs to say whose it is")
    too_many = f"HAVING count(*) > {unit.rows_per_unit}"
    n_parts = -(-n_rows // _AT_ONCE)
    for part in range(n_parts):
        suspects = database.rows(
            f"SELECT hash(v0) AS mark FROM ({rows}) WHERE hash(v0) % {n_parts} = {part}"  # noqa: S608
            f" GROUP BY mark {too_many} LIMIT {_MOST_SUSPECTS}"
        )
        if suspects is None:
            return False
        if suspects:
            marks = ", ".join(str(int(mark)) for (mark,) in suspects)
            repeated = database.rows(
                f"SELECT 1 FROM ({rows}) WHERE hash(v0) IN ({marks}) GROUP BY v0 {too_many} LIMIT 1"  # noqa: S608
            )
            if repeated is None:
                return False
            if repeated or len(suspects) == _MOST_SUSPECTS:
                raise ReadingError(too_many_rows(unit))
    return True


def too_many_rows(unit: PrivacyUnit) -> str:
    """Say that some units have more rows than declared, and not which."""
    bound = "1 row" if unit.rows_per_unit == 1 else f"{unit.rows_per_unit:,} rows"
    return (
        f"column {unit.id_column!r}: some of its values stand in more than {bound}, which is the declared bound;"
        " correct the data or raise `at_most` under `unit:`, which costs privacy"
    )


# Why a CSV file could not be read: a line number, never its content.


def find_csv_error(path: Path, n_columns: int, separator: str) -> str | None:
    """Read a refused file again, slowly, and say what is wrong with it; None when nothing is found."""
    ends: set[bytes] = set()
    with open_unpacked(path) as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return f"{path.name} is not UTF-8 text: line {number}; save it as UTF-8"
            ends.add(b"\r\n" if line.endswith(b"\r\n") else line[-1:])
    with open_unpacked(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as text:
        reader = csv.reader(text, delimiter=separator, strict=True)
        try:
            for row in reader:
                if row and len(row) != n_columns:
                    return (
                        f"{path.name}, line {reader.line_num}: the row has {len(row)} fields, the header {n_columns};"
                        " a field that holds the separator or a line break must be in quotes"
                    )
        except csv.Error:
            return f"{path.name}, line {reader.line_num}: a quote is opened or closed in the wrong place"
    if {b"\r\n", b"\n"} <= ends:
        return f"{path.name} ends some lines in one way and some in another; save it with one kind of line end"
    return None


# Values that are no declared level: columns are named in the message, values in a file marked CONFIDENTIAL.

_MOST_VALUES = 1_000  # of each column
_HEADER = ("column", "value", "rows")

Unknown = tuple[str, int]
"""A value that is not a declared level and how many rows have it."""


def raise_unknown(
    session: Session,
    sources: Sequence[Source],
    levels: Sequence[Levels],
    separator: str,
    file: Path,
) -> None:
    """Raise what is wrong with the columns of the dimensions; the values go to `file`, never into the message."""
    problems: list[str] = []
    listed: list[tuple[str, str, int]] = []
    for number, dimension in enumerate(levels):
        has_empty, unknown = _misfits(session, sources, dimension, number, separator)
        if has_empty:
            problems.append(
                f"column {dimension.column!r} has empty values; give each row a level, or declare one for"
                " them: `empty: not stated` beside its levels"
            )
        if unknown:
            what = "numbers outside the declared cuts, or no numbers," if dimension.cut else "values"
            problems.append(
                f"column {dimension.column!r} has {what} that are not declared levels{_hints(dimension, unknown)}"
            )
            listed += [(dimension.column, value, rows) for value, rows in unknown]
    where = f"; what they are {write_confidential_csv(file, _HEADER, listed)}" if listed else ""
    raise ReadingError("; ".join(problems or ["some rows do not fit the declared levels"]) + where)


def _misfits(
    session: Session, sources: Sequence[Source], levels: Levels, number: int, separator: str
) -> tuple[bool, list[Unknown]]:
    rows = rows_query(sources, [levels, levels.column], separator)
    place, join = level_index("v0", levels, number)
    unknown = session.rows(
        f"SELECT v1, sum(w)::BIGINT AS n FROM ({rows}){join} WHERE {place} IS NULL"  # noqa: S608  quoted by `quoted`
        f" GROUP BY v1 ORDER BY v1 IS NOT NULL, n DESC, v1 LIMIT {_MOST_VALUES + 1}"
    )
    values = unknown or []
    return any(value is None for value, _ in values), [(value, n) for value, n in values if value is not None]


def _hints(levels: Levels, unknown: Sequence[Unknown]) -> str:
    """Say what may help, without a value."""
    codes = set(levels.codes)
    values = [value for value, _ in unknown]
    bare = {code.lstrip("0") for code in codes}
    small = {code.casefold() for code in codes}
    hints = []
    if any(value.strip() in codes for value in values):
        hints.append("some match a level after trimming spaces")
    elif any(value.lstrip("0") in bare for value in values):
        hints.append("some match a level but for leading zeros")
    elif any(value.casefold() in small for value in values):
        hints.append("some match a level but for capital letters")
    if any(value in levels.labels for value in values):
        hints.append("some are labels, where codes are declared")
    return f" ({'; '.join(hints)})" if hints else ""


def read_tables(spec: Spec, folder: str | Path) -> dict[str | None, Table]:
    """Read the data that a spec names: from each area's label, or from None, to its table. Confidential."""
    tables = read_together(spec, folder)
    return {None: tables} if isinstance(tables, Table) else {area: tables[area] for area in tables}


def read_together(
    spec: Spec, folder: str | Path, progress: Progress = silent, grouped: GroupedRows | None = None
) -> Table | AreaTables:
    """Read the same as a mechanism takes it: one table, or those of all areas that are published. Confidential."""
    if spec.hierarchy is not None:
        raise ReadingError("the spec has a `hierarchy:`, and this is for one table or areas; leave it out")
    if spec.tables is not None:
        raise ReadingError(
            "the spec has `tables:` of the same records, and this is for one table or areas; congenial check, plan,"
            " release, show and infer take such specs and their bundles"
        )
    counts = read_counts(spec, folder, progress, grouped)
    if spec.by is None:
        return Table(spec.schema, counts.reshape(spec.schema.shape))
    if not spec.unpublished:
        return AreaTables.without_copy(spec.schema, spec.by.labels, counts)
    left_out = set(spec.unpublished)
    places = [place for place, area in enumerate(spec.by.labels) if area not in left_out]
    return AreaTables.without_copy(spec.schema, [spec.by.labels[place] for place in places], counts[places])


def read_records(
    spec: Spec, folder: str | Path, progress: Progress = silent, grouped: GroupedRows | None = None
) -> Records:
    """Read the records of which several tables are counts. Confidential."""
    if not isinstance(spec.schema, RecordSchema):
        raise ReadingError("the spec names no `tables:` of the same records")
    kept = RecordCells(progress)
    _read_cells(spec, folder, kept, grouped)
    return Records.of_cells(spec.schema, *kept.together)


def read_leaves(
    spec: Spec, tree: Tree, folder: str | Path, progress: Progress = silent, grouped: GroupedRows | None = None
) -> NDArray[np.int64]:
    """Read the data of a tree's leaves (leaf, cell), in the order of the tree. Confidential."""
    codes, leaf = CodeTexts(tree.codes[-1]), tree.levels[-1]
    by = Levels(leaf, spec.area_column or leaf, codes, codes)
    return read_counts(replace(spec, by=by), folder, progress, grouped)


def read_counts(
    spec: Spec, folder: str | Path, progress: Progress = silent, grouped: GroupedRows | None = None
) -> NDArray[np.int64]:
    """Read the data that a spec names, area by area. Confidential.

    Parameters
    ----------
    folder : path
        The folder of the spec, where relative paths start. Values that are not declared levels are listed there, in
        a file marked CONFIDENTIAL, and so are cells that do not have one row of counts.
    grouped : GroupedRows, optional
        The rows, where they were grouped elsewhere; then no file is opened.

    Returns
    -------
    counts : array (area, cell)

    Raises
    ------
    ReadingError
        When the files do not hold what the spec declares. Columns are named, cells and values never.
    """
    if wrong := explain_too_large(1 if spec.by is None else len(spec.by.labels), spec.schema.n_cells):
        raise ReadingError(wrong)
    levels = _levels_of(spec)
    cell_counts = CellCounts(tuple(len(dimension.labels) for dimension in levels), progress)
    _read_cells(spec, folder, cell_counts, grouped)
    return cell_counts.counts.reshape(1 if spec.by is None else len(spec.by.labels), spec.schema.n_cells)


def _levels_of(spec: Spec) -> tuple[Levels, ...]:
    return (*(() if spec.by is None else (spec.by,)), *spec.dimensions)


def _read_cells(
    spec: Spec, folder: str | Path, cell_counts: CellCounts | RecordCells, grouped: GroupedRows | None
) -> None:
    """Let rows be counted, and refuse files that do not hold what the spec declares."""
    base, levels = Path(folder).resolve(), _levels_of(spec)
    paths = find_files(spec.data.paths, base) if grouped is None else (Path(grouped.name),)
    check_lists_are_public(spec, base, paths)
    with session(paths, None if grouped is None else grouped.rows) as database:
        if grouped is None:
            read = read_sources(database, paths, spec.data.separator)
            sources = [replace(source, row_filters=spec.row_filters) for source in read]
        else:
            sources = [grouped_source(database, grouped)]
        sql.check_types(sources, levels, spec.data.count)
        _check_names(sources, spec, with_all=grouped is None)
        query = _cells_query(database, sources, levels, spec)
        if not database.for_each_batch(query, cell_counts.take):
            raise ReadingError(_reading_error(sources, spec.data.separator))
        if not cell_counts.n_rows:
            no_rows = "no row that `keep_rows` keeps" if spec.row_filters else "no rows"
            files = f"{paths[0].name} has a header and" if len(paths) == 1 else "the files have"
            raise ReadingError(f"{files} {no_rows}")
        if cell_counts.has_unknown:
            file = base / f"{CONFIDENTIAL}unknown-levels-{spec.release}.csv"
            raise_unknown(database, sources, levels, spec.data.separator, file)
        if grouped is None and spec.unit is not None and spec.unit.id_column is not None:
            rows = sql.rows_query(sources, [spec.unit.id_column], spec.data.separator)
            if not check_ids(database, rows, spec.unit):
                raise ReadingError(_reading_error(sources, spec.data.separator))
        if spec.data.count is not None:
            _check_problems(cell_counts.problems, spec.data.count)
            if isinstance(cell_counts, CellCounts):
                _check_counts(cell_counts, database, query, levels, spec, base)
            else:
                _check_each_once(database, query)


def _check_each_once(database: Session, query: str) -> None:
    """Refuse cells with several rows of counts."""
    repeated = database.rows(f"SELECT 1 FROM ({query}) GROUP BY cell HAVING count(*) > 1 LIMIT 1")  # noqa: S608
    if repeated is None or repeated:
        raise ReadingError(
            "some combinations of values have more than one row of counts. Add their counts up first, or use"
            " `kind: microdata`"
        )


def _check_problems(problems: set[int], column: str) -> None:
    if problems:
        words = "; ".join(sql.COUNT_PROBLEMS[problem] for problem in sorted(problems))
        raise ReadingError(f"column {column!r} has {words}")


def _check_names(sources: Sequence[Source], spec: Spec, *, with_all: bool) -> None:
    """Look up every column before any row is read; those that pick and check rows, if nobody has done that before."""
    columns = cell_columns(spec)
    if with_all:
        columns += [rows.column for rows in spec.row_filters]
        columns += [] if spec.unit is None or spec.unit.id_column is None else [spec.unit.id_column]
    for source in sources:
        for column in columns:
            source.place(column)


def cell_columns(spec: Spec) -> list[str]:
    """Return the columns of the data that say in which cell a row is counted, and as how many."""
    columns = [*(levels.column for levels in spec.dimensions), spec.area_column, spec.data.count]
    return list(dict.fromkeys(column for column in columns if column is not None))


def _cells_query(database: Session, sources: Sequence[Source], levels: Sequence[Levels], spec: Spec) -> str:
    """Return a query for the cell of every row, NULL where a value is no declared level, and for counts its count."""
    for number, dimension in enumerate(levels):
        if not dimension.cut:
            places = np.arange(len(dimension.codes), dtype=np.int32)
            database.register_columns(f"levels_{number}", {"code": dimension.codes, "place": places})
    columns: list[str | Levels] = [*levels, *(() if spec.data.count is None else (sql.CountColumn(spec.data.count),))]
    rows = sql.rows_query(sources, columns, spec.data.separator)
    parts = [sql.level_index(f"v{number}", dimension, number) for number, dimension in enumerate(levels)]
    cell = "0::BIGINT"
    for (place, _), dimension in zip(parts, levels, strict=True):
        cell = f"({cell}) * {len(dimension.labels)} + ({place})"
    count = "" if spec.data.count is None else f", v{len(levels)} AS value, problem"
    count += ", w" if any(source.is_grouped for source in sources) else ""
    return f"SELECT {cell} AS cell{count} FROM ({rows}){''.join(join for _, join in parts)}"  # noqa: S608


def _reading_error(sources: Sequence[Source], separator: str) -> str:
    for source in sources:
        for path in source.paths if not source.is_parquet else ():
            error = find_csv_error(path, len(source.columns), separator)
            if error is not None:
                return error
    names = ", ".join(path.name for source in sources for path in source.paths[:3])
    return f"the rows of {names} cannot be read; the file may be damaged, or not be what its name says"


def _check_counts(
    cell_counts: CellCounts, database: Session, query: str, levels: Sequence[Levels], spec: Spec, folder: Path
) -> None:
    """Refuse cells with more than one row, or without one where that is an error."""
    if cell_counts.n_rows > cell_counts.is_there.sum():
        again = CellCounts(cell_counts.shape)  # as many rows as a cell has, in place of its count
        database.for_each_batch(f"SELECT COLUMNS('^(cell|w)$') FROM ({query})", again.take)  # noqa: S608
        many = _listed(again.counts > 1, again.counts, levels, spec, folder)
        raise ReadingError(
            f"some cells have more than one row; the list {many}. Add their counts up first, or use `kind: microdata`"
        )
    if spec.data.missing_cells == "error" and not cell_counts.is_there.all():
        none = _listed(~cell_counts.is_there, cell_counts.is_there.astype(np.int64), levels, spec, folder)
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
