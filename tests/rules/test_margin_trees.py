"""The rule *margins* of trees: least squares against dense algebra, integers that no move betters, what is refused."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from math import inf, prod

import numpy as np
import pytest

from agreement import own_rng
from congenial.arrays import Floats, Ints
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import ConditionError
from congenial.randomness import RandomStream
from congenial.rules import gls, margin_trees
from congenial.rules.kernels_margins import fit_cells
from congenial.rules.margin_trees import MARGINS, TreeMargins, check, component, decide, estimate
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.rules.tree_measurements import TreeMeasurements
from congenial.rules.workload.margins import Axes
from congenial.tree_margins import exact_components, whole_margin
from drawn import drawn
from rules.drawn_systems import whole
from rules.gls_by_force import dense_solution, drawn_starts, level_sums, summed

SIZES = (2, 3, 2)
UNITS = (1, 2, 4, 9)
TABLES: dict[str, tuple[Axes, ...]] = {
    "apart": ((0,), (1,), (2,)),
    "nested": ((0,), (0, 1), (2,)),
    "a path": ((0, 1), (1, 2)),
    "a ring": ((0, 1), (1, 2), (0, 2)),
    "cells beside": ((0, 1, 2), (1,)),
    "the total": ((), (1, 2)),
}
EXACT: dict[str, tuple[tuple[Axes, ...], ...]] = {
    "nothing": ((), (), (), ()),
    "totals": (((),), ((),), ((),), ((),)),
    "margins above": (((1,), (0,), ()), ((1,), ()), ((),), ()),
    "a margin everywhere": (((0,),),) * 4,
}


def margin_of(tables: Ints, axes: Axes) -> Ints:
    """Return margins (unit, cell) of tables (unit, cell)."""
    lost = tuple(1 + axis for axis in range(len(SIZES)) if axis not in axes)
    sums: Ints = tables.reshape(-1, *SIZES).sum(axis=lost).reshape(len(tables), -1)
    return sums


def cells_of(axes: Axes) -> list[tuple[int, ...]]:
    """Return the cells of the table that each cell of a margin has."""
    numbers = margin_of(np.eye(prod(SIZES), dtype=np.int64), axes)
    return [tuple(np.flatnonzero(column).tolist()) for column in numbers.T]


def drawn_margins(
    rng: RandomStream, tables: tuple[Axes, ...], exact: tuple[tuple[Axes, ...], ...] = EXACT["nothing"], times: int = 1
) -> tuple[TreeMargins, list[Ints]]:
    """Return measured margins of a drawn tree, that do not agree with each other, and its true tables."""
    starts = drawn_starts(rng, UNITS)
    truth = [np.maximum(whole(rng, -3, 6, (UNITS[-1], prod(SIZES))), 0) * times]
    for some in reversed(starts):
        truth.insert(0, summed(truth[0], some))
    answers = []
    for table in truth:
        margins = [margin_of(table, axes) for axes in tables]
        answers.append(tuple(some + whole(rng, -4 * times, 4 * times, some.shape) for some in margins))
    variances = [
        tuple((0.5 + (3 * place + level) % 4) * times**2 for place in range(len(tables))) for level in range(4)
    ]
    rows = tuple(tuple(cells for axes in some for cells in cells_of(axes)) for some in exact)
    values = tuple(
        np.hstack([np.zeros((len(table), 0), np.int64), *(margin_of(table, axes) for axes in some)])
        for table, some in zip(truth, exact, strict=True)
    )
    parts = [
        {part: np.rint(of_level @ lines.T).astype(np.int64) for part, lines in exact_components(SIZES, of_rows).items()}
        for of_level, of_rows in zip(values, rows, strict=True)
    ]
    tree = TreeMargins.of(
        *(starts, SIZES, tables, answers, variances),
        exact_rows=rows,
        exact_values=values,
        exact_parts=parts,
        seed=bytes(range(32)),
    )
    return tree, truth


def dense_margins(tree: TreeMargins) -> list[Floats]:
    """Return the generalised least squares of all margins, from all cells of all leaves at once."""
    sums, design, aims = level_sums(tree), list[Floats](), list[Floats]()
    for of_units, answers, variances in zip(sums, tree.answers, tree.margin_variances, strict=True):
        for axes, values, variance in zip(tree.tables, answers, variances, strict=True):
            of_cells = margin_of(np.eye(prod(SIZES), dtype=np.int64), axes).T
            design.append(np.kron(of_units, of_cells) / np.sqrt(variance))
            aims.append(values.ravel() / np.sqrt(variance))
    solved = dense_solution(tree, np.concatenate(design), np.concatenate(aims))
    out = []
    for means, _ in solved:
        lost = [tuple(1 + axis for axis in range(len(SIZES)) if axis not in axes) for axes in tree.tables]
        wide = means.reshape(-1, *SIZES)
        out.append(np.hstack([wide.sum(axis=some).reshape(len(means), -1) for some in lost]))
    return out


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("exact", EXACT)
def test_estimates_are_the_least_squares_of_the_tree(name: str, exact: str, request: pytest.FixtureRequest) -> None:
    """In units of 2**-17: what is rounded to millionths then is 1e-11 of a count."""
    times = 2**17
    for _ in range(drawn(2)):
        tree, _ = drawn_margins(own_rng(request), TABLES[name], EXACT[exact], times)
        for margins, dense in zip(estimate(tree), dense_margins(tree), strict=True):
            assert np.abs(margins / 2**FRACTION_BITS - dense).max() / times < 1e-9


def test_a_margin_that_is_not_measured_at_a_level(request: pytest.FixtureRequest) -> None:
    tree, _ = drawn_margins(own_rng(request), TABLES["a path"])
    left_out = [(inf, 1.0), (1.0, inf), (2.0, 1.0), (1.0, 1.0)]
    nearly = [tuple(min(variance, 1e9) for variance in some) for some in left_out]
    one, other = (replace(tree, margin_variances=tuple(some)) for some in (left_out, nearly))
    for margins, dense in zip(estimate(one), dense_margins(other), strict=True):
        assert np.abs(margins / 2**FRACTION_BITS - dense).max() < 1e-4


# Integers.


def energy(tree: TreeMargins, level: int, aims: Ints, counts: Ints) -> int:
    """Return the weighted squared distance of the measured margins of a level."""
    margins = np.hstack([margin_of(counts, axes) for axes in tree.tables]).astype(object) << FRACTION_BITS
    weights = np.repeat(tree.weights(level)[:-1], np.diff(tree.firsts)).astype(object)
    return int((weights * (margins - aims.astype(object)) ** 2).sum())


def check_tables(tree: TreeMargins, tables: Sequence[Ints]) -> None:
    for level, table in enumerate(tables):
        assert (table >= 0).all()
        assert np.array_equal(tree.exact[level].values(table), tree.values(level, slice(None)))
        if level:
            assert np.array_equal(summed(table, tree.starts[level - 1]), tables[level - 1])


@pytest.mark.parametrize("name", ["nested", "a ring", "cells beside"])
@pytest.mark.parametrize("exact", EXACT)
def test_tables_add_up_and_no_exchange_brings_them_nearer(
    name: str, exact: str, request: pytest.FixtureRequest
) -> None:
    tree, truth = drawn_margins(own_rng(request), TABLES[name], EXACT[exact])
    assert MARGINS.why_not(tree.starts, tree.n_cells, tree.exact_rows) is None
    tables = decide(tree, lambda _: truth[0])
    check_tables(tree, tables)
    check(tree, tables, lambda _: truth[0])
    estimates = estimate(tree)
    for level, aims in enumerate(estimates[1:], 1):
        starts, classes = tree.starts[level - 1], tree.classes[level]
        before = energy(tree, level, aims, tables[level])
        slack = int(tree.weights(level)[-1]) * 40 * 2 ** (2 * FRACTION_BITS)  # what the pull to the fit may outweigh
        for first, end in pairwise(starts):
            for (one, other), (cell, back) in product(
                product(range(first, end), repeat=2), product(range(tree.n_cells), range(-1, tree.n_cells))
            ):
                if one == other or cell == back or tables[level][one, cell] == 0:
                    continue
                if (back < 0 <= classes[cell]) or (back >= 0 and classes[back] != classes[cell]):
                    continue
                moved = tables[level].copy()
                moved[[one, other], cell] += [-1, 1]
                if back >= 0:
                    moved[[one, other], back] += [1, -1]
                if (moved >= 0).all():
                    assert energy(tree, level, aims, moved) > before - slack


def test_chunks_and_threads_change_nothing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, _ = drawn_margins(own_rng(request), TABLES["a ring"])
    expected = decide(tree, gls.nearest_counts, n_threads=1)
    steps: list[tuple[int, int]] = []
    for n_numbers in (1, 200, 700):
        monkeypatch.setattr(margin_trees, "_NUMBERS_AT_ONCE", n_numbers)
        monkeypatch.setattr(gls, "_CELLS_AT_ONCE", n_numbers)
        for n_threads in (1, 3):
            again = decide(tree, gls.nearest_counts, lambda _, done=0, of=0: steps.append((done, of)), n_threads)
            assert all(np.array_equal(one, other) for one, other in zip(again, expected, strict=True))
    assert steps[-1] == (16, 16)
    other = decide(replace(tree, seed=bytes(32)), gls.nearest_counts)
    check_tables(tree, other)


def test_the_top_is_as_near_to_its_margins_as_whole_counts_can_be(request: pytest.FixtureRequest) -> None:
    """The nearest cells are off in their sums: the mutant, which leaves them, is farther."""
    rng = own_rng(request)
    off, mutant = 0, 0
    for _ in range(20):
        tree, _ = drawn_margins(rng, TABLES["a ring"])
        estimates = estimate(tree)[0]
        off += energy(tree, 0, estimates, decide(tree, gls.nearest_counts)[0])
        cells = np.empty((1, tree.n_cells), np.int64)
        flat = np.ones_like(cells)
        fit_cells(np.array([0, 1]), flat, estimates, tree.places, 12, FRACTION_BITS, 0.02, cells)
        mutant += energy(tree, 0, estimates, gls.nearest_counts(cells))
    assert off < 0.8 * mutant


def test_other_tables_are_refused(request: pytest.FixtureRequest) -> None:
    tree, _ = drawn_margins(own_rng(request), TABLES["a path"])
    tables = [table.copy() for table in decide(tree, gls.nearest_counts)]
    tables[-1][0, 0] += 1
    with pytest.raises(ConditionError, match="the table of 1 unit is not what the rule 'margins' gives, at level 3"):
        check(tree, tables, gls.nearest_counts)
    with pytest.raises(ConditionError, match="no cells"):
        gls.estimate(tree)
    cells = TreeMeasurements(tree.starts, tuple(tables), (1.0,) * 4)
    with pytest.raises(ConditionError, match="these are measured cells"):
        MARGINS.decide(cells, gls.nearest_counts)
    why = MARGINS.why_not(tree.starts, tree.n_cells, (), [np.zeros((9, 12), np.bool_)])
    assert why is not None
    assert "structural zeros" in why


# What margins are.


def test_components_add_up_to_margins(request: pytest.FixtureRequest) -> None:
    table = whole(own_rng(request), 0, 9, (5, prod(SIZES)))
    parts = [tuple(axis for axis, kept in enumerate(some) if kept) for some in product((0, 1), repeat=3)]
    total = np.zeros((5, *SIZES), np.int64)
    for part in parts:
        of_part = component(table, (0, 1, 2), part, SIZES)
        total += of_part.reshape(5, *(n if axis in part else 1 for axis, n in enumerate(SIZES)))
    assert np.array_equal(total.reshape(5, -1), prod(SIZES) * table)


def test_exact_sums_that_are_no_whole_margins_are_refused() -> None:
    by_sex, total = tuple(cells_of((0,))), tuple(cells_of(()))
    assert set(exact_components(SIZES, by_sex)) == {(), (0,)}
    assert set(exact_components(SIZES, (*total, by_sex[0]))) == {(), (0,)}  # what is left of the total
    for rows in (by_sex[:1], (*total, *cells_of((1,))[:1]), ((0,),)):
        with pytest.raises(ConditionError, match="are whole margins"):
            exact_components(SIZES, rows)


def test_whole_margins_in_any_order() -> None:
    cells = cells_of((0, 2))
    rows = tuple(Row.of("", cells[number]) for number in (3, 0, 1, 2))
    margin = whole_margin(rows, SIZES)
    assert margin is not None
    assert (margin.axes, margin.order.tolist()) == ((0, 2), [1, 2, 3, 0])
    assert whole_margin(rows[:3], SIZES) is None
    assert whole_margin((*rows, rows[0]), SIZES) is None
    assert whole_margin((Row.weighted(dict.fromkeys(range(12), 2)),), SIZES) is None
    assert whole_margin((Row.of("", [0]), Row.of("", range(1, 12))), SIZES) is None
