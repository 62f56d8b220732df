"""The released tables as files: table.csv and table.parquet, a row a cell, written, read and compared."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import arrow_to_numbers, numbers_to_arrow, texts_to_arrow
from congenial.bundle.file_registry import PARQUET, TABLE
from congenial.bundle.parquet import WIDEST, check_sizes, damage_as_refusal
from congenial.errors import BundleError
from congenial.law import PublicLaw
from congenial.memory_and_threads import map_in_threads, parts_of
from congenial.progress_and_interrupts import VERIFYING, WRITING, Progress, silent
from congenial.safe_text import find_formulas
from congenial.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

COUNT = "count"
_CSV_ROWS = 250_000  # at a time, about: whole areas
_ROOM = 1 << 26  # bytes of the lines at a time, each with room for the longest


def formula_warnings(schema: Schema, areas: Iterable[str | None]) -> list[str]:
    """Return a warning, if one is due, about labels that a spreadsheet would compute in place of showing them.

    They stay as they are in the file, for a program compares them letter by letter.

    Parameters
    ----------
    areas : texts
        What an area is called, and the areas' labels.
    """
    texts = [text for dimension in schema.dimensions for text in (dimension.name, *dimension.labels)]
    formulas = find_formulas([text for text in (*areas, *texts) if text is not None])
    if not formulas:
        return []
    more = f" and {len(formulas) - 1:,} more" if len(formulas) > 1 else ""
    return [f"A spreadsheet would take the label {formulas[0]!r}{more} for a formula: import table.csv as text."]


class NumbersByArea(Protocol):
    """Numbers of cells (area, cell), of which some areas are taken at a time."""

    def __getitem__(self, part: slice, /) -> Ints: ...


Columns = Sequence[tuple[str, NumbersByArea]]
"""Further columns of numbers beside the counts, each with its name."""


def header_of(law: PublicLaw, more: Columns = ()) -> list[str]:
    """Return the columns: the area if there are several, the dimensions, the count, further numbers."""
    names = [*([] if law.areas.name is None else [law.areas.name]), *law.schema.names]
    n_labels = len(names)
    for name in (COUNT, *(name for name, _ in more)):
        column = name
        while column in names[:n_labels]:
            column = f"released_{column}"
        names.append(column)
    return names


def _labels(law: PublicLaw) -> Iterator[tuple[str, ...]]:
    return product(*(dimension.labels for dimension in law.schema.dimensions))


def _in_parts(law: PublicLaw, tables: Ints, more: Columns) -> Iterator[tuple[slice, bytes]]:
    """Go through the lines of the file, some areas at a time: labels quoted, so that "010" stays text."""
    import pyarrow as pa

    n_cells, names = law.schema.n_cells, header_of(law, more)
    labels = [texts_to_arrow(column) for column in zip(*_labels(law), strict=True)]

    def lines(part: slice) -> bytes:
        n_areas = len(tables[part])
        cells = np.tile(np.arange(n_cells), n_areas)
        columns = [column.take(numbers_to_arrow(cells)) for column in labels]
        if law.areas.name is not None:
            areas = texts_to_arrow(law.areas.labels[part])
            columns.insert(0, areas.take(numbers_to_arrow(np.repeat(np.arange(n_areas), n_cells))))
        columns += [numbers_to_arrow(numbers[part].reshape(-1)) for numbers in (tables, *(each for _, each in more))]
        return csv_bytes(pa.record_batch(columns, names))

    parts = _csv_parts(law)
    return zip(parts, map_in_threads(lines, parts), strict=True)


def csv_bytes(batch: "pa.RecordBatch", *, has_header: bool = False) -> bytes:
    """Return a batch as CSV: texts are quoted, numbers are not."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    out = pa.BufferOutputStream()
    arrow_csv.write_csv(batch, out, arrow_csv.WriteOptions(include_header=has_header))
    content: bytes = out.getvalue().to_pybytes()
    return content


