"""The posterior given measurements: no normaliser, centres outside the limits; against all tables gone through."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.arrays import Floats, Ints
from congenial.conditions.areas_and_bounds import Areas
from congenial.conditions.base import Condition
from congenial.conditions.rows_and_intervals import row_values
from congenial.errors import InferenceError, SamplingError
from congenial.inference import chains_and_table_moves
from congenial.inference.areas_posterior import areas_posterior
from congenial.inference.chains_and_table_moves import (
    MOST_TABLES,
    Chains,
    LogPrior,
    Surrogate,
    by_proposals,
    by_small_steps,
)
from congenial.inference.kernels_random_numbers import RandomBuffer
from congenial.inference.measured_target import MeasuredTarget, cell_measurements, start_tables, target_of
from congenial.inference.pattern_moves_and_normalisers import PatternSteps
from congenial.inference.posterior import posterior
from congenial.inference.priors import FlatPrior, poisson
from congenial.inference.smooth.chains import _jump, _Pattern
from congenial.law import PublicLaw
from congenial.randomness import RandomStream
from congenial.sampling.enumeration import all_tables
from published import law_of

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})
TABLE = cg.Table(SCHEMA, [[2, 1], [0, 2]])
SYSTEMS: dict[str, tuple[list[Condition], str, list[int]]] = {
    "total": ([cg.total()], "double_geometric", [4, -3, -1, 5]),
    "margins": ([cg.margin("sex"), cg.bounds(0, 2, where={"age": "1"})], "double_geometric", [-1, 4, 1, 1]),
    "squared": ([cg.total()], "discrete_gaussian", [4, -2, 0, 3]),
}
RATES = np.array([0.3, 1.0, 1.0, 3.0])


def law_and_measurements(name: str) -> tuple[PublicLaw, Ints]:
    conditions, noise, measurements = SYSTEMS[name]
    mechanism = cg.Mechanism(
        SCHEMA, measure=[cg.cells(precision="1/2")], invariants=conditions, noise=noise, method="measured"
    )
    return law_of(mechanism, TABLE), np.array(measurements)


def by_brute_force(name: str, rates: Floats | None) -> tuple[Ints, Floats]:
    """Return all tables that fit, and their probabilities: prior times the weight of the noise, and nothing else."""
    law, measurements = law_and_measurements(name)
    tables = all_tables(law.areas[None], MOST_TABLES)
    assert tables is not None
    log_weights = np.zeros(len(tables)) if rates is None else poisson(SCHEMA, rates)(tables)
    for query in law.measured:
        log_weights += query.noise.log_weight(row_values([query.row], tables - measurements)[:, 0])
    weights = np.exp(log_weights - log_weights.max())
    return tables, weights / weights.sum()


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("rates", [None, RATES])
def test_few_tables_have_their_exact_probabilities(name: str, rates: Floats | None) -> None:
    law, measurements = law_and_measurements(name)
    tables, chances = by_brute_force(name, rates)
    prior = FlatPrior() if rates is None else poisson(SCHEMA, rates)
    known = posterior(law, None, TABLE.counts, measurements=measurements, prior=prior)
    assert known.is_exact
    assert known.tables.tolist() == tables.tolist()
    assert known.weights is not None
    np.testing.assert_allclose(known.weights, chances, rtol=1e-12)


def flat_or_poisson(rates: Floats | None) -> LogPrior:
    prior = FlatPrior() if rates is None else poisson(SCHEMA, rates)
    return lambda tables, _: prior(tables)


def starts_of(tables: Ints, chances: Floats, rng: RandomStream) -> Ints:
    picks = np.searchsorted(np.cumsum(chances), rng.uniforms(N_DRAWS)).clip(0, len(tables) - 1)
    return np.asarray(tables[picks])


def places_of(tables: Ints, ends: Ints) -> Ints:
    numbers = {tuple(table): number for number, table in enumerate(tables.tolist())}
    return np.array([numbers.get(tuple(end), len(tables)) for end in ends.tolist()])


Move = Callable[[Surrogate, Chains, LogPrior, RandomStream], Chains]
MOVES: dict[str, Move] = {
    "small steps": lambda surrogate, chains, log_prior, rng: surrogate.step(chains, log_prior, 6, rng)[0],
    "jump": lambda surrogate, chains, log_prior, rng: surrogate.jump(chains, log_prior, rng)[0],
}


def after_three(name: str, move: str, rates: Floats | None, rng: RandomStream) -> float:
    """Start 100,000 chains at exact posterior draws; return the p-value of their ends after 3 moves."""
    law, measurements = law_and_measurements(name)
    tables, chances = by_brute_force(name, rates)
    surrogate = Surrogate.of(target_of(law, None, measurements))
    chains = surrogate.at(starts_of(tables, chances, rng), rng)
    for _ in range(3):
        chains = MOVES[move](surrogate, chains, flat_or_poisson(rates), rng)
    return p_value(places_of(tables, chains.tables), chances)


@pytest.mark.statistical
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("move", MOVES)
def test_the_posterior_is_kept(name: str, move: str, request: pytest.FixtureRequest) -> None:
    assert after_three(name, move, RATES, own_rng(request)) > ALPHA


@pytest.mark.statistical
def test_jumps_that_forget_where_they_come_from_are_found_out(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant takes proposals around the start for proposals around the measurements."""
    monkeypatch.setattr(MeasuredTarget, "log_excess", lambda _, tables: np.zeros(len(tables)))
    assert after_three("squared", "jump", None, own_rng(request)) < ALPHA


