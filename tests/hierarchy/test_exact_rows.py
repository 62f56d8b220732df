"""Exact numbers below the top: which are covered, which are refused, and that covered ones can always be drawn."""

from itertools import product

import numpy as np
import pytest

from chain_audit import compositions
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import HierarchyError
from congenial.privacy.unimodular import certify_unimodular
from congenial.tree.exact_sums import ExactRows

TOTAL, WOMEN, ADULTS = Row.of("total", range(8)), Row.of("women", range(4)), Row.of("voting age", [2, 3, 6, 7])


def test_nested_rows_are_certified_for_any_number_of_children() -> None:
    exact = ExactRows("county", (TOTAL, WOMEN), 8)
    assert exact.check(100_000).is_certified
    for n_children in (1, 2, 3, 5):  # the theorem is the certifier's own
        assert certify_unimodular(exact.step_rows(n_children), [], range(8 * n_children)).is_certified


@pytest.mark.parametrize("n_children", [4, 5, 500])
def test_crossing_rows_are_refused(n_children: int) -> None:
    with pytest.raises(HierarchyError, match="Nested sums are"):
        ExactRows("county", (TOTAL, WOMEN, ADULTS), 8).check(n_children)


def test_weighted_rows_and_zeros_are_refused() -> None:
    with pytest.raises(HierarchyError, match="coefficients other than 1"):
        ExactRows("county", (Row("weighted", (0, 1), (1, 2)),), 2)
    with pytest.raises(HierarchyError, match="structural zeros"):
        ExactRows("county", (TOTAL,), 8).check(3, np.array([[True] + 7 * [False], 8 * [False]]))
    assert ExactRows("county", (TOTAL,), 8).check(3, np.array([8 * [True], 8 * [False]])).is_certified


def test_parts_are_what_rows_have_beyond_those_inside() -> None:
    women, men = ExactRows("county", (TOTAL, WOMEN), 8).parts
    assert (women.cells, men.cells) == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert women.sums(np.array([[9, 4], [7, 0]])).tolist() == [4, 0]
    assert men.sums(np.array([[9, 4], [7, 0]])).tolist() == [5, 7]
    rest, few = ExactRows("county", (Row.of("few", [1]),), 3).parts
    assert (rest.cells, rest.is_held, few.cells, few.is_held) == ((0, 2), False, (1,), True)
    nested = ExactRows("county", (Row.of("1", [3]), TOTAL, Row.of("2", [2, 3]), Row.of("3", [2, 3, 4])), 8).parts
    values = np.array([[1, 20, 3, 7]])
    assert {part.cells: part.sums(values).tolist() for part in nested} == {
        (0, 1, 5, 6, 7): [13],
        (2,): [2],
        (3,): [1],
        (4,): [4],
    }


@pytest.mark.parametrize("sets", [[range(3)], [range(3), [0, 1]], [range(3), [0]], [[0, 1]], []])
def test_every_parent_that_has_the_sums_can_be_shared_out(sets: list[list[int]]) -> None:
    """By listing all pairs of children: what the parent's own sums allow is what children add up to."""
    rows = [Row.of("", cells) for cells in sets]
    tables = [np.array(composition) for n in range(4) for composition in compositions(n, 3)]
    by_sums: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for first, second in product(tables, tables):
        values = tuple(row.value(table.tolist()) for table in (first, second) for row in rows)
        by_sums.setdefault(values, set()).add(tuple((first + second).tolist()))
    for values, sums in by_sums.items():
        wanted = tuple(np.add(values[: len(rows)], values[len(rows) :]).tolist())
        for n in range(4):
            for x in compositions(n, 3):
                if tuple(row.value(x) for row in rows) == wanted:
                    assert x in sums


def test_zeros_beside_totals_can_leave_nothing() -> None:
    """Totals (2, 2), the first child barred from the first cell: a parent of (3, 1) has no children."""
    children = [(a, b) for a in compositions(2, 2) for b in compositions(2, 2) if a[0] == 0]
    assert (3, 1) not in {tuple(np.add(a, b).tolist()) for a, b in children}
