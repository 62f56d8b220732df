"""How good the draws of Markov chains are, quantity by quantity."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, sqrt

import numpy as np

from congenial.arrays import Floats

_FEW_DRAWS = 100
_LARGE_RHAT = 1.05


@dataclass(frozen=True)
class Quality:
    """How good the draws of one number are.

    Attributes
    ----------
    effective_draws : float
        How many independent draws they are worth; infinite for exact numbers, NaN where the chains never moved.
    split_rhat : float
        Near 1 where the chains agree.
    monte_carlo_error : float
        One standard deviation of the mean's own error.
    """

    effective_draws: float
    split_rhat: float
    monte_carlo_error: float

    @property
    def is_poor(self) -> bool:
        """Whether the interval should not be relied on."""
        return not (self.effective_draws >= _FEW_DRAWS and self.split_rhat <= _LARGE_RHAT)

    @property
    def text(self) -> str:
        """It in words."""
        if not isfinite(self.effective_draws):
            return "exact" if self.effective_draws == inf else "the chains never moved"
        return f"{self.effective_draws:,.0f} effective draws, R-hat {self.split_rhat:.3f}"


EXACTLY = Quality(inf, 1.0, 0.0)
"""Of a number that was not drawn."""


def quality_of(values: Floats, n_moves: int = 0) -> Quality:
    """Return how good the draws (chain, draw) of one number are; where it does not exist, its median counts.

    Parameters
    ----------
    n_moves : int
        How often the tables changed from draw to draw. A number that stayed the same all the while, such as a median,
        is worth about as many draws.
    """
    there = np.isfinite(values)
    if not there.any():
        return Quality(float("nan"), float("nan"), float("nan"))
    if there.all() and not np.ptp(values) and n_moves >= _FEW_DRAWS:
        return Quality(float(n_moves), 1.0, 0.0)
    known = np.where(there, values, np.median(values[there]))[:, :, None]
    draws, rhat = float(effective_draws(known)[0]), float(split_rhat(known)[0])
    return Quality(draws, rhat, float(known.std()) / sqrt(draws) if draws > 0 else float("nan"))


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
