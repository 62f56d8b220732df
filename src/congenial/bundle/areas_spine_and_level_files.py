"""The Parquet files of areas and trees: areas.parquet, spine.parquet, a file for each level, exact-cells.parquet."""

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import chain, count
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.arrow_and_unit_codes import (
    Codes,
    arrow_to_codes,
    arrow_to_numbers,
    codes_to_arrow,
    numbers_to_arrow,
    texts_to_arrow,
)
from congenial.bundle.file_registry import AREAS, SPINE
from congenial.bundle.law_and_tree_json import AreaValues, StatedAcross
from congenial.bundle.parquet import (
    AT_ONCE,
    WIDEST,
    arrays_to_parquet,
    batches_of,
    check_distinct_rows,
    damage_as_refusal,
    read_batches,
    table_to_parquet,
    texts_once,
    write_batches,
)
from congenial.conditions.areas_and_bounds import Areas
from congenial.errors import BundleError, HierarchyError
from congenial.law import PublicLaw
from congenial.privacy.disclosure import Disclosure
from congenial.schema import Schema
from congenial.tree.areas_across import AreasAcross
from congenial.tree.exact_sums import ExactRows
from congenial.tree.tree_and_zeros import Mask, Tree, Zeros, check_room

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_NUMBER = 10_000  # digits of a value or of a share that stands as text


def areas_to_parquet(areas: Areas, exact: Sequence[NDArray[Any]]) -> bytes:
    """Return the file: area, its group from 0 on, `value_1`, ... of the law, `exact_1`, ... in the manifest's order.

    Parameters
    ----------
    exact : sequence of arrays (area,)
        For each exact statistic its value in every area: whole numbers, or texts (objects).
    """
    import pyarrow as pa

    law = AreaValues.of(areas)
    columns = [texts_to_arrow(law.labels), numbers_to_arrow(law.groups.astype(np.int32))]
    columns += [_written(column) for column in (*law.values, *exact)]
    return table_to_parquet(pa.Table.from_arrays(columns, names=_header(len(law.values), len(exact))))


def _written(column: NDArray[Any]) -> "pa.Array":
    """Return whole numbers as such where 64 bits hold them; others, and shares, as text."""
    if column.dtype == object:
        return texts_to_arrow([None if value is None else str(value) for value in column.tolist()])
    return numbers_to_arrow(column.astype(np.int64, copy=False))


def _header(n_values: int, n_exact: int) -> list[str]:
    values = [f"value_{number}" for number in range(1, n_values + 1)]
    return ["area", "group", *values, *(f"exact_{number}" for number in range(1, n_exact + 1))]


def areas_of_parquet(content: bytes, n_exact: int) -> tuple[AreaValues, list[NDArray[Any]]]:
    """Read what `areas_to_parquet` wrote, and refuse anything else."""
    import pyarrow as pa
    from pyarrow import parquet

    file = BytesIO(content)
    with damage_as_refusal():
        schema, n_rows = parquet.read_schema(file), parquet.read_metadata(file).num_rows
        types = dict(zip(schema.names, schema.types, strict=True))
        n_values = len(schema.names) - 2 - n_exact
        has_columns = n_values >= 0 and schema.names == _header(n_values, n_exact)
        if not has_columns or types["area"] != pa.string() or types["group"] != pa.int32():
            raise BundleError(f"{AREAS} does not have the columns that the manifest describes")
        if not {*schema.types[2:]} <= {pa.int64(), pa.string()}:
            raise BundleError(f"{AREAS} has a value that is not a whole number")
        check_distinct_rows(file, AREAS, n_rows)
        texts = [name for name, kind in types.items() if kind == pa.string()]
        row_bytes = WIDEST + len(types) * (_LONGEST_NUMBER + 4)
        labels, columns = _gathered(batches_of(file, AREAS, texts, n_rows, row_bytes), schema.names)
    groups, *rest = columns
    try:
        values = [_numbers(column) for column in rest[:n_values]]
    except ValueError:
        raise BundleError(f"{AREAS} has a value that is not a whole number") from None
    exact = rest[n_values:]
    if any(np.ma.is_masked(column) or (column.dtype == object and None in column) for column in exact):
        raise BundleError(f"{AREAS} lacks an exact number")
    return AreaValues(tuple(labels), groups.astype(np.int64), values), exact


