"""Normalisers by Fourier sums: c(s) where published sums tie groups of cells together in one way at most.

The errors of a group's cells are independent but for the sums, so the law of their sum has the product of their
transforms. Cells with equal counts share one, and a table is a count of counts: hundreds of cells cost as much as a
few. With the sum of each group published, ``c(s) = prod_g R_g(0)``; with two sums that cross, as P12's do,
``c(s) = sum_y prod_g R_g(b_g y)`` over what they leave free. Each cell's error has a factor ``exp(tilt * error)``,
which cancels, so that sums of 0 are likely and nothing is lost in rounding; where it is, the answer is NaN. Sums that
are measured weigh the law of their own cells before it goes into the group's, if they are disjoint and inside groups.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil, log2
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.lattice import integer_solutions
from congenial.conditions.rows import Column
from congenial.sampling.kernels.codes import NEVER

if TYPE_CHECKING:
    from congenial.inference.moving import Moving

_NATS = 34.0  # noise that is rarer is left out
_STEEPEST = 0.7  # of the rate at which noise falls
_LARGEST = 4_000_000  # numbers in the transforms of one group
_FEW_CELLS = 64  # so many transforms are added up as they are
_WORTH = 4  # cells a group; with fewer, the sampler's own way is as quick
_LEAST = 1e-7  # of the largest probability: what is less has too few digits left


@dataclass(frozen=True, eq=False)
class _Kind:
    """Cells of a group with one noise and one limit, and the log transform of their errors by count above the limit."""

    cells: Ints
    lower: int
    block: int
    log_transform: NDArray[np.complex128]  # (count, frequency)

    def log_product(self, counts: Ints) -> NDArray[np.complex128]:
        """Return the log transform of the sum of these cells' errors, for each table."""
        own = np.minimum(counts[:, self.cells] - self.lower, len(self.log_transform) - 1)
        if len(self.cells) <= _FEW_CELLS:
            return np.asarray(self.log_transform[own].sum(axis=1))
        known, place = np.unique(own, return_inverse=True)
        times = np.zeros((len(own), len(known)))
        np.add.at(times, (np.arange(len(own))[:, None], place.reshape(own.shape)), 1.0)
        # Not by BLAS: its threads cost more than these few numbers do.
        return np.asarray(np.einsum("tk,kf->tf", times, self.log_transform[known]))


@dataclass(frozen=True, eq=False)
class _Group:
    """Cells that the published sums cannot tell apart.

    Attributes
    ----------
    measured : mapping from block to the weight of its sum's error (error,)
        Blocks whose sums are measured too; the cells of block -1 are in none.
    """

    kinds: tuple[_Kind, ...]
    measured: Mapping[int, Floats]

    def log_product(self, counts: Ints) -> NDArray[np.complex128]:
        """Return the log transform of the sum of all errors, for each table."""
        total = np.zeros((len(counts), self.kinds[0].log_transform.shape[1]), np.complex128)
        inside = {block: total.copy() for block in self.measured}
        for kind in self.kinds:
            own = inside.get(kind.block, total)
            own += kind.log_product(counts)
        for block, weight in self.measured.items():
            mass = inside[block][:, :1].real
            found = np.fft.rfft(np.fft.irfft(np.exp(inside[block] - mass), axis=1) * weight, axis=1)
            total += mass + np.log(np.where(found == 0, 1e-300, found))
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

    groups: tuple[_Group, ...]
    is_tied: tuple[bool, ...]
    along: Ints
    tilts: Floats
    log_fixed: float

    @classmethod
    def of(cls, moving: "Moving", reference: Ints) -> "FourierNormalisers | None":
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
        along, blocks = _along(members), _blocks(moving, members.values())
        if along is None or blocks is None or len(free) < _WORTH * len(members):
            return None
        is_tied = tuple(bool(column) for column in members)
        slope, groups, tilts = moving.tilts(np.maximum(reference, 0)[None, :]).slope[0], [], []
        for cells in members.values():
            tilt = _held(moving, cells, float(slope[steps.kind[cells[0]]])) if columns[cells[0]] else 0.0
            group = _group(moving, cells, tilt, blocks)
            if group is None:
                return None
            groups.append(group)
            tilts.append(tilt)
        fixed = [cell for cell in range(system.n_cells) if system.upper[cell] is not None]
        log_fixed = float(np.log(moving.floors[fixed]).sum())
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
        found = product.sum(axis=1)
        with np.errstate(divide="ignore"):
            return np.where(found > _LEAST * most, scale + np.log(found) + log_tilt.max(), np.nan)


