"""Exact choice: looking at few bits first must change nothing but the path; the law is exact where floats are not."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.noise.inversion import exact_bernoulli, exact_choice, weights_cdf
from congenial.randomness import replay_rng


@given(st.lists(st.integers(0, 10**30), min_size=1, max_size=12).filter(any), st.integers(1, 63))
def test_few_bits_first_give_the_same_outcomes(weights: list[int], first_bits: int) -> None:
    whole = exact_choice(weights_cdf(weights), 50, replay_rng("bits"))
    short = exact_choice(weights_cdf(weights), 50, replay_rng("bits"), first_bits=first_bits)
    assert np.array_equal(whole, short)
    assert all(weights[outcome] > 0 for outcome in whole)


@pytest.mark.statistical
def test_outcomes_have_their_weights(request: pytest.FixtureRequest) -> None:
    weights = [1, 0, 5, 2, 7]
    outcomes = exact_choice(weights_cdf(weights), N_DRAWS, own_rng(request), first_bits=3)
    assert p_value(outcomes, np.array(weights) / 15) > ALPHA
    assert p_value(outcomes, np.array([1, 0, 6, 2, 6]) / 15) < ALPHA


def test_a_point_between_two_words_is_decided_by_further_bits() -> None:
    """A probability that agrees with the first word in all 64 bits: only the second word can tell."""
    stream = replay_rng("tie")
    first, second = (int(word) for word in replay_rng("tie").words(8193)[[0, 1]])
    word_after_refill = int(replay_rng("tie").words(2)[1])
    assert second == word_after_refill
    for offset in (-1, 1):
        probability = Fraction((first << 64) + second + offset, 1 << 128)

        def bounds(bits: int, probability: Fraction = probability) -> tuple[int, int]:
            scaled = probability * 2**bits
            return scaled.numerator // scaled.denominator, -(-scaled.numerator // scaled.denominator)

        happened = exact_bernoulli(bounds, 1, replay_rng("tie"))[0]
        assert bool(happened) == (offset > 0)
    assert stream.is_replay
