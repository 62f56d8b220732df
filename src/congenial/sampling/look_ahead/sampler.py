"""Look-ahead rejection as a sampler: made from public structure, exact for every table that has it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import sqrt
from typing import ClassVar

import numpy as np

from congenial.arrays import Floats, Ints, distinct_rows
from congenial.errors import SamplingError
from congenial.randomness import RandomStream, Streams
from congenial.sampling.look_ahead.attempts import Attempts
from congenial.sampling.look_ahead.grid import NONE, Grid, NoGridError, cells_alone, grids_of
from congenial.sampling.look_ahead.grid_at import GridAt
from congenial.sampling.look_ahead.pilots import Pilot, is_offered, promised, refusal, run_pilots
from congenial.sampling.look_ahead.weights import window
from congenial.sampling.system import System

MOST_WORK = 2e10
"""Products of a single attempt and its preparation, beyond which a system is refused."""

MOST_HALF = 2**14
"""How far a window may reach to each side: docs/claims/rejection.md, section 3, rounding."""

_ACCEPTED_A_TABLE = 5  # of an estimate: next to what tables differ by, its error is small from a rate of a half on

_SECONDS_A_PRODUCT = 2e-10  # 0.3 s for 50 x 50 cells at precision 1/2, 1.9e9 products


@dataclass(eq=False)
class LookAheadAt:
    """The sampler at one table. Confidential."""

    grids: tuple[Grid, ...]
    centre: Ints = field(repr=False)
    always_certain: bool = False

    @cached_property
    def attempts(self) -> tuple[Attempts, ...]:
        """What the draws of each grid share, made once."""
        return tuple(Attempts(GridAt.of(grid, self.centre), self.always_certain) for grid in self.grids)

    def sample(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return independent draws (draw, cell)."""
        out = np.repeat(self.centre[None, :], n_draws, axis=0)
        for grid, attempts in zip(self.grids, self.attempts, strict=True):
            drawn = attempts.draw(n_draws, rng)
            lines, columns = np.nonzero(grid.cells != NONE)
            out[:, grid.cells[lines, columns]] += drawn[:, lines, columns]
        return out

    @property
    def acceptance(self) -> float:
        """Share of attempts accepted so far, the worst grid's. It depends on the table, so it is confidential."""
        return min((one.n_accepted / max(1, one.n_attempts) for one in self.attempts), default=1.0)

    @property
    def log_normaliser(self) -> float:
        """Refused: rejection knows it up to a simulation error only."""
        raise SamplingError(
            "the normaliser of a system that is drawn by rejection is known by simulation only, never exactly; see"
            " simulated_log_normaliser"
        )

    def simulated_log_normaliser(self, n_attempts: int, rng: RandomStream) -> tuple[float, float]:
        """Return ``log c(s)`` by simulation, with its Monte Carlo error (one standard deviation)."""
        found = [one.log_normaliser(n_attempts, rng) for one in self.attempts]
        return sum(value for value, _ in found), sqrt(sum(error * error for _, error in found))


