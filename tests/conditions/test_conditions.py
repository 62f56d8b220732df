"""What a user says, compiled: names, shares, redundant rows, clashes, implied bounds, disclosed cells."""

from decimal import ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal
from itertools import product

import numpy as np
import pytest

import congenial as cg
from congenial.conditions.base import Condition
from congenial.errors import ClashError, ConditionError, SchemaError

SCHEMA = cg.Schema({"sex": ["f", "m"], "age": ["y", "o", "v"]})
COUNTS = [3, 4, 1, 2, 0, 5]


def of(*conditions: object, counts: list[int] | None = None) -> cg.Constraints:
    return cg.Constraints.of(SCHEMA, conditions, counts)  # type: ignore[arg-type]


def test_invariants_take_the_value_of_the_table() -> None:
    constraints = of(cg.total(), cg.margin("sex"), counts=COUNTS)
    assert [one.text for one in constraints.rows] == ["total is 15", "sex=f is 8"]
    assert constraints.notes == ("«sex=m is 7» follows from «total is 15», «sex=f is 8» and was dropped",)
    assert constraints.rank == 2


def test_a_share_of_a_known_total_is_a_count() -> None:
    constraints = of(cg.total(), cg.share({"sex": "f"}), counts=COUNTS)
    assert [one.text for one in constraints.rows] == ["total is 15", "total of sex=f is 8"]
    margins = of(cg.margin("age"), cg.share({"sex": "f"}), counts=COUNTS)
    assert margins.rows[-1].text == "total of sex=f is 8"


def test_a_share_of_an_unknown_total_is_a_balance() -> None:
    constraints = of(cg.share({"sex": "f"}), counts=COUNTS)
    assert constraints.rows[0].text == "15 x [total of sex=f] - 8 x [total] is 0"
    assert constraints.rows[1].text == "total is at least 1"
    assert constraints.holds([6, 8, 2, 4, 0, 10])
    assert not constraints.holds([0, 0, 0, 0, 0, 0])  # 0/0 is no share


@pytest.mark.parametrize("published", ["67 %", "66.7%", "0.5", "1", "0 %"])
@pytest.mark.parametrize("others", [[], [cg.total()]])
def test_a_rounded_share_is_every_share_that_rounds_to_it(published: str, others: list[Condition]) -> None:
    """Against decimal arithmetic, for tables of two cells, and either way to round a half: 1/2 may have become 1.

    The mutant rounds halves down only, and would refuse what an office may have rounded up.
    """
    digits = published.rstrip("% ")
    step = Decimal(1).scaleb(-len(digits.partition(".")[2]))
    schema, value = cg.Schema({"sex": ["f", "m"]}), cg.share({"sex": "f"}, rounded=published)
    seen = set()
    for women, men in product(range(5), repeat=2):
        exact = 100 * women if "%" in published else women
        rounded = [
            (Decimal(exact) / (women + men)).quantize(step, way) if women + men else None
            for way in (ROUND_HALF_DOWN, ROUND_HALF_UP)
        ]
        is_so = Decimal(digits) in rounded
        seen.add(is_so)
        try:
            own = cg.Constraints.of(schema, [*others, value], [women, men])
            assert own.holds([women, men])
            assert is_so
        except cg.errors.ConditionError:
            assert not is_so, (women, men)
    assert seen == {True, False}


def test_a_rounded_share_of_a_known_total_is_a_range_of_counts() -> None:
    constraints = of(cg.total(), cg.share({"sex": "f"}, rounded="53 %"), counts=COUNTS)
    assert [one.text for one in constraints.rows] == ["total is 15", "total of sex=f is 8"]
    wide = of(cg.total(), cg.share({"sex": "f"}, rounded="0.5"), counts=COUNTS)
    assert wide.rows[1].text == "total of sex=f is between 7 and 8"
    assert not wide.also_exact
    free = of(cg.share({"sex": "f"}, rounded="0.5"), counts=COUNTS)
    assert [one.text for one in free.rows] == [
        "20 x [total of sex=f] - 9 x [total] is at least 0",
        "20 x [total of sex=f] - 11 x [total] is at most 0",
        "total is at least 1",
    ]


def test_a_share_of_nobody_discloses_that_there_is_nobody() -> None:
    constraints = of(cg.share({"sex": "f"}, of={"age": "y"}), counts=[0, 1, 2, 0, 3, 4])
    assert constraints.disclosed_cells == {"sex=f, age=y": 0, "sex=m, age=y": 0}


