"""Parquet files, written and read by DuckDB."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from congenial.errors import BundleError


@contextmanager
def _database() -> Iterator[tuple[Any, Path]]:
    import duckdb

    # What is written here is about to be published, or was, so it may touch the disk.
    with tempfile.TemporaryDirectory(prefix="congenial-") as folder, duckdb.connect(config={"threads": 1}) as database:
        yield database, Path(folder)


def csv_to_parquet(content: bytes, types: Mapping[str, str]) -> bytes:
    """Return a CSV with a header as a Parquet file, with these types of columns."""
    import duckdb

    with _database() as (database, folder):
        source, target = folder / "table.csv", folder / "table.parquet"
        source.write_bytes(content)
        try:
            rows = database.read_csv(str(source), header=True, delimiter=",", quotechar='"', dtype=dict(types))
            rows.write_parquet(str(target), compression="zstd")
        except duckdb.Error:
            raise BundleError("the table could not be written as Parquet; leave parquet out of outputs") from None
        return target.read_bytes()


def parquet_columns(content: bytes) -> dict[str, list[Any]]:
    """Return the columns of a Parquet file as lists."""
    import duckdb

    with _database() as (database, folder):
        source = folder / "table.parquet"
        source.write_bytes(content)
        try:
            relation = database.read_parquet(str(source))
            rows = relation.fetchall()
        except duckdb.Error:
            raise BundleError("a Parquet file of the bundle cannot be read: it was cut short or changed") from None
        return {name: [row[place] for row in rows] for place, name in enumerate(relation.columns)}
