"""The public shape of a table: named dimensions, each with its labels."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from congenial.errors import SchemaError, did_you_mean
from congenial.exact import positive_fraction
from congenial.safe_text import explain_invalid

# Labels that are intervals of numbers, such as ages: which dimensions are ordered, and how wide their levels are.

_UNDER = re.compile(r"(?:under|below|less than|<)\s*(\d+)", re.IGNORECASE)
_OPEN = re.compile(r"(\d+)\s*(?:\+|and over|and older|or more|and above)", re.IGNORECASE)
_BETWEEN = re.compile(r"(\d+)\s*(?:-|–|to|and)\s*(\d+)", re.IGNORECASE)
_ONE = re.compile(r"\d+")


def interval_of(label: str) -> tuple[int, int | None] | None:
    """Return the first and the last number of an interval; None at its end if it is open, None for no interval.

    Examples
    --------
    >>> [interval_of(label) for label in ("under 5", "65-66", "20", "85+", "female")]
    [(0, 4), (65, 66), (20, 20), (85, None), None]
    """
    text = label.strip()
    if match := _UNDER.fullmatch(text):
        return 0, int(match[1]) - 1
    if match := _BETWEEN.fullmatch(text):
        return int(match[1]), int(match[2])
    if match := _OPEN.fullmatch(text):
        return int(match[1]), None
    return (int(text), int(text)) if _ONE.fullmatch(text) else None


def widths_of_labels(labels: Sequence[str]) -> tuple[int, ...] | None:
    """Return how wide intervals are that follow upon each other without a gap; None where labels are something else.

    An open end counts as wide as the interval before it.

    Examples
    --------
    >>> widths_of_labels(["under 5", "5-9", "10", "11+"])
    (5, 5, 1, 1)
    >>> widths_of_labels(["010", "020", "030"]) is None
    True
    """
    intervals = [interval_of(label) for label in labels]
    widths: list[int] = []
    for place, interval in enumerate(intervals):
        if interval is None:
            return None
        first, last = interval
        if last is None:
            if place == 0 or place + 1 < len(intervals):
                return None
            widths.append(widths[-1])
        elif last < first:
            return None
        else:
            widths.append(last - first + 1)
        if place and (before := intervals[place - 1]) is not None and before[1] is not None and first != before[1] + 1:
            return None
    return tuple(widths) if len(widths) > 2 else None


Where = Mapping[str, str | Iterable[str]]
"""A set of cells: for each named dimension one label or several; dimensions not named are free."""

_MOST_CELLS = 10_000_000
_MOST_ROOM = 1 << 30  # bytes of the labels of all cells, each with room for the longest


@dataclass(frozen=True, eq=True)
class Dimension:
    """A name and its labels, in the order in which they are shown.

    Attributes
    ----------
    groups : tuple of (name, labels)
        Sets of labels that have a name; they change no table, and so no comparison.
    widths : tuple of Fraction, or None
        How wide the levels are, if neighbours are alike; None where the order means nothing, or nothing is said of it.
    """

    name: str
    labels: tuple[str, ...]
    groups: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), compare=False)
    widths: tuple[Fraction, ...] | None = None

    @cached_property
    def positions(self) -> dict[str, int]:
        """Where each label stands."""
        return {label: position for position, label in enumerate(self.labels)}

    def position(self, label: str) -> int:
        """Return where `label` stands among the labels."""
        if label not in self.positions:
            raise SchemaError(
                f"{label!r} is not a label of dimension {self.name!r}; {did_you_mean(str(label), self.labels)}"
            )
        return self.positions[label]

    def picked(self, word: str) -> tuple[str, ...]:
        """Return the labels that a label or the name of a group stands for.

        Examples
        --------
        >>> Dimension("age", ("0-17", "18-64", "65+"), (("adult", ("18-64", "65+")),)).picked("adult")
        ('18-64', '65+')
        """
        groups = dict(self.groups)
        if word in self.positions or word in groups:
            return groups.get(word, (word,))
        what = "a label or group" if groups else "a label"
        raise SchemaError(
            f"{word!r} is not {what} of dimension {self.name!r}; {did_you_mean(word, [*groups, *self.labels])}"
        )


class Schema:
    """Labelled dimensions; cells are numbered row-major, the last dimension fastest.

    Parameters
    ----------
    dimensions : mapping from name to labels
        Labels are text, so that a code such as ``"010"`` stays ``"010"``.
    groups : mapping from dimension to a mapping from name to labels, optional
        Sets of labels that queries may call by name.
    ordered : names, or mapping from name to widths, optional
        Dimensions whose levels have an order, such as ages, with the width of each level if labels do not say it.
        Inference is smooth along them.

    Examples
    --------
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> schema
    Schema(sex: 2, age: 2; 4 cells)
    >>> schema.cells({"age": "18+"})
    array([1, 3])
    >>> schema.cell_name(3)
    'sex=male, age=18+'
    """

    most_cells = _MOST_CELLS
    """Cells that tables may have: they are listed one by one."""

    def __init__(
        self,
        dimensions: Mapping[str, Sequence[str]],
        groups: Mapping[str, Mapping[str, Sequence[str]]] | None = None,
        ordered: Iterable[str] | Mapping[str, Sequence[Fraction | int | str] | None] = (),
    ) -> None:
        if not isinstance(dimensions, Mapping):
            raise SchemaError(
                f'a schema is a mapping such as {{"sex": ["female", "male"]}}, not a {type(dimensions).__name__}'
            )
        if not dimensions:
            raise SchemaError("a schema needs at least one dimension")
        named = dict(groups or {})
        for name in named:
            if name not in dimensions:
                raise SchemaError(f"groups of {name!r}, which is not a dimension; {did_you_mean(name, dimensions)}")
        plain = tuple(_dimension(name, labels, named.get(name, {})) for name, labels in dimensions.items())
        widths = dict(ordered) if isinstance(ordered, Mapping) else dict.fromkeys(ordered)
        for name in widths:
            if name not in dimensions:
                raise SchemaError(f"ordered: {name!r} is not a dimension; {did_you_mean(str(name), dimensions)}")
        self.dimensions = tuple(
            _in_order(dimension, widths[dimension.name]) if dimension.name in widths else dimension
            for dimension in plain
        )
        if self.n_cells > self.most_cells:
            raise SchemaError(
                f"the dimensions span {self.n_cells:,} cells and the limit is {self.most_cells:,};"
                " merge labels or split the table"
            )
        if self.most_cells == _MOST_CELLS and self.n_cells * self.width > _MOST_ROOM:
            raise SchemaError(
                f"the labels of {self.n_cells:,} cells have up to {self.width:,} bytes each, together more than"
                f" {_MOST_ROOM:,}; shorten the longest labels, merge labels or split the table"
            )

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of labels of each dimension."""
        return tuple(len(dimension.labels) for dimension in self.dimensions)

    @cached_property
    def n_cells(self) -> int:
        """Number of cells."""
        return math.prod(self.shape)

    @cached_property
    def width(self) -> int:
        """Bytes of a cell's labels at most, in UTF-8."""
        return sum(max(len(label.encode()) for label in dimension.labels) for dimension in self.dimensions)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions."""
        return tuple(dimension.name for dimension in self.dimensions)

    @cached_property
    def ordered(self) -> dict[str, tuple[Fraction, ...]]:
        """The dimensions that were said to be ordered, with the widths of their levels."""
        return {dimension.name: dimension.widths for dimension in self.dimensions if dimension.widths is not None}

    def axis(self, name: str) -> int:
        """Return the position of a dimension."""
        if name not in self.names:
            raise SchemaError(f"{name!r} is not a dimension; {did_you_mean(str(name), self.names)}")
        return self.names.index(name)

    def labels(self, name: str) -> tuple[str, ...]:
        """Return the labels of a dimension."""
        return self.dimensions[self.axis(name)].labels

    def cells(self, where: Where | None = None) -> NDArray[np.intp]:
        """Return the numbers of the cells that `where` picks, ascending; all of them when it is None."""
        chosen: list[Sequence[int]] = [range(length) for length in self.shape]
        for name, wanted in (frozen_where(where) or {}).items():
            axis = self.axis(name)
            dimension = self.dimensions[axis]
            positions = sorted({dimension.position(label) for label in wanted})
            if not positions:
                raise SchemaError(f"where={{{name!r}: []}} picks no cell; name at least one label")
            chosen[axis] = positions
        grid = np.ix_(*chosen)
        return np.ravel_multi_index(tuple(np.broadcast_arrays(*grid)), self.shape).reshape(-1)

    def cell(self, labels: Mapping[str, str] | Sequence[str] | str) -> int:
        """Return the number of the one cell with these labels."""
        if isinstance(labels, Mapping):
            if set(labels) != set(self.names):
                raise SchemaError(f"a cell needs one label for each of {list(self.names)}, not for {list(labels)}")
            labels = [labels[name] for name in self.names]
        elif isinstance(labels, str):
            labels = [labels]
        elif not isinstance(labels, Sequence):
            raise SchemaError(f"a cell is named by its labels, as text, a tuple or a mapping, not by {labels!r}")
        if len(labels) != len(self.dimensions):
            raise SchemaError(f"a cell needs {len(self.dimensions)} labels, one for each of {list(self.names)}")
        index = [dimension.position(label) for dimension, label in zip(self.dimensions, labels, strict=True)]
        return int(np.ravel_multi_index(tuple(index), self.shape))

    def labels_of(self, number: int) -> dict[str, str]:
        """Return the labels of a cell, by dimension."""
        index = np.unravel_index(number, self.shape)
        return {dimension.name: dimension.labels[i] for dimension, i in zip(self.dimensions, index, strict=True)}

    def cell_name(self, number: int) -> str:
        """Return a cell's labels in words."""
        return ", ".join(f"{name}={label}" for name, label in self.labels_of(number).items())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self.dimensions == other.dimensions

    def __hash__(self) -> int:
        return hash(self.dimensions)

    def part(self, names: Iterable[str]) -> "Schema":
        """Return the schema of tables over some of the dimensions, in the order of this one.

        Examples
        --------
        >>> Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]}).part(["age"])
        Schema(age: 2; 2 cells)
        """
        wanted = {self.axis(name) for name in names}
        chosen = [dimension for axis, dimension in enumerate(self.dimensions) if axis in wanted]
        return Schema(
            {dimension.name: dimension.labels for dimension in chosen},
            {dimension.name: dict(dimension.groups) for dimension in chosen},
            {dimension.name: dimension.widths for dimension in chosen if dimension.widths is not None},
        )

    def __repr__(self) -> str:
        parts = ", ".join(f"{d.name}: {len(d.labels)}" for d in self.dimensions)
        return f"{type(self).__name__}({parts}; {self.n_cells:,} cells)"


