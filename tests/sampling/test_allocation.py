"""Children of a cell given their sum: tables within their bounds, every decision as in balls, the right law."""

from fractions import Fraction
from itertools import pairwise, product

import flint
import numpy as np
import pytest

from agreement import ALPHA, N_DRAWS, own_rng, p_value
from chain_audit import compositions
from congenial.arrays import Ints
from congenial.noise import DiscreteGaussian, DiscreteNoise, DoubleGeometric
from congenial.proven_decisions import Uniform
from congenial.randomness import KeyedWords, RandomStream, replay_rng
from congenial.sampling.allocation_to_children import sampler as module
from congenial.sampling.allocation_to_children.exact_fallback import ExactAllocation, TiltedCount
from congenial.sampling.allocation_to_children.kernels import (
    FIRST,
    IS_CUT,
    SIZE,
    TOLERANCE,
    empty_laws,
    key_of,
    mode_of,
    slot_of,
    tilt_of,
)
from congenial.sampling.allocation_to_children.sampler import Allocation, Families
from congenial.sampling.allocation_to_children.tilts_and_normaliser import Normaliser, level_noise
from drawn import drawn

NOISES: list[DiscreteNoise] = [
    DiscreteGaussian("1/3"),
    DiscreteGaussian("40"),
    DiscreteGaussian("1/2000"),
    DoubleGeometric("1/2"),
    DoubleGeometric("6"),
    DoubleGeometric("1/20"),
]


def keyed(rng: RandomStream, n: int) -> KeyedWords:
    return KeyedWords(rng.words(4).tobytes(), rng.words(2 * n).reshape(n, 2))


