"""The conditional law of one confidential table: what a release is drawn from."""

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from congenial.errors import SamplingError
from congenial.randomness import RandomStream, secure_rng
from congenial.sampling.enumerate import EnumeratedLaw, log_of
from congenial.sampling.target import Target


class Law:
    """``P(t | s)`` on S*: confidential, because its centre is.

    Made by `Mechanism.law`.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> law = two_bins()
    >>> law
    Law on Schema(bin: 2; 2 cells), 2 measured queries, centre confidential
    >>> round(law.log_normaliser(), 12)
    0.269859639543
    """

    def __init__(self, target: Target) -> None:
        self.target = target

    @cached_property
    def enumerated(self) -> EnumeratedLaw:
        """All tables with their exact probabilities; refuses more than a million tables."""
        return EnumeratedLaw.of(self.target)

    def sample(self, n_draws: int, rng: RandomStream | None = None) -> NDArray[np.int64]:
        """Return independent exact draws (draw, cell)."""
        if type(n_draws) is not int or n_draws < 1:
            raise SamplingError(f"n_draws is a whole number from 1 on, not {n_draws!r}")
        if rng is not None and not isinstance(rng, RandomStream):
            raise SamplingError(f"rng is replay_rng(seed) or secure_rng(), not a {type(rng).__name__}")
        return self.enumerated.sample(n_draws, rng or secure_rng())

    def log_normaliser(self) -> float:
        """Return ``log c(s)``, the log of the summed unnormalised weights."""
        return self.enumerated.log_normaliser

    def log_probability(self, draws: ArrayLike) -> NDArray[np.float64]:
        """Return the log probability of each draw (draw, cell); minus infinity outside S*."""
        position = self.enumerated.position(draws)
        logs = np.array([log_of(p) for p in self.enumerated.probabilities])
        return np.where(position >= 0, logs[position], -np.inf)

    def __repr__(self) -> str:
        schema = self.target.constraints.schema
        return f"Law on {schema}, {len(self.target.measured)} measured queries, centre confidential"
