"""Scaled floats: systems that span more than doubles do are drawn like any other, and by the same decisions."""

from fractions import Fraction
from math import comb, lgamma

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

import congenial as cg
from congenial.exact import log_of
from congenial.sampling.elimination import sampler as exact
from congenial.sampling.elimination.compiled_layout import Elimination
from congenial.sampling.jit import kernel
from congenial.sampling.kernel_scaled_floats import STEP, lowered, plus, times
from systems import SYSTEMS, System


@pytest.fixture(params=SYSTEMS)
def system(request: pytest.FixtureRequest) -> System:
    return SYSTEMS[request.param]()


def wide(elimination: Elimination) -> Elimination:
    found = Elimination(elimination.order.with_nats(500.0))
    assert found.order.is_scaled
    return found


def test_wide_numbers_draw_the_same_tables_from_the_same_bits(system: System, request: pytest.FixtureRequest) -> None:
    elimination, centre, seed = exact.elimination_of(system.target), system.target.centre, request.node.nodeid
    assert not elimination.order.is_scaled
    doubles, made = exact.Messages.of(elimination, centre), exact.Messages.of(wide(elimination), centre)
    assert abs(doubles.log_normaliser - made.log_normaliser) < 1e-12 + made.relative_error
    assert np.allclose(doubles.root / doubles.root.sum(), made.root / made.root.sum(), rtol=1e-11)
    drawn = doubles.sample(200, cg.replay_rng(seed))
    assert np.array_equal(drawn, made.sample(200, cg.replay_rng(seed)))
    one = [exact.sample_one(some, centre, cg.replay_rng(seed)) for some in (elimination, wide(elimination))]
    assert np.array_equal(one[0], one[1])


@kernel
def _sum(x: tuple[float, int], y: tuple[float, int]) -> tuple[float, int]:
    return plus(x, y)  # type: ignore[no-any-return]


@kernel
def _product(x: tuple[float, int], y: tuple[float, int]) -> tuple[float, int]:
    return times(x, y)  # type: ignore[no-any-return]


@kernel
def _lowered(x: tuple[float, int], lift: int) -> float:
    return lowered(x, lift)  # type: ignore[no-any-return]


numbers = st.tuples(st.floats(2.0**-256, 2.0**255.9) | st.just(0.0), st.integers(-9, 9)).map(
    lambda pair: pair if pair[0] else (0.0, 0)
)


def fraction(number: tuple[float, int]) -> Fraction:
    return Fraction(number[0]) * Fraction(2) ** (STEP * number[1])


@given(numbers, numbers)
@settings(max_examples=400)
def test_wide_numbers_round_like_doubles(x: tuple[float, int], y: tuple[float, int]) -> None:
    for found, truth in (
        (_sum(x, y), fraction(x) + fraction(y)),
        (_product(x, y), fraction(x) * fraction(y)),
    ):
        assert abs(fraction(found) - truth) <= truth * Fraction(1, 2**53) * (1 + Fraction(1, 2**300))
        assert found[0] == 0 or 2.0**-256 <= found[0] < 2.0**256
    if x[0] and fraction(y) <= fraction(x):
        share = Fraction(_lowered(y, x[1])) - fraction(y) / Fraction(2) ** (STEP * x[1])
        assert abs(share) <= Fraction(1, 2**760)


def pair_of_the_edge() -> list[cg.Law]:
    """548 cells at precision 1/20 and 1,644 people: doubles reach as far as the first table, and not to the second."""
    schema = cg.Schema({"cell": [f"l{i}" for i in range(548)]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/20")], invariants=[cg.total()])
    tables = np.zeros((2, 548), int)
    tables[:, 0], tables[:, -1] = (677, 676), (967, 968)
    return [mechanism.law(cg.Table(schema, table)) for table in tables]


@pytest.mark.parametrize("which", [0, 1])
def test_a_table_and_its_neighbour_at_the_edge_of_doubles_are_both_drawn(which: int) -> None:
    law = pair_of_the_edge()[which]
    first, last = int(law.target.centre[0]), int(law.target.centre[-1])
    assert law.sample(3, cg.replay_rng(which)).sum() == 3 * 1644
    # k people in the empty cells, in C(k + 545, 545) ways; the other two cells lose them, and may exchange some.
    log_a = log_of(law.target.measured[0].noise.base)
    k = np.arange(1645)
    ways = np.array([lgamma(n + 546) - lgamma(n + 1) for n in k]) - lgamma(546)
    moved = np.arange(-first, last + 1)
    other = -k[:, None] - moved[None, :]
    both = np.where(other >= -last, log_a * (np.abs(moved)[None, :] + np.abs(other)), -np.inf)
    truth = logsumexp(ways + k * log_a + logsumexp(both, axis=1))
    assert np.isclose(law.log_normaliser(), truth, rtol=1e-12)


def test_the_slow_path_decides_like_wide_numbers() -> None:
    schema = cg.Schema({"cell": [str(i) for i in range(150)]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision="1/20")], invariants=[cg.total()])
    counts = np.zeros(150, int)
    counts[[0, -1]] = 150, 100
    made = exact.messages(mechanism.law(cg.Table(schema, counts)).target)
    assert made.layout.elimination.order.is_scaled
    assert np.array_equal(made.sample(3, cg.replay_rng(1)), made.sample(3, cg.replay_rng(1), always_refined=True))


@pytest.mark.parametrize("noise", ["double_geometric", "discrete_gaussian"])
def test_a_flat_crowd_under_a_measured_total(noise: str) -> None:
    """220 cells that are not measured: their number of tables is far beyond a double."""
    crowd = cg.Schema({"cell": [str(i) for i in range(220)]})
    flat = cg.Mechanism(crowd, measure=[cg.total(precision="1")], invariants=[cg.bounds(0, 50)], noise=noise)
    law = flat.law(cg.Table(crowd, np.zeros(220, int)))
    weight = law.target.measured[0].noise.weight
    # Up to a sum of 50 no cell is full: C(k + 219, 219) tables. Beyond it, Gaussian weights are negligible.
    ways = [Fraction(comb(k + 219, 219)) * weight.at(k) for k in range(51)]
    if noise == "discrete_gaussian":
        assert np.isclose(law.log_normaliser(), log_of(sum(ways, Fraction(0))), rtol=1e-12)
    assert np.all(law.target.constraints.holds(law.sample(5, cg.replay_rng(1))))
