"""The exact sampler: independent draws from the conditional law, its normaliser, and exact marginals.

Messages of positive floats carry a proven error band. A draw whose random bits fall inside the band is decided again by
`certain` in ball arithmetic, from the same bits: see docs/claims/exact-sampling.md.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.rows import Row
from congenial.errors import SamplingError, TooLargeError
from congenial.randomness import RandomStream
from congenial.sampling.contraction.layout import Engine, Layout, empty_state
from congenial.sampling.system import System
from congenial.sampling.target import Target

_CHUNK = 4096
_LOOSEST_ROOT = 2.0**-40  # messages that windows may have robbed of more than this share are built again, wider


@dataclass(frozen=True)
class Messages:
    """The forward pass of one table. Confidential."""

    layout: Layout
    values: Floats

    @classmethod
    def of(cls, engine: Engine, centre: Ints) -> "Messages":
        """Build all messages, with windows wide enough for this table."""
        engine.order.check()
        made = cls._once(engine, centre)
        while not made.layout.state.node_missing[-1] <= _LOOSEST_ROOT * made.root.sum():
            state = made.layout.state
            if state.node_clips[-1] == 0 or not state.node_flushed[-1] <= _LOOSEST_ROOT * made.root.sum():
                raise TooLargeError(
                    "the weights of this system span more than a double can hold: nearly all of the noise's mass lies"
                    " at other totals, as with hundreds of cells at a low precision (or not measured) under one sum;"
                    " raise the precision, measure the cells too, or make sums of parts invariant"
                )
            wider = made.layout.engine.wider()
            wider.order.check()
            made = cls._once(wider, centre)
        return made

    @classmethod
    def _once(cls, engine: Engine, centre: Ints) -> "Messages":
        from congenial.sampling.kernels.messages import build  # numba: 0.3 s to import

        # The merge order knows how much is needed; a table with larger invariants than its own needs a second try.
        state, n_states, longest = empty_state(engine.program), int(engine.order.n_states), engine.longest
        while True:
            values, work = np.empty(n_states), np.empty(4 * longest)
            size = build(engine.program, centre, state, values, work, np.empty_like(work))
            if size < 0 or (size <= n_states and int(state.prefix_length.max()) <= longest):
                return cls(Layout.checked(engine, centre, state, size), values)
            n_states, longest = size, int(state.prefix_length.max())

    @property
    def root(self) -> Floats:
        """The last message, in its scale: one entry, or one for each value of a watched row."""
        state = self.layout.state
        offset = int(state.node_offset[-1])
        return self.values[offset : offset + int(state.node_size[-1])]

    @property
    def log_normaliser(self) -> float:
        """``log c(s)``."""
        return float(np.log(self.root.sum())) + float(self.layout.state.node_exponent[-1]) * log(2)

    @property
    def relative_error(self) -> float:
        """A proven bound of the relative error of the normaliser."""
        state = self.layout.state
        return float(state.node_units[-1] * 2.0**-53 * 1.01 + state.node_missing[-1] / self.root.sum())

    def sample(self, n_draws: int, rng: RandomStream, *, always_certain: bool = False) -> Ints:
        """Return independent draws (draw, cell).

        Parameters
        ----------
        always_certain : bool
            Decide every draw by the slow path. The tables are the same; a test relies on it.
        """
        out = np.empty((n_draws, self.layout.centre.size), np.int64)
        for start in range(0, n_draws, _CHUNK):  # words of one chunk stay in the processor's cache
            self._draw_into(out[start : start + _CHUNK], rng, always_certain=always_certain)
        return out

    def _draw_into(self, out: Ints, rng: RandomStream, *, always_certain: bool) -> None:
        from congenial.sampling.kernels.messages import draw_many

        engine, centre = self.layout.engine, self.layout.centre
        words = rng.words(len(out) * engine.n_decisions).reshape(len(out), engine.n_decisions)
        unsure = np.ones(len(out), np.int64)
        if not always_certain:
            draw_many(engine.program, centre, self.layout.state, self.values, words, out, unsure)
        if unsure.any():
            from congenial.sampling.contraction.without_rounding import Certain

            certain = Certain(engine, centre)
            for number in np.flatnonzero(unsure):
                out[number] = certain.draw(words[number], rng)


def messages(target: Target, watched: Sequence[Row] = ()) -> Messages:
    """Return the forward pass of a target; the root then holds the distribution of a watched row."""
    return Messages.of(engine_of(target, watched), target.centre)


def engine_of(target: Target, watched: Sequence[Row] = ()) -> Engine:
    """Return the engine for a target's public structure."""
    if not target.is_discrete:
        raise SamplingError("the exact sampler needs noise on the integers; Laplace noise is for study")
    return Engine.of(System.of(target.constraints, target.measured, watched))


