"""Releases on a real cluster of Spark: the release of one machine, whatever happens to tasks and executors."""

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial.release
from congenial.curator import pipeline
from congenial.engines.draw_tasks import released_content
from congenial.errors import CongenialError
from congenial.inference.analyst_bundle import load_bundle
from congenial.progress_and_interrupts import silent
from congenial.randomness import SecretBytes
from congenial.release import Prepared
from congenial.release_key import KeyFolder, ReleaseKey
from congenial.spec.load import load_spec
from engines.spark_cluster import MISSING, REASON, Cluster, cluster
from engines.spark_data import NOW, Data, blocks, people

pytestmark = pytest.mark.skipif(bool(MISSING) and not os.environ.get("CONGENIAL_REQUIRE_ALL"), reason=REASON)

KEY = SecretBytes(b"\x91" + os.urandom(31))  # never the same, so that nothing older can hold it
TEMPORARY = (
    "spark-*",
    "pyspark-*",
    "blockmgr-*",
    "hsperfdata_*",
    "congenial-*",
)  # what Spark, Java and we leave in there
AT_ONCE = 2  # areas or leaves of a task: enough tasks for 16 partitions


class Trouble:
    """What happens to tasks: runs on the machines, in place of the draw that it wraps."""

    def __init__(self, folder: Path, after_first: Callable[[int], None]) -> None:
        folder.mkdir()
        self.folder, self.after_first = folder, after_first

    def runs(self, number: int) -> list[int]:
        """Return where a task has begun so far: the daemons of Python workers, one for each time."""
        return [int(path.name.split("-")[1]) for path in self.folder.glob(f"{number}-*")]

    def wrap(self, draw: Callable[[Any], Any]) -> Callable[[Any], Iterator[Any]]:
        folder, after_first = str(self.folder), self.after_first

        def troubled(batches: Any) -> Iterator[Any]:
            import os
            from pathlib import Path

            from pyspark import TaskContext

            context = TaskContext.get()
            number = context.partitionId()
            is_first = not list(Path(folder).glob(f"{number}-*"))
            Path(folder, f"{number}-{os.getppid()}-{context.taskAttemptId()}").touch()
            yield from draw(batches)
            if is_first:
                after_first(number)

        return troubled


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Any]]:
    assert not MISSING, REASON
    from congenial.engines.spark.session_data_and_tasks import spark_session

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = tmp_path_factory.mktemp("cluster")
        with cluster(folder) as started, spark_session(started.address, started.options) as session:
            yield started, session


@pytest.fixture(autouse=True)
def _one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(congenial.release, "ReleaseKey", lambda: ReleaseKey(KEY))


def engine_of(session: Any, trouble: Trouble | None = None, **options: Any) -> Any:
    from congenial.engines.spark.engine import SparkEngine

    class Troubled(SparkEngine):
        def drawing(self, job: Any, n_cells: int) -> Any:
            draw = super().drawing(job, n_cells)
            return draw if trouble is None else trouble.wrap(draw)

    return Troubled(session, **{"at_once": AT_ONCE, **options})


def released(data: Data, path: str, name: str, engine: Any = None, **options: Any) -> pipeline.Published:
    spec = load_spec(data.spec("r", path))
    options |= {} if engine is None else {"engine": engine}
    ledger = data.ledger(name)
    return pipeline.release(spec, data.folder, data.folder / name, ledger=ledger, who="Ada", now=NOW, **options)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def drawn(ready: Prepared, engine: Any, data: Data, name: str) -> tuple[Any, ...]:
    """Draw what is prepared, with the key in a file."""
    keys = KeyFolder(data.folder / f"{name}.keys", "account")
    file = keys.begin(ReleaseKey(KEY), data.dataset, "r", {}, ready.facts, ready.confidential)
    try:
        return tuple(engine.draw(ready, file, silent))
    finally:
        file.destroy()
        file.close()


