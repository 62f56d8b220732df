"""How far measurements and estimates of a measured tree are off, in closed form and from public structure alone.

The rule *gls* estimates by least squares over all levels, so its errors follow from the variances of the noise and the
tree, not from counts. In directions of a unit's table that are exact at the same levels the variances go up the tree as
``1/u = 1/v + 1/sum of the children's u``, and down it as ``u - u^2/S + (u/S)^2 V``, with S the sum over siblings and V
the parent's variance: one pass over all units, whatever the number of cells.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, log2, pi, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.decided_tables import exact_cell_sums, variance_in_rule
from congenial.law import PublicLaw
from congenial.noise import Noise
from congenial.plan import Plan
from congenial.rules.family_integers import ExactCellSums

SUMMED = 40
"""Units that somebody adds up, for the errors of sums."""

_LARGEST_TABLE = 20  # bits: of the law of a sum; beyond it numbers that add up to 0 hardly know it of each other


class NoiseVariance(NamedTuple):
    """Of the noise of a level, in each direction of a unit's table that is not exact.

    Attributes
    ----------
    in_rule : float
        What the rule weighs measurements by: that of the noise before it is conditioned.
    actual : float
        Given the exact numbers of the unit.
    """

    in_rule: float
    actual: float


class Directions(NamedTuple):
    """Directions of a unit's table that are exact above one level, and have noise there and at all levels below.

    Attributes
    ----------
    first : int
        The highest level at which they have noise.
    n : int
        How many there are, of one for each cell.
    of_total : float
        The squared length of the sum of all cells in them.
    """

    first: int
    n: int
    of_total: float


@dataclass(frozen=True)
class EstimateErrors:
    """Standard deviations at one level: of measurements, and of the least squares that a table is nearest to.

    Attributes
    ----------
    measured_cell, measured_total : float
        Of a unit's measured cell, and of the sum of its measured cells.
    cell, total : float
        Of the estimates of both; the root of the mean variance where units differ.
    n_summed : int
        How many units are added up, cell by cell, in the next two.
    measured_sum, sum : float
        Of a cell's sum over units chosen at random, from measurements and from estimates.
    """

    name: str
    n_units: int
    measured_cell: float
    measured_total: float
    cell: float
    total: float
    n_summed: int
    measured_sum: float
    sum: float

    @property
    def typical(self) -> float:
        """The mean absolute error of a cell's estimate, whose errors are nearly normal."""
        return sqrt(2 / pi) * self.cell

    @property
    def empty_bias(self) -> float:
        """About the most that a table's empty cell is too large on average: the mean of an estimate, cut at 0."""
        return self.cell / sqrt(2 * pi)


@lru_cache(maxsize=256)
def variance_given_sum(noise: Noise, n: int) -> float:
    """Return the variance in every direction of `n` numbers with this noise, given that they add up to 0.

    Numbers are exchangeable, so the variance of one given the sum, times ``n / (n - 1)``, says all: that of the noise
    where it is Gaussian, and less under Double Geometric noise, half of it for two numbers.

    Examples
    --------
    >>> from congenial.noise import make_noise
    >>> gaussian, geometric = make_noise("discrete_gaussian", "1/4"), make_noise("double_geometric", "1/4")
    >>> [round(variance_given_sum(gaussian, n), 6) for n in (2, 9)]
    [4.0, 4.0]
    >>> [round(variance_given_sum(geometric, n) / float(geometric.variance), 2) for n in (2, 3, 9, 100)]
    [0.49, 0.62, 0.85, 0.98]
    """
    variance = float(noise.variance)
    bits = ceil(log2(12 * sqrt(n * variance) + 100 / min(1.0, float(noise.precision)) ** (1 / noise.exponent)))
    if n < 2 or bits >= _LARGEST_TABLE:
        return variance
    values = np.fft.ifftshift(np.arange(-(2**bits), 2**bits))
    weights = np.exp(noise.log_weight(values))
    others = np.fft.irfft(np.fft.rfft(weights / weights.sum()) ** (n - 1), values.size)
    together = weights * np.maximum(others, 0.0)  # symmetric: what the others add up to is as likely as its reverse
    return float((values.astype(np.float64) ** 2 * together).sum() / together.sum()) * n / (n - 1)


