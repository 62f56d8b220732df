"""Parquet files: small ones by DuckDB, whole; those of millions of rows by Arrow, some rows at a time."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from congenial.errors import BundleError

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 1 << 17
"""Rows that are written at a time: a row group of the file."""


@contextmanager
def _database() -> Iterator[tuple[Any, Path]]:
    import duckdb

    # What is written here is about to be published, or was, so it may touch the disk.
    with tempfile.TemporaryDirectory(prefix="congenial-") as folder, duckdb.connect(config={"threads": 1}) as database:
        yield database, Path(folder)


def _rows_of_csv(database: Any, folder: Path, content: bytes, types: Mapping[str, str]) -> Any:
    source = folder / "table.csv"
    source.write_bytes(content)
    return database.read_csv(str(source), header=True, delimiter=",", quotechar='"', dtype=dict(types))


def csv_to_parquet(content: bytes, types: Mapping[str, str]) -> bytes:
    """Return a CSV with a header as a Parquet file, with these types of columns."""
    import duckdb

    with _database() as (database, folder):
        target = folder / "table.parquet"
        try:
            _rows_of_csv(database, folder, content, types).write_parquet(str(target), compression="zstd")
        except duckdb.Error:
            raise BundleError("the table could not be written as Parquet; leave parquet out of outputs") from None
        return target.read_bytes()


def is_same_table(parquet: bytes, content: bytes, types: Mapping[str, str]) -> bool:
    """Whether a Parquet file has these types of columns and, cell by cell, the rows of a CSV in their order."""
    import duckdb

    quoted = ['"' + name.replace('"', '""') + '"' for name in types]
    differs = " OR ".join(f"ours.{name} IS DISTINCT FROM theirs.{name}" for name in quoted)
    with _database() as (database, folder):
        (folder / "table.parquet").write_bytes(parquet)
        try:
            ours = database.read_parquet(str(folder / "table.parquet"))
            if list(zip(ours.columns, map(str, ours.types), strict=True)) != list(types.items()):
                return False
            ours.create_view("ours")
            _rows_of_csv(database, folder, content, types).create_view("theirs")
            # A row too many stands beside NULL, which it may itself be full of: rows are counted, too.
            sizes = [database.sql(f"SELECT count(*) FROM {name}").fetchall() for name in ("ours", "theirs")]  # noqa: S608
            wrong = database.sql(f"SELECT 1 FROM ours POSITIONAL JOIN theirs WHERE {differs} LIMIT 1").fetchall()  # noqa: S608
        except duckdb.Error:
            return False
        return sizes[0] == sizes[1] and not wrong


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


def arrays_to_parquet(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return columns, each an array of texts (objects), whole numbers or truth values, as a Parquet file."""
    import duckdb

    with _database() as (database, folder):
        target = folder / "table.parquet"
        try:
            database.register("given", {name: np.ascontiguousarray(column) for name, column in columns.items()})
            database.table("given").write_parquet(str(target), compression="zstd")
        except duckdb.Error:
            raise BundleError("a table could not be written as Parquet") from None
        return target.read_bytes()


def parquet_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns of a Parquet file as arrays; one with missing values is masked."""
    import duckdb

    with _database() as (database, folder):
        source = folder / "table.parquet"
        source.write_bytes(content)
        try:
            return dict(database.read_parquet(str(source)).fetchnumpy())
        except duckdb.Error:
            raise BundleError("a Parquet file of the bundle cannot be read: it was cut short or changed") from None


def batches_to_parquet(batches: "Iterable[pa.Table]") -> bytes:
    """Return tables with the same columns as one Parquet file, each a row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out, writer = BytesIO(), None
    try:
        for batch in batches:
            if writer is None:
                writer = pq.ParquetWriter(out, batch.schema, compression="zstd", store_schema=False)
            writer.write_table(batch)
    except pa.ArrowException:
        raise BundleError("a table could not be written as Parquet") from None
    finally:
        if writer is not None:
            writer.close()
    return out.getvalue()


def parquet_batches(content: bytes, name: str, types: Mapping[str, str]) -> "Iterator[pa.RecordBatch]":
    """Go through the rows of a Parquet file, which must have these columns and types, and no missing value."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        schema = file.schema_arrow
        if schema.names != list(types):
            raise BundleError(f"{name} does not have the columns that the manifest describes")
        for field, kind in zip(schema, types.values(), strict=True):
            if str(field.type) != kind:
                what = "text" if kind == "string" else "a whole number"
                raise BundleError(f"{name} has a column {field.name!r} in which not everything is {what}")
        for batch in file.iter_batches(AT_ONCE):
            if any(column.null_count for column in batch.columns):
                raise BundleError(f"{name} has a missing value")
            yield batch
    except (pa.ArrowException, OSError):
        raise BundleError("a Parquet file of the bundle cannot be read: it was cut short or changed") from None


def parquet_names(content: bytes) -> list[str]:
    """Return the names of a Parquet file's columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return list(pq.ParquetFile(pa.BufferReader(content)).schema_arrow.names)
    except (pa.ArrowException, OSError):
        raise BundleError("a Parquet file of the bundle cannot be read: it was cut short or changed") from None
