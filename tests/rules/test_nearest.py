"""The nearest table against brute force: its cost, the public choice between equals, and what it does not depend on."""

import itertools
from dataclasses import replace
from fractions import Fraction
from math import comb

import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.arrays import Ints, distinct_rows
from congenial.conditions.areas_and_bounds import Area, AreaGroup, Areas
from congenial.conditions.base import Condition
from congenial.conditions.constraints import Constraints
from congenial.conditions.limits_and_shares import bounds
from congenial.conditions.queries import margin, total
from congenial.conditions.rows_and_intervals import Interval, Limited, Row
from congenial.errors import ConditionError, TooLargeError, UndecidedError
from congenial.progress_and_interrupts import DECIDING
from congenial.rules import nearest as nearest_module
from congenial.rules import transport as transport_module
from congenial.rules.integer_least_squares import LeastSquares
from congenial.rules.nearest import NEAREST
from congenial.rules.registry import RuleInput
from congenial.rules.rule_and_input import TieWords
from congenial.rules.sums_and_parts import Part, SumStructure
from congenial.rules.transport import Families
from drawn import drawn
from rules.drawn_systems import KINDS, schema_of, whole
from rules.nearest_by_force import best_of, cell_rows, input_of, tables_of, with_least_words


def seed_of(number: int) -> bytes:
    return number.to_bytes(32, "little")


def box_of(constraints: Constraints, measured: Ints) -> list[tuple[int, int]]:
    """Return limits that no nearest table of small noise exceeds: what sums of counts allow, or far from n."""
    box = [(int(n) - 7, int(n) + 7) for n in measured]
    for limited in constraints.rows:
        cells, upper = limited.row.cells, limited.upper
        if upper is not None and all(constraints.lower[c] == 0 and t >= 1 for c, t in limited.terms.items()):
            for cell in cells:
                box[cell] = (0, min(box[cell][1], upper) if constraints.lower[cell] == 0 else upper)
    return box


@pytest.mark.parametrize("kind", KINDS)
def test_is_the_nearest_table(kind: str, request: pytest.FixtureRequest) -> None:
    rng = own_rng(request)
    for number in range(drawn(25)):
        constraints, counts = KINDS[kind](rng)
        measured = counts + whole(rng, -3, 3, len(counts))
        data = input_of(constraints, measured, seed_of(number))
        (table,) = NEAREST.decide(data)
        assert constraints.holds(table)
        equals = best_of(tables_of(constraints, box_of(constraints, measured)), measured)
        words = TieWords(data.seed, (None,), len(counts)).of([0])[0]
        assert table.tolist() == with_least_words(equals, words).tolist(), (kind, measured, equals)
        NEAREST.check(data, table[None])


WAYS = {
    "crossing_sums": "one free sum",
    "all_two_ways": "one free sum",
    "range_alone": "one free sum",
    "margins": "two families",
    "margins_and_limits": "two families",
    "parts_of_margins": "two families",
    "margin_in_range": "two families",
    "nested_sums": "two families",
    "three_margins": "solver",
}


@pytest.mark.parametrize("kind", WAYS)
def test_systems_go_the_way_they_are_there_for(kind: str, request: pytest.FixtureRequest) -> None:
    constraints, _ = KINDS[kind](own_rng(request))
    for part in SumStructure.of(constraints).parts:
        way = "one free sum" if part.line is not None else "two families" if Families.of(part) else "solver"
        assert way == WAYS[kind]


