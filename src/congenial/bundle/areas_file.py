"""areas.parquet: for each area its group in the law, the values of its equalities, and what came out exactly."""

import csv
import io
from collections.abc import Sequence

import numpy as np

from congenial.bundle.file_names import AREAS
from congenial.bundle.law_json import AreaValues
from congenial.bundle.parquet import csv_to_parquet, parquet_columns
from congenial.conditions.areas import Areas
from congenial.errors import BundleError


def areas_to_parquet(areas: Areas, exact: Sequence[Sequence[str]]) -> bytes:
    """Return the file: area, its group from 0 on, `value_1`, ... of the law, `exact_1`, ... in the manifest's order.

    Parameters
    ----------
    exact : sequence of columns
        For each exact statistic its value in every area, as text.
    """
    law = AreaValues.of(areas)
    header = _header(len(law.values), len(exact))
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    rows.writerow(header)
    lines = zip(law.labels, law.groups.tolist(), *law.values, *exact, strict=True)
    rows.writerows(lines)
    # Whole numbers as such where 64 bits hold them; a share is text.
    columns = [*law.values, *exact]
    kinds = ["BIGINT" if all(map(_is_number, column)) else "VARCHAR" for column in columns]
    types = {"area": "VARCHAR", "group": "INTEGER", **dict(zip(header[2:], kinds, strict=True))}
    return csv_to_parquet(out.getvalue().encode(), types)


def _is_number(value: int | str | None) -> bool:
    if value is None:
        return True
    text = str(value)
    return text.removeprefix("-").isdecimal() and len(text) <= 18


def _header(n_values: int, n_exact: int) -> list[str]:
    values = [f"value_{number}" for number in range(1, n_values + 1)]
    return ["area", "group", *values, *(f"exact_{number}" for number in range(1, n_exact + 1))]


def areas_of_parquet(content: bytes, n_exact: int) -> tuple[AreaValues, list[list[str]]]:
    """Read what `areas_to_parquet` wrote, and refuse anything else."""
    columns = parquet_columns(content)
    n_values = len(columns) - 2 - n_exact
    if n_values < 0 or list(columns) != _header(n_values, n_exact):
        raise BundleError(f"{AREAS} does not have the columns that the manifest describes")
    labels, groups, *rest = columns.values()
    try:
        values = [[_value(number) for number in column] for column in rest[:n_values]]
        found = AreaValues([str(label) for label in labels], np.array(groups, np.int64), values)
    except (TypeError, ValueError):
        raise BundleError(f"{AREAS} has a value that is not a whole number") from None
    return found, [[str(text) for text in column] for column in rest[n_values:]]


def _value(number: object) -> int | None:
    if number in {None, ""}:
        return None
    value = int(str(number))
    if str(value) != str(number):
        raise ValueError(number)
    return value