@dataclass(frozen=True, eq=False)
class LookAhead:
    """Line after line, each accepted with the chance that a bound of what follows leaves (docs/claims/rejection.md)."""

    system: System
    grids: tuple[Grid, ...]

    name: ClassVar[str] = "look-ahead rejection"
    title: ClassVar[str] = "independent draw by look-ahead rejection, exact whatever the number of attempts"
    is_steady: ClassVar[bool] = False

    @classmethod
    def of(cls, system: System) -> "LookAhead | None":
        """Return the sampler of a system, or None where it is no grid; `why_not` has the reason."""
        found = _grids(system)
        return None if isinstance(found, str) else cls(system, found)

    @property
    def work(self) -> float:
        """About how many products an attempt and its preparation take, whatever the table."""
        total = 0.0
        for grid in self.grids:
            halves = [_half(grid, cell) for cell in grid.cells.ravel().tolist()]
            halves += [window(fall) for fall in grid.falls_of_sums if not fall.is_flat]
            half = max(halves, default=1)
            n_lines, n_columns = grid.cells.shape
            message, sums = half * (2 + n_columns**0.5), half * (2 + n_lines**0.5)
            total += n_lines * n_columns * half * (message + 4 * sums)
        return total

    @cached_property
    def _half(self) -> int:
        """How far the longest window reaches."""
        falls = {fall for grid in self.grids for fall in grid.falls if not fall.is_flat}
        return max((window(fall) for fall in falls), default=1)

    @property
    def is_exact(self) -> bool:
        """Whether an attempt is within reach, and windows are within the proof of its bounds."""
        return self.work <= MOST_WORK and self._half <= MOST_HALF

    def check(self) -> None:
        """Raise with the numbers and the way out unless an attempt is within reach."""
        if self._half > MOST_HALF:
            raise SamplingError(
                f"look-ahead rejection takes noise that reaches up to {MOST_HALF:,} from its centre, and here it is"
                f" {self._half:,}; a higher precision takes less"
            )
        if not self.is_exact:
            raise SamplingError(
                f"look-ahead rejection would take about {self.work:.1e} products for an attempt, and the limit is"
                f" {MOST_WORK:.0e}; a higher precision or fewer cells take less"
            )

    @property
    def seconds(self) -> float:
        """About how long a draw takes on one core, bounds included, if half of the attempts go through."""
        return 0.01 + _SECONDS_A_PRODUCT * self.work

    def describe(self) -> str:
        """Return the shape of its grids."""
        shapes = " and ".join(f"{grid.cells.shape[0]} x {grid.cells.shape[1]}" for grid in self.grids[:3])
        plural = "s" if len(self.grids) > 1 else ""
        more = f" and {len(self.grids) - 3:,} more" if len(self.grids) > 3 else ""
        return f"grid{plural} of {shapes}{more} cells, drawn exactly by look-ahead rejection"

    @property
    def crosses(self) -> bool:
        """Whether sums of two families cross in some grid."""
        return any(len(grid.lines) > 1 and any(column != NONE for column in grid.columns) for grid in self.grids)

    @property
    def is_dense(self) -> bool:
        """Whether some grid has four lines, four columns and half of its cells: contraction would open them all."""
        shapes = ((grid.cells != NONE) for grid in self.grids)
        return any(min(cells.shape) >= 4 and 2 * int(cells.sum()) >= cells.size for cells in shapes)

    def rehearse(self, points: Ints) -> str:
        """Make attempts at tables with the sums of public ones; the worst decides whether the system is offered."""
        self.check()
        found: list[Pilot] = []
        for point in points:
            found += run_pilots(self.grids, point, self.work)
            if not is_offered(found):
                raise SamplingError(refusal(found))
        return promised(sorted(found, key=lambda pilot: pilot.acceptance)[:3])

    def draw_each(self, centres: Ints, rng: Streams, *, n_threads: int = 1) -> Ints:
        """Return one draw for each of many tables (table, cell); repeated neighbours share their bounds."""
        out = np.empty_like(centres)
        if isinstance(rng, RandomStream):  # one stream: how many words a table takes is known afterwards only
            held: LookAheadAt | None = None
            for number, centre in enumerate(centres):
                held = held if held is not None and np.array_equal(held.centre, centre) else self.at(centre)
                out[number] = held.sample(1, rng)[0]
            return out

        def run(number: int) -> None:
            out[number] = self.at(centres[number]).sample(1, rng.line(number))[0]

        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(run, range(len(centres))))
        return out

    def at(self, centre: Ints) -> LookAheadAt:
        """Return the sampler at one table."""
        self.check()
        return LookAheadAt(self.grids, centre)

    def log_normalisers(self, centres: Ints, rng: RandomStream) -> Floats:
        """Return minus the log of an unbiased estimate of ``1 / c(s)`` for each of many tables (table, cell).

        Equal tables share their bounds, not their estimates.
        """
        distinct, which = distinct_rows(centres)
        out = np.empty(len(centres))
        for number, centre in enumerate(distinct):
            attempts = self.at(centre).attempts
            for place in np.flatnonzero(which == number):
                out[place] = -sum(one.log_inverse(_ACCEPTED_A_TABLE, rng) for one in attempts)
        return out


def _half(grid: Grid, cell: int) -> int:
    if cell == NONE:
        return 1
    fall, low, high = grid.system.falls[cell], grid.system.lower[cell], grid.system.upper[cell]
    width = high - low if low is not None and high is not None else None
    return width or 1 if fall.is_flat else min(window(fall), width if width is not None else window(fall))


def why_not(system: System) -> str | None:
    """Return why a system is no grid, with the nearest that is one; None where it is."""
    found = _grids(system)
    return found if isinstance(found, str) else None


@lru_cache(maxsize=64)
def _grids(system: System) -> tuple[Grid, ...] | str:
    """Return the grids of a system, or why there are none; whoever chooses a sampler asks several times."""
    try:
        found = grids_of(system)
    except NoGridError as error:
        return str(error)
    if cells_alone(system):
        return "look-ahead rejection takes cells that are in a sum each, and here a cell is in none; add total()"
    return found
