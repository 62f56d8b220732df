"""What every family of noise keeps, whatever it is: each family's tests inherit it and say their laws."""

from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.arrays import Ints
from congenial.exact import ball, log_of
from congenial.noise import FAMILIES, DiscreteNoise, Noise
from congenial.noise.weight import FLAT

PRECISIONS = (Fraction(1, 50), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(20))


def support(noise: Noise) -> Ints:
    """Return the integers that hold all of the law but what a double cannot see."""
    reach = int(-np.asarray(noise.quantile(1e-300))) if noise.precision < 5 else 40
    return np.arange(-reach, reach + 1)


class FamilyContract:
    """The data that a family must say."""

    @pytest.fixture
    def noise(self) -> Noise:
        raise NotImplementedError

    def test_it_says_what_it_is(self, noise: Noise) -> None:
        assert FAMILIES[noise.family] is type(noise)
        assert noise.title
        assert noise.currency in {"epsilon", "rho"}
        assert noise.exponent in {1, 2}
        assert 0 < noise.least <= noise.precision <= noise.most
        assert noise.is_for_release == (not noise.why_not_released)
        assert noise.is_discrete or not noise.is_for_release  # which doubles come up tells the confidential value

    def test_log_weights_are_multiples_of_the_log_base(self, noise: Noise) -> None:
        """Intervals without a prior, and bounds of tails, rest on weights that are log-concave."""
        u = np.arange(-20, 21)
        power = noise.power(u)
        assert np.allclose(noise.log_weight(u), noise.log_base * power, rtol=1e-14, atol=0)
        assert np.array_equal(power, power[::-1])
        assert power[20:22].tolist() == [0, 1]
        assert np.all(np.diff(power, 2) >= 0)

    def test_the_law_is_symmetric(self, noise: Noise) -> None:
        u = np.arange(0, 30)
        assert np.array_equal(noise.log_pmf(u), noise.log_pmf(-u))
        assert noise.moment(3) == 0

    def test_quantile_is_the_least_value_with_enough_cdf(self, noise: Noise) -> None:
        levels = np.array([1e-12, 0.01, 0.3, 0.5, 0.5000001, 0.77, 0.999, 1 - 1e-9])
        quantile = np.asarray(noise.quantile(levels))
        if not noise.is_discrete:
            assert np.allclose(noise.cdf(quantile), levels, rtol=1e-12)
            return
        assert np.all(noise.cdf(quantile) >= levels)
        assert np.all(noise.cdf(quantile - 1) < levels)
        u = np.arange(-6, 7)
        inner = noise.cdf(u)[noise.cdf(u) < 1]
        assert np.array_equal(noise.quantile(inner), u[: inner.size]) or float(noise.precision) > 2


class DiscreteContract(FamilyContract):
    """What noise on the integers keeps besides: exact weights, exact draws."""

    @pytest.fixture
    def noise(self) -> DiscreteNoise:
        raise NotImplementedError

    def test_pmf_sums_to_one_and_cdf_is_its_sum(self, noise: DiscreteNoise) -> None:
        u = support(noise)
        assert np.isclose(noise.pmf(u).sum(), 1, rtol=1e-13)
        assert np.allclose(noise.cdf(u[0] - 1) + np.cumsum(noise.pmf(u)), noise.cdf(u), rtol=1e-11, atol=1e-300)

    def test_moments_are_those_of_the_pmf(self, noise: DiscreteNoise) -> None:
        u = support(noise).astype(float)
        for order in (0, 2, 4, 6):
            assert np.isclose(float(noise.moment(order)), (u**order * noise.pmf(u)).sum(), rtol=1e-12)

    def test_weights_are_powers_of_the_base(self, noise: DiscreteNoise) -> None:
        """The weight is what samplers see of a noise: exactly the ratios of its probabilities."""
        assert 0 < noise.base < 1
        for u in range(-12, 13):
            power = int(noise.power(np.array([u]))[0])
            assert noise.weight.at(u) == noise.base**power
            log_ratio = float(noise.log_pmf(u) - noise.log_pmf(0))
            assert np.isclose(log_ratio, power * noise.log_base, rtol=1e-12, atol=1e-14)

    def test_what_samplers_take_from_the_weight_agrees_with_it(self, noise: DiscreteNoise) -> None:
        weight, u = noise.weight, range(30)
        exact = [weight.at(v) for v in u]
        with flint.ctx.workprec(300):
            assert all(e.overlaps(ball(w)) for w, e in zip(exact, weight.enclosures(u), strict=True))
            assert all(
                e.overlaps(ball(w / exact[3])) for w, e in zip(exact, weight.enclosures(u, anchor=-3), strict=True)
            )
        assert np.allclose(weight.doubles(29), [float(w) for w in exact], rtol=2**-51, atol=0)
        logs = np.array([log_of(w) for w in exact])
        assert np.allclose(weight.log_at(np.arange(30.0)), logs, rtol=1e-13, atol=0)
        assert np.allclose(weight.log_at(np.arange(30.0), 0.25), logs + 0.25 * np.arange(30), rtol=1e-12, atol=1e-13)
        assert np.allclose([weight.log_ratio(v) for v in u[:-1]], np.diff(logs), rtol=1e-9, atol=1e-12)
        assert weight.ratio is None or all(w == weight.ratio**v for v, w in zip(u, exact, strict=True))
        for nats in (1.0, 30.0, 700.0):
            edge = weight.distance(nats)
            assert np.isclose(weight.log_at(edge), -nats, rtol=1e-9)
        assert (FLAT * weight, FLAT * FLAT) == (weight, FLAT)

    def test_mass_and_moments_of_the_weight_are_bounds(self, noise: DiscreteNoise) -> None:
        """Windows that were too short for the noise would leave out more than is claimed."""
        u, weight = support(noise).astype(float), noise.weight
        log_mass = float(np.log(np.sum(np.exp(noise.log_weight(u)))))
        assert log_mass <= weight.log_mass() + 1e-12 <= log_mass + 1.0
        assert weight.log_mass(3.0) <= np.log(3.0) + 1e-12
        weighted = replace(weight, zero_weight=Fraction(3))
        assert np.isclose(weighted.log_mass(), np.log(np.exp(weight.log_mass()) + 2), rtol=1e-12)
        steepest = min(weight.largest_theta, 2.0 * float(noise.precision) + 1)
        for theta in np.array([0.01, 0.3, 0.7]) * steepest:
            log_moment = float(np.log(np.sum(np.exp(noise.log_pmf(u) + theta * u))))
            assert log_moment <= weight.log_moment(float(theta)) + 1e-9

    def test_base_is_rounded_toward_more_noise(self, noise: DiscreteNoise) -> None:
        """A base below what the precision asks for would cost more than the certificate says."""
        with flint.ctx.workprec(400):
            assert ball(noise.base) >= (-ball(noise.precision / noise.exponent)).exp()

    @pytest.mark.statistical
    def test_exact_draws_have_the_law(self, noise: DiscreteNoise, request: pytest.FixtureRequest) -> None:
        """Defects: a digit with the wrong weight, a sign counted twice at 0, a scale that is off by 5 %."""
        u = support(noise)
        draws = np.asarray(noise.sample(N_DRAWS, own_rng(request))) - u[0]
        assert p_value(draws, noise.pmf(u)) > ALPHA
        if noise.precision < 5:  # at precision 20 nearly every draw is 0, and no number of them tells 20 from 21
            mutant = type(noise)(noise.precision * Fraction(21, 20))
            assert p_value(draws, mutant.pmf(u)) < ALPHA