def _gathered(batches: "Iterable[pa.RecordBatch]", names: Sequence[str]) -> tuple[list[str], list[NDArray[Any]]]:
    """Return the labels of all areas, and the other columns: whole numbers, masked where they are missing, or texts."""
    import pyarrow as pa

    labels: list[str] = []
    seen: set[str] = set()
    parts: list[list[Any]] = [[] for _ in names[1:]]
    for batch in batches:
        known, places = texts_once(batch.column(0), AREAS)
        if batch.column(0).null_count or batch.column(1).null_count:
            raise BundleError(f"{AREAS} does not have the columns that the manifest describes")
        texts = known.to_pylist()
        labels_of_batch = [texts[place] for place in places.tolist()]
        labels += labels_of_batch
        seen.update(labels_of_batch)
        if len(seen) < len(labels):  # at once: a small file can repeat a few labels in any number of rows
            raise BundleError(f"{AREAS} names an area twice")
        for part, column in zip(parts, batch.columns[1:], strict=True):
            part.append(_texts(column) if pa.types.is_dictionary(column.type) else column)
    return labels, [
        np.concatenate(part) if isinstance(part[0], np.ndarray) else arrow_to_numbers(pa.chunked_array(part))
        for part in parts
        if part
    ] or [np.zeros(0, np.int64) for _ in parts]


def _texts(column: "pa.DictionaryArray") -> NDArray[np.object_]:
    """Return texts as objects, one for all rows that have the same; None where there is none."""
    known, places = texts_once(column, AREAS, _LONGEST_NUMBER)
    objects: NDArray[np.object_] = np.array([*known.to_pylist(), None], object)[places]
    return objects


def _numbers(column: NDArray[Any]) -> NDArray[Any]:
    return column if column.dtype != object else np.array([_value(text) for text in column.tolist()], object)


def _value(text: str | None) -> int | None:
    if text is None:
        return None
    value = int(text)
    if str(value) != text:
        raise ValueError(text)
    return value


# The files of a tree: spine.parquet, a row a leaf, and a table for each level below the top, a row a unit.
#
# Written and read some rows at a time: a level of millions of units takes its counts of memory, and little more.

ZEROS, CODE = "zeros", "code"


def cell_columns(schema: Schema) -> list[str]:
    """Return the columns of a level's file besides the unit's code: the cells by name."""
    return [schema.cell_name(cell) for cell in range(schema.n_cells)]


def measured_columns(law: PublicLaw, level: int) -> list[str]:
    """Return the columns of the file of a level's measurements: its measured rows by name, told apart by number.

    Areas that cross the tree come after the last level.
    """
    _, queries = law.measured_queries[level]
    names = [row.name for query in queries if query.precision for row in query.rows]
    return distinct_names(names, [CODE])


def exact_columns(rows: ExactRows) -> list[str]:
    """Return the columns of the file of a level's exact numbers."""
    return distinct_names([row.name for row in rows.rows], [CODE])


