"""Tables from a Poisson model that obey the published numbers: what the confidential table could have been.

Cells are Poisson with given rates. Given the sums of groups of cells that the published numbers cannot tell apart,
cells of a group are multinomial; a chain moves the sums of groups along what the published numbers leave free.
"""

from dataclasses import dataclass

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.lattice import integer_solutions
from congenial.errors import InferenceError, import_extra
from congenial.randomness import RandomStream

_STEPS = 1_500  # of the chain of groups' sums
_AT_ONCE = 100  # steps whose random numbers are drawn together: a call costs more than they do
_TRIES = 200


@dataclass(frozen=True)
class NullTables:
    """What is drawn: groups of cells, and the ways in which their sums can move.

    Attributes
    ----------
    alone : array of int
        Cells in no published sum.
    groups : tuple of arrays of int
        Cells alike; those with one stated value are left out.
    moves : array (move, group)
        Changes of the groups' sums that keep every published sum.
    """

    constraints: Constraints
    alone: Ints
    groups: tuple[Ints, ...]
    moves: Ints

    @classmethod
    def of(cls, constraints: Constraints) -> "NullTables":
        """Prepare draws for what one table obeys."""
        fixed = set(constraints.fixed_cells)
        free = {column: [cell for cell in cells if cell not in fixed] for column, cells in constraints.alike.items()}
        alone = np.array(free.pop((), []), np.int64)
        kept = [(dict(column), np.array(cells, np.int64)) for column, cells in free.items() if cells]
        rows = [
            ({group: weights[row] for group, (weights, _) in enumerate(kept) if row in weights}, 0)
            for row in range(len(constraints.equalities))
        ]
        found = integer_solutions(rows, len(kept))
        basis = () if found is None else tuple(line for line in found.basis if any(line))
        return cls(
            constraints, alone, tuple(cells for _, cells in kept), np.array(basis, np.int64).reshape(-1, len(kept))
        )

    def draw(self, rates: Floats, start: Ints, rng: RandomStream) -> Ints:
        """Return a table for each line of rates (table, cell), starting from tables that obey the published numbers."""
        out = start.copy()
        waiting = np.arange(len(start))
        for _ in range(_TRIES):
            out[waiting] = self._drawn(rates[waiting], start[waiting], rng)
            waiting = waiting[~np.asarray(self.constraints.holds(out[waiting]))]
            if not waiting.size:
                return out
        raise InferenceError(
            "the model hardly ever gives a table within the stated limits and ranges; try another model"
        )

    def _drawn(self, rates: Floats, start: Ints, rng: RandomStream) -> Ints:
        stats = import_extra("scipy.stats", "analysis")

        out = start.copy()
        for cell in self.alone:
            out[:, cell] = stats.poisson.ppf(rng.uniforms(len(out)), rates[:, cell])
        for cells, total in zip(self.groups, self._sums(rates, start, rng).T, strict=True):
            own = rates[:, cells]
            behind = np.cumsum(own[:, ::-1], axis=1)[:, ::-1]
            left = total.copy()
            for place, cell in enumerate(cells[:-1]):
                share = np.clip(own[:, place] / behind[:, place], 0, 1)
                out[:, cell] = stats.binom.ppf(rng.uniforms(len(out)), left, share)
                left -= out[:, cell]
            out[:, cells[-1]] = left
        return out

    def _sums(self, rates: Floats, start: Ints, rng: RandomStream) -> Ints:
        """Move the sums of groups, which are Poisson too, by random steps of a size that fits them."""
        gammaln = import_extra("scipy.special", "analysis").gammaln

        sums = np.stack([start[:, cells].sum(axis=1) for cells in self.groups], axis=1) if self.groups else start[:, :0]
        if not len(self.moves):
            return sums
        log_rates = np.log(np.stack([rates[:, cells].sum(axis=1) for cells in self.groups], axis=1))
        n_lines, n_moves = len(sums), len(self.moves)
        longest = 1 + int(np.sqrt(sums.max(initial=1)) / 2)

        def log_density(values: Ints) -> Floats:
            return np.asarray((values * log_rates - gammaln(values + 1.0)).sum(axis=1))

        here = log_density(sums)
        for first in range(0, _STEPS, _AT_ONCE):
            shape = min(_AT_ONCE, _STEPS - first), n_lines
            size = (1 + rng.below(np.full(shape, longest))) * (1 - 2 * rng.below(np.full(shape, 2)))
            steps = size[:, :, None] * self.moves[rng.below(np.full(shape, n_moves))]
            coins = np.log(rng.uniforms(size.size)).reshape(shape)
            for step, coin in zip(steps, coins, strict=True):
                tried = sums + step
                is_count = (tried >= 0).all(axis=1)
                there = np.where(is_count, log_density(np.maximum(tried, 0)), -np.inf)
                taken = coin < there - here
                sums, here = np.where(taken[:, None], tried, sums), np.where(taken, there, here)
        return sums
