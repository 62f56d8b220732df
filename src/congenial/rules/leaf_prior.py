"""The rule *leaf-prior* of trees: *gls* above the leaves, and at the leaves a learned prior with inherited zeros.

Least squares know nothing of what counts look like: most cells of a block are 0 or small, and a block that is large in
one cell is large in others. That can be learned from measurements, and decides most where noise is larger than counts.
The count of a leaf's cell is negative binomial around its rate times the cell's part of the family's decided table; the
chances of rates, and a shape for each cell, are those that make the measurements of some families likely. Given these,
a leaf's posteriors follow from its measurements alone. They are tilted to what the family has to add up to, and the
integers have the least expected absolute loss under all sums.

*Inherited zeros*: a cell that the rule *gls* has at 0, and that has a chance of 1/4 or more to be 0, is 0.

Public: nothing here reads more than measurements and structure. What is learned is rounded, and published beside the
tables; given it, each table of a family is computed by itself and in a fixed order, the same on every machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from typing import ClassVar

import numpy as np

from congenial.arrays import Floats, Ints
from congenial.errors import ConditionError
from congenial.memory_and_threads import map_in_threads
from congenial.portable_math import exp_e, log_1_plus
from congenial.progress_and_interrupts import DECIDING, Progress, silent
from congenial.rules import gls
from congenial.rules.family_integers import Cells, families_at_once
from congenial.rules.kernels_leaf_prior import (
    LARGEST,
    LOWEST_MEAN,
    MEANS,
    RATES,
    STEPS,
    PriorTables,
    decide_leaves,
    update_rates,
)
from congenial.rules.rule_and_input import FRACTION_BITS, Learned
from congenial.rules.tree_measurements import Bools, DecideTop, TreeMeasurements, TreeRule

SHAPES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)
"""Shapes of a cell that are compared."""

LEAST_ZERO = 0.25
"""The least chance of 0 with which a zero is inherited."""

MOST_RATES_OFF, MOST_SHAPES_OFF = 2.0**-8, 1
"""How far what is published as learned may be from what is learned again: all chances of rates together, and how many
places a shape is from its own among `SHAPES`."""

_LARGE = 2.0**20
_MOST_REACH = 4_096
_MOST_LEAVES = 6_000  # that are learned from
_STEPS_OF_LEARNING = 24
_SHAPES_AT = (5, 10, 15, 20)
_FIRST_SHAPE = 4
_CELLS_AT_ONCE = 2**18
_LEAST_LIKELIHOOD = 1e-18
_LEAST_RATE = 1e-6
_ONE = 1 << FRACTION_BITS


def noise_weights(variance: float, exponent: int) -> Floats:
    """Return weights of noise of 0, 1, ..., up to twice as far as posteriors go (offset,).

    Parameters
    ----------
    exponent : int
        2 for the discrete Gaussian, where the variance is its parameter; 1 for Double Geometric noise.
    """
    if exponent == 2:
        reach = int(np.ceil(5.0 * np.sqrt(variance))) + 1
        weights = [exp_e(-offset * offset / (2.0 * variance)) for offset in range(2 * reach + 1)]
    else:
        half = 1.0 + 1.0 / variance
        # The root of a large square is no different from it, and of a larger one leaves the doubles.
        base = half - float(np.sqrt(half * half - 1.0)) if half < _LARGE else 0.5 / half
        weights = [1.0]
        while weights[-1] > 1e-7:
            weights.append(weights[-1] * base)
        reach = len(weights)
        while len(weights) < 2 * reach + 1:
            weights.append(weights[-1] * base)
    return np.array(weights)


@lru_cache(maxsize=64)
def _chances(shape: float, n_counts: int) -> Floats:
    """Return chances of counts (mean, count): negative binomial of a shape, around each mean of the grid."""
    means = np.array([exp_e((place + LOWEST_MEAN) / STEPS) for place in range(MEANS)])
    out = np.empty((MEANS, n_counts))
    out[:, 0] = [exp_e(-shape * log_1_plus(mean / shape)) for mean in means]
    ratio = means / (means + shape)
    for count in range(1, n_counts):
        out[:, count] = out[:, count - 1] * ratio * ((count - 1 + shape) / count)
    return out


def prior_tables(rates: Floats, shapes: Sequence[float], variance: float, exponent: int) -> PriorTables:
    """Return the tables of a prior and of noise."""
    noise = noise_weights(variance, exponent)
    reach = len(noise) // 2
    counts = np.stack([_chances(shape, LARGEST + reach + 1) for shape in shapes])
    likelihoods = np.zeros((len(shapes), LARGEST + reach + 1, MEANS))
    for offset in range(-reach, reach + 1):
        # A measurement is a count and the offset; its row is its place from -reach on.
        low = max(0, -reach - offset)
        high = min(counts.shape[2], LARGEST - offset + 1)
        likelihoods[:, low + offset + reach : high + offset + reach] += noise[abs(offset)] * counts[
            :, :, low:high
        ].transpose(0, 2, 1)
    at_0 = np.array([noise[abs(number)] if abs(number) < len(noise) else 0.0 for number in range(-reach, LARGEST + 1)])
    largest = np.maximum(np.maximum(likelihoods.max(axis=(0, 2)), at_0), 1e-300)  # far from all where noise is tiny
    likelihoods = np.maximum(likelihoods / largest[None, :, None], _LEAST_LIKELIHOOD)
    at_0 = np.maximum(at_0 / largest, _LEAST_LIKELIHOOD)
    return PriorTables(rates, counts, likelihoods, np.tile(at_0, (len(shapes), 1)), noise, reach)


def _of_tree(tree: TreeMeasurements, rates: Floats, shapes: Sequence[float]) -> PriorTables:
    return prior_tables(rates, shapes, tree.variances[-1], tree.exponent)


def _classes(tree: TreeMeasurements) -> tuple[Cells, ...]:
    """Return the cells of each class of the leaves' exact sums."""
    return tuple(cells for tied in tree.exact[-1].tied for cells in tied.classes)


