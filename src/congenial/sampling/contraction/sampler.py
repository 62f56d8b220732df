"""Contraction as a sampler: one engine for all tables of a structure."""

from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import ClassVar

from congenial.arrays import Floats, Ints
from congenial.errors import TooLargeError
from congenial.randomness import RandomStream, Streams
from congenial.sampling.contraction.layout import Engine
from congenial.sampling.contraction.messages import Messages, log_normalisers, sample_batch, sample_one
from congenial.sampling.contraction.reach import MOST_OPEN, check_reach, least_open, too_wide
from congenial.sampling.system import System

# From 0.5 to 6 times what eight systems took, from P12 to 2 x 10^8 operations.
_SECONDS_A_DRAW, _SECONDS_AN_OPERATION = 2e-5, 3e-9


@dataclass(eq=False)
class ContractionAt:
    """The messages of one table, built when more than one draw or the normaliser is asked for. Confidential."""

    engine: Engine = field(repr=False)
    centre: Ints = field(repr=False)
    built: Messages | None = field(default=None, init=False, repr=False)

    @property
    def messages(self) -> Messages:
        """The forward pass, made once."""
        if self.built is None:
            self.built = Messages.of(self.engine, self.centre)
        return self.built

    def sample(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return independent draws (draw, cell)."""
        # Forward pass and draw in one call of the kernels take a quarter less on P12.
        if n_draws == 1 and self.built is None:
            return sample_one(self.engine, self.centre, rng)[None, :]
        return self.messages.sample(n_draws, rng)

    @property
    def log_normaliser(self) -> float:
        """``log c(s)``."""
        return self.messages.log_normaliser


@dataclass(frozen=True, eq=False)
class Contraction:
    """Messages over partial sums, forward; a table, backward (docs/claims/exact-sampling.md)."""

    system: System
    why_no_other: str = ""
    """Why another sampler does not step in where the messages do not fit."""

    name: ClassVar[str] = "contraction"
    title: ClassVar[str] = "independent draw by contraction over partial sums"
    is_steady: ClassVar[bool] = True

    @classmethod
    def of(cls, system: System) -> "Contraction":
        """Return the sampler of a system; it is ordered when first asked for, and structures seen before are not."""
        return cls(system)

    @cached_property
    def engine(self) -> Engine:
        """What all tables of the system share."""
        return Engine.of(self.system)

    @cached_property
    def _n_open(self) -> int:
        return least_open(self.system)

    @property
    def is_exact(self) -> bool:
        """Whether the messages fit into memory and work."""
        return self._n_open < MOST_OPEN and self.engine.order.is_exact

    def check(self) -> None:
        """Raise with the numbers and the alternative when the messages do not fit."""
        try:
            check_reach(self.system)
            self.engine.order.check()
        except TooLargeError as refused:
            if not self.why_no_other:
                raise
            raise TooLargeError(f"{refused}. Nor is it one for rejection: {self.why_no_other}") from None

    @property
    def seconds(self) -> float:
        """About how long the draw of one table takes on one core."""
        if self._n_open >= MOST_OPEN:
            return inf
        return _SECONDS_A_DRAW + _SECONDS_AN_OPERATION * self.engine.order.n_operations

    def describe(self) -> str:
        """Return the number of groups, the width and the number of states."""
        return too_wide(self._n_open) if self._n_open >= MOST_OPEN else str(self.engine.order)

    def rehearse(self, points: Ints) -> str:
        """Promise nothing that the structure does not say already."""
        del points
        self.check()
        return ""

    def draw_each(self, centres: Ints, rng: Streams, *, n_threads: int = 1) -> Ints:
        """Return one draw for each of many tables (table, cell)."""
        if len(centres) == 1:
            return sample_one(self.engine, centres[0], rng)[None, :]
        return sample_batch(self.engine, centres, rng, n_threads=n_threads)

    def at(self, centre: Ints) -> ContractionAt:
        """Return the sampler at one table."""
        self.check()
        return ContractionAt(self.engine, centre)

    def log_normalisers(self, centres: Ints, rng: RandomStream) -> Floats:
        """Return ``log c(s)`` for each of many tables (table, cell); repeated tables are computed once."""
        del rng
        return log_normalisers(self.engine, centres)
