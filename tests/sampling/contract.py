"""What every sampler keeps: each one's tests inherit it and say how the sampler is made."""

from collections.abc import Callable

import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.randomness import UnitStreams, replay_rng
from congenial.sampling import sampler_and_registry as choose
from congenial.sampling.sampler_and_registry import Sampler
from congenial.sampling.target_and_system import System, Target
from systems import SYSTEMS
from systems import System as Small

Maker = Callable[[System], Sampler | None]


def system_of(target: Target) -> System:
    return System.of(target.constraints, target.measured)


def registered(make: Maker, name: str, monkeypatch: pytest.MonkeyPatch) -> Small:
    """Register one sampler alone and return a small system for it."""
    monkeypatch.setattr(choose, "SAMPLERS", {"under test": make})
    return SYSTEMS[name]()


class SamplerContract:
    """Draws and normalisers against the enumerated law; a sampler that does not take every system says which."""

    @pytest.fixture
    def make(self) -> Maker:
        raise NotImplementedError

    @pytest.fixture(params=SYSTEMS)
    def small(self, request: pytest.FixtureRequest, make: Maker, monkeypatch: pytest.MonkeyPatch) -> Small:
        return registered(make, request.param, monkeypatch)

    def test_it_fits_and_says_what_it_is(self, small: Small) -> None:
        sampler = choose.choose_sampler(system_of(small.target))
        assert sampler.is_exact
        sampler.check()
        assert sampler.name
        assert sampler.title
        assert sampler.describe()

    @pytest.mark.statistical
    def test_draws_have_the_enumerated_law(self, small: Small, request: pytest.FixtureRequest) -> None:
        """`test_noise_off_by_a_tenth_is_rejected` has the mutant."""
        drawer = choose.choose_sampler(system_of(small.target)).at(small.target.centre)
        tables = drawer.sample(N_DRAWS, own_rng(request))
        assert bool(np.all(small.target.constraints.holds(tables)))
        assert p_value(small.law.position(tables), [float(p) for p in small.law.probabilities]) > ALPHA

    def test_normalisers_are_the_brute_force(self, small: Small) -> None:
        sampler, centre = choose.choose_sampler(system_of(small.target)), small.target.centre
        truth = small.law.log_normaliser
        assert np.isclose(sampler.at(centre).log_normaliser, truth, rtol=0, atol=1e-11)
        assert np.allclose(
            sampler.log_normalisers(np.stack([centre, centre]), replay_rng("normalisers")), truth, rtol=0, atol=1e-11
        )

    def test_centres_move_within_one_structure(self, small: Small, request: pytest.FixtureRequest) -> None:
        """Every table of S* may be the confidential one: the same conditions, the same sampler, another normaliser."""
        sampler = choose.choose_sampler(system_of(small.target))
        centres = small.law.tables[:: max(1, len(small.law.tables) // 20)]
        draws = sampler.draw_each(centres, own_rng(request))
        assert bool(np.all(small.target.constraints.holds(draws)))
        singly = [sampler.at(centre).log_normaliser for centre in centres]
        assert np.allclose(sampler.log_normalisers(centres, replay_rng("normalisers")), singly, rtol=0, atol=1e-11)

    def test_one_seed_gives_one_table(self, small: Small) -> None:
        """Whatever the threads, and whether one table is drawn by itself or as a batch of one."""
        sampler, centre = choose.choose_sampler(system_of(small.target)), small.target.centre
        centres = np.repeat(centre[None, :], 40, axis=0)
        on_one, on_three = (sampler.draw_each(centres, replay_rng("threads"), n_threads=n) for n in (1, 3))
        assert np.array_equal(on_one, on_three)
        one = sampler.draw_each(centres[:1], replay_rng("one"))
        assert np.array_equal(one, sampler.at(centre).sample(1, replay_rng("one")))
        drawer = sampler.at(centre)
        assert np.isfinite(drawer.log_normaliser)
        assert np.array_equal(one, drawer.sample(1, replay_rng("one")))
        assert sampler.draw_each(centres[:0], replay_rng("none")).shape == (0, centre.size)

    def test_a_unit_s_stream_gives_its_table_in_any_company(self, small: Small) -> None:
        sampler, centre = choose.choose_sampler(system_of(small.target)), small.target.centre
        centres, starts = np.repeat(centre[None, :], 9, axis=0), [bytes([i]) * 16 for i in range(9)]
        together = sampler.draw_each(centres, UnitStreams(bytes(32), starts), n_threads=2)
        for places in ([4], [8, 2, 0]):
            some = UnitStreams(bytes(32), starts).subset(places)
            assert np.array_equal(sampler.draw_each(centres[places], some), together[places])

    @pytest.mark.statistical
    def test_a_draw_of_each_has_the_law(
        self, make: Maker, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        """Defect: a batch that reuses words, or what was made for the table before."""
        small, rng = registered(make, "tight bounds", monkeypatch), own_rng(request)
        law, centres = small.law, np.repeat(small.target.centre[None, :], N_DRAWS, axis=0)
        expected = [float(p) for p in law.probabilities]
        tables = choose.choose_sampler(system_of(small.target)).draw_each(centres, rng)
        assert p_value(law.position(tables), expected) > ALPHA
        mutant = choose.choose_sampler(system_of(small.with_precision("11/10"))).draw_each(centres, rng)
        assert p_value(law.position(mutant), expected) < ALPHA
