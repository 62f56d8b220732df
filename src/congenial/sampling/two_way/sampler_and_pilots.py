"""Look-ahead rejection as a sampler: made from public structure, exact for every table that has it."""

import itertools
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints, distinct_rows
from congenial.errors import SamplingError
from congenial.randomness import RandomStream, Streams, replay_rng
from congenial.sampling.target_and_system import System
from congenial.sampling.two_way.attempts import Attempts
from congenial.sampling.two_way.grid import NONE, NoGridError, TwoWayGrid, cells_alone, grids_of
from congenial.sampling.two_way.prepared import PreparedGrid
from congenial.sampling.two_way.weights_and_buffers import window

# Whether a system is within reach, from public facts: attempts at made-up tables with the public sums.
#
# An even table, a sparse one, a corner and others; the worst decides. That is no bound over all tables. Nothing here
# has seen a confidential table, so a pilot may give up, and say so. The seeds are public as well.

SHAPES = ("even", "sparse", "corner", "arrow")

LEAST_ACCEPTANCE = 1 / 500
"""A system is offered where pilots are accepted at least as often."""

_MOST_ATTEMPTS = 1000
_FEWEST_ATTEMPTS = 250  # of systems whose attempts take long: 39 x 12 cells at precision 0.14 took 20 ms each
_WORK_OF_A_PILOT = 7.5e11
_HARDEST_FIRST = ("corner", "arrow", "sparse", "crowded", "public", "even")  # accepted least often, as a rule
_ENOUGH = 8  # accepted attempts: the rate is known to a third


@dataclass(frozen=True)
class Pilot:
    """What became of attempts at one made-up table, how long a draw took here and how large its bounds are."""

    name: str
    n_attempts: int
    n_accepted: int
    seconds: float = 0.0
    n_bytes: int = 0

    @property
    def acceptance(self) -> float:
        """Share of attempts accepted."""
        return self.n_accepted / self.n_attempts


def synthetic_table(grid: TwoWayGrid, row_sums: Ints, column_sums: Ints, shape: str, rng: RandomStream) -> Ints:
    """Return a table of a grid (row, column) with these sums; `shape` is even, sparse, corner, arrow or crowded.

    Cells are filled up to a wish first (an even share; a share that is 0 in most cells; all there is), one after
    another, and what is left is sent along shortest paths that limits leave open.
    """
    is_there = grid.cells != NONE
    low, high = (np.zeros(is_there.shape, np.int64) for _ in range(2))
    for place in zip(*np.nonzero(is_there), strict=True):
        cell = int(grid.cells[place])
        least, most = grid.system.lower[cell], grid.system.upper[cell]
        if least is None:
            raise SamplingError("a pilot needs a lower limit for every cell")
        low[place] = least
        high[place] = min(row_sums[place[0]], column_sums[place[1]]) if most is None else most
    wish = _wish(is_there, row_sums, column_sums, shape, rng)
    rows, columns = row_sums - low.sum(axis=1), column_sums - low.sum(axis=0)
    out, capacity = np.zeros_like(low), np.maximum(high - low, 0)
    order = _order(rows, columns, shape, rng)
    for flat in order.tolist():
        i, j = divmod(flat, out.shape[1])
        step = min(int(wish[i, j]), int(capacity[i, j]), int(rows[i]), int(columns[j]))
        if step > 0:
            out[i, j] += step
            rows[i] -= step
            columns[j] -= step
    _fill(out, capacity, rows, columns)
    return out + low


