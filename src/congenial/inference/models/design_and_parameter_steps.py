"""The columns of a log-linear model: main effects, interactions, covariates, and an exposure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import InferenceError, did_you_mean, import_extra
from congenial.law import PublicLaw
from congenial.randomness import RandomStream

INTERCEPT = "intercept"


@dataclass(frozen=True)
class Design:
    """The columns of a log-linear model, by name: a number for each cell.

    Attributes
    ----------
    matrix : array (cell, column)
    log_exposure : array (cell,)
        Added to every cell's log rate.
    """

    names: tuple[str, ...]
    matrix: Floats
    log_exposure: Floats

    def log_rates(self, theta: Floats) -> Floats:
        """Return the log rate of each cell (..., cell) at parameters (..., column)."""
        return np.asarray(theta @ self.matrix.T + self.log_exposure)

    @classmethod
    def of(
        cls,
        law: PublicLaw,
        terms: Sequence[str],
        covariates: Mapping[str, ArrayLike] | None = None,
        exposure: ArrayLike | None = None,
    ) -> "Design":
        """Return an intercept, main effects of dimensions (first level left out), and covariates of the cells.

        Parameters
        ----------
        terms : sequence of str
            Dimensions, or several joined by ``:`` for an interaction.
        covariates : mapping from name to a number for each cell, optional
        exposure : a positive number for each cell, optional
            Rates are for one unit of it: person-years, or people at risk.
        """
        schema = law.schema
        if isinstance(terms, str):
            raise InferenceError(f'terms are a list, such as ["{terms}"]')
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
            parts_of_term = term.split(":")
            if len(set(parts_of_term)) != len(parts_of_term):
                raise InferenceError(f"the term {term!r} names a dimension twice; name each once, joined by ':'")
            for name in parts_of_term:
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
            names.append(name)
            parts.append(_numbers(values, schema.n_cells, f"covariate {name!r}"))
        if len(set(names)) != len(names):
            raise InferenceError("a term or covariate is named twice")
        size = np.ones(schema.n_cells) if exposure is None else _numbers(exposure, schema.n_cells, "the exposure")
        if not np.all(size > 0):
            raise InferenceError("the exposure is above 0 in every cell; leave cells without any out of the table")
        return cls(tuple(names), np.stack(parts, axis=1), np.log(size))


def _numbers(values: ArrayLike, n_cells: int, what: str) -> Floats:
    column = np.asarray(values, np.float64).reshape(-1)
    if column.shape != (n_cells,) or not np.all(np.isfinite(column)):
        raise InferenceError(f"{what} needs {n_cells} finite numbers, one for each cell")
    return column


# Steps of a log-linear model's parameters given the tables: chains of parameters beside chains of tables.
#
# Given a table, parameters are nearly normal around their mode. A proposal from that normal law, which depends on the
# table alone, is decided by how far the posterior differs from it; small random steps reach what it leaves out.

_ROUNDS = 30
_SMALL_STEPS = 5
_LONGEST = 2.0  # of a change of a parameter in one round


@dataclass(frozen=True)
class ThetaSteps:
    """The posterior of parameters (chain, column) given tables (chain, cell), normal priors with these deviations."""

    design: Design
    scale: Floats

    def step(self, theta: Floats, tables: Ints, rng: RandomStream) -> Floats:
        """Propose from the normal law at the mode, then small random steps."""
        mode, root = self.normal_law(tables)
        tried = mode + _back(root, normals(theta.shape, rng))
        gain = self._log_density(tried, tables) + _distance(root, tried - mode)
        lost = self._log_density(theta, tables) + _distance(root, theta - mode)
        theta = _where(np.log(rng.uniforms(len(theta))) < gain - lost, tried, theta)
        for _ in range(_SMALL_STEPS):
            tried = theta + (1.7 / np.sqrt(theta.shape[1])) * _back(root, normals(theta.shape, rng))
            gain, lost = self._log_density(tried, tables), self._log_density(theta, tables)
            theta = _where(np.log(rng.uniforms(len(theta))) < gain - lost, tried, theta)
        return theta

    def start(self, tables: Ints, rng: RandomStream) -> Floats:
        """Return draws of the normal laws at the modes."""
        mode, root = self.normal_law(tables)
        return mode + _back(root, normals(mode.shape, rng))

    def normal_law(self, tables: Ints) -> tuple[Floats, Floats]:
        """Return the mode of each chain's parameters by Newton's method, and the root of the curvature there."""
        matrix, precision = self.design.matrix, np.diag(1 / self.scale**2)
        counts = tables.astype(np.float64)
        start = np.linalg.lstsq(matrix, (np.log(counts + 0.5) - self.design.log_exposure).T, rcond=None)[0]
        theta = np.clip(start.T, -20.0, 20.0)
        for _ in range(_ROUNDS):
            rates = np.exp(np.clip(self.design.log_rates(theta), -30, 30))
            curvature = np.einsum("ck,kp,kq->cpq", rates, matrix, matrix, optimize=True) + precision
            slope = (counts - rates) @ matrix - theta / self.scale**2
            change = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0]
            largest = np.abs(change).max(axis=1, keepdims=True)
            theta = theta + change * np.minimum(1.0, _LONGEST / np.maximum(largest, 1e-12))
            if largest.max() < 1e-9:
                break
        return np.asarray(theta), np.asarray(np.linalg.cholesky(curvature))

    def _log_density(self, theta: Floats, tables: Ints) -> Floats:
        eta = self.design.log_rates(theta)
        return np.asarray((tables * eta - np.exp(eta)).sum(axis=1) - ((theta / self.scale) ** 2).sum(axis=1) / 2)


def normals(shape: tuple[int, ...], rng: RandomStream) -> Floats:
    """Return standard normal numbers."""
    ndtri = import_extra("scipy.special", "analysis").ndtri

    return np.asarray(ndtri(rng.uniforms(int(np.prod(shape))).reshape(shape)))


def _back(root: Floats, z: Floats) -> Floats:
    """Return a normal step whose precision is ``root root'``."""
    return np.asarray(np.linalg.solve(np.swapaxes(root, 1, 2), z[:, :, None])[:, :, 0])


def _distance(root: Floats, gap: Floats) -> Floats:
    return np.asarray((np.einsum("cpq,cp->cq", root, gap) ** 2).sum(axis=1) / 2)


def _where(taken: NDArray[np.bool_], tried: Floats, theta: Floats) -> Floats:
    return np.where(taken[:, None], tried, theta)
