"""A mechanism by either method at one certified loss, and what a comparison releases by it again and again."""

from dataclasses import replace

import numpy as np

from congenial.arrays import Ints
from congenial.conditions.queries import Cells
from congenial.decided_tables import cell_columns
from congenial.errors import StudyError
from congenial.law import Law
from congenial.measurement import MeasurementDrawing
from congenial.mechanism_and_hierarchy import Mechanism
from congenial.plan import Plan
from congenial.privacy.budget import Budget
from congenial.privacy.certificate import Certificate
from congenial.privacy.certificate_inputs import CONDITIONAL, MEASURED
from congenial.randomness import RandomStream
from congenial.table import Table

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
