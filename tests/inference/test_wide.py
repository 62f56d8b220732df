"""The posterior of tables that are drawn by rejection: normalisers are estimated, and the law is exact all the same."""

import numpy as np
import pytest

import congenial as cg
from agreement import own_rng
from congenial.arrays import Ints
from congenial.inference import priors
from congenial.inference.chains_and_table_moves import by_proposals
from congenial.inference.posterior import posterior
from congenial.law import PublicLaw
from congenial.sampling import sampler_and_registry as choose
from congenial.sampling.two_way.attempts import Attempts
from congenial.sampling.two_way.sampler_and_pilots import TwoWayRejection, TwoWayRejectionAt
from published import law_of

RELEASED = [[2, 0, 1], [1, 3, 0], [0, 1, 2]]


@pytest.fixture
def by_rejection(monkeypatch: pytest.MonkeyPatch) -> tuple[PublicLaw, Ints]:
    """A small table with both margins that would be drawn by contraction otherwise."""
    schema = cg.Schema({"row": list("abc"), "column": list("xyz")})
    margins = [cg.margin("row"), cg.margin("column")]
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/4")], invariants=margins)
    table = cg.Table(schema, RELEASED)
    monkeypatch.setattr(choose, "SAMPLERS", {"look-ahead rejection": TwoWayRejection.of})
    return law_of(mechanism, table), table.counts


def test_estimates_of_the_inverse_normaliser_are_unbiased(
    by_rejection: tuple[PublicLaw, Ints], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One accepted attempt each; the mutant does not count the last attempt."""
    law, released = by_rejection
    exact, rng = np.exp(-cg.Law(law, released).enumerated.log_normaliser), own_rng(request)
    (attempts,) = choose.sampler_of(law.target(None, released)).at(released).attempts  # type: ignore[attr-defined]
    found = np.exp([attempts.log_inverse(1, rng) for _ in range(20_000)])
    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - exact) < 5 * error < 0.05 * exact
    first = np.exp(-attempts.log_first)
    assert abs(found.mean() - first - exact) > 5 * error


@pytest.mark.statistical
def test_chains_with_estimates_have_the_enumerated_means(
    by_rejection: tuple[PublicLaw, Ints], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    law, released = by_rejection
    truth = posterior(law, None, released, prior="flat").mean()
    drawn = by_proposals(law.target(None, released), priors.FlatPrior(), 20_000, 4, own_rng(request))
    batches = drawn.chains.reshape(4 * 20, -1, 9).mean(axis=1)
    error = batches.std(axis=0) / np.sqrt(len(batches))
    assert np.all(np.abs(batches.mean(axis=0) - truth) < 6 * error + 1e-9)
    monkeypatch.setattr(TwoWayRejection, "log_normalisers", lambda self, centres, rng: np.zeros(len(centres)))
    mutant = by_proposals(law.target(None, released), priors.FlatPrior(), 20_000, 4, own_rng(request))
    assert np.any(np.abs(mutant.chains.reshape(-1, 9).mean(axis=0) - truth) > 6 * error + 1e-9)


def test_a_wide_release_is_asked(request: pytest.FixtureRequest) -> None:
    """Seven by eight: from the release to an interval, and nothing is summed up exactly on the way."""
    schema = cg.Schema({"row": list("abcdefg"), "column": list("stuvwxyz")})
    margins = [cg.margin("row"), cg.margin("column")]
    mechanism = cg.Mechanism(schema, measure=[cg.cells()], invariants=margins, noise="discrete_gaussian", rho="1/2")
    table = cg.Table(schema, np.random.default_rng(2).poisson(6.0, (7, 8)))
    law = mechanism.law(table)
    assert isinstance(law._drawer, TwoWayRejectionAt)
    with pytest.raises(cg.errors.TooLargeError, match="simulated_log_normaliser"):
        law.log_normaliser()
    simulated = law.simulated_log_normaliser(2_000, cg.replay_rng(1))
    assert 0 < simulated.error < 0.1
    released = law.sample(1, own_rng(request))[0]
    found = posterior(law.public, None, released, prior="flat", n_draws=80, rng=cg.replay_rng(2))
    assert found.acceptance > 0.1
    assert np.all(found.constraints.holds(found.tables))
    assert found.interval("row=a").low == found.interval("row=a").high
    low, high = np.percentile(found.tables, (5, 95), axis=0)
    assert ((low <= table.counts) & (table.counts <= high)).mean() > 0.7, "the truth lies where the draws do"
    assert isinstance(law._drawer.attempts[0], Attempts)
