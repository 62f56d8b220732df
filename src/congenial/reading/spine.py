"""The public list of a tree's leaves, from its file."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from congenial.errors import HierarchyError, ReadingError
from congenial.hierarchy.tree import Tree
from congenial.hierarchy.zeros import Zeros
from congenial.reading import sql
from congenial.reading.files import find_files
from congenial.reading.headers import read_sources
from congenial.reading.session import session
from congenial.reading.spine_trouble import with_line
from congenial.spec.tree import TRUTH, TreeFile


def read_spine(given: TreeFile, n_cells: int, folder: str | Path) -> tuple[Tree, Zeros]:
    """Read the leaves that a spec names, those without anybody included. Public.

    Parameters
    ----------
    folder : path
        The folder of the spec, where relative paths start.
    """
    columns = [given.code, *(level.column for level in given.levels if level.column is not None)]
    columns += [] if given.uninhabited is None else [given.uninhabited]
    base = Path(folder).resolve()
    try:
        return _read(given, columns, n_cells, base)
    except (HierarchyError, ReadingError) as refused:
        raise with_line(refused, given, columns, base) from None


def _read(given: TreeFile, columns: list[str], n_cells: int, folder: Path) -> tuple[Tree, Zeros]:
    paths = find_files([given.file], folder)
    with session(paths) as database:
        sources = read_sources(database, paths, given.separator)
        for source in sources:
            for column in columns:
                source.place(column)
        found = database.columns(sql.rows_of(sources, list(columns), given.separator))
    if found is None:
        raise ReadingError(f"the leaves in {given.file} cannot be read; the file may be damaged")
    read = [_texts(found[f"v{number}"], column, given.file) for number, column in enumerate(columns)]
    ranks = np.argsort(read[0], kind="stable")  # the order of rows is not kept while they are read
    codes, *others = (column[ranks] for column in read)
    places = iter(others)
    levels = {
        level.name: next(places) if level.prefix is None else _prefixes(codes, level.prefix, given)
        for level in given.levels
    }
    tree = Tree.of_parents({**levels, given.leaf: codes})
    if given.uninhabited is None:
        return tree, Zeros()
    words = next(places)
    if wrong := sorted({str(word) for word in words.tolist()} - set(TRUTH)):
        raise ReadingError(
            f"column {given.uninhabited!r} of {given.file} says {wrong[0]!r}, and not 1, 0, true or false"
        )
    is_empty = np.array([TRUTH[str(word)] for word in words.tolist()], np.bool_)
    if not is_empty.any():
        return tree, Zeros()
    return tree, Zeros.of_leaves(tree, np.repeat(is_empty[:, None], n_cells, axis=1))


def _texts(column: NDArray[np.object_], name: str, file: str) -> NDArray[np.str_]:
    if not len(column):
        raise ReadingError(f"{file} has a header and no rows: a tree has at least one leaf")
    if np.ma.getmaskarray(column).any():
        raise ReadingError(
            f"column {name!r} of {file} is empty in a row: every leaf has a code and a unit of each level"
        )
    return np.asarray(column).astype(str)


def _prefixes(codes: NDArray[np.str_], length: int, given: TreeFile) -> NDArray[np.str_]:
    shortest = int(np.char.str_len(codes).min())
    if shortest < length:
        raise ReadingError(
            f"a code of {given.leaf} in {given.file} has {shortest} characters, and a level takes the first {length}"
        )
    return codes.astype(f"U{length}")
