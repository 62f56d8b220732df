"""Rejection sampling (GM section 2.3): propose, keep what obeys the conditions. Right by construction, rarely fast."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import SamplingError
from congenial.randomness import RandomStream
from congenial.sampling.draws import Draws
from congenial.sampling.target import Measured, Target

_BATCH = 100_000


class Proposal(Protocol):
    """Any law that can be drawn from and dominates the target: ``weight(t) <= exp(log_bound) * q(t)`` on S*."""

    log_bound: float

    def draw(self, n: int, rng: RandomStream) -> Ints:
        """Return proposed tables (draw, cell)."""
        ...

    def log_density(self, tables: Ints) -> Floats:
        """Return the log probability of each proposed table, up to the constant that `log_bound` accounts for."""
        ...


@dataclass(frozen=True)
class Unconstrained:
    """The unconstrained mechanism itself: every cell's own noise around the centre.

    Cells that are not measured by themselves are uniform over their limits. Queries over several cells enter through
    the acceptance, where their weight is at most 1.
    """

    target: Target
    log_bound: float = 0.0

    def _own(self) -> dict[int, Measured]:
        return {query.cell: query for query in self.target.measured if query.cell is not None}

    def draw(self, n: int, rng: RandomStream) -> Ints:
        """Return the centre plus noise."""
        own, bounds = self._own(), self.target.constraints.cell_bounds
        out = np.empty((n, len(self.target.centre)), np.int64)
        for cell, value in enumerate(self.target.centre.tolist()):
            low, high = bounds.lower[cell], bounds.upper[cell]
            if cell in own:
                out[:, cell] = value + own[cell].noise.sample(n, rng)
            elif low is not None and high is not None:
                out[:, cell] = low + rng.below(np.full(n, high - low + 1))
            else:
                name = self.target.constraints.schema.cell_name(cell)
                raise SamplingError(
                    f"cell {name} is neither measured nor limited, so it has no proposal; give it bounds(lower, upper)"
                )
        return out

    def log_density(self, tables: Ints) -> Floats:
        """Return the summed log weights of the cells' own noise."""
        out = np.zeros(len(tables))
        for cell, query in self._own().items():
            out += query.noise.log_weight(tables[:, cell] - self.target.centre[cell])
        return out


def sample(
    target: Target,
    n_draws: int,
    rng: RandomStream,
    *,
    proposal: Proposal | None = None,
    most_proposals: int = 20_000_000,
) -> Draws:
    """Return independent draws of the target.

    Parameters
    ----------
    proposal : Proposal, optional
        The unconstrained mechanism when not given.
    most_proposals : int
        Gives up after so many, with an error.

    Notes
    -----
    Accepts with probability ``weight(t) / (exp(log_bound) q(t))``, compared in floats: for reference and study.
    """
    if not target.is_discrete:
        raise SamplingError(
            "continuous noise meets an equality with probability 0, so rejection never ends;"
            " use the independence sampler"
        )
    if n_draws < 1:
        raise SamplingError(f"n_draws is a whole number from 1 on, not {n_draws!r}")
    source = proposal or Unconstrained(target)
    kept: list[Ints] = []
    n_kept = n_proposed = 0
    while n_kept < n_draws:
        if n_proposed >= most_proposals:
            raise SamplingError(
                f"rejection did not finish within {most_proposals:,} proposals; raise most_proposals, or use"
                " a sampler that respects the invariants by construction"
            )
        proposed = source.draw(_BATCH, rng)
        proposed_ok = proposed[target.constraints.holds(proposed)]
        log_ratio = target.log_weight(proposed_ok) - source.log_density(proposed_ok) - source.log_bound
        if log_ratio.size and log_ratio.max() > 1e-9:
            raise SamplingError("the proposal does not dominate the law: raise its log_bound")
        accepted = proposed_ok[np.log(rng.uniforms(len(proposed_ok))) <= log_ratio]
        kept.append(accepted)
        n_kept += len(accepted)
        n_proposed += _BATCH
    return Draws(np.concatenate(kept)[:n_draws], n_kept / n_proposed, is_independent=True)
