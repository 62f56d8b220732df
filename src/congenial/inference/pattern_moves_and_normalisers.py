"""Small steps of the tables of one pattern, as arrays for the kernels: moves, limits, noise, surrogates for c(s)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, log, log2

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints, distinct_rows
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows_and_intervals import Column
from congenial.inference.chains_and_table_moves import TableMoves, kernel_basis
from congenial.inference.kernels_random_numbers import RandomBuffer, Steps
from congenial.randomness import RandomStream
from congenial.sampling.kernel_scaled_floats import NEVER
from congenial.sampling.sampler_and_registry import Sampler, choose_sampler
from congenial.sampling.target_and_system import Measured, System

# Normalisers by Fourier sums: c(s) where published sums tie groups of cells together in one way at most.
#
# The errors of a group's cells are independent but for the sums, so the law of their sum has the product of their
# transforms. Cells with equal counts share one, and a table is a count of counts: hundreds of cells cost as much as a
# few. With the sum of each group published, ``c(s) = prod_g R_g(0)``; with two sums that cross, as P12's do, ``c(s) =
# sum_y prod_g R_g(b_g y)`` over what they leave free. Each cell's error has a factor ``exp(tilt * error)``, which
# cancels, so that sums of 0 are likely and nothing is lost in rounding; where it is, the answer is NaN. Sums that are
# measured weigh the law of their own cells before it goes into the group's, if they are disjoint and inside groups.

_FOURIER_NATS = 34.0  # noise that is rarer is left out
_STEEPEST = 0.7  # of the rate at which noise falls
_LARGEST = 4_000_000  # numbers in the transforms of one group
_FEW_CELLS = 64  # so many transforms are added up as they are
_WORTH = 4  # cells a group; with fewer, the sampler's own way is as quick
_LEAST = 1e-7  # of the largest probability: what is less has too few digits left


@dataclass(frozen=True, eq=False)
class _CellKind:
    """Cells of a group with one noise and one limit, and the log transform of their errors by count above the limit."""

    cells: Ints
    lower: int
    block: int
    log_transform: NDArray[np.complex128]  # (count, frequency)

    def log_product(self, counts: Ints) -> NDArray[np.complex128]:
        """Return the log transform of the sum of these cells' errors, for each table."""
        above_limit = np.minimum(counts[:, self.cells] - self.lower, len(self.log_transform) - 1)
        if len(self.cells) <= _FEW_CELLS:
            return np.asarray(self.log_transform[above_limit].sum(axis=1))
        known, place = np.unique(above_limit, return_inverse=True)
        times = np.zeros((len(above_limit), len(known)))
        np.add.at(times, (np.arange(len(above_limit))[:, None], place.reshape(above_limit.shape)), 1.0)
        # Not by BLAS: its threads cost more than these few numbers do.
        return np.asarray(np.einsum("tk,kf->tf", times, self.log_transform[known]))


@dataclass(frozen=True, eq=False)
class _CellGroup:
    """Cells that the published sums cannot tell apart.

    Attributes
    ----------
    measured : mapping from block to the weight of its sum's error (error,)
        Blocks whose sums are measured too; the cells of block -1 are in none.
    """

    kinds: tuple[_CellKind, ...]
    measured: Mapping[int, Floats]

    def log_product(self, counts: Ints) -> NDArray[np.complex128]:
        """Return the log transform of the sum of all errors, for each table."""
        total = np.zeros((len(counts), self.kinds[0].log_transform.shape[1]), np.complex128)
        inside = {block: total.copy() for block in self.measured}
        for kind in self.kinds:
            log_sum = inside.get(kind.block, total)
            log_sum += kind.log_product(counts)
        for block, weight in self.measured.items():
            mass = inside[block][:, :1].real
            transform = np.fft.rfft(np.fft.irfft(np.exp(inside[block] - mass), axis=1) * weight, axis=1)
            total += mass + np.log(np.where(transform == 0, 1e-300, transform))
        return total


