"""Steps of a log-linear model's parameters given the tables: chains of parameters beside chains of tables.

Given a table, parameters are nearly normal around their mode. A proposal from that normal law, which depends on the
table alone, is decided by how far the posterior differs from it; small random steps reach what it leaves out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import import_extra
from congenial.inference.design import Design
from congenial.randomness import RandomStream

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
