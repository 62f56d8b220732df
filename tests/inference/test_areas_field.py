"""Log rates of areas that share a profile: the density of deviations, and moves that keep the prior's joint law."""

import numpy as np
import pytest

import congenial as cg
from agreement import own_rng
from congenial.arrays import Floats, Ints
from congenial.inference.kernels_random_numbers import RandomBuffer
from congenial.inference.models.design_and_parameter_steps import normals
from congenial.inference.smooth import areas as areas_field
from congenial.inference.smooth import kernels_areas as log_rates
from congenial.inference.smooth.areas import N_POWERS, AreasField, Covariance, Deviations
from congenial.inference.smooth.effects import DEVIATIONS, effects, log_widths
from congenial.randomness import RandomStream

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0-17", "18-64", "65+"]})
ORDERED = {"age": (18.0, 47.0, 20.0)}
N_AREAS, LEVEL_DEVIATION = 4, 0.5


def test_covariances_are_those_of_the_effects(request: pytest.FixtureRequest) -> None:
    levels = np.unravel_index(np.arange(SCHEMA.n_cells), SCHEMA.shape)
    covariance, scales = Covariance.of(SCHEMA, ORDERED, DEVIATIONS), own_rng(request).uniforms(8)
    found = np.zeros((6, 6))
    for term, scale in zip(effects(SCHEMA, ORDERED, DEVIATIONS), scales, strict=False):
        sides = [matrix[levels[axis]] for axis, matrix in term.along]
        columns = sides[0] if len(sides) == 1 else np.einsum("ij,ik->ijk", *sides).reshape(6, -1)
        found += scale**2 * columns @ columns.T
    found += (scales[-1] ** 2 + 1e-6) * np.eye(6)
    np.testing.assert_allclose(covariance.at(scales), found, atol=1e-12)


def test_the_density_is_that_of_differences(request: pytest.FixtureRequest) -> None:
    """Differences to the last cell have no level in them; a forgotten level is off by more than the tolerance."""
    rng = own_rng(request)
    root = normals((6, 6), rng)
    covariances = root @ root.T + np.eye(6), 2.0 * np.eye(6) + root @ root.T
    lines = normals((5, 6), rng)
    contrast = np.eye(6)[:5] - np.eye(6)[5]

    def plain(covariance: Floats) -> float:
        own = contrast @ covariance @ contrast.T
        off = lines @ contrast.T
        return float(-2.5 * np.linalg.slogdet(own)[1] - 0.5 * (off * np.linalg.solve(own, off.T).T).sum())

    def mutant(covariance: Floats) -> float:
        return float(
            -2.5 * np.linalg.slogdet(covariance)[1] - 0.5 * (lines * np.linalg.solve(covariance, lines.T).T).sum()
        )

    one, other = (log_rates.log_density(each.copy(), 5, lines, np.empty(12)) for each in covariances)
    assert one - other == pytest.approx(plain(covariances[0]) - plain(covariances[1]), abs=1e-9)
    assert abs(mutant(covariances[0]) - mutant(covariances[1]) - (one - other)) > 1e-3
    precision = Deviations(covariances[0]).precision
    inverse = np.linalg.inv(contrast @ covariances[0] @ contrast.T)
    np.testing.assert_allclose(precision, contrast.T @ inverse @ contrast, atol=1e-9)


def from_the_prior(rng: RandomStream) -> tuple[AreasField, Ints]:
    """Everything drawn from the prior, counts last."""
    sizes = np.array([1, 3, 10, 30])[:, None] * np.ones((N_AREAS, 6), np.int64)
    found = AreasField.start(SCHEMA, ORDERED, sizes, sizes, np.ones((N_AREAS, 6), bool), RandomBuffer(rng))
    n_effects = len(found.hyper)
    found.hyper, found.shared_hyper = normals((n_effects,), rng), normals((N_POWERS, n_effects), rng)
    for power, hyper in enumerate(found.shared_hyper):
        profile = np.linalg.cholesky(found.profile_effects.at(found.profile_effects.scales(hyper))) @ normals((6,), rng)
        found.profiles[power] = profile - profile.mean() + normals((1,), rng)
    found.slope = 0.3 * float(normals((1,), rng)[0])
    found.spread = max(1e-3, 0.3 * abs(float(normals((1,), rng)[0])))
    found.log_width = found.slope * found.log_size + found.spread * normals((N_AREAS,), rng)
    own = normals((N_AREAS, 6), rng) @ np.linalg.cholesky(found.deviations.at(found.scales)).T
    off = log_widths(SCHEMA, ORDERED) + found.powers @ found.profiles + np.exp(found.log_width)[:, None] * own
    level = found.mean_level + LEVEL_DEVIATION * normals((N_AREAS, 1), rng)
    found.eta = off - off.mean(axis=1, keepdims=True) + level
    numbers = np.random.default_rng(int(rng.words(1)[0]))
    return found, numbers.poisson(np.exp(np.minimum(found.eta, 12.0)))


def statistics(found: AreasField) -> Floats:
    off = found.eta - found.eta.mean(axis=1, keepdims=True)
    shape = found.profiles - found.profiles.mean(axis=1, keepdims=True)
    own = [*np.log(found.scales), *np.log(found.profile_effects.scales(found.shared_hyper[0])), *found.log_width]
    levels = found.eta.mean(axis=1) - found.mean_level
    return np.asarray(np.tanh([*off.reshape(-1), *shape.reshape(-1), *own, *levels, found.slope, found.spread]))


def z_scores(n_starts: int, rng: RandomStream, *, is_mutant: bool = False) -> Floats:
    moved = []
    for _ in range(n_starts):
        found, counts = from_the_prior(rng)
        here = statistics(found)
        for _ in range(2):
            found.sweep(counts + 1 if is_mutant else counts)
        moved.append(statistics(found) - here)
    gaps = np.array(moved)
    return np.asarray(gaps.mean(axis=0) / (gaps.std(axis=0) / np.sqrt(n_starts)))


@pytest.mark.statistical
def test_moves_keep_the_joint_law(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """From starts drawn from the prior, on average nothing moves; the mutant counts one more in every cell."""
    monkeypatch.setattr(areas_field, "_LEVEL_DEVIATION", LEVEL_DEVIATION)
    assert np.abs(z_scores(1_000, own_rng(request))).max() < 4.5
    assert np.abs(z_scores(400, own_rng(request), is_mutant=True)).max() > 4.5
