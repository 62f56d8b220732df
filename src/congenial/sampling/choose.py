"""Which sampler draws a system: the first that fits, chosen from public structure."""

from collections.abc import Callable

from congenial.errors import SamplingError
from congenial.sampling.contraction.sampler import Contraction
from congenial.sampling.look_ahead.sampler import LookAhead
from congenial.sampling.sampler import Sampler
from congenial.sampling.system import System
from congenial.sampling.target import Target

SAMPLERS: dict[str, Callable[[System], Sampler | None]] = {
    "contraction": Contraction.of,
    "look-ahead rejection": LookAhead.of,
}
"""What makes each sampler, in the order in which they are tried; None where one does not apply."""


def sampler_of(target: Target) -> Sampler:
    """Return the sampler of a law, wherever it is centred."""
    if not target.is_discrete:
        raise SamplingError("the exact samplers need noise on the integers; Laplace noise is for study")
    return choose_sampler(System.of(target.constraints, target.measured))


def choose_sampler(system: System) -> Sampler:
    """Return the first sampler that fits a system; the first that applies if none fits, and its `check` says why.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> target = two_bins().target
    >>> sampler = choose_sampler(System.of(target.constraints, target.measured))
    >>> sampler.name, sampler.is_exact
    ('contraction', True)
    """
    best: Sampler | None = None
    for make in SAMPLERS.values():
        sampler = make(system)
        if sampler is not None and sampler.is_exact:
            return sampler
        best = best or sampler
    if best is None:
        raise SamplingError(f"no sampler applies to this system; there are {', '.join(SAMPLERS)}")
    return best
