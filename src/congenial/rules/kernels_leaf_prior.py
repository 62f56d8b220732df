"""Leaves of a tree given a learned prior: posteriors of counts, and tilts to what a family has to add up to.

Plain loops in a fixed order over doubles, without functions of a mathematics library: the same on every machine. A
*rate* is how many people a leaf has relative to its share of its family; rates lie on a grid of equal steps of their
logarithm, `RATES` of them, and before these the rate 0. With expected counts on the same grid, a table of the prior
has a row for each expected count and needs no interpolation.
"""

from typing import NamedTuple

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.portable_math import exp_e, log_e
from congenial.rules.kernels_family import (
    PATH_WORD_BITS,
    Grid,
    Paths,
    augment,
    bit_length,
    pop,
    push,
    tie_word,
    unit_cost,
)
from congenial.sampling.jit import kernel

power_of_e, natural_log = kernel(exp_e), kernel(log_e)

RATES = 40
STEPS = 6.0  # of the grid, where the logarithm grows by 1
LOWEST_RATE = -24  # the logarithm of the first rate, in steps
LOWEST_MEAN = -60  # and of the first expected count
MEANS = 106
LARGEST = 512  # cells measured above it say nothing about a rate, and a prior nothing about them

COST_BITS = 20
_LEAST_WEIGHT = 1e-5  # of a rate, beside all
_LEAST_CHANCE = 1e-7  # of a count at either end of a posterior
_MOST_TILT = 24.0
_MOST_STEPS, _MOST_STEPS_OF_SUMS = 12, 6
_SWEEPS = 6
_NEAR = 0.25  # of a count: how far sums of means may be off


class PriorTables(NamedTuple):
    """Tables of a prior and of the noise of leaves.

    Attributes
    ----------
    rates : array (rate,)
        Chances of rates, the first of them 0.
    counts : array (shape, mean, count)
        Chances of counts given what is expected of them.
    likelihoods : array (shape, measurement, mean)
        Of measurements from ``-reach`` on, the largest of each 1.
    likelihoods_at_0 : array (shape, measurement)
        The same where the rate is 0.
    noise : array (offset,)
        Weights of noise from 0 to ``3 reach``.
    reach : int
        How far posteriors go from a measurement.
    """

    rates: Floats
    counts: Floats
    likelihoods: Floats
    likelihoods_at_0: Floats
    noise: Floats
    reach: int


class Posteriors(NamedTuple):
    """Posteriors of the counts of a family: chances of `width` counts from `low` on, which begin at `first`.

    Attributes
    ----------
    chances : array (number,)
    first, low, width : array (child, cell)
        A width of 0 bars a cell: its count is 0.
    """

    chances: Floats
    first: Ints
    low: Ints
    width: Ints


@kernel
def mean_place(expected: float) -> int:
    """Return the place on the grid of means of a rate 1 times an expected count."""
    steps = np.floor(natural_log(expected) * STEPS + 0.5)
    return int(min(max(steps + LOWEST_RATE - LOWEST_MEAN, 0.0), float(MEANS - RATES)))


@kernel
def rate_likelihoods(
    tables: PriorTables, measured: Ints, places: Ints, shapes: Ints, likelihoods: Floats, out: Floats
) -> None:
    """Write the likelihoods of each cell at each rate (cell, rate), and the posterior of rates (rate,).

    Parameters
    ----------
    places : array (cell,)
        Of `mean_place`; below 0 where a cell says nothing.
    """
    n_rates = RATES + 1
    for rate in range(n_rates):
        out[rate] = tables.rates[rate]
    for cell in range(len(measured)):
        number = measured[cell]
        if places[cell] < 0 or number > LARGEST:
            for rate in range(n_rates):
                likelihoods[cell, rate] = 1.0
            continue
        row = max(number, -tables.reach) + tables.reach
        shape, place = shapes[cell], places[cell]
        likelihoods[cell, 0] = tables.likelihoods_at_0[shape, row]
        for rate in range(RATES):
            likelihoods[cell, rate + 1] = tables.likelihoods[shape, row, place + rate]
        largest = 0.0
        for rate in range(n_rates):
            out[rate] *= likelihoods[cell, rate]
            largest = max(largest, out[rate])
        for rate in range(n_rates):
            out[rate] /= largest
    sum_ = 0.0
    for rate in range(n_rates):
        sum_ += out[rate]
    for rate in range(n_rates):
        out[rate] /= sum_


