"""Which sampler draws a system: the first that fits, chosen from public structure."""

from collections.abc import Callable
from dataclasses import replace

from congenial.errors import SamplingError
from congenial.sampling.contraction.sampler import Contraction
from congenial.sampling.look_ahead.sampler import LookAhead, why_not
from congenial.sampling.sampler import Sampler
from congenial.sampling.system import System
from congenial.sampling.target import Target


def _contraction(system: System) -> Contraction | None:
    """Return contraction, but not for dense grids: ordering them takes seconds to minutes, and most do not fit."""
    grid = LookAhead.of(system)
    return None if grid is not None and grid.is_dense else Contraction.of(system)


def _rejection(system: System) -> LookAhead | None:
    """Return rejection, but not where no sums cross: there contraction has width 1, and it takes wider numbers."""
    found = LookAhead.of(system)
    return found if found is not None and found.crosses else None


SAMPLERS: dict[str, Callable[[System], Sampler | None]] = {
    "contraction": _contraction,
    "look-ahead rejection": _rejection,
}
"""What makes each sampler, in the order in which they are tried; None where one does not apply."""

_QUICK = 0.05  # seconds


def sampler_of(target: Target) -> Sampler:
    """Return the sampler of a law, wherever it is centred."""
    if not target.is_discrete:
        raise SamplingError("the exact samplers need noise on the integers; Laplace noise is for study")
    return choose_sampler(System.of(target.constraints, target.measured))


def choose_sampler(system: System) -> Sampler:
    """Return the first sampler that fits and is quick, or else the quickest that fits.

    The first that applies if none fits; its `check` says why. Contraction comes first: its time hardly depends on the
    table, and its sums are known.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> target = two_bins().target
    >>> sampler = choose_sampler(System.of(target.constraints, target.measured))
    >>> sampler.name, sampler.is_exact
    ('contraction', True)
    """
    found: list[Sampler] = []
    for make in SAMPLERS.values():
        sampler = make(system)
        if sampler is not None and sampler.is_exact and sampler.seconds < _QUICK:
            return sampler
        found += [] if sampler is None else [sampler]
    if not found:
        raise SamplingError(f"no sampler applies to this system; there are {', '.join(SAMPLERS)}")
    best = min(found, key=lambda sampler: (not sampler.is_exact, sampler.seconds if sampler.is_exact else 0.0))
    if isinstance(best, Contraction) and not best.is_exact:
        return replace(best, why_no_other=why_not(system) or "")
    return best
