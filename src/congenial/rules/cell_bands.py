"""Bands of cells that lend each other strength: along a dimension with an order, within what is told of together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from congenial.arrays import Ints
from congenial.schema import Schema, widths_of_labels

_LABELS_OF_BAND = 2.5
_MOST_CUT = 0.6
"""Sums that tell more of the labels of a dimension apart are no bands, but the dimension itself."""

Cells = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class CellBands:
    """Bands of cells, and the parts of them whose sums are of interest; public.

    Attributes
    ----------
    band_of_cell, part_of_cell : arrays (cell,)
    words : str
        Where the bands come from, for people.

    Examples
    --------
    >>> ages = ["under 5", "5-9", "10-14", "15-17", "18-19", "20-24", "25-29", "30-34", "35+"]
    >>> groups = {"age": {"voting age": ages[4:]}}
    >>> bands = CellBands.of(Schema({"sex": ["female", "male"], "age": ages}, groups))
    >>> bands.band_of_cell[:9].tolist(), bands.part_of_cell[9:].tolist()
    ([0, 0, 1, 1, 2, 2, 2, 3, 3], [4, 4, 5, 5, 6, 6, 6, 7, 7])
    >>> bands.words
    '4 bands of neighbouring labels of age'
    >>> CellBands.of(Schema({"region": ["n", "s"], "race": ["a", "b", "c"]})).words
    'a band for each label of region'
    """

    band_of_cell: Ints
    part_of_cell: Ints
    words: str

    @classmethod
    def of(cls, schema: Schema, sums: Sequence[Cells] = ()) -> "CellBands":
        """Return the bands of a table in which some sums of cells are exact or measured."""
        ordered = {axis: widths for axis in range(len(schema.shape)) if (widths := _widths(schema, axis)) is not None}
        if ordered:
            axis = max(ordered, key=lambda number: schema.shape[number])
            bands = _cut(_signatures(schema, axis, sums), ordered[axis])
            words = f"{max(bands) + 1} bands of neighbouring labels of {schema.names[axis]}"
            return cls._along(schema, axis, bands, words)
        classes = [_classes(_signatures(schema, axis, sums)) for axis in range(len(schema.shape))]
        axis = max(range(len(classes)), key=lambda number: max(classes[number]))
        if max(classes[axis]) > 0:
            words = f"{max(classes[axis]) + 1} bands of labels of {schema.names[axis]} that are told of together"
            return cls._along(schema, axis, classes[axis], words)
        if len(schema.shape) > 1:
            axis = min(range(len(schema.shape)), key=lambda number: schema.shape[number])
            return cls._along(
                schema, axis, list(range(schema.shape[axis])), f"a band for each label of {schema.names[axis]}"
            )
        return cls._along(schema, 0, [0] * schema.n_cells, "one band of all cells")

    @classmethod
    def _along(cls, schema: Schema, axis: int, bands: list[int], words: str) -> "CellBands":
        """Return bands along a dimension; a part has the labels of the smallest other dimension apart."""
        places = np.indices(schema.shape).reshape(len(schema.shape), -1)
        band_of_cell = np.array(bands, np.int64)[places[axis]]
        others = [number for number in range(len(schema.shape)) if number != axis]
        part_of_cell = band_of_cell
        if others:
            other = min(others, key=lambda number: schema.shape[number])
            finer = band_of_cell + (max(bands) + 1) * places[other]
            if 2 * (int(finer.max()) + 1) <= schema.n_cells:
                part_of_cell = finer
        return cls(band_of_cell, np.ascontiguousarray(part_of_cell), words)


def _widths(schema: Schema, axis: int) -> tuple[float, ...] | None:
    """Return the widths of labels that are in order, where there are enough of them to make bands."""
    dimension = schema.dimensions[axis]
    widths = dimension.widths if dimension.widths is not None else widths_of_labels(dimension.labels)
    return None if widths is None or len(widths) < 4 else tuple(map(float, widths))


def _signatures(schema: Schema, axis: int, sums: Sequence[Cells]) -> list[tuple[int, ...]]:
    """Return what groups and sums say of each label of a dimension: labels that are alike have the same signature."""
    dimension = schema.dimensions[axis]
    lines = [[int(label in labels) for label in dimension.labels] for _, labels in dimension.groups]
    label_of_cell = np.indices(schema.shape).reshape(len(schema.shape), -1)[axis]
    of_sums = []
    for cells in sums:
        of_sums.append(np.bincount(label_of_cell[list(cells)], minlength=len(dimension.labels)).tolist())
    if of_sums and len(set(zip(*of_sums, strict=True))) <= max(2.0, _MOST_CUT * len(dimension.labels)):
        lines += of_sums
    return list(zip(*lines, strict=True)) if lines else [()] * len(dimension.labels)


def _classes(signatures: Sequence[tuple[int, ...]]) -> list[int]:
    numbers = {signature: number for number, signature in enumerate(dict.fromkeys(signatures))}
    return [numbers[signature] for signature in signatures]


def _cut(signatures: Sequence[tuple[int, ...]], widths: Sequence[float]) -> list[int]:
    """Cut labels in order where their signature changes, and between into bands of about two or three labels."""
    bands: list[int] = []
    start = 0
    while start < len(signatures):
        stop = start
        while stop < len(signatures) and signatures[stop] == signatures[start]:
            stop += 1
        n_bands = max(1, int((stop - start) / _LABELS_OF_BAND + 0.5))
        whole, done, first = sum(widths[start:stop]), 0.0, (bands[-1] + 1 if bands else 0)
        numbers = []
        for width in widths[start:stop]:
            numbers.append(min(int((done + width / 2) * n_bands / whole), n_bands - 1))
            done += width
        used = {number: place for place, number in enumerate(dict.fromkeys(numbers))}
        bands += [first + used[number] for number in numbers]
        start = stop
    return bands
