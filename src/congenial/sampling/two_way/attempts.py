"""Independent draws: attempts until enough are accepted, each with words of its own. Confidential."""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import log, sqrt

import flint
import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import SamplingError
from congenial.exact import ends
from congenial.proven_decisions import Uniform, choose_weighted, is_below, refine_until_proven, words_of
from congenial.randomness import RandomStream
from congenial.sampling.two_way.prepared import PreparedTable

_MOST_WORDS = 2**18


@dataclass(eq=False)
class Attempts:
    """Attempts at one table. How many there were, and how many went through, is confidential as well.

    Attributes
    ----------
    skips_refinement : bool
        Whether an attempt ends where doubles cannot decide, which takes seconds otherwise: for pilots at made-up tables
        only, which ask how often attempts go through. Draws refine every decision.
    """

    prepared: PreparedTable
    always_refined: bool = False
    skips_refinement: bool = False
    n_attempts: int = field(default=0, init=False)
    n_accepted: int = field(default=0, init=False)
    n_refined: int = field(default=0, init=False)
    chances: Floats = field(default_factory=lambda: np.zeros(2), init=False)

    def draw(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return deviations (draw, row, column) of accepted attempts, rows in the grid's order.

        There is no limit to the attempts: an end that depends on the table would be an answer nobody paid for.
        """
        if self.skips_refinement:
            raise SamplingError("internal: attempts that give up in doubt have not the law of a draw")
        shape = self.prepared.inputs.kind.shape
        out = np.empty((n_draws, *shape), np.int64)
        n_done = 0
        while n_done < n_draws:
            most = max(1, _MOST_WORDS // (shape[0] * shape[1]))
            words = rng.words(min(most, n_draws - n_done) * shape[0] * shape[1]).reshape(-1, *shape)
            n_done += self._run(words, rng, out[n_done:])
        back = np.argsort(self.prepared.order)
        return out[:, back]

    def first(self, n_attempts: int, rng: RandomStream) -> Ints | None:
        """Return the deviations (row, column) of the first of so many attempts that is accepted, or None."""
        shape, before = self.prepared.inputs.kind.shape, self.n_attempts
        out = np.empty((1, *shape), np.int64)
        while self.n_attempts - before < n_attempts:
            if self._run(rng.words(shape[0] * shape[1]).reshape(1, *shape), rng, out):
                deviations: Ints = out[0, np.argsort(self.prepared.order)]
                return deviations
        return None

    def trial(self, n_attempts: int, rng: RandomStream, enough: int | None = None) -> int:
        """Return how many of so many attempts are accepted, or of fewer once enough are.

        It ends whether or not one is: for made-up tables, and for tables that an analyst tries.
        """
        shape, n_accepted, n_before = self.prepared.inputs.kind.shape, 0, self.n_attempts
        most = max(1, _MOST_WORDS // (shape[0] * shape[1]))
        while (n_remaining := n_attempts - (self.n_attempts - n_before)) > 0 and (
            enough is None or n_accepted < enough
        ):
            n = min(most, n_remaining)
            out = np.empty((n if enough is None else enough - n_accepted, *shape), np.int64)
            n_accepted += self._run(rng.words(n * shape[0] * shape[1]).reshape(n, *shape), rng, out)
        return n_accepted

    def log_normaliser(self, n_attempts: int, rng: RandomStream) -> tuple[float, float]:
        """Return ``log c(s)`` by simulation, and its Monte Carlo error (one standard deviation).

        The acceptance rate is ``c(s) / N``, N the first row's sum, which is known to a rounding.
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
        """``log N``, the log of the first row's sum."""
        from congenial.sampling.two_way.kernels_attempt import weigh_row  # numba: 0.3 s to import

        inputs, buffers = self.prepared.inputs, self.prepared.buffers()
        n_columns = inputs.kind.shape[1]
        scale = int(weigh_row(inputs, 0, np.zeros(n_columns, np.int64), buffers))
        place = int(inputs.row_sum[0] - buffers.message_low[n_columns])
        if scale == -(2**40) or not 0 <= place < buffers.message_size[n_columns]:
            raise SamplingError("internal: the first row's sum is out of its window; please report this system")
        whole = float(buffers.message[n_columns, place])
        # Bounds after the first row were scaled, row by row.
        return log(whole) + (scale - int(inputs.bounds.shift[1:].sum())) * log(2)

    def _run(self, words: NDArray[np.uint64], rng: RandomStream, out: Ints) -> int:
        """Use up some words; return how many draws they gave."""
        from congenial.sampling.two_way.kernels_attempt import run_attempts  # numba: 0.3 s to import

        inputs, buffers = self.prepared.inputs, self.prepared.buffers()
        progress, u = np.zeros(3, np.int64), np.zeros(words.shape[2], np.int64)
        table = np.zeros(words.shape[1:], np.int64)
        while True:
            if self.always_refined:
                is_open = bool(progress[0] < len(words) and progress[2] < len(out))
            else:
                is_open = bool(run_attempts(inputs, words, progress, u, table, buffers, self.chances, out))
                if not self.chances[1] <= 1:
                    raise SamplingError("internal: a bound fell short; please report this system")
            if not is_open:
                break
            if self.skips_refinement:
                progress[:] = progress[0] + 1, 0, progress[2]
            else:
                self._decide(words, rng, progress, u, table, out)
        self.n_attempts += int(progress[0])
        self.n_accepted += int(progress[2])
        return int(progress[2])

    def _decide(
        self, words: NDArray[np.uint64], rng: RandomStream, progress: Ints, u: Ints, table: Ints, out: Ints
    ) -> None:
        """Decide one row in balls, and go on to the next row or attempt."""
        self.n_refined += 1
        attempt, row, n_done = progress.tolist()
        if row == 0:
            u[:] = 0
        deviations = decide_row(self.prepared, row, u, words[attempt, row], rng)
        if deviations is None:
            progress[:] = attempt + 1, 0, n_done
            return
        table[row] = deviations
        u += deviations
        progress[1] = row + 1
        if row + 1 == len(table):
            out[n_done] = table
            progress[:] = attempt + 1, 0, n_done + 1


# Rows of an attempt that doubles leave open, decided in balls from the same random words. Confidential.

_FIRST_PRECISION = 256


@dataclass(frozen=True)
class _Part:
    """Weights of a cell times the bounds after it: from deviation `low` on, and a bound of all that is left out."""

    low: int
    terms: list[flint.arb]
    missing: flint.arb


def decide_row(prepared: PreparedTable, row: int, u: Ints, words: NDArray[np.uint64], rng: RandomStream) -> Ints | None:
    """Return the row that these words draw, or None where they reject; what 64 bits leave open takes more."""
    uniforms = [Uniform(word, words_of(rng)) for word in words.tolist()]

    def decide(precision: int) -> Ints | None:
        return _decide(prepared, row, u, uniforms, precision // _FIRST_PRECISION)

    return refine_until_proven(decide, _FIRST_PRECISION)


def _decide(prepared: PreparedTable, row: int, u: Ints, uniforms: list[Uniform], widths: int) -> Ints | None:
    inputs = prepared.inputs
    n_rows, n_columns = inputs.kind.shape
    if row == n_rows - 1:
        weight, lacking = flint.arb(1), inputs.column_sum - u
        for j in range(n_columns):
            cell = prepared.cell(row, j)
            if cell is not None:
                weight *= cell.at(int(lacking[j]))
        return lacking if _goes_on(prepared, row, u, weight, flint.arb(0), uniforms[0]) else None
    parts = [_part(prepared, row, j, int(u[j]), widths) for j in range(n_columns)]
    messages, missing, lows = [flint.arb_poly([1])], [flint.arb(0)], [0]
    for part in parts:
        mass = sum(part.terms, part.missing)
        messages.append(messages[-1] * flint.arb_poly(part.terms))
        before = sum(messages[-2].coeffs(), missing[-1])
        missing.append(missing[-1] * mass + before * part.missing)
        lows.append(lows[-1] + part.low)
    rest = int(inputs.row_sum[row])
    whole = _entry(messages[-1], rest - lows[-1])
    if row > 0 and not _goes_on(prepared, row, u, whole, missing[-1], uniforms[0]):
        return None
    out = np.zeros(n_columns, np.int64)
    for j in range(n_columns - 1, 0, -1):
        part = parts[j]
        terms = [
            (part.low + a, term * _entry(messages[j], rest - part.low - a - lows[j]))
            for a, term in enumerate(part.terms)
        ]
        lack = missing[j] * sum(part.terms, part.missing) + sum(messages[j].coeffs(), missing[j]) * part.missing
        out[j] = choose_weighted(uniforms[j], terms, ends(lack)[1])
        rest -= int(out[j])
    out[0] = rest
    return out


def _entry(message: flint.arb_poly, place: int) -> flint.arb:
    return message[place] if 0 <= place <= message.degree() else flint.arb(0)


def _bound(prepared: PreparedTable, row: int, j: int, u: int) -> float:
    bounds = prepared.inputs.bounds
    k = u - int(bounds.low[row, j])
    if k < 0:
        return float(bounds.below[row, j])
    if k >= bounds.size[row, j]:
        return float(bounds.above[row, j])
    return float(bounds.value[bounds.start[row, j] + k])


def _part(prepared: PreparedTable, row: int, j: int, u: int, widths: int) -> _Part:
    """Return a cell's terms in a window `widths` times as wide, with what lies beyond it; bounds are at most 1."""
    cell = prepared.cell(row, j)
    if cell is None:
        raise SamplingError("internal: a cell of weight 1 everywhere before the last row; please report this system")
    low, high = cell.window(widths)
    terms = [cell.at(x) * flint.arb(_bound(prepared, row + 1, j, u + x)) for x in range(low, high + 1)]
    return _Part(low, terms, cell.missing(widths))


def _goes_on(
    prepared: PreparedTable, row: int, u: Ints, whole: flint.arb, missing: flint.arb, uniform: Uniform
) -> bool:
    """Return whether U lies below the chance to go on with a row, or raise `Unproven`."""
    bound = Fraction(1)
    for j in range(u.size):
        bound *= Fraction(_bound(prepared, row, j, int(u[j])))
    if bound == 0:
        return False
    factor = Fraction(2) ** int(prepared.inputs.bounds.shift[row]) / bound
    low, high = ends(whole)[0] * factor, (ends(whole)[1] + ends(missing)[1]) * factor
    if low > 1:
        raise SamplingError("internal: a bound fell short; please report this system")
    return is_below(uniform, low, high)
