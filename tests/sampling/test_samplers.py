"""Methods for study and the oracle itself against the enumerated law; `test_choose.py` has the samplers of releases."""

from collections.abc import Callable

import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.arrays import Floats, Ints
from congenial.randomness import RandomStream
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.study import independence_and_rejection_samplers as independence
from congenial.study import independence_and_rejection_samplers as rejection
from systems import SYSTEMS, System

Method = Callable[[System, RandomStream], Ints]


def by_enumeration(system: System, rng: RandomStream) -> Ints:
    return system.law.sample(N_DRAWS, rng)


def by_rejection(system: System, rng: RandomStream) -> Ints:
    return np.asarray(rejection.rejection_sample(system.target, N_DRAWS, rng, most_proposals=10**8).tables, np.int64)


class UniformTables:
    """A proposal of one's own: every table of S* with the same probability."""

    def __init__(self, system: System) -> None:
        self.tables = system.law.tables
        self.log_bound = 0.0

    def draw(self, n: int, rng: RandomStream) -> Ints:
        picked: Ints = self.tables[rng.below(np.full(n, len(self.tables)))]
        return picked

    def log_density(self, tables: Ints) -> Floats:
        return np.zeros(len(tables))


def by_rejection_from_uniform(system: System, rng: RandomStream) -> Ints:
    draws = rejection.rejection_sample(
        system.target, N_DRAWS, rng, proposal=UniformTables(system), most_proposals=10**8
    )
    return np.asarray(draws.tables, np.int64)


def by_algorithm_1_from_equilibrium(system: System, rng: RandomStream) -> Ints:
    """Start 100,000 chains at exact draws and look after five steps: still exact draws, if the kernel is right."""
    starts = system.law.sample(N_DRAWS, rng)
    return np.asarray(independence.advance(system.target, starts, 5, rng), np.int64)


METHODS: dict[str, Method] = {
    "enumeration": by_enumeration,
    "rejection": by_rejection,
    "rejection from uniform": by_rejection_from_uniform,
    "Algorithm 1": by_algorithm_1_from_equilibrium,
}


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> System:
    return SYSTEMS[request.param]()


# Seven equalities at precision 1/4: the unconstrained mechanism meets them once in a million proposals.
# A uniform table of the small P12 is accepted once in two hundred proposals.
HOPELESS = {("three-way", "rejection"), ("small P12", "rejection from uniform")}


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "method"), [(n, m) for n in SYSTEMS for m in METHODS if (n, m) not in HOPELESS])
def test_method_has_the_enumerated_law(name: str, method: str, request: pytest.FixtureRequest) -> None:
    system = SYSTEMS[name]()
    tables = METHODS[method](system, own_rng(request))
    law = system.law
    assert bool(np.all(system.target.constraints.holds(tables)))
    assert p_value(law.position(tables), [float(p) for p in law.probabilities]) > ALPHA


@pytest.mark.statistical
def test_noise_off_by_a_tenth_is_rejected(system: System, request: pytest.FixtureRequest) -> None:
    """The mutant of the test above: 100,000 draws are enough to tell a precision that is 10 % too high."""
    law = system.law
    if len(law.tables) == 1:
        return  # one table: every law on it is the same
    tables = EnumeratedLaw.of(system.with_precision("11/10")).sample(N_DRAWS, own_rng(request))
    assert p_value(law.position(tables), [float(p) for p in law.probabilities]) < ALPHA


def test_every_table_can_be_proposed_by_algorithm_1(system: System) -> None:
    """Irreducibility, by search: the free cells of each table of S* lead back to that table."""
    split = independence._split(system.target, None)
    deviations = system.law.tables - system.target.centre
    solved = deviations[:, split.free] @ split.numerators.T / split.determinant
    assert np.array_equal(solved, deviations[:, split.solved])
    proposals = independence._proposals(system.target, split.free, None)
    for noise, cell in zip(proposals, split.free, strict=True):
        assert bool(np.all(np.isfinite(noise.log_pmf(deviations[:, cell]))))
