"""The files of released tables, as bytes."""

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path

import duckdb

from congenial.arrays import Ints
from congenial.bundle.table_files import read_csv, read_tables, write_csv, write_tables
from congenial.law import PublicLaw


def csv_of(law: PublicLaw, tables: Ints) -> bytes:
    """Return table.csv of tables (area, cell)."""
    out = io.BytesIO()
    write_csv(law, tables, out)
    return out.getvalue()


def csv_tables(law: PublicLaw, content: bytes) -> Ints:
    """Return the tables of a table.csv."""
    return read_csv(law, io.BytesIO(content))


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
