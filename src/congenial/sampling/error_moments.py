"""Bias and root mean squared error of sums of cells, computed without a draw where that is quick.

Cells with equal columns act on all rows through their sum alone. Given these sums the groups are independent, and the
law of a part of a group given the group's sum comes from convolutions. What is left is an average over the sums that
the equalities allow, which is short when they leave few degrees of freedom.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.grouped_cells_and_lattice import integer_solutions
from congenial.conditions.rows_and_intervals import Row
from congenial.noise import NoiseWeight
from congenial.progress_and_interrupts import checkpoint
from congenial.sampling.elimination.merging import Rows
from congenial.sampling.elimination.windows import half_width
from congenial.sampling.target_and_system import System, SystemRow

_NATS = 45.0  # what has a chance below exp(-45) changes no digit that is shown
_LONGEST = 2**16  # entries of a group's sum
_MOST_SUMS = 2_000_000  # combinations of sums in a component
_TOO_RARE = 1e-6  # of the largest weight: transforms are accurate to about 1e-16 of it


class _Reach(NamedTuple):
    """A cell's weights, and how far it can go below and above its centre."""

    weight: NoiseWeight
    below: int
    above: int
    has_limit: bool


class ErrorMoments(NamedTuple):
    """Of each statistic (statistic,): its mean error, and its root mean squared error."""

    bias: Floats
    size: Floats


class _NotQuickError(Exception):
    """The system is too large or too rare for this way; draws will do."""


def exact_errors(system: System, centre: Ints, statistics: Sequence[Row]) -> ErrorMoments | None:
    """Return bias and root mean squared error of each statistic around a public table; None where draws are better.

    Parameters
    ----------
    statistics : sequence of Row
        Plain sums of cells.
    """
    try:
        return _MomentComputation(system, centre).of(statistics)
    except _NotQuickError:
        return None


@dataclass(frozen=True)
class _Component:
    """Groups that rows connect: their sums (combination, group) as deviations, and the probability of each."""

    groups: tuple[int, ...]
    sums: Ints
    probabilities: Floats