def _along(columns: Iterable[Column]) -> Ints | None:
    """Return the one way in which sums of groups can move, zeros if there is none; None where there are more."""
    weights = [dict(column) for column in columns]
    rows = sorted({row for own in weights for row in own})
    equations = [({group: own[row] for group, own in enumerate(weights) if row in own}, 0) for row in rows]
    found = integer_solutions(equations, len(weights))
    tied = [group for group, own in enumerate(weights) if own]
    basis = [] if found is None else [line for line in found.basis if any(line[group] for group in tied)]
    if len(basis) > 1:
        return None
    return np.array(basis[0] if basis else [0] * len(weights), np.int64)


def _held(moving: "Moving", cells: list[int], tilt: float) -> float:
    """Return a tilt under which the noise of all these cells still falls."""
    rates = [-float(moving.steps.linear[cell]) for cell in cells if moving.steps.quadratic[cell] == 0.0]
    most = _STEEPEST * min(rates, default=np.inf)
    return min(most, max(-most, tilt))


def _blocks(moving: "Moving", groups: Iterable[list[int]]) -> dict[int, int] | None:
    """Return for each cell in a measured sum which one; None unless such sums are disjoint, each within a group."""
    found: dict[int, int] = {}
    place = {cell: number for number, cells in enumerate(groups) for cell in cells}
    rows = [row for row in moving.system.rows if row.kind == "soft"]
    for number, row in enumerate(rows):
        own = [(cell, times) for cell, times in row.coefficients if cell in place]
        if len({place[cell] for cell, _ in own}) > 1 or any(times != 1 or cell in found for cell, times in own):
            return None
        found |= {cell: number for cell, _ in own}
    return found


def _group(moving: "Moving", cells: list[int], tilt: float, blocks: Mapping[int, int]) -> _Group | None:
    """Return the transforms of a group's cells, at as many frequencies as the spread of their sum needs."""
    steps = moving.steps
    of_kind: dict[tuple[int, int], list[int]] = {}
    for cell in cells:
        of_kind.setdefault((int(steps.kind[cell]), blocks.get(cell, -1)), []).append(cell)
    variance, longest, noises = 0.0, 0, []
    for own in of_kind.values():
        first = own[0]
        linear, quadratic = float(steps.linear[first]), float(steps.quadratic[first])
        reach = _reach(linear, quadratic, abs(tilt))
        error = np.arange(-reach, reach + 1)
        weight = np.exp(linear * np.abs(error) + quadratic * error**2 + tilt * error)
        variance += len(own) * float((weight * error**2).sum() / weight.sum())
        longest = max(longest, reach)
        noises.append((own, reach, error, weight, float(moving.floors[first])))
    n_sums = 2 ** ceil(log2(2 * (10 * variance**0.5 + 2 * longest)))
    if n_sums * max(reach for _, reach, *_ in noises) > _LARGEST:
        return None
    frequency = 2 * np.pi * np.arange(n_sums // 2 + 1) / n_sums
    out = []
    for own, reach, error, weight, floor in noises:
        waves = weight[:, None] * np.exp(-1j * error[:, None] * frequency)
        above = np.cumsum(waves[::-1], axis=0)[::-1][: reach + 1][::-1]  # errors from -count on
        above = above + (floor - 1.0) * waves[: reach + 1][::-1]
        limit, block = int(steps.floor[own[0]]), blocks.get(own[0], -1)
        out.append(_Kind(np.array(own, np.int64), limit, block, np.log(np.where(above == 0, 1e-300, above))))
    error = np.abs(np.fft.fftfreq(n_sums, 1 / n_sums))
    measured = {
        block: np.exp(steps.row_linear[block] * error + steps.row_quadratic[block] * error**2)
        for block in {kind.block for kind in out if kind.block >= 0}
    }
    return _Group(tuple(out), measured)


def _reach(linear: float, quadratic: float, tilt: float) -> int:
    """Return how far noise goes against a tilt."""
    if quadratic:
        return int((tilt + (tilt**2 + 4 * -quadratic * _NATS) ** 0.5) / (2 * -quadratic)) + 1
    return int(_NATS / (-linear - tilt)) + 1
