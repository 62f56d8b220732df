"""The Spark engine: reads and draws on a cluster, while plan, certificate, charge and bundle stay with the driver."""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from congenial.curator.pipeline import Published, ReleaseEngine
from congenial.disk_and_gzip import flush_folder
from congenial.engines.draw_tasks import (
    UNIT,
    DrawJob,
    DrawnPiece,
    GatheredTables,
    cut_into_tasks,
    drawn_columns,
    released_content,
    software_digest,
)
from congenial.engines.key_location import KeyLocation
from congenial.engines.spark import session_data_and_tasks as cluster
from congenial.engines.spark.session_data_and_tasks import check_frame, grouped, grouped_by_spark
from congenial.errors import BundleError, EngineError, reason_of
from congenial.progress_and_interrupts import Progress
from congenial.published_release import Release
from congenial.reading.tables_and_data_checks import GroupedRows
from congenial.release import Prepared
from congenial.release_key import KeyFile
from congenial.spec.spec_and_hierarchy import Spec
from congenial.tree.tree_and_zeros import TreeTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from congenial.ledger import Ledger

# The released tables as a folder of Parquet, written by the tasks and committed by the driver. Public.
#
# Tasks write into a hidden folder beside the one that is asked for, where Spark keeps what each attempt has written
# apart until the attempt is taken. The driver reads it back, sees that every unit is there once, and gives the folder
# its name when the bundle is there. Whoever stops this at any moment leaves the whole folder or none; a hidden
# remainder may stay.

CONTENT = "_content.json"  # readers of Parquet folders pass over names that begin so


class TablesFolder:
    """A folder that is being made."""

    def __init__(self, place: Path) -> None:
        self.place = place.absolute()
        self._attempt = self.place.parent / f".{self.place.name}.unfinished-{uuid4().hex}"

    def check(self) -> None:
        """Refuse, before anything is spent, a place where the folder could not be made."""
        if not self.place.parent.is_dir():
            raise BundleError(
                f"the folder {self.place.parent} does not exist; make it, or name another place for tables"
            )
        if self.place.exists() and not (self.place / CONTENT).is_file():
            raise BundleError(f"{self.place} is there already; name a new folder for tables")

    def written(self, session: "SparkSession", frame: "DataFrame", ready: Prepared) -> "DataFrame":
        """Let the tasks write what they draw; return what is there then."""
        frame.toDF(*UNIT, *drawn_columns(ready.plan.law)).write.parquet(str(self._attempt))
        return session.read.parquet(str(self._attempt))

    def add(self, above: Sequence[DrawnPiece], ready: Prepared) -> None:
        """Add the upper levels of a tree, which the driver has drawn, as a file of its own."""
        if not above:
            return
        import pyarrow as pa
        from pyarrow import parquet

        parts = pa.Table.from_batches([cluster.batch_of(piece) for piece in above])
        columns = [*UNIT, *drawn_columns(ready.plan.law)]
        parquet.write_table(parts.rename_columns(columns), self._attempt / "part-driver.parquet")

    def commit(self, release: Release) -> None:
        """Give the folder its name; one that is there already must hold the same content."""
        facts = {
            "release": release.naming.release,
            "dataset": release.naming.dataset,
            "content": released_content(release),
            "levels": [name for name, _ in release.plan.law.names_and_codes],
        }
        text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
        if self.place.exists():
            shutil.rmtree(self._attempt, ignore_errors=True)
            content = self.place / CONTENT
            if not content.is_file() or content.read_text(encoding="utf-8") != text:
                raise BundleError(
                    f"{self.place} is there already, and has not the tables of this release; move it away"
                )
            return
        (self._attempt / CONTENT).write_text(text, encoding="utf-8")
        flush_folder(self._attempt)
        os.rename(self._attempt, self.place)
        flush_folder(self.place.parent)


AT_ONCE = 4_000
"""Areas or leaves of a task, about: a second of work, so that a task that is lost costs little."""

_OURS = re.compile(r"congenial\.errors\.\w+: (.+)")


