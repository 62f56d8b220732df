"""Areas compiled together are what each would be by itself, and so are their cells' limits."""

import numpy as np
import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

import congenial as cg
from congenial.arrays import Ints
from congenial.conditions import areas_and_bounds as many_bounds
from congenial.conditions import areas_and_bounds as module
from congenial.conditions.areas_and_bounds import NONE, Area, AreaBounds, AreaGroup, Areas, pattern_of, quick_bounds
from congenial.conditions.base import Condition
from congenial.conditions.constraints import CellBounds, Constraints
from congenial.conditions.rows_and_intervals import Limited
from congenial.errors import BrokenError, ConditionError
from drawn import drawn

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["0", "1", "2"]})

PLAIN: dict[str, list[Condition]] = {
    "nothing": [],
    "total": [cg.total()],
    "margins": [cg.margin("sex"), cg.margin("age"), cg.total()],
    "voting age": [cg.total(), cg.total({"age": ["1", "2"]})],
    "all but one": [cg.margin("sex"), cg.total({"age": ["0", "1"]}), cg.total({"age": "2"})],
    "weights": [cg.linear({("f", "0"): 2, ("m", "1"): -4, ("m", "2"): 6}), cg.total()],
    "structural zeros": [cg.margin("age"), cg.structural_zeros({"sex": "f", "age": "0"})],
    "a sum of zeros": [cg.total(), cg.total({"sex": "f"}), cg.structural_zeros({"sex": "f"})],
    "upper bounds": [cg.total(), cg.bounds(0, 9), cg.bounds(None, 7, where={"age": "1"})],
}
OTHERS: dict[str, list[Condition]] = {
    "share": [cg.total(), cg.share({"sex": "f"})],
    "share of a group": [cg.margin("sex"), cg.share({"age": "0"}, of={"age": ["0", "1"]})],
    "cells": [cg.total(), cg.cells({"age": "0"})],
    "one cell as a total": [cg.total(), cg.total({"sex": "f", "age": "2"})],
    "range": [cg.total(), cg.total({"sex": "f"}, at_most=40)],
    "idle range": [cg.total({"sex": "f"}), cg.total(at_least=0), cg.total({"sex": "f"}, at_most=90)],
    "all cells": [cg.cells()],
}
EVERYTHING = PLAIN | OTHERS

counts = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 7)), min_size=6, max_size=6)
tables = st.lists(counts, min_size=1, max_size=12)


def fitting(name: str, drawn: list[list[int]]) -> dict[str, Ints]:
    """Return tables by area that obey what the conditions state."""
    made = np.array(drawn, np.int64)
    if name == "structural zeros":
        made[:, 0] = 0
    if name == "a sum of zeros":
        made[:, :3] = 0
    return {f"area {number}": table for number, table in enumerate(made)}


def said(constraints: Constraints) -> tuple[tuple[Limited, ...], object, object]:
    return constraints.rows, constraints.lower, constraints.upper


@pytest.mark.parametrize("name", EVERYTHING)
@given(drawn=tables)
@settings(max_examples=12)
def test_areas_together_are_what_each_is_by_itself(name: str, drawn: list[list[int]]) -> None:
    conditions, own = EVERYTHING[name], fitting(name, drawn)
    areas = Areas.disclosed(SCHEMA, conditions, own, name="county")
    assert (areas.name, areas.labels, len(areas)) == ("county", tuple(own), len(own))
    assert list(areas) == list(own)
    alone: dict[Area, Constraints] = {
        label: Constraints.of(SCHEMA, conditions, table.tolist()) for label, table in own.items()
    }
    for label, constraints in alone.items():
        assert said(areas[label]) == said(constraints), label
        assert pattern_of(areas.groups[areas.group_of(label)].pattern) == pattern_of(constraints)
    assert areas == Areas.collected("county", alone)
    assert sorted(place for group in areas.groups for place in group.places.tolist()) == list(range(len(own)))
    event(f"{len(areas.groups)} groups")


@pytest.mark.parametrize("name", EVERYTHING)
@given(drawn=tables, shifts=st.lists(counts, min_size=12, max_size=12), keep=st.integers(0, 2))
@settings(max_examples=12)
def test_holds_is_what_each_area_says(name: str, drawn: list[list[int]], shifts: list[list[int]], keep: int) -> None:
    own = fitting(name, drawn)
    areas = Areas.disclosed(SCHEMA, EVERYTHING[name], own, name="county")
    assert areas.holds(np.array(list(own.values()))).all()
    asked = np.array(list(own.values()))
    for number in range(len(asked)):
        if number % 3 >= keep:  # one record passes, or anything changes
            asked[number] += np.array([1, -1, 0, 0, 0, 0]) if number % 2 else np.array(shifts[number]) - 2
    expected = [bool(areas[label].holds(table)) for label, table in zip(areas, asked, strict=True)]
    assert areas.holds(asked).tolist() == expected


