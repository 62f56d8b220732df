"""The posterior equals the enumerated one, and without the normaliser it does not; diagnostics, priors, warnings."""

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

import congenial as cg
from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.conditions.base import Condition
from congenial.inference import chains_and_table_moves as chains
from congenial.inference import priors
from congenial.inference.chains_and_table_moves import ChainDraws, by_proposals, by_small_steps, walk
from congenial.inference.estimates_and_draw_quality import PoorDrawsWarning
from congenial.inference.posterior import PoorProposalWarning, Posterior, posterior
from congenial.law import PublicLaw
from congenial.sampling.elimination import sampler as exact
from published import law_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})
SYSTEMS: dict[str, list[Condition]] = {
    "total": [cg.total()],
    "margin": [cg.margin("sex")],
    "total and a limit": [cg.total(), cg.bounds(0, 3, where={"sex": "f"})],
}


def small(name: str, noise: str = "double_geometric") -> tuple[PublicLaw, Ints]:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=SYSTEMS[name], noise=noise)
    table = cg.Table(SCHEMA, [[2, 1], [0, 3]])
    return law_of(mechanism, table), table.counts


def brute(law: PublicLaw, released: Ints, prior: priors.DensityPrior) -> tuple[Ints, Floats]:
    """Return all tables and their posterior probabilities, from the exact enumerated laws of each table."""
    tables = None
    chances = []
    first = cg.Law(law, released).enumerated
    tables = first.tables
    for table in tables:
        listed = cg.Law(law, table).enumerated
        chances.append(float(listed.probabilities[int(listed.position(released[None, :])[0])]))
    weights = np.array(chances) * np.exp(prior(tables))
    return tables, weights / weights.sum()


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
@pytest.mark.parametrize("belief", ["flat", "dirichlet", "independence"])
def test_small_sets_are_enumerated_exactly(name: str, noise: str, belief: str) -> None:
    law, released = small(name, noise)
    found = posterior(law, None, released, prior=belief)
    assert found.is_exact
    known = priors.prior_of(SCHEMA, belief)
    assert isinstance(known, priors.DensityPrior)
    tables, chances = brute(law, released, known)
    assert found.weights is not None
    np.testing.assert_array_equal(found.tables, tables)
    np.testing.assert_allclose(found.weights, chances, atol=1e-12)
    np.testing.assert_allclose(found.mean(), chances @ tables)


def with_diagnostics(law: PublicLaw, released: Ints, prior: priors.DensityPrior, drawn: ChainDraws) -> Posterior:
    return Posterior(law, None, released, prior, drawn.chains, None, drawn.acceptance)


def one_step(law: PublicLaw, released: Ints, rng: cg.randomness.RandomStream, *, with_normaliser: bool) -> Ints:
    """Start 100,000 chains at exact posterior draws, make one step each, and return where they stand (as numbers)."""
    tables, chances = brute(law, released, priors.FlatPrior())
    starts = tables[np.searchsorted(np.cumsum(chances), rng.uniforms(N_DRAWS)).clip(0, len(tables) - 1)]
    target = law.target(None, released)
    engine = exact.elimination_of(target)
    proposals = exact.Messages.of(engine, target.centre).sample(N_DRAWS, rng)
    both = np.stack([starts, proposals], axis=1)
    log_ratio = np.zeros((N_DRAWS, 2))
    if with_normaliser:
        log_ratio = -exact.log_normalisers(engine, both.reshape(-1, 4)).reshape(N_DRAWS, 2)
    coins = np.log(rng.uniforms(N_DRAWS))
    picks = [walk(own, np.array([0.0, coin]))[0][1] for own, coin in zip(log_ratio, coins, strict=True)]
    ends = both[np.arange(N_DRAWS), picks]
    numbers = {tuple(table): number for number, table in enumerate(tables.tolist())}
    return np.array([numbers[tuple(end)] for end in ends.tolist()])


@pytest.mark.statistical
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_chain_keeps_the_posterior(name: str, request: pytest.FixtureRequest) -> None:
    """From equilibrium; the mutant leaves the normaliser out, and is rejected."""
    law, released = small(name)
    _, chances = brute(law, released, priors.FlatPrior())
    rng = own_rng(request)
    assert p_value(one_step(law, released, rng, with_normaliser=True), chances) > ALPHA
    assert p_value(one_step(law, released, rng, with_normaliser=False), chances) < ALPHA


