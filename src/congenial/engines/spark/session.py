"""A Spark session for a release, and what every session must be able to do."""

import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from congenial.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
