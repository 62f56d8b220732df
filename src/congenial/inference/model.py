"""Parameters of a log-linear model of the cells, given a release: data augmentation over the confidential table.

The model says ``s_i ~ Poisson(exp(x_i . theta))`` with normal priors on theta; given the published totals this is the
multinomial model. The chain alternates between theta given the table and the table given theta and the release.

The table moves by the surrogate transition method: some hundred small moves that leave
``f(s) = prior(s | theta) p(t; s)`` invariant, which cost next to nothing, and then one decision by ``c(s) / c(s')``,
the normalisers that make the target ``f / c``. In every sweep a table is also proposed from the exact sampler at the
release, which reaches every table that fits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import InferenceError, did_you_mean
from congenial.inference.moves import Moves
from congenial.public_law import Area, PublicLaw
from congenial.randomness import RandomStream, secure_rng
from congenial.sampling.contraction import messages as exact
from congenial.sampling.target import Target

_SMALL_MOVES = 8  # for each cell and sweep
_THETA_MOVES = 8  # random walks of theta in a sweep
_BURN_IN = 0.25  # of all sweeps
INTERCEPT = "intercept"


@dataclass(frozen=True)
class Design:
    """The columns of a log-linear model, by name: a number for each cell."""

    names: tuple[str, ...]
    matrix: Floats

    @classmethod
    def of(cls, law: PublicLaw, terms: Sequence[str], covariates: Mapping[str, ArrayLike] | None = None) -> "Design":
        """Return an intercept, main effects of dimensions (first level left out), and covariates of the cells.

        Parameters
        ----------
        terms : sequence of str
            Dimensions, or several joined by ``:`` for an interaction.
        covariates : mapping from name to a number for each cell, optional
        """
        schema = law.schema
        names, parts = [INTERCEPT], [np.ones(schema.n_cells)]
        indicators: dict[str, dict[str, Floats]] = {}
        for name in schema.names:
            indicators[name] = {}
            for label in schema.labels(name)[1:]:
                column = np.zeros(schema.n_cells)
                column[schema.cells({name: label})] = 1.0
                indicators[name][f"{name}={label}"] = column
        for term in terms:
            product: dict[str, Floats] = {"": np.ones(schema.n_cells)}
            for name in term.split(":"):
                if name not in indicators:
                    raise InferenceError(f"{name!r} is not a dimension; {did_you_mean(name, schema.names)}")
                product = {
                    f"{head}:{tail}" if head else tail: one * other
                    for head, one in product.items()
                    for tail, other in indicators[name].items()
                }
            names += product
            parts += product.values()
        for name, values in (covariates or {}).items():
            column = np.asarray(values, np.float64).reshape(-1)
            if column.shape != (schema.n_cells,) or not np.all(np.isfinite(column)):
                raise InferenceError(f"covariate {name!r} needs {schema.n_cells} finite numbers, one for each cell")
            names.append(name)
            parts.append(column)
        if len(set(names)) != len(names):
            raise InferenceError("a term or covariate is named twice")
        return cls(tuple(names), np.stack(parts, axis=1))


@dataclass(frozen=True, repr=False)
class ModelPosterior:
    """Draws of the parameters, and of the confidential table, given the release.

    Attributes
    ----------
    names : tuple of str
    theta : array (chain, draw, parameter)
    tables : array (chain, draw, cell)
    acceptance : float
        Share of table moves that the normalisers let through.
    """

    names: tuple[str, ...]
    theta: Floats
    tables: Ints
    acceptance: float

    @cached_property
    def effective_draws(self) -> Floats:
        """Effective number of independent draws of each parameter."""
        return self._diagnose("ess")

    @cached_property
    def split_rhat(self) -> Floats:
        """Split R-hat of each parameter."""
        return self._diagnose("rhat")

    def _diagnose(self, which: str) -> Floats:
        import arviz_stats.base as diagnostics

        measure = getattr(diagnostics.array_stats, which)
        return np.array([float(measure(self.theta[:, :, k])) for k in range(len(self.names))])

    def summary(self, level: float = 0.9) -> list[tuple[str, float, float, float]]:
        """Return each parameter with its mean and the ends of its interval."""
        tail = 100 * (1 - level) / 2
        flat = self.theta.reshape(-1, len(self.names))
        low, high = np.percentile(flat, (tail, 100 - tail), axis=0)
        return list(zip(self.names, flat.mean(axis=0).tolist(), low.tolist(), high.tolist(), strict=True))

    def as_dict(self) -> dict[str, Any]:
        """Return draws as arviz's ``from_dict`` takes them, axes (chain, draw, parameter or cell)."""
        return {"posterior": {"theta": self.theta, "table": self.tables}}

    def to_arviz(self) -> Any:
        """Return the draws as arviz's own object, with named parameters; needs the extra ``arviz``."""
        try:
            from arviz_base import from_dict
        except ImportError:
            raise InferenceError("arviz-base is not installed; pip install congenial[arviz]") from None
        coordinates = {"parameter": list(self.names)}
        return from_dict(self.as_dict(), coords=coordinates, dims={"theta": ["parameter"]})

    def __repr__(self) -> str:
        n_chains, n_draws, _ = self.theta.shape
        lines = [f"log-linear model: {n_chains} chains of {n_draws:,} draws, tables accepted {self.acceptance:.0%}"]
        lines += [
            f"  {name}: {mean:.3g}, 90% interval {low:.3g} to {high:.3g}" for name, mean, low, high in self.summary()
        ]
        return "\n".join(lines)