def test_draws_of_chains_have_the_enumerated_means() -> None:
    law, released = small("total")
    exactly = posterior(law, None, released, prior="flat")
    found = by_proposals(law.target(None, released), priors.FlatPrior(), 20_000, 4, cg.replay_rng("chain means"))
    drawn = with_diagnostics(law, released, priors.FlatPrior(), found)
    assert not drawn.is_exact
    error = drawn.tables.std(axis=0) / np.sqrt(drawn.effective_draws)
    assert np.all(np.abs(drawn.mean() - exactly.mean()) < 6 * error)
    assert drawn.split_rhat.max() < 1.01
    assert drawn.effective_draws.min() > 5_000


def test_exact_is_what_the_published_numbers_determine() -> None:
    """Probabilities that are exact do not make a number exact; numbers that limits leave one value are."""
    law, released = small("total")
    found = posterior(law, None, released, prior="flat").interval("sex=f")
    assert not found.is_exact
    assert found.quality.text == "all tables gone through"
    assert "exact" not in repr(found)
    nobody = cg.Table(SCHEMA, [[0, 0], [2, 3]])
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.margin("sex")])
    drawn = posterior(law_of(mechanism, nobody), None, nobody.counts, n_draws=400, rng=cg.replay_rng(1))
    assert repr(drawn.interval("sex=f & age=0")) == "sex=f & age=0: exactly 0"
    assert drawn.error_interval("sex=f & age=0").is_exact
    assert drawn.interval("difference(sex=m, sex=f & age=1)").is_exact
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoorDrawsWarning)
        assert not drawn.interval("age=1").is_exact
        assert not drawn.error_interval("age=1").is_exact


def test_draws_that_are_too_few_for_a_level_have_no_ends(p12: Posterior) -> None:
    law, released = p12.law, p12.released
    few = posterior(law, None, released, prior="flat", n_draws=40, rng=cg.replay_rng("few"))
    with pytest.warns(PoorDrawsWarning):
        found = few.interval("sex=female & age=85+", 0.96)
    assert (found.low, found.high) == (-np.inf, np.inf)
    with pytest.warns(PoorDrawsWarning):
        assert np.isfinite(few.interval("sex=female & age=85+", 0.95).high)


@pytest.fixture(scope="module")
def p12() -> Posterior:
    mechanism = cg.examples.p12_mechanism()
    released = cg.examples.p12_printed_release()
    law = law_of(mechanism, released)
    return posterior(law, None, released.counts, prior="flat", n_draws=4_000, rng=cg.replay_rng("p12"))


def test_p12_accepts_well_and_mixes(p12: Posterior) -> None:
    assert p12.acceptance > 0.6
    assert np.median(p12.effective_draws) > 1_000
    assert p12.split_rhat.max() < 1.03
    assert np.all(p12.constraints.holds(p12.tables))


def test_intervals_hold_their_posterior_mass(p12: Posterior) -> None:
    for query in ("sex=female & age=85+", "age in {65-66, 67-69}", "share(age=85+ | sex=male)"):
        found = p12.interval(query, 0.8)
        from congenial.inference.questions import parse_query

        values = parse_query(query, p12.law.schema)[0].values(p12.tables)
        assert ((values >= found.low) & (values <= found.high)).mean() >= 0.8
        assert ((values > found.low) & (values < found.high)).mean() < 0.8
        assert found.low <= found.median <= found.high
    assert p12.interval("sex=female").is_exact
    assert p12.interval("all").mean == 256


def test_simultaneous_intervals_hold_together(p12: Posterior) -> None:
    together = p12.intervals("all by age, sex", 0.9, is_simultaneous=True)
    alone = p12.intervals("all by age, sex", 0.9)
    inside = np.ones(len(p12.tables), bool)
    each = np.ones(len(p12.tables), bool)
    order = [
        p12.law.schema.cell({"age": age, "sex": sex})
        for age in p12.law.schema.labels("age")
        for sex in ("female", "male")
    ]
    for joint, single, cell in zip(together, alone, order, strict=True):
        inside &= (p12.tables[:, cell] >= joint.low) & (p12.tables[:, cell] <= joint.high)
        each &= (p12.tables[:, cell] >= single.low) & (p12.tables[:, cell] <= single.high)
        assert joint.low <= single.low
        assert joint.high >= single.high
    assert inside.mean() >= 0.9
    assert each.mean() < 0.5  # one by one they are far from holding together


