"""How exact sums tie cells together, as the kernels of the rule *anchored* have it: lists of cells, and a graph."""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.constraints import Constraints
from congenial.rules.kernels_anchored import SumModel
from congenial.rules.sums_and_parts import SumStructure
from congenial.rules.transport import Families


@dataclass(frozen=True, eq=False)
class SumsAsGraph:
    """The exact sums of one kind of conditions.

    Every open cell is in at most one sum of each of two families of disjoint sums: an arc between two nodes.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.schema import Schema
    >>> schema = Schema({"sex": ["female", "male"], "age": ["0-17", "18-64", "65+"]})
    >>> exact = [total(equals=9), total({"sex": "male"}, equals=4), total({"age": ["18-64", "65+"]}, equals=6)]
    >>> graph = SumsAsGraph(Constraints.of(schema, exact))
    >>> graph.why_not, graph.model(np.zeros(6, np.int64)).n_nodes
    (None, 5)
    """

    constraints: Constraints

    @cached_property
    def structure(self) -> SumStructure:
        """The parts of the conditions."""
        return SumStructure.of(self.constraints)

    @cached_property
    def families(self) -> list[Families | None]:
        """Two families of disjoint sums for each part, where there are such."""
        return [Families.of(part) for part in self.structure.parts]

    @property
    def why_not(self) -> str | None:
        """Why the rule does not apply; None if it does."""
        if any(limits.low is None or limits.low < 0 for limits in self.constraints.limits):
            return "a cell may be negative"
        if any(group.is_slack for part in self.structure.parts for group in part.groups):
            return "a sum of cells must lie in a range"
        if any(some is None for some in self.families):
            return (
                "the exact sums are no two families of disjoint sums, as total, women and voting age or two margins are"
            )
        return None

    @cached_property
    def rows(self) -> list[int]:
        """The numbers of the exact sums of open cells, among the rows of the structure."""
        return sorted({row for part in self.structure.parts for row in part.rows})

    def wanted(self, values: Ints) -> Ints:
        """Return what open cells of each exact sum must be (unit, sum), from the values of equalities."""
        return np.ascontiguousarray(self.structure.row_values(values)[:, self.rows])

    @cached_property
    def _groups(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The cells of each group, and the exact sums that they are in."""
        place = {row: number for number, row in enumerate(self.rows)}
        out = []
        for part in self.structure.parts:
            for number, group in enumerate(part.groups):
                rows = [place[row] for row, times in zip(part.rows, part.matrix[:, number], strict=True) if times]
                out.append((group.cells, tuple(sorted(rows))))
        return out

    @cached_property
    def n_groups(self) -> int:
        """Number of groups of cells that are in the same sums; the last is of cells in none."""
        return len(self._groups) + 1

    @cached_property
    def noise_of_groups(self) -> Floats:
        """Return the variance of the sum of each group over that of a cell's noise, given the exact sums; about."""
        out = []
        for part in self.structure.parts:
            line, sizes = part.line, [len(group.cells) for group in part.groups]
            if line is not None:
                steps = line.direction.tolist()
                spread = sum(
                    (Fraction(step * step, size) for step, size in zip(steps, sizes, strict=True)), Fraction(0)
                )
                out += [float(step * step / spread) if step else 0.0 for step in steps]
            else:
                out += [size * part.n_free / len(sizes) for size in sizes]
        return np.array([*out, 0.0])

    def model(self, part_of_cell: Ints) -> SumModel:
        """Return the lists for kernels, with the parts of bands whose sums are anchored."""
        limits, n_cells = self.constraints.limits, len(self.constraints.limits)
        fixed = set(self.structure.fixed)
        rows_of_cell: list[tuple[int, ...]] = [()] * n_cells
        group_of_cell = np.full(n_cells, self.n_groups - 1, np.int64)
        for number, (cells, rows) in enumerate(self._groups):
            for cell in cells:
                rows_of_cell[cell] = rows
                group_of_cell[cell] = number
        tail, head, n_nodes = self._arcs()
        open_cells = [cell for cell in range(n_cells) if cell not in fixed]
        parts = [
            [cell for cell in open_cells if part_of_cell[cell] == number]
            for number in range(int(part_of_cell.max()) + 1)
        ]
        groups_of_row = [
            [g for g, (_, rows) in enumerate(self._groups) if row in rows] for row in range(len(self.rows))
        ]
        flat_parts, first_of_part = _flat(parts)
        flat_rows, first_row = _flat(rows_of_cell)
        flat_groups, first_group = _flat(groups_of_row)
        is_open = np.ones(n_cells, np.bool_)
        is_open[list(fixed)] = False
        return SumModel(
            rows_of_cell=flat_rows,
            first_row=first_row,
            cells_by_part=flat_parts,
            first_of_part=first_of_part,
            tail=tail,
            head=head,
            n_nodes=n_nodes,
            group_of_cell=group_of_cell,
            groups_of_row=flat_groups,
            first_group=first_group,
            is_open=is_open,
            lower=np.array([limited.low or 0 for limited in limits], np.int64),
            upper=np.array([-1 if limited.high is None else limited.high for limited in limits], np.int64),
        )

    def _arcs(self) -> tuple[Ints, Ints, int]:
        """Return the two nodes of each cell, the last one where it is in no sum of a family, and how many there are."""
        n_cells, n_nodes = len(self.constraints.limits), 0
        tail, head = np.full(n_cells, -1, np.int64), np.full(n_cells, -1, np.int64)
        for part, families in zip(self.structure.parts, self.families, strict=True):
            for ends, family in ((tail, families.first), (head, families.second)) if families is not None else ():
                for some in family:
                    for group in some.groups:
                        ends[list(part.groups[group].cells)] = n_nodes
                    n_nodes += 1
        tail[tail < 0] = n_nodes
        head[head < 0] = n_nodes
        return tail, head, n_nodes + 1


def _flat(lists: "list[list[int]] | list[tuple[int, ...]]") -> tuple[Ints, Ints]:
    """Return lists one after the other, and where each begins."""
    starts = np.concatenate([[0], np.cumsum([len(some) for some in lists])]).astype(np.int64)
    return np.array([number for some in lists for number in some], np.int64), starts