def noise_variance(noise: Noise, exact: ExactCellSums) -> NoiseVariance:
    """Return the variance of a level's noise in a direction that is not exact.

    Where parts of several sizes are exact it is the mean over directions; where sums cross, that of the noise, which
    Gaussian noise has there. What else a level measured would make it one for each class of directions.
    """
    in_rule = variance_in_rule(noise)
    if not exact.is_nested:
        return NoiseVariance(in_rule, float(noise.variance))
    sizes = [len(part.cells) for part in exact.parts]
    n_directions = len(exact.loose) + sum(size - 1 for size in sizes)
    total = len(exact.loose) * float(noise.variance)
    total += sum((size - 1) * variance_given_sum(noise, size) for size in sizes if size > 1)
    return NoiseVariance(in_rule, total / max(1, n_directions))


def directions_of_levels(exact: Sequence[ExactCellSums]) -> list[Directions]:
    """Return the classes of directions of a tree, by the highest level at which they have noise.

    What is exact at a level is exact above it, so these classes are orthogonal and have all directions.

    Examples
    --------
    >>> total, nothing = ExactCellSums(((0, 1, 2, 3),), 4), ExactCellSums((), 4)
    >>> [(some.first, some.n, round(some.of_total, 9)) for some in directions_of_levels([total, nothing])]
    [(0, 3, 0.0), (1, 1, 4.0)]
    """
    out, n_above, total_above = [], 0, 0.0
    for level, sums in enumerate(exact):
        n_exact, of_exact = 0, 0.0
        if sums.rows:
            rows = np.zeros((len(sums.rows), sums.n_cells))
            for number, cells in enumerate(sums.rows):
                rows[number, list(cells)] = 1
            _, singular, basis = np.linalg.svd(rows, full_matrices=False)
            n_exact = int((singular > 1e-9 * singular[0]).sum())
            of_exact = float((basis[:n_exact].sum(axis=1) ** 2).sum())
        n, of_total = sums.n_cells - n_exact, sums.n_cells - of_exact
        if n > n_above:
            # Rounding, where the total is exact at this level, or is no sooner noisy than above.
            length = of_total - total_above if of_total - total_above > 1e-9 * sums.n_cells else 0.0
            out.append(Directions(level, n - n_above, length))
        n_above, total_above = n, of_total
    return out


def estimate_variances(
    starts: Sequence[Ints], noise: Sequence[NoiseVariance], first: int, is_open: NDArray[np.bool_] | None = None
) -> list[Floats]:
    """Return the variances of estimates of every unit in one direction, from level `first` down: arrays (unit,).

    Parameters
    ----------
    starts : sequence of arrays (unit + 1,)
        For each level but the last, where the children of each unit begin.
    noise : sequence of NoiseVariance
        Of each level.
    first : int
        The highest level with noise in this direction; above it the direction is exact.
    is_open : array (leaf,), optional
        Where it is no structural zero.

    Examples
    --------
    >>> noise = [NoiseVariance(1.0, 1.0)] * 2
    >>> [variances.round(4).tolist() for variances in estimate_variances([np.array([0, 2])], noise, 0)]
    [[0.6667], [0.6667, 0.6667]]
    >>> estimate_variances([np.array([0, 2])], noise, 1)[0].tolist()
    [0.5, 0.5]
    """
    n_leaves = int(starts[-1][-1])
    leaves = np.ones(n_leaves) if is_open is None else is_open.astype(np.float64)
    # As the rule weighs them, and as they are; and, for each level above the last, sums over children of both.
    units = [(noise[-1].in_rule * leaves, noise[-1].actual * leaves)]
    sums: list[tuple[Floats, Floats]] = []
    for level in reversed(range(max(0, first - 1), len(starts))):
        in_rule, actual = (np.add.reduceat(some, starts[level][:-1]) for some in units[0])
        sums.insert(0, (in_rule, actual))
        if level >= first:
            gain = in_rule / (in_rule + noise[level].in_rule)
            variance = (1 - gain) ** 2 * actual + gain**2 * noise[level].actual
            units.insert(0, (noise[level].in_rule * gain, variance))
    if first == 0:
        out, above = [units[0][1]], units[1:]
    else:
        out, above = [np.zeros(len(sums[0][0]))], units
    for (in_rule, actual), (sums_in_rule, sums_of_actual), level in zip(
        above, sums, range(max(0, first - 1), len(starts)), strict=True
    ):
        sizes = np.diff(starts[level])
        rate = in_rule / np.repeat(np.where(sums_in_rule > 0, sums_in_rule, 1.0), sizes)
        out.append(actual * (1 - 2 * rate) + rate**2 * np.repeat(sums_of_actual + out[-1], sizes))
    return out if first == 0 else out[1:]


