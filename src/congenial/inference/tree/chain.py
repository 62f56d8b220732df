"""One Markov chain of all tables of a tree, given the release: sweeps over leaves, effects and the prior's numbers."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, lgamma, log

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import InferenceError
from congenial.inference.estimates_and_draw_quality import are_poor, effective_draws, end_rank, fewest_draws, split_rhat
from congenial.inference.kernels_random_numbers import RandomBuffer, Words
from congenial.inference.posterior import posterior
from congenial.inference.tree.kernels_effects_and_normalisers import ChildLaws, Spine, TreeState
from congenial.inference.tree.prior_and_child_laws import (
    FIRMNESS,
    SHARES,
    EffectKind,
    TreePrior,
    child_laws,
    log_density,
)
from congenial.inference.tree.prior_check import FitCheck, check_fit, replicated
from congenial.law import PublicLaw
from congenial.progress_and_interrupts import Progress
from congenial.randomness import RandomStream
from congenial.tree.tree_and_zeros import Tree, TreeTables

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
        self._scratch = np.empty(sizes)
        n_effects = prior.shapes.shape[1]
        self._n_words = 2 * sizes * (25 * n_effects + n_cells + 1) + 4_200 * n_cells
        self._buffer = RandomBuffer(rng)
        self.set_top(top)

    @property
    def leaves(self) -> Ints:
        """The tables of leaves (leaf, cell)."""
        return self.state.counts[self.spine.starts[-2] :]

    def set_top(self, top: Ints) -> None:
        """Go to other tables at the top; the sweeps that follow make leaves fit to them."""
        from congenial.inference.tree.kernels_effects_and_normalisers import add_weights
        from congenial.inference.tree.kernels_moves import set_top

        add_weights(self.spine, self.state)
        while not set_top(self.spine, self.state, top, self._scratch, self._buffer.at_least(self._n_words)):
            pass

    def sweep(self) -> None:
        """Draw everything once, each part given the others."""
        from congenial.inference.tree import kernels_effects_and_normalisers as kernels
        from congenial.inference.tree import kernels_moves

        spine, laws, state = self.spine, self.laws, self.state
        n_levels, n_inner = len(spine.starts) - 1, int(spine.starts[-2])
        kernels.refresh(spine, laws, state)
        kernels.add_weights(spine, state)
        self._each(n_inner, 0, lambda *at: kernels.draw_rates(spine, state, *at))
        families = int(spine.starts[-3])
        self._each(n_inner, families, lambda *at: kernels_moves.share_out_again(spine, laws, state, _LOGS, *at))
        for level in range(1, n_levels):
            for kind in self.prior.kinds_at(level):
                self._draw_kind(level, kind)
        share, firmness = self.prior.empty, self.prior.firmness
        self._each(n_inner, families, lambda *at: kernels.draw_empty(spine, state, share, firmness, *at))
        if self.prior.is_learned:
            self._learn_empty()
        if n_levels > 2:
            kernels.add_weights(spine, state)
            kernels.set_shares(spine, state)
            leaves = int(spine.starts[-1])
            first = n_inner + self._n_sweeps % _STRIDE
            self._each(leaves, first, lambda *at: kernels_moves.move_far(spine, laws, state, _LOGS, _STRIDE, *at))
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
            start = kernel(start, self._buffer.at_least(self._n_words))

    def _draw_kind(self, level: int, kind: EffectKind) -> None:
        """Draw the shapes of one kind of effects with the effects summed over, then the effects."""
        from congenial.inference.tree.kernels_effects_and_normalisers import draw_effects, gather

        spine, state = self.spine, self.state
        n_units = int(spine.starts[level + 1] - spine.starts[level])
        columns = slice(kind.first, kind.first + kind.n_labels)
        people, loads = np.empty((n_units, kind.n_labels)), np.empty((n_units, kind.n_labels))
        gather(spine, state, level, kind.columns, kind.first, people, loads)
        if self.prior.is_learned and (self._n_sweeps < _EAGER or self._n_sweeps % 4 == 0):
            self.prior.shapes[level, columns] = self._learn(self.prior.shapes[level, columns], people, loads)
        shapes = self.prior.shapes[level, columns].copy()
        self._each(
            n_units,
            0,
            lambda *at: draw_effects(spine, state, level, self._columns, kind.first, shapes, people, loads, *at),
        )

    def _learn(self, shapes: Floats, people: Floats, loads: Floats) -> Floats:
        """Propose other shapes, once each."""
        from congenial.inference.tree.kernels_effects_and_normalisers import log_likelihood

        out = shapes.copy()
        for column, now in enumerate(shapes.tolist()):
            data = np.ascontiguousarray(people[:, column]), np.ascontiguousarray(loads[:, column])
            chance = self._buffer.rng.uniforms(4)
            step = _STEPS[int(chance[0] * len(_STEPS))]
            normal = np.sqrt(-2 * np.log(chance[1])) * np.cos(2 * np.pi * chance[2])
            then = float(now * exp(step * normal))
            if log_density(then) == -np.inf:
                continue
            ratio = log_density(then) - log_density(now)
            ratio += log_likelihood(*data, then) - log_likelihood(*data, now)
            if log(chance[3]) < ratio:
                out[column] = then
        return out

    def _learn_empty(self) -> None:
        """Draw the share of empty leaves, and how alike families are in it, from a grid."""
        shares = self.state.empty[self.spine.starts[-3] : self.spine.starts[-2]]
        logs, others = float(np.log(shares).sum()), float(np.log1p(-shares).sum())
        a, b = np.outer(SHARES, FIRMNESS), np.outer(1 - SHARES, FIRMNESS)
        density = (a - 1) * logs + (b - 1) * others + len(shares) * _LOG_BETA
        chances = np.exp(density - density.max()).reshape(-1)
        place = int(np.searchsorted(np.cumsum(chances), self._buffer.rng.uniforms(1)[0] * chances.sum()))
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


# A tree and its release as the kernels take them: all units in one list.


def spine_of(law: PublicLaw, release: Sequence[Ints]) -> Spine:
    """Return the list of units with what was released of each (unit, cell), level by level."""
    tree = law.tree
    sizes = [len(codes) for codes in tree.codes]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n_units = int(starts[-1])
    first, end = np.zeros(n_units, np.int64), np.zeros(n_units, np.int64)
    for level, families in enumerate(tree.families):
        units = slice(starts[level], starts[level + 1])
        first[units], end[units] = starts[level + 1] + families.starts[:-1], starts[level + 1] + families.starts[1:]
    first_leaf, end_leaf = np.arange(n_units), np.arange(n_units) + 1
    for level in range(len(sizes) - 2, -1, -1):
        units = slice(starts[level], starts[level + 1])
        first_leaf[units], end_leaf[units] = first_leaf[first[units]], end_leaf[end[units] - 1]
    released = np.concatenate(release).astype(np.int64)
    is_open = np.ones(released.shape, np.bool_)
    if law.zeros.masks:
        is_open = ~np.concatenate(law.zeros.masks)
    n_open = np.zeros(released.shape, np.int64)
    inner = slice(0, starts[-2])
    n_open[inner] = np.add.reduceat(is_open.astype(np.int64), first[inner], axis=0)
    return Spine(
        starts=starts,
        level=np.repeat(np.arange(len(sizes)), sizes),
        parent=np.concatenate(
            [np.full(sizes[0], -1), *(starts[level] + parents for level, parents in enumerate(tree.parents))]
        ),
        first=first,
        end=end,
        first_leaf=first_leaf,
        end_leaf=end_leaf,
        released=released,
        is_open=is_open,
        informs=(n_open >= 2) & (released > 0),
    )


# Draws of all leaves of a tree, from several chains, and how good they are.

_FIRST_BURN, _NEXT_BURN, _THIN = 80, 30, 2
_N_REPLICATES = 8
_MOST_POOR = 0.1  # of the sampled numbers of a level, before a warning
_N_SAMPLED = 40


class PoorChainsWarning(UserWarning):
    """Chains of a tree that do not agree, or have moved too little."""


@dataclass(frozen=True, eq=False)
class TreeDraws:
    """Draws of the confidential leaves given the release. Public: made from the bundle alone.

    Attributes
    ----------
    leaves : array (draw, leaf, cell)
        Chain after chain; every draw adds up to a table that the top may have.
    n_chains : int
    priors : tuple of TreePrior
        What each chain had learned at its end.
    fit : tuple of FitCheck
        The release beside others that the prior would bring about.
    """

    tree: Tree
    leaves: Ints
    n_chains: int
    priors: tuple[TreePrior, ...]
    fit: tuple[FitCheck, ...]

    def of_level(self, level: int, first: int = 0, end: int | None = None) -> Ints:
        """Return the draws (draw, unit, cell) of units of a level, by place: sums of their leaves."""
        stop = len(self.tree.codes[level]) if end is None else end
        bounds = np.arange(first, stop + 1)
        for families in self.tree.families[level:]:
            bounds = families.starts[bounds]
        part = self.leaves[:, bounds[0] : bounds[-1]]
        if level == len(self.tree.levels) - 1:
            return part.astype(np.int64)
        return np.add.reduceat(part, bounds[:-1] - bounds[0], axis=1, dtype=np.int64)

    @cached_property
    def diagnosed(self) -> dict[str, tuple[float, float, float]]:
        """Effective draws (the median), split R-hat (95 % are below) and the share of poor draws, by level.

        Of a sample of units, the total and the largest cell of the level, as far as their draws differ.
        """
        out = {}
        for level, (name, codes) in enumerate(zip(self.tree.levels, self.tree.codes, strict=True)):
            places = np.unique(np.linspace(0, len(codes) - 1, _N_SAMPLED).astype(np.int64))
            tables = np.concatenate([self.of_level(level, place, place + 1) for place in places.tolist()], axis=1)
            values = np.concatenate([tables.sum(axis=2), tables[:, :, tables.sum(axis=(0, 1)).argmax()]], axis=1)
            chains = values.reshape(self.n_chains, -1, values.shape[1]).astype(np.float64)
            moving = chains[:, :, np.ptp(chains, axis=(0, 1)) > 0]
            if moving.shape[2]:
                rhat, effective = split_rhat(moving), effective_draws(moving)
                figures = (np.nanmedian(effective), np.nanquantile(rhat, 0.95), are_poor(effective, rhat).mean())
                out[name] = (float(figures[0]), float(figures[1]), float(figures[2]))
        return out


def draw_tree(
    law: PublicLaw,
    release: TreeTables,
    *,
    n_draws: int,
    n_chains: int,
    rng: RandomStream,
    progress: Progress,
) -> TreeDraws:
    """Return draws of the leaves: the top from its own posterior, everything below it given the top.

    The top has a flat prior: its counts are large beside their noise. That leaves say something about it, too, is left
    out: given what was released of the top, they hardly do.
    """
    if type(n_draws) is not int or type(n_chains) is not int or n_chains < 1 or n_draws < 4 * n_chains:
        raise InferenceError(f"n_draws is a whole number, at least four for each of n_chains, not {n_draws!r}")
    laws, spine = child_laws(law), spine_of(law, release)
    n_each = n_draws // n_chains
    tops = _draw_tops(law, release[0], n_draws, rng)
    prior = TreePrior.of(law.schema, len(law.tree.levels))
    largest = int(release[0].max(initial=0))
    drawn = np.empty((n_each * n_chains, *release[-1].shape), np.uint16 if largest < 1 << 15 else np.int64)
    priors, replicates = [], []
    for number in range(n_chains):
        chain = TreeChain(spine, laws, prior, tops[number * n_each], rng)
        n_burn = _FIRST_BURN if number == 0 else _NEXT_BURN
        for sweep in range(n_burn):
            if sweep % 20 == 0:
                progress(f"chain {number + 1} of {n_chains}, learning the prior", sweep, n_burn)
            chain.sweep()
        for place in range(n_each):
            if place % 20 == 0:
                progress(f"chain {number + 1} of {n_chains}, drawing", place, n_each)
            chain.set_top(tops[number * n_each + place])
            for _ in range(_THIN):
                chain.sweep()
            drawn[number * n_each + place] = chain.leaves
            if (number * n_each + place) % max(1, n_draws // _N_REPLICATES) == 0:
                replicates.append(replicated(law, release, chain, rng))
        priors.append(replace(chain.prior, shapes=chain.prior.shapes.copy()))
        prior = replace(priors[-1], shapes=priors[-1].shapes.copy())
    draws = TreeDraws(law.tree, drawn, n_chains, tuple(priors), check_fit(law.tree, release, replicates))
    _warn(draws)
    return draws


def _draw_tops(law: PublicLaw, released: Ints, n_draws: int, rng: RandomStream) -> Ints:
    """Return tables of the units at the top (draw, unit, cell), each unit's from its own posterior."""
    out = np.empty((n_draws, *released.shape), np.int64)
    for place, area in enumerate(law.areas):
        top = posterior(law, area, released[place], prior="flat", n_draws=max(1000, 4 * n_draws), rng=rng)
        out[:, place] = top.sample(n_draws, rng)
    return out


