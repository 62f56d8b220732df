"""What a release of several tables publishes about the records: measured margins, exact numbers, structural zeros."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import combinations
from math import isfinite, prod

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError
from congenial.rules.workload.margins import Axes, shape_of, spread, sum_onto

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ExactSum:
    """A sum inside a table that is exact, and no whole margin.

    Attributes
    ----------
    axes : tuple of int
    coefficients : array of int
        Of the cells of the table of `axes`.
    value : int
    """

    axes: Axes
    coefficients: Ints = field(repr=False)
    value: int


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """All that was measured of one table: measurements of the same margin are combined by their precision.

    Attributes
    ----------
    axes : tuple of int
    values : array of float
    precision : float
        One over the variance of a cell's noise.
    """

    axes: Axes
    values: Floats = field(repr=False)
    precision: float


@dataclass(frozen=True, eq=False)
class WorkloadMeasurements:
    """Measured margins of the same records, and what is known exactly. Public.

    Attributes
    ----------
    sizes : tuple of int
        How many levels each attribute has.
    axes : tuple of tuple of int
        Attributes of each measured table, ascending. A table may be measured several times.
    values : tuple of array of int
        Measured tables, whole numbers that may be negative, each with the shape of its attributes.
    variances : tuple of float
        Of the noise of a cell in each table, before noise was conditioned on exact numbers.
    exact : tuple of (axes, array of int)
        Whole margins that are exact; the total has the axes ``()``.
    exact_sums : tuple of ExactSum
        Further sums that are exact.
    zeros : tuple of (axes, array of bool)
        Structural zeros: cells of a table that are 0 whatever the data.
    seed : bytes
        32 public bytes.

    Examples
    --------
    >>> WorkloadMeasurements((2, 3), ((0,), (1,)), (np.array([5, 4]), np.array([3, 3, 2])), (2.0, 2.0)).n_cells
    6
    >>> WorkloadMeasurements((2, 3), ((1, 0),), (np.zeros((3, 2), int),), (2.0,))
    Traceback (most recent call last):
    congenial.errors.ConditionError: the attributes of a table are numbers from 0 to 1, ascending; these are (1, 0)
    """

    sizes: tuple[int, ...]
    axes: tuple[Axes, ...]
    values: tuple[Ints, ...] = field(repr=False)
    variances: tuple[float, ...]
    exact: tuple[tuple[Axes, Ints], ...] = field(default=(), repr=False)
    exact_sums: tuple[ExactSum, ...] = ()
    zeros: tuple[tuple[Axes, Bools], ...] = field(default=(), repr=False)
    seed: bytes = field(default=bytes(32), repr=False)

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise ConditionError(f"every attribute has at least one level, and there is one; these have {self.sizes}")
        if not len(self.axes) == len(self.values) == len(self.variances):
            raise ConditionError(
                f"every measured table has its attributes, values and variance; these are {len(self.axes)},"
                f" {len(self.values)} and {len(self.variances)}"
            )
        for axes, values in (
            *zip(self.axes, self.values, strict=True),
            *self.exact,
            *((exact.axes, exact.coefficients) for exact in self.exact_sums),
        ):
            self._check_table(axes, values, "iu", "whole numbers")
        for axes, mask in self.zeros:
            self._check_table(axes, mask, "b", "truth values")
        for variance in self.variances:
            if not (isfinite(variance) and variance > 0):
                raise ConditionError(f"the variance of noise is a finite number above 0, and this is {variance}")
        if len(self.seed) != 32:
            raise ConditionError(f"the seed has 32 bytes, and this has {len(self.seed)}")
        self._check_exact()

    def check_attributes(self) -> None:
        """Refuse attributes of which nothing is known: records cannot be made of these measurements."""
        absent = set(range(len(self.sizes))) - {axis for axes in self.known for axis in axes}
        if absent:
            raise ConditionError(
                f"attribute {min(absent)} is in no measured and no exact table, so that nothing is known of it; leave"
                " it out, or measure a table with it"
            )

    def _check_table(self, axes: Axes, table: NDArray[np.generic], kinds: str, words: str) -> None:
        if tuple(sorted(set(axes))) != axes or not set(axes) <= set(range(len(self.sizes))):
            raise ConditionError(
                f"the attributes of a table are numbers from 0 to {len(self.sizes) - 1}, ascending; these are {axes}"
            )
        if np.asarray(table).dtype.kind not in kinds or np.shape(table) != shape_of(self.sizes, axes):
            raise ConditionError(
                f"the table of attributes {axes} has {words} of shape {shape_of(self.sizes, axes)}, and this has the"
                f" type {np.asarray(table).dtype} and shape {np.shape(table)}"
            )

    def _check_exact(self) -> None:
        for axes, table in self.exact:
            if table.size and table.min() < 0:
                raise ConditionError(f"an exact count is at least 0, and the table of {axes} has {int(table.min())}")
            if table[self.zeros_in(axes)].any():
                raise ConditionError(
                    f"the exact table of {axes} counts records in a structural zero; correct the one or the other"
                )
        for (one, left), (other, right) in combinations(self.exact, 2):
            shared = tuple(sorted(set(one) & set(other)))
            if not np.array_equal(sum_onto(left, one, shared), sum_onto(right, other, shared)):
                raise ConditionError(
                    f"the exact tables of {one} and {other} disagree about their common margin {shared}; no"
                    " records have both"
                )

    @property
    def known(self) -> tuple[Axes, ...]:
        """Attributes of all measured and exact tables."""
        return (*self.axes, *(axes for axes, _ in self.exact))

    @property
    def n_cells(self) -> int:
        """How many cells the joint table of all attributes has."""
        return prod(self.sizes)

    @property
    def total(self) -> int | None:
        """How many records there are, if that is exact."""
        return int(self.exact[0][1].sum()) if self.exact else None

    def measured(self) -> tuple[MeasuredTable, ...]:
        """Return every measured table once, with what was measured of it combined by precision.

        Examples
        --------
        >>> twice = WorkloadMeasurements((2,), ((0,), (0,)), (np.array([4, 1]), np.array([7, 1])), (1.0, 2.0))
        >>> [(table.values.tolist(), table.precision) for table in twice.measured()]
        [([5.0, 1.0], 1.5)]
        """
        sums: dict[Axes, Floats] = {}
        precisions: dict[Axes, float] = {}
        for axes, values, variance in zip(self.axes, self.values, self.variances, strict=True):
            sums[axes] = sums.get(axes, 0.0) + values / variance
            precisions[axes] = precisions.get(axes, 0.0) + 1 / variance
        return tuple(MeasuredTable(axes, sums[axes] / precisions[axes], precisions[axes]) for axes in sums)

    def zeros_in(self, axes: Axes) -> Bools:
        """Return which cells of a table are structural zeros, because all that they count are.

        Examples
        --------
        >>> zeros = (((0, 1), np.array([[True, True], [False, True]])),)
        >>> values = np.array([[0, 0], [3, 0]])
        >>> WorkloadMeasurements((2, 2), ((0, 1),), (values,), (1.0,), zeros=zeros).zeros_in((0,)).tolist()
        [True, False]
        """
        barred = np.zeros(shape_of(self.sizes, axes), np.bool_)
        for zero_axes, mask in self.zeros:
            shared = tuple(axis for axis in zero_axes if axis in axes)
            apart = tuple(place for place, axis in enumerate(zero_axes) if axis not in axes)
            barred |= spread(np.asarray(mask.all(axis=apart)), shared, axes)
        return barred

    def with_exact(self, tables: Iterable[tuple[Axes, Ints]]) -> "WorkloadMeasurements":
        """Return the same measurements where further margins are exact, such as tables that were published earlier."""
        return WorkloadMeasurements(
            self.sizes,
            self.axes,
            self.values,
            self.variances,
            (*self.exact, *tables),
            self.exact_sums,
            self.zeros,
            self.seed,
        )
