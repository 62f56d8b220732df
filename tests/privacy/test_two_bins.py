"""GM's two-bin example against integrals, convolutions, exact arithmetic and their Appendix A."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from scipy.integrate import quad

from congenial.errors import ConditionError, FractionError
from congenial.study.sum_zero_laws_and_two_bins import TwoBinRelease, appendix_a, congenial, l1, l2, neighbour_readings

BETAS = ["0", "1/10", "2/5", "1/2", "0.5000001", "3/4", "1"]
RELEASES = [congenial("1/2"), l2("1/2"), *(l1("1/2", beta) for beta in BETAS)]


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_density_integrates_to_one_and_has_the_stated_variance(release: TwoBinRelease) -> None:
    assert 2 * quad(release.density, 0, np.inf)[0] == pytest.approx(1, abs=1e-8)
    assert 2 * quad(lambda u: u * u * release.density(u), 0, np.inf)[0] == pytest.approx(float(release.variance))
    assert np.allclose(np.exp(release.log_density([-3, 0, 2])), release.density([-3, 0, 2]), rtol=1e-14)


@pytest.mark.parametrize("beta", ["1/10", "2/5", "1/2", "3/4"])
def test_density_is_the_convolution_of_two_laplace_densities(beta: str) -> None:
    b, c = 2 * float(Fraction(beta)), 2 * (1 - float(Fraction(beta)))
    for u in (0.0, 0.7, 4.0):

        def integrand(v: float, u: float = u) -> float:
            return float(np.exp(-abs(v) / b - abs(u - v) / c) / (4 * b * c))

        value = quad(integrand, -80, 80, points=sorted({0.0, u}), limit=400)[0]
        assert l1(1, beta).density(u) == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("offset", ["1/10000000", "1/1000000000000000", "-1/10000000", "1/5"])
def test_density_near_one_half_does_not_cancel(offset: str) -> None:
    """GM's formula at 600 bits; in floats its difference of two exponentials loses 7 to 15 digits here."""
    beta = Fraction(1, 2) + Fraction(offset)
    before, ctx.prec = ctx.prec, 600
    try:
        b = arb(fmpq(beta.numerator, beta.denominator))
        for u in (0, 1, 7, 50):
            exact = (b * (-arb(u) / (2 * b)).exp() - (1 - b) * (-arb(u) / (2 * (1 - b))).exp()) / (4 * (2 * b - 1))
            assert l1(1, beta).density(u) == pytest.approx(float(exact), rel=1e-13)
    finally:
        ctx.prec = before


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_loss_of_one_changed_record_approaches_attained_epsilon_from_below(release: TwoBinRelease) -> None:
    u = np.concatenate([np.linspace(-50, 50, 10001), -np.geomspace(50, 1e7, 2000)])
    loss = release.log_density(u) - release.log_density(u - 1)
    attained = float(release.attained_epsilon)
    assert loss.max() <= attained + 1e-8
    assert loss.max() == pytest.approx(attained, rel=1e-6)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_checker_finds_attained_epsilon_and_notices_five_percent(release: TwoBinRelease) -> None:
    check = appendix_a(release.log_density)
    attained = float(release.attained_epsilon)
    assert check.is_decreasing
    assert check.alpha == pytest.approx(attained, rel=1e-6)
    assert check.holds_at(attained)
    assert not check.holds_at(0.999 * attained)
    mutant = TwoBinRelease("mutant", release.exact_epsilon * Fraction(21, 20), release.beta)
    assert not appendix_a(mutant.log_density).holds_at(attained)
    cut = appendix_a(density=release.density)
    assert cut.is_cut_by_underflow
    assert cut.alpha == pytest.approx(attained, rel=1e-4)


def test_checker_on_other_densities() -> None:
    assert appendix_a(lambda x: -np.log1p(x * x)).alpha == pytest.approx(1)  # Cauchy: 2x / (1 + x^2) at x = 1
    for log_density in (
        lambda x: -x * x / 2,
        lambda x: -np.sqrt(x),
        lambda x: -np.floor(x),
        lambda x: np.log(np.maximum(0, 1 - x)),
    ):
        check = appendix_a(log_density)
        assert check.alpha == np.inf
        assert not check.holds_at(1e9)
        assert "no finite alpha" in check.statement
    assert appendix_a(density=lambda x: np.asarray(x < 1, np.float64)).alpha == np.inf
    rising = appendix_a(lambda x: -np.maximum(x, 0) + 2 * np.exp(-((x - 3) ** 2)))
    assert (rising.is_decreasing, rising.alpha) == (False, None)
    assert rising.rises_at == pytest.approx(1.9, abs=0.6)
    assert not rising.holds_at(1e9)
    assert "not a certificate" in rising.statement


def test_table_of_gm() -> None:
    e = Fraction(1, 3)
    assert congenial(e).variance == 2 / e**2
    assert l2(e).variance == 4 / e**2
    assert [l1(e, beta).variance * e**2 for beta in ("1/2", 0, 1)] == [4, 8, 8]
    assert congenial(e).attained_epsilon == l2(e).attained_epsilon == e
    for beta in BETAS:  # at the epsilon that L1 attains, the conditional law has no larger variance
        assert congenial(l1(e, beta).attained_epsilon).variance <= l1(e, beta).variance


def test_projection_keeps_the_mean_of_each_cell() -> None:
    """GM print the mean of the two cells; that is only right when they are equal."""
    s1, s2 = Fraction(7), Fraction(2)
    first = []
    for u1, u2 in product([-3, -1, 0, 1, 3], repeat=2):
        excess = (s1 + u1 + s2 + u2) - (s1 + s2)
        first.append(s1 + u1 - excess / 2)
    assert sum(first) / len(first) == s1 != (s1 + s2) / 2


def test_readings() -> None:
    readings = neighbour_readings("1/2")
    assert [r.gamma for r in readings] == [0, Fraction(-1, 2), 0]
    assert all((1 + r.gamma) * r.k * r.unit == r.loss == Fraction(1, 2) for r in readings)


def test_refusals() -> None:
    with pytest.raises(FractionError, match="exact"):
        l2(0.5)  # type: ignore[arg-type]
    with pytest.raises(ConditionError, match=r"beta is 3/2, and must lie in 0\.\.1"):
        l1(1, "3/2")
    for wrong in (lambda x: 0 * x, lambda x: x * np.nan, lambda x: 1.0):
        with pytest.raises(ConditionError):
            appendix_a(wrong)  # type: ignore[arg-type]
    with pytest.raises(ConditionError, match="one of the two"):
        appendix_a()