@kernel
def write_posterior(
    tables: PriorTables, weights: Floats, number: int, place: int, shape: int, out: Floats
) -> tuple[int, int]:
    """Write the posterior of a count (offset,) given its measurement and weights of rates; return its low and width.

    A place below 0 stands for no prior: noise alone.
    """
    reach, noise = tables.reach, tables.noise
    number = max(number, -reach)
    low = max(0, number - reach)
    width = max(number, 0) + reach + 1 - low
    for offset in range(width):
        out[offset] = 0.0
    if place >= 0 and number <= LARGEST:
        if low == 0:
            out[0] = weights[0]
        for rate in range(RATES):
            weight = weights[rate + 1]
            if weight > _LEAST_WEIGHT:
                for offset in range(width):
                    out[offset] += weight * tables.counts[shape, place + rate, low + offset]
        sum_ = 0.0
        for offset in range(width):
            out[offset] *= noise[abs(number - low - offset)]
            sum_ += out[offset]
        if sum_ < 1e-100:
            place = -1
    else:
        place = -1
    if place < 0:
        sum_ = 0.0
        for offset in range(width):
            out[offset] = noise[abs(number - low - offset)]
            sum_ += out[offset]
    first, last = 0, width - 1
    while out[last] < _LEAST_CHANCE * sum_:
        last -= 1
    while out[first] < _LEAST_CHANCE * sum_:
        first += 1
    for offset in range(first, last + 1):
        out[offset - first] = out[offset] / sum_
    return low + first, last + 1 - first


@kernel
def write_posteriors(
    tables: PriorTables,
    measured: Ints,
    table: Ints,
    expected: Floats,
    shapes: Ints,
    least_zero: float,
    first: int,
    out: Posteriors,
) -> Floats:
    """Write the posteriors of the cells of a family's children, and inherit zeros; return their chances.

    These are those of `out`, or an array that is larger where that has no room.

    Parameters
    ----------
    measured, table : array (child, cell)
        Measurements, and a consistent table without a prior, whose zeros are inherited where 0 has a chance of
        `least_zero`.
    expected : array (child, cell)
        What a rate of 1 expects; 0 where there are none.
    first : int
        The first child.
    """
    n_cells = measured.shape[1]
    places = np.empty(n_cells, np.int64)
    likelihoods = np.empty((n_cells, RATES + 1))
    posterior = np.empty(RATES + 1)
    weights = np.empty(RATES + 1)
    room = np.empty(2 * tables.reach + 1)
    chances, used = out.chances, 0
    for child in range(len(out.low)):
        for cell in range(n_cells):
            some = expected[child, cell]
            places[cell] = mean_place(some) if some > 0 else -1
        numbers = measured[first + child]
        rate_likelihoods(tables, numbers, places, shapes, likelihoods, posterior)
        for cell in range(n_cells):
            out.first[child, cell], out.low[child, cell], out.width[child, cell] = used, 0, 0
            if expected[child, cell] <= 0:
                continue
            sum_ = 0.0
            for rate in range(RATES + 1):  # the cell itself comes in with its counts
                weights[rate] = posterior[rate] / likelihoods[cell, rate]
                sum_ += weights[rate]
            for rate in range(RATES + 1):
                weights[rate] /= sum_
            low, width = write_posterior(tables, weights, numbers[cell], places[cell], shapes[cell], room)
            if table[first + child, cell] == 0 and low == 0 and room[0] >= least_zero:
                continue
            if used + width > len(chances):
                larger = np.empty(2 * (used + width))
                larger[:used] = chances[:used]
                chances = larger
            for offset in range(width):
                chances[used + offset] = room[offset]
            out.low[child, cell], out.width[child, cell] = low, width
            used += width
    return chances


@kernel
def tilted_moments(chances: Floats, tilt: float) -> tuple[float, float]:
    """Return the mean offset and the variance of a distribution tilted by ``exp(tilt offset)``."""
    factor, width = power_of_e(-abs(tilt)), len(chances)
    weight, sum_, first, second = 1.0, 0.0, 0.0, 0.0
    for step in range(width):
        offset = step if tilt <= 0 else width - 1 - step
        chance = chances[offset] * weight
        sum_ += chance
        first += chance * offset
        second += chance * offset * offset
        weight *= factor
    if sum_ <= 0.0:
        return (0.0 if tilt <= 0 else float(width - 1)), 1e-9
    mean = first / sum_
    return mean, max(second / sum_ - mean * mean, 1e-9)