def log_linear(
    law: PublicLaw,
    area: Area,
    released: Ints,
    design: Design,
    *,
    prior_deviation: float = 3.0,
    n_draws: int = 4_000,
    n_chains: int = 8,
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
    chain = _Chain(law.target(area, released), design, scale, n_chains, rng or secure_rng())
    each = n_draws // n_chains
    burn_in = int(np.ceil(each * _BURN_IN / (1 - _BURN_IN)))
    theta = np.empty((n_chains, each, len(design.names)))
    tables = np.empty((n_chains, each, law.schema.n_cells), np.int64)
    for sweep in range(burn_in + each):
        chain.sweep()
        if sweep >= burn_in:
            theta[:, sweep - burn_in], tables[:, sweep - burn_in] = chain.theta, chain.tables
    return ModelPosterior(design.names, theta, tables, chain.accepted / max(chain.proposed, 1))


class _Chain:
    """Several chains at once, a line each."""

    def __init__(self, target: Target, design: Design, scale: Floats, n_chains: int, rng: RandomStream) -> None:
        self.target, self.design, self.scale, self.rng = target, design, scale, rng
        self.n_chains = n_chains
        self.engine = exact.engine_of(target)
        self.pool = exact.Messages.of(self.engine, target.centre)
        self.tables = self.pool.sample(n_chains, rng)
        self.log_c = exact.log_normalisers(self.engine, self.tables)
        mode, spread = _laplace(design.matrix, target.centre.astype(np.float64), scale)
        self.walk = np.linalg.cholesky(spread + 1e-12 * np.eye(len(mode))) * (1.7 / np.sqrt(len(mode)))
        self.theta = (
            mode + self._normals((n_chains, len(mode))) @ np.linalg.cholesky(spread + 1e-12 * np.eye(len(mode))).T
        )
        self.moves = Moves.of(target.constraints)
        self.accepted = self.proposed = 0

    def _normals(self, shape: tuple[int, ...]) -> Floats:
        from scipy.special import ndtri

        return np.asarray(ndtri(self.rng.uniforms(int(np.prod(shape))).reshape(shape)))

    def sweep(self) -> None:
        """Update theta given the tables, then the tables given theta."""
        for _ in range(_THETA_MOVES):
            self._move_theta()
        log_rates = self.theta @ self.design.matrix.T
        self._move_tables(log_rates)
        self._jump(log_rates)

    def _move_theta(self) -> None:
        tried = self.theta + self._normals(self.theta.shape) @ self.walk.T
        gain = self._log_posterior(tried) - self._log_posterior(self.theta)
        taken = np.log(self.rng.uniforms(self.n_chains)) < gain
        self.theta = np.where(taken[:, None], tried, self.theta)

    def _log_posterior(self, theta: Floats) -> Floats:
        eta = theta @ self.design.matrix.T
        return np.asarray((self.tables * eta - np.exp(eta)).sum(axis=1) - ((theta / self.scale) ** 2).sum(axis=1) / 2)

    def _move_tables(self, log_rates: Floats) -> None:
        """Make small moves that keep f, then let the normalisers decide on all of them together."""
        start = self.tables
        tables = start.copy()
        for _ in range(_SMALL_MOVES * tables.shape[1] // 4):
            self._small_move(tables, log_rates)
        log_c = exact.log_normalisers(self.engine, tables)
        taken = np.log(self.rng.uniforms(self.n_chains)) < self.log_c - log_c
        self._take(tables, log_c, taken)

    def _small_move(self, tables: Ints, log_rates: Floats) -> None:
        step = self.moves.draw(self.n_chains, self.rng)
        tried = tables + step
        inside = np.asarray(self.target.constraints.holds(tried))
        gain = np.full(self.n_chains, -np.inf)
        if inside.any():
            gain[inside] = self._log_f(tried[inside], log_rates[inside]) - self._log_f(
                tables[inside], log_rates[inside]
            )
        taken = np.log(self.rng.uniforms(self.n_chains)) < gain
        tables[taken] = tried[taken]

    def _jump(self, log_rates: Floats) -> None:
        """Propose from the exact sampler at the release: p(t; s) cancels, the model and the normalisers decide."""
        tried = self.pool.sample(self.n_chains, self.rng)
        log_c = exact.log_normalisers(self.engine, tried)
        gain = _log_prior(tried, log_rates) - log_c - _log_prior(self.tables, log_rates) + self.log_c
        self._take(tried, log_c, np.log(self.rng.uniforms(self.n_chains)) < gain, counted=False)

    def _take(self, tables: Ints, log_c: Floats, taken: NDArray[np.bool_], *, counted: bool = True) -> None:
        self.tables = np.where(taken[:, None], tables, self.tables)
        self.log_c = np.where(taken, log_c, self.log_c)
        if counted:
            self.accepted += int(taken.sum())
            self.proposed += self.n_chains

    def _log_f(self, tables: Ints, log_rates: Floats) -> Floats:
        return _log_prior(tables, log_rates) + self.target.log_weight(tables)


def _log_prior(tables: Ints, log_rates: Floats) -> Floats:
    from scipy.special import gammaln

    return np.asarray((tables * log_rates - gammaln(tables + 1.0)).sum(axis=1))


def _laplace(design: Floats, counts: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Return the mode and the spread of theta if the release were the confidential table."""
    theta = np.zeros(design.shape[1])
    theta[0] = np.log(max(counts.mean(), 0.1))
    precision = np.diag(1 / scale**2)
    for _ in range(50):
        rates = np.exp(np.clip(design @ theta, -30, 30))
        hessian = (design.T * rates) @ design + precision
        step = np.linalg.solve(hessian, design.T @ (counts - rates) - theta / scale**2)
        theta = theta + step * min(1.0, 2.0 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-9:
            break
    rates = np.exp(np.clip(design @ theta, -30, 30))
    return np.asarray(theta), np.asarray(np.linalg.inv((design.T * rates) @ design + precision), np.float64)