def _order(rows: Ints, columns: Ints, shape: str, rng: RandomStream) -> Ints:
    """Return in which order cells are filled: for a corner any, for an arrow the largest row and column first."""
    places = np.arange(rows.size * columns.size).reshape(rows.size, columns.size)
    if shape == "corner":
        return np.asarray(rng.words(places.size).argsort())
    if shape != "arrow":
        return places.reshape(-1)
    is_first = (places // columns.size == rows.argmax()) | (places % columns.size == columns.argmax())
    return np.argsort(~is_first.reshape(-1), kind="stable")


def _wish(is_there: NDArray[np.bool_], rows: Ints, columns: Ints, shape: str, rng: RandomStream) -> Ints:
    if shape in {"corner", "arrow"}:
        return np.where(is_there, np.iinfo(np.int64).max, 0)
    even = rows[:, None] * (columns / max(1, columns.sum()))
    if shape == "sparse":
        is_kept = rng.uniforms(is_there.size).reshape(is_there.shape) < 0.2
        even = np.where(is_kept, 4 * even, 0)
    return np.where(is_there, np.floor(even), 0).astype(np.int64)


def _fill(out: Ints, capacity: Ints, rows: Ints, columns: Ints) -> None:
    """Send what rows still have to columns that still want it, along shortest paths of cells with capacity."""
    n_rows, _n_columns = out.shape
    while rows.max(initial=0) > 0:
        start = int(rows.argmax())
        came: dict[int, int] = {start: -1}
        queue, end = deque([start]), -1
        while queue and end < 0:
            node = queue.popleft()
            if node < n_rows:
                for j in np.flatnonzero(out[node] < capacity[node]).tolist():
                    if n_rows + j not in came:
                        came[n_rows + j] = node
                        queue.append(n_rows + j)
                        if columns[j] > 0:
                            end = n_rows + j
                            break
            else:
                for i in np.flatnonzero(out[:, node - n_rows] > 0).tolist():
                    if i not in came:
                        came[i] = node
                        queue.append(i)
        if end < 0:
            raise SamplingError("no table has these sums within the limits of its cells")
        path = [end]
        while came[path[-1]] >= 0:
            path.append(came[path[-1]])
        path.reverse()
        step = min(int(rows[start]), int(columns[end - n_rows]))
        for a, b in itertools.pairwise(path):
            step = min(
                step, int(capacity[a, b - n_rows] - out[a, b - n_rows]) if a < n_rows else int(out[b, a - n_rows])
            )
        for a, b in itertools.pairwise(path):
            if a < n_rows:
                out[a, b - n_rows] += step
            else:
                out[b, a - n_rows] -= step
        rows[start] -= step
        columns[end - n_rows] -= step


def run_pilots(grids: Sequence[TwoWayGrid], public: Ints, work: float = 0.0) -> list[Pilot]:
    """Return what becomes of attempts at tables with the sums of a public one, the worst grid of each.

    The hardest table comes first, and nothing more is tried once a pilot has failed.

    Parameters
    ----------
    public : array (cell)
        Any table with the public sums, such as the point that conditions are checked with; never the confidential one.
    work : float
        About how many products an attempt takes: where they are many, fewer attempts decide.
    """
    out: list[Pilot] = []
    tables = synthetic_tables(grids, public)
    n_attempts = int(np.clip(_WORK_OF_A_PILOT / max(work, 1.0), _FEWEST_ATTEMPTS, _MOST_ATTEMPTS))
    Attempts(PreparedGrid.of(grids[0], public), skips_refinement=True).trial(
        1, replay_rng("pilot")
    )  # the kernels are compiled or loaded
    for name in sorted(tables, key=_HARDEST_FIRST.index):
        table, start, worst, n_bytes = tables[name], time.thread_time(), (1, 1), 0
        for grid in grids:
            prepared = PreparedGrid.of(grid, table)
            attempts = Attempts(prepared, skips_refinement=True)
            attempts.trial(n_attempts, replay_rng(f"pilot {name}"), enough=_ENOUGH)
            worst = min(worst, (attempts.n_accepted, attempts.n_attempts), key=lambda pair: pair[0] / pair[1])
            n_bytes += prepared.n_bytes
        seconds = (time.thread_time() - start) / max(1, worst[0])
        out.append(Pilot(name, worst[1], worst[0], seconds, n_bytes))
        if not is_offered(out):
            break
    return out


def synthetic_tables(grids: Sequence[TwoWayGrid], public: Ints) -> dict[str, Ints]:
    """Return tables with the sums of a public one: itself, and where cells have lower limits some of other shapes.

    Sums that nothing holds are spread out, and in one table all in one place.
    """
    out = {"public": public}
    cells = [int(cell) for grid in grids for cell in grid.cells.ravel() if cell != NONE]
    if any(grids[0].system.lower[cell] is None for cell in cells):
        return out
    is_loose = any(not _is_held(grid, sums) for grid in grids for sums in (grid.rows, grid.columns))
    for shape in (*SHAPES, *(("crowded",) if is_loose else ())):
        table = public.copy()
        try:
            for number, grid in enumerate(grids):
                at = np.where(grid.cells != NONE, public[grid.cells], 0)
                sums = [_sums(grid, rows, at, axis, shape) for axis, rows in ((1, grid.rows), (0, grid.columns))]
                counts = synthetic_table(grid, sums[0], sums[1], shape, replay_rng(f"pilot {shape} {number}"))
                table[grid.cells[grid.cells != NONE]] = counts[grid.cells != NONE]
        except SamplingError:  # limits leave no table of this shape
            continue
        out[shape] = table
    return out


def _is_held(grid: TwoWayGrid, rows: Sequence[int]) -> bool:
    return any(row != NONE and grid.system.rows[row].kind in {"equal", "range"} for row in rows)


def _sums(grid: TwoWayGrid, rows: Sequence[int], at: Ints, axis: int, shape: str) -> Ints:
    """Return sums of rows or columns to aim at: those of a public table where one of them is held to them."""
    sums: Ints = at.sum(axis=axis)
    if _is_held(grid, rows):
        return sums
    n, whole = sums.size, int(sums.sum())
    spread: Ints = np.arange(n) == 0 if shape == "crowded" else whole // n + (np.arange(n) < whole % n)
    return whole * spread.astype(np.int64) if shape == "crowded" else spread


def is_offered(pilots: Sequence[Pilot]) -> bool:
    """Return whether the worst pilot was accepted often enough."""
    return min(pilot.acceptance for pilot in pilots) >= LEAST_ACCEPTANCE


def promised(pilots: Sequence[Pilot]) -> str:
    """Return what pilots promise, in a sentence."""
    rates = [f"{pilot.acceptance:.2g} ({pilot.name})" for pilot in pilots]
    slowest, size = max(pilot.seconds for pilot in pilots), max(pilot.n_bytes for pilot in pilots) / 2**20
    return (
        f"share of attempts accepted at made-up tables with the same public sums: {', '.join(rates)}; a draw takes"
        f" about {slowest:.2g} s and {size:.2g} MB at the slowest of them"
    )


def refusal(pilots: Sequence[Pilot]) -> str:
    """Return why a system is not offered, and the way out."""
    worst = min(pilots, key=lambda pilot: pilot.acceptance)
    return (
        f"rejection is out of reach: of {worst.n_attempts:,} attempts at a made-up {worst.name} table with the same"
        f" public sums {worst.n_accepted} went through, and {LEAST_ACCEPTANCE:.1%} are asked for. Gaussian noise with a"
        " budget in rho, one of the two families of sums left out or measured, fewer or merged levels and more budget"
        " make it likelier"
    )


MOST_WORK = 2e10
"""Products of a single attempt and its preparation, beyond which a system is refused."""

MOST_HALF = 2**14
"""How far a window may reach to each side: docs/claims/rejection.md, section 3, rounding."""

_ACCEPTED_A_TABLE = 5  # of an estimate: next to what tables differ by, its error is small from a rate of a half on

_SECONDS_A_PRODUCT = 2e-10  # 0.3 s for 50 x 50 cells at precision 1/2, 1.9e9 products


@dataclass(eq=False)
class TwoWayRejectionAt:
    """The sampler at one table. Confidential."""

    grids: tuple[TwoWayGrid, ...]
    centre: Ints = field(repr=False)
    always_refined: bool = False

    @cached_property
    def attempts(self) -> tuple[Attempts, ...]:
        """What the draws of each grid share, made once."""
        return tuple(Attempts(PreparedGrid.of(grid, self.centre), self.always_refined) for grid in self.grids)

    def sample(self, n_draws: int, rng: RandomStream) -> Ints:
        """Return independent draws (draw, cell)."""
        out = np.repeat(self.centre[None, :], n_draws, axis=0)
        for grid, attempts in zip(self.grids, self.attempts, strict=True):
            drawn = attempts.draw(n_draws, rng)
            rows, columns = np.nonzero(grid.cells != NONE)
            out[:, grid.cells[rows, columns]] += drawn[:, rows, columns]
        return out

    @property
    def acceptance(self) -> float:
        """Share of attempts accepted so far, the worst grid's. It depends on the table, so it is confidential."""
        return min((attempts.n_accepted / max(1, attempts.n_attempts) for attempts in self.attempts), default=1.0)

    @property
    def log_normaliser(self) -> float:
        """Refused: rejection knows it up to a simulation error only."""
        raise SamplingError(
            "the normaliser of a system that is drawn by rejection is known by simulation only, never exactly; see"
            " simulated_log_normaliser"
        )

    def simulated_log_normaliser(self, n_attempts: int, rng: RandomStream) -> tuple[float, float]:
        """Return ``log c(s)`` by simulation, with its Monte Carlo error (one standard deviation)."""
        estimates = [attempts.log_normaliser(n_attempts, rng) for attempts in self.attempts]
        return sum(value for value, _ in estimates), sqrt(sum(error * error for _, error in estimates))


@dataclass(frozen=True, eq=False)
class TwoWayRejection:
    """Row after row, each accepted with the chance that a bound of what follows leaves (docs/claims/rejection.md)."""

    system: System
    grids: tuple[TwoWayGrid, ...]

    name: ClassVar[str] = "look-ahead rejection"
    title: ClassVar[str] = "independent draw by look-ahead rejection, exact whatever the number of attempts"
    has_predictable_time: ClassVar[bool] = False

    @classmethod
    def of(cls, system: System) -> "TwoWayRejection | None":
        """Return the sampler of a system, or None where it is no grid; `why_not` has the reason."""
        grids = _grids(system)
        return None if isinstance(grids, str) else cls(system, grids)

    @property
    def work(self) -> float:
        """About how many products an attempt and its preparation take, whatever the table."""
        total = 0.0
        for grid in self.grids:
            halves = [_half(grid, cell) for cell in grid.cells.ravel().tolist()]
            halves += [window(weight) for weight in grid.weights_of_sums if not weight.is_flat]
            half = max(halves, default=1)
            n_rows, n_columns = grid.cells.shape
            message, sums = half * (2 + n_columns**0.5), half * (2 + n_rows**0.5)
            total += n_rows * n_columns * half * (message + 4 * sums)
        return total

    @cached_property
    def _half(self) -> int:
        """How far the longest window reaches."""
        weights = {weight for grid in self.grids for weight in grid.weights if not weight.is_flat}
        return max((window(weight) for weight in weights), default=1)

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
        return any(len(grid.rows) > 1 and any(column != NONE for column in grid.columns) for grid in self.grids)

    @property
    def is_dense(self) -> bool:
        """Whether some grid has four rows, four columns and half of its cells: contraction would open them all."""
        shapes = ((grid.cells != NONE) for grid in self.grids)
        return any(min(cells.shape) >= 4 and 2 * int(cells.sum()) >= cells.size for cells in shapes)

    def dry_run(self, points: Ints) -> str:
        """Make attempts at tables with the sums of public ones; the worst decides whether the system is offered."""
        self.check()
        pilots: list[Pilot] = []
        for point in points:
            pilots += run_pilots(self.grids, point, self.work)
            if not is_offered(pilots):
                raise SamplingError(refusal(pilots))
        return promised(sorted(pilots, key=lambda pilot: pilot.acceptance)[:3])

    def draw_each(self, centres: Ints, rng: Streams, *, n_threads: int = 1) -> Ints:
        """Return one draw for each of many tables (table, cell); repeated neighbours share their bounds."""
        out = np.empty_like(centres)
        if isinstance(rng, RandomStream):  # one stream: how many words a table takes is known afterwards only
            held: TwoWayRejectionAt | None = None
            for number, centre in enumerate(centres):
                held = held if held is not None and np.array_equal(held.centre, centre) else self.at(centre)
                out[number] = held.sample(1, rng)[0]
            return out

        def run(number: int) -> None:
            out[number] = self.at(centres[number]).sample(1, rng.stream(number))[0]

        with ThreadPoolExecutor(n_threads) as pool:
            list(pool.map(run, range(len(centres))))
        return out

    def at(self, centre: Ints) -> TwoWayRejectionAt:
        """Return the sampler at one table."""
        self.check()
        return TwoWayRejectionAt(self.grids, centre)

    def log_normalisers(self, centres: Ints, rng: RandomStream) -> Floats:
        """Return minus the log of an unbiased estimate of ``1 / c(s)`` for each of many tables (table, cell).

        Equal tables share their bounds, not their estimates.
        """
        distinct, row_of = distinct_rows(centres)
        out = np.empty(len(centres))
        for number, centre in enumerate(distinct):
            attempts = self.at(centre).attempts
            for place in np.flatnonzero(row_of == number):
                out[place] = -sum(drawer.log_inverse(_ACCEPTED_A_TABLE, rng) for drawer in attempts)
        return out


def _half(grid: TwoWayGrid, cell: int) -> int:
    if cell == NONE:
        return 1
    weight, low, high = grid.system.weights[cell], grid.system.lower[cell], grid.system.upper[cell]
    width = high - low if low is not None and high is not None else None
    return width or 1 if weight.is_flat else min(window(weight), width if width is not None else window(weight))


def why_not(system: System) -> str | None:
    """Return why a system is no grid, with the nearest that is one; None where it is."""
    grids = _grids(system)
    return grids if isinstance(grids, str) else None


@lru_cache(maxsize=64)
def _grids(system: System) -> tuple[TwoWayGrid, ...] | str:
    """Return the grids of a system, or why there are none; whoever chooses a sampler asks several times."""
    try:
        grids = grids_of(system)
    except NoGridError as error:
        return str(error)
    if cells_alone(system):
        return "look-ahead rejection takes cells that are in a sum each, and here a cell is in none; add total()"
    return grids
