"""The algebra of intervals against sets of integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from congenial.conditions.rows_and_intervals import EMPTY, FREE, POINT_ZERO, Interval, total_interval

NUMBERS = range(-60, 61)
ENDS = st.none() | st.integers(-8, 8)
INTERVALS = st.builds(Interval, ENDS, ENDS)


def members(interval: Interval) -> set[int]:
    """The integers near zero that an interval has, by its two ends alone."""
    low = NUMBERS[0] if interval.low is None else interval.low
    high = NUMBERS[-1] if interval.high is None else interval.high
    return set(range(low, high + 1))


@given(INTERVALS, INTERVALS)
def test_intersections_and_sums(first: Interval, second: Interval) -> None:
    assert members(first & second) == members(first) & members(second)
    if not first.is_empty and not second.is_empty:
        near = {a + b for a in members(first) for b in members(second)}
        assert {n for n in members(first + second) if abs(n) < 40} == {n for n in near if abs(n) < 40}
        assert first + second == total_interval([second, first])


@given(INTERVALS, st.integers(-9, 9))
def test_single_intervals(one: Interval, by: int) -> None:
    assert {n for n in NUMBERS if n in one} == members(one)
    assert one.is_empty == (not members(one))
    assert one.is_point == (len(members(one)) == 1)
    assert one.is_free == (one == FREE)
    assert members(one.shifted(by)) & set(range(-50, 51)) == {n + by for n in members(one)} & set(range(-50, 51))
    assert members(one.negated) == {-n for n in members(one)}
    assert one.times(by) == (POINT_ZERO if by == 0 else one.times(-by).negated)
    if by:
        assert all(n * by in one.times(by) for n in members(one))
        kept = {n for n in range(-6, 7) if n * by in one}
        assert {n for n in members(one.divided(by)) if abs(n) <= 6} == kept
    if not one.is_empty and None not in (one.low, one.high):
        assert one.width == len(members(one)) - 1


@given(INTERVALS, st.integers(-9, 9), st.integers(0, 5))
def test_ends_move_inward_to_the_values_a_step_apart(one: Interval, value: int, step: int) -> None:
    reached = {value} if step == 0 else {n for n in NUMBERS if (n - value) % step == 0}
    moved = one.on_steps(value, step)
    assert members(moved) & reached == members(one) & reached
    if moved.is_empty or step == 0:
        assert moved.is_empty == (not members(one) & reached)
    else:
        assert all(end is None or (end - value) % step == 0 for end in (moved.low, moved.high))


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(1200, 1200), "is 1,200"),
        (Interval(0, None), "is at least 0"),
        (Interval(None, -4), "is at most -4"),
        (Interval(2, 5), "is between 2 and 5"),
        (FREE, "is free"),
    ],
)
def test_words(interval: Interval, words: str) -> None:
    assert interval.text == words
    assert EMPTY.is_empty
