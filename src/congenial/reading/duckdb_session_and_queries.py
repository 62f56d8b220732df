"""A DuckDB session that sees the named files and nothing else, keeps everything in memory and never speaks of values.

What DuckDB says about an error may quote a row, so it is thrown away, even as the context of our own errors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from congenial.arrow_and_unit_codes import numbers_to_arrow, texts_to_arrow
from congenial.bundle.naming_and_versions import RowFilter
from congenial.disk_and_gzip import check_whole, is_packed
from congenial.errors import ReadingError
from congenial.memory_and_threads import memory_for_reading, n_processors
from congenial.reading.files_and_columns import FileColumn, Source, first_bytes, is_parquet, read_csv_columns
from congenial.spec.dimension_levels_and_public_lists import Levels
from congenial.table import LARGEST_COUNT

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow import RecordBatch

GROUPED = "grouped_rows"
"""The table of rows that were grouped elsewhere."""

_ROWS = 250_000  # at a time: a few megabytes
Result = TypeVar("Result")


class Session:
    """Runs queries and reports only that one failed."""

    def __init__(self, connection: "DuckDBPyConnection") -> None:
        self._connection = connection

    def rows(self, query: str, values: dict[str, Any] | None = None) -> list[tuple[Any, ...]] | None:
        """Return the rows of a query; None when it failed."""
        return self._tried(lambda: self._connection.execute(query, values or {}).fetchall())

    def columns(self, query: str) -> dict[str, Any] | None:
        """Return the columns of a query as arrays; None when it failed."""
        return self._tried(lambda: self._connection.execute(query).fetchnumpy())

    def register_columns(self, name: str, columns: Mapping[str, Sequence[str] | NDArray[Any]]) -> None:
        """Make public columns known to queries as a table of this name."""
        import pyarrow

        arrays = [
            numbers_to_arrow(column) if isinstance(column, np.ndarray) else texts_to_arrow(column)
            for column in columns.values()
        ]
        self._connection.register(name, pyarrow.Table.from_arrays(arrays, names=list(columns)))

    def for_each_batch(self, query: str, take: "Callable[[RecordBatch], None]") -> bool:
        """Hand the rows of a query on in parts, in no particular order; false when it failed.

        Rows come as Arrow columns: nothing is made of a single row, and the memory does not depend on how many there
        are.
        """

        def work() -> bool:
            for part in self._connection.sql(query).to_arrow_reader(_ROWS):
                take(part)
            return True

        return self._tried(work) is not None

    @staticmethod
    def _tried(work: Callable[[], Result]) -> Result | None:
        import duckdb
        import pyarrow

        try:
            return work()
        except (duckdb.Error, UnicodeDecodeError, pyarrow.ArrowException, OSError) as error:
            # Through Arrow an error arrives as a text alone, which is looked at and never shown.
            is_memory = isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory" in str(error)
        if is_memory:  # raised out here, where DuckDB's error is no longer its context
            raise ReadingError(
                f"adding up the rows takes more memory than the {memory_for_reading() // 10**6:,} MB set aside for it,"
                " a third of what this process may take; allow more, --memory or the environment variable"
                " CONGENIAL_MEMORY"
            )
        return None


@contextmanager
def session(paths: Sequence[Path], grouped: Any = None) -> Iterator[Session]:
    """Open a session for these files, or for rows that were grouped elsewhere, as an Arrow table."""
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "allow_persistent_secrets": False,
            "memory_limit": f"{memory_for_reading() // 10**6}MB",
            "preserve_insertion_order": False,
            "python_enable_replacements": False,
            "temp_directory": "",  # confidential rows never reach a disk, not even for a moment
            "threads": min(4, n_processors()),
        },
    )
    try:
        allowed = {text for path in paths for text in (str(path), _without_magic(path))}
        connection.execute(f"SET allowed_paths = [{', '.join(map(quoted, sorted(allowed)))}]")
        connection.execute("SET enable_progress_bar = false")
        # How many rows a CSV file has is not known before it is read; a wrong guess would keep all of them in memory as
        # the table to look up in (10 million rows: out of memory), where only the levels should be.
        connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        if grouped is not None:
            connection.register(GROUPED, grouped)
        yield Session(connection)
    finally:
        connection.close()


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def path_list(paths: Sequence[Path]) -> str:
    """Return files as an SQL list in which nothing is a pattern."""
    return f"[{', '.join(quoted(_without_magic(path)) for path in paths)}]"


def _without_magic(path: Path) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path))


# The SQL that maps rows to cells. Only numbers and quoted texts are written into it.

_INTEGERS = {f"{sign}{size}" for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")}
_NUMBERS = {*_INTEGERS, "DOUBLE", "FLOAT", "DECIMAL"}
_EXACT_TEXT = {*_INTEGERS, "VARCHAR", "BOOLEAN", "DATE", "ENUM", "UUID"}
_NUMBER = r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"

COUNT_PROBLEMS = {
    1: "empty values",
    2: "negative counts",
    3: "counts with a decimal point or an exponent; write whole numbers as digits only, 12 and not 12.0",
    4: "counts beyond 2^53, the largest whole number that every reader of a release holds exactly",
    5: "values that are not numbers; write digits only, without spaces or thousands separators",
}


class CountColumn(str):
    """The name of a column of counts."""

    __slots__ = ()


def rows_query(sources: Sequence[Source], columns: Sequence[str | Levels], separator: str) -> str:
    """Return a query for columns of all files, as v0, v1, ..., and for how many rows each row stands, as w.

    Parameters
    ----------
    columns : names or levels
        A name, and levels with codes, give exact text; levels that cut a numeric column give a double, NaN for what
        is not a number. NULL is an empty value. A `CountColumn` gives its count, NULL for what is none, and as
        `problem` what is wrong with it: a key of `COUNT_PROBLEMS`, or 0.
    """
    return " UNION ALL ".join(_rows_of(source, columns, separator) for source in sources)


def _rows_of(source: Source, columns: Sequence[str | Levels], separator: str) -> str:
    names = [f"c{place}" for place in range(len(source.columns))]
    picked = [f"{_value(source, column)} AS v{number}" for number, column in enumerate(columns)]
    picked.append(f"{names[-1] if source.is_grouped else 1} AS w")
    where = " AND ".join(_is_kept(source, rows) for rows in source.row_filters)
    rows = f"SELECT {', '.join(picked)} FROM {scan(source, separator)} AS file({', '.join(names)})"  # noqa: S608
    return f"{rows} WHERE {where}" if where else rows


def _is_kept(source: Source, rows: RowFilter) -> str:
    return f"c{source.place(rows.column)}::VARCHAR IN ({', '.join(map(quoted, rows.values))})"


def _value(source: Source, column: str | Levels) -> str:
    place = source.place(column if isinstance(column, str) else column.column)
    if isinstance(column, CountColumn):
        return _count(f"c{place}", is_number=source.columns[place].type in _INTEGERS)
    if isinstance(column, str) or not column.cut:
        return f"c{place}::VARCHAR"
    if source.columns[place].type == "VARCHAR":
        number = f"CASE WHEN regexp_full_match(c{place}, {quoted(_NUMBER)}) THEN TRY_CAST(c{place} AS DOUBLE) END"
        return f"CASE WHEN nullif(c{place}, '') IS NOT NULL THEN coalesce({number}, 'nan'::DOUBLE) END"
    return f"c{place}::DOUBLE"


def scan(source: Source, separator: str) -> str:
    """Return the table function that reads the files of a source."""
    if source.is_grouped:
        return GROUPED
    files = path_list(source.paths)
    if source.is_parquet:
        return f"read_parquet({files}, hive_partitioning = false)"
    columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(source.columns)))
    return (
        f"read_csv({files}, auto_detect = false, header = true, delim = {quoted(separator)}, quote = '\"',"
        f" escape = '\"', strict_mode = true, null_padding = false, ignore_errors = false,"
        f" compression = {quoted('gzip' if source.is_packed else 'none')},"
        f" hive_partitioning = false, columns = {{{columns}}})"
    )


def check_types(sources: Sequence[Source], levels: Sequence[Levels], count: str | None) -> None:
    """Refuse columns whose values have no exact text: a level is compared letter by letter."""
    for source in sources:
        for dimension in levels:
            column = source.columns[source.place(dimension.column)]
            kind = column.type.split("(")[0]
            if kind not in (_NUMBERS | {"VARCHAR"} if dimension.cut else _EXACT_TEXT):
                fix = "numbers" if dimension.cut else "text or whole numbers"
                raise ReadingError(
                    f"column {column.name!r} of {source.paths[0].name} holds values of type {kind};"
                    f" store them as {fix}" + ("" if dimension.cut else ", or cut the column into intervals")
                )
        for rows in source.row_filters:
            column = source.columns[source.place(rows.column)]
            if (kind := column.type.split("(")[0]) not in _EXACT_TEXT:
                raise ReadingError(
                    f"rows are kept by column {column.name!r} of {source.paths[0].name}, which holds values of type"
                    f" {kind}; store them as text or whole numbers"
                )
        if count is not None:
            column = source.columns[source.place(count)]
            if column.type not in {*_INTEGERS, "VARCHAR"}:
                raise ReadingError(
                    f"the counts in column {column.name!r} of {source.paths[0].name} have type"
                    f" {column.type.split('(')[0]}; store them as whole numbers"
                )


def level_index(value: str, levels: Levels, number: int) -> tuple[str, str]:
    """Return the expression for the place of a value among the levels, NULL if there is none, and the join it needs."""
    if not levels.cut:
        text = f"coalesce({value}, '')" if levels.has_empty else value
        return f"l{number}.place", f" LEFT JOIN levels_{number} AS l{number} ON {text} = l{number}.code"
    empty = levels.n_stated if levels.has_empty else "NULL"
    places = ["0" if levels.has_below else "NULL", *map(str, range(levels.has_below, levels.n_stated))]
    branches = [f"WHEN {value} < {_double(end)} THEN {place}" for end, place in zip(levels.cut, places, strict=False)]
    return (
        f"CASE WHEN {value} IS NULL THEN {empty} WHEN NOT isfinite({value}) THEN NULL"
        f" {' '.join(branches)} ELSE {places[-1]} END",
        "",
    )


def _double(value: float) -> str:
    return f"{quoted(repr(value))}::DOUBLE"


def _count(value: str, *, is_number: bool) -> str:
    """Return the expressions of what is wrong with a count, and of the count."""
    if is_number:  # no text is made of it: 46 million regular expressions take a minute
        return (
            f"CASE WHEN {value} IS NULL THEN 1 WHEN {value} < 0 THEN 2 WHEN {value} > {LARGEST_COUNT} THEN 4 ELSE 0 END"
            f" AS problem, CASE WHEN {value} BETWEEN 0 AND {LARGEST_COUNT} THEN {value}::BIGINT END"
        )
    text = f"{value}::VARCHAR"
    number = f"CASE WHEN regexp_full_match({text}, '0*[0-9]{{1,16}}') THEN TRY_CAST({text} AS BIGINT) END"
    count = f"CASE WHEN {number} <= {LARGEST_COUNT} THEN {number} END"
    return (
        f"CASE WHEN {text} IS NULL THEN 1"
        f" WHEN regexp_full_match({text}, '-[0-9]+') THEN 2"
        f" WHEN regexp_full_match({text}, '[0-9]+') THEN CASE WHEN {count} IS NULL THEN 4 ELSE 0 END"
        f" WHEN regexp_full_match({text}, {quoted(_NUMBER)}) THEN 3"
        f" ELSE 5 END AS problem, {count}"
    )


# The columns of data files: the header of a CSV file, the footer of a Parquet file.


def read_sources(database: Session, paths: Sequence[Path], separator: str) -> list[Source]:
    """Return the files, those with the same columns together."""
    together: dict[tuple[bool, tuple[FileColumn, ...], bool], list[Path]] = {}
    for path in paths:
        head = first_bytes(path)
        packed, parquet = is_packed(path), is_parquet(path, head)
        if packed and parquet:
            raise ReadingError(f"{path.name} is a Parquet file packed by gzip; unpack it, for Parquet is packed inside")
        if packed:
            check_whole(path)
        columns = _parquet_columns(database, path) if parquet else read_csv_columns(path, head, separator)
        together.setdefault((parquet, columns, packed), []).append(path)
    return [Source(tuple(files), *alike) for alike, files in together.items()]


def _parquet_columns(database: Session, path: Path) -> tuple[FileColumn, ...]:
    files = path_list([path])
    kinds = database.rows(f"DESCRIBE SELECT * FROM read_parquet({files}, hive_partitioning = false)")  # noqa: S608
    entries = database.rows(f"SELECT name, num_children FROM parquet_schema({files})")  # noqa: S608
    if kinds is None or entries is None:
        raise ReadingError(f"{path.name} is not a Parquet file that can be read; it may be cut short or damaged")
    names = []
    place = 1  # the first entry is the root; DESCRIBE would rename columns that differ only in capitals
    while place < len(entries):
        names.append(entries[place][0])
        open_children = 1
        while open_children:
            open_children += (entries[place][1] or 0) - 1
            place += 1
    return tuple(FileColumn(name, kind[1]) for name, kind in zip(names, kinds, strict=True))
