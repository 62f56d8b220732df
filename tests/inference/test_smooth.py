"""The smooth prior: chains keep it, effects are what the formulas say, and tables that are too rough are told."""

import warnings

import numpy as np
import pytest

import congenial as cg
from agreement import own_rng
from congenial.arrays import Floats, Ints
from congenial.inference import priors
from congenial.inference.kernels_random_numbers import RandomBuffer
from congenial.inference.pattern_moves_and_normalisers import PatternSteps
from congenial.inference.posterior import ContradictedPriorWarning, posterior
from congenial.inference.smooth import kernels
from congenial.inference.smooth.chains import Field, smooth_draws
from congenial.inference.smooth.effects import ALONE, DEVIATIONS, PROFILE, Scales, Term, effects, terms_of
from congenial.randomness import RandomStream
from congenial.schema import widths_of_labels
from published import law_of

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0-9", "10-19", "20-29", "30-49", "50+"]})
ORDERED = {"age": (10.0, 10.0, 10.0, 20.0, 20.0)}
TOTAL = 40


def normals(n: int, rng: RandomStream) -> Floats:
    """Standard normals, by a way of their own."""
    from scipy.special import ndtri

    return np.asarray(ndtri(rng.uniforms(n)))


def effect(term: Term, drawn: Floats) -> Floats:
    """The plain twin of the kernel: operators along dimensions, read off at the cells' levels."""
    levels = np.unravel_index(np.arange(SCHEMA.n_cells), SCHEMA.shape)
    sides = [matrix[levels[axis]] for axis, matrix in term.along]
    if len(sides) == 1:
        return np.asarray(sides[0] @ drawn)
    cube = drawn.reshape(sides[0].shape[1], sides[1].shape[1])
    return np.asarray(np.einsum("ij,jk,ik->i", sides[0], cube, sides[1]))


@pytest.mark.parametrize("scales", [ALONE, PROFILE, DEVIATIONS])
def test_effects_are_those_of_the_formulas(scales: Scales, request: pytest.FixtureRequest) -> None:
    terms, rng = terms_of(SCHEMA, ORDERED, scales), own_rng(request)
    for place, term in enumerate(effects(SCHEMA, ORDERED, scales)):
        drawn = normals(int(terms.start[place + 1] - terms.start[place]), rng)
        out = np.empty(SCHEMA.n_cells)
        kernels.add_effect(terms, place, drawn, 0.7, np.empty(100), out)
        np.testing.assert_allclose(out, 0.7 * effect(term, drawn), atol=1e-12)


def started(buffer: RandomBuffer) -> tuple[Field, Ints]:
    """A field and a table drawn from the prior itself, given the total."""
    terms, rng = terms_of(SCHEMA, ORDERED), buffer.rng
    found = Field.start(terms, np.full((1, 10), 4), np.ones((1, 10), bool), buffer)
    found.hyper[:] = normals(len(terms.scale), rng)
    grown = [kernels.scale_of(unit, own, terms.tail) for unit, own in zip(terms.scale, found.hyper, strict=True)]
    found.scales[:] = np.where(terms.is_estimated, grown, terms.scale)
    found.normals[:] = normals(found.normals.size, rng).reshape(found.normals.shape)
    found.set_effects()
    eta = terms.offset + found.effects[0].sum(axis=0)
    edges = np.cumsum(np.exp(eta - eta.max()))
    picks = np.searchsorted(edges, rng.uniforms(TOTAL) * edges[-1]).clip(0, 9)
    return found, np.bincount(picks, minlength=10)[None, :].astype(np.int64)


def z_scores(n_starts: int, rng: RandomStream, *, is_mutant: bool = False) -> Floats:
    """From equilibrium: how far statistics move, in standard errors, after three sweeps of field and table."""
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/2")], invariants=[cg.total()])
    law = law_of(mechanism, cg.Table(SCHEMA, [[4] * 5] * 2))
    moving, buffer = PatternSteps.of(law.areas[None], law.measured), RandomBuffer(rng)
    tilts = moving.tilts(np.full((1, 10), 4))
    moved = []
    for _ in range(n_starts):
        found, table = started(buffer)
        here = statistics(found, table)
        for _ in range(3):
            found.sweep(table)
            rates = found.eta * (0.7 if is_mutant else 1.0)
            table, _ = moving.move(table, table, rates, tilts, 60, buffer, has_noise=False)
        moved.append(statistics(found, table) - here)
    gaps = np.array(moved)
    return np.asarray(gaps.mean(axis=0) / (gaps.std(axis=0) / np.sqrt(n_starts)))


