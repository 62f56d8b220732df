"""Parameters of a log-linear model of the cells, given a release: data augmentation over the confidential table.

The model says ``s_i ~ Poisson(exp(x_i . theta))`` with normal priors on theta; given the published totals this is the
multinomial model. The chain alternates between theta given the table and the table given theta and the release.

The table moves by small steps and jumps (see `surrogate`), each chain under the prior that its own theta gives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.areas import Area
from congenial.errors import InferenceError, did_you_mean
from congenial.inference.diagnostics import effective_draws, split_rhat
from congenial.inference.surrogate import Surrogate
from congenial.public_law import PublicLaw
from congenial.randomness import RandomStream, secure_rng

_STEPS_A_CELL = 2  # in a sweep
_THETA_STEPS = 8  # of the random walk, in a sweep
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
                    f"{head}:{tail}" if head else tail: left * right
                    for head, left in product.items()
                    for tail, right in indicators[name].items()
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
        Share of small steps of the tables that the normalisers let through.
    """

    names: tuple[str, ...]
    theta: Floats
    tables: Ints
    acceptance: float

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
    stream, target = rng or secure_rng(), law.target(area, released)
    surrogate = Surrogate.of(target)
    chains = surrogate.start(lambda drawn: drawn.min(axis=1) >= 0, n_chains, stream)
    mode, spread = _laplace(design.matrix, target.centre.astype(np.float64), scale)
    root = np.linalg.cholesky(spread + 1e-12 * np.eye(len(mode)))
    theta = mode + _normals((n_chains, len(mode)), stream) @ root.T
    walk = _Walk(design.matrix, scale, root * (1.7 / np.sqrt(len(mode))))
    each = n_draws // n_chains
    burn_in = int(np.ceil(each * _BURN_IN / (1 - _BURN_IN)))
    n_steps = _STEPS_A_CELL * law.schema.n_cells
    thetas = np.empty((n_chains, each, len(design.names)))
    tables, accepted = np.empty((n_chains, each, law.schema.n_cells), np.int64), 0
    for sweep in range(burn_in + each):
        for _ in range(_THETA_STEPS):
            theta = walk.step(theta, chains.tables, stream)
        log_prior = _Poisson(theta @ design.matrix.T)
        chains, taken = surrogate.step(chains, log_prior, n_steps, stream)
        chains, _ = surrogate.jump(chains, log_prior, stream)
        accepted += int(taken.sum())
        if sweep >= burn_in:
            thetas[:, sweep - burn_in], tables[:, sweep - burn_in] = theta, chains.tables
    return ModelPosterior(design.names, thetas, tables, accepted / (n_chains * (burn_in + each)))


@dataclass(frozen=True)
class _Walk:
    """The random walk of theta given the tables, a line for each chain."""

    matrix: Floats
    scale: Floats
    root: Floats

    def step(self, theta: Floats, tables: Ints, rng: RandomStream) -> Floats:
        """Try one step of each chain, and take it where the model and the prior say so."""
        tried = theta + _normals(theta.shape, rng) @ self.root.T
        gain = self._log_density(tried, tables) - self._log_density(theta, tables)
        taken = np.log(rng.uniforms(len(theta))) < gain
        return np.where(taken[:, None], tried, theta)

    def _log_density(self, theta: Floats, tables: Ints) -> Floats:
        eta = theta @ self.matrix.T
        return np.asarray((tables * eta - np.exp(eta)).sum(axis=1) - ((theta / self.scale) ** 2).sum(axis=1) / 2)


@dataclass(frozen=True)
class _Poisson:
    """The prior of each chain's table: Poisson cells with the log rates (chain, cell) of its theta."""

    log_rates: Floats

    def __call__(self, tables: Ints, of_chain: NDArray[np.intp]) -> Floats:
        from scipy.special import gammaln

        return np.asarray((tables * self.log_rates[of_chain] - gammaln(tables + 1.0)).sum(axis=1))


def _normals(shape: tuple[int, ...], rng: RandomStream) -> Floats:
    from scipy.special import ndtri

    return np.asarray(ndtri(rng.uniforms(int(np.prod(shape))).reshape(shape)))


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
