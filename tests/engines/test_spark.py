"""Releases on a real cluster of Spark: the release of one machine, whatever happens to tasks and executors."""

import base64
import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial.release
from congenial.bundle.loading import load_bundle
from congenial.curator import pipeline
from congenial.engines.content import released_content
from congenial.errors import CongenialError
from congenial.progress import no_news
from congenial.randomness import SecretBytes
from congenial.release import Prepared
from congenial.release_key import KeyFolder, ReleaseKey
from congenial.spec.load import load_spec
from engines.spark_cluster import MISSING, REASON, Cluster, cluster
from engines.spark_data import NOW, Data, blocks, people

pytestmark = pytest.mark.skipif(bool(MISSING) and not os.environ.get("CONGENIAL_REQUIRE_ALL"), reason=REASON)

KEY = SecretBytes(b"\x91" + os.urandom(31))  # never the same, so that nothing older can hold it
AT_ONCE = 2  # areas or leaves of a task: enough tasks for 16 partitions


class Trouble:
    """What happens to tasks: runs on the machines, in place of the draw that it wraps."""

    def __init__(self, folder: Path, after: Callable[[int, int], None] | None = None) -> None:
        self.folder, self.after = folder, after

    def wrap(self, draw: Callable[[Any], Any]) -> Callable[[Any], Iterator[Any]]:
        folder, after = str(self.folder), self.after

        def troubled(batches: Any) -> Iterator[Any]:
            import os
            from pathlib import Path

            from pyspark import TaskContext

            context = TaskContext.get()
            number, attempt = context.partitionId(), context.attemptNumber()
            Path(folder, f"{number}-{attempt}-{os.getppid()}").touch()
            yield from draw(batches)
            if after is not None:
                after(number, attempt)

        return troubled


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Any]]:
    assert not MISSING, REASON
    from congenial.engines.spark.session import spark_session

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
    made = {} if engine is None else {"engine": engine}
    ledger = data.ledger(name)
    return pipeline.release(spec, data.folder, data.folder / name, ledger=ledger, who="Ada", now=NOW, **made, **options)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def drawn(ready: Prepared, engine: Any, data: Data, name: str) -> tuple[Any, ...]:
    """Draw what is prepared, with the key in a file."""
    keys = KeyFolder(data.folder / f"{name}.keys", "account")
    file = keys.begin(ReleaseKey(KEY), data.dataset, "r", {}, ready.facts, ready.confidential)
    try:
        return tuple(engine.draw(ready, file, no_news))
    finally:
        file.destroy()
        file.close()


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def forms_of(secret: bytes) -> list[bytes]:
    """What a key could look like: raw, hex, base64 at each of three places in a longer text."""
    found = [secret, secret.hex().encode(), secret.hex().upper().encode()]
    found += [base64.b64encode(b"\0" * shift + secret)[4 * bool(shift) : -4] for shift in range(3)]
    return found


def holds_key(content: bytes) -> bool:
    return any(form in content for form in forms_of(KEY))


