"""A new family is its own file and a line in the registry: it keeps the contract, and the exact engine draws it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.noise import FAMILIES, DiscreteNoise, make_noise
from congenial.sampling.elimination import sampler as exact
from congenial.sampling.elimination.exact import exact_normaliser
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.sampling.system import Target
from congenial.study import independence
from congenial.study import two_bins as closed_form
from noise.coarse import Coarse
from noise.contract import PRECISIONS, DiscreteContract
from systems import SYSTEMS


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FAMILIES, Coarse.family, Coarse)


class TestCoarse(DiscreteContract):
    @pytest.fixture(params=PRECISIONS, ids=str)
    def noise(self, request: pytest.FixtureRequest) -> DiscreteNoise:
        return Coarse(request.param)


def coarse(name: str, factor: int | Fraction = 1) -> Target:
    """Return a small system with every noise made coarse, its precision times a factor."""
    target = SYSTEMS[name]().target
    measured = [replace(query, noise=Coarse(query.noise.precision * factor)) for query in target.measured]
    return replace(target, measured=tuple(measured))


def test_it_is_made_by_name() -> None:
    assert make_noise("coarse", "1/2") == Coarse("1/2")
    assert Coarse("1/2").base.denominator <= 2**30


@pytest.mark.parametrize("name", SYSTEMS)
def test_its_normaliser_is_the_brute_force(name: str) -> None:
    target = coarse(name)
    made, truth = exact.messages(target), EnumeratedLaw.of(target)
    assert abs(made.log_normaliser - truth.log_normaliser) < 1e-12 + made.relative_error
    assert exact_normaliser(made.layout.engine, target.centre) == truth.normaliser


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["asymmetric centre", "soft margin", "weighted row"])
def test_it_is_drawn_by_the_exact_engine(name: str, request: pytest.FixtureRequest) -> None:
    """Defects: a family that is taken for another one, or a fall that is not its own."""
    law, rng = EnumeratedLaw.of(coarse(name)), own_rng(request)
    expected = [float(p) for p in law.probabilities]
    assert p_value(law.position(exact.messages(coarse(name)).sample(N_DRAWS, rng)), expected) > ALPHA
    starts = law.sample(N_DRAWS, rng)
    chains = np.asarray(independence.advance(coarse(name), starts, 5, rng))
    assert p_value(law.position(chains), expected) > ALPHA
    mutant = exact.messages(coarse(name, Fraction(11, 10))).sample(N_DRAWS, rng)
    assert p_value(law.position(mutant), expected) < ALPHA


@pytest.mark.statistical
def test_it_has_the_closed_form_of_its_exponent(request: pytest.FixtureRequest) -> None:
    noise = Coarse("1")
    draws = closed_form.geometric_sum_zero(noise, 2, N_DRAWS, own_rng(request))
    u = np.arange(-40, 41)
    twice = float(noise.base) ** (2.0 * np.abs(u))
    assert p_value(draws[:, 0] + 40, twice / twice.sum()) > ALPHA
    assert p_value(draws[:, 0] + 40, noise.pmf(u)) < ALPHA
