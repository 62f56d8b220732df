"""Draws of the confidential table by Markov chains: the exact sampler proposes, or small steps go.

The release t has law ``p(t; s) / c(s)`` given the confidential table s. The weight ``p(t; s)`` is symmetric in t and s,
so the exact sampler centred at t proposes s from it, and a proposal s' replaces s with chance
``min(1, c(s) prior(s') / (c(s') prior(s)))``. Without the normaliser c, tables far from the limits would be favoured.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import InferenceError
from congenial.inference.priors import Prior
from congenial.inference.surrogate import Surrogate
from congenial.randomness import RandomStream
from congenial.sampling.choose import sampler_of
from congenial.sampling.target import Target

_BURN_IN = 100  # proposals; sweeps of small steps need fewer
_STEPS_A_CELL = 8


@dataclass(frozen=True)
class Drawn:
    """Draws of chains (chain, draw, cell), and the share of proposals that were accepted."""

    chains: Ints
    acceptance: float


def by_proposals(target: Target, prior: Prior, n_draws: int, n_chains: int, rng: RandomStream) -> Drawn:
    """Run chains by independent proposals of the exact sampler, for priors that are wide next to the noise."""
    sampler = sampler_of(target)
    each = n_draws // n_chains
    n_proposals = n_chains * (each + _BURN_IN)
    proposals = sampler_of(target.unweighted).at(target.centre).sample(n_proposals, rng)
    log_ratio = prior(proposals) - sampler.log_normalisers(proposals, rng)
    by_chain = log_ratio.reshape(n_chains, -1)
    if not np.isfinite(by_chain[:, :_BURN_IN]).any(axis=1).all():
        raise InferenceError(
            "the prior gives hardly any proposed table a chance: it contradicts the release, or nearly; raise n_draws,"
            " or take a prior that allows tables near the release"
        )
    chains, accepted = [], 0
    coins = np.log(rng.uniforms(n_proposals)).reshape(n_chains, -1)
    for number, (own, own_coins) in enumerate(zip(by_chain, coins, strict=True)):
        picks, n_moves = walk(own, own_coins)
        accepted += n_moves
        chains.append(proposals[number * (each + _BURN_IN) + picks[_BURN_IN:]])
    return Drawn(np.stack(chains), accepted / n_proposals)


def walk(log_ratio: Floats, log_coins: Floats) -> tuple[NDArray[np.intp], int]:
    """Run one chain over its proposals: the place of the current one after each step, and the number of moves."""
    picks = np.empty(len(log_ratio), np.intp)
    here, n_moves = int(np.argmax(np.isfinite(log_ratio))), 0
    ratios, coins = log_ratio.tolist(), log_coins.tolist()
    for step, ratio in enumerate(ratios):
        if coins[step] < ratio - ratios[here]:
            here, n_moves = step, n_moves + 1
        picks[step] = here
    return picks, n_moves


def by_small_steps(target: Target, prior: Prior, n_draws: int, n_chains: int, rng: RandomStream) -> Drawn:
    """Run chains by small steps and jumps (see `surrogate`), for priors that pull far away from the release."""

    def log_prior(tables: Ints, _: NDArray[np.intp]) -> Floats:
        return prior(tables)

    surrogate = Surrogate.of(target)
    chains = surrogate.start(lambda tables: np.isfinite(prior(tables)), n_chains, rng)
    each = n_draws // n_chains
    burn_in = max(_BURN_IN // 4, each // 4)
    n_steps = _STEPS_A_CELL * len(target.centre)
    out, accepted = np.empty((n_chains, each, len(target.centre)), np.int64), 0
    for sweep in range(burn_in + each):
        chains, taken = surrogate.step(chains, log_prior, n_steps, rng)
        chains, _ = surrogate.jump(chains, log_prior, rng)
        accepted += int(taken.sum())
        if sweep >= burn_in:
            out[:, sweep - burn_in] = chains.tables
    return Drawn(out, accepted / (n_chains * (burn_in + each)))
