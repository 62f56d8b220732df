"""Generalised least squares of several margins in closed form, by orthogonal components: no joint table is needed.

The component of a table T for some attributes U of its own is what is left of the margin of U when the mean is taken
away along each of its axes. Components of different attributes are orthogonal, and every table is a sum of them::

    precision_U = sum over measured S with U inside:  w_S / prod of sizes in S outside U     (infinite if U is exact)
    c_U = sum over S:  (w_S / prod of sizes in S outside U) component_U(n_S) / precision_U
    T_V = sum over U inside V:  c_U / prod of sizes in V outside U

with ``w_S`` one over the variance of a cell's noise. Where a margin is exact, its components are those of the exact
table, and measurements say nothing of them: so it does not matter whether noise was conditioned on exact margins, which
takes it out of these components and leaves its law in the others.

Structural zeros inside a measured table, and exact sums that are no whole margins, tie components together. The
estimates that have them are the same ones less ``C A' (A C A')^-1 (A y - a)``, with ``C`` the covariance of `y` and one
row of `A` for each such sum: the multipliers are found by conjugate gradients, with products by components. All sums
of doubles have a fixed order, so that estimates are the same doubles on every machine. Variances are not: they decide
nothing, and NumPy's algebra computes them where there are such sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isinf, prod

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats
from congenial.errors import ConditionError, TooLargeError
from congenial.progress_and_interrupts import checkpoint
from congenial.rules.workload.margins import Axes, dot, shape_of, spread, subsets, sum_onto
from congenial.rules.workload.measurements import MeasuredTable, WorkloadMeasurements

Components = dict[Axes, Floats]

MOST_TIED = 3_000
"""As many sums that tie components together go into variances; with more of them variances are upper bounds."""

_NEAR_ZERO = 1e-12
_TOLERANCE = 1e-12  # of conjugate gradients: the misfit that is left, over the first one
_MOST_STEPS = 5_000


def components_of(table: Floats, axes: Axes) -> Components:
    """Return the components of a table, for each subset of its attributes.

    Examples
    --------
    >>> parts = components_of(np.array([[1.0, 2.0], [3.0, 6.0]]), (0, 1))
    >>> {axes: part.tolist() for axes, part in parts.items()}
    {(): 12.0, (0,): [-3.0, 3.0], (1,): [-2.0, 2.0], (0, 1): [[0.5, -0.5], [-0.5, 0.5]]}
    """
    parts: dict[Axes, tuple[Axes, Floats]] = {(): (axes, np.asarray(table, np.float64))}
    for axis in reversed(axes):
        split: dict[Axes, tuple[Axes, Floats]] = {}
        for kept, (there, part) in parts.items():
            rest = tuple(other for other in there if other != axis)
            sums = sum_onto(part, there, rest)
            split[kept] = rest, sums
            split[axis, *kept] = there, part - spread(sums, rest, there) / part.shape[there.index(axis)]
        parts = split
    return {kept: part for kept, (_, part) in parts.items()}


def assemble(parts: Components, axes: Axes, sizes: Sequence[int]) -> Floats:
    """Return the table of some attributes from its components; those that are absent count as 0.

    Examples
    --------
    >>> assemble({(): np.array(12.0), (1,): np.array([-2.0, 2.0])}, (0, 1), (2, 2)).tolist()
    [[2.0, 4.0], [2.0, 4.0]]
    """
    sums = {some: spread(parts[some], some, axes) for some in subsets(axes) if some in parts}
    for axis in axes:
        without: Components = {}
        for some, part in sums.items():
            rest = tuple(other for other in some if other != axis)
            term = part if len(rest) < len(some) else part / sizes[axis]
            without[rest] = without[rest] + term if rest in without else term
        sums = without
    table = sums.get((), np.zeros(()))
    return np.broadcast_to(table, shape_of(sizes, axes)).copy()


@dataclass(frozen=True, eq=False)
class _TiedRows:
    """Sums that tie components together, all of one table: one weighted sum of its cells, or single cells that are 0.

    Attributes
    ----------
    axes : tuple of int
    coefficients : array of float, or None
        Of the one sum.
    cells : array of int
        Otherwise the cells, as numbers in the flat table.
    values : array of float
    """

    axes: Axes
    coefficients: Floats | None
    cells: NDArray[np.int64]
    values: Floats

    def of(self, table: Floats) -> Floats:
        """Return the sums of a table."""
        if self.coefficients is None:
            cells: Floats = table.reshape(-1)[self.cells]
            return cells
        return np.array([dot(self.coefficients.reshape(-1), np.ascontiguousarray(table).reshape(-1))])

    def table(self, multipliers: Floats, shape: tuple[int, ...]) -> Floats:
        """Return the sum of the rows with these multipliers, as a table."""
        if self.coefficients is not None:
            return self.coefficients * float(multipliers[0])
        table = np.zeros(prod(shape))
        table[self.cells] = multipliers
        return table.reshape(shape)


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """The least squares of measured tables with exact numbers: what does not depend on measured values.

    Attributes
    ----------
    sizes : tuple of int
    tables : tuple of tuple of int
        Attributes of the measured tables, each once.
    precisions : dict
        Of each component, infinite if it is exact.
    shares : tuple of dict
        For each table, how much its own component counts.
    exact : dict
        Components that are exact.
    tied : tuple
        Sums that tie components together.
    """

    sizes: tuple[int, ...]
    tables: tuple[Axes, ...]
    precisions: dict[Axes, float]
    shares: tuple[dict[Axes, float], ...] = field(repr=False)
    exact: Components = field(repr=False)
    tied: tuple[_TiedRows, ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls,
        measurements: WorkloadMeasurements,
        measured: Sequence[MeasuredTable] | None = None,
        *,
        with_zeros: bool = True,
    ) -> "LeastSquares":
        """Return the least squares of some measurements; structural zeros as exact cells unless they are left out.

        Parameters
        ----------
        measured : sequence of MeasuredTable, optional
            Other tables than those of the measurements, each once.

        Examples
        --------
        >>> values = np.array([[5, 2], [1, 4]]), np.array([8, 7])
        >>> measured = WorkloadMeasurements((2, 2), ((0, 1), (1,)), values, (1.0, 2.0), (((), np.array(13)),))
        >>> least = LeastSquares.of(measured)
        >>> estimates = least.estimates(values)
        >>> estimates.table((0, 1)).tolist()
        [[5.375, 2.125], [1.375, 4.125]]
        >>> estimates.table((1,)).tolist(), estimates.variance((1,)), estimates.variance((0, 1), np.eye(2, dtype=int))
        ([6.75, 6.25], 0.5, 1.0)
        """
        sizes = measurements.sizes
        measured = measurements.measured() if measured is None else measured
        exact: Components = {}
        for axes, table in measurements.exact:
            exact |= components_of(table.astype(np.float64), axes)
        precisions = dict.fromkeys(exact, inf)
        own: list[dict[Axes, float]] = []
        for one in measured:
            weights = {part: one.precision / _outside(sizes, one.axes, part) for part in subsets(one.axes)}
            own.append({part: weight for part, weight in weights.items() if part not in exact})
            for part, weight in own[-1].items():
                precisions[part] = precisions.get(part, 0.0) + weight
        shares = tuple({part: weight / precisions[part] for part, weight in some.items()} for some in own)
        tables = tuple(one.axes for one in measured)
        tied = _tied_rows(measurements, tables, set(precisions), with_zeros)
        return cls(sizes, tables, precisions, shares, exact, tied)

    def estimates(self, values: Sequence[NDArray[np.generic]]) -> "Estimates":
        """Return the estimates for some values of the measured tables."""
        parts = dict(self.exact)
        for axes, shares, table in zip(self.tables, self.shares, values, strict=True):
            for part, component in components_of(table.astype(np.float64), axes).items():
                if part in shares:
                    term = shares[part] * component
                    parts[part] = parts[part] + term if part in parts else term
        if self.tied:
            lacking = self._tied_sums(parts) - np.concatenate([rows.values for rows in self.tied])
            shift = self._spread_by_covariance(self._multipliers(lacking))
            parts |= {part: parts[part] - term for part, term in shift.items()}
        return Estimates(self, parts)

    def _tied_sums(self, parts: Components) -> Floats:
        tables: dict[Axes, Floats] = {}
        for rows in self.tied:
            if rows.axes not in tables:
                tables[rows.axes] = assemble(parts, rows.axes, self.sizes)
        return np.concatenate([rows.of(tables[rows.axes]) for rows in self.tied])

    def spread(self, query: Floats, axes: Axes) -> Components:
        """Return the components by which a weighted sum of a table's cells goes with all others: covariances."""
        return {
            part: component / (_outside(self.sizes, axes, part) * self.precisions[part])
            for part, component in components_of(query, axes).items()
            if not isinf(self.precisions.get(part, inf))
        }

    def _spread_by_covariance(self, multipliers: Floats) -> Components:
        parts: Components = {}
        first = 0
        for rows in self.tied:
            end = first + len(rows.values)
            query = rows.table(multipliers[first:end], shape_of(self.sizes, rows.axes))
            for part, component in self.spread(query, rows.axes).items():
                parts[part] = parts[part] + component if part in parts else component
            first = end
        return parts

    def _multipliers(self, lacking: Floats) -> Floats:
        """Return multipliers of the tied sums that make good what they lack, by conjugate gradients."""
        multipliers = np.zeros(len(lacking))
        rest, direction = lacking, lacking
        size = dot(rest, rest)
        # What is exact and right lacks nothing but rounding errors, which are of the size of the numbers themselves.
        scale = max(1.0, *(float(np.abs(rows.values).max(initial=0.0)) for rows in self.tied))
        least = max(_TOLERANCE * _TOLERANCE * size, _TOLERANCE * scale * _TOLERANCE * scale * len(lacking))
        for step in range(_MOST_STEPS):
            if size <= least:
                return multipliers
            checkpoint()
            product = self._tied_sums_of_shift(direction)
            curvature = dot(direction, product)
            if curvature <= _NEAR_ZERO * dot(direction, direction) * self._least_variance:
                break
            length = size / curvature
            multipliers = multipliers + length * direction
            rest = rest - length * product
            new = dot(rest, rest)
            direction = rest + (new / size) * direction
            size = new
            if step > len(lacking) + 50 and size <= 1e-14 * dot(lacking, lacking):
                return multipliers
        raise ConditionError(
            f"the exact sums and structural zeros contradict the exact margins: they differ by {size**0.5:.3g} whatever"
            " the measurements; correct one of the numbers"
        )

    @property
    def _least_variance(self) -> float:
        return 1 / max(precision for precision in self.precisions.values() if not isinf(precision))

    def _tied_sums_of_shift(self, multipliers: Floats) -> Floats:
        shift = self._spread_by_covariance(multipliers)
        return self._tied_sums(shift)

    @cached_property
    def _tied_root(self) -> Floats:
        """A root of the inverse of the covariance of all tied sums (sum, direction), for variances."""
        n = sum(len(rows.values) for rows in self.tied)
        covariance = np.stack([self._tied_sums_of_shift(row) for row in np.eye(n)])
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        is_open = values > values.max(initial=0.0) * 1e-11
        root: Floats = vectors[:, is_open] / np.sqrt(values[is_open])
        return root

    @property
    def n_tied(self) -> int:
        """How many sums tie components together; of cells that are 0, some may follow from others."""
        return sum(len(rows.values) for rows in self.tied)

    def knows(self, axes: Axes) -> bool:
        """Return whether all components of a table were measured or are exact."""
        return all(part in self.precisions for part in subsets(axes))

    def symmetric_variance(self, axes: Axes) -> float:
        """Return the variance of a cell of a table's estimates as if nothing tied components together: an upper bound.

        The same double on every machine.
        """
        variance = 0.0
        for part in subsets(axes):  # one after the other: the sum of Python depends on its version
            outside = _outside(self.sizes, axes, part)
            variance += prod(1 - 1 / self.sizes[axis] for axis in part) / (self.precisions[part] * outside**2)
        return variance

    def variance(self, axes: Axes, coefficients: NDArray[np.generic] | None = None) -> Floats | float:
        """Return the variance of each cell of a table's estimates, or of one weighted sum of its cells.

        Where more than `MOST_TIED` sums tie components together, it is the one without them, which is no smaller.

        Examples
        --------
        >>> measured = WorkloadMeasurements((2,), ((0,),), (np.array([5, 2]),), (6.0,), (((), np.array(6)),))
        >>> least = LeastSquares.of(measured)
        >>> least.variance((0,)), least.variance((0,), np.array([1, 1])), least.variance((0,), np.array([1, -1]))
        (3.0, 0.0, 12.0)
        """
        if not self.knows(axes):
            raise ConditionError(
                f"the table of attributes {axes} is inside no measured or exact table, so that its variance is unknown;"
                " measure it"
            )
        if coefficients is not None:
            query = coefficients.astype(np.float64)
            shift = self.spread(query, axes)
            plain = float(np.sum(query * assemble(shift, axes, self.sizes)))
            if not self.tied or self.n_tied > MOST_TIED:
                return plain
            return max(0.0, plain - float(np.sum((self._tied_sums(shift) @ self._tied_root) ** 2)))
        plain = self.symmetric_variance(axes)
        if not self.tied or self.n_tied > MOST_TIED:
            return plain
        cells: Floats = np.full(shape_of(self.sizes, axes), plain)
        for direction in self._tied_root.T:
            cells -= assemble(self._spread_by_covariance(direction), axes, self.sizes) ** 2
        return np.maximum(cells, 0.0)


