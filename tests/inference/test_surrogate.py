"""The surrogate transition method keeps the posterior: from equilibrium, against all tables gone through."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.arrays import Floats, Ints
from congenial.conditions.base import Condition
from congenial.inference.chains_and_table_moves import MOST_TABLES, Chains, LogPrior, Surrogate, enumerated_posterior
from congenial.inference.priors import poisson
from congenial.law import PublicLaw
from congenial.randomness import RandomStream
from congenial.sampling.elimination.sampler import EliminationSampler
from congenial.sampling.enumeration import all_tables
from published import law_of

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})
TABLE = cg.Table(SCHEMA, [[2, 1], [0, 2]])
SYSTEMS: dict[str, tuple[list[Condition], str]] = {
    "total": ([cg.total()], "double_geometric"),
    "margins": ([cg.margin("sex"), cg.bounds(0, 2, where={"age": "1"})], "double_geometric"),
    "coefficients": ([cg.linear([[2, 2], [1, 1]])], "discrete_gaussian"),
}
RATES = np.array([[0.3, 1.0, 1.0, 3.0], [2.0, 0.5, 0.5, 1.0]])  # two priors; the chains take turns

Move = Callable[[Surrogate, Chains, LogPrior, RandomStream], Chains]


def small_steps(surrogate: Surrogate, chains: Chains, log_prior: LogPrior, rng: RandomStream) -> Chains:
    return surrogate.step(chains, log_prior, 6, rng)[0]


def jump(surrogate: Surrogate, chains: Chains, log_prior: LogPrior, rng: RandomStream) -> Chains:
    return surrogate.jump(chains, log_prior, rng)[0]


def sweep(surrogate: Surrogate, chains: Chains, log_prior: LogPrior, rng: RandomStream) -> Chains:
    return jump(surrogate, small_steps(surrogate, chains, log_prior, rng), log_prior, rng)


MOVES: dict[str, Move] = {"small steps": small_steps, "jump": jump, "sweep": sweep}


def law_and_release(name: str) -> tuple[PublicLaw, Ints]:
    conditions, noise = SYSTEMS[name]
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=conditions, noise=noise)
    return law_of(mechanism, TABLE), TABLE.counts


def after_three(name: str, move: Move, rng: RandomStream) -> list[float]:
    """Start 100,000 chains of each of two priors at exact posterior draws; return both p-values after 3 moves."""
    law, released = law_and_release(name)
    target = law.target(None, released)
    listed = all_tables(target.constraints, MOST_TABLES)
    assert listed is not None
    own = [enumerated_posterior(target, poisson(SCHEMA, rates), listed) for rates in RATES]
    starts = np.empty((2 * N_DRAWS, 4), np.int64)
    for half, (tables, chances) in enumerate(own):
        picks = np.searchsorted(np.cumsum(chances), rng.uniforms(N_DRAWS)).clip(0, len(tables) - 1)
        starts[half::2] = tables[picks]

    def log_prior(tables: Ints, of_chain: NDArray[np.intp]) -> Floats:
        found = np.empty(len(tables))
        for half, rates in enumerate(RATES):
            mine = of_chain % 2 == half
            found[mine] = poisson(SCHEMA, rates)(tables[mine])
        return found

    surrogate = Surrogate.of(target)
    chains = surrogate.at(starts, rng)
    for _ in range(3):
        chains = move(surrogate, chains, log_prior, rng)
    out = []
    for half, (tables, chances) in enumerate(own):
        numbers = {tuple(table): number for number, table in enumerate(tables.tolist())}
        ends = np.array([numbers[tuple(end)] for end in chains.tables[half::2].tolist()])
        out.append(p_value(ends, chances))
    return out


@pytest.mark.statistical
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("move", MOVES)
def test_the_posterior_is_kept(name: str, move: str, request: pytest.FixtureRequest) -> None:
    assert min(after_three(name, MOVES[move], own_rng(request))) > ALPHA


PARTS = ["small steps", "jump"]  # of a sweep


@pytest.mark.statistical
@pytest.mark.parametrize("move", PARTS)
def test_without_the_normalisers_it_is_not(
    move: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant takes c(s) as constant: f alone would be kept, and the chains leave the posterior."""
    monkeypatch.setattr(EliminationSampler, "log_normalisers", lambda self, centres, rng: np.zeros(len(centres)))
    assert max(after_three("total", MOVES[move], own_rng(request))) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("move", PARTS)
def test_a_prior_of_another_chain_is_found_out(move: str, request: pytest.FixtureRequest) -> None:
    """The mutant gives every table the first chain's prior; half of the chains leave their posterior."""

    def confused(surrogate: Surrogate, chains: Chains, log_prior: LogPrior, rng: RandomStream) -> Chains:
        return MOVES[move](surrogate, chains, lambda tables, of_chain: log_prior(tables, of_chain * 0), rng)

    first, second = after_three("total", confused, own_rng(request))
    assert first > ALPHA > second


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_jump_can_reach_every_table(name: str) -> None:
    """Irreducible: among 100,000 draws of the exact sampler, from which jumps come, are all tables but the rarest."""
    law, released = law_and_release(name)
    target = law.target(None, released)
    listed = all_tables(target.constraints, MOST_TABLES)
    assert listed is not None
    at_release = Surrogate.of(target).at_release
    assert at_release is not None
    drawn = at_release.sample(N_DRAWS, cg.replay_rng(f"every table of {name}"))
    probable = np.array([float(p) for p in cg.Law(law, released).enumerated.probabilities]) > 1e-3
    assert set(map(tuple, listed[probable].tolist())) <= set(map(tuple, drawn.tolist()))


@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
@pytest.mark.parametrize("sums", [False, True])
def test_weights_are_the_target_s(noise: str, sums: bool) -> None:
    """Cells of two precisions, with and without a measured sum beside them."""
    measure = [cg.cells({"age": "0"}, precision="1/2"), cg.cells({"age": "1"}, precision="2")]
    measure += [cg.margin("sex", precision="1")] if sums else []
    mechanism = cg.Mechanism(SCHEMA, measure=measure, invariants=[cg.total()], noise=noise)
    target = law_of(mechanism, TABLE).target(None, TABLE.counts)
    listed = all_tables(target.constraints, MOST_TABLES)
    assert listed is not None
    np.testing.assert_allclose(Surrogate.of(target).log_weight(listed), target.log_weight(listed), rtol=1e-13)
