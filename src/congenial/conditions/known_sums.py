"""Sums of cells whose values follow from the equalities: one elimination serves all areas of a pattern."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.areas import Group
from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import reduced
from congenial.conditions.rows import Limited, Row, cells_alike, dense

_LARGE = 2**20  # multiples of equalities: sums of cells have small ones
_SAFE = 2**52  # products of whole numbers below it are whole in doubles, which multiply quickly


@dataclass(frozen=True)
class KnownSum:
    """A sum of cells with its value in every area of a group (area,)."""

    row: Row
    values: Ints


@dataclass(frozen=True, eq=False)
class Solved:
    """The equalities of a pattern, reduced: what follows from them is read off.

    Attributes
    ----------
    members : tuple of tuples of cells
        Cells that are not fixed by themselves, those with equal columns together.
    reduced : array (line, group)
        Reduced lines, times `scale`; each begins where no other has anything.
    starts : array (line,)
        The group that a line begins with.
    multiples : array (line, equality)
        What of each equality a line is made of, times `scale`.

    Examples
    --------
    >>> from congenial.conditions.areas import Areas
    >>> from congenial.conditions.queries import margin, total
    >>> from congenial.schema import Schema
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18+"]})
    >>> tables = {"north": [3, 4, 5, 6], "south": [0, 1, 2, 3]}
    >>> areas = Areas.disclosed(schema, [total(), margin("sex")], tables, name="region")
    >>> group = areas.groups[0]
    >>> [(known.row.name, known.values.tolist()) for known in Solved.of(group.pattern).sums(
    ...     group, [*margin("sex").rows(schema), *margin("age").rows(schema)])]
    [('sex=female', [7, 1]), ('sex=male', [11, 5])]
    """

    pattern: Constraints
    members: tuple[tuple[int, ...], ...]
    reduced: Ints
    starts: Ints
    multiples: Ints
    scale: int

    @classmethod
    def of(cls, pattern: Constraints) -> "Solved":
        """Reduce the equalities of a pattern; where the numbers are too large for this, nothing follows."""
        rows = [limited.row for limited in pattern.equalities]
        alike = cells_alike(rows, pattern.schema.n_cells).values()
        loose = (tuple(cell for cell in cells if not pattern.is_fixed(cell)) for cells in alike)
        members = tuple(cells for cells in loose if cells)
        no_lines = np.zeros((0, len(members)), np.int64), np.zeros(0, np.int64), np.zeros((0, len(rows)), np.int64)
        nothing = cls(pattern, members, *no_lines, 1)
        if not rows or not members:
            return nothing
        found = reduced(dense(rows, pattern.schema.n_cells)[:, [cells[0] for cells in members]].tolist())
        entries = (entry for line in (*found.lines, *found.multiples, [found.scale]) for entry in line)
        if not found.lines or max(map(abs, entries)) >= _LARGE:
            return nothing
        lines = np.array(found.lines, np.int64)
        return cls(
            pattern,
            members,
            lines,
            np.argmax(lines != 0, axis=1),
            np.array(found.multiples, np.int64),
            found.scale,
        )

    def sums(self, group: Group, rows: Sequence[Row]) -> list[KnownSum]:
        """Return those of some rows that the equalities and the fixed cells determine, in every area of a group."""
        if not rows:
            return []
        wanted = dense(rows, self.pattern.schema.n_cells)
        firsts = wanted[:, [cells[0] for cells in self.members]]
        loose = [cell for cells in self.members for cell in cells]
        sizes = [len(cells) for cells in self.members]
        is_even = (wanted[:, loose] == np.repeat(firsts, sizes, axis=1)).all(axis=1)
        times = firsts[:, self.starts]
        if np.abs(times).max(initial=0) * np.abs(self.reduced).max(initial=1) * max(1, len(self.reduced)) >= _SAFE:
            return []
        made = np.rint(times.astype(np.float64) @ self.reduced.astype(np.float64)).astype(np.int64)
        chosen = np.flatnonzero(is_even & (made == self.scale * firsts).all(axis=1)).tolist()
        return [KnownSum(rows[number], self._values(group, wanted[number], times[number])) for number in chosen]

    def own_sums(self, group: Group) -> list[KnownSum]:
        """Return the groups of cells whose sum the equalities determine."""
        alone = np.flatnonzero((self.reduced != 0).sum(axis=1) == 1)
        return self.sums(group, [Row.of("", self.members[start]) for start in self.starts[alone].tolist()])

    def _values(self, group: Group, wanted: Ints, times: Ints) -> Ints:
        fixed = np.array(self.pattern.fixed_cells, np.int64)
        amounts = np.array([self.pattern.lower[cell] for cell in fixed.tolist()], group.values.dtype)
        rows = dense([limited.row for limited in self.pattern.equalities], len(wanted))
        left = group.values - rows[:, fixed] @ amounts
        return np.asarray(left @ (times @ self.multiples) // self.scale + wanted[fixed] @ amounts)


def with_sums(group: Group, sums: Sequence[KnownSum]) -> Group:
    """Return a group that states sums which follow as rows of their own: limits of cells are narrowed by them, too."""
    if not sums:
        return group
    stated = tuple(Limited.equal(known.row, int(known.values[0])) for known in sums)
    pattern = replace(group.pattern, rows=(*group.pattern.rows, *stated))
    return Group(pattern, group.places, np.column_stack([group.values, *(known.values for known in sums)]))
