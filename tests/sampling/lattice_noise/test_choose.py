"""Which sampler draws the noise of a lattice, what every one must do, and what is dropped where none fits."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng
from congenial.arrays import Ints
from congenial.conditions.rows_and_intervals import dense
from congenial.errors import CongenialError, SamplingError
from congenial.noise.weight import NoiseWeight
from congenial.randomness import KeyedWords, replay_rng
from congenial.sampling.lattice_noise import choose as module
from congenial.sampling.lattice_noise.choose import (
    LATTICE_SAMPLERS,
    LatticeChoice,
    LatticeSampler,
    choose_lattice_sampler,
    lift_soft_rows,
    price_of_dropping,
)
from congenial.sampling.lattice_noise.covariance import noise_covariance
from congenial.sampling.lattice_noise.sum_tables import SumTableSampler
from congenial.sampling.lattice_noise.system import LatticeSystem
from lattice_laws import Enumerated, gaussian, geometric, keyed, lattice, margins, p12

# The contract of every registered sampler.

SMALL = {
    "geometric": lattice([geometric("1")] * 3, [{0: 1, 1: 1, 2: 1}], [({0: 1, 1: 1}, geometric("1"))]),
    "gaussian": lattice([gaussian("1")] * 3, [{0: 1, 1: 1, 2: 1}], [({0: 1, 1: 1}, gaussian("1"))]),
}
APPLYING = [
    (name, noise) for name, make in LATTICE_SAMPLERS.items() for noise, one in SMALL.items() if make(one) is not None
]


def registered(name: str, noise: str) -> LatticeSampler:
    sampler = LATTICE_SAMPLERS[name](SMALL[noise])
    assert sampler is not None
    return sampler


def test_every_sampler_is_tried_on_something() -> None:
    assert {name for name, _ in APPLYING} == set(LATTICE_SAMPLERS)


@pytest.mark.parametrize(("name", "noise"), APPLYING)
def test_a_sampler_says_what_it_is(name: str, noise: str) -> None:
    sampler = registered(name, noise)
    sampler.check()
    assert sampler.name == name
    assert sampler.title
    assert sampler.is_exact
    assert 0 < sampler.acceptance <= 1
    assert 0 <= sampler.slow_rate < 1e-6
    assert 0 < sampler.seconds < 1
    assert sampler.n_words > 0
    assert sampler.describe()


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "noise"), APPLYING)
def test_a_sampler_has_the_law(name: str, noise: str, request: pytest.FixtureRequest) -> None:
    """Each sampler's own test has the mutants."""
    draws = registered(name, noise).draw(keyed(own_rng(request), N_DRAWS))
    assert SMALL[noise].holds(draws)
    assert Enumerated.of(SMALL[noise]).p_value(draws) > ALPHA


@pytest.mark.parametrize(("name", "noise"), APPLYING)
def test_a_draw_is_a_function_of_the_unit_s_words(name: str, noise: str) -> None:
    sampler, rng = registered(name, noise), replay_rng("function")
    key, starts = rng.words(4).tobytes(), rng.words(80).reshape(40, 2)
    whole = sampler.draw(KeyedWords(key, starts))
    assert np.array_equal(sampler.draw(KeyedWords(key, starts[::-1])), whole[::-1])
    assert np.array_equal(sampler.draw(KeyedWords(key, starts[7:9])), whole[7:9])
    assert np.array_equal(sampler.draw(KeyedWords(key, starts[:10]), always_refined=True), whole[:10])
    assert not np.array_equal(sampler.draw(KeyedWords(bytes(32), starts)), whole)


# Which one is chosen.


@dataclass(frozen=True)
class Zeros:
    """A toy: noise of a system that cannot move."""

    system: LatticeSystem
    name = "zeros"
    title = "nothing moves"
    is_exact = True
    acceptance = 1.0
    slow_rate = 0.0
    seconds = 0.0
    n_words = 0

    @classmethod
    def of(cls, system: LatticeSystem) -> "Zeros | None":
        return cls(system) if system.rank == 0 else None

    def check(self) -> None:
        """It always fits."""

    def describe(self) -> str:
        return "zeros"

    def draw(self, words: KeyedWords, *, always_refined: bool = False) -> Ints:
        return np.zeros((len(words), self.system.n_coordinates), np.int64)


def test_a_new_sampler_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    still = lattice([geometric("1")] * 2, [{0: 1, 1: 1}, {0: 1, 1: -1}])
    assert choose_lattice_sampler(still).sampler.name == "sum tables"
    monkeypatch.setattr(module, "LATTICE_SAMPLERS", {"zeros": Zeros.of, **LATTICE_SAMPLERS})
    assert choose_lattice_sampler(still).sampler.name == "zeros"
    assert choose_lattice_sampler(p12(geometric("1"))).sampler.name == "sum tables"


@pytest.mark.parametrize(
    ("system", "name"),
    [
        (p12(geometric("1/4")), "sum tables"),
        (p12(gaussian("4")), "sum tables"),
        (lattice([gaussian("1")] * 20, margins((5, 4), 1)), "klein"),
        (lattice([geometric("1/4")] * 9, margins((3, 3), 1)), "free_coordinates"),
    ],
    ids=["P12, geometric", "P12, gaussian", "two margins, gaussian", "two small margins, geometric"],
)
def test_the_first_that_fits_is_chosen(system: LatticeSystem, name: str) -> None:
    choice = choose_lattice_sampler(system)
    assert (choice.sampler.name, choice.dropped, choice.lifted) == (name, (), ())
    assert choice.system is system
    assert price_of_dropping(system, choice) == pytest.approx(1)


