"""From what is requested to a plan: the precision and the zero weight of everything that is measured. Public."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from congenial.arrays import Ints
from congenial.conditions.areas_and_bounds import Area, Areas
from congenial.conditions.base import Condition, as_list
from congenial.conditions.constraints import Constraints
from congenial.conditions.limits_and_shares import structural_zeros
from congenial.conditions.queries import Cells, Margin, Query, Total, cells
from congenial.conditions.rows_and_intervals import Row
from congenial.errors import ConditionError, HierarchyError, PrivacyError, did_you_mean
from congenial.exact import positive_fraction
from congenial.law import MeasuredQuery, PublicLaw, measured_rows
from congenial.measured_tree_facts import tree_to_certify
from congenial.noise import FAMILIES
from congenial.plan import Plan
from congenial.privacy import check_relation
from congenial.privacy.budget import Budget
from congenial.privacy.calibrate import precisions_of
from congenial.privacy.certificate_inputs import CONDITIONAL, MEASURED, METHODS, USUAL_METHOD_OF_TREES
from congenial.privacy.compose_and_price_areas import Pricing
from congenial.privacy.measured_tree import MeasuredTree, level_precisions
from congenial.privacy.tree_loss import (
    checked_shares,
    default_shares,
    fewest_records,
    level_precision,
    refuse_pure,
    total_rho,
)
from congenial.privacy.weighted_zeros.calibrate import clamped_zero_weight, is_open_above, weighted_cells
from congenial.rules.registry import TreeRule, rule_named
from congenial.schema import Schema
from congenial.tree.areas_across import AreasAcross
from congenial.tree.drawing import Subtree, discrete_noises
from congenial.tree.exact_sums import TreeInvariants, exact_rows, exact_sums, with_conditions_below
from congenial.tree.tree_and_zeros import Mask, Tree, TreeTables, Zeros, check_leaves

USUAL_RULE, USUAL_RULE_OF_TREES, USUAL_RULE_OF_MARGINS = "nearest", "gls", "margins"
"""How a measured release decides its tables, unless another rule is named: of trees, by what their levels measure."""


def usual_noise_of_trees(method: str, *, is_pure: bool) -> str:
    """Return the noise of a tree's levels unless another one is named, given whether the budget is a pure epsilon."""
    return "double_geometric" if method == MEASURED and is_pure else "discrete_gaussian"


def rule_in_use(method: object, rule: object, usual: str) -> tuple[str, int] | None:
    """Return the rule of a method with the version in use; None of a conditional release.

    Parameters
    ----------
    rule : str, (str, int) or None
        The usual one if not given.
    """
    if method not in METHODS:
        raise ConditionError(f"method {method!r} is not known; {did_you_mean(str(method), METHODS)}")
    if method == CONDITIONAL:
        if rule is not None:
            raise ConditionError(
                f'rule {rule!r} is for method="measured": a conditional release draws its tables, and decides nothing'
            )
        return None
    named = rule_named(*rule) if isinstance(rule, tuple) else rule_named(usual if rule is None else str(rule))
    is_for_trees = isinstance(named, TreeRule)
    if is_for_trees != (usual in {USUAL_RULE_OF_TREES, USUAL_RULE_OF_MARGINS}):
        which = "trees of areas" if is_for_trees else "one table and areas"
        raise ConditionError(f"the rule {named.name!r} is for {which}; the rule here is {usual!r}")
    return named.name, named.version