@kernel
def write_costs(chances: Floats, tilt: float, out: Ints) -> int:
    """Write what each further unit costs, expected absolute loss in units of ``2**-COST_BITS``; return the median.

    The unit after count v costs ``2 F(v) - 1``, F the tilted distribution; costs ascend. The median, as an offset, is
    the first count whose next unit costs 0 or more.
    """
    factor, width = power_of_e(-abs(tilt)), len(chances)
    weight, sum_ = 1.0, 0.0
    for step in range(width):
        offset = step if tilt <= 0 else width - 1 - step
        chances[offset] *= weight
        sum_ += chances[offset]
        weight *= factor
    one, part, median = float(1 << COST_BITS), 0.0, width - 1
    for offset in range(width):
        part += chances[offset]
        cost = int(np.floor((2.0 * min(part / sum_, 1.0) - 1.0) * one + 0.5)) if sum_ > 0.0 else 0
        out[offset] = cost
        if cost >= 0 and offset < median:
            median = offset
    out[width - 1] = 1 << COST_BITS
    return median


@kernel
def find_tilts(
    posteriors: Posteriors, cells: Ints, sums: Ints, parents: Ints, means: Floats, spreads: Floats, tilts: Floats
) -> None:
    """Find tilts of children and cells with which means nearly add up to the sums of both.

    Between evaluations of all means, some sweeps solve for means and variances as they are. The integers do not have to
    meet these tilts exactly: they say what counts are likely.

    Parameters
    ----------
    sums : array (child,)
        Of no size where children have no sum.
    parents : array (cell,)
    means, spreads : array (child, cell)
        Room to work in.
    tilts : array (child and then cell,)
    """
    n, size, has_sums = len(posteriors.low), len(cells), len(sums) > 0
    for node in range(n + size):
        tilts[node] = 0.0
    steps = np.empty(n + size)
    for _ in range(_MOST_STEPS if not has_sums else _MOST_STEPS_OF_SUMS):
        off, all_ = 0.0, 0.0
        for place in range(size):
            cell, sum_ = cells[place], 0.0
            for child in range(n):
                width = posteriors.width[child, cell]
                if width > 0:
                    start = posteriors.first[child, cell]
                    tilt = tilts[n + place] + tilts[child]
                    mean, spread = tilted_moments(posteriors.chances[start : start + width], tilt)
                    means[child, place], spreads[child, place] = mean + posteriors.low[child, cell], spread
                else:
                    means[child, place], spreads[child, place] = 0.0, 0.0
                sum_ += means[child, place]
            off += abs(parents[cell] - sum_)
            all_ += parents[cell]
        if has_sums:
            for child in range(n):
                sum_ = 0.0
                for place in range(size):
                    sum_ += means[child, place]
                off += abs(sums[child] - sum_)
        if off <= _NEAR * (n + size if has_sums else size):
            return
        for node in range(n + size):
            steps[node] = 0.0
        for _ in range(_SWEEPS if has_sums else 1):
            for place in range(size):
                lacking, spread = float(parents[cells[place]]), 1e-9
                for child in range(n):
                    lacking -= means[child, place] + spreads[child, place] * (steps[child] + steps[n + place])
                    spread += spreads[child, place]
                steps[n + place] += lacking / spread
            if has_sums:
                for child in range(n):
                    lacking, spread = float(sums[child]), 1e-9
                    for place in range(size):
                        lacking -= means[child, place] + spreads[child, place] * (steps[child] + steps[n + place])
                        spread += spreads[child, place]
                    steps[child] += lacking / spread
        for node in range(n + size):
            step = min(max(steps[node], -1.0), 1.0)
            tilts[node] = min(max(tilts[node] + step, -_MOST_TILT), _MOST_TILT)


@kernel
def start_at_medians(grid: Grid, posteriors: Posteriors, cells: Ints, sums: Ints, parents: Ints, tilts: Floats) -> None:
    """Fill a grid with the costs of tilted posteriors, the medians, and what these lack; posteriors are used up.

    The medians are optimal for the sums that they have, so that with prices of 0 no residual arc costs less than 0.
    """
    n, size = len(posteriors.low), len(cells)
    needs, counts = grid.needs, grid.counts
    for row in range(n):
        needs[row], grid.prices[row] = sums[row] if len(sums) > 0 else 0, 0
    for column in range(size):
        cell = cells[column]
        needs[n + column], grid.prices[n + column] = parents[cell], 0
        for row in range(n):
            first, low, width = posteriors.first[row, cell], posteriors.low[row, cell], posteriors.width[row, cell]
            grid.first[row, column], grid.low[row, column], grid.width[row, column] = first, low, width
            grid.is_open[row, column], counts[row, column] = width > 0, 0
            if width > 0:
                tilt = tilts[row] + tilts[n + column]
                end = first + width
                median = write_costs(posteriors.chances[first:end], tilt, grid.costs[first:end])
                counts[row, column] = low + median
                needs[row] -= low + median
                needs[n + column] -= low + median


