"""Laws of noise: pmf, cdf, quantile and moments agree; draws agree with the law; the base is rounded up."""

from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import congenial as cg
from agreement import ALPHA, N_DRAWS, ks_p_value, own_rng, p_value
from congenial.balls import ball
from congenial.errors import FractionError, NoiseError, SuppressedError
from congenial.noise import DiscreteGaussian, DiscreteNoise, DoubleGeometric, Laplace, Noise, Suppression, make_noise

DISCRETE: list[DiscreteNoise] = [
    kind(precision)
    for kind in (DoubleGeometric, DiscreteGaussian)
    for precision in (Fraction(1, 50), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(20))
]
NOISES: list[Noise] = [*DISCRETE, Laplace("1/2"), Laplace("3")]


def support(noise: DiscreteNoise) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    reach = int(-noise.quantile(1e-300)) if noise.precision < 5 else 40
    return np.arange(-reach, reach + 1)


@pytest.mark.parametrize("noise", DISCRETE, ids=str)
def test_pmf_sums_to_one_and_cdf_is_its_sum(noise: DiscreteNoise) -> None:
    u = support(noise)
    assert np.isclose(noise.pmf(u).sum(), 1, rtol=1e-13)
    assert np.allclose(noise.cdf(u[0] - 1) + np.cumsum(noise.pmf(u)), noise.cdf(u), rtol=1e-11, atol=1e-300)


@pytest.mark.parametrize("noise", DISCRETE, ids=str)
def test_moments_are_those_of_the_pmf(noise: DiscreteNoise) -> None:
    u = support(noise).astype(float)
    for order in (0, 2, 4, 6):
        assert np.isclose(float(noise.moment(order)), (u**order * noise.pmf(u)).sum(), rtol=1e-12)
    assert noise.moment(3) == 0


def test_double_geometric_moments_are_exact() -> None:
    noise = DoubleGeometric("1/2")
    a = noise.base
    assert noise.variance == 2 * a / (1 - a) ** 2
    assert noise.moment(4) == 2 * a * (1 + 10 * a + a * a) / (1 - a) ** 4


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_quantile_is_the_least_value_with_enough_cdf(noise: Noise) -> None:
    levels = np.array([1e-12, 0.01, 0.3, 0.5, 0.5000001, 0.77, 0.999, 1 - 1e-9])
    q = np.asarray(noise.quantile(levels))
    if noise.is_discrete:
        assert np.all(noise.cdf(q) >= levels)
        assert np.all(noise.cdf(q - 1) < levels)
        u = np.arange(-6, 7)
        inner = noise.cdf(u)[noise.cdf(u) < 1]
        assert np.array_equal(noise.quantile(inner), u[: inner.size]) or float(noise.precision) > 2
    else:
        assert np.allclose(noise.cdf(q), levels, rtol=1e-12)


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
@pytest.mark.parametrize("noise", [n for n in DISCRETE if n.precision < 5], ids=str)
def test_exact_draws_have_the_law(noise: DiscreteNoise, request: pytest.FixtureRequest) -> None:
    """Defects: a digit with the wrong weight, a sign counted twice at 0, a scale that is off by 5 %."""
    u = support(noise)
    draws = noise.sample(N_DRAWS, own_rng(request))
    assert p_value(np.asarray(draws) - u[0], noise.pmf(u)) > ALPHA
    mutant = type(noise)(noise.precision * Fraction(21, 20))
    assert p_value(np.asarray(draws) - u[0], mutant.pmf(u)) < ALPHA


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


@pytest.mark.parametrize("family", ["double_geometric", "discrete_gaussian", "laplace"])
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
