"""Independent draws: attempts until enough are accepted, each with words of its own. Confidential."""

from dataclasses import dataclass, field
from functools import cached_property
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import SamplingError
from congenial.randomness import RandomStream
from congenial.sampling.look_ahead.prepared import PreparedTable

_MOST_WORDS = 2**18


@dataclass(eq=False)
class Attempts:
    """Attempts at one table. How many there were, and how many went through, is confidential as well.

    Attributes
    ----------
    gives_up_in_doubt : bool
        Whether an attempt ends where doubles cannot decide, which takes seconds otherwise: for pilots at made-up tables
        only, which ask how often attempts go through. Draws decide every doubt.
    """

    prepared: PreparedTable
    always_certain: bool = False
    gives_up_in_doubt: bool = False
    n_attempts: int = field(default=0, init=False)
    n_accepted: int = field(default=0, init=False)
    n_certain: int = field(default=0, init=False)
    seen: Floats = field(default_factory=lambda: np.zeros(2), init=False)

    def draw(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return deviations (draw, line, column) of accepted attempts, lines in the grid's order.

        There is no limit to the attempts: an end that depends on the table would be an answer nobody paid for.
        """
        if self.gives_up_in_doubt:
            raise SamplingError("internal: attempts that give up in doubt have not the law of a draw")
        shape = self.prepared.tables.kind.shape
        out = np.empty((n_draws, *shape), np.int64)
        n_done = 0
        while n_done < n_draws:
            most = max(1, _MOST_WORDS // (shape[0] * shape[1]))
            words = rng.words(min(most, n_draws - n_done) * shape[0] * shape[1]).reshape(-1, *shape)
            n_done += self._run(words, rng, out[n_done:])
        back = np.argsort(self.prepared.order)
        return out[:, back]

    def first(self, n_attempts: int, rng: RandomStream) -> Ints | None:
        """Return the deviations (line, column) of the first of so many attempts that is accepted, or None."""
        shape, before = self.prepared.tables.kind.shape, self.n_attempts
        out = np.empty((1, *shape), np.int64)
        while self.n_attempts - before < n_attempts:
            if self._run(rng.words(shape[0] * shape[1]).reshape(1, *shape), rng, out):
                found: Ints = out[0, np.argsort(self.prepared.order)]
                return found
        return None

    def trial(self, n_attempts: int, rng: RandomStream, enough: int | None = None) -> int:
        """Return how many of so many attempts are accepted, or of fewer once enough are.

        It ends whether or not one is: for made-up tables, and for tables that an analyst tries.
        """
        shape, n_accepted, n_before = self.prepared.tables.kind.shape, 0, self.n_attempts
        most = max(1, _MOST_WORDS // (shape[0] * shape[1]))
        while (left := n_attempts - (self.n_attempts - n_before)) > 0 and (enough is None or n_accepted < enough):
            n = min(most, left)
            out = np.empty((n if enough is None else enough - n_accepted, *shape), np.int64)
            n_accepted += self._run(rng.words(n * shape[0] * shape[1]).reshape(n, *shape), rng, out)
        return n_accepted

    def log_normaliser(self, n_attempts: int, rng: RandomStream) -> tuple[float, float]:
        """Return ``log c(s)`` by simulation, and its Monte Carlo error (one standard deviation).

        The acceptance rate is ``c(s) / N``, N the first line's sum, which is known to a rounding.
        """
        n_accepted = self.trial(n_attempts, rng)
        if n_accepted == 0:
            raise SamplingError(f"none of {n_attempts:,} attempts was accepted, so nothing is known of the normaliser")
        rate = n_accepted / n_attempts
        return self.log_first + log(rate), sqrt((1 - rate + 1 / n_attempts) / n_accepted)

    def log_inverse(self, n_accepted: int, rng: RandomStream) -> float:
        """Return the log of an estimate of ``1 / c(s)``: attempts until so many are accepted, times ``1 / N``.

        Attempts until the next accepted one have mean ``N / c(s)``, so the estimate is unbiased, and it is positive.
        """
        before = self.n_attempts
        self.draw(n_accepted, rng)
        return log((self.n_attempts - before) / n_accepted) - self.log_first

    @cached_property
    def log_first(self) -> float:
        """``log N``, the log of the first line's sum."""
        from congenial.sampling.kernels.attempt import weigh_line  # numba: 0.3 s to import

        tables, room = self.prepared.tables, self.prepared.room()
        n_columns = tables.kind.shape[1]
        scale = int(weigh_line(tables, 0, np.zeros(n_columns, np.int64), room))
        place = int(tables.line_sum[0] - room.message_low[n_columns])
        if scale == -(2**40) or not 0 <= place < room.message_size[n_columns]:
            raise SamplingError("internal: the first line's sum is out of its window; please report this system")
        whole = float(room.message[n_columns, place])
        # Bounds after the first line were scaled, line by line.
        return log(whole) + (scale - int(tables.bounds.shift[1:].sum())) * log(2)

    def _run(self, words: NDArray[np.uint64], rng: RandomStream, out: Ints) -> int:
        """Use up some words; return how many draws they gave."""
        from congenial.sampling.kernels.attempt import run_attempts  # numba: 0.3 s to import

        tables, room = self.prepared.tables, self.prepared.room()
        progress, u = np.zeros(3, np.int64), np.zeros(words.shape[2], np.int64)
        table = np.zeros(words.shape[1:], np.int64)
        while True:
            if self.always_certain:
                is_open = bool(progress[0] < len(words) and progress[2] < len(out))
            else:
                is_open = bool(run_attempts(tables, words, progress, u, table, room, self.seen, out))
                if not self.seen[1] <= 1:
                    raise SamplingError("internal: a bound fell short; please report this system")
            if not is_open:
                break
            if self.gives_up_in_doubt:
                progress[:] = progress[0] + 1, 0, progress[2]
            else:
                self._decide(words, rng, progress, u, table, out)
        self.n_attempts += int(progress[0])
        self.n_accepted += int(progress[2])
        return int(progress[2])

    def _decide(
        self, words: NDArray[np.uint64], rng: RandomStream, progress: Ints, u: Ints, table: Ints, out: Ints
    ) -> None:
        """Decide one line in balls, and go on to the next line or attempt."""
        from congenial.sampling.look_ahead.certain import decide_line

        self.n_certain += 1
        attempt, line, n_done = progress.tolist()
        if line == 0:
            u[:] = 0
        found = decide_line(self.prepared, line, u, words[attempt, line], rng)
        if found is None:
            progress[:] = attempt + 1, 0, n_done
            return
        table[line] = found
        u += found
        progress[1] = line + 1
        if line + 1 == len(table):
            out[n_done] = table
            progress[:] = attempt + 1, 0, n_done + 1
