"""The rule *gls*: least squares against dense algebra, integers against enumeration, and what they do not depend on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from agreement import own_rng
from congenial.arrays import Ints
from congenial.errors import ConditionError, TooLargeError
from congenial.randomness import RandomStream
from congenial.rules import gls
from congenial.rules.family_integers import ExactCellSums, Siblings, families_at_once
from congenial.rules.gls import UnitEstimates, check, decide, decide_below, estimate, estimate_upward, nearest_counts
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.rules.tree_measurements import DecideTop, TreeMeasurements
from drawn import drawn
from rules.drawn_systems import whole
from rules.gls_by_force import (
    ONE,
    Rows,
    best_tables,
    cost,
    dense_estimates,
    drawn_tree,
    has_negative_cycle,
    siblings,
    summed,
    word,
)

NONE = np.zeros((0, 0), np.bool_)
TOTAL: Rows = ((0, 1, 2, 3),)
NESTED: Rows = ((0, 1, 2, 3), (1, 3), (3,))
CROSSING: Rows = ((0, 1), (0, 2))
P12: Rows = ((0, 1, 2, 3), (0, 1), (1, 3))
CELLS: Rows = ((0,), (1,), (2,), (3,))
EXACT: dict[str, tuple[Rows, ...]] = {
    "nothing": ((), (), (), ()),
    "the top's total": (TOTAL, (), (), ()),
    "some totals": (TOTAL, TOTAL, (), ()),
    "all totals": (TOTAL,) * 4,
    "more above": ((*NESTED, (2,)), NESTED, TOTAL, TOTAL),
    "parts of the cells": (((0, 1), (2,)), ((0, 1), (2,)), ((0, 1),), ((0, 1),)),
    "crossing": ((*CROSSING, (0, 1, 2, 3)), CROSSING, CROSSING, ()),
    "crossing everywhere": (P12,) * 4,
    "crossing above": ((*CELLS, *P12, (0, 2)), (*P12, (0, 2)), CROSSING, CROSSING[:1]),
    "redundant": (((0, 1), (2, 3), (0, 1, 2, 3)), TOTAL, TOTAL, TOTAL),
    "all cells": ((*CELLS, *TOTAL), (*CELLS, *TOTAL), TOTAL, ()),
}
SIZES = (1, 3, 6, 14)


def top_of(table: Ints) -> DecideTop:
    """Return a decision that takes a table of the top as it is, whatever is estimated."""
    return lambda _: table


# The least squares of real numbers.


@pytest.mark.parametrize("name", EXACT)
def test_estimates_are_the_least_squares_of_the_tree(name: str, request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for number in range(drawn(6)):
        variances = [(0.3, 4.0, 1.5, 7.0), (90.0, 0.5, 2.0, 0.01)][number % 2]
        tree, _ = drawn_tree(rng, SIZES, 4, EXACT[name], variances=variances)
        for level, dense in zip(estimate(tree), dense_estimates(tree), strict=True):
            assert np.abs(level / ONE - dense).max() < 1e-4


def test_estimates_with_structural_zeros(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for _ in range(drawn(6)):
        zeros = whole(rng, 0, 2, (14, 4)) == 0
        tree, _ = drawn_tree(rng, SIZES, 4, zeros=zeros)
        for level, dense in zip(estimate(tree), dense_estimates(tree), strict=True):
            assert np.abs(level / ONE - dense).max() < 1e-4


@pytest.mark.parametrize("name", ["all totals", "crossing"])
def test_zeros_that_all_units_share_stay_exact(name: str, request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for _ in range(drawn(4)):
        zeros = np.zeros((14, 4), np.bool_)
        zeros[:, 2] = True
        tree, _ = drawn_tree(rng, SIZES, 4, EXACT[name], zeros=zeros)
        for level, dense in zip(estimate(tree), dense_estimates(tree), strict=True):
            assert np.abs(level / ONE - dense).max() < 1e-4


def test_zeros_with_exact_sums_are_near(request: pytest.FixtureRequest) -> None:
    """Not the least squares themselves; nearer to them than the measurements are."""
    rng = own_rng(request)
    zeros = whole(rng, 0, 3, (14, 4)) == 0
    tree, _ = drawn_tree(rng, SIZES, 4, EXACT["all totals"], zeros=zeros)
    pairs = list(zip(estimate(tree), dense_estimates(tree), tree.measured, strict=True))
    off, before = (
        sum(float(np.abs(a - dense).sum()) for a, dense in some)
        for some in (
            [(level / ONE, dense) for level, dense, _ in pairs],
            [(measured, dense) for _, dense, measured in pairs],
        )
    )
    assert off < before / 5


def test_a_level_that_is_not_measured(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    tree, _ = drawn_tree(rng, SIZES, 3, variances=(2.0, np.inf, 1.0, 4.0))
    almost = replace(tree, variances=(2.0, 1e9, 1.0, 4.0))
    for level, dense in zip(estimate(tree), dense_estimates(almost), strict=True):
        assert np.abs(level / ONE - dense).max() < 1e-4


# Integers of families.


def drawn_family(rng: RandomStream, n_children: int, rows: Rows, n_cells: int, step: int, most: int = 2) -> Siblings:
    """Return a family that some children fit, with estimates in parts of a count; with few parts, many are equal."""
    truth = whole(rng, 0, most, (n_children, n_cells))
    estimates = (truth * step + whole(rng, -3 * step, 3 * step, truth.shape)) * (ONE // step)
    exact = ExactCellSums(rows, n_cells)
    starts = np.array([0, n_children])
    key = int(rng.below(np.array([2**62]))[0])
    return siblings(estimates, starts, summed(truth, starts), exact, exact.values(truth), NONE, key, 0)


def holds(family: Siblings, counts: Ints) -> bool:
    is_barred = family.zeros.size > 0 and bool(counts[family.zeros].any())
    return (
        bool((counts >= 0).all())
        and not is_barred
        and np.array_equal(summed(counts, family.starts), family.parents)
        and np.array_equal(family.exact.values(counts), family.values)
    )


@pytest.mark.parametrize("rows", [(), ((0, 1, 2),), ((0, 1),), ((0, 1, 2), (2,))], ids=str)
@pytest.mark.parametrize("step", [1, 2, 1024])
def test_integers_are_the_nearest(rows: Rows, step: int, request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for number in range(drawn(25)):
        family = drawn_family(rng, 1 + number % 3, rows, 3, step)
        counts = family.shared_out()
        assert holds(family, counts)
        assert cost(family.estimates, counts) == best_tables(family)[0]


def test_words_decide_between_equals(request: pytest.FixtureRequest) -> None:
    """Of the tables of least cost a transport takes that of the least sum of words, to 14 bits."""
    rng = own_rng(request)
    n_tied = 0
    for number in range(drawn(60)):
        family = drawn_family(rng, 3, ((0, 1, 2),), 3, 1, 1)
        few = whole(rng, 0, number % 2, (3, 3)) * ONE + ONE // 2
        family = replace(family, estimates=few, first_place=7)
        words = np.array([[word(family.key, (7 + child) * 3 + cell) >> 50 for cell in range(3)] for child in range(3)])
        _, best = best_tables(family)
        n_tied += len(best) > 1
        sums = [int((counts * words).sum()) for counts in best]
        assert np.array_equal(family.shared_out(), best[int(np.argmin(sums))])
    assert n_tied > 20


@pytest.mark.parametrize("step", [1, 8, 2**20])
@pytest.mark.parametrize("shape", [(40, 3), (3, 20), (25, 12)])
def test_large_transports_are_optimal(shape: tuple[int, int], step: int, request: pytest.FixtureRequest) -> None:
    """No cycle of moves lowers the cost: exact, without a solver."""
    rng = own_rng(request)
    for _ in range(drawn(3)):
        family = drawn_family(rng, shape[0], (tuple(range(shape[1])),), shape[1], step, 5)
        counts = family.shared_out()
        assert holds(family, counts)
        assert not has_negative_cycle(family.estimates, counts)


def test_a_worse_table_has_a_negative_cycle(request: pytest.FixtureRequest) -> None:
    """What the test above would see: one unit moved around a square."""
    family = drawn_family(own_rng(request), 10, (tuple(range(5)),), 5, 2**20, 5)
    counts = family.shared_out()
    square = np.argwhere((counts[:-1, :-1] > 0) & (counts[1:, 1:] > 0))[0]
    (a, c), (b, d) = square, square + 1
    counts[[a, b], [c, d]] -= 1
    counts[[a, b], [d, c]] += 1
    assert has_negative_cycle(family.estimates, counts)


def test_estimates_that_are_far_from_the_sums(request: pytest.FixtureRequest) -> None:
    """Path costs would not fit into 64 bits: fractions give way, the integers still fit and are nearly optimal."""
    rng = own_rng(request)
    truth = whole(rng, 0, 2**30, (6, 5))
    exact = ExactCellSums((tuple(range(5)),), 5)
    starts = np.array([0, 6])
    estimates = whole(rng, -(2**30), 2**30, (6, 5)) << FRACTION_BITS
    family = siblings(estimates, starts, summed(truth, starts), exact, exact.values(truth), NONE, 3, 0)
    assert holds(family, family.shared_out())


def test_barred_cells_stay_empty(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for rows in ((), ((0, 1, 2),)):
        for _ in range(drawn(20)):
            zeros = whole(rng, 0, 2, (3, 3)) == 0
            truth = np.where(zeros, 0, whole(rng, 0, 2, (3, 3)))
            exact, starts = ExactCellSums(rows, 3), np.array([0, 3])
            estimates = np.where(zeros, 0, whole(rng, -4, 4, (3, 3))) * (ONE // 2)
            family = siblings(estimates, starts, summed(truth, starts), exact, exact.values(truth), zeros, 9, 0)
            counts = family.shared_out()
            assert holds(family, counts)
            assert cost(estimates, counts) == best_tables(family)[0]


def test_families_that_nothing_fits_are_refused() -> None:
    starts, nothing = np.array([0, 2]), np.zeros((2, 0), np.int64)
    estimates = np.zeros((2, 2), np.int64)
    total = ExactCellSums(((0, 1),), 2)
    diagonal = np.array([[True, False], [False, True]])
    barred = [
        siblings(estimates, starts, np.array([[1, 0]]), ExactCellSums((), 2), nothing, np.full((2, 2), True), 1, 0),
        siblings(estimates, starts, np.array([[3, 3]]), total, np.array([[1], [5]]), diagonal, 1, 0),
        siblings(estimates, starts, np.array([[3, 3]]), total, np.array([[1], [4]]), NONE, 1, 0),
        siblings(estimates, starts, np.array([[3, 3]]), total, np.array([[-1], [7]]), NONE, 1, 0),
    ]
    for family in barred:
        with pytest.raises(ConditionError, match="leaves its 2 children none"):
            family.shared_out()


@pytest.mark.parametrize("rows", [(), ((0, 1, 2, 3),)], ids=["no sums", "totals"])
def test_ties_favour_no_child_and_no_cell(rows: Rows, request: pytest.FixtureRequest) -> None:
    """All estimates have the same fraction. By the order of cells or of children, the first would gain a quarter."""
    n_families, n_children, n_cells = 4000, 4, 4
    rng = own_rng(request)
    starts = np.arange(0, n_families * n_children + 1, n_children)
    base = whole(rng, 2, 5, (n_families * n_children, n_cells))
    estimates = (base << FRACTION_BITS) + ONE // 2
    extra = np.zeros_like(base).reshape(n_families, n_children, n_cells)
    extra[:, [0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 1, 2, 2, 3, 3, 0]] = 1  # two a child, two a cell
    truth = base + extra.reshape(base.shape)
    exact = ExactCellSums(rows, n_cells)
    family = siblings(estimates, starts, summed(truth, starts), exact, exact.values(truth), NONE, 11, 0)
    shifts = (family.shared_out() - base).reshape(n_families, n_children, n_cells)
    assert holds(family, family.shared_out())
    assert set(np.unique(shifts).tolist()) == {0, 1}
    # The mean of 4,000 families has a standard error of 1 / 126, or less.
    assert np.abs(shifts.mean(axis=0) - 0.5).max() < 6 / 126
    # The mutant: what is drawn above is right for each child and cell, and always the same.
    assert np.abs(extra.mean(axis=0) - 0.5).max() == 0.5
    again = replace(family, key=12).shared_out()
    assert (again.reshape(shifts.shape) - base.reshape(shifts.shape) != shifts).mean() > 0.3


# Whole trees.


def check_tables(tree: TreeMeasurements, tables: Sequence[Ints]) -> None:
    for level, table in enumerate(tables):
        every = slice(None)
        assert (table >= 0).all()
        assert np.array_equal(tree.exact[level].values(table), tree.values(level, every))
        if tree.zero_masks:
            assert not table[tree.zero_masks[level]].any()
        if level:
            assert np.array_equal(summed(table, tree.starts[level - 1]), tables[level - 1])


@pytest.mark.parametrize("name", EXACT)
def test_tables_add_up_and_keep_what_is_exact(name: str, request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for _ in range(drawn(5)):
        tree, truth = drawn_tree(rng, SIZES, 4, EXACT[name], noise=6)
        assert gls.why_not(tree.starts, 4, tree.exact_rows) is None
        tables = decide(tree, top_of(truth[0]))
        check_tables(tree, tables)
        check(tree, tables)
        worse = [table.copy() for table in tables]
        worse[-1][0, 0] += 1
        with pytest.raises(ConditionError, match="the table of 1 unit is not what the rule 'gls' gives, at level 3"):
            check(tree, worse)


@pytest.mark.parametrize("rows", [(), (TOTAL,) * 4], ids=["no sums", "totals"])
def test_tables_keep_zeros(rows: tuple[Rows, ...], request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for _ in range(drawn(5)):
        zeros = whole(rng, 0, 2, (14, 4)) == 0
        if rows:  # of a unit with exact sums, all cells or none
            zeros[:] = zeros[:, :1] & zeros[:, 1:2]
        tree, truth = drawn_tree(rng, SIZES, 4, rows, zeros=zeros)
        assert gls.why_not(tree.starts, 4, tree.exact_rows, tree.zero_masks) is None
        check_tables(tree, decide(tree, top_of(truth[0])))


@pytest.mark.parametrize("name", ["some totals", "more above", "crossing", "crossing everywhere"])
def test_chunks_and_threads_change_nothing(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, truth = drawn_tree(own_rng(request), (1, 3, 9, 60), 4, EXACT[name], noise=6)
    expected = decide(tree, top_of(truth[0]), n_threads=1)
    steps: list[tuple[int, int]] = []
    for n_cells in (1, 7, 40):
        monkeypatch.setattr(gls, "_CELLS_AT_ONCE", n_cells)
        for n_threads in (1, 3):
            again = decide(tree, top_of(truth[0]), lambda _, done=0, of=0: steps.append((done, of)), n_threads)
            assert all(np.array_equal(a, b) for a, b in zip(again, expected, strict=True))
    assert steps[-1] == (73, 73)
    other = decide(replace(tree, seed=bytes(range(32))), top_of(truth[0]))
    if name != "crossing everywhere":  # where classes of one cell leave nothing to words
        assert not np.array_equal(other[-1], expected[-1])


@pytest.mark.parametrize("name", ["nothing", "all totals", "crossing everywhere"])
def test_subtrees_by_themselves_give_the_same(name: str, request: pytest.FixtureRequest) -> None:
    tree, truth = drawn_tree(own_rng(request), (1, 4, 9, 40), 4, EXACT[name], noise=6)
    expected = decide(tree, top_of(truth[0]))
    subtrees = []
    for unit in range(4):
        first, end = [unit], [unit + 1]
        for starts in tree.starts[1:]:
            first.append(int(starts[first[-1]]))
            end.append(int(starts[end[-1]]))
        parts = [slice(a, b) for a, b in zip(first, end, strict=True)]
        subtrees.append(
            replace(
                tree,
                starts=tuple(s[a : b + 1] - s[a] for s, a, b in zip(tree.starts[1:], first, end, strict=False)),
                measured=tuple(n[part] for n, part in zip(tree.measured[1:], parts, strict=True)),
                exact_rows=tree.exact_rows[1:],
                exact_values=tuple(v[part] for v, part in zip(tree.exact_values[1:], parts, strict=True)),
                first_level=1,
                first_places=tuple(first),
            )
        )
    below = [estimate_upward(some) for some in subtrees]
    leaves = UnitEstimates(*map(np.concatenate, zip(*(some[0].units for some in below), strict=True)))
    upper = replace(
        tree,
        starts=tree.starts[:1],
        measured=tree.measured[:2],
        exact_rows=tree.exact_rows[:2],
        exact_values=tree.exact_values[:2],
        last_ranges=np.concatenate([some.free_ranges(0, slice(None)) for some in subtrees]),
    )
    upward = estimate_upward(upper, leaves)
    top = gls.top_estimates(upper, upward, leaves).means
    above = decide_below(upper, upward, top, truth[0], leaves=leaves, keeps_estimates=True)
    assert above.last_estimates is not None
    levels: list[list[Ints]] = [[], [], []]
    for unit, (some, known) in enumerate(zip(subtrees, below, strict=True)):
        part = slice(unit, unit + 1)
        decided = decide_below(some, known, above.last_estimates[part], above.tables[1][part])
        for level, table in zip(levels, decided.tables, strict=True):
            level.append(table)
    assert np.array_equal(above.tables[0], expected[0])
    for tables, table in zip(levels, expected[1:], strict=True):
        assert np.array_equal(np.concatenate(tables), table)


def test_a_tree_of_one_level() -> None:
    tree = TreeMeasurements((), (np.array([[3, -2], [0, 1]]),), (1.0,))
    (table,) = decide(tree, nearest_counts)
    assert table.tolist() == [[3, 0], [0, 1]]
    check(tree, (table,), nearest_counts)


def test_the_middle_of_a_tree_is_nearer_than_from_the_top_down(request: pytest.FixtureRequest) -> None:
    """Children's measurements improve those of their parents; projected from the top down, they would be lost."""
    rng = own_rng(request)
    tree, truth = drawn_tree(rng, (1, 30, 240, 2400), 4, variances=(4.0, 12.0, 12.0, 4.0), most=40, noise=3)
    wide = [whole(rng, -6, 6, table.shape) for table in truth[1:3]]
    tree = replace(tree, measured=(tree.measured[0], truth[1] + wide[0], truth[2] + wide[1], tree.measured[3]))
    tables = decide(tree, top_of(truth[0]))
    projected = [truth[0]]
    for level in range(3):
        exact, nothing = ExactCellSums((), 4), np.zeros((len(truth[level + 1]), 0), np.int64)
        raw = tree.measured[level + 1] << FRACTION_BITS
        family = siblings(raw, tree.starts[level], projected[-1], exact, nothing, NONE, tree.key(level + 1), 0)
        projected.append(family.shared_out())
    errors = [np.abs(tables[level] - truth[level]).mean() for level in (1, 2)]
    others = [np.abs(projected[level] - truth[level]).mean() for level in (1, 2)]
    assert errors[1] < 0.95 * others[1]
    assert errors[0] < 1.1 * others[0]


