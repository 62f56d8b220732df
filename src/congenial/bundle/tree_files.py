"""The files of a tree: spine.parquet, a row a leaf, and a table for each level below the top, a row a unit.

Written and read some rows at a time: a level of millions of units takes its counts of memory, and little more.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow_codes import Codes, codes_of, column_of
from congenial.arrow_columns import numbers_in, numbers_to_arrow
from congenial.bundle.parquet import AT_ONCE, WIDEST, read_batches, texts_once, write_batches
from congenial.errors import BundleError, HierarchyError
from congenial.hierarchy.law import ChainLaw
from congenial.hierarchy.tree import Tree, check_room
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


def _bars(digits: "pa.Array", n_cells: int) -> Bars:
    """Return what `_digits` was made from (text, cell), and refuse what is none."""
    import pyarrow.compute as pc

    lengths = numbers_in(pc.binary_length(digits))
    codes = codes_of(digits) if bool((lengths == n_cells).all()) else None
    if codes is None or codes.dtype != np.dtype(f"S{n_cells}"):
        raise BundleError(f"{SPINE} does not say of every cell whether it is zero by structure")
    found = codes.view(np.uint8).reshape(-1, n_cells) - np.uint8(ord("0"))
    if int(found.max(initial=0)) > 1:
        raise BundleError(f"{SPINE} does not say of every cell whether it is zero by structure")
    return found.astype(np.bool_)


class _Column:
    """A column of texts that is being read: of each part its distinct texts and which of them every row has."""

    def __init__(self) -> None:
        self.parts: list[tuple[Codes, NDArray[np.int32]]] = []

    def add(self, known: "pa.Array", places: NDArray[np.int32]) -> None:
        codes = codes_of(known)
        if codes is None:
            raise BundleError(f"{SPINE} has a code with a zero byte")
        self.parts.append((codes, places))

    @property
    def kind(self) -> np.dtype[Any]:
        """The type of an array that holds all of it."""
        return np.result_type(*(codes.dtype for codes, _ in self.parts))

    def codes(self) -> Codes:
        return np.concatenate([codes[places] for codes, places in self.parts], dtype=self.kind)


def read_spine(file: BinaryIO, levels: Sequence[str], n_cells: int, n_leaves: int) -> tuple[Tree, Zeros]:
    """Read what `write_spine` wrote, a row for each of so many leaves, and refuse anything else."""
    if n_leaves < 1:
        raise BundleError(f"{SPINE} is not a tree: it has no leaf")
    texts = dict.fromkeys(levels, "string")
    choices = [texts, {**texts, _zeros_column(levels): "string"}]
    columns, bars = [_Column() for _ in levels], []
    try:
        for batch in read_batches(file, SPINE, choices, n_leaves, max(WIDEST, n_cells)):
            for column, own in zip(columns, batch.columns, strict=False):
                column.add(*texts_once(own, SPINE))
            if len(batch.column(len(levels) - 1).dictionary) < len(batch):  # at once: a few codes fill any file
                raise BundleError(f"{SPINE} is not a tree: a {levels[-1]} is listed twice")
            if batch.num_columns > len(levels):
                digits, places = texts_once(batch.column(len(levels)), SPINE, n_cells)
                bars.append(_bars(digits, n_cells)[places])
            # Before codes are in every row: those of a large unit are long in many.
            check_room(n_leaves, {name: column.kind.itemsize for name, column in zip(levels, columns, strict=True)})
        tree = Tree.of_parents({name: column.codes() for name, column in zip(levels, columns, strict=True)})
    except HierarchyError as wrong:
        raise BundleError(f"{SPINE} is not a tree: {wrong}") from None
    if not bool((np.diff(tree.order) == 1).all()) or tree.order[0] != 0:
        raise BundleError(f"{SPINE} does not have its leaves in order")
    if not bars:
        return tree, Zeros()
    stated = np.concatenate(bars)
    zeros = Zeros.of_leaves(tree, stated)
    if not np.array_equal(zeros.bars[-1], stated) or not stated.any():
        raise BundleError(f"{SPINE} is not the file that its tree makes")
    return tree, zeros


def read_level(file: BinaryIO, number: int, codes: Codes, schema: Schema) -> Ints:
    """Read the tables (unit, cell) of one level, and refuse anything but what `tree_to_files` writes."""
    name, cells = level_file(number), cell_columns(schema)
    batches = read_batches(file, name, [{CODE: "string", **dict.fromkeys(cells, "int64")}], len(codes))
    out, n_read = None, 0
    for batch in batches:
        if out is None:  # the file has the rows that it should have
            out = np.empty((len(codes), schema.n_cells), np.int64)
        here, (known, places) = slice(n_read, n_read + len(batch)), texts_once(batch.column(0), name)
        own = codes_of(known)
        if own is None or here.stop > len(codes) or not _is_same(codes[here], own[places]):
            raise BundleError(f"{name} does not have the units of the spine, in their order")
        for cell in range(schema.n_cells):
            out[here, cell] = numbers_in(batch.column(cell + 1))
        n_read += len(batch)
    if out is None or n_read < len(codes):
        raise BundleError(f"{name} does not have the units of the spine, in their order")
    return out


def _is_same(codes: Codes, others: Codes) -> bool:
    kinds = {codes.dtype.kind, others.dtype.kind}
    one, other = (codes, others) if len(kinds) == 1 else (codes.astype(str), others.astype(str))
    return bool((one == other).all())
