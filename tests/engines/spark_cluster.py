"""A real standalone cluster of Spark on loopback: a master and two workers, stopped by whoever started them."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

MISSING = [what for what, there in (("pyspark", find_spec("pyspark")), ("java", shutil.which("java"))) if not there]
REASON = f"needs {' and '.join(MISSING)}: make services, then make spark"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"  # for virtual machines that live a minute
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",  # an executor on each worker; what is left is for a second application
    "spark.task.maxFailures": "6",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
    "spark.python.daemon.module": "engines.warm_daemon",
}


@dataclass(frozen=True)
class Cluster:
    """Where the master listens, and where everything that the cluster writes is."""

    address: str
    folder: Path
    daemons: tuple[int, ...]

    @property
    def options(self) -> dict[str, str]:
        """Settings of a session on the cluster: events are logged, slow tasks are started twice."""
        return {
            **SETTINGS,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": (self.folder / "events").as_uri(),
            "spark.local.dir": str(self.folder / "driver"),
            "spark.speculation": "true",
            "spark.speculation.efficiency.enabled": "false",  # which would let a task wait that has read its rows
            "spark.speculation.interval": "200ms",
            "spark.speculation.multiplier": "2",
            "spark.speculation.quantile": "0.3",
            "spark.speculation.minTaskRuntime": "2s",
        }

    @property
    def processes(self) -> list[int]:
        """The daemons, and all that they have started."""
        children: dict[int, list[int]] = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(path.name))
        processes = list(self.daemons)
        for process in processes:
            processes += children.get(process, [])
        return processes


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Start a master and two workers with 1 GB each, and stop them."""
    home = Path((find_spec("pyspark") or sys).submodule_search_locations[0])  # type: ignore[index]
    for name in ("events", "driver", "local", "work"):
        (folder / name).mkdir()
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK,
        "SPARK_LAUNCHER_OPTS": QUICK,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(str(Path(__file__).parents[2] / name) for name in ("src", "tests")),
    }
    port, deploy = _free_port(), "org.apache.spark.deploy"
    address = f"spark://127.0.0.1:{port}"
    options = ["--webui-port", "0", "--host"]
    worker = ["--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"), address]
    with ExitStack() as running:
        daemons = []
        for name, host, words in (
            ("master", "127.0.0.1", [f"{deploy}.master.Master", *options, "127.0.0.1", "--port", str(port)]),
            ("worker-1", "127.0.0.1", [f"{deploy}.worker.Worker", *options, "127.0.0.1", *worker]),
            # Another address of loopback: a copy of a slow task is started on another host only.
            ("worker-2", "127.0.0.2", [f"{deploy}.worker.Worker", *options, "127.0.0.2", *worker]),
        ):
            log = running.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *words],
                env={**environment, "SPARK_LOCAL_IP": host},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
            running.callback(_stop, process)
            daemons.append(process.pid)
        log_of_master = folder / "master.log"
        for _ in range(600):
            if log_of_master.read_text(encoding="utf-8", errors="replace").count("Registering worker") == 2:
                break
            time.sleep(0.5)
        yield Cluster(address, folder, tuple(daemons))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
