"""Small steps between tables that keep every published equality."""

from dataclasses import dataclass

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import integer_solutions
from congenial.conditions.rows import Column, columns
from congenial.errors import InferenceError
from congenial.randomness import RandomStream


@dataclass(frozen=True)
class Moves:
    """Steps that keep every equality: each a choice of cells from groups, with the group's weight."""

    circuits: tuple[tuple[tuple[Ints, int], ...], ...]
    n_cells: int

    def draw(self, n: int, rng: RandomStream) -> Ints:
        """Return a random step for each of n tables; its opposite is as likely."""
        step = np.zeros((n, self.n_cells), np.int64)
        signs = 1 - 2 * rng.below(np.full(n, 2))
        which = rng.below(np.full(n, len(self.circuits)))
        for number, circuit in enumerate(self.circuits):
            lines = np.flatnonzero(which == number)
            if lines.size:
                for cells, weight in circuit:
                    picked = cells[rng.below(np.full(lines.size, len(cells)))]
                    np.add.at(step, (lines, picked), signs[lines] * weight)
        return step

    @classmethod
    def of(cls, constraints: Constraints) -> "Moves":
        """Return steps between cells with the same column, and across groups along the equalities' kernel."""
        n_cells = constraints.schema.n_cells
        rows = [one.row for one in constraints.equalities]
        by_column: dict[Column, list[int]] = {}
        for cell, column in enumerate(columns(rows, n_cells)):
            if constraints.lower[cell] is not None and constraints.lower[cell] == constraints.upper[cell]:
                continue
            by_column.setdefault(column, []).append(cell)
        groups = [np.array(cells) for cells in by_column.values()]
        keys = [dict(column) for column in by_column]
        circuits: list[tuple[tuple[Ints, int], ...]] = [((cells, 1), (cells, -1)) for cells in groups if len(cells) > 1]
        equalities = [({g: key[r] for g, key in enumerate(keys) if r in key}, 0) for r in range(len(rows))]
        between = integer_solutions(equalities, len(groups))
        for line in () if between is None else between.basis:
            parts = tuple((groups[g], weight) for g, weight in enumerate(line) if weight)
            circuits += [parts] if parts else []
        if not circuits:
            raise InferenceError("the published numbers leave nothing open: there is no table to infer")
        return cls(tuple(circuits), n_cells)
