"""Every family keeps the contract; what single families promise besides, and what is refused."""

from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import congenial as cg
from agreement import ALPHA, N_DRAWS, ks_p_value, own_rng, p_value
from congenial.errors import FractionError, NoiseError, SuppressedError
from congenial.exact import ball
from congenial.noise import (
    FAMILIES,
    DiscreteGaussian,
    DiscreteNoise,
    DoubleGeometric,
    Laplace,
    Noise,
    Suppression,
    make_noise,
)
from noise.contract import PRECISIONS, DiscreteContract, FamilyContract

RELEASED = [family(precision) for family in FAMILIES.values() if family.is_discrete for precision in PRECISIONS]
FOR_STUDY = [family(precision) for family in FAMILIES.values() if not family.is_discrete for precision in ("1/2", "3")]


class TestReleased(DiscreteContract):
    @pytest.fixture(params=RELEASED, ids=str)
    def noise(self, request: pytest.FixtureRequest) -> DiscreteNoise:
        noise: DiscreteNoise = request.param
        return noise


class TestForStudy(FamilyContract):
    @pytest.fixture(params=FOR_STUDY, ids=str)
    def noise(self, request: pytest.FixtureRequest) -> Noise:
        noise: Noise = request.param
        return noise


def test_double_geometric_moments_are_exact() -> None:
    noise = DoubleGeometric("1/2")
    a = noise.base
    assert noise.variance == 2 * a / (1 - a) ** 2
    assert noise.moment(4) == 2 * a * (1 + 10 * a + a * a) / (1 - a) ** 4


def test_printed_quantile_is_off_exactly_at_values_of_the_cdf() -> None:
    """GM Appendix B has floor(x) where ceil(x) - 1 is right: one too large where x is an integer."""
    noise, u = DoubleGeometric("1/2"), np.arange(1, 20)
    assert np.array_equal(noise.quantile(noise.cdf(u)), u)
    printed = noise.sample_by_float_inverse(noise.cdf(u))
    assert set((printed - u).tolist()) == {0, 1}
    between = noise.cdf(u) - noise.pmf(u) / 2
    assert np.array_equal(noise.sample_by_float_inverse(between), u)


@given(st.fractions(Fraction(1, 2**40), 700))
@settings(max_examples=200)
def test_base_is_the_next_double_above(precision: Fraction) -> None:
    """Rounded toward more noise, by less than one unit of the last place."""
    base = DoubleGeometric(precision).base
    with flint.ctx.workprec(400):
        wanted = (-ball(precision)).exp()
        assert ball(base) >= wanted
        assert ball(Fraction(np.nextafter(float(base), 0))) < wanted
    if precision / 2 >= DiscreteGaussian.least:
        assert DiscreteGaussian(precision).base == DoubleGeometric(precision / 2).base if precision > 2**-39 else True


@pytest.mark.statistical
def test_a_flat_law_is_drawn_digit_by_digit(request: pytest.FixtureRequest) -> None:
    """At precision 1e-6 a draw is made of twenty binary digits: the parity and every digit must be right."""
    noise = DoubleGeometric("0.000001")
    draws = noise.sample(N_DRAWS, own_rng(request)).astype(np.int64)
    cdf = noise.cdf(draws) - noise.pmf(draws) / 2
    assert ks_p_value(draws.astype(float), cdf) > ALPHA
    a = float(noise.base)
    assert p_value(np.abs(draws) % 2, [(1 + a * a) / (1 + a) ** 2, 2 * a / (1 + a) ** 2]) > ALPHA
    assert ks_p_value(draws.astype(float), DoubleGeometric("0.00000105").cdf(draws)) < ALPHA


@pytest.mark.statistical
def test_laplace_draws_have_the_law(request: pytest.FixtureRequest) -> None:
    draws = Laplace("1/2").sample(N_DRAWS, own_rng(request))
    assert ks_p_value(draws, Laplace("1/2").cdf(draws)) > ALPHA
    assert ks_p_value(draws, Laplace("11/20").cdf(draws)) < ALPHA


def test_float_inverse_has_holes_where_exact_draws_have_none() -> None:
    """At precision 1/1000 the floats nearest 1 skip integers: outcomes of positive probability that cannot come up."""
    noise = DoubleGeometric("1/1000")
    last_uniforms = 1 - (np.arange(2000) + 0.5) * 2.0**-52
    reached = set(noise.sample_by_float_inverse(last_uniforms).tolist())
    window = range(min(reached), max(reached) + 1)
    missing = [u for u in window if u not in reached]
    assert len(missing) > len(window) / 2
    assert noise.pmf(missing).min() > 0
    largest = max(reached)  # and nothing beyond it, where the law still has mass
    assert largest < 38_000
    assert noise.pmf(largest + 1) > 0


def test_holes_tell_neighbours_apart() -> None:
    """Why the float version is never released: an output that one table can give and its neighbour cannot."""
    noise = DoubleGeometric("1/1000")
    uniforms = 1 - (np.arange(2000) + 0.5) * 2.0**-52
    of_table = set((100 + noise.sample_by_float_inverse(uniforms)).tolist())
    of_neighbour = set((101 + noise.sample_by_float_inverse(uniforms)).tolist())
    assert of_table - of_neighbour


@pytest.mark.parametrize("family", FAMILIES)
def test_precision_zero_is_suppression(family: str) -> None:
    noise = make_noise(family, "0")
    assert isinstance(noise, Suppression)
    assert "nothing but the invariants" in repr(noise)
    with pytest.raises(SuppressedError, match="nothing but the invariants"):
        noise.sample(1, cg.replay_rng(1))


@pytest.mark.parametrize(
    ("family", "precision", "words"),
    [
        ("double_geometric", "-1", "not be negative"),
        ("double_geometric", "701", "outside"),
        ("double_geometric", Fraction(1, 2**41), "outside"),
        ("discrete_gaussian", "1/1000000000", "outside"),
        ("double_geometric", 0.5, 'write "0.5"'),
        ("gauss", "1", "not known"),
        ("laplacian", "1", "did you mean 'laplace'"),
    ],
)
def test_bad_noise_is_named(family: str, precision: object, words: str) -> None:
    with pytest.raises((NoiseError, FractionError), match=words):
        make_noise(family, precision)


def test_bad_arguments_are_named() -> None:
    noise = DoubleGeometric("1")
    with pytest.raises(NoiseError, match="whole numbers"):
        noise.pmf([0.5])
    with pytest.raises(NoiseError, match="between 0 and 1"):
        noise.quantile([0.0])
    with pytest.raises(NoiseError, match="order"):
        noise.moment(-2)
    with pytest.raises(NoiseError, match="suppression"):
        DoubleGeometric(Fraction(0))


def test_continuous_noise_has_no_base() -> None:
    with pytest.raises(NoiseError, match="not on the integers"):
        _ = Laplace("1").base


@pytest.mark.parametrize("family", FAMILIES.values())
def test_weights_fall_with_the_power_that_certificates_go_by(family: type[Noise]) -> None:
    u = np.arange(-20, 21)
    assert np.array_equal(family(1).power(u), np.abs(u) ** family.exponent)
