"""Every named prior keeps the contract of the registry, and so do two that the library does not know."""

import warnings

import numpy as np
import pytest

import congenial as cg
from congenial.arrays import Ints
from congenial.errors import InferenceError
from congenial.inference.areas_posterior import areas_posterior
from congenial.inference.chains_and_table_moves import ChainDraws
from congenial.inference.posterior import posterior
from congenial.inference.priors import PRIORS, DensityPrior, FlatPrior, Prior, prior_of
from congenial.law import PublicLaw
from congenial.randomness import RandomStream
from congenial.schema import Schema
from published import law_of

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0-17", "18+"]})
TABLE = cg.Table(SCHEMA, [[2, 1], [1, 3]])


def geometric(_: Schema) -> DensityPrior:
    """The toy with a density: geometric cells of mean 1."""
    return DensityPrior("geometric cells", lambda tables: -np.log(2.0) * tables.sum(axis=1))


class AsReleased(Prior):
    """The toy that draws for itself: the confidential tables are the released ones."""

    text = "nothing was changed"

    def draw_areas(self, law: PublicLaw, released: Ints, n_draws: int, n_chains: int, rng: RandomStream) -> ChainDraws:
        assert law.areas.holds(released).all()
        rng.words(1)
        return ChainDraws(np.broadcast_to(released, (n_chains, n_draws // n_chains, *released.shape)), 1.0)


@pytest.fixture(autouse=True)
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRIORS, "geometric", geometric)
    monkeypatch.setitem(PRIORS, "as released", lambda _: AsReleased())


def law() -> PublicLaw:
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    return law_of(mechanism, TABLE)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [*PRIORS, "geometric", "as released"])
def test_every_prior_keeps_the_contract(name: str) -> None:
    prior = prior_of(SCHEMA, name)
    assert prior.text
    assert prior_of(SCHEMA, prior) is prior
    found = posterior(law(), None, TABLE.counts, prior=name, n_draws=40, n_chains=2, rng=cg.replay_rng(name))
    assert found.prior.text == prior.text
    assert found.chains.shape[-1] == SCHEMA.n_cells
    assert np.all(law().areas[None].holds(found.tables))
    if found.weights is None:
        assert found.chains.shape[:2] == (2, 20)
    else:
        assert found.weights.sum() == pytest.approx(1)
    if not prior.has_areas:
        with pytest.raises(InferenceError, match='"smooth" or "flat" or "as released", not under'):
            areas_posterior(law(), TABLE.counts[None, :], prior=name)
        return
    together = areas_posterior(law(), TABLE.counts[None, :], prior=prior, n_draws=40, n_chains=2, rng=cg.replay_rng(1))
    assert together.chains.shape == (2, 20, 1, SCHEMA.n_cells)
    assert together.prior is prior


def test_the_toy_with_a_density_shifts_the_flat_posterior() -> None:
    """Of tables without a published total; with one, every geometric table is as likely as another."""
    mechanism = cg.Mechanism(
        SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.bounds(0, 3, where={"age": ["0-17", "18+"]})]
    )
    free = law_of(mechanism, TABLE)
    flat, smaller = (posterior(free, None, TABLE.counts, prior=name) for name in ("flat", "geometric"))
    assert flat.weights is not None
    weights = flat.weights * 0.5 ** flat.tables.sum(axis=1)
    assert smaller.weights is not None
    np.testing.assert_allclose(smaller.weights, weights / weights.sum())


def test_a_mistaken_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(InferenceError, match="did you mean 'geometric'"):
        prior_of(SCHEMA, "geometrc")
    with pytest.raises(InferenceError, match="smooth, flat, dirichlet, independence, geometric, as released, a Prior"):
        prior_of(SCHEMA, 3)  # type: ignore[arg-type]


def test_a_flat_prior_that_is_no_name_draws_areas_too() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = areas_posterior(law(), TABLE.counts[None, :], prior=FlatPrior(), n_draws=40, rng=cg.replay_rng(2))
    assert found.chains.shape == (4, 10, 1, SCHEMA.n_cells)