def exposures(tree: TreeMeasurements, table: Ints, families: slice, parents: Ints) -> Floats:
    """Return what part of its family's count a rate of 1 expects in each cell of each child (child, cell).

    Children share alike; but where the sum of a class is known, they share by these. Structural zeros have no part.

    Parameters
    ----------
    table : array (child, cell)
        Any table of these children that has their exact sums.
    parents : array (family, cell)
    """
    starts = tree.starts[-1][families.start : families.stop + 1]
    sizes = np.diff(starts)
    zeros = tree.zeros(tree.n_levels - 1, slice(int(starts[0]), int(starts[-1])))
    is_open = ~zeros if zeros.size else np.ones((len(table), tree.n_cells), np.bool_)
    shares = is_open.astype(np.float64)
    n_open = np.add.reduceat(is_open.astype(np.int64), starts[:-1] - starts[0], axis=0)
    shares /= np.repeat(np.maximum(n_open, 1), sizes, axis=0)
    for cells in map(list, _classes(tree)):
        whole = np.repeat(np.maximum(parents[:, cells].sum(axis=1), 1), sizes)
        known = table[:, cells].sum(axis=1) / whole
        shares[:, cells] = np.where(is_open[:, cells], known[:, None], 0.0)
    return shares


def learn(tree: TreeMeasurements, tables: Sequence[Ints]) -> Learned:
    """Return the chances of rates and the shape of each cell that make measured leaves likely, in whole numbers.

    Of evenly spread leaves, by steps of expectation and maximisation; every few steps each cell takes the shape of
    `SHAPES` that fits best, given the other cells of each leaf.

    Parameters
    ----------
    tables : sequence of arrays (unit, cell)
        Of all levels; of the leaves no more is taken than their exact sums.

    Returns
    -------
    mapping
        ``rates`` (rate,), which add up to ``2**FRACTION_BITS``, and ``shapes`` (cell,), in units of
        ``2**-FRACTION_BITS``.

    Examples
    --------
    >>> tree = TreeMeasurements((np.array([0, 2]),), (np.array([[9, 4]]), np.array([[4, 3], [3, -2]])), (1.0, 1.0))
    >>> learned = learn(tree, (np.array([[8, 3]]), np.array([[5, 3], [3, 0]])))
    >>> {name: len(numbers) for name, numbers in learned.items()}, sum(learned["rates"]) == 2**FRACTION_BITS
    ({'rates': 41, 'shapes': 2}, True)
    """
    starts, n_leaves = tree.starts[-1], len(tree.measured[-1])
    leaves = np.arange(0, n_leaves, -(-n_leaves // _MOST_LEAVES))
    families = np.searchsorted(starts, leaves, side="right") - 1
    expected = np.empty((len(leaves), tree.n_cells))
    for number in np.unique(families).tolist():  # a family at a time, whatever their sizes
        chosen = families == number
        units = slice(int(starts[number]), int(starts[number + 1]))
        parents = tables[-2][number : number + 1]
        shares = exposures(tree, tables[-1][units], slice(number, number + 1), parents)
        expected[chosen] = (shares * parents)[leaves[chosen] - units.start]
    measured = np.ascontiguousarray(tree.measured[-1][leaves])
    rates = np.full(RATES + 1, 0.7 / RATES)
    rates[0] = 0.3
    shapes = np.full(tree.n_cells, _FIRST_SHAPE)
    prior = _of_tree(tree, rates, SHAPES)
    for step in range(_STEPS_OF_LEARNING):
        n_fitted = tree.n_cells if step in _SHAPES_AT else 0
        fits, means = np.zeros((n_fitted, len(SHAPES))), np.empty(RATES + 1)
        update_rates(prior, measured, expected, shapes, fits, means)
        if n_fitted:
            shapes = fits.argmax(axis=1)
        means += _LEAST_RATE
        sum_ = 0.0
        for mean in means.tolist():  # in a fixed order
            sum_ += mean
        prior = prior._replace(rates=means / sum_)
    whole: Ints = np.maximum(np.rint(prior.rates * _ONE), 1).astype(np.int64)
    whole[whole.argmax()] += _ONE - whole.sum()
    return {"rates": tuple(whole.tolist()), "shapes": tuple(int(SHAPES[shape] * _ONE) for shape in shapes.tolist())}


def _checked(tree: TreeMeasurements, learned: Learned) -> Learned:
    """Return what was learned; refuses what cannot have been."""
    rates, shapes = learned.get("rates", ()), learned.get("shapes", ())
    fits = set(learned) == {"rates", "shapes"} and (len(rates), len(shapes)) == (RATES + 1, tree.n_cells)
    if not fits or min(rates) < 1 or sum(rates) != _ONE:
        raise ConditionError(
            f"the rule learns {RATES + 1} chances of rates that add up to {_ONE:,}, and a shape for each of"
            f" {tree.n_cells} cells"
        )
    known = [int(shape * _ONE) for shape in SHAPES]
    if not set(shapes) <= set(known):
        raise ConditionError(f"the shape of a cell is one of {', '.join(map(str, known))}, and there are others")
    return learned


def leaves_by_prior(
    tree: TreeMeasurements,
    tables: Sequence[Ints],
    learned: Learned,
    progress: Callable[[int], None] = lambda _: None,
    n_threads: int | None = None,
) -> Ints:
    """Return the tables of the leaves (leaf, cell), a family by itself and some at a time.

    Parameters
    ----------
    tables : sequence of arrays (unit, cell)
        Of the rule *gls*, of all levels.
    progress : function
        Told how many leaves are decided.
    """
    starts, level = tree.starts[-1], tree.n_levels - 1
    in_use, numbers = np.unique(learned["shapes"], return_inverse=True)
    shapes = numbers.reshape(-1).astype(np.int64)
    prior = _of_tree(tree, np.array(learned["rates"]) / float(_ONE), [float(shape) / _ONE for shape in in_use])
    classes = np.full(tree.n_cells, -1, np.int64)
    for number, cells in enumerate(_classes(tree)):
        classes[list(cells)] = number

    def work(families: slice) -> Ints:
        children = slice(int(starts[families.start]), int(starts[families.stop]))
        parents = np.ascontiguousarray(tables[-2][families])
        out = np.empty((children.stop - children.start, tree.n_cells), np.int64)
        status = decide_leaves(
            prior,
            np.ascontiguousarray(tree.measured[-1][children]),
            np.ascontiguousarray(tables[-1][children]),
            starts[families.start : families.stop + 1] - children.start,
            parents,
            exposures(tree, tables[-1][children], families, parents),
            shapes,
            classes,
            LEAST_ZERO,
            np.uint64(tree.key(level)),
            tree.first_place(level) + children.start,
            out,
        )
        if status:
            raise ConditionError("internal: a family has no table with inherited zeros; please report this")
        return out

    leaves, first = np.empty_like(tables[-1]), 0
    for part in map_in_threads(work, families_at_once(starts, max(1, _CELLS_AT_ONCE // tree.n_cells)), n_threads):
        leaves[first : first + len(part)] = part
        first += len(part)
        progress(first)
    return leaves


def decide(
    tree: TreeMeasurements, decide_top: DecideTop, progress: Progress = silent, n_threads: int | None = None
) -> tuple[Ints, ...]:
    """Return consistent tables of all levels (unit, cell), the first one first.

    Above the leaves they are those of the rule *gls*. What is learned is that of `tree`, or `learn` says it.

    Examples
    --------
    >>> tree = TreeMeasurements((np.array([0, 3]),), (np.array([[9]]), np.array([[8], [1], [-1]])), (0.5, 2.0))
    >>> [tables.ravel().tolist() for tables in decide(tree, gls.nearest_counts)]
    [[9], [9, 0, 0]]
    """
    n_leaves = len(tree.measured[-1])
    n_units = sum(map(len, tree.measured)) + n_leaves

    def of_gls(name: str, n_done: int = 0, _: int = 0) -> None:
        progress(name, n_done, n_units)

    tables = gls.decide(tree, decide_top, of_gls, n_threads)
    learned = _checked(tree, tree.learned or learn(tree, tables))

    def of_leaves(n_done: int) -> None:
        progress(DECIDING, n_units - n_leaves + n_done, n_units)

    return (*tables[:-1], leaves_by_prior(tree, tables, learned, of_leaves, n_threads))


def check(
    tree: TreeMeasurements, tables: Sequence[Ints], decide_top: DecideTop | None = None, n_threads: int | None = None
) -> None:
    """Raise `ConditionError` unless these are the tables of the rule, and what it learned is what can be learned.

    Given what was learned, all integers must agree. What was learned must be within `MOST_RATES_OFF` and
    `MOST_SHAPES_OFF` of what is learned again.
    """
    gls.check_shapes(tree, tables)
    if tree.learned:
        _check_learned(tree, tables)
    first = tables[0]
    gls.check_same(tables, decide(tree, decide_top or (lambda _: first), silent, n_threads), LEAF_PRIOR.name)


def _check_learned(tree: TreeMeasurements, tables: Sequence[Ints]) -> None:
    stated, again = _checked(tree, tree.learned), learn(tree, tables)
    known = [int(shape * _ONE) for shape in SHAPES]
    off = sum(abs(a - b) for a, b in zip(stated["rates"], again["rates"], strict=True))
    places = [[known.index(shape) for shape in some["shapes"]] for some in (stated, again)]
    if off > MOST_RATES_OFF * _ONE:
        raise ConditionError(
            f"the chances of rates that were learned are off by {off / _ONE:.4f} in all from those that the"
            f" measurements give, and may be by {MOST_RATES_OFF:.4f}"
        )
    if any(abs(a - b) > MOST_SHAPES_OFF for a, b in zip(*places, strict=True)):
        raise ConditionError("the shape of a cell is not the one that the measurements give, nor next to it")


@dataclass(frozen=True)
class PriorOfLeaves(TreeRule):
    """The rule *leaf-prior*: `decide`, `check` and `learn` of this module."""

    learns: ClassVar[bool] = True

    def decide(
        self, data: TreeMeasurements, decide_top: DecideTop, progress: Progress = silent, n_threads: int | None = None
    ) -> tuple[Ints, ...]:
        """Return the tables of every level (unit, cell)."""
        return decide(data, decide_top, progress, n_threads)

    def check(self, data: TreeMeasurements, tables: Sequence[Ints], decide_top: DecideTop) -> None:
        """Raise `ConditionError` unless these are the tables of the rule."""
        check(data, tables, decide_top)

    def learn(self, data: TreeMeasurements, tables: Sequence[Ints]) -> Learned:
        """Return the chances of rates and the shapes of cells."""
        return learn(data, tables)

    def why_not(
        self,
        starts: Sequence[Ints],
        n_cells: int,
        exact_rows: Sequence[tuple[Cells, ...]] = (),
        zero_masks: Sequence[Bools] = (),
    ) -> str | None:
        """Return why the rule does not apply to a tree; None if it does."""
        if not starts:
            return "it has one level: the rule learns how units share what the level above them has"
        return gls.why_not(starts, n_cells, exact_rows, zero_masks)

    def why_too_noisy(self, n_cells: int, precision: Fraction, exponent: int) -> str | None:  # noqa: ARG002
        """Return why leaves with such noise are beyond the rule; None if they are not."""
        reach = 5.0 / sqrt(precision) if exponent == 2 else 16.2 / float(precision)
        if reach <= _MOST_REACH:
            return None
        return (
            f"the rule {self.name} looks at counts up to {reach:,.0f} from a measurement at a precision of"
            f" {float(precision):.2g}, and is made for {_MOST_REACH:,}: take the rule {gls.GLS.name}, or a larger"
            " budget or share for the lowest level"
        )

    def way(self, exact_rows: tuple[Cells, ...], n_cells: int) -> str:
        """Return how integers of a family are found, given what is exact in every child."""
        return gls.GLS.way(exact_rows, n_cells)

    def way_at_leaves(self, exact_rows: tuple[Cells, ...], n_cells: int) -> str:
        """Return the same of the leaves."""
        return f"{gls.GLS.way(exact_rows, n_cells)}, by a prior that is learned from the measurements"


LEAF_PRIOR = PriorOfLeaves(
    "leaf-prior",
    1,
    "least squares over the tree, a learned prior at its leaves",
    "Above the lowest level, counts are those of least squares over all levels together, as by the rule gls. At the"
    " lowest level a prior is used that is learned from the measurements: how units differ in size, and how cells"
    " scatter. Counts there have the least expected absolute error by it that add up to the unit above and have the"
    " exact numbers; where the rule gls has a 0 that the prior gives a chance of 1 in 4 or more, it stays. Counts of"
    " single units are pulled towards what is usual.",
)
