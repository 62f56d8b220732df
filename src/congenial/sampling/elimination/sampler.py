"""Variable elimination as a sampler: compiled once for all tables of a structure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, inf, log
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints, distinct_rows
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import SamplingError, TooLargeError
from congenial.memory_and_threads import map_in_threads, parts_of
from congenial.randomness import RandomStream, Streams
from congenial.sampling.elimination.compiled_layout import Elimination, Layout, State, empty_state
from congenial.sampling.elimination.kernels_backward import draw, draw_batch, draw_many
from congenial.sampling.elimination.kernels_forward import build, normalise_batch
from congenial.sampling.elimination.order import MOST_OPEN, check_reach, least_open, too_scaled
from congenial.sampling.jit import Function, interpreted_if_small
from congenial.sampling.kernel_scaled_floats import LANES, STEP, Numbers, ScaledFloats, as_doubles
from congenial.sampling.target_and_system import System, Target

# The exact sampler: independent draws from the conditional law, its normaliser, and exact marginals.
#
# Messages of positive floats carry a proven error band. A draw whose random bits fall inside the band is decided
# again by `ExactDraws` in ball arithmetic, from the same bits: see docs/claims/exact-sampling.md.

_CHUNK = 4096
# Windows and underflow take less than this share of a normaliser by the choice of windows, whatever the table.
_LOG_LOOSEST = -40 * log(2)


@dataclass(frozen=True)
class Messages:
    """The forward pass of one table. Confidential."""

    layout: Layout
    numbers: Numbers

    @classmethod
    def of(cls, elimination: Elimination, centre: Ints) -> "Messages":
        """Build all messages."""
        elimination.order.check()
        messages = cls.built(elimination, centre)
        if not messages.log_missing_share <= _LOG_LOOSEST:
            raise SamplingError("internal: windows took too much of a normaliser; please report this system")
        return messages

    @classmethod
    def built(cls, elimination: Elimination, centre: Ints) -> "Messages":
        """Build all messages, and leave it to the caller to see what windows took."""
        # The merge order knows how much is needed; a table with larger invariants than its own needs a second try.
        state, n_states, length = empty_state(elimination.program), int(elimination.order.n_states), elimination.longest
        while True:
            numbers, *work = elimination.buffers(n_states, length)
            size = _light(elimination, build)(elimination.program, centre, state, numbers, *work)
            longest = int(max(state.prefix_length.max(initial=LANES), state.cell_span.max(initial=LANES)))
            if size < 0 or (size <= n_states and longest <= length):
                return cls(Layout.checked(elimination, centre, state, size), numbers)
            n_states, length = size, longest

    @property
    def log_missing_share(self) -> float:
        """The logarithm of a bound of the share that windows and underflow took of the normaliser."""
        missing = float(self.layout.state.node_missing[-1])
        log_missing = missing if isinstance(self.numbers, ScaledFloats) else log(missing) if missing > 0.0 else -inf
        return log_missing - float(np.log(self.root.sum())) - self._lift * STEP * log(2)

    @property
    def root(self) -> Floats:
        """The last message, in its scale: one entry, or one for each value of a watched row."""
        state = self.layout.state
        entries = slice(int(state.node_offset[-1]), int(state.node_offset[-1]) + int(state.node_size[-1]))
        if isinstance(self.numbers, ScaledFloats):
            last = ScaledFloats(self.numbers.value[entries], self.numbers.power[entries])
            return as_doubles(last, self._lift)
        return self.numbers[entries]

    @property
    def _lift(self) -> int:
        """The power of the largest entry of the last message."""
        if not isinstance(self.numbers, ScaledFloats):
            return 0
        state = self.layout.state
        start, size = int(state.node_offset[-1]), int(state.node_size[-1])
        value, power = self.numbers.value[start : start + size], self.numbers.power[start : start + size]
        return int(power[value > 0].max())

    @property
    def exponent(self) -> int:
        """The power of two that `root` is to be multiplied by."""
        return int(self.layout.state.node_exponent[-1]) + STEP * self._lift

    @property
    def log_normaliser(self) -> float:
        """``log c(s)``."""
        return float(np.log(self.root.sum())) + self.exponent * log(2)

    @property
    def relative_error(self) -> float:
        """A proven bound of the relative error of the normaliser."""
        units = float(self.layout.state.node_units[-1])
        return units * 2.0**-53 * 1.01 + exp(self.log_missing_share)

    def sample(self, n_draws: int, rng: RandomStream, *, always_refined: bool = False) -> Ints:
        """Return independent draws (draw, cell).

        Parameters
        ----------
        always_refined : bool
            Decide every draw by the slow path. The tables are the same; a test relies on it.
        """
        out = np.empty((n_draws, self.layout.centre.size), np.int64)
        for start in range(0, n_draws, _CHUNK):  # words of one chunk stay in the processor's cache
            self._draw_into(out[start : start + _CHUNK], rng, always_refined=always_refined)
        return out

    def _draw_into(self, out: Ints, rng: RandomStream, *, always_refined: bool) -> None:
        elimination, centre = self.layout.elimination, self.layout.centre
        words = rng.words(len(out) * elimination.n_decisions).reshape(len(out), elimination.n_decisions)
        unproven = np.ones(len(out), np.int64)
        if not always_refined:
            drawn = _light(elimination, draw_many, len(out))
            drawn(elimination.program, centre, self.layout.state, self.numbers, words, out, unproven)
        if unproven.any():
            from congenial.sampling.elimination.exact_fallback import ExactDraws

            exact = ExactDraws(elimination, centre)
            for number in np.flatnonzero(unproven):
                out[number] = exact.draw(words[number], rng)


def _light(elimination: Elimination, kernel: Function, times: int = 1) -> Function:
    """Return a kernel for a number of tables: a draw takes as many steps as messages have entries, at most."""
    return (
        kernel if elimination.order.is_scaled else interpreted_if_small(kernel, times * elimination.order.n_operations)
    )


def messages(target: Target, watched: Sequence[Row] = ()) -> Messages:
    """Return the forward pass of a target; the root then holds the distribution of a watched row."""
    return Messages.of(elimination_of(target, watched), target.centre)


def elimination_of(target: Target, watched: Sequence[Row] = ()) -> Elimination:
    """Return the elimination for a target's public structure."""
    if not target.is_discrete:
        raise SamplingError("the exact sampler needs noise on the integers; Laplace noise is for study")
    return Elimination.of(System.of(target.constraints, target.measured, watched))