def test_plain_conditions_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    compile_once = Constraints.of.__func__  # type: ignore[attr-defined]

    def counted(cls: type[Constraints], *given: object) -> Constraints:
        calls.append(1)
        made: Constraints = compile_once(cls, *given)
        return made

    monkeypatch.setattr(Constraints, "of", classmethod(counted))
    for name, conditions in EVERYTHING.items():
        calls.clear()
        own = fitting(name, [[1, 2, 3, 4, 5, n] for n in range(7)])
        Areas.disclosed(SCHEMA, conditions, own, name="county")
        assert len(calls) == (1 if name in PLAIN else 7), name


STATED: dict[str, tuple[list[Condition], list[int], list[int], str]] = {
    "value": ([cg.total(equals=21)], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7731], "total"),
    "margin": (
        [cg.total(), cg.margin("sex", equals=[6, 9])],
        [1, 2, 3, 4, 5, 0],
        [3, 2, 1, 4, 5, 7731],
        "margin of sex",
    ),
    "idle value": (
        [cg.margin("sex"), cg.total(equals=21)],  # follows from no other rows of the pattern but the margins
        [1, 2, 3, 4, 5, 6],
        [1, 2, 3, 4, 5, 7731],
        "total",
    ),
    "upper bound": (
        [cg.total(), cg.bounds(0, 9)],
        [1, 2, 3, 4, 5, 6],
        [1, 2, 3, 4, 5, 7731],
        "at least 0 and at most 9",
    ),
    "structural zero": (
        [cg.total(), cg.structural_zeros({"sex": "m", "age": "2"})],
        [1, 2, 3, 4, 5, 0],
        [1, 2, 3, 4, 5, 7731],
        "sex=m, age=2",
    ),
    "range": ([cg.total({"sex": "m"}, at_most=40)], [1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7731], "sex=m"),
}


@pytest.mark.parametrize("name", STATED)
@pytest.mark.parametrize("place", [0, 1, 4])
def test_a_table_that_breaks_a_stated_condition_is_refused_without_its_count(name: str, place: int) -> None:
    conditions, right, wrong, words = STATED[name]
    fine = {f"{n}": right for n in range(5)}
    assert len(Areas.disclosed(SCHEMA, conditions, fine, name="county")) == 5
    with pytest.raises(BrokenError) as caught:
        Areas.disclosed(SCHEMA, conditions, fine | {f"{place}": wrong}, name="county")
    assert words in str(caught.value)
    assert "77" not in str(caught.value).replace(",", "")
    assert str(BrokenError(caught.value.condition)) == str(caught.value)  # nothing else depends on the table


def test_a_check_that_forgets_stated_values_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: the pattern takes each table's own sums, so that a stated value is never compared."""
    monkeypatch.setattr(module, "_obeys_stated", lambda _, __, counts: np.ones(len(counts), bool))
    conditions, right, wrong, _ = STATED["value"]
    Areas.disclosed(SCHEMA, conditions, {"a": right, "b": wrong}, name="county")
    with pytest.raises(pytest.fail.Exception):
        test_a_table_that_breaks_a_stated_condition_is_refused_without_its_count("value", 1)


def test_bad_input() -> None:
    own = Constraints.of(SCHEMA, [])
    wrong: list[tuple[str | None, dict[Area, Constraints]]] = [
        (None, {"a": own}),
        ("county", {None: own}),
        (None, {}),
        (None, {None: own, "a": own}),
    ]
    for name, given_areas in wrong:
        with pytest.raises(ConditionError, match="several areas need a name"):
            Areas.collected(name, given_areas)
    with pytest.raises(ConditionError, match="there are no areas"):
        Areas.disclosed(SCHEMA, [], {}, name="county")
    with pytest.raises(ConditionError, match="label of an area is text, and 7 is not"):
        Areas.disclosed(SCHEMA, [], {7: [1] * 6}, name="county")  # type: ignore[dict-item]
    with pytest.raises(KeyError):
        Areas.one(own)["a"]
    assert Areas.one(own)[None] is own


# ---- limits of cells for many tables at once ----


def expected_bounds(areas: Areas) -> tuple[list[list[int]], list[list[int]]]:
    """Return the limits that each area has by itself; `NONE` where there is none or 64 bits do not hold it."""

    def shown(bounds: tuple[int | None, ...], missing: int) -> list[int]:
        return [missing if end is None or abs(end) >= NONE else end for end in bounds]

    alone: list[CellBounds] = [constraints.quick_bounds for constraints in areas.values()]
    return [shown(one.lower, -NONE) for one in alone], [shown(one.upper, NONE) for one in alone]