@pytest.mark.parametrize(
    ("conditions", "counts", "too"),
    [
        ([cg.total(), cg.share({"sex": "f"})], COUNTS, ["total of sex=f is 8"]),
        ([cg.margin("age"), cg.share({"sex": "f"})], COUNTS, ["total of sex=f is 8", "total is 15"]),
        ([cg.total({"sex": "f"}), cg.share({"sex": "f"})], COUNTS, ["total is 15"]),  # 8 women, 8/15 of all
        ([cg.share({"sex": "f"})], COUNTS, []),
        ([cg.total(), cg.margin("sex"), cg.share({"sex": "f"})], COUNTS, []),  # both are stated themselves
        ([cg.share({"sex": "f"}, of={"age": "y"})], [0, 1, 2, 0, 3, 4], ["total of age=y is 0"]),
        (
            [cg.share({"sex": "f"}), cg.share({"age": "y"}), cg.total({"sex": "m"})],
            COUNTS,
            ["total of sex=f is 8", "total is 15", "total of age=y is 5"],
        ),
    ],
)
def test_what_becomes_exact_along_with_a_share_is_told(
    conditions: list[Condition], counts: list[int], too: list[str]
) -> None:
    constraints = of(*conditions, counts=counts)
    assert [one.text for one in constraints.also_exact] == too
    for text in too:
        assert any(note.startswith(f"«{text}» is exact too") for note in constraints.notes)


def test_bounds_intersect_and_lift_the_default() -> None:
    constraints = of(cg.bounds(None, 5), cg.bounds(-2, 9, where={"sex": "f"}))
    assert constraints.lower == (-2, -2, -2, None, None, None)
    assert constraints.upper == (5,) * 6
    assert of(cg.total(equals=3)).lower == (0,) * 6


def test_single_cell_rows_are_bounds() -> None:
    constraints = of(cg.linear({("f", "y"): -2}, at_least=-7), cg.cells({"age": "o"}), counts=COUNTS)
    assert constraints.upper[0] == 3
    assert (constraints.lower[1], constraints.upper[1]) == (4, 4)
    assert constraints.rank == 2


def test_invariants_that_pin_a_cell_are_told() -> None:
    """The row total is in the only cell that is not a structural zero: it discloses that cell."""
    zeros = [cg.structural_zeros({"sex": "f", "age": ["o", "v"]})]
    constraints = cg.Constraints.of(SCHEMA, [cg.margin("sex"), *zeros], [7, 0, 0, 2, 0, 5])
    assert constraints.disclosed_cells["sex=f, age=y"] == 7
    assert constraints.cell_bounds.pinned == (0, 1, 2)
    assert constraints.cell_bounds.upper[3] == 7


def test_crossing_margins_imply_bounds_by_hand() -> None:
    """Frechet bounds of a 2 x 3 table with margins (8, 7) and (5, 4, 6)."""
    constraints = of(cg.margin("sex"), cg.margin("age"), counts=COUNTS)
    assert constraints.cell_bounds.lower == (0, 0, 0, 0, 0, 0)
    assert constraints.cell_bounds.upper == (5, 4, 6, 5, 4, 6)
    tight = of(cg.margin("sex", equals=[9, 1]), cg.margin("age", equals=[5, 4, 1]))
    assert tight.cell_bounds.lower == (4, 3, 0, 0, 0, 0)
    assert tight.cell_bounds.upper == (5, 4, 1, 1, 1, 1)
    assert all(tight.cell_bounds.is_tight)


def test_integer_bounds_are_tighter_than_linear_ones() -> None:
    """2a + 4b + 6c = 10 with a <= 2 and odd a impossible: a is 1, not anything from 0 to 2."""
    schema = cg.Schema({"x": ["a", "b", "c"]})
    constraints = cg.Constraints.of(schema, [cg.linear({"a": 2, "b": 4, "c": 8}, equals=10), cg.bounds(0, 2)])
    assert (constraints.cell_bounds.lower[0], constraints.cell_bounds.upper[0]) == (1, 1)


def test_unlimited_cells_have_no_bounds() -> None:
    constraints = of(cg.total(equals=4), cg.bounds(None))
    assert set(constraints.cell_bounds.lower) == set(constraints.cell_bounds.upper) == {None}


@pytest.mark.parametrize(
    ("conditions", "clash"),
    [
        ([cg.total(equals=10), cg.margin("sex", equals=[7, 4])], {"total is 10", "sex=f is 7", "sex=m is 4"}),
        ([cg.total(equals=3), cg.total(equals=4), cg.margin("sex")], None),
        (
            [cg.total(equals=9), cg.total({"age": "y"}, at_least=10), cg.bounds(0, 50)],
            {"total is 9", "total of age=y is at least 10", "every cell is at least 0 and at most 50"},
        ),
        ([cg.total(equals=9), cg.bounds(2)], {"total is 9", "every cell is at least 2"}),
        (
            [cg.bounds(1, where={"sex": "f"}), cg.structural_zeros({"age": "y"})],
            {"every cell with sex=f is at least 1", "every cell with age=y is a structural zero"},
        ),
        ([cg.linear({("f", "y"): 2, ("m", "y"): 4}, equals=7)], {"2 x [sex=f, age=y] +4 x [sex=m, age=y] is 7"}),
        ([cg.total(equals=-1)], {"total is -1", "counts are not negative"}),
        (
            [cg.share({"sex": "f"}, equals="1/3"), cg.total(equals=10)],
            {"total is 10", "3 x [total of sex=f] - 1 x [total] is 0"},
        ),
    ],
)
def test_clashes_are_irreducible_and_in_words(conditions: list[object], clash: set[str] | None) -> None:
    if clash is None:
        with pytest.raises(ConditionError, match="needs its value here"):
            of(*conditions)
        return
    with pytest.raises(ClashError) as caught:
        of(*conditions)
    assert set(caught.value.clash) == clash
    for text in clash:
        assert text in str(caught.value)


