"""The rule *leaf-prior*: posteriors and integers against enumeration, what is learned, what nothing depends on."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import exp, lgamma, log, log1p

import numpy as np
import pytest

from agreement import own_rng
from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError
from congenial.randomness import RandomStream
from congenial.rules import gls, leaf_prior
from congenial.rules.kernels_family import PATH_WORD_BITS, Grid, Paths
from congenial.rules.kernels_leaf_prior import (
    COST_BITS,
    LARGEST,
    LOWEST_RATE,
    RATES,
    STEPS,
    Posteriors,
    PriorTables,
    find_tilts,
    mean_place,
    meet_sums,
    start_at_medians,
    tilted_moments,
    write_costs,
    write_posteriors,
)
from congenial.rules.leaf_prior import LEAF_PRIOR, SHAPES, check, decide, learn, noise_weights, prior_tables
from congenial.rules.rule_and_input import Learned
from congenial.rules.tree_measurements import TreeMeasurements
from congenial.sampling.jit import interpreted
from drawn import drawn
from rules.drawn_systems import one, whole
from rules.gls_by_force import ONE, drawn_tree, summed
from rules.test_gls import EXACT, SIZES, TOTAL, check_tables, top_of

# Posteriors, by formulas with the functions of a mathematics library.


def chance(count: int, mean: float, shape: float) -> float:
    """Return the chance of a count: negative binomial."""
    if mean == 0:
        return float(count == 0)
    ways = lgamma(count + shape) - lgamma(shape) - lgamma(count + 1)
    return exp(ways - shape * log1p(mean / shape) + count * (log(mean) - log(mean + shape)))


def noise_weight(offset: int, variance: float, exponent: int) -> float:
    if exponent == 2:
        return exp(-(offset**2) / (2 * variance))
    half = 1 + 1 / variance
    return float((half - (half * half - 1) ** 0.5) ** abs(offset))


def drawn_rates(rng: RandomStream) -> Floats:
    """Return chances of a few rates, 0 among them."""
    rates: Floats = np.zeros(RATES + 1)
    for place in (0, *whole(rng, 10, 30, 3)):
        rates[place] += one(rng, 1, 5)
    rates /= rates.sum()
    return rates


Noise = tuple[float, int]
NOISES: dict[str, Noise] = {"Gaussian": (4.0, 2), "Double Geometric": (5.0, 1)}
SOME_SHAPES = (0.5, 4.0)
N_COUNTS = 60


def joint_posteriors(
    measured: Ints, means: Sequence[float], shapes: Sequence[int], rates: Floats, noise: Noise
) -> Floats:
    """Return the chances of the counts of each cell of a leaf (cell, count), by a sum over rates of products."""
    cells = range(len(means))
    out = np.zeros((len(means), N_COUNTS))
    for rate in np.flatnonzero(rates).tolist():
        times = exp((rate - 1 + LOWEST_RATE) / STEPS) if rate else 0.0
        joint = np.array(
            [
                [
                    chance(count, times * means[cell], SOME_SHAPES[shapes[cell]])
                    * noise_weight(int(measured[cell]) - count, *noise)
                    for count in range(N_COUNTS)
                ]
                for cell in cells
            ]
        )
        for cell in cells:
            others = np.prod([joint[other].sum() for other in cells if other != cell])
            out[cell] += rates[rate] * others * joint[cell]
    chances: Floats = out / out.sum(axis=1, keepdims=True)
    return chances


def room_for(n: int, n_cells: int) -> Posteriors:
    first, low, width = (np.empty((n, n_cells), np.int64) for _ in range(3))
    return Posteriors(np.empty(0), first, low, width)


def dense(some: Posteriors, chances: Floats) -> Floats:
    """Return posteriors (child, cell, count)."""
    out = np.zeros((*some.low.shape, N_COUNTS))
    for place in np.ndindex(*some.low.shape):
        first, low, width = some.first[place], some.low[place], some.width[place]
        out[place][low : low + width] = chances[first : first + width]
    return out


@pytest.mark.parametrize("noise", NOISES)
def test_posteriors_are_those_of_bayes(noise: str, request: pytest.FixtureRequest) -> None:
    """Chances of all counts agree with sums over everything; a cell that is counted twice, or no noise, does not."""
    rng, (variance, exponent) = own_rng(request), NOISES[noise]
    n_apart = 0
    for _ in range(drawn(10)):
        rates, shapes = drawn_rates(rng), whole(rng, 0, 1, 3)
        means = [exp(place / STEPS) for place in whole(rng, -12, 6, 3)]
        measured = whole(rng, -4, 7, (1, 3))
        tables = prior_tables(rates, SOME_SHAPES, variance, exponent)
        some, expected, table = room_for(1, 3), np.array([means]), np.ones((1, 3), np.int64)
        chances = write_posteriors(tables, measured, table, expected, shapes, 0.25, 0, some)
        right = joint_posteriors(measured[0], means, shapes.tolist(), rates, (variance, exponent))
        found = dense(some, chances)[0]
        assert np.abs(found - right).max() < 2e-5
        twice = np.vstack([right**2 / (right**2).sum(axis=1, keepdims=True)])
        alone = joint_posteriors(measured[0, :1], means[:1], shapes[:1].tolist(), rates, (variance, exponent))
        n_apart += np.abs(found - twice).max() > 1e-3 and np.abs(found[0] - alone[0]).max() > 1e-3
    assert n_apart > 0


def test_kernels_do_the_same_as_plain_python(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    tables = prior_tables(drawn_rates(rng), SOME_SHAPES, 4.0, 2)
    expected, shapes = np.array([[0.4, 2.3, 0.0], [0.3, 9.1, 1.0]]), np.array([0, 1, 0])
    measured, table = np.array([[2, 1, 5], [-30, LARGEST + 9, 3]]), np.zeros((2, 3), np.int64)
    runs = []
    for run in (write_posteriors, interpreted(write_posteriors)):
        some = room_for(2, 3)
        chances = run(tables, measured, table, expected, shapes, 0.6, 0, some)
        runs.append((*some[1:], chances[: some.width.sum()]))
    assert all(np.array_equal(a, b) for a, b in zip(*runs, strict=True))
    assert runs[0][2][0, 2] == 0  # nothing is expected there, so that it is barred
    moments = [tilted_moments(runs[0][3][:4], 0.3), interpreted(tilted_moments)(runs[0][3][:4], 0.3)]
    assert moments[0] == moments[1]


def test_zeros_are_inherited_where_they_are_likely() -> None:
    tables = prior_tables(np.full(RATES + 1, 1 / (RATES + 1)), SOME_SHAPES, 4.0, 2)
    measured, expected = np.array([[0, 0, 12]]), np.array([[0.5, 0.5, 3.0]])
    for table, barred in (([[0, 1, 0]], [True, False, False]), ([[1, 1, 1]], [False] * 3)):
        some = room_for(1, 3)
        write_posteriors(tables, measured, np.array(table), expected, np.zeros(3, np.int64), 0.25, 0, some)
        assert (some.width[0] == 0).tolist() == barred


def test_counts_far_above_all_others_follow_their_noise() -> None:
    tables = prior_tables(np.full(RATES + 1, 1 / (RATES + 1)), SOME_SHAPES, 4.0, 2)
    some = room_for(1, 1)
    measured = np.array([[LARGEST + 100]])
    chances = write_posteriors(tables, measured, measured, np.array([[3.0]]), np.zeros(1, np.int64), 0.25, 0, some)
    counts = some.low[0, 0] + np.arange(some.width[0, 0])
    assert chances[: len(counts)] @ counts == pytest.approx(LARGEST + 100)


def test_places_on_the_grid() -> None:
    places = [mean_place(exp(step / STEPS)) for step in (-1000, -3, 0, 4, 1000)]
    assert places[2] - places[1] == 3
    assert places[3] - places[2] == 4
    assert (places[0], places[4]) == (
        0,
        PriorTables(*prior_tables(np.ones(41), (1.0,), 1.0, 2)).counts.shape[1] - RATES,
    )


def test_noise_reaches_as_far_as_it_matters() -> None:
    for variance, exponent in NOISES.values():
        weights = noise_weights(variance, exponent)
        ends = [noise_weight(offset, variance, exponent) for offset in range(len(weights))]
        assert np.allclose(weights, ends, rtol=1e-12, atol=0)
        assert weights[len(weights) // 2] < 1e-5


# Integers of families.


def test_costs_are_expected_losses(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for _ in range(drawn(20)):
        width, tilt = one(rng, 1, 9), one(rng, -20, 20) / 10
        chances = (1.0 + whole(rng, 0, 9, width)) / 3
        tilted = chances * np.exp(tilt * np.arange(width))
        tilted /= tilted.sum()
        losses = np.abs(np.arange(width + 1)[:, None] - np.arange(width)) @ tilted
        costs = np.empty(width, np.int64)
        median = write_costs(chances.copy(), tilt, costs)
        assert np.abs(costs - np.diff(losses) * 2**COST_BITS).max() <= 1
        assert losses[median] == pytest.approx(losses.min(), abs=1e-6)
        assert (np.diff(costs) >= 0).all()


class Family:
    """A family with drawn posteriors, and a table that shows what its sums can be."""

    def __init__(self, rng: RandomStream, n: int, n_cells: int, *, has_sums: bool) -> None:
        self.n, self.n_cells, self.has_sums = n, n_cells, has_sums
        witness = np.maximum(whole(rng, -2, 2, (n, n_cells)), 0)
        self.width = np.where((witness == 0) & (whole(rng, 0, 2, (n, n_cells)) == 0), 0, whole(rng, 1, 4, (n, n_cells)))
        self.low = np.where(self.width > 0, whole(rng, 0, 2, (n, n_cells)), 0)
        self.first = (np.cumsum(self.width) - self.width.ravel()).reshape(n, n_cells)
        self.chances = (1.0 + whole(rng, 0, 6, int(self.width.sum()))) / 7
        self.columns, self.rows = witness.sum(axis=0), witness.sum(axis=1)
        self.words = whole(rng, 0, 2**PATH_WORD_BITS - 1, (n, n_cells))

    def solved(self, tilts: Floats | None = None, start: int = 0) -> tuple[Ints, Grid]:
        """Return the counts, and the grid with their costs; `start` moves where those of a child begin."""
        n, size, cells = self.n, self.n_cells, np.arange(self.n_cells)
        some = Posteriors(self.chances.copy(), self.first, self.low, self.width)
        sums = self.rows if self.has_sums else self.rows[:0]
        if tilts is None:
            tilts = np.empty(n + size)
            find_tilts(some, cells, sums, self.columns, np.empty((n, size)), np.empty((n, size)), tilts)
        counts, first, low, width = (np.empty((n, size), np.int64) for _ in range(4))
        needs, prices, distance, origin = (np.empty(n + size, np.int64) for _ in range(4))
        is_open, costs = np.empty((n, size), np.bool_), np.empty(max(len(self.chances), 1), np.int64)
        nothing = np.empty((0, 0), np.int64)
        grid = Grid(nothing, self.words, is_open, counts, needs, prices, costs, first, low, width)
        start_at_medians(grid, some, cells, sums, self.columns, tilts)
        moved = np.zeros((n, size), np.int64)
        moved[0] = start * grid.is_open[0]
        grid.counts[:] += moved
        grid.needs[:n] -= moved.sum(axis=1)
        grid.needs[n:] -= moved.sum(axis=0)
        keys, nodes = (np.empty(2 * n * size, np.int64) for _ in range(2))
        paths = Paths(distance, origin, np.empty(n + size, np.bool_), keys, nodes, np.empty(1, np.int64))
        assert meet_sums(grid, paths, n, size, self.has_sums)
        return grid.counts.copy(), grid

    def cost(self, grid: Grid, counts: Ints) -> int:
        """Return what counts cost, from 0 on: each unit by itself."""
        one_, scale = 1 << COST_BITS, 1 << (PATH_WORD_BITS + min(self.n, self.n_cells).bit_length())
        all_ = 0
        for (row, column), count in np.ndenumerate(counts):
            first, low, width = (int(some[row, column]) for some in (self.first, self.low, self.width))
            for unit in range(int(count)):
                offset = unit - low
                cost = int(grid.costs[first + min(max(offset, 0), width - 1)])
                cost = offset - one_ if offset < 0 else one_ + offset - width + 1 if offset >= width else cost
                all_ += scale * cost + int(self.words[row, column])
        return all_

    def tables(self) -> list[Ints]:
        """Return every table with the sums."""
        columns = []
        for cell, total in enumerate(self.columns.tolist()):
            is_open = self.width[:, cell] > 0
            every = (
                some for some in product(*(range(total + 1 if free else 1) for free in is_open)) if sum(some) == total
            )
            columns.append(list(every))
        tables = (np.array(some).T for some in product(*columns))
        return [table for table in tables if not self.has_sums or np.array_equal(table.sum(axis=1), self.rows)]


@pytest.mark.parametrize("has_sums", [False, True], ids=["cells", "with totals"])
@pytest.mark.parametrize("is_tilted", [False, True], ids=["as they are", "tilted"])
def test_integers_cost_least(has_sums: bool, is_tilted: bool, request: pytest.FixtureRequest) -> None:
    """Of all tables with the sums. A child whose counts begin above their medians ends with worse ones."""
    rng = own_rng(request)
    n_worse = 0
    for _ in range(drawn(40)):
        family = Family(rng, 3, 2 if has_sums else 1, has_sums=has_sums)
        tilts = None if is_tilted else np.zeros(family.n + family.n_cells)
        counts, grid = family.solved(tilts)
        assert np.array_equal(counts.sum(axis=0), family.columns)
        assert not has_sums or np.array_equal(counts.sum(axis=1), family.rows)
        assert counts.min() >= 0
        assert not counts[family.width == 0].any()
        least = min(family.cost(grid, table) for table in family.tables())
        assert family.cost(grid, counts) == least
        if not has_sums:
            n_worse += family.cost(grid, family.solved(tilts, start=3)[0]) > least
    assert has_sums or n_worse > 0


def test_tilted_means_meet_the_sums(request: pytest.FixtureRequest) -> None:
    rng, n_far = own_rng(request), 0
    for _ in range(drawn(20)):
        n, size = 12, 5
        width = np.full((n, size), 9)
        first = (np.cumsum(width) - 9).reshape(n, size)
        some = Posteriors((1.0 + whole(rng, 0, 6, 9 * n * size)) / 7, first, np.zeros((n, size), np.int64), width)
        table = whole(rng, 0, 7, (n, size))
        tilts, means = np.empty(n + size), np.empty((n, size))
        find_tilts(some, np.arange(size), table.sum(axis=1), table.sum(axis=0), means, np.empty((n, size)), tilts)
        assert np.abs(means.sum(axis=0) - table.sum(axis=0)).sum() + np.abs(
            means.sum(axis=1) - table.sum(axis=1)
        ).sum() < 0.5 * (n + size)
        n_far += abs(4 * n - table[:, 0].sum()) > 2  # the mean of what is not tilted is about 4
    assert n_far > 0


# What is learned.


def drawn_leaves(rng: RandomStream, n_families: int, size: int, share_empty: int) -> tuple[TreeMeasurements, Ints]:
    """Return measured families of leaves with four cells, of which so many in a hundred are empty, and the leaves."""
    starts = np.arange(0, n_families * size + 1, size)
    sizes = whole(rng, 1, 10, n_families * size) * (whole(rng, 1, 100, n_families * size) > share_empty)
    leaves = np.minimum(whole(rng, 0, 3, (n_families * size, 4)) * sizes[:, None] // 4, 30)
    top = summed(leaves, starts)
    noise = whole(rng, -3, 3, leaves.shape)
    return TreeMeasurements((starts,), (top, leaves + noise), (0.01, 4.0)), leaves


def test_empty_leaves_are_learned(request: pytest.FixtureRequest) -> None:
    """The chance of a rate near 0 rises with the share of empty leaves."""
    found = []
    for share in (0, 60):
        tree, leaves = drawn_leaves(own_rng(request), 150, 12, share)
        learned = learn(tree, (tree.measured[0], leaves))
        assert sum(learned["rates"]) == ONE
        assert set(learned["shapes"]) <= {int(shape * ONE) for shape in SHAPES}
        found.append(sum(learned["rates"][:8]) / ONE)
    assert found[0] < 0.15
    assert 0.3 < found[1] < 0.7


@pytest.mark.parametrize("exponent", [1, 2])
def test_tables_are_nearer_than_without_a_prior(exponent: int, request: pytest.FixtureRequest) -> None:
    tree, leaves = drawn_leaves(own_rng(request), 150, 12, 60)
    tree = replace(tree, exponent=exponent)
    ours, theirs = (rule(tree, top_of(tree.measured[0]))[-1] for rule in (decide, gls.decide))
    assert np.abs(ours - leaves).mean() < 0.95 * np.abs(theirs - leaves).mean()
    kept = [float((table == 0)[leaves == 0].mean()) for table in (ours, theirs)]
    assert kept[0] > kept[1]


# Whole trees.


@pytest.mark.parametrize("name", EXACT)
def test_tables_add_up_and_keep_what_is_exact(name: str, request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for _ in range(drawn(4)):
        tree, truth = drawn_tree(rng, SIZES, 4, EXACT[name], noise=6)
        tables = decide(tree, top_of(truth[0]))
        check_tables(tree, tables)
        assert all(
            np.array_equal(a, b) for a, b in zip(tables[:-1], gls.decide(tree, top_of(truth[0]))[:-1], strict=True)
        )
        check(tree, tables)
        worse = [table.copy() for table in tables]
        worse[-1][0, 0] += 1
        with pytest.raises(ConditionError, match="is not what the rule 'leaf-prior' gives, at level 3"):
            check(tree, worse)


@pytest.mark.parametrize("rows", [(), (TOTAL,) * 4], ids=["no sums", "totals"])
def test_tables_keep_zeros(rows: tuple[tuple[tuple[int, ...], ...], ...], request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for _ in range(drawn(5)):
        zeros = whole(rng, 0, 2, (14, 4)) == 0
        if rows:
            zeros[:] = zeros[:, :1] & zeros[:, 1:2]
        tree, truth = drawn_tree(rng, SIZES, 4, rows, zeros=zeros)
        check_tables(tree, decide(tree, top_of(truth[0])))


@pytest.mark.parametrize("name", ["nothing", "all totals", "crossing everywhere"])
def test_chunks_and_threads_change_nothing(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, truth = drawn_tree(own_rng(request), (1, 3, 9, 60), 4, EXACT[name], noise=6)
    expected = decide(tree, top_of(truth[0]), n_threads=1)
    steps: list[tuple[int, int]] = []
    for n_cells in (1, 7, 40):
        monkeypatch.setattr(gls, "_CELLS_AT_ONCE", n_cells)
        monkeypatch.setattr(leaf_prior, "_CELLS_AT_ONCE", n_cells)
        for n_threads in (1, 3):
            again = decide(tree, top_of(truth[0]), lambda _, done=0, of=0: steps.append((done, of)), n_threads)
            assert all(np.array_equal(a, b) for a, b in zip(again, expected, strict=True))
    assert steps[-1] == (133, 133)
    assert [done for done, _ in steps[-10:]] == sorted(done for done, _ in steps[-10:])


def test_families_do_not_know_of_each_other(request: pytest.FixtureRequest) -> None:
    """Given what was learned, the leaves of a family follow from its own measurements and its parent's table."""
    tree, truth = drawn_tree(own_rng(request), (1, 3, 9, 60), 4, (), noise=6)
    tables = gls.decide(tree, top_of(truth[0]))
    learned = learn(tree, tables)
    leaves = leaf_prior.leaves_by_prior(tree, tables, learned)
    end = int(tree.starts[-1][1])
    other = replace(
        tree, measured=(*tree.measured[:-1], np.vstack([tree.measured[-1][:end], tree.measured[-1][end:] + 3]))
    )
    assert np.array_equal(leaf_prior.leaves_by_prior(other, tables, learned)[:end], leaves[:end])


