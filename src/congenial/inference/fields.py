"""The smooth field of log rates of one chain: its arrays, and how it moves given tables."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.inference.kernels.shapes import Terms
from congenial.inference.word_supply import WordSupply
from congenial.randomness import RandomStream

_START = 0.7  # of the normals behind scales


@dataclass(eq=False)
class Field:
    """Effects of some tables, and of the profile they share if there is one. It moves, so it is not frozen.

    Attributes
    ----------
    terms : Terms
        With the units of the tables' own scales.
    profile : Terms or None
        The same effects with the units of the common scales.
    """

    terms: Terms
    profile: Terms | None
    is_open: NDArray[np.bool_]
    hyper: Floats
    scales: Floats
    normals: Floats
    effects: Floats
    level: Floats
    eta: Floats
    common_hyper: Floats
    common_scales: Floats
    common_normals: Floats
    common_effects: Floats
    room: Floats

    @classmethod
    def start(
        cls, terms: Terms, profile: Terms | None, counts: Ints, is_open: NDArray[np.bool_], rng: RandomStream
    ) -> "Field":
        """Return a field near nothing at all for some tables (table, cell), moved once."""
        n_tables, n_cells = counts.shape
        n_effects, n_normals = len(terms.scale), int(terms.start[-1]) + n_cells
        shape = terms.shape
        room = int((shape[:, 0] * (shape[:, 3] + shape[:, 2])).max(initial=1))
        hyper = np.full(n_effects, _START)
        units = terms.scale
        own = np.where(terms.is_estimated, units * _START, units)
        shared = (
            np.zeros(n_effects)
            if profile is None
            else np.where(profile.is_estimated, profile.scale * _START, profile.scale)
        )
        return cls(
            terms,
            profile,
            is_open,
            hyper,
            own,
            0.2 * (rng.uniforms(n_tables * n_normals).reshape(n_tables, n_normals) - 0.5),
            np.zeros((n_tables, n_effects, n_cells)),
            np.zeros(n_tables),
            np.zeros((n_tables, n_cells)),
            hyper.copy(),
            shared,
            np.zeros(n_normals),
            np.zeros((n_effects, n_cells)),
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

    def sweep(self, counts: Ints, supply: WordSupply) -> None:
        """Move everything once, given tables (table, cell)."""
        from congenial.inference.kernels.field import sweep_fields
        from congenial.inference.kernels.shared import move_common, move_scales

        done, most = 0, self._most_words
        common = self.common_effects.sum(axis=0)
        while done < len(counts):
            chance = supply.at_least(most)
            done = sweep_fields(
                self.terms,
                self.scales,
                common,
                counts,
                self.is_open,
                self.normals,
                self.effects,
                self.level,
                self.eta,
                self.room,
                most,
                done,
                chance,
            )
        chance = supply.at_least(most)
        move_scales(
            self.terms,
            self.terms.scale,
            counts,
            self.is_open,
            self.hyper,
            self.scales,
            self.normals,
            self.effects,
            self.eta,
            chance,
        )
        if self.profile is not None:
            chance = supply.at_least(most)
            move_common(
                self.profile,
                self.profile.scale,
                counts,
                self.is_open,
                self.scales,
                self.normals,
                self.effects,
                self.eta,
                self.common_hyper,
                self.common_scales,
                self.common_normals,
                self.common_effects,
                self.room,
                chance,
            )
