"""Algorithm 1: against its plain twin, against mutants, on GM's own example, and in its errors."""

import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from agreement import ALPHA, N_DRAWS, ks_p_value, own_rng, p_value
from congenial.arrays import Floats, Ints
from congenial.errors import SamplingError
from congenial.examples import P12_INDEX_SET, p12_mechanism, p12_table
from congenial.randomness import replay_rng
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.sampling.target_and_system import Target
from congenial.study import independence_and_rejection_samplers as independence
from congenial.study.sum_zero_laws_and_two_bins import two_bin_law
from systems import SYSTEMS


def twin(
    target: Target, starts: Ints, words: NDArray[np.uint64], *, forget_q: bool = False, forget_bounds: bool = False
) -> Ints:
    """Algorithm 1 in plain Python, vectorised over chains, with bugs on request."""
    split = independence._split(target, None)
    free, solved = list(split.free), list(split.solved)
    noises = independence._proposals(target, split.free, None)

    def log_q(tables: Ints) -> Floats:
        terms = [n.log_pmf(tables[:, c] - target.centre[c]) for n, c in zip(noises, free, strict=True)]
        return np.asarray(np.sum(terms, axis=0))

    state = starts.copy()
    for step in range(words.shape[1]):
        uniform = ((words[:, step] >> np.uint64(12)).astype(float) + 0.5) * 2.0**-52
        proposed = state.copy()
        for k, (noise, cell) in enumerate(zip(noises, free, strict=True)):
            proposed[:, cell] = target.centre[cell] + noise.quantile(uniform[:, k])
        exact = (proposed - target.centre)[:, free] @ split.numerators.T / split.determinant
        proposed[:, solved] = target.centre[solved] + np.floor(exact).astype(np.int64)
        feasible = np.all(exact == np.floor(exact), axis=1)
        feasible &= np.ones(len(state), bool) if forget_bounds else np.asarray(target.constraints.holds(proposed))
        log_ratio = target.log_weight(proposed) - target.log_weight(state)
        if not forget_q:
            log_ratio += log_q(state) - log_q(proposed)
        accepted = feasible & (np.log(uniform[:, len(free)]) < log_ratio)
        state[accepted] = proposed[accepted]
    return state


@pytest.mark.parametrize("name", ["asymmetric centre", "Gaussian noise", "soft margin", "weighted row", "range row"])
def test_kernel_takes_the_same_steps_as_its_twin(name: str, request: pytest.FixtureRequest) -> None:
    target = SYSTEMS[name]().target
    starts = EnumeratedLaw.of(target).sample(2_000, own_rng(request))
    n_words = len(independence.default_index_set(target)) + 1
    words = replay_rng(name).words(2_000 * 4 * n_words).reshape(2_000, 4, n_words)
    assert np.array_equal(independence.advance(target, starts, 4, replay_rng(name)), twin(target, starts, words))


@pytest.mark.statistical
@pytest.mark.parametrize("bug", ["forget_q", "forget_bounds"])
def test_mutants_of_the_acceptance_are_rejected(bug: str, request: pytest.FixtureRequest) -> None:
    system = SYSTEMS["asymmetric centre"]()
    law, rng = system.law, own_rng(request)
    starts = law.sample(N_DRAWS, rng)
    words = rng.words(N_DRAWS * 5 * 4).reshape(N_DRAWS, 5, 4)
    expected = [float(p) for p in law.probabilities]
    assert p_value(law.position(twin(system.target, starts, words)), expected) > ALPHA
    assert p_value(law.position(twin(system.target, starts, words, **{bug: True})), expected) < ALPHA


def p12_target() -> Target:
    return p12_mechanism().law(p12_table()).target


def test_p12_acceptance_is_as_printed() -> None:
    """GM report 1.68 % at proposal scale 0.6. A chain now and then sticks for long, so the middle of five is taken."""
    target = p12_target()
    rates = [
        independence.sample(
            target, 1, replay_rng(f"chain {n}"), proposal_precision="0.6", index_set=P12_INDEX_SET, thin=10**6
        ).acceptance
        for n in range(5)
    ]
    assert 0.014 < np.median(rates) < 0.018


def test_p12_best_proposal_is_as_printed() -> None:
    """GM figure 2: the acceptance is highest near 0.6."""
    scales = ["0.4", "0.5", "0.6", "0.7", "0.8", "0.9"]
    rates = independence.sweep(p12_target(), scales, 10**6, replay_rng("figure 2"), index_set=P12_INDEX_SET)
    assert max(scales, key=lambda scale: rates[scale]) in {"0.6", "0.7"}


def test_draws_keep_every_condition_and_thin_and_burn_in() -> None:
    draws = independence.sample(p12_target(), 500, replay_rng(1), proposal_precision="0.6", burn_in=1_000, thin=20)
    assert draws.tables.shape == (500, 46)
    assert np.all(p12_target().constraints.holds(draws.tables))
    assert len(np.unique(draws.tables, axis=0)) > 50
    whole = independence.sample(p12_target(), 11_000, replay_rng(1), proposal_precision="0.6")
    assert np.array_equal(draws.tables, whole.tables[1_000 + 19 :: 20])
    assert draws.acceptance == whole.acceptance


def test_one_precision_for_each_cell() -> None:
    target = SYSTEMS["uneven precisions"]().target
    draws = independence.sample(target, 1_000, replay_rng(1), proposal_precision=["1/2", "1/2", "2"])
    assert draws.acceptance > 0


@pytest.mark.statistical
def test_continuous_two_bins_are_laplace(request: pytest.FixtureRequest) -> None:
    """GM's two-bin histogram at epsilon = 1: u ~ Laplace(2), and given the total the first cell is Laplace(1)."""
    schema = cg.Schema({"bin": ["1", "2"]})
    measure = [cg.cells(precision="1/2")]
    mechanism = cg.Mechanism(schema, measure=measure, invariants=[cg.total(), cg.bounds(None)], noise="laplace")
    target = mechanism.law(cg.Table(schema, [30, 12])).target
    # A chain is not independent: far apart draws of a chain with this acceptance are.
    draws = independence.sample(target, 10_000, own_rng(request), proposal_precision="1", thin=40)
    assert draws.acceptance > 0.9
    noise = np.asarray(draws.tables[:, 0] - 30, float)
    assert np.allclose(draws.tables.sum(axis=1), 42)
    law = two_bin_law(cg.noise.Laplace("1/2"))
    assert law.precision == 1
    assert ks_p_value(noise, law.cdf(noise)) > ALPHA
    unconditioned = cg.noise.Laplace("1/2")
    assert ks_p_value(noise, unconditioned.cdf(noise)) < ALPHA


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"index_set": [0, 1]}, "must have 43 cells"),
        ({"index_set": list(range(43))}, "rank 1 and 3 is needed"),
        ({"index_set": [*range(42), 99]}, "from 0 to 45"),
        ({"start": np.ones(46, int)}, "obeys every condition"),
        ({"start": np.ones(46)}, "whole numbers"),
        ({"proposal_precision": "0"}, "above 0"),
        ({"proposal_precision": 0.6}, 'write "0.6"'),
        ({"proposal_precision": ["1", "2"]}, "has 2 entries"),
        ({"thin": 0}, "at least 1"),
    ],
)
def test_bad_options_are_named(options: dict[str, object], words: str) -> None:
    with pytest.raises((SamplingError, cg.CongenialError), match=words):
        independence.sample(p12_target(), 10, replay_rng(1), **options)  # type: ignore[arg-type]
