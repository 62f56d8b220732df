"""The data of a spec, read and grouped by Spark: Parquet files, folders of them, tables of a catalog. Confidential.

Spark puts equal rows together, of which there are at most as many as cells of all areas where codes are what the spec
declares. What the codes mean, and every refusal, is left to the same reader that reads files on one machine.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from congenial.engines.spark.session import without_pandas_warning
from congenial.errors import EngineError, ReadingError, did_you_mean
from congenial.reading.grouped import Grouped
from congenial.reading.ids import too_many_rows
from congenial.reading.public_files import check_apart
from congenial.reading.tables import cell_columns
from congenial.spec.spec import PrivacyUnit, Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TABLE = "table:"
_HIVE_TYPES = "spark.sql.sources.partitionColumnTypeInference.enabled"


def grouped_by_spark(session: "SparkSession", spec: Spec, folder: Path) -> Grouped | None:
    """Return the rows that a spec names, equal ones put together; None for CSV files, which the driver reads itself."""
    patterns = spec.data.paths
    if all(pattern.lower().endswith((".csv", ".csv.gz", ".tsv", ".txt")) for pattern in patterns):
        return None
    local = [(folder / pattern).resolve() for pattern in patterns if not _is_elsewhere(pattern)]
    check_apart(spec, folder.resolve(), local)
    frames = [_frame(session, pattern, folder) for pattern in patterns]
    return grouped(frames, spec, ", ".join(patterns))


def grouped(frames: list["DataFrame"], spec: Spec, name: str) -> Grouped:
    """Return the rows of some frames, equal ones put together, as `congenial.reading` takes them."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions

    columns = cell_columns(spec)
    parts = []
    for frame in frames:
        for column in [*columns, *_ids(spec.unit), *(rows.column for rows in spec.kept_rows)]:
            if frame.columns.count(column) != 1:
                raise ReadingError(
                    f"{name} has no column {column!r}, or several; {did_you_mean(column, frame.columns)}"
                )
        for rows in spec.kept_rows:
            frame = frame.where(functions.col(_quoted(rows.column)).cast("string").isin(list(rows.values)))  # noqa: PLW2901
        parts.append(frame.select(*(functions.col(_quoted(column)) for column in [*columns, *_ids(spec.unit)])))
    together = parts[0]
    for part in parts[1:]:
        if part.dtypes != together.dtypes:
            raise ReadingError(f"the columns of {name} have other types in one part of the data than in another")
        together = together.unionAll(part)
    try:
        if spec.unit is not None and spec.unit.id_column is not None:
            _check_ids(together, spec.unit)
        picked = together.select(
            *(functions.col(_quoted(column)).alias(f"c{place}") for place, column in enumerate(columns))
        )
        keys = [f"c{place}" for place in range(len(columns))]
        counted = picked.groupBy(*keys).agg(functions.count("*").alias("n"))
        with without_pandas_warning():
            rows = counted.toArrow()
    except PySparkException as failed:  # what Spark says about an error may quote a row
        raise ReadingError(f"Spark cannot read the rows of {name} ({type(failed).__name__})") from None
    return Grouped(name, tuple(columns), rows)


def _ids(unit: PrivacyUnit | None) -> list[str]:
    return [] if unit is None or unit.id_column is None else [unit.id_column]


def _check_ids(frame: "DataFrame", unit: PrivacyUnit) -> None:
    """Refuse units with more rows than declared, as the local reader does."""
    from pyspark.sql import functions

    own = frame.select(functions.col(_quoted(str(unit.id_column))).cast("string").alias("id"))
    if own.where(functions.col("id").isNull()).limit(1).count():
        raise ReadingError(f"column {unit.id_column!r} has empty values; every row needs to say whose it is")
    often = own.groupBy("id").count().where(functions.col("count") > unit.rows_per_unit)
    if often.limit(1).count():
        raise ReadingError(too_many_rows(unit))


def _frame(session: "SparkSession", pattern: str, folder: Path) -> "DataFrame":
    """Return the rows of a file, a folder, a pattern or a table of the catalog."""
    from pyspark.errors import PySparkException

    if pattern.lower().endswith((".csv", ".csv.gz", ".tsv", ".txt")):
        raise ReadingError(f"{pattern!r} is text, and other data are not: keep all of them as Parquet")
    before = session.conf.get(_HIVE_TYPES, "true")
    session.conf.set(_HIVE_TYPES, "false")  # a partition named 010 is not the number 10
    try:
        if pattern.startswith(TABLE):
            return session.table(pattern.removeprefix(TABLE))
        place = pattern if _is_elsewhere(pattern) else str(folder / pattern)
        return session.read.parquet(place)
    except PySparkException as failed:
        raise ReadingError(
            f"Spark finds no data at {pattern!r} ({type(failed).__name__}); name a Parquet file, a folder of them, or a"
            f" table of the catalog as {TABLE}name. Paths start at the folder of the spec, and every machine sees them"
        ) from None
    finally:
        session.conf.set(_HIVE_TYPES, str(before))


def _is_elsewhere(pattern: str) -> bool:
    return pattern.startswith(TABLE) or "://" in pattern


def _quoted(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def check_frame(frame: object) -> None:
    """Refuse what is no frame of Spark."""
    if not hasattr(frame, "groupBy") or not hasattr(frame, "mapInArrow"):
        raise EngineError(f"data are a DataFrame of Spark, not a {type(frame).__name__}")