def _outside(sizes: Sequence[int], axes: Axes, part: Axes) -> int:
    return prod(sizes[axis] for axis in axes if axis not in part)


def _tied_rows(
    measurements: WorkloadMeasurements, tables: Sequence[Axes], known: set[Axes], with_zeros: bool
) -> tuple[_TiedRows, ...]:
    """Return exact sums and zeros that say something of known components: others leave the estimates as they are."""
    tied, none = [], np.zeros(0, np.int64)
    for exact in measurements.exact_sums:
        coefficients = exact.coefficients.astype(np.float64)
        parts = components_of(coefficients, exact.axes)
        if all(part in known or float(np.abs(component).max()) < 1e-9 for part, component in parts.items()):
            tied.append(_TiedRows(exact.axes, coefficients, none, np.array([float(exact.value)])))
    if with_zeros and measurements.zeros:
        for axes in tables:
            cells = np.flatnonzero(measurements.zeros_in(axes))
            if len(cells):
                tied.append(_TiedRows(axes, None, cells, np.zeros(len(cells))))
    if sum(len(rows.values) for rows in tied) > 2**22:
        raise TooLargeError(
            f"measured tables have more than {2**22:,} structural zeros; leave the levels that cannot occur out of them"
        )
    return tuple(tied)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Least squares of every margin inside a measured or exact table; they may be negative.

    Attributes
    ----------
    least_squares : LeastSquares
    parts : dict
        The components.
    """

    least_squares: LeastSquares
    parts: Components = field(repr=False)

    def table(self, axes: Axes) -> Floats:
        """Return the estimates of a table."""
        if not self.least_squares.knows(axes):
            raise ConditionError(
                f"the table of attributes {axes} is inside no measured or exact table, so that nothing estimates it;"
                " measure it"
            )
        return assemble(self.parts, axes, self.least_squares.sizes)

    def variance(self, axes: Axes, coefficients: NDArray[np.generic] | None = None) -> Floats | float:
        """Return the variance of the estimates of a table's cells, or of one weighted sum of them."""
        return self.least_squares.variance(axes, coefficients)


def estimate(measurements: WorkloadMeasurements) -> Estimates:
    """Return the generalised least squares of some measurements with all exact numbers and structural zeros.

    Examples
    --------
    >>> values = np.array([[5, 2], [1, 4]]), np.array([8, 7])
    >>> estimates = estimate(WorkloadMeasurements((2, 2), ((0, 1), (1,)), values, (1.0, 2.0)))
    >>> estimates.table((1,)).tolist()
    [7.0, 6.5]
    """
    return LeastSquares.of(measurements).estimates([table.values for table in measurements.measured()])