def sample_batch(elimination: Elimination, centres: Ints, rng: Streams, *, n_threads: int = 1) -> Ints:
    """Return one draw for each of many tables (table, cell) of one structure.

    Each table has its own place in the stream of random words, so the result does not depend on the threads.
    """
    elimination.order.check()
    if len(centres) == 0:
        return centres.copy()
    centres = np.require(centres, requirements=["C", "W"])  # numba would compile once more for read-only arrays
    words = rng.word_rows(len(centres), elimination.n_decisions)
    out, unproven = np.empty_like(centres), np.zeros(len(centres), np.int64)

    sizes = int(elimination.order.n_states), elimination.longest

    def run(part: slice) -> None:
        _run_part(elimination, centres[part], words[part], sizes, out[part], unproven[part])

    list(map_in_threads(run, parts_of(len(centres), -(-len(centres) // n_threads)), n_threads))
    narrow = np.flatnonzero(unproven < 0)
    if narrow.size > 1:  # tables with larger invariants than the merge order was made for
        again, marks = np.empty((narrow.size, centres.shape[1]), np.int64), np.zeros(narrow.size, np.int64)
        _run_part(elimination, centres[narrow], words[narrow], _sizes_for(elimination, centres[narrow]), again, marks)
        out[narrow], unproven[narrow] = again, marks
    for number in np.flatnonzero(unproven):  # what does not fit either is run by itself
        out[number] = _again(elimination, centres[number], words[number], rng.stream(int(number)))
    return out


def sample_one(elimination: Elimination, centre: Ints, rng: Streams) -> Ints:
    """Return one draw for one table: forward pass and draw in a single call of the kernels."""
    (drawn,) = sample_batch(elimination, centre[None, :], rng)
    return np.asarray(drawn)


def _run_part(
    elimination: Elimination,
    centres: Ints,
    words: NDArray[np.uint64],
    sizes: tuple[int, int],
    out: Ints,
    unproven: Ints,
) -> None:
    program, run = elimination.program, _light(elimination, draw_batch, len(centres))
    buffers = elimination.buffers(*sizes)
    run(program, centres, empty_state(program), *buffers, words, _LOG_LOOSEST, out, unproven)


def _again(elimination: Elimination, centre: Ints, words: NDArray[np.uint64], rng: RandomStream) -> Ints:
    """Draw one table of a batch by itself, from its own words, with buffers of its own or without rounding."""
    from congenial.sampling.elimination.exact_fallback import ExactDraws

    messages = Messages.built(elimination, centre)
    out = np.empty_like(centre)
    is_tight = messages.log_missing_share <= _LOG_LOOSEST
    if is_tight:
        n_unproven = _light(elimination, draw)(
            elimination.program, centre, messages.layout.state, messages.numbers, words, True, out
        )
        if n_unproven == 0:
            return out
    return ExactDraws(elimination, centre).draw(words, rng)


def log_normalisers(elimination: Elimination, centres: Ints) -> Floats:
    """Return ``log c(s)`` for each of many tables (table, cell) of one structure; repeated tables are computed once."""
    elimination.order.check()
    distinct, row_of = distinct_rows(centres)
    logs = np.full(len(distinct), np.nan)
    for candidate in (elimination.lighter(), elimination):
        if (missing := np.flatnonzero(np.isnan(logs))).size:
            logs[missing] = _normalised(candidate, distinct[missing])
    for number in np.flatnonzero(np.isnan(logs)):  # with buffers of its own
        logs[number] = Messages.of(elimination, distinct[number]).log_normaliser
    return np.asarray(logs[row_of])


def _normalised(elimination: Elimination, centres: Ints) -> Floats:
    """Return ``log c(s)`` for each table; NaN where windows or buffers are too narrow for it."""
    out = np.empty(len(centres))
    with elimination.scratch() as state:
        n_states, longest = _sizes_for(elimination, centres, state)
        buffers = elimination.buffers(n_states, longest)
        _light(elimination, normalise_batch, len(centres))(
            elimination.program, centres, state, *buffers, _LOG_LOOSEST, out
        )
    return out


def _sizes_for(elimination: Elimination, centres: Ints, scratch: State | None = None) -> tuple[int, int]:
    """Return how many entries messages and windows take: twice what the most crowded table does."""
    crowded = Layout.of(elimination, centres[int(np.argmax(centres.sum(axis=1)))], scratch)
    spans = (crowded.state.prefix_length, crowded.state.cell_span)
    return 2 * crowded.size + 64, 2 * max(int(span.max(initial=0)) for span in spans) + 16


# From 0.5 to 6 times what eight systems took, from P12 to 2 x 10^8 operations.
_SECONDS_A_DRAW, _SECONDS_AN_OPERATION = 2e-5, 3e-9


@dataclass(eq=False)
class EliminationSamplerAt:
    """The messages of one table, built when more than one draw or the normaliser is asked for. Confidential."""

    elimination: Elimination = field(repr=False)
    centre: Ints = field(repr=False)
    built: Messages | None = field(default=None, init=False, repr=False)

    @property
    def messages(self) -> Messages:
        """The forward pass, made once."""
        if self.built is None:
            self.built = Messages.of(self.elimination, self.centre)
        return self.built

    def sample(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return independent draws (draw, cell)."""
        # Forward pass and draw in one call of the kernels take a quarter less on P12.
        if n_draws == 1 and self.built is None:
            return sample_one(self.elimination, self.centre, rng)[None, :]
        return self.messages.sample(n_draws, rng)

    @property
    def log_normaliser(self) -> float:
        """``log c(s)``."""
        return self.messages.log_normaliser


@dataclass(frozen=True, eq=False)
class EliminationSampler:
    """Messages over partial sums, forward; a table, backward (docs/claims/exact-sampling.md)."""

    system: System
    why_no_other: str = ""
    """Why another sampler does not step in where the messages do not fit."""

    name: ClassVar[str] = "contraction"
    title: ClassVar[str] = "independent draw by contraction over partial sums"
    has_predictable_time: ClassVar[bool] = True

    @classmethod
    def of(cls, system: System) -> "EliminationSampler":
        """Return the sampler of a system; it is ordered when first asked for, and structures seen before are not."""
        return cls(system)

    @cached_property
    def elimination(self) -> Elimination:
        """What all tables of the system share."""
        return Elimination.of(self.system)

    @cached_property
    def _n_open(self) -> int:
        return least_open(self.system)

    @property
    def is_exact(self) -> bool:
        """Whether the messages fit into memory and work."""
        return self._n_open < MOST_OPEN and self.elimination.order.is_exact

    def check(self) -> None:
        """Raise with the numbers and the alternative when the messages do not fit."""
        try:
            check_reach(self.system)
            self.elimination.order.check()
        except TooLargeError as refused:
            if not self.why_no_other:
                raise
            raise TooLargeError(f"{refused}. Nor is it one for rejection: {self.why_no_other}") from None

    @property
    def seconds(self) -> float:
        """About how long the draw of one table takes on one core."""
        if self._n_open >= MOST_OPEN:
            return inf
        return _SECONDS_A_DRAW + _SECONDS_AN_OPERATION * self.elimination.order.n_operations

    def describe(self) -> str:
        """Return the number of groups, the width and the number of states."""
        return too_scaled(self._n_open) if self._n_open >= MOST_OPEN else str(self.elimination.order)

    def dry_run(self, points: Ints) -> str:
        """Promise nothing that the structure does not say already."""
        del points
        self.check()
        return ""

    def draw_each(self, centres: Ints, rng: Streams, *, n_threads: int = 1) -> Ints:
        """Return one draw for each of many tables (table, cell)."""
        if len(centres) == 1:
            return sample_one(self.elimination, centres[0], rng)[None, :]
        return sample_batch(self.elimination, centres, rng, n_threads=n_threads)

    def at(self, centre: Ints) -> EliminationSamplerAt:
        """Return the sampler at one table."""
        self.check()
        return EliminationSamplerAt(self.elimination, centre)

    def log_normalisers(self, centres: Ints, rng: RandomStream) -> Floats:
        """Return ``log c(s)`` for each of many tables (table, cell); repeated tables are computed once."""
        del rng
        return log_normalisers(self.elimination, centres)
