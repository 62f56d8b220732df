"""A mechanism or a tree by either method at one certified loss, and what a comparison releases again and again."""

from dataclasses import dataclass, replace

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.queries import Cells
from congenial.decided_tables import cell_columns
from congenial.errors import StudyError
from congenial.law import Law
from congenial.measurement import MeasurementDrawing
from congenial.mechanism_and_hierarchy import Hierarchy, Mechanism
from congenial.plan import Plan
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import Certificate
from congenial.privacy.certificate_inputs import CONDITIONAL, MEASURED
from congenial.randomness import RandomStream
from congenial.study.baselines.base_and_least_squares import Label
from congenial.study.baselines.topdown_and_leaves_alone import LeavesAlone, TopDownTree, TreeBaseline
from congenial.table import Table
from congenial.tree.tree_and_zeros import TreeTables

MEASUREMENTS = "measurements"
"""What a measured release publishes before a rule decides: compared as a method of its own."""


def by_method(mechanism: Mechanism, certificate: Certificate, method: str) -> Mechanism:
    """Return the same mechanism by another method, at the loss that is certified for it as it stands.

    Lower limits have weights under the conditional method alone: the measured one leaves them out.

    Examples
    --------
    >>> from congenial.examples import p12_mechanism, p12_table
    >>> conditional = p12_mechanism("1/2")
    >>> constraints = conditional.disclose(p12_table())
    >>> measured = by_method(conditional, conditional.certificate(constraints), "measured")
    >>> measured.certificate(measured.disclose(p12_table())).loss == conditional.certificate(constraints).loss
    True
    """
    if mechanism.method == method:
        return mechanism
    queries, budget = list(mechanism.queries), mechanism.budget
    if budget is None:
        queries = [replace(query, precision=None, portion=query.precision or None) for query in queries]
        pure = certificate.loss is not None
        budget = Budget(epsilon=certificate.loss, rho=None if pure else certificate.rho, orders=certificate.orders)
    if method == MEASURED:
        queries = [replace(query, zeros=None) if isinstance(query, Cells) else query for query in queries]
    return Mechanism(
        mechanism.schema,
        measure=queries,
        invariants=mechanism.invariants,
        noise=mechanism.noise,
        epsilon=budget.epsilon,
        delta=budget.delta,
        rho=budget.rho,
        neighbours=mechanism.neighbours,
        orders=budget.orders if budget.rho is not None else "integer",
        rows_per_unit=mechanism.rows_per_unit,
        method=method,
    )


def plan_by_method(mechanism: Mechanism, plan: Plan, table: Table, method: str) -> Plan:
    """Return the plan of a table by a method, at the loss of the mechanism's own plan."""
    if mechanism.method == method:
        return plan
    other = by_method(mechanism, plan.certificate, method)
    return other.plan(other.disclose(table))


def releases_by_method(plan: Plan, table: Table, method: str, n: int, rng: RandomStream) -> Ints:
    """Return the tables of some releases by a method of this project (release, cell), or the measurements of cells."""
    if method == CONDITIONAL:
        return Law(plan.law, table.counts).sample(n, rng)
    copies = np.tile(table.counts, (n, 1))
    if method == MEASURED:
        return plan.samplers[0].draw_each(copies, rng)
    columns = cell_columns(plan.law)
    if columns is None or not isinstance(plan.drawing, MeasurementDrawing):
        raise StudyError("measurements are compared cell by cell: measure cells(), all of them")
    return plan.drawing.draw(np.zeros(n, np.int64), copies, rng)[:, columns]


def release_once(plan: Plan, table: Table, rng: RandomStream) -> None:
    """Release a table once, as far as a table that could be published."""
    drawn = plan.draw(table.counts[None, :], rng)
    if plan.law.is_measured:
        plan.decide(drawn)


# The same of trees: every level at its share of the budget.


def hierarchy_by_method(hierarchy: Hierarchy, certificate: Certificate, method: str) -> Hierarchy:
    """Return the same tree by another method, at the same budget and shares, or at what its precisions cost.

    Examples
    --------
    >>> import congenial as cg
    >>> tree = cg.Tree.of_prefixes(["1a", "1b", "2a"], {"county": 1}, "block")
    >>> schema = cg.Schema({"sex": ["f", "m"]})
    >>> chain = Hierarchy(tree, schema, invariants=[cg.total()], rho="1", method="conditional")
    >>> plan = chain.plan(chain.disclose([[3, 4], [0, 1], [2, 2]]))
    >>> measured = hierarchy_by_method(chain, plan.certificate, "measured")
    >>> measured.plan(measured.disclose([[3, 4], [0, 1], [2, 2]])).certificate.rho == plan.certificate.rho
    True
    """
    if hierarchy.method == method:
        return hierarchy
    budget, shares = hierarchy.budget, hierarchy.shares
    if budget is None:
        pure = certificate.loss is not None
        budget = Budget(epsilon=certificate.loss, rho=None if pure else certificate.rho)
        shares = hierarchy.precisions or ()
    names = hierarchy.tree.levels
    return Hierarchy(
        hierarchy.tree,
        hierarchy.schema,
        invariants={names[0]: hierarchy.invariants, **hierarchy.invariants_below},
        rho=budget.rho,
        epsilon=budget.epsilon,
        delta=budget.delta,
        shares=dict(zip(names, shares, strict=True)),
        noise=hierarchy.noise,
        neighbours=hierarchy.neighbours,
        zeros=hierarchy.zeros,
        method=method,
    )


@dataclass(frozen=True)
class TreeByMethod:
    """The tables of a tree by a method of this project, as a method among others.

    Attributes
    ----------
    method : str
        That of the plan it is drawn by.
    """

    method: str
    label: Label

    def plan_of(self, hierarchy: Hierarchy, stated: Plan, leaves: Ints) -> Plan:
        """Return the tree's plan by this method."""
        if self.method == hierarchy.method:
            return stated
        other = hierarchy_by_method(hierarchy, stated.certificate, self.method)
        return other.plan(other.disclose(leaves))

    def release(self, plan: Plan, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Draw all levels, and decide the tables of a measured release."""
        return plan.draw_tables(leaves, rng)


class MeasurementsOfTree(TreeByMethod):
    """What a measured release publishes of every cell before its rule decides."""

    def release(self, plan: Plan, leaves: Ints, rng: RandomStream) -> TreeTables:
        """Measure all levels; they do not add up."""
        out = []
        for level, drawn in zip(plan.law.each_level, plan.draw(leaves, rng), strict=True):
            columns = cell_columns(level)
            if columns is None:
                raise StudyError("measurements are compared cell by cell: measure cells(), all of them, at every level")
            out.append(drawn[:, columns])
        return tuple(out)


_SHARED = "all trees that share the invariants' values"
TREE_METHODS: dict[str, TreeBaseline] = {
    CONDITIONAL: TreeByMethod(
        CONDITIONAL, Label(CONDITIONAL, _SHARED, "known exactly: conditional laws, level by level")
    ),
    MEASURED: TreeByMethod(
        MEASURED, Label(MEASURED, _SHARED, "that of the measurements it is decided from, known exactly")
    ),
    MEASUREMENTS: MeasurementsOfTree(
        MEASURED,
        Label(MEASUREMENTS, _SHARED, "known exactly, and the same for every tree", keeps_invariants=False),
    ),
    "topdown": TopDownTree(),
    "leaves": LeavesAlone(),
}
DEFAULT_TREE_METHODS = (CONDITIONAL, MEASURED, "topdown", "leaves")
