"""The files of a tree: spine.parquet, a row a leaf, and a table for each level below the top, a row a unit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.bundle.parquet import arrays_to_parquet, parquet_arrays
from congenial.errors import BundleError, HierarchyError
from congenial.hierarchy.law import ChainLaw
from congenial.hierarchy.tree import Tree
from congenial.hierarchy.zeros import Zeros
from congenial.schema import Schema

SPINE = "spine.parquet"
ZEROS, CODE = "zeros", "code"


def level_file(number: int) -> str:
    """Return the name of a level's file; the top is level 1 and has table.csv."""
    return f"level-{number}.parquet"


def tree_file_names(levels: Sequence[str]) -> list[str]:
    """Return the names of all files of a tree."""
    return [SPINE, *(level_file(number) for number in range(2, len(levels) + 1))]


def tree_to_files(law: ChainLaw, below: Sequence[Ints]) -> dict[str, bytes]:
    """Return the files: leaves in the order of the tree, and the drawn tables (unit, cell) of each level."""
    tree, schema = law.tree, law.top.schema
    files = {SPINE: spine_to_parquet(tree, law.zeros)}
    for number, (codes, tables) in enumerate(zip(tree.codes[1:], below, strict=True), 2):
        columns = {CODE: codes.astype(object), **dict(zip(cell_columns(schema), tables.T, strict=True))}
        files[level_file(number)] = arrays_to_parquet(columns)
    return files


def cell_columns(schema: Schema) -> list[str]:
    """Return the columns of a level's file besides the unit's code: the cells by name."""
    return [schema.cell_name(cell) for cell in range(schema.n_cells)]


def spine_to_parquet(tree: Tree, zeros: Zeros) -> bytes:
    """Return the spine: for each leaf the code of its unit at every level, and which of its cells are barred."""
    columns: dict[str, NDArray[Any]] = {}
    units = np.arange(tree.n_leaves)
    for level in range(len(tree.levels) - 1, -1, -1):
        columns[tree.levels[level]] = tree.codes[level][units].astype(object)
        if level:
            units = tree.parents[level - 1][units]
    ordered = dict(reversed(columns.items()))
    if zeros.bars:
        ordered[_zeros_column(tree.levels)] = np.array([_bits(bar) for bar in zeros.bars[-1]], object)
    return arrays_to_parquet(ordered)


def _zeros_column(levels: Sequence[str]) -> str:
    name = ZEROS
    while name in levels:
        name = f"{name}_by_structure"
    return name


def _bits(bar: NDArray[np.bool_]) -> str:
    return "".join("1" if is_barred else "0" for is_barred in bar)


def spine_of_parquet(content: bytes, levels: Sequence[str], n_cells: int) -> tuple[Tree, Zeros]:
    """Read what `spine_to_parquet` wrote, and refuse anything else."""
    columns = parquet_arrays(content)
    names, extra = [*levels], _zeros_column(levels)
    if list(columns) not in ([*names], [*names, extra]):
        raise BundleError(f"{SPINE} does not have the columns that the manifest describes")
    if any(column.dtype != object or not all(type(text) is str for text in column) for column in columns.values()):
        raise BundleError(f"{SPINE} has a code that is not text")
    try:
        tree = Tree.of_parents({name: columns[name].astype(str) for name in names})
    except HierarchyError as wrong:
        raise BundleError(f"{SPINE} is not a tree: {wrong}") from None
    if not np.array_equal(tree.order, np.arange(tree.n_leaves)):
        raise BundleError(f"{SPINE} does not have its leaves in order")
    zeros = Zeros()
    if extra in columns:
        texts = columns[extra]
        if any(len(text) != n_cells or set(text) > {"0", "1"} or not set(text) <= {"0", "1"} for text in texts):
            raise BundleError(f"{SPINE} does not say of every cell whether it is zero by structure")
        zeros = Zeros.of_leaves(tree, np.array([[bit == "1" for bit in text] for text in texts], np.bool_))
    if spine_to_parquet(tree, zeros) != content:
        raise BundleError(f"{SPINE} is not the file that its tree makes")
    return tree, zeros


def level_of_parquet(content: bytes, number: int, codes: NDArray[Any], schema: Schema) -> Ints:
    """Read the tables (unit, cell) of one level, and refuse anything but what `tree_to_files` writes."""
    columns: Mapping[str, NDArray[Any]] = parquet_arrays(content)
    name = level_file(number)
    if list(columns) != [CODE, *cell_columns(schema)]:
        raise BundleError(f"{name} does not have the columns that the manifest describes")
    if columns[CODE].dtype != object or columns[CODE].tolist() != codes.tolist():
        raise BundleError(f"{name} does not have the units of the spine, in their order")
    cells = [columns[cell] for cell in cell_columns(schema)]
    if any(column.dtype != np.int64 or isinstance(column, np.ma.MaskedArray) for column in cells):
        raise BundleError(f"{name} has a count that is not a whole number")
    return np.ascontiguousarray(np.stack(cells, axis=1))
