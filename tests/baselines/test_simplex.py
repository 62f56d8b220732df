"""Projection of families onto their sums: against a solver of quadratic programs, in whole numbers, and by lot."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from agreement import ALPHA, N_DRAWS, p_value
from congenial.errors import BaselineError
from congenial.randomness import RandomStream, replay_rng
from congenial.sampling.allocation_to_children.sampler import Families
from congenial.study.baselines.base_and_least_squares import Polytope, least_squares
from congenial.study.baselines.topdown_and_leaves_alone import SimplexFit

Ints = NDArray[np.int64]


def families_of(rng: RandomStream, n_families: int, n_cells: int, *, barred: bool) -> tuple[Families, Ints, Ints]:
    """Return families of up to 12 children with answers between -8 and 30 and sums that need not fit them."""
    sizes = 1 + rng.below(np.full(n_families, 12))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    answers = rng.below(np.full((starts[-1], n_cells), 39)) - 8
    sums = rng.below(np.full((n_families, n_cells), 4)) * rng.below(np.full((n_families, n_cells), 60))
    bars = None
    if barred:
        bars = rng.below(np.full(answers.shape, 3)) == 0
        sums[np.logical_and.reduceat(bars, starts[:-1], axis=0)] = 0
    return Families(starts, bars), answers, sums


def solved(answers: NDArray[np.float64], total: int) -> NDArray[np.float64]:
    """Return the nearest point of the simplex by DAQP, which knows nothing of its shape."""
    n = len(answers)
    ends = np.array([float(total)])
    polytope = Polytope(np.ones((1, n)), ends, ends, np.zeros(n), np.full(n, np.inf))
    return least_squares(polytope, np.eye(n), np.ones(n), answers)


@pytest.mark.parametrize("barred", [False, True])
def test_the_fit_is_that_of_a_solver(barred: bool) -> None:
    families, answers, sums = families_of(replay_rng(f"simplex {barred}"), 120, 4, barred=barred)
    real = SimplexFit.of(families, answers, sums).real
    farthest, n_compared = 0.0, 0
    for family, (first, end) in enumerate(zip(families.starts, families.starts[1:], strict=False)):
        for cell in range(answers.shape[1]):
            bar = np.zeros(end - first, bool) if families.zero_mask is None else families.zero_mask[first:end, cell]
            assert not real[first:end, cell][bar].any()
            if not bar.all():
                own = answers[first:end, cell][~bar].astype(np.float64)
                gap = real[first:end, cell][~bar] - solved(own, int(sums[family, cell]))
                farthest, n_compared = max(farthest, float(np.abs(gap).max())), n_compared + 1
    assert n_compared > 400
    assert farthest < 1e-8


def test_the_fit_is_that_of_a_second_solver() -> None:
    families, answers, sums = families_of(replay_rng("second"), 25, 1, barred=False)
    real = SimplexFit.of(families, answers, sums).real
    for family, (first, end) in enumerate(zip(families.starts, families.starts[1:], strict=False)):
        own, total = answers[first:end, 0].astype(float), float(sums[family, 0])
        found = minimize(
            lambda x, own=own: ((x - own) ** 2).sum() / 2,
            np.full(end - first, total / (end - first)),
            jac=lambda x, own=own: x - own,
            bounds=[(0, None)] * int(end - first),
            constraints={"type": "eq", "fun": lambda x, total=total: x.sum() - total, "jac": np.ones_like},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        np.testing.assert_allclose(real[first:end, 0], found.x, atol=1e-6)


@pytest.mark.parametrize("barred", [False, True])
def test_rounding_keeps_sums_and_stays_next_to_the_fit(barred: bool) -> None:
    families, answers, sums = families_of(replay_rng(f"rounding {barred}"), 2_000, 5, barred=barred)
    fit = SimplexFit.of(families, answers, sums)
    whole = fit.rounded(replay_rng("lots"))
    assert whole.dtype == np.int64
    assert whole.min() >= 0
    np.testing.assert_array_equal(np.add.reduceat(whole, families.starts[:-1], axis=0), sums)
    assert np.abs(whole - fit.real).max() < 1
    if families.zero_mask is not None:
        assert not whole[families.zero_mask].any()


def test_ties_are_broken_by_lot() -> None:
    """Two of three equal children are rounded up: each pair as often as the others. In the order of children, never."""
    n = N_DRAWS
    families = Families(np.arange(0, 3 * n + 1, 3))
    fit = SimplexFit.of(families, np.full((3 * n, 1), 7), np.full((n, 1), 2))
    np.testing.assert_allclose(fit.real, 2 / 3)
    empty = fit.rounded(replay_rng("ties")).reshape(n, 3).argmin(axis=1)
    assert p_value(empty, np.full(3, 1 / 3)) > ALPHA
    assert p_value(np.where(np.arange(n) < n // 50, 2, empty), np.full(3, 1 / 3)) < ALPHA


def test_what_cannot_be_shared_out_is_refused() -> None:
    families = Families(np.array([0, 2]))
    with pytest.raises(BaselineError, match="negative"):
        SimplexFit.of(families, np.array([[1], [2]]), np.array([[-1]]))
    with pytest.raises(BaselineError, match="barred"):
        SimplexFit.of(Families(families.starts, np.ones((2, 1), bool)), np.array([[1], [2]]), np.array([[1]]))
    with pytest.raises(BaselineError, match="whole"):
        SimplexFit.of(families, np.array([[1.5], [2.0]]), np.array([[1]]))
