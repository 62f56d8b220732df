"""The public list of a tree's leaves, from its file."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from congenial.arrow_codes import Codes, codes_of, texts_of
from congenial.errors import HierarchyError, ReadingError
from congenial.hierarchy.tree import Tree
from congenial.hierarchy.zeros import Zeros
from congenial.reading import sql
from congenial.reading.files import find_files
from congenial.reading.headers import read_sources
from congenial.reading.session import session
from congenial.reading.spine_trouble import with_line
from congenial.spec.tree import TRUTH, TreeFile

if TYPE_CHECKING:
    from pyarrow import RecordBatch


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
    read = _columns(given, columns, folder)
    if not bool((read[0][1:] >= read[0][:-1]).all()):  # the order of rows is not kept while they are read
        ranks = np.argsort(read[0], kind="stable")
        for number, column in enumerate(read):
            read[number] = column[ranks]
    codes, *others = read
    places = iter(others)
    levels = {
        level.name: next(places) if level.prefix is None else _prefixes(codes, level.prefix, given)
        for level in given.levels
    }
    tree = Tree.of_parents({**levels, given.leaf: codes})
    if given.uninhabited is None:
        return tree, Zeros()
    words, which = np.unique(next(places), return_inverse=True)
    if wrong := sorted(set(texts_of(words)) - set(TRUTH)):
        raise ReadingError(
            f"column {given.uninhabited!r} of {given.file} says {wrong[0]!r}, and not 1, 0, true or false"
        )
    is_empty = np.array([TRUTH[word] for word in texts_of(words)], np.bool_)[which.reshape(-1)]
    if not is_empty.any():
        return tree, Zeros()
    return tree, Zeros.of_leaves(tree, np.repeat(is_empty[:, None], n_cells, axis=1))


def _columns(given: TreeFile, columns: list[str], folder: Path) -> list[Codes]:
    """Return the columns of the file, each an array of texts."""
    paths = find_files([given.file], folder)
    found: list[list[Codes]] = [[] for _ in columns]

    def take(rows: "RecordBatch") -> None:
        for number, column in enumerate(columns):
            if rows.column(number).null_count:
                raise ReadingError(
                    f"column {column!r} of {given.file} is empty in a row: every leaf has a code and a unit of each"
                    " level"
                )
            codes = codes_of(rows.column(number))
            if codes is None:
                raise ReadingError(f"column {column!r} of {given.file} has a text with a zero byte; remove it")
            found[number].append(codes)

    with session(paths) as database:
        sources = read_sources(database, paths, given.separator)
        for source in sources:
            for column in columns:
                source.place(column)
        if not database.each_part(sql.rows_of(sources, list(columns), given.separator), take):
            raise ReadingError(f"the leaves in {given.file} cannot be read; the file may be damaged")
    if not any(map(len, found[0])):
        raise ReadingError(f"{given.file} has a header and no rows: a tree has at least one leaf")
    return [np.concatenate(parts) for parts in found]


def _prefixes(codes: Codes, length: int, given: TreeFile) -> Codes:
    shortest = int(np.char.str_len(codes).min())
    if shortest < length:
        raise ReadingError(
            f"a code of {given.leaf} in {given.file} has {shortest} characters, and a level takes the first {length}"
        )
    return codes.astype(f"{codes.dtype.kind}{length}")
