"""Laws whose lower limits are weighted: draws, normalisers, moments and the slow path against brute force."""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import log, prod

import numpy as np
import pytest

import congenial as cg
from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import SamplingError
from congenial.law import Law
from congenial.noise import DiscreteGaussian, DoubleGeometric
from congenial.randomness import replay_rng
from congenial.sampling.elimination.compiled_layout import Elimination
from congenial.sampling.elimination.exact_fallback import exact_normaliser
from congenial.sampling.elimination.sampler import messages
from congenial.sampling.enumeration import EnumeratedLaw
from congenial.sampling.error_moments import exact_errors
from congenial.sampling.target_and_system import Measured, System, Target
from congenial.study import independence_and_rejection_samplers as independence
from sampling.enumeration import Enumeration
from systems import WEIGHTED
from systems import System as Small


@pytest.fixture(params=WEIGHTED)
def small(request: pytest.FixtureRequest) -> Small:
    return WEIGHTED[request.param]()


def without_floors(target: Target) -> Target:
    return replace(target, measured=tuple(replace(one, zero_weight=Fraction(1)) for one in target.measured))


def test_the_oracle_is_the_definition() -> None:
    """weight(t) = prod a^|t - s| times the zero weight of every zero, table by table."""
    target = WEIGHTED["one total"]().target
    law, a = EnumeratedLaw.of(target), DoubleGeometric("1/2").base
    by_hand = {
        table: prod(
            a ** abs(t - int(s)) * (Fraction(5, 2) if t == 0 else 1) for t, s in zip(table, target.centre, strict=True)
        )
        for table in product(range(10), repeat=4)
        if sum(table) == 9
    }
    whole = sum(by_hand.values())
    assert law.normaliser == whole
    found = dict(zip(map(tuple, law.tables.tolist()), law.probabilities, strict=True))
    assert found == {table: weight / whole for table, weight in by_hand.items()}


@pytest.mark.statistical
def test_draws_have_the_enumerated_law(small: Small, request: pytest.FixtureRequest) -> None:
    """The same draws are rejected when the weights are forgotten, where there are zeros to weigh."""
    tables = messages(small.target).sample(N_DRAWS, own_rng(request))
    position = small.law.position(tables)
    assert p_value(position, [float(p) for p in small.law.probabilities]) > ALPHA
    forgotten = EnumeratedLaw.of(without_floors(small.target))
    if forgotten.probabilities != small.law.probabilities:
        assert p_value(position, [float(p) for p in forgotten.probabilities]) < ALPHA


def test_every_normaliser_is_the_brute_force(small: Small) -> None:
    made = messages(small.target)
    assert abs(made.log_normaliser - small.law.log_normaliser) < 1e-12
    system = System.of(small.target.constraints, small.target.measured)
    if None not in small.target.constraints.lower:
        assert exact_normaliser(Elimination.of(system), small.target.centre) == small.law.normaliser
    assert abs(Enumeration(system).at(small.target.centre).log_normaliser - small.law.log_normaliser) < 1e-12


def test_the_slow_path_draws_the_same_tables_from_the_same_bits(small: Small) -> None:
    made = messages(small.target)
    fast, slow = (made.sample(200, replay_rng(7), always_refined=certain) for certain in (False, True))
    assert np.array_equal(fast, slow)


def test_probabilities_moments_and_errors(small: Small) -> None:
    law, brute = Law(small.public, small.target.centre), small.law
    chances = np.array([float(p) for p in brute.probabilities])
    assert np.allclose(np.exp(law.log_probability(brute.tables)), chances, rtol=1e-9, atol=0)
    mean = chances @ brute.tables
    assert np.allclose(law.mean(), mean, rtol=0, atol=1e-9)
    assert np.allclose(law.variance(), chances @ (brute.tables - mean) ** 2, rtol=0, atol=1e-8)
    rows = [Row.of("", [cell]) for cell in range(brute.tables.shape[1])]
    errors = exact_errors(System.of(small.target.constraints, small.target.measured), small.target.centre, rows)
    if errors is not None:
        truth = np.sqrt(chances @ (brute.tables - small.target.centre) ** 2)
        assert np.allclose(errors.size, truth, rtol=0, atol=1e-6)
        assert np.allclose(errors.bias, mean - small.target.centre, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("n_cells", "precision"), [(46, "1/2"), (20, "1/20"), (300, "1/2")])
def test_long_messages_and_wide_numbers(n_cells: int, precision: str) -> None:
    """Recurrences, points and scaled floats; a floor of 1 in the same system is the plain law."""
    dice = np.random.default_rng(3)
    centre = dice.choice([0, 0, 1, 2, 50, 300] if n_cells < 100 else [0, 0, 1, 2, 5, 9], n_cells)
    schema = cg.Schema({"cell": [f"c{i}" for i in range(n_cells)]})
    mechanism = cg.Mechanism(schema, measure=[cg.cells(precision=precision, zeros="3")], invariants=[cg.total()])
    target = mechanism.law(cg.Table(schema, centre)).target
    made = messages(target)
    system = System.of(target.constraints, target.measured)
    assert abs(made.log_normaliser - log_normaliser_by_convolution(system, centre)) < 1e-9
    if n_cells < 100:  # in balls, hundreds of cells take minutes
        assert np.array_equal(made.sample(3, replay_rng(5)), made.sample(3, replay_rng(5), always_refined=True))


def log_normaliser_by_convolution(system: System, centre: np.ndarray) -> float:
    """Convolve all cells in plain numpy, scaled as one goes."""
    total, log_scale = np.ones(1), 0.0
    reach = int(centre.sum())
    for cell, at in enumerate(centre.tolist()):
        weight = system.weights[cell]
        weights = float(weight.linear) ** np.abs(np.arange(reach + 1) - at)
        weights[0] *= float(weight.zero_weight)
        total = np.convolve(total, weights)[: reach + 1]
        log_scale += log(total.max())
        total = total / total.max()
    return log(total[reach]) + log_scale


def test_what_has_no_theorem_is_refused() -> None:
    with pytest.raises(SamplingError, match="at least 1"):
        Measured(Row.of("", [0]), DoubleGeometric(1), Fraction(1, 2))
    with pytest.raises(SamplingError, match="single cells"):
        Measured(Row.of("", [0, 1]), DoubleGeometric(1), Fraction(2))
    with pytest.raises(SamplingError, match="falls linearly"):
        Measured(Row.of("", [0]), DiscreteGaussian(1), Fraction(2))
    with pytest.raises(SamplingError, match="weighted limits"):
        independence.sample(WEIGHTED["one total"]().target, 10, replay_rng(1))
