"""The confidential table: nonnegative integer counts of a schema's cells; and those of many areas."""

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from congenial import display
from congenial.arrays import Ints
from congenial.errors import TableError, did_you_mean
from congenial.schema import Schema

if TYPE_CHECKING:
    import narwhals as nw

LARGEST_COUNT = 2**53
"""Counts up to here are exact in every tool that reads a release, spreadsheets and JavaScript included."""

CONFIDENTIAL = "CONFIDENTIAL-"
"""How names of files begin that only the curator may see."""

_UNSET = object()


class Table:
    """Confidential counts, one for each cell of a schema.

    Parameters
    ----------
    schema : Schema
    counts : nested lists, array, mapping or frame
        Lists and arrays have the schema's shape. A mapping is keyed by tuples of labels, or nested. A frame (pandas,
        polars, pyarrow) has a column for each dimension and one of counts, a row a cell.
    fill : int, optional
        The count of cells that a mapping or frame does not mention, usually 0. Without it they are an error.
    count : str, optional
        The frame's column of counts; needed only when it has other columns too.

    Examples
    --------
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> Table(schema, [[3, 4], [1, 2]])
    confidential table, total 10
            age=0-17  18+  total
    female         3    4      7
    male           1    2      3
    total          4    6     10
    """

    def __init__(self, schema: Schema, counts: object, *, fill: int | None = None, count: str | None = None) -> None:
        if not isinstance(schema, Schema):
            raise TableError(f"a table needs a Schema first, not a {type(schema).__name__}")
        self.schema = schema
        raw: list[Any] | Ints
        if isinstance(counts, Mapping):
            raw = _from_mapping(schema, counts, fill)
        elif isinstance(counts, np.ndarray) and counts.dtype.kind in "iu" and _is_valid(schema, counts):
            raw = counts.reshape(-1).astype(np.int64)  # always a copy: what is checked stays as it is
        elif isinstance(counts, np.ndarray | list | tuple) or (frame := _frame(counts)) is None:
            raw = _from_nested(schema, counts)
        else:
            raw = _from_frame(schema, frame, fill, count)
        self.counts: Ints = raw if isinstance(raw, np.ndarray) else _checked(schema, raw)
        self.counts.setflags(write=False)

    @property
    def total(self) -> int:
        """The sum of all cells."""
        return sum(self.counts.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.schema == other.schema and bool(np.all(self.counts == other.counts))

    __hash__ = None  # type: ignore[assignment]  # a digest of a small table gives the table away

    def __repr__(self) -> str:
        return f"confidential table, total {self.total:,}\n{display.as_text(self.schema, self.counts)}"

    def _repr_html_(self) -> str:
        return display.as_html(self.schema, self.counts, caption=f"confidential table, total {self.total:,}")


class AreaTables(Mapping[str, Table]):
    """The confidential tables of many areas in one array; a Table is made of an area's when it is asked for.

    Parameters
    ----------
    schema : Schema
    labels : texts
        Of the areas, no two alike.
    counts : array (area, cell)

    Examples
    --------
    >>> tables = AreaTables(Schema({"sex": ["female", "male"]}), ["north", "south"], np.array([[3, 4], [0, 9]]))
    >>> tables["south"].total
    9
    """

    def __init__(self, schema: Schema, labels: Sequence[str], counts: Ints) -> None:
        self._keep(schema, labels, np.array(counts))  # always a copy: what is checked stays as it is

    @classmethod
    def without_copy(cls, schema: Schema, labels: Sequence[str], counts: Ints) -> "AreaTables":
        """Return tables that keep an array (area, cell) which nobody else has: of a million areas, a copy is large."""
        out = cls.__new__(cls)
        out._keep(schema, labels, counts)
        return out

    def _keep(self, schema: Schema, labels: Sequence[str], counts: Ints) -> None:
        self.labels = tuple(labels)
        if counts.shape != (len(labels), schema.n_cells) or len(set(labels)) < len(labels):
            raise TableError("tables of areas need as many different labels as tables, and a count for each cell")
        if counts.dtype.kind not in "iu" or (counts.size and not (0 <= counts.min() <= counts.max() <= LARGEST_COUNT)):
            raise TableError("counts of areas are whole numbers from 0 to 2^53")
        self.schema = schema
        self.counts: Ints = counts.astype(np.int64, copy=False)
        self.counts.setflags(write=False)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {label: place for place, label in enumerate(self.labels)}

    def __getitem__(self, area: str) -> Table:
        return Table(self.schema, self.counts[self._places[area]].reshape(self.schema.shape))

    def __iter__(self) -> Iterator[str]:
        return iter(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    __hash__ = None  # type: ignore[assignment]  # a digest of small tables gives them away

    def __repr__(self) -> str:
        return f"confidential tables of {len(self):,} areas"


def tables_by_area(schema: Schema, labels: Sequence[str | None], counts: Ints) -> Mapping[str | None, Table]:
    """Return tables (area, cell) by the labels of their areas, or one table under None."""
    if list(labels[:1]) == [None]:
        return {None: Table(schema, counts[0].reshape(schema.shape))}
    named: Mapping[Any, Table] = AreaTables.without_copy(schema, [str(label) for label in labels], counts)
    return named


def _is_valid(schema: Schema, counts: NDArray[Any]) -> bool:
    """Whether an array of whole numbers is a table as it stands: cell by cell, 73,000 tables take six seconds."""
    return counts.shape == schema.shape and counts.size > 0 and counts.min() >= 0 and counts.max() <= LARGEST_COUNT


def _frame(counts: Any) -> "nw.DataFrame[Any] | None":
    """Return a frame of any library; None for what is no frame."""
    import narwhals as nw

    if not nw.dependencies.is_into_dataframe(counts):
        return None
    if nw.dependencies.is_pandas_dataframe(counts) and not all(isinstance(name, str) for name in counts.columns):
        raise TableError("the frame's column names must be text")
    try:
        frame: nw.DataFrame[Any] = nw.from_native(counts, eager_only=True)
    except Exception:  # noqa: BLE001  what a frame library says may quote the data
        raise TableError("the frame cannot be read: are its column names all different?") from None
    return frame


def _from_nested(schema: Schema, counts: object) -> list[Any]:
    """Flatten nested lists or an array, checking the length at every depth."""
    if isinstance(counts, str | bytes | Set) or not hasattr(counts, "__len__"):
        raise TableError(
            f"counts must be nested lists, an array, a mapping or a frame of counts, not a {type(counts).__name__}"
        )
    if isinstance(counts, np.ndarray):
        if counts.shape != schema.shape:
            raise TableError(f"the array has shape {counts.shape}, the schema {schema} needs {schema.shape}")
        return list(counts.reshape(-1).tolist()) if counts.dtype.kind in "biuf" else list(counts.reshape(-1))
    flat: list[Any] = []
    _flatten(schema, counts, 0, flat)
    return flat


def _flatten(schema: Schema, part: Any, depth: int, flat: list[Any]) -> None:
    if depth == len(schema.shape):
        flat.append(part)
        return
    dimension = schema.dimensions[depth]
    if isinstance(part, str | bytes) or not hasattr(part, "__len__"):
        raise TableError(
            f"the nested lists are ragged: at depth {depth + 1} a list of {len(dimension.labels)} counts"
            f" for {dimension.name!r} is needed, not a {type(part).__name__}"
        )
    if len(part) != len(dimension.labels):
        raise TableError(
            f"the nested lists are ragged: a list for {dimension.name!r} has {len(part)} entries,"
            f" the schema has {len(dimension.labels)} labels"
        )
    for entry in part:
        _flatten(schema, entry, depth + 1, flat)


def _from_mapping(schema: Schema, counts: Mapping[Any, Any], fill: int | None) -> list[Any]:
    raw: list[Any] = [_UNSET] * schema.n_cells

    def visit(part: Mapping[Any, Any], prefix: tuple[str, ...]) -> None:
        for key, value in part.items():
            labels = (*prefix, *(key if isinstance(key, tuple) else (key,)))
            if isinstance(value, Mapping):
                visit(value, labels)
                continue
            if len(labels) != len(schema.names):
                raise TableError(f"each key of the mapping needs one label for each of {list(schema.names)}")
            _place(schema, raw, labels, value)

    visit(counts, ())
    return _filled(raw, fill)


def _place(schema: Schema, raw: list[Any], labels: tuple[Any, ...], value: Any) -> None:
    cell = 0
    for dimension, label in zip(schema.dimensions, labels, strict=True):
        if not isinstance(label, str):
            raise TableError(_not_text(dimension.name))
        if label not in dimension.positions:
            raise TableError(_unknown(dimension.name))
        cell = cell * len(dimension.labels) + dimension.positions[label]
    if raw[cell] is not _UNSET:
        raise TableError("a cell is given more than once (which one is confidential); add its counts up first")
    raw[cell] = value


def _from_frame(schema: Schema, frame: "nw.DataFrame[Any]", fill: int | None, count: str | None) -> list[Any]:
    for name in schema.names:
        if name not in frame.columns:
            raise TableError(f"the frame has no column {name!r}; {did_you_mean(name, frame.columns)}")
    others = [column for column in frame.columns if column not in schema.names]
    if count is None:
        if len(others) != 1:
            raise TableError(
                f"the frame has {len(others)} columns besides the dimensions; say which holds the counts: count=..."
            )
        count = others[0]
    elif count not in others:
        raise TableError(f"the frame has no count column {count!r}; {did_you_mean(count, others)}")
    raw: list[Any] = [_UNSET] * schema.n_cells
    columns = [frame[name].to_list() for name in schema.names]
    for *labels, value in zip(*columns, frame[count].to_list(), strict=True):
        _place(schema, raw, tuple(labels), value)
    return _filled(raw, fill)


def _filled(raw: list[Any], fill: int | None) -> list[Any]:
    missing = [cell for cell, value in enumerate(raw) if value is _UNSET]
    if missing and fill is None:
        raise TableError(
            "a cell is missing (which one is confidential); give every cell a count,"
            " or pass fill=0 if cells that are not mentioned are empty"
        )
    return [fill if value is _UNSET else value for value in raw]


def _unknown(dimension: str) -> str:
    return (
        f"the counts have a label of dimension {dimension!r} that the schema does not have (it may be confidential, so"
        f" it is not shown); compare your labels with schema.labels({dimension!r})"
    )


def _not_text(dimension: str) -> str:
    return (
        f"labels of dimension {dimension!r} must be text in the counts too;"
        " turn codes into text first, so that '010' stays '010'"
    )


def _checked(schema: Schema, raw: list[Any]) -> NDArray[np.int64]:
    """Turn raw entries into counts; a message says what is wrong with one, neither which one nor the number."""
    out = np.empty(schema.n_cells, np.int64)
    for cell, value in enumerate(raw):
        wrong = _explain_invalid_count(value)
        if wrong:
            raise TableError(f"a cell of the counts: {wrong} (the cell and its value are confidential and not shown)")
        out[cell] = int(value)
    return out


def _explain_invalid_count(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "a count must be a number, this is a boolean; convert it to 0 or 1 first"
    if value is None:
        return "the count is missing; replace it by a number"
    if isinstance(value, float | np.floating):
        if np.isnan(value):
            return "the count is NaN, so missing; replace it by a number"
        if np.isinf(value):
            return "the count is infinite"
        if value != np.floor(value):
            return "a count must be a whole number, this is a fraction; round it first"
    elif not isinstance(value, int | np.integer):
        return f"a count must be a whole number, this is a {type(value).__name__}"
    if value < 0:
        return "a count must not be negative; the least is 0"
    if value > LARGEST_COUNT:
        return "the count is beyond 2^53, the largest whole number that every reader of a release holds exactly"
    return ""