def by_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing to the quick ways."""
    monkeypatch.setattr(Part, "line", None)
    monkeypatch.setattr(Families, "of", lambda part: None)


WIDE: dict[str, tuple[tuple[int, ...], list[Condition]]] = {
    "P12": ((2, 23), [total(), total({"d0": "0"}), total({"d1": [str(age) for age in range(4, 23)]})]),
    "both margins": ((7, 9), [margin("d0"), margin("d1")]),
    "both margins and a total of cells": (
        (5, 6),
        [margin("d0"), margin("d1"), total({"d0": ["0", "1"]}), bounds(0, 6)],
    ),
    "deep margins": ((3, 4, 3), [margin("d0"), margin("d1")]),
    "a margin and more": ((4, 5), [margin("d0"), total({"d1": "0"}), total({"d1": ["1", "2"]})]),
}


@pytest.mark.parametrize("system", WIDE)
def test_quick_ways_and_the_solver_agree(
    system: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape, conditions = WIDE[system]
    rng, n_cells = own_rng(request), int(np.prod(shape))
    counts = np.minimum(whole(rng, 0, 6, (12, n_cells)), whole(rng, 0, 6, (12, n_cells)))
    areas = Areas.of_counts(schema_of(*shape), conditions, [str(unit) for unit in range(12)], counts, name="unit")
    data = input_of(areas, counts + whole(rng, -4, 4, (12, n_cells)), seed_of(8))
    tables = NEAREST.decide(data)
    by_the_solver(monkeypatch)
    assert (NEAREST.decide(data) == tables).all()


def copies(constraints: Constraints, n: int, name: str = "unit") -> Areas:
    """Return many units with the same conditions."""
    values = [[limited.lower or 0 for limited in constraints.equalities]] * n
    group = AreaGroup(constraints, np.arange(n), np.array(values, np.int64).reshape(n, -1))
    return Areas(name, tuple(f"{name} {number}" for number in range(n)), (group,))


def ties_of(constraints: Constraints, measured: list[int], n: int) -> tuple[Ints, Ints]:
    """Return the tables that came up in many units, and which each has; all of them are as near as can be."""
    lines = np.tile(np.array(measured, np.int64), (n, 1))
    tables = NEAREST.decide(input_of(copies(constraints, n), lines, seed_of(5)))
    distinct, which = distinct_rows(tables)
    equals = best_of(tables_of(constraints, box_of(constraints, np.array(measured))), np.array(measured))
    assert distinct.tolist() == sorted(equals.tolist())  # every one of them comes up
    return distinct, which


def of_sum(n_cells: int, value: int) -> Constraints:
    return Constraints.of(schema_of(n_cells), [total(equals=value)])


def of_margins(n: int) -> Constraints:
    return Constraints.of(schema_of(n, n), [margin("d0", equals=[1] * n), margin("d1", equals=[1] * n)])


TIES = {
    # Conditions, n, and how many tables are equally near; the symmetry of the system makes them equally likely.
    "one sum": (of_sum(6, 4), [1] * 6, comb(6, 2)),
    "one sum, cells at zero": (of_sum(5, 2), [1, -5, 1, 1, 1], comb(4, 2)),
    "one free sum": (of_margins(2), [0] * 4, 2),
    "two families": (of_margins(3), [0] * 9, 6),
}


def by_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decide between equals by the order of cells."""

    def of(self: TieWords, places: Ints) -> Ints:
        return np.tile(np.arange(self._n_cells), (len(places), 1))

    monkeypatch.setattr(TieWords, "of", of)