@dataclass(frozen=True, eq=False)
class TreeErrors:
    """The errors of a measured tree for any precisions. Public.

    Attributes
    ----------
    law : PublicLaw
        Of the tree; its precisions do not matter.
    """

    law: PublicLaw

    @cached_property
    def open_cells(self) -> Ints:
        """The cells that are no structural zero of every leaf."""
        mask = self.law.zeros.of_level(-1)
        return np.arange(self.law.schema.n_cells) if mask is None else np.flatnonzero(~mask.all(axis=0))

    @cached_property
    def _exact(self) -> list[ExactCellSums]:
        """The exact sums of each level, over the open cells."""
        places = {cell: place for place, cell in enumerate(self.open_cells.tolist())}
        kept = [
            [tuple(places[cell] for cell in cells if cell in places) for cells in sums]
            for sums in exact_cell_sums(self.law)
        ]
        return [ExactCellSums(tuple(cells for cells in sums if cells), len(places)) for sums in kept]

    @cached_property
    def directions(self) -> list[Directions]:
        """The classes of directions of the tree."""
        return directions_of_levels(self._exact)

    @cached_property
    def patterns(self) -> list[tuple[NDArray[np.bool_] | None, int]]:
        """Which leaves are open, for kinds of cells that have the same structural zeros, and how many cells each has.

        Where zeros of some cells are inside exact sums, directions are taken for those of cells without zeros, as the
        rule does.
        """
        mask = self.law.zeros.of_level(-1)
        if mask is None:
            return [(None, len(self.open_cells))]
        kinds: dict[bytes, list[int]] = {}
        for cell in self.open_cells.tolist():
            kinds.setdefault(np.packbits(mask[:, cell]).tobytes(), []).append(cell)
        return [(~mask[:, cells[0]], len(cells)) for cells in kinds.values()]

    @cached_property
    def _open_shares(self) -> list[float]:
        """The share of cells that are no structural zeros, in units that have such cells: of each level."""
        out = []
        for level in range(len(self.law.tree.levels)):
            mask = self.law.zeros.of_level(level)
            is_open = np.ones((1, 1), np.bool_) if mask is None else ~mask[:, self.open_cells]
            out.append(float(is_open.sum() / (is_open.any(axis=1).sum() * is_open.shape[1])))
        return out

    def at(self, noises: Sequence[Noise]) -> tuple[EstimateErrors, ...]:
        """Return the errors of every level, given the noise of a cell at each level."""
        tree, noise = self.law.tree, list(map(noise_variance, noises, self._exact))
        n_cells = len(self.open_cells)
        n_levels = len(tree.levels)
        cells, totals, sums = np.zeros(n_levels), np.zeros(n_levels), np.zeros(n_levels)
        for some in self.directions:
            for level, variance, of_sum in self._variances(noise, some.first):
                cells[level] += variance * some.n / n_cells
                totals[level] += variance * some.of_total * self._open_shares[level]
                sums[level] += of_sum * some.n / n_cells
        out = []
        for level, (name, n_units) in enumerate(zip(tree.levels, tree.n_units, strict=True)):
            noisy = [some for some in self.directions if some.first <= level]
            measured_cell = sqrt(noise[level].actual * sum(some.n for some in noisy) / n_cells)
            of_total = self._open_shares[level] * sum(some.of_total for some in noisy)
            measured_total = sqrt(noise[level].actual * of_total)
            n_summed = min(SUMMED, n_units)
            out.append(
                EstimateErrors(
                    *(name, n_units, measured_cell, measured_total, sqrt(cells[level]), sqrt(totals[level])),
                    *(n_summed, sqrt(n_summed) * measured_cell, sqrt(sums[level])),
                )
            )
        return tuple(out)

    def _variances(self, noise: Sequence[NoiseVariance], first: int) -> Iterator[tuple[int, float, float]]:
        """Go through levels: the mean variance of an open cell's estimate in one direction, and of a sum over units."""
        tree, n_cells = self.law.tree, len(self.open_cells)
        starts = [families.starts for families in tree.families]
        by_level = np.zeros((3, len(tree.levels)))
        for is_open, n_alike in self.patterns:
            open_units = is_open
            kinds = estimate_variances(starts, noise, first, is_open)
            of_all = 0.0 if first else float(kinds[0].sum())  # of the sum of all units: tops are independent
            for level in reversed(range(len(tree.levels))):
                n_units = tree.n_units[level]
                if level < len(starts) and open_units is not None:
                    open_units = np.logical_or.reduceat(open_units, starts[level][:-1])
                if level < first:
                    continue
                variances = kinds[level - first]
                whole = float(variances.sum())
                n_open = n_units if open_units is None else int(open_units.sum())
                n = min(SUMMED, n_open)  # units that are zero by structure add nothing
                together = (of_all - whole) / max(1, n_open * (n_open - 1))  # mean covariance of two others
                of_sum = n * whole / max(1, n_open) + n * (n - 1) * together
                by_level[:, level] += n_alike * np.array([whole, n_open, max(0.0, of_sum) / n_cells])
        for level in range(first, len(tree.levels)):
            whole, n_open, of_sum = by_level[:, level].tolist()
            yield level, whole / max(1.0, n_open), of_sum


