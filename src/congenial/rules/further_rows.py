"""Further measured rows of a tree: sums of cells, of units of a level or of groups of leaves, beside the cells.

Least squares with them are those without them of shifted measurements. Let x0 be the least squares of the cells'
measurements under all exact sums, and S the covariance of their errors. Rows B with values y and weights W, one over
their variances, add ``(B x - y)' W (B x - y)`` to what is least, so that

    x = x0 + S B' W m    with the *misfits*    m = y - B x,    and hence    (1 + B S B' W) m = y - B x0.

``S B' W m`` is what the recursion over the tree gives where a level whose cells are measured with variance v has
measured ``v Q' W m``, other levels 0, and all exact sums are 0: for B = Q P, with P the sums of leaves to that level,
``P' (v Q' W m) / v = B' W m``. Groups of leaves, and levels whose cells are not measured, shift the leaves.

With a residual r of the equation of m, an estimate f'x is off by ``f' T B' W r``, where T is the covariance given all
that is measured. As ``B T B' <= 1 / W``, that is at most ``sqrt(r' W r)`` standard deviations of f'x, whatever f is.
So this is what is made small, step by step (`solve`), each step a recursion over the tree.

Noise of cells and sums may have been drawn together, so that the published cells have exactly the published sums: with
an energy of ``sum_r w_r q_r(u)^2 / 2`` the cells n have the information ``A = sum_r w_r q_r q_r'``, and
``A n = sum_r w_r q_r (q_r' n)`` is what independent measurements of the same values say, by the same formula.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.conditions.rows_and_intervals import Row, dense, row_values
from congenial.errors import ConditionError

_PRODUCT_BITS = 40  # of the largest of products that are summed
_AT_ONCE = 2**20  # of such products: their sum is below 2^61
_SMALL = 2.0**-20  # of r' W r: estimates are off by a thousandth of a standard deviation at most,
_FEW = 2**6  # with so many rows; of more, each may have a residual as large as those of so many
_MOST_STEPS = 100


@dataclass(frozen=True, eq=False)
class FurtherRows:
    """Measured sums of cells, in every unit of a level or in groups of leaves that may cross the tree.

    Attributes
    ----------
    rows : tuple of Row
        Over the cells of a unit.
    variances : tuple of float
        Of the noise of each row.
    values : array (unit, row)
        What was measured.
    level : int, optional
        Whose units these are; not given where they are groups of leaves.
    group_of_leaf : array (leaf,), optional
        The number of each leaf's group, -1 for none.

    Examples
    --------
    >>> districts = np.array([0, 0, 1, -1])
    >>> rows = (Row.of("adults", [1, 2]),)
    >>> FurtherRows(rows, (4.0,), np.array([[7], [5]]), group_of_leaf=districts).level is None
    True
    """

    rows: tuple[Row, ...]
    variances: tuple[float, ...]
    values: Ints = field(repr=False)
    level: int | None = None
    group_of_leaf: Ints | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not self.rows or any(not row.cells for row in self.rows):
            raise ConditionError("further rows are one or more, each of one or more cells")
        if len(self.variances) != len(self.rows) or not all(0 < variance < math.inf for variance in self.variances):
            raise ConditionError(
                f"each of {len(self.rows)} further rows has a finite variance above 0, and they have {self.variances}"
            )
        if self.values.dtype != np.int64 or self.values.ndim != 2 or self.values.shape[1] != len(self.rows):
            raise ConditionError(f"further rows have 64-bit whole numbers (unit, row), of {len(self.rows)} rows")
        if (self.level is None) == (self.group_of_leaf is None):
            raise ConditionError("further rows are of the units of a level, or of groups of leaves: give one of them")

    @property
    def largest_coefficient(self) -> int:
        """The largest coefficient of a cell, without its sign."""
        return max(abs(times) for row in self.rows for times in row.coefficients)


@dataclass(frozen=True, eq=False)
class PlacedRows:
    """Further rows with the level of a tree that they shift and whose estimates they sum.

    Attributes
    ----------
    level : int
    numbers : array (unit,), or None
        For each unit of the level its number among the units of the rows, -1 for none; None where each is its own.
    variance : float
        Of a measured cell of the level, in the unit of the rows' variances.
    n_cells : int
    """

    further: FurtherRows
    level: int
    numbers: Ints | None
    variance: float
    n_cells: int

    def shifts(self, misfits: Floats) -> Ints:
        """Return how far some units' misfits (unit, row) shift their cells (unit, cell), in the same unit."""
        rates = np.array([self.variance / variance for variance in self.further.variances])
        return np.rint(rates * misfits).astype(np.int64) @ dense(self.further.rows, self.n_cells)

    def add(self, estimates: Ints, units: slice, sums: Ints) -> None:
        """Add what estimates of some units of the level (unit, cell) give the rows to sums (unit of the rows, row)."""
        values = row_values(self.further.rows, estimates).astype(np.int64, copy=False)
        if self.numbers is None:
            sums[units] += values
            return
        # Neighbours are often of one group: their sums first, as adding at indices takes ten times as long.
        numbers = self.numbers[units]
        first = np.flatnonzero(np.diff(numbers, prepend=-2))
        has_group = numbers[first] >= 0
        np.add.at(sums, numbers[first][has_group], np.add.reduceat(values, first, axis=0)[has_group])

    @property
    def reach(self) -> Floats:
        """How far a misfit of 1 shifts all measurements and sums together, at most (unit, row)."""
        n_units = len(self.further.values)
        if self.numbers is None:
            n_shifted = np.ones(n_units)
        else:
            n_shifted = np.bincount(self.numbers[self.numbers >= 0], minlength=n_units).astype(np.float64)
        sizes = [
            self.variance / variance * sum(map(abs, row.coefficients)) * self.further.largest_coefficient
            for row, variance in zip(self.further.rows, self.further.variances, strict=True)
        ]
        reach: Floats = np.maximum(np.outer(n_shifted, sizes), 1)
        return reach