class RecordSchema(Schema):
    """The dimensions of records: tables are over some of them at a time, and all combinations are never listed.

    Examples
    --------
    >>> RecordSchema({f"question {number}": ["yes", "no", "none"] for number in range(20)})  # doctest: +ELLIPSIS
    RecordSchema(question 0: 3, question 1: 3, ...; 3,486,784,401 cells)
    """

    most_cells = 2**62


def _dimension(name: object, labels: object, groups: Mapping[str, Sequence[str]]) -> Dimension:
    if not isinstance(name, str) or not name.strip():
        raise SchemaError(f"a dimension's name is text, not {name!r}")
    if wrong := explain_invalid(name, f"the name {name[:40]!r} of a dimension"):
        raise SchemaError(wrong)
    if isinstance(labels, str | Set) or not isinstance(labels, Iterable):
        raise SchemaError(f"dimension {name!r} needs a list of labels in their order, not {labels!r}")
    texts = tuple(labels)
    if not texts:
        raise SchemaError(f"dimension {name!r} has no labels; it needs at least one")
    for label in texts:
        if not isinstance(label, str):
            raise SchemaError(f'dimension {name!r}: labels are text, and {label!r} is not; write "{label}"')
        if not label.strip():
            raise SchemaError(f"dimension {name!r} has an empty label")
        if wrong := explain_invalid(label, f"dimension {name!r}: the label {label[:40]!r}"):
            raise SchemaError(wrong)
    seen: set[str] = set()
    for label in texts:
        if label in seen:
            raise SchemaError(f"dimension {name!r} has the label {label!r} twice")
        seen.add(label)
    return Dimension(name, texts, tuple((group, _members(name, texts, group, groups[group])) for group in groups))