def measure_of_tree(method: str, queries: Iterable[Query]) -> list[Query]:
    """Return what is measured of every unit of a tree, if a tree can have that."""
    chosen = list(queries)
    if method == CONDITIONAL and chosen != [cells()]:
        raise HierarchyError(
            "a conditional tree measures every cell at every level, and nothing else: leave out what is measured, or"
            " write method: measured"
        )
    if not has_cells(chosen) and not all(_is_whole_margin(query) for query in chosen):
        raise HierarchyError(
            "a tree measures every cell with other sums beside them, or whole margins alone: add cells to what is"
            " measured, or leave out what is of some cells only"
        )
    for query in chosen:
        if query.precision is not None:
            raise HierarchyError(
                f"{query.text} has a precision, and levels of a tree have theirs from the budget: give it a portion"
            )
        if isinstance(query, Cells) and query.zeros is not None:
            raise HierarchyError("measurements have no limits, and so no weights of zeros; leave out zeros")
    if len({query.portion is None for query in chosen}) > 1:
        raise HierarchyError("some measured queries have a portion and others have none; give all of them one, or none")
    return chosen


def has_cells(queries: Iterable[Query]) -> bool:
    """Whether every cell is measured by itself."""
    return any(isinstance(query, Cells) and query.where is None for query in queries)


def _is_whole_margin(query: Query) -> bool:
    return isinstance(query, Margin | Total) and query.where is None


def usual_rule_of_tree(queries: Iterable[Query]) -> str:
    """Return the rule of a tree unless another one is named, by what is measured of its units."""
    return USUAL_RULE_OF_TREES if has_cells(queries) else USUAL_RULE_OF_MARGINS


@dataclass(frozen=True)
class BudgetRequest:
    """What is requested of one table or of areas, whatever these are.

    Attributes
    ----------
    queries : tuple of Query
        What is measured, each with its precision or its portion of the budget.
    """

    schema: Schema
    noise: str
    queries: tuple[Query, ...]
    budget: Budget | None
    neighbours: str
    rows_per_unit: int = 1
    method: str = CONDITIONAL
    rule: tuple[str, int] | None = None

    def plan(self, areas: Areas) -> Plan:
        """Return the plan of a release for these areas: the largest precisions that the budget certifies."""
        return self._weighted(areas) or self._plain(areas)

    def likely_law(self, areas: Areas) -> PublicLaw:
        """Return about the law of the plan, to compare choices; where zeros are weighted, without a proof."""
        is_pure = self._chooses_zero_weights and self.budget is not None and self.budget.delta is None
        epsilon = None if self.budget is None else self.budget.epsilon
        law = self._by_class(areas, epsilon, is_likely=True) if is_pure and epsilon else None
        return self.plan(areas).law if law is None else law

    @property
    def _chooses_zero_weights(self) -> bool:
        """Whether zero weights are for the budget to choose: every cell is measured once, without a precision."""
        query, budget = self.queries[0], self.budget
        is_open = len(self.queries) == 1 and isinstance(query, Cells) and (query.precision, query.zeros) == (None, None)
        if not is_open or query.where is not None or budget is None or budget.is_nothing or self.method == MEASURED:
            return False  # measurements have no lower limits
        return FAMILIES[self.noise].exponent == 1

    def _pricing(self, areas: Areas, classes: Sequence[Sequence[Row]]) -> Pricing:
        rows = tuple(map(tuple, classes))
        return Pricing(areas, rows, self.noise, self.neighbours, self.rows_per_unit, self.method)

    def _plain(self, areas: Areas) -> Plan:
        """Return the plan whose zero weights are those that were given, or 1."""
        classes = [tuple(query.rows(self.schema)) for query in self.queries]
        pricing = self._pricing(areas, classes)
        precisions = precisions_of(pricing, self._measured(pricing), self.budget)
        queries = tuple(
            MeasuredQuery(query.title, precision, rows, (isinstance(query, Cells) and query.zeros) or Fraction(1))
            for query, precision, rows in zip(self.queries, precisions, classes, strict=True)
        )
        law = PublicLaw(self.schema, self.noise, queries, areas, method=self.method, rule=self.rule)
        return Plan(law, pricing, self.budget, self.queries)

    def _measured(self, pricing: Pricing) -> tuple[Query, ...]:
        """Return the queries, those of a measured release that the exact numbers determine at precision 0.

        Measuring them would tell nothing, and cost the others budget.
        """
        if self.method != MEASURED or self.budget is None:
            return self.queries
        determined = set(pricing.determined)
        if len(determined) == len(self.queries):  # one table is left: it costs nothing, and nothing has to be saved
            return self.queries
        return tuple(
            replace(query, precision=Fraction(0), portion=None) if number in determined else query
            for number, query in enumerate(self.queries)
        )

    def _weighted(self, areas: Areas) -> Plan | None:
        """Return the plan with zero weights of the budget's choice; None where there are none, or none are covered."""
        budget = self.budget
        if budget is None or not self._chooses_zero_weights:
            return None
        law = self._clamped(areas) if budget.delta is not None else self._by_class(areas, budget.epsilon)
        if law is None:
            return None
        pricing = self._pricing(areas, law.classes)
        plain = pricing.one_record_without_invariants(law.precisions)
        is_covered = budget.covers_plain(plain, currency=law.family.currency)
        plan = Plan(law, pricing, self.budget, self.queries)
        return plan if is_covered and budget.covers(plan.certificate) else None

    def _by_class(self, areas: Areas, epsilon: Fraction | None, *, is_likely: bool = False) -> PublicLaw | None:
        """Return the law for a budget in pure epsilon: each class of cells as precise as its theorem allows."""
        if epsilon is None:
            return self._clamped(areas)
        parts = weighted_cells(areas, self.neighbours, epsilon / self.rows_per_unit, is_likely=is_likely)
        if parts is None:
            return None
        rows = self.queries[0].rows(self.schema)
        queries = tuple(
            MeasuredQuery(part.text, part.precision, tuple(rows[cell] for cell in part.cells), part.zero_weight)
            for part in parts
        )
        return PublicLaw(self.schema, self.noise, queries, areas)

    def _clamped(self, areas: Areas) -> PublicLaw | None:
        """Return the law for a budget in rho, where every zero weight costs the same: noise clamped at lower limits."""
        (query,) = self._plain(areas).law.queries
        patterns = [group.pattern for group in areas.groups]
        if not all(is_open_above(pattern, cell) for pattern in patterns for cell in range(self.schema.n_cells)):
            return None
        zero_weight = clamped_zero_weight(query.precision)
        return PublicLaw(
            self.schema, self.noise, (MeasuredQuery(query.text, query.precision, query.rows, zero_weight),), areas
        )