class _MomentComputation:
    def __init__(self, system: System, centre: Ints) -> None:
        self.system, self.centre = system, centre
        self.groups = system.groups
        self.columns = [dict(system.columns[cells[0]]) for cells in self.groups]
        self.group_of = {cell: number for number, cells in enumerate(self.groups) for cell in cells}
        reaches = [self._reach(cell) for cell in range(system.n_cells)]
        self.reaches = list(dict.fromkeys(reaches))
        number = {reach: kind for kind, reach in enumerate(self.reaches)}
        self.kinds = [number[reach] for reach in reaches]  # numbers, because bases are fractions and compare slowly
        self.transforms: dict[tuple[int, int], NDArray[np.complex128]] = {}
        self.messages = [self._message(cells) for cells in self.groups]
        rows = Rows(tuple(row.kind for row in system.rows), tuple(self.columns))
        self.components = [self._component(groups) for groups in rows.components]

    def _reach(self, cell: int) -> _Reach:
        weight, value = self.system.weights[cell], int(self.centre[cell])
        low, high = self.system.lower[cell], self.system.upper[cell]
        reach = half_width([(weight, 1)], _NATS)
        if reach is None:  # a cell that is not measured
            raise _NotQuickError
        below, above = (reach if end is None else min(abs(end - value), reach) for end in (low, high))
        if below + above > _LONGEST:
            raise _NotQuickError
        return _Reach(weight, int(below), int(above), low is not None and int(below) == value - low)

    def _span(self, cells: Sequence[int]) -> tuple[int, int]:
        """Return the least deviation of a sum of cells, and how many values it has."""
        reaches = [self.reaches[self.kinds[cell]] for cell in cells]
        below, above = sum(reach.below for reach in reaches), sum(reach.above for reach in reaches)
        if below + above >= _LONGEST:
            raise _NotQuickError
        return -below, below + above + 1

    def _transform(self, cells: Sequence[int], size: int) -> NDArray[np.complex128]:
        """Return the Fourier transform of the weights of a sum of cells, from its least value on."""
        out = np.ones(size // 2 + 1, np.complex128)
        for kind, times in Counter(self.kinds[cell] for cell in cells).items():
            if (kind, size) not in self.transforms:
                self.transforms[kind, size] = np.fft.rfft(_weights_of(self.reaches[kind]), size)
            out = out * self.transforms[kind, size] ** times
        return out

    def _weights(self, cells: Sequence[int]) -> tuple[int, Floats]:
        least, length = self._span(cells)
        if len(cells) == 1:
            return least, _weights_of(self.reaches[self.kinds[cells[0]]])
        size = 1 << (length - 1).bit_length() if length > 1 else 2
        return least, np.maximum(np.fft.irfft(self._transform(cells, size), size)[:length], 0.0)

    def _message(self, cells: Sequence[int]) -> tuple[int, Floats]:
        least, weights = self._weights(cells)
        return least, weights / weights.max()

    def _component(self, groups: tuple[int, ...]) -> _Component:
        """Go through the sums that the equalities allow; limits and measured sums weigh them."""
        place = {group: position for position, group in enumerate(groups)}
        rows = sorted({row for group in groups for row in self.columns[group]})
        forms = {row: {place[g]: self.columns[g][row] for g in groups if row in self.columns[g]} for row in rows}
        equal = [(forms[row], 0) for row in rows if self.system.rows[row].kind == "equal"]
        solutions = integer_solutions(equal, len(groups))
        basis = () if solutions is None else solutions.basis
        sums = self._combinations(groups, basis)
        log_weights = np.zeros(len(sums))
        for position, group in enumerate(groups):
            least, message = self.messages[group]
            with np.errstate(divide="ignore"):
                log_weights += np.log(message[sums[:, position] - least])
        for row in rows:
            values = sums @ np.array([forms[row].get(position, 0) for position in range(len(groups))])
            log_weights += self._log_row(self.system.rows[row], values, row)
        if not len(log_weights) or log_weights.max() < log(_TOO_RARE):
            raise _NotQuickError
        weights = np.exp(log_weights - log_weights.max())
        return _Component(groups, sums, weights / weights.sum())

    def _log_row(self, row: SystemRow, values: Ints, number: int) -> Floats:
        if row.kind == "soft":
            return np.asarray(row.weight.log_at(np.abs(values).astype(np.float64)))
        if row.kind == "range":
            at_centre = sum(times * int(self.centre[cell]) for cell, times in self.system.rows[number].coefficients)
            inside = np.ones(len(values), bool)
            if row.lower is not None:
                inside &= values + at_centre >= row.lower
            if row.upper is not None:
                inside &= values + at_centre <= row.upper
            return np.where(inside, 0.0, -np.inf)
        return np.zeros(len(values))

    def _combinations(self, groups: tuple[int, ...], basis: Sequence[tuple[int, ...]]) -> Ints:
        """Return all sums (combination, group) in their windows: each basis vector has a place that later ones lack."""
        windows = [(least, least + len(message) - 1) for least, message in (self.messages[group] for group in groups)]
        sums = np.zeros((1, len(groups)), np.int64)
        for number, vector in enumerate(basis):
            checkpoint()
            line = np.array(vector, np.int64)
            later = np.array(basis[number + 1 :], np.int64).reshape(-1, len(groups))
            settled = np.flatnonzero((line != 0) & ~later.any(axis=0))
            if not len(settled):
                raise _NotQuickError
            # Where no later vector reaches, the sum must lie in its window now: that limits the steps of each line.
            first, last = np.full(len(sums), -_LONGEST), np.full(len(sums), _LONGEST)
            for position in settled.tolist():
                low, high = (end - sums[:, position] for end in windows[position])
                times = int(line[position])
                ends = (low, high) if times > 0 else (-high, -low)
                first = np.maximum(first, -(-ends[0] // abs(times)))
                last = np.minimum(last, ends[1] // abs(times))
            counts = np.maximum(last - first + 1, 0)
            if int(counts.sum()) > _MOST_SUMS:
                raise _NotQuickError
            parent = np.repeat(np.arange(len(sums)), counts)
            steps = np.arange(len(parent)) - np.repeat(np.cumsum(counts) - counts, counts) + first[parent]
            sums = sums[parent] + steps[:, None] * line
        inside = np.ones(len(sums), bool)
        for position, (start, end) in enumerate(windows):
            inside &= (sums[:, position] >= start) & (sums[:, position] <= end)
        return sums[inside]

    def of(self, statistics: Sequence[Row]) -> ErrorMoments:
        """Return the errors of each statistic."""
        known: dict[object, tuple[float, float]] = {}
        out = []
        for row in statistics:
            by_group: dict[int, list[int]] = {}
            for cell in row.cells:
                by_group.setdefault(self.group_of[cell], []).append(cell)
            key = frozenset(
                (group, frozenset(Counter(self.kinds[c] for c in cells).items())) for group, cells in by_group.items()
            )
            if key not in known:
                known[key] = self._error(by_group)
            out.append(known[key])
        return ErrorMoments(*np.array(out).reshape(-1, 2).T)

    def _error(self, by_group: dict[int, list[int]]) -> tuple[float, float]:
        mean = variance = 0.0
        for component in self.components:
            touched = [group for group in component.groups if group in by_group]
            if not touched:
                continue
            means, variances = np.zeros(len(component.sums)), np.zeros(len(component.sums))
            for group in touched:
                sums = component.sums[:, component.groups.index(group)]
                own_mean, own_variance = self._moments(group, by_group[group], sums)
                means, variances = means + own_mean, variances + own_variance
            chances = component.probabilities
            average = float(chances @ means)
            mean += average
            variance += float(chances @ (variances + (means - average) ** 2))
        return mean, sqrt(max(mean**2 + variance, 0.0))

    def _moments(self, group: int, cells: Sequence[int], sums: Ints) -> tuple[Floats, Floats]:
        """Return mean and variance of the deviation of some cells of a group, given the group's sum."""
        rest = [cell for cell in self.groups[group] if cell not in set(cells)]
        if not rest:
            return sums.astype(np.float64), np.zeros(len(sums))
        least, weights = self._weights(cells)
        whole_least, length = self._span(self.groups[group])
        size = 1 << (length - 1).bit_length()
        others = self._transform(rest, size)
        v = np.arange(least, least + len(weights)).astype(np.float64)
        powers = np.stack([weights, weights * v, weights * v**2])
        zeroth, first, second = np.fft.irfft(np.fft.rfft(powers, size) * others, size)[:, sums - whole_least]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean, square = first / zeroth, second / zeroth
        rare = zeroth <= 1e-13 * np.abs(zeroth).max()  # no digit of these is right, and they hardly ever come
        mean, square = np.where(rare, 0.0, mean), np.where(rare, 0.0, square)
        return mean, np.maximum(square - mean**2, 0.0)


def _weights_of(reach: _Reach) -> Floats:
    """Return the weights of a cell's deviations, from its least on."""
    weight, below, above, has_limit = reach
    out: Floats = np.exp(weight.log_at(np.abs(np.arange(-below, above + 1)).astype(np.float64)))
    out[0] *= float(weight.zero_weight) if has_limit else 1.0
    return out
