"""The rule *margins* of trees: every level measures the same margins of its units' tables, and no cells.

A table is a sum of orthogonal components, one for each set of its dimensions (`congenial.rules.workload.components`):
the margin over the set, less the mean along each of its axes. A margin says something of the components inside it, with
one variance each, so that each component is a tree of its own for `congenial.rules.gls`, and all together are the least
squares of the whole tree. Where several margins of a level have measured a component, each is a level of its tree by
itself, whose units have one child each. Components are taken times the labels of their axes, so that they are whole
numbers, and a cell of a margin is the sum of its components over the number of its cells.

Then counts of cells are decided from the top down. What was measured in no margin is a model: the proportions of the
parent, fitted to the margins of each child. Counts nearest to the fit, which add up to those of the parent and have the
exact sums (`congenial.rules.family_integers`), are moved between siblings until no move brings the measured margins
nearer to their estimates, weighted by one over the variance of their noise.

Public, and the same integers on every machine, for any chunks and threads, as the rule *gls*.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod
from typing import ClassVar

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.rows_and_intervals import Row, cells_alike
from congenial.errors import ConditionError
from congenial.memory_and_threads import map_in_threads
from congenial.progress_and_interrupts import DECIDING, Progress, silent
from congenial.rules import gls
from congenial.rules.family_integers import Cells, families_at_once
from congenial.rules.kernels_margins import fit_cells, move_nearer
from congenial.rules.rule_and_input import FRACTION_BITS
from congenial.rules.tree_measurements import Bools, DecideTop, TreeMeasurements, TreeRule
from congenial.rules.workload.margins import Axes, shape_of, subsets

_NUMBERS_AT_ONCE = 2**20
_WEIGHT_BITS = 12  # of the largest weight of a margin
_PULL = 2**6  # the smallest of these weights over that of a cell's distance from the fit
_SWEEPS = 12
_FLOOR = 0.02
_STOCK = np.int64(2**24)
_KEY_OF_MOVES = int.from_bytes(b"moves", "big")


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeMargins(TreeMeasurements):
    """Margins of every level of a tree, measured in place of cells: `measured` is 0 everywhere.

    Attributes
    ----------
    sizes : tuple of int
        How many labels each dimension has; the last one varies fastest among cells.
    tables : tuple of tuple of int
        The dimensions of each measured margin.
    answers : tuple of tuples of arrays (unit, cell of the margin)
        For each level and margin what was measured.
    margin_variances : tuple of tuples of float
        Of their noise; infinite where a margin is not measured at a level.
    exact_parts : tuple of dict
        For each level its exact components by their dimensions, times the number of their cells: (unit, cell).

    Examples
    --------
    >>> answers = [(np.array([[9, 4]]), np.array([[6, 7]])), (np.array([[5, 3], [3, 2]]), np.array([[4, 4], [1, 4]]))]
    >>> tree = TreeMargins.of([np.array([0, 2])], (2, 2), ((0,), (1,)), answers, [(1.0, 1.0)] * 2)
    >>> [(margins / 2**FRACTION_BITS).round(2).tolist() for margins in estimate(tree)]
    [[[8.67, 4.33, 5.67, 7.33]], [[5.33, 2.67, 4.33, 3.67], [3.33, 1.67, 1.33, 3.67]]]
    """

    sizes: tuple[int, ...] = ()
    tables: tuple[Axes, ...] = ()
    answers: tuple[tuple[Ints, ...], ...] = field(default=(), repr=False)
    margin_variances: tuple[tuple[float, ...], ...] = ()
    exact_parts: tuple[dict[Axes, Ints], ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls,
        starts: Sequence[Ints],
        sizes: tuple[int, ...],
        tables: tuple[Axes, ...],
        answers: Sequence[tuple[Ints, ...]],
        margin_variances: Sequence[tuple[float, ...]],
        *,
        exact_rows: tuple[tuple[Cells, ...], ...] = (),
        exact_values: tuple[Ints, ...] = (),
        exact_parts: Sequence[dict[Axes, Ints]] = (),
        seed: bytes = bytes(32),
    ) -> "TreeMargins":
        """Return the margins of a tree."""
        return cls(
            starts=tuple(starts),
            measured=tuple(np.broadcast_to(np.int64(0), (len(some[0]), prod(sizes))) for some in answers),
            variances=(1.0,) * len(answers),
            exact_rows=exact_rows,
            exact_values=exact_values,
            seed=seed,
            sizes=sizes,
            tables=tables,
            answers=tuple(answers),
            margin_variances=tuple(margin_variances),
            exact_parts=tuple(exact_parts),
        )

    def targets(self, level: int, units: slice) -> Ints:  # noqa: ARG002
        """Refuse: cells were not measured, and their least squares are not those of a tree of cells."""
        raise ConditionError("margins of this tree were measured, and no cells: `margin_trees.estimate` estimates them")

    @cached_property
    def parts(self) -> tuple[Axes, ...]:
        """The components that measured margins have."""
        return tuple(dict.fromkeys(part for axes in self.tables for part in subsets(axes)))

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """Where the cells of each margin begin among all answers, and how many answers there are."""
        return tuple(np.cumsum([0, *(prod(shape_of(self.sizes, axes)) for axes in self.tables)]).tolist())

    @cached_property
    def places(self) -> Ints:
        """Which answer counts a cell, for each margin (margin, cell)."""
        lines = []
        for first, axes in zip(self.firsts, self.tables, strict=False):
            shape = shape_of(self.sizes, axes)
            numbers = np.arange(prod(shape)).reshape([n if a in axes else 1 for a, n in enumerate(self.sizes)])
            lines.append(first + np.broadcast_to(numbers, self.sizes).reshape(-1))
        return np.array(lines, np.int64)

    @cached_property
    def classes(self) -> tuple[Ints, ...]:
        """For each level which cells are in the same exact sums (cell,); -1 of those in none."""
        out = []
        for exact in self.exact:
            numbers = np.full(self.n_cells, -1, np.int64)
            alike = cells_alike([Row.of("", cells) for cells in exact.rows], self.n_cells)
            for number, (column, cells) in enumerate(alike.items()):
                if column:
                    numbers[list(cells)] = number
            out.append(numbers)
        return tuple(out)

    def weights(self, level: int) -> Ints:
        """Return the weight of each margin, and of the distance of cells from the fit (margin + 1,)."""
        precisions = [1 / variance for variance in self.margin_variances[level]]
        largest = max(precisions) or 1.0
        weights = [max(_PULL, round(some / largest * 2**_WEIGHT_BITS)) for some in precisions]
        return np.array([*weights, min(weights) // _PULL], np.int64)


def component(values: Ints, axes: Axes, part: Axes, sizes: Sequence[int]) -> Ints:
    """Return a component of margins (unit, cell), times the number of its cells: whole numbers.

    Examples
    --------
    >>> component(np.array([[1, 2, 3, 6]]), (0, 1), (1,), (2, 2)).tolist()
    [[-4, 4]]
    """
    table = values.reshape(len(values), *shape_of(sizes, axes))
    table = table.sum(axis=tuple(1 + place for place, axis in enumerate(axes) if axis not in part))
    for place, axis in enumerate(part, 1):
        table = sizes[axis] * table - table.sum(axis=place, keepdims=True)
    return np.ascontiguousarray(table.reshape(len(values), -1))


def component_tree(tree: TreeMargins, part: Axes) -> tuple[TreeMeasurements, list[int]]:
    """Return the tree of one component, and which of its levels is the first of each level of the whole."""
    starts, measured, variances, firsts = list[Ints](), list[Ints](), list[float](), list[int]()
    rows, values = list[tuple[Cells, ...]](), list[Ints]()
    n_cells = prod(shape_of(tree.sizes, part))
    every = tuple((cell,) for cell in range(n_cells))
    for level, (answers, of_margins) in enumerate(zip(tree.answers, tree.margin_variances, strict=True)):
        exact = tree.exact_parts[level].get(part) if tree.exact_parts else None
        known: Iterator[tuple[Ints, float]] = (
            (component(some, axes, part, tree.sizes), variance * prod(n for a, n in enumerate(tree.sizes) if a in axes))
            for some, axes, variance in zip(answers, tree.tables, of_margins, strict=True)
            if set(part) <= set(axes) and variance < inf
        )
        nothing = np.zeros((len(answers[0]), n_cells), np.int64)
        last = level + 1 == tree.n_levels
        levels = list(known) if exact is None else [(exact, 1.0 if last else inf)]
        firsts.append(len(measured))
        for number, (some, variance) in enumerate(levels or [(nothing, inf)]):
            if measured:
                starts.append(tree.starts[level - 1] if number == 0 else np.arange(len(some) + 1))
            measured.append(some)
            variances.append(variance)
            rows.append(() if exact is None else every)
            values.append(nothing[:, :0] if exact is None else exact)
    if not any(rows):
        rows, values = [], []
    whole = TreeMeasurements(tuple(starts), tuple(measured), tuple(variances), tuple(rows), tuple(values))
    return whole, firsts


def estimate(tree: TreeMargins, n_threads: int | None = None) -> tuple[Ints, ...]:
    """Return the least squares of all margins of all units (unit, answer), in units of ``2**-FRACTION_BITS``.

    The answers of one margin after the other; real numbers, which may be negative.
    """
    totals = [np.zeros((len(table), tree.firsts[-1]), np.int64) for table in tree.measured]
    for part in tree.parts:
        of_part, firsts = component_tree(tree, part)
        estimates = gls.estimate(of_part, n_threads)
        for level, first in enumerate(firsts):
            shape = [n if axis in part else 1 for axis, n in enumerate(tree.sizes)]
            known = estimates[first].reshape(-1, *shape)
            for place, axes in enumerate(tree.tables):
                if set(part) <= set(axes):
                    wide = known.reshape(-1, *(shape[axis] for axis in axes))
                    wide = np.broadcast_to(wide, (len(wide), *shape_of(tree.sizes, axes)))
                    totals[level][:, tree.firsts[place] : tree.firsts[place + 1]] += wide.reshape(len(wide), -1)
    for place in range(len(tree.tables)):
        first, end = tree.firsts[place : place + 2]
        for total in totals:
            total[:, first:end] = (total[:, first:end] + (end - first) // 2) // (end - first)
    return tuple(totals)


# Whole counts.


def _fitted(tree: TreeMargins, starts: Ints, parents: Ints, estimates: Ints) -> Ints:
    cells = np.empty((len(estimates), tree.n_cells), np.int64)
    fit_cells(starts, parents, estimates, tree.places, _SWEEPS, FRACTION_BITS, _FLOOR, cells)
    return cells


def _moved(tree: TreeMargins, level: int, first: int, starts: Ints, aims: tuple[Ints, Ints], counts: Ints) -> None:
    """Move counts of families (child, cell), in place, nearer to estimates of answers and cells.

    Parameters
    ----------
    first : int
        The number of the first child.
    """
    cells = tree.firsts[-1] + np.arange(tree.n_cells)
    move_nearer(
        np.hstack(aims),
        starts,
        np.vstack([tree.places, cells]),
        tree.weights(level),
        tree.classes[level],
        np.ones(len(counts), np.int64),
        np.uint64(tree.key(level) ^ _KEY_OF_MOVES),
        tree.first_place(level) + first,
        FRACTION_BITS,
        counts,
    )


def _top(tree: TreeMargins, estimates: Ints, decide_top: DecideTop) -> Ints:
    """Return the counts of the units of the first level: each draws from a stock of its own."""
    n_units = len(estimates)
    flat = np.ones((1, tree.n_cells), np.int64)
    cells = _fitted(tree, np.array([0, n_units]), flat, estimates)
    tables = decide_top(cells.copy())
    both = np.stack([tables, np.full_like(tables, _STOCK)], axis=1).reshape(2 * n_units, -1)
    aims = np.hstack([estimates, cells])
    move_nearer(
        np.stack([aims, np.zeros_like(aims)], axis=1).reshape(2 * n_units, -1),
        np.arange(0, 2 * n_units + 1, 2),
        np.vstack([tree.places, tree.firsts[-1] + np.arange(tree.n_cells)]),
        tree.weights(0),
        tree.classes[0],
        np.tile(np.array([1, 0]), n_units),
        np.uint64(tree.key(0) ^ _KEY_OF_MOVES),
        2 * tree.first_place(0),
        FRACTION_BITS,
        both,
    )
    return np.ascontiguousarray(both[::2])


def decide(
    tree: TreeMargins, decide_top: DecideTop, progress: Progress = silent, n_threads: int | None = None
) -> tuple[Ints, ...]:
    """Return consistent tables of all levels (unit, cell), the first one first.

    No count is negative, children add up to their parents and exact sums are kept. The same input gives the same
    integers everywhere.

    Parameters
    ----------
    decide_top : function
        From cells of the first level (unit, cell), in units of ``2**-FRACTION_BITS``, to integers near to them, under
        all that is exact there, and under `TreeMeasurements.limits_at_top`.

    Examples
    --------
    >>> answers = [(np.array([[9, 4]]), np.array([[6, 7]])), (np.array([[5, 3], [3, 2]]), np.array([[4, 4], [1, 4]]))]
    >>> tree = TreeMargins.of([np.array([0, 2])], (2, 2), ((0,), (1,)), answers, [(1.0, 1.0)] * 2)
    >>> top, leaves = decide(tree, gls.nearest_counts)
    >>> top.reshape(2, 2).sum(axis=0).tolist(), leaves.sum(axis=0).tolist() == top[0].tolist()
    ([6, 7], True)
    """
    n_done, n_units = len(tree.measured[0]), sum(map(len, tree.measured))
    progress(DECIDING, 0, n_units)
    estimates = estimate(tree, n_threads)
    decided = [_top(tree, estimates[0], decide_top)]
    gls.check_first(tree, decided[0])
    for level, (starts, known) in enumerate(zip(tree.starts, estimates[1:], strict=True)):

        def work(families: slice, level: int = level, starts: Ints = starts, known: Ints = known) -> Ints:
            first, end = int(starts[families.start]), int(starts[families.stop])
            own = starts[families.start : families.stop + 1] - first
            cells = _fitted(tree, own, decided[level][families], known[first:end])
            counts = gls.counts_of_children(tree, level, families, decided[level], cells)
            _moved(tree, level + 1, first, own, (known[first:end], cells), counts)
            return counts

        parts = list[Ints]()
        at_once = max(1, _NUMBERS_AT_ONCE // (tree.n_cells + tree.firsts[-1]))
        for counts in map_in_threads(work, families_at_once(starts, at_once), n_threads):
            parts.append(counts)
            n_done += len(counts)
            progress(DECIDING, n_done, n_units)
        decided.append(np.concatenate(parts))
    return tuple(decided)


def check(tree: TreeMargins, tables: Sequence[Ints], decide_top: DecideTop, n_threads: int | None = None) -> None:
    """Raise `ConditionError` unless these are the tables of the rule: they are decided again, and must agree."""
    gls.check_shapes(tree, tables)
    gls.check_same(tables, decide(tree, decide_top, silent, n_threads), MARGINS.name)


@dataclass(frozen=True)
class MarginsOfTree(TreeRule):
    """The rule *margins*: `decide` and `check` of this module."""

    measures_cells: ClassVar[bool] = False

    def decide(
        self, data: TreeMeasurements, decide_top: DecideTop, progress: Progress = silent, n_threads: int | None = None
    ) -> tuple[Ints, ...]:
        """Return the tables of every level (unit, cell)."""
        return decide(_margins(data), decide_top, progress, n_threads)

    def check(self, data: TreeMeasurements, tables: Sequence[Ints], decide_top: DecideTop) -> None:
        """Raise `ConditionError` unless these are the tables of the rule."""
        check(_margins(data), tables, decide_top)

    def why_not(
        self,
        starts: Sequence[Ints],
        n_cells: int,
        exact_rows: Sequence[tuple[Cells, ...]] = (),
        zero_masks: Sequence[Bools] = (),
    ) -> str | None:
        """Return why the rule does not apply to a tree; None if it does."""
        if zero_masks:
            return "structural zeros tie the components of margins together; leave them out, or measure every cell"
        return gls.why_not(starts, n_cells, exact_rows, zero_masks)

    def way(self, exact_rows: tuple[Cells, ...], n_cells: int) -> str:
        """Return how integers of a family are found, given what is exact in every child."""
        return f"{gls.GLS.way(exact_rows, n_cells)}, then moves between children towards the measured margins"


def _margins(data: TreeMeasurements) -> TreeMargins:
    if not isinstance(data, TreeMargins):
        raise ConditionError("the rule 'margins' is for measured margins, and these are measured cells")
    return data


MARGINS = MarginsOfTree(
    "margins",
    1,
    "least squares of margins over the tree",
    "Cells were not measured by themselves, but margins of them. Estimates of the measured margins of every unit are"
    " the least squares of the measurements of all levels together, with all exact numbers. Then counts are decided"
    " from the top down: those of a unit's parts add up to its own, are not negative, have the exact numbers, and no"
    " exchange between two parts brings the measured margins nearer to their estimates. A combination of labels that"
    " is in no measured margin is a model, the proportions of the unit above fitted to the margins, and has no"
    " interval.",
)