@pytest.mark.parametrize("system", TIES)
def test_equals_are_equally_likely(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    constraints, measured, n_tables = TIES[system]
    distinct, which = ties_of(constraints, measured, N_DRAWS)
    assert len(distinct) == n_tables
    assert p_value(which, [1 / n_tables] * n_tables) > ALPHA
    # The mutant that decides by the order of cells is caught: one table takes all.
    by_order(monkeypatch)
    lines = np.tile(np.array(measured, np.int64), (1000, 1))
    assert len(distinct_rows(NEAREST.decide(input_of(copies(constraints, 1000), lines)))[0]) == 1


def test_every_equal_comes_up_where_a_solver_decides() -> None:
    ones = [margin(f"d{axis}", equals=[1, 1]) for axis in range(3)]
    ties_of(Constraints.of(schema_of(2, 2, 2), ones), [0] * 8, 100)


def test_many_free_steps_cost_nothing() -> None:
    """Along the line of sums the cost may be flat for many steps, and every place of it comes up."""
    fixed = [total(equals=6), total({"d0": "0"}, equals=3), total({"d1": ["0", "1", "2"]}, equals=3)]
    constraints = Constraints.of(schema_of(2, 6), fixed)
    tables = NEAREST.decide(input_of(copies(constraints, 3000), np.zeros((3000, 12), np.int64)))
    assert set(tables[:, :3].sum(axis=1).tolist()) == {0, 1, 2, 3}


def order_shift(tables: Ints, truth: Ints) -> Ints:
    """Return how much more than the truth the first and the last cell have over all units."""
    shifts: Ints = (tables - truth).sum(axis=0)
    return shifts[[0, -1]]


def test_first_and_last_cells_are_not_shifted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that keeps the total, large counts: the table is the truth plus noise, spread evenly, whatever the cell."""
    rng, n = own_rng(request), 20_000
    truth = np.full((n, 10), 50)
    noise = whole(rng, -4, 4, (n, 10))  # of the cells alone: the total of the table is the true one
    areas = Areas.of_counts(schema_of(10), [total()], [str(unit) for unit in range(n)], truth, name="unit")
    data = input_of(areas, truth + noise)
    # A cell's error has a variance below 8, and so the sum over units a standard deviation below 400: five of them.
    assert (np.abs(order_shift(NEAREST.decide(data), truth)) < 2_000).all()
    by_order(monkeypatch)
    assert (np.abs(order_shift(NEAREST.decide(data), truth)) > 2_000).all()


def several_patterns(request: pytest.FixtureRequest, n: int) -> RuleInput:
    """Return areas of two patterns, in turn, one of them for the solver."""
    rng = own_rng(request)
    schema = schema_of(2, 2, 2)
    counts = whole(rng, 0, 3, (n, 8))
    by_label: dict[Area, Constraints] = {}
    for number, line in enumerate(counts):
        some = [margin("d0"), margin("d1"), margin("d2")] if number % 5 == 0 else [margin("d0", "d1"), margin("d2")]
        by_label[f"area {number}"] = Constraints.of(schema, some if number % 3 else [total()], line.tolist())
    return input_of(Areas.collected("area", by_label), counts + whole(rng, -3, 3, (n, 8)), seed_of(3))


def test_parts_and_threads_do_not_matter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    data = several_patterns(request, 60)
    steps: list[tuple[int, int]] = []
    tables = NEAREST.decide(data, lambda step, done=0, of=0, /: steps.append((done, of)) if step == DECIDING else None)
    assert steps[-1] == (60, 60)
    monkeypatch.setattr(nearest_module, "_UNITS_AT_ONCE", 7)
    monkeypatch.setattr(nearest_module, "_SOLVED_AT_ONCE", 2)
    monkeypatch.setattr(transport_module, "_CELLS_AT_ONCE", 20)
    assert (NEAREST.decide(data, n_threads=3) == tables).all()


def test_a_unit_depends_on_itself_alone(request: pytest.FixtureRequest) -> None:
    """Some of the areas, in another order, have the same tables; another label or seed has another choice of equals."""
    data = several_patterns(request, 40)
    tables = NEAREST.decide(data)
    places = list(range(39, -1, -3))
    labels = [data.areas.labels[place] for place in places]
    some = Areas.collected("area", {label: data.areas[label] for label in labels})
    part = replace(data, areas=some, measurements=data.measurements[places])
    assert (NEAREST.decide(part) == tables[places]).all()
    assert (NEAREST.decide(replace(data, seed=seed_of(4))) != tables).any()
    renamed = Areas.collected("area", {f"other {label}": data.areas[label] for label in data.areas.labels})
    assert (NEAREST.decide(replace(data, areas=renamed)) != tables).any()


def test_words_are_public_distinct_and_balanced() -> None:
    words = TieWords(seed_of(1), tuple(f"unit {n}" for n in range(1000)), 46).of(range(1000))
    assert all(len(set(line)) == 46 for line in words.tolist())
    assert p_value((words > 0).reshape(-1).astype(np.int64), [0.5, 0.5]) > ALPHA
    first = TieWords(seed_of(1), tuple(f"unit {n}" for n in range(10_000)), 46).of(range(10_000)).argmin(axis=1)
    assert p_value(first, [1 / 46] * 46) > ALPHA


LARGE = 2**40


@pytest.mark.parametrize("kind", ["total", "crossing_sums", "margins", "nested_sums", "three_margins", "all_two_ways"])
def test_large_counts(kind: str, request: pytest.FixtureRequest) -> None:
    """Counts of 2**40 a cell: as without limits, moved."""
    rng = own_rng(request)
    for number in range(6):
        constraints, counts = KINDS[kind](rng)
        measured = counts + whole(rng, -3, 3, len(counts))
        unlimited = replace(constraints, limits=(Interval(None, None),) * len(counts))
        moved_rows = tuple(
            Limited.equal(limited.row, limited.row.value((counts + LARGE).tolist())) for limited in constraints.rows
        )
        moved = replace(constraints, rows=moved_rows, limits=(Interval(0, None),) * len(counts))
        small = NEAREST.decide(input_of(unlimited, measured, seed_of(number)))
        data = input_of(moved, measured + LARGE, seed_of(number))
        assert (NEAREST.decide(data) == small + LARGE).all()
        NEAREST.check(data, small + LARGE)


def test_measurements_far_from_any_table(request: pytest.FixtureRequest) -> None:
    """Noise of 2**38 meets counts of a few: still the nearest table, in Python's integers where 64 bits are too few."""
    rng = own_rng(request)
    for kind in ("total", "crossing_sums", "margins", "margins_and_limits"):
        constraints, counts = KINDS[kind](rng)
        measured = counts + whole(rng, -(2**38), 2**38, len(counts))
        (table,) = NEAREST.decide(input_of(constraints, measured))
        tables = tables_of(constraints, box_of(constraints, counts + 20))
        cost = [sum((int(s) - int(n)) ** 2 for s, n in zip(line, measured, strict=True)) for line in [table, *tables]]
        assert cost[0] == min(cost)


def test_too_large_counts_are_refused() -> None:
    huge = Constraints.of(schema_of(3), [total(equals=2**60)])
    with pytest.raises(TooLargeError):
        NEAREST.decide(input_of(huge, np.array([2**60, 2**60, 1])))
    beyond = replace(huge, rows=(Limited.equal(huge.rows[0].row, 2**70),))
    with pytest.raises(TooLargeError):
        NEAREST.decide(input_of(beyond, np.array([1, 2, 3])))


@pytest.mark.parametrize("kind", ["margins", "margins_and_limits", "margin_in_range", "nested_sums"])
def test_python_integers_give_the_same(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = own_rng(request)
    for number in range(5):
        constraints, counts = KINDS[kind](rng)
        data = input_of(constraints, counts + whole(rng, -3, 3, len(counts)), seed_of(number))
        tables = NEAREST.decide(data)
        with monkeypatch.context() as patch:
            patch.setattr(transport_module, "_LARGEST", 0)
            assert (NEAREST.decide(data) == tables).all()


# What is not measured by itself.


def test_determined_cells_need_no_measurement() -> None:
    constraints = Constraints.of(
        schema_of(2, 2), [margin("d0", equals=[4, 3]), total({"d0": "0", "d1": "0"}, equals=1)]
    )
    rows = cell_rows(4)[2:]
    data = RuleInput(Areas.one(constraints), rows, (Fraction(1),) * 2, 1, np.array([[5, -3]]), bytes(32))
    assert NEAREST.decide(data).tolist() == [[1, 3, 3, 0]]


def test_the_more_precise_measurement_of_a_cell_counts() -> None:
    constraints = Constraints.of(schema_of(2), [total(equals=5)])
    rows = (*cell_rows(2), *cell_rows(2))
    precisions = (Fraction(1),) * 2 + (Fraction(3),) * 2
    data = RuleInput(Areas.one(constraints), rows, precisions, 1, np.array([[0, 5, 4, 1]]), bytes(32))
    assert NEAREST.decide(data).tolist() == [[4, 1]]


@pytest.mark.parametrize("exponent", [1, 2])
def test_least_squares_in_rows(exponent: int, request: pytest.FixtureRequest) -> None:
    """Margins measured, and no cell: the answers are nearest by weighted squares, then the table is spread evenly."""
    rng = own_rng(request)
    schema = schema_of(2, 3)
    sets = [[0, 1, 2], [3, 4, 5], [0, 3], [1, 4], [2, 5]]
    rows = tuple(Row.of(str(cells), cells) for cells in sets)
    precisions = (Fraction(1, 2),) * 2 + (Fraction(1),) * 3
    weights = [250, 250, 1000, 1000, 1000] if exponent == 1 else [500, 500, 1000, 1000, 1000]
    for number in range(drawn(6)):
        counts = whole(rng, 0, 2, 6)
        constraints = Constraints.of(schema, [total()], counts.tolist())
        answers = np.array([counts[cells].sum() for cells in sets]) + whole(rng, -3, 3, 5)
        data = RuleInput(Areas.one(constraints), rows, precisions, exponent, answers[None], seed_of(number))
        tables = NEAREST.decide(data)
        NEAREST.check(data, tables)

        def keys(table: Ints, answers: Ints = answers) -> tuple[int, int]:
            gaps = np.array([table[cells].sum() for cells in sets]) - answers
            return int((np.array(weights) * gaps**2).sum()), int((table**2).sum())

        # Equal answers first: of all tables with the answers of this one, none is spread more evenly.
        everything = tables_of(constraints, box_of(constraints, counts))
        found = keys(tables[0])
        assert found[0] == min(keys(table)[0] for table in everything)
        same = [table for table in everything if all(table[cells].sum() == tables[0][cells].sum() for cells in sets)]
        assert found[1] == min(keys(table)[1] for table in same)


def test_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    areas = Areas.one(Constraints.of(schema_of(2, 2, 2), [margin(f"d{axis}", equals=[1, 1]) for axis in range(3)]))
    assert NEAREST.why_not(areas, cell_rows(8), (Fraction(1),) * 8) is None
    assert "nothing is measured" in str(NEAREST.why_not(areas, (), ()))
    monkeypatch.setattr(nearest_module, "_MOST_SOLVED", 5)
    assert "8 cells" in str(NEAREST.why_not(areas, cell_rows(8), (Fraction(1),) * 8))
    simple = Areas.one(Constraints.of(schema_of(2, 4), [total(equals=4)]))
    assert NEAREST.why_not(simple, cell_rows(8), (Fraction(1),) * 8) is None
    assert NEAREST.why_not(simple, cell_rows(8)[:3], (Fraction(1),) * 3) is not None


# Checking.


@pytest.mark.parametrize("kind", ["total", "crossing_sums", "margins", "three_margins"])
def test_other_tables_are_refused(kind: str, request: pytest.FixtureRequest) -> None:
    """Neither a table farther away, nor one that is as near, nor one that breaks a condition is the rule's."""
    rng = own_rng(request)
    n_refused = 0
    for number in range(8):
        constraints, counts = KINDS[kind](rng)
        data = input_of(constraints, counts + whole(rng, -2, 2, len(counts)), seed_of(number))
        table = NEAREST.decide(data)
        others = tables_of(constraints, box_of(constraints, data.measurements[0]))
        for other in others[:: max(1, len(others) // 6)]:
            if (other != table[0]).any():
                with pytest.raises(ConditionError, match="not what the rule"):
                    NEAREST.check(data, other[None])
                n_refused += 1
        broken = table.copy()
        broken[0, 0] += 1
        with pytest.raises(ConditionError, match="breaks a condition"):
            NEAREST.check(data, broken)
    assert n_refused > 10


def test_another_solver_may_find_another_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where cost and words are the same, whichever table was found passes; with other words, it does not."""
    ones = [margin(f"d{axis}", equals=[1, 1]) for axis in range(3)]
    data = input_of(Constraints.of(schema_of(2, 2, 2), ones), np.zeros(8, np.int64))
    equals = best_of(tables_of(data.areas[None], [(0, 1)] * 8), np.zeros(8, np.int64))
    assert len(equals) == 4
    (table,) = NEAREST.decide(data)
    n_refused = 0
    for other in equals:
        if (other != table).any():
            with pytest.raises(ConditionError, match="not what the rule"):
                NEAREST.check(data, other[None])
            n_refused += 1
    assert n_refused == 3
    monkeypatch.setattr(nearest_module, "_short", lambda word: 0)
    for other in equals:
        NEAREST.check(data, other[None])


def test_a_solver_that_lies_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ones = [margin(f"d{axis}", equals=[1, 1]) for axis in range(3)]
    data = input_of(Constraints.of(schema_of(2, 2, 2), ones), np.arange(8) % 3)
    monkeypatch.setattr(LeastSquares, "_inside", lambda self, values: [0] * len(values))
    with pytest.raises(UndecidedError):
        NEAREST.decide(data)


# How near.


def geometric(words: Ints) -> Ints:
    """Return how many zeros a random word ends in: geometric with ratio one half, without floats."""
    lowest = words & -words
    zeros = np.zeros(words.shape, np.int64)
    for power in range(1, 62):
        zeros += lowest >= 2**power
    return zeros


def test_is_nearer_than_counts_cut_at_zero(request: pytest.FixtureRequest) -> None:
    """P12 in sparse areas: exact numbers and no negative counts together, against each cell cut at zero."""
    rng, n = own_rng(request), 2_000
    schema = schema_of(2, 23)
    sizes = np.array([0, 0, 1, 3, 7])[whole(rng, 0, 4, (n, 46))]
    truth = np.minimum(whole(rng, 0, 9, (n, 46)), sizes)
    exact = [total(), total({"d0": "0"}), total({"d1": [str(age) for age in range(4, 23)]})]
    areas = Areas.of_counts(schema, exact, [str(unit) for unit in range(n)], truth, name="unit")
    words = [rng.words(n * 46).astype(np.int64).reshape(n, 46) | 2**61 for _ in range(2)]
    measured = truth + geometric(words[0]) - geometric(words[1])
    tables = NEAREST.decide(input_of(areas, measured))
    assert areas.holds(tables).all()
    error, error_of_cut = (int(np.abs(some - truth).sum()) for some in (tables, np.maximum(measured, 0)))
    assert error < 0.95 * error_of_cut


def test_constraints_of_nothing_but_fixed_cells() -> None:
    fixed = Constraints(schema_of(2), (), (Interval(3, 3), Interval(0, 0)))
    assert NEAREST.decide(input_of(fixed, np.array([9, 9]))).tolist() == [[3, 0]]


def test_cells_with_all_limits(request: pytest.FixtureRequest) -> None:
    """One sum, every combination of a lower and an upper limit, or none."""
    rng = own_rng(request)
    ends = [Interval(0, None), Interval(0, 1), Interval(None, 2), Interval(None, None), Interval(1, 3)]
    for number, limits in enumerate(itertools.product(ends, repeat=3)):
        measured = whole(rng, -4, 5, 3)
        constraints = replace(Constraints.of(schema_of(3), [total(equals=3)]), limits=limits)
        equals = best_of(tables_of(constraints, [(-9, 12)] * 3), measured)
        data = input_of(constraints, measured, seed_of(number))
        words = TieWords(data.seed, (None,), 3).of([0])[0]
        assert NEAREST.decide(data)[0].tolist() == with_least_words(equals, words).tolist()
