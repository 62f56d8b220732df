"""How good the draws of Markov chains are, quantity by quantity."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats
from congenial.errors import import_extra

_FEW_DRAWS = 100
_LARGE_RHAT = 1.05


@dataclass(frozen=True)
class Quality:
    """How good the draws of one number are.

    Attributes
    ----------
    effective_draws : float
        How many independent draws they are worth; infinite where nothing was drawn, NaN where the chains never moved.
    split_rhat : float
        Near 1 where the chains agree.
    monte_carlo_error : float
        One standard deviation of the mean's own error; NaN where draws that are all alike do not tell it.
    word : str
        In place of figures: what was not drawn, or draws that are all alike.
    """

    effective_draws: float
    split_rhat: float
    monte_carlo_error: float
    word: str = ""

    @property
    def is_poor(self) -> bool:
        """Whether the interval should not be relied on."""
        return bool(are_poor(self.effective_draws, self.split_rhat))

    @property
    def text(self) -> str:
        """It in words."""
        if self.word or not isfinite(self.effective_draws):
            return self.word or "the chains never moved"
        return f"{self.effective_draws:,.0f} effective draws, R-hat {self.split_rhat:.3f}"


ALIKE = "draws alike"
EXACTLY = Quality(inf, 1.0, 0.0, "exact")
"""Of a number that the published ones determine."""

ENUMERATED = Quality(inf, 1.0, 0.0, "all tables gone through")
"""Of a number whose posterior probabilities are exact, while the number itself is not known."""


def are_poor(effective: float | Floats, rhat: float | Floats) -> np.bool_ | NDArray[np.bool_]:
    """Whether draws are too few in effect, or chains disagree: the one rule for tables, areas, trees and models.

    Examples
    --------
    >>> are_poor(np.array([99.0, 400.0, 400.0, np.nan]), np.array([1.0, 1.06, 1.05, 1.0])).tolist()
    [True, True, False, True]
    """
    return ~((np.asarray(effective) >= _FEW_DRAWS) & (np.asarray(rhat) <= _LARGE_RHAT))


def quality_of(values: Floats, n_moves: int = 0) -> Quality:
    """Return how good the draws (chain, draw) of one number are; where it does not exist, its median counts.

    Parameters
    ----------
    n_moves : int
        How often the tables changed from draw to draw. A number that stayed the same all the while, such as a median,
        is taken to be worth about as many draws. That does not make it exact: other values are rare, not excluded.
    """
    there = np.isfinite(values)
    if not there.any():
        return Quality(float("nan"), float("nan"), float("nan"))
    if there.all() and not np.ptp(values) and n_moves >= _FEW_DRAWS:
        return Quality(float(n_moves), 1.0, nan, ALIKE)
    known = np.where(there, values, np.median(values[there]))[:, :, None]
    draws, rhat = float(effective_draws(known)[0]), float(split_rhat(known)[0])
    return Quality(draws, rhat, float(known.std()) / sqrt(draws) if draws > 0 else float("nan"))


def effective_draws(chains: Floats) -> Floats:
    """Return the effective number of independent draws of each quantity of chains (chain, draw, quantity).

    NaN where the chains never moved: nothing is known of such a quantity.
    """
    array_stats = import_extra("arviz_stats.base", "analysis").array_stats  # half a second to import

    return _of_each(array_stats.ess, chains)


def split_rhat(chains: Floats) -> Floats:
    """Return split R-hat of each quantity of chains (chain, draw, quantity): near 1 when they agree, NaN if stuck."""
    array_stats = import_extra("arviz_stats.base", "analysis").array_stats

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
