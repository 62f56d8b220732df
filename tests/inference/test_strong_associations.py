"""The smooth prior learns strong associations from few people: the tail of its scales, and a mutant's thin one."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import halfcauchy, norm

import congenial as cg
from agreement import own_rng
from congenial.arrays import Floats, Ints
from congenial.inference.measured_target import start_tables
from congenial.inference.smooth import kernels
from congenial.inference.smooth.chains import smooth_draws
from congenial.inference.smooth.effects import ALONE, Scales
from congenial.measurement import drawing_of

SCHEMA = cg.Schema({"sex": ["f", "m"], "income": ["low", "high"]})
TRUTH = cg.Table(SCHEMA, [[96, 24], [60, 60]])  # an odds ratio of 4
THIN = replace(ALONE, contrast=0.5, contrast_by=0.3, cell=0.1, tail=0.25)
"""What shrank associations: the scales that one table had before."""


def survival(scale: float, tail: float) -> float:
    """Return the chance of a scale above this one, of unit 1."""
    hyper = brentq(lambda z: kernels.scale_of(1.0, z, tail) - scale, 0.0, 6.0)
    return float(2 * norm.sf(hyper))


@pytest.mark.parametrize("scale", [3.0, 10.0, 100.0, 1_000.0])
def test_the_tail_of_one_table_is_that_of_a_half_cauchy_law(scale: float) -> None:
    """Within a factor of 1.5 at every scale; the thin tail is below it by more, and by more and more."""
    assert 1 / 1.5 < survival(scale, ALONE.tail) / halfcauchy.sf(scale) < 1.5
    if scale >= 10.0:
        assert survival(scale, THIN.tail) < 10 / scale * halfcauchy.sf(scale)


def test_interactions_of_one_table_are_all_estimated() -> None:
    from congenial.inference.smooth.effects import effects

    schema = cg.Schema({"sex": ["f", "m"], "income": ["low", "high"], "age": ["0-9", "10-19", "20-29"]})
    ordered = {"age": (10.0, 10.0, 10.0)}
    assert all(term.is_estimated for term in effects(schema, ordered) if " by " in term.name)


def log_odds(tables: Ints) -> Floats:
    a, b, c, d = (tables + 0.5).T
    return np.asarray(np.log(a * d / (b * c)))


def mean_log_odds(law: cg.law.PublicLaw, measured: Ints, scales: Scales, key: str) -> float:
    drawn = smooth_draws(law, measured, {}, n_draws=800, n_chains=4, rng=cg.replay_rng(key), scales=scales)
    return float(log_odds(drawn.tables.reshape(-1, 4).astype(np.int64)).mean())


@pytest.mark.statistical
def test_a_strong_association_is_hardly_shrunk(request: pytest.FixtureRequest) -> None:
    """Of twelve measured tables at epsilon 1/2, the mean estimate is nearer to the truth than with the thin tail."""
    mechanism = cg.Mechanism(
        SCHEMA, measure=[cg.cells()], invariants=[cg.margin("sex")], epsilon="1/2", method="measured"
    )
    law = mechanism.plan(mechanism.disclose(TRUTH)).law
    drawing, _ = drawing_of(law)
    n = 12
    measurements = drawing.draw(np.zeros(n, np.int64), np.tile(TRUTH.counts, (n, 1)), own_rng(request))
    wide, thin = (
        np.array([mean_log_odds(law, line[None, :], scales, f"{place}") for place, line in enumerate(measurements)])
        for scales in (ALONE, THIN)
    )
    of_measurements = log_odds(np.stack([start_tables(law, line[None, :])[0] for line in measurements]))
    assert abs((wide - of_measurements).mean()) < 0.5 * abs((thin - of_measurements).mean())
    assert np.mean(np.abs(wide) > np.abs(thin)) > 0.75
