"""Laws of linear statistics: exact probabilities between their bounds, half-widths, sums, covariances."""

from fractions import Fraction
from itertools import product
from math import ceil

import flint
import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.arrays import Ints
from congenial.conditions.rows_and_intervals import dense
from congenial.errors import SamplingError, TooLargeError
from congenial.exact import ends
from congenial.noise.weight import NoiseWeight
from congenial.sampling.lattice_noise.choose import least_squares_variances
from congenial.sampling.lattice_noise.covariance import noise_covariance
from congenial.sampling.lattice_noise.statistic_law import StatisticLaw, statistic_law
from congenial.sampling.lattice_noise.sum_tables import SumTableSampler
from congenial.sampling.lattice_noise.system import LatticeSystem
from lattice_laws import Enumerated, gaussian, geometric, keyed, lattice, p12

FOUR, PAIR = dict.fromkeys(range(4), 1), {0: 1, 1: 1}


def systems(w: dict[str, NoiseWeight]) -> dict[str, LatticeSystem]:
    a, b, c = w["wide"], w["middle"], w["narrow"]
    return {
        "free": lattice([b, c], []),
        "one sum": lattice([b, b, c], [{0: 1, 1: 1, 2: 1}]),
        "disjoint sums": lattice([b, b, c, c], [PAIR, {2: 1, 3: 1}]),
        "P12 in small": lattice([c] * 6, [dict.fromkeys(range(6), 1), {0: 1, 1: 1, 2: 1}, {1: 1, 2: 1, 4: 1, 5: 1}]),
        "nested": lattice([c] * 4, [FOUR], [(PAIR, b), ({2: 1, 3: 1}, c)]),
        "soft in soft": lattice([c] * 3, [], [(PAIR, b), ({0: 1, 1: 1, 2: 1}, a)]),
        "crossing soft rows": lattice([c] * 4, [FOUR], [(PAIR, b), ({0: 1, 2: 1}, a)]),
        "a core of sums": lattice([c] * 5, [dict.fromkeys(range(5), 1)], [({0: 1, 1: 1, 2: 1}, b), ({2: 1, 3: 1}, c)]),
        "coefficients": lattice([b, c, b], [{0: 2, 1: -3, 2: 1}]),
        "an unequal tie": lattice([b, b, c], [{0: 2, 1: 2, 2: -3}]),
    }


SYSTEMS = {
    **{
        f"geometric, {name}": one
        for name, one in systems({"wide": geometric("1"), "middle": geometric("2"), "narrow": geometric("3")}).items()
    },
    **{
        f"gaussian, {name}": one
        for name, one in systems({"wide": gaussian("2"), "middle": gaussian("1"), "narrow": gaussian("1/2")}).items()
    },
}
STATISTICS = [[1, 0, 0, 0, 0, 0], [1, 1, 0, 1, 0, 0], [2, -1, 1, 0, 3, 0], [1, 1, 1, 1, 1, 1]]


def exact_probabilities(system: LatticeSystem, coefficients: Ints) -> dict[int, tuple[Fraction, Fraction]]:
    """Bounds of each probability by enumeration in balls; less than 1e-18 is not listed."""
    vectors = Enumerated.of(system, 46.0).vectors
    rows = np.hstack([vectors, vectors @ dense([soft.row for soft in system.soft], system.n_coordinates).T])
    weights = [*system.weights, *(soft.weight for soft in system.soft)]
    with flint.ctx.workprec(160):
        tables = [w.enclosures(range(int(np.abs(rows[:, k]).max()) + 1)) for k, w in enumerate(weights)]
        sums: dict[int, flint.arb] = {}
        for line, value in zip(np.abs(rows).tolist(), (vectors @ coefficients).tolist(), strict=True):
            product = flint.arb(1)
            for size, table in zip(line, tables, strict=True):
                product *= table[size]
            sums[value] = sums.get(value, flint.arb(0)) + product
        total = sum(sums.values(), flint.arb(0))
        return {value: ends(one / total) for value, one in sums.items()}


