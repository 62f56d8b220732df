"""Rows of a file on their way into cells, some at a time. Confidential."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_columns import numbers_in
from congenial.progress import READING, Progress, no_news

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_TELLING = 2_000_000  # rows between two words about progress


class Cells:
    """Counts of cells, as rows come in: of counts, a row has its cell's count; else, every row counts one.

    Attributes
    ----------
    shape : tuple of int
        Numbers of levels: areas first, if there are some.
    counts : array (cell of all areas,)
    is_there : array (cell of all areas,)
        Whether a cell has had a row.
    n_rows : int
    has_unknown : bool
        Whether a row had a value that is no declared level.
    problems : set of int
        What is wrong with counts: keys of `COUNT_PROBLEMS`.
    """

    def __init__(self, shape: tuple[int, ...], progress: Progress = no_news) -> None:
        self.shape = shape
        self.counts: Ints = np.zeros(prod(shape), np.int64)
        self.is_there = np.zeros(prod(shape), np.bool_)
        self.n_rows, self.has_unknown = 0, False
        self.problems: set[int] = set()
        self._progress = progress

    def take(self, rows: "RecordBatch") -> None:
        """Put rows into their cells. Where a cell has several rows of counts, one of them stays."""
        names = rows.schema.names
        n_alike = numbers_in(rows.column("w")) if "w" in names else 1  # rows that were grouped elsewhere stand for many
        before, self.n_rows = self.n_rows, self.n_rows + int(np.sum(n_alike) if "w" in names else rows.num_rows)
        cells = rows.column("cell")
        if self.has_unknown or cells.null_count:
            self.has_unknown = True
            return
        places = numbers_in(cells)
        if "value" not in names:
            np.add.at(self.counts, places, n_alike)
        else:
            values = rows.column("value")
            if values.null_count:
                self.problems |= set(numbers_in(rows.column("problem")).tolist()) - {0}
                return
            self.counts[places] = numbers_in(values)
        self.is_there[places] = True
        if self.n_rows // _TELLING > before // _TELLING and len(self.counts) >= self.n_rows:
            self._progress(READING, self.n_rows, len(self.counts))