def test_idle_inequalities_are_dropped_with_a_note() -> None:
    constraints = of(cg.total(equals=10), cg.total({"age": "y"}, at_most=10), cg.total({"age": "o"}, at_most=9))
    assert [one.text for one in constraints.rows] == ["total is 10", "total of age=o is at most 9"]
    assert constraints.notes == ("«total of age=y is at most 10» follows from the other conditions and was dropped",)


def test_violations_are_in_words() -> None:
    constraints = of(cg.total(equals=15), cg.total({"sex": "f"}, at_least=5, at_most=9), cg.bounds(0, 6))
    assert constraints.violations(COUNTS) == []
    assert constraints.violations([9, 0, 0, 2, -1, 4]) == [
        "total is 14, and must be 15",
        "cell sex=f, age=y is 9, and must be between 0 and 6",
        "cell sex=m, age=o is -1, and must be between 0 and 6",
    ]
    assert constraints.holds(np.array([COUNTS, [9, 0, 0, 2, -1, 4]])).tolist() == [True, False]  # type: ignore[union-attr]
    assert constraints.holds(np.array(COUNTS).reshape(2, 3)) is True


def test_draws_of_the_wrong_kind_are_refused() -> None:
    constraints = of(cg.total(equals=15))
    with pytest.raises(ConditionError, match="whole numbers"):
        constraints.holds(np.ones(6))
    with pytest.raises(ConditionError, match=r"\(draw, 6\)"):
        constraints.holds([1, 2])
    with pytest.raises(ConditionError, match="one table"):
        constraints.violations([COUNTS, COUNTS])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (cg.margin, "at least one dimension"),
        (lambda: cg.margin("sex", "sex"), "twice"),
        (lambda: of(cg.margin("sec", equals=[1, 2])), "did you mean 'sex'"),
        (lambda: of(cg.margin("sex", equals=[1])), "1 values, 2 are needed"),
        (lambda: of(cg.margin("sex", where={"sex": "f"}, equals=[1, 2])), "leave its own dimensions out"),
        (lambda: of(cg.total({"age": "x"}, equals=1)), "not a label of dimension 'age'"),
        (lambda: cg.total(equals=3, at_most=4), "not both"),
        (lambda: cg.total(at_least=5, at_most=4), "swap"),
        (lambda: cg.total(at_least=1.5), "whole number"),  # type: ignore[arg-type]
        (lambda: of(cg.total(equals=True)), "whole number"),
        (lambda: cg.bounds(3, 2), "swap"),
        (lambda: cg.bounds("0"), "whole number"),  # type: ignore[arg-type]
        (lambda: cg.share({"sex": "f"}, equals="3/2"), "between 0 and 1"),
        (lambda: cg.share({"sex": "f"}, rounded="101 %"), "between 0 and 1"),
        (lambda: cg.share({"sex": "f"}, rounded="5/6"), "as it was published"),
        (lambda: cg.share({"sex": "f"}, rounded="83 %", equals="5/6"), "not both"),
        (lambda: of(cg.share({"sex": "f"}, of={"sex": "m"}, equals="1/2")), "picks no cell of its whole"),
        (lambda: of(cg.linear({("f", "y"): 0.5}, equals=1)), "common denominator"),
        (lambda: of(cg.linear({("f", "y"): 0}, equals=1)), "every coefficient is 0"),
        (lambda: of(cg.linear({("f", "y"): 2**40}, equals=1)), "beyond 2\\^31"),
        (lambda: of(cg.linear([1, 2], equals=1)), "shape"),
        (lambda: of(cg.linear({("f",): 1}, equals=1)), "2 labels"),
        (lambda: of(cg.cells(precision="1")), "move it to measure"),
        (lambda: of("total"), "not a str"),
        (lambda: cg.cells(precision="-1"), "not be negative"),
    ],
)
def test_badly_formed_conditions_are_named(make: object, words: str) -> None:
    with pytest.raises((ConditionError, SchemaError), match=words):
        make()  # type: ignore[operator]


def test_a_linear_query_from_an_array() -> None:
    constraints = of(cg.linear([[1, 0, 0], [0, 0, -1]], equals=-2), cg.bounds(0, 9))
    assert constraints.rows[0].row.coefficients == (1, -1)
