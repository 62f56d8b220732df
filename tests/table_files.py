"""The files of released tables, as bytes."""

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from congenial.arrays import Ints
from congenial.bundle.table_files import Columns, read_csv, read_tables, write_csv, write_tables
from congenial.law import PublicLaw


def csv_of(law: PublicLaw, tables: Ints) -> bytes:
    """Return table.csv of tables (area, cell)."""
    out = io.BytesIO()
    write_csv(law, tables, out)
    return out.getvalue()


def csv_tables(law: PublicLaw, content: bytes, more: Columns = ()) -> Ints:
    """Return the tables of a table.csv with these further columns."""
    return read_csv(law, io.BytesIO(content), more)


def parquet_of(law: PublicLaw, tables: Ints) -> bytes:
    """Return table.parquet of tables (area, cell)."""
    out = io.BytesIO()
    write_tables(law, tables, out)
    return out.getvalue()


def parquet_tables(law: PublicLaw, content: bytes) -> Ints:
    """Return the tables of a table.parquet."""
    return read_tables(law, io.BytesIO(content))


def csv_to_parquet(content: bytes, types: Mapping[str, str]) -> bytes:
    """Return a CSV with a header as a Parquet file, made by another program than ours."""
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as database:
        source, target = Path(folder) / "a.csv", Path(folder) / "a.parquet"
        source.write_bytes(content)
        rows = database.read_csv(str(source), header=True, delimiter=",", quotechar='"', dtype=dict(types))
        rows.write_parquet(str(target))
        return target.read_bytes()


def parquet_arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns of a Parquet file as arrays, texts as objects; one with missing values is masked."""
    table = parquet.ParquetFile(pa.BufferReader(content)).read()
    return {name: _array(column) for name, column in zip(table.column_names, table.columns, strict=True)}


def _array(column: pa.ChunkedArray) -> NDArray[Any]:
    if not column.null_count:
        return np.asarray(column.to_numpy())
    missing = np.asarray(column.is_null().to_numpy())
    known = column.fill_null(0) if pa.types.is_integer(column.type) else column
    return np.ma.MaskedArray(known.to_numpy(), missing)