@pytest.mark.statistical
def test_a_normaliser_is_found_out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant divides by c(s), as if the measurements were a draw of a table."""
    right = chains_and_table_moves._corrections

    def wrong(target: MeasuredTarget) -> object:
        return right(target.around_start)[0], right(target)[1]

    monkeypatch.setattr(chains_and_table_moves, "_corrections", wrong)
    assert after_three("total", "small steps", None, own_rng(request)) < ALPHA


@pytest.mark.statistical
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("rates", [None, RATES])
def test_the_steps_of_many_tables_keep_it(name: str, rates: Floats | None, request: pytest.FixtureRequest) -> None:
    """What moves areas under the flat and the smooth prior, here at fixed rates."""
    law, measurements = law_and_measurements(name)
    tables, chances = by_brute_force(name, rates)
    rng = own_rng(request)
    starts = starts_of(tables, chances, rng)
    moving = PatternSteps.of(law.areas[None], law.measured, has_normaliser=False)
    around = np.tile(measurements, (N_DRAWS, 1))
    eta = np.zeros(starts.shape) if rates is None else np.tile(np.log(rates), (N_DRAWS, 1))
    ends, gain = moving.move(
        starts, around, eta, moving.tilts(starts), 6, RandomBuffer(rng), has_counts=rates is not None
    )
    assert not gain.any()
    assert (ends != starts).any()
    assert p_value(places_of(tables, ends), chances) > ALPHA


N_AREAS = 1_000  # of 100 chains: 100,000 tables


def jumped(name: str, rng: RandomStream, change: Callable[[_Pattern], object] = lambda _: None) -> float:
    """Return the p-value of tables of many areas after whole tables were proposed, once, at fixed rates."""
    law, measurements = law_and_measurements(name)
    tables, chances = by_brute_force(name, RATES)
    areas = Areas.collected("county", {str(area): law.areas[None] for area in range(N_AREAS)})
    law, cells = replace(law, areas=areas), np.tile(measurements, (N_AREAS, 1))
    (pattern,) = _Pattern.all_of(law, cells, start_tables(law, cells))
    change(pattern)
    counts = starts_of(tables, chances, rng).reshape(-1, N_AREAS, 4)
    eta = np.broadcast_to(np.log(RATES), counts.shape)
    assert _jump(pattern, counts, np.zeros(counts.shape[:2]), eta, rng) > 0
    return p_value(places_of(tables, counts.reshape(-1, 4)), chances)


@pytest.mark.statistical
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_jumps_of_many_tables_keep_it(name: str, request: pytest.FixtureRequest) -> None:
    assert jumped(name, own_rng(request)) > ALPHA


@pytest.mark.statistical
def test_jumps_of_tables_without_their_correction_are_found_out(request: pytest.FixtureRequest) -> None:
    def change(pattern: _Pattern) -> None:
        pattern.released = pattern.centres

    assert jumped("squared", own_rng(request), change) < ALPHA


@pytest.mark.parametrize("way", [by_proposals, by_small_steps])
def test_chains_have_its_means(way: Callable[..., chains_and_table_moves.ChainDraws]) -> None:
    law, measurements = law_and_measurements("total")
    tables, chances = by_brute_force("total", RATES)
    target = target_of(law, None, measurements)
    draws = way(target, poisson(SCHEMA, RATES), 8_000, 40, cg.replay_rng(f"means {way.__name__}"))
    mean, sd = chances @ tables, np.sqrt(chances @ (tables - chances @ tables) ** 2)
    assert (np.abs(draws.chains.mean(axis=(0, 1)) - mean) < 0.15 * sd).all()


def test_areas_together_have_its_means() -> None:
    """Two areas with measurements far outside the limits: each has the flat posterior of its own."""
    conditions, noise, measurements = SYSTEMS["total"]
    mechanism = cg.Mechanism(
        SCHEMA, measure=[cg.cells(precision="1/2")], invariants=conditions, noise=noise, method="measured"
    )
    law = mechanism.plan(mechanism.disclose({"a": TABLE, "b": TABLE}, area="county")).law
    known = areas_posterior(
        law,
        np.stack([TABLE.counts] * 2),
        measurements=np.array([measurements, measurements[::-1]]),
        prior="flat",
        n_draws=4_000,
        rng=cg.replay_rng("areas together"),
    )
    tables, chances = by_brute_force("total", None)
    mean = chances @ tables
    np.testing.assert_allclose(known["a"].mean(), mean, atol=0.15)
    np.testing.assert_allclose(known["b"].mean(), mean[::-1], atol=0.15)


@pytest.mark.filterwarnings("ignore::congenial.inference.posterior.ContradictedPriorWarning")
def test_the_smooth_prior_takes_measurements() -> None:
    """Little noise: the posterior is at the measurements; it starts where they are negative."""
    mechanism = cg.Mechanism(
        SCHEMA, measure=[cg.cells(precision="4")], invariants=[cg.total()], noise="discrete_gaussian", method="measured"
    )
    law = law_of(mechanism, TABLE)
    known = posterior(
        law, None, TABLE.counts, measurements=np.array([30, -1, -4, -20]), n_draws=400, rng=cg.replay_rng("smooth")
    )
    assert known.tables.sum(axis=1).tolist() == [5] * 400
    assert known.mean()[0] > 4.5


def test_what_is_not_offered() -> None:
    law, measurements = law_and_measurements("total")
    with pytest.raises(InferenceError, match="says less than the measurements"):
        posterior(law, None, TABLE.counts, prior="flat")
    known = posterior(law, None, TABLE.counts, measurements=measurements, prior="flat")
    with pytest.raises(InferenceError, match="not offered yet for measured releases"):
        known.error_interval("sex=f")
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.margin("sex", precision="1")], invariants=[], method="measured")
    with pytest.raises(InferenceError, match="measured in sums only; intervals from the measurements need no prior"):
        cell_measurements(law_of(mechanism, TABLE), np.array([[3, 2]]))
    both = [cg.cells(precision="1"), cg.margin("sex", precision="1")]
    mechanism = cg.Mechanism(SCHEMA, measure=both, invariants=[], method="measured")
    assert cell_measurements(law_of(mechanism, TABLE), np.array([[3, 2, 1, 1, 5, 2]])).tolist() == [[3, 2, 1, 1]]
    with pytest.raises(InferenceError, match="noise of their own"):
        cell_measurements(law_of(mechanism, TABLE), np.array([[3, 2, 1, 1, 4, 2]]))
    with pytest.raises(SamplingError, match="does not obey"):
        MeasuredTarget(law.areas[None], law.measured, measurements, np.array([9, 9, 9, 9]))


def test_chains_start_somewhere_where_the_rule_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    law, measurements = law_and_measurements("total")

    def refuse(*_: object) -> NDArray[np.int64]:
        raise SamplingError("no table")

    monkeypatch.setattr("congenial.inference.measured_target.rule_of", refuse)
    assert law.areas[None].holds(start_tables(law, measurements[None, :])[0])
