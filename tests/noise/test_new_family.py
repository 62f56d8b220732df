"""A new family is a class and a line in the registry: it keeps the contract, and the exact samplers draw it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.noise import FAMILIES, DiscreteNoise, make_noise
from congenial.randomness import replay_rng
from congenial.sampling.elimination import sampler as exact
from congenial.sampling.elimination.exact_fallback import exact_normaliser
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.sampling.target_and_system import System, Target
from congenial.sampling.two_way.sampler_and_pilots import TwoWayRejection, TwoWayRejectionAt
from congenial.study import independence_and_rejection_samplers as independence
from congenial.study import sum_zero_laws_and_two_bins as closed_form
from noise.contract import PRECISIONS, DiscreteContract
from noise.toys import Coarse, Huber
from systems import SYSTEMS

TOYS: tuple[type[DiscreteNoise], ...] = (Coarse, Huber)
CROSSED = "crossing margins"


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for family in TOYS:
        monkeypatch.setitem(FAMILIES, family.family, family)


class TestCoarse(DiscreteContract):
    @pytest.fixture(params=PRECISIONS, ids=str)
    def noise(self, request: pytest.FixtureRequest) -> DiscreteNoise:
        return Coarse(request.param)


class TestHuber(DiscreteContract):
    @pytest.fixture(params=PRECISIONS, ids=str)
    def noise(self, request: pytest.FixtureRequest) -> DiscreteNoise:
        return Huber(request.param)


def with_toy(name: str, family: type[DiscreteNoise] = Coarse, factor: int | Fraction = 1) -> Target:
    """Return a small system with every noise of a family, its precision times a factor."""
    target = SYSTEMS[name]().target
    measured = [replace(query, noise=family(query.noise.precision * factor)) for query in target.measured]
    return replace(target, measured=tuple(measured))


def test_it_is_made_by_name() -> None:
    assert make_noise("coarse", "1/2") == Coarse("1/2")
    assert Coarse("1/2").base.denominator <= 2**30


@pytest.mark.parametrize("family", TOYS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_its_normaliser_is_the_brute_force(name: str, family: type[DiscreteNoise]) -> None:
    target = with_toy(name, family)
    made, truth = exact.messages(target), EnumeratedLaw.of(target)
    assert abs(made.log_normaliser - truth.log_normaliser) < 1e-12 + made.relative_error
    assert exact_normaliser(made.layout.elimination, target.centre) == truth.normaliser


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["asymmetric centre", "soft margin", "weighted row"])
def test_it_is_drawn_by_the_exact_engine(name: str, request: pytest.FixtureRequest) -> None:
    """Defects: a family that is taken for another one, or a weight of another one."""
    law, rng = EnumeratedLaw.of(with_toy(name)), own_rng(request)
    expected = [float(p) for p in law.probabilities]
    assert p_value(law.position(exact.messages(with_toy(name)).sample(N_DRAWS, rng)), expected) > ALPHA
    starts = law.sample(N_DRAWS, rng)
    chains = np.asarray(independence.advance(with_toy(name), starts, 5, rng))
    assert p_value(law.position(chains), expected) > ALPHA
    mutant = exact.messages(with_toy(name, factor=Fraction(11, 10))).sample(N_DRAWS, rng)
    assert p_value(law.position(mutant), expected) < ALPHA


@pytest.mark.statistical
def test_another_tail_is_drawn_by_both_samplers(request: pytest.FixtureRequest) -> None:
    """Defects: a sampler that goes by bases and not by the weight, and takes the tail for one that it knows."""
    target, rng = with_toy(CROSSED, Huber, Fraction(1, 8)), own_rng(request)
    law = EnumeratedLaw.of(target)
    expected = [float(p) for p in law.probabilities]
    rejection = TwoWayRejection.of(System.of(target.constraints, target.measured))
    assert rejection is not None
    for sampler in (exact.messages(target), rejection.at(target.centre)):
        assert p_value(law.position(sampler.sample(N_DRAWS, rng)), expected) > ALPHA
    other = exact.messages(with_toy(CROSSED, Coarse, Fraction(1, 8))).sample(N_DRAWS, rng)
    assert p_value(law.position(other), expected) < ALPHA


def test_another_tail_is_refined_alike() -> None:
    target = with_toy(CROSSED, Huber)
    made, rejection = exact.messages(target), TwoWayRejection.of(System.of(target.constraints, target.measured))
    assert rejection is not None
    quick, slow = (made.sample(30, replay_rng(1), always_refined=is_slow) for is_slow in (False, True))
    assert np.array_equal(quick, slow)
    quick, slow = (
        TwoWayRejectionAt(rejection.grids, target.centre, always_refined=is_slow).sample(5, replay_rng(1))
        for is_slow in (False, True)
    )
    assert np.array_equal(quick, slow)


@pytest.mark.statistical
def test_it_has_the_closed_form_of_its_exponent(request: pytest.FixtureRequest) -> None:
    noise = Coarse("1")
    draws = closed_form.geometric_sum_zero(noise, 2, N_DRAWS, own_rng(request))
    u = np.arange(-40, 41)
    twice = float(noise.base) ** (2.0 * np.abs(u))
    assert p_value(draws[:, 0] + 40, twice / twice.sum()) > ALPHA
    assert p_value(draws[:, 0] + 40, noise.pmf(u)) < ALPHA
