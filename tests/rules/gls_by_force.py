"""Least squares of a tree, and integers of a family, by brute force: no code of the rule but its types."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.randomness import RandomStream
from congenial.rules.family_integers import ExactCellSums, Siblings
from congenial.rules.free_sum_ranges import ranges_by_classes
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.rules.tree_measurements import Bools, TreeMeasurements
from rules.drawn_systems import whole

Rows = tuple[tuple[int, ...], ...]

ONE = 1 << FRACTION_BITS


def summed(tables: Ints, starts: Ints) -> Ints:
    """Return the sums of families."""
    sums: Ints = np.add.reduceat(tables, starts[:-1], axis=0)
    return sums


def drawn_starts(rng: RandomStream, sizes: Sequence[int]) -> tuple[Ints, ...]:
    """Return a tree with so many units at each level, from the top, of families of one or more."""
    out = []
    for n_units, n_below in itertools.pairwise(sizes):
        words = rng.below(np.full(n_below - 1, 2**40))
        cuts = np.sort(np.argsort(words, kind="stable")[: n_units - 1]) + 1
        out.append(np.concatenate([[0], cuts, [n_below]]).astype(np.int64))
    return tuple(out)


def drawn_tree(
    rng: RandomStream,
    sizes: Sequence[int],
    n_cells: int,
    rows: Sequence[Rows] = (),
    *,
    variances: Sequence[float] = (),
    zeros: Bools | None = None,
    most: int = 4,
    noise: int = 3,
) -> tuple[TreeMeasurements, list[Ints]]:
    """Return measurements of a drawn tree with its true tables, of which nothing but exact sums is in them.

    Parameters
    ----------
    zeros : array (leaf, cell), optional
        Structural zeros of the leaves.
    """
    starts = drawn_starts(rng, sizes)
    leaves = np.maximum(whole(rng, -most, most, (sizes[-1], n_cells)), 0)
    masks: list[Bools] = []
    if zeros is not None:
        leaves[zeros] = 0
        masks = [zeros]
    tables = [leaves]
    for some in reversed(starts):
        tables.insert(0, summed(tables[0], some))
        if zeros is not None:
            masks.insert(0, np.logical_and.reduceat(masks[0], some[:-1], axis=0))
    values = [
        np.stack([t[:, list(cells)].sum(axis=1) for cells in r], axis=1) if r else np.zeros((len(t), 0), np.int64)
        for t, r in zip(tables, rows, strict=bool(rows))
    ]
    measured = [table + whole(rng, -noise, noise, table.shape) for table in tables]
    return (
        TreeMeasurements(
            starts,
            tuple(measured),
            tuple(variances) or tuple(float(2 + 3 * (level % 2)) for level in range(len(sizes))),
            tuple(rows),
            tuple(values) if rows else (),
            tuple(masks),
            bytes(whole(rng, 0, 255, 32).tolist()),
        ),
        tables,
    )


def level_sums(tree: TreeMeasurements) -> list[Floats]:
    """Return for each level which leaves are below each unit (unit, leaf)."""
    sums = [np.eye(len(tree.measured[-1]))]
    for starts in reversed(tree.starts):
        sums.insert(0, np.add.reduceat(sums[0], starts[:-1], axis=0))
    return sums


def dense_estimates(tree: TreeMeasurements) -> list[Floats]:
    """Return the generalised least squares of all cells of all leaves at once, under all equalities, by level."""
    return [means for means, _ in dense_estimates_and_spreads(tree)]


def dense_estimates_and_spreads(tree: TreeMeasurements) -> list[tuple[Floats, Floats]]:
    """Return by level the least squares and their standard deviations."""
    n_cells = tree.n_cells
    sums = level_sums(tree)
    maps = [np.kron(some, np.eye(n_cells)) for some in sums]
    weights = [1 / np.sqrt(variance) for variance in tree.variances]  # 0 where cells are not measured
    design = [weight * some for weight, some in zip(weights, maps, strict=True)]
    aims = [weight * n.ravel() for weight, n in zip(weights, tree.measured, strict=True)]
    for some in tree.further:
        if some.level is not None:
            of_units = sums[some.level]
        else:
            of_units = np.array([some.group_of_leaf == unit for unit in range(len(some.values))], float)
        for number, row in enumerate(some.rows):
            of_cells = np.zeros(n_cells)
            of_cells[list(row.cells)] = row.coefficients
            weight = 1 / np.sqrt(some.variances[number])
            design.append(weight * np.kron(of_units, of_cells))
            aims.append(weight * some.values[:, number])
    return dense_solution(tree, np.concatenate(design), np.concatenate(aims))


def dense_solution(tree: TreeMeasurements, design: Floats, aims: Floats) -> list[tuple[Floats, Floats]]:
    """Return by level what is nearest to aims under the equalities of a tree, and its standard deviations."""
    n_cells, sums = tree.n_cells, level_sums(tree)
    equal_rows: list[Floats] = [np.zeros((1, design.shape[1]))]
    equal_values: list[Floats] = [np.zeros(1)]
    for level, sums_of_level in enumerate(tree.exact_rows):
        for number, cells in enumerate(sums_of_level):
            unit_row = np.zeros(n_cells)
            unit_row[list(cells)] = 1
            equal_rows.append(np.kron(sums[level], unit_row).astype(np.float64))
            equal_values.append(tree.exact_values[level][:, number].astype(float))
    for places in tree.zero_masks[-1:]:
        equal_rows.append(np.eye(design.shape[1])[places.ravel()])
        equal_values.append(np.zeros(int(places.sum())))
    rows, values = np.concatenate(equal_rows), np.concatenate(equal_values)
    start = np.linalg.lstsq(rows, values, rcond=None)[0]
    _, singular, directions = np.linalg.svd(rows)
    free = directions[int((singular > 1e-9).sum()) :].T
    inverse = free @ np.linalg.pinv(design @ free, rcond=1e-10)  # what is not measured is left at 0
    leaves = start + inverse @ (aims - design @ start)
    maps = [np.kron(some, np.eye(n_cells)) for some in sums]
    return [
        ((some @ leaves).reshape(-1, n_cells), np.linalg.norm(some @ inverse, axis=1).reshape(-1, n_cells))
        for some in maps
    ]


def siblings(
    estimates: Ints,
    starts: Ints,
    parents: Ints,
    exact: ExactCellSums,
    values: Ints,
    zeros: Bools,
    key: int,
    first_place: int,
) -> Siblings:
    """Return families of leaves."""
    ranges = ranges_by_classes(exact, values, zeros)
    return Siblings(estimates, starts, parents, exact, values, zeros, ranges, key, first_place)


def cost(estimates: Ints, counts: Ints) -> Fraction:
    """Return the sum of squared distances, exactly."""
    gaps = [int(count) * ONE - int(some) for count, some in zip(counts.ravel(), estimates.ravel(), strict=True)]
    return Fraction(sum(gap * gap for gap in gaps), ONE * ONE)


def best_tables(family: Siblings) -> tuple[Fraction, list[Ints]]:
    """Return the least cost of all children of a single family that fit, and all tables that have it."""
    n_children, n_cells = family.estimates.shape
    parent, values = family.parents[0], list(family.values.T)
    columns = []
    for cell in range(n_cells):
        total = int(parent[cell])
        fitting = [
            counts
            for counts in itertools.product(range(total + 1), repeat=n_children)
            if sum(counts) == total
            and not (family.zeros.size and any(n and bar for n, bar in zip(counts, family.zeros[:, cell], strict=True)))
        ]
        columns.append(fitting)
    tables = []
    for choice in itertools.product(*columns):
        counts = np.array(choice, np.int64).T
        if all(
            np.array_equal(counts[:, list(c)].sum(axis=1), v) for c, v in zip(family.exact.rows, values, strict=True)
        ):
            tables.append(counts)
    costs = [cost(family.estimates, counts) for counts in tables]
    least = min(costs)
    return least, [counts for counts, some in zip(tables, costs, strict=True) if some == least]


def word(key: int, number: int) -> int:
    """Return a number of splitmix64."""
    state = (key + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ state >> 27) * 0x94D049BB133111EB % 2**64
    return state ^ state >> 31


def has_negative_cycle(estimates: Ints, counts: Ints, zeros: Bools | None = None) -> bool:
    """Return whether moving single units around a cycle of children and cells would lower the cost: exact."""
    n_children, n_cells = counts.shape
    n = n_children + n_cells
    far = 2**200
    distance = np.full((n, n), far, object)
    for child, cell in np.ndindex(n_children, n_cells):
        if zeros is not None and zeros[child, cell]:
            continue
        gap = 2 * (int(counts[child, cell]) * ONE - int(estimates[child, cell]))
        distance[child, n_children + cell] = gap + ONE
        if counts[child, cell] > 0:
            distance[n_children + cell, child] = ONE - gap
    for middle in range(n):
        distance = np.minimum(distance, distance[:, middle : middle + 1] + distance[middle : middle + 1, :])
    return bool((np.diagonal(distance) < 0).any())
