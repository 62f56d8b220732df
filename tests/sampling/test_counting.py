"""Numbers of tables: known to the last digit, or with an error that is stated."""

from itertools import product
from math import log

import numpy as np
import pytest

import congenial as cg
from congenial.errors import TooLargeError
from congenial.sampling.counting import EstimatedCount, count_two_way


def both_margins(lines: list[int], columns: list[int]) -> cg.Constraints:
    labels = {"line": [str(i) for i in range(len(lines))], "column": [str(j) for j in range(len(columns))]}
    return cg.Constraints.of(cg.Schema(labels), [cg.margin("line", equals=lines), cg.margin("column", equals=columns)])


def brute(lines: list[int], columns: list[int]) -> int:
    """Fill line by line, all ways."""
    found = {tuple(columns): 1}
    for line in lines:
        after: dict[tuple[int, ...], int] = {}
        for left, ways in found.items():
            for taken in product(*(range(v + 1) for v in left)):
                if sum(taken) == line:
                    rest = tuple(a - b for a, b in zip(left, taken, strict=True))
                    after[rest] = after.get(rest, 0) + ways
        found = after
    return found.get((0,) * len(columns), 0)


def test_small_tables_are_counted_as_by_hand() -> None:
    rng = np.random.default_rng(5)
    for _ in range(40):
        shape = rng.integers(1, 5, 2)
        table = rng.integers(0, 4, shape)
        lines, columns = table.sum(axis=1).tolist(), table.sum(axis=0).tolist()
        assert count_two_way(lines, columns) == brute(lines, columns)


def test_empty_lines_cost_nothing() -> None:
    assert count_two_way([0] * 28 + [2, 2], [1] * 4) == 6
    assert count_two_way([1] * 20, [5] * 4) is None


def test_eyes_and_hair() -> None:
    """592 students: Diaconis and Gangolli's number, which took hours in 1995."""
    assert both_margins([220, 215, 93, 64], [108, 286, 71, 127]).count() == 1225914276768514


def test_large_squares_follow_their_polynomial() -> None:
    """3 x 3 with all sums r: (r+1)(r+2)(r^2+3r+4)/8, at sums where lists end."""
    for r in (200, 1000):
        assert both_margins([r] * 3, [r] * 3).count() == (r + 1) * (r + 2) * (r * r + 3 * r + 4) // 8


def test_more_than_four_lines_are_estimated() -> None:
    """5 x 5 with all sums 3: 153,040 tables (the sequence A003438)."""
    constraints = both_margins([3] * 5, [3] * 5)
    found = constraints.estimated_count(20_000)
    assert abs(found.log - log(153_040)) < 5 * found.error < 0.1


def test_an_estimate_agrees_with_a_number_known_to_the_last_digit() -> None:
    constraints = both_margins([220, 215, 93, 64], [108, 286, 71, 127])
    found = constraints.estimated_count(20_000)
    assert abs(found.log - log(1225914276768514)) < 5 * found.error < 0.2
    assert "e+15 tables, give or take" in str(found)


def test_what_takes_too_long_is_refused_from_the_plan() -> None:
    with pytest.raises(TooLargeError, match=r"additions of whole numbers.*estimated_count"):
        both_margins([60] * 5, [60] * 5).count()
    with pytest.raises(TooLargeError, match=r"sums are open at once"):
        both_margins([60] * 12, [60] * 12).count()


def test_limits_and_other_shapes_go_the_other_way() -> None:
    """A limit that can be met, or a missing cell, is no plain two-way table. 55 have sums 3; 24 of them have a 3."""
    schema = cg.Schema({"line": ["0", "1", "2"], "column": ["0", "1", "2"]})
    lines = [cg.margin("line", equals=[3, 3, 3]), cg.margin("column", equals=[3, 3, 3])]
    assert cg.Constraints.of(schema, lines).count() == 55
    assert cg.Constraints.of(schema, [*lines, cg.bounds(0, 1)]).count() == 1
    assert cg.Constraints.of(schema, [*lines, cg.bounds(0, 2)]).count() == 55 - 24
    zero = cg.structural_zeros({"line": "0", "column": "0"})
    ways = [(a, b, c) for a, b, c in product(range(4), repeat=3) if a + b <= 3 and b + 3 - c <= 3 and c <= a + b]
    assert cg.Constraints.of(schema, [*lines, zero]).count() == len(ways), "cells (1, 0), (1, 1) and (0, 2)"


def test_words_of_an_estimate() -> None:
    assert str(EstimatedCount(log(1234), 0.004)) == "about 1,234 tables, give or take 0.4 %"
    assert EstimatedCount(800.0, 0.1).value == float("inf")