# What is refused.


def test_what_is_no_tree_is_refused() -> None:
    one, two = np.array([[1, 2]]), np.array([[1, 1], [0, 1]])
    starts = (np.array([0, 2]),)
    wrong: list[tuple[dict[str, object], str]] = [
        ({"starts": ()}, "2 levels"),
        ({"starts": (np.array([0, 1]),)}, "stand together"),
        ({"measured": (one, two.astype(float))}, "64-bit whole numbers"),
        ({"measured": (one, two[:, :1])}, "same cells"),
        ({"variances": (1.0,)}, "variance above 0"),
        ({"variances": (1.0, 0.0)}, "variance above 0"),
        ({"variances": (1.0, np.inf)}, "last level"),
        ({"exact_rows": ((), ((0,),))}, "have values"),
        ({"exact_rows": ((), ((0,),)), "exact_values": (np.zeros((1, 0), np.int64), one)}, "unit and exact sum"),
        ({"zero_masks": (one > 1,)}, "an entry for each of 2 levels"),
        ({"zero_masks": (one > 1, one > 1)}, "structural zero"),
        ({"seed": b"short"}, "32 bytes"),
    ]
    for changes, words in wrong:
        parts: dict[str, object] = {"starts": starts, "measured": (one, two), "variances": (1.0, 1.0), **changes}
        with pytest.raises(ConditionError, match=words):
            TreeMeasurements(**parts)  # type: ignore[arg-type]
    with pytest.raises(TooLargeError, match="add up to more"):
        TreeMeasurements(starts, (one, two + 2**37), (1.0, 1.0))
    with pytest.raises(ConditionError, match="one or more different cells"):
        ExactCellSums(((0, 0),), 2)