@pytest.mark.parametrize("name", SYSTEMS)
def test_probabilities_lie_between_their_bounds(name: str) -> None:
    system = SYSTEMS[name]
    slack = Fraction(1, 10**15)  # what the enumeration leaves out
    for line in STATISTICS[:3]:
        coefficients = np.array(line[: system.n_coordinates])
        law = statistic_law(system, coefficients.tolist())
        exact = exact_probabilities(system, coefficients)
        middle = law.mass.radius
        for value, (low, high) in exact.items():
            if abs(value) <= middle:
                assert Fraction(float(law.lower[value + middle])) <= high + slack
                assert Fraction(float(law.upper[value + middle])) >= low - slack
            else:
                assert low <= law.outside + slack
        assert (law.upper - law.lower).max() < 1e-11
        assert law.outside < 1e-11
        assert float(sum(low for low, _ in exact.values())) == pytest.approx(1)
        variance = float(sum(value**2 * low for value, (low, _) in exact.items()))
        assert law.variance == pytest.approx(variance, abs=1e-12)


def test_a_law_with_a_wrong_scale_leaves_its_bounds() -> None:
    """The bounds are narrow enough to tell noise a hundred-thousandth off."""
    system = SYSTEMS["geometric, P12 in small"]
    off = [NoiseWeight(linear=w.linear * Fraction(99999, 100000)) for w in system.weights]
    law = statistic_law(LatticeSystem(tuple(off), system.equalities), [1, 0, 0, 0, 0, 0])
    low, high = exact_probabilities(system, np.array([1, 0, 0, 0, 0, 0]))[0]
    assert not law.lower[law.mass.radius] <= low <= high <= law.upper[law.mass.radius]


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_statistic_that_is_exact_is_zero(name: str) -> None:
    system = SYSTEMS[name]
    for row in system.matrix:
        law = statistic_law(system, (2 * row).tolist())
        width, coverage = law.half_width(Fraction(999, 1000))
        assert width == 0
        assert coverage == pytest.approx(1)
        assert law.variance == 0


# P12: 46 cells; total, women and voting age exact. By the page of the method.

AGES = np.arange(46) % 23
P12_STATISTICS = {"65+": AGES >= 17, "women 65+": (AGES >= 17) & (np.arange(46) < 23), "a cell": np.arange(46) == 22}
P12_WIDTHS = {"65+": [26, 13, 6, 3], "women 65+": [18, 9, 4, 2], "a cell": [9, 4, 2, 1]}


@pytest.mark.parametrize("statistic", P12_STATISTICS)
def test_half_widths_of_p12(statistic: str) -> None:
    widths = []
    for precision in ("1/4", "1/2", "1", "2"):
        law = statistic_law(p12(geometric(precision)), P12_STATISTICS[statistic].astype(int).tolist())
        width, coverage = law.half_width(Fraction(9, 10))
        assert 0.9 <= coverage == pytest.approx(law.coverage(width), abs=1e-11)
        assert law.coverage(width - 1) < 0.9
        widths.append(width)
    assert widths == P12_WIDTHS[statistic]


@pytest.mark.statistical
@pytest.mark.parametrize("weight", [geometric("1"), gaussian("2")], ids=["geometric", "gaussian"])
def test_draws_have_the_law_of_the_statistic(weight: NoiseWeight, request: pytest.FixtureRequest) -> None:
    """46 cells, which no enumeration reaches; the mutant is the law of cells 3 % off."""
    coefficients = P12_STATISTICS["65+"].astype(int)
    draws = SumTableSampler.of(p12(weight)).draw(keyed(own_rng(request), N_DRAWS)) @ coefficients
    factor = Fraction(97, 100)
    off = NoiseWeight(weight.linear * factor) if weight.linear < 1 else NoiseWeight(quadratic=weight.quadratic * factor)
    for one, is_right in [(weight, True), (off, False)]:
        law = statistic_law(p12(one), coefficients.tolist())
        assert (p_value(draws + law.mass.radius, (law.lower + law.upper) / 2) > ALPHA) == is_right


# Sums over areas.


