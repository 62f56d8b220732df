"""Statistical comparison, by the project's conventions.

100,000 independent draws, chi-square with bins pooled to at least 100 expected (fixed from the probabilities), a
disagreement only below 1e-6. Seeds come from the test's own name. Whoever uses this ships a mutant that it rejects.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from congenial.randomness import RandomStream, replay_rng

N_DRAWS = 100_000
ALPHA = 1e-6
LEAST_EXPECTED = 100.0


def own_rng(request: pytest.FixtureRequest) -> RandomStream:
    return replay_rng(request.node.nodeid)


def p_value(outcomes: NDArray[np.integer], probabilities: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the chi-square tail probability of outcome numbers against their law; an impossible outcome gives 0."""
    expected = np.asarray(probabilities, float) * len(outcomes)
    if outcomes.min() < 0 or outcomes.max() >= len(expected):
        return 0.0
    observed = np.bincount(outcomes, minlength=len(expected)).astype(float)
    small = expected < LEAST_EXPECTED
    # The pooled bin itself may stay small: then it joins the smallest of the others.
    expected_bins = [*expected[~small], expected[small].sum()]
    observed_bins = [*observed[~small], observed[small].sum()]
    if expected_bins[-1] < LEAST_EXPECTED:
        last_expected, last_observed = expected_bins.pop(), observed_bins.pop()
        if not expected_bins:
            raise ValueError("too few draws for a chi-square test")
        smallest = int(np.argmin(expected_bins))
        expected_bins[smallest] += last_expected
        observed_bins[smallest] += last_observed
    if len(expected_bins) == 1:
        return 1.0
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed_bins, expected_bins, strict=True))
    return float(chi2.sf(statistic, len(expected_bins) - 1))


def ks_p_value(draws: NDArray[np.float64], cdf: NDArray[np.float64]) -> float:
    """Return the Kolmogorov-Smirnov tail probability of independent draws, given the cdf at each of them."""
    from scipy.stats import kstwo

    ranked = np.sort(cdf)
    n = len(draws)
    steps = np.arange(n + 1) / n
    return float(kstwo.sf(max((steps[1:] - ranked).max(), (ranked - steps[:-1]).max()), n))