@dataclass(frozen=True, eq=False)
class FourierNormalisers:
    """Everything public that the sums need.

    Attributes
    ----------
    is_tied : tuple of bool
        Whether published sums say anything of each group.
    along : array (group,)
        By how much the sum of each group's errors changes along the one way that is free; zeros where none is.
    tilts : array (group,)
    log_fixed : float
        The log weight of cells with one value.
    """

    groups: tuple[_CellGroup, ...]
    is_tied: tuple[bool, ...]
    along: Ints
    tilts: Floats
    log_fixed: float

    @classmethod
    def of(cls, moving: "PatternSteps", reference: Ints) -> "FourierNormalisers | None":
        """Prepare for tables like a reference (cell); None for laws that need more than this."""
        system, steps = moving.system, moving.steps
        if any(row.kind == "range" for row in system.rows) or any(
            upper is not None and upper != lower for lower, upper in zip(system.lower, system.upper, strict=True)
        ):
            return None
        free = [cell for cell in range(system.n_cells) if system.upper[cell] is None]
        if not free or not (moving.reach[free] > 0).all() or not (steps.floor[free] > -NEVER).all():
            return None
        columns = {cell: column for column, cells in moving.constraints.alike.items() for cell in cells}
        members: dict[Column, list[int]] = {}
        for cell in free:
            members.setdefault(columns[cell], []).append(cell)
        along, blocks = _free_direction(members), _blocks(moving, members.values())
        if along is None or blocks is None or len(free) < _WORTH * len(members):
            return None
        is_tied = tuple(bool(column) for column in members)
        slope, groups, tilts = moving.tilts(np.maximum(reference, 0)[None, :]).slope[0], [], []
        for cells in members.values():
            tilt = _bounded_tilt(moving, cells, float(slope[steps.kind[cells[0]]])) if columns[cells[0]] else 0.0
            group = _group(moving, cells, tilt, blocks)
            if group is None:
                return None
            groups.append(group)
            tilts.append(tilt)
        fixed = [cell for cell in range(system.n_cells) if system.upper[cell] is not None]
        log_fixed = float(np.log(moving.zero_weights[fixed]).sum())
        return cls(tuple(groups), is_tied, along, np.array(tilts), log_fixed)

    def __call__(self, counts: Ints) -> Floats:
        """Return ``log c(s)`` of tables (table, cell); NaN where too few digits are left."""
        scale, laws = np.full(len(counts), self.log_fixed), []
        for group, is_tied in zip(self.groups, self.is_tied, strict=True):
            total = group.log_product(counts)
            mass = total[:, :1].real
            scale += mass[:, 0]
            if is_tied:
                laws.append(np.fft.irfft(np.exp(total - mass), axis=1))
        along = self.along[np.array(self.is_tied)]
        reach = min(law.shape[1] for law in laws) // 2 // max(1, int(np.abs(along).max())) - 1 if along.any() else 0
        ways = np.arange(-reach, reach + 1)
        log_tilt = -float(self.tilts @ self.along) * ways
        product = np.tile(np.exp(log_tilt - log_tilt.max()), (len(counts), 1))
        most = np.full(len(counts), np.exp(-log_tilt.max()))
        for law, by in zip(laws, along, strict=True):
            product *= np.maximum(law[:, by * ways], 0.0)
            most *= law.max(axis=1)
        sums = product.sum(axis=1)
        with np.errstate(divide="ignore"):
            return np.where(sums > _LEAST * most, scale + np.log(sums) + log_tilt.max(), np.nan)


def _free_direction(columns: Collection[Column]) -> Ints | None:
    """Return the one way in which sums of groups can move, zeros if there is none; None where there are more."""
    in_sums = [group for group, column in enumerate(columns) if column]
    basis = [line for line in kernel_basis(columns) if any(line[group] for group in in_sums)]
    if len(basis) > 1:
        return None
    return np.array(basis[0] if basis else [0] * len(columns), np.int64)


def _bounded_tilt(moving: "PatternSteps", cells: list[int], tilt: float) -> float:
    """Return a tilt under which the noise of all these cells still falls."""
    rates = [-float(moving.steps.linear[cell]) for cell in cells if moving.steps.quadratic[cell] == 0.0]
    most = _STEEPEST * min(rates, default=np.inf)
    return min(most, max(-most, tilt))