@pytest.mark.parametrize("name", SYSTEMS)
def test_average_coverage_under_the_prior_is_the_posterior_mass(name: str) -> None:
    """Exactly: over tables from the prior and their releases, an interval covers as often as its mass says."""
    law, released = small(name)
    tables, _ = brute(law, released, priors.FlatPrior())
    laws = [cg.Law(law, table).enumerated for table in tables]
    joint = np.array([[float(p) for p in listed.probabilities] for listed in laws]) / len(tables)
    covered = mass = 0.0
    for place, release in enumerate(tables):
        found = posterior(law, None, release, prior="flat")
        interval = found.interval("sex=f & age=0", 0.8)
        inside = (tables[:, 0] >= interval.low) & (tables[:, 0] <= interval.high)
        covered += float(joint[inside, place].sum())
        assert found.weights is not None
        mass += float(found.weights[inside].sum()) * float(joint[:, place].sum())
    assert covered == pytest.approx(mass, abs=1e-9)
    assert covered >= 0.8


def test_priors_are_densities_of_what_they_say() -> None:
    """Compared with sums over all tables of a total: the multinomial prior sums to one."""
    schema = cg.Schema({"c": ["a", "b", "c"]})
    tables = np.array([(i, j, 5 - i - j) for i in range(6) for j in range(6 - i)])
    rates = np.array([1.0, 2.0, 3.0])
    log_total = 5 * np.log(rates.sum()) - np.log(120)
    assert np.exp(priors.poisson(schema, rates)(tables) - log_total).sum() == pytest.approx(1)
    flat_like = priors.dirichlet(schema, 1.0)(tables)
    assert np.ptp(flat_like) < 1e-9  # Dirichlet(1, 1, 1) makes all tables equally likely
    square = cg.Schema({"r": ["a", "b"], "s": ["a", "b"]})
    independent = priors.independence(square)
    even, crossed = np.array([[2, 2, 2, 2]]), np.array([[4, 0, 0, 4]])
    assert independent(even)[0] > independent(crossed)[0]


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        ("flatt", "did you mean 'flat'"),
        (3, "not a int"),
        (lambda tables: np.zeros(3), "one number for each"),
        (lambda tables: np.full(len(tables), np.nan), "one number for each"),
        (lambda tables: np.full(len(tables), -np.inf), "no table that fits"),
    ],
)
def test_bad_priors(prior: object, said: str) -> None:
    law, released = small("total")
    with pytest.raises(cg.CongenialError, match=said):
        posterior(law, None, released, prior=prior)  # type: ignore[arg-type]


def test_bad_numbers_of_draws_and_rates() -> None:
    law, released = small("total")
    for n_draws, n_chains in ((0, 4), (4.0, 1), (7, 4), (10, 0)):
        with pytest.raises(cg.CongenialError, match="n_draws"):
            posterior(law, None, released, n_draws=n_draws, n_chains=n_chains)  # type: ignore[arg-type]
    for rates in ([1.0], [1.0, -1.0, 1.0, 1.0], [0.0] * 4):
        with pytest.raises(cg.CongenialError, match="above 0"):
            priors.poisson(SCHEMA, rates)


