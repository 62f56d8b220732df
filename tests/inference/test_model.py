"""Log-linear models by data augmentation: against a grid on a small system, and from equilibrium."""

from functools import cache

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import congenial as cg
from congenial.inference.models.design_and_parameter_steps import Design
from congenial.inference.models.log_linear import log_linear
from published import law_of

SCHEMA = cg.Schema({"bin": ["a", "b", "c"]})
MECHANISM = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
RELEASED = np.array([10, 0, 0])
LAW = law_of(MECHANISM, cg.Table(SCHEMA, RELEASED))


@cache
def on_a_grid(deviation: float) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float]:
    """Return the posterior mean of both effects, and of cell c, by summing over all tables and a grid of theta.

    With the total fixed, the Poisson model is multinomial times a law of the intercept, which sums out on its own.
    """
    tables = cg.Law(LAW, RELEASED).enumerated.tables
    log_p = []
    for table in tables:
        listed = cg.Law(LAW, table).enumerated
        log_p.append(np.log(float(listed.probabilities[int(listed.position(RELEASED[None, :])[0])])))
    grid = np.linspace(-6, 6, 61)
    b, c = np.meshgrid(grid, grid, indexing="ij")
    intercept = np.linspace(-6, 6, 121)
    total = np.zeros((*b.shape, len(tables)))
    for number, table in enumerate(tables):
        eta = np.stack([np.zeros_like(b), b, c])
        size = np.exp(eta).sum(axis=0)
        log_like = (table[1] * b + table[2] * c) - gammaln(table + 1.0).sum()
        # The intercept: sum exp(n i - exp(i) size - i^2 / 200).
        part = 10 * intercept - np.exp(intercept) * size[..., None] - intercept**2 / 200
        total[..., number] = log_like + logsumexp(part, axis=-1) + log_p[number]
    total -= ((b**2 + c**2) / (2 * deviation**2))[..., None]
    weights = np.exp(total - total.max())
    weights /= weights.sum()
    return np.array([(weights.sum(axis=-1) * b).sum(), (weights.sum(axis=-1) * c).sum()]), float(
        (weights.sum(axis=(0, 1)) * tables[:, 2]).sum()
    )


def test_means_agree_with_a_grid() -> None:
    exactly, last = on_a_grid(1.0)
    design = Design.of(LAW, ["bin"])
    found = log_linear(
        LAW, None, RELEASED, design, prior_deviation=1.0, n_draws=9_600, n_chains=24, rng=cg.replay_rng("model")
    )
    assert found.names == ("intercept", "bin=b", "bin=c")
    error = found.theta.reshape(-1, 3).std(axis=0) / np.sqrt(found.effective_draws)
    assert np.all(np.abs(found.theta.reshape(-1, 3).mean(axis=0)[1:] - exactly) < 5 * error[1:])
    assert found.tables[:, :, 2].mean() == pytest.approx(last, abs=0.07)
    assert found.split_rhat.max() < 1.02
    assert np.all(LAW.areas[None].holds(found.tables.reshape(-1, 3)))


def test_without_the_normaliser_the_grid_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: c(s) taken as constant pulls the tables away from zero."""
    _, last = on_a_grid(1.0)
    from congenial.sampling.elimination.sampler import EliminationSampler

    monkeypatch.setattr(EliminationSampler, "log_normalisers", lambda self, centres, rng: np.zeros(len(centres)))
    found = log_linear(
        LAW,
        None,
        RELEASED,
        Design.of(LAW, ["bin"]),
        prior_deviation=1.0,
        n_draws=9_600,
        n_chains=24,
        rng=cg.replay_rng("mutant"),
    )
    assert found.tables[:, :, 2].mean() - last > 0.1


def test_p12_by_sex_and_age_runs() -> None:
    mechanism = cg.examples.p12_mechanism()
    released = cg.examples.p12_printed_release()
    law = law_of(mechanism, released)
    design = Design.of(law, ["sex"], {"older": (np.arange(46) % 23) / 22})
    found = log_linear(law, None, released.counts, design, n_draws=400, n_chains=16, rng=cg.replay_rng("p12 model"))
    assert found.names == ("intercept", "sex=male", "older")
    assert found.theta.shape == (16, 25, 3)
    assert found.acceptance > 0.3
    assert abs(found.theta[..., 1].mean()) < 0.3
    assert set(found.as_dict()["posterior"]) == {"theta", "table"}
    assert "sex=male" in repr(found)


def test_interactions_and_mistakes() -> None:
    mechanism = cg.examples.p12_mechanism()
    law = law_of(mechanism, cg.examples.p12_printed_release())
    assert len(Design.of(law, ["sex", "age", "sex:age"]).names) == 46
    for terms, covariates, said in (
        (["sx"], None, "did you mean 'sex'"),
        (["sex", "sex"], None, "twice"),
        (["sex:sex"], None, "names a dimension twice"),
        ([], {"x": [1.0]}, "46 finite numbers"),
    ):
        with pytest.raises(cg.CongenialError, match=said):
            Design.of(law, terms, covariates)
    design = Design.of(LAW, [])
    for options in ({"prior_deviation": 0.0}, {"n_chains": 1}, {"n_draws": 5}):
        with pytest.raises(cg.CongenialError):
            log_linear(LAW, None, RELEASED, design, **options)


def test_tables_start_where_the_model_can_be() -> None:
    """Cells that may be negative: no Poisson cell is, so no chain starts or goes there."""
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total(), cg.bounds(-2)])
    law = law_of(mechanism, cg.Table(SCHEMA, RELEASED))
    found = log_linear(law, None, RELEASED, Design.of(law, []), n_draws=200, n_chains=4, rng=cg.replay_rng("limits"))
    assert found.tables.min() == 0


def test_draws_are_arviz_s() -> None:
    found = log_linear(
        LAW, None, RELEASED, Design.of(LAW, ["bin"]), n_draws=1_600, n_chains=16, rng=cg.replay_rng("arviz")
    )
    tree = found.to_arviz()
    assert tree["posterior"]["theta"].dims == ("chain", "draw", "parameter")
    assert tree["posterior"]["theta"].coords["parameter"].values.tolist() == list(found.names)
