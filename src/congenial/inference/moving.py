"""Small steps of the tables of one pattern, as arrays for the kernels: circuits, limits, noise, stand-ins for c(s)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import log

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints, distinct_rows
from congenial.conditions.constraints import Constraints
from congenial.inference.circuits import Circuits
from congenial.inference.fourier import FourierNormalisers
from congenial.inference.kernels.shapes import Steps
from congenial.inference.word_supply import WordSupply
from congenial.randomness import RandomStream
from congenial.sampling.choose import choose_sampler
from congenial.sampling.kernels.codes import NEVER
from congenial.sampling.sampler import Sampler
from congenial.sampling.system import System
from congenial.sampling.target import Measured

_NATS = 18.0  # noise that is rarer than exp(-18) makes no difference to a stand-in
_LONGEST_REACH = 400
_MOST_PREPARED = 6  # tables at which Fourier sums are prepared: of small areas, of large ones


@dataclass(frozen=True, eq=False)
class Tilts:
    """Stand-ins for the normalisers of some tables: a line for each count above the limit, and straight on from there.

    Attributes
    ----------
    log_mass : array (table, kind, count)
    slope : array (table, kind)
    """

    log_mass: Floats
    slope: Floats


@dataclass(frozen=True, eq=False)
class Moving:
    """Steps of tables that share their rows and limits. Public."""

    constraints: Constraints
    system: System
    _prepared: list[FourierNormalisers | None] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(cls, constraints: Constraints, measured: tuple[Measured, ...]) -> "Moving":
        """Prepare the steps of tables with a pattern of constraints."""
        return cls(constraints, System.of(constraints, measured))

    @cached_property
    def sampler(self) -> Sampler:
        """The exact sampler, for normalisers and releases."""
        return choose_sampler(self.system)

    @cached_property
    def is_open(self) -> NDArray[np.bool_]:
        """Cells that may hold somebody."""
        return np.array([end is None or end > 0 for end in self.system.upper])

    @cached_property
    def reach(self) -> Ints:
        """How far the noise of each cell goes; of one that is not measured, nowhere."""
        return np.array([_reach(a, b) for a, b in zip(self.steps.linear, self.steps.quadratic, strict=True)], np.int64)

    @cached_property
    def floors(self) -> Floats:
        """The weight of each cell's lower limit."""
        return np.array([float(fall.floor) for fall in self.system.falls])

    @cached_property
    def _kinds(self) -> tuple[Ints, Ints]:
        """Which stand-in each cell has, and a cell of each kind: equal columns, noise and limits."""
        columns = {cell: column for column, cells in self.constraints.alike.items() for cell in cells}
        known: dict[object, int] = {}
        out = [
            known.setdefault((columns[i], self.system.falls[i], self.system.lower[i]), len(known))
            for i in range(self.system.n_cells)
        ]
        first = np.array([out.index(kind) for kind in range(len(known))], np.int64)
        return np.array(out, np.int64), first

    @cached_property
    def steps(self) -> Steps:
        """Everything public that the kernels need."""
        system = self.system
        linear = np.array([_log(float(fall.linear)) for fall in system.falls])
        quadratic = np.array([_log(float(fall.quadratic)) for fall in system.falls])
        rows = [row for row in system.rows if row.kind in {"soft", "range"}]
        columns: list[list[tuple[int, int]]] = [[] for _ in range(system.n_cells)]
        for number, row in enumerate(rows):
            for cell, coefficient in row.coefficients:
                columns[cell].append((number, coefficient))
        circuits = Circuits.of(self.constraints).members
        members = [member for circuit in circuits for member in circuit]
        spread = np.array([_deviation(a, b) for a, b in zip(linear, quadratic, strict=True)])
        longest = [max(1, round(1.5 * max(float(spread[cells].max()) for cells, _ in circuit))) for circuit in circuits]
        return Steps(
            circuit=np.cumsum([0, *map(len, circuits)]).astype(np.int64),
            member=np.cumsum([0, *(len(cells) for cells, _ in members)]).astype(np.int64),
            cell=np.concatenate([cells for cells, _ in members]).astype(np.int64),
            weight=np.array([weight for _, weight in members], np.int64),
            longest=np.array(longest, np.int64),
            lower=np.array([max(0, end or 0) for end in system.lower], np.int64),
            upper=np.array([NEVER if end is None else end for end in system.upper], np.int64),
            linear=linear,
            quadratic=quadratic,
            column=np.cumsum([0, *map(len, columns)]).astype(np.int64),
            row=np.array([row for column in columns for row, _ in column], np.int64),
            coefficient=np.array([weight for column in columns for _, weight in column], np.int64),
            row_linear=np.array([_log(float(row.fall.linear)) for row in rows]),
            row_quadratic=np.array([_log(float(row.fall.quadratic)) for row in rows]),
            row_lower=np.array([-NEVER if row.lower is None else row.lower for row in rows], np.int64),
            row_upper=np.array([NEVER if row.upper is None else row.upper for row in rows], np.int64),
            kind=self._kinds[0],
            floor=np.array(
                [
                    -NEVER if end is None or fall.is_flat else end
                    for end, fall in zip(system.lower, system.falls, strict=True)
                ],
                np.int64,
            ),
        )

    def tilts(self, counts: Ints) -> Tilts:
        """Return stand-ins for the normalisers of tables near these (table, cell)."""
        from congenial.inference.kernels.tilt import settle  # numba: 0.3 s to import

        equalities = [row.coefficients for row in self.system.rows if row.kind == "equal"]
        first = self._kinds[1]
        longest = int(self.reach.max(initial=0)) + 1
        made = Tilts(np.zeros((len(counts), len(first), longest)), np.zeros((len(counts), len(first))))
        settle(
            self.steps,
            self.floors,
            self.reach,
            np.cumsum([0, *map(len, equalities)]).astype(np.int64),
            np.array([cell for row in equalities for cell, _ in row], np.int64),
            np.array([weight for row in equalities for _, weight in row], np.int64),
            first,
            counts,
            made.log_mass,
            made.slope,
        )
        return made

    def move(
        self,
        counts: Ints,
        released: Ints,
        eta: Floats,
        tilts: Tilts,
        n_steps: int,
        supply: WordSupply,
        *,
        has_noise: bool = True,
        has_counts: bool = True,
    ) -> tuple[Ints, Floats]:
        """Return tables (table, cell) after some small steps, and how much each stand-in has grown.

        Without noise steps keep the prior alone; without Poisson counts, all tables are alike.
        """
        from congenial.inference.kernels.table_moves import move_tables

        out, gain, done = counts.copy(), np.zeros(len(counts)), 0
        n_words = n_steps * (4 + int(np.diff(self.steps.circuit).max(initial=0)))
        while done < len(out):
            chance = supply.at_least(n_words)
            done = move_tables(
                self.steps,
                released,
                eta,
                has_noise,
                has_counts,
                tilts.log_mass,
                tilts.slope,
                n_steps,
                n_words,
                done,
                out,
                gain,
                chance,
            )
        return out, gain

    def log_normalisers(self, counts: Ints, rng: RandomStream) -> Floats:
        """Return ``log c(s)`` of tables (table, cell), or what stands for it.

        By Fourier sums where published sums allow it, prepared at tables as they come; else by the sampler, quickly
        where many cells are large.
        """
        out = np.full(len(counts), np.nan)
        left = np.arange(len(counts))
        for number in range(_MOST_PREPARED):
            if number == len(self._prepared):
                self._prepared.append(FourierNormalisers.of(self, counts[left[0]]))
            by_fourier = self._prepared[number]
            if by_fourier is None:
                break
            out[left] = by_fourier(counts[left])
            left = left[np.isnan(out[left])]
            if not left.size:
                return out
        out[left] = self.sampler.log_normalisers(self.nearer(counts[left]), rng)
        return out

    def nearer(self, counts: Ints) -> Ints:
        """Return tables (table, cell) whose releases are off by the same law, with fewer that differ.

        A cell farther from its only limit than the noise ever goes might as well be a little nearer: tables that differ
        in such cells alone have the same normaliser and the same errors, to a part in a million.
        """
        has_ends = any(end is not None for end in self.system.upper) or any(r.kind == "range" for r in self.system.rows)
        if has_ends or not (self.reach > 0).all():
            return counts
        far = np.array([NEVER if end is None else end for end in self.system.lower], np.int64) + 3 * self.reach // 4
        return np.asarray(np.minimum(counts, far))

    def errors(self, counts: Ints, n_releases: int, rng: RandomStream) -> Iterator[tuple[Ints, Ints]]:
        """Yield errors of releases of tables: places of some tables, and their errors (table, release, cell)."""
        distinct, which = distinct_rows(self.nearer(counts))
        order = np.argsort(which, kind="stable")
        edges = np.searchsorted(which[order], np.arange(len(distinct) + 1))
        for number, table in enumerate(distinct):
            places = order[edges[number] : edges[number + 1]]
            drawn = self.sampler.at(table).sample(n_releases * len(places), rng) - table
            yield places, drawn.reshape(len(places), n_releases, -1)


def _log(base: float) -> float:
    return log(base) if base > 0 else -NEVER


def _reach(linear: float, quadratic: float) -> int:
    if not linear and not quadratic:
        return 0
    by_line = _NATS / -linear if linear else float("inf")
    by_square = (_NATS / -quadratic) ** 0.5 if quadratic else float("inf")
    return int(min(by_line, by_square, _LONGEST_REACH)) + 1


def _deviation(linear: float, quadratic: float) -> float:
    """Return about how far noise goes; where none is measured, far enough to move."""
    if not linear and not quadratic:
        return 4.0
    reach = np.arange(-_LONGEST_REACH, _LONGEST_REACH + 1)
    weight = np.exp(np.maximum(linear * np.abs(reach) + quadratic * reach**2, -700.0))
    return float(np.sqrt((weight * reach**2).sum() / weight.sum()))
