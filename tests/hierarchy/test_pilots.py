"""Attempts at made-up families: which are tried, and what is refused and said."""

import numpy as np
import pytest

from congenial.errors import SamplingError
from congenial.noise import DiscreteGaussian
from congenial.randomness import replay_rng
from congenial.sampling.allocation_to_children.sampler import Families
from congenial.tree.drawing import ALONE, SHAPES, _typical, check_feasibility, made_up_family, shifted_sums


def test_made_up_families_have_their_sums() -> None:
    sums = np.array([0, 3, 500, 12])
    for shape in (*SHAPES, ALONE):
        children = made_up_family(sums, 5, shape, replay_rng(shape))
        assert np.array_equal(children.sum(axis=1), sums)
        assert children.min() >= 0
    for columns in ([0, 0, 9], [5, 1, 1], [100, 200, 3]):
        shifted = shifted_sums(np.array(columns), 4.0, replay_rng("moved"))
        assert shifted.sum() == sum(columns)
        assert shifted.min() >= 0


def test_wide_families_of_few_people_are_tried() -> None:
    """Defect: a family of many children with two people each, which hardly any attempt fits, was not tried."""
    sizes = [70, *[2] * 10, 60]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    sums = np.concatenate([np.full(70, 1000), np.full(20, 5), np.full(60, 2)])
    assert 11 in _typical(Families(starts), sums)
    with pytest.raises(SamplingError, match="out of reach at block"):
        check_feasibility(DiscreteGaussian("1/4"), 2.0, Families(np.array([0, 36])), 36, np.full(36, 2), "block")
    with pytest.raises(SamplingError, match="put a level of groups between them"):
        check_feasibility(DiscreteGaussian(1), 2.0, Families(np.array([0, 5000])), 16, np.full(5000, 2), "block")


def test_what_pilots_say() -> None:
    text = check_feasibility(DiscreteGaussian("1/4"), 2.0, Families(np.array([0, 3, 6])), 4, np.arange(10, 16), "tract")
    assert text.startswith("tract: share of attempts accepted at made-up families")
    assert "where everybody of a unit is in one cell" in text
