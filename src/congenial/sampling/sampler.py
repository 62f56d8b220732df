"""What a sampler is: made from public structure alone, it draws from the conditional law of any table with it."""

from typing import Protocol

from congenial.arrays import Floats, Ints
from congenial.randomness import RandomStream, Streams


class Drawer(Protocol):
    """A sampler at one table: what many draws share is made once. Confidential, because its centre is."""

    def sample(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return independent draws (draw, cell)."""
        ...

    @property
    def log_normaliser(self) -> float:
        """``log c(s)``, the log of the summed unnormalised weights."""
        ...


class Sampler(Protocol):
    """Draws for every table of one public structure. Public: it has seen no table.

    A table is given by its centre. Equalities hold at the values that the centre has; limits of cells and of ranges
    are the structure's.
    """

    @property
    def name(self) -> str:
        """One word for it."""
        ...

    @property
    def title(self) -> str:
        """What a manifest says of it."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether its draws have the law exactly, and fit into memory and work."""
        ...

    def check(self) -> None:
        """Raise with the reason and the way out unless `is_exact`."""
        ...

    @property
    def seconds(self) -> float:
        """About how long the draw of one table takes on one core."""
        ...

    @property
    def is_steady(self) -> bool:
        """Whether the time of a draw is known from the structure alone; else a rehearsal says more."""
        ...

    def describe(self) -> str:
        """Return its size, for people."""
        ...

    def rehearse(self, points: Ints) -> str:
        """Say what trials at tables made from public ones (table, cell) promise, in a sentence or none.

        Raises `SamplingError` where tables with these sums are out of reach.
        """
        ...

    def draw_each(self, centres: Ints, rng: Streams, *, n_threads: int = 1) -> Ints:
        """Return one draw for each of many tables (table, cell); the same whatever the number of threads."""
        ...

    def at(self, centre: Ints) -> Drawer:
        """Return the sampler at one table."""
        ...

    def log_normalisers(self, centres: Ints, rng: RandomStream) -> Floats:
        """Return for each of many tables (table, cell) ``log c(s)``, or minus the log of an estimate of ``1 / c(s)``.

        Estimates are positive, unbiased and independent: a chain that keeps them with its tables has the exact law.
        """
        ...
