"""Tests of models through the release's own law: level, power, and the naive test that loses its level."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, ndtri
from scipy.stats import chi2

import congenial as cg
from agreement import p_value
from congenial.inference.models import goodness_of_fit as null_tables
from congenial.inference.models.design_and_parameter_steps import Design
from congenial.inference.models.goodness_of_fit import (
    NullTables,
    chi_square,
    independence_test,
    independent_draws,
    trend,
)
from congenial.inference.models.log_linear import log_linear
from congenial.inference.posterior import posterior
from congenial.inference.priors import DensityPrior, smooth
from congenial.inference.smooth.effects import INDEPENDENT, effects
from congenial.randomness import RandomStream, replay_rng
from published import law_of

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})


def mechanism_with(precision: str) -> cg.Mechanism:
    measure = [cg.cells(precision=precision, zeros="unweighted")]
    return cg.Mechanism(SCHEMA, measure=measure, invariants=[cg.total(), cg.margin("sex")])


MECHANISM = mechanism_with("1/6")


def p_values(mechanism: cg.Mechanism, odds: float, n: int, rng: RandomStream) -> NDArray[np.float64]:
    """Return the p-values of the test, and of the textbook's on the release, for tables of 40 people (table, test)."""
    out = []
    chances = np.array([odds, 1.0, 1.0, odds]) / (2 + 2 * odds)
    for _ in range(n):
        people = np.searchsorted(np.cumsum(chances)[:-1], rng.uniforms(40))
        table = cg.Table(SCHEMA, np.bincount(people, minlength=4).reshape(2, 2))
        law = law_of(mechanism, table)
        released = mechanism.law(table).sample(1, rng)[0]
        found = independence_test(law, None, released, n_replicates=99, rng=rng)
        out.append((found.p_value, chi2.sf(found.released, 1)))
    return np.array(out)


def test_the_level_holds_where_the_textbook_s_does_not(request: pytest.FixtureRequest) -> None:
    """Under independence: at most 5 % rejected, up to simulation error; the mutant, chi-square on the release, many.

    Of 30 tests at a true level of 6 %, more than 8 reject with chance 5e-5; of the mutant's, which rejects every other
    table under this much noise, hardly ever fewer. `make bench-independence` runs thousands.
    """
    rejected = (p_values(mechanism_with("1/20"), 1.0, 30, replay_rng(request.node.nodeid)) <= 0.05).sum(axis=0)
    assert rejected[0] <= 8
    assert rejected[1] > 8


def test_dependence_is_found(request: pytest.FixtureRequest) -> None:
    rejected = (p_values(MECHANISM, 9.0, 8, replay_rng(request.node.nodeid)) <= 0.05).mean(axis=0)
    assert rejected[0] > 0.4


def main_effects(n: int, rng: RandomStream) -> NDArray[np.float64]:
    """Draw probabilities of cells (draw, cell) from main effects, by formulas and not by kernels."""
    levels = np.unravel_index(np.arange(SCHEMA.n_cells), SCHEMA.shape)
    eta = np.zeros((n, SCHEMA.n_cells))
    for term in effects(SCHEMA, smooth(SCHEMA).ordered, INDEPENDENT):
        if term.scale:
            ((axis, operator),) = term.along
            normals = ndtri(rng.uniforms(n * operator.shape[1])).reshape(n, -1)
            assert not term.is_estimated  # two levels have nothing to estimate
            eta += term.scale * normals @ operator[levels[axis]].T
    chances = np.exp(eta)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def test_draws_under_independence_are_those_of_every_table(request: pytest.FixtureRequest) -> None:
    """Chains have the means of all tables gone through, weighted by main effects; the release itself is told apart."""
    table, rng = cg.Table(SCHEMA, [[9, 0], [1, 6]]), replay_rng(request.node.nodeid)
    log_chances = np.log(main_effects(20_000, rng))

    def log_prior(tables: NDArray[np.int64]) -> NDArray[np.float64]:
        log_shares = tables @ log_chances.T - gammaln(tables + 1.0).sum(axis=1, keepdims=True)
        return np.asarray(logsumexp(log_shares, axis=1))

    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/3")], invariants=[cg.total()])
    law, released = law_of(mechanism, table), table.counts.reshape(-1)
    exactly = posterior(law, None, released, prior=DensityPrior("main effects", log_prior), rng=rng)
    assert exactly.weights is not None
    _, drawn = independent_draws(law, None, released, 1_600, rng)
    errors = 5 * drawn.std(axis=0) / np.sqrt(800)
    assert np.all(np.abs(drawn.mean(axis=0) - exactly.mean()) < errors)
    assert np.any(np.abs(released - exactly.mean()) > errors)


