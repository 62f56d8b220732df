"""Parameters of a log-linear model of the cells, given a release: data augmentation over the confidential table.

The model says ``s_i ~ Poisson(exposure_i exp(x_i . theta))`` with normal priors on theta; given published totals this
is the multinomial model. The chain alternates between theta given the table (`theta_steps`) and the table given theta
and the release: it moves by small steps and jumps (`surrogate`), each chain under the prior that its own theta gives.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.areas import Area
from congenial.errors import InferenceError, import_extra
from congenial.inference.design import INTERCEPT, Design
from congenial.inference.model_posterior import ModelPosterior
from congenial.inference.surrogate import Surrogate
from congenial.inference.theta_steps import ThetaSteps
from congenial.public_law import PublicLaw
from congenial.randomness import RandomStream, secure_rng

_STEPS_A_CELL = 4  # in a sweep
_BURN_IN = 0.25  # of all sweeps


def log_linear(
    law: PublicLaw,
    area: Area,
    released: Ints,
    design: Design,
    *,
    prior_deviation: float = 3.0,
    n_draws: int = 4_000,
    n_chains: int = 16,
    rng: RandomStream | None = None,
) -> ModelPosterior:
    """Return the posterior of a log-linear model's parameters.

    Parameters
    ----------
    prior_deviation : float
        Standard deviation of the normal prior of each parameter; the intercept's is ten.
    n_draws : int
        Draws in all chains together, after burn-in.
    """
    if not prior_deviation > 0:
        raise InferenceError(f"prior_deviation must be above 0, and it is {prior_deviation}")
    if type(n_draws) is not int or type(n_chains) is not int or n_chains < 2 or n_draws < 10 * n_chains:
        raise InferenceError("n_chains is at least 2, and n_draws at least ten for each chain")
    scale = np.full(len(design.names), float(prior_deviation))
    scale[[name == INTERCEPT for name in design.names]] = 10.0
    stream, target = rng or secure_rng(), law.target(area, released)
    surrogate = Surrogate.of(target)
    chains = surrogate.start(lambda drawn: drawn.min(axis=1) >= 0, n_chains, stream)
    steps = ThetaSteps(design, scale)
    theta = steps.start(chains.tables, stream)
    each = n_draws // n_chains
    burn_in = int(np.ceil(each * _BURN_IN / (1 - _BURN_IN)))
    n_steps = _STEPS_A_CELL * law.schema.n_cells
    thetas = np.empty((n_chains, each, len(design.names)))
    tables, accepted = np.empty((n_chains, each, law.schema.n_cells), np.int64), 0
    for sweep in range(burn_in + each):
        theta = steps.step(theta, chains.tables, stream)
        log_prior = _Poisson(design.log_rates(theta))
        chains, taken = surrogate.step(chains, log_prior, n_steps, stream)
        chains, _ = surrogate.jump(chains, log_prior, stream)
        accepted += int(taken.sum())
        if sweep >= burn_in:
            thetas[:, sweep - burn_in], tables[:, sweep - burn_in] = theta, chains.tables
    acceptance = accepted / (n_chains * (burn_in + each))
    found = ModelPosterior(design.names, thetas, tables, acceptance, law, area, released, design)
    found.warn_if_poor()
    return found


@dataclass(frozen=True)
class _Poisson:
    """The prior of each chain's table: Poisson cells with the log rates (chain, cell) of its theta."""

    log_rates: Floats

    def __call__(self, tables: Ints, of_chain: NDArray[np.intp]) -> Floats:
        gammaln = import_extra("scipy.special", "analysis").gammaln

        return np.asarray((tables * self.log_rates[of_chain] - gammaln(tables + 1.0)).sum(axis=1))
