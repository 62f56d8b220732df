"""Measured releases on Spark: the measurements, table and bundle of one machine, with any number of partitions."""

import gc
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import congenial.release
from congenial.curator import pipeline
from congenial.engines.draw_tasks import drawn_columns, released_content
from congenial.inference.analyst_bundle import load_bundle
from congenial.progress_and_interrupts import silent
from congenial.randomness import SecretBytes
from congenial.release_key import KeyFolder, ReleaseKey
from congenial.spec.load import load_spec
from engines.spark_cluster import MISSING, REASON
from engines.spark_data import AREAS, NOW, Data, blocks, people

pytestmark = [
    pytest.mark.skipif(bool(MISSING) and not os.environ.get("CONGENIAL_REQUIRE_ALL"), reason=REASON),
    pytest.mark.slow,
    # PySpark leaves the sockets of `createDataFrame` to the garbage collector, which runs in whatever test it likes.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

KEY = SecretBytes(b"\x57" + os.urandom(31))
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    assert not MISSING, REASON
    from congenial.engines.spark.session_data_and_tasks import spark_session

    settings = {**SETTINGS, "spark.local.dir": str(tmp_path_factory.mktemp("spark"))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with spark_session("local[2]", settings) as started:
            yield started


@pytest.fixture(autouse=True)
def _one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(congenial.release, "ReleaseKey", lambda: ReleaseKey(KEY))


@pytest.fixture(autouse=True)
def _sockets_collected() -> Iterator[None]:
    yield
    gc.collect()  # here, where their warnings are expected


def released(data: Data, path: str, name: str, **options: Any) -> pipeline.Published:
    spec, ledger = load_spec(data.spec("r", path)), data.ledger(name)
    return pipeline.release(spec, data.folder, data.folder / name, ledger=ledger, who="Ada", now=NOW, **options)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_measured_releases_with_any_partitions(session: Any, tmp_path: Path) -> None:
    from pyarrow import parquet

    from congenial.engines.spark.engine import SparkEngine

    made = people(tmp_path / "people")
    text = AREAS.replace("epsilon: 1", "epsilon: 0.05") + "method: measured\n"  # so much noise that some are negative
    data = Data(made.folder, text, made.dataset)
    local = released(data, "people.parquet", "local")
    folder = data.folder / "tables"
    engine = SparkEngine(session, at_once=2, n_partitions=7, tables=folder)
    published = released(data, "people", "spark", engine=engine)
    assert files(published.folder) == files(local.folder)
    bundle = load_bundle(published.folder)
    assert bundle.measurements is not None
    assert np.array_equal(bundle.measurements, local.release.drawn[0])
    content = json.loads((folder / "_content.json").read_text(encoding="utf-8"))
    assert content["content"] == released_content(local.release) == released_content(published.release)
    rows = parquet.read_table(folder)
    names = drawn_columns(published.release.plan.law)
    assert rows.column_names == ["level", "place", "code", *names]
    order = np.argsort(rows.column("place").to_numpy())
    drawn = np.stack([rows.column(name).to_numpy() for name in names], axis=1)[order]
    assert np.array_equal(drawn, bundle.measurements)
    assert (drawn < 0).any()  # these are measurements, and no tables
    ready = pipeline.prepare(load_spec(data.spec("r", "people")), data.folder, engine=SparkEngine(session))
    for n_partitions in (2, 16):
        file = KeyFolder(data.folder / f"{n_partitions}.keys", "account").begin(
            ReleaseKey(KEY), data.dataset, "r", {}, ready.facts, ready.confidential
        )
        try:
            (again,) = SparkEngine(session, at_once=2, n_partitions=n_partitions).draw(ready, file, silent)
        finally:
            file.destroy()
            file.close()
        assert np.array_equal(again, bundle.measurements)


def test_measured_trees_with_any_partitions(session: Any, tmp_path: Path) -> None:
    from congenial.engines.spark.engine import SparkEngine

    trees = blocks(tmp_path / "blocks")
    data = Data(trees.folder, trees.text.replace("method: conditional", "method: measured"), trees.dataset)
    local = released(data, "counts.parquet", "local")
    folder = data.folder / "tables"
    engine = SparkEngine(session, at_once=20, n_partitions=7, tables=folder)
    published = released(data, "counts", "spark", engine=engine)
    assert files(published.folder) == files(local.folder)
    content = json.loads((folder / "_content.json").read_text(encoding="utf-8"))
    assert content["content"] == released_content(local.release) == released_content(published.release)
    ready = pipeline.prepare(load_spec(data.spec("r", "counts")), data.folder, engine=SparkEngine(session))
    for n_partitions in (2, 16):
        file = KeyFolder(data.folder / f"{n_partitions}.keys", "account").begin(
            ReleaseKey(KEY), data.dataset, "r", {}, ready.facts, ready.confidential
        )
        try:
            again = SparkEngine(session, at_once=20, n_partitions=n_partitions).draw(ready, file, silent)
        finally:
            file.destroy()
            file.close()
        assert all(np.array_equal(*pair) for pair in zip(again, local.release.drawn, strict=True))