def _members(name: str, labels: tuple[str, ...], group: object, members: Sequence[str]) -> tuple[str, ...]:
    """Check a group of labels; they are kept in the dimension's order."""
    if not isinstance(group, str) or not group.strip():
        raise SchemaError(f"dimension {name!r}: the name of a group is plain text, not {group!r}")
    if wrong := explain_invalid(group, f"dimension {name!r}: the group {group[:40]!r}"):
        raise SchemaError(wrong)
    if group in labels:
        raise SchemaError(f"{group!r} is a label of {name!r} and cannot be the name of a group too")
    if isinstance(members, str) or not set(members) <= set(labels) or len(set(members)) < max(1, len(members)):
        raise SchemaError(f"group {group!r} of {name!r} is a list of its labels, each once, not {members!r}")
    return tuple(label for label in labels if label in set(members))


def _in_order(dimension: Dimension, widths: Sequence[Fraction | int | str] | None) -> Dimension:
    """Return a dimension with the widths of its levels: those given, those that labels say, or 1 each."""
    n_levels = len(dimension.labels)
    if widths is None:
        return replace(dimension, widths=tuple(map(Fraction, widths_of_labels(dimension.labels) or (1,) * n_levels)))
    if isinstance(widths, str) or len(widths) != n_levels:
        raise SchemaError(f"ordered: the widths of {dimension.name!r} are {n_levels} numbers, one for each level")
    return replace(dimension, widths=tuple(positive_fraction(width, "a width") for width in widths))


def frozen_where(where: Where | None) -> dict[str, tuple[str, ...]] | None:
    """Check a set of cells and keep it in a form that can be read again and again."""
    if where is None:
        return None
    if not isinstance(where, Mapping):
        raise SchemaError(f'where is a mapping such as {{"sex": "female"}}, not a {type(where).__name__}')
    frozen: dict[str, tuple[str, ...]] = {}
    for name, wanted in where.items():
        if isinstance(wanted, str):
            frozen[name] = (wanted,)
            continue
        if not isinstance(wanted, Iterable):
            raise SchemaError(f"where: {name!r} needs a label or a list of labels, not {wanted!r}")
        frozen[name] = tuple(wanted)
        for label in frozen[name]:
            if not isinstance(label, str):
                raise SchemaError(f'where: labels of {name!r} are text, and {label!r} is not; write "{label}"')
    return frozen
