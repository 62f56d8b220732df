"""Areas together: sums, differences and ranks from one object; small areas lean on the others; errors add up."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

import congenial as cg
from agreement import own_rng
from congenial.arrays import Ints
from congenial.inference.areas_posterior import AreasPosterior, areas_posterior
from congenial.inference.estimates_and_draw_quality import Estimate, PoorDrawsWarning
from congenial.inference.posterior import posterior
from congenial.inference.priors import prior_of
from congenial.law import PublicLaw

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0-9", "10-19", "20-29", "30+"]})
PROFILE = np.array([[30, 25, 20, 5], [28, 24, 22, 2]])


def released(sizes: list[int], request: pytest.FixtureRequest) -> tuple[PublicLaw, Ints, Ints]:
    """Tables of one profile and their releases, totals exact."""
    truth = np.array([PROFILE.reshape(-1) * size // 10 for size in sizes])
    mechanism = cg.Mechanism(SCHEMA, measure=[cg.cells(precision="1/3")], invariants=[cg.total()])
    tables = {f"a{number}": cg.Table(SCHEMA, table.reshape(2, 4)) for number, table in enumerate(truth)}
    law = mechanism.plan(mechanism.disclose(tables, area="county")).law
    rng = own_rng(request)
    drawn = [cg.Law(law, table, area).sample(1, rng)[0] for area, table in zip(tables, truth, strict=True)]
    return law, truth, np.array(drawn)


@pytest.fixture
def pooled(request: pytest.FixtureRequest) -> tuple[AreasPosterior, Ints]:
    law, truth, drawn = released([2, 3, 5, 8, 13, 2, 3, 60], request)
    return areas_posterior(law, drawn, n_draws=600, rng=own_rng(request)), truth


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sums_differences_and_ranks_are_those_of_the_draws(pooled: tuple[AreasPosterior, Ints]) -> None:
    found, _ = pooled
    assert found.law.areas.holds(found.chains[0, -1].astype(np.int64)).all()
    values = found.values("age=30+")
    assert values.shape == (*found.chains.shape[:2], 8)
    np.testing.assert_array_equal(values, found.chains[..., [3, 7]].sum(axis=-1))
    assert found.total("age=30+").mean == pytest.approx(values.sum(axis=2).mean())
    assert found.total("age=30+", ["a0", "a1"]).mean == pytest.approx(values[:, :, :2].sum(axis=2).mean())
    assert found.total("all").is_exact
    gap = found.difference("age=30+", "a7", "a0")
    assert gap.mean == pytest.approx((values[:, :, 7] - values[:, :, 0]).mean())
    ranks = found.ranks("age=30+")
    assert ranks["a7"].mean == 1
    assert sum(rank.mean for rank in ranks.values()) == pytest.approx(36)
    slope = found.of(lambda tables: np.polyfit(tables.sum(axis=1), tables[:, 3], 1)[0])
    assert slope.shape == found.chains.shape[:2]
    assert found["a3"].interval("age=30+").mean == pytest.approx(values[:, :, 3].mean())
    with pytest.raises(cg.CongenialError, match="no area"):
        found["b"]


def test_small_areas_lean_on_the_others(pooled: tuple[AreasPosterior, Ints], request: pytest.FixtureRequest) -> None:
    """Nearer to the truth than the release, and than each area by itself under the flat prior."""
    found, truth = pooled
    small = [0, 1, 2, 5, 6]
    mean = found.chains.reshape(-1, 8, 8).mean(axis=0)
    alone = [
        posterior(found.law, f"a{n}", found.released[n], prior="flat", n_draws=400, rng=own_rng(request)).mean()
        for n in small
    ]
    off, raw, flat = (np.square(table - truth[small]).sum() for table in (mean[small], found.released[small], alone))
    assert off < 0.6 * raw
    assert off < 0.6 * flat


def test_errors_of_many_areas_are_those_of_each(request: pytest.FixtureRequest) -> None:
    """Large tables share one law of errors, small ones have their own: spread and bias as by the exact sampler."""
    law, truth, drawn = released([2, 900, 800], request)
    found = areas_posterior(law, drawn, prior="flat", n_draws=100, n_chains=1, rng=own_rng(request))
    by_error = found.error_intervals("age=30+", rng=own_rng(request))
    for number, area in enumerate(found.areas):
        releases = cg.Law(law, truth[number], area).sample(4_000, own_rng(request))
        errors = (releases - truth[number])[:, [3, 7]].sum(axis=1)
        width = by_error[area].high - by_error[area].low
        low, high = np.quantile(errors, (0.05, 0.95))
        if number:  # the small one's is cut at nobody
            assert width == pytest.approx(high - low, abs=3.5)
        assert by_error[area].low <= truth[number, [3, 7]].sum() + 8
    shares = found.error_intervals("share(age=30+ | all)", rng=own_rng(request))  # of published totals
    for area, size in zip(found.areas, truth.sum(axis=1), strict=True):
        ends = by_error[area].low / size, by_error[area].high / size
        assert (shares[area].low, shares[area].high) == pytest.approx(ends)
    total = found.error_total("age=30+", rng=own_rng(request))
    widths = [interval.high - interval.low for interval in by_error.values()]
    assert max(widths) < total.high - total.low < sum(widths)
    assert found.error_total("all", rng=own_rng(request)).low == truth.sum()


def test_many_areas_take_two_priors(request: pytest.FixtureRequest) -> None:
    law, _, drawn = released([2, 3, 5], request)
    with pytest.raises(cg.CongenialError, match="area by area"):
        areas_posterior(law, drawn, prior="dirichlet")
    with pytest.raises(cg.CongenialError, match="one bundle"):
        areas_posterior(law, drawn + 1)


def test_draws_that_are_all_alike_are_not_called_exact(request: pytest.FixtureRequest) -> None:
    """Only published numbers determine anything; chains that stand still, or agree, do not. Ties share their ranks."""
    law, truth, drawn = released([2, 3, 3], request)
    chains = np.tile(truth.astype(np.int32), (2, 150, 1, 1))
    still = AreasPosterior(law, drawn, prior_of(SCHEMA, "flat"), chains, 1.0)
    moving = chains.copy()
    moving[:, ::2, :, 0] -= 1
    moving[:, ::2, :, 4] += 1  # from girls to boys: nothing changes for those of 30 and more
    alike = AreasPosterior(law, drawn, prior_of(SCHEMA, "flat"), moving, 1.0)
    asked: list[Callable[[AreasPosterior], Estimate]] = [
        lambda of: of.total("age=30+"),
        lambda of: of.difference("age=30+", "a1", "a0"),
        lambda of: of.interval("age=30+ over areas"),
        lambda of: of.ranks("age=30+")["a0"],
    ]
    for ask in asked:
        with pytest.warns(PoorDrawsWarning, match="never moved"):
            assert not ask(still).is_exact
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not ask(alike).is_exact
            assert ask(alike).quality.text == "draws alike"
    assert alike.total("all").is_exact
    assert alike.difference("all", "a1", "a0").is_exact
    assert alike.interval("all over areas").is_exact
    ranks = alike.ranks("all")
    assert [ranks[area].mean for area in ("a0", "a1", "a2")] == [3, 1.5, 1.5]
    assert ranks["a0"].is_exact
    assert alike.total("median(age)").labels == SCHEMA.labels("age")
