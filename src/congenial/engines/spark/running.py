"""Tasks on a cluster: rows of public structure and confidential tables in, rows of drawn tables out."""

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from congenial.engines.gather import Gathered
from congenial.engines.key_place import KeyPlace
from congenial.engines.spark.session import without_pandas_warning
from congenial.engines.task import Job, Piece, Work, check_software
from congenial.errors import EngineError
from congenial.progress import DRAWING, Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Batches = Iterator[Any]
"""Record batches of Arrow."""

UNIT = ("level", "place", "code")
"""The columns of a drawn unit before its cells."""


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


def drawing_of(job: Job, n_cells: int) -> Callable[[Batches], Batches]:
    """Return what draws batches of tasks, on whatever machine it runs. It holds nothing that is not public."""

    def draw(batches: Batches) -> Batches:
        key = job.key()
        for batch in batches:
            for task, counts in zip(batch.column(0), batch.column(1), strict=True):
                own = np.frombuffer(counts.as_py(), "<i8").astype(np.int64).reshape(-1, n_cells)
                # Pickled by the driver of this very job.
                for piece in pickle.loads(task.as_py()).draw(job, own, key):  # noqa: S301
                    yield batch_of(piece)

    return draw


def batch_of(piece: Piece) -> Any:
    """Return drawn units as rows."""
    import pyarrow as pa

    n_units = len(piece.tables)
    columns = [
        pa.array(np.full(n_units, piece.level, np.int32)),
        pa.array(np.arange(piece.first, piece.first + n_units, dtype=np.int64)),
        pa.array(piece.codes, pa.string()),
        *(pa.array(np.ascontiguousarray(column)) for column in piece.tables.T),
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*UNIT, *(f"c{cell}" for cell in range(len(columns) - 3))])


def drawn_frame(tasks: "DataFrame", draw: Callable[[Batches], Batches], n_cells: int) -> "DataFrame":
    """Return the frame of drawn units; nothing runs before it is asked for."""
    kinds = ["level int", "place long", "code string", *(f"c{cell} long" for cell in range(n_cells))]
    with without_pandas_warning():
        return tasks.mapInArrow(draw, ", ".join(kinds))


def gather(frame: "DataFrame", gathered: Gathered) -> None:
    """Run a frame of drawn units, and put its rows where they belong."""
    with without_pandas_warning():
        rows = frame.toArrow()
    levels, places = (rows.column(name).to_numpy() for name in UNIT[:2])
    tables = np.empty((rows.num_rows, rows.num_columns - 3), np.int64)
    for cell in range(tables.shape[1]):
        tables[:, cell] = rows.column(cell + 3).to_numpy()
    for level in np.unique(levels).tolist():
        own = levels == level
        gathered.put(level, places[own], tables[own])


def rehearse(session: "SparkSession", place: KeyPlace, name: str, content: bytes, software: str) -> None:
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
def told(session: "SparkSession", progress: Progress) -> Iterator[None]:
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