def test_what_was_learned_is_checked(request: pytest.FixtureRequest) -> None:
    tree, truth = drawn_tree(own_rng(request), (1, 3, 9, 60), 4, (), noise=2)
    top = top_of(truth[0])
    tables = decide(tree, top)
    learned = dict(LEAF_PRIOR.learn(tree, tables))
    stated = replace(tree, learned=learned)
    assert all(np.array_equal(a, b) for a, b in zip(decide(stated, top), tables, strict=True))
    check(stated, tables)
    moved, further = list(learned["rates"]), list(learned["shapes"])
    moved[moved.index(max(moved))] -= ONE // 8
    moved[1] += ONE // 8
    further[0] = int((SHAPES[0] if further[0] > ONE else SHAPES[-1]) * ONE)
    for changed in ({**learned, "rates": tuple(moved)}, {**learned, "shapes": tuple(further)}):
        other = replace(tree, learned=changed)
        with pytest.raises(ConditionError, match=r"off by 0\.25|not the one that the measurements give"):
            check(other, decide(other, top))


@pytest.mark.parametrize(
    "change",
    [
        {"rates": (ONE // RATES,) * RATES},
        {"rates": (0,) * (RATES + 1)},
        {"shapes": (ONE,) * 3},
        {"shapes": (ONE + 1,) * 4},
        {"further": (0,)},
    ],
    ids=["too few", "nothing", "too few cells", "no shape", "more"],
)
def test_what_cannot_be_learned_is_refused(change: Learned, request: pytest.FixtureRequest) -> None:
    tree, truth = drawn_tree(own_rng(request), SIZES, 4, (), noise=2)
    learned = dict(learn(tree, decide(tree, top_of(truth[0]))))
    with pytest.raises(ConditionError, match=r"the rule learns 41 chances|the shape of a cell is one of"):
        decide(replace(tree, learned={**learned, **change}), top_of(truth[0]))


def test_why_not() -> None:
    assert LEAF_PRIOR.why_not([np.array([0, 2])], 4) is None
    assert "one level" in str(LEAF_PRIOR.why_not([], 4))
    assert "not stated" in str(LEAF_PRIOR.why_not([np.array([0, 2])], 4, [(), TOTAL]))
    assert LEAF_PRIOR.way(TOTAL, 4) == gls.GLS.way(TOTAL, 4)
    assert "learned" in LEAF_PRIOR.way_at_leaves(TOTAL, 4)


@pytest.mark.parametrize("exponent", [1, 2])
def test_noise_that_is_too_wide_is_refused(exponent: int) -> None:
    """Its tables grow with the reach of noise, and time with the square: what takes hours is refused beforehand."""
    precision = Fraction(1, 100) if exponent == 1 else Fraction(1, 10**5)
    assert LEAF_PRIOR.why_too_noisy(4, precision, exponent) is None
    assert "take the rule gls" in str(LEAF_PRIOR.why_too_noisy(4, precision / 25, exponent))
    assert gls.GLS.why_too_noisy(4, precision / 25, exponent) is None


@pytest.mark.parametrize(("variance", "exponent"), [(1.9e-13, 1), (1e-130, 1), (1.4e-217, 1), (0.002, 2), (1 / 700, 2)])
def test_tiny_noise_has_tables_of_numbers(variance: float, exponent: int) -> None:
    """As of huge budgets, where no count is likely to be measured far from itself."""
    noise = noise_weights(variance, exponent)
    assert np.isfinite(noise).all()
    assert noise[0] == 1.0
    tables = prior_tables(np.full(41, 1 / 41), [1.0], variance, exponent)
    assert np.isfinite(tables.likelihoods).all()
    assert np.isfinite(tables.likelihoods_at_0).all()
    if exponent == 1:
        assert noise[1] == pytest.approx((variance / 2), rel=1e-5)
