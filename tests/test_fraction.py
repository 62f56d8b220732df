"""Exact numbers: what counts as one, and the way out when something does not."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from congenial.errors import FractionError
from congenial.exact import exact_fraction, positive_fraction


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1/2", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        (" 2 ", Fraction(2)),
        (3, Fraction(3)),
        ("1e-10", Fraction(1, 10**10)),
        (".5", Fraction(1, 2)),
    ],
)
def test_exact_forms(written: object, value: Fraction) -> None:
    assert exact_fraction(written, "epsilon") == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.1, 'write "0.1" or "1/10"'),
        (1e-7, 'write "1e-07" or "1/10000000"'),
        (2.0, 'write "2.0" or "2"'),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (True, "boolean"),
        ("1/0", "a number such as"),
        ("1e-9999", "a number such as"),
        ("half", "'half'"),
        ("", "''"),
        ("9" * 300, r"\.\.\."),
        (None, "NoneType"),
        ([1], "list"),
    ],
)
def test_refused_with_the_way_out(value: object, words: str) -> None:
    with pytest.raises(FractionError, match=words):
        exact_fraction(value, "epsilon")


def test_positive_means_above_zero() -> None:
    with pytest.raises(FractionError, match="above 0, not 0"):
        positive_fraction("0", "epsilon")
    with pytest.raises(FractionError, match="above 0, not -1/3"):
        positive_fraction("-1/3", "epsilon")


@given(st.text(max_size=30))
def test_any_text_is_a_number_or_a_clear_error(text: str) -> None:
    try:
        Fraction(text)
    except (ValueError, ZeroDivisionError):
        with pytest.raises(FractionError, match="epsilon"):
            exact_fraction(text, "epsilon")