def test_a_poor_proposal_is_said_aloud() -> None:
    mechanism = cg.examples.p12_mechanism()
    released = cg.examples.p12_printed_release()
    law = law_of(mechanism, released)
    sharp = priors.poisson(law.schema, np.geomspace(0.01, 100, 46))
    with pytest.warns(PoorProposalWarning, match="raise n_draws"):
        posterior(law, None, released.counts, prior=sharp, n_draws=40, rng=cg.replay_rng("poor"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior(law, None, released.counts, prior="flat", n_draws=200, rng=cg.replay_rng("good"))


def test_no_chain_holds_what_the_prior_forbids() -> None:
    """A prior that hardly any proposal meets is refused, never answered by tables without a chance."""
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0", "1", "2"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    table = cg.Table(schema, [[3, 1, 4], [2, 5, 9]])
    target = law_of(mechanism, table).target(None, table.counts)

    def at_least(n: int) -> priors.DensityPrior:
        return priors.DensityPrior("at least", lambda tables: np.where(tables[:, 0] >= n, 0.0, -np.inf))

    with pytest.raises(cg.CongenialError, match="hardly any proposed table"):
        by_proposals(target, at_least(12), 400, 4, cg.replay_rng(0))
    with pytest.raises(cg.CongenialError, match="hardly any proposed table"):
        by_small_steps(target, at_least(18), 400, 4, cg.replay_rng(0))
    for draw in (by_proposals, by_small_steps):
        assert draw(target, at_least(4), 400, 4, cg.replay_rng(0)).chains[:, :, 0].min() >= 4


def test_negative_cells_have_no_chance_under_priors_of_counts() -> None:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1")], invariants=[cg.total(), cg.bounds(-1)])
    table = cg.Table(SCHEMA, [[1, 1], [0, 2]])
    found = posterior(law_of(mechanism, table), None, table.counts, prior="dirichlet")
    assert found.tables.min() == 0


def test_ratios_of_what_cannot_be_are_left_out() -> None:
    schema = cg.Schema({"c": ["a", "b"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    table = cg.Table(schema, [3, 2])
    law = law_of(mechanism, table)
    found = posterior(law, None, table.counts, prior=lambda tables: np.where(tables[:, 1] > 0, 0.0, -np.inf))
    assert np.isfinite(found.interval("ratio(c=a / c=b)").mean)
    never = posterior(law, None, table.counts, prior=lambda tables: np.where(tables[:, 1] == 0, 0.0, -np.inf))
    assert np.isnan(never.interval("share(c=b | c=b)").mean)


def test_a_release_of_another_table_is_refused() -> None:
    law, _ = small("total")
    with pytest.raises(cg.CongenialError, match="one bundle"):
        posterior(law, None, np.array([30, 2, 1, 1]))


def test_a_stuck_cell_is_not_called_perfect() -> None:
    law, released = small("total")
    drawn = by_proposals(law.target(None, released), priors.FlatPrior(), 2, 1, cg.replay_rng(3))
    found = with_diagnostics(law, released, priors.FlatPrior(), drawn)
    assert not np.isinf(found.effective_draws).any()


def test_small_steps_have_the_enumerated_means_under_a_sharp_prior() -> None:
    """A prior far from the release: chains by small steps agree with all tables gone through."""
    law, released = small("total")
    sharp = priors.poisson(SCHEMA, [0.2, 0.2, 4.0, 0.2])
    exactly = posterior(law, None, released, prior=sharp)
    found = by_small_steps(law.target(None, released), sharp, 8_000, 40, cg.replay_rng("small steps"))
    drawn = with_diagnostics(law, released, sharp, found)
    error = drawn.tables.std(axis=0) / np.sqrt(drawn.effective_draws)
    assert np.all(np.abs(drawn.mean() - exactly.mean()) < 5 * error)
    assert drawn.split_rhat.max() < 1.02


def test_p12_under_independence_takes_small_steps() -> None:
    mechanism = cg.examples.p12_mechanism()
    released = cg.examples.p12_printed_release()
    law = law_of(mechanism, released)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoorProposalWarning)
        found = posterior(law, None, released.counts, prior="independence", n_draws=400, rng=cg.replay_rng("steps"))
    assert found.acceptance > 0.3
    assert np.all(found.constraints.holds(found.tables))
    assert np.nanmin(found.effective_draws) > 10
    assert found.chains.shape[:2] == (40, 10)  # many, where nobody said how many


@pytest.mark.parametrize("prior", ["flat", "independence"])
@pytest.mark.parametrize("n_chains", [1, 3])
def test_the_number_of_chains_is_the_user_s(prior: str, n_chains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the exact sampler proposes (flat) or small steps go (independence, as the test before has it)."""
    monkeypatch.setattr(chains, "_BURN_IN", 20)  # where the chains go is not looked at
    monkeypatch.setattr(chains, "_STEPS_A_CELL", 1)
    released = cg.examples.p12_printed_release()
    law = law_of(cg.examples.p12_mechanism(), released)
    rng = cg.replay_rng("chains")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PoorProposalWarning)
        found = posterior(law, None, released.counts, prior=prior, n_draws=60, n_chains=n_chains, rng=rng)
    assert found.chains.shape[:2] == (n_chains, 60 // n_chains)


def test_poor_draws_of_the_queried_number_are_said_aloud() -> None:
    """A table of six cells whose chains look alive, an acceptance of a fifth, and are worth a dozen draws."""
    schema = cg.Schema({"sex": ["f", "m"], "age": ["a", "b", "c"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/8")], invariants=[cg.total()])
    table = cg.Table(schema, [[0, 0, 60], [0, 1, 0]])
    law = law_of(mechanism, table)
    found = posterior(law, None, table.counts, prior="dirichlet", n_draws=1_000, rng=cg.replay_rng(1))
    assert found.acceptance > 0.1
    with pytest.warns(PoorDrawsWarning, match=r"sex=f & age=c: \d+ effective draws"):
        estimate = found.interval("sex=f & age=c")
    assert estimate.quality.is_poor
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found.interval("all").quality.monte_carlo_error == 0
        good = posterior(law, None, table.counts, prior="flat", n_draws=4_000, rng=cg.replay_rng(1))
        assert not good.interval("age=a").quality.is_poor
