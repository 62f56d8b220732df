"""The confidential records of which several tables are counts."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Ints
from congenial.errors import TableError
from congenial.schema import RecordSchema
from congenial.table import LARGEST_COUNT


class Records:
    """Confidential records: how many there are in each combination of labels that occurs.

    Parameters
    ----------
    schema : RecordSchema
    columns : mapping from dimension to labels
        A label for every record.
    counts : integers, optional
        How many records each line stands for; 1 if not given.

    Examples
    --------
    >>> schema = RecordSchema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> records = Records(schema, {"sex": ["male", "female", "male"], "age": ["18+", "0-17", "18+"]})
    >>> records
    confidential records, 3 of them
    >>> records.margin(["sex"]).tolist(), records.margin(["sex", "age"]).tolist()
    ([1, 2], [[1, 0], [0, 2]])
    """

    def __init__(
        self, schema: RecordSchema, columns: Mapping[str, Sequence[str]], counts: ArrayLike | None = None
    ) -> None:
        if not isinstance(schema, RecordSchema):
            raise TableError(f"records need a RecordSchema first, not a {type(schema).__name__}")
        if set(columns) != set(schema.names):
            raise TableError(f"records have a column for each of {list(schema.names)}, not for {list(columns)}")
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise TableError("the columns of records have different lengths")
        places = [
            np.array([schema.dimensions[axis].position(label) for label in columns[name]], np.int64)
            for axis, name in enumerate(schema.names)
        ]
        self._keep(schema, _numbers(schema, places), counts)

    @classmethod
    def of_cells(cls, schema: RecordSchema, cells: Ints, counts: ArrayLike | None = None) -> "Records":
        """Return records from the number of each one's cell, the last dimension fastest.

        Examples
        --------
        >>> schema = RecordSchema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
        >>> Records.of_cells(schema, np.array([3, 0, 3])).margin(["age"]).tolist()
        [1, 2]
        """
        out = cls.__new__(cls)
        out._keep(schema, np.asarray(cells, np.int64), counts)
        return out

    def _keep(self, schema: RecordSchema, cells: Ints, counts: ArrayLike | None) -> None:
        numbers = np.ones(len(cells), np.int64) if counts is None else np.asarray(counts)
        if numbers.shape != cells.shape or numbers.dtype.kind not in "iu":
            raise TableError("counts of records are whole numbers, one for each line")
        if len(cells) and not (0 <= cells.min() <= cells.max() < schema.n_cells):
            raise TableError(f"cells of records are numbers from 0 to {schema.n_cells - 1:,}")
        if len(cells) and not (0 <= int(numbers.min()) <= int(numbers.max()) <= LARGEST_COUNT):
            raise TableError("counts of records are whole numbers from 0 to 2^53")
        self.schema = schema
        self._cells, places = np.unique(cells, return_inverse=True)
        self._counts = np.zeros(len(self._cells), np.int64)
        np.add.at(self._counts, places.reshape(-1), numbers.astype(np.int64))
        if float(self._counts.sum(dtype=np.float64)) > LARGEST_COUNT:
            raise TableError("there are more than 2^53 records")

    @property
    def n_records(self) -> int:
        """How many records there are. Confidential, unless the total is exact."""
        return int(self._counts.sum())

    @property
    def n_lines(self) -> int:
        """How many different records are kept. Confidential."""
        return len(self._cells)

    def margin(self, dimensions: Iterable[str]) -> Ints:
        """Return the counts over some dimensions, shaped by their labels in the order of the schema. Confidential."""
        axes = sorted(self.schema.axis(name) for name in dimensions)
        shape = tuple(self.schema.shape[axis] for axis in axes)
        numbers = np.zeros(len(self._cells), np.int64)
        for axis in axes:
            after = int(np.prod(self.schema.shape[axis + 1 :], dtype=object))
            numbers = numbers * self.schema.shape[axis] + self._cells // after % self.schema.shape[axis]
        out = np.zeros(int(np.prod(shape, dtype=np.int64)), np.int64)
        np.add.at(out, numbers, self._counts)
        return out.reshape(shape)

    __hash__ = None  # type: ignore[assignment]  # a digest of few records gives them away

    def __repr__(self) -> str:
        return f"confidential records, {self.n_records:,} of them"


def _numbers(schema: RecordSchema, places: Sequence[Ints]) -> Ints:
    out = np.zeros(len(places[0]), np.int64)
    for size, column in zip(schema.shape, places, strict=True):
        out = out * size + column
    return out
