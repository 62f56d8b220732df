"""Reference tables: a public file in the format of the data, with its own areas."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from congenial.arrays import Ints
from congenial.errors import ReadingError
from congenial.reading import duckdb_session_and_queries as sql
from congenial.reading.duckdb_session_and_queries import read_sources, session
from congenial.reading.files_and_columns import find_files
from congenial.reading.tables_and_data_checks import read_counts, read_leaves
from congenial.spec.dimension_levels_and_public_lists import Levels
from congenial.spec.spec_and_hierarchy import Spec
from congenial.tree.tree_and_zeros import Tree


def check_public(spec: Spec, folder: Path, reference: Path) -> None:
    """Refuse the confidential data as their own reference: what is computed around a reference is public."""
    if spec.data.status != "confidential" or not reference.exists():
        return
    if any(file.samefile(reference) for file in find_files(spec.data.paths, folder)):
        raise ReadingError(
            "the reference is a data file of the spec itself, which is confidential; give a public table"
        )


def read_reference(spec: Spec, path: Path) -> tuple[tuple[str, ...], Ints]:
    """Read a file of the data's shape, such as last year's or another country's: labels of areas, counts (area, cell).

    Its columns are those of the data. Areas are those that the file has; cells without a row are empty.
    """
    if spec.by is None:
        return (), read_counts(_standing_in(spec, path), path.absolute().parent)
    codes = _codes(spec, spec.by, str(path.absolute()))
    by = Levels(spec.by.name, spec.by.column, codes, codes)
    return codes, read_counts(replace(_standing_in(spec, path), by=by), path.absolute().parent)


def read_reference_leaves(spec: Spec, tree: Tree, path: Path) -> Ints:
    """Read a file of the data's shape for a tree (leaf, cell): its leaves are the tree's, those without a row empty."""
    return read_leaves(_standing_in(spec, path), tree, path.absolute().parent)


def _standing_in(spec: Spec, path: Path) -> Spec:
    """Return a spec that reads another file as it reads its data."""
    return replace(spec, data=replace(spec.data, paths=(str(path.absolute()),), missing_cells="zero"), unit=None)


def _codes(spec: Spec, by: Levels, file: str) -> tuple[str, ...]:
    """Return the areas that the file has."""
    paths = find_files([file], Path(file).parent)
    with session(paths) as database:
        sources = read_sources(database, paths, spec.data.separator)
        for source in sources:
            source.place(by.column)
        rows = sql.rows_query(sources, [by.column], spec.data.separator)
        areas = database.columns(f"SELECT DISTINCT v0 FROM ({rows})")  # noqa: S608
    if areas is None or np.ma.getmaskarray(areas["v0"]).any():
        raise ReadingError(f"the reference {Path(file).name} cannot be read, or a row of it has no {by.name}")
    return tuple(sorted(str(code) for code in areas["v0"].tolist()))
