"""areas.parquet: for each area its group in the law, the values of its equalities, and what came out exactly."""

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrow_columns import numbers_in, numbers_to_arrow, texts_to_arrow
from congenial.bundle.file_names import AREAS
from congenial.bundle.law_json import AreaValues
from congenial.bundle.parquet import (
    WIDEST,
    batches_of,
    check_distinct_rows,
    damage_in_words,
    table_to_parquet,
    texts_once,
)
from congenial.conditions.areas import Areas
from congenial.errors import BundleError

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_NUMBER = 10_000  # digits of a value or of a share that stands as text


def areas_to_parquet(areas: Areas, exact: Sequence[NDArray[Any]]) -> bytes:
    """Return the file: area, its group from 0 on, `value_1`, ... of the law, `exact_1`, ... in the manifest's order.

    Parameters
    ----------
    exact : sequence of arrays (area,)
        For each exact statistic its value in every area: whole numbers, or texts (objects).
    """
    import pyarrow as pa

    law = AreaValues.of(areas)
    columns = [texts_to_arrow(law.labels), numbers_to_arrow(law.groups.astype(np.int32))]
    columns += [_written(column) for column in (*law.values, *exact)]
    return table_to_parquet(pa.Table.from_arrays(columns, names=_header(len(law.values), len(exact))))


def _written(column: NDArray[Any]) -> "pa.Array":
    """Return whole numbers as such where 64 bits hold them; others, and shares, as text."""
    if column.dtype == object:
        return texts_to_arrow([None if value is None else str(value) for value in column.tolist()])
    return numbers_to_arrow(column.astype(np.int64, copy=False))


def _header(n_values: int, n_exact: int) -> list[str]:
    values = [f"value_{number}" for number in range(1, n_values + 1)]
    return ["area", "group", *values, *(f"exact_{number}" for number in range(1, n_exact + 1))]


def areas_of_parquet(content: bytes, n_exact: int) -> tuple[AreaValues, list[NDArray[Any]]]:
    """Read what `areas_to_parquet` wrote, and refuse anything else."""
    import pyarrow as pa
    from pyarrow import parquet

    file = BytesIO(content)
    with damage_in_words():
        schema, n_rows = parquet.read_schema(file), parquet.read_metadata(file).num_rows
        types = dict(zip(schema.names, schema.types, strict=True))
        n_values = len(schema.names) - 2 - n_exact
        has_columns = n_values >= 0 and schema.names == _header(n_values, n_exact)
        if not has_columns or types["area"] != pa.string() or types["group"] != pa.int32():
            raise BundleError(f"{AREAS} does not have the columns that the manifest describes")
        if not {*schema.types[2:]} <= {pa.int64(), pa.string()}:
            raise BundleError(f"{AREAS} has a value that is not a whole number")
        check_distinct_rows(file, AREAS, n_rows)
        texts = [name for name, kind in types.items() if kind == pa.string()]
        row_bytes = WIDEST + len(types) * (_LONGEST_NUMBER + 4)
        labels, columns = _gathered(batches_of(file, AREAS, texts, n_rows, row_bytes), schema.names)
    groups, *rest = columns
    try:
        values = [_numbers(column) for column in rest[:n_values]]
    except ValueError:
        raise BundleError(f"{AREAS} has a value that is not a whole number") from None
    exact = rest[n_values:]
    if any(np.ma.is_masked(column) or (column.dtype == object and None in column) for column in exact):
        raise BundleError(f"{AREAS} lacks an exact number")
    return AreaValues(labels, groups.astype(np.int64), values), exact


def _gathered(batches: "Iterable[pa.RecordBatch]", names: Sequence[str]) -> tuple[list[str], list[NDArray[Any]]]:
    """Return the labels of all areas, and the other columns: whole numbers, masked where they are missing, or texts."""
    import pyarrow as pa

    labels: list[str] = []
    seen: set[str] = set()
    parts: list[list[Any]] = [[] for _ in names[1:]]
    for batch in batches:
        known, places = texts_once(batch.column(0), AREAS)
        if batch.column(0).null_count or batch.column(1).null_count:
            raise BundleError(f"{AREAS} does not have the columns that the manifest describes")
        texts = known.to_pylist()
        own = [texts[place] for place in places.tolist()]
        labels += own
        seen.update(own)
        if len(seen) < len(labels):  # at once: a small file can repeat a few labels in any number of rows
            raise BundleError(f"{AREAS} names an area twice")
        for part, column in zip(parts, batch.columns[1:], strict=True):
            part.append(_texts(column) if pa.types.is_dictionary(column.type) else column)
    return labels, [
        np.concatenate(part) if isinstance(part[0], np.ndarray) else numbers_in(pa.chunked_array(part))
        for part in parts
        if part
    ] or [np.zeros(0, np.int64) for _ in parts]


def _texts(column: "pa.DictionaryArray") -> NDArray[np.object_]:
    """Return texts as objects, one for all rows that have the same; None where there is none."""
    known, places = texts_once(column, AREAS, _LONGEST_NUMBER)
    found: NDArray[np.object_] = np.array([*known.to_pylist(), None], object)[places]
    return found


def _numbers(column: NDArray[Any]) -> NDArray[Any]:
    return column if column.dtype != object else np.array([_value(text) for text in column.tolist()], object)


def _value(text: str | None) -> int | None:
    if text is None:
        return None
    value = int(text)
    if str(value) != text:
        raise ValueError(text)
    return value
