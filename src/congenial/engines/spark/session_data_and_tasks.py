"""Spark: a session, the data of a spec read and grouped by it, and tasks run on its machines. Confidential.

Spark puts equal rows together, of which there are at most as many as cells of all areas where codes are what the spec
declares. What the codes mean, and every refusal, is left to the same reader that reads files on one machine.
"""

import os
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from congenial.engines.draw_tasks import UNIT, DrawJob, DrawnPiece, GatheredTables, Work, check_software
from congenial.engines.key_location import KeyLocation
from congenial.errors import EngineError, ReadingError, did_you_mean
from congenial.progress_and_interrupts import DRAWING, Progress
from congenial.reading.files_and_columns import check_lists_are_public
from congenial.reading.tables_and_data_checks import GroupedRows, cell_columns, too_many_rows
from congenial.spec.spec_and_hierarchy import PrivacyUnit, Spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A Spark session for a release, and what every session must be able to do.

INSTALL = "Spark is the extra `spark` (make spark, or pip install 'congenial[spark]'), and needs Java 17"
_OURS = {
    "spark.app.name": "congenial",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # What Spark keeps on disk for a while holds confidential counts: it is encrypted, by a key of the session's own.
    "spark.io.encryption.enabled": "true",
    "spark.driver.maxResultSize": "0",
}


def check_installed() -> None:
    """Refuse, in words, where Spark is not installed."""
    from importlib.util import find_spec
    from shutil import which

    if find_spec("pyspark") is None:
        raise EngineError(f"pyspark is not installed here. {INSTALL}")
    if which("java") is None and "JAVA_HOME" not in os.environ:
        raise EngineError(f"there is no java here. {INSTALL}")


@contextmanager
def spark_session(master: str, options: Mapping[str, str] | None = None) -> Iterator["SparkSession"]:
    """Give a session of its own on a cluster, and stop it.

    Parameters
    ----------
    master : str
        The cluster's address, such as ``spark://127.0.0.1:7077``, or ``local[2]`` for threads of this machine.
    options : mapping, optional
        Settings of Spark, such as ``{"spark.executor.memory": "4g"}``; they go before ours.
    """
    check_installed()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master)
    for name, value in {**_OURS, **(options or {})}.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except Exception as failed:  # noqa: BLE001  py4j raises many kinds
        raise EngineError(
            f"no Spark session on {master!r} ({type(failed).__name__}): see that the cluster is up and can reach this"
            " machine, and what Spark has logged"
        ) from None
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def without_pandas_warning() -> Iterator[None]:
    """Keep PySpark from warning that it does not know pandas 3: batches are Arrow's, and pandas sees none of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)
        yield


TABLE = "table:"
_HIVE_TYPES = "spark.sql.sources.partitionColumnTypeInference.enabled"


def grouped_by_spark(session: "SparkSession", spec: Spec, folder: Path) -> GroupedRows | None:
    """Return the rows that a spec names, equal ones put together; None for CSV files, which the driver reads itself."""
    patterns = spec.data.paths
    if all(pattern.lower().endswith((".csv", ".csv.gz", ".tsv", ".txt")) for pattern in patterns):
        return None
    local = [(folder / pattern).resolve() for pattern in patterns if not _is_elsewhere(pattern)]
    check_lists_are_public(spec, folder.resolve(), local)
    frames = [_frame(session, pattern, folder) for pattern in patterns]
    return grouped(frames, spec, ", ".join(patterns))


def grouped(frames: list["DataFrame"], spec: Spec, name: str) -> GroupedRows:
    """Return the rows of some frames, equal ones put together, as `congenial.reading` takes them."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions

    columns = cell_columns(spec)
    parts = []
    for frame in frames:
        for column in [*columns, *_ids(spec.unit), *(rows.column for rows in spec.row_filters)]:
            if frame.columns.count(column) != 1:
                raise ReadingError(
                    f"{name} has no column {column!r}, or several; {did_you_mean(column, frame.columns)}"
                )
        for rows in spec.row_filters:
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
    return GroupedRows(name, tuple(columns), rows)


def _ids(unit: PrivacyUnit | None) -> list[str]:
    return [] if unit is None or unit.id_column is None else [unit.id_column]


def _check_ids(frame: "DataFrame", unit: PrivacyUnit) -> None:
    """Refuse units with more rows than declared, as the local reader does."""
    from pyspark.sql import functions

    ids = frame.select(functions.col(_quoted(str(unit.id_column))).cast("string").alias("id"))
    if ids.where(functions.col("id").isNull()).limit(1).count():
        raise ReadingError(f"column {unit.id_column!r} has empty values; every row needs to say whose it is")
    often = ids.groupBy("id").count().where(functions.col("count") > unit.rows_per_unit)
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


