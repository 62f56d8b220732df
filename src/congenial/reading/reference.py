"""A public table that stands in for the confidential ones: a file of the data's shape, with areas of its own."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from congenial.arrays import Ints
from congenial.errors import ReadingError
from congenial.reading import sql
from congenial.reading.files import find_files
from congenial.reading.headers import read_sources
from congenial.reading.session import session
from congenial.reading.tables import read_counts
from congenial.spec.levels import Levels
from congenial.spec.spec import Spec


def read_reference(spec: Spec, path: Path) -> tuple[tuple[str, ...], Ints]:
    """Read a file of the data's shape, such as last year's or another country's: labels of areas, counts (area, cell).

    Its columns are those of the data. Areas are those that the file has; cells without a row are empty.
    """
    file = str(path.absolute())
    stand_in = replace(spec, data=replace(spec.data, paths=(file,), missing_cells="zero"), unit=None)
    if spec.by is None:
        return (), read_counts(stand_in, path.absolute().parent)
    codes = _codes(spec, spec.by, file)
    by = Levels(spec.by.name, spec.by.column, codes, codes)
    return codes, read_counts(replace(stand_in, by=by), path.absolute().parent)


def _codes(spec: Spec, by: Levels, file: str) -> tuple[str, ...]:
    """Return the areas that the file has."""
    paths = find_files([file], Path(file).parent)
    with session(paths) as database:
        sources = read_sources(database, paths, spec.data.separator)
        for source in sources:
            source.place(by.column)
        rows = sql.rows_of(sources, [by.column], spec.data.separator)
        found = database.columns(f"SELECT DISTINCT v0 FROM ({rows})")  # noqa: S608
    if found is None or np.ma.getmaskarray(found["v0"]).any():
        raise ReadingError(f"the reference {Path(file).name} cannot be read, or a row of it has no {by.name}")
    return tuple(sorted(str(code) for code in found["v0"].tolist()))
