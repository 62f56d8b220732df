"""The files of a tree: spine.parquet, a row a leaf, and a table for each level below the top, a row a unit.

Written and read some rows at a time: a level of millions of units takes its counts of memory, and little more.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from congenial.arrays import Ints
from congenial.arrow_codes import Codes, codes_of, column_of
from congenial.arrow_columns import numbers_to_arrow
from congenial.bundle.parquet import AT_ONCE, read_batches, write_batches
from congenial.errors import BundleError, HierarchyError
from congenial.hierarchy.law import ChainLaw
from congenial.hierarchy.tree import Tree
from congenial.hierarchy.zeros import Bars, Zeros
from congenial.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

SPINE = "spine.parquet"
ZEROS, CODE = "zeros", "code"


def level_file(number: int) -> str:
    """Return the name of a level's file; the top is level 1 and has table.csv."""
    return f"level-{number}.parquet"


def tree_file_names(levels: Sequence[str]) -> list[str]:
    """Return the names of all files of a tree."""
    return [SPINE, *(level_file(number) for number in range(2, len(levels) + 1))]


def tree_to_files(law: ChainLaw, below: Sequence[Ints]) -> dict[str, Callable[[BinaryIO], None]]:
    """Return what writes each file: the leaves in their order, and the drawn tables (unit, cell) of each level."""
    tree, schema = law.tree, law.top.schema
    files: dict[str, Callable[[BinaryIO], None]] = {SPINE: partial(write_spine, tree, law.zeros)}
    for number, (codes, tables) in enumerate(zip(tree.codes[1:], below, strict=True), 2):
        files[level_file(number)] = partial(_write_level, codes, tables, schema)
    return files


def cell_columns(schema: Schema) -> list[str]:
    """Return the columns of a level's file besides the unit's code: the cells by name."""
    return [schema.cell_name(cell) for cell in range(schema.n_cells)]


def _write_level(codes: Codes, tables: Ints, schema: Schema, out: BinaryIO) -> None:
    write_batches(_level_batches(codes, tables, schema), out)


def _level_batches(codes: Codes, tables: Ints, schema: Schema) -> "Iterator[pa.Table]":
    import pyarrow as pa

    for first in range(0, len(codes), AT_ONCE):
        cells = np.ascontiguousarray(tables[first : first + AT_ONCE].T, np.int64)
        columns = [column_of(codes[first : first + AT_ONCE]), *map(numbers_to_arrow, cells)]
        yield pa.Table.from_arrays(columns, names=[CODE, *cell_columns(schema)])


def write_spine(tree: Tree, zeros: Zeros, out: BinaryIO) -> None:
    """Write the spine: for each leaf the code of its unit at every level, and which of its cells are barred."""
    write_batches(_spine_batches(tree, zeros), out)


def _spine_batches(tree: Tree, zeros: Zeros) -> "Iterator[pa.Table]":
    import pyarrow as pa

    names = [*tree.levels, *([_zeros_column(tree.levels)] if zeros.bars else [])]
    for first in range(0, tree.n_leaves, AT_ONCE):
        units, columns = np.arange(first, min(tree.n_leaves, first + AT_ONCE)), []
        for level in range(len(tree.levels) - 1, -1, -1):
            columns.append(column_of(tree.codes[level][units]))
            units = tree.parents[level - 1][units] if level else units
        columns.reverse()
        if zeros.bars:
            columns.append(column_of(_digits(zeros.bars[-1][first : first + AT_ONCE])))
        yield pa.Table.from_arrays(columns, names=names)


def _zeros_column(levels: Sequence[str]) -> str:
    name = ZEROS
    while name in levels:
        name = f"{name}_by_structure"
    return name


def _digits(bars: Bars) -> Codes:
    """Return a digit for each cell, 1 where it is barred, as one text a leaf."""
    return (bars + np.uint8(ord("0"))).astype(np.uint8).view(f"S{bars.shape[1]}").reshape(-1)


def _bars(digits: Codes, n_cells: int) -> Bars:
    """Return what `_digits` was made from, and refuse what is none."""
    if digits.dtype != np.dtype(f"S{n_cells}"):
        raise BundleError(f"{SPINE} does not say of every cell whether it is zero by structure")
    found = digits.view(np.uint8).reshape(-1, n_cells) - np.uint8(ord("0"))
    if int(found.max(initial=0)) > 1:  # a text that is too short has zero bytes, which wrap around
        raise BundleError(f"{SPINE} does not say of every cell whether it is zero by structure")
    return found.astype(np.bool_)


def read_spine(file: BinaryIO, levels: Sequence[str], n_cells: int) -> tuple[Tree, Zeros]:
    """Read what `write_spine` wrote, and refuse anything else."""
    texts = dict.fromkeys(levels, "string")
    parts: list[list[Codes]] = []
    for batch in read_batches(file, SPINE, [texts, {**texts, _zeros_column(levels): "string"}]):
        parts = parts or [[] for _ in batch.columns]
        for number, column in enumerate(batch.columns):
            codes = codes_of(column)
            if codes is None:
                raise BundleError(f"{SPINE} has a code with a zero byte")
            parts[number].append(codes)
    if not parts:
        raise BundleError(f"{SPINE} is not a tree: it has no leaf")
    columns = [np.concatenate(part) for part in parts]
    try:
        tree = Tree.of_parents(dict(zip(levels, columns, strict=False)))
    except HierarchyError as wrong:
        raise BundleError(f"{SPINE} is not a tree: {wrong}") from None
    if not bool((np.diff(tree.order) == 1).all()) or tree.order[0] != 0:
        raise BundleError(f"{SPINE} does not have its leaves in order")
    if len(columns) == len(levels):
        return tree, Zeros()
    bars = _bars(columns[-1], n_cells)
    zeros = Zeros.of_leaves(tree, bars)
    if not np.array_equal(zeros.bars[-1], bars) or not bars.any():
        raise BundleError(f"{SPINE} is not the file that its tree makes")
    return tree, zeros


def read_level(file: BinaryIO, number: int, codes: Codes, schema: Schema) -> Ints:
    """Read the tables (unit, cell) of one level, and refuse anything but what `tree_to_files` writes."""
    name, cells = level_file(number), cell_columns(schema)
    out, n_read = np.empty((len(codes), schema.n_cells), np.int64), 0
    for batch in read_batches(file, name, [{CODE: "string", **dict.fromkeys(cells, "int64")}]):
        here, own = slice(n_read, n_read + len(batch)), codes_of(batch.column(0))
        if own is None or n_read + len(batch) > len(codes) or not _is_same(codes[here], own):
            raise BundleError(f"{name} does not have the units of the spine, in their order")
        for cell in range(schema.n_cells):
            out[here, cell] = np.asarray(batch.column(cell + 1))
        n_read += len(batch)
    if n_read < len(codes):
        raise BundleError(f"{name} does not have the units of the spine, in their order")
    return out


def _is_same(codes: Codes, others: Codes) -> bool:
    kinds = {codes.dtype.kind, others.dtype.kind}
    one, other = (codes, others) if len(kinds) == 1 else (codes.astype(str), others.astype(str))
    return bool((one == other).all())
