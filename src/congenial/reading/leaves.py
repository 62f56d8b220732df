"""The data of a tree's leaves, some rows at a time: what is kept of millions of rows are the counts they add to."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow_codes import Codes, codes_of, texts_of
from congenial.errors import ReadingError
from congenial.hierarchy.tree import Tree
from congenial.reading import sql
from congenial.reading.confidential_csv import write_confidential_csv
from congenial.reading.files import Source, find_files
from congenial.reading.headers import read_sources
from congenial.reading.ids import check_ids
from congenial.reading.public_files import check_apart
from congenial.reading.session import Session, session
from congenial.reading.tables import read_counts
from congenial.reading.unknown_values import raise_unknown
from congenial.spec.levels import Levels
from congenial.spec.spec import Spec
from congenial.table import CONFIDENTIAL, LARGEST_COUNT

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_CELLS = 1_000_000_000  # of all leaves together: eight gigabytes
_FEW_CELLS = 20_000_000  # what is wrong with so many is found by the reading of other tables, which says more
_MOST_LISTED = 100_000  # cells in a file for the curator
_MOST_VALUES = 1_000


def read_leaves(spec: Spec, tree: Tree, folder: str | Path) -> Ints:
    """Read the data of a tree's leaves (leaf, cell), in the order of the tree. Confidential.

    Parameters
    ----------
    folder : path
        The folder of the spec, where relative paths start. What does not fit is listed there, as for other tables.
    """
    if spec.hierarchy is None:
        raise ReadingError("the spec has no hierarchy")
    n_cells, base = spec.schema.n_cells, Path(folder).resolve()
    if tree.n_leaves * n_cells > _MOST_CELLS:
        raise ReadingError(
            f"{tree.n_leaves:,} leaves of {n_cells:,} cells are more than {_MOST_CELLS:,} cells together; release the"
            " units at the top in parts"
        )
    try:
        return _read(spec, Levels(spec.hierarchy.leaf, spec.hierarchy.column, ()), tree, base)
    except _UnfitError as found:
        if tree.n_leaves * n_cells > _FEW_CELLS:
            raise ReadingError(str(found)) from None
    codes = tuple(tree.texts(-1))
    return read_counts(replace(spec, by=Levels(spec.hierarchy.leaf, spec.hierarchy.column, codes, codes)), base)


class _UnfitError(ReadingError):
    """Rows that do not fit the tree or the declared levels."""


def _read(spec: Spec, leaf: Levels, tree: Tree, folder: Path) -> Ints:
    paths = find_files(spec.data.paths, folder)
    check_apart(spec, folder, paths)
    with session(paths) as database:
        sources = [
            replace(source, kept_rows=spec.kept_rows) for source in read_sources(database, paths, spec.data.separator)
        ]
        sql.check_types(sources, (leaf, *spec.dimensions), spec.data.count)
        reading = _Reading(spec, leaf, tree, sources, database, folder)
        reading.check_names()
        counts = reading.counts()
        if spec.unit is not None and spec.unit.id_column is not None:
            rows = sql.rows_of(sources, [spec.unit.id_column], spec.data.separator)
            if not check_ids(database, rows, spec.unit):
                raise _UnfitError("the rows cannot be read; a file may be damaged, or not be what its name says")
    return counts.reshape(tree.n_leaves, spec.schema.n_cells)


@dataclass(frozen=True, eq=False)
class _Reading:
    """Rows on their way to the cells of leaves. Confidential."""

    spec: Spec
    leaf: Levels
    tree: Tree
    sources: Sequence[Source]
    database: Session
    folder: Path

    def check_names(self) -> None:
        """Look up every column before any row is read."""
        spec = self.spec
        columns = [self.leaf.column, *(levels.column for levels in spec.dimensions)]
        columns += [] if spec.data.count is None else [spec.data.count]
        columns += [rows.column for rows in spec.kept_rows]
        columns += [] if spec.unit is None or spec.unit.id_column is None else [spec.unit.id_column]
        for source in self.sources:
            for column in columns:
                source.place(column)

    def counts(self) -> Ints:
        """Return the count of every cell of every leaf (leaf * cell,)."""
        size = self.tree.n_leaves * self.spec.schema.n_cells
        counts = np.zeros(size, np.int64)
        if self.spec.data.count is None:
            for cells, _ in self._rows():
                np.add.at(counts, cells, 1)
            return counts
        has_row, n_rows = np.zeros(size, np.bool_), 0
        for cells, values in self._rows():
            counts[cells] = values
            has_row[cells] = True
            n_rows += len(cells)
        if n_rows == 0:
            raise _UnfitError("the files have no rows")
        if np.count_nonzero(has_row) < n_rows:
            found, times = np.unique(np.concatenate([cells for cells, _ in self._rows()]), return_counts=True)
            listed = self._listed(found[times > 1])
            raise _UnfitError(
                f"some cells have more than one row; the list {listed}. Add their counts up first, or use"
                " `kind: microdata`"
            )
        if self.spec.data.missing_cells == "error" and n_rows < size:
            raise _UnfitError(
                f"some cells have no row; the list {self._listed(np.flatnonzero(~has_row))}. Give every cell a count,"
                " or write `missing_cells: zero` if cells without a row are empty"
            )
        return counts

    def _rows(self) -> Iterator[tuple[Ints, Ints]]:
        """Go through rows, some at a time: the cell of each, and its count."""
        shape = (self.tree.n_leaves, *self.spec.schema.shape)
        for batch in self.database.batches(self._query):
            if batch is None:
                raise _UnfitError("the rows cannot be read; a file may be damaged, or not be what its name says")
            places = [batch.column(number) for number in range(1, len(shape))]
            if any(place.null_count for place in places):
                if np.prod(shape, dtype=np.int64) <= _FEW_CELLS:
                    raise _UnfitError("some rows do not fit the declared levels")
                file = self.folder / f"{CONFIDENTIAL}unknown-levels-{self.spec.release}.csv"
                raise_unknown(self.database, self.sources, self.spec.dimensions, self.spec.data.separator, file)
            leaves = self._leaves(batch.column(0))
            cells = np.ravel_multi_index((leaves, *(np.asarray(place) for place in places)), shape)
            yield cells, self._values(batch)

    def _values(self, batch: "pa.RecordBatch") -> Ints:
        if self.spec.data.count is None:
            return np.ones(len(batch), np.int64)
        problems = np.unique(np.asarray(batch.column("problem")))
        if problems.any():
            words = "; ".join(sql.COUNT_PROBLEMS[problem] for problem in problems.tolist() if problem)
            raise _UnfitError(f"column {self.spec.data.count!r} has {words}")
        return np.asarray(batch.column("value"), np.int64)

    @cached_property
    def _query(self) -> str:
        spec = self.spec
        for number, levels in enumerate(spec.dimensions):
            if not levels.cut:
                self.database.rows(
                    f"CREATE TABLE levels_{number} AS SELECT unnest($codes) AS code, unnest($places)::INTEGER AS place",
                    {"codes": list(levels.codes), "places": list(range(len(levels.codes)))},
                )
        columns: list[str | Levels] = [self.leaf.column, *spec.dimensions]
        parts = [sql.place_of(f"v{number + 1}", levels, number) for number, levels in enumerate(spec.dimensions)]
        picked = ["v0", *(f"{place} AS p{number}" for number, (place, _) in enumerate(parts))]
        if spec.data.count is not None:
            columns.append(spec.data.count)
            value, problem = self._count(f"v{len(spec.dimensions) + 1}", spec.data.count)
            picked += [f"{value} AS value", f"{problem} AS problem"]
        rows = sql.rows_of(self.sources, columns, spec.data.separator)
        return f"SELECT {', '.join(picked)} FROM ({rows}){''.join(join for _, join in parts)}"  # noqa: S608

    def _count(self, value: str, column: str) -> tuple[str, str]:
        """Return the expressions of a count and of what is wrong with it: of whole numbers without looking at digits.

        (Patterns of digits took 0.7 microseconds a row, as long as all the rest.)
        """
        if any(source.columns[source.place(column)].type == "VARCHAR" for source in self.sources):
            return sql.count_value(value), sql.count_problem(value)
        number = f"TRY_CAST({value} AS BIGINT)"
        return number, (
            f"CASE WHEN {value} IS NULL THEN 1 WHEN {number} < 0 THEN 2"
            f" WHEN {number} IS NULL OR {number} > {LARGEST_COUNT} THEN 4 ELSE 0 END"
        )

    @cached_property
    def _place_of(self) -> Callable[[Codes], Ints]:
        """What finds leaves by their codes; -1 for what is none."""
        known = self.tree.codes[-1]
        is_sorted = bool((known[1:] > known[:-1]).all())
        ranks = None if is_sorted else np.argsort(known)

        def find(codes: Codes) -> Ints:
            near = np.minimum(np.searchsorted(known, codes, sorter=ranks), len(known) - 1)
            places = near if ranks is None else ranks[near]
            return np.where(known[places] == codes, places, -1)

        return find

    def _leaves(self, column: "pa.Array") -> Ints:
        """Return the place of each row's leaf."""
        codes = None if column.null_count else codes_of(column)
        if codes is None:
            raise _UnfitError(f"column {self.leaf.column!r} has empty values; give each row the code of its leaf")
        if codes.dtype.kind != self.tree.codes[-1].dtype.kind:  # text beyond ASCII on one side only
            codes = codes.astype(str) if codes.dtype.kind == "S" else np.char.encode(codes, "utf-8")
        is_new = np.concatenate([[True], codes[1:] != codes[:-1]])  # rows of a leaf often follow each other
        some = codes[is_new]
        places = self._place_of(some)
        if (places < 0).any():
            self._refuse(some[places < 0])
        found: Ints = places[np.cumsum(is_new) - 1]
        return found

    def _refuse(self, unknown: Codes) -> None:
        values = texts_of(np.unique(unknown)[:_MOST_VALUES])
        file = self.folder / f"{CONFIDENTIAL}unknown-levels-{self.spec.release}.csv"
        where = write_confidential_csv(file, ["column", "value"], [(self.leaf.column, value) for value in values])
        raise _UnfitError(
            f"column {self.leaf.column!r} has values that are not in the list of leaves; the first of them {where}"
        )

    def _listed(self, cells: NDArray[np.int64]) -> str:
        """List cells in a file: to name one would say that it is empty, or is not."""
        n_cells = self.spec.schema.n_cells
        some = cells[:_MOST_LISTED]
        codes = texts_of(self.tree.codes[-1][some // n_cells])
        names = [self.spec.schema.cell_name(cell) for cell in range(n_cells)]
        rows = [(code, names[cell]) for code, cell in zip(codes, (some % n_cells).tolist(), strict=True)]
        file = self.folder / f"{CONFIDENTIAL}rows-of-cells-{self.spec.release}.csv"
        return write_confidential_csv(file, [self.leaf.name, "cell"], rows)