def listed(
    noise: DiscreteNoise, counts: list[int], wanted: int
) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Every outcome with its exact weight, in fractions."""
    outcomes = np.array(list(compositions(wanted, len(counts))))
    weights = []
    for line in outcomes.tolist():
        one = Fraction(1)
        for value, count in zip(line, counts, strict=True):
            one *= noise.weight.at(value - count)
        weights.append(one)
    whole = sum(weights, Fraction(0))
    return outcomes, np.array([float(weight / whole) for weight in weights])


def tilts_to_try(noise: DiscreteNoise) -> list[int]:
    made = level_noise(noise)
    if made.is_squared:
        n, far = made.tilts.size, made.reach
        return [0, n - 1, n // 2 + 3 * n, -2 * n, -(far // 2) * n, -(far + 9) * n + n // 3]
    return [0, made.middle, made.tilts.size - 1, made.middle - 7, made.tilts.size - 6]


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_tables_are_within_their_tolerance_of_balls(noise: DiscreteNoise) -> None:
    """Entries of cdf and height, with tables that end at zero, are cut, or stand for all larger counts."""
    made = level_noise(noise)
    tables = empty_laws(made)
    for count, tilt in product(
        [0, 7, made.cap - 1, made.cap + 1000][:: 1 if made.is_squared else 3], tilts_to_try(noise)
    ):
        slot = slot_of(made, tables, key_of(made, count, tilt))
        shift, part = divmod(tilt, made.tilts.size) if made.is_squared else (0, tilt)
        law = TiltedCount(noise, count, shift, Fraction(float(made.tilts[part])))
        assert law.mode == mode_of(made, count, tilt)
        first, low, high = law.cdf(128)
        tolerance = Fraction(float(tables.figures[slot, TOLERANCE]))
        assert tolerance < Fraction(1, 10**9)
        start = law.mode + int(tables.marks[slot, FIRST])
        for place in range(0, int(tables.marks[slot, SIZE]), max(1, int(tables.marks[slot, SIZE]) // 16)):
            k = start + place - first + 1
            assert 0 < k < len(low)
            found = Fraction(float(tables.cdf[slot, place])) * 2**128
            assert low[k] - tolerance * 2**128 <= found <= high[k] + tolerance * 2**128
            with flint.ctx.workprec(128):
                gap = abs(law.height(start + place - law.mode) - float(tables.height[slot, place]))
                assert gap < float(tolerance)
        assert bool(tables.marks[slot, IS_CUT]) == (start > 0)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_slow_path_gives_the_same_draws(noise: DiscreteNoise) -> None:
    rng = replay_rng(f"slow {noise}")
    sizes = np.array([0, 1, 2, 3, 9, 2, 5])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    spread = np.array([[2, 12, 400]])
    counts = rng.below(np.repeat(spread, starts[-1], axis=0))
    sums = np.array([counts[a:b].sum(axis=0) for a, b in pairwise(starts)])
    sums[sizes > 1] = np.maximum(sums[sizes > 1] + rng.below(np.full((5, 3), 9)) - 4, 0)
    zero_mask = np.zeros(counts.shape, np.bool_)
    zero_mask[4, 0] = zero_mask[6:8, 1] = True
    families, words = Families(starts, zero_mask), keyed(rng, len(sizes))
    quick = Allocation(noise).draw(families, counts, sums, words)
    assert not quick[zero_mask].any()
    assert np.array_equal(quick, Allocation(noise, always_refined=True).draw(families, counts, sums, words))
    assert np.array_equal(quick, Allocation(noise, band=0.02).draw(families, counts, sums, words))


def test_a_word_that_does_not_decide_is_followed_by_others() -> None:
    """A word just at a boundary: the next one that belongs to it decides, and it is looked at twice alike."""
    noise = DiscreteGaussian(1)
    law = TiltedCount(noise, 2, 0, Fraction(float(level_noise(noise).tilts[0])))
    _, low, high = law.cdf(128)
    boundary = low[3] >> 64
    assert boundary == high[3] >> 64
    assert law.draw(Uniform(boundary, iter([2**64 - 1]))) == law.draw(Uniform(boundary, iter([0]))) + 1


@pytest.mark.statistical
@pytest.mark.parametrize("noise", [DiscreteGaussian("1/3"), DoubleGeometric("1/2")], ids=str)
@pytest.mark.parametrize(("counts", "wanted"), [([3, 0, 1], 6), ([0, 0, 0, 0], 3), ([5, 1, 2], 2)])
def test_draws_have_the_law(
    noise: DiscreteNoise, counts: list[int], wanted: int, request: pytest.FixtureRequest
) -> None:
    """Sums above and below what the children have; the mutant is `test_an_untilted_acceptance_is_rejected`."""
    outcomes, expected = listed(noise, counts, wanted)
    families = Families(np.arange(N_DRAWS + 1) * len(counts))
    words = keyed(own_rng(request), N_DRAWS)
    table = np.tile(np.array(counts)[:, None], (N_DRAWS, 1))
    drawn = Allocation(noise).draw(families, table, np.full((N_DRAWS, 1), wanted), words).reshape(N_DRAWS, -1)
    known = {tuple(line): number for number, line in enumerate(outcomes.tolist())}
    assert p_value(np.array([known[tuple(line)] for line in drawn.tolist()]), expected) > ALPHA


@pytest.mark.statistical
def test_an_untilted_acceptance_is_rejected(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Defect: the last child accepted with its own weight, while the others were drawn tilted."""
    noise, counts, wanted = DiscreteGaussian("1/3"), [1, 2, 0], 8
    made = level_noise(noise)
    distinct = np.array(counts)
    tilt = int(tilt_of(made, empty_laws(made), distinct, np.ones(3, np.int64), 3, 3, wanted))
    assert tilt != 0
    outcomes, expected = listed(noise, counts, wanted)
    known = {tuple(line): number for number, line in enumerate(outcomes.tolist())}
    n_draws = drawn(20_000)  # in Python; the mutant is far away
    words = own_rng(request).words(40 * n_draws).tolist()

    def draws() -> Ints:
        exact, at, found = ExactAllocation(noise), 0, []
        for _ in range(n_draws):
            drawn, at = exact.draw(counts, wanted, tilt, at, lambda index: Uniform(words[index], iter([])))
            found.append(known[tuple(drawn)])
        return np.array(found)

    assert p_value(draws(), expected) > ALPHA

    def untilted(law: TiltedCount, value: int, uniform: Uniform) -> bool:
        height = float(noise.weight.at(value - law.count))
        return uniform.value < height * 2**64

    monkeypatch.setattr(TiltedCount, "accepts", untilted)
    assert p_value(draws(), expected) < ALPHA


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_normalisers_are_those_of_all_outcomes(noise: DiscreteNoise) -> None:
    for counts, wanted in [([3, 0, 1], 6), ([0, 0, 0, 0], 3), ([5], 7), ([4, 4], 0), ([2, 2, 9], 5)]:
        outcomes, _ = listed(noise, counts, wanted)
        logs = noise.log_weight(outcomes - np.array(counts)).sum(axis=1)
        truth = logs.max() + np.log(np.exp(logs - logs.max()).sum())
        assert np.isclose(Normaliser(noise).log(np.array(counts), wanted), truth, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("noise", [DiscreteGaussian("1/4"), DiscreteGaussian("3"), DoubleGeometric("1")], ids=str)
def test_long_families_and_large_counts(noise: DiscreteNoise) -> None:
    """Finer tilts for more children: without them the means of 20,000 would miss the sum by many deviations."""
    rng = replay_rng("long")
    counts = rng.below(np.full((20_000, 2), 4)) * np.array([1, 10**6])
    sums = counts.sum(axis=0)[None] + np.array([[150, -40]])
    words = keyed(rng, 1)
    drawn = Allocation(noise).draw(Families(np.array([0, 20_000])), counts, sums, words)
    assert drawn.sum(axis=0).tolist() == sums[0].tolist()
    assert abs(drawn - counts)[:, 1].max() < 30


@pytest.mark.parametrize("noise", [DiscreteGaussian("100"), DoubleGeometric("5"), DoubleGeometric("1/30")], ids=str)
def test_sums_far_from_what_children_have(noise: DiscreteNoise) -> None:
    """Far above and far below: a tilt that did not follow would hardly ever be accepted."""
    for counts, wanted in [([10, 10], 700), ([1000, 1000], 100), ([0] * 50, 2000), ([5] * 20, 1), ([10**12] * 2, 7)]:
        words, families = keyed(replay_rng("far"), 1), Families(np.array([0, len(counts)]))
        if noise.exponent == 2 or wanted != 7:
            drawn = Allocation(noise).draw(families, np.array(counts)[:, None], np.array([[wanted]]), words)
            assert int(drawn.sum()) == wanted


def test_families_longer_than_a_stretch_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """However words are cut into stretches, the draw is the same, by the slow path too."""
    rng = replay_rng("stretch")
    counts = rng.below(np.full((300, 1), 3))
    words, families, sums = keyed(rng, 1), Families(np.array([0, 300])), counts.sum(axis=0)[None] + 20
    sampler = Allocation(DiscreteGaussian("1/2"))
    whole = sampler.draw(families, counts, sums, words)
    monkeypatch.setattr(module, "_MOST_WORDS", 700)
    assert np.array_equal(sampler.draw(families, counts, sums, words), whole)
    slow = Allocation(DiscreteGaussian("1/2"), always_refined=True)
    assert np.array_equal(slow.draw(families, counts, sums, words), whole)
