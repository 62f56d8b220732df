"""Normalisers by Fourier sums are those of the exact sampler, or are not given."""

import numpy as np
import pytest

import congenial as cg
from congenial.conditions.base import Condition
from congenial.examples import p12_mechanism, p12_table
from congenial.inference.pattern_moves_and_normalisers import FourierNormalisers, PatternSteps
from published import law_of

SIX = cg.Schema({"a": ["0", "1"], "b": ["0", "1", "2"]})
SKEWED = cg.Table(SIX, [[0, 3, 90], [40, 0, 1]])
MEASURED = {
    "double_geometric": cg.cells(precision="1/3"),
    "weighted zeros": cg.cells(precision="1/2", zeros="3"),
    "discrete_gaussian": cg.cells(precision="1/4"),
}
SYSTEMS: dict[str, list[Condition]] = {
    "a total": [cg.total()],
    "some cells free": [cg.total({"b": ["0", "1"]})],
    "a cell of nobody": [cg.total(), cg.structural_zeros({"a": "0", "b": "0"})],
    "weights": [cg.linear({("0", "0"): 1, ("0", "2"): 2, ("1", "0"): 2, ("1", "2"): 2})],
}


def moving_of(mechanism: cg.Mechanism, table: cg.Table) -> PatternSteps:
    law = law_of(mechanism, table)
    return PatternSteps.of(law.areas[None], law.measured)


@pytest.mark.parametrize("noise", MEASURED)
@pytest.mark.parametrize("system", [*SYSTEMS, "P12"])
def test_fourier_sums_are_the_sampler_s_normalisers(system: str, noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published sums that are disjoint, and two that cross; empty cells, large ones, weighted zeros."""
    monkeypatch.setattr("congenial.inference.pattern_moves_and_normalisers._WORTH", 1)
    conditions = list(p12_mechanism().invariants) if system == "P12" else SYSTEMS[system]
    table = p12_table() if system == "P12" else SKEWED
    family = noise if noise == "discrete_gaussian" else "double_geometric"
    mechanism = cg.Mechanism(table.schema, measure=[MEASURED[noise]], invariants=conditions, noise=family)
    moving, rng = moving_of(mechanism, table), cg.replay_rng(system)
    tables = mechanism.law(table).sample(10, rng)
    found = FourierNormalisers.of(moving, table.counts)
    assert found is not None
    np.testing.assert_allclose(found(tables), moving.sampler.log_normalisers(tables, rng), atol=1e-10)


@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
def test_measured_sums_inside_a_group(noise: str) -> None:
    measure = [cg.cells(precision="1/3"), cg.margin("b", precision="1/2")]
    mechanism = cg.Mechanism(SIX, measure=measure, invariants=[cg.total()], noise=noise)
    moving, rng = moving_of(mechanism, SKEWED), cg.replay_rng(noise)
    tables = mechanism.law(SKEWED).sample(10, rng)
    found = FourierNormalisers.of(moving, SKEWED.counts)
    assert found is not None
    np.testing.assert_allclose(found(tables), moving.sampler.log_normalisers(tables, rng), atol=1e-9)


def test_what_fourier_sums_cannot_do_is_left_to_the_sampler() -> None:
    both = cg.Mechanism(SIX, measure=[cg.cells(precision="1/2")], invariants=[cg.margin("a"), cg.margin("b")])
    measured = cg.Mechanism(
        SIX, measure=[cg.cells(precision="1/2"), cg.margin("b", precision="1")], invariants=[cg.margin("a")]
    )
    bounded = cg.Mechanism(
        SIX, measure=[cg.cells(precision="1/2")], invariants=[cg.total(), cg.bounds(0, 200, where={"a": "0"})]
    )
    for mechanism in (both, measured, bounded):
        moving, rng = moving_of(mechanism, SKEWED), cg.replay_rng(1)
        assert FourierNormalisers.of(moving, SKEWED.counts) is None
        tables = SKEWED.counts[None, :]
        found = moving.log_normalisers(tables, rng)
        np.testing.assert_allclose(found, moving.sampler.log_normalisers(tables, rng), atol=1e-6)


def test_tables_far_from_the_first_are_prepared_for_anew() -> None:
    """Prepared at a table of empty cells, what a large one comes to is lost in rounding; it is not made up."""
    schema = cg.Schema({"a": [str(n) for n in range(40)]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/3")], invariants=[cg.total()])
    sparse, large = np.zeros(40, np.int64), np.full(40, 500, np.int64)
    sparse[0] = 20_000
    moving, rng = moving_of(mechanism, cg.Table(schema, sparse)), cg.replay_rng(1)
    found = FourierNormalisers.of(moving, sparse)
    assert found is not None
    assert np.isnan(found(large[None, :])).all()
    both = np.stack([sparse, large])
    np.testing.assert_allclose(moving.log_normalisers(both, rng), moving.sampler.log_normalisers(both, rng), atol=1e-6)
    assert len(moving._prepared) == 2
