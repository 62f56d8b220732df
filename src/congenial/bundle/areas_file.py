"""areas.parquet: for each area its group in the law, the values of its equalities, and what came out exactly."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrow_columns import numbers_in, numbers_to_arrow, texts_to_arrow
from congenial.bundle.file_names import AREAS
from congenial.bundle.law_json import AreaValues
from congenial.bundle.parquet import table_of_parquet, table_to_parquet
from congenial.conditions.areas import Areas
from congenial.errors import BundleError

if TYPE_CHECKING:
    import pyarrow as pa


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

    table = table_of_parquet(content)
    n_values = table.num_columns - 2 - n_exact
    if n_values < 0 or table.column_names != _header(n_values, n_exact):
        raise BundleError(f"{AREAS} does not have the columns that the manifest describes")
    labels, groups, *rest = table.columns
    if labels.type != pa.string() or groups.type != pa.int32() or labels.null_count or groups.null_count:
        raise BundleError(f"{AREAS} does not have the columns that the manifest describes")
    if any(column.null_count for column in rest[n_values:]):
        raise BundleError(f"{AREAS} lacks an exact number")
    try:
        values = [_read(column, is_whole=True) for column in rest[:n_values]]
        found = AreaValues(labels.to_pylist(), numbers_in(groups).astype(np.int64), values)
        return found, [_read(column, is_whole=False) for column in rest[n_values:]]
    except (TypeError, ValueError):
        raise BundleError(f"{AREAS} has a value that is not a whole number") from None


def _read(column: "pa.ChunkedArray", *, is_whole: bool) -> NDArray[Any]:
    """Return whole numbers, masked where they are missing; of a column of texts, numbers or texts as objects."""
    import pyarrow as pa

    if column.type == pa.int64():
        return numbers_in(column)
    if column.type != pa.string():
        raise TypeError(column.type)
    texts = column.to_pylist()
    return np.array([_value(text) for text in texts] if is_whole else texts, object)


def _value(text: str | None) -> int | None:
    if text is None:
        return None
    value = int(text)
    if str(value) != text:
        raise ValueError(text)
    return value