@dataclass(frozen=True)
class AcrossErrors:
    """Standard deviations of areas that cross a measured tree; the roots of mean variances where areas differ.

    Attributes
    ----------
    measured_cell : float
        Of an area's measured cell.
    cell, total : float
        Of the estimates of a cell and of an area's total, at most: from what is measured of the area and of all units.
        Measurements of other areas make them a little smaller.
    summed_cell, summed_total : float
        Of what estimates of leaves would add up to, were the areas not measured.
    """

    name: str
    n_areas: int
    measured_cell: float
    cell: float
    total: float
    summed_cell: float
    summed_total: float

    @property
    def typical(self) -> float:
        """The mean absolute error of a cell's estimate, whose errors are nearly normal."""
        return sqrt(2 / pi) * self.cell


def area_variances(
    starts: Sequence[Ints],
    variances: Sequence[float],
    first: int,
    area_of_leaf: Ints,
    n_areas: int,
    is_open: NDArray[np.bool_] | None = None,
) -> Floats:
    """Return the variance of each area's sum of estimates in one direction, from level `first` down: (area,).

    Given a unit x, a sum of its leaves is ``g x`` but for noise of variance h. With u the variances of its children
    given all below them and S their sum, ``g = sum(u g) / S`` and ``h = sum(h) + sum(u g^2) - S g^2`` over children;
    for each pair of a unit and an area that has leaves in it.

    Parameters
    ----------
    variances : sequence of float
        Of the noise of each level.
    area_of_leaf : array (leaf,)
        Negative for none.

    Examples
    --------
    >>> districts = np.array([0, 0, 1, -1])
    >>> area_variances([np.array([0, 4])], [1.0, 1.0], 0, districts, 2).round(3).tolist()
    [1.2, 0.8]
    >>> area_variances([np.array([0, 4])], [1.0, 1.0], 1, districts, 2).tolist()  # the top is exact
    [1.0, 0.75]
    """
    units = variances[-1] * (np.ones(len(area_of_leaf)) if is_open is None else is_open.astype(np.float64))
    leaves = np.flatnonzero((area_of_leaf >= 0) & (units > 0))
    keys: Ints = leaves * n_areas + area_of_leaf[leaves]  # of pairs: unit * n_areas + area
    rates: Floats = np.ones(len(leaves))
    noise: Floats = np.zeros(len(leaves))
    for level in reversed(range(max(0, first - 1), len(starts))):
        sums = np.add.reduceat(units, starts[level][:-1])
        of_children = units[keys // n_areas]
        parents = np.repeat(np.arange(len(sums)), np.diff(starts[level]))[keys // n_areas]
        keys, places = np.unique(parents * n_areas + keys % n_areas, return_inverse=True)
        of_parents = sums[keys // n_areas]
        noise = _summed(places, noise + of_children * rates**2, len(keys))
        rates = _summed(places, of_children * rates, len(keys)) / np.where(of_parents > 0, of_parents, 1.0)
        noise -= of_parents * rates**2
        if level >= first:
            units = variances[level] * sums / (variances[level] + sums)
    if first == 0:
        noise = noise + rates**2 * units[keys // n_areas]
    return _summed(keys % n_areas, np.maximum(noise, 0.0), n_areas)


def _summed(places: Ints, numbers: Floats, n: int) -> Floats:
    out: Floats = np.bincount(places, numbers, n).astype(np.float64)
    return out


def across_errors(plan: Plan) -> AcrossErrors | None:
    """Return the errors of areas that cross a planned measured tree; None where there are none.

    Examples
    --------
    >>> import congenial as cg
    >>> from congenial.tree.areas_across import AreasAcross
    >>> tree = cg.Tree.of_prefixes([f"{county}{block}" for county in "12" for block in "abcd"], {"county": 1}, "block")
    >>> districts = AreasAcross.of(tree, "district", ["east"] * 3 + ["west"] * 5, "1/4")
    >>> hierarchy = cg.Hierarchy(tree, cg.Schema({"sex": ["f", "m"]}), rho="1/2", across=districts)
    >>> errors = across_errors(hierarchy.plan(hierarchy.disclose(hierarchy.counts_of([[3, 4]] * 8))))
    >>> [round(number, 2) for number in (errors.measured_cell, errors.cell, errors.summed_cell)]
    [2.83, 2.08, 3.08]
    """
    law = plan.law
    if law.across is None:
        return None
    tree, n_areas, of_tree = law.tree, len(law.across.codes), TreeErrors(law)
    starts = [families.starts for families in tree.families]
    queries = (law.queries, *law.queries_below)
    noises = cell_noises(law, [tuple(query.precision for query in of_level) for of_level in queries])
    variances = [variance_in_rule(noise) for noise in noises]
    (measured,) = cell_noises(law, [tuple(query.precision for query in law.queries_across)])
    of_noise, n_cells = variance_in_rule(measured), len(of_tree.open_cells)
    summed, together, noisy = np.zeros(2), np.zeros(2), 0
    for some in of_tree.directions:
        for is_open, n_alike in of_tree.patterns:
            by_sum = area_variances(starts, variances, some.first, law.across.area_of_leaf, n_areas, is_open)
            with_own = by_sum * of_noise / (by_sum + of_noise)
            shares = np.array([some.n, some.of_total]) * n_alike / n_cells
            summed += by_sum.mean() * shares
            together += with_own.mean() * shares
        noisy += some.n
    cells = np.sqrt([of_noise * noisy, together[0], summed[0]] / np.array(n_cells))
    return AcrossErrors(
        *(law.across.name, n_areas, float(cells[0]), float(cells[1]), sqrt(together[1])),
        *(float(cells[2]), sqrt(summed[1])),
    )


def tree_errors(plan: Plan) -> tuple[EstimateErrors, ...]:
    """Return the errors of every level of a planned measured tree.

    Examples
    --------
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes([f"{county}{block}" for county in "12" for block in "abc"], {"county": 1}, "block")
    >>> schema = cg.Schema({"sex": ["f", "m"]})
    >>> hierarchy = cg.Hierarchy(tree, schema, invariants=[cg.total()], rho="1/2", method="measured")
    >>> plan = hierarchy.plan(hierarchy.disclose(hierarchy.counts_of([[3, 4]] * 6)))
    >>> for level in tree_errors(plan):
    ...     print(f"{level.name}: measured {level.measured_cell:.2f}, cell {level.cell:.2f}, total {level.total:.2f}")
    county: measured 1.20, cell 1.12, total 0.00
    block: measured 2.58, cell 2.14, total 2.98
    """
    queries = (plan.law.queries, *plan.law.queries_below)
    precisions = [tuple(query.precision for query in of_level) for of_level in queries]
    return TreeErrors(plan.law).at(cell_noises(plan.law, precisions))


def cell_noises(law: PublicLaw, precisions: Sequence[Sequence[Fraction]]) -> list[Noise]:
    """Return the noise of a cell of each level, from the precisions of its queries: the first is that of cells."""
    return [law.family(of_cells) for of_cells, *_ in precisions]
