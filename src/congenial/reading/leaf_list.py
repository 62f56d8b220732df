"""The public list of a tree's leaves, from its file."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from congenial.arrow_and_unit_codes import Codes, arrow_to_codes, codes_as_texts
from congenial.errors import CongenialError, HierarchyError, ReadingError
from congenial.reading import duckdb_session_and_queries as sql
from congenial.reading.duckdb_session_and_queries import read_sources, session
from congenial.reading.files_and_columns import find_files
from congenial.spec.dimension_levels_and_public_lists import PublicRows, read_public_csv
from congenial.spec.spec_and_hierarchy import TRUTH, TreeFile
from congenial.tree.areas_across import AreasAcross
from congenial.tree.tree_and_zeros import Tree, Zeros

if TYPE_CHECKING:
    from pyarrow import RecordBatch

# Line numbers for errors in a public list of leaves: the file is read again, row by row.


def with_line(refused: CongenialError, tree_file: TreeFile, columns: Sequence[str], folder: Path) -> CongenialError:
    """Return the error of a list of leaves with its line number, where there is one, or else the error itself."""
    try:
        rows = read_public_csv(tree_file.file, folder, columns, tree_file.separator)
        rows.check_once(0, tree_file.leaf, "each leaf stands in the list once")
        _check_prefixes(rows, tree_file)
        _check_parents(rows, tree_file)
        _check_truth(rows, tree_file)
    except CongenialError as error:
        return type(refused)(str(error)) if ", line " in str(error) else refused
    return refused


def _check_prefixes(rows: PublicRows, tree_file: TreeFile) -> None:
    longest = max((level.prefix or 0 for level in tree_file.levels), default=0)
    for row, code in enumerate(rows.columns[0]):
        if len(code) < longest:
            raise rows.refused(
                row, f"the code {code!r} has {len(code)} characters, and a level takes the first {longest}"
            )


def _check_parents(rows: PublicRows, tree_file: TreeFile) -> None:
    """Refuse the first row that gives a unit another parent than a row before it."""
    codes, others = rows.columns[0], iter(rows.columns[1:])
    units = [
        next(others) if level.prefix is None else tuple(code[: level.prefix] for code in codes)
        for level in tree_file.levels
    ]
    for names, (above, below) in zip(pairwise(tree_file.names), pairwise([*units, codes]), strict=True):
        first: dict[str, int] = {}
        for row, unit in enumerate(below):
            before = first.setdefault(unit, row)
            if above[before] != above[row]:
                raise rows.refused(
                    row,
                    f"{names[1]} {unit!r} is part of {names[0]} {above[row]!r}, and in line {rows.lines[before]} of"
                    f" {above[before]!r}: a unit has one parent; give units of one name in different places codes of"
                    " their own, or put the levels in order, the top first",
                )


def _check_truth(rows: PublicRows, tree_file: TreeFile) -> None:
    for row, word in enumerate(() if tree_file.uninhabited is None else rows.columns[-1]):
        if word not in TRUTH:
            raise rows.refused(row, f"{tree_file.uninhabited!r} is {word!r}, and not {', '.join(TRUTH)}")


class PublicLeaves(NamedTuple):
    """What the public list of leaves says: the tree, structural zeros, and areas across the tree."""

    tree: Tree
    zeros: Zeros
    across: AreasAcross | None


def read_spine(tree_file: TreeFile, n_cells: int, folder: str | Path) -> PublicLeaves:
    """Read the leaves that a spec names, those without anybody included. Public.

    Parameters
    ----------
    folder : path
        The folder of the spec, where relative paths start.
    """
    columns = [tree_file.code, *(level.column for level in tree_file.levels if level.column is not None)]
    columns += [] if tree_file.uninhabited is None else [tree_file.uninhabited]
    base = Path(folder).resolve()
    try:
        tree, zeros = _read(tree_file, columns, n_cells, base)
    except (HierarchyError, ReadingError) as refused:
        raise with_line(refused, tree_file, columns, base) from None
    return PublicLeaves(tree, zeros, _read_across(tree_file, tree, base))


def _read_across(tree_file: TreeFile, tree: Tree, folder: Path) -> AreasAcross | None:
    """Read in which area across the tree each leaf is; leaves that are not listed are in none."""
    across = tree_file.across
    if across is None:
        return None
    listed = tree_file if across.file is None else replace(tree_file, file=across.file)
    codes, areas = _columns(listed, [tree_file.code, across.column], folder, may_be_empty=across.column)
    places = tree.places(tree_file.leaf, codes)
    of_leaf = np.zeros(tree.n_leaves, areas.dtype)
    is_listed = np.zeros(tree.n_leaves, np.int64)
    np.add.at(is_listed, places, 1)
    if int(is_listed.max()) > 1:
        twice = codes_as_texts(tree.codes[-1][is_listed > 1][:1])[0]
        raise ReadingError(
            f"{tree_file.leaf} {twice!r} stands in {listed.file} twice: a leaf is in one {across.name} or in none"
        )
    of_leaf[places] = areas
    in_order_of_list = np.empty_like(of_leaf)
    in_order_of_list[tree.order] = of_leaf
    return AreasAcross.of(tree, across.name, in_order_of_list, across.portion)


def _read(tree_file: TreeFile, columns: list[str], n_cells: int, folder: Path) -> tuple[Tree, Zeros]:
    read = _columns(tree_file, columns, folder)
    if not bool((read[0][1:] >= read[0][:-1]).all()):  # the order of rows is not kept while they are read
        ranks = np.argsort(read[0], kind="stable")
        for number, column in enumerate(read):
            read[number] = column[ranks]
    codes, *others = read
    places = iter(others)
    levels = {
        level.name: next(places) if level.prefix is None else _prefixes(codes, level.prefix, tree_file)
        for level in tree_file.levels
    }
    tree = Tree.of_parents({**levels, tree_file.leaf: codes})
    if tree_file.uninhabited is None:
        return tree, Zeros()
    words, inverse = np.unique(next(places), return_inverse=True)
    if wrong := sorted(set(codes_as_texts(words)) - set(TRUTH)):
        raise ReadingError(
            f"column {tree_file.uninhabited!r} of {tree_file.file} says {wrong[0]!r}, and not 1, 0, true or false"
        )
    is_empty = np.array([TRUTH[word] for word in codes_as_texts(words)], np.bool_)[inverse.reshape(-1)]
    if not is_empty.any():
        return tree, Zeros()
    return tree, Zeros.of_leaves(tree, np.repeat(is_empty[:, None], n_cells, axis=1))


def _columns(tree_file: TreeFile, columns: list[str], folder: Path, may_be_empty: str | None = None) -> list[Codes]:
    """Return the columns of the file, each an array of texts; an empty one where a column may be empty."""
    paths = find_files([tree_file.file], folder)
    import pyarrow.compute as pc

    chunks: list[list[Codes]] = [[] for _ in columns]

    def take(rows: "RecordBatch") -> None:
        for number, column in enumerate(columns):
            texts = rows.column(number)
            if texts.null_count and column == may_be_empty:
                texts = pc.fill_null(texts, "")
            if texts.null_count:
                raise ReadingError(
                    f"column {column!r} of {tree_file.file} is empty in a row: every leaf has a code and a unit of each"
                    " level"
                )
            codes = arrow_to_codes(texts)
            if codes is None:
                raise ReadingError(f"column {column!r} of {tree_file.file} has a text with a zero byte; remove it")
            chunks[number].append(codes)

    with session(paths) as database:
        sources = read_sources(database, paths, tree_file.separator)
        for source in sources:
            for column in columns:
                source.place(column)
        if not database.for_each_batch(sql.rows_query(sources, list(columns), tree_file.separator), take):
            raise ReadingError(f"the leaves in {tree_file.file} cannot be read; the file may be damaged")
    if not any(map(len, chunks[0])):
        raise ReadingError(f"{tree_file.file} has a header and no rows: a tree has at least one leaf")
    return [np.concatenate(parts) for parts in chunks]


def _prefixes(codes: Codes, length: int, tree_file: TreeFile) -> Codes:
    shortest = int(np.char.str_len(codes).min())
    if shortest < length:
        raise ReadingError(
            f"a code of {tree_file.leaf} in {tree_file.file} has {shortest} characters, and a level takes the first"
            f" {length}"
        )
    return codes.astype(f"{codes.dtype.kind}{length}")
