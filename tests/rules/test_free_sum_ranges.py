"""Exact sums that cross: ranges of free sums against all tables of tiny trees, and tables for every tree."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from agreement import own_rng
from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError
from congenial.randomness import RandomStream
from congenial.rules import gls
from congenial.rules.family_integers import ExactCellSums
from congenial.rules.free_sum_ranges import ranges_by_classes
from congenial.rules.kernels_free_sums import find_free_sums, share_within
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.rules.tree_measurements import Bools, DecideTop, TreeMeasurements
from drawn import drawn
from rules.drawn_systems import whole
from rules.gls_by_force import ONE, Rows, best_tables, cost, drawn_tree, siblings, summed, word

NONE = np.zeros((0, 0), np.bool_)
EVERY = slice(None)

# Girls, boys, women, men; and the same with two ages of men.
P12: Rows = ((0, 1, 2, 3), (0, 2), (2, 3))
P12_WIDE: Rows = ((0, 1, 2, 3, 4), (0, 2), (2, 3, 4))
TOTAL: Rows = ((0, 1, 2, 3),)
TWO_SETS: Rows = ((0, 1), (0, 2), (3, 4), (3, 5))
TIED: Rows = (*TWO_SETS, (0, 3))  # one set, in which all moves together
DOUBLE: Rows = ((0, 1, 2, 3), (0, 1, 4, 5))
DOUBLE_ABOVE: Rows = (*DOUBLE, (0, 2), (1, 3), (0, 4), (1, 5), (1, 2))  # two classes of DOUBLE's first move at a time
CELLS: Rows = ((0,), (1,), (2,), (3,))
EXACT: dict[str, tuple[int, tuple[Rows, ...]]] = {
    "in every unit": (4, (P12,) * 3),
    "classes of several cells": (5, (P12_WIDE,) * 2),
    "not in leaves": (4, (P12, P12, TOTAL)),
    "determined above": (4, ((*CELLS, *P12), P12, P12)),
    "determined at the second level": (4, ((*CELLS, *P12), (*CELLS, *P12), P12)),
    "two at once": (6, (TWO_SETS,) * 2),
    "two become one": (6, (TIED, TIED, TWO_SETS)),
    "twice as fast": (6, (DOUBLE_ABOVE, DOUBLE_ABOVE, DOUBLE)),
}


def all_tables(rows: Rows, values: Ints, zeros: Bools) -> Iterator[tuple[int, ...]]:
    """Yield all tables that have exact sums, which hold every cell, and are 0 where they must."""
    most = [
        0 if is_zero else min(int(v) for cells, v in zip(rows, values, strict=True) if cell in cells)
        for cell, is_zero in enumerate(zeros)
    ]
    counts = np.indices([n + 1 for n in most]).reshape(len(most), -1)
    fits = np.ones(counts.shape[1], np.bool_)
    for cells, value in zip(rows, values, strict=True):
        fits &= counts[list(cells)].sum(axis=0) == value
    yield from map(tuple, counts[:, fits].T.tolist())


def zeros_at(tree: TreeMeasurements, level: int) -> Bools:
    return tree.zeros(level, EVERY) if tree.zero_masks else np.zeros(tree.measured[level].shape, np.bool_)


def tables_with_parts(tree: TreeMeasurements) -> list[list[set[tuple[int, ...]]]]:
    """Return for each unit of each level all tables that are sums of tables below, with everything exact."""
    n_levels = tree.n_levels
    last = zip(tree.exact_values[-1], zeros_at(tree, n_levels - 1), strict=True)
    levels = [[set(all_tables(tree.exact_rows[-1], values, zeros)) for values, zeros in last]]
    for level in reversed(range(n_levels - 1)):
        units = []
        for unit, (first, end) in enumerate(itertools.pairwise(tree.starts[level].tolist())):
            sums = {(0,) * tree.n_cells}
            for child in levels[0][first:end]:
                sums = {tuple(map(sum, zip(*pair, strict=True))) for pair in itertools.product(sums, child)}
            rows, values = tree.exact_rows[level], tree.exact_values[level][unit]
            units.append({x for x in sums if all(sum(x[c] for c in r) == v for r, v in zip(rows, values, strict=True))})
        levels.insert(0, units)
    return levels


def limits_of(tree: TreeMeasurements, level: int) -> list[tuple[tuple[int, ...], Ints]]:
    if not level:
        return list(tree.limits_at_top)
    ranges = tree.free_ranges(level, EVERY)
    return [(tied.free_cells, ranges[:, number]) for number, tied in enumerate(tree.exact[level].free)]


def tables_by_ranges(tree: TreeMeasurements, level: int) -> list[set[tuple[int, ...]]]:
    """Return for each unit of a level all tables that have its exact sums, with free sums in their ranges."""
    limits = limits_of(tree, level)
    units = []
    for unit, (values, zeros) in enumerate(zip(tree.exact_values[level], zeros_at(tree, level), strict=True)):
        units.append(
            {
                x
                for x in all_tables(tree.exact_rows[level], values, zeros)
                if all(low <= sum(x[c] for c in cells) <= high for cells, r in limits for low, high in [r[unit]])
            }
        )
    return units


def sparse_tree(
    rng: RandomStream, n_cells: int, rows: Sequence[Rows], zeros: Bools | None = None
) -> tuple[TreeMeasurements, list[Ints]]:
    """Return a tree of three leaves, or two above three, with counts of 0 to 2; of six cells, 0 to 1."""
    most = 1 if n_cells > 5 else 2
    sizes = (1, 3) if len(rows) == 2 else (1, 2, 3)
    return drawn_tree(rng, sizes, n_cells, rows, zeros=zeros, most=most, noise=2)


@pytest.mark.parametrize("name", EXACT)
def test_ranges_are_what_the_leaves_allow(name: str, request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    n_cells, rows = EXACT[name]
    n_narrower = 0
    for _ in range(drawn(12)):
        tree, _ = sparse_tree(rng, n_cells, rows)
        assert gls.why_not(tree.starts, n_cells, tree.exact_rows) is None
        possible = tables_with_parts(tree)
        for level in range(tree.n_levels):
            assert tables_by_ranges(tree, level) == possible[level]
        alone = [set(all_tables(rows[0], values, np.zeros(n_cells, bool))) for values in tree.exact_values[0]]
        n_narrower += alone != possible[0]
    assert n_narrower > 0 or "determined" in name or name == "not in leaves"


def test_ranges_of_any_sums_that_are_not_refused(request: pytest.FixtureRequest) -> None:
    """Drawn sums, with more of them farther up: what `why_not` lets pass has tables below just where ranges say so."""
    rng = own_rng(request)
    n_free = 0
    for _ in range(drawn(60)):
        subsets = [tuple(np.flatnonzero(line).tolist()) for line in whole(rng, 0, 1, (5, 5)) if line.any()]
        last = (tuple(range(5)), *subsets[:2])
        rows = (tuple(dict.fromkeys((*last, *subsets))), tuple(dict.fromkeys((*last, *subsets[:3]))), last)
        tree, _ = drawn_tree(rng, (1, 2, 3), 5, rows, most=1, noise=2)
        if gls.why_not(tree.starts, 5, rows) is not None:
            continue
        n_free += bool(tree.exact[2].free)
        possible = tables_with_parts(tree)
        for level in range(3):
            assert tables_by_ranges(tree, level) == possible[level]
    assert n_free > drawn(60) / 10


@pytest.mark.parametrize("name", ["in every unit", "classes of several cells", "two at once"])
def test_ranges_with_classes_that_are_barred(name: str, request: pytest.FixtureRequest) -> None:
    """In some leaves; and one cell of a class in all of them."""
    rng = own_rng(request)
    n_cells, rows = EXACT[name]
    for number in range(drawn(12)):
        zeros = np.zeros((3, n_cells), np.bool_)
        for cells in ([0], [1], [2], [3, 4] if name == "classes of several cells" else [3]):
            zeros[:, cells] = whole(rng, 0, 2, (3, 1)) == 0
        if number % 2 and name == "classes of several cells":
            zeros[:, 4] = True
        tree, _ = sparse_tree(rng, n_cells, rows, zeros)
        assert gls.why_not(tree.starts, n_cells, tree.exact_rows, tree.zero_masks) is None
        possible = tables_with_parts(tree)
        for level in range(tree.n_levels):
            assert tables_by_ranges(tree, level) == possible[level]


def nearest_top(tree: TreeMeasurements) -> DecideTop:
    """Return the decision of a top of one unit: the nearest of all tables that the ranges allow."""

    def decide_top(estimates: Ints) -> Ints:
        tables = [np.array([table], np.int64) for table in sorted(tables_by_ranges(tree, 0)[0])]
        return min(tables, key=lambda table: cost(estimates, table))

    return decide_top


def test_every_tree_has_tables(request: pytest.FixtureRequest) -> None:
    """300 trees; the mutant, a top that is nearest without the ranges, leaves some without."""
    rng = own_rng(request)
    n_without = 0
    for number in range(drawn(300)):
        tree, _ = sparse_tree(rng, 4, (P12,) * (2 + number % 2))
        tables = gls.decide(tree, nearest_top(tree))
        for level, table in enumerate(tables):
            assert (table >= 0).all()
            assert np.array_equal(tree.exact[level].values(table), tree.exact_values[level])
            if level:
                assert np.array_equal(summed(table, tree.starts[level - 1]), tables[level - 1])
        gls.check(tree, tables)
        alone = replace(tree, starts=(), **{name: getattr(tree, name)[:1] for name in PER_LEVEL})
        wider = nearest_top(alone)
        try:
            gls.decide(tree, wider)
        except ConditionError as refused:
            assert "leave the parts of some unit none" in str(refused)  # noqa: PT017
            n_without += 1
    assert n_without > 0


PER_LEVEL = ("measured", "variances", "exact_rows", "exact_values")


@pytest.mark.parametrize("step", [1, 2, 1024])
def test_free_sums_are_the_nearest(step: int, request: pytest.FixtureRequest) -> None:
    """Of all numbers in the ranges, those nearest to the estimates; of equals, the largest words."""
    rng = own_rng(request)
    for number in range(drawn(60)):
        n_children = 1 + number % 4
        low = whole(rng, -3, 3, n_children)
        ranges = np.stack([low, low + whole(rng, 0, 3, n_children)], axis=1)
        total = int((ranges[:, 0] + (ranges[:, 1] - ranges[:, 0]) * whole(rng, 0, 1, n_children)).sum())
        estimates = whole(rng, -5 * step, 5 * step, n_children) * (ONE // step)
        out = np.empty(n_children, np.int64)
        arrays = (estimates, np.array([0, n_children]), np.array([total]), ranges)
        assert share_within(*arrays, np.uint64(5), 7, FRACTION_BITS, out) == 0
        choices = itertools.product(*(range(a, b + 1) for a, b in ranges.tolist()))
        words = [word(5, 7 + child) >> 1 for child in range(n_children)]
        keys = {
            choice: (cost(estimates, np.array(choice)), -sum(n * w for n, w in zip(choice, words, strict=True)))
            for choice in choices
            if sum(choice) == total
        }
        assert tuple(out.tolist()) == min(keys, key=lambda choice: keys[choice])
        for wrong in (ranges[:, 0].sum() - 1, ranges[:, 1].sum() + 1):
            assert share_within(*arrays[:2], np.array([wrong]), ranges, np.uint64(5), 7, FRACTION_BITS, out) == 1
        assert share_within(*arrays[:3], ranges[:, ::-1] + [[1, 0]], np.uint64(5), 7, FRACTION_BITS, out) == 1


def distance(estimates: Floats, sums: Floats, classes: Rows) -> float:
    """Return the least sum of squares from a table of no negative real numbers that has sums of classes."""
    out = 0.0
    for cells, sum_ in zip(classes, sums, strict=True):
        some = estimates[list(cells)]
        low, high = -some.max(), sum_ - some.min()
        for _ in range(60):
            level = (low + high) / 2
            low, high = (level, high) if np.maximum(some + level, 0).sum() < sum_ else (low, level)
        out += float(((np.maximum(some + high, 0) - some) ** 2).sum())
    return out


def test_free_sums_of_the_nearest_tables(request: pytest.FixtureRequest) -> None:
    """Nothing beside them is nearer; the sum of the estimates often is farther."""
    rng = own_rng(request)
    rows: Rows = ((0, 1, 2, 3, 4, 5, 6), (0, 1, 2, 3), (2, 3, 4, 5))
    exact = ExactCellSums(rows, 7)
    (tied,) = exact.free
    truth = np.maximum(whole(rng, -3, 3, (drawn(60), 7)), 0)
    truth[:, 6] += whole(rng, 0, 20, len(truth))
    zeros = np.zeros(truth.shape, np.bool_)
    zeros[:, 3] = True
    truth[zeros] = 0
    estimates = truth * ONE + whole(rng, -3 * ONE, 3 * ONE, truth.shape)
    starts, ranges = tied.starts(exact.values(truth)), ranges_by_classes(exact, exact.values(truth), zeros)[:, 0]
    out = np.empty(len(truth), np.int64)
    firsts = np.cumsum([0, *map(len, tied.classes)])
    cells = np.array([cell for cells in tied.classes for cell in cells])
    find_free_sums(estimates, cells, firsts, starts, tied.line.direction, ranges, zeros, FRACTION_BITS, out)
    open_classes = tuple(tuple(cell for cell in cells if cell != 3) for cells in tied.classes)
    n_farther = 0
    for start, some, free, (low, high) in zip(starts.T, estimates, out, ranges, strict=True):

        def at(t: float, start: Ints = start, some: Ints = some, low: int = low, high: int = high) -> float:
            return distance(some / ONE, start + tied.line.direction * min(max(t, low), high), open_classes)

        best = at(free / ONE)
        assert low <= free / ONE <= high
        assert all(at(free / ONE + step) >= best - 1e-4 for step in (-1, -0.01, 0.01, 1))
        n_farther += at(some[list(tied.free_cells)].sum() / ONE) > best + 0.01
    assert n_farther > drawn(60) / 4


def test_families_with_crossing_sums_are_the_nearest_given_their_free_sums(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    n_other = 0
    for _ in range(drawn(12)):
        truth = whole(rng, 0, 1, (3, 4))
        exact, starts = ExactCellSums(P12, 4), np.array([0, 3])
        estimates = (truth * 8 + whole(rng, -16, 16, truth.shape)) * (ONE // 8)
        family = siblings(estimates, starts, summed(truth, starts), exact, exact.values(truth), NONE, 3, 0)
        counts = family.shared_out()
        free = [list(tied.free_cells) for tied in exact.free]
        assert free == [[0]]
        best, _ = best_tables(family)
        held = ExactCellSums((*P12, (0,)), 4)
        given = siblings(estimates, starts, family.parents, held, held.values(counts), NONE, 3, 0)
        assert cost(estimates, counts) == best_tables(given)[0]
        n_other += cost(estimates, counts) != best
    assert n_other < drawn(12) / 2