class Slow(SumTableSampler):
    """A toy that accepts too rarely."""

    acceptance = 1e-5


def test_a_sampler_that_accepts_too_rarely_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATTICE_SAMPLERS", {"slow": Slow, **LATTICE_SAMPLERS})
    assert type(choose_lattice_sampler(p12(geometric("1"))).sampler) is SumTableSampler


# What is dropped.


def two_margins(weight: NoiseWeight, shape: tuple[int, int] = (8, 6)) -> LatticeSystem:
    return lattice([weight] * (shape[0] * shape[1]), margins(shape, 1))


def test_few_equalities_are_dropped_and_named() -> None:
    system = two_margins(geometric("1/2"))
    choice = choose_lattice_sampler(system)
    choice.sampler.check()
    kept = [row.name for row in choice.system.equalities]
    assert sorted([*kept, *choice.dropped]) == sorted(row.name for row in system.equalities)
    assert len(kept) >= 9, "all of a family of eight disjoint sums, and one that crosses it"
    draws = choice.sampler.draw(keyed(replay_rng("dropped"), 200))
    assert choice.system.holds(draws)
    assert not system.holds(draws)
    assert choose_lattice_sampler(system).dropped == choice.dropped
    assert 1 < price_of_dropping(system, choice) < 1.3


def test_the_price_is_about_that_of_the_variances() -> None:
    """Where both can be had: the law without an equality, by sums over all states."""
    system = lattice([gaussian("2")] * 4, [dict.fromkeys(range(4), 1), {0: 1, 1: 1}])
    fewer = system.without([system.equalities[1].name])
    choice = LatticeChoice(SumTableSampler.of(fewer), fewer, (system.equalities[1].name,))
    exact = np.trace(noise_covariance(fewer)) / np.trace(noise_covariance(system))
    assert price_of_dropping(system, choice) == pytest.approx(exact, rel=1e-3)
    assert price_of_dropping(system, replace(choice, system=system)) == pytest.approx(1)


def test_equalities_of_one_name_are_told_apart() -> None:
    """As relations of an answer space are: by place, not by name."""
    system = two_margins(geometric("1/2"))
    named = LatticeSystem(system.weights, tuple(replace(row, name="relation") for row in system.equalities))
    choice = choose_lattice_sampler(named)
    assert len(choice.system.equalities) >= 9
    assert len(choice.system.equalities) + len(choice.dropped) == len(named.equalities)


def crossing(weight: NoiseWeight) -> LatticeSystem:
    """Cells and both margins measured, the total exact: soft rows that no sampler of linear noise takes."""
    return lattice([weight] * 30, [dict.fromkeys(range(30), 1)], [(row, weight) for row in margins((6, 5), 1)])


def test_soft_rows_that_cross_become_coordinates_where_nothing_else_fits() -> None:
    system = crossing(geometric("1/2"))
    choice = choose_lattice_sampler(system)
    assert len(choice.lifted) == 11
    assert choice.system.n_coordinates == 41
    assert not choice.system.soft
    answers = np.vstack([np.eye(30, dtype=np.int64), dense([soft.row for soft in system.soft], 30)])
    lifted = choice.answers(answers)
    assert np.array_equal(lifted, np.eye(41, dtype=np.int64))
    draws = choice.sampler.draw(keyed(replay_rng("lifted"), 100))
    assert choice.system.holds(draws)
    assert (draws @ lifted.T).shape == (100, 41)


@pytest.mark.statistical
@pytest.mark.parametrize("weight", [geometric("1"), gaussian("1")], ids=["geometric", "gaussian"])
def test_lifting_alone_leaves_the_law_as_it_is(weight: NoiseWeight, request: pytest.FixtureRequest) -> None:
    """With all its equalities; without those of the soft rows the law is another, and rejected."""
    system = lattice([weight] * 3, [], [({0: 1, 1: 1}, weight), ({0: 1, 1: 1, 2: 1}, weight)])
    lifted = lift_soft_rows(system)
    words = keyed(own_rng(request), N_DRAWS)
    law = Enumerated.of(system)
    assert law.p_value(SumTableSampler.of(lifted).draw(words)[:, :3]) > ALPHA
    loose = LatticeSystem(lifted.weights)
    assert law.p_value(SumTableSampler.of(loose).draw(words)[:, :3]) < ALPHA


def test_answers_stay_where_nothing_is_lifted() -> None:
    choice = choose_lattice_sampler(p12(geometric("1")))
    answers = np.eye(46, dtype=np.int64)
    assert choice.answers(answers) is answers


def test_where_nothing_fits_the_way_out_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LATTICE_SAMPLERS", {"slow": Slow})
    with pytest.raises(SamplingError, match="higher precision") as caught:
        choose_lattice_sampler(lattice([geometric("1")] * 3, []))
    assert isinstance(caught.value, CongenialError)