class SparkEngine(ReleaseEngine):
    """Reads and draws a release with a Spark session. Not one number depends on how the work is spread.

    Parameters
    ----------
    session : SparkSession
        Anybody's own, or one of `spark_session` of `congenial.engines.spark.session_data_and_tasks`. Its machines have
        the same software.
    data : DataFrame, optional
        The confidential rows; what the spec names if not given.
    n_partitions : int, optional
        Tasks that Spark runs at most at a time; four for each core if not given.
    at_once : int
        Areas or leaves of one piece of work.
    executor_keys : path, optional
        The folder of keys as the machines see it; at the driver's path if not given.
    key_command : str, optional
        A command that prints a key on the machines, instead of a folder.
    tables : path, optional
        A folder, seen by all machines, to write the released tables to as Parquet, beside the bundle.
    """

    def __init__(
        self,
        session: "SparkSession",
        *,
        data: "DataFrame | None" = None,
        n_partitions: int | None = None,
        at_once: int = AT_ONCE,
        executor_keys: str | Path | None = None,
        key_command: str | None = None,
        tables: str | Path | None = None,
    ) -> None:
        if data is not None:
            check_frame(data)
        if executor_keys is not None and key_command is not None:
            raise EngineError("machines get the key from a folder or from a command: name one of them")
        for name, number in (("n_partitions", n_partitions), ("at_once", at_once)):
            if number is not None and (type(number) is not int or number < 1):
                raise EngineError(f"{name} is a whole number from 1 on, not {number!r}")
        self._session, self._data, self._at_once = session, data, at_once
        self._n_partitions = n_partitions
        self._folder = None if executor_keys is None else str(executor_keys)
        self._command = key_command
        self._tables = None if tables is None else TablesFolder(Path(tables))

    def read(self, spec: Spec, folder: Path) -> GroupedRows | None:
        """Return the rows of the data, equal ones put together by Spark. Confidential."""
        if self._data is not None:
            return grouped([self._data], spec, "the frame")
        return grouped_by_spark(self._session, spec, folder)

    def check(self, keys: Path | None) -> None:
        """See, before anything is charged, that the machines can draw, and find files in the folder of keys."""
        if self._tables is not None:
            self._tables.check()
        if keys is None:
            return  # the charge refuses that, with the way out
        name, content = f"trial-{uuid4().hex}", os.fsencode(uuid4().hex)
        file = keys / name
        try:
            keys.mkdir(mode=0o700, exist_ok=True)
            file.touch(0o600)
            file.write_bytes(content)
        except OSError as refused:
            raise EngineError(f"nothing can be written into the folder for keys {keys}: {reason_of(refused)}") from None
        try:
            with _spark_error_as_refusal():
                cluster.dry_run(self._session, self._place(keys), name, content, software_digest())
        finally:
            file.unlink(missing_ok=True)

    def draw(self, ready: Prepared, file: KeyFile, progress: Progress) -> TreeTables:
        """Draw the upper levels here, and everything else on the machines."""
        if file.key is None:
            raise EngineError("internal: a release is drawn after its key was written")
        n_cells, width = ready.plan.law.schema.n_cells, len(drawn_columns(ready.plan.law))
        job = DrawJob.of(ready, file, self._place(file.path.parent))
        gathered = GatheredTables(ready)
        above, work = cut_into_tasks(ready, file.key, self._at_once)
        gathered.add(above)
        n_partitions = self._n_partitions or 4 * self._session.sparkContext.defaultParallelism
        with _spark_error_as_refusal(), cluster.task_progress(self._session, progress):
            tasks = cluster.task_rows(self._session, work, n_partitions)
            frame = cluster.drawn_frame(tasks, self.drawing(job, n_cells), width)
            if self._tables is not None:
                frame = self._tables.written(self._session, frame, ready)
            cluster.gather(frame, gathered)
        if self._tables is not None:
            self._tables.add(above, ready)
        tables = gathered.tables
        ready.plan.check(tables)  # other machines made them
        return tables

    def drawing(self, job: DrawJob, n_cells: int) -> Callable[[cluster.Batches], cluster.Batches]:
        """Return what the machines run."""
        return cluster.drawing_of(job, n_cells)

    def finish(self, release: Release) -> None:
        """Commit the folder of tables, if there is one."""
        if self._tables is not None:
            self._tables.commit(release)

    def _place(self, keys: Path) -> KeyLocation:
        if self._command is not None:
            return KeyLocation(command=self._command)
        return KeyLocation(folder=self._folder or str(keys.absolute()))


@contextmanager
def _spark_error_as_refusal() -> Iterator[None]:
    """Turn what a machine or Spark has refused into an error of ours: the machine's own words, without a traceback."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as failed:
        messages = _OURS.findall(str(failed))
        reason = messages[-1].strip() if messages else f"Spark could not finish ({type(failed).__name__}); see its logs"
        raise EngineError(reason.removesuffix(".")) from None


def release_with_spark(
    spec: str | Path,
    session: "SparkSession",
    *,
    ledger: "Ledger",
    who: str,
    out: str | Path | None = None,
    data: "DataFrame | None" = None,
    resume: bool = False,
    now: datetime | None = None,
    progress: Progress | None = None,
    **options: object,
) -> Published:
    """Release what a spec describes, with a session of one's own; the same as ``congenial release --engine spark``.

    Parameters
    ----------
    spec : path
        The spec file.
    out : path, optional
        A new folder for the bundle; named as the release if not given.
    data : DataFrame, optional
        The confidential rows; what the spec names if not given.
    resume : bool
        Whether to go on with a release that was stopped after its charge.
    options
        Of `SparkEngine`.
    """
    from congenial.curator import pipeline
    from congenial.progress_and_interrupts import silent
    from congenial.spec.load import load_spec

    loaded, beside = load_spec(Path(spec)), Path(spec).absolute().parent
    engine = SparkEngine(session, data=data, **options)  # type: ignore[arg-type]
    tell = progress or silent
    if resume:
        return pipeline.resume(loaded, beside, out, ledger=ledger, progress=tell, engine=engine)
    place = Path(loaded.release) if out is None else Path(out)
    return pipeline.release(loaded, beside, place, ledger=ledger, who=who, now=now, progress=tell, engine=engine)
