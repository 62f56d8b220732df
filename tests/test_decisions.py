"""Decisions: looking at few bits first must change nothing but the path; the law is exact where floats are not."""

from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from congenial.errors import SamplingError
from congenial.exact import ball, ends
from congenial.proven_decisions import (
    Uniform,
    choose_by_cdf,
    choose_weighted,
    exact_bernoulli,
    exact_choice,
    is_below,
    refine_until_proven,
    weights_cdf,
)
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


def enclosed(value: Fraction, width: int) -> flint.arb:
    """Return a ball around a number that is as wide as the working precision allows, or wider."""
    return ball(value) + flint.arb(0, 2.0**-width)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=8).filter(any), st.integers(0, 2**64 - 1), st.booleans())
def test_weights_in_balls_choose_what_the_cdf_does(weights: list[int], word: int, is_wide: bool) -> None:
    """Wide enclosures at first, and weights that are left out, take more words and change no outcome."""
    further = replay_rng("choose").words(40).tolist()
    expected = choose_by_cdf(Uniform(word, iter(further)), weights_cdf(weights))
    uniform = Uniform(word, iter(further))

    def decide(precision: int) -> int:
        width = precision // 8 if is_wide else precision
        missing = Fraction(1, 2**width) if is_wide else Fraction(0)
        return choose_weighted(uniform, ((k, enclosed(Fraction(w), width)) for k, w in enumerate(weights)), missing)

    assert refine_until_proven(decide) == expected


@pytest.mark.parametrize("offset", [-1, 0, 1])
def test_an_acceptance_next_to_a_word_is_decided_by_the_next_one(offset: int) -> None:
    """A probability one part in 2^128 beside the first two words of U, or at them and below U."""
    first, second = 2**63 + 12345, 98765
    probability = Fraction((first << 64) + second + offset, 1 << 128)
    uniform = Uniform(first, iter([second, 7, 7]))
    assert refine_until_proven(lambda bits: is_below(uniform, *ends(enclosed(probability, bits)))) == (offset > 0)
    assert uniform.n_bits >= 128


def test_no_outcome_is_an_error() -> None:
    with pytest.raises(SamplingError, match="a key without any table"):
        choose_weighted(Uniform(0, iter([])), [], Fraction(0))