def same(first: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(first) == len(other) and all(map(np.array_equal, first, other))


def forms_of(secret: bytes) -> list[bytes]:
    """What a key could look like: raw, hex, base64 at each of three places in a longer text."""
    forms = [secret, secret.hex().encode(), secret.hex().upper().encode()]
    forms += [base64.b64encode(b"\0" * shift + secret)[4 * bool(shift) : -4] for shift in range(3)]
    return forms


def holds_key(content: bytes) -> bool:
    return any(form in content for form in forms_of(KEY))


def leaks(folders: list[Path], processes: list[int]) -> list[str]:
    """Return where the key is found: in files, arguments or environments."""
    places = []
    temporary = [path for name in TEMPORARY for path in Path(tempfile.gettempdir()).glob(name)]
    for path in (path for folder in [*folders, *temporary] for path in folder.rglob("*")):
        try:
            content = path.read_bytes() if path.is_file() and path.suffix != ".key" else b""
        except OSError:  # removed at this moment
            continue
        places += [str(path)] if holds_key(content) else []
    for process in processes:
        for name in ("cmdline", "environ"):
            try:
                places += [f"{process} {name}"] if holds_key(Path(f"/proc/{process}/{name}").read_bytes()) else []
            except OSError:
                continue
    return places


def test_the_search_finds_keys() -> None:
    for form in (bytes(KEY), KEY.hex().encode(), base64.b64encode(b"xy" + KEY), base64.b64encode(b"{" + KEY + b"}")):
        assert holds_key(b"some log " + form + b" more")


def test_releases_on_a_cluster(running: tuple[Cluster, Any], tmp_path: Path, subtests: pytest.Subtests) -> None:  # noqa: PLR0915
    """One test, for a cluster takes half a minute of two processors to start."""
    started, session = running
    with subtests.test("areas, 7 partitions, and trees, 2 and 16"):
        for data, spark_path, local_path, n_partitions in (
            (people(tmp_path / "people"), "people", "people.parquet", 7),
            (blocks(tmp_path / "blocks"), "counts", "counts.parquet", 16),
        ):
            local = released(data, local_path, "local")
            published = released(data, spark_path, "spark", engine_of(session, n_partitions=n_partitions))
            assert files(published.folder) == files(local.folder)
            assert released_content(published.release) == released_content(local.release)
            load_bundle(published.folder)
        expected = local.release.levels
        ready = pipeline.prepare(load_spec(data.spec("r", spark_path)), data.folder, engine=engine_of(session))
        assert same(drawn(ready, engine_of(session, n_partitions=2), data, "draw-2"), expected)

    with subtests.test("tasks that fail after writing"):

        def fail(number: int) -> None:
            raise RuntimeError(f"task {number}, after all was written")

        failing = Trouble(tmp_path / "failing", fail)
        published = released(
            data, spark_path, "failed", engine_of(session, failing, n_partitions=3, tables=data.folder / "tables")
        )
        assert all(len(failing.runs(number)) > 1 for number in range(3))
        assert files(published.folder) == files(local.folder)
        check_folder(data.folder / "tables", published)

    def wait(number: int) -> None:
        import time

        if number == 0:
            time.sleep(150)

    with subtests.test("a copy of a slow task"):
        slow = Trouble(tmp_path / "slow", wait)
        assert same(drawn(ready, engine_of(session, slow, n_partitions=5), data, "slow"), expected)
        assert len(slow.runs(0)) == 2

    with subtests.test("an executor killed in the middle; the key is nowhere"):
        waiting = Trouble(tmp_path / "held", wait)
        leaked: list[str] = []

        def kill_when_it_waits() -> None:
            while not waiting.runs(0):
                time.sleep(0.1)
            os.kill(executor_of(waiting.runs(0)[0]), signal.SIGKILL)
            leaked.extend(leaks([started.folder], [os.getpid(), *started.processes]))

        killer = threading.Thread(target=kill_when_it_waits, daemon=True)
        killer.start()
        published = released(data, spark_path, "killed", engine_of(session, waiting, n_partitions=5))
        killer.join()
        assert len(waiting.runs(0)) > 1
        assert files(published.folder) == files(local.folder)
        assert any(path.is_file() for path in (started.folder / "events").rglob("*"))
        leaked += leaks([started.folder, data.folder], [os.getpid(), *started.processes])
        assert not leaked

    with subtests.test("a measured tree with areas across it, an executor killed; 2, 7 and 16 partitions"):
        measured = measured_with_wards(data)
        alone = released(measured, local_path, "measured-local")
        held = Trouble(tmp_path / "measured-held", wait)

        def kill_its_executor() -> None:
            while not held.runs(0):
                time.sleep(0.1)
            os.kill(executor_of(held.runs(0)[0]), signal.SIGKILL)

        killer = threading.Thread(target=kill_its_executor, daemon=True)
        killer.start()
        folder = data.folder / "measured-tables"
        engine = engine_of(session, held, n_partitions=5, tables=folder)
        published = released(measured, spark_path, "measured-killed", engine)
        killer.join()
        assert len(held.runs(0)) > 1
        assert files(published.folder) == files(alone.folder)
        assert len(load_bundle(published.folder).measured_levels) == 5
        again = pipeline.prepare(load_spec(measured.spec("r", spark_path)), data.folder, engine=engine_of(session))
        for n in (2, 7, 16):
            some = drawn(again, engine_of(session, n_partitions=n), measured, f"measured-{n}")
            assert same(some, alone.release.drawn)

    with subtests.test("the key by a command, a frame of one's own"):
        frame = session.read.parquet(str(data.folder / "counts"))
        command = f"cat {data.folder / 'command.db.keys'}/{{name}}"
        published = released(data, spark_path, "command", engine_of(session, data=frame, key_command=command))
        assert files(published.folder) == files(local.folder)

    with subtests.test("a driver killed while it draws, gone on with"):
        spec, ledger, out = data.spec("r", spark_path), data.ledger("stopped"), data.folder / "stopped"
        kill_while_drawing(spec, out, started)
        assert not out.exists()
        assert ledger.keys is not None
        file = KeyFolder(ledger.keys, ledger.dataset(data.dataset).hash).find(data.dataset, "r")
        assert file is not None
        assert file.key is not None
        file.close()
        expected = ready.draw(ready.streams(file.key))
        published = pipeline.resume(load_spec(spec), data.folder, ledger=ledger, engine=engine_of(session))
        assert published.folder == out
        assert same(published.release.levels, expected)
        assert len(ledger.history(data.dataset)) == 1
        load_bundle(out)

    with subtests.test("machines that cannot have the key: nothing is charged"):
        for wrong in ({"executor_keys": tmp_path / "nowhere"}, {"key_command": "false {name}"}):
            name = f"wrong-{next(iter(wrong))}"
            with pytest.raises(CongenialError, match=r"cannot be read on|ended with status 1"):
                released(data, spark_path, name, engine_of(session, **wrong))
            from congenial.ledger import open_ledger

            assert not open_ledger(data.folder / f"{name}.db").history(data.dataset)
            assert not (data.folder / name).exists()


def measured_with_wards(data: Data) -> Data:
    """Return the same blocks as a measured tree, every seventh of them in no ward."""
    blocks = (data.folder / "blocks.csv").read_text(encoding="utf-8").split()[1:]
    lines = [f"{block},{'east' if place % 3 else 'west'}" for place, block in enumerate(blocks) if place % 7]
    (data.folder / "wards.csv").write_text("\n".join(["block,ward", *lines]) + "\n", encoding="utf-8")
    text = data.text.replace("hierarchy:\n", "hierarchy:\n  across: {name: ward, file: wards.csv}\n")
    return Data(data.folder, text.replace("method: conditional", "method: measured"), data.dataset)


def kill_while_drawing(spec: Path, out: Path, started: Cluster) -> None:
    """Run the command, and kill it when it says that it draws."""
    words = ["release", spec, "--out", out, "--ledger", spec.parent / "stopped.db", "--who", "Ada", "--yes"]
    words += ["--engine", "spark", "--master", started.address]
    for setting in started.options.items():
        words += ["--spark-conf", "=".join(setting)]
    command = [sys.executable, "-m", "congenial", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        messages = []
        for line in process.stderr:
            messages.append(line)
            if line.strip() == "releasing r: drawing":
                process.kill()
        assert process.wait() == -signal.SIGKILL, "".join(messages)


def executor_of(daemon: int) -> int:
    """Return the process that has started a daemon of Python workers, which must be an executor."""
    parent = int(Path(f"/proc/{daemon}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{parent}/cmdline").read_bytes()
    return parent


def check_folder(folder: Path, published: pipeline.Published) -> None:
    """See that a folder of Parquet holds every unit once, with the tables of the bundle."""
    from pyarrow import parquet

    rows = parquet.read_table(folder)
    assert json.loads((folder / "_content.json").read_text(encoding="utf-8"))["content"] == released_content(
        published.release
    )
    tables = published.release.levels
    assert rows.num_rows == sum(map(len, tables))
    columns = np.stack([rows.column(place).to_numpy() for place in range(3, rows.num_columns)], axis=1)
    for level, expected in enumerate(tables):
        in_level = rows.column("level").to_numpy() == level
        order = np.argsort(rows.column("place").to_numpy()[in_level])
        assert np.array_equal(columns[in_level][order], expected)
    assert not list(folder.parent.glob(".tables.unfinished-*"))
