"""How far releases lie from the truth: every figure of a comparison, fixed before any method was compared.

A metric is computed from all releases of all units of a level, with a standard error over releases: these are
independent, while the units are the same each time. All of them are printed, whichever method they favour.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan, nan, sqrt

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.randomness import replay_rng
from congenial.schema import Schema

SIZES = (0, 1, 3, 6, 11, 21, 51, 101, 501, 1_001, 10_001)
"""Where each class of true counts begins."""

N_TOGETHER = 40
"""How many units are added up, neighbours in the list or drawn at random, where there are more."""

LESS, MORE, NEAR_ZERO = "less", "more", "near 0"
"""Which values of a metric are good ones."""


def size_text(number: int) -> str:
    """Return a class of counts in words.

    Examples
    --------
    >>> [size_text(number) for number in (0, 2, 10)]
    ['0', '3-5', '10,001+']
    """
    low = SIZES[number]
    if number + 1 == len(SIZES):
        return f"{low:,}+"
    high = SIZES[number + 1] - 1
    return f"{low:,}" if low == high else f"{low:,}-{high:,}"


@dataclass(frozen=True)
class Metric:
    """One figure of a method at a level.

    Attributes
    ----------
    value, standard_error : float
        Not a number where it is not defined: no true zeros, or a single release.
    better : str
        Which values are good ones: less, more, or near 0.

    Examples
    --------
    >>> Metric("L1 of a unit", 70.0, 0.4).is_worse_than(Metric("L1 of a unit", 69.5, 0.3))
    False
    >>> Metric("true zeros kept", 0.70, 0.01, MORE).is_worse_than(Metric("true zeros kept", 0.75, 0.01, MORE))
    True
    """

    name: str
    value: float
    standard_error: float
    better: str = LESS

    @property
    def badness(self) -> float:
        """The value, turned so that less is better."""
        if self.better == MORE:
            return -self.value
        return abs(self.value) if self.better == NEAR_ZERO else self.value

    def is_worse_than(self, other: "Metric", n_errors: float = 2.0) -> bool:
        """Whether it is worse by more than some standard errors of the difference."""
        error = sqrt(self.standard_error**2 + other.standard_error**2)
        return not isnan(error) and self.badness - other.badness > max(n_errors * error, 1e-12)

    @property
    def text(self) -> str:
        """The value with its standard error in brackets."""
        if isnan(self.value):
            return ""
        sign = "+" if self.better == NEAR_ZERO and "bias" in self.name else ""
        digits = 3 if abs(self.value) < 10 else 2
        error = "" if isnan(self.standard_error) else f" ({self.standard_error:.{digits}f})"
        return f"{self.value:{sign},.{digits}f}{error}"


def _mean(name: str, values: Floats, better: str = LESS) -> Metric:
    """Return the mean over releases with its standard error."""
    return Metric(name, float(values.mean()), _error_of_mean(values), better)


def _error_of_mean(values: Floats) -> float:
    return float(values.std(ddof=1) / sqrt(values.size)) if values.size > 1 else nan


def _root(name: str, squares: Floats) -> Metric:
    """Return the root of the mean of squares, with the standard error that follows from theirs."""
    size = sqrt(float(squares.mean()))
    return Metric(name, size, _error_of_mean(squares) / (2 * size) if size else 0.0)


def root_mean_square_bias(gaps: Floats) -> tuple[float, float]:
    """Return the root mean square over cells of the bias (release, cell), and its standard error by the jackknife.

    The square of a mean over releases is too large by the variance of that mean; pairs of different releases have no
    such surplus. Where what is left is not above 0 the bias is 0.

    Examples
    --------
    >>> root_mean_square_bias(np.full((5, 3), 2.0))
    (2.0, 0.0)
    """
    n = len(gaps)
    if n < 3:
        return nan, nan
    sums, squares = gaps.sum(axis=0), (gaps**2).sum(axis=0)
    square = float((sums**2 - squares).mean()) / (n * (n - 1))
    without = ((sums - gaps) ** 2 - (squares - gaps**2)).mean(axis=1) / ((n - 1) * (n - 2))
    error = sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    if square <= 0:
        return 0.0, sqrt(error)
    return sqrt(square), error / (2 * sqrt(square))


@dataclass(frozen=True)
class LevelResult:
    """How far the releases of one level lie from the truth.

    Attributes
    ----------
    cells, totals : arrays (release,)
        Root mean squared error of a cell, and of a unit's total.
    l1, l2 : arrays (unit,)
        Average distances of the releases from each unit's table.
    bias : array (unit, cell)
        Average of release less truth.
    zeros : float
        Share of released cells that are exactly zero.
    zeros_kept : float
        Share of the cells that are truly zero that are released as zero; not a number where there are none.
    metrics : tuple of Metric
        Every figure that is registered for a comparison, with its standard error.
    """

    cells: Floats
    totals: Floats
    l1: Floats
    l2: Floats
    bias: Floats
    zeros: float
    zeros_kept: float
    metrics: tuple[Metric, ...]


def _orders(n_units: int) -> Iterator[tuple[str, Ints]]:
    """Go through the orders (unit,) in which units are added up: as listed, and a public one at random."""
    yield "adjacent", np.arange(n_units)
    yield "random", np.argsort(replay_rng("units that are added up").words(n_units), kind="stable")


class _UnionTally:
    """Errors of cells that are added up over disjoint unions of so many units; units that are left over are in none."""

    def __init__(self, order: Ints, shape: tuple[int, int]) -> None:
        n_releases, n_cells = shape
        self.n_unions = len(order) // N_TOGETHER
        self._union_of = np.empty(len(order), np.int64)
        self._union_of[order] = np.arange(len(order)) // N_TOGETHER
        self._sums = np.zeros((n_releases, len(order) // N_TOGETHER + 1, n_cells))

    def add(self, gap: Floats, units: slice, numbers: slice) -> None:
        for sums, of_release in zip(self._sums[numbers], gap, strict=True):
            np.add.at(sums, self._union_of[units], of_release)

    @property
    def error_of_release(self) -> Floats:
        """The mean absolute error (release,) over unions and cells."""
        errors: Floats = np.abs(self._sums[:, : self.n_unions]).mean(axis=(1, 2))
        return errors


class LevelTally:
    """Sums over the releases of one level. Confidential if its tables (unit, cell) are.

    Examples
    --------
    >>> schema = Schema({"sex": ["f", "m"], "age": ["u18", "v18"]})
    >>> tally = LevelTally(np.array([[3, 0, 1, 2]]), 2, schema)
    >>> tally.add(np.array([[[2, 1, 1, 2]], [[3, 0, 0, 3]]]), slice(0, 1))
    >>> [f"{metric.name}: {metric.text}" for metric in tally.result.metrics[3:6]]
    ['margin of sex: 0.000 (0.000)', 'margin of age: 1.000 (0.000)', 'total of a unit: 0.000 (0.000)']
    """

    def __init__(self, truth: Ints, n_releases: int, schema: Schema) -> None:
        self.truth, self.schema = truth, schema
        self.cells, self.totals = np.zeros(n_releases), np.zeros(n_releases)
        self.l1, self.l2 = np.zeros(len(truth)), np.zeros(len(truth))
        self.bias = np.zeros(truth.shape)
        self.n_zeros = 0
        self._classes = np.searchsorted(SIZES, truth, side="right") - 1
        self._l1_of_release = np.zeros(n_releases)
        self._size_of_totals = np.zeros(n_releases)
        self._zeros_kept = np.zeros(n_releases)
        self._over_units = np.zeros((n_releases, truth.shape[1]))
        self._by_class = np.zeros((n_releases, len(SIZES)))
        self._unions = {}
        if len(truth) > N_TOGETHER:
            self._unions = {name: _UnionTally(order, self._over_units.shape) for name, order in _orders(len(truth))}
        names = schema.names if len(schema.names) > 1 else ()
        self._margins = {name: np.zeros(n_releases) for name in names}

    def add(self, releases: Floats | Ints, units: slice, first: int = 0) -> None:
        """Add releases (release, unit, cell) of some units; `first` is the number of the first release."""
        truth, numbers = self.truth[units], slice(first, first + len(releases))
        gap = (releases - truth).astype(np.float64)
        self.cells[numbers] += (gap**2).sum(axis=(1, 2))
        self.totals[numbers] += (gap.sum(axis=2) ** 2).sum(axis=1)
        self.l1[units] += np.abs(gap).sum(axis=(0, 2))
        self.l2[units] += np.sqrt((gap**2).sum(axis=2)).sum(axis=0)
        self.bias[units] += gap.sum(axis=0)
        is_zero = np.abs(releases) < 1e-9
        self.n_zeros += int(is_zero.sum())
        self._zeros_kept[numbers] += (is_zero & (truth == 0)).sum(axis=(1, 2))
        self._l1_of_release[numbers] += np.abs(gap).sum(axis=(1, 2))
        self._size_of_totals[numbers] += np.abs(gap.sum(axis=2)).sum(axis=1)
        self._over_units[numbers] += gap.sum(axis=1)
        for union in self._unions.values():
            union.add(gap, units, numbers)
        self._add_by_class(gap, self._classes[units], numbers)
        shaped = gap.reshape(*gap.shape[:2], *self.schema.shape)
        for axis, sizes in enumerate(self._margins.values(), 2):
            others = tuple(other for other in range(2, shaped.ndim) if other != axis)
            sizes[numbers] += np.abs(shaped.sum(axis=others)).sum(axis=(1, 2))

    def _add_by_class(self, gap: Floats, classes: Ints, numbers: slice) -> None:
        for release, line in zip(range(numbers.start, numbers.stop), gap, strict=True):
            self._by_class[release] += np.bincount(classes.reshape(-1), line.reshape(-1), len(SIZES))

    @property
    def result(self) -> LevelResult:
        """What all releases come to."""
        n, n_true_zeros = len(self.cells), int((self.truth == 0).sum())
        return LevelResult(
            np.sqrt(self.cells / self.truth.size),
            np.sqrt(self.totals / len(self.truth)),
            self.l1 / n,
            self.l2 / n,
            self.bias / n,
            self.n_zeros / (n * self.truth.size),
            float(self._zeros_kept.sum()) / (n * n_true_zeros) if n_true_zeros else nan,
            tuple(self._metrics()),
        )

    def _metrics(self) -> Iterator[Metric]:
        n_units = len(self.truth)
        yield _mean("L1 of a unit", self._l1_of_release / n_units)
        yield _mean("error of a cell", self._l1_of_release / self.truth.size)
        yield _root("root mean square of a cell", self.cells / self.truth.size)
        for (name, sizes), length in zip(self._margins.items(), self.schema.shape, strict=bool(self._margins)):
            yield _mean(f"margin of {name}", sizes / (n_units * length))
        yield _mean("total of a unit", self._size_of_totals / n_units)
        yield _root("root mean square of a total", self.totals / n_units)
        if n_units > 1:
            yield _mean(f"a cell over {n_units:,} units, error", np.abs(self._over_units).mean(axis=1))
            bias = root_mean_square_bias(self._over_units)
            yield Metric(f"a cell over {n_units:,} units, size of bias", *bias)
        for name, union in self._unions.items():
            yield _mean(f"a cell over {N_TOGETHER} {name} units, error", union.error_of_release)
        if (n_zeros := int((self.truth == 0).sum())) > 0:
            yield _mean("true zeros kept, share", self._zeros_kept / n_zeros, MORE)
        for number, n_of_class in enumerate(np.bincount(self._classes.reshape(-1), minlength=len(SIZES)).tolist()):
            if n_of_class:
                name = f"bias of cells of {size_text(number)} ({n_of_class:,})"
                yield _mean(name, self._by_class[:, number] / n_of_class, NEAR_ZERO)