def distinct_names(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return names for columns: some programs take those that differ in case alone for one.

    Examples
    --------
    >>> distinct_names(["total", "f", "F", "total", "total 2", "code"], ["code"])
    ['total', 'f', 'F 2', 'total 2', 'total 2 2', 'code 2']
    """
    known, out = {name.casefold() for name in taken}, []
    for name in names:
        numbered = (f"{name} {number}" for number in count(2))
        other = next(text for text in chain([name], numbered) if text.casefold() not in known)
        known.add(other.casefold())
        out.append(other)
    return out


def write_level(codes: Codes, numbers: Ints, columns: Sequence[str], out: BinaryIO) -> None:
    """Write numbers (unit, column) of one level, a row a unit."""
    write_batches(_level_batches(codes, numbers, columns), out)


def _level_batches(codes: Codes, numbers: Ints, names: Sequence[str]) -> "Iterator[pa.Table]":
    import pyarrow as pa

    for first in range(0, len(codes), AT_ONCE):
        cells = np.ascontiguousarray(numbers[first : first + AT_ONCE].T, np.int64)
        columns = [codes_to_arrow(codes[first : first + AT_ONCE]), *map(numbers_to_arrow, cells)]
        yield pa.Table.from_arrays(columns, names=[CODE, *names])


def write_spine(tree: Tree, zeros: Zeros, across: AreasAcross | None, out: BinaryIO) -> None:
    """Write the spine: for each leaf the code of its unit at every level, of its area across, and structural zeros."""
    write_batches(_spine_batches(tree, zeros, across), out)


def _spine_batches(tree: Tree, zeros: Zeros, across: AreasAcross | None) -> "Iterator[pa.Table]":
    import pyarrow as pa

    names = [*tree.levels, *([] if across is None else [across.name])]
    names += [_zeros_column(names)] if zeros.masks else []
    for first in range(0, tree.n_leaves, AT_ONCE):
        units, columns = np.arange(first, min(tree.n_leaves, first + AT_ONCE)), []
        for level in range(len(tree.levels) - 1, -1, -1):
            columns.append(codes_to_arrow(tree.codes[level][units]))
            units = tree.parents[level - 1][units] if level else units
        columns.reverse()
        if across is not None:
            columns.append(codes_to_arrow(across.codes_of_leaves(first, first + AT_ONCE)))
        if zeros.masks:
            columns.append(codes_to_arrow(_digits(zeros.masks[-1][first : first + AT_ONCE])))
        yield pa.Table.from_arrays(columns, names=names)


def _zeros_column(levels: Sequence[str]) -> str:
    name = ZEROS
    while name in levels:
        name = f"{name}_by_structure"
    return name


def _digits(mask: Mask) -> Codes:
    """Return a digit for each cell, 1 where it is a structural zero, as one text a leaf."""
    return (mask + np.uint8(ord("0"))).astype(np.uint8).view(f"S{mask.shape[1]}").reshape(-1)


def _mask(digits: "pa.Array", n_cells: int) -> Mask:
    """Return what `_digits` was made from (text, cell), and refuse what is none."""
    import pyarrow.compute as pc

    lengths = arrow_to_numbers(pc.binary_length(digits))
    codes = arrow_to_codes(digits) if bool((lengths == n_cells).all()) else None
    if codes is None or codes.dtype != np.dtype(f"S{n_cells}"):
        raise BundleError(f"{SPINE} does not say of every cell whether it is zero by structure")
    digit_values = codes.view(np.uint8).reshape(-1, n_cells) - np.uint8(ord("0"))
    if int(digit_values.max(initial=0)) > 1:
        raise BundleError(f"{SPINE} does not say of every cell whether it is zero by structure")
    return digit_values.astype(np.bool_)


class _Column:
    """A column of texts that is being read: of each part its distinct texts and which of them every row has."""

    def __init__(self) -> None:
        self.parts: list[tuple[Codes, NDArray[np.int32]]] = []

    def add(self, known: "pa.Array", places: NDArray[np.int32]) -> None:
        codes = arrow_to_codes(known)
        if codes is None:
            raise BundleError(f"{SPINE} has a code with a zero byte")
        self.parts.append((codes, places))

    @property
    def kind(self) -> np.dtype[Any]:
        """The type of an array that holds all of it."""
        return np.result_type(*(codes.dtype for codes, _ in self.parts))

    def codes(self) -> Codes:
        return np.concatenate([codes[places] for codes, places in self.parts], dtype=self.kind)


def read_spine(
    file: BinaryIO, levels: Sequence[str], n_cells: int, n_leaves: int, across: StatedAcross | None = None
) -> tuple[Tree, Zeros, AreasAcross | None]:
    """Read what `write_spine` wrote, a row for each leaf, and refuse anything else."""
    if n_leaves < 1:
        raise BundleError(f"{SPINE} is not a tree: it has no leaf")
    names = [*levels, *([] if across is None else [across.name])]
    texts = dict.fromkeys(names, "string")
    choices = [texts, {**texts, _zeros_column(names): "string"}]
    columns, masks = [_Column() for _ in names], []
    try:
        for batch in read_batches(file, SPINE, choices, n_leaves, max(WIDEST, n_cells)):
            for column, codes in zip(columns, batch.columns, strict=False):
                column.add(*texts_once(codes, SPINE))
            if len(batch.column(len(levels) - 1).dictionary) < len(batch):  # at once: a few codes fill any file
                raise BundleError(f"{SPINE} is not a tree: a {levels[-1]} is listed twice")
            if batch.num_columns > len(names):
                digits, places = texts_once(batch.column(len(names)), SPINE, n_cells)
                masks.append(_mask(digits, n_cells)[places])
            # Before codes are in every row: those of a large unit are long in many.
            check_room(n_leaves, {name: column.kind.itemsize for name, column in zip(names, columns, strict=True)})
        tree = Tree.of_parents({name: column.codes() for name, column in zip(levels, columns, strict=False)})
        areas = None if across is None else across.areas(tree, columns[-1].codes())
    except HierarchyError as wrong:
        raise BundleError(f"{SPINE} is not a tree: {wrong}") from None
    if not bool((np.diff(tree.order) == 1).all()) or tree.order[0] != 0:
        raise BundleError(f"{SPINE} does not have its leaves in order")
    if not masks:
        return tree, Zeros(), areas
    mask = np.concatenate(masks)
    zeros = Zeros.of_leaves(tree, mask)
    if not np.array_equal(zeros.masks[-1], mask) or not mask.any():
        raise BundleError(f"{SPINE} is not the file that its tree makes")
    return tree, zeros, areas


def read_level(file: BinaryIO, name: str, codes: Codes, columns: Sequence[str]) -> Ints:
    """Read the numbers (unit, column) of one level, and refuse anything but what `write_level` wrote."""
    batches = read_batches(file, name, [{CODE: "string", **dict.fromkeys(columns, "int64")}], len(codes))
    out, n_read = None, 0
    for batch in batches:
        if out is None:  # the file has the rows that it should have
            out = np.empty((len(codes), len(columns)), np.int64)
        rows, (known, places) = slice(n_read, n_read + len(batch)), texts_once(batch.column(0), name)
        codes_of_batch = arrow_to_codes(known)
        if codes_of_batch is None or rows.stop > len(codes) or not _is_same(codes[rows], codes_of_batch[places]):
            raise BundleError(f"{name} does not have the units of the spine, in their order")
        for column in range(len(columns)):
            out[rows, column] = arrow_to_numbers(batch.column(column + 1))
        n_read += len(batch)
    if out is None or n_read < len(codes):
        raise BundleError(f"{name} does not have the units of the spine, in their order")
    return out


def _is_same(codes: Codes, others: Codes) -> bool:
    kinds = {codes.dtype.kind, others.dtype.kind}
    first, second = (codes, others) if len(kinds) == 1 else (codes.astype(str), others.astype(str))
    return bool((first == second).all())


# What exact numbers disclose, cell by cell.


def exact_cells_to_parquet(disclosures: Sequence[Disclosure]) -> bytes:
    """Return exact-cells.parquet: of each area in which a cell is disclosed, a digit 1 for each such cell.

    Their values are those of the released table.
    """
    columns = [np.concatenate(parts) for parts in zip(*map(_columns, disclosures), strict=True)]
    return arrays_to_parquet(dict(zip(("level", "area", "cells"), columns, strict=True)))


def _columns(review: Disclosure) -> list[NDArray[np.object_]]:
    """Return level, label and digits of the areas in which a cell is disclosed, in their order."""
    places, digits = [np.zeros(0, np.int64)], [np.zeros(0, object)]
    for kind in review.kinds:
        has_disclosed = kind.has_disclosed
        texts = np.array([""] * len(has_disclosed), object)
        letters = (kind.is_disclosed[has_disclosed] + np.uint8(ord("0"))).astype(np.uint8)
        texts[has_disclosed] = [line.tobytes().decode() for line in letters]  # once for areas with the same values
        disclosing = np.flatnonzero(has_disclosed[kind.kind_of_area])
        places.append(kind.places[disclosing])
        digits.append(texts[kind.kind_of_area[disclosing]])
    joined = np.concatenate(places)
    order = np.argsort(joined, kind="stable")
    labels = np.array([label or "" for label in review.labels], object)[joined[order]]
    return [np.array([review.summary.area or ""] * len(order), object), labels, np.concatenate(digits)[order]]