def total(numbers: Floats) -> float:
    """Return the sum of numbers, the same on every machine: of whole multiples of a part of the largest.

    Examples
    --------
    >>> total(np.array([0.5, -3.0, 1e9]))
    999999997.5
    """
    largest = float(np.abs(numbers).max(initial=0))
    if largest == 0:
        return 0.0
    bits = _PRODUCT_BITS - math.frexp(largest)[1]
    sum_ = 0
    for first in range(0, len(numbers), _AT_ONCE):
        sum_ += int(np.rint(np.ldexp(numbers[first : first + _AT_ONCE], bits)).astype(np.int64).sum())
    return math.ldexp(float(sum_), -bits)


def solve(product: Callable[[Floats], Floats], aims: Floats, weights: Floats, unit: float) -> Floats:
    """Return the misfits m of ``product(m) = aims``, nearly: by conjugate residuals in the inner product ``a' W b``.

    The operator ``1 + B S B' W`` is symmetric there and not below 1. Each step takes the best multiple of a direction,
    so that the residual never grows, also not where structural zeros in exact sums make the recursion approximate and
    the operator not quite symmetric. Vectors change by rounded operations on each number, and all sums are of integers.

    Parameters
    ----------
    weights : array
        One over the variance of each row's noise.
    unit : float
        Of the aims, in counts.

    Examples
    --------
    >>> solve(lambda m: 3 * m, np.array([3.0, 6.0]), np.ones(2), 1.0).tolist()
    [1.0, 2.0]
    """
    enough = _SMALL * max(1.0, len(aims) / _FEW) / unit**2
    misfits, residual = np.zeros(len(aims)), aims
    direction, image, length = misfits, misfits, 1.0
    for _ in range(_MOST_STEPS):
        if total(residual * residual * weights) <= enough:
            break
        # Directions whose images are orthogonal to the last one.
        of_residual = product(residual)
        back = total(of_residual * image * weights) / length
        direction = residual - back * direction
        image = of_residual - back * image
        length = total(image * image * weights)
        if length == 0:
            break
        step = total(residual * image * weights) / length
        misfits = misfits + step * direction
        residual = residual - step * image
    return misfits