def _blocks(moving: "PatternSteps", groups: Iterable[list[int]]) -> dict[int, int] | None:
    """Return for each cell in a measured sum which one; None unless such sums are disjoint, each within a group."""
    block_of: dict[int, int] = {}
    place = {cell: number for number, cells in enumerate(groups) for cell in cells}
    rows = [row for row in moving.system.rows if row.kind == "soft"]
    for number, row in enumerate(rows):
        entries = [(cell, times) for cell, times in row.coefficients if cell in place]
        if len({place[cell] for cell, _ in entries}) > 1 or any(
            times != 1 or cell in block_of for cell, times in entries
        ):
            return None
        block_of |= {cell: number for cell, _ in entries}
    return block_of


def _group(moving: "PatternSteps", cells: list[int], tilt: float, blocks: Mapping[int, int]) -> _CellGroup | None:
    """Return the transforms of a group's cells, at as many frequencies as the spread of their sum needs."""
    steps = moving.steps
    of_kind: dict[tuple[int, int], list[int]] = {}
    for cell in cells:
        of_kind.setdefault((int(steps.kind[cell]), blocks.get(cell, -1)), []).append(cell)
    variance, longest, noises = 0.0, 0, []
    for members in of_kind.values():
        first = members[0]
        linear, quadratic = float(steps.linear[first]), float(steps.quadratic[first])
        reach = _tilted_reach(linear, quadratic, abs(tilt))
        error = np.arange(-reach, reach + 1)
        weight = np.exp(linear * np.abs(error) + quadratic * error**2 + tilt * error)
        variance += len(members) * float((weight * error**2).sum() / weight.sum())
        longest = max(longest, reach)
        noises.append((members, reach, error, weight, float(moving.zero_weights[first])))
    n_sums = 2 ** ceil(log2(2 * (10 * variance**0.5 + 2 * longest)))
    if n_sums * max(reach for _, reach, *_ in noises) > _LARGEST:
        return None
    frequency = 2 * np.pi * np.arange(n_sums // 2 + 1) / n_sums
    out = []
    for members, reach, error, weight, floor in noises:
        waves = weight[:, None] * np.exp(-1j * error[:, None] * frequency)
        above = np.cumsum(waves[::-1], axis=0)[::-1][: reach + 1][::-1]  # errors from -count on
        above = above + (floor - 1.0) * waves[: reach + 1][::-1]
        limit, block = int(steps.floor[members[0]]), blocks.get(members[0], -1)
        out.append(_CellKind(np.array(members, np.int64), limit, block, np.log(np.where(above == 0, 1e-300, above))))
    error = np.abs(np.fft.fftfreq(n_sums, 1 / n_sums))
    measured = {
        block: np.exp(steps.row_linear[block] * error + steps.row_quadratic[block] * error**2)
        for block in {kind.block for kind in out if kind.block >= 0}
    }
    return _CellGroup(tuple(out), measured)


def _tilted_reach(linear: float, quadratic: float, tilt: float) -> int:
    """Return how far noise goes against a tilt."""
    if quadratic:
        return int((tilt + (tilt**2 + 4 * -quadratic * _FOURIER_NATS) ** 0.5) / (2 * -quadratic)) + 1
    return int(_FOURIER_NATS / (-linear - tilt)) + 1


_NATS = 18.0  # noise that is rarer than exp(-18) makes no difference to a surrogate
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
class PatternSteps:
    """Steps of tables that share their rows and limits. Public.

    Attributes
    ----------
    has_normaliser : bool
        Whether how likely a release is depends on the table through c(s) too; not of measurements.
    """

    constraints: Constraints
    system: System
    has_normaliser: bool = True
    _prepared: list[FourierNormalisers | None] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of(
        cls, constraints: Constraints, measured: tuple[Measured, ...], *, has_normaliser: bool = True
    ) -> "PatternSteps":
        """Prepare the steps of tables with a pattern of constraints."""
        return cls(constraints, System.of(constraints, measured), has_normaliser)

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
    def zero_weights(self) -> Floats:
        """The weight of each cell's lower limit."""
        return np.array([float(weight.zero_weight) for weight in self.system.weights])

    @cached_property
    def _kinds(self) -> tuple[Ints, Ints]:
        """Which surrogate each cell has, and a cell of each kind: equal columns, noise and limits."""
        columns = {cell: column for column, cells in self.constraints.alike.items() for cell in cells}
        known: dict[object, int] = {}
        out = [
            known.setdefault((columns[i], self.system.weights[i], self.system.lower[i]), len(known))
            for i in range(self.system.n_cells)
        ]
        first = np.array([out.index(kind) for kind in range(len(known))], np.int64)
        return np.array(out, np.int64), first

    @cached_property
    def steps(self) -> Steps:
        """Everything public that the kernels need."""
        system = self.system
        linear = np.array([_log(float(weight.linear)) for weight in system.weights])
        quadratic = np.array([_log(float(weight.quadratic)) for weight in system.weights])
        rows = [row for row in system.rows if row.kind in {"soft", "range"}]
        columns: list[list[tuple[int, int]]] = [[] for _ in range(system.n_cells)]
        for number, row in enumerate(rows):
            for cell, coefficient in row.coefficients:
                columns[cell].append((number, coefficient))
        moves = TableMoves.of(self.constraints).members
        members = [member for move in moves for member in move]
        spread = np.array([_deviation(a, b) for a, b in zip(linear, quadratic, strict=True)])
        longest = [max(1, round(1.5 * max(float(spread[cells].max()) for cells, _ in move))) for move in moves]
        return Steps(
            move=np.cumsum([0, *map(len, moves)]).astype(np.int64),
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
            row_linear=np.array([_log(float(row.weight.linear)) for row in rows]),
            row_quadratic=np.array([_log(float(row.weight.quadratic)) for row in rows]),
            row_lower=np.array([-NEVER if row.lower is None else row.lower for row in rows], np.int64),
            row_upper=np.array([NEVER if row.upper is None else row.upper for row in rows], np.int64),
            kind=self._kinds[0],
            floor=np.array(
                [
                    -NEVER if end is None or weight.is_flat else end
                    for end, weight in zip(system.lower, system.weights, strict=True)
                ],
                np.int64,
            ),
        )

    def tilts(self, counts: Ints) -> Tilts:
        """Return surrogates for the normalisers of tables near these (table, cell)."""
        if not self.has_normaliser:
            n_kinds = len(self._kinds[1])
            return Tilts(np.zeros((len(counts), n_kinds, 1)), np.zeros((len(counts), n_kinds)))
        from congenial.inference.kernels_tables import settle  # numba: 0.3 s to import

        equalities = [row.coefficients for row in self.system.rows if row.kind == "equal"]
        first = self._kinds[1]
        longest = int(self.reach.max(initial=0)) + 1
        tilts = Tilts(np.zeros((len(counts), len(first), longest)), np.zeros((len(counts), len(first))))
        settle(
            self.steps,
            self.zero_weights,
            self.reach,
            np.cumsum([0, *map(len, equalities)]).astype(np.int64),
            np.array([cell for row in equalities for cell, _ in row], np.int64),
            np.array([weight for row in equalities for _, weight in row], np.int64),
            first,
            counts,
            tilts.log_mass,
            tilts.slope,
        )
        return tilts

    def move(
        self,
        counts: Ints,
        released: Ints,
        eta: Floats,
        tilts: Tilts,
        n_steps: int,
        buffer: RandomBuffer,
        *,
        has_noise: bool = True,
        has_counts: bool = True,
    ) -> tuple[Ints, Floats]:
        """Return tables (table, cell) after some small steps, and how much each surrogate has grown.

        Without noise steps keep the prior alone; without Poisson counts, all tables are alike.
        """
        from congenial.inference.kernels_tables import move_tables

        out, gain, done = counts.copy(), np.zeros(len(counts)), 0
        n_words = n_steps * (4 + int(np.diff(self.steps.move).max(initial=0)))
        while done < len(out):
            chance = buffer.at_least(n_words)
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
        if not self.has_normaliser:
            return np.zeros(len(counts))
        out = np.full(len(counts), np.nan)
        remaining = np.arange(len(counts))
        for number in range(_MOST_PREPARED):
            if number == len(self._prepared):
                self._prepared.append(FourierNormalisers.of(self, counts[remaining[0]]))
            by_fourier = self._prepared[number]
            if by_fourier is None:
                break
            out[remaining] = by_fourier(counts[remaining])
            remaining = remaining[np.isnan(out[remaining])]
            if not remaining.size:
                return out
        out[remaining] = self.sampler.log_normalisers(self.nearer(counts[remaining]), rng)
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
        distinct, places_of_distinct = distinct_rows(self.nearer(counts))
        order = np.argsort(places_of_distinct, kind="stable")
        edges = np.searchsorted(places_of_distinct[order], np.arange(len(distinct) + 1))
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
