"""Whether a system is within reach, from public facts: attempts at made-up tables with the public sums.

An even table, a sparse one, a corner and others; the worst decides. That is no bound over all tables. Nothing here has
seen a confidential table, so a pilot may give up, and say so. The seeds are public as well.
"""

import itertools
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Ints
from congenial.errors import SamplingError
from congenial.randomness import RandomStream, replay_rng
from congenial.sampling.look_ahead.attempts import Attempts
from congenial.sampling.look_ahead.grid import NONE, Grid
from congenial.sampling.look_ahead.grid_at import GridAt

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


def made_up(grid: Grid, line_sums: Ints, column_sums: Ints, shape: str, rng: RandomStream) -> Ints:
    """Return a table of a grid (line, column) with these sums; `shape` is even, sparse, corner, arrow or crowded.

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
        high[place] = min(line_sums[place[0]], column_sums[place[1]]) if most is None else most
    wish = _wish(is_there, line_sums, column_sums, shape, rng)
    lines, columns = line_sums - low.sum(axis=1), column_sums - low.sum(axis=0)
    out, room = np.zeros_like(low), np.maximum(high - low, 0)
    order = _order(lines, columns, shape, rng)
    for flat in order.tolist():
        i, j = divmod(flat, out.shape[1])
        step = min(int(wish[i, j]), int(room[i, j]), int(lines[i]), int(columns[j]))
        if step > 0:
            out[i, j] += step
            lines[i] -= step
            columns[j] -= step
    _fill(out, room, lines, columns)
    return out + low


def _order(lines: Ints, columns: Ints, shape: str, rng: RandomStream) -> Ints:
    """Return in which order cells are filled: for a corner any, for an arrow the largest line and column first."""
    places = np.arange(lines.size * columns.size).reshape(lines.size, columns.size)
    if shape == "corner":
        return np.asarray(rng.words(places.size).argsort())
    if shape != "arrow":
        return places.reshape(-1)
    is_first = (places // columns.size == lines.argmax()) | (places % columns.size == columns.argmax())
    return np.argsort(~is_first.reshape(-1), kind="stable")


def _wish(is_there: NDArray[np.bool_], lines: Ints, columns: Ints, shape: str, rng: RandomStream) -> Ints:
    if shape in {"corner", "arrow"}:
        return np.where(is_there, np.iinfo(np.int64).max, 0)
    even = lines[:, None] * (columns / max(1, columns.sum()))
    if shape == "sparse":
        kept = rng.uniforms(is_there.size).reshape(is_there.shape) < 0.2
        even = np.where(kept, 4 * even, 0)
    return np.where(is_there, np.floor(even), 0).astype(np.int64)


def _fill(out: Ints, room: Ints, lines: Ints, columns: Ints) -> None:
    """Send what lines still have to columns that still want it, along shortest paths of cells with room."""
    n_lines, _n_columns = out.shape
    while lines.max(initial=0) > 0:
        start = int(lines.argmax())
        came: dict[int, int] = {start: -1}
        queue, end = deque([start]), -1
        while queue and end < 0:
            node = queue.popleft()
            if node < n_lines:
                for j in np.flatnonzero(out[node] < room[node]).tolist():
                    if n_lines + j not in came:
                        came[n_lines + j] = node
                        queue.append(n_lines + j)
                        if columns[j] > 0:
                            end = n_lines + j
                            break
            else:
                for i in np.flatnonzero(out[:, node - n_lines] > 0).tolist():
                    if i not in came:
                        came[i] = node
                        queue.append(i)
        if end < 0:
            raise SamplingError("no table has these sums within the limits of its cells")
        path = [end]
        while came[path[-1]] >= 0:
            path.append(came[path[-1]])
        path.reverse()
        step = min(int(lines[start]), int(columns[end - n_lines]))
        for a, b in itertools.pairwise(path):
            step = min(
                step, int(room[a, b - n_lines] - out[a, b - n_lines]) if a < n_lines else int(out[b, a - n_lines])
            )
        for a, b in itertools.pairwise(path):
            if a < n_lines:
                out[a, b - n_lines] += step
            else:
                out[b, a - n_lines] -= step
        lines[start] -= step
        columns[end - n_lines] -= step


def run_pilots(grids: Sequence[Grid], public: Ints, work: float = 0.0) -> list[Pilot]:
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
    tables = made_up_tables(grids, public)
    n_attempts = int(np.clip(_WORK_OF_A_PILOT / max(work, 1.0), _FEWEST_ATTEMPTS, _MOST_ATTEMPTS))
    Attempts(GridAt.of(grids[0], public), gives_up_in_doubt=True).trial(
        1, replay_rng("pilot")
    )  # the kernels are compiled or loaded
    for name in sorted(tables, key=_HARDEST_FIRST.index):
        table, start, worst, n_bytes = tables[name], time.thread_time(), (1, 1), 0
        for grid in grids:
            prepared = GridAt.of(grid, table)
            attempts = Attempts(prepared, gives_up_in_doubt=True)
            attempts.trial(n_attempts, replay_rng(f"pilot {name}"), enough=_ENOUGH)
            worst = min(worst, (attempts.n_accepted, attempts.n_attempts), key=lambda pair: pair[0] / pair[1])
            n_bytes += prepared.n_bytes
        seconds = (time.thread_time() - start) / max(1, worst[0])
        out.append(Pilot(name, worst[1], worst[0], seconds, n_bytes))
        if not is_offered(out):
            break
    return out


def made_up_tables(grids: Sequence[Grid], public: Ints) -> dict[str, Ints]:
    """Return tables with the sums of a public one: itself, and where cells have lower limits some of other shapes.

    Sums that nothing holds are spread out, and in one table all in one place.
    """
    out = {"public": public}
    cells = [int(cell) for grid in grids for cell in grid.cells.ravel() if cell != NONE]
    if any(grids[0].system.lower[cell] is None for cell in cells):
        return out
    is_loose = any(not _is_held(grid, rows) for grid in grids for rows in (grid.lines, grid.columns))
    for shape in (*SHAPES, *(("crowded",) if is_loose else ())):
        table = public.copy()
        try:
            for number, grid in enumerate(grids):
                at = np.where(grid.cells != NONE, public[grid.cells], 0)
                sums = [_sums(grid, rows, at, axis, shape) for axis, rows in ((1, grid.lines), (0, grid.columns))]
                made = made_up(grid, sums[0], sums[1], shape, replay_rng(f"pilot {shape} {number}"))
                table[grid.cells[grid.cells != NONE]] = made[grid.cells != NONE]
        except SamplingError:  # limits leave no table of this shape
            continue
        out[shape] = table
    return out


def _is_held(grid: Grid, rows: Sequence[int]) -> bool:
    return any(row != NONE and grid.system.rows[row].kind in {"equal", "range"} for row in rows)


def _sums(grid: Grid, rows: Sequence[int], at: Ints, axis: int, shape: str) -> Ints:
    """Return sums of lines or columns to aim at: those of a public table where one of them is held to them."""
    sums: Ints = at.sum(axis=axis)
    if _is_held(grid, rows):
        return sums
    n, whole = sums.size, int(sums.sum())
    spread: Ints = np.arange(n) == 0 if shape == "crowded" else whole // n + (np.arange(n) < whole % n)
    return whole * spread.astype(np.int64) if shape == "crowded" else spread


def is_offered(found: Sequence[Pilot]) -> bool:
    """Return whether the worst pilot was accepted often enough."""
    return min(pilot.acceptance for pilot in found) >= LEAST_ACCEPTANCE


def promised(found: Sequence[Pilot]) -> str:
    """Return what pilots promise, in a sentence."""
    rates = [f"{pilot.acceptance:.2g} ({pilot.name})" for pilot in found]
    slowest, size = max(pilot.seconds for pilot in found), max(pilot.n_bytes for pilot in found) / 2**20
    return (
        f"share of attempts accepted at made-up tables with the same public sums: {', '.join(rates)}; a draw takes"
        f" about {slowest:.2g} s and {size:.2g} MB at the slowest of them"
    )


def refusal(found: Sequence[Pilot]) -> str:
    """Return why a system is not offered, and the way out."""
    worst = min(found, key=lambda pilot: pilot.acceptance)
    return (
        f"rejection is out of reach: of {worst.n_attempts:,} attempts at a made-up {worst.name} table with the same"
        f" public sums {worst.n_accepted} went through, and {LEAST_ACCEPTANCE:.1%} are asked for. Gaussian noise with a"
        " budget in rho, one of the two families of sums left out or measured, fewer or merged levels and more budget"
        " make it likelier"
    )
