"""Sums of products against NumPy's, wherever the windows lie."""

from random import Random

import numpy as np
import pytest

from congenial.arrays import Floats
from congenial.sampling.elimination.kernels_convolve import sum_products
from congenial.sampling.jit import interpreted, kernel
from congenial.sampling.kernel_scaled_floats import LANES, WORK


@kernel
def _set_sums(x: Floats, weights: Floats, shift: int, is_cut: bool, room: Floats, out: Floats) -> None:
    sum_products(x, weights, shift, is_cut, room, out)


def expected(x: Floats, weights: Floats, shift: int, n: int) -> Floats:
    full = np.convolve(x, weights)
    return np.array([full[k + shift] if 0 <= k + shift < full.size else 0.0 for k in range(n)])


@pytest.mark.parametrize("is_cut", [False, True])
def test_sums_are_those_of_a_convolution(is_cut: bool, request: pytest.FixtureRequest) -> None:
    random = Random(request.node.name)
    for _ in range(300):
        n_x, n_weights, n = (random.choice([1, 2, 5, 15, 16, 17, 33, 70]) for _ in range(3))
        x, weights = (np.array([random.random() for _ in range(size)]) for size in (n_x, n_weights))
        shift = random.randint(-n - 40, n_x + n_weights + 40)
        room = np.full(WORK * max(LANES, n_x, n_weights, n), np.nan)  # what was there before is in nobody's way
        for run in (_set_sums, interpreted(_set_sums)):
            out = np.full(n + 2, -1.0)
            run(x, weights, shift, is_cut, room, out[1:-1])
            np.testing.assert_allclose(out[1:-1], expected(x, weights, shift, n), rtol=1e-13, atol=0)
            assert out[0] == out[-1] == -1.0  # nothing is written outside
