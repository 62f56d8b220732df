"""Parquet files, written and read by Arrow, and by nothing else here. Everything in them is public."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from congenial.arrow_columns import texts_to_arrow
from congenial.errors import BundleError

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 1 << 17
"""Units of a level that are written at a time: a row group of the file."""

DAMAGED = "a Parquet file of the bundle cannot be read: it was cut short or changed"
_LINES = 500_000  # of a row group: what is read and unpacked at a time


def arrays_to_parquet(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return columns, each an array of texts (objects), whole numbers or truth values, as a Parquet file.

    Masked entries, and None in an array of objects, are missing values.
    """
    import pyarrow as pa

    return table_to_parquet(pa.Table.from_arrays([_arrow(column) for column in columns.values()], names=list(columns)))


def _arrow(column: NDArray[Any]) -> "pa.Array":
    import pyarrow as pa

    if column.dtype == object:
        return texts_to_arrow(column.tolist())
    mask = np.ma.getmaskarray(column) if isinstance(column, np.ma.MaskedArray) else None
    return pa.array(np.ascontiguousarray(np.ma.getdata(column)), mask=mask)


def table_to_parquet(table: "pa.Table") -> bytes:
    """Return an Arrow table as a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    out = pa.BufferOutputStream()
    try:
        parquet.write_table(table, out, compression="zstd", row_group_size=_LINES)
    except pa.ArrowException:
        raise BundleError("a table could not be written as Parquet") from None
    return bytes(out.getvalue())


def table_of_parquet(content: "bytes | BinaryIO") -> "pa.Table":
    """Return a Parquet file as an Arrow table."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(pa.BufferReader(content) if isinstance(content, bytes) else content).read()
    except (pa.ArrowException, OSError):
        raise BundleError(DAMAGED) from None


def parquet_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns of a Parquet file as arrays, texts as objects; one with missing values is masked."""
    table = table_of_parquet(content)
    return {name: _numpy(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def _numpy(column: "pa.ChunkedArray") -> NDArray[Any]:
    import pyarrow as pa

    if not column.null_count:
        return np.asarray(column.to_numpy())
    missing = np.asarray(column.is_null().to_numpy())
    is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    known = column.fill_null(0) if is_number else column
    return np.ma.MaskedArray(known.to_numpy(), missing)


def write_batches(batches: "Iterable[pa.Table]", out: BinaryIO) -> None:
    """Write tables with the same columns, of which there is at least one, as one Parquet file, each a row group."""
    import pyarrow as pa
    from pyarrow import parquet

    writer = None
    try:
        for batch in batches:
            writer = writer or parquet.ParquetWriter(out, batch.schema, compression="zstd", store_schema=False)
            writer.write_table(batch)
    except pa.ArrowException:
        raise BundleError("a table could not be written as Parquet") from None
    finally:
        if writer is not None:
            writer.close()


def read_batches(file: BinaryIO, name: str, choices: "Iterable[Mapping[str, str]]") -> "Iterator[pa.RecordBatch]":
    """Go through the rows of a Parquet file some at a time; nothing may be missing in it.

    Parameters
    ----------
    choices : mappings from column to type
        The file has the columns and types of one of them, or is refused.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        rows = parquet.ParquetFile(file)
        found = {field.name: str(field.type) for field in rows.schema_arrow}
        fits = [wanted for wanted in choices if list(wanted) == rows.schema_arrow.names]
        if not fits:
            raise BundleError(f"{name} does not have the columns that the manifest describes")
        if wrong := [column for column, kind in fits[0].items() if found[column] != kind]:
            what = "text" if fits[0][wrong[0]] == "string" else "a whole number"
            raise BundleError(f"{name} has something in column {wrong[0]!r} that is not {what}")
        for batch in rows.iter_batches(AT_ONCE):
            if any(column.null_count for column in batch.columns):
                raise BundleError(f"{name} has a missing value")
            yield batch
    except (pa.ArrowException, OSError):
        raise BundleError(DAMAGED) from None