def statistics(found: Field, table: Ints) -> Floats:
    effects = found.effects[0].sum(axis=0)
    share = np.exp(effects - effects.max())
    share = share / share.sum()
    scales = np.log(found.scales[found.terms.is_estimated])
    return np.array([(table**2).sum(), table[0, [4, 9]].sum(), (share**2).sum(), (share @ table[0]), *scales])


@pytest.mark.statistical
def test_field_and_table_keep_their_joint_law(request: pytest.FixtureRequest) -> None:
    """From 4,000 starts; the mutant, from 2,000: its tables follow log rates that are too flat."""
    assert np.abs(z_scores(4_000, own_rng(request))).max() < 5
    assert np.abs(z_scores(2_000, own_rng(request), is_mutant=True)).max() > 5


@pytest.mark.statistical
@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
def test_tables_keep_the_posterior_given_the_field(noise: str, request: pytest.FixtureRequest) -> None:
    """With log rates held, long chains have the means of all tables gone through; without c(s) they have not."""
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0", "1"]})
    mechanism = cg.Mechanism(
        schema,
        measure=[cg.cells(precision="1/2"), cg.margin("age", precision="1")],
        invariants=[cg.total()],
        noise=noise,
    )
    table = cg.Table(schema, [[2, 0], [1, 4]])
    law = law_of(mechanism, table)
    rates, rng = np.array([0.5, 2.0, 1.0, 3.0]), own_rng(request)
    exactly = posterior(law, None, table.counts, prior=priors.poisson(schema, rates)).mean()
    found, without = (held_means(law, table.counts, np.log(rates), rng, has_c=has_c) for has_c in (True, False))
    assert np.abs(found - exactly).max() < 0.03
    assert np.abs(without - exactly).max() > 0.05


def normalisers(moving: PatternSteps, tables: Ints, rng: RandomStream) -> Floats:
    """Return log c(s) of every line; of 120 tables, each is computed once."""
    once, place = np.unique(tables, axis=0, return_inverse=True)
    return moving.log_normalisers(once, rng)[place]


def held_means(law: cg.law.PublicLaw, released: Ints, eta: Floats, rng: RandomStream, *, has_c: bool) -> Floats:
    moving, buffer, n = PatternSteps.of(law.areas[None], law.measured), RandomBuffer(rng), 4_000
    lines = np.repeat(released[None, :], n, axis=0)
    one = moving.tilts(released[None, :])
    if not has_c:  # nor anything that stands in for it
        one = type(one)(np.zeros_like(one.log_mass), np.zeros_like(one.slope))
    tilts = type(one)(np.repeat(one.log_mass, n, axis=0), np.repeat(one.slope, n, axis=0))
    here, total = lines.copy(), np.zeros(released.size)
    log_c = normalisers(moving, here, rng)
    for sweep in range(25):
        tried, gain = moving.move(here, lines, np.repeat(eta[None, :], n, axis=0), tilts, 8, buffer)
        tried_c = normalisers(moving, tried, rng)
        taken = np.log(rng.uniforms(n)) < (gain + log_c - tried_c if has_c else 0.0)
        here, log_c = np.where(taken[:, None], tried, here), np.where(taken, tried_c, log_c)
        total += here.mean(axis=0) if sweep >= 10 else 0
    return total / 15


def test_tables_far_from_their_limits_share_a_normaliser() -> None:
    law = law_of(cg.examples.p12_mechanism(), cg.examples.p12_table())
    moving = PatternSteps.of(law.areas[None], law.measured)
    tables = cg.examples.p12_table().counts + np.array([[0], [200], [5_000]])
    found = moving.log_normalisers(tables, cg.replay_rng(1))
    np.testing.assert_allclose(found, moving.sampler.log_normalisers(tables, cg.replay_rng(1)), atol=1e-6)
    assert found[1] == found[2] != found[0]


