"""Released tables as Parquet: the rows of table.csv, written and read some areas at a time."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow_columns import numbers_in, numbers_to_arrow, texts_to_arrow
from congenial.bundle.file_names import PARQUET
from congenial.bundle.parquet import WIDEST, check_sizes, damage_in_words
from congenial.bundle.table_csv import header_of
from congenial.chunks import parts_of
from congenial.errors import BundleError
from congenial.progress import VERIFYING, WRITING, Progress, no_news
from congenial.public_law import PublicLaw

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1_000_000  # of a row group, about: whole areas


def write_tables(law: PublicLaw, tables: Ints, out: BinaryIO, progress: Progress = no_news) -> None:
    """Write tables (area, cell), a row a cell; labels are text, each stored once in a row group."""
    from pyarrow import parquet

    with parquet.ParquetWriter(out, _schema(law), compression="zstd", store_schema=False) as file:
        for part in _parts(law):
            file.write_table(_rows(law, part, tables[part]))
            if part.stop < len(tables):
                progress(WRITING, part.stop, len(tables))


def _parts(law: PublicLaw) -> list[slice]:
    return parts_of(len(law.areas), max(1, _ROWS // law.schema.n_cells))


def _schema(law: PublicLaw) -> "pa.Schema":
    import pyarrow as pa

    *labels, count = header_of(law)
    return pa.schema([*((name, pa.dictionary(pa.int32(), pa.string())) for name in labels), (count, pa.int64())])


def _rows(law: PublicLaw, part: slice, tables: Ints) -> "pa.Table":
    """Return the rows of some areas."""
    import pyarrow as pa

    n_areas, n_cells = tables.shape
    columns = []
    if law.areas.name is not None:
        places = np.repeat(np.arange(n_areas, dtype=np.int32), n_cells)
        columns.append(_dictionary(places, law.areas.labels[part]))
    for places, dimension in zip(_places(law), law.schema.dimensions, strict=True):
        columns.append(_dictionary(np.tile(places, n_areas), dimension.labels))
    return pa.Table.from_arrays([*columns, numbers_to_arrow(tables.reshape(-1))], schema=_schema(law))


def _dictionary(places: NDArray[np.int32], labels: Sequence[str | None]) -> "pa.Array":
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(numbers_to_arrow(places), texts_to_arrow(labels))


def _places(law: PublicLaw) -> list[NDArray[np.int32]]:
    """Return for each dimension the place of every cell's label."""
    return [place.astype(np.int32) for place in np.unravel_index(np.arange(law.schema.n_cells), law.schema.shape)]


def read_tables(law: PublicLaw, file: BinaryIO, progress: Progress = no_news) -> Ints:
    """Read the tables (area, cell) that `write_tables` wrote, and refuse anything else."""
    from pyarrow import parquet

    names = header_of(law)
    n_rows = len(law.areas) * law.schema.n_cells
    with damage_in_words():
        if parquet.read_schema(file).names != names:  # a column that is not there cannot be read as codes
            raise _refused("the columns")
        file.seek(0)
        rows = parquet.ParquetFile(file, read_dictionary=names[:-1])
        if not rows.schema_arrow.equals(_schema(law)):
            raise _refused("the columns")
        check_sizes(rows.metadata, PARQUET, n_rows, len(names) * (WIDEST + 4))
        tables, start = np.empty((len(law.areas), law.schema.n_cells), np.int64), 0
        for number in range(rows.num_row_groups):
            n_areas, rest = divmod(rows.metadata.row_group(number).num_rows, law.schema.n_cells)
            part = slice(start, start + n_areas)
            if rest or part.stop > len(tables):
                raise _refused("the rows")
            _take(law, part, rows.read_row_group(number), tables[part])
            start = part.stop
            progress(VERIFYING, start, len(tables))
    if start != len(tables):
        raise _refused("the rows")
    return tables


def _refused(what: str) -> BundleError:
    return BundleError(f"{PARQUET} does not have {what} that the manifest describes; get the bundle again")


def _take(law: PublicLaw, part: slice, rows: "pa.Table", out: Ints) -> None:
    """Put the counts of some areas into their tables, if the labels beside them are right."""
    *labels, counts = rows.columns
    if any(column.null_count for column in rows.columns):
        raise _refused("the labels or counts")
    n_areas = len(out)
    if law.areas.name is not None:
        codes, known = _codes(labels.pop(0))
        lines, texts = codes.reshape(n_areas, -1), known.to_pylist()
        firsts = [texts[place] for place in lines[:, 0].tolist()]
        if (lines != lines[:, :1]).any() or firsts != list(law.areas.labels[part]):
            raise _refused("the areas")
    for column, places, dimension in zip(labels, _places(law), law.schema.dimensions, strict=True):
        codes, known = _codes(column)
        own = np.array([dimension.positions.get(text, -1) for text in known.to_pylist()], np.int32)
        if (own[codes].reshape(n_areas, -1) != places).any():
            raise _refused("the labels")
    out.reshape(-1)[:] = numbers_in(counts)


def _codes(column: "pa.ChunkedArray") -> tuple[NDArray[Any], "pa.Array"]:
    """Return the places of texts among those that occur, and these."""
    joined = column.unify_dictionaries().combine_chunks()
    one = joined.chunk(0) if hasattr(joined, "chunk") else joined
    return numbers_in(one.indices), one.dictionary
