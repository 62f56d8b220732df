"""AttemptInputs with both margins given, around counts that have others: draws, bounds and exact weights."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import flint
import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from chain_audit import compositions
from congenial.arrays import Ints
from congenial.errors import TooLargeError
from congenial.noise import DiscreteGaussian
from congenial.randomness import replay_rng
from congenial.sampling.two_way.counts_given_margins import TwoWayCounts, log_two_way

FAMILIES = {
    "margins a little off": ("10/23", [[2, 0, 1], [0, 3, 0], [1, 1, 4]], [3, 3, 6], [4, 3, 5]),
    "far above the counts": ("2", [[0, 0], [0, 0], [1, 0]], [4, 3, 2], [6, 3]),
    "far below the counts": ("3", [[9, 0, 4], [7, 5, 0]], [3, 4], [2, 4, 1]),
    "some centres below zero": ("1/2", [[0, 6], [0, 5], [4, 0]], [5, 4, 3], [1, 11]),
    "two children": ("1/8", [[3, 1, 0, 2], [0, 0, 2, 1]], [6, 3], [3, 1, 2, 3]),
}


def tables_of(row_sum: list[int], column_sum: list[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """List every table with these margins."""
    lines = [list(compositions(n, len(column_sum))) for n in row_sum]
    for table in product(*lines):
        if [sum(column) for column in zip(*table, strict=True)] == column_sum:
            yield table


def family(name: str) -> tuple[TwoWayCounts, Ints, list[float]]:
    """Return a family, all its tables and their probabilities."""
    precision, counts, row_sum, column_sum = FAMILIES[name]
    noise = DiscreteGaussian(precision)
    two_way = TwoWayCounts(noise, np.array(counts), np.array(row_sum), np.array(column_sum))
    tables = np.array(list(tables_of(row_sum, column_sum)))
    weights = [noise.base ** int(((table - counts) ** 2).sum()) for table in tables]
    return two_way, tables, [float(weight / sum(weights)) for weight in weights]


@pytest.mark.statistical
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("name", FAMILIES)
def test_draws_have_the_enumerated_law(name: str, is_turned: bool, request: pytest.FixtureRequest) -> None:
    """`tests/hierarchy/test_draws.py` has mutants."""
    two_way, tables, probabilities = family(name)
    attempts = two_way.attempts(is_turned=is_turned)
    drawn = attempts.draw(N_DRAWS, own_rng(request))
    number = {table.tobytes(): place for place, table in enumerate(tables)}
    distinct, which = np.unique(drawn, axis=0, return_inverse=True)
    places = np.array([number[two_way.table_of(one, is_turned=is_turned).tobytes()] for one in distinct])
    assert p_value(places[which.reshape(-1)], probabilities) > ALPHA
    assert attempts.chances[1] <= 1
    assert attempts.n_refined <= 1


@pytest.mark.parametrize("name", FAMILIES)
def test_the_slow_path_gives_the_same_tables(name: str) -> None:
    two_way, _, _ = family(name)
    slow = TwoWayCounts(two_way.noise, two_way.counts, two_way.row_sum, two_way.column_sum, always_refined=True)
    for seed in range(8):
        assert np.array_equal(two_way.draw(replay_rng(seed)), slow.draw(replay_rng(seed)))


@pytest.mark.parametrize("name", FAMILIES)
def test_weights_are_the_exact_ones_but_for_their_units(name: str) -> None:
    two_way, _, _ = family(name)
    two_way.attempts(is_turned=False)
    (at, _) = two_way._made[False]
    tables = at.inputs
    for line, column in product(*map(range, tables.kind.shape)):
        cell, kind = at.cell(line, column), tables.kind[line, column]
        assert cell.low is not None
        assert cell.high is not None
        first, last = int(tables.weights.first[kind]), int(tables.weights.last[kind])
        outside = flint.arb(0)
        with flint.ctx.workprec(200):
            for x in range(cell.low, cell.high + 1):
                exact = cell.at(x)
                if first <= x <= last:
                    found = float(tables.weights.value[kind, x - first])
                    assert abs(float(found / exact - 1)) <= tables.units * 2.0**-53
                else:
                    outside += exact
            assert float(outside) <= tables.tail[line, column]


def test_families_far_from_their_counts() -> None:
    """No chance is above 1, hardly a line is unproven, and margins are as given: counts from none to millions."""
    rng = replay_rng("families")
    for number in range(42):
        n_rows, n_columns = (2 + rng.below(np.array([6, 6]))).tolist()
        scale = int(10 ** (number % 7))
        counts = rng.below(np.full((n_rows, n_columns), scale + 1))
        wanted = rng.below(np.full((n_rows, n_columns), scale + 2))
        precision = Fraction(1, (1, 4, 100)[number % 3])
        two_way = TwoWayCounts(DiscreteGaussian(precision), counts, wanted.sum(axis=1), wanted.sum(axis=0))
        found = two_way.draw(replay_rng(number))
        assert np.array_equal(found.sum(axis=1), wanted.sum(axis=1))
        assert np.array_equal(found.sum(axis=0), wanted.sum(axis=0))
        assert found.min() >= 0
        for _, attempts in two_way._made.values():
            assert attempts.chances[1] <= 1
            assert attempts.n_attempts < 200
            assert attempts.n_refined <= 1


def test_precise_noise_settles() -> None:
    """Defect: shifts that turned a gap into its opposite in every sweep; from precision 20 on draws did not end."""
    rng, one = replay_rng("precise"), np.array([[302, 115], [480, 766]])
    assert TwoWayCounts(DiscreteGaussian(20), one, np.array([417, 1246]), np.array([812, 851])).draw(rng).sum() == 1663
    for number in range(60):
        shape = tuple((3 + rng.below(np.array([4, 4]))).tolist())
        counts = rng.below(np.full(shape, 11))
        columns = counts.sum(axis=0)
        moved = np.zeros_like(columns)
        moved[:2] = 1, -1
        if columns[1] == 0:
            continue
        two_way = TwoWayCounts(DiscreteGaussian((28, 36)[number % 2]), counts, counts.sum(axis=1), columns + moved)
        two_way.draw(replay_rng(number))
        assert sum(attempts.n_attempts for _, attempts in two_way._made.values()) < 300


def test_normalisers_are_those_of_all_tables() -> None:
    for name in FAMILIES:
        two_way, tables, _ = family(name)
        logs = two_way.noise.log_weight(tables - two_way.counts).sum(axis=(1, 2))
        found = log_two_way(two_way.noise, two_way.counts, two_way.row_sum, two_way.column_sum)
        assert np.isclose(found, np.logaddexp.reduce(logs), rtol=0, atol=1e-11)
    large = np.full((30, 16), 40)
    with pytest.raises(TooLargeError, match="partial sums"):
        log_two_way(DiscreteGaussian(1), large, large.sum(axis=1), large.sum(axis=0))