@kernel
def meet_sums(grid: Grid, paths: Paths, n_rows: int, n_columns: int, has_sums: bool) -> bool:
    """Move counts at least cost until every column has its sum, and every row where rows have one; whether that can be.

    Rows come first, each by itself; then units move along shortest paths. Without sums of rows each column is by
    itself: single units are added or removed where that costs least.
    """
    one = 1 << COST_BITS
    scale = 1 << (PATH_WORD_BITS + bit_length(min(n_rows, n_columns)))
    if has_sums:
        for row in range(n_rows):
            meet_row(grid, row, n_rows, n_columns, one, scale)
        status = 1
        while status == 1:
            status = augment(grid, paths, n_rows, n_columns, one, scale)
        return status == 0
    for column in range(n_columns):
        if not meet_column(grid, paths, n_rows, column, grid.needs[n_rows + column], one, scale):
            return False
    return True


@kernel
def meet_column(grid: Grid, paths: Paths, n_rows: int, column: int, lacking: int, one: int, scale: int) -> bool:
    """Add or remove single units of a column where that costs least; whether there are enough."""
    counts, step = grid.counts, 1 if lacking > 0 else -1
    paths.size[0] = 0
    if lacking == 0:
        return True
    for row in range(n_rows):
        paths.is_settled[row] = False
        push_unit(grid, paths, row, column, step, one, scale)
    for _ in range(abs(lacking)):
        row = pop(paths)
        if row < 0:
            return False
        counts[row, column] += step
        push_unit(grid, paths, row, column, step, one, scale)
    return True


@kernel
def push_unit(grid: Grid, paths: Paths, row: int, column: int, step: int, one: int, scale: int) -> None:
    """Put a row into the heap with what its next unit costs, or saves, unless it has none."""
    count = grid.counts[row, column]
    if not grid.is_open[row, column] or count + step < 0:
        return
    cost = unit_cost(grid, row, column, count if step > 0 else count - 1, one, scale)
    push(paths, step * cost, row)


@kernel
def meet_row(grid: Grid, row: int, n_rows: int, n_columns: int, one: int, scale: int) -> None:
    """Add or remove single units of a row where that costs least, and take the cost of the last one as its price.

    Units that follow cost as much or more, those that were taken as much or less: no residual arc costs less than 0.
    """
    counts, needs = grid.counts, grid.needs
    step = 1 if needs[row] > 0 else -1
    for _ in range(abs(needs[row])):
        best, least = -1, 0
        for column in range(n_columns):
            count = counts[row, column]
            if not grid.is_open[row, column] or count + step < 0:
                continue
            cost = step * unit_cost(grid, row, column, count if step > 0 else count - 1, one, scale)
            if best < 0 or cost < least:
                best, least = column, cost
        if best < 0:
            return
        counts[row, best] += step
        needs[row] -= step
        needs[n_rows + best] -= step
        grid.prices[row] = step * least