# Tasks on a cluster: rows of public structure and confidential tables in, rows of drawn tables out.

Batches = Iterator[Any]
"""Record batches of Arrow."""


def task_rows(session: "SparkSession", work: Work, n_partitions: int) -> "DataFrame":
    """Return tasks as a frame, a row each: what is public, pickled, and the confidential tables. Confidential."""
    import pyarrow as pa

    table = pa.table(
        {
            "task": pa.array([pickle.dumps(task) for task, _ in work], pa.binary()),
            "counts": pa.array(
                [np.ascontiguousarray(counts, "<i8").tobytes() for _, counts in work], pa.large_binary()
            ),
        }
    )
    with without_pandas_warning():
        frame = session.createDataFrame(table)
    return frame.repartition(max(1, min(n_partitions, len(work))))


def drawing_of(job: DrawJob, n_cells: int) -> Callable[[Batches], Batches]:
    """Return what draws batches of tasks, on whatever machine it runs. It holds nothing that is not public."""

    def draw(batches: Batches) -> Batches:
        key = job.key()
        for batch in batches:
            for task, counts in zip(batch.column(0), batch.column(1), strict=True):
                tables = np.frombuffer(counts.as_py(), "<i8").astype(np.int64).reshape(-1, n_cells)
                # Pickled by the driver of this very job.
                for piece in pickle.loads(task.as_py()).draw(job, tables, key):  # noqa: S301
                    yield batch_of(piece, job.columns)

    return draw


def batch_of(piece: DrawnPiece, columns: Sequence[Sequence[int]] = ()) -> Any:
    """Return drawn units as rows; a number that its level has not is null."""
    import pyarrow as pa

    n_units = len(piece.tables)
    own = columns[piece.level] if columns else range(piece.tables.shape[1])
    width = 1 + max(max(some, default=-1) for some in (*columns, own))
    numbers = dict(zip(own, piece.tables.T, strict=True))
    columns = [
        pa.array(np.full(n_units, piece.level, np.int32)),
        pa.array(np.arange(piece.first, piece.first + n_units, dtype=np.int64)),
        pa.array(piece.codes, pa.string()),
        *(
            pa.array(np.ascontiguousarray(numbers[place])) if place in numbers else pa.nulls(n_units, pa.int64())
            for place in range(width)
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*UNIT, *(f"c{cell}" for cell in range(len(columns) - 3))])


def drawn_frame(tasks: "DataFrame", draw: Callable[[Batches], Batches], n_cells: int) -> "DataFrame":
    """Return the frame of drawn units; Spark runs nothing before its rows are read."""
    kinds = ["level int", "place long", "code string", *(f"c{cell} long" for cell in range(n_cells))]
    with without_pandas_warning():
        return tasks.mapInArrow(draw, ", ".join(kinds))


def gather(frame: "DataFrame", gathered: GatheredTables) -> None:
    """Run a frame of drawn units, and put its rows where they belong."""
    with without_pandas_warning():
        rows = frame.toArrow()
    levels, places = (rows.column(name).to_numpy() for name in UNIT[:2])
    for level in np.unique(levels).tolist():
        in_level, own = levels == level, gathered.columns[level]
        tables = np.empty((int(in_level.sum()), len(own)), np.int64)
        for number, column in enumerate(own):
            tables[:, number] = rows.column(column + 3).fill_null(0).to_numpy()[in_level]
        gathered.put(level, places[in_level], tables)


def dry_run(session: "SparkSession", place: KeyLocation, name: str, content: bytes, software: str) -> None:
    """See that the machines have the software of the release, and can read a file without a key among the keys."""
    n_tasks = 2 * session.sparkContext.defaultParallelism

    def tried(batches: Batches) -> Batches:
        check_software(software)
        if place.content(name) != content:
            raise EngineError(f"{place.text} does not give what the driver has written into the folder of keys")
        yield from batches

    with without_pandas_warning():
        session.range(n_tasks, numPartitions=n_tasks).mapInArrow(tried, "id long").count()


@contextmanager
def task_progress(session: "SparkSession", progress: Progress) -> Iterator[None]:
    """Say how many of Spark's tasks are done, from a thread of its own, while a block runs."""
    tracker, is_over = session.sparkContext.statusTracker(), threading.Event()

    def watch() -> None:
        last = (0, 0)
        while not is_over.wait(0.5):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            n_done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            n_all = sum(stage.numTasks for stage in stages if stage is not None)
            if n_all and (n_done, n_all) != last:
                progress(DRAWING, n_done, n_all)
            last = (n_done, n_all)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        is_over.set()
        watching.join()