def test_tops_that_break_a_condition_are_refused(request: pytest.FixtureRequest) -> None:
    tree, truth = drawn_tree(own_rng(request), SIZES, 4, EXACT["all totals"])
    for wrong in (truth[0] + 1, -truth[0], truth[0].astype(float), truth[0][:, :2]):
        with pytest.raises(ConditionError, match="tables of the first level"):
            decide(tree, top_of(wrong))
    with pytest.raises(ConditionError, match="shapes of its measurements"):
        check(tree, truth[:2])


def test_why_not() -> None:
    starts = [np.array([0, 3])]
    some_zeros = [np.zeros((1, 4), np.bool_), np.array([[True, False, False, False], [False] * 4, [True] * 4])]
    assert gls.why_not(starts, 4) is None
    assert gls.why_not(starts, 4, [CROSSING, CROSSING]) is None
    assert "not stated at the level above" in (gls.why_not(starts, 4, [(), TOTAL]) or "")
    assert "structural zeros" in (gls.why_not(starts, 4, [TOTAL, TOTAL], some_zeros) or "")


def test_slices_of_families_cover_all(request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for _ in range(20):
        starts = np.concatenate([[0], np.cumsum(whole(rng, 1, 5, 12))])
        for n_children in (1, 4, 100):
            slices = families_at_once(starts, n_children)
            assert [some.start for some in slices] == [0, *(some.stop for some in slices[:-1])]
            assert slices[-1].stop == 12
            assert all(s.stop - s.start == 1 or starts[s.stop] - starts[s.start] <= n_children for s in slices)
