"""The SQL that turns rows into places of cells. Only numbers and quoted texts are written into it."""

from collections.abc import Sequence

from congenial.bundle.kept_rows import KeptRows
from congenial.errors import ReadingError
from congenial.reading.files import Source
from congenial.reading.session import GROUPED, path_list, quoted
from congenial.spec.levels import Levels
from congenial.table import LARGEST_COUNT

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


def rows_of(sources: Sequence[Source], columns: Sequence[str | Levels], separator: str) -> str:
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
    where = " AND ".join(_is_kept(source, rows) for rows in source.kept_rows)
    rows = f"SELECT {', '.join(picked)} FROM {scan(source, separator)} AS file({', '.join(names)})"  # noqa: S608
    return f"{rows} WHERE {where}" if where else rows


def _is_kept(source: Source, rows: KeptRows) -> str:
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
        for rows in source.kept_rows:
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


def place_of(value: str, levels: Levels, number: int) -> tuple[str, str]:
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
