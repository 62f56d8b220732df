"""What a sampler is: made from public structure alone, it draws from the conditional law of any table with it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from congenial.arrays import Floats, Ints
from congenial.errors import SamplingError
from congenial.randomness import RandomStream, Streams
from congenial.sampling.elimination.sampler import EliminationSampler
from congenial.sampling.target_and_system import System, Target
from congenial.sampling.two_way.sampler_and_pilots import TwoWayRejection, why_not


class Drawer(Protocol):
    """A sampler at one table: what many draws share is made once. Confidential, because its centre is."""

    def sample(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return independent draws (draw, cell)."""

    @property
    def log_normaliser(self) -> float:
        """``log c(s)``, the log of the summed unnormalised weights."""


class Sampler(Protocol):
    """Draws for every table of one public structure. Public: it has seen no table.

    A table is given by its centre. Equalities hold at the values that the centre has; limits of cells and of ranges
    are the structure's.
    """

    @property
    def name(self) -> str:
        """One word for it."""

    @property
    def title(self) -> str:
        """What a manifest says of it."""

    @property
    def is_exact(self) -> bool:
        """Whether its draws have the law exactly, and fit into memory and work."""

    def check(self) -> None:
        """Raise with the reason and the way out unless `is_exact`."""

    @property
    def seconds(self) -> float:
        """About how long the draw of one table takes on one core."""

    @property
    def has_predictable_time(self) -> bool:
        """Whether the time of a draw is known from the structure alone; else a dry run says more."""

    def describe(self) -> str:
        """Return its size, for people."""

    def dry_run(self, points: Ints) -> str:
        """Say what trials at tables made from public ones (table, cell) promise, in a sentence or none.

        Raises `SamplingError` where tables with these sums are out of reach.
        """

    def draw_each(self, centres: Ints, rng: Streams, *, n_threads: int = 1) -> Ints:
        """Return one draw for each of many tables (table, cell); the same whatever the number of threads."""

    def at(self, centre: Ints) -> Drawer:
        """Return the sampler at one table."""

    def log_normalisers(self, centres: Ints, rng: RandomStream) -> Floats:
        """Return for each of many tables (table, cell) ``log c(s)``, or minus the log of an estimate of ``1 / c(s)``.

        Estimates are positive, unbiased and independent: a chain that keeps them with its tables has the exact law.
        """


# Which sampler draws a system: the first that fits, chosen from public structure.


def _contraction(system: System) -> EliminationSampler | None:
    """Return contraction, but not for dense grids: ordering them takes seconds to minutes, and most do not fit."""
    grid = TwoWayRejection.of(system)
    return None if grid is not None and grid.is_dense else EliminationSampler.of(system)


def _rejection(system: System) -> TwoWayRejection | None:
    """Return rejection, but not where no sums cross: there contraction has width 1, and it takes wider numbers."""
    sampler = TwoWayRejection.of(system)
    return sampler if sampler is not None and sampler.crosses else None


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

    The first that applies if none fits; its `check` says why. Elimination comes first: its time hardly depends on the
    table, and its sums are known.

    Examples
    --------
    >>> from congenial.examples import two_bins
    >>> target = two_bins().target
    >>> sampler = choose_sampler(System.of(target.constraints, target.measured))
    >>> sampler.name, sampler.is_exact
    ('contraction', True)
    """
    samplers: list[Sampler] = []
    for make in SAMPLERS.values():
        sampler = make(system)
        if sampler is not None and sampler.is_exact and sampler.seconds < _QUICK:
            return sampler
        samplers += [] if sampler is None else [sampler]
    if not samplers:
        raise SamplingError(f"no sampler applies to this system; there are {', '.join(SAMPLERS)}")
    best = min(samplers, key=lambda sampler: (not sampler.is_exact, sampler.seconds if sampler.is_exact else 0.0))
    if isinstance(best, EliminationSampler) and not best.is_exact:
        return replace(best, why_no_other=why_not(system) or "")
    return best