def test_smooth_intervals_of_p12_obey_and_repeat() -> None:
    mechanism, released = cg.examples.p12_mechanism(), cg.examples.p12_printed_release()
    law = law_of(mechanism, released)
    first, second = (
        posterior(law, None, released.counts, n_draws=4_000, rng=cg.replay_rng(seed)) for seed in ("one", "two")
    )
    assert np.all(first.constraints.holds(first.tables))
    query = "age in {65-66, 67-69, 70-74, 75-79, 80-84, 85+}"
    one, two = first.interval(query), second.interval(query)
    error = np.hypot(one.quality.monte_carlo_error, two.quality.monte_carlo_error)
    assert abs(one.mean - two.mean) < 5 * error
    assert one.quality.effective_draws > 100
    assert first.error_interval(query, rng=cg.replay_rng(1)).is_available
    assert not first.error_interval("ratio(age=85+ / age=80-84)").is_available
    assert first.cell_effect is not None
    assert first.cell_effect < 0.5  # above, it would warn


def test_a_rough_table_is_said_aloud() -> None:
    """Cells that have nothing to do with each other: their own effects are large."""
    schema = cg.Schema({"sex": ["f", "m"], "age": [f"{10 * i}-{10 * i + 9}" for i in range(8)]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="2")], invariants=[cg.total()])
    rough = cg.Table(schema, [[0, 90, 1, 60, 0, 200, 2, 50], [80, 0, 70, 3, 120, 1, 90, 0]])
    with pytest.warns(ContradictedPriorWarning, match="rougher"):
        posterior(law_of(mechanism, rough), None, rough.counts, n_draws=400, rng=cg.replay_rng(1))
    even = cg.Table(schema, [[40, 38, 41, 36, 33, 30, 24, 12], [42, 40, 39, 37, 30, 28, 20, 9]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ContradictedPriorWarning)
        posterior(law_of(mechanism, even), None, even.counts, n_draws=400, rng=cg.replay_rng(1))


@pytest.mark.parametrize(
    ("labels", "widths"),
    [
        (("under 5", "5-9", "10", "11 to 14", "15 and over"), (5, 5, 1, 4, 4)),
        (("0-4", "10-14", "15+"), None),
        (("low", "middle", "high"), None),
        (("85+", "80-84", "75-79"), None),
    ],
)
def test_widths_from_labels(labels: tuple[str, ...], widths: tuple[int, ...] | None) -> None:
    assert widths_of_labels(labels) == widths


def test_ordered_dimensions_are_the_schema_s_or_the_analyst_s() -> None:
    plain = cg.Schema({"grade": ["low", "middle", "high"], "sex": ["f", "m"]})
    assert priors.smooth(plain).ordered == {}
    assert priors.smooth(plain, {"grade": None}).ordered == {"grade": (1.0, 1.0, 1.0)}
    said = cg.Schema({"grade": ["low", "middle", "high"]}, ordered={"grade": ["1", "2", "1/2"]})
    assert priors.smooth(said).ordered == {"grade": (1.0, 2.0, 0.5)}
    with pytest.raises(cg.CongenialError, match="not a dimension"):
        priors.smooth(plain, {"grades": None})
    with pytest.raises(cg.CongenialError, match="3 numbers"):
        cg.Schema({"grade": ["low", "middle", "high"]}, ordered={"grade": ["1"]})


def test_three_dimensions_and_structural_zeros() -> None:
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0-9", "10-19", "20+"], "job": ["none", "some", "many"]})
    conditions = [cg.total(), cg.structural_zeros({"age": "0-9", "job": ["some", "many"]})]
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/2")], invariants=conditions)
    table = cg.Table(schema, [[[5, 0, 0], [4, 1, 1], [2, 6, 3]], [[6, 0, 0], [3, 2, 0], [1, 7, 4]]])
    law = law_of(mechanism, table)
    widths, rng = {"age": (10.0, 10.0, 10.0)}, cg.replay_rng(3)
    drawn = smooth_draws(law, table.counts[None, :], widths, n_draws=80, n_chains=2, rng=rng)
    assert np.all(law.areas[None].holds(drawn.tables.reshape(-1, 18).astype(np.int64)))
    assert drawn.acceptance > 0.5
