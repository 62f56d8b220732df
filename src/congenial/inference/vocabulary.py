"""The words that a query may use: dimensions, labels, groups of labels, and areas."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from congenial.conditions.areas import Areas
from congenial.errors import InferenceError, SchemaError, did_you_mean
from congenial.schema import Dimension, Schema

AREA = "area"
RANGE = ".."


def order_of(dimension: Dimension) -> tuple[str, ...]:
    """Return the labels of a dimension from first to last; ranges and medians go along them.

    Every dimension has the order in which its labels are listed.
    """
    return dimension.labels


@dataclass(frozen=True)
class Vocabulary:
    """What the names in a query can mean.

    Attributes
    ----------
    areas : Areas or None
        Where there are several tables: areas are then one more dimension, by their own name and as ``area``.
    """

    schema: Schema
    areas: Areas | None = None

    @cached_property
    def area_name(self) -> str | None:
        """What areas are called as a dimension, if there are several."""
        if self.areas is None or self.areas.name is None:
            return None
        return AREA if self.areas.name in self.schema.names else self.areas.name

    @cached_property
    def dimensions(self) -> Mapping[str, Dimension]:
        """The dimensions by name, areas first."""
        own = {dimension.name: dimension for dimension in self.schema.dimensions}
        if self.area_name is None or self.areas is None:
            return own
        return {self.area_name: Dimension(self.area_name, tuple(map(str, self.areas.labels))), **own}

    @cached_property
    def names(self) -> frozenset[str]:
        """Every name that stands for a dimension."""
        also = {AREA} if self.area_name is not None else set()
        return frozenset({*self.dimensions, *also})

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The dimensions that each group's name belongs to."""
        out: dict[str, tuple[str, ...]] = {}
        for dimension in self.schema.dimensions:
            for group, _ in dimension.groups:
                out[group] = (*out.get(group, ()), dimension.name)
        return out

    @cached_property
    def known(self) -> frozenset[str]:
        """Every name of a dimension, label or group."""
        labels = (label for dimension in self.dimensions.values() for label in dimension.labels)
        return frozenset({*self.names, *labels, *self.groups})

    def dimension(self, name: str) -> Dimension:
        """Return the dimension of that name."""
        if name == AREA and AREA not in self.dimensions and self.area_name is not None:
            return self.dimensions[self.area_name]
        if name not in self.dimensions:
            hint = did_you_mean(name, [*self.dimensions, *self.groups])
            if name == AREA:
                hint = "the bundle has one table, and no areas"
            raise InferenceError(f"{name!r} is not a dimension; {hint}")
        return self.dimensions[name]

    def picked(self, dimension: Dimension, word: str) -> set[str]:
        """Return the labels that a label, a group, or a range ``first..last`` stands for."""
        try:
            return set(dimension.picked(word))
        except SchemaError as unknown:
            first, dots, last = word.partition(RANGE)
            if not dots:
                hint = "; labels with commas, braces or other signs go in quotes" if " " in word else ""
                raise InferenceError(f"{unknown}{hint}") from None
        return self.between(dimension, first.strip() or None, last.strip() or None)

    def between(self, dimension: Dimension, first: str | None, last: str | None) -> set[str]:
        """Return the labels from one to another along an ordered dimension, both included; None is the end."""
        order = order_of(dimension)
        start = 0 if first is None else order.index(self._label(dimension, first))
        end = len(order) - 1 if last is None else order.index(self._label(dimension, last))
        if start > end:
            raise InferenceError(f"{first!r} comes after {last!r} in {dimension.name!r}; swap them")
        return set(order[start : end + 1])

    def _label(self, dimension: Dimension, label: str) -> str:
        try:
            dimension.position(label)
        except SchemaError as unknown:
            raise InferenceError(f"{unknown}; a range or comparison takes single labels") from None
        return label
