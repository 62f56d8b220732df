"""One Markov chain of all tables of a tree, given the release: sweeps over leaves, effects and the prior's numbers."""

from collections.abc import Callable
from dataclasses import replace
from math import exp, lgamma, log

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.inference.kernels.shapes import Words
from congenial.inference.kernels.tree_shapes import ChildLaws, Spine, TreeState
from congenial.inference.tree.prior import FIRMNESS, SHARES, Kind, TreePrior, log_density
from congenial.inference.word_supply import WordSupply
from congenial.randomness import RandomStream

_STEPS = (0.02, 0.1, 0.5)  # of the logarithm of a shape: a fine one for many units, a long one for few
_EAGER = 80  # sweeps in which the prior is learned all the time
_STRIDE = 2  # one leaf in so many is moved far in a sweep: sums above have many leaves each
_LOGS = np.array([lgamma(n + 1.0) for n in range(1024)])


class TreeChain:
    """A chain, and where it stands. Public: it knows the release, and the tables at the top that it was given.

    Parameters
    ----------
    top : array (unit, cell)
        The tables at the top: leaves add up to them until `set_top` gives others.
    """

    def __init__(self, spine: Spine, laws: ChildLaws, prior: TreePrior, top: Ints, rng: RandomStream) -> None:
        self.spine, self.laws, self.prior = spine, laws, prior
        self.state = _start(spine, prior)
        self._columns = np.stack([kind.columns for kind in prior.kinds])
        self._n_sweeps = 0
        sizes, n_cells = int((spine.end - spine.first).max()), spine.released.shape[1]
        self._room = np.empty(sizes)
        n_effects = prior.shapes.shape[1]
        self._n_words = 2 * sizes * (25 * n_effects + n_cells + 1) + 4_200 * n_cells
        self._supply = WordSupply(rng)
        self.set_top(top)

    @property
    def leaves(self) -> Ints:
        """The tables of leaves (leaf, cell)."""
        return self.state.counts[self.spine.starts[-2] :]

    def set_top(self, top: Ints) -> None:
        """Go to other tables at the top; the sweeps that follow make leaves fit to them."""
        from congenial.inference.kernels.tree_effects import add_weights
        from congenial.inference.kernels.tree_moves import set_top

        add_weights(self.spine, self.state)
        while not set_top(self.spine, self.state, top, self._room, self._supply.at_least(self._n_words)):
            pass

    def sweep(self) -> None:
        """Draw everything once, each part given the others."""
        from congenial.inference.kernels import tree_effects, tree_law, tree_moves

        spine, laws, state = self.spine, self.laws, self.state
        n_levels, n_inner = len(spine.starts) - 1, int(spine.starts[-2])
        tree_law.refresh(spine, laws, state)
        tree_effects.add_weights(spine, state)
        self._each(n_inner, 0, lambda *at: tree_effects.draw_rates(spine, state, *at))
        families = int(spine.starts[-3])
        self._each(n_inner, families, lambda *at: tree_moves.share_out_again(spine, laws, state, _LOGS, *at))
        for level in range(1, n_levels):
            for kind in self.prior.kinds_at(level):
                self._draw_kind(level, kind)
        share, firmness = self.prior.empty, self.prior.firmness
        self._each(n_inner, families, lambda *at: tree_effects.draw_empty(spine, state, share, firmness, *at))
        if self.prior.is_learned:
            self._learn_empty()
        if n_levels > 2:
            tree_effects.add_weights(spine, state)
            tree_effects.set_shares(spine, state)
            leaves = int(spine.starts[-1])
            first = n_inner + self._n_sweeps % _STRIDE
            self._each(leaves, first, lambda *at: tree_moves.move_far(spine, laws, state, _LOGS, _STRIDE, *at))
        self._n_sweeps += 1

    def simulate(self, level: int, out: Ints, kernel: "Callable[..., int]") -> None:
        """Set tables of a level (unit, cell) that the prior brings about, given the present ones of the level above."""
        used = [np.arange(kind.first, kind.first + kind.n_labels) for kind in self.prior.kinds_at(level)]
        uses, shapes = np.concatenate(used), self.prior.shapes[level].copy()
        start = int(self.spine.starts[level - 1])
        self._each(
            int(self.spine.starts[level]),
            start,
            lambda *at: kernel(self.spine, self.state, level, self._columns, uses, shapes, *at, out),
        )

    def _each(self, end: int, start: int, kernel: "Callable[[int, Words], int]") -> None:
        """Run a kernel from a start to the end, with new random words whenever they run short."""
        while start < end:
            start = kernel(start, self._supply.at_least(self._n_words))

    def _draw_kind(self, level: int, kind: Kind) -> None:
        """Draw the shapes of one kind of effects with the effects summed over, then the effects."""
        from congenial.inference.kernels.tree_effects import draw_effects, gather

        spine, state = self.spine, self.state
        n_units, own = int(spine.starts[level + 1] - spine.starts[level]), slice(kind.first, kind.first + kind.n_labels)
        people, loads = np.empty((n_units, kind.n_labels)), np.empty((n_units, kind.n_labels))
        gather(spine, state, level, kind.columns, kind.first, people, loads)
        if self.prior.is_learned and (self._n_sweeps < _EAGER or self._n_sweeps % 4 == 0):
            self.prior.shapes[level, own] = self._learn(self.prior.shapes[level, own], people, loads)
        shapes = self.prior.shapes[level, own].copy()
        self._each(
            n_units,
            0,
            lambda *at: draw_effects(spine, state, level, self._columns, kind.first, shapes, people, loads, *at),
        )

    def _learn(self, shapes: Floats, people: Floats, loads: Floats) -> Floats:
        """Propose other shapes, once each."""
        from congenial.inference.kernels.tree_effects import log_likelihood

        out = shapes.copy()
        for column, now in enumerate(shapes.tolist()):
            own = np.ascontiguousarray(people[:, column]), np.ascontiguousarray(loads[:, column])
            chance = self._supply.rng.uniforms(4)
            step = _STEPS[int(chance[0] * len(_STEPS))]
            normal = np.sqrt(-2 * np.log(chance[1])) * np.cos(2 * np.pi * chance[2])
            then = float(now * exp(step * normal))
            if log_density(then) == -np.inf:
                continue
            ratio = log_density(then) - log_density(now)
            ratio += log_likelihood(*own, then) - log_likelihood(*own, now)
            if log(chance[3]) < ratio:
                out[column] = then
        return out

    def _learn_empty(self) -> None:
        """Draw the share of empty leaves, and how alike families are in it, from a grid."""
        own = self.state.empty[self.spine.starts[-3] : self.spine.starts[-2]]
        logs, others = float(np.log(own).sum()), float(np.log1p(-own).sum())
        a, b = np.outer(SHARES, FIRMNESS), np.outer(1 - SHARES, FIRMNESS)
        density = (a - 1) * logs + (b - 1) * others + len(own) * _LOG_BETA
        chances = np.exp(density - density.max()).reshape(-1)
        place = int(np.searchsorted(np.cumsum(chances), self._supply.rng.uniforms(1)[0] * chances.sum()))
        share, firmness = divmod(min(place, chances.size - 1), FIRMNESS.size)
        self.prior = replace(self.prior, empty=float(SHARES[share]), firmness=float(FIRMNESS[firmness]))


_LOG_BETA = np.array(
    [[lgamma(firm) - lgamma(firm * share) - lgamma(firm * (1 - share)) for firm in FIRMNESS] for share in SHARES]
)


def _start(spine: Spine, prior: TreePrior) -> TreeState:
    """Return a state at the release itself, all effects 1; whoever has nobody begins empty."""
    n_units, n_cells = spine.released.shape
    is_occupied = np.asarray(spine.released.any(axis=1), np.bool_)
    is_occupied[: spine.starts[-2]] = True
    return TreeState(
        counts=spine.released.copy(),
        tilts=np.zeros((n_units, n_cells), np.int64),
        means=np.zeros((n_units, n_cells)),
        variances=np.zeros((n_units, n_cells)),
        is_occupied=is_occupied,
        empty=np.full(n_units, prior.empty),
        effects=np.ones((n_units, prior.shapes.shape[1])),
        weights=spine.is_open.astype(np.float64),
        sums=np.zeros((n_units, n_cells)),
        rates=np.zeros((n_units, n_cells)),
        log_shares=np.zeros((n_units, n_cells)),
    )
