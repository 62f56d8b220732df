"""The rule *gls* of trees: generalised least squares over all levels, then integers from the top down.

Every level of a tree of areas is measured, with noise that has the same variance in all cells of a level. From the
leaves upwards, the sum of the children's estimates and a unit's own measurement are weighted by their variances; from
the top downwards, what a parent knows better than its children together is shared out among them in proportion to
their variances. Sums that are exact at a level are exact above it, so that the errors of a unit are spherical in the
directions that are left, and a projection and one number a unit say all: these are the least squares of the whole tree.
Further measured rows, sums of cells of units or of groups of leaves, shift what is measured
(`congenial.rules.further_rows`). Then a family at a time gets integers that are nearest to the estimates
(`congenial.rules.family_integers`): measured sums before cells, and children in the same groups of leaves together
before each by itself (`congenial.rules.sibling_pieces`).

Public: nothing here reads more than measurements and structure. Estimates are whole numbers of a small unit, each
floating-point step is one rounded operation for each number, and all sums are sums of integers: any chunks, threads
or subtrees give the same integers on every machine.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError, TooLargeError
from congenial.memory_and_threads import map_in_threads
from congenial.progress_and_interrupts import DECIDING, Progress, silent
from congenial.rules.family_integers import (
    Cells,
    ExactCellSums,
    Siblings,
    families_at_once,
    with_decided_sums,
)
from congenial.rules.further_rows import solve, total
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.rules.tree_measurements import Bools, DecideTop, TreeMeasurements, TreeRule

_CELLS_AT_ONCE = 2**20  # of children: eight megabytes an array
_SHIFT_BITS = 57  # of shifts by further rows, in units of 2**-FRACTION_BITS: as of measurements


class UnitEstimates(NamedTuple):
    """Estimates of units by themselves and what is below them.

    Attributes
    ----------
    means : array (unit, cell)
        In units of ``2**-FRACTION_BITS``.
    variances : array (unit, 1), or (unit, cell)
        For each cell only where there are structural zeros.
    """

    means: Ints
    variances: Ints

    def part(self, units: slice) -> "UnitEstimates":
        """Return some of the units."""
        return UnitEstimates(self.means[units], self.variances[units])


class LevelEstimates(NamedTuple):
    """What is known of the units of a level from below: with their own measurements, and the sums of their children."""

    units: UnitEstimates
    sums: UnitEstimates


# One unit at a time: variances are weights, exact sums are met by the nearest estimates that have them.


def _combined(
    tree: TreeMeasurements, level: int, units: slice, below: UnitEstimates | None, variance: float
) -> UnitEstimates:
    """Return estimates from the sums of children, if there are any, and the units' own measurements.

    The gain is the same in all directions that are not exact: further rows shift what is measured, and change no
    weight.
    """
    zeros = tree.zeros(level, units)
    if below is None:
        means = tree.targets(level, units)
        variances = np.full((len(means), 1), int(variance))
        if zeros.size:
            means[zeros] = 0
            variances = np.where(zeros, 0, variances)
    elif math.isinf(variance):
        means, variances = below.means.copy(), below.variances
    else:
        spread = below.variances.astype(np.float64)
        gain = spread / (spread + variance)
        means = below.means + _whole(gain * (tree.targets(level, units) - below.means))
        variances = _whole(variance * gain)
    _meet(tree.exact[level], tree.values(level, units), means, variances, zeros)
    return UnitEstimates(means, variances)


def _whole(numbers: Floats) -> Ints:
    rounded: Ints = np.rint(numbers).astype(np.int64)
    return rounded


def _meet(exact: ExactCellSums, values: Ints, means: Ints, variances: Ints, zeros: Bools) -> None:
    """Move estimates to the nearest that have the exact sums, in place.

    With structural zeros the squares of nested sums are weighted by the variances of the cells, as if errors of cells
    were independent, and those of crossing sums are not weighted: that is near to the least squares of the tree, and
    equal to it where all units have the same zeros.
    """
    if not exact.rows:
        return
    if exact.is_nested:
        for part in exact.parts:
            cells = list(part.cells)
            lacking = (part.sums(values) << FRACTION_BITS) - means[:, cells].sum(axis=1)
            if variances.shape[1] == 1:
                means[:, cells] += _whole(lacking / len(cells))[:, None]
            else:
                weights = variances[:, cells]
                total = np.maximum(weights.sum(axis=1), 1)
                means[:, cells] += _whole(weights / total[:, None] * lacking[:, None])
        return
    lacking = (values << FRACTION_BITS) - exact.values(means)
    for is_open, places in _patterns(len(means), exact.n_cells, zeros):
        inverse = _right_inverse(exact.rows, is_open)
        for number in range(len(exact.rows)):
            means[places] += _whole(inverse[:, number] * lacking[places, number][:, None])


def _patterns(n_units: int, n_cells: int, zeros: Bools) -> Iterator[tuple[tuple[bool, ...], Ints]]:
    """Yield which cells are open, and the units of which that holds."""
    if not zeros.size:
        yield (True,) * n_cells, np.arange(n_units)
        return
    patterns, which = np.unique(zeros, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        yield tuple((~pattern).tolist()), np.flatnonzero(which.reshape(-1) == number)


@lru_cache(maxsize=1024)
def _right_inverse(rows: tuple[Cells, ...], is_open: tuple[bool, ...]) -> Floats:
    """Return the shift of each cell for each unit that a sum lacks (cell, row), by rational arithmetic.

    Sums that follow from others, or have no open cell, get no column: the others say the same.

    Examples
    --------
    >>> _right_inverse(((0, 1), (0, 1, 2)), (True, True, True)).tolist()
    [[0.5, 0.0], [0.5, 0.0], [-1.0, 1.0]]
    """
    sets = [frozenset(cell for cell in cells if is_open[cell]) for cells in rows]
    # Gauss and Jordan on (A A', I), with pivots on the diagonal: A A' is positive semidefinite.
    lines = [
        [Fraction(len(one & other)) for other in sets] + [Fraction(int(number == place)) for place in range(len(sets))]
        for number, one in enumerate(sets)
    ]
    pivots = []
    for number in range(len(sets)):
        if lines[number][number] == 0:
            continue
        pivots.append(number)
        scale = lines[number][number]
        lines[number] = [entry / scale for entry in lines[number]]
        for place, line in enumerate(lines):
            if place != number and line[number]:
                times = line[number]
                lines[place] = [a - times * b for a, b in zip(line, lines[number], strict=True)]
    shifts = [[Fraction(0)] * len(rows) for _ in is_open]
    for number in pivots:
        for place in pivots:
            for cell in sets[place]:
                shifts[cell][number] += lines[place][len(sets) + number]
    return np.array([[float(entry) for entry in line] for line in shifts])


# Over the tree: up, and down again.


def estimate_upward(
    tree: TreeMeasurements, leaves: UnitEstimates | None = None, n_threads: int | None = None
) -> tuple[LevelEstimates, ...]:
    """Return what is known of all levels but the last from their own measurements and what is below them.

    Parameters
    ----------
    leaves : UnitEstimates, optional
        Of the last level, where its units stand for subtrees: of these what `estimate_upward` says of their first
        level. Estimates of its measurements if not given.
    """
    if tree.further and (leaves is not None or not tree.misfits):
        raise ConditionError(
            "further rows tie a whole tree together, so that parts of it do not say what it is; give the whole tree as"
            " with_misfits returns it"
        )
    levels: list[LevelEstimates] = []
    below = leaves
    for level in reversed(range(tree.n_levels - 1)):
        starts = tree.starts[level]

        def work(
            families: slice, level: int = level, starts: Ints = starts, below: UnitEstimates | None = below
        ) -> LevelEstimates:
            children = slice(int(starts[families.start]), int(starts[families.stop]))
            known = _below(tree, level + 1, children, below)
            first = starts[families.start : families.stop] - children.start
            sums = UnitEstimates(*(np.add.reduceat(numbers, first, axis=0) for numbers in known))
            return LevelEstimates(_combined(tree, level, families, sums, tree.whole_variance(level)), sums)

        parts = list(map_in_threads(work, families_at_once(starts, _at_once(tree)), n_threads))
        units, sums = (
            UnitEstimates(*map(np.concatenate, zip(*some, strict=True))) for some in zip(*parts, strict=True)
        )
        levels.append(LevelEstimates(units, sums))
        below = units
    return tuple(reversed(levels))


def _at_once(tree: TreeMeasurements) -> int:
    return max(1, _CELLS_AT_ONCE // tree.n_cells)


def _below(tree: TreeMeasurements, level: int, units: slice, known: UnitEstimates | None) -> UnitEstimates:
    """Return what is known of some units from below; of leaves it is computed when needed."""
    if known is not None:
        return known.part(units)
    return _combined(tree, level, units, None, tree.whole_variance(level))


def _corrected(children: UnitEstimates, sums: UnitEstimates, parents: Ints, sizes: Ints) -> Ints:
    """Return estimates of children that know what their parents know: ``f + v / pv (S - pm)``, (child, cell)."""
    rates = children.variances / np.maximum(np.repeat(sums.variances, sizes, axis=0), 1)
    return children.means + _whole(rates * np.repeat(parents - sums.means, sizes, axis=0))


@dataclass(frozen=True, eq=False)
class _Descent:
    """The way down from the estimates of the first level."""

    tree: TreeMeasurements
    upward: tuple[LevelEstimates, ...]
    leaves: UnitEstimates | None
    n_threads: int | None

    def estimates(self, level: int, families: slice, parents: Ints) -> Ints:
        """Return estimates of the children of some units of a level, whose estimates are given (child, cell)."""
        starts = self.tree.starts[level]
        children = slice(int(starts[families.start]), int(starts[families.stop]))
        is_last = level + 2 == self.tree.n_levels
        known = self.leaves if is_last else self.upward[level + 1].units
        sums = self.upward[level].sums.part(families)
        sizes = np.diff(starts[families.start : families.stop + 1])
        return _corrected(_below(self.tree, level + 1, children, known), sums, parents[families], sizes)

    def counts(self, level: int, parents: Ints, tables: Ints, *, keeps: bool) -> Iterator[tuple[Ints, Ints]]:
        """Yield estimates (none unless it keeps them) and integers of the children of a level, some units at a time."""

        def work(families: slice) -> tuple[Ints, Ints]:
            some = self.estimates(level, families, parents)
            counts = counts_of_children(self.tree, level, families, tables, some)
            return (some if keeps else some[:0]), counts

        yield from self.by_part(level, work)

    def by_part(self, level: int, work: Callable[[slice], tuple[Ints, Ints]]) -> Iterator[tuple[Ints, Ints]]:
        """Yield what comes of the families of a level, some at a time and in order."""
        parts = families_at_once(self.tree.starts[level], _at_once(self.tree))
        yield from map_in_threads(work, parts, self.n_threads)


def top_estimates(
    tree: TreeMeasurements, upward: Sequence[LevelEstimates], leaves: UnitEstimates | None = None
) -> UnitEstimates:
    """Return the least squares of the first level: nothing is above it."""
    return upward[0].units if upward else _below(tree, 0, slice(None), leaves)


def estimate(tree: TreeMeasurements, n_threads: int | None = None) -> tuple[Ints, ...]:
    """Return the least squares of the whole tree, for each level (unit, cell), in units of ``2**-FRACTION_BITS``.

    Real numbers, which may be negative. With all leaves in memory; `decide` takes them a part at a time.

    Examples
    --------
    >>> tree = TreeMeasurements((np.array([0, 2]),), (np.array([[9, 4]]), np.array([[4, 3], [3, -2]])), (1.0, 1.0))
    >>> [(means * 3 + 1 >> FRACTION_BITS).tolist() for means in estimate(tree)]
    [[[25, 9]], [[13, 12], [10, -3]]]
    """
    levels: list[list[Ints]] = [[] for _ in tree.measured]
    for level, _, estimates in estimates_in_parts(tree, n_threads):
        levels[level].append(estimates)
    return tuple(map(np.concatenate, levels))


def estimates_in_parts(tree: TreeMeasurements, n_threads: int | None = None) -> Iterator[tuple[int, slice, Ints]]:
    """Yield the least squares of the whole tree: level, units and estimates, some units at a time and in order.

    Examples
    --------
    >>> tree = TreeMeasurements((np.array([0, 2]),), (np.array([[9, 4]]), np.array([[4, 3], [3, -2]])), (1.0, 1.0))
    >>> [(level, len(estimates)) for level, _, estimates in estimates_in_parts(tree)]
    [(0, 1), (1, 2)]
    """
    return _estimates(with_misfits(tree, n_threads), n_threads)


def _estimates(tree: TreeMeasurements, n_threads: int | None) -> Iterator[tuple[int, slice, Ints]]:
    upward = estimate_upward(tree, None, n_threads)
    descent = _Descent(tree, upward, None, n_threads)
    parents = top_estimates(tree, upward).means
    yield 0, slice(0, len(parents)), parents
    for level in range(tree.n_levels - 1):

        def work(families: slice, level: int = level, parents: Ints = parents) -> tuple[Ints, Ints]:
            estimates = descent.estimates(level, families, parents)
            return estimates, estimates

        parts, first = list[Ints](), 0
        for estimates, _ in descent.by_part(level, work):
            units = slice(first, first + len(estimates))
            yield level + 1, units, estimates
            first = units.stop
            if level + 2 < tree.n_levels:
                parts.append(estimates)
        if parts:
            parents = np.concatenate(parts)


# Further measured rows.


def with_misfits(tree: TreeMeasurements, n_threads: int | None = None) -> TreeMeasurements:
    """Return a tree with the misfits of its further rows, whose least squares are then those of shifted measurements.

    Examples
    --------
    >>> from congenial.conditions.rows_and_intervals import Row
    >>> from congenial.rules.further_rows import FurtherRows
    >>> totals = FurtherRows((Row.of("total", [0, 1]),), (2.0,), np.array([[19]]), level=0)
    >>> tree = TreeMeasurements((), (np.array([[9, 4]]),), (1.0,), further=(totals,))
    >>> [misfits / 2**FRACTION_BITS for misfits in with_misfits(tree).misfits]
    [array([[3.]])]
    """
    if not tree.further or tree.misfits:
        return tree
    shapes = [some.values.shape for some in tree.further]

    def apart(numbers: Floats) -> tuple[Floats, ...]:
        ends = np.cumsum([rows * columns for rows, columns in shapes])[:-1]
        return tuple(some.reshape(shape) for some, shape in zip(np.split(numbers, ends), shapes, strict=True))

    nothing = replace(
        tree,
        measured=tuple(np.broadcast_to(np.int64(0), table.shape) for table in tree.measured),
        exact_values=tuple(np.zeros_like(values) for values in tree.exact_values),
    )
    weights = 1 / np.concatenate([np.tile(some.variances, len(some.values)) for some in tree.further])
    reach = np.concatenate([placed.reach.ravel() for placed in tree.placed])

    def product(misfits: Floats) -> Floats:
        # Shifts as large as measurements may be: rounding is as small beside them as it can be.
        bits = _SHIFT_BITS - math.frexp(total(np.abs(misfits) * reach))[1]
        sums = _row_sums(replace(nothing, misfits=apart(np.ldexp(misfits, bits))), n_threads)
        images: Floats = misfits + np.ldexp(sums.astype(np.float64), -bits)
        return images

    values = np.concatenate([some.values.ravel() for some in tree.further]) << FRACTION_BITS
    aims = (values - _row_sums(replace(tree, misfits=apart(np.zeros(len(weights)))), n_threads)).astype(np.float64)
    misfits = solve(product, aims, weights, 2.0**-FRACTION_BITS)
    largest = total(np.abs(misfits) * reach)
    if largest > 2.0 ** (_SHIFT_BITS + 1):
        raise TooLargeError(
            f"further rows shift measured cells by up to {largest * 2.0**-FRACTION_BITS:,.0f} in all, and the rule is"
            f" made for {2 ** (_SHIFT_BITS + 1 - FRACTION_BITS):,}: values far from those of the cells, or variances"
            " far below theirs; leave these rows out"
        )
    return replace(tree, misfits=apart(misfits))


def _row_sums(tree: TreeMeasurements, n_threads: int | None) -> Ints:
    """Return what least squares give all further rows, one entry after the other, with misfits as they are."""
    sums = [np.zeros_like(some.values) for some in tree.further]
    for level, units, estimates in _estimates(tree, n_threads):
        for placed, out in zip(tree.placed, sums, strict=True):
            if placed.level == level:
                placed.add(estimates, units, out)
    return np.concatenate([some.ravel() for some in sums])


class DecidedLevels(NamedTuple):
    """Tables of all levels (unit, cell), and the estimates of the last one where they were asked for."""

    tables: tuple[Ints, ...]
    last_estimates: Ints | None


def decide_below(
    tree: TreeMeasurements,
    upward: tuple[LevelEstimates, ...],
    estimates: Ints,
    tables: Ints,
    *,
    leaves: UnitEstimates | None = None,
    keeps_estimates: bool = False,
    progress: Progress = silent,
    n_threads: int | None = None,
) -> DecidedLevels:
    """Return tables of all levels whose first one is decided.

    Parameters
    ----------
    upward : tuple of LevelEstimates
        Of `estimate_upward`.
    estimates, tables : arrays (unit, cell)
        Estimates of the first level given the whole tree, and its integers.
    leaves : UnitEstimates, optional
        As in `estimate_upward`.
    keeps_estimates : bool
        Whether the estimates of the last level are needed: subtrees below it start from them.
    """
    check_first(tree, tables)
    descent = _Descent(tree, upward, leaves, n_threads)
    decided = [tables]
    n_done, n_units = len(tables), sum(map(len, tree.measured))
    for level in range(tree.n_levels - 1):
        keeps = keeps_estimates or level + 2 < tree.n_levels
        counts = np.empty_like(tree.measured[level + 1])
        estimates_of_parts = []
        first = 0
        for some, counts_of_part in descent.counts(level, estimates, decided[level], keeps=keeps):
            counts[first : first + len(counts_of_part)] = counts_of_part
            first += len(counts_of_part)
            estimates_of_parts.append(some)
            n_done += len(counts_of_part)
            progress(DECIDING, n_done, n_units)
        estimates = np.concatenate(estimates_of_parts)
        decided.append(counts)
    return DecidedLevels(tuple(decided), estimates if keeps_estimates else None)


def counts_of_children(tree: TreeMeasurements, level: int, families: slice, parents: Ints, estimates: Ints) -> Ints:
    """Return the integers of the children of some units of a level."""
    starts = tree.starts[level][families.start : families.stop + 1]
    children = slice(int(starts[0]), int(starts[-1]))
    shared = Siblings(
        estimates,
        starts - starts[0],
        np.ascontiguousarray(parents[families]),
        tree.exact[level + 1],
        tree.values(level + 1, children),
        tree.zeros(level + 1, children),
        tree.free_ranges(level + 1, children),
        tree.key(level + 1),
        tree.first_place(level + 1) + children.start,
    )
    pieces, sums = tree.pieces[level + 1], tree.sums_first[level + 1]
    if pieces is not None:
        return pieces.shared_out(shared, families, sums)
    return with_decided_sums(shared, sums).shared_out()


def check_first(tree: TreeMeasurements, tables: Ints) -> None:
    """Refuse tables of the first level that break what is public of them."""
    if tables.shape != tree.measured[0].shape or tables.dtype != np.int64:
        raise ConditionError(f"tables of the first level are 64-bit whole numbers of shape {tree.measured[0].shape}")
    every = slice(None)
    zeros = tree.zeros(0, every)
    is_kept = bool((tables >= 0).all()) and not (zeros.size and bool(tables[zeros].any()))
    if not is_kept or not np.array_equal(tree.exact[0].values(tables), tree.values(0, every)):
        raise ConditionError(
            "tables of the first level are not negative, have its exact sums and are 0 at structural zeros; decide them"
            " under all of these conditions"
        )
    if bool(tree.is_outside_at_top(tables).any()):
        raise ConditionError(
            "tables of the first level leave the parts of some unit none that have their exact sums; decide them under"
            " `limits_at_top` as well"
        )


def nearest_counts(estimates: Ints) -> Ints:
    """Return the count nearest to each estimate by itself, not below 0: integers of a top where nothing is exact.

    Examples
    --------
    >>> nearest_counts(np.array([[-3, 5, 7]]) << FRACTION_BITS - 1).tolist()
    [[0, 3, 4]]
    """
    half = 1 << (FRACTION_BITS - 1)
    counts: Ints = np.maximum((estimates + half) >> FRACTION_BITS, 0)
    return counts


def decide(
    tree: TreeMeasurements, decide_top: DecideTop, progress: Progress = silent, n_threads: int | None = None
) -> tuple[Ints, ...]:
    """Return consistent tables of all levels (unit, cell), the first one first.

    No count is negative, children add up to their parents, exact sums and structural zeros are kept. The same input
    gives the same integers everywhere.

    Parameters
    ----------
    decide_top : function
        From estimates of the first level (unit, cell), in units of ``2**-FRACTION_BITS``, to its integers: under all
        that is exact there, and under `TreeMeasurements.limits_at_top`.

    Examples
    --------
    >>> tree = TreeMeasurements(
    ...     (np.array([0, 2]),),
    ...     (np.array([[9, 4]]), np.array([[4, 3], [3, -2]])),
    ...     (1.0, 1.0),
    ...     (((0, 1),), ((0, 1),)),
    ...     (np.array([[12]]), np.array([[8], [4]])),
    ... )
    >>> [tables.tolist() for tables in decide(tree, nearest_counts)]
    [[[9, 3]], [[5, 3], [4, 0]]]
    """
    progress(DECIDING, 0, sum(map(len, tree.measured)))
    tree = with_misfits(tree, n_threads)
    upward = estimate_upward(tree, None, n_threads)
    estimates = top_estimates(tree, upward).means
    tables = decide_top(estimates.copy())
    return decide_below(tree, upward, estimates, tables, progress=progress, n_threads=n_threads).tables


def check(
    tree: TreeMeasurements, tables: Sequence[Ints], decide_top: DecideTop | None = None, n_threads: int | None = None
) -> None:
    """Raise `ConditionError` unless these are the tables of the rule.

    They are decided again, some units at a time, and all integers must agree.

    Parameters
    ----------
    decide_top : function, optional
        Where it is not given, the tables of the first level are taken as they are: the caller checks them.
    """
    check_shapes(tree, tables)
    tree = with_misfits(tree, n_threads)
    upward = estimate_upward(tree, None, n_threads)
    descent = _Descent(tree, upward, None, n_threads)
    estimates = top_estimates(tree, upward).means
    first = tables[0] if decide_top is None else decide_top(estimates.copy())
    check_first(tree, first)
    check_same(tables[:1], [first], GLS.name)
    for level in range(tree.n_levels - 1):
        n_done = n_wrong = 0
        estimates_of_parts = []
        for some, counts in descent.counts(level, estimates, tables[level], keeps=level + 2 < tree.n_levels):
            n_wrong += _n_different(tables[level + 1][n_done : n_done + len(counts)], counts)
            n_done += len(counts)
            estimates_of_parts.append(some)
        _refuse_different(n_wrong, level + 1, GLS.name)
        estimates = np.concatenate(estimates_of_parts)


def check_shapes(tree: TreeMeasurements, tables: Sequence[Ints]) -> None:
    """Refuse tables that do not have the shapes of measurements."""
    shapes = [np.shape(table) for table in tables]
    if shapes != [table.shape for table in tree.measured]:
        raise ConditionError(f"tables of a tree have the shapes of its measurements, and these have {shapes}")


def check_same(tables: Sequence[Ints], again: Sequence[Ints], rule: str) -> None:
    """Refuse tables that a rule did not decide: those that it does are given."""
    for level, (table, expected) in enumerate(zip(tables, again, strict=True)):
        _refuse_different(_n_different(table, expected), level, rule)


def _n_different(tables: Ints, expected: Ints) -> int:
    return int((tables != expected).any(axis=1).sum())


def _refuse_different(n_wrong: int, level: int, rule: str) -> None:
    if n_wrong:
        units = "the table of 1 unit is" if n_wrong == 1 else f"the tables of {n_wrong:,} units are"
        raise ConditionError(f"{units} not what the rule {rule!r} gives, at level {level}")


def why_not(
    starts: Sequence[Ints],
    n_cells: int,
    exact_rows: Sequence[tuple[Cells, ...]] = (),
    zero_masks: Sequence[Bools] = (),
) -> str | None:
    """Return why the rule does not apply to a tree, whatever is measured; None if it does.

    Examples
    --------
    >>> crossing = ((0, 1), (0, 2))
    >>> why_not([np.array([0, 2])], 4, [crossing, crossing]) is None
    True
    >>> margins = ((0, 1, 2), (3, 4, 5), (0, 3), (1, 4), (2, 5))
    >>> why_not([np.array([0, 2])], 6, [margins, margins])[:45]
    'at level 1, the exact sums cross each other a'
    """
    for level, rows in enumerate(exact_rows):
        if level == 0:
            continue
        above = {frozenset(cells) for cells in exact_rows[level - 1]}
        if any(frozenset(cells) not in above for cells in rows):
            return f"sums are exact at level {level} that are not stated at the level above it"
        zeros = zero_masks[level] if zero_masks else None
        why = ExactCellSums(tuple(rows), n_cells).why_not(starts[level - 1], zeros)
        if why is not None:
            return f"at level {level}, {why}"
    return None


@dataclass(frozen=True)
class LeastSquaresOfTree(TreeRule):
    """The rule *gls*: `decide`, `check` and `why_not` of this module."""

    def decide(
        self, data: TreeMeasurements, decide_top: DecideTop, progress: Progress = silent, n_threads: int | None = None
    ) -> tuple[Ints, ...]:
        """Return the tables of every level (unit, cell)."""
        return decide(data, decide_top, progress, n_threads)

    def check(self, data: TreeMeasurements, tables: Sequence[Ints], decide_top: DecideTop) -> None:
        """Raise `ConditionError` unless these are the tables of the rule."""
        check(data, tables, decide_top)

    def why_not(
        self,
        starts: Sequence[Ints],
        n_cells: int,
        exact_rows: Sequence[tuple[Cells, ...]] = (),
        zero_masks: Sequence[Bools] = (),
    ) -> str | None:
        """Return why the rule does not apply to a tree; None if it does."""
        return why_not(starts, n_cells, exact_rows, zero_masks)

    def way(self, exact_rows: tuple[Cells, ...], n_cells: int) -> str:
        """Return how integers of a family are found, given what is exact in every child."""
        return ExactCellSums(exact_rows, n_cells).way


GLS = LeastSquaresOfTree(
    "gls",
    1,
    "least squares over the tree",
    "Estimates of every unit are the least squares of the measurements of all levels together, with all exact numbers."
    " Then counts are decided from the top down: those of a unit's parts add up to its own, are not negative, have the"
    " exact numbers, and are nearest to the estimates by the sum of squared differences. Counts that are equally near"
    " are decided between by public random numbers.",
)
