"""Which tables of S* are neighbours: the fewest records that can change, an example, and what is no longer protected.

Invariants can make a change of one record impossible (GM section 5.1). Everything here follows from the published
conditions alone, so all of it is public.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from congenial.conditions.constraints import CellBounds, Constraints
from congenial.conditions.rows import Column
from congenial.privacy.closest import Pair, closest_pair
from congenial.privacy.relation import check_relation

_QUICK = 80  # groups of cells: two integer programs each


@dataclass(frozen=True)
class Attribute:
    """What one changed record can do to one dimension.

    Attributes
    ----------
    classes : tuple of tuples of labels
        A record's label can change only inside its class. A class of one label is not protected.
    """

    dimension: str
    classes: tuple[tuple[str, ...], ...]

    @property
    def is_pinned(self) -> bool:
        """Whether no change of one record alters this dimension."""
        return all(len(labels) == 1 for labels in self.classes)

    @property
    def is_narrowed(self) -> bool:
        """Whether some labels cannot change into others, though not all are pinned."""
        return len(self.classes) > 1 and not self.is_pinned

    @property
    def text(self) -> str:
        """The finding in words."""
        if self.is_pinned:
            return f"{self.dimension}: not protected, no change of one record alters it"
        if not self.is_narrowed:
            return f"{self.dimension}: every value can change into every other"
        shown = [f"{labels[0]} ... {labels[-1]}" if len(labels) > 2 else ", ".join(labels) for labels in self.classes]
        return f"{self.dimension}: protected only inside each of {{{'}, {'.join(shown[:6])}}}" + (
            f" and {len(shown) - 6} more" if len(shown) > 6 else ""
        )


@dataclass(frozen=True, repr=False)
class Neighbours:
    """The neighbour structure of S* under one relation. Public.

    Attributes
    ----------
    k : int or None
        The fewest records in which two tables of S* can differ; None when no two tables are neighbours at any distance.
    is_smallest : bool
        Whether it is proven that fewer are impossible.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> found = neighbours_of(p12_mechanism().disclose(p12_table()), "bounded")
    >>> found.k, found.disruption
    (1, 'intact')
    >>> found.example
    'one record changes from sex=female, age=under 5 to sex=female, age=5-9'
    >>> found.attributes[0].text
    'sex: not protected, no change of one record alters it'
    """

    constraints: Constraints
    relation: str
    k: int | None
    is_smallest: bool
    known_pair: Pair | None = field(default=None, repr=False)

    @cached_property
    def pair(self) -> Pair | None:
        """Two tables of S* that are `k` records apart: an example, unrelated to any confidential table."""
        if self.known_pair is not None or self.k is None:
            return self.known_pair
        return closest_pair(self.constraints, self.relation).pair

    @property
    def disruption(self) -> str:
        """GM's word for it: ``intact``, ``substantially disrupted`` or ``destroyed``."""
        if self.k is None:
            return "destroyed"
        return "intact" if self.k == 1 else "substantially disrupted"

    @property
    def example(self) -> str:
        """The example in words."""
        if self.pair is None or self.k is None:
            return "no two tables that obey the conditions are neighbours, however many records change"
        name = self.constraints.schema.cell_name
        change = [after - before for before, after in zip(*self.pair, strict=True)]
        leaving = [name(cell) for cell, size in enumerate(change) for _ in range(max(0, -size))]
        entering = [name(cell) for cell, size in enumerate(change) for _ in range(max(0, size))]
        if self.relation == "bounded":
            moves = [f"from {a} to {b}" for a, b in zip(leaving, entering, strict=True)]
            head = "one record changes" if self.k == 1 else f"{self.k} records change together:"
            return f"{head} {_listed(moves)}"
        parts = [f"a record of {a} is removed" for a in leaving] + [f"a record of {b} is added" for b in entering]
        return _listed(parts)

    @cached_property
    def _bounds(self) -> CellBounds:
        """The limits of cells: the tightest where that is quick, else by interval arithmetic."""
        is_quick = len(self.constraints.grouped.members) <= _QUICK
        return self.constraints.cell_bounds if is_quick else self.constraints.quick_bounds

    @property
    def _pinned(self) -> set[int]:
        return set(self._bounds.pinned)

    @cached_property
    def _classes(self) -> dict[Column, list[int]]:
        """Cells that can move, by their column in the equalities."""
        loose = {
            column: [cell for cell in cells if cell not in self._pinned]
            for column, cells in self.constraints.alike.items()
        }
        return {column: cells for column, cells in loose.items() if cells}

    @property
    def has_cells_alike(self) -> bool:
        """Whether a record can change from some cell into another, as far as equalities and pinned cells say."""
        return any(len(cells) > 1 for cells in self._classes.values())

    @cached_property
    def lonely_cells(self) -> tuple[str, ...]:
        """Cells whose records cannot change alone: at k = 1 nothing is promised to them."""
        alike = self._classes
        alone = [c for column, cells in alike.items() if _is_alone(column, cells, self.relation) for c in cells]
        return tuple(self.constraints.schema.cell_name(cell) for cell in sorted({*alone, *self._pinned}))

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """For every dimension, what a change of one record's value can do to it."""
        schema = self.constraints.schema
        nobody = self.relation == "bounded" and self.k != 1 and self.is_smallest  # can change alone
        alike = [] if nobody else [cells for cells in self._classes.values() if len(cells) > 1]
        out = []
        for axis, dimension in enumerate(schema.names):
            labels = schema.labels(dimension)
            parent = list(range(len(labels)))

            def root(label: int, parent: list[int] = parent) -> int:
                while parent[label] != label:
                    label = parent[label]
                return label

            for cells in alike:
                first = root(_label(schema.shape, cells[0], axis))
                for cell in cells[1:]:
                    parent[root(_label(schema.shape, cell, axis))] = first
            members: dict[int, list[str]] = {}
            for number, label in enumerate(labels):
                members.setdefault(root(number), []).append(label)
            out.append(Attribute(dimension, tuple(tuple(group) for group in members.values())))
        return tuple(out)

    @property
    def bare_records(self) -> tuple[str, ...]:
        """What of a record is not protected, or only together with others, in sentences."""
        if self.k is not None and self.k > 1:
            what = "change its value" if self.relation == "bounded" else "come or go"
            out = [f"no single record can {what} alone: what is promised is promised to {self.k} records together"]
        else:
            out = [a.text for a in self.attributes if a.is_pinned or a.is_narrowed]
            if self.lonely_cells and self.k == 1:
                shown = "; ".join(self.lonely_cells[:4]) + ("; ..." if len(self.lonely_cells) > 4 else "")
                out.append(f"nothing is promised to one record alone where it cannot change alone: records of {shown}")
        return tuple(out)

    @property
    def no_longer_protected(self) -> tuple[str, ...]:
        """What the published conditions give away by themselves, in sentences: of records, then of cells."""
        out = list(self.bare_records)
        name, bounds = self.constraints.schema.cell_name, self._bounds
        disclosed = {name(cell): bounds.lower[cell] for cell in bounds.pinned}
        if disclosed:
            shown = ", ".join(f"{name} = {value:,}" for name, value in list(disclosed.items())[:5])
            more = f" and {len(disclosed) - 5} more" if len(disclosed) > 5 else ""
            out.append(f"cells that the conditions disclose: {shown}{more}")
        return tuple(out)

    def __repr__(self) -> str:
        head = f"{self.relation} neighbours, structure {self.disruption}"
        if self.k is not None:
            few = "the fewest" if self.is_smallest else "at most the fewest"
            head += f": k = {self.k}, {few} records in which two tables that obey the conditions can differ"
        return "\n  ".join([head, f"example: {self.example}", *(f"{text}" for text in self.no_longer_protected)])


def neighbours_of(constraints: Constraints, relation: str) -> Neighbours:
    """Find the fewest records in which two tables of S* can differ, by integer programming."""
    found = closest_pair(constraints, check_relation(relation))
    return Neighbours(constraints, relation, found.k, found.is_smallest, found.pair)


def _is_alone(column: Column, cells: Sequence[int], relation: str) -> bool:
    return len(cells) == 1 if relation == "bounded" else bool(column)


def _label(shape: Sequence[int], cell: int, axis: int) -> int:
    for size in reversed(shape[axis + 1 :]):
        cell //= size
    return cell % shape[axis]


def _listed(parts: Sequence[str]) -> str:
    shown = list(parts[:4])
    return "; ".join(shown) + (f"; and {len(parts) - 4} more" if len(parts) > 4 else "")
