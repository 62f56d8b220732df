"""Random workloads, and their least squares by dense algebra over the joint table."""

from itertools import combinations
from math import prod
from typing import NamedTuple

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.randomness import RandomStream
from congenial.rules.workload.margins import Axes, shape_of, spread
from congenial.rules.workload.measurements import Bools, ExactSum, WorkloadMeasurements


class Workload(NamedTuple):
    """A made-up joint table, and what is measured, exact and impossible."""

    joint: Ints
    axes: tuple[Axes, ...]
    variances: tuple[float, ...]
    exact: tuple[Axes, ...]
    exact_sums: tuple[tuple[Axes, Ints], ...]
    zeros: tuple[tuple[Axes, Bools], ...]

    def margin(self, axes: Axes) -> Ints:
        out: Ints = self.joint.sum(axis=tuple(axis for axis in range(self.joint.ndim) if axis not in axes))
        return out

    def measurements(self, noise: list[Ints], seed: bytes = bytes(32)) -> WorkloadMeasurements:
        return WorkloadMeasurements(
            self.joint.shape,
            self.axes,
            tuple(self.margin(axes) + errors for axes, errors in zip(self.axes, noise, strict=True)),
            self.variances,
            tuple((axes, self.margin(axes)) for axes in self.exact),
            tuple(
                ExactSum(axes, coefficients, int((coefficients * self.margin(axes)).sum()))
                for axes, coefficients in self.exact_sums
            ),
            self.zeros,
            seed,
        )


def normals(shape: tuple[int, ...], rng: RandomStream) -> Floats:
    n = prod(shape)
    radius = np.sqrt(-2 * np.log1p(-rng.uniforms(n)))
    out: Floats = (radius * np.cos(2 * np.pi * rng.uniforms(n))).reshape(shape)
    return out


def noise_of(workload: Workload, rng: RandomStream) -> list[Ints]:
    """Rounded Gaussian noise: its variance is larger by 1/12."""
    return [
        np.rint(normals(shape_of(workload.joint.shape, axes), rng) * variance**0.5).astype(np.int64)
        for axes, variance in zip(workload.axes, workload.variances, strict=True)
    ]


def drawn_workload(rng: RandomStream, *, tied: bool = False, mean: int = 6) -> Workload:
    """Return a random workload of three or four attributes; with structural zeros and exact sums if it is tied."""

    def below(bound: int, n: int = 1) -> list[int]:
        return [int(number) for number in rng.below(np.full(n, bound))]

    n_attributes = 3 + below(2)[0]
    sizes = tuple(2 + number for number in below(3, n_attributes))
    joint = np.array(below(2 * mean + 1, prod(sizes))).reshape(sizes)
    every = [axes for n in (1, 2, 3) for axes in combinations(range(n_attributes), n)]
    axes = tuple(dict.fromkeys(every[number] for number in below(len(every), 4)))
    absent = tuple(axis for axis in range(n_attributes) if not any(axis in some for some in axes))
    axes = (*axes, absent) if absent else axes
    variances = tuple(float(1 + number) for number in below(20, len(axes)))
    exact = tuple(dict.fromkeys(((), *(every[number] for number in below(n_attributes + 2, below(3)[0])))))
    zeros: tuple[tuple[Axes, Bools], ...] = ()
    sums: tuple[tuple[Axes, Ints], ...] = ()
    if tied:
        some = axes[below(len(axes))[0]]
        mask = np.array(below(4, prod(shape_of(sizes, some)))).reshape(shape_of(sizes, some)) == 0
        joint = np.where(np.broadcast_to(spread(mask, some, tuple(range(n_attributes))), sizes), 0, joint)
        zeros = ((some, mask),)
        other = axes[below(len(axes))[0]]
        sums = ((other, np.array(below(3, prod(shape_of(sizes, other)))).reshape(shape_of(sizes, other))),)
    return Workload(joint, axes, variances, exact if below(3)[0] else (), sums, zeros)


def rows_of(sizes: tuple[int, ...], axes: Axes) -> Floats:
    """Return the rows of a margin over the cells of the joint table (cell of the margin, cell)."""
    shape = shape_of(sizes, axes)
    numbers = np.broadcast_to(spread(np.arange(prod(shape)).reshape(shape), axes, tuple(range(len(sizes)))), sizes)
    rows: Floats = (np.arange(prod(shape))[:, None] == numbers.reshape(-1)).astype(float)
    return rows


class Dense(NamedTuple):
    """Least squares over the joint table: a map from measured values, constants, and the covariance of the cells."""

    estimates: Floats
    covariance: Floats


def dense_least_squares(measured: WorkloadMeasurements) -> Dense:
    """Return the joint table nearest to measurements that has all exact numbers; its measured margins are unique."""
    sizes = measured.sizes
    rows = np.concatenate([rows_of(sizes, axes) for axes in measured.axes])
    weights = np.concatenate([np.full(v.size, 1 / s) for v, s in zip(measured.values, measured.variances, strict=True)])
    values = np.concatenate([v.reshape(-1) for v in measured.values])
    held = [np.zeros((0, prod(sizes)))]
    numbers = [np.zeros(0)]
    for axes, table in measured.exact:
        held.append(rows_of(sizes, axes))
        numbers.append(table.reshape(-1).astype(float))
    for some in measured.exact_sums:
        held.append(some.coefficients.reshape(1, -1) @ rows_of(sizes, some.axes))
        numbers.append(np.array([float(some.value)]))
    for axes in measured.axes:
        barred = measured.zeros_in(axes).reshape(-1)
        held.append(rows_of(sizes, axes)[barred])
        numbers.append(np.zeros(int(barred.sum())))
    matrix, target = np.concatenate(held), np.concatenate(numbers)
    # Cells = a point with the exact numbers + directions that leave them as they are.
    _, singular, right = np.linalg.svd(matrix, full_matrices=True)
    rank = int((singular > 1e-9).sum())
    free = right[rank:].T
    point = np.linalg.lstsq(matrix, target, rcond=None)[0] if len(matrix) else np.zeros(prod(sizes))
    root = np.sqrt(weights)[:, None]
    inverse = np.linalg.pinv(root * (rows @ free), rcond=1e-10)
    cells = point + free @ (inverse @ (root[:, 0] * (values - rows @ point)))
    spread_ = free @ inverse
    return Dense(cells.reshape(sizes), spread_ @ spread_.T)