def _csv_parts(law: PublicLaw) -> list[slice]:
    longest = max(len(area or "") for area in law.areas.labels)
    width = 4 * longest + law.schema.width
    return parts_of(len(law.areas), max(1, min(_CSV_ROWS, _ROOM // width) // law.schema.n_cells))


def _header(law: PublicLaw, more: Columns) -> bytes:
    import pyarrow as pa

    names = header_of(law, more)
    return csv_bytes(pa.record_batch([texts_to_arrow([]) for _ in names], names), has_header=True)


def write_csv(law: PublicLaw, tables: Ints, out: BinaryIO, progress: Progress = silent, more: Columns = ()) -> None:
    """Write tables (area, cell) as CSV: areas and cells in declared order."""
    out.write(_header(law, more))
    for part, lines in _in_parts(law, tables, more):
        out.write(lines)
        if part.stop < len(tables):
            progress(WRITING, part.stop, len(tables))


def check_csv(law: PublicLaw, tables: Ints, file: BinaryIO, more: Columns = ()) -> None:
    """Refuse a file that is not the tables (area, cell) as `write_csv` writes them."""
    if not _is_csv_of(law, tables, file, more):
        raise BundleError(f"{PARQUET} does not hold what {TABLE} does; use neither, and ask the publisher")


def _is_csv_of(law: PublicLaw, tables: Ints, file: BinaryIO, more: Columns) -> bool:
    is_same = file.readline() == _header(law, more)
    parts = _in_parts(law, tables, more)
    return is_same and all(file.read(len(lines)) == lines for _, lines in parts) and not file.read(1)


def read_csv(law: PublicLaw, file: BinaryIO, more: Columns = ()) -> Ints:
    """Read the tables (area, cell) that `write_csv` wrote with these further columns, and refuse anything else."""
    tables = np.zeros((len(law.areas), law.schema.n_cells), np.int64)
    try:
        file.readline()
        for part in _csv_parts(law):
            lines = list(islice(file, (part.stop - part.start) * law.schema.n_cells))
            counts = np.array([int(line.rsplit(b",", len(more) + 1)[1]) for line in lines], np.int64)
            tables[part] = counts.reshape(-1, law.schema.n_cells)
        file.seek(0)
        is_right = _is_csv_of(
            law, tables, file, more
        )  # 1_0, +1 or other line ends say the same and are not what was written
    except (ValueError, OverflowError, IndexError):
        is_right = False
    if not is_right:
        file.seek(0)
        raise BundleError(_what_is_wrong(law, file, more))
    return tables


def _what_is_wrong(law: PublicLaw, file: BinaryIO, more: Columns) -> str:
    """Say why a file is not the tables of a law as `write_csv` writes them."""
    n_rows, has_labels = 0, True
    expected = ([*([] if area is None else [area]), *labels] for area in law.areas for labels in _labels(law))
    try:
        lines = csv.reader(io.TextIOWrapper(file, "utf-8", newline=""), strict=True)
        has_header = next(lines, []) == header_of(law, more)
        for line in lines:
            n_rows += 1
            has_labels &= line[: -1 - len(more)] == next(expected, None)
    except (UnicodeDecodeError, csv.Error):
        return "table.csv is not the CSV that was published"
    if not has_header or n_rows != law.schema.n_cells * len(law.areas):
        return "table.csv does not have the columns and rows that the manifest describes"
    if not has_labels:
        return "table.csv does not have the labels that the manifest describes, in their order"
    return "table.csv has a count that is not a whole number as it was written"


def codes_csv(law: PublicLaw, codes: Sequence[tuple[str, Sequence[str]]]) -> bytes:
    """Return codes.csv: of dimensions and areas with codes, a line a label."""
    import pyarrow as pa

    labels: dict[str, Sequence[str | None]] = {each.name: each.labels for each in law.schema.dimensions}
    if law.areas.name is not None:
        labels[law.areas.name] = law.areas.labels
    lines = [
        (name, code, label) for name, of_labels in codes for code, label in zip(of_labels, labels[name], strict=True)
    ]
    columns = [texts_to_arrow([line[place] for line in lines]) for place in range(3)]
    return csv_bytes(pa.record_batch(columns, ["column", "code", "label"]), has_header=True)


# Released tables as Parquet: the rows of table.csv, written and read some areas at a time.

_GROUP_ROWS = 1_000_000  # of a row group, about: whole areas


def write_tables(law: PublicLaw, tables: Ints, out: BinaryIO, progress: Progress = silent, more: Columns = ()) -> None:
    """Write tables (area, cell), a row a cell; labels are text, each stored once in a row group."""
    from pyarrow import parquet

    with parquet.ParquetWriter(out, _schema(law, more), compression="zstd", store_schema=False) as file:
        for part in parts_of(len(law.areas), max(1, _GROUP_ROWS // law.schema.n_cells)):
            file.write_table(_rows(law, part, tables[part], more))
            if part.stop < len(tables):
                progress(WRITING, part.stop, len(tables))


def _schema(law: PublicLaw, more: Columns) -> "pa.Schema":
    import pyarrow as pa

    names = header_of(law, more)
    labels, numbers = names[: -1 - len(more)], names[-1 - len(more) :]
    text = pa.dictionary(pa.int32(), pa.string())
    return pa.schema([*((name, text) for name in labels), *((name, pa.int64()) for name in numbers)])


def _rows(law: PublicLaw, part: slice, tables: Ints, more: Columns) -> "pa.Table":
    """Return the rows of some areas."""
    import pyarrow as pa

    n_areas, n_cells = tables.shape
    columns = []
    if law.areas.name is not None:
        places = np.repeat(np.arange(n_areas, dtype=np.int32), n_cells)
        columns.append(_dictionary(places, law.areas.labels[part]))
    for places, dimension in zip(_places(law), law.schema.dimensions, strict=True):
        columns.append(_dictionary(np.tile(places, n_areas), dimension.labels))
    columns += [numbers_to_arrow(numbers.reshape(-1)) for numbers in (tables, *(each[part] for _, each in more))]
    return pa.Table.from_arrays(columns, schema=_schema(law, more))


def _dictionary(places: NDArray[np.int32], labels: Sequence[str | None]) -> "pa.Array":
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(numbers_to_arrow(places), texts_to_arrow(labels))


def _places(law: PublicLaw) -> list[NDArray[np.int32]]:
    """Return for each dimension the place of every cell's label."""
    return [place.astype(np.int32) for place in np.unravel_index(np.arange(law.schema.n_cells), law.schema.shape)]


def read_tables(law: PublicLaw, file: BinaryIO, progress: Progress = silent, more: Columns = ()) -> Ints:
    """Read the tables (area, cell) that `write_tables` wrote with these further columns, and refuse anything else."""
    from pyarrow import parquet

    names = header_of(law, more)
    n_rows = len(law.areas) * law.schema.n_cells
    with damage_as_refusal():
        if parquet.read_schema(file).names != names:  # a column that is not there cannot be read as codes
            raise _refused("the columns")
        file.seek(0)
        rows = parquet.ParquetFile(file, read_dictionary=names[: -1 - len(more)])
        if not rows.schema_arrow.equals(_schema(law, more)):
            raise _refused("the columns")
        check_sizes(rows.metadata, PARQUET, n_rows, len(names) * (WIDEST + 4))
        tables, start = np.empty((len(law.areas), law.schema.n_cells), np.int64), 0
        for number in range(rows.num_row_groups):
            n_areas, rest = divmod(rows.metadata.row_group(number).num_rows, law.schema.n_cells)
            part = slice(start, start + n_areas)
            if rest or part.stop > len(tables):
                raise _refused("the rows")
            _take(law, part, rows.read_row_group(number), tables[part], more)
            start = part.stop
            progress(VERIFYING, start, len(tables))
    if start != len(tables):
        raise _refused("the rows")
    return tables


def _refused(what: str) -> BundleError:
    return BundleError(f"{PARQUET} does not have {what} that the manifest describes; get the bundle again")


def _take(law: PublicLaw, part: slice, rows: "pa.Table", out: Ints, more: Columns) -> None:
    """Put the counts of some areas into their tables, if labels and further numbers beside them are right."""
    n_labels = len(rows.columns) - 1 - len(more)
    labels, (counts, *others) = rows.columns[:n_labels], rows.columns[n_labels:]
    if any(column.null_count for column in rows.columns):
        raise _refused("the labels or counts")
    for (name, numbers), column in zip(more, others, strict=True):
        if not np.array_equal(arrow_to_numbers(column).reshape(len(out), -1), numbers[part]):
            raise _refused(f"the {name} column")
    n_areas = len(out)
    if law.areas.name is not None:
        codes, known = _codes(labels.pop(0))
        lines, texts = codes.reshape(n_areas, -1), known.to_pylist()
        firsts = [texts[place] for place in lines[:, 0].tolist()]
        if (lines != lines[:, :1]).any() or firsts != list(law.areas.labels[part]):
            raise _refused("the areas")
    for column, places, dimension in zip(labels, _places(law), law.schema.dimensions, strict=True):
        codes, known = _codes(column)
        positions = np.array([dimension.positions.get(text, -1) for text in known.to_pylist()], np.int32)
        if (positions[codes].reshape(n_areas, -1) != places).any():
            raise _refused("the labels")
    out.reshape(-1)[:] = arrow_to_numbers(counts)


def _codes(column: "pa.ChunkedArray") -> tuple[NDArray[Any], "pa.Array"]:
    """Return the places of texts among those that occur, and these."""
    joined = column.unify_dictionaries().combine_chunks()
    array = joined.chunk(0) if hasattr(joined, "chunk") else joined
    return arrow_to_numbers(array.indices), array.dictionary
