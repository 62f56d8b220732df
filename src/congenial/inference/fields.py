"""The smooth field of log rates of one chain: its arrays, and how it moves given tables."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.inference.kernels.shapes import Terms
from congenial.inference.word_supply import WordSupply

_START = 0.7  # of the normals behind scales


@dataclass(eq=False)
class Field:
    """Effects of one table or two, of shared scales. It moves, so it is not frozen."""

    terms: Terms
    supply: WordSupply
    is_open: NDArray[np.bool_]
    hyper: Floats
    scales: Floats
    normals: Floats
    effects: Floats
    level: Floats
    eta: Floats
    room: Floats

    @classmethod
    def start(cls, terms: Terms, counts: Ints, is_open: NDArray[np.bool_], supply: WordSupply) -> "Field":
        """Return a field near nothing at all for some tables (table, cell), moved once."""
        n_tables, n_cells = counts.shape
        n_effects, n_normals = len(terms.scale), int(terms.start[-1]) + n_cells
        shape = terms.shape
        room = int((shape[:, 0] * (shape[:, 3] + shape[:, 2])).max(initial=1))
        hyper = np.full(n_effects, _START)
        units = terms.scale
        own = np.where(terms.is_estimated, units * _START, units)
        return cls(
            terms,
            supply,
            is_open,
            hyper,
            own,
            0.2 * (supply.rng.uniforms(n_tables * n_normals).reshape(n_tables, n_normals) - 0.5),
            np.zeros((n_tables, n_effects, n_cells)),
            np.zeros(n_tables),
            np.zeros((n_tables, n_cells)),
            np.zeros(room),
        ).set_effects()

    def set_effects(self) -> "Field":
        """Compute the effects of the tables from their normals."""
        from congenial.inference.kernels.field import add_effect

        edges = [*self.terms.start.tolist(), self.normals.shape[1]]
        for normals, effects in zip(self.normals, self.effects, strict=True):
            for t, (first, last) in enumerate(pairwise(edges)):
                add_effect(self.terms, t, normals[first:last], self.scales[t], self.room, effects[t])
        return self

    @property
    def _most_words(self) -> int:
        from congenial.inference.kernels.chance import MOST_TRIALS

        n_normals, n_effects = self.normals.shape[1], len(self.scales)
        n_cells = int(self.eta.shape[1])
        return 16 * int(n_normals) + (MOST_TRIALS + 8) * (4 * n_effects + n_cells) + 4 * MOST_TRIALS

    def sweep(self, counts: Ints) -> None:
        """Move everything once, given tables (table, cell)."""
        from congenial.inference.kernels.field import sweep_fields
        from congenial.inference.kernels.scales import move_scales

        done, most = 0, self._most_words
        while done < len(counts):
            done = sweep_fields(
                self.terms,
                self.scales,
                counts,
                self.is_open,
                self.normals,
                self.effects,
                self.level,
                self.eta,
                self.room,
                most,
                done,
                self.supply.at_least(most),
            )
        move_scales(
            self.terms,
            counts,
            self.is_open,
            self.hyper,
            self.scales,
            self.normals,
            self.effects,
            self.eta,
            self.supply.at_least(most),
        )