class TreeRequest:
    """What is requested of a tree of areas: the same measured at every level. Public: it has seen no table.

    Parameters
    ----------
    tree : Tree
    schema : Schema
        The cells of a table; each record is counted in one cell of one leaf.
    invariants : iterable of conditions, or mapping from level to such
        What the units at the top obey exactly; or those of each level that is named. Below the top they are sums of
        cells, one inside the other or apart, and what is exact in a level is exact in all levels above it.
    rho, epsilon, delta : exact numbers
        The budget: rho, or epsilon with a delta.
    shares : mapping from level to an exact number, optional
        What each level gets of the budget, in any unit; 0.3 for the lowest and equal parts of the rest if not given.
    measure : iterable of queries, optional
        What is measured of every unit of every level: cells, and of a measured tree sums beside them, or whole margins
        and no cells, each with a portion of the level's share. Every cell if not given.
    precisions : mapping from level to an exact number, optional
        In place of a budget, the precision of each level's cells, where nothing else is measured.
    across : AreasAcross, optional
        Areas that cross the tree, such as places or districts: the same is measured of them as of the levels.
    noise : str, optional
        ``discrete_gaussian`` or ``double_geometric``; the former if not given, but for a pure epsilon.
    zeros : Zeros
        What is zero by structure.
    method : str
        ``"measured"``, if not given: every level is measured, and a public rule decides tables that add up.
        ``"conditional"``: a chain, each level drawn given the one above.
    rule : str, optional
        Of a measured release, the rule; ``"gls"`` if not given, and ``"margins"`` where cells are not measured.

    Examples
    --------
    >>> from congenial.conditions.queries import total
    >>> from congenial.randomness import replay_rng
    >>> tree = Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> request = TreeRequest(tree, Schema({"sex": ["f", "m"]}), invariants=[total()], rho="1")
    >>> blocks = np.array([[3, 4], [0, 1], [2, 2]])  # confidential
    >>> plan = request.plan(request.disclose(blocks))
    >>> plan.certificate.kind, float(plan.certificate.rho)
    ('measured_tree_gaussian', 1.0)
    >>> counties, leaves = plan.draw_tables(blocks, replay_rng(1))
    >>> counties.sum(axis=1).tolist(), (counties[0] == leaves[0] + leaves[1]).tolist()
    ([8, 4], [True, True])
    """

    def __init__(
        self,
        tree: Tree,
        schema: Schema,
        *,
        invariants: Iterable[Condition] | Mapping[str, Iterable[Condition]] = (),
        rho: object = None,
        epsilon: object = None,
        delta: object = None,
        shares: Mapping[str, object] | None = None,
        measure: Iterable[Query] | None = None,
        precisions: Mapping[str, object] | None = None,
        across: AreasAcross | None = None,
        noise: str | None = None,
        neighbours: str = "bounded",
        zeros: Zeros | None = None,
        method: str = USUAL_METHOD_OF_TREES,
        rule: str | tuple[str, int] | None = None,
    ) -> None:
        check_relation(neighbours)
        self.queries = tuple(measure_of_tree(method, (cells(),) if measure is None else measure))
        self.method, self.rule = method, rule_in_use(method, rule, usual_rule_of_tree(self.queries))
        if noise is None:
            is_pure = epsilon is not None and delta is None and rho is None
            noise = usual_noise_of_trees(method, is_pure=is_pure)
        if noise not in FAMILIES or not FAMILIES[noise].is_for_release:
            names = [name for name, family in FAMILIES.items() if family.is_for_release]
            raise HierarchyError(f"noise of a tree is one of {', '.join(names)}, not {noise!r}")
        self.tree, self.schema, self.noise, self.neighbours = tree, schema, noise, neighbours
        by_level = dict(invariants) if isinstance(invariants, Mapping) else {tree.levels[0]: invariants}
        for level in by_level:
            tree.level_of(level)
        self.invariants_below = {
            level: as_list(by_level[level], f"invariants of {level}") for level in tree.levels[1:] if level in by_level
        }
        self.exact_rows = exact_rows(tree.levels[1:], schema, self.invariants_below)
        self.invariants = with_conditions_below(
            as_list(by_level.get(tree.levels[0], ()), "invariants"), schema, self.invariants_below
        )
        self.zeros = zeros or Zeros()
        for level, rows in enumerate(self.exact_rows):
            if rows is not None and method == CONDITIONAL:
                rows.check(int(tree.families[level].sizes.max()), self.zeros.of_level(level + 1))
                if noise != "discrete_gaussian":
                    raise HierarchyError(
                        f"{rows.names} exact in every {rows.level} can be drawn under discrete Gaussian noise only, not"
                        f' {noise}; write noise="discrete_gaussian"'
                    )
            elif rows is not None:
                rows.check_decided()
        if epsilon is not None and delta is None and rho is None and method == CONDITIONAL:
            refuse_pure(Budget(epsilon=positive_fraction(epsilon, "epsilon")))
        self.budget = Budget.of(rho=rho, epsilon=epsilon, delta=delta, noise=noise)
        if (self.budget is None) == (precisions is None):
            raise PrivacyError('a tree has a budget, rho="1/2", or the precisions of its levels, and not both')
        if self.budget is not None and self.budget.is_nothing:
            raise PrivacyError("a budget of 0 leaves nothing to release of a tree")
        if precisions is not None and self.queries != (cells(),):
            raise PrivacyError("precisions of levels are those of cells: give a budget where sums are measured as well")
        self.precisions = None if precisions is None else self._by_level(precisions, "precision")
        self.across = across
        if across is not None and (method == CONDITIONAL or self.precisions is not None):
            raise HierarchyError(
                f"each {across.name} crosses the tree: only a measured tree with a budget can measure it as well"
            )
        if across is not None and not has_cells(self.queries):
            raise HierarchyError(
                f"each {across.name} crosses the tree, and is estimated from measured cells: add cells to what is"
                " measured, or leave out the areas across"
            )
        if across is not None and len(across.area_of_leaf) != tree.n_leaves:
            raise HierarchyError(
                f"the tree has {tree.n_leaves:,} leaves, and {len(across.area_of_leaf):,} are said to have a"
                f" {across.name} or none"
            )
        self.shares = default_shares(len(tree.levels))
        if shares is not None:
            self.shares = checked_shares(self._by_level(shares, "share"), len(tree.levels))

    def _by_level(self, values: Mapping[str, object], what: str) -> tuple[Fraction, ...]:
        for name in values:
            self.tree.level_of(name)
        if missing := [name for name in self.tree.levels if name not in values]:
            raise PrivacyError(f"every level has a {what}, and {missing[0]} has none")
        return tuple(positive_fraction(values[name], f"the {what} of {name}") for name in self.tree.levels)

    def counts_of(self, leaves: ArrayLike) -> Ints:
        """Check confidential tables of leaves (leaf, cell) as they were listed; return them in the tree's order."""
        counts = self.tree.in_order(np.asarray(leaves))
        check_leaves(self.tree, self.schema.n_cells, self.zeros, counts)
        return counts.astype(np.int64, copy=False)

    def disclose(self, leaves: ArrayLike) -> TreeInvariants:
        """Return what the units obey, with their values: public from here on.

        Parameters
        ----------
        leaves : array (leaf, cell)
            Confidential, in the order of the tree.
        """
        return self.disclosed_of(self.tree.summed(np.asarray(leaves, np.int64)))

    def disclosed_of(self, tables: TreeTables) -> TreeInvariants:
        """Return the same from the confidential tables of every level (unit, cell)."""
        return TreeInvariants(self.areas_of(tables[0]), exact_sums(self.exact_rows, tables[1:]))

    def areas_of(self, tables: Ints) -> Areas:
        """Return the same from the tables of the units at the top (unit, cell), confidential or released."""
        codes, level = self.tree.texts(0), self.tree.levels[0]
        mask = self.zeros.of_level(0)
        zeros = [[]] * len(codes) if mask is None else [self._zeros(is_zero) for is_zero in mask]
        if len(codes) > 1 and (mask is None or bool((mask == mask[0]).all())):
            return Areas.of_counts(self.schema, [*self.invariants, *zeros[0]], codes, tables, name=level)
        constraints: dict[Area, Constraints] = {}
        for code, counts, of_unit in zip(codes, tables, zeros, strict=True):
            conditions = [*self.invariants, *of_unit]
            constraints[code if len(codes) > 1 else None] = Constraints.of(self.schema, conditions, counts.tolist())
        return Areas.collected(level if len(codes) > 1 else None, constraints)

    def _zeros(self, is_zero: Mask) -> list[Condition]:
        return [structural_zeros(self.schema.labels_of(int(cell))) for cell in np.flatnonzero(is_zero)]

    def plan(self, disclosed: TreeInvariants) -> Plan:
        """Return law and certificate: each level as precise as its share of the budget allows."""
        if self.method == MEASURED:
            return self._measured_plan(disclosed)
        areas = disclosed.top
        if self.precisions is not None or self.budget is None:
            first = self._first_level(areas, None)
            precisions = (self.precisions or ())[1:]
        else:
            first, precisions = self._calibrated(areas, total_rho(self.budget))
        noises = discrete_noises(FAMILIES[self.noise], precisions)
        law = replace(first.law, tree_below=Subtree(self.tree, noises, self.zeros, disclosed.below))
        shares = None if self.precisions is not None else self.shares
        return replace(first, law=law, budget=self.budget, shares=shares, invariants_below=self.invariants_below)

    def _measured_plan(self, disclosed: TreeInvariants) -> Plan:
        """Return the same where every level is measured: its certificate adds up over levels, in any currency."""
        queries, n_levels = self.queries, len(self.tree.levels)
        if self.precisions is not None:
            queries = (cells(precision=self.precisions[0]),)
        rows = measured_rows(self.schema, queries, self.noise)

        def of_level(precisions: Sequence[Fraction]) -> tuple[MeasuredQuery, ...]:
            facts = zip(queries, precisions, rows, strict=True)
            return tuple(MeasuredQuery(query.title, precision, its_rows) for query, precision, its_rows in facts)

        unmeasured = of_level([Fraction(0)] * len(queries))
        subtree = Subtree(self.tree, (), self.zeros, disclosed.below)
        law = PublicLaw(
            *(self.schema, self.noise, unmeasured, disclosed.top, subtree),
            *(self.method, self.rule, (unmeasured,) * (n_levels - 1)),
            *(self.across, () if self.across is None else unmeasured),
        )
        precisions: Sequence[tuple[Fraction, ...]] = [(precision,) for precision in self.precisions or ()]
        if self.budget is not None:
            precisions = self.precisions_of(self.budget, *tree_to_certify(law, self.neighbours))
        first, *below = map(of_level, precisions)
        across = () if self.across is None else below.pop()
        law = replace(law, queries=first, queries_below=tuple(below), queries_across=across)
        pricing = Pricing(law.areas, law.classes, self.noise, self.neighbours, 1, self.method)
        shares = None if self.precisions is not None else self._shares_of_all()[:n_levels]
        return Plan(law, pricing, self.budget, queries, shares, self.invariants_below)

    def precisions_of(self, budget: Budget, tree: MeasuredTree, k: int) -> tuple[tuple[Fraction, ...], ...]:
        """Return the precisions of a measured tree for a budget, by level and query; last those of areas across.

        Levels of which the exact numbers determine every cell, the first ones, leave their share to the others. Their
        noise is conditioned on every cell, so there is none, whatever their precisions: they take those of the first
        level that is not determined.

        Parameters
        ----------
        tree, k
            As `tree_to_certify` returns them, which refuses trees whose leaves are all determined.
        """
        portions = [[query.portion or 1 for query in self.queries]] * len(tree.measured)
        precisions = level_precisions(tree, budget, self._shares_of_all(), portions, k=k)
        first = next(number for number, idle in enumerate(tree.determined) if not all(idle))
        return (precisions[first],) * first + precisions[first:]

    def _shares_of_all(self) -> tuple[Fraction, ...]:
        """Return the share of the budget of each level, and of areas across the tree, which add up to 1."""
        if self.across is None:
            return self.shares
        return (*((1 - self.across.portion) * share for share in self.shares), self.across.portion)

    def _calibrated(self, areas: Areas, total: Fraction) -> tuple[Plan, tuple[Fraction, ...]]:
        """Return the first level at its share, and the precisions below it: they get what the first has left."""
        family = FAMILIES[self.noise]
        first = self._first_level(areas, Budget(rho=self.shares[0] * total))
        certificate, is_fixed = first.certificate, first.total_is_fixed
        remaining = (total - (certificate.rho or Fraction(0))) / sum(self.shares[1:])
        k = fewest_records(certificate, total_is_fixed=is_fixed)
        precisions = (
            level_precision(family.exponent, share * remaining, self.neighbours, k, total_is_fixed=is_fixed)
            for share in self.shares[1:]
        )
        return first, tuple(min(precision, family.most) for precision in precisions)

    def _first_level(self, areas: Areas, budget: Budget | None) -> Plan:
        precision = None if self.precisions is None else self.precisions[0]
        queries = (cells(precision=precision),)
        return BudgetRequest(self.schema, self.noise, queries, budget, self.neighbours).plan(areas)