def sample_batch(engine: Engine, centres: Ints, rng: RandomStream, *, n_threads: int = 1) -> Ints:
    """Return one draw for each of many tables (table, cell) of one structure.

    Each table has its own place in the stream of random words, so the result does not depend on the threads.
    """
    engine.order.check()
    if len(centres) == 0:
        return centres.copy()
    words = rng.words(len(centres) * engine.n_decisions).reshape(len(centres), engine.n_decisions)
    out, unsure = np.empty_like(centres), np.zeros(len(centres), np.int64)
    # The most crowded table decides how large the buffers are; one that still does not fit is run by itself.
    crowded = Layout.of(engine, centres[int(np.argmax(centres.sum(axis=1)))])
    n_states, longest = 2 * crowded.size + 64, 2 * int(crowded.state.prefix_length.max(initial=0)) + 16

    def run(part: slice) -> None:
        _run_part(engine, centres[part], words[part], n_states, longest, out[part], unsure[part])

    edges = np.linspace(0, len(centres), n_threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(run, map(slice, edges[:-1], edges[1:])))
    for number in np.flatnonzero(unsure):
        out[number] = _again(engine, centres[number], words[number], rng)
    return out


def sample_one(engine: Engine, centre: Ints, rng: RandomStream) -> Ints:
    """Return one draw for one table: forward pass and draw in a single call of the kernels."""
    engine.order.check()
    words = rng.words(engine.n_decisions)
    out, unsure = np.empty((1, centre.size), np.int64), np.zeros(1, np.int64)
    _run_part(engine, centre[None, :], words[None, :], int(engine.order.n_states), engine.longest, out, unsure)
    return _again(engine, centre, words, rng) if unsure[0] else out[0]


def _run_part(
    engine: Engine, centres: Ints, words: NDArray[np.uint64], n_states: int, longest: int, out: Ints, unsure: Ints
) -> None:
    from congenial.sampling.kernels.messages import draw_batch  # numba: 0.3 s to import

    work = np.empty(4 * longest)
    draw_batch(
        engine.program,
        centres,
        empty_state(engine.program),
        np.empty(n_states),
        work,
        np.empty(4 * longest),
        words,
        _LOOSEST_ROOT,
        out,
        unsure,
    )


def _again(engine: Engine, centre: Ints, words: NDArray[np.uint64], rng: RandomStream) -> Ints:
    """Draw one table of a batch by itself, from its own words."""
    from congenial.sampling.contraction.without_rounding import Certain
    from congenial.sampling.kernels.messages import draw

    made = Messages.of(engine, centre)
    out = np.empty_like(centre)
    if draw(made.layout.engine.program, centre, made.layout.state, made.values, words, out):
        return Certain(made.layout.engine, centre).draw(words, rng)
    return out


def log_normalisers(engine: Engine, centres: Ints) -> Floats:
    """Return ``log c(s)`` for each of many tables (table, cell) of one structure; repeated tables are computed once."""
    distinct, which = np.unique(centres, axis=0, return_inverse=True)
    found = np.array([Messages.of(engine, centre).log_normaliser for centre in distinct])
    return np.asarray(found[which.reshape(-1)])
