"""Free coordinates: the right law under any noise, every decision as in balls, searches of a fixed length."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import count

import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng
from congenial.errors import SamplingError, TooLargeError
from congenial.noise.weight import NoiseWeight
from congenial.proven_decisions import Uniform
from congenial.randomness import KeyedWords, replay_rng
from congenial.sampling.lattice_noise.free_coordinates import FreeCoordinates, Thresholds, cdf_bounds, signed
from congenial.sampling.lattice_noise.klein import KleinSampler
from congenial.sampling.lattice_noise.rejection import Attempts, Words, public_words
from congenial.sampling.lattice_noise.system import LatticeSystem
from lattice_laws import ONE_SUM, Enumerated, gaussian, geometric, keyed, lattice, margins, p12, structures

GEOMETRIC = structures(geometric, "1/2", "1", "2")
GAUSSIAN = structures(gaussian, "2", "1", "1/2")
BOTH = NoiseWeight(linear=Fraction(3, 4), quadratic=Fraction(4, 5))
STRUCTURES = {
    **{f"{name}, Double Geometric": GEOMETRIC[name] for name in GEOMETRIC if "precisions that differ" not in name},
    **{f"{name}, Gaussian": system for name, system in GAUSSIAN.items()},
    "one sum, precisions that differ, Double Geometric": lattice(
        [geometric("1"), geometric("3"), geometric("2"), geometric("3/2")], [dict.fromkeys(range(4), 1)]
    ),
    "both noises in one law": lattice([BOTH, geometric("1"), gaussian("1")], ONE_SUM, [({0: 1, 1: -1}, BOTH)]),
}


def sampler_of(system: LatticeSystem) -> FreeCoordinates:
    sampler = FreeCoordinates.of(system)
    assert sampler is not None
    sampler.check()
    return sampler


@pytest.mark.parametrize("name", STRUCTURES)
def test_draws_have_the_law_of_the_lattice(name: str, request: pytest.FixtureRequest) -> None:
    system = STRUCTURES[name]
    draws = sampler_of(system).draw(keyed(own_rng(request), N_DRAWS))
    assert system.holds(draws)
    assert Enumerated.of(system).p_value(draws) > ALPHA


class Unfiltered(FreeCoordinates):
    """A mutant: every integer solution accepted."""

    def _attempt(self, words: Words) -> Attempts:
        results = super()._attempt(words)
        return replace(results, is_accepted=results.probability > 0)


def off(system: LatticeSystem) -> FreeCoordinates:
    """A mutant: every base off by 3 %."""
    share = Fraction(97, 100)
    weights = [
        replace(
            one,
            linear=one.linear if one.linear == 1 else one.linear * share,
            quadratic=one.quadratic if one.quadratic == 1 else one.quadratic * share,
        )
        for one in system.weights
    ]
    return sampler_of(replace(system, weights=tuple(weights)))


@pytest.mark.parametrize("mutant", [Unfiltered, off], ids=["no acceptance", "bases off by 3 %"])
@pytest.mark.parametrize("weight", [geometric("1"), gaussian("1")], ids=["Double Geometric", "Gaussian"])
def test_mutants_are_rejected(
    mutant: Callable[[LatticeSystem], FreeCoordinates], weight: NoiseWeight, request: pytest.FixtureRequest
) -> None:
    system = lattice([weight] * 4, [dict.fromkeys(range(4), 1)])
    draws = mutant(system).draw(keyed(own_rng(request), N_DRAWS))
    assert system.holds(draws)
    assert Enumerated.of(system, 25.0).p_value(draws) < ALPHA


def test_a_forgotten_soft_row_is_rejected(request: pytest.FixtureRequest) -> None:
    system = GEOMETRIC["soft row"]
    draws = sampler_of(replace(system, soft=())).draw(keyed(own_rng(request), N_DRAWS))
    assert Enumerated.of(system).p_value(draws) < ALPHA


@pytest.mark.parametrize("name", STRUCTURES)
def test_the_slow_path_draws_the_same(name: str) -> None:
    sampler, words = sampler_of(STRUCTURES[name]), public_words(100)
    assert np.array_equal(sampler.draw(words), sampler.draw(words, always_refined=True))


@pytest.mark.parametrize("weight", [geometric("1/2"), geometric("40"), gaussian("3"), BOTH])
def test_a_search_is_that_of_the_cdf(weight: NoiseWeight) -> None:
    lows, highs = cdf_bounds(weight, 64)
    near = [end + step for end in (*lows[:40], *highs[:40]) for step in (-1, 0, 1) if 0 <= end + step < 2**64]
    words = np.concatenate([replay_rng(3).words(2000), np.array([0, 2**64 - 1, 2**64 - 2, *near], np.uint64)])
    outcomes, doubts = Thresholds.of(weight).search(words)
    for word, outcome, doubt in zip(words.tolist(), outcomes.tolist(), doubts.tolist(), strict=True):
        proven, possible = (sum(end <= word for end in side) for side in (highs, lows))
        if proven == possible < len(lows) and word < 2**64 - 1:
            assert (outcome, doubt) == (proven, False)
        else:
            assert doubt


def test_words_that_do_not_decide_are_refined() -> None:
    sampler = sampler_of(lattice([geometric("1")] * 3, ONE_SUM))
    top = 2**64 - 1
    assert sampler._attempt(np.full((1, sampler.n_words), top, np.uint64)).is_doubtful.all()
    uniforms = [Uniform(top, iter([top, 5])), Uniform(1 << 63, count()), Uniform(0, iter([0] * 5))]
    vector = sampler._refine(uniforms)
    assert vector is not None
    assert sum(vector) == 0
    assert max(map(abs, vector)) > 70
    assert uniforms[0].n_bits > 64


def test_units_in_any_order_and_parts_draw_the_same() -> None:
    sampler = sampler_of(lattice([geometric("1/2")] * 6, [dict.fromkeys(range(6), 1), {0: 1, 1: 2}]))
    rng = replay_rng("order")
    key, starts = rng.words(4).tobytes(), rng.words(2 * 9000).reshape(9000, 2)
    draws = sampler.draw(KeyedWords(key, starts))
    order = np.random.default_rng(5).permutation(9000)
    parts = [sampler.draw(KeyedWords(key, starts[some])) for some in np.split(order, [1, 5000, 8999])]
    assert np.array_equal(np.vstack(parts), draws[order])


def test_the_widest_coordinates_are_solved_for() -> None:
    """That leaves the smallest masses to divide by; the acceptance is that of the lattice's normaliser over them."""
    system = lattice([geometric("3"), geometric("1/2"), geometric("2"), geometric("1")], [dict.fromkeys(range(4), 1)])
    assert sampler_of(system).solved == (1,)
    law = Enumerated.of(system)
    at_zero = float(law.probabilities[~law.vectors.any(axis=1)][0])
    masses = np.prod([(1 + a) / (1 - a) for a in np.exp([-3.0, -2.0, -1.0])])
    assert sampler_of(system).acceptance == pytest.approx(1 / at_zero / masses, rel=0.05)