def _warn(draws: TreeDraws) -> None:
    for level, (effective, rhat, poor) in draws.diagnosed.items():
        if poor > _MOST_POOR:
            warnings.warn(
                f"the draws of {level} are poor for {poor:.0%} of its numbers: {effective:.0f} effective draws of"
                f" {len(draws.leaves):,} for half of them, split R-hat up to {rhat:.2f}; raise n_draws (--draws)",
                PoorChainsWarning,
                stacklevel=3,
            )
    for check in draws.fit:
        if check.is_bad:
            warnings.warn(f"THE PRIOR DOES NOT FIT: {check}", PoorChainsWarning, stacklevel=3)


def ends(ranked: Floats | Ints, level: float) -> tuple[Floats | Ints, Floats | Ints, Floats | Ints]:
    """Return low end, median and high end of draws in ascending order: the equal-tailed interval, by `end_rank`."""
    n = len(ranked)
    check_draws(n, level)
    rank = end_rank(n, level)
    return ranked[rank - 1], ranked[(n - 1) // 2], ranked[n - rank]


def check_draws(n_draws: int, level: float) -> None:
    """Refuse intervals of a level that so many draws say nothing of."""
    if not end_rank(n_draws, level):
        raise InferenceError(
            f"{n_draws:,} draws are too few for {100 * level:.15g} % intervals, which take {fewest_draws(level):,} at"
            " least; raise n_draws (--draws), or lower the level"
        )
