"""Closed forms: equal noise that sums to zero."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import gamma

import congenial as cg
from agreement import ALPHA, N_DRAWS, ks_p_value, own_rng, p_value
from congenial.errors import SamplingError
from congenial.noise import DoubleGeometric, Laplace
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.study import sum_zero_laws_and_two_bins as closed_form


def law(n_cells: int, counts: list[int], noise: str = "double_geometric", width: int | None = None) -> cg.Law:
    schema = cg.Schema({"bin": [str(i) for i in range(n_cells)]})
    limits = cg.bounds(None) if width is None else cg.bounds(-width, width)
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total(), limits], noise=noise)
    return mechanism.law(cg.Table(schema, counts))


@pytest.mark.statistical
def test_geometric_sum_zero_has_the_enumerated_law(request: pytest.FixtureRequest) -> None:
    """Cut at +-40 the law has all but exp(-40) of its mass. Defect: sizes weighted once instead of squared."""
    boxed = EnumeratedLaw.of(law(3, [2, 1, 0], width=40).target)
    draws = closed_form.sample(law(3, [2, 1, 0]).target, N_DRAWS, own_rng(request)).tables
    assert np.all(draws.sum(axis=1) == 3)
    expected = [float(p) for p in boxed.probabilities]
    assert p_value(boxed.position(np.asarray(draws, np.int64)), expected) > ALPHA
    mutant = closed_form.geometric_sum_zero(DoubleGeometric("11/10"), 3, N_DRAWS, own_rng(request))
    assert p_value(boxed.position(mutant + np.array([2, 1, 0])), expected) < ALPHA


def test_size_law_is_normalised() -> None:
    """The closed form of the normaliser against its series, for several dimensions."""
    for d in (1, 2, 5):
        low, high = closed_form._size_cdf(Fraction(1, 3), d)(80)
        assert all(a <= b for a, b in pairwise(low))
        assert 2**80 - 2 <= high[-1] <= 2**80


@pytest.mark.statistical
def test_two_double_geometric_bins_double_the_precision(request: pytest.FixtureRequest) -> None:
    draws = closed_form.geometric_sum_zero(DoubleGeometric("1/2"), 2, N_DRAWS, own_rng(request))
    u = np.arange(-200, 201)
    assert p_value(draws[:, 0] + 200, DoubleGeometric("1").pmf(u)) > ALPHA
    assert p_value(draws[:, 0] + 200, DoubleGeometric("1/2").pmf(u)) < ALPHA


@pytest.mark.statistical
def test_two_laplace_bins_are_laplace(request: pytest.FixtureRequest) -> None:
    """GM: u ~ Laplace(2 / epsilon) in each bin; given the total, the first is Laplace(1 / epsilon). epsilon = 1."""
    draws = closed_form.laplace_sum_zero(Laplace("1/2"), 2, N_DRAWS, own_rng(request))
    assert np.allclose(draws.sum(axis=1), 0, atol=1e-9)
    assert ks_p_value(draws[:, 0], closed_form.two_bin_law(Laplace("1/2")).cdf(draws[:, 0])) > ALPHA
    assert ks_p_value(draws[:, 0], Laplace("1/2").cdf(draws[:, 0])) < ALPHA


@pytest.mark.statistical
def test_laplace_size_is_gamma(request: pytest.FixtureRequest) -> None:
    """Given a zero sum, half the total deviation of d Laplace variables... is below its gamma-distributed size."""
    d = 4
    draws = closed_form.laplace_sum_zero(Laplace("1"), d, N_DRAWS, own_rng(request))
    # The positive parts total at most N ~ Gamma(2d - 1, 1/2), with equality only when no cell cancels.
    assert np.mean(np.maximum(draws, 0).sum(axis=1)) < gamma(2 * d - 1, scale=0.5).mean()
    # Independent check of the law itself: the density along a line through the centre is exp(-|u|_1).
    near = np.abs(draws).sum(axis=1)
    # |u|_1 of d Laplace variables given sum 0 has density r^(d-2) exp(-r): Gamma(d - 1, 1).
    assert ks_p_value(near, gamma(d - 1).cdf(near)) > ALPHA
    assert ks_p_value(near, gamma(d).cdf(near)) < ALPHA


def test_other_systems_are_refused() -> None:
    with pytest.raises(SamplingError, match="bounds\\(None\\)"):
        closed_form.sample(law(3, [1, 2, 3], width=9).target, 1, cg.replay_rng(1))
    with pytest.raises(SamplingError, match="discrete_gaussian"):
        closed_form.sample(law(3, [1, 2, 3], noise="discrete_gaussian").target, 1, cg.replay_rng(1))


def test_laplace_target_by_closed_form() -> None:
    draws = closed_form.sample(law(3, [1, 2, 3], noise="laplace").target, 10, cg.replay_rng(1))
    assert np.allclose(draws.tables.sum(axis=1), 6)
