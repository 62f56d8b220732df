"""Tables of many chains under any prior: the surrogate transition method, with the exact sampler for long jumps.

The confidential table s has posterior ``f(s) / c(s)``, where ``f(s) = prior(s) p(t; s)`` costs next to nothing and the
normaliser ``c(s)`` a forward pass of the exact sampler. A kernel of many small steps leaves f invariant and is
reversible; its end s' then replaces s with chance ``min(1, c(s) / c(s'))``, one decision on all steps together, which
leaves ``f / c`` invariant. A jump proposes s' from the exact sampler centred at the release, that is from ``p(t; s')``:
``prior / c`` decides on it. Jumps reach every table that fits.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import InferenceError
from congenial.inference.circuits import Circuits
from congenial.noise import Noise
from congenial.randomness import RandomStream
from congenial.sampling.choose import sampler_of
from congenial.sampling.sampler import Drawer, Sampler
from congenial.sampling.target import Target

_STARTS = 100  # draws for each chain, among which a start is looked for

LogPrior = Callable[[Ints, NDArray[np.intp]], Floats]
"""Log densities of tables (table, cell), given the number of the chain that each belongs to: priors may differ."""


@dataclass(frozen=True)
class Chains:
    """Where the chains stand: their tables (chain, cell), and ``log c`` of each (chain,), or what stands in for it.

    An estimate is kept as long as its table is (the pseudo-marginal method): then chains have the exact law.
    """

    tables: Ints
    log_normalisers: Floats

    def where(self, taken: NDArray[np.bool_], tried: "Chains") -> "Chains":
        """Return the chains after those that took what they tried have moved."""
        return Chains(
            np.where(taken[:, None], tried.tables, self.tables),
            np.where(taken, tried.log_normalisers, self.log_normalisers),
        )


@dataclass(frozen=True)
class Surrogate:
    """Moves of chains that leave the posterior of one release invariant.

    Attributes
    ----------
    target : Target
        The law of the noise, centred at the release.
    sampler : Sampler
        Of the same law, wherever it is centred.
    at_release : Drawer
        The sampler of the noise alone at the release: it proposes the jumps.
    log_weight : function
        ``log p(t; s)`` of tables s (table, cell).
    """

    target: Target
    sampler: Sampler
    at_release: Drawer
    circuits: Circuits
    log_weight: Callable[[Ints], Floats]

    @classmethod
    def of(cls, target: Target) -> "Surrogate":
        """Prepare the moves for the law centred at a release."""
        circuits = Circuits.of(target.constraints)
        noise = target.unweighted
        at_release = sampler_of(noise).at(target.centre)
        return cls(target, sampler_of(target), at_release, circuits, _log_weight(noise))

    def at(self, tables: Ints, rng: RandomStream) -> Chains:
        """Return chains that stand at given tables (chain, cell)."""
        return Chains(tables, self.sampler.log_normalisers(tables, rng))

    def start(self, is_possible: Callable[[Ints], NDArray[np.bool_]], n_chains: int, rng: RandomStream) -> Chains:
        """Return chains at draws of the exact sampler, those that the prior gives a chance."""
        drawn = self.at_release.sample(_STARTS * n_chains, rng)
        possible = drawn[is_possible(drawn)]
        if len(possible) < n_chains:
            raise InferenceError(
                "the prior gives hardly any proposed table a chance: it contradicts the release, or nearly; take a"
                " prior that allows tables near the release"
            )
        return self.at(possible[:n_chains], rng)

    def step(
        self, chains: Chains, log_prior: LogPrior, n_steps: int, rng: RandomStream
    ) -> tuple[Chains, NDArray[np.bool_]]:
        """Take small steps that leave f invariant, then let the normalisers decide; say which chains moved on."""
        tried = self.at(self._small_steps(chains.tables, log_prior, n_steps, rng), rng)
        taken = _log_coins(chains, rng) < chains.log_normalisers - tried.log_normalisers
        return chains.where(taken, tried), taken

    def jump(self, chains: Chains, log_prior: LogPrior, rng: RandomStream) -> tuple[Chains, NDArray[np.bool_]]:
        """Propose tables of the exact sampler at the release: the prior and the normalisers decide."""
        every = np.arange(len(chains.tables))
        tried = self.at(self.at_release.sample(len(every), rng), rng)
        gain = log_prior(tried.tables, every) - log_prior(chains.tables, every)
        taken = _log_coins(chains, rng) < gain + chains.log_normalisers - tried.log_normalisers
        return chains.where(taken, tried), taken

    def _small_steps(self, start: Ints, log_prior: LogPrior, n_steps: int, rng: RandomStream) -> Ints:
        tables, every = start.copy(), np.arange(len(start))
        log_f = log_prior(tables, every) + self.log_weight(tables)
        for _ in range(n_steps):
            tried = tables + self.circuits.draw(len(tables), rng)
            inside = np.flatnonzero(self.target.constraints.holds(tried))
            tried_f = np.full(len(tables), -np.inf)
            if inside.size:
                tried_f[inside] = log_prior(tried[inside], inside) + self.log_weight(tried[inside])
            taken = np.log(rng.uniforms(len(tables))) < tried_f - log_f
            tables[taken], log_f = tried[taken], np.where(taken, tried_f, log_f)
        return tables


def _log_coins(chains: Chains, rng: RandomStream) -> Floats:
    return np.asarray(np.log(rng.uniforms(len(chains.tables))))


def _log_weight(target: Target) -> Callable[[Ints], Floats]:
    """Return ``log p(t; s)`` as a function of tables s; where cells alone are measured, noise by noise and not by row.

    The cells of a table mostly share one noise, and every small step asks.
    """
    of_noise: dict[Noise, list[int]] = {}
    for measured in target.measured:
        if measured.cell is None:
            return target.log_weight
        of_noise.setdefault(measured.noise, []).append(measured.cell)
    groups = [(noise, np.array(cells)) for noise, cells in of_noise.items()]

    def log_weight(tables: Ints) -> Floats:
        out = np.zeros(len(tables))
        for noise, cells in groups:
            out += noise.log_weight(tables[:, cells] - target.centre[cells]).sum(axis=1)
        return out

    return log_weight
