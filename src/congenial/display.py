"""Tables as text and HTML; knows labels and numbers, not whether they are confidential."""

from collections.abc import Sequence
from html import escape
from itertools import product

import numpy as np
from numpy.typing import NDArray

from congenial.schema import Schema

_WIDEST = 8
_LONGEST = 60


def table_rows(schema: Schema, values: NDArray[np.int64]) -> tuple[list[str], list[list[str]]]:
    """Lay a table out in two directions: a header, then rows, totals last.

    The last dimension runs across unless it has more than eight labels and another has fewer. One dimension alone runs
    down when it has more than eight.
    """
    lines = table_layout(schema, values.reshape(1, -1))[0].tolist()
    rows = [[title, *map(number, line)] for title, line in zip(row_titles(schema), lines, strict=True)]
    across = _across(schema)
    if across is None:
        return ["", "count"], rows
    name, labels = schema.dimensions[across].name, schema.dimensions[across].labels
    return ["", f"{name}={labels[0]}", *labels[1:], "total"], rows


def table_layout(schema: Schema, tables: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of the layouts of many tables (table, cell), with their totals: (table, row, column).

    Examples
    --------
    >>> table_layout(Schema({"sex": ["f", "m"], "age": ["0-17", "18+"]}), np.array([[1, 2, 3, 4]])).tolist()
    [[[1, 2, 3], [3, 4, 7], [4, 6, 10]]]
    """
    is_large = tables.size and int(np.abs(tables).max()) * schema.n_cells >= 2**63  # then sums of Python's integers
    array = (tables.astype(object) if is_large else tables).reshape(-1, *schema.shape)
    across = _across(schema)
    if across is None:
        array = array[:, :, None]
    else:
        array = np.moveaxis(array, across + 1, -1).reshape(len(array), -1, schema.shape[across])
        array = np.concatenate([array, array.sum(axis=2, keepdims=True)], axis=2)
    if array.shape[1] == 1:
        return array
    return np.concatenate([array, array.sum(axis=1, keepdims=True)], axis=1)


def row_titles(schema: Schema) -> list[str]:
    """Return what stands before each row of a layout."""
    across = _across(schema)
    down = [dimension.labels for axis, dimension in enumerate(schema.dimensions) if axis != across]
    names = [", ".join(labels) for labels in product(*down)]
    return names if len(names) == 1 else [*names, "total"]


def _across(schema: Schema) -> int | None:
    """Return the dimension that runs across; None if the only one runs down."""
    across = len(schema.shape) - 1
    if schema.shape[across] <= _WIDEST:
        return across
    return min(range(len(schema.shape)), key=lambda axis: (schema.shape[axis], -axis)) if across else None


def titles(schema: Schema) -> list[str]:
    """Return the header of a layout for a page: which dimensions run down and across, and the labels of the latter.

    Examples
    --------
    >>> titles(Schema({"sex": ["f", "m"], "age": ["0-17", "18+"]}))
    ['sex by age', '0-17', '18+', 'total']
    """
    across = _across(schema)
    if across is None:
        return [schema.names[0], "count"]
    down = ", ".join(name for axis, name in enumerate(schema.names) if axis != across)
    dimension = schema.dimensions[across]
    return [f"{down} by {dimension.name}" if down else dimension.name, *dimension.labels, "total"]


def number(value: int) -> str:
    """Write a whole number with commas."""
    return f"{value:,}"


def _shortened(rows: list[list[str]]) -> list[list[str]]:
    if len(rows) <= _LONGEST:
        return rows
    gap = [f"... {len(rows) - _LONGEST:,} rows not shown"] + [""] * (len(rows[0]) - 1)
    return [*rows[: _LONGEST - 1], gap, rows[-1]]


def as_text(schema: Schema, values: NDArray[np.int64]) -> str:
    """Return a table as aligned plain text."""
    header, rows = table_rows(schema, values)
    rows = _shortened(rows)
    widths = [max(len(line[column]) for line in [header, *rows]) for column in range(len(header))]
    return "\n".join(_aligned(line, widths) for line in [header, *rows])


def _aligned(line: Sequence[str], widths: Sequence[int]) -> str:
    first = line[0].ljust(widths[0])
    rest = (text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True))
    return "  ".join([first, *rest]).rstrip()


def as_html(schema: Schema, values: NDArray[np.int64], caption: str) -> str:
    """Return a table as an HTML fragment for notebooks."""
    header, rows = table_rows(schema, values)
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in header)
    body = "".join(
        f'<tr><th scope="row">{escape(line[0])}</th>' + "".join(f"<td>{text}</td>" for text in line[1:]) + "</tr>"
        for line in _shortened(rows)
    )
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def figure(value: float | None) -> str:
    """Return an error or a deviation as people read it.

    Examples
    --------
    >>> [figure(value) for value in (0.0, 0.034, 2.618, 31.4, 1234.5, None)]
    ['0', '0.03', '2.6', '31', '1,234', '']
    """
    if value is None:
        return ""
    if abs(value) < 0.005:
        return "0"
    if abs(value) < 0.1:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 10 else f"{value:,.0f}"