@kernel
def decide_leaves(
    tables: PriorTables,
    measured: Ints,
    table: Ints,
    starts: Ints,
    parents: Ints,
    exposures: Floats,
    shapes: Ints,
    classes: Ints,
    least_zero: float,
    key: np.uint64,
    first_place: int,
    out: Ints,
) -> int:
    """Decide the counts of the children of some families: expected absolute loss is least, given all sums.

    Parameters
    ----------
    measured, table : array (child, cell)
        Measurements, and a consistent table without a prior: its zeros, and what its classes of cells add up to.
    starts : array (family + 1,)
        Where the children of each family begin.
    parents : array (family, cell)
    exposures : array (child, cell)
        What part of the family's count a rate of 1 expects in a child; 0 where there can be none.
    shapes : array (cell,)
    classes : array (cell,)
        Which class a cell is of, whose sums in each child are kept; -1 of none.
    key, first_place
        As in `congenial.rules.kernels_family.share_cells`.

    Returns
    -------
    int
        0, or the number of the first family that could not be decided, from 1 on.
    """
    n_cells = measured.shape[1]
    most = 1
    for family in range(len(starts) - 1):
        most = max(most, starts[family + 1] - starts[family])
    chances = np.empty(0)
    costs = np.empty(0, np.int64)
    firsts = np.empty((most, n_cells), np.int64)
    lows, widths = np.empty((most, n_cells), np.int64), np.empty((most, n_cells), np.int64)
    n_nodes, n_arcs = most + n_cells, 2 * most * n_cells
    paths = Paths(
        np.empty(n_nodes, np.int64),
        np.empty(n_nodes, np.int64),
        np.empty(n_nodes, np.bool_),
        np.empty(n_arcs, np.int64),
        np.empty(n_arcs, np.int64),
        np.empty(1, np.int64),
    )
    words, is_open = np.empty((most, n_cells), np.int64), np.empty((most, n_cells), np.bool_)
    counts, needs, prices = (
        np.empty((most, n_cells), np.int64),
        np.empty(n_nodes, np.int64),
        np.empty(n_nodes, np.int64),
    )
    grid_first = np.empty((most, n_cells), np.int64)
    grid_low, grid_width = np.empty((most, n_cells), np.int64), np.empty((most, n_cells), np.int64)
    expected = np.empty((most, n_cells))
    means, spreads = np.empty((most, n_cells)), np.empty((most, n_cells))
    tilts = np.empty(n_nodes)
    cells = np.empty(n_cells, np.int64)
    sums = np.empty(most, np.int64)
    n_classes = 0
    for cell in range(n_cells):
        n_classes = max(n_classes, classes[cell] + 1)
    for family in range(len(starts) - 1):
        first, n = starts[family], starts[family + 1] - starts[family]
        for child in range(n):
            for cell in range(n_cells):
                expected[child, cell] = parents[family, cell] * exposures[first + child, cell]
                out[first + child, cell] = 0
        some = Posteriors(chances, firsts[:n], lows[:n], widths[:n])
        chances = write_posteriors(tables, measured, table, expected, shapes, least_zero, first, some)
        some = Posteriors(chances, firsts[:n], lows[:n], widths[:n])
        if len(costs) < len(chances):
            costs = np.empty(len(chances), np.int64)
        grid = Grid(
            np.empty((0, 0), np.int64), words, is_open, counts, needs, prices, costs, grid_first, grid_low, grid_width
        )
        for class_ in range(-1, n_classes):
            size = 0
            for cell in range(n_cells):
                if classes[cell] == class_ and parents[family, cell] > 0:
                    cells[size] = cell
                    size += 1
            if size == 0:
                continue
            has_sums = class_ >= 0
            if has_sums:
                for child in range(n):
                    sums[child] = 0
                    for place in range(size):
                        sums[child] += table[first + child, cells[place]]
            of_children = sums[:n] if has_sums else sums[:0]
            find_tilts(some, cells[:size], of_children, parents[family], means, spreads, tilts)
            start_at_medians(grid, some, cells[:size], of_children, parents[family], tilts)
            for row in range(n):
                for column in range(size):
                    word = tie_word(key, first_place + first + row, n_cells, cells[column])
                    words[row, column] = np.int64(word >> np.uint64(64 - PATH_WORD_BITS))
            if not meet_sums(grid, paths, n, size, has_sums):
                return family + 1
            for row in range(n):
                for column in range(size):
                    out[first + row, cells[column]] = counts[row, column]
    return 0


@kernel
def update_rates(
    tables: PriorTables, measured: Ints, expected: Floats, shapes: Ints, fits: Floats, out: Floats
) -> None:
    """Write the mean of posteriors of rates over leaves (rate,): a step of expectation and maximisation.

    Parameters
    ----------
    measured, expected : array (leaf, cell)
    fits : array (cell, shape)
        Where it is of any size, how well each shape fits each cell, its own one where it is in use: sums of
        logarithms, given the other cells of each leaf.
    """
    n_cells = measured.shape[1]
    places = np.empty(n_cells, np.int64)
    likelihoods = np.empty((n_cells, RATES + 1))
    posterior, weights = np.empty(RATES + 1), np.empty(RATES + 1)
    for rate in range(RATES + 1):
        out[rate] = 0.0
    for leaf in range(len(measured)):
        for cell in range(n_cells):
            some = expected[leaf, cell]
            places[cell] = mean_place(some) if some > 0 else -1
        rate_likelihoods(tables, measured[leaf], places, shapes, likelihoods, posterior)
        for rate in range(RATES + 1):
            out[rate] += posterior[rate]
        if fits.size == 0:
            continue
        for cell in range(n_cells):
            number, place = measured[leaf, cell], places[cell]
            if place < 0 or number > LARGEST:
                continue
            row = max(number, -tables.reach) + tables.reach
            sum_ = 0.0
            for rate in range(RATES + 1):
                weights[rate] = posterior[rate] / likelihoods[cell, rate]
                sum_ += weights[rate]
            for shape in range(fits.shape[1]):
                fit = weights[0] * tables.likelihoods_at_0[shape, row]
                for rate in range(RATES):
                    fit += weights[rate + 1] * tables.likelihoods[shape, row, place + rate]
                fits[cell, shape] += natural_log(max(fit / sum_, 1e-30))
    for rate in range(RATES + 1):
        out[rate] /= len(measured)
