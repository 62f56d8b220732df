"""How good the draws of Markov chains are, quantity by quantity."""

from collections.abc import Callable

import numpy as np

from congenial.arrays import Floats


def effective_draws(chains: Floats) -> Floats:
    """Return the effective number of independent draws of each quantity of chains (chain, draw, quantity).

    NaN where the chains never moved: nothing is known of such a quantity.
    """
    from arviz_stats.base import array_stats  # half a second to import

    return _of_each(array_stats.ess, chains)


def split_rhat(chains: Floats) -> Floats:
    """Return split R-hat of each quantity of chains (chain, draw, quantity): near 1 when they agree, NaN if stuck."""
    from arviz_stats.base import array_stats

    return _of_each(array_stats.rhat, chains)


def _of_each(measure: Callable[[Floats], float], chains: Floats) -> Floats:
    n_chains, n_draws, n_quantities = chains.shape
    if n_chains == 1:  # its two halves
        chains = chains[:, : n_draws - n_draws % 2].reshape(2, -1, n_quantities)
    out = np.full(n_quantities, np.nan)
    for quantity in range(n_quantities):
        values = chains[:, :, quantity]
        if np.ptp(values):
            out[quantity] = float(measure(values))
    return out
