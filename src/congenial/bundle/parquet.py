"""Released tables as Parquet, written by DuckDB from the CSV."""

import tempfile
from pathlib import Path

from congenial.bundle.table_text import header_of
from congenial.errors import BundleError
from congenial.public_law import PublicLaw


def csv_to_parquet(law: PublicLaw, content: bytes) -> bytes:
    """Return the same table as a Parquet file: labels as text, counts as 64-bit integers."""
    import duckdb

    *labels, count = header_of(law)
    types = {**dict.fromkeys(labels, "VARCHAR"), count: "BIGINT"}
    # What is written here is about to be published, so it may touch the disk.
    with tempfile.TemporaryDirectory(prefix="congenial-") as folder, duckdb.connect(config={"threads": 1}) as database:
        source, target = Path(folder) / "table.csv", Path(folder) / "table.parquet"
        source.write_bytes(content)
        try:
            rows = database.read_csv(str(source), header=True, delimiter=",", quotechar='"', dtype=types)
            rows.write_parquet(str(target), compression="zstd")
        except duckdb.Error:
            raise BundleError("the table could not be written as Parquet; leave parquet out of outputs") from None
        return target.read_bytes()
