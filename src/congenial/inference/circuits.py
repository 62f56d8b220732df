"""Small steps between tables that keep every published equality."""

from dataclasses import dataclass

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import integer_solutions
from congenial.errors import InferenceError
from congenial.randomness import RandomStream

Circuit = tuple[tuple[Ints, int], ...]
"""Groups of cells, each with a weight: one cell of every group changes by its weight."""


@dataclass(frozen=True)
class Circuits:
    """The kinds of step that keep every equality."""

    members: tuple[Circuit, ...]
    n_cells: int

    def draw(self, n_tables: int, rng: RandomStream) -> Ints:
        """Return a random step for each of some tables (table, cell); its opposite is as likely."""
        step = np.zeros((n_tables, self.n_cells), np.int64)
        signs = 1 - 2 * rng.below(np.full(n_tables, 2))
        which = rng.below(np.full(n_tables, len(self.members)))
        for number, circuit in enumerate(self.members):
            lines = np.flatnonzero(which == number)
            if lines.size:
                for cells, weight in circuit:
                    picked = cells[rng.below(np.full(lines.size, len(cells)))]
                    np.add.at(step, (lines, picked), signs[lines] * weight)
        return step

    @classmethod
    def of(cls, constraints: Constraints) -> "Circuits":
        """Return steps between cells with the same column, and across groups along the equalities' kernel."""
        stated = set(constraints.fixed_cells)
        free = {column: [cell for cell in cells if cell not in stated] for column, cells in constraints.alike.items()}
        groups = [(dict(column), np.array(cells)) for column, cells in free.items() if cells]
        members: list[Circuit] = [((cells, 1), (cells, -1)) for _, cells in groups if len(cells) > 1]
        n_equalities = len(constraints.equalities)
        homogeneous = [
            ({group: weights[row] for group, (weights, _) in enumerate(groups) if row in weights}, 0)
            for row in range(n_equalities)
        ]
        across = integer_solutions(homogeneous, len(groups))
        if across is not None:
            for line in across.basis:
                circuit = tuple((cells, weight) for (_, cells), weight in zip(groups, line, strict=True) if weight)
                members += [circuit] if circuit else []
        if not members:
            raise InferenceError("the published numbers leave nothing open: there is no table to infer")
        return cls(tuple(members), constraints.schema.n_cells)