def test_sums_of_independent_statistics() -> None:
    one = statistic_law(SYSTEMS["geometric, one sum"], [1, 0, 0])
    other = statistic_law(SYSTEMS["gaussian, free"], [1, 2])
    shares = [(law.lower + law.upper) / 2 for law in (one, other)]
    both = np.convolve(shares[0], shares[1])
    law = one.plus(other)
    middle = len(both) // 2
    inside = both[middle - law.mass.radius : middle + law.mass.radius + 1]
    assert (law.lower <= inside + 1e-14).all()
    assert (law.upper >= inside - 1e-14).all()
    assert law.variance == pytest.approx(one.variance + other.variance)
    assert (law.upper - law.lower).max() < 1e-11
    many, step = one.repeated(13), one
    for _ in range(12):
        step = step.plus(one)
    assert many.half_width(0.9)[0] == step.half_width(0.9)[0]
    assert many.variance == pytest.approx(13 * one.variance)
    assert one.repeated(0).half_width(0.5)[0] == 0


def test_sums_over_many_areas() -> None:
    law = statistic_law(p12(geometric("1/2")), P12_STATISTICS["a cell"].astype(int).tolist())
    many = law.repeated(10_000)
    assert many.variance == pytest.approx(10_000 * law.variance)
    width, coverage = many.half_width(Fraction(9, 10))
    assert coverage >= 0.9
    assert width == pytest.approx(1.645 * np.sqrt(many.variance), rel=0.01)


# Where the law is not at hand.


def test_the_rank_rule_covers_with_at_least_the_level() -> None:
    """By enumeration: of a law on three values, all sets of four public draws and a new one."""
    law = {0: Fraction(1, 2), 1: Fraction(3, 10), 2: Fraction(1, 5)}
    level = Fraction(3, 4)
    rank = ceil(level * 5)
    covered = Fraction(0)
    for *public, new in product(law, repeat=5):
        chance = Fraction(1)
        for value in (*public, new):
            chance *= law[value]
        covered += chance * (new <= sorted(public)[rank - 1])
    assert covered >= level
    # One rank lower does not do.
    lower = sum(
        law[a] * law[b] * law[c] * law[d] * law[e] * (e <= sorted([a, b, c, d])[rank - 2])
        for a, b, c, d, e in product(law, repeat=5)
    )
    assert lower < covered


def test_refusals_give_the_way_out() -> None:
    with pytest.raises(SamplingError, match="46 coefficients are needed"):
        statistic_law(p12(geometric("1")), [1])
    with pytest.raises(TooLargeError, match="fewer different coefficients"):
        statistic_law(p12(geometric("1/4")), (AGES * AGES).tolist())
    law = statistic_law(SYSTEMS["geometric, free"], [1, 0])
    for level in (0, 1, 2, 1 - 1e-15):
        with pytest.raises(SamplingError, match="level"):
            law.half_width(level)


# Covariances.


@pytest.mark.parametrize("name", SYSTEMS)
def test_covariances_are_those_of_the_enumerated_law(name: str) -> None:
    system = SYSTEMS[name]
    law = Enumerated.of(system, 40.0)
    expected = (law.vectors.T * law.probabilities) @ law.vectors
    covariance = noise_covariance(system)
    assert np.allclose(covariance, expected, atol=1e-9)
    assert np.allclose(system.matrix @ covariance, 0, atol=1e-9)


def test_covariances_give_the_variances_of_statistics() -> None:
    system = p12(geometric("1/2"))
    covariance = noise_covariance(system)
    for coefficients in P12_STATISTICS.values():
        line = coefficients.astype(int)
        assert line @ covariance @ line == pytest.approx(statistic_law(system, line.tolist()).variance)


def test_least_squares_are_close_to_variances_of_wide_gaussian_noise() -> None:
    system = lattice([gaussian("4")] * 5, [dict.fromkeys(range(5), 1)], [(PAIR, gaussian("2"))])
    assert np.allclose(least_squares_variances(system), np.diag(noise_covariance(system)), rtol=1e-6)


def test_a_law_says_its_values() -> None:
    law = statistic_law(SYSTEMS["geometric, free"], [1, 0])
    assert isinstance(law, StatisticLaw)
    assert law.values.tolist() == list(range(-law.mass.radius, law.mass.radius + 1))
    assert np.allclose(law.lower, law.lower[::-1], rtol=1e-12)
