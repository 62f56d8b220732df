"""Draws of all leaves of a tree, from several chains, and how good they are."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import InferenceError
from congenial.hierarchy.law import ChainLaw
from congenial.hierarchy.tree import Tree, TreeTables
from congenial.inference.diagnostics import are_poor, effective_draws, split_rhat
from congenial.inference.intervals import end_rank, fewest_draws
from congenial.inference.posterior import posterior
from congenial.inference.tree.chain import TreeChain
from congenial.inference.tree.family_law import child_laws
from congenial.inference.tree.fit import FitCheck, check_fit, replicated
from congenial.inference.tree.prior import TreePrior
from congenial.inference.tree.spine import spine_of
from congenial.progress import Progress
from congenial.randomness import RandomStream

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
    law: ChainLaw,
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
    prior = TreePrior.of(law.top.schema, len(law.tree.levels))
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
    found = TreeDraws(law.tree, drawn, n_chains, tuple(priors), check_fit(law.tree, release, replicates))
    _warn(found)
    return found


def _draw_tops(law: ChainLaw, released: Ints, n_draws: int, rng: RandomStream) -> Ints:
    """Return tables of the units at the top (draw, unit, cell), each unit's from its own posterior."""
    out = np.empty((n_draws, *released.shape), np.int64)
    for place, area in enumerate(law.areas):
        found = posterior(law.top, area, released[place], prior="flat", n_draws=max(1000, 4 * n_draws), rng=rng)
        if found.weights is None:
            chosen = np.linspace(0, len(found.tables) - 1, n_draws).astype(np.int64)
        else:
            total = np.cumsum(found.weights)
            chosen = np.minimum(np.searchsorted(total, rng.uniforms(n_draws) * total[-1]), len(total) - 1)
        out[:, place] = found.tables[chosen]
    return out


def _warn(found: TreeDraws) -> None:
    for level, (effective, rhat, poor) in found.diagnosed.items():
        if poor > _MOST_POOR:
            warnings.warn(
                f"the draws of {level} are poor for {poor:.0%} of its numbers: {effective:.0f} effective draws of"
                f" {len(found.leaves):,} for half of them, split R-hat up to {rhat:.2f}; raise n_draws (--draws)",
                PoorChainsWarning,
                stacklevel=3,
            )
    for check in found.fit:
        if check.is_bad:
            warnings.warn(f"THE PRIOR DOES NOT FIT: {check}", PoorChainsWarning, stacklevel=3)


def sorted_draws(draws: Ints) -> Ints:
    """Return each quantity's draws in ascending order; the draw is the first axis."""
    return np.sort(draws, axis=0)


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