def test_outcomes_go_outward() -> None:
    assert signed(np.arange(6)).tolist() == [0, 1, -1, 2, -2, 3]


def test_both_samplers_agree_in_46_cells(request: pytest.FixtureRequest) -> None:
    """Second moments of one sum over P12's cells under both samplers, within five standard deviations."""
    system = p12(gaussian("1"))
    rng = own_rng(request)
    klein = KleinSampler.of(system)
    assert klein is not None
    some = np.arange(10)
    squares = [sampler.draw(keyed(rng, 3000))[:, some].sum(axis=1) ** 2 for sampler in (klein, sampler_of(system))]
    spread = np.sqrt(sum(one.var() / len(one) for one in squares))
    assert abs(squares[0].mean() - squares[1].mean()) < 5 * spread


def test_refusals_give_the_way_out() -> None:
    with pytest.raises(SamplingError, match="leave out some of them"):
        sampler_of(lattice([geometric("1/2")] * 64, margins((8, 8), 1)))
    with pytest.raises(TooLargeError, match="raise the precision"):
        sampler_of(lattice([geometric("1/1000000")] * 3, ONE_SUM))
    with pytest.raises(TooLargeError, match="divide the coefficients"):
        sampler_of(lattice([gaussian("1")] * 3, [{0: 2**50, 1: 1, 2: 2**51 + 1}]))
