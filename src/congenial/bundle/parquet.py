"""Parquet files, written and read by Arrow, and by nothing else here. Everything in them is public.

A few bytes of a file can stand for any number of rows, and one long text for itself in all of them. So the stated size
of a file is checked before any of it is decoded, and texts stay dictionary-encoded.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from congenial.arrow_and_unit_codes import arrow_to_numbers, numbers_to_arrow, texts_to_arrow
from congenial.errors import BundleError
from congenial.safe_text import LONGEST

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

AT_ONCE = 1 << 17
"""Units of a level that are written at a time: a row group of the file."""

DAMAGED = "a Parquet file of the bundle cannot be read: it was cut short or changed"
_LINES = 500_000  # of a row group: what is read and unpacked at a time

WIDEST = 4 * LONGEST
"""Bytes of a label or code at most, in UTF-8."""

_ROWS_A_BYTE = 64  # of a file in which every row has a code of its own; consecutive numbers, packed, have 1.4
_HEADS = 1 << 12  # bytes of a column in a row group beside its values, at most


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


@contextmanager
def damage_as_refusal() -> Iterator[None]:
    """Turn what Arrow refuses into words; a lack of memory is no damage."""
    import pyarrow as pa

    try:
        yield
    except MemoryError:
        raise
    except (pa.ArrowException, OSError):
        raise BundleError(DAMAGED) from None


def check_sizes(metadata: "parquet.FileMetaData", name: str, n_rows: int, row_bytes: int) -> None:
    """Refuse a file whose metadata do not state `n_rows` rows of at most `row_bytes` bytes.

    Parameters
    ----------
    row_bytes : int
        Of all columns together.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if metadata.num_rows != n_rows or sum(group.num_rows for group in groups) != n_rows:
        raise BundleError(
            f"{name} does not have the {n_rows:,} rows that the manifest describes, but {metadata.num_rows:,}; get the"
            " bundle again"
        )
    heads = _HEADS * metadata.num_columns
    for group in groups:  # twice: values may stand in a dictionary, and again where that became too long
        if not 0 <= group.total_byte_size <= heads + 2 * group.num_rows * row_bytes:
            raise BundleError(
                f"{name} unpacks to {group.total_byte_size:,} bytes for {group.num_rows:,} rows, and a row has at most"
                f" {row_bytes:,}; get the bundle from its publisher again"
            )


def check_distinct_rows(file: BinaryIO, name: str, n_rows: int) -> None:
    """Refuse a file that is too small for its number of rows, each with a code of its own."""
    size = file.seek(0, os.SEEK_END)
    if n_rows > _ROWS_A_BYTE * size:
        raise BundleError(
            f"{name} says that it has {n_rows:,} rows in {size:,} bytes, and each row has a code of its own: no file"
            " packs so many; get the bundle from its publisher again"
        )


def texts_once(column: "pa.DictionaryArray", name: str, longest: int = LONGEST) -> tuple["pa.Array", NDArray[np.int32]]:
    """Return the texts of a column as they are stored, each once, and the place of every row's own.

    A row without one has the place after the last. Texts that are too long are refused before they are in every row.
    """
    import pyarrow.compute as pc

    known, places = column.dictionary, arrow_to_numbers(column.indices)
    if column.null_count:
        places = np.ma.filled(places, len(known))
    if len(known) > len(column):  # those of a whole row group: only what these rows have is kept
        used = np.unique(places[places < len(known)])
        known, places = known.take(numbers_to_arrow(used)), np.searchsorted(used, places)
    most = int(arrow_to_numbers(pc.utf8_length(known)).max(initial=0))
    if most > longest:
        raise BundleError(f"{name} has a text of {most:,} characters, and the limit is {longest:,}")
    return known, places.astype(np.int32)


def read_batches(
    file: BinaryIO, name: str, choices: "Iterable[Mapping[str, str]]", n_rows: int, widest: int = WIDEST
) -> "Iterator[pa.RecordBatch]":
    """Go through the rows of a Parquet file some at a time; nothing may be missing in it.

    Texts come as they are stored: each once, and for every row the place of its own.

    Parameters
    ----------
    choices : mappings from column to type
        The file has the columns and types of one of them, or is refused.
    n_rows : int
        A file with another number of rows, or too small for distinct codes in them, is refused.
    widest : int
        Bytes of a text at most.
    """
    from pyarrow import parquet

    with damage_as_refusal():
        schema = parquet.read_schema(file)
        types = {field.name: str(field.type) for field in schema}
        fits = [columns for columns in choices if list(columns) == schema.names]
        if not fits:
            raise BundleError(f"{name} does not have the columns that the manifest describes")
        if wrong := [column for column, kind in fits[0].items() if types[column] != kind]:
            what = "text" if fits[0][wrong[0]] == "string" else "a whole number"
            raise BundleError(f"{name} has something in column {wrong[0]!r} that is not {what}")
        check_distinct_rows(file, name, n_rows)
        texts = [column for column, kind in fits[0].items() if kind == "string"]
        for batch in batches_of(file, name, texts, n_rows, len(texts) * (widest + 4) + 8 * (len(types) - len(texts))):
            if any(column.null_count for column in batch.columns):
                raise BundleError(f"{name} has a missing value")
            yield batch


def batches_of(
    file: BinaryIO, name: str, texts: Sequence[str], n_rows: int, row_bytes: int
) -> "Iterator[pa.RecordBatch]":
    """Go through the rows of a Parquet file some at a time, if it is no larger than it should be.

    Parameters
    ----------
    texts : names of columns
        Come as they are stored: each text once, and for every row the place of its own.
    """
    from pyarrow import parquet

    file.seek(0)
    rows = parquet.ParquetFile(file, read_dictionary=texts)
    check_sizes(rows.metadata, name, n_rows, row_bytes)
    yield from rows.iter_batches(AT_ONCE)