def assert_same_bounds(areas: Areas) -> None:
    low, high = expected_bounds(areas)
    for group in areas.groups:
        found = quick_bounds(group)
        for number, place in enumerate(group.places.tolist()):
            assert found.low[number].tolist() == low[place]
            assert found.high[number].tolist() == high[place]
            pinned = [cell for cell, (a, b) in enumerate(zip(low[place], high[place], strict=True)) if a == b]
            assert np.flatnonzero(found.pinned[number]).tolist() == pinned
            widths = found.widest(np.array([number])).tolist()
            ends = zip(low[place], high[place], strict=True)
            assert widths == [NONE if a == -NONE or b == NONE else b - a for a, b in ends]


@st.composite
def open_systems(draw: st.DrawFn, largest: int = 9) -> Areas:
    """Return areas of a random system: negative coefficients, cells without limits on either side, ranges."""
    n, n_areas = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    schema = cg.Schema({"cell": [f"c{i}" for i in range(n)]})
    size = st.one_of(st.integers(0, 4), st.integers(0, largest))
    made = draw(st.lists(st.lists(size, min_size=n, max_size=n), min_size=n_areas, max_size=n_areas))
    most = [max(column) for column in zip(*made, strict=True)]
    conditions: list[Condition] = []
    for cell in range(n):
        low = draw(st.sampled_from([0, 0, None]))
        high = draw(st.sampled_from([None, most[cell], most[cell] + 3]))
        conditions.append(cg.bounds(low, high, where={"cell": f"c{cell}"}))
    for _ in range(draw(st.integers(0, 3))):
        weights = draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n).filter(lambda w: sum(map(bool, w)) > 1))
        named = {f"c{i}": w for i, w in enumerate(weights) if w}
        values = [sum(w * x for w, x in zip(weights, table, strict=True)) for table in made]
        kind = draw(st.sampled_from(["equal", "equal", "least", "most", "both"]))
        if max(map(abs, values)) > 2**59:  # beyond 2^60 no limit can be stated
            kind = "equal"
        if kind == "equal":
            conditions.append(cg.linear(named))
            continue
        low, high = min(values) - draw(st.integers(0, 2)), max(values) + draw(st.integers(0, 2))
        conditions.append(
            cg.linear(named, at_least=None if kind == "most" else low, at_most=None if kind == "least" else high)
        )
    own = {f"area {number}": table for number, table in enumerate(made)}
    return Areas.disclosed(schema, conditions, own, name="county")


@given(areas=open_systems())
@settings(max_examples=drawn(24))
def test_limits_of_many_tables_are_those_of_each(areas: Areas) -> None:
    assert_same_bounds(areas)


@given(areas=open_systems(largest=2**60 - 10))
@settings(max_examples=drawn(24))
def test_limits_of_huge_tables_are_those_of_each(areas: Areas) -> None:
    assert_same_bounds(areas)


HUGE = cg.Schema({"cell": ["a", "b", "c"]})


@pytest.mark.parametrize("size", [2**40, 2**58, 2**60 - 5])
def test_numbers_that_64_bits_might_not_hold_are_taken_one_by_one(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    one_by_one = many_bounds._one_by_one

    def counted(group: AreaGroup) -> AreaBounds:
        calls.append(1)
        return one_by_one(group)

    monkeypatch.setattr(many_bounds, "_one_by_one", counted)
    conditions: list[Condition] = [cg.linear({"a": 3, "b": -2, "c": 1}), cg.total()]
    own = {"x": [size, 2, size], "y": [1, size, 3]}
    assert_same_bounds(Areas.disclosed(HUGE, conditions, own, name="county"))
    assert len(calls) == (size > 2**50)


def chain(top: int) -> Areas:
    """Return two areas in which each cell is at most 512 times the one before."""
    limits: list[Condition] = [cg.linear({second: 1, first: -512}, at_most=0) for first, second in ("ab", "bc")]
    own = Constraints.of(HUGE, [*limits, cg.bounds(0, top, where={"cell": "a"})])
    return Areas.collected("county", {"x": own, "y": own})


@given(top=st.integers(2**44, 2**47))
@example(top=2**46 - 1)
@settings(max_examples=20)
def test_limits_that_follow_may_be_larger_than_stated_ones(top: int) -> None:
    """The defect: 512 times a limit that followed wrapped around, and an upper limit of -262,144 came out."""
    assert_same_bounds(chain(top))


def test_a_sum_that_wraps_around_would_be_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_bounds, "_fits", lambda *_: True)
    with pytest.raises(AssertionError):
        assert_same_bounds(chain(2**46 - 1))