def test_null_tables_have_the_poisson_law_given_the_sums(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Crossing sums: 100,000 tables against every table's probability; rates of another model are told apart."""
    monkeypatch.setattr(null_tables, "_STEPS", 40)  # sums up to 2 need no more
    conditions = [cg.total(equals=4), cg.total({"sex": "f"}, equals=2), cg.total({"age": "0"}, equals=2)]
    constraints = cg.Constraints.of(SCHEMA, conditions)
    rates = np.array([2.0, 1.0, 1.0, 0.5])
    tables = np.array([t for t in product(range(5), repeat=4) if constraints.holds(np.array(t))])
    weights = np.array(
        [np.prod([r**k / np.prod(np.arange(1, k + 1)) for r, k in zip(rates, t, strict=True)]) for t in tables]
    )
    start = np.repeat(tables[:1], 100_000, axis=0)
    drawn = NullTables.of(constraints).draw(
        np.repeat(rates[None], len(start), axis=0), start, replay_rng(request.node.nodeid)
    )
    place = (drawn[:, None, :] == tables[None, :, :]).all(axis=2).argmax(axis=1)
    assert p_value(place, weights / weights.sum()) > 1e-6
    assert p_value(place, np.full(len(tables), 1 / len(tables))) < 1e-6


def test_null_tables_keep_limits_and_leave_free_cells_free(request: pytest.FixtureRequest) -> None:
    rng = replay_rng(request.node.nodeid)
    constraints = cg.Constraints.of(SCHEMA, [cg.total({"sex": "f"}, equals=6), cg.bounds(0, 4, where={"age": "0"})])
    start = np.repeat(np.array([[3, 3, 1, 1]]), 500, axis=0)
    drawn = NullTables.of(constraints).draw(np.full((500, 4), 2.0), start, rng)
    assert np.all(constraints.holds(drawn))
    assert abs(drawn[:, 3].mean() - 2.0) < 0.4
    with pytest.raises(cg.CongenialError, match="another model"):
        NullTables.of(constraints).draw(np.repeat([[1e6, 1.0, 2.0, 2.0]], 500, axis=0), start, rng)


def test_statistics_and_mistakes() -> None:
    assert trend(SCHEMA)(np.array([[4, 0, 0, 4], [2, 2, 2, 2]])).tolist() == [1.0, 0.0]
    three = cg.Schema({"a": ["0", "1"], "b": ["0", "1"], "c": ["0", "1"]})
    assert chi_square(three)(np.array([[1] * 8, [4, 0, 0, 0, 0, 0, 0, 4]])).round(6).tolist() == [0.0, 24.0]
    with pytest.raises(cg.CongenialError, match="two dimensions"):
        trend(three)
    table = cg.Table(SCHEMA, [[3, 2], [1, 4]])
    law = law_of(MECHANISM, table)
    for options, said in (
        ({"statistic": "chisquare"}, "did you mean 'chi_square'"),
        ({"n_replicates": 5}, "from 19 on"),
    ):
        with pytest.raises(cg.CongenialError, match=said):
            independence_test(law, None, table.counts.reshape(-1), **options)


def test_goodness_of_fit_of_a_model(request: pytest.FixtureRequest) -> None:
    """A table far from independence: main effects do not fit it, an interaction does."""
    rng = replay_rng(request.node.nodeid)
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1")], invariants=[cg.total()])
    table = cg.Table(SCHEMA, [[30, 3], [4, 28]])
    law, released = law_of(mechanism, table), table.counts.reshape(-1)
    main, full = (
        log_linear(law, None, released, Design.of(law, terms), n_draws=1_600, rng=rng)
        for terms in (["sex", "age"], ["sex", "age", "sex:age"])
    )
    assert main.goodness_of_fit(n_replicates=99, rng=rng).p_value <= 0.05
    assert full.goodness_of_fit(n_replicates=99, rng=rng).p_value > 0.05
    assert main.goodness_of_fit("chi_square", n_replicates=99, rng=rng).p_value <= 0.05