def leaks(folders: list[Path], processes: list[int]) -> list[str]:
    """Return where the key is found: in files, arguments or environments."""
    found = []
    for path in (path for folder in folders for path in folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix != ".key":
            found += [str(path)] if holds_key(path.read_bytes()) else []
    for process in processes:
        for name in ("cmdline", "environ"):
            try:
                found += [f"{process} {name}"] if holds_key(Path(f"/proc/{process}/{name}").read_bytes()) else []
            except OSError:
                continue
    return found


def test_the_search_finds_keys() -> None:
    for form in (bytes(KEY), KEY.hex().encode(), base64.b64encode(b"xy" + KEY), base64.b64encode(b"{" + KEY + b"}")):
        assert holds_key(b"some log " + form + b" more")


def test_releases_on_a_cluster(running: tuple[Cluster, Any], tmp_path: Path, subtests: pytest.Subtests) -> None:  # noqa: PLR0915
    """One test, for a cluster takes half a minute of two processors to start."""
    started, session = running
    with subtests.test("areas and trees, 2, 7 and 16 partitions"):
        for data, spark_path, local_path in (
            (people(tmp_path / "people"), "people", "people.parquet"),
            (blocks(tmp_path / "blocks"), "counts", "counts.parquet"),
        ):
            local = released(data, local_path, "local")
            expected = (local.release.counts, *local.release.below)
            ready = pipeline.prepare(load_spec(data.spec("r", spark_path)), data.folder, engine=engine_of(session))
            for n_partitions in (2, 7, 16):
                engine = engine_of(session, n_partitions=n_partitions)
                assert same(drawn(ready, engine, data, f"draw-{n_partitions}"), expected)
            made = released(data, spark_path, "spark", engine_of(session))
            assert files(made.folder) == files(local.folder)
            assert released_content(made.release) == released_content(local.release)
            load_bundle(made.folder)

    with subtests.test("tasks that fail after writing"):
        failing = tmp_path / "failing"
        failing.mkdir()

        def fail_first(number: int, attempt: int) -> None:
            if attempt == 0:
                raise RuntimeError("after all was written")

        engine = engine_of(session, Trouble(failing, fail_first), n_partitions=5, tables=data.folder / "tables")
        made = released(data, spark_path, "failed", engine)
        attempts = [tuple(map(int, path.name.split("-")[:2])) for path in failing.iterdir()]
        assert {number for number, attempt in attempts if attempt} == {0, 1, 2, 3, 4}
        assert files(made.folder) == files(local.folder)
        check_folder(data.folder / "tables", made)

    with subtests.test("speculation, and an executor killed; the key is nowhere"):
        slow = tmp_path / "slow"
        slow.mkdir()

        def first_waits(number: int, attempt: int) -> None:
            import time

            if attempt == 0 and number < 2:
                time.sleep(600)

        found: list[str] = []
        folders = [started.folder, *(Path(path) for path in ("/tmp",) if os.environ.get("CONGENIAL_SEARCH_ALL"))]

        def kill_when_it_waits() -> None:
            deadline = time.monotonic() + 300
            while len(list(slow.glob("[01]-0-*"))) < 2 and time.monotonic() < deadline:
                time.sleep(0.1)
            while not list(slow.glob("[01]-1-*")) and time.monotonic() < deadline:
                time.sleep(0.1)
            found.extend(leaks(folders, [os.getpid(), *started.processes]))
            victim = next(process for process in started.processes if is_executor(process))
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill_when_it_waits)
        killer.start()
        made = released(data, spark_path, "killed", engine_of(session, Trouble(slow, first_waits), n_partitions=5))
        killer.join()
        assert list(slow.glob("[01]-1-*")), "no task was started twice"
        assert files(made.folder) == files(local.folder)
        assert not found
        assert not leaks(folders, [os.getpid(), *started.processes])
        assert any((started.folder / "events").rglob("*"))

    with subtests.test("the key by a command, a frame of one's own"):
        frame = session.read.parquet(str(data.folder / "counts"))
        command = f"cat {data.folder / 'command.db.keys'}/{{name}}"
        made = released(data, spark_path, "command", engine_of(session, data=frame, key_command=command))
        assert files(made.folder) == files(local.folder)

    with subtests.test("machines that cannot have the key: nothing is charged"):
        for wrong in ({"executor_keys": tmp_path / "nowhere"}, {"key_command": "false {name}"}):
            name = f"wrong-{next(iter(wrong))}"
            with pytest.raises(CongenialError, match=r"cannot be read on|ended with status 1"):
                released(data, spark_path, name, engine_of(session, **wrong))
            from congenial.ledger import open_ledger

            assert not open_ledger(data.folder / f"{name}.db").history(data.dataset)
            assert not (data.folder / name).exists()


def is_executor(process: int) -> bool:
    try:
        words = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return b"CoarseGrainedExecutorBackend" in words and b"java" in words.split(b"\0")[0]


def check_folder(folder: Path, made: pipeline.Published) -> None:
    """See that a folder of Parquet holds every unit once, with the tables of the bundle."""
    from pyarrow import parquet

    rows = parquet.read_table(folder)
    assert json.loads((folder / "_content.json").read_text(encoding="utf-8"))["content"] == released_content(
        made.release
    )
    tables = [made.release.counts, *made.release.below]
    assert rows.num_rows == sum(map(len, tables))
    columns = np.stack([rows.column(place).to_numpy() for place in range(3, rows.num_columns)], axis=1)
    for level, expected in enumerate(tables):
        own = rows.column("level").to_numpy() == level
        order = np.argsort(rows.column("place").to_numpy()[own])
        assert np.array_equal(columns[own][order], expected)
    assert not list(folder.parent.glob(".tables.unfinished-*"))
