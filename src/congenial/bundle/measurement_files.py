"""The measurements as files, measurements.parquet and measurements.csv: a line a measured number.

Columns: the table and the level that were measured, the unit, the measured row in words, its value and the precision of
its noise. Values are true counts plus noise, so they may be negative.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import arrow_to_numbers, numbers_to_arrow, texts_to_arrow
from congenial.bundle.file_registry import MEASUREMENTS, MEASUREMENTS_CSV
from congenial.bundle.parquet import check_sizes, damage_as_refusal
from congenial.bundle.table_files import csv_bytes
from congenial.errors import BundleError
from congenial.law import PublicLaw
from congenial.measurement import ONE_TABLE
from congenial.memory_and_threads import map_in_threads, parts_of
from congenial.progress_and_interrupts import VERIFYING, WRITING, Progress, silent

if TYPE_CHECKING:
    import pyarrow as pa

NAMES = ("table", "level", "unit", "row", "value", "precision")
_ROWS = 1_000_000  # of a row group, about: whole units
_CSV_ROWS = 250_000


def _schema() -> "pa.Schema":
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([(name, pa.int64() if name == "value" else text) for name in NAMES])


def _constant(text: str, n: int) -> "pa.Array":
    return _dictionary(np.zeros(n, np.int32), [text])


def _dictionary(places: Ints, texts: Sequence[str]) -> "pa.Array":
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(numbers_to_arrow(places.astype(np.int32)), texts_to_arrow(texts))


def _precisions(law: PublicLaw) -> tuple[list[str], Ints]:
    """Return the different precisions as text, and which one each measured row has."""
    texts = [str(query.noise.precision) for query in law.measured]
    different = list(dict.fromkeys(texts))
    return different, np.array([different.index(text) for text in texts])


def _batch(law: PublicLaw, part: slice, values: Ints) -> "pa.RecordBatch":
    """Return the lines of some units."""
    import pyarrow as pa

    n_units, n_rows = values.shape
    precisions, of_row = _precisions(law)
    units = [label or "" for label in law.areas.labels[part]]
    columns = [
        _constant(ONE_TABLE, values.size),
        _constant(law.areas.name or "", values.size),
        _dictionary(np.repeat(np.arange(n_units), n_rows), units),
        _dictionary(np.tile(np.arange(n_rows), n_units), [query.row.name for query in law.measured]),
        numbers_to_arrow(values.reshape(-1)),
        _dictionary(np.tile(of_row, n_units), precisions),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_schema())


def write_parquet(law: PublicLaw, measurements: Ints, out: BinaryIO, progress: Progress = silent) -> None:
    """Write measurements (unit, row) as Parquet; texts are stored once in a row group."""
    from pyarrow import parquet

    with parquet.ParquetWriter(out, _schema(), compression="zstd", store_schema=False) as file:
        for part in parts_of(len(measurements), max(1, _ROWS // len(law.measured))):
            file.write_batch(_batch(law, part, measurements[part]))
            if part.stop < len(measurements):
                progress(WRITING, part.stop, len(measurements))


def read_parquet(law: PublicLaw, file: BinaryIO, progress: Progress = silent) -> Ints:
    """Read the measurements (unit, row) that `write_parquet` wrote, and refuse anything else."""
    from pyarrow import parquet

    n_units, n_rows = len(law.areas), len(law.measured)
    with damage_as_refusal():
        if parquet.read_schema(file).names != list(NAMES):
            raise _refused("the columns")
        file.seek(0)
        rows = parquet.ParquetFile(file, read_dictionary=[name for name in NAMES if name != "value"])
        if not rows.schema_arrow.equals(_schema()):
            raise _refused("the columns")
        check_sizes(rows.metadata, MEASUREMENTS, n_units * n_rows, _row_bytes(law))
        out, start = np.empty((n_units, n_rows), np.int64), 0
        for number in range(rows.num_row_groups):
            some, rest = divmod(rows.metadata.row_group(number).num_rows, n_rows)
            part = slice(start, start + some)
            if rest or part.stop > n_units:
                raise _refused("the rows")
            table = rows.read_row_group(number)
            if any(column.null_count for column in table.columns):
                raise _refused("values")
            out[part] = arrow_to_numbers(table.column("value")).reshape(some, n_rows)
            if not _says_the_same(table, _batch(law, part, out[part])):
                raise _refused("the units, rows and precisions")
            start = part.stop
            progress(VERIFYING, start, n_units)
    if start != n_units:
        raise _refused("the rows")
    return out


def _row_bytes(law: PublicLaw) -> int:
    """Return how many bytes a row takes at most: the texts that the law implies, and their places."""
    texts = ([ONE_TABLE], [law.areas.name or ""], law.areas.labels, [query.row.name for query in law.measured])
    longest = [max(len((text or "").encode()) for text in some) for some in (*texts, _precisions(law)[0])]
    return 8 + sum(4 + length for length in longest)


def _says_the_same(table: "pa.Table", expected: "pa.RecordBatch") -> bool:
    """Whether the texts of a row group are those that they should be, whatever the order in which they are stored."""
    for name in NAMES:
        if name == "value":
            continue
        joined = table.column(name).unify_dictionaries().combine_chunks()
        column = joined.chunk(0) if hasattr(joined, "chunk") else joined
        right = expected.column(name)
        place = {text: number for number, text in enumerate(right.dictionary.to_pylist())}
        codes = np.array([place.get(text, -1) for text in column.dictionary.to_pylist()], np.int64)
        if len(place) != len(right.dictionary):  # rows or units of one name: compared as texts
            if column.to_pylist() != right.to_pylist():
                return False
        elif not np.array_equal(codes[arrow_to_numbers(column.indices)], arrow_to_numbers(right.indices)):
            return False
    return True


def _lines(law: PublicLaw, measurements: Ints) -> Iterator[tuple[slice, bytes]]:
    """Go through the lines of the CSV file, some units at a time."""
    import pyarrow as pa

    def lines(part: slice) -> bytes:
        batch = _batch(law, part, measurements[part])
        columns = [
            column if name == "value" else column.dictionary_decode()
            for name, column in zip(NAMES, batch.columns, strict=True)
        ]
        return csv_bytes(pa.record_batch(columns, list(NAMES)))

    parts = parts_of(len(measurements), max(1, _CSV_ROWS // len(law.measured)))
    return zip(parts, map_in_threads(lines, parts), strict=True)


def _header() -> bytes:
    import pyarrow as pa

    return csv_bytes(pa.record_batch([texts_to_arrow([]) for _ in NAMES], list(NAMES)), has_header=True)


def write_csv(law: PublicLaw, measurements: Ints, out: BinaryIO) -> None:
    """Write measurements (unit, row) as CSV."""
    out.write(_header())
    for _, lines in _lines(law, measurements):
        out.write(lines)


def check_csv(law: PublicLaw, measurements: Ints, file: BinaryIO) -> None:
    """Refuse a file that is not the measurements (unit, row) as `write_csv` writes them."""
    is_same = file.readline() == _header()
    is_same = is_same and all(file.read(len(lines)) == lines for _, lines in _lines(law, measurements))
    if not is_same or file.read(1):
        raise BundleError(f"{MEASUREMENTS_CSV} does not hold what {MEASUREMENTS} does; use neither, ask the publisher")


def _refused(what: str) -> BundleError:
    return BundleError(f"{MEASUREMENTS} does not have {what} that the manifest describes; get the bundle again")
