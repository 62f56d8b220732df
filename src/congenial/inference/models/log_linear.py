"""Parameters of a log-linear model of the cells, given a release: data augmentation over the confidential table.

The model says ``s_i ~ Poisson(exposure_i exp(x_i . theta))`` with normal priors on theta; given published totals this
is the multinomial model. The chain alternates between theta given the table (`theta_steps`) and the table given theta
and the release: it moves by small steps and jumps (`surrogate`), each chain under the prior that its own theta gives.
"""

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import Area
from congenial.errors import InferenceError, import_extra
from congenial.inference.chains_and_table_moves import Surrogate
from congenial.inference.estimates_and_draw_quality import (
    are_poor,
    check_level,
    effective_draws,
    ends_of_draws,
    split_rhat,
)
from congenial.inference.measured_target import cell_measurements, check_offered, target_of
from congenial.inference.models.design_and_parameter_steps import INTERCEPT, Design, ThetaSteps
from congenial.inference.posterior import PoorProposalWarning, chain_columns, frame, to_arviz
from congenial.law import PublicLaw
from congenial.randomness import RandomStream, secure_rng

if TYPE_CHECKING:
    from congenial.inference.models.goodness_of_fit import ModelTest, TableStatistic

# What a release says of a log-linear model's parameters: draws, their quality, intervals, and the model's fit.


@dataclass(frozen=True, repr=False)
class ModelPosterior:
    """Draws of the parameters, and of the confidential table, given the release.

    Attributes
    ----------
    names : tuple of str
    theta : array (chain, draw, parameter)
    tables : array (chain, draw, cell)
    acceptance : float
        Share of small steps of the tables that the normalisers let through.
    law, area, released, design
        What it was computed from.
    """

    names: tuple[str, ...]
    theta: Floats
    tables: Ints
    acceptance: float
    law: PublicLaw = field(compare=False)
    area: Area
    released: Ints
    design: Design = field(compare=False)

    @cached_property
    def effective_draws(self) -> Floats:
        """Effective number of independent draws of each parameter."""
        return effective_draws(self.theta)

    @cached_property
    def split_rhat(self) -> Floats:
        """Split R-hat of each parameter."""
        return split_rhat(self.theta)

    def summary(self, level: float = 0.9) -> list[tuple[str, float, float, float]]:
        """Return each parameter with its mean and the ends of its interval."""
        check_level(level)
        drawn = self.theta.reshape(-1, len(self.names)).T
        return [
            (name, float(draws.mean()), *ends_of_draws(draws, None, level))
            for name, draws in zip(self.names, drawn, strict=True)
        ]

    def warn_if_poor(self) -> None:
        """Warn where the draws of a parameter are few in effect, or its chains disagree."""
        few, apart = np.nanmin(self.effective_draws), np.nanmax(self.split_rhat)
        if are_poor(few, apart):
            warnings.warn(
                f"the draws of the model are poor: {few:.0f} in effect for the worst parameter, split R-hat"
                f" {apart:.2f}; raise n_draws, or take fewer terms",
                PoorProposalWarning,
                stacklevel=3,
            )

    def goodness_of_fit(
        self,
        statistic: "str | TableStatistic | None" = None,
        *,
        n_replicates: int = 199,
        rng: RandomStream | None = None,
    ) -> "ModelTest":
        """Test whether the confidential table can come from this model, through the release's own law.

        Parameters
        ----------
        statistic : str or function, optional
            Large values speak against the model. Left out, it is the sum of squared deviations from the mean rates,
            each divided by its rate.
        """
        from congenial.inference.models.goodness_of_fit import check_replicates, replicated_test

        check_offered(self.law, "a test by releases of the model's tables")
        stream = rng or secure_rng()
        check_replicates(n_replicates)
        theta, tables = self.theta.reshape(-1, len(self.names)), self.tables.reshape(-1, self.tables.shape[-1])
        picked = np.linspace(0, len(theta) - 1, n_replicates).astype(np.int64)
        rates = np.exp(self.design.log_rates(theta))
        expected = np.maximum(rates.mean(axis=0), 1e-9)

        def deviations(counts: Ints) -> Floats:
            return np.asarray(((counts - expected) ** 2 / expected).sum(axis=1))

        chosen = deviations if statistic is None else statistic
        model = f"log-linear model ({', '.join(self.names)})"
        start = (self.law, self.area, self.released, rates[picked], tables[picked])
        return replicated_test(*start, model, chosen, stream)

    def columns(self) -> dict[str, list[Any]]:
        """Return the parameters by column, with ``.chain``, ``.iteration``, ``.draw`` as R's `posterior` reads them."""
        n_chains, n_draws, _ = self.theta.shape
        flat = self.theta.reshape(-1, len(self.names))
        return {**chain_columns(n_chains, n_draws), **{name: flat[:, k].tolist() for k, name in enumerate(self.names)}}

    def frame(self, backend: str = "pandas") -> Any:
        """Return the columns of `columns` as a pandas, polars or pyarrow table."""
        return frame(self.columns(), backend)

    def as_dict(self) -> dict[str, Any]:
        """Return draws as arviz's ``from_dict`` takes them, axes (chain, draw, parameter or cell)."""
        return {"posterior": {"theta": self.theta, "table": self.tables}}

    def to_arviz(self) -> Any:
        """Return the draws as arviz's own object, with named parameters and cells; needs the extra ``arviz``."""
        cells = [self.law.schema.cell_name(cell) for cell in range(self.law.schema.n_cells)]
        names = {"parameter": list(self.names), "cell": cells}
        return to_arviz(self.as_dict(), names, {"theta": ["parameter"], "table": ["cell"]})

    def __repr__(self) -> str:
        n_chains, n_draws, _ = self.theta.shape
        lines = [f"log-linear model: {n_chains} chains of {n_draws:,} draws, tables accepted {self.acceptance:.0%}"]
        lines += [
            f"  {name}: {mean:.3g}, 90% interval {low:.3g} to {high:.3g}; {few:,.0f} effective draws"
            for (name, mean, low, high), few in zip(self.summary(), self.effective_draws, strict=True)
        ]
        return "\n".join(lines)


_STEPS_A_CELL = 4  # in a sweep
_BURN_IN = 0.25  # of all sweeps


def log_linear(
    law: PublicLaw,
    area: Area,
    released: Ints,
    design: Design,
    *,
    measurements: Ints | None = None,
    prior_deviation: float = 3.0,
    n_draws: int = 4_000,
    n_chains: int = 16,
    rng: RandomStream | None = None,
) -> ModelPosterior:
    """Return the posterior of a log-linear model's parameters.

    Parameters
    ----------
    measurements : array (measured row,), optional
        Of a measured release, what was measured of this area: all that the posterior goes by.
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
    stream, data = rng or secure_rng(), released
    if law.is_measured:
        data = cell_measurements(law, None if measurements is None else measurements[None, :])[0]
    surrogate = Surrogate.of(target_of(law, area, data))
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
    posterior = ModelPosterior(design.names, thetas, tables, acceptance, law, area, released, design)
    posterior.warn_if_poor()
    return posterior


@dataclass(frozen=True)
class _Poisson:
    """The prior of each chain's table: Poisson cells with the log rates (chain, cell) of its theta."""

    log_rates: Floats

    def __call__(self, tables: Ints, of_chain: NDArray[np.intp]) -> Floats:
        gammaln = import_extra("scipy.special", "analysis").gammaln

        return np.asarray((tables * self.log_rates[of_chain] - gammaln(tables + 1.0)).sum(axis=1))
