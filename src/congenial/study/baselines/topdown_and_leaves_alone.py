"""The node of the Census Bureau's TopDown algorithm: nonnegative least squares in passes, then controlled rounding."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from congenial.arrays import Floats, Ints
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import BaselineError, import_extra
from congenial.mechanism_and_hierarchy import Hierarchy
from congenial.noise.noise_and_discrete_noise import DiscreteNoise
from congenial.plan import Plan
from congenial.privacy.tree_loss import level_precision
from congenial.randomness import KeyedWords, RandomStream, replay_rng
from congenial.sampling.allocation_to_children.sampler import Allocation, Families
from congenial.sampling.target_and_system import Measured
from congenial.study.baselines.base_and_least_squares import POST_PROCESSED, Label, Polytope, Problem, least_squares
from congenial.tree.drawing import discrete_noises
from congenial.tree.tree_and_zeros import Mask, Tree, TreeTables

_SLACK = 1e-6  # how far a later pass may move what an earlier one has fixed
_LOT = 1e-3  # of a cost of rounding: decides between cells whose remainders are alike


@dataclass(frozen=True)
class TopDown:
    """Fit the largest sums first, keep them, fit the next, and round to whole numbers that obey every condition.

    Passes go from queries of many cells to queries of few, as the 2020 Census did from totals to detailed cells. The
    rounding is an integer program (HiGHS) that moves every cell to a whole number next to it, as near in all as can be,
    and every released table is checked in exact integers.
    """

    label = Label("TopDown", POST_PROCESSED, "not available; biased next to limits")

    def repair(self, problem: Problem, answers: Floats) -> Ints:
        """Solve the passes and round."""
        x = self._fit(problem, answers)
        return rounded(problem, x)

    @staticmethod
    def _fit(problem: Problem, answers: Floats) -> Floats:
        sizes = sorted({len(query.row.cells) for query in problem.measured}, reverse=True)
        fixed: list[tuple[Row, float, float]] = []
        x, cell_answers = np.zeros(problem.n_cells), np.zeros(problem.n_cells)
        for query, answer in zip(problem.measured, answers, strict=True):
            if query.cell is not None:
                cell_answers[query.cell] = answer
        for number, size in enumerate(sizes):
            chosen = [i for i, query in enumerate(problem.measured) if len(query.row.cells) == size]
            measured: list[Measured] = [problem.measured[i] for i in chosen]
            queries, weights = problem.queries[chosen], problem.weights[chosen]
            polytope = Polytope.of(problem.constraints, tuple(fixed)) if fixed else problem.polytope
            # A little of the distance to the cells' own answers makes the solution unique where a pass leaves cells
            # open.
            ridge = 1e-6 if number < len(sizes) - 1 or len(measured) < problem.n_cells else 0.0
            stacked = np.vstack([queries, np.eye(problem.n_cells)]) if ridge else queries
            both = np.concatenate([weights / weights.max(), np.full(problem.n_cells, ridge)]) if ridge else weights
            aims = np.concatenate([answers[chosen], cell_answers]) if ridge else answers[chosen]
            x = least_squares(polytope, stacked, both / both.max(), aims)
            fixed += [
                (query.row, value - _SLACK, value + _SLACK) for query, value in zip(measured, queries @ x, strict=True)
            ]
        return x


def rounded(problem: Problem, x: Floats) -> Ints:
    """Return the whole-number table next to a real one that obeys every condition and is nearest to it in all."""
    near = np.rint(x)
    base = np.where(np.abs(x - near) < 1e-6, near, np.floor(x))
    for reach in (1, 2, 5):  # cells next to the real ones first; wider where those cannot meet every sum
        steps = _steps(problem, x, base, reach)
        if steps is None:
            continue
        table: Ints = (base + steps).astype(np.int64)
        if problem.constraints.holds(table):
            return table
    raise BaselineError("no whole-number table next to the fitted one obeys every condition; nothing is released")


def _steps(problem: Problem, x: Floats, base: Floats, reach: int) -> Floats | None:
    """Minimise ``sum |base + step - x|`` over whole steps from ``1 - reach`` to `reach` that meet every condition.

    A step is a sum of single ones, each cell's k-th one up or down at a cost of its own that grows with k, so that the
    program takes the near ones first.
    """
    optimize = import_extra("scipy.optimize", "study")

    polytope, n = problem.polytope, len(x)
    share = x - base
    ups = [np.abs(k - share) - np.abs(k - 1 - share) for k in range(1, reach + 1)]
    downs = [np.abs(-k - share) - np.abs(1 - k - share) for k in range(1, reach)]
    signs = [1.0] * len(ups) + [-1.0] * len(downs)
    shift = polytope.rows @ base if len(polytope.rows) else np.zeros(0)
    matrix = [np.hstack([sign * polytope.rows for sign in signs])]
    lower, upper = [polytope.row_low - shift], [polytope.row_high - shift]
    is_limited = np.flatnonzero((base + reach > polytope.high) | (base + 1 - reach < polytope.low))
    if is_limited.size:
        matrix.append(np.hstack([sign * np.eye(n)[is_limited] for sign in signs]))
        lower.append((polytope.low - base)[is_limited])
        upper.append((polytope.high - base)[is_limited])
    # Remainders are often alike. Left to the solver, their order would decide, and sums over many tables be off by it.
    lots = _LOT * replay_rng(f"rounding {x.round(6).tobytes().hex()}").uniforms(n * len(signs))
    answer = optimize.milp(
        np.concatenate([*ups, *downs]) + lots,
        integrality=np.ones(n * len(signs)),
        bounds=optimize.Bounds(0, 1),
        constraints=[
            optimize.LinearConstraint(*limits) for limits in zip(matrix, lower, upper, strict=True) if len(limits[0])
        ],
    )
    if answer.x is None:
        return None
    parts = np.rint(answer.x).reshape(len(signs), n)
    return np.asarray(np.array(signs) @ parts)


# The nearest nonnegative children of given sums, for all families of a level at once: TopDown below the top.
#
# Least squares with one sum and no negative numbers is projection onto a simplex: a common number is taken off every
# answer, and what would be negative is zero. Whole answers and sums make every comparison one of integers.


@dataclass(frozen=True, eq=False)
class SimplexFit:
    """Children above zero, the entries, in the order of the sums that they are part of.

    An entry is ``floor + remainder / n``, n being the number of entries of its sum. The remainder is the same for all
    entries of a sum, because answers are whole.

    Attributes
    ----------
    shape : tuple of int
        (child, cell).
    places : array (entry,)
        Where each entry stands in the flat array of children.
    sum_of : array (entry,)
        Which sum it is part of.
    floors : array (entry,)
    n_entries, remainders : arrays (sum,)

    Examples
    --------
    >>> from congenial.randomness import replay_rng
    >>> fit = SimplexFit.of(Families(np.array([0, 3])), np.array([[5], [2], [-4]]), np.array([[4]]))
    >>> fit.real.tolist()
    [[3.5], [0.5], [0.0]]
    >>> int(fit.rounded(replay_rng(1)).sum())
    4
    """

    shape: tuple[int, int]
    places: Ints
    sum_of: Ints
    floors: Ints
    n_entries: Ints
    remainders: Ints

    @classmethod
    def of(cls, families: Families, answers: Ints, sums: Ints) -> "SimplexFit":
        """Return the children that are nearest in squares to whole answers (child, cell), given their sums.

        Parameters
        ----------
        sums : array (family, cell)
            Not negative; zero where every child is a structural zero.
        """
        n_families, n_cells = len(families), answers.shape[1]
        if answers.dtype.kind != "i" or sums.dtype.kind != "i" or sums.shape != (n_families, n_cells):
            raise BaselineError("children are fitted to whole answers, and to one whole sum for each family and cell")
        family_of = np.repeat(np.arange(n_families), families.sizes)
        all_sums = (family_of[:, None] * n_cells + np.arange(n_cells)).reshape(-1)
        is_open = np.ones(answers.size, np.bool_) if families.zero_mask is None else ~families.zero_mask.reshape(-1)
        places = np.flatnonzero(is_open)
        order = np.lexsort((-answers.reshape(-1)[places], all_sums[places]))
        places = places[order]
        values, sum_of, aims = answers.reshape(-1)[places], all_sums[places], sums.reshape(-1)
        sizes = np.bincount(sum_of, minlength=aims.size)
        if (aims < 0).any() or aims[sizes == 0].any():
            raise BaselineError("sums that are negative, or of children that are all barred, cannot be shared out")
        firsts = np.cumsum(sizes) - sizes
        ranks = np.arange(values.size) - firsts[sum_of] + 1
        running = np.concatenate([[0], np.cumsum(values)])
        # With the largest r answers above zero, each gives up excess / r; they are the right ones while the least of
        # them stays above zero. That holds up to some r and for none beyond.
        excess = running[1:] - running[firsts[sum_of]] - aims[sum_of]
        is_above = ranks * values > excess
        n_entries = np.bincount(sum_of[is_above], minlength=aims.size)
        excess_of_sum = np.zeros(aims.size, np.int64)
        is_any = n_entries > 0
        excess_of_sum[is_any] = excess[(firsts + n_entries - 1)[is_any]]
        sums_above = sum_of[is_above]
        floors = values[is_above] + -excess_of_sum[sums_above] // n_entries[sums_above]
        remainders = -excess_of_sum % np.maximum(n_entries, 1)
        return cls((len(answers), n_cells), places[is_above], sums_above, floors, n_entries, remainders)

    @property
    def real(self) -> Floats:
        """The nearest real children (child, cell)."""
        share: NDArray[np.float64] = self.remainders / np.maximum(self.n_entries, 1)
        out = np.zeros(self.shape[0] * self.shape[1])
        out[self.places] = self.floors + share[self.sum_of]
        return out.reshape(self.shape)

    def rounded(self, rng: RandomStream) -> Ints:
        """Return whole children (child, cell) of the same sums, by largest remainder.

        The remainders of a sum are alike, so which of them are rounded up is decided by lot.
        """
        lots = np.lexsort((rng.words(self.places.size), self.sum_of))  # entries of a sum stand together already
        firsts = np.cumsum(self.n_entries) - self.n_entries
        is_up = np.arange(lots.size) - firsts[self.sum_of] < self.remainders[self.sum_of]
        out = np.zeros(self.shape[0] * self.shape[1], np.int64)
        out[self.places] = self.floors
        out[self.places[lots[is_up]]] += 1
        return out.reshape(self.shape)


# What people do today with trees of areas: fit noisy answers from the top down, or release the leaves alone.


class TreeBaseline(Protocol):
    """Another way from confidential leaves to released tables, at the loss of a tree's plan."""

    @property
    def label(self) -> Label:
        """What is known of it."""

    def plan_of(self, hierarchy: Hierarchy, stated: Plan, leaves: Ints) -> Plan:
        """Return the plan that it releases by, at the loss of the tree's own; refuse what it cannot keep or certify.

        Parameters
        ----------
        hierarchy : Hierarchy
        stated : Plan
            That of the tree by its own method.
        leaves : array (leaf, cell)
            In the order of the tree.
        """

    def release(self, plan: Plan, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Return the tables of every level, around confidential leaves (leaf, cell) in the order of the tree."""


@dataclass(frozen=True)
class TopDownTree:
    """Noisy cells at every level, fitted from the top down, as the 2020 Census did.

    Every cell of every unit is measured with the noise of the plan, by itself, so that both spend the same. The top
    is fitted under its conditions and rounded by the TopDown node. Then the children of every unit: the nonnegative
    numbers nearest to their noisy answers that add up to what is released of the unit, rounded by largest remainder.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.randomness import replay_rng
    >>> from congenial.schema import Schema
    >>> tree = Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> hierarchy = Hierarchy(tree, Schema({"sex": ["f", "m"]}), invariants=[total()], rho="1")
    >>> blocks = np.array([[3, 4], [0, 1], [2, 2]])
    >>> plan = hierarchy.plan(hierarchy.disclose(blocks))
    >>> counties, leaves = TopDownTree().release(plan, blocks, replay_rng(1))
    >>> counties.sum(axis=1).tolist(), (counties[0] == leaves[0] + leaves[1]).tolist()
    ([8, 4], [True, True])
    """

    label = Label(
        "TopDown",
        "loss of the noise alone for trees that share the invariants' values; otherwise nothing is known",
        "not available; biased next to limits",
    )

    def plan_of(self, hierarchy: Hierarchy, stated: Plan, leaves: Ints) -> Plan:  # noqa: ARG002
        """Return the tree's own plan, whose noise it draws; it knows no numbers that are exact below the top."""
        return _cells_alone(_without_numbers_below(stated))

    def release(self, plan: Plan, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Measure every level, fit and round it given the level above."""
        law, tables = plan.law, plan.law.tree.summed(leaves)
        released = [_fitted_top(plan, tables[0], rng)]
        noises = discrete_noises(law.family, [level.noise.precision for level in plan.levels[1:]])
        for level, (noise, counts) in enumerate(zip(noises, tables[1:], strict=True), 1):
            families = Families(law.tree.families[level - 1].starts, law.zeros.of_level(level))
            measured = counts + noise.sample(counts.size, rng).astype(np.int64).reshape(counts.shape)
            released.append(SimplexFit.of(families, measured, released[-1]).rounded(rng))
        if not law.below.hold(released):
            raise BaselineError("internal: tables fitted from the top down do not add up; please report this tree")
        return tuple(released)


def _cells_alone(plan: Plan) -> Plan:
    if any(len(queries) > 1 for queries in plan.law.queries_of_levels):
        raise BaselineError("TopDown's stand-in measures cells alone, and this tree measures sums beside them")
    return plan


def _without_numbers_below(plan: Plan) -> Plan:
    if any(exact is not None for exact in plan.law.exact_below):
        raise BaselineError(
            "exact numbers below the top are kept by the conditional and the measured method alone; compare by these"
            " only, or without such numbers"
        )
    return plan


def _fitted_top(plan: Plan, tables: Ints, rng: RandomStream) -> Ints:
    law = plan.law
    out = np.empty_like(tables)
    for place, area in enumerate(plan.law.areas):
        problem = Problem(law.areas[area], law.measured)
        answers = np.array([query.row.value(tables[place].tolist()) for query in law.measured], np.float64)
        answers += [int(query.noise.sample(1, rng)[0]) for query in law.measured]
        out[place] = TopDown().repair(problem, answers)
    return out


@dataclass(frozen=True)
class LeavesAlone:
    """The leaves at the whole budget, nothing measured above them, and added up.

    Counts are not negative, and the number of records of each unit at the top is kept if it is published; other
    invariants are not.
    """

    label = Label(
        "leaves alone",
        "all trees that share the invariants' values",
        "known exactly: the conditional law",
        keeps_invariants=False,
    )

    def plan_of(self, hierarchy: Hierarchy, stated: Plan, leaves: Ints) -> Plan:  # noqa: ARG002
        """Return the tree's own plan, whose loss in rho they have; refuse a pure epsilon, for they are conditional."""
        if stated.spent.currency == "epsilon" and stated.spent.delta is None:
            raise BaselineError(
                "leaves alone are drawn given that counts are not negative, which in pure epsilon can double the loss;"
                " compare without them, or at a rho"
            )
        return _without_numbers_below(stated)

    def release(self, plan: Plan, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Draw all leaves under each unit at the top together, or each cell by itself."""
        tree, noise, counts = plan.law.tree, leaf_noise(plan), leaves.reshape(-1, 1)
        is_structural_zero = plan.law.zeros.masks[-1].reshape(-1, 1) if plan.law.zeros.masks else None
        if not plan.total_is_fixed:
            return tree.summed(_not_negative(noise, counts, is_structural_zero, rng).reshape(leaves.shape))
        families = Families(_leaves_of_tops(tree) * leaves.shape[1], is_structural_zero)
        totals = tree.summed(leaves)[0].sum(axis=1, keepdims=True)
        words = KeyedWords(rng.words(4).tobytes(), rng.words(2 * len(totals)).reshape(-1, 2))
        return tree.summed(Allocation(noise).draw(families, counts, totals, words).reshape(leaves.shape))


def leaf_noise(plan: Plan) -> DiscreteNoise:
    """Return the noise of leaves that alone cost what all levels cost."""
    family, certificate = plan.law.family, plan.certificate
    if certificate.rho is None:
        raise BaselineError("leaves alone are given the rho of a chain, and this one has none")
    is_fixed = plan.total_is_fixed
    precision = level_precision(
        family.exponent, certificate.rho, certificate.neighbours, certificate.k, total_is_fixed=is_fixed
    )
    (noise,) = discrete_noises(family, [min(precision, family.most)])
    return noise


def _leaves_of_tops(tree: Tree) -> Ints:
    """Return where the leaves of each unit at the top begin, and where the last ones end."""
    ends = tree.families[0].starts
    for families in tree.families[1:]:
        ends = families.starts[ends]
    return ends


def _not_negative(noise: DiscreteNoise, counts: Ints, is_structural_zero: Mask | None, rng: RandomStream) -> Ints:
    """Return counts with noise, each drawn again until it is not negative."""
    out = np.full_like(counts, -1)
    if is_structural_zero is not None:
        out[is_structural_zero] = 0
    while (places := np.flatnonzero(out < 0)).size:
        out[places, 0] = counts[places, 0] + noise.sample(places.size, rng)
    return out
