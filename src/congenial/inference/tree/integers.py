"""Whole numbers that add up: near the medians of every unit, the children's to their parents', the top as published."""

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.constraints import Constraints
from congenial.conditions.rows import cells_alike
from congenial.hierarchy.law import ChainLaw
from congenial.hierarchy.tree import TreeTables
from congenial.inference.tree.draws import TreeDraws, sorted_draws

_AT_ONCE = 1 << 22  # numbers in one array


def consistent_integers(law: ChainLaw, draws: TreeDraws) -> TreeTables:
    """Return tables of whole numbers (unit, cell) for every level: not negative, adding up, invariants kept."""
    from congenial.inference.kernels.tree_integers import fit_children

    tops = draws.of_level(0)
    areas = [law.top.areas[area] for area in law.areas]
    found = [np.stack([at_the_top(tops[:, place], own) for place, own in enumerate(areas)])]
    for level, families in enumerate(law.tree.families):
        n_units, n_cells = len(law.tree.codes[level + 1]), law.n_cells
        out = np.zeros((n_units, n_cells), np.int64)
        is_open = ~law.zeros.bars[level + 1] if law.zeros.bars else np.ones((n_units, n_cells), np.bool_)
        most = max(1, _AT_ONCE // (len(tops) * n_cells))  # children at once
        for some in np.split(np.arange(len(families)), _cuts(families.starts, most)):
            first, end = int(families.starts[some[0]]), int(families.starts[some[-1] + 1])
            starts = families.starts[some[0] : some[-1] + 2] - first
            ranked = sorted_draws(draws.of_level(level + 1, first, end))
            fit_children(ranked, is_open[first:end], starts, found[-1][some], out[first:end])
        found.append(out)
    return tuple(found)


def _cuts(starts: Ints, most: int) -> Ints:
    """Return where to cut a list of families so that no part has many more children than `most`."""
    return np.unique(np.searchsorted(starts, np.arange(most, int(starts[-1]), most)))


def at_the_top(draws: Ints, constraints: Constraints) -> Ints:
    """Return whole numbers for one table near the medians of its draws (draw, cell), which obey the same conditions.

    From the draw that is nearest to the medians on, single people change cells as long as that comes nearer; cells that
    no condition speaks of go to their medians.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.schema import Schema
    >>> own = Constraints.of(Schema({"sex": ["f", "m"]}), [total(equals=9)])
    >>> at_the_top(np.array([[2, 7], [3, 6], [3, 6], [5, 4], [9, 0]]), own).tolist()
    [3, 6]
    """
    ranked = sorted_draws(draws)
    median = ranked[(len(draws) - 1) // 2]
    chosen = draws[np.abs(draws - median).sum(axis=1).argmin()].copy()
    limits = constraints.cell_bounds.limits
    low = np.array([0 if own.low is None else own.low for own in limits])
    high = np.array([2**62 if own.high is None else own.high for own in limits])
    groups = cells_alike([limited.row for limited in constraints.rows], draws.shape[1])
    for column, cells in groups.items():
        own = np.array(cells)
        if not column:
            chosen[own] = np.clip(median[own], low[own], high[own])
            continue
        while True:
            more = 2 * (draws[:, own] <= chosen[own]).sum(axis=0) - len(draws)
            less = len(draws) - 2 * (draws[:, own] < chosen[own]).sum(axis=0)
            gain, loss = np.where(chosen[own] < high[own], more, 2**40), np.where(chosen[own] > low[own], less, 2**40)
            if gain.min() + loss.min() >= 0 or gain.argmin() == loss.argmin():
                break
            chosen[own[gain.argmin()]] += 1
            chosen[own[loss.argmin()]] -= 1
    return np.asarray(chosen, np.int64)
