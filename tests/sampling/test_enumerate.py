"""The brute force itself: exact probabilities, normalisers, and the privacy loss of pairs."""

import itertools
from fractions import Fraction
from math import comb, exp, log

import numpy as np
import pytest

import congenial as cg
from congenial.conditions.base import Condition
from congenial.errors import SamplingError, TooLargeError
from congenial.exact import log_of
from congenial.examples import p12_mechanism, p12_table
from congenial.sampling.enumeration import (
    EnumeratedLaw,
    enumerate_tables,
    estimate_log10_count,
    surely_more_than,
    worst_ratio,
)
from congenial.sampling.target_and_system import Target
from systems import SYSTEMS, System


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> System:
    return SYSTEMS[request.param]()


def test_tables_are_those_of_a_plain_loop(system: System) -> None:
    constraints = system.target.constraints
    bounds = constraints.cell_bounds
    ranges = [range(low, high + 1) for low, high in zip(bounds.lower, bounds.upper, strict=True)]  # type: ignore[arg-type, operator]
    plain = [t for t in itertools.product(*ranges) if constraints.holds(np.array(t))] if len(ranges) < 8 else None
    tables = enumerate_tables(constraints)
    if plain is not None:
        assert tables.tolist() == [list(t) for t in plain]
    assert len(np.unique(tables, axis=0)) == len(tables)
    assert np.all(constraints.holds(tables))


def test_probabilities_are_exact(system: System) -> None:
    law = system.law
    assert sum(law.probabilities) == 1
    floats = np.exp(system.target.log_weight(law.tables))
    assert np.allclose([float(p) for p in law.probabilities], floats / floats.sum(), rtol=1e-12)
    assert np.isclose(law.log_normaliser, log(floats.sum()), rtol=1e-12, atol=1e-15)


def test_privacy_loss_is_distance_plus_normalisers(system: System) -> None:
    """sup_t log P(t|s)/P(t|s') = D + log c(s') - log c(s), attained at t = s (absolute-value noise)."""
    target = system.target
    if not all(one.noise.family == "double_geometric" for one in target.measured):
        return
    law = system.law
    others = law.tables[:: max(1, len(law.tables) // 6)]
    for centre in others:
        moved = EnumeratedLaw.of(Target(target.constraints, target.measured, centre))
        ratio = worst_ratio(law, moved)
        distance = -float(target.log_weight(centre[None, :])[0])
        assert np.isclose(log_of(ratio), distance + moved.log_normaliser - law.log_normaliser, atol=1e-11)
        assert ratio <= Fraction(exp(2 * distance)) * (1 + Fraction(1, 10**9))  # GM Theorem 2: at most twice


def test_two_bins_by_hand() -> None:
    """Total 2, centre (1, 1), a = base: weights a^2, 1, a^2."""
    schema = cg.Schema({"bin": ["1", "2"]})
    law = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total()]).law(cg.Table(schema, [1, 1]))
    a = cg.noise.DoubleGeometric("1").base
    assert law.enumerated.normaliser == 1 + 2 * a * a
    assert law.enumerated.probabilities[1] == 1 / (1 + 2 * a * a)
    assert law.log_probability(np.array([[1, 1], [3, -1]])).tolist() == [-law.log_normaliser(), -np.inf]


@pytest.mark.parametrize(("counts", "exact"), [([3, 2, 4, 1], comb(13, 3)), ([9, 9, 9, 9], comb(39, 3))])
def test_estimate_of_the_count(counts: list[int], exact: int) -> None:
    schema = cg.Schema({"age": list("abcd")})
    constraints = cg.Constraints.of(schema, [cg.total()], counts)
    assert len(enumerate_tables(constraints)) == exact
    assert abs(estimate_log10_count(constraints) - np.log10(exact)) < 0.01


def test_p12_is_refused_with_its_estimated_count() -> None:
    """The exact count is a sum of binomials over the number of young women: 10^50.66."""
    exact = sum(
        comb(y + 3, 3) * comb(130 - y + 18, 18) * comb(43 - y + 3, 3) * comb(126 - 43 + y + 18, 18) for y in range(44)
    )
    constraints = p12_mechanism().disclose(p12_table())
    assert abs(estimate_log10_count(constraints) - log(exact) / log(10)) < 0.05
    with pytest.raises(TooLargeError, match=r"about 10\^51 tables.*1,000,000"):
        enumerate_tables(constraints)


def test_upper_limits_enter_the_estimate() -> None:
    schema = cg.Schema({"age": list("abcdef")})
    constraints = cg.Constraints.of(schema, [cg.total(equals=12), cg.bounds(1, 3)])
    assert abs(estimate_log10_count(constraints) - np.log10(len(enumerate_tables(constraints)))) < 1e-9


def test_continuous_noise_cannot_be_enumerated() -> None:
    schema = cg.Schema({"bin": ["1", "2"]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1")], invariants=[cg.total()], noise="laplace")
    with pytest.raises(SamplingError, match="continuous"):
        EnumeratedLaw.of(mechanism.law(cg.Table(schema, [1, 1])).target)


def test_surely_more_than_is_never_wrong() -> None:
    """Against the exact count: whenever it says so, there are more; and it does say so for a plain total."""
    schema = cg.Schema({"sex": ["f", "m"], "age": ["0", "1", "2"]})
    systems: list[list[Condition]] = [
        [cg.total()],
        [cg.margin("sex")],
        [cg.total(), cg.total({"age": "0"})],
        [cg.margin("sex"), cg.margin("age")],
        [cg.total(), cg.bounds(0, 3)],
        [cg.total(), cg.bounds(1, where={"sex": "f"})],
    ]
    said = 0
    for conditions, counts in itertools.product(
        systems, ([[1, 2, 1], [3, 1, 2]], [[1, 0, 0], [0, 0, 0]], [[3, 3, 3], [3, 3, 3]])
    ):
        if len(conditions) > 1 and conditions[1] == cg.bounds(1, where={"sex": "f"}) and min(counts[0]) < 1:
            continue
        constraints = cg.Constraints.of(schema, conditions, np.array(counts).reshape(-1).tolist())
        for limit in (0, 1, 5, 20, 100, 1_000):
            if surely_more_than(constraints, limit):
                said += 1
                assert constraints.count() > limit
    assert said > 20
